//! Remove a name of a file that is not a directory. The file is removed with its last name, unless
//! a session has it open.

use braid_types::{Failure, FileIndex, Status};

use super::{make, name};
use crate::identity::{Call, Want, permit};
use crate::key;
use crate::namespace::Namespace;
use crate::nfs4_permissions::permit_remove;
use crate::record::{FileKind, Inode, Outcome};
use crate::tx::{Op, Tx};

impl Namespace {
    /// Removes a name. With the last name and no open, the inode is removed and the deletion of its
    /// objects is queued in the same batch. While the file is open, it stays as an orphan.
    pub fn unlink(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
        name: &[u8],
    ) -> Result<(), Failure> {
        self.change(call, Op::Unlink, directory, |tx| {
            if matches!(name, b"." | b"..") {
                return Err(Status::IsDirectory.into());
            }
            name::check(name)?;
            let directory = tx.directory(directory)?;
            permit(call.who, &directory, Want::EXECUTE)?;
            let entry = tx.entry(directory.file, name)?.ok_or(Status::NotFound)?;
            let target = tx.target(&entry)?;
            permit_remove(call.who, &directory, &target)?;
            if target.is_directory() {
                // POSIX allows EPERM; Linux returns EISDIR.
                return Err(Status::IsDirectory.into());
            }
            tx.check_delete(target.file)?;
            make::remove_name(tx, &directory, name, &entry);
            drop_name(tx, &target)?;
            Ok(Outcome::Done)
        })?;
        Ok(())
    }
}

/// One name of a file that is not a directory was removed.
pub(super) fn drop_name(tx: &mut Tx<'_>, inode: &Inode) -> Result<(), Failure> {
    let mut inode = inode.clone();
    // A count that is too low, which fsck would report, must not wrap around.
    inode.nlink = inode.nlink.saturating_sub(1);
    inode.touch(tx.now);
    if inode.nlink == 0 {
        return drop_file(tx, inode);
    }
    tx.put_inode(inode);
    Ok(())
}

/// The last name of a file, or the only one of a directory, was removed.
pub(super) fn drop_file(tx: &mut Tx<'_>, inode: Inode) -> Result<(), Failure> {
    let may_be_open = tx.writer.keep_orphans && inode.kind == FileKind::Regular;
    if may_be_open || tx.writer.opens.is_open(inode.file) {
        tx.batch.put(key::orphan(inode.file), vec![1]);
        tx.put_inode(inode);
        return Ok(());
    }
    tx.delete_inode(&inode)
}
