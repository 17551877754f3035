//! Unmounting: a mount of this process or of another one, also one whose process is gone.

use super::{MountEntry, MountOptions, UnmountError, fusermount, table, users};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::{Path, PathBuf};

/// How to unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Fails while it is in use.
    Plain,
    /// Removes it from the tree immediately; it ends after its last use.
    Lazy,
}

/// Unmounts what is mounted on a directory, if it is ours. Sends no request to the file system.
pub fn unmount(point: &Path, how: Unmount) -> Result<(), UnmountError> {
    let failed = |why: std::io::Error| UnmountError::Failed { point: point.to_owned(), why };
    let (point, entry) = find(point).map_err(failed)?;
    match entry {
        None => return Err(UnmountError::NotMounted { point }),
        Some(entry) if !entry.is_ours() => {
            return Err(UnmountError::NotOurs { point, kind: entry.kind });
        }
        Some(_) => {}
    }
    unmount_resolved(&point, how)
}

/// Changes the flags of what is mounted on a directory, if it is ours: read-only and the like.
/// Sends no request to the file system.
pub fn remount(options: &MountOptions) -> Result<(), UnmountError> {
    let given = &options.point;
    let failed = |why: std::io::Error| UnmountError::Failed { point: given.clone(), why };
    let (point, entry) = find(given).map_err(failed)?;
    match entry {
        None => Err(UnmountError::NotMounted { point }),
        Some(entry) if !entry.is_ours() => Err(UnmountError::NotOurs { point, kind: entry.kind }),
        Some(_) => rustix::mount::mount_remount(&point, options.flags(), "")
            .map_err(|why| failed(why.into())),
    }
}

/// A link to a mount point counts, too. It is followed only where nothing is mounted under its own
/// name: to look at a mount point is to ask its file system.
fn find(point: &Path) -> std::io::Result<(PathBuf, Option<MountEntry>)> {
    let resolved = table::resolve(point)?;
    if let Some(entry) = table::entry_at(&resolved)? {
        return Ok((resolved, Some(entry)));
    }
    let behind = resolved.canonicalize().unwrap_or(resolved);
    let entry = table::entry_at(&behind)?;
    Ok((behind, entry))
}

/// `point`: as in the table of mounts.
pub(super) fn unmount_resolved(point: &Path, how: Unmount) -> Result<(), UnmountError> {
    let flags = match how {
        Unmount::Plain => UnmountFlags::NOFOLLOW,
        Unmount::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(point, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(busy(point)),
        Err(Errno::INVAL) => Err(UnmountError::NotMounted { point: point.to_owned() }),
        Err(Errno::PERM) => by_helper(point, how),
        Err(error) => Err(UnmountError::Failed { point: point.to_owned(), why: error.into() }),
    }
}

fn by_helper(point: &Path, how: Unmount) -> Result<(), UnmountError> {
    match fusermount::unmount(point, how == Unmount::Lazy) {
        Ok(()) => Ok(()),
        Err(why) if why.contains("busy") => Err(busy(point)),
        // With -q it gives no reason for a busy mount point.
        Err(why) if why.is_empty() => Err(busy(point)),
        Err(why) => Err(UnmountError::Helper { point: point.to_owned(), why }),
    }
}

fn busy(point: &Path) -> UnmountError {
    UnmountError::Busy { point: point.to_owned(), users: users::describe(point) }
}
