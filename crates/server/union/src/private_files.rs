//! Files of the metadata directory. A union that is mounted has no umask, and a user who can
//! write an intent has files renamed and removed by root: so each file is created with its mode.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

/// Options that create files which only their owner can use.
pub(crate) fn options() -> OpenOptions {
    let mut options = File::options();
    options.create(true).mode(0o600);
    options
}

/// A new file for its owner.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    options().write(true).truncate(true).open(path)
}

/// A new file that everybody can read.
pub(crate) fn create_readable(path: &Path) -> io::Result<File> {
    File::options().create(true).truncate(true).write(true).mode(0o644).open(path)
}

/// A directory for its owner; one that exists becomes one.
pub(crate) fn create_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}
