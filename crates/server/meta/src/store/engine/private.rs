//! The store's files are for the server's user alone, whatever the umask: they hold every name and owner.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Options for a file that is 0600 if it is made.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a directory, 0700, if it is not there.
pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Takes every right from group and others on a directory and the files and directories in it, one level deep. A server that
/// may not do that (another owner, a disk that is read-only) goes on.
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
