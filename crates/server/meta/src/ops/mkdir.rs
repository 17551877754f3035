//! Make a directory.

use std::sync::Arc;

use braid_types::limits::LINKS_MAX;
use braid_types::{Failure, FileIndex, Status};

use super::make::{self, Made};
use crate::acl::NewMode;
use crate::identity::Call;
use crate::key;
use crate::namespace::Namespace;
use crate::record::{FileKind, Inode, Outcome};
use crate::tx::Op;

impl Namespace {
    /// Makes a directory. It gets a shard of its own and inherits the default layout and placement.
    pub fn mkdir(
        &self,
        call: &Call<'_>,
        parent: FileIndex,
        name: &[u8],
        mode: impl Into<NewMode>,
    ) -> Result<Arc<Inode>, Failure> {
        self.mkdir_with_change(call, parent, name, mode).map(|made| made.inode)
    }

    /// As [`Namespace::mkdir`], with the change of the directory.
    pub fn mkdir_with_change(
        &self,
        call: &Call<'_>,
        parent: FileIndex,
        name: &[u8],
        mode: impl Into<NewMode>,
    ) -> Result<Made, Failure> {
        let mode = mode.into();
        let directories = [parent];
        let at = (parent, &directories[..]);
        let changed = self.change_directories(call, Op::Mkdir, at, |tx| {
            let parent = make::free_name(tx, call, parent, name, FileKind::Directory)?;
            if parent.directory.nlink >= LINKS_MAX {
                return Err(Status::LinkLimit.into());
            }
            let shard = tx.next_shard();
            let file = tx.new_file(shard)?;
            let mut inode =
                make::inode(call.who, &parent.directory, file, FileKind::Directory, mode, tx.now)?;
            if let Some(default) = tx.default_of(&parent.directory)? {
                inode.has_default = true;
                tx.batch.put(key::directory_default(file), default.encode());
            }
            Ok(Outcome::Created(make::add(tx, parent, name, inode)))
        })?;
        make::made(changed)
    }
}
