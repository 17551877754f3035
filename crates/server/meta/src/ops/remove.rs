//! Remove a name of a file, or an empty directory, whichever it is.

use braid_types::{Failure, FileIndex, Status};

use super::{make, name, rmdir, unlink};
use crate::identity::{Call, Want, permit};
use crate::namespace::Namespace;
use crate::nfs4_permissions::permit_remove;
use crate::record::{DirectoryChange, Outcome};
use crate::tx::Op;

impl Namespace {
    /// As [`Namespace::rmdir`] for a directory, and as [`Namespace::unlink`] for everything else.
    /// Returns the change of the directory; `None` in the answer to a retry from a record of an
    /// earlier version.
    pub fn remove(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
        name: &[u8],
    ) -> Result<Option<DirectoryChange>, Failure> {
        let directories = [directory];
        let at = (directory, &directories[..]);
        let (_, changes) = self.change_directories(call, Op::Remove, at, |tx| {
            name::check(name)?;
            let directory = tx.directory(directory)?;
            permit(call.who, &directory, Want::EXECUTE)?;
            let entry = tx.entry(directory.file, name)?.ok_or(Status::NotFound)?;
            let target = tx.target(&entry)?;
            permit_remove(call.who, &directory, &target)?;
            match target.is_directory() {
                true => rmdir::check_empty(&target)?,
                false => tx.check_delete(target.file)?,
            }
            make::remove_name(tx, &directory, name, &entry);
            match target.is_directory() {
                true => rmdir::drop_directory(tx, &target)?,
                false => unlink::drop_name(tx, &target)?,
            }
            Ok(Outcome::Done)
        })?;
        Ok(changes.first().copied())
    }
}
