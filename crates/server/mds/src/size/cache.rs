//! The size cache: what the I/O daemons said of files after their last writer, in memory until it
//! is recorded (ADR 0008).
//!
//! Invariants:
//! 1. `due` has each file that is not being recorded exactly once, by the time since when it waits.
//! 2. An entry is removed when a writer opens its file or a truncate ends, since it may be stale.
//! 3. Removing an entry is always safe: the size mark stands, and callers are answered by asking
//!    the daemons.
//!
//! `replace` and `remove` assert 1. Invariants 2 and 3 are about calls that other files make.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use braid_types::FileIndex;

use crate::objects::CollectedSize;

/// How long a size is cached before its file is flushed. At about this interval ext4 and other
/// local file systems commit on their own. Earlier would force commits that come anyway, and flush
/// files that are deleted soon. Later would keep more in memory, and more to collect again after a
/// restart.
pub(crate) const RECORD_SIZE_MS: u64 = 5_000;
/// Cached sizes (I9): about 200 bytes each, 26 MB. While the cache is full, no more sizes are
/// collected.
pub(crate) const CACHED_SIZES_MAX: usize = 131_072;
/// With more than this many, sizes are recorded without waiting.
const CACHED_SIZES_EARLY: usize = CACHED_SIZES_MAX / 2;

/// Sizes that are collected and not recorded.
#[derive(Debug, Default)]
pub(crate) struct SizeCache {
    files: HashMap<FileIndex, CachedSize>,
    due: BTreeSet<(Duration, FileIndex)>,
    /// The server is about to stop: every size is due immediately.
    all_due: bool,
}

#[derive(Debug)]
struct CachedSize {
    found: CollectedSize,
    /// A client reported it, not the daemons.
    reported: bool,
    since: Duration,
    /// Its daemons are being asked to flush the file.
    recording: bool,
}

impl SizeCache {
    /// A file's daemons have answered.
    pub(crate) fn insert(&mut self, file: FileIndex, found: CollectedSize, now: Duration) {
        self.replace(file, CachedSize { found, reported: false, since: now, recording: false });
    }

    /// Its sole writer has reported the size, with its close.
    pub(crate) fn insert_reported(&mut self, file: FileIndex, found: CollectedSize, now: Duration) {
        self.replace(file, CachedSize { found, reported: true, since: now, recording: false });
    }

    fn replace(&mut self, file: FileIndex, cached: CachedSize) {
        self.remove(file);
        let is_new = self.due.insert((cached.since, file));
        debug_assert!(is_new, "1: file {file} is in the queue twice");
        self.files.insert(file, cached);
    }

    /// A daemon could not be asked to flush a file. Its size is as good as before, and is tried
    /// again.
    pub(crate) fn insert_retry(
        &mut self,
        file: FileIndex,
        found: CollectedSize,
        reported: bool,
        now: Duration,
    ) {
        self.replace(file, CachedSize { found, reported, since: now, recording: false });
    }

    /// Removes a file.
    pub(crate) fn remove(&mut self, file: FileIndex) {
        if let Some(cached) = self.files.remove(&file) {
            let was_due = self.due.remove(&(cached.since, file));
            debug_assert!(was_due != cached.recording, "1: due, unless it is being recorded");
        }
    }

    pub(crate) fn get(&self, file: FileIndex) -> Option<&CollectedSize> {
        Some(&self.files.get(&file)?.found)
    }

