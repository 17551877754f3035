//! What the kernel offers at INIT, and what a handler wants of it.

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
    /// Several reads of a file may be under way at once.
    ASYNC_READ = 0,
    /// `fcntl` locks are asked of the file system; else they hold on this machine only.
    POSIX_LOCKS = 1,
    /// `O_TRUNC` comes with the open, instead of a SETATTR after it. Linux then finds out only after the open that the file
    /// is a program that runs (`ETXTBSY`), when it is empty already.
    ATOMIC_O_TRUNC = 3,
    /// LOOKUP of `.` and `..` works (NFS export of the mount).
    EXPORT_SUPPORT = 4,
    /// Writes larger than a page.
    BIG_WRITES = 5,
    /// The handler applies the umask (it must, where a default ACL takes the umask's place).
    DONT_MASK = 6,
    /// `flock` locks are asked of the file system.
    FLOCK_LOCKS = 10,
    /// `ioctl` on directories.
    HAS_IOCTL_DIR = 11,
    /// The kernel drops pages when it sees another mtime or size.
    AUTO_INVAL_DATA = 12,
    /// Listings bring attributes.
    DO_READDIRPLUS = 13,
    /// ... only where a listing seems to be followed by `stat`s.
    READDIRPLUS_AUTO = 14,
    /// Parts of one `O_DIRECT` request may be under way at once.
    ASYNC_DIO = 15,
    /// The kernel gathers writes, and owns size and times: never coherent between mounts.
    WRITEBACK_CACHE = 16,
    /// OPEN may be answered ENOSYS, then none is sent.
    NO_OPEN_SUPPORT = 17,
    /// Lookups and listings of one directory may be under way at once.
    PARALLEL_DIROPS = 18,
    /// The first version of HANDLE_KILLPRIV_V2; never with it.
    HANDLE_KILLPRIV = 19,
    /// The kernel checks POSIX ACLs, and asks for them as xattrs.
    POSIX_ACL = 20,
    /// A connection that was aborted reads as ECONNABORTED, not ENODEV.
    ABORT_ERROR = 21,
    /// Requests of more than 32 pages.
    MAX_PAGES = 22,
    /// The text of a symlink is cached.
    CACHE_SYMLINKS = 23,
    /// OPENDIR may be answered ENOSYS, then none is sent.
    NO_OPENDIR_SUPPORT = 24,
    /// Pages are dropped only by notification (and truncate), not for a new mtime.
    EXPLICIT_INVAL_DATA = 25,
    /// The handler clears set-user-id and set-group-id bits and `security.capability`: whenever
    /// `kill_suidgid` is said, and at each chown of what is no directory.
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
    /// The kernel reads and writes a file of a local file system by itself.
    PASSTHROUGH = 37,
    /// File handles of an export are refused.
    NO_EXPORT_SUPPORT = 38,
    /// Requests under way can be sent again to a new process.
    HAS_RESEND = 39,
    /// Id-mapped mounts.
    ALLOW_IDMAP = 40,
    /// Requests over io_uring.
    OVER_IO_URING = 41,
    /// The kernel aborts a connection that leaves a request unanswered for too long.
    REQUEST_TIMEOUT = 42,
}

impl Features {
    /// Whether all of `other` is in here.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is in both.
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

/// What the kernel said at INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFeatures {
    /// Minor version of protocol 7 that both sides speak.
    pub minor: u32,
    /// All that it offers.
    pub offered: Features,
    /// Its bound on read-ahead, bytes.
    pub read_ahead_bytes_max: u32,
}

impl KernelFeatures {
    /// Whether [`super::Notifier::expire`] works. Without it names must go out with
    /// [`super::Validity::Never`].
    pub fn expires_names(&self) -> bool {
        self.minor >= super::abi::MINOR_EXPIRE_ONLY
    }
}

/// What a handler wants; what the kernel lacks is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Flags. `INIT_EXT`, `MAX_PAGES`, `BIG_WRITES`, `ABORT_ERROR` and `SETXATTR_EXT` are always asked for.
    pub features: Features,
    /// Largest READ and WRITE, bytes; at most 1 MiB (256 pages, the kernel's limit).
    pub request_bytes_max: u32,
    /// How far the kernel may read ahead, bytes.
    pub read_ahead_bytes: u32,
    /// Read-aheads and asynchronous direct requests under way at most.
    pub background_max: u16,
    /// From this many on the kernel counts the device as congested and reads ahead less.
    pub congestion_threshold: u16,
    /// The kernel ends the whole mount when a request is unanswered for this long (`REQUEST_TIMEOUT`).
    /// A wait for a lock counts: only for handlers that bound it.
    pub request_timeout: Option<Duration>,
}

impl Default for Wanted {
    /// What is right for any handler: whole requests, side by side.
    fn default() -> Self {
        use Features as F;
        Self {
            features: F::ASYNC_READ | F::PARALLEL_DIROPS | F::ASYNC_DIO,
            request_bytes_max: 1 << 20,
            read_ahead_bytes: 1 << 20,
            background_max: 64,
            congestion_threshold: 48,
            request_timeout: None,
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
