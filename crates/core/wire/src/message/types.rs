//! Structures that several messages use.

use braid_layout::Layout;
use braid_types::{
    ByteCount, FileIndex, IodId, MapEpoch, ObjectId, PartIndex, SizeGeneration, Timestamp,
};

use super::FileKind;
use crate::codec::{wire_enum, wire_struct};

wire_struct! {
    /// The identity of a caller.
    pub struct Identity {
        /// User id.
        uid: u64,
        /// Primary group id.
        gid: u64,
        /// Supplementary groups.
        groups: Vec<u64>,
        /// The caller has already checked permissions, as a mount's kernel does. The server then
        /// refuses only what it would refuse root, but new files still belong to `uid` and `gid`.
        checked: bool,
    }

    /// Names a file: a path relative to a directory, or with an empty path the directory or file
    /// itself.
    pub struct PathRef {
        /// Start of the path; [`FileIndex::ROOT`] for absolute ones.
        dir: FileIndex,
        /// Components separated by `/`; at most 4096 bytes. A leading `/` is ignored.
        path: Vec<u8>,
    }

    /// Attributes of a file.
    pub struct Attributes {
        /// The file.
        file: FileIndex,
        /// The kind of file.
        kind: FileKind,
        /// Permission bits, setuid, setgid, sticky: the low 12 bits.
        mode: u32,
        /// Link count.
        links: u32,
        /// Owner.
        uid: u64,
        /// Group.
        gid: u64,
        /// Device number of a special file.
        device: u64,
        /// Size in bytes.
        bytes: ByteCount,
        /// Bytes allocated on disks, as far as known.
        bytes_used: ByteCount,
        /// Time of the last read.
        atime: Timestamp,
        /// Time of the last write.
        mtime: Timestamp,
        /// Time of the last attribute change.
        ctime: Timestamp,
        /// Time of creation.
        btime: Timestamp,
        /// Rises with every change.
        change: u64,
        /// Attribute flags: those of `braid_types::dos_attributes`.
        flags: u32,
        /// Rises with every truncate and punch.
        size_generation: SizeGeneration,
        /// Whether the attributes must not be cached under the names lease of the file's directory:
        /// it has several names or none, another client has it open for writing, or its size is not
        /// recorded yet.
        uncacheable: bool,
        /// Whether it has extended attributes, including access control lists. If not, a client
        /// need not ask for any.
        has_xattrs: bool,
    }

    /// One entry of a directory.
    pub struct DirectoryEntry {
        /// Cookie to continue after this entry.
        cookie: u64,
        /// The name.
        name: Vec<u8>,
        /// The file.
        file: FileIndex,
        /// The kind of file.
        kind: FileKind,
        /// Its attributes, if requested.
        attributes: Option<Attributes>,
    }

    /// A hint for the layout of new files. `None` leaves a value to the directory's default.
    pub struct LayoutHint {
        /// The distribution.
        distribution: Option<DistributionHint>,
        /// Bytes in one strip.
        stripe_bytes: Option<u64>,
        /// Number of parts (the papers' I/O daemon count).
        parts: Option<u16>,
        /// Position, in the list of usable I/O daemons, of the one that gets the first part (the
        /// 2008 paper's starting I/O node).
        first_iod: Option<u16>,
        /// Cycle of a varstrip: (part, bytes).
        strips: Vec<(u16, u64)>,
        /// Parts in a group, for grouped.
        group_width: Option<u16>,
        /// Rows in a group, for grouped.
        group_depth: Option<u32>,
        /// How to choose the I/O daemons.
        placement: Option<Placement>,
        /// Only I/O daemons with all of these labels, `key=value`.
        labels: Vec<String>,
    }

    /// An I/O daemon in the cluster map.
    pub struct IodInfo {
        /// Stable id.
        id: IodId,
        /// Host and port of each network interface, `host:port`.
        addresses: Vec<String>,
        /// `key=value`.
        labels: Vec<String>,
        /// Up, down, draining, removed.
        state: IodState,
        /// Free space of its disk.
        space: Space,
    }

    /// Free space of a disk.
    pub struct Space {
        /// Id of the disk, so that a disk that several daemons share is counted once.
        device: u64,
        /// Size of the disk.
        total: ByteCount,
        /// Unused bytes.
        free: ByteCount,
        /// Bytes that an unprivileged user may still write: without the disk's reserve for root and
        /// without reservations of sessions.
        available: ByteCount,
        /// Objects that can still be created.
        files_free: u64,
    }

    /// The servers of the cluster.
    pub struct ClusterMap {
        /// Rises with every change.
        epoch: MapEpoch,
        /// Addresses of the metadata server.
        mds: Vec<String>,
        /// Every I/O daemon that ever registered.
        iods: Vec<IodInfo>,
    }

    /// The state of an object at its daemon.
    pub struct ObjectInfo {
        /// The part.
        part: PartIndex,
        /// Whether it exists.
        exists: bool,
        /// Its length.
        bytes: ByteCount,
        /// Bytes that it uses on disk.
        bytes_used: ByteCount,
        /// Time of its last write, on the metadata server's clock.
        mtime: Timestamp,
    }

    /// An object with its record, for fsck.
    pub struct ObjectRecord {
        /// The object.
        object: ObjectId,
        /// Its length, including bytes that it has lost.
        bytes: ByteCount,
        /// The end of its file if flushed bytes beyond it are lost. 0 when its record is
        /// unreadable.
        lost_from: Option<ByteCount>,
        /// Its size generation.
        size_generation: SizeGeneration,
        /// Owner and group of its file at its creation.
        owner: (u64, u64),
        /// Layout of its file at its creation; `None` when its record is unreadable.
        layout: Option<Layout>,
    }
}

