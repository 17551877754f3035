//! The directory above a file or a directory, in the name cache.

use std::sync::Arc;

use braid_client::FileIndex;

use super::{name_cache::NameCache, names_lease::NamesLease};
use crate::mutex::lock;

impl NameCache {
    /// The directory in which a file has its only name. Not for directories.
    pub(crate) fn parent_of_file(&self, file: FileIndex) -> Option<FileIndex> {
        lock(&self.0).parents.get(&file).copied()
    }

    /// The directory above a directory.
    pub(crate) fn parent_of_directory(
        &self,
        directory: FileIndex,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) -> Option<FileIndex> {
        let cached = lock(&self.0);
        let found = cached.valid(directory, is_valid)?;
        found.above.filter(|(_, moves)| *moves == cached.moves).map(|(above, _)| above)
    }

    /// Caches the directory above a directory. A client that moves the directory needs the lease of
    /// its own names, too. `moves`: [`NameCache::move_count`] before the question.
    pub(crate) fn cache_parent_of_directory(
        &self,
        lease: &Arc<NamesLease>,
        moves: u64,
        above: FileIndex,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) {
        let mut cached = lock(&self.0);
        if is_valid(lease)
            && let Some(found) = cached.under(lease)
        {
            found.above = Some((above, moves));
        }
    }

    /// How many moves there were, to be taken before the directory above one is asked for.
    pub(crate) fn move_count(&self) -> u64 {
        lock(&self.0).moves
    }

    /// This mount has moved a name from one directory to another, or may have.
    pub(crate) fn note_move(&self) {
        lock(&self.0).moves += 1;
    }
}
