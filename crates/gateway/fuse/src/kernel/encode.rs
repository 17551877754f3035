//! Encodes replies. No I/O.

use super::abi::{OUT_HEADER_BYTES, fopen};
use super::{
    Attributes, Entry, ExtendedStat, Kind, Lock, LockKind, Opened, SpaceStat, Time, Validity,
};

/// A header and the largest fixed reply: `fuse_statx_out`, 288 bytes.
const MESSAGE_BYTES_MAX: usize = OUT_HEADER_BYTES + 288;

/// The fixed part of a message to the kernel: the header and the numbers after it.
pub(super) struct Message {
    bytes: [u8; MESSAGE_BYTES_MAX],
    len: usize,
}

impl Message {
    /// A reply: `error` is 0 or a negative errno. A notification: `error` is its code and `unique`
    /// 0.
    pub(super) fn new(unique: u64, error: i32) -> Self {
        let mut message = Self { bytes: [0; MESSAGE_BYTES_MAX], len: 0 };
        message.u32(0).i32(error).u64(unique);
        message
    }

    /// The bytes of the message. `payload_bytes`: how many bytes follow it.
    pub(super) fn finish(&mut self, payload_bytes: usize) -> &[u8] {
        // A payload has at most the size of a request, 1 MiB.
        let total = u32::try_from(self.len + payload_bytes).unwrap_or(u32::MAX);
        self.bytes[..4].copy_from_slice(&total.to_ne_bytes());
        &self.bytes[..self.len]
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }

    pub(super) fn u16(&mut self, number: u16) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    pub(super) fn u32(&mut self, number: u32) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    pub(super) fn i32(&mut self, number: i32) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    pub(super) fn u64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    pub(super) fn i64(&mut self, number: i64) -> &mut Self {
        self.raw(&number.to_ne_bytes())
    }

    pub(super) fn zeros(&mut self, count: usize) -> &mut Self {
        // The array began as zeros.
        self.len += count;
        self
    }

    /// `fuse_attr`, 88 bytes.
    pub(super) fn attributes(&mut self, a: &Attributes) -> &mut Self {
        self.u64(a.ino).u64(a.size).u64(a.blocks);
        self.i64(a.accessed.seconds).i64(a.modified.seconds).i64(a.changed.seconds);
        self.u32(a.accessed.nanoseconds).u32(a.modified.nanoseconds).u32(a.changed.nanoseconds);
        self.u32(a.mode).u32(a.links).u32(a.uid).u32(a.gid).u32(a.device).u32(a.block_size).u32(0)
    }

    /// `fuse_attr_out`, 104 bytes.
    pub(super) fn attributes_valid(&mut self, a: &Attributes, valid: Validity) -> &mut Self {
        let (seconds, nanoseconds) = valid.parts();
        self.u64(seconds).u32(nanoseconds).u32(0).attributes(a)
    }

    /// `fuse_entry_out`, 128 bytes.
    pub(super) fn entry(&mut self, e: &Entry) -> &mut Self {
        let ((name_s, name_ns), (attr_s, attr_ns)) =
            (e.name_valid.parts(), e.attributes_valid.parts());
        self.u64(e.node).u64(e.generation).u64(name_s).u64(attr_s).u32(name_ns).u32(attr_ns);
        self.attributes(&e.attributes)
    }

    /// `fuse_entry_out` of a name that does not exist: node 0.
    pub(super) fn absent(&mut self, valid: Validity) -> &mut Self {
        let (seconds, nanoseconds) = valid.parts();
        self.u64(0)
            .u64(0)
            .u64(seconds)
            .u64(0)
            .u32(nanoseconds)
            .u32(0)
            .attributes(&Attributes::default())
    }

    /// `fuse_open_out`.
    pub(super) fn opened(&mut self, opened: &Opened) -> &mut Self {
        let (flags, backing) = match opened.backing {
            Some(id) => (opened.flags | fopen::PASSTHROUGH, id.number()),
            None => (opened.flags, 0),
        };
        self.u64(opened.handle).u32(flags).i32(backing)
    }

    /// `fuse_statfs_out`.
    pub(super) fn space(&mut self, s: &SpaceStat) -> &mut Self {
        self.u64(s.blocks)
            .u64(s.blocks_free)
            .u64(s.blocks_available)
            .u64(s.files)
            .u64(s.files_free);
        self.u32(s.block_size).u32(s.name_len_max).u32(s.fragment_size).zeros(4 + 6 * 4)
    }

