//! Creating a file and opening it, in one call.
//!
//! The caller has checked what the user may do with the *directory*, and assumes that the name is
//! free. If another mount was faster, the name leads to a file that nobody has checked. Such a file
//! is opened only with the rights of the user's own uid and gid, and never through a symbolic link.
//! Otherwise an attacker could make a link at the right moment and have another user's file opened.
//! In all other cases the caller must look up the name again and check it.

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

/// Attempts at a name that appears and disappears. After them the caller looks it up again.
const ATTEMPTS_MAX: usize = 4;

/// The properties of a new file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewFile {
    /// Permission bits.
    pub mode: u32,
    /// Bits that are cleared in them, unless the directory has a default ACL.
    pub umask: u32,
    /// The access with which it is opened.
    pub access: Access,
    /// Whether an existing name is an error.
    pub exclusive: bool,
    /// Whether an existing file is truncated.
    pub truncate: bool,
}

impl Vfs {
    /// Creates a file and opens it, or opens the existing one unless `exclusive`. Returns whether
    /// it was created.
    ///
    /// # Errors
    /// [`Error::NameChanged`] when the name leads to something that the caller must check first.
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
            let (before, asked) = (self.before_create(at), Instant::now());
            match self.users.creator(user)?.with_umask(new.umask).create_with_parent(at, &options) {
                Ok((file, after)) => {
                    let attributes = file.opened_attributes();
                    self.caches.clock.note_reply(attributes.btime, asked);
                    let known = self.note_created(at, Ok(attributes), before, after)?;
                    return Ok((self.opened_as(file, new.access, Some(known), None, true)?, true));
                }
                Err(error) => {
                    let taken = error.status() == Status::Exists;
                    let refused = self.note_created(at, Err(error), before, None);
                    if !taken || new.exclusive {
                        refused?;
                    }
                }
            }
            if let Some(opened) = self.open_existing(user, at, new)? {
                return Ok((opened, false));
            }
        }
        Err(Error::NameChanged)
    }

    /// Creates a file without a name, as if in the directory, and opens it (`O_TMPFILE`). It is
    /// removed with its last handle, unless [`Vfs::link`] gives it a name.
    ///
    /// # Errors
    /// It is not opened for writing; the cluster refuses or is not reached.
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

    /// Opens the existing file of a name. `None`: it was removed meanwhile.
    fn open_existing(
        &self,
        user: User,
        at: (FileIndex, &[u8]),
        new: &NewFile,
    ) -> Result<Option<Opened>> {
        let found = match self.client().lstat(at) {
            Ok(found) if found.kind != FileKind::File => return Err(Error::NameChanged),
            Ok(found) => found.file,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let truncate = new.truncate && new.access.write;
        let changing = truncate.then(|| self.caches.begin_attribute_change(found));
        let _ = self.caches.flush_file(found);
        match self.users.asker(user)?.open(found, &new.access.options().truncate(truncate)) {
            Ok(file) => {
                if truncate {
                    self.caches.note_resize(found);
                }
                drop(changing);
                self.opened(file, new.access, None, None).map(Some)
            }
            Err(error) if is_gone(&error) => Ok(None),
            Err(error)
                if matches!(error.status(), Status::PermissionDenied | Status::NotPermitted) =>
            {
                Err(Error::NameChanged)
            }
            Err(error) => Err(error.into()),
        }
    }
}
