//! Names by their path from the root of a branch. A symbolic link in the path is not followed: any
//! user may put one in the place of a directory, directly on the branch and at any moment, and this
//! process may be root.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, ResolveFlags, Statx};
use rustix::io::Errno;

use crate::{Result, attributes::stat_at, moves::split};

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// A name in an open directory of a branch.
pub(crate) struct Place<'p> {
    pub(crate) directory: OwnedFd,
    pub(crate) name: &'p [u8],
}

impl<'p> Place<'p> {
    /// `None`: the directory is not there.
    pub(crate) fn of(root: &OwnedFd, path: &'p [u8]) -> Result<Option<Self>> {
        match Self::open(root, path) {
            Ok(place) => Ok(Some(place)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// # Errors
    /// Those of openat2(2). `ELOOP`: there is a symbolic link in the path.
    fn open(root: &OwnedFd, path: &'p [u8]) -> Result<Self> {
        let (directory, name) = split(path);
        let directory = if directory.is_empty() { b"." } else { directory };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat2(root, directory, flags, Mode::empty(), BENEATH)?;
        Ok(Self { directory, name })
    }

    pub(crate) fn stat(&self) -> Option<Statx> {
        stat_at(&self.directory, self.name).ok()
    }
}

pub(crate) fn rename(old: &Place<'_>, new: &Place<'_>, flags: RenameFlags) -> Result<()> {
    rustix::fs::renameat_with(&old.directory, old.name, &new.directory, new.name, flags)
}

/// Opens a directory to read its names. The empty path is the root.
///
/// # Errors
/// Those of openat2(2). `ELOOP`: there is a symbolic link in the path.
pub fn open_directory(root: &OwnedFd, path: &[u8]) -> Result<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(root, path, flags, Mode::empty(), BENEATH)
}

/// # Errors
/// Those of statx(2); `ENOENT` also for a symbolic link in the path.
pub(crate) fn stat_path(root: &OwnedFd, path: &[u8]) -> Result<Statx> {
    let place = Place::of(root, path)?.ok_or(Errno::NOENT)?;
    stat_at(&place.directory, place.name)
}

/// Renames to a name that does not exist.
pub(crate) fn rename_new(root: &OwnedFd, from: &[u8], to: &[u8]) -> Result<()> {
    let (old, new) = (Place::open(root, from)?, Place::open(root, to)?);
    match rename(&old, &new, RenameFlags::NOREPLACE) {
        // The file system has no such rename.
        Err(Errno::INVAL)
            if stat_at(&new.directory, new.name).is_err_and(|error| error == Errno::NOENT) =>
        {
            rename(&old, &new, RenameFlags::empty())
        }
        done => done,
    }
}

pub(crate) fn link_path(root: &OwnedFd, from: &[u8], to: &[u8]) -> Result<()> {
    let (old, new) = (Place::open(root, from)?, Place::open(root, to)?);
    rustix::fs::linkat(&old.directory, old.name, &new.directory, new.name, AtFlags::empty())
}

/// Removes a name.
///
/// # Errors
/// Those of openat2(2) and unlinkat(2).
pub fn unlink_path(root: &OwnedFd, path: &[u8], flags: AtFlags) -> Result<()> {
    let place = Place::open(root, path)?;
    rustix::fs::unlinkat(&place.directory, place.name, flags)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn a_symbolic_link_in_the_path_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("branch/real")).unwrap();
        fs::create_dir(at("outside")).unwrap();
        for name in ["branch/real/file", "branch/new", "outside/file"] {
            fs::write(at(name), name).unwrap();
        }
        symlink(at("outside"), at("branch/absolute")).unwrap();
        symlink("../outside", at("branch/relative")).unwrap();
        symlink("real", at("branch/inside")).unwrap();
        let root = OwnedFd::from(fs::File::open(at("branch")).unwrap());
        for link in ["absolute", "relative", "inside", "real/../../outside"] {
            let path = |name: &str| format!("{link}/{name}").into_bytes();
            assert!(open_directory(&root, link.as_bytes()).is_err(), "{link}");
            assert!(stat_path(&root, &path("file")).is_err(), "{link}");
            assert!(rename_new(&root, b"new", &path("new")).is_err(), "{link}");
            assert!(link_path(&root, b"new", &path("new")).is_err(), "{link}");
            assert!(unlink_path(&root, &path("file"), AtFlags::empty()).is_err(), "{link}");
        }
        assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 1);
        assert!(stat_path(&root, b"real/file").is_ok());
        rename_new(&root, b"new", b"real/new").unwrap();
        link_path(&root, b"real/new", b"linked").unwrap();
        unlink_path(&root, b"real/new", AtFlags::empty()).unwrap();
        assert_eq!(fs::read_to_string(at("branch/linked")).unwrap(), "branch/new");
    }
}
