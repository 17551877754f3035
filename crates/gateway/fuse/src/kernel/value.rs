//! The values in replies.

use std::time::Duration;

/// A point in time: seconds since 1970 (negative before) and nanoseconds, `0..1_000_000_000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds after `seconds`.
    pub nanoseconds: u32,
}

/// How long the kernel may use an answer without asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// The kernel asks again at every use.
    Never,
    /// Practically without a time limit (136 years): only a notification ends it.
    Always,
    /// For a time.
    For(Duration),
}

impl Validity {
    /// Seconds and nanoseconds as the kernel counts them.
    pub(super) fn parts(self) -> (u64, u32) {
        match self {
            Self::Never => (0, 0),
            // The kernel's jiffies would limit a longer time; u64::MAX would be negative.
            Self::Always => (u32::MAX.into(), 0),
            Self::For(time) => (time.as_secs().min(u32::MAX.into()), time.subsec_nanos()),
        }
    }
}

/// The attributes of a node, as `stat` shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `st_ino`.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Allocated units of 512 bytes.
    pub blocks: u64,
    /// Last read.
    pub accessed: Time,
    /// Last change of the content.
    pub modified: Time,
    /// Last change of the attributes.
    pub changed: Time,
    /// Kind and permissions, `S_IFMT | 07777`.
    pub mode: u32,
    /// Number of links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The device of a device node, as the kernel packs it in 32 bits ("new" encoding).
    pub device: u32,
    /// `st_blksize`; 0: the kernel's default.
    pub block_size: u32,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The node's number in later requests; never 0, which means an absent name.
    pub node: u64,
    /// Together with `node`, never used again for another file.
    pub generation: u64,
    /// How long the kernel may use the name.
    pub name_valid: Validity,
    /// How long the kernel may use the attributes.
    pub attributes_valid: Validity,
    /// The attributes.
    pub attributes: Attributes,
}

/// The values of `statfs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStat {
    /// All blocks, in units of `fragment_size`.
    pub blocks: u64,
    /// Free ones.
    pub blocks_free: u64,
    /// Free blocks for unprivileged users.
    pub blocks_available: u64,
    /// Inodes.
    pub files: u64,
    /// Free ones.
    pub files_free: u64,
    /// The preferred size of a request, in bytes.
    pub block_size: u32,
    /// The unit of the block counts, bytes.
    pub fragment_size: u32,
    /// The longest name, bytes.
    pub name_len_max: u32,
}

/// The values of `statx`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedStat {
    /// Which fields are valid (`STATX_*`).
    pub mask: u32,
    /// `STATX_ATTR_*` that are set.
    pub flags: u64,
    /// `STATX_ATTR_*` that this file system knows.
    pub flags_known: u64,
    /// Creation time.
    pub created: Time,
    /// The values of `stat`.
    pub attributes: Attributes,
}

/// The kind of a node, as a directory listing shows it (`d_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not known; the program must call `stat`.
    Unknown,
    /// Named pipe.
    Fifo,
    /// Character device.
    CharacterDevice,
    /// Directory.
    Directory,
    /// Block device.
    BlockDevice,
    /// Regular file.
    File,
    /// Symbolic link.
    Symlink,
    /// Socket.
    Socket,
}

impl Kind {
    /// The kind in the upper bits of a mode.
    pub fn of_mode(mode: u32) -> Self {
        match mode >> 12 & 0o17 {
            1 => Self::Fifo,
            2 => Self::CharacterDevice,
            4 => Self::Directory,
            6 => Self::BlockDevice,
            8 => Self::File,
            10 => Self::Symlink,
            12 => Self::Socket,
            _ => Self::Unknown,
        }
    }

    /// `DT_*`: the kind bits of a mode, shifted down.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Unknown => 0,
            Self::Fifo => 1,
            Self::CharacterDevice => 2,
            Self::Directory => 4,
            Self::BlockDevice => 6,
            Self::File => 8,
            Self::Symlink => 10,
            Self::Socket => 12,
        }
    }
}
