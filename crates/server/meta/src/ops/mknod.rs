//! Make a special file: pipe, socket, device.

use std::sync::Arc;

use braid_types::{Failure, FileIndex, Status};

use super::make::{self, Made};
use crate::acl::NewMode;
use crate::identity::Call;
use crate::namespace::Namespace;
use crate::record::{FileKind, Inode, Outcome};
use crate::tx::Op;

/// The file to create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeArgs {
    /// Fifo, socket or device.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: NewMode,
    /// Device number, for devices; otherwise ignored.
    pub rdev: u64,
}

impl Namespace {
    /// Creates a special file. Only root may create devices.
    pub fn mknod(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
        name: &[u8],
        args: NodeArgs,
    ) -> Result<Arc<Inode>, Failure> {
        self.mknod_with_change(call, directory, name, args).map(|made| made.inode)
    }

    /// As [`Namespace::mknod`], with the change of the directory.
    pub fn mknod_with_change(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
        name: &[u8],
        args: NodeArgs,
    ) -> Result<Made, Failure> {
        let device = matches!(args.kind, FileKind::CharDevice | FileKind::BlockDevice);
        let directories = [directory];
        let at = (directory, &directories[..]);
        let changed = self.change_directories(call, Op::Mknod, at, |tx| {
            if !args.kind.is_special() {
                return Err(Status::Invalid.into());
            }
            let parent = make::free_name(tx, call, directory, name, args.kind)?;
            if device && !call.who.bypasses_permissions() {
                return Err(Status::NotPermitted.into());
            }
            let file = tx.new_file(directory.shard())?;
            let mut inode =
                make::inode(call.who, &parent.directory, file, args.kind, args.mode, tx.now)?;
            inode.rdev = if device { args.rdev } else { 0 };
            Ok(Outcome::Created(make::add(tx, parent, name, inode)))
        })?;
        make::made(changed)
    }
}