/// New files avoid a daemon with less free space than this percentage of its disk. Existing files
/// there keep growing, and their writers get "no space" although other disks have space.
const NEARLY_FULL_PERCENT: u64 = 5;
/// The limit is never above this many bytes. Reported free space is one heartbeat (1 s) old, and a
/// disk takes some GB in that time; 5 % of a large disk would waste much space.
const NEARLY_FULL_BYTES: u64 = 16 << 30;

impl Space {
    /// Whether new files should avoid this disk. `false` while its size is unknown.
    pub fn is_nearly_full(&self) -> bool {
        let share = self.total.0 / 100 * NEARLY_FULL_PERCENT;
        self.available.0 < share.min(NEARLY_FULL_BYTES)
    }
}

impl LayoutHint {
    /// No hint: everything is left to the directory.
    pub fn none() -> Self {
        Self {
            distribution: None,
            stripe_bytes: None,
            parts: None,
            first_iod: None,
            strips: Vec::new(),
            group_width: None,
            group_depth: None,
            placement: None,
            labels: Vec::new(),
        }
    }
}

impl Default for LayoutHint {
    fn default() -> Self {
        Self::none()
    }
}

impl PathRef {
    /// The file itself.
    pub fn file(file: FileIndex) -> Self {
        Self { dir: file, path: Vec::new() }
    }

    /// A path from the root.
    pub fn root(path: &[u8]) -> Self {
        Self { dir: FileIndex::ROOT, path: path.to_vec() }
    }
}

impl Identity {
    /// The superuser.
    pub fn root() -> Self {
        Self { uid: 0, gid: 0, groups: Vec::new(), checked: false }
    }

    /// A user whose permissions the caller has checked. Only callers that may also name root can
    /// use it.
    pub fn checked(uid: u64, gid: u64) -> Self {
        Self { uid, gid, groups: Vec::new(), checked: true }
    }
}

wire_enum! {
    /// The kind of a distribution.
    pub enum DistributionHint {
        /// Round robin.
        SimpleStripe = 1,
        /// The whole file in one part.
        Single = 2,
        /// A cycle of strips of different sizes.
        VarStrip = 3,
        /// Two-dimensional striping.
        Grouped = 4,
    }

    /// How the I/O daemons of a new file are chosen.
    pub enum Placement {
        /// In turn.
        RoundRobin = 1,
        /// Those with the most free space first.
        FreeSpace = 2,
        /// By the owner's user id.
        Owner = 3,
    }

    /// State of an I/O daemon.
    pub enum IodState {
        /// It serves.
        Up = 1,
        /// It has not sent a heartbeat recently.
        Down = 2,
        /// It serves, but gets no new files.
        Draining = 3,
        /// It has left the cluster for good, with all its objects.
        Removed = 4,
    }
}
