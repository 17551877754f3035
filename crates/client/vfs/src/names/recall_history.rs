//! When the names lease of a directory is asked for again after a recall.

use std::collections::HashMap;

use braid_client::FileIndex;

/// Lookups that are sent without a lease after a recall. A lease on a directory that other clients
/// change all the time is of no use.
const LOOKUPS_AFTER_RECALL: u32 = 8;
/// Directories whose recalls are remembered (I9).
const RECALLED_MAX: usize = 65_536;

/// Recalled directories, and the lookups that each of them still sends without a lease.
#[derive(Debug, Default)]
pub(super) struct RecallHistory {
    lookups_left: HashMap<FileIndex, u32>,
}

impl RecallHistory {
    /// Notes a recall.
    pub(super) fn add(&mut self, directory: FileIndex) {
        if self.lookups_left.len() >= RECALLED_MAX {
            self.lookups_left.clear();
        }
        self.lookups_left.insert(directory, LOOKUPS_AFTER_RECALL);
    }

    /// Counts a lookup. Whether it asks for the lease.
    pub(super) fn count_lookup(&mut self, directory: FileIndex) -> bool {
        match self.lookups_left.get_mut(&directory) {
            Some(0) | None => {
                self.lookups_left.remove(&directory);
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_recall_some_lookups_do_not_ask_for_the_lease() {
        let (mut history, directory) = (RecallHistory::default(), FileIndex(7));
        assert!(history.count_lookup(directory));
        history.add(directory);
        for _ in 0..LOOKUPS_AFTER_RECALL {
            assert!(!history.count_lookup(directory));
            assert!(history.count_lookup(FileIndex(8)), "another directory");
        }
        assert!(history.count_lookup(directory) && history.count_lookup(directory));
    }
}
