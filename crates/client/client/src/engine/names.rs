//! Names: making, removing and moving them. Each is one call of the metadata server, executed once
//! (I7).

use braid_net::Driver;
use braid_types::{FileIndex, Status};
use braid_wire::message::{
    FileKind,
    entry::{DirectoryChange, EntryKind, LookUpFoldedReply, MakeEntryReply, RenameEntryReply},
    mds::{
        LookUpFolded, MakeDirectory, MakeEntry, MakeLink, MakeNode, MakeReply, MakeSymlink,
        ReadLink, RemoveDirectory, RemoveEntry, RemoveReply, Rename, RenameEntry, RenameMode,
        Unlink,
    },
    types::{Attributes, PathRef},
};

use super::{Caller, shown_path};
use crate::error::{Error, Result};

/// What [`crate::asynchronous::Client::make_entry`] makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewEntry<'a> {
    /// A directory.
    Directory {
        /// Permission bits; the umask of the caller is applied to them.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// What it points to.
        target: &'a [u8],
    },
    /// A named pipe, socket or device.
    Node {
        /// Its kind.
        kind: FileKind,
        /// Permission bits; the umask of the caller is applied to them.
        mode: u32,
        /// `major << 32 | minor` of a device; otherwise ignored.
        device: u64,
    },
    /// One more name of a file.
    Link {
        /// The file.
        file: FileIndex,
    },
}

fn node_kind(kind: FileKind, at: &PathRef) -> Result<EntryKind> {
    match kind {
        FileKind::Fifo => Ok(EntryKind::Fifo),
        FileKind::Socket => Ok(EntryKind::Socket),
        FileKind::CharDevice => Ok(EntryKind::CharDevice),
        FileKind::BlockDevice => Ok(EntryKind::BlockDevice),
        _ => {
            let error = Error::new(Status::Invalid, "only pipes, sockets and devices are nodes");
            Err(error.during("make", shown_path(at)))
        }
    }
}

impl<D: Driver> Caller<D> {
    /// Makes `what` under the name `at.path` of the directory `at.dir`.
    pub async fn make_entry(&self, at: &PathRef, what: &NewEntry<'_>) -> Result<MakeEntryReply> {
        let (dir, name, umask) = (at.dir, at.path.clone(), self.umask);
        let nothing = MakeEntry {
            dir,
            name,
            kind: EntryKind::Directory,
            mode: 0,
            umask,
            device: 0,
            target: Vec::new(),
            file: None,
        };
        let call = match *what {
            NewEntry::Directory { mode } => MakeEntry { mode, ..nothing },
            NewEntry::Symlink { target } => {
                MakeEntry { kind: EntryKind::Symlink, target: target.to_vec(), ..nothing }
            }
            NewEntry::Node { kind, mode, device } => {
                let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
                let device = if is_device { device } else { 0 };
                MakeEntry { kind: node_kind(kind, at)?, mode, device, ..nothing }
            }
            NewEntry::Link { file } => {
                MakeEntry { kind: EntryKind::Link, file: Some(file), ..nothing }
            }
        };
        self.once("make", at, call).send().await
    }

    /// The entry of the directory `at.dir` whose name equals `at.path` without regard to case.
    pub async fn look_up_folded(&self, at: &PathRef) -> Result<LookUpFoldedReply> {
        let call = LookUpFolded { dir: at.dir, name: at.path.clone() };
        self.repeatable("look up", at, call).send().await
    }

    /// Removes the name `at.path` of the directory `at.dir`, of a file or of an empty directory.
    pub async fn remove_entry(&self, at: &PathRef) -> Result<DirectoryChange> {
        let call = RemoveEntry { dir: at.dir, name: at.path.clone() };
        self.once("remove", at, call).send().await
    }

    /// Renames. Each path is one name of its directory.
    pub async fn rename_entry(
        &self,
        from: &PathRef,
        to: &PathRef,
        mode: RenameMode,
    ) -> Result<RenameEntryReply> {
        let call = RenameEntry {
            from_dir: from.dir,
            from_name: from.path.clone(),
            to_dir: to.dir,
            to_name: to.path.clone(),
            mode,
        };
        self.once("rename", from, call).send().await
    }

    /// Makes a directory.
    pub async fn mkdir(&self, at: &PathRef, mode: u32) -> Result<Attributes> {
        self.mkdir_with_parent(at, mode).await.map(|made| made.attributes)
    }

    /// Makes a directory. If this client holds leases, the reply also contains the attributes of
    /// the parent directory.
    pub async fn mkdir_with_parent(&self, at: &PathRef, mode: u32) -> Result<MakeReply> {
        self.once("mkdir", at, MakeDirectory { at: at.clone(), mode, umask: self.umask })
            .send()
            .await
    }

    /// Makes a pipe, socket or device.
    pub async fn mknod(
        &self,
        at: &PathRef,
        kind: FileKind,
        mode: u32,
        device: u64,
    ) -> Result<Attributes> {
        self.once("mknod", at, MakeNode { at: at.clone(), kind, mode, umask: self.umask, device })
            .send()
            .await
    }

    /// Makes a symbolic link to `target`.
    pub async fn symlink(&self, at: &PathRef, target: &[u8]) -> Result<Attributes> {
        self.once("symlink", at, MakeSymlink { at: at.clone(), target: target.to_vec() })
            .send()
            .await
    }

    /// The target of a symbolic link.
    pub async fn read_link(&self, at: &PathRef) -> Result<Vec<u8>> {
        self.repeatable("readlink", at, ReadLink { at: at.clone() }).send().await
    }

    /// Makes a hard link: gives the file `from` the additional name `to`.
    pub async fn hard_link(&self, from: &PathRef, to: &PathRef) -> Result<Attributes> {
        self.once("link", to, MakeLink { from: from.clone(), to: to.clone() }).send().await
    }

    /// Removes a name of anything but a directory.
    pub async fn unlink(&self, at: &PathRef) -> Result<()> {
        self.unlink_with_parent(at).await.map(drop)
    }

    /// As `unlink`. If this client holds leases, the reply also contains the attributes of the
    /// parent directory.
    pub async fn unlink_with_parent(&self, at: &PathRef) -> Result<RemoveReply> {
        self.once("unlink", at, Unlink { at: at.clone() }).send().await
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, at: &PathRef) -> Result<()> {
        self.rmdir_with_parent(at).await.map(drop)
    }

    /// As `rmdir`. If this client holds leases, the reply also contains the attributes of the
    /// parent directory.
    pub async fn rmdir_with_parent(&self, at: &PathRef) -> Result<RemoveReply> {
        self.once("rmdir", at, RemoveDirectory { at: at.clone() }).send().await
    }

    /// Renames. Every observer sees the rename as one atomic step.
    pub async fn rename(&self, from: &PathRef, to: &PathRef, mode: RenameMode) -> Result<()> {
        self.once("rename", from, Rename { from: from.clone(), to: to.clone(), mode }).send().await
    }
}
