//! Counts changes of names, so that a caller can say whether its own was the only one between two
//! looks at a directory (`atomic` of an NFS `change_info4`).

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct NameChanges {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// How many changes had begun and ended at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameChangeCount {
    begun: u64,
    ended: u64,
}

/// A change that is being made.
pub(crate) struct NameChange<'c>(&'c NameChanges);

impl NameChanges {
    pub(crate) fn begin(&self) -> NameChange<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        NameChange(self)
    }

    pub(crate) fn count(&self) -> NameChangeCount {
        // In this order: a change that ends between the two loads looks as if it had not ended.
        let ended = self.ended.load(Ordering::SeqCst);
        NameChangeCount { begun: self.begun.load(Ordering::SeqCst), ended }
    }
}

impl Drop for NameChange<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl NameChangeCount {
    /// Whether at most one change was made since `before`, and none was being made then.
    pub fn only_one_since(self, before: Self) -> bool {
        before.begun == before.ended && self.begun <= before.begun + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_beside_the_own_one_is_noticed() {
        let changes = NameChanges::default();
        let before = changes.count();
        drop(changes.begin());
        assert!(changes.count().only_one_since(before));
        let other = changes.begin();
        assert!(!changes.count().only_one_since(before));
        let during = changes.count();
        drop(other);
        assert!(!changes.count().only_one_since(during));
        assert!(changes.count().only_one_since(changes.count()));
    }
}
