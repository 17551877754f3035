//! What Linux does better than the standard library: extended attributes, holes, files without a name.

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

/// `STATX_MNT_ID_UNIQUE` (Linux 6.8): an id that is not used again. Older kernels ignore the bit.
const STATX_MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
const STATX_MNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x1000);
/// Larger than any record: fixed fields, layout, checksum.
const RECORD_BUFFER_BYTES: usize = 4096;
/// A file may be cut while it is in the address space.
pub(super) const CAN_MAP: bool = true;

pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buf, offset)
}

pub(super) fn write_at(file: &File, data: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(data, offset)
}

/// Within the kernel, and without a copy where the file system shares blocks. `None` where it cannot.
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
        // Overlapping ranges of one object, or a file system without it.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::XDEV | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Has the page cache drop what is clean of a file, as far as the file system has pages of its own to drop.
pub(super) fn forget(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Nothing that was not asked for is to be read ahead.
pub(super) fn expect_random(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::Random)?)
}

/// Reads will be in order.
pub(super) fn expect_order(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, Advice::Sequential)?)
}

/// The record's bytes; `None` when the file has none. `path` is where other systems keep it.
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

/// A file without a name in a directory; `None` where the file system has none.
pub(super) fn nameless(directory: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => Ok(Some(file.into())),
        // EISDIR: a kernel that does not know it.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The longest that a file can be in this directory, in bytes: tried on a file without a name, which is empty and gone
/// afterwards. `limits::FILE_BYTES_MAX` where that cannot be tried.
pub(super) fn longest_file(directory: &Path) -> u64 {
    let Ok(Some(file)) = nameless(directory) else { return limits::FILE_BYTES_MAX };
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

/// Gives a nameless file its name, which nothing may have.
pub(super) fn name(file: &File, path: &Path) -> io::Result<()> {
    // open(2): by /proc, since AT_EMPTY_PATH wants a capability before Linux 6.10.
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

/// Whether a name beside the objects belongs to one of them.
pub(super) fn is_side_file(_name: &str) -> bool {
    false
}

pub(super) fn change(file: &File, change: SizeChange) -> io::Result<()> {
    match change {
        SizeChange::Truncate { length } => file.set_len(length),
        SizeChange::Punch { offset, length } => {
            // Past its end an object has nothing; some file systems refuse holes past their largest file.
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

/// Moves the file's own position, which nobody else uses: all other access names its offset.
fn seek(file: &File, to: SeekFrom) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, to) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// What the file system says of an object's file.
pub(super) struct Facts {
    pub(super) size: u64,
    pub(super) allocated_bytes: u64,
    /// A time before 1970 is shown as 1970: objects have no older ones.
    pub(super) mtime: Timestamp,
}

/// `fstat`, since each read asks for it: the `statx` of the standard library costs the kernel a look at an empty path more.
pub(super) fn facts(file: &File) -> io::Result<Facts> {
    let stat = rustix::fs::fstat(file)?;
    let mtime = match stat.st_mtime {
        seconds @ 0.. => Timestamp { seconds, nanos: stat.st_mtime_nsec as u32 },
        _ => Timestamp::default(),
    };
    Ok(Facts { size: stat.st_size as u64, allocated_bytes: stat.st_blocks as u64 * 512, mtime })
}

/// Sets the time of the last change of the bytes; that of the last access stays.
pub(super) fn set_modified(file: &File, modified: Timestamp) -> io::Result<()> {
    let last_modification = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanos.into() };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    Ok(rustix::fs::futimens(file, &Timestamps { last_access, last_modification })?)
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes the whole file system durable; `false` where that cannot be asked for.
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

/// The device's number on this boot of this host: equal for two directories of one file system alone.
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

/// Changes when the directory is on another device or is mounted anew.
pub(super) fn mount_id(root: &File) -> io::Result<String> {
    let device = root.metadata()?.dev();
    let fs = rustix::fs::fstatvfs(root)?.f_fsid;
    let mount =
        rustix::fs::statx(root, "", AtFlags::EMPTY_PATH, STATX_MNT_ID_UNIQUE | STATX_MNT_ID)
            .map(|statx| statx.stx_mnt_id)
            .unwrap_or(0);
    Ok(format!("{device:x}.{fs:x}.{mount:x}"))
}
