//! The inode.

use std::sync::Arc;

use braid_layout::Layout;
use braid_types::{FileIndex, PartIndex, SizeGeneration, Timestamp, dos_attributes};

use super::{RecordError, acl, layout};
use crate::acl::InodeAcl;
use crate::codec::{Decoder, Encoder};
use crate::ops::ObjectSummary;

const VERSION: u8 = 1;

/// The kind of a file. The numbers are part of the format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum FileKind {
    /// Bytes in objects.
    Regular = 1,
    /// Names.
    Directory = 2,
    /// A path.
    Symlink = 3,
    /// A named pipe.
    Fifo = 4,
    /// A character device.
    CharDevice = 5,
    /// A block device.
    BlockDevice = 6,
    /// A socket.
    Socket = 7,
}

impl FileKind {
    /// The kind with this number; `None` for an unknown one (I10).
    pub fn from_code(code: u8) -> Option<Self> {
        use FileKind::*;
        [Regular, Directory, Symlink, Fifo, CharDevice, BlockDevice, Socket]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }

    /// Whether `mknod` creates it.
    pub fn is_special(self) -> bool {
        matches!(self, Self::Fifo | Self::CharDevice | Self::BlockDevice | Self::Socket)
    }
}

/// What a [`Principal`]'s number means. The numbers are part of the format.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum PrincipalKind {
    /// A POSIX user or group id.
    #[default]
    Posix = 0,
}

/// An owner or group: a typed 64-bit number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Principal {
    /// What the number means.
    pub kind: PrincipalKind,
    /// The number.
    pub id: u64,
}

impl Principal {
    /// A POSIX user or group.
    pub fn posix(id: u64) -> Self {
        Self { kind: PrincipalKind::Posix, id }
    }
}

/// Which parts of a file have an object (I11): a set of part numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parts(Vec<u8>);

impl Parts {
    /// No part.
    pub fn none() -> Self {
        Self::default()
    }

    /// The first `count` parts.
    pub fn first(count: usize) -> Self {
        let mut parts = Self::default();
        (0..count).for_each(|part| parts.insert(PartIndex(part as u16)));
        parts
    }

    /// The set with these bytes, the lowest part in bit 0 of byte 0.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Self(bytes[..used].to_vec())
    }

    /// Its bytes, the lowest part in bit 0 of byte 0, without trailing zeros.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Adds a part.
    pub fn insert(&mut self, part: PartIndex) {
        let (byte, bit) = (usize::from(part.0 / 8), part.0 % 8);
        if self.0.len() <= byte {
            self.0.resize(byte + 1, 0);
        }
        self.0[byte] |= 1 << bit;
    }

    /// Adds every part of `other`.
    pub fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }

    /// Whether it contains a part.
    pub fn contains(&self, part: PartIndex) -> bool {
        self.0.get(usize::from(part.0 / 8)).is_some_and(|byte| byte >> (part.0 % 8) & 1 == 1)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every part in it, ascending.
    pub fn iter(&self) -> impl Iterator<Item = PartIndex> {
        (0..self.0.len() * 8).map(|part| PartIndex(part as u16)).filter(|part| self.contains(*part))
    }
}

