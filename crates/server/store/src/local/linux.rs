//! Linux calls that the standard library lacks: extended attributes, holes, unnamed files.

use crate::record::RECORD_XATTR;
use crate::{DeviceId, SizeChange, StoreSpace};
use braid_types::{Timestamp, limits};
use rustix::fs::{
    Advice, AtFlags, CWD, FallocateFlags, Mode, OFlags, SeekFrom, StatxFlags, Timespec, Timestamps,
    UTIME_OMIT, XattrFlags,
};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// `STATX_MNT_ID_UNIQUE` (Linux 6.8): an id that is never reused. Older kernels ignore the bit.
const STATX_MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
const STATX_MNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x1000);
/// Larger than any record: fixed fields, layout, checksum.
const RECORD_BUFFER_BYTES: usize = 4096;
/// A mapped file can be truncated.
pub(super) const CAN_MAP: bool = true;

pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buf, offset)
}

pub(super) fn write_at(file: &File, data: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(data, offset)
}

/// Copies within the kernel, and without a copy where the file system shares blocks. `None` where
/// it cannot.
pub(super) fn copy_range(
    source: &File,
    from: u64,
    file: &File,
    to: u64,
    bytes: usize,
) -> io::Result<Option<usize>> {
    let (mut from, mut to) = (from, to);
    match rustix::fs::copy_file_range(source, Some(&mut from), file, Some(&mut to), bytes) {
        Ok(copied) => Ok(Some(copied)),
        // Overlapping ranges of one object, or a file system without this call.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::XDEV | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Drops the clean pages of a file from the page cache, where the file system has such pages.
pub(super) fn drop_cached_pages(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Turns off read-ahead.
pub(super) fn advise_random(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::Random)?)
}

/// Announces sequential reads.
pub(super) fn advise_sequential(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::Sequential)?)
}

/// The record's bytes; `None` when the file has none. Other systems find it by `path`.
pub(super) fn read_record(file: &File, _path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; RECORD_BUFFER_BYTES];
    match rustix::fs::fgetxattr(file, RECORD_XATTR, &mut bytes[..]) {
        Ok(length) => {
            bytes.truncate(length);
            Ok(Some(bytes))
        }
        Err(Errno::NODATA) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn write_record(file: &File, _path: &Path, record: &[u8]) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(file, RECORD_XATTR, record, XattrFlags::empty())?)
}

