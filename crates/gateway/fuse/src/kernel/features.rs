//! The features that the kernel offers at INIT, and those that a handler wants.

use std::ops::{BitOr, BitOrAssign, Sub};
use std::time::Duration;

/// A set of INIT flags (`FUSE_*`): the low 32 bits of the protocol and the 32 of `flags2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u64);

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $bit:literal,)*) => {
        impl Features {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
            /// Every flag with its name.
            pub(super) const NAMES: &[(Self, &str)] = &[$((Self::$name, stringify!($name)),)*];
        }
    };
}

features! {
    /// Several reads of a file may run at the same time.
    ASYNC_READ = 0,
    /// The file system handles `fcntl` locks; otherwise they hold on this machine only.
    POSIX_LOCKS = 1,
    /// `O_TRUNC` comes with the open, instead of a SETATTR after it. Linux then notices only after
    /// the open that the file is a running program (`ETXTBSY`), when it is truncated already.
    ATOMIC_O_TRUNC = 3,
    /// LOOKUP of `.` and `..` works (NFS export of the mount).
    EXPORT_SUPPORT = 4,
    /// Writes larger than a page.
    BIG_WRITES = 5,
    /// The handler applies the umask. It must, since a default ACL replaces the umask.
    DONT_MASK = 6,
    /// The file system handles `flock` locks.
    FLOCK_LOCKS = 10,
    /// `ioctl` on directories.
    HAS_IOCTL_DIR = 11,
    /// The kernel drops pages when it sees another mtime or size.
    AUTO_INVAL_DATA = 12,
    /// Listings have attributes.
    DO_READDIRPLUS = 13,
    /// ... only where `stat` calls seem to follow a listing.
    READDIRPLUS_AUTO = 14,
    /// Parts of one `O_DIRECT` request may run at the same time.
    ASYNC_DIO = 15,
    /// The kernel buffers writes, and owns size and times: not coherent between mounts.
    WRITEBACK_CACHE = 16,
    /// OPEN may be answered ENOSYS, then none is sent.
    NO_OPEN_SUPPORT = 17,
    /// Lookups and listings of one directory may run at the same time.
    PARALLEL_DIROPS = 18,
    /// The first version of HANDLE_KILLPRIV_V2; never used together.
    HANDLE_KILLPRIV = 19,
    /// The kernel checks POSIX ACLs, and reads them as xattrs.
    POSIX_ACL = 20,
    /// A read of an aborted connection fails with ECONNABORTED, not ENODEV.
    ABORT_ERROR = 21,
    /// Requests of more than 32 pages.
    MAX_PAGES = 22,
    /// The target of a symlink is cached.
    CACHE_SYMLINKS = 23,
    /// OPENDIR may be answered ENOSYS, then none is sent.
    NO_OPENDIR_SUPPORT = 24,
    /// Pages are dropped only by a notification or a truncate, not for a new mtime.
    EXPLICIT_INVAL_DATA = 25,
    /// The handler clears set-user-id and set-group-id bits and `security.capability`: where a
    /// request has `kill_suidgid`, and at each chown of a file that is not a directory.
    HANDLE_KILLPRIV_V2 = 28,
    /// SETXATTR says whether an ACL clears the set-group-id bit.
    SETXATTR_EXT = 29,
    /// There is a `flags2`.
    INIT_EXT = 30,
    /// A name can be expired without being dropped.
    HAS_EXPIRE_ONLY = 35,
    /// Creation says whether the caller is in the parent's group.
    CREATE_SUPP_GROUP = 34,
    /// A file open with `DIRECT_IO` may still be mapped shared.
    DIRECT_IO_ALLOW_MMAP = 36,
    /// The kernel reads and writes a file of a local file system by itself
    /// ([`super::BackingFiles`]). Needs [`Wanted::stack_depth`].
    PASSTHROUGH = 37,
    /// File handles of an export are refused.
    NO_EXPORT_SUPPORT = 38,
    /// Pending requests can be sent again to a new process.
    HAS_RESEND = 39,
    /// Id-mapped mounts.
    ALLOW_IDMAP = 40,
    /// Requests over io_uring.
    OVER_IO_URING = 41,
    /// The kernel aborts a connection that leaves a request unanswered for too long.
    REQUEST_TIMEOUT = 42,
}

impl Features {
    /// Whether all of `other` is in this set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The features that are in both sets.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Features {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Features {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Sub for Features {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// What the kernel offers at INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFeatures {
    /// Minor version of protocol 7 that both sides use.
    pub minor: u32,
    /// All features that it offers.
    pub offered: Features,
    /// Its limit for read-ahead, in bytes.
    pub read_ahead_bytes_max: u32,
}

impl KernelFeatures {
    /// Whether [`super::Notifier::expire`] works. Without it replies must have
    /// [`super::Validity::Never`] for names.
    pub fn expires_names(&self) -> bool {
        self.minor >= super::abi::MINOR_EXPIRE_ONLY
    }
}

/// What a handler wants; features that the kernel lacks are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Flags. `INIT_EXT`, `MAX_PAGES`, `BIG_WRITES`, `ABORT_ERROR` and `SETXATTR_EXT` are always
    /// requested.
    pub features: Features,
    /// Largest READ and WRITE, bytes; at most 1 MiB (256 pages, the kernel's limit).
    pub request_bytes_max: u32,
    /// How far the kernel may read ahead, bytes.
    pub read_ahead_bytes: u32,
    /// Read-aheads and asynchronous direct requests that run at most.
    pub background_max: u16,
    /// From this number on the kernel treats the device as congested and reads ahead less.
    pub congestion_threshold: u16,
    /// The kernel ends the whole mount when a request is unanswered for this long
    /// (`REQUEST_TIMEOUT`). A wait for a lock counts, so this is only for handlers that limit it.
    pub request_timeout: Option<Duration>,
    /// With `PASSTHROUGH`: how many file systems may be stacked, this one included, 1 or 2 (the
    /// kernel's `FILESYSTEM_MAX_STACK_DEPTH`). A backing file must be on a file system of a lower
    /// depth. With 1 it cannot be on overlayfs or on another mount with passthrough, and one of
    /// these may be stacked on this mount. With 2 it is the reverse.
    ///
    /// `PASSTHROUGH` is left out with any other depth, and where `WRITEBACK_CACHE` is agreed: the
    /// kernel would ignore it then.
    pub stack_depth: u32,
}

impl Default for Wanted {
    /// Suitable for any handler: requests of full size, in parallel.
    fn default() -> Self {
        use Features as F;
        Self {
            features: F::ASYNC_READ | F::PARALLEL_DIROPS | F::ASYNC_DIO,
            request_bytes_max: 1 << 20,
            read_ahead_bytes: 1 << 20,
            background_max: 64,
            congestion_threshold: 48,
            request_timeout: None,
            stack_depth: 0,
        }
    }
}

impl std::fmt::Display for Features {
    /// The names, with `+` between them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = Self::NAMES.iter().filter(|(flag, _)| self.contains(*flag));
        let names: Vec<&str> = known.map(|(_, name)| *name).collect();
        f.write_str(&names.join("+"))
    }
}
