//! Making a file and opening it, in one call.
//!
//! The caller checked what the user may do with the *directory*: it took the name for free. When another mount was quicker
//! the name leads to a file that nobody checked. It is opened only as the user may by its own user id and group, and
//! never through a symbolic link: else whoever makes a link in the right moment has a stranger's file opened. What is
//! left is for the caller to look up and check.

use std::time::Instant;

use braid_client::{FileIndex, FileKind, LeaseMode, Status};

use super::{
    name,
    open::{Access, Opened, is_gone},
};
use crate::{
    error::{Error, Result},
    users::User,
    vfs::Vfs,
};

/// A name that comes and goes faster than that is looked up again by the caller.
const ATTEMPTS_MAX: usize = 4;

/// What a new file is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewFile {
    /// Permission bits.
    pub mode: u32,
    /// What the process masks out of them, unless the directory has a default ACL.
    pub umask: u32,
    /// What it is opened for.
    pub access: Access,
    /// Whether it is an error that the name is taken.
    pub exclusive: bool,
    /// Whether a file that was there is made empty.
    pub truncate: bool,
}

impl Vfs {
    /// Makes a file and opens it; opens the one that is there unless `exclusive`. Tells whether it was made.
    ///
    /// # Errors
    /// [`Error::LookAgain`] when the name is taken by something that the caller must check first.
    pub fn create(
        &self,
        user: User,
        directory: FileIndex,
        wanted: &[u8],
        new: &NewFile,
    ) -> Result<(Opened, bool)> {
        let at = (directory, name(wanted)?);
        let lease = if new.access.write { new.access.lease() } else { LeaseMode::None };
        let options = new.access.options().write(true).create_new(true).mode(new.mode).lease(lease);
        for _ in 0..ATTEMPTS_MAX {
            let (before, asked) = (self.before_making(at), Instant::now());
            match self.users.creator(user)?.with_umask(new.umask).create_told(at, &options) {
                Ok((file, after)) => {
                    let attributes = file.opened_attributes();
                    self.holder.clock.heard(attributes.btime, asked);
                    let known = self.made(at, Ok(attributes), before, after)?;
                    return Ok((self.opened_as(file, new.access, Some(known), None, true)?, true));
                }
                Err(error) => {
                    let taken = error.status() == Status::Exists;
                    let refused = self.made(at, Err(error), before, None);
                    if !taken || new.exclusive {
                        refused?;
                    }
                }
            }
            if let Some(opened) = self.open_existing(user, at, new)? {
                return Ok((opened, false));
            }
        }
        Err(Error::LookAgain)
    }

    /// Makes a file that has no name, as if in the directory, and opens it. It goes with its last handle, unless
    /// [`Vfs::link`] gives it a name.
    ///
    /// # Errors
    /// It is not to be written; the cluster refuses or is not reached.
    pub fn create_unnamed(
        &self,
        user: User,
        directory: FileIndex,
        mode: u32,
        umask: u32,
        access: Access,
    ) -> Result<Opened> {
        let options = access.options().mode(mode);
        let file =
            self.users.creator(user)?.with_umask(umask).create_unnamed(directory, &options)?;
        self.opened(file, access, None, None)
    }

    /// The file that took the name; `None` when it went again.
    fn open_existing(
        &self,
        user: User,
        at: (FileIndex, &[u8]),
        new: &NewFile,
    ) -> Result<Option<Opened>> {
        let found = match self.client().lstat(at) {
            Ok(found) if found.kind != FileKind::File => return Err(Error::LookAgain),
            Ok(found) => found.file,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let truncate = new.truncate && new.access.write;
        let _ = self.holder.settle_file(found);
        match self.users.asker(user)?.open(found, &new.access.options().truncate(truncate)) {
            Ok(file) => {
                if truncate {
                    self.holder.resized(found);
                    self.changed(found);
                }
                self.opened(file, new.access, None, None).map(Some)
            }
            Err(error) if is_gone(&error) => Ok(None),
            Err(error)
                if matches!(error.status(), Status::PermissionDenied | Status::NotPermitted) =>
            {
                Err(Error::LookAgain)
            }
            Err(error) => Err(error.into()),
        }
    }
}
