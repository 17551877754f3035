//! Attributes, as `struct stat`.

use std::{
    ffi::{c_char, c_int},
    mem,
};

use braid_client::{Attributes, FileIndex, FileKind, Timestamp};
use libc::stat;

use crate::ffi::{
    Outcome, call,
    pointers::{put, text},
    table::{self, DescriptorTarget},
};

/// `st_blksize`: a whole default stripe; see docs/defaults.md.
const TRANSFER_BYTES: i64 = braid_types::limits::STRIPE_BYTES_DEFAULT as i64;

/// Space of the file system.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct braid_space {
    /// Total space, in bytes.
    pub total_bytes: u64,
    /// Space that this user can still write, in bytes.
    pub available_bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Number of I/O daemons.
    pub iods: u32,
    /// Number of I/O daemons that are up.
    pub iods_up: u32,
}

/// As stat(2): attributes; follows a final symbolic link.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_stat(
    cluster: c_int,
    path: *const c_char,
    result: *mut stat,
) -> c_int {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`; also below.
        let attributes = table::cluster(cluster)?.client.stat(unsafe { text(path, "path") }?)?;
        // SAFETY: as above.
        unsafe { store(&attributes, result) }
    })
}

/// As lstat(2): attributes; does not follow a final symbolic link.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_lstat(
    cluster: c_int,
    path: *const c_char,
    result: *mut stat,
) -> c_int {
    call(|| {
        // SAFETY: as above.
        let attributes = table::cluster(cluster)?.client.lstat(unsafe { text(path, "path") }?)?;
        // SAFETY: as above.
        unsafe { store(&attributes, result) }
    })
}

/// As fstat(2), of a file or a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_fstat(file: c_int, result: *mut stat) -> c_int {
    call(|| {
        let attributes = match crate::ffi::process::table().any(file)? {
            DescriptorTarget::File(open) => open.file().attributes()?,
            DescriptorTarget::Directory(directory) => {
                directory.cluster.client.stat(directory.index)?
            }
            DescriptorTarget::Cluster(cluster) => cluster.client.stat(FileIndex::ROOT)?,
        };
        // SAFETY: as above.
        unsafe { store(&attributes, result) }
    })
}

/// As access(2): mode is R_OK, W_OK, X_OK in any combination, or F_OK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_access(cluster: c_int, path: *const c_char, mode: c_int) -> c_int {
    call(|| {
        let mask = u8::try_from(mode).ok().filter(|mask| *mask <= 7);
        let mask = mask.ok_or_else(|| {
            crate::ffi::Failure::invalid(format!(
                "access: mode is {mode}; try: R_OK, W_OK and X_OK, combined"
            ))
        })?;
        // SAFETY: as above.
        let (cluster, path) = (table::cluster(cluster)?, unsafe { text(path, "path") }?);
        cluster.client.access(path, mask)?;
        Ok(0)
    })
}

/// Space of the cluster's file system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_statfs(cluster: c_int, result: *mut braid_space) -> c_int {
    call(|| {
        let found = table::cluster(cluster)?.client.statfs(FileIndex::ROOT)?;
        let space = braid_space {
            total_bytes: found.total.0,
            available_bytes: found.available.0,
            files: found.files,
            iods: found.iods,
            iods_up: found.iods_up,
        };
        // SAFETY: as above.
        unsafe { put(result, space, "result") }?;
        Ok(0)
    })
}

/// # Safety
/// As [`put`].
unsafe fn store(attributes: &Attributes, result: *mut stat) -> Outcome<c_int> {
    // SAFETY: the caller's promise.
    unsafe { put(result, posix(attributes), "result") }?;
    Ok(0)
}

fn posix(from: &Attributes) -> stat {
    // SAFETY: `struct stat` consists of numbers, for which zeros are valid values.
    let mut to: stat = unsafe { mem::zeroed() };
    to.st_ino = from.file.0;
    to.st_mode = kind_bits(from.kind) | (from.mode & 0o7777);
    to.st_nlink = from.links.into();
    // The server has 64-bit user and group ids. An id that does not fit is shown as 2^32 - 2.
    to.st_uid = u32::try_from(from.uid).unwrap_or(u32::MAX - 1);
    to.st_gid = u32::try_from(from.gid).unwrap_or(u32::MAX - 1);
    to.st_rdev = from.device;
    to.st_size = from.bytes.0.cast_signed();
    to.st_blksize = TRANSFER_BYTES;
    to.st_blocks = from.bytes_used.0.div_ceil(512).cast_signed();
    (to.st_atime, to.st_atime_nsec) = time(from.atime);
    (to.st_mtime, to.st_mtime_nsec) = time(from.mtime);
    (to.st_ctime, to.st_ctime_nsec) = time(from.ctime);
    to
}

fn time(at: Timestamp) -> (i64, i64) {
    (at.seconds, at.nanos.into())
}

fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::File => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::Socket => libc::S_IFSOCK,
        FileKind::CharDevice => libc::S_IFCHR,
        FileKind::BlockDevice => libc::S_IFBLK,
        // A file type of a newer server, which POSIX does not have.
        _ => 0,
    }
}
