//! All leases are lost: caches are dropped before other clients may change the files, whichever
//! daemon is unresponsive.
//!
//! ```text
//!   all files: nothing begins any more             waits for nothing
//!   names of all directories, in parallel          waits a moment for directories that are locked
//!   each file: pages dropped, once                 waits for those that are being read
//!   each file: pages, until there are none         waits for those that were read meanwhile
//!   each file: writes end, buffers sent; open      waits for daemons
//! ```
//!
//! It begins `LEASE_STOP_MS` after the last renewal, and other clients may use the files after
//! `LEASE_EXPIRES_MS`: ten seconds later. A call to an unresponsive daemon takes longer.
//!
//! Invariants:
//! 1. No file's pages wait for what is written or buffered.
//! 2. The pages of a file wait for another file's daemon only where [`THREADS`] files wait already.
//!    Files whose pages may wait come last.
//!
//! No assertion checks these: a thread does not record what it waits for. `drain_each` drops the
//! pages of every file before `end_uses` waits for any, and `drop_all_caches` sorts the files (2).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::FileData;
use crate::{mount_caches::MountCaches, mutex::lock};

/// Files at a time: fewer than the threads with which the FUSE gateway drops pages, since writes
/// that still run drop pages, too.
const THREADS: usize = 6;

impl FileData {
    /// How likely a drop of its pages waits for a daemon: most of all where pages are being read,
    /// then where a program may have made some dirty.
    fn may_wait(&self) -> u8 {
        let lease = &lock(&self.state).lease;
        match (lease.is_reading_pages(), lease.has_writers()) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        }
    }
}

impl MountCaches {
    /// When this returns nothing that was cached under a lease is used any more. What was written
    /// under one is at the daemons, or its loss is recorded.
    pub(crate) fn drop_all_caches(&self) {
        let mut files = self.data.all();
        files.iter().for_each(|data| self.begin_recall(data));
        files.sort_by_cached_key(|data| data.may_wait());
        let names = || self.forget_directories(self.names.directories());
        thread::scope(|scope| {
            let beside =
                thread::Builder::new().name("vfs-lost-names".into()).spawn_scoped(scope, names);
            self.drain_each(&files);
            if beside.is_err() {
                names();
            }
        });
        for data in files {
            // A relaxed mount may have read pages of it meanwhile, which need no lease.
            self.data.forget(data, |data| self.stays_in_table(data));
        }
    }

    fn drain_each(&self, files: &[Arc<FileData>]) {
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(data) = files.get(at % files.len().max(1)) else { return };
                match at / files.len() {
                    0 => self.drop_once_if_free(data),
                    1 => self.drop_all(data),
                    2 => self.end_uses(data),
                    _ => return,
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..THREADS.min(files.len()) {
                // Without further threads it takes longer.
                let _ = thread::Builder::new().name("vfs-lost".into()).spawn_scoped(scope, work);
            }
            work();
        });
    }

    /// From now on nothing begins under a file's lease.
    pub(super) fn begin_recall(&self, data: &FileData) {
        let ticket = self.leases().data_ticket(data.file);
        {
            let mut state = lock(&data.state);
            state.lease.begin_recall();
            state.returning = ticket;
        }
        data.changed.notify_all();
    }

    /// Drops the pages that are cached now, unless another thread is doing that.
    fn drop_once_if_free(&self, data: &FileData) {
        if let Ok(_one) = data.dropping.try_lock() {
            self.drop_once(data);
        }
    }

    /// Waits for what ran under a file's lease, and lets uses begin again.
    fn end_uses(&self, data: &FileData) {
        // An append that still ran may have set the end, which is known only under the lease.
        data.wait_while(|lease| !lease.has_no_writes()).end = None;
        // While the pages of a write that ended were dropped, others may have been read.
        self.drop_all(data);
        // The handle that wrote the bytes reports the error.
        let _ = self.flush(data);
        data.end_recall();
    }
}
