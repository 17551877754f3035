//! Names: making, removing and moving them. Each is one call of the metadata server, executed once
//! (I7).

use braid_net::Driver;
use braid_wire::message::{
    FileKind,
    mds::{
        MakeDirectory, MakeLink, MakeNode, MakeReply, MakeSymlink, ReadLink, RemoveDirectory,
        RemoveReply, Rename, RenameMode, Unlink,
    },
    types::{Attributes, PathRef},
};

use super::Caller;
use crate::error::Result;

impl<D: Driver> Caller<D> {
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
