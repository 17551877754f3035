//! Make a hard link.

use std::sync::Arc;

use braid_types::limits::LINKS_MAX;
use braid_types::{Failure, FileIndex, Status};

use super::make::{self, Made};
use crate::identity::Call;
use crate::key;
use crate::namespace::Namespace;
use crate::record::{Inode, Outcome};
use crate::tx::Op;

impl Namespace {
    /// Gives a file that is not a directory one more name.
    pub fn link(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        directory: FileIndex,
        name: &[u8],
    ) -> Result<Arc<Inode>, Failure> {
        self.link_with_change(call, file, directory, name).map(|made| made.inode)
    }

    /// As [`Namespace::link`], with the change of the directory.
    pub fn link_with_change(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        directory: FileIndex,
        name: &[u8],
    ) -> Result<Made, Failure> {
        let directories = [directory];
        let at = (directory, &directories[..]);
        let changed = self.change_directories(call, Op::Link, at, |tx| {
            let mut inode = (*tx.inode(file)?).clone();
            let parent = make::free_name(tx, call, directory, name, inode.kind)?;
            match inode.nlink {
                // POSIX link(): EPERM for a directory.
                _ if inode.is_directory() => return Err(Status::NotPermitted.into()),
                // Its last name was removed while it was open: it gets no new one. A file that
                // never had a name (O_TMPFILE) may get one.
                0 if !inode.unnamed => return Err(Status::NotFound.into()),
                _ if inode.quota_directory != parent.directory.quota_directory => {
                    return Err(Failure::new(
                        Status::CrossDevice,
                        "the directory belongs to another quota directory",
                    ));
                }
                LINKS_MAX.. => return Err(Status::LinkLimit.into()),
                _ => {}
            }
            make::add_name(tx, &parent.directory, name, file, inode.kind);
            if inode.nlink == 0 {
                tx.batch.remove(key::orphan(file));
                (inode.unnamed, inode.parent) = (false, directory);
            }
            inode.linked |= inode.nlink > 0;
            inode.nlink += 1;
            inode.touch(tx.now);
            Ok(Outcome::File(tx.put_inode(inode)))
        })?;
        make::made(changed)
    }
}
