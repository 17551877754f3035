//! Listings. The kernel's offsets are the metadata server's cookies, which begin at 3; 1 and 2
//! stand for `.` and `..`.

use braid_vfs::{Cacheable, DirectoryEntry, DirectoryHandle, FileIndex, FileKind};

use super::{Answer, Done, FileSystem, convert};
use crate::kernel::{self, DirectoryBuffer, Kind};

/// The bytes of an entry in the kernel's reply, with a name of usual length: they give the number
/// of entries to ask for.
const ENTRY_BYTES: usize = 24 + 16;
const ENTRY_PLUS_BYTES: usize = 128 + ENTRY_BYTES;

/// Offsets of `.` and `..`, which the metadata server does not list.
const SELF: u64 = 1;
const PARENT: u64 = 2;

impl FileSystem {
    pub(super) fn open_directory(&self, directory: FileIndex, answer: Answer<'_>) -> Done {
        let handle = self.vfs.open_directory(directory)?;
        answer.with(|reply| {
            let opened = kernel::Opened { handle: handle.0, ..kernel::Opened::default() };
            if reply.opened(opened).is_err() {
                let _ = self.vfs.release_directory(handle);
            }
        })
    }

    pub(super) fn read_directory(
        &self,
        directory: FileIndex,
        handle: u64,
        offset: u64,
        (size, plus): (u32, bool),
        answer: Answer<'_>,
    ) -> Done {
        let mut listing = Listing { buffer: DirectoryBuffer::new(size), plus };
        let begun = offset >= PARENT || self.push_dots(directory, offset, &mut listing)?;
        if !begun {
            return answer.with(|reply| _ = reply.directory(&listing.buffer));
        }
        let count = size as usize / if plus { ENTRY_PLUS_BYTES } else { ENTRY_BYTES };
        // Offsets below 3 are the dots: the listing itself is at its beginning.
        let cookie = if offset <= PARENT { 0 } else { offset };
        let stretch =
            self.vfs.read_directory(DirectoryHandle(handle), cookie, count.max(1), plus)?;
        self.vfs.reply_cacheable(&stretch.leases, |all| {
            let attributes = all.attributes && plus && self.note(directory, None);
            for (entry, cacheable) in stretch.entries.iter().zip(&stretch.cacheable) {
                // Listed names are not cacheable: only few of them are used, and each must be noted
                // for the recall. The kernel looks up those that it needs, and is answered from the
                // cache. The attributes of directories are not cacheable, as in
                // `FileSystem::entry`.
                let cacheable = Cacheable {
                    name: false,
                    attributes: cacheable.attributes
                        && attributes
                        && entry.kind != FileKind::Directory,
                };
                if !listing.push(entry, cacheable) {
                    break;
                }
            }
            answer.with(|reply| _ = reply.directory(&listing.buffer))
        })
    }

    /// Adds `.` and `..`; `false` when there is no space for both.
    fn push_dots(
        &self,
        directory: FileIndex,
        offset: u64,
        listing: &mut Listing,
    ) -> Result<bool, super::errors::ErrnoReply> {
        if offset < SELF && !listing.push_dot(directory, SELF, b".") {
            return Ok(false);
        }
        let parent =
            if directory == FileIndex::ROOT { directory } else { self.vfs.parent(directory)? };
        Ok(listing.push_dot(parent, PARENT, b".."))
    }

    pub(super) fn release_directory(&self, handle: u64, answer: Answer<'_>) -> Done {
        self.vfs.release_directory(DirectoryHandle(handle))?;
        answer.ok()
    }

    pub(super) fn sync_directory(&self, handle: u64, answer: Answer<'_>) -> Done {
        self.vfs.sync_directory(DirectoryHandle(handle))?;
        answer.ok()
    }
}

/// A reply to READDIR or READDIRPLUS.
struct Listing {
    buffer: DirectoryBuffer,
    plus: bool,
}

impl Listing {
    fn push_dot(&mut self, file: FileIndex, offset: u64, name: &[u8]) -> bool {
        match self.plus {
            true => self.buffer.push_plus(None, file.0, offset, Kind::Directory, name),
            false => self.buffer.push(file.0, offset, Kind::Directory, name),
        }
    }

    fn push(&mut self, entry: &DirectoryEntry, cacheable: Cacheable) -> bool {
        let (ino, offset, kind) = (entry.file.0, entry.cookie, convert::kind(entry.kind));
        if !self.plus {
            return self.buffer.push(ino, offset, kind, &entry.name);
        }
        let known = entry.attributes.as_ref().map(|found| convert::entry(found, cacheable));
        self.buffer.push_plus(known.as_ref(), ino, offset, kind, &entry.name)
    }
}
