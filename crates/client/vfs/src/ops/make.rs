//! Making what is not opened: directories, files, special files, symbolic links.

use braid_client::{FileIndex, FileKind, message::types::LayoutWish};

use super::name;
use crate::{error::Result, known::Known, users::User, vfs::Vfs};

impl Vfs {
    /// Makes a directory.
    ///
    /// # Errors
    /// The name is taken; the cluster refuses or is not reached.
    pub fn make_directory(
        &self,
        user: User,
        directory: FileIndex,
        wanted: &[u8],
        mode: u32,
        umask: u32,
    ) -> Result<Known> {
        let (at, before) = ((directory, name(wanted)?), self.before(directory));
        let made = self.users.creator(user)?.with_umask(umask).mkdir(at, mode);
        self.made(directory, wanted, made, before)
    }

    /// Makes a file, pipe, socket or device without opening it.
    ///
    /// # Errors
    /// The name is taken; the cluster refuses or is not reached.
    #[allow(clippy::too_many_arguments, reason = "mknod(2) has as many")]
    pub fn make_node(
        &self,
        user: User,
        directory: FileIndex,
        wanted: &[u8],
        kind: FileKind,
        mode: u32,
        umask: u32,
        device: u64,
    ) -> Result<Known> {
        let (at, client) = ((directory, name(wanted)?), self.users.creator(user)?.with_umask(umask));
        let before = self.before(directory);
        let made = match kind {
            FileKind::File => client.touch(at, mode, true, LayoutWish::none()).map(|made| made.attributes),
            _ => client.mknod(at, kind, mode, device),
        };
        self.made(directory, wanted, made, before)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// The name is taken; the target is too long; the cluster refuses or is not reached.
    pub fn make_symlink(&self, user: User, directory: FileIndex, wanted: &[u8], target: &[u8]) -> Result<Known> {
        let (at, before) = ((directory, name(wanted)?), self.before(directory));
        let made = self.users.creator(user)?.symlink(at, target);
        self.made(directory, wanted, made, before)
    }
}
