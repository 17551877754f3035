//! What several messages carry.

use braid_layout::Layout;
use braid_types::{
    ByteCount, FileIndex, IodId, MapEpoch, ObjectId, PartIndex, SizeGeneration, Timestamp,
};

use super::FileKind;
use crate::codec::{wire_enum, wire_struct};

wire_struct! {
    /// Who asks: user, primary group, supplementary groups.
    pub struct Identity {
        /// User.
        uid: u64,
        /// Primary group.
        gid: u64,
        /// Supplementary groups.
        groups: Vec<u64>,
        /// Somebody who vouches has asked the permissions already, as a mount's kernel does: the server refuses nothing
        /// that it would not refuse root, and what is made belongs to `uid` and `gid` all the same.
        checked: bool,
    }

    /// A place in the namespace: a path from a directory, or with an empty path the file itself.
    pub struct At {
        /// Where the path starts; [`FileIndex::ROOT`] for absolute ones.
        dir: FileIndex,
        /// Components separated by `/`; at most 4096 bytes. A leading `/` is ignored.
        path: Vec<u8>,
    }

    /// Attributes of a file.
    pub struct Attributes {
        /// Which file.
        file: FileIndex,
        /// What it is.
        kind: FileKind,
        /// Permission bits, setuid, setgid, sticky: the low 12 bits.
        mode: u32,
        /// Names it has.
        links: u32,
        /// Owner.
        uid: u64,
        /// Group.
        gid: u64,
        /// Device number of a special file.
        device: u64,
        /// Size in bytes.
        bytes: ByteCount,
        /// Bytes taken on disks, as far as known.
        bytes_used: ByteCount,
        /// Last read.
        atime: Timestamp,
        /// Last write.
        mtime: Timestamp,
        /// Last change of attributes.
        ctime: Timestamp,
        /// Birth.
        btime: Timestamp,
        /// Rises with every change.
        change: u64,
        /// Attribute flags.
        flags: u32,
        /// Rises with every truncate and punch.
        size_generation: SizeGeneration,
        /// Not to be kept under the names lease of its directory: it has several names or none, somebody else has it
        /// open for writing, or its size is not settled yet.
        shared: bool,
        /// Whether it has extended attributes, access control lists among them. One that has none need not be asked for any.
        has_xattrs: bool,
    }

    /// One entry of a listing.
    pub struct DirectoryEntry {
        /// Where to go on after this entry.
        cookie: u64,
        /// The name.
        name: Vec<u8>,
        /// The file.
        file: FileIndex,
        /// What it is.
        kind: FileKind,
        /// Its attributes, where asked for.
        attributes: Option<Attributes>,
    }

    /// What a user asks of the layout of new files; `None` leaves it to the directory.
    pub struct LayoutWish {
        /// How bytes are spread.
        distribution: Option<WishedDistribution>,
        /// Bytes in one strip.
        stripe_bytes: Option<u64>,
        /// Parts of the file (the papers' I/O daemon count).
        parts: Option<u16>,
        /// Ordinal, in the list of usable I/O daemons, of the one that gets the first part (the 2008 paper's starting I/O node).
        first_iod: Option<u16>,
        /// Cycle of a varstrip: (part, bytes).
        strips: Vec<(u16, u64)>,
        /// Parts in a group, for grouped.
        group_width: Option<u16>,
        /// Rows in a group, for grouped.
        group_depth: Option<u32>,
        /// How I/O daemons are picked.
        placement: Option<Placement>,
        /// Only I/O daemons with all of these labels, `key=value`.
        labels: Vec<String>,
    }

    /// An I/O daemon in the cluster map.
    pub struct IodInfo {
        /// Stable id.
        id: IodId,
        /// Host and port of each network card, `host:port`.
        addresses: Vec<String>,
        /// `key=value`.
        labels: Vec<String>,
        /// Up, down, draining, removed.
        state: IodState,
        /// Room on its disk.
        space: Space,
    }

    /// Room on one disk.
    pub struct Space {
        /// Names the disk, so that one that several daemons share is counted once.
        device: u64,
        /// All of it.
        total: ByteCount,
        /// What nobody has taken.
        free: ByteCount,
        /// What an ordinary user may still write: without what the disk keeps for root, and without what is kept for sessions.
        available: ByteCount,
        /// Objects that may still be made.
        files_free: u64,
    }

    /// Who is where.
    pub struct ClusterMap {
        /// Rises with every change.
        epoch: MapEpoch,
        /// Addresses of the metadata server.
        mds: Vec<String>,
        /// Every I/O daemon that ever joined.
        iods: Vec<IodInfo>,
    }

    /// One object as its daemon sees it.
    pub struct ObjectInfo {
        /// The part.
        part: PartIndex,
        /// Whether it is there.
        exists: bool,
        /// Its length.
        bytes: ByteCount,
        /// Bytes that it takes on disk.
        bytes_used: ByteCount,
        /// Its last write, in the metadata server's time.
        mtime: Timestamp,
    }

    /// One object with its record, for fsck.
    pub struct ObjectRecord {
        /// The object.
        object: ObjectId,
        /// Its length, also of what it has lost.
        bytes: ByteCount,
        /// Where its file ends, when that is before what was flushed of it: the rest is lost. 0 when its record is unreadable.
        lost_from: Option<ByteCount>,
        /// Its size generation.
        size_generation: SizeGeneration,
        /// Owner and group of its file when it was made.
        owner: (u64, u64),
        /// The layout of its file when it was made; `None` when its record is unreadable.
        layout: Option<Layout>,
    }
}

/// New files leave a daemon out that has less room than this in a hundred of its disk: what already lies there goes on growing,
/// and its writers are told that the disk is full although others have room.
const NEARLY_FULL_PERCENT: u64 = 5;
/// And less than this. What is told of room is a heartbeat (1 s) old: a disk takes some GB in that time, and 5 % of a large disk
/// would be much to leave unused.
const NEARLY_FULL_BYTES: u64 = 16 << 30;

impl Space {
    /// Whether new files are better placed elsewhere. Of a disk that has not told its size it is not known.
    pub fn is_nearly_full(&self) -> bool {
        let share = self.total.0 / 100 * NEARLY_FULL_PERCENT;
        self.available.0 < share.min(NEARLY_FULL_BYTES)
    }
}

impl LayoutWish {
    /// Everything left to the directory.
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

impl Default for LayoutWish {
    fn default() -> Self {
        Self::none()
    }
}

impl At {
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

    /// A user whose permissions the caller has asked itself. Of use only to those who may name root, too.
    pub fn checked(uid: u64, gid: u64) -> Self {
        Self { uid, gid, groups: Vec::new(), checked: true }
    }
}

wire_enum! {
    /// Distributions by name.
    pub enum WishedDistribution {
        /// Round robin.
        SimpleStripe = 1,
        /// The whole file in one part.
        Single = 2,
        /// A cycle of strips of different sizes.
        VarStrip = 3,
        /// Two-dimensional.
        Grouped = 4,
    }

    /// How the I/O daemons of a new file are picked.
    pub enum Placement {
        /// One after the other.
        RoundRobin = 1,
        /// Those with the most room first.
        FreeSpace = 2,
        /// By the owner's user id.
        Owner = 3,
    }

    /// State of an I/O daemon.
    pub enum IodState {
        /// Serves.
        Up = 1,
        /// Was not heard of.
        Down = 2,
        /// Serves, but gets no new files.
        Draining = 3,
        /// Is out of the cluster for good, and what lay on it with it.
        Removed = 4,
    }
}
