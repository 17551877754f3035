//! Remove an empty directory.

use std::sync::Arc;

use braid_types::{Failure, FileIndex, Status};

use super::{make, name, unlink};
use crate::identity::{Call, Want, permit};
use crate::namespace::Namespace;
use crate::nfs4_permissions::permit_remove;
use crate::record::{Inode, Outcome};
use crate::tx::{Op, Tx};

impl Namespace {
    /// Removes a directory that has no entries.
    pub fn rmdir(&self, call: &Call<'_>, parent: FileIndex, name: &[u8]) -> Result<(), Failure> {
        self.change(call, Op::Rmdir, parent, |tx| {
            match name {
                b"." => return Err(Status::Invalid.into()),
                b".." => return Err(Status::NotEmpty.into()),
                _ => name::check(name)?,
            }
            let parent = tx.directory(parent)?;
            permit(call.who, &parent, Want::EXECUTE)?;
            let entry = tx.entry(parent.file, name)?.ok_or(Status::NotFound)?;
            let target = tx.target(&entry)?;
            permit_remove(call.who, &parent, &target)?;
            check_empty(&target)?;
            make::remove_name(tx, &parent, name, &entry);
            drop_directory(tx, &target)?;
            Ok(Outcome::Done)
        })?;
        Ok(())
    }
}

/// Requires a directory without entries.
pub(super) fn check_empty(directory: &Inode) -> Result<(), Failure> {
    match (directory.is_directory(), directory.size) {
        (false, _) => Err(Status::NotDirectory.into()),
        (true, 0) => Ok(()),
        (true, _) => Err(Status::NotEmpty.into()),
    }
}

/// The name of an empty directory was removed.
pub(super) fn drop_directory(tx: &mut Tx<'_>, directory: &Arc<Inode>) -> Result<(), Failure> {
    let mut directory = (**directory).clone();
    directory.nlink = 0;
    directory.touch(tx.now);
    unlink::drop_file(tx, directory)
}