/// Removes a file's record, if it has one.
pub(super) fn remove_record(file: &File) -> io::Result<()> {
    match rustix::fs::fremovexattr(file, RECORD_XATTR) {
        Ok(()) | Err(Errno::NODATA) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes all extended attributes except the record. One that cannot be removed stays.
pub(super) fn remove_other_xattrs(file: &File) -> io::Result<()> {
    let mut names = vec![0; limits::XATTR_LIST_BYTES_MAX];
    let bytes = rustix::fs::flistxattr(file, &mut names[..])?;
    let names = names[..bytes].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    for name in names.filter(|name| *name != RECORD_XATTR.as_bytes()) {
        let _ = rustix::fs::fremovexattr(file, name);
    }
    Ok(())
}

/// A file without a name in a directory; `None` where the file system cannot create one.
pub(super) fn create_unnamed(directory: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => Ok(Some(file.into())),
        // EISDIR: a kernel without O_TMPFILE.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The length of the longest possible file in this directory, in bytes. It is tried on an unnamed
/// file, which is empty and removed afterwards. `limits::FILE_BYTES_MAX` where it cannot be tried.
pub(super) fn longest_file(directory: &Path) -> u64 {
    let Ok(Some(file)) = create_unnamed(directory) else { return limits::FILE_BYTES_MAX };
    let fits = |length: u64| match file.set_len(length) {
        Ok(()) => Some(true),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Some(false),
        Err(_) => None,
    };
    let (mut longest, mut too_long) = (0, limits::FILE_BYTES_MAX);
    match fits(too_long) {
        Some(false) => {}
        // A full or failing disk says nothing about lengths.
        Some(true) | None => return limits::FILE_BYTES_MAX,
    }
    while too_long - longest > 1 {
        let middle = longest + (too_long - longest) / 2;
        match fits(middle) {
            Some(true) => longest = middle,
            Some(false) => too_long = middle,
            None => return limits::FILE_BYTES_MAX,
        }
    }
    longest
}

/// Gives an unnamed file its name, which must be free.
pub(super) fn link_name(file: &File, path: &Path) -> io::Result<()> {
    // open(2): through /proc, since AT_EMPTY_PATH requires a capability before Linux 6.10.
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, itself, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Gives a new object its name, with its record.
pub(super) fn rename_with_record(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

pub(super) fn remove_with_record(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

/// Whether a name in an object directory belongs to an object's side file.
pub(super) fn is_side_file(_name: &str) -> bool {
    false
}

pub(super) fn apply_change(file: &File, change: SizeChange) -> io::Result<()> {
    match change {
        SizeChange::Truncate { length } => file.set_len(length),
        SizeChange::Punch { offset, length } => {
            // Past its end an object has no bytes, and some file systems refuse holes past their
            // longest file.
            let size = rustix::fs::fstat(file)?.st_size as u64;
            let length = length.min(size.saturating_sub(offset.0));
            if length == 0 {
                return Ok(());
            }
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            Ok(rustix::fs::fallocate(file, flags, offset.0, length)?)
        }
    }
}

pub(super) fn allocate(file: &File, offset: u64, length: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), offset, length)?)
}

pub(super) fn next_data(file: &File, from: u64) -> io::Result<Option<u64>> {
    seek(file, SeekFrom::Data(from))
}

pub(super) fn next_hole(file: &File, from: u64) -> io::Result<Option<u64>> {
    seek(file, SeekFrom::Hole(from))
}

/// Moves the file's own position, which nothing else uses: all other calls name an offset.
fn seek(file: &File, to: SeekFrom) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, to) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The file system's information about an object's file.
pub(super) struct ObjectFileStat {
    pub(super) size: u64,
    pub(super) allocated_bytes: u64,
    /// Not before 1970: an older time is shown as 1970.
    pub(super) mtime: Timestamp,
}

/// By `fstat`, since each read calls it: the standard library's `statx` makes the kernel parse an
/// empty path.
pub(super) fn file_stat(file: &File) -> io::Result<ObjectFileStat> {
    let stat = rustix::fs::fstat(file)?;
    let mtime = match stat.st_mtime {
        seconds @ 0.. => Timestamp { seconds, nanos: stat.st_mtime_nsec as u32 },
        _ => Timestamp::default(),
    };
    Ok(ObjectFileStat {
        size: stat.st_size as u64,
        allocated_bytes: stat.st_blocks as u64 * 512,
        mtime,
    })
}

/// Sets the modification time; the access time stays.
pub(super) fn set_modified(file: &File, modified: Timestamp) -> io::Result<()> {
    let last_modification = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanos.into() };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Ok(rustix::fs::futimens(file, &Timestamps { last_access, last_modification })?)
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes the whole file system durable; `false` where there is no such call.
/// Since Linux 5.8 it also reports each write-back that failed since `root` was opened.
pub(super) fn sync_file_system(root: &File) -> io::Result<bool> {
    rustix::fs::syncfs(root)?;
    Ok(true)
}

pub(super) fn space(root: &File, device: DeviceId) -> io::Result<StoreSpace> {
    let fs = rustix::fs::fstatvfs(root)?;
    Ok(StoreSpace {
        device,
        total_bytes: fs.f_blocks.saturating_mul(fs.f_frsize),
        free_bytes: fs.f_bfree.saturating_mul(fs.f_frsize),
        available_bytes: fs.f_bavail.saturating_mul(fs.f_frsize),
        total_objects: fs.f_files,
        free_objects: fs.f_favail,
    })
}

/// The device's number and this boot of this host: equal only for two directories of one file
/// system.
pub(super) fn device(root: &File) -> io::Result<DeviceId> {
    let mut id = [0; 16];
    let boot = boot_id()?;
    for (byte, pair) in id.iter_mut().zip(boot.as_bytes().chunks(2)) {
        *byte = std::str::from_utf8(pair)
            .ok()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            .unwrap_or(0);
    }
    for (byte, device) in id.iter_mut().zip(root.metadata()?.dev().to_le_bytes()) {
        *byte ^= device;
    }
    Ok(DeviceId(id))
}

/// Changes with every boot of the host. 32 hexadecimal digits.
pub(super) fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().replace('-', ""))
}

/// Changes when the directory is on another device or is mounted again.
pub(super) fn mount_id(root: &File) -> io::Result<String> {
    let device = root.metadata()?.dev();
    let fs = rustix::fs::fstatvfs(root)?.f_fsid;
    let mount =
        rustix::fs::statx(root, "", AtFlags::EMPTY_PATH, STATX_MNT_ID_UNIQUE | STATX_MNT_ID)
            .map(|statx| statx.stx_mnt_id)
            .unwrap_or(0);
    Ok(format!("{device:x}.{fs:x}.{mount:x}"))
}
