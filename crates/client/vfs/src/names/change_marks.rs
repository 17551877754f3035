//! Which replies of the server are older than a change that this mount made.
//!
//! If this mount changes a file while a reply about it is in flight, the reply may describe the
//! file before the change. It is returned to its caller, and is not cached.

use braid_client::FileIndex;

/// Buckets in which changes are counted. Files of one bucket are cached a little less often.
const BUCKETS: usize = 1024;

/// A position in the sequence of this mount's changes, taken before a question is sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct ChangeMark(u64);

/// The changes that this mount has made, or other events, by file.
#[derive(Debug)]
pub(super) struct ChangeMarks {
    last: ChangeMark,
    /// The last change in each bucket.
    by_bucket: Vec<ChangeMark>,
}

impl Default for ChangeMarks {
    fn default() -> Self {
        let first = ChangeMark::default();
        Self { last: first, by_bucket: vec![first; BUCKETS] }
    }
}

impl ChangeMarks {
    /// The position after the last change.
    pub(super) fn now(&self) -> ChangeMark {
        self.last
    }

    /// Counts a change of a file.
    pub(super) fn add(&mut self, file: FileIndex) {
        self.last.0 += 1;
        self.by_bucket[bucket(file)] = self.last;
    }

    /// Whether this mount has changed nothing of a file since.
    pub(super) fn is_unchanged(&self, file: FileIndex, since: ChangeMark) -> bool {
        self.by_bucket[bucket(file)] <= since
    }
}

fn bucket(file: FileIndex) -> usize {
    (file.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % BUCKETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_makes_replies_to_earlier_questions_stale() {
        let mut marks = ChangeMarks::default();
        let before = marks.now();
        assert!(marks.is_unchanged(FileIndex(7), before));
        marks.add(FileIndex(7));
        assert!(!marks.is_unchanged(FileIndex(7), before));
        assert!(marks.is_unchanged(FileIndex(7), marks.now()));
        assert!(marks.is_unchanged(FileIndex(8), before), "another file");
    }
}
