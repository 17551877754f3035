//! Files and directories that nobody but the daemon's user may look into, whatever the umask: they hold the bytes of every
//! user's files, whose own modes the metadata server keeps.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// What group and others may do.
#[cfg(unix)]
const OTHERS: u32 = 0o077;

/// Options for a file that is 0600 if it is made.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a directory, 0700; with `parents`, also what is missing above it, and one that is there is no error.
pub(super) fn make_directory(path: &Path, parents: bool) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(parents);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Takes every right from group and others. A daemon that may not do that (another owner, a disk that is read-only) says
/// so and goes on.
pub(super) fn tighten(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let tightened = fs::symlink_metadata(path).and_then(|found| {
            let mode = found.permissions().mode();
            if found.is_symlink() || mode & OTHERS == 0 {
                return Ok(());
            }
            tracing::warn!(path = %path.display(), mode = format!("{:o}", mode & 0o7777), "taken from group and others");
            fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 & !OTHERS))
        });
        if let Err(error) = tightened {
            tracing::warn!(path = %path.display(), %error, "others may look into this; try: chmod go=");
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// The same of an open file.
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
