//! The numbers of the protocol, as in Linux's `include/uapi/linux/fuse.h` (7.45, Linux 6.18).
//!
//! All integers are in the machine's byte order; every structure is a multiple of 8 bytes.
#![allow(missing_docs)] // the names are the kernel's; the protocol's documentation explains them

/// The major version of the protocol.
pub const MAJOR: u32 = 7;
/// The newest minor version that this code supports.
pub const MINOR: u32 = 45;
/// The oldest minor version that is supported. 7.31 (Linux 5.4) has the last change to the size of
/// a common structure; older kernels have no `FUSE_EXPLICIT_INVAL_DATA` (7.30) either.
pub const MINOR_OLDEST: u32 = 31;
/// The first minor version with `FUSE_EXPIRE_ONLY` (Linux 6.2). An older kernel drops the name and
/// unmounts what is mounted below it.
pub const MINOR_EXPIRE_ONLY: u32 = 38;

/// The node of the mount's root.
pub const ROOT: u64 = 1;

/// `fuse_in_header`.
pub const IN_HEADER_BYTES: usize = 40;
/// `fuse_out_header`.
pub const OUT_HEADER_BYTES: usize = 16;
/// The kernel's limit for what precedes the data of a WRITE (`FUSE_BUFFER_HEADER_SIZE`).
pub const BUFFER_HEADER_BYTES: usize = 4096;
/// The kernel refuses a read of the device with a smaller buffer.
pub const BUFFER_BYTES_MIN: usize = 8192;

/// Requests.
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const BMAP: u32 = 37;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const POLL: u32 = 40;
    pub const NOTIFY_REPLY: u32 = 41;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const SETUPMAPPING: u32 = 48;
    pub const REMOVEMAPPING: u32 = 49;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
    pub const COPY_FILE_RANGE_64: u32 = 53;
}

/// Notifications. The code is in the error field, and unique is 0.
pub mod notify {
    pub const INVAL_INODE: i32 = 2;
    pub const INVAL_ENTRY: i32 = 3;
    /// The kernel answers with a request `NOTIFY_REPLY`.
    pub const RETRIEVE: i32 = 5;
    pub const INC_EPOCH: i32 = 8;
    /// A flag of `INVAL_ENTRY` (`FUSE_EXPIRE_ONLY`).
    pub const EXPIRE_ONLY: u32 = 1;
}

/// Which fields of a SETATTR are set.
pub mod fattr {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const LOCKOWNER: u32 = 1 << 9;
    pub const CTIME: u32 = 1 << 10;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// Flags of the reply to an open.
pub mod fopen {
    /// Reads and writes bypass the kernel's page cache.
    pub const DIRECT_IO: u32 = 1 << 0;
    /// Cached pages from before this open stay.
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const NONSEEKABLE: u32 = 1 << 2;
    /// The directory's listing may be cached.
    pub const CACHE_DIR: u32 = 1 << 3;
    pub const STREAM: u32 = 1 << 4;
    /// No FLUSH at close.
    pub const NOFLUSH: u32 = 1 << 5;
    /// Direct writes of several threads to one file run in parallel.
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    /// The kernel reads and writes a backing file instead of asking (Linux 6.9).
    pub const PASSTHROUGH: u32 = 1 << 7;
}

/// Flags inside requests.
pub mod flag {
    pub const GETATTR_FH: u32 = 1 << 0;
    pub const OPEN_KILL_SUIDGID: u32 = 1 << 0;
    pub const READ_LOCKOWNER: u32 = 1 << 1;
    pub const WRITE_CACHE: u32 = 1 << 0;
    pub const WRITE_LOCKOWNER: u32 = 1 << 1;
    pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
    pub const RELEASE_FLUSH: u32 = 1 << 0;
    pub const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
    pub const FSYNC_FDATASYNC: u32 = 1 << 0;
    pub const LK_FLOCK: u32 = 1 << 0;
    pub const SETXATTR_ACL_KILL_SGID: u32 = 1 << 0;
    /// Extension of a request: supplementary groups of the creating user.
    pub const EXT_GROUPS: u32 = 32;
    /// The unique of an INTERRUPT is that of its request with this bit set.
    pub const UNIQUE_INTERRUPT: u64 = 1;
}
