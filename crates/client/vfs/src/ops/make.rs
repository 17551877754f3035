//! Creating directories, symbolic links, special files, and files without opening them.

use braid_client::{
    FileIndex, FileKind,
    message::{mds::MakeReply, types::LayoutHint},
};

use super::name;
use crate::{error::Result, names::cached_attributes::CachedAttributes, users::User, vfs::Vfs};

impl Vfs {
    /// Makes a directory.
    ///
    /// # Errors
    /// The name exists; the cluster refuses or is not reached.
    pub fn make_directory(
        &self,
        user: User,
        directory: FileIndex,
        wanted: &[u8],
        mode: u32,
        umask: u32,
    ) -> Result<CachedAttributes> {
        let at = (directory, name(wanted)?);
        let before = self.before_create(at);
        let (made, after) =
            match self.users.creator(user)?.with_umask(umask).mkdir_with_parent(at, mode) {
                Ok(MakeReply { attributes, directory }) => (Ok(attributes), directory),
                Err(error) => (Err(error), None),
            };
        let CachedAttributes { attributes, leases: keep } =
            self.note_created(at, made, before, after)?;
        // A program that makes a directory puts something into it. Under a lease from the
        // beginning, when the directory is known to be empty, its lookups need no server.
        Ok(self.with_own_lease(attributes, keep))
    }

    /// Makes a file, pipe, socket or device without opening it.
    ///
    /// # Errors
    /// The name exists; the cluster refuses or is not reached.
    #[allow(clippy::too_many_arguments, reason = "as many as mknod(2)")]
    pub fn make_node(
        &self,
        user: User,
        directory: FileIndex,
        wanted: &[u8],
        kind: FileKind,
        mode: u32,
        umask: u32,
        device: u64,
    ) -> Result<CachedAttributes> {
        let (at, client) =
            ((directory, name(wanted)?), self.users.creator(user)?.with_umask(umask));
        let before = self.before_create(at);
        let made = match kind {
            FileKind::File => {
                client.touch(at, mode, true, LayoutHint::none()).map(|made| made.attributes)
            }
            _ => client.mknod(at, kind, mode, device),
        };
        self.note_created(at, made, before, None)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// The name exists; the target is too long; the cluster refuses or is not reached.
    pub fn make_symlink(
        &self,
        user: User,
        directory: FileIndex,
        wanted: &[u8],
        target: &[u8],
    ) -> Result<CachedAttributes> {
        let at = (directory, name(wanted)?);
        let before = self.before_create(at);
        let made = self.users.creator(user)?.symlink(at, target);
        self.note_created(at, made, before, None)
    }
}
