//! The cluster as a side of a copy.

use braid_client::{Client, File, OpenOptions};
use braid_types::Status;
use braid_wire::message::{
    FileKind,
    mds::{AttributeChanges, SetTime},
    types::{Attributes, LayoutHint},
};

use crate::{
    output::Fault,
    transfer::copy_side::{CopySide, EntryAttributes, EntryKind, Sink, Source},
};

/// The cluster; new files get the layout hint `wish`.
pub struct Remote {
    client: Client,
    wish: LayoutHint,
}

impl Remote {
    /// The cluster of `client`.
    pub fn new(client: Client, wish: LayoutHint) -> Self {
        Self { client, wish }
    }

    /// Removes an older entry, if there is one.
    fn replace(&self, path: &[u8]) -> Result<(), Fault> {
        match self.client.unlink(path) {
            Err(e) if e.status() != Status::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    }
}

impl CopySide for Remote {
    const LIST_COMMAND: &'static str = "braid ls -l";

    fn attributes(&self, path: &[u8]) -> Result<Option<EntryAttributes>, Fault> {
        match self.client.lstat(path) {
            Ok(found) => Ok(Some(meta_of(&found))),
            Err(e) if e.status() == Status::NotFound => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    fn is_directory(&self, path: &[u8]) -> Result<bool, Fault> {
        match self.client.stat(path) {
            Ok(found) => Ok(found.kind == FileKind::Directory),
            Err(e) if e.status() == Status::NotFound => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
        let listing = self.client.read_dir(path, false)?;
        listing.map(|entry| entry.map(|entry| entry.name).map_err(Fault::from)).collect()
    }

    fn open(&self, path: &[u8]) -> Result<Box<dyn Source>, Fault> {
        Ok(Box::new(RemoteFile(self.client.open(path, &OpenOptions::new().read(true))?)))
    }

    fn create(&self, path: &[u8], mode: u32, keep: bool) -> Result<(Box<dyn Sink>, bool), Fault> {
        let options = OpenOptions::new().write(true).mode(mode).layout(self.wish.clone());
        let (file, made) = match self.client.open(path, &options.clone().create_new(true)) {
            Err(e) if e.status() == Status::Exists => {
                (self.client.open(path, &options.create(true).truncate(!keep))?, false)
            }
            opened => (opened?, true),
        };
        Ok((Box::new(RemoteFile(file)), made))
    }

    fn remove(&self, path: &[u8]) -> Result<(), Fault> {
        Ok(self.client.unlink(path)?)
    }

    fn make_directory(&self, path: &[u8]) -> Result<(), Fault> {
        match self.client.mkdir(path, 0o755) {
            Err(e) if e.status() == Status::Exists && self.is_directory(path)? => Ok(()),
            outcome => Ok(outcome.map(|_| ())?),
        }
    }

    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Fault> {
        Ok(self.client.read_link(path)?)
    }

    fn symlink(&self, target: &[u8], path: &[u8]) -> Result<(), Fault> {
        self.replace(path)?;
        Ok(self.client.symlink(path, target).map(|_| ())?)
    }

    fn hard_link(&self, existing: &[u8], path: &[u8]) -> Result<(), Fault> {
        self.replace(path)?;
        Ok(self.client.hard_link(existing, path).map(|_| ())?)
    }

    fn set_attributes(
        &self,
        path: &[u8],
        meta: &EntryAttributes,
        owner: bool,
    ) -> Result<(), Fault> {
        let changes = AttributeChanges {
            mode: (meta.kind != EntryKind::Symlink).then_some(meta.mode & 0o7777),
            uid: owner.then_some(meta.owner.0),
            gid: owner.then_some(meta.owner.1),
            atime: Some(SetTime { time: Some(meta.atime) }),
            mtime: Some(SetTime { time: Some(meta.mtime) }),
            ..AttributeChanges::none()
        };
        Ok(self.client.set_attributes(path, false, changes).map(|_| ())?)
    }

    fn same_file(&self, a: &[u8], b: &[u8]) -> bool {
        let index = |path: &[u8]| self.client.stat(path).ok().map(|found| found.file);
        index(a).is_some_and(|file| index(b) == Some(file))
    }
}

fn meta_of(found: &Attributes) -> EntryAttributes {
    let kind = match found.kind {
        FileKind::File => EntryKind::File,
        FileKind::Directory => EntryKind::Directory,
        FileKind::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    };
    EntryAttributes {
        kind,
        bytes: found.bytes.0,
        bytes_used: found.bytes_used.0,
        mode: found.mode,
        owner: (found.uid, found.gid),
        atime: found.atime,
        mtime: found.mtime,
        link_id: (kind == EntryKind::File && found.links > 1).then_some((0, found.file.0)),
    }
}

struct RemoteFile(File);

impl Source for RemoteFile {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize, Fault> {
        Ok(self.0.read_at(buffer, offset)?)
    }
}

impl Sink for RemoteFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        write_all(&self.0, bytes, offset)
    }

    fn set_size(&mut self, bytes: u64) -> Result<(), Fault> {
        Ok(self.0.set_len(bytes).map(|_| ())?)
    }

    fn close(self: Box<Self>, sync: bool) -> Result<(), Fault> {
        if sync {
            self.0.sync()?;
        }
        Ok(self.0.close()?)
    }
}

/// Writes all of `bytes`, with as many calls as necessary.
fn write_all(file: &File, mut bytes: &[u8], mut offset: u64) -> Result<(), Fault> {
    while !bytes.is_empty() {
        let written = file.write_at(bytes, offset)?;
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}
