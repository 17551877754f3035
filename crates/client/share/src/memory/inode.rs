//! Inodes and directories.

use std::collections::BTreeMap;

use braid_types::{ByteCount, FileIndex, SizeGeneration, Timestamp, fold, nfs4_acl::Nfs4Acl};

use super::data::FileData;
use crate::{Attributes, DirectoryEntry, FileKind};

/// The first cookie of a directory; protocols use 1 and 2 for `.` and `..`.
const COOKIE_FIRST: u64 = 3;

/// What a file consists of.
#[derive(Debug)]
pub(super) enum Content {
    File(FileData),
    Directory(Directory),
    Symlink(Vec<u8>),
    /// A fifo, socket or device.
    Special,
}

/// A file of any kind.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) file: FileIndex,
    pub(super) kind: FileKind,
    pub(super) mode: u32,
    pub(super) links: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) device: u64,
    pub(super) atime: Timestamp,
    pub(super) mtime: Timestamp,
    pub(super) ctime: Timestamp,
    pub(super) btime: Timestamp,
    pub(super) change: u64,
    /// Those of `braid_types::dos_attributes`.
    pub(super) flags: u32,
    pub(super) size_generation: u64,
    /// The directory of its newest name; exactly the parent of a directory.
    pub(super) parent: FileIndex,
    pub(super) content: Content,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) nfs4_acl: Option<Nfs4Acl>,
}

impl Inode {
    pub(super) fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Whether a write by a user without privileges clears bits of the mode.
    pub(super) fn clear_set_ids(&mut self) -> bool {
        let before = self.mode;
        if !self.is_directory() {
            self.mode &= !0o4000;
            // Without the group's right to execute, setgid means mandatory locking and stays.
            if self.mode & 0o010 != 0 {
                self.mode &= !0o2000;
            }
        }
        self.mode != before
    }

    /// Gives the file an NFSv4 list, and the mode that it means.
    pub(super) fn set_nfs4_acl(&mut self, list: Nfs4Acl) {
        let mode = list.posix_view(self.uid, self.gid, self.is_directory()).mode();
        self.mode = self.mode & 0o7000 | u32::from(mode);
        self.nfs4_acl = Some(list);
    }

    pub(super) fn attributes(&self) -> Attributes {
        let (bytes, bytes_used) = match &self.content {
            Content::File(data) => (data.present.len(), data.present.allocated_bytes()),
            Content::Directory(directory) => (directory.entries.len() as u64, 0),
            Content::Symlink(target) => (target.len() as u64, 0),
            Content::Special => (0, 0),
        };
        Attributes {
            file: self.file,
            kind: self.kind,
            mode: self.mode,
            links: self.links,
            uid: self.uid,
            gid: self.gid,
            device: self.device,
            bytes: ByteCount(bytes),
            bytes_used: ByteCount(bytes_used),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
            change: self.change,
            flags: self.flags,
            size_generation: SizeGeneration(self.size_generation),
            uncacheable: !self.is_directory(),
            has_xattrs: !self.xattrs.is_empty() || self.nfs4_acl.is_some(),
        }
    }
}

/// The names of a directory. A name keeps its cookie as long as it exists, whatever it leads to; no
/// cookie is used twice. So a listing shows every name that exists all the time exactly once.
#[derive(Debug)]
pub(super) struct Directory {
    cookies: BTreeMap<Vec<u8>, u64>,
    entries: BTreeMap<u64, (Vec<u8>, FileIndex, FileKind)>,
    next_cookie: u64,
}

impl Default for Directory {
    fn default() -> Self {
        Self { cookies: BTreeMap::new(), entries: BTreeMap::new(), next_cookie: COOKIE_FIRST }
    }
}

impl Directory {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The file of a name.
    pub(super) fn find(&self, name: &[u8]) -> Option<FileIndex> {
        let cookie = self.cookies.get(name)?;
        self.entries.get(cookie).map(|(_, file, _)| *file)
    }

    /// The name that equals this one without regard to case, and its file: the name itself, else
    /// the first one of a listing.
    pub(super) fn find_folded(&self, name: &[u8]) -> Option<(&[u8], FileIndex)> {
        let exact = self.cookies.get(name).and_then(|cookie| self.entries.get(cookie));
        let folded = fold(name);
        let found = exact.or_else(|| self.entries.values().find(|entry| fold(&entry.0) == folded));
        found.map(|(name, file, _)| (&name[..], *file))
    }

    /// Adds a name, or makes an existing one lead to another file.
    pub(super) fn set(&mut self, name: &[u8], file: FileIndex, kind: FileKind) {
        let cookie = *self.cookies.entry(name.to_vec()).or_insert(self.next_cookie);
        self.next_cookie = self.next_cookie.max(cookie + 1);
        self.entries.insert(cookie, (name.to_vec(), file, kind));
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        if let Some(cookie) = self.cookies.remove(name) {
            self.entries.remove(&cookie);
        }
    }

    /// Entries with a cookie above `cookie`, without attributes.
    pub(super) fn after(&self, cookie: u64) -> impl Iterator<Item = DirectoryEntry> + '_ {
        let from = cookie.saturating_add(1);
        self.entries.range(from..).map(|(cookie, (name, file, kind))| DirectoryEntry {
            cookie: *cookie,
            name: name.clone(),
            file: *file,
            kind: *kind,
            attributes: None,
        })
    }
}
