//! Listing directories. A listing is resumed by the cookie of the last entry taken, so that a listing under change returns every
//! untouched name exactly once, and going back to the beginning sees the directory anew. All that is kept with the handle is the last
//! cookie of the listing's beginning: what is made or moved meanwhile comes behind it, and a listing that ran after names that are
//! moved as they are listed would never end. What is remembered under the directory's lease ([`crate::listed`]) is what the server would answer.

use std::sync::atomic::{AtomicU64, Ordering};

use braid_client::{Attributes, DirectoryEntry, FileIndex};

use crate::{
    error::Result,
    handles::DirectoryHandle,
    known::{Keep, Kept},
    promise::Promise,
    vfs::Vfs,
};

/// What the metadata server counts for an entry beside its name.
const ENTRY_BYTES: usize = 64;
/// More is not asked for at once (I9): a thousand names.
const STRETCH_BYTES_MAX: usize = 64 * 1024;

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    file: FileIndex,
    /// Where the listing ends; 0 before it has begun.
    until: AtomicU64,
}

/// A stretch of a listing.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// Entries in the order of their cookies, from 3 on: 1 and 2 are left to gateways that show `.` and `..`.
    pub entries: Vec<DirectoryEntry>,
    /// Whether the listing ends here.
    pub end: bool,
    /// Under what entries may be remembered, if the stretch is handed out by [`Vfs::hand_out`].
    pub keep: Keep,
    /// What of each entry, in their order.
    pub kept: Vec<Kept>,
}

impl Stretch {
    /// The listing ends at a cookie.
    fn end_at(&mut self, until: u64) {
        let within = self.entries.partition_point(|entry| entry.cookie <= until);
        self.end |= within < self.entries.len();
        self.entries.truncate(within);
        self.kept.truncate(within);
    }
}

impl Vfs {
    /// Opens a directory.
    ///
    /// # Errors
    /// Too many are open.
    pub fn open_directory(&self, directory: FileIndex) -> Result<DirectoryHandle> {
        let opened = OpenDirectory { file: directory, until: AtomicU64::new(0) };
        self.open_directories.insert(opened).map(DirectoryHandle)
    }

    /// About `count` entries after a cookie; 0 for the beginning. At least one, if there is one. What is learned of their
    /// attributes is remembered: who lists a directory often looks at what is in it.
    ///
    /// # Errors
    /// No such handle; the directory is gone; the cluster is not reached.
    pub fn read_directory(
        &self,
        handle: DirectoryHandle,
        cookie: u64,
        count: usize,
        with_attributes: bool,
    ) -> Result<Stretch> {
        let open = self.open_directories.find(handle.0)?;
        let begun = if cookie == 0 { 0 } else { open.until.load(Ordering::Relaxed) };
        if begun != 0 && cookie >= begun {
            return Ok(Stretch {
                entries: Vec::new(),
                end: true,
                keep: Keep::default(),
                kept: Vec::new(),
            });
        }
        let (mut stretch, last) = self.stretch(open.file, cookie, count, with_attributes)?;
        let until = if begun == 0 { last } else { begun };
        open.until.store(until, Ordering::Relaxed);
        stretch.end_at(until);
        Ok(stretch)
    }

    /// What there is after a cookie, and the last cookie that there is.
    fn stretch(
        &self,
        directory: FileIndex,
        cookie: u64,
        count: usize,
        with_attributes: bool,
    ) -> Result<(Stretch, u64)> {
        let bytes = count.saturating_mul(ENTRY_BYTES).clamp(1, STRETCH_BYTES_MAX);
        let promise = self.holder.promise(directory);
        let holds = |promise: &Promise| self.holder.holds(promise);
        if !with_attributes
            && let Some(listed) = self.holder.cache.listed(directory, (cookie, count), holds)
        {
            let kept = vec![Kept { name: false, attributes: false }; listed.entries.len()];
            let stretch =
                Stretch { entries: listed.entries, end: listed.end, keep: Keep::default(), kept };
            return Ok((stretch, listed.last));
        }
        let with_attributes = with_attributes
            || promise.is_some() && self.holder.cache.gains_by_listing(directory, holds);
        let gathered = with_attributes && !self.holder.runs.is_empty();
        let mark = self.holder.cache.mark();
        let mut reply =
            self.client().read_directory(directory, cookie, bytes as u32, with_attributes)?;
        // As the server does with what others gather: whoever wants them asks for them.
        let doubted = |seen: &mut Attributes| self.is_in_doubt(seen.file, gathered, mark);
        reply.entries.iter_mut().for_each(|entry| _ = entry.attributes.take_if(doubted));
        let mut kept = Vec::with_capacity(reply.entries.len());
        for entry in &reply.entries {
            let keep = match (&promise, &entry.attributes) {
                (Some(promise), Some(found)) => {
                    self.holder.cache.keep_found(promise, mark, &entry.name, found, holds)
                }
                _ => Keep::default(),
            };
            kept.push(Kept { name: keep.name.is_some(), attributes: keep.attributes.is_some() });
        }
        if let Some(promise) = &promise {
            self.holder.cache.keep_listed(promise, mark, cookie, &reply, holds);
        }
        let keep = Keep { name: promise.clone(), attributes: promise };
        Ok((Stretch { entries: reply.entries, end: reply.end, keep, kept }, reply.last))
    }

    /// The directory above, for `..`.
    ///
    /// # Errors
    /// The directory is gone; the cluster is not reached.
    pub fn parent(&self, directory: FileIndex) -> Result<FileIndex> {
        let (cache, holds) = (&self.holder.cache, |promise: &Promise| self.holder.holds(promise));
        if let Some(above) = cache.above(directory, holds) {
            return Ok(above);
        }
        let (promise, moves) = (self.holder.promise(directory), cache.moves());
        let above = self.client().lstat((directory, b".."))?.file;
        if let Some(promise) = promise {
            cache.keep_above(&promise, moves, above, holds);
        }
        Ok(above)
    }

    /// Forces the names in a directory to disk (I6). Of the root, everything: see [`Vfs::sync_all`].
    ///
    /// # Errors
    /// No such handle; the cluster is not reached; as [`Vfs::sync_all`].
    pub fn sync_directory(&self, handle: DirectoryHandle) -> Result<()> {
        match self.open_directories.find(handle.0)?.file {
            FileIndex::ROOT => self.sync_all(),
            directory => Ok(self.client().sync_directory(directory)?),
        }
    }

    /// Closes a directory.
    ///
    /// # Errors
    /// No such handle.
    pub fn release_directory(&self, handle: DirectoryHandle) -> Result<()> {
        self.open_directories.remove(handle.0).map(drop)
    }
}
