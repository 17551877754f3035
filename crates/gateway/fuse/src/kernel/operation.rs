//! The requests of the kernel.

use super::{Forget, Time};

/// One request, parsed. Names are complete and without NUL; `flags` of opens are `O_*`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named after the arguments of the system calls
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    /// FORGET and BATCH_FORGET, for [`super::Handler::forget`]. There is no reply.
    Forget(Forgotten<'a>),
    /// `handle`: the open file of the caller, for `fstat`.
    GetAttributes {
        handle: Option<u64>,
    },
    SetAttributes(SetAttributes),
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MakeNode {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        device: u32,
    },
    MakeDirectory {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveDirectory {
        name: &'a [u8],
    },
    /// RENAME and RENAME2; `flags` are `RENAME_*`.
    Rename {
        name: &'a [u8],
        new_parent: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    /// The header's node is the directory of the new name.
    Link {
        node: u64,
        new_name: &'a [u8],
    },
    /// `kill_suidgid`: with `O_TRUNC`, by a process without `CAP_FSETID`.
    Open {
        flags: u32,
        kill_suidgid: bool,
    },
    Read {
        handle: u64,
        offset: u64,
        size: u32,
        flags: u32,
        lock_owner: Option<u64>,
    },
    /// `from_cache`: pages of a mapping; `handle` is then any handle that can write, and the
    /// header's uid and gid have no meaning.
    Write {
        handle: u64,
        offset: u64,
        data: &'a [u8],
        flags: u32,
        lock_owner: Option<u64>,
        from_cache: bool,
        kill_suidgid: bool,
    },
    StatFs,
    /// The last descriptor is closed. `flock_unlock`: the `flock` locks of `lock_owner` end.
    Release {
        handle: u64,
        flags: u32,
        lock_owner: u64,
        flush: bool,
        flock_unlock: bool,
    },
    Sync {
        handle: u64,
        data_only: bool,
    },
    /// `flags`: `XATTR_CREATE`, `XATTR_REPLACE`.
    SetXattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: u32,
        acl_kill_sgid: bool,
    },
    /// `size` 0: the reply is the length only ([`super::Reply::xattr_size`]).
    GetXattr {
        name: &'a [u8],
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    /// A descriptor is closed (others may be open): its owner's POSIX locks end.
    Flush {
        handle: u64,
        lock_owner: u64,
    },
    OpenDirectory {
        flags: u32,
    },
    /// READDIR and READDIRPLUS. `offset`: that of the last entry received, 0 at the beginning.
    ReadDirectory {
        handle: u64,
        offset: u64,
        size: u32,
        plus: bool,
    },
    ReleaseDirectory {
        handle: u64,
        flags: u32,
    },
    SyncDirectory {
        handle: u64,
        data_only: bool,
    },
    TestLock(Lock),
    /// SETLK and, with `wait`, SETLKW.
    SetLock {
        lock: Lock,
        wait: bool,
    },
    Access {
        mask: u32,
    },
    Create {
        name: &'a [u8],
        flags: u32,
        mode: u32,
        umask: u32,
        kill_suidgid: bool,
    },
    /// A file without a name in the header's directory.
    TemporaryFile {
        flags: u32,
        mode: u32,
        umask: u32,
    },
    /// Served by this module.
    Init {
        minor: u32,
        major: u32,
        read_ahead_bytes_max: u32,
        flags: u64,
    },
    /// Served by this module.
    Interrupt {
        unique: u64,
    },
    /// Served by this module.
    Destroy,
    BlockMap {
        block: u64,
        block_size: u32,
    },
    Ioctl {
        handle: u64,
        flags: u32,
        command: u32,
        argument: u64,
        data: &'a [u8],
        out_size: u32,
    },
    Poll {
        handle: u64,
        wake: u64,
        flags: u32,
        events: u32,
    },
    /// `mode`: `FALLOC_FL_*`.
    Allocate {
        handle: u64,
        offset: u64,
        length: u64,
        mode: u32,
    },
    /// `whence`: `SEEK_DATA` or `SEEK_HOLE`.
    Seek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    CopyRange {
        handle: u64,
        offset: u64,
        to_node: u64,
        to_handle: u64,
        to_offset: u64,
        length: u64,
        flags: u64,
    },
    SyncFs,
    ExtendedStat {
        handle: Option<u64>,
        flags: u32,
        mask: u32,
    },
    /// A request that is newer than this code. This module replies ENOSYS.
    Unknown,
}

impl Operation<'_> {
    /// Whether it changes nothing, so that its handler may be abandoned.
    pub(super) fn changes_nothing(&self) -> bool {
        /// `O_TRUNC` of Linux.
        const TRUNCATE: u32 = rustix::fs::OFlags::TRUNC.bits();
        match self {
            Self::Open { flags, .. } => flags & TRUNCATE == 0,
            Self::Lookup { .. }
            | Self::ReadLink
            | Self::GetAttributes { .. }
            | Self::ExtendedStat { .. } => true,
            Self::Access { .. } | Self::StatFs | Self::GetXattr { .. } | Self::ListXattr { .. } => {
                true
            }
            Self::OpenDirectory { .. } | Self::ReadDirectory { .. } => true,
            Self::Read { .. } | Self::Seek { .. } | Self::TestLock(_) => true,
            _ => false,
        }
    }
}

/// Which attributes to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SetAttributes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<SetTime>,
    pub modified: Option<SetTime>,
    pub changed: Option<Time>,
    /// The open file of the caller (`ftruncate`).
    pub handle: Option<u64>,
    pub lock_owner: Option<u64>,
    /// Clear set-user-id, and set-group-id if the group may execute.
    pub kill_suidgid: bool,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's current time.
    Now,
    /// This time.
    At(Time),
}

/// A lock of a range of bytes, or (`flock`) of the whole file in a space of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The open file.
    pub handle: u64,
    /// The owner: opaque. Locks of one owner do not conflict.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive; `i64::MAX`: to the end of the file, wherever that will be.
    pub end: u64,
    /// Shared, exclusive, or unlock.
    pub kind: LockKind,
    /// The process, for `F_GETLK`.
    pub pid: u32,
    /// `flock(2)` instead of `fcntl(2)`.
    pub flock: bool,
}

/// What a lock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
    /// Unlocks.
    Unlock,
}

/// Nodes to forget, not decoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten<'a> {
    pub(super) one: Option<Forget>,
    /// Whole `fuse_forget_one`s.
    pub(super) many: &'a [u8],
}

impl Forgotten<'_> {
    /// Each node.
    pub fn iter(&self) -> impl Iterator<Item = Forget> + '_ {
        self.one.into_iter().chain(self.many.chunks_exact(16).map(|pair| {
            let (node, lookups) = pair.split_at(8);
            Forget { node: native(node), lookups: native(lookups) }
        }))
    }
}

/// A number in the machine's byte order.
fn native(bytes: &[u8]) -> u64 {
    bytes.try_into().map(u64::from_ne_bytes).unwrap_or_default()
}