/// All metadata of one file except its names, extended attributes and link target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// Its index. Part of the key, not of the record.
    pub file: FileIndex,
    /// Its kind.
    pub kind: FileKind,
    /// Permission bits with suid, sgid and sticky: `0..=0o7777`.
    pub mode: u16,
    /// Its owner.
    pub owner: Principal,
    /// Its group.
    pub group: Principal,
    /// Hard links. A directory has 2 plus one for each directory in it. 0: an orphan.
    pub nlink: u32,
    /// Bytes of a file or link target; entries of a directory. While `size_in_objects` is set, the
    /// I/O daemons have the current size (I5).
    pub size: u64,
    /// The size mark (I5): the current size is in the objects.
    pub size_in_objects: bool,
    /// Its mtime was set while it had the size mark: writes before its `ctime` do not change it.
    pub mtime_set: bool,
    /// Rises with every truncate and punch (I5).
    pub size_generation: SizeGeneration,
    /// Device number, for device files.
    pub rdev: u64,
    /// Where the bytes are; regular files only.
    pub layout: Option<Arc<Layout>>,
    /// Which parts have an object (I11). While `size_in_objects` is set, some may be missing here.
    pub parts: Parts,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of the bytes or entries.
    pub mtime: Timestamp,
    /// Last change of anything.
    pub ctime: Timestamp,
    /// Creation.
    pub btime: Timestamp,
    /// Change counter: rises with every change, never falls.
    pub change: u64,
    /// Attribute flags. The lower half are those of `braid_types::dos_attributes`. The upper half
    /// are marks of the server, which clients do not see: `NAMES_INDEXED`, `NAMES_BEING_INDEXED`.
    pub flags: u64,
    /// A directory that holds, or held, a name of it. Exactly its parent for a directory, and for a
    /// file that was never `linked`.
    pub parent: FileIndex,
    /// The directory whose quota counts it; 0: none. Its own index for a directory that has a
    /// quota.
    pub quota_directory: FileIndex,
    /// It has, or had, several names: `parent` holds, or held, one of them.
    pub linked: bool,
    /// For a directory: the cookie of the next entry created in it. Never reused (63 bits).
    pub next_cookie: u64,
    /// For a directory: whether it has a record of layout and placement for its children.
    pub has_default: bool,
    /// Whether it has extended attributes.
    pub has_xattrs: bool,
    /// Access control lists; `None` if the mode says everything.
    pub acl: Option<Arc<InodeAcl>>,
    /// Created without a name and not given one yet: only such an orphan may get a name.
    pub unnamed: bool,
}

/// A mark in `flags` of a directory: its index of folded names is complete.
pub(crate) const NAMES_INDEXED: u64 = 1 << 32;
/// A mark in `flags` of a directory: each change of its names updates the index of folded names, in
/// which older names may be missing.
pub(crate) const NAMES_BEING_INDEXED: u64 = 1 << 33;

const SIZE_IN_OBJECTS: u8 = 1;
const HAS_DEFAULT: u8 = 2;
const HAS_XATTRS: u8 = 4;
const HAS_LAYOUT: u8 = 8;
const MTIME_SET: u8 = 16;
const UNNAMED: u8 = 32;
const LINKED: u8 = 64;
/// In a quota directory; its index follows the next cookie. This is the last of the eight bits:
/// every value of the byte has a meaning.
const HAS_TREE: u8 = 128;

