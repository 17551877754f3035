//! The number of files: counted in the background, a page of inodes at a time, because no operation
//! should pay for a number that only `df -i` asks for.

use std::{sync::Arc, time::Duration};

use braid_types::{FileIndex, ShardId};

use crate::core::{MdsCore, report};

/// Inodes counted in one tick: a page of the store.
const INODES_PER_TICK: usize = 1024;
/// Time from the end of one count to the start of the next.
const RECOUNT_INTERVAL: Duration = Duration::from_secs(60);

/// The count in progress, and the last complete one.
#[derive(Debug, Default)]
pub(crate) struct FileCount {
    files: u64,
    counted: u64,
    shard: u16,
    after: Option<FileIndex>,
    next: Duration,
}

impl FileCount {
    /// The last complete count; during the first count, the files counted so far.
    pub(crate) fn files(&self) -> u64 {
        self.files.max(self.counted)
    }
}

impl MdsCore {
    /// Counts one more page.
    pub(crate) fn count_files_step(self: &Arc<Self>, now: Duration) {
        let (shard, after) = {
            let count = &self.state().file_count;
            if now < count.next {
                return;
            }
            (count.shard, count.after)
        };
        let page = self.namespace.files(ShardId(shard), after, INODES_PER_TICK).unwrap_or_else(
            |failure| {
                report("counting files", &failure);
                Vec::new()
            },
        );
        let count = &mut self.state().file_count;
        count.counted += page.len() as u64;
        count.after = page.last().map(|(file, _)| *file);
        if count.after.is_none() {
            count.shard += 1;
        }
        if count.shard >= self.namespace.shards() {
            *count = FileCount {
                files: count.counted,
                next: now + RECOUNT_INTERVAL,
                ..FileCount::default()
            };
        }
    }
}