    /// Whether a client reported it.
    pub(crate) fn is_reported(&self, file: FileIndex) -> bool {
        self.files.get(&file).is_some_and(|cached| cached.reported)
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Makes every size due immediately, also those of later.
    pub(crate) fn make_all_due(&mut self) {
        self.all_due = true;
    }

    /// Whether a size that could not be recorded may wait here for another try. Not where it would
    /// be due immediately: it would be tried, and fail, without end.
    pub(crate) fn may_retry(&self) -> bool {
        !self.all_due && self.files.len() < CACHED_SIZES_EARLY
    }

    pub(crate) fn is_full(&self) -> bool {
        self.files.len() >= CACHED_SIZES_MAX
    }

    /// The next file whose size is to be recorded. It counts as being recorded from here on.
    pub(crate) fn next_due(&mut self, now: Duration) -> Option<FileIndex> {
        let (since, file) = *self.due.first()?;
        let waited = now.saturating_sub(since) >= Duration::from_millis(RECORD_SIZE_MS);
        if !waited && !self.all_due && self.due.len() <= CACHED_SIZES_EARLY {
            return None;
        }
        self.due.pop_first();
        if let Some(cached) = self.files.get_mut(&file) {
            cached.recording = true;
        }
        Some(file)
    }

    /// The daemons of a file that is being recorded have answered: removes and returns its size,
    /// unless the entry was removed or replaced in the meantime.
    pub(crate) fn take_recording(&mut self, file: FileIndex) -> Option<CollectedSize> {
        if !self.files.get(&file)?.recording {
            return None;
        }
        Some(self.files.remove(&file)?.found)
    }
}

#[cfg(test)]
mod tests {
    use braid_meta::{ObjectSummary, Parts};
    use braid_types::SizeGeneration;

    use super::*;

    #[test]
    fn a_size_that_failed_does_not_wait_where_it_would_be_due_immediately() {
        let mut cached = SizeCache::default();
        assert!(cached.may_retry());
        for file in 1..=CACHED_SIZES_EARLY as u64 {
            cached.insert(FileIndex(file), found(), Duration::ZERO);
        }
        assert!(!cached.may_retry());
        cached.remove(FileIndex(1));
        assert!(cached.may_retry());
        cached.make_all_due();
        assert!(!cached.may_retry());
    }

    fn found() -> CollectedSize {
        let fetch = ObjectSummary {
            generation: SizeGeneration(0),
            size: 1,
            parts: Parts::none(),
            mtime: None,
            change: 0,
        };
        CollectedSize {
            fetch,
            allocated_bytes: 0,
            verifiers: Vec::new(),
            empty: Vec::new(),
            is_part_lost: false,
        }
    }

    #[test]
    fn a_file_is_due_after_its_time_or_when_there_are_too_many() {
        let mut cached = SizeCache::default();
        let settle = Duration::from_millis(RECORD_SIZE_MS);
        cached.insert(FileIndex(1), found(), Duration::ZERO);
        assert_eq!(cached.next_due(settle - Duration::from_millis(1)), None);
        assert_eq!(cached.next_due(settle), Some(FileIndex(1)));
        assert_eq!(cached.next_due(settle), None, "each once");
        for file in 1..=CACHED_SIZES_EARLY as u64 {
            cached.insert(FileIndex(file), found(), settle);
        }
        assert_eq!(cached.next_due(settle), None);
        cached.insert(FileIndex(0), found(), settle);
        assert_eq!(cached.next_due(settle), Some(FileIndex(0)));
        assert_eq!(cached.next_due(settle), None);
    }

    #[test]
    fn a_size_cached_again_while_being_recorded_is_recorded_again() {
        let mut cached = SizeCache::default();
        let settle = Duration::from_millis(RECORD_SIZE_MS);
        cached.insert(FileIndex(1), found(), Duration::ZERO);
        assert_eq!(cached.next_due(settle), Some(FileIndex(1)));
        cached.remove(FileIndex(1));
        assert_eq!(cached.take_recording(FileIndex(1)), None, "a writer came");
        cached.insert(FileIndex(1), found(), settle);
        assert_eq!(cached.take_recording(FileIndex(1)), None, "and went");
        assert_eq!(cached.next_due(2 * settle), Some(FileIndex(1)));
        assert_eq!(cached.take_recording(FileIndex(1)), Some(found()));
        assert_eq!(cached.len(), 0);
    }
}