impl Inode {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::append_to(Vec::with_capacity(320));
        self.write(&mut out);
        out.finish()
    }

    pub(crate) fn write(&self, out: &mut Encoder) {
        let tag = acl::tag(self.acl.as_deref());
        out.u8(VERSION).u8(self.kind as u8).u16(self.mode).u8(self.marks()).u8(tag);
        for principal in [self.owner, self.group] {
            out.u8(principal.kind as u8).u64(principal.id);
        }
        out.u32(self.nlink).u64(self.size).u64(self.size_generation.0).u64(self.rdev);
        for time in [self.atime, self.mtime, self.ctime, self.btime] {
            out.time(time);
        }
        out.u64(self.change).u64(self.flags).u64(self.parent.0).u64(self.next_cookie);
        if self.quota_directory.0 != 0 {
            out.u64(self.quota_directory.0);
        }
        out.u16(self.parts.0.len() as u16).raw(&self.parts.0);
        if let Some(layout) = &self.layout {
            layout::encode(out, layout);
        }
        if let Some(lists) = &self.acl {
            acl::encode(out, lists);
        }
    }

    fn marks(&self) -> u8 {
        let mark = |set: bool, mark: u8| if set { mark } else { 0 };
        mark(self.size_in_objects, SIZE_IN_OBJECTS)
            | mark(self.has_default, HAS_DEFAULT)
            | mark(self.has_xattrs, HAS_XATTRS)
            | mark(self.layout.is_some(), HAS_LAYOUT)
            | mark(self.mtime_set, MTIME_SET)
            | mark(self.linked, LINKED)
            | mark(self.unnamed, UNNAMED)
            | mark(self.quota_directory.0 != 0, HAS_TREE)
    }

    pub(crate) fn decode(file: FileIndex, bytes: &[u8]) -> Result<Self, RecordError> {
        let mut from = Decoder::new("inode", VERSION, bytes)?;
        let kind = FileKind::from_code(from.u8()?).ok_or(from.broken())?;
        let mode = from.u16()?;
        let (marks, tag) = (from.u8()?, from.u8()?);
        if tag > acl::TAG_NFS4 || mode > 0o7777 {
            return Err(from.broken());
        }
        let inode = Self {
            file,
            kind,
            mode,
            owner: principal(&mut from)?,
            group: principal(&mut from)?,
            nlink: from.u32()?,
            size: from.u64()?,
            size_in_objects: marks & SIZE_IN_OBJECTS != 0,
            mtime_set: marks & MTIME_SET != 0,
            linked: marks & LINKED != 0,
            size_generation: SizeGeneration(from.u64()?),
            rdev: from.u64()?,
            atime: from.time()?,
            mtime: from.time()?,
            ctime: from.time()?,
            btime: from.time()?,
            change: from.u64()?,
            flags: from.u64()?,
            parent: FileIndex(from.u64()?),
            next_cookie: from.u64()?,
            quota_directory: if marks & HAS_TREE != 0 { tree(&mut from)? } else { FileIndex(0) },
            has_default: marks & HAS_DEFAULT != 0,
            has_xattrs: marks & HAS_XATTRS != 0,
            unnamed: marks & UNNAMED != 0,
            parts: parts(&mut from)?,
            layout: if marks & HAS_LAYOUT != 0 {
                Some(Arc::new(layout::decode(&mut from)?))
            } else {
                None
            },
            acl: acl::decode(&mut from, tag, kind == FileKind::Directory)?.map(Arc::new),
        };
        from.finish()?;
        Ok(inode)
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Whether each change of its names updates the index of folded names.
    pub(crate) fn keeps_name_index(&self) -> bool {
        self.is_directory() && self.flags & (NAMES_INDEXED | NAMES_BEING_INDEXED) != 0
    }

    /// Whether its index of folded names has all of its names.
    pub(crate) fn has_name_index(&self) -> bool {
        self.is_directory() && self.flags & NAMES_INDEXED != 0
    }

    /// The inode with the state of its objects. The same value is recorded later, so that a caller
    /// that was given it before, and caches it, has the recorded state.
    pub fn with_objects(&self, found: &ObjectSummary) -> Self {
        let mut new = self.clone();
        new.size = found.size;
        new.parts.merge(&found.parts);
        if let Some(mtime) = found.mtime.filter(|mtime| *mtime > self.mtime) {
            new.mtime = mtime;
            new.ctime = new.ctime.max(mtime);
        }
        if new.mtime != self.mtime || new.size != self.size {
            // Also for a write before the last change of the flags: a backup then saves the file
            // once more than needed, but never once less.
            new.note_write();
        }
        // Writes do not pass through the server, and one may leave size and time unchanged. The
        // counter therefore rises with each query of objects that may have changed.
        new.change = found.change.max(self.change);
        new
    }

    /// Notes in the attribute flags that the bytes have changed.
    pub(crate) fn note_write(&mut self) {
        let flags = u64::from(dos_attributes::after_write(self.flags as u32));
        self.flags = self.flags & !u64::from(u32::MAX) | flags;
    }

    /// Notes a change of anything at `now`.
    pub(crate) fn touch(&mut self, now: Timestamp) {
        self.ctime = now;
        self.change += 1;
    }

    /// Notes a change of the bytes or entries at `now`.
    pub(crate) fn modify(&mut self, now: Timestamp) {
        self.mtime = now;
        self.touch(now);
    }
}

fn principal(from: &mut Decoder<'_>) -> Result<Principal, RecordError> {
    match from.u8()? {
        0 => Ok(Principal::posix(from.u64()?)),
        _ => Err(from.broken()),
    }
}

fn tree(from: &mut Decoder<'_>) -> Result<FileIndex, RecordError> {
    match from.u64()? {
        0 => Err(from.broken()),
        tree => Ok(FileIndex(tree)),
    }
}

fn parts(from: &mut Decoder<'_>) -> Result<Parts, RecordError> {
    let bytes = usize::from(from.u16()?);
    Ok(Parts::from_bytes(from.raw(bytes)?))
}
