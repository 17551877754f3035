//! Make a symbolic link.

use std::sync::Arc;

use braid_types::limits::SYMLINK_BYTES_MAX;
use braid_types::{Failure, FileIndex, Status};

use super::make::{self, Made};
use crate::identity::Call;
use crate::key;
use crate::namespace::Namespace;
use crate::record::{FileKind, Inode, Outcome};
use crate::tx::Op;

impl Namespace {
    /// Makes a symbolic link to a path of 1 to 4095 bytes without NUL.
    pub fn symlink(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
        name: &[u8],
        target: &[u8],
    ) -> Result<Arc<Inode>, Failure> {
        self.symlink_with_change(call, directory, name, target).map(|made| made.inode)
    }

    /// As [`Namespace::symlink`], with the change of the directory.
    pub fn symlink_with_change(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
        name: &[u8],
        target: &[u8],
    ) -> Result<Made, Failure> {
        let directories = [directory];
        let at = (directory, &directories[..]);
        let changed = self.change_directories(call, Op::Symlink, at, |tx| {
            match target.len() {
                0 => return Err(Status::NotFound.into()),
                bytes if bytes > SYMLINK_BYTES_MAX => return Err(Status::NameTooLong.into()),
                _ if target.contains(&0) => return Err(Status::Invalid.into()),
                _ => {}
            }
            let parent = make::free_name(tx, call, directory, name, FileKind::Symlink)?;
            let file = tx.new_file(directory.shard())?;
            // The mode of a symbolic link is never checked.
            let mut inode = make::inode(
                call.who,
                &parent.directory,
                file,
                FileKind::Symlink,
                0o777.into(),
                tx.now,
            )?;
            inode.size = target.len() as u64;
            tx.batch.put(key::symlink(file), target);
            Ok(Outcome::Created(make::add(tx, parent, name, inode)))
        })?;
        make::made(changed)
    }
}
