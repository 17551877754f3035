//! The directory above a file or a directory, in the name cache.

use std::sync::Arc;

use braid_client::FileIndex;

use super::{name_cache::Cache, names_lease::Promise};
use crate::mutex::lock;

impl Cache {
    /// The directory in which a file has its only name. Not for directories.
    pub(crate) fn parent(&self, file: FileIndex) -> Option<FileIndex> {
        lock(&self.0).parents.get(&file).copied()
    }

    /// The directory above a directory.
    pub(crate) fn above(
        &self,
        directory: FileIndex,
        is_valid: impl Fn(&Promise) -> bool,
    ) -> Option<FileIndex> {
        let cached = lock(&self.0);
        let found = cached.valid(directory, is_valid)?;
        found.above.filter(|(_, moves)| *moves == cached.moves).map(|(above, _)| above)
    }

    /// Caches the directory above a directory. A client that moves the directory needs the lease of
    /// its own names, too. `moves`: [`NameCache::move_count`] before the question.
    pub(crate) fn keep_above(
        &self,
        lease: &Arc<Promise>,
        moves: u64,
        above: FileIndex,
        is_valid: impl Fn(&Promise) -> bool,
    ) {
        let mut cached = lock(&self.0);
        if is_valid(lease)
            && let Some(found) = cached.under(lease)
        {
            found.above = Some((above, moves));
        }
    }

    /// How many moves there were, to be taken before the directory above one is asked for.
    pub(crate) fn moves(&self) -> u64 {
        lock(&self.0).moves
    }

    /// This mount has moved a name from one directory to another, or may have.
    pub(crate) fn moved(&self) {
        lock(&self.0).moves += 1;
    }
}
