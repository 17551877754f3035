//! Counts a shard's usage again while the shard changes: changes of inodes that were counted
//! already are added.

use std::collections::HashMap;
use std::sync::Arc;

use braid_types::{FileIndex, ShardId};

use super::{UsageDelta, add_usage_deltas};
use crate::record::{Inode, QuotaOwner, Usage};

/// A count that is in progress.
#[derive(Debug)]
pub(crate) struct Recount {
    pub(crate) shard: ShardId,
    /// Inodes up to this one are counted.
    pub(crate) after: Option<FileIndex>,
    counted: HashMap<QuotaOwner, Usage>,
}

impl Recount {
    pub(crate) fn new(shard: ShardId) -> Self {
        Self { shard, after: None, counted: HashMap::new() }
    }

    /// Counts the next inode.
    pub(crate) fn add(&mut self, file: FileIndex, inode: Option<&Arc<Inode>>) {
        self.after = Some(file);
        self.apply(None, inode);
    }

    /// A batch has changed an inode.
    pub(crate) fn inode_changed(
        &mut self,
        file: FileIndex,
        old: Option<&Arc<Inode>>,
        new: Option<&Arc<Inode>>,
    ) {
        if file.shard() == self.shard && self.after.is_some_and(|after| file <= after) {
            self.apply(old, new);
        }
    }

    fn apply(&mut self, old: Option<&Arc<Inode>>, new: Option<&Arc<Inode>>) {
        let mut deltas: Vec<UsageDelta> = Vec::new();
        add_usage_deltas(&mut deltas, old, new);
        for delta in deltas {
            let usage = self.counted.entry(delta.owner).or_default();
            usage.bytes = usage.bytes.saturating_add_signed(delta.bytes);
            usage.inodes = usage.inodes.saturating_add_signed(delta.inodes);
        }
    }

    /// The counted usage.
    pub(crate) fn counted(self) -> HashMap<QuotaOwner, Usage> {
        self.counted.into_iter().filter(|(_, usage)| *usage != Usage::default()).collect()
    }
}
