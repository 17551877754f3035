//! A complete copy of a file under a temporary name on another branch: bytes, holes, owner, mode,
//! ACLs, other xattrs and times.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Statx, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::NotMoved;
use crate::{
    Result, Union,
    attributes::{S_IFMT, path_of, set_mode, stat_fd},
};

/// Copies that are being made, in the root of a branch. What a killed process left is removed.
pub(crate) const COPY_PREFIX: &str = ".braid-move-";
/// Names that are tried.
const TRIES: u32 = 100;
const BUFFER_BYTES: usize = 1 << 20;

/// A copy that has no name in the union yet.
#[derive(Debug)]
pub(crate) struct NewCopy {
    /// Its name in the root of the branch.
    pub(super) name: Vec<u8>,
    pub(super) stat: Statx,
    pub(super) bytes: u64,
    /// Open, unless it is a symbolic link or another file without bytes.
    pub(super) file: Option<OwnedFd>,
}

impl Union {
    /// Copies the file of `from`, a descriptor of `O_PATH`, to a branch.
    pub(super) fn copy_to(
        &self,
        from: &OwnedFd,
        stat: &Statx,
        target: usize,
    ) -> std::result::Result<NewCopy, NotMoved> {
        let root = self.branches[target].root()?;
        let (name, file) = create(&root, from, stat)?;
        let copied = fill(&root, &name, file.as_ref(), from, stat);
        match copied {
            Ok(new) => Ok(NewCopy { name, stat: new, bytes: stat.stx_size, file }),
            Err(why) => {
                let _ = rustix::fs::unlinkat(&*root, &*name, AtFlags::empty());
                self.branches[target].space_changed();
                Err(why)
            }
        }
    }

    /// Removes copies that a killed process left. Those of unfinished moves are gone before.
    pub(crate) fn remove_unused_copies(&self) {
        for branch in self.branches.iter().filter(|branch| branch.is_writable()) {
            let Ok(root) = branch.root() else { continue };
            let Ok(directory) = rustix::fs::Dir::read_from(&*root) else { continue };
            for entry in directory.flatten() {
                if entry.file_name().to_bytes().starts_with(COPY_PREFIX.as_bytes()) {
                    let _ = rustix::fs::unlinkat(&*root, entry.file_name(), AtFlags::empty());
                }
            }
        }
    }
}

/// A name that no other file in the root of a branch has.
pub(super) fn unused_name(prefix: &str, number: u64, attempt: u32) -> Vec<u8> {
    format!("{prefix}{}-{number}-{attempt}", std::process::id()).into_bytes()
}

/// Creates an empty file of the same kind. Nobody but root can open it yet.
fn create(
    root: &OwnedFd,
    from: &OwnedFd,
    stat: &Statx,
) -> std::result::Result<(Vec<u8>, Option<OwnedFd>), NotMoved> {
    for attempt in 0..TRIES {
        let name = unused_name(COPY_PREFIX, stat.stx_ino, attempt);
        let mode = Mode::from_raw_mode(0o600);
        let made = match FileType::from_raw_mode(stat.stx_mode.into()) {
            FileType::RegularFile => {
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                rustix::fs::openat(root, &*name, flags, mode).map(Some)
            }
            FileType::Symlink => rustix::fs::readlinkat(from, c"", Vec::new())
                .and_then(|target| rustix::fs::symlinkat(&*target, root, &*name).map(|()| None)),
            FileType::Directory => Err(Errno::ISDIR),
            kind => {
                let device = rustix::fs::makedev(stat.stx_rdev_major, stat.stx_rdev_minor);
                rustix::fs::mknodat(root, &*name, kind, mode, device).map(|()| None)
            }
        };
        match made {
            Err(Errno::EXIST) => {}
            made => return Ok((name, made?)),
        }
    }
    Err(NotMoved::Failed(Errno::EXIST))
}

/// Gives the new file the bytes and the attributes of the old one, and returns its own.
fn fill(
    root: &OwnedFd,
    name: &[u8],
    file: Option<&OwnedFd>,
    from: &OwnedFd,
    stat: &Statx,
) -> std::result::Result<Statx, NotMoved> {
    if let Some(file) = file {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let bytes = rustix::fs::open(path_of(from), flags, Mode::empty())?;
        copy_bytes(&bytes, file, stat.stx_size)?;
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let new = rustix::fs::openat(root, name, flags, Mode::empty())?;
    let (uid, gid) = (Uid::from_raw(stat.stx_uid), Gid::from_raw(stat.stx_gid));
    rustix::fs::chownat(&new, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    let is_link = u32::from(stat.stx_mode) & S_IFMT == 0o120_000;
    if !is_link {
        // After the owner, whose change ends set-user-id bits and capabilities.
        copy_xattrs(from, &new)?;
        set_mode(new.as_fd(), stat.stx_mode.into())?;
    }
    let time = |time: rustix::fs::StatxTimestamp| Timespec {
        tv_sec: time.tv_sec,
        tv_nsec: i64::from(time.tv_nsec),
    };
    let times =
        Timestamps { last_access: time(stat.stx_atime), last_modification: time(stat.stx_mtime) };
    rustix::fs::utimensat(&new, c"", &times, AtFlags::EMPTY_PATH)?;
    Ok(stat_fd(&new)?)
}

/// Copies the data and leaves the holes.
fn copy_bytes(from: &OwnedFd, to: &OwnedFd, size: u64) -> Result<()> {
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    let mut buffer = Vec::new();
    let mut at = 0;
    while at < size {
        let data = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            // The file system knows no holes.
            Err(Errno::INVAL) => at,
            Err(error) => return Err(error),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(data)).unwrap_or(size).min(size);
        copy_range(from, to, data, end, &mut buffer)?;
        at = end.max(data + 1);
    }
    rustix::fs::ftruncate(to, size)
}

fn copy_range(
    from: &OwnedFd,
    to: &OwnedFd,
    mut at: u64,
    end: u64,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(1 << 30);
        let (mut read_at, mut write_at) = (at, at);
        let kernel =
            rustix::fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), wanted);
        let done = match kernel {
            Ok(0) => return Ok(()),
            Ok(bytes) => bytes,
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                buffer.resize(BUFFER_BYTES, 0);
                copy_through(from, to, at, wanted.min(BUFFER_BYTES), buffer)?
            }
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        if done == 0 {
            // The file became shorter, which the comparison afterwards finds.
            return Ok(());
        }
        at += done as u64;
    }
    Ok(())
}

fn copy_through(
    from: &OwnedFd,
    to: &OwnedFd,
    at: u64,
    bytes: usize,
    buffer: &mut [u8],
) -> Result<usize> {
    let read = rustix::io::pread(from, &mut buffer[..bytes], at)?;
    let mut done = 0;
    while done < read {
        match rustix::io::pwrite(to, &buffer[done..read], at + done as u64) {
            Ok(bytes) => done += bytes,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

fn copy_xattrs(from: &OwnedFd, to: &OwnedFd) -> std::result::Result<(), NotMoved> {
    let (from, to) = (path_of(from), path_of(to));
    for name in crate::xattrs::all_names(&from)? {
        if name.starts_with(crate::xattrs::OWN) {
            return Err(NotMoved::Striped);
        }
        let value = crate::xattrs::value(&from, &name)?;
        match rustix::fs::setxattr(&*to, &*name, &value, XattrFlags::empty()) {
            Ok(()) => {}
            // Nothing may be lost by a move.
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::NOSPC | Errno::RANGE) => {
                return Err(NotMoved::Xattr(String::from_utf8_lossy(&name).into_owned()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
