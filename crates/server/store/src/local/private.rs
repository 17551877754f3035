//! Files and directories that only the daemon's user may read, whatever the umask is: they hold the
//! bytes of all users' files, whose own modes only the metadata server knows.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// The rights of group and others.
#[cfg(unix)]
const OTHERS: u32 = 0o077;

/// Options for a file that is created with mode 0600.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a directory with mode 0700. With `parents` it also makes missing parents, and an existing
/// directory is no error.
pub(super) fn make_directory(path: &Path, parents: bool) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(parents);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Removes all rights of group and others. A daemon that may not do that (another owner, a
/// read-only disk) logs a warning and continues.
pub(super) fn tighten(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let tightened = fs::symlink_metadata(path).and_then(|found| {
            let mode = found.permissions().mode();
            if found.is_symlink() || mode & OTHERS == 0 {
                return Ok(());
            }
            tracing::warn!(
                path = %path.display(),
                mode = format!("{:o}", mode & 0o7777),
                "removed the rights of group and others"
            );
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 & !OTHERS))
        });
        if let Err(error) = tightened {
            tracing::warn!(
                path = %path.display(),
                %error,
                "other users may read this directory or file; try: chmod go="
            );
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// The same for an open file.
pub(super) fn tighten_file(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.metadata()?.permissions().mode();
        if mode & OTHERS != 0 {
            file.set_permissions(fs::Permissions::from_mode(mode & 0o7777 & !OTHERS))?;
        }
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}
