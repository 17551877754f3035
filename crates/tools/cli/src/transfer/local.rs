//! The local file system as a side of a copy.

use std::{
    ffi::OsStr,
    fs::{self, File, FileTimes, OpenOptions},
    io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink},
    },
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use braid_types::Timestamp;

use crate::{
    output::{Exit, Fault},
    transfer::side::{Kind, Meta, Side, Sink, Source, show},
};

/// The local file system.
pub struct Local;

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// An error about a local file.
fn fault(what: &str, at: &[u8], error: &io::Error) -> Fault {
    let exit = match error.kind() {
        io::ErrorKind::NotFound => Exit::NotFound,
        io::ErrorKind::PermissionDenied => Exit::Refused,
        io::ErrorKind::StorageFull => Exit::NoSpace,
        _ => Exit::Failed,
    };
    Fault::new(exit, format!("{what} {} here", show(at)), error.to_string())
}

impl Side for Local {
    const LIST: &'static str = "ls -l";

    fn meta(&self, at: &[u8]) -> Result<Option<Meta>, Fault> {
        match fs::symlink_metadata(path(at)) {
            Ok(found) => Ok(Some(meta_of(&found))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(fault("looking at", at, &e)),
        }
    }

    fn is_directory(&self, at: &[u8]) -> Result<bool, Fault> {
        Ok(path(at).is_dir())
    }

    fn names(&self, at: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
        let entries = fs::read_dir(path(at)).and_then(|dir| dir.map(|e| e.map(|e| e.file_name().into_vec())).collect());
        entries.map_err(|e| fault("listing", at, &e))
    }

    fn open(&self, at: &[u8]) -> Result<Box<dyn Source>, Fault> {
        let file = File::open(path(at)).map_err(|e| fault("opening", at, &e))?;
        Ok(Box::new(LocalFile { file, path: at.to_vec() }))
    }

    fn create(&self, at: &[u8], mode: u32, keep: bool) -> Result<Box<dyn Sink>, Fault> {
        let options = OpenOptions::new().write(true).create(true).truncate(!keep).mode(mode).open(path(at));
        let file = options.map_err(|e| fault("writing", at, &e))?;
        Ok(Box::new(LocalFile { file, path: at.to_vec() }))
    }

    fn make_directory(&self, at: &[u8]) -> Result<(), Fault> {
        match fs::create_dir(path(at)) {
            Err(_) if path(at).is_dir() => Ok(()),
            outcome => outcome.map_err(|e| fault("making directory", at, &e)),
        }
    }

    fn read_link(&self, at: &[u8]) -> Result<Vec<u8>, Fault> {
        let target = fs::read_link(path(at)).map_err(|e| fault("reading link", at, &e))?;
        Ok(target.into_os_string().into_vec())
    }

    fn symlink(&self, target: &[u8], at: &[u8]) -> Result<(), Fault> {
        replace(at)?;
        symlink(path(target), path(at)).map_err(|e| fault("making link", at, &e))
    }

    fn hard_link(&self, existing: &[u8], at: &[u8]) -> Result<(), Fault> {
        replace(at)?;
        fs::hard_link(path(existing), path(at)).map_err(|e| fault("making link", at, &e))
    }

    fn set_meta(&self, at: &[u8], meta: &Meta, owner: bool) -> Result<(), Fault> {
        let fail = |e: io::Error| fault("setting attributes of", at, &e);
        if owner {
            let id = |id: u64| u32::try_from(id).ok();
            lchown(path(at), id(meta.owner.0), id(meta.owner.1)).map_err(fail)?;
        }
        if meta.kind == Kind::Symlink {
            return Ok(());
        }
        fs::set_permissions(path(at), fs::Permissions::from_mode(meta.mode & 0o7777)).map_err(fail)?;
        let times = FileTimes::new().set_accessed(system_time(meta.atime)).set_modified(system_time(meta.mtime));
        File::open(path(at)).and_then(|file| file.set_times(times)).or_else(|e| {
            // A file that its own mode forbids to read keeps the time of the copy.
            if e.kind() == io::ErrorKind::PermissionDenied { Ok(()) } else { Err(fail(e)) }
        })
    }

    fn same_file(&self, _: &[u8], _: &[u8]) -> bool {
        false // the other side of a local path is always the cluster
    }
}

/// Removes an older file or link, never a directory.
fn replace(at: &[u8]) -> Result<(), Fault> {
    match fs::remove_file(path(at)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(fault("replacing", at, &e)),
        _ => Ok(()),
    }
}

fn meta_of(found: &fs::Metadata) -> Meta {
    let kind = match found.file_type() {
        t if t.is_file() => Kind::File,
        t if t.is_dir() => Kind::Directory,
        t if t.is_symlink() => Kind::Symlink,
        _ => Kind::Other,
    };
    Meta {
        kind,
        bytes: found.len(),
        bytes_used: found.blocks() * 512,
        mode: found.mode() & 0o7777,
        owner: (u64::from(found.uid()), u64::from(found.gid())),
        atime: Timestamp { seconds: found.atime(), nanos: found.atime_nsec() as u32 },
        mtime: Timestamp { seconds: found.mtime(), nanos: found.mtime_nsec() as u32 },
        link_id: (kind == Kind::File && found.nlink() > 1).then(|| (found.dev(), found.ino())),
    }
}

fn system_time(time: Timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.nanos));
    match u64::try_from(time.seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + nanos,
        Err(_) => UNIX_EPOCH - Duration::from_secs(time.seconds.unsigned_abs()) + nanos,
    }
}

struct LocalFile {
    file: File,
    path: Vec<u8>,
}

impl Source for LocalFile {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize, Fault> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(fault("reading", &self.path, &e)),
            }
        }
        Ok(filled)
    }
}

impl Sink for LocalFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        self.file.write_all_at(bytes, offset).map_err(|e| fault("writing", &self.path, &e))
    }

    fn set_size(&mut self, bytes: u64) -> Result<(), Fault> {
        self.file.set_len(bytes).map_err(|e| fault("writing", &self.path, &e))
    }

    fn close(self: Box<Self>, sync: bool) -> Result<(), Fault> {
        if sync { self.file.sync_all().map_err(|e| fault("syncing", &self.path, &e)) } else { Ok(()) }
    }
}
