//! The directory name cache: the first components of a path are the same for thousands of calls.
//!
//! Invariants:
//! 1. Only names that lead to directories are cached. A file's name is looked up once, and would
//!    evict names in use.
//! 2. A writer removes a directory's name after the batch that removes it or gives it to another
//!    file, and before that batch is acknowledged. A walk meanwhile still takes the old path, as if
//!    it had come earlier.
//! 3. A reader that missed may add what it found only if no writer has removed a name of its slice
//!    since. `add` checks it.
//! 4. `names` counts the names of a slice, and is at most `NAMES_PER_SLICE_MAX`. `add` asserts it.
//!
//! Invariants 1 and 2 are rules for callers: the cache does not know what a name leads to, nor when
//! a batch is acknowledged.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use braid_types::{FileIndex, IdHashBuilder};

/// Slices, each with its own lock.
const SLICES: usize = 64;
/// Names in one slice: at about 100 B each, all slices take about 6 MiB. A full slice is emptied;
/// names in use return with one lookup.
const NAMES_PER_SLICE_MAX: usize = 1024;

type Names = HashMap<Box<[u8]>, FileIndex>;

#[derive(Default)]
struct Slice {
    directories: HashMap<FileIndex, Names, IdHashBuilder>,
    names: usize,
    /// Counts the removals by writers (invariant 3).
    removals: u64,
}

/// See the module.
pub(crate) struct DirectoryNameCache(Vec<Mutex<Slice>>);

/// The number of removals at a miss; a reader shows it to add what it found.
#[derive(Clone, Copy)]
pub(crate) struct MissToken(u64);

impl DirectoryNameCache {
    pub(crate) fn new() -> Self {
        Self((0..SLICES).map(|_| Mutex::default()).collect())
    }

    /// The directory that a name in `directory` leads to.
    pub(crate) fn find(&self, directory: FileIndex, name: &[u8]) -> Result<FileIndex, MissToken> {
        let slice = self.slice(directory);
        let found = slice.directories.get(&directory).and_then(|names| names.get(name));
        found.copied().ok_or(MissToken(slice.removals))
    }

    /// For a reader: the name leads to the directory `target`.
    pub(crate) fn add(
        &self,
        directory: FileIndex,
        name: &[u8],
        target: FileIndex,
        missed: MissToken,
    ) {
        let mut slice = self.slice(directory);
        if slice.removals != missed.0 {
            return;
        }
        if slice.names >= NAMES_PER_SLICE_MAX {
            slice.directories.clear();
            slice.names = 0;
        }
        let added =
            slice.directories.entry(directory).or_default().insert(name.into(), target).is_none();
        slice.names += usize::from(added);
        debug_assert!(slice.names <= NAMES_PER_SLICE_MAX, "4: the cache is bounded");
    }

    /// For a writer: the name was removed or leads elsewhere.
    pub(crate) fn forget(&self, directory: FileIndex, name: &[u8]) {
        let mut slice = self.slice(directory);
        slice.removals += 1;
        let Some(names) = slice.directories.get_mut(&directory) else { return };
        let removed = names.remove(name).is_some();
        if names.is_empty() {
            slice.directories.remove(&directory);
        }
        slice.names -= usize::from(removed);
    }

    fn slice(&self, directory: FileIndex) -> MutexGuard<'_, Slice> {
        let mixed = (directory.0 ^ directory.0 >> 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        self.0[mixed as usize % SLICES].lock().unwrap_or_else(braid_types::poisoned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: FileIndex = FileIndex(2);

    #[test]
    fn a_reader_does_not_restore_a_removed_name() {
        let names = DirectoryNameCache::new();
        let missed = names.find(FileIndex::ROOT, b"home").unwrap_err();
        names.forget(FileIndex::ROOT, b"home");
        names.add(FileIndex::ROOT, b"home", HOME, missed);
        assert!(names.find(FileIndex::ROOT, b"home").is_err());
    }

    #[test]
    fn a_name_is_found_until_it_is_removed_and_others_stay() {
        let names = DirectoryNameCache::new();
        for name in [&b"home"[..], b"tmp"] {
            let missed = names.find(FileIndex::ROOT, name).unwrap_err();
            names.add(FileIndex::ROOT, name, HOME, missed);
        }
        names.forget(FileIndex::ROOT, b"tmp");
        assert_eq!(names.find(FileIndex::ROOT, b"home").ok(), Some(HOME));
        assert!(names.find(FileIndex::ROOT, b"tmp").is_err());
    }

    #[test]
    fn it_stays_within_its_bound() {
        let names = DirectoryNameCache::new();
        for n in 0..3 * NAMES_PER_SLICE_MAX {
            let name = n.to_string();
            let missed = names.find(HOME, name.as_bytes()).unwrap_err();
            names.add(HOME, name.as_bytes(), FileIndex(n as u64), missed);
            assert!(names.slice(HOME).names <= NAMES_PER_SLICE_MAX);
        }
    }
}
