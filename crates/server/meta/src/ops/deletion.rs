//! The deletion queue: filled in the batch that removes a file, emptied once every I/O daemon has
//! deleted the objects.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use braid_types::{Failure, FileIndex, ShardId, Status};

use crate::key::{self, Kind};
use crate::namespace::Namespace;
use crate::record::{Deletion, RecordError};
use crate::store::{Batch, ReserveUse};

impl Namespace {
    /// Up to `count_max` deletions after file `after` (in the order of file indexes; `None`: from
    /// the start). They stay in the queue until they are marked done.
    pub fn deletions(
        &self,
        after: Option<FileIndex>,
        count_max: usize,
    ) -> Result<Vec<Deletion>, Failure> {
        let mut found: Vec<Result<Deletion, RecordError>> = Vec::new();
        let first = after.map_or(0, |file| file.shard().0);
        let view = self.store.snapshot()?;
        for shard in first..self.shards {
            let mut range = key::all(ShardId(shard), Kind::Deletion);
            if let Some(after) = after.filter(|file| file.shard().0 == shard) {
                range.from = key::deletion(after).to_vec();
                range.from.push(0);
            }
            view.scan(&range.from, &range.end, &mut |key, value| {
                if found.len() == count_max {
                    return ControlFlow::Break(());
                }
                let file = key::file_of(key).ok_or(RecordError::Broken { what: "deletion" });
                found.push(file.and_then(|file| Deletion::decode(file, value)));
                ControlFlow::Continue(())
            })?;
        }
        Ok(found.into_iter().collect::<Result<_, _>>()?)
    }

    /// Removes deletions from the queue that all their I/O daemons have done. Deleting twice does
    /// no harm, so there is no hurry and no replay record. One caller at a time, so that each is
    /// counted once.
    pub fn deletions_done(&self, files: &[FileIndex]) -> Result<(), Failure> {
        for some in files.chunks(DONE_BATCH_MAX) {
            let (mut batch, mut done) = (Batch::new(), 0);
            let view = self.store.snapshot()?;
            for file in some.iter().collect::<BTreeSet<_>>() {
                let key = key::deletion(*file);
                if view.get(&key)?.is_some() {
                    done += 1;
                    batch.remove(key);
                }
            }
            drop(view);
            if !batch.is_empty() {
                batch.allow_reserve(ReserveUse::All);
                self.store.commit(batch, self.fence)?;
                self.deletions.fetch_sub(done, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// How many deletions are pending: counted with each change, since any client may ask.
    pub fn deletions_pending(&self) -> u64 {
        self.deletions.load(Ordering::Relaxed)
    }

    /// Whether a file's objects wait for deletion.
    pub fn is_deletion_pending(&self, file: FileIndex) -> Result<bool, Failure> {
        Ok(self.store.get(&key::deletion(file))?.is_some())
    }

    pub(super) fn list_files(&self, kind: Kind) -> Result<Vec<FileIndex>, Failure> {
        let mut files = Vec::new();
        let view = self.store.snapshot()?;
        for shard in 0..self.shards {
            let range = key::all(ShardId(shard), kind);
            view.scan(&range.from, &range.end, &mut |key, _| {
                files.push(key::file_of(key));
                ControlFlow::Continue(())
            })?;
        }
        files.into_iter().collect::<Option<_>>().ok_or_else(|| Status::Corrupted.into())
    }
}

/// Deletions removed from the queue in one batch: far below `BATCH_BYTES_MAX`.
const DONE_BATCH_MAX: usize = 4096;