    /// `fuse_lk_out`; `None`: no conflict.
    pub(super) fn lock(&mut self, lock: Option<&Lock>) -> &mut Self {
        let Some(lock) = lock else { return self.u64(0).u64(0).u32(2).u32(0) };
        let kind = match lock.kind {
            LockKind::Read => 0,
            LockKind::Write => 1,
            LockKind::Unlock => 2,
        };
        self.u64(lock.start).u64(lock.end).u32(kind).u32(lock.pid)
    }

    /// `fuse_statx_out`.
    pub(super) fn extended(&mut self, s: &ExtendedStat, valid: Validity) -> &mut Self {
        let (seconds, nanoseconds) = valid.parts();
        let a = &s.attributes;
        self.u64(seconds).u32(nanoseconds).u32(0).zeros(16);
        self.u32(s.mask).u32(a.block_size).u64(s.flags).u32(a.links).u32(a.uid).u32(a.gid);
        // A mode has 16 bits.
        self.u16((a.mode & 0xffff) as u16)
            .u16(0)
            .u64(a.ino)
            .u64(a.size)
            .u64(a.blocks)
            .u64(s.flags_known);
        for time in [a.accessed, s.created, a.changed, a.modified] {
            self.extended_time(time);
        }
        let (major, minor) = (a.device >> 8 & 0xfff, a.device & 0xff | a.device >> 12 & 0xfff00);
        self.u32(major).u32(minor).zeros(8 + 14 * 8)
    }

    fn extended_time(&mut self, time: Time) -> &mut Self {
        self.i64(time.seconds).u32(time.nanoseconds).u32(0)
    }
}

/// The reply to a listing: entries, up to the size that the kernel asked for.
#[derive(Debug)]
pub struct DirectoryBuffer {
    bytes: Vec<u8>,
    size: usize,
}

impl DirectoryBuffer {
    /// `fuse_dirent` without the name.
    const ENTRY_BYTES: usize = 24;
    /// `fuse_entry_out` before it, with READDIRPLUS.
    const PLUS_BYTES: usize = 128;

    /// A reply of at most `size` bytes, as the request says.
    pub fn new(size: u32) -> Self {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // Most listings are short: memory is allocated as it is used.
        Self { bytes: Vec::with_capacity(size.min(4096)), size }
    }

    /// Adds an entry for READDIR: a name, its kind, and the offset from which the listing continues
    /// *after* it. `false`: it does not fit, and was not added.
    pub fn push(&mut self, ino: u64, offset: u64, kind: Kind, name: &[u8]) -> bool {
        self.fits(0, name) && self.dirent(ino, offset, kind, name)
    }

    /// Adds an entry for READDIRPLUS, as `push`. An entry counts as one lookup of its node. `None`
    /// for `.` and `..`, and for names whose attributes are not known: the kernel looks them up.
    pub fn push_plus(
        &mut self,
        entry: Option<&Entry>,
        ino: u64,
        offset: u64,
        kind: Kind,
        name: &[u8],
    ) -> bool {
        if !self.fits(Self::PLUS_BYTES, name) {
            return false;
        }
        let mut message = Message::new(0, 0);
        match entry {
            Some(entry) => message.entry(entry),
            None => message.absent(Validity::Never),
        };
        self.bytes.extend_from_slice(&message.finish(0)[OUT_HEADER_BYTES..]);
        self.dirent(ino, offset, kind, name)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes for the kernel.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn fits(&self, before: usize, name: &[u8]) -> bool {
        let entry = before + (Self::ENTRY_BYTES + name.len()).next_multiple_of(8);
        self.bytes.len() + entry <= self.size
    }

    fn dirent(&mut self, ino: u64, offset: u64, kind: Kind, name: &[u8]) -> bool {
        self.bytes.extend_from_slice(&ino.to_ne_bytes());
        self.bytes.extend_from_slice(&offset.to_ne_bytes());
        // `fits` has checked it against the size, which is a u32.
        self.bytes.extend_from_slice(&u32::try_from(name.len()).unwrap_or(u32::MAX).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.code().to_ne_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        true
    }
}

#[cfg(test)]
mod tests;
