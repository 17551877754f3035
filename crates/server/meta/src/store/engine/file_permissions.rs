//! Permissions of the store's files: only the server's user may read them, whatever the umask. They
//! hold every name and owner.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Options that create a file with mode 0600.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory with mode 0700 if it does not exist.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Removes all rights of group and others from a directory and its entries, one level deep. A
/// server that may not do that (another owner, a read-only disk) continues.
pub(super) fn tighten(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in std::iter::once(directory.to_owned()).chain(entries) {
        let _ = tighten_one(&path);
    }
}

#[cfg(unix)]
fn tighten_one(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let found = fs::symlink_metadata(path)?;
    let mode = found.permissions().mode() & 0o7777;
    if found.is_symlink() || mode & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode & !0o077))
}

#[cfg(not(unix))]
fn tighten_one(_path: &Path) -> io::Result<()> {
    Ok(())
}
