//! Listing directories. A listing is resumed by the cookie of the last entry taken: nothing is kept with the handle between two calls,
//! so that a listing under change returns every untouched name exactly once, and going back to the beginning sees the
//! directory anew. What is remembered under the directory's lease ([`crate::listed`]) is what the server would answer.

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
    pub(crate) file: FileIndex,
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

impl Vfs {
    /// Opens a directory.
    ///
    /// # Errors
    /// Too many are open.
    pub fn open_directory(&self, directory: FileIndex) -> Result<DirectoryHandle> {
        self.open_directories.insert(OpenDirectory { file: directory }).map(DirectoryHandle)
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
        let directory = self.open_directories.find(handle.0)?.file;
        let bytes = count.saturating_mul(ENTRY_BYTES).clamp(1, STRETCH_BYTES_MAX);
        let promise = self.holder.promise(directory);
        let holds = |promise: &Promise| self.holder.holds(promise);
        if !with_attributes && let Some((entries, end)) = self.holder.cache.listed(directory, (cookie, count), holds) {
            let kept = vec![Kept { name: false, attributes: false }; entries.len()];
            return Ok(Stretch { entries, end, keep: Keep::default(), kept });
        }
        let with_attributes =
            with_attributes || promise.is_some() && self.holder.cache.gains_by_listing(directory, holds);
        let gathered = with_attributes && !self.holder.runs.is_empty();
        let mark = self.holder.cache.mark();
        let mut reply = self.client().read_directory(directory, cookie, bytes as u32, with_attributes)?;
        // As the server does with what others gather: whoever wants them asks for them.
        let doubted = |seen: &mut Attributes| self.is_in_doubt(seen.file, gathered, mark);
        reply.entries.iter_mut().for_each(|entry| _ = entry.attributes.take_if(doubted));
        let mut stretch = Stretch { entries: reply.entries, end: reply.end, keep: Keep::default(), kept: Vec::new() };
        for entry in &stretch.entries {
            let keep = match (&promise, &entry.attributes) {
                (Some(promise), Some(found)) => self.holder.cache.keep_found(promise, mark, &entry.name, found, holds),
                _ => Keep::default(),
            };
            stretch.kept.push(Kept { name: keep.name.is_some(), attributes: keep.attributes.is_some() });
        }
        if let Some(promise) = &promise {
            self.holder.cache.keep_listed(promise, mark, cookie, (&stretch.entries, stretch.end), holds);
        }
        stretch.keep = Keep { name: promise.clone(), attributes: promise };
        Ok(stretch)
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
