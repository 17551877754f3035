//! Writes that I/O daemons acknowledged and have not flushed (I6).
//!
//! Every reply to a write or flush contains the daemon's write verifier. It changes when unflushed
//! writes may be lost: after a power failure, or a failed write-back. This layer keeps no data, so
//! it cannot send the writes again. It reports the loss to the caller, once.
//!
//! ```text
//!   Unsynced   of one open file ──┬── sync or close of the file reports its losses, once
//!      │ closed with unsynced writes
//!      v                          │
//!   Ledger     of the client: open files, rest of closed files, losses ── sync_all reports them
//! ```
//!
//! Invariants:
//! 1. A daemon is in a table from its first unsynced write until a flush succeeds that began after
//!    its last write.
//! 2. A verifier that differs from the one in the table means a loss.
//! 3. A loss is reported once at the next sync or close of the file, and to each `sync_all` that
//!    began before another one reported it.
//! 4. What a file leaves at its close is added to that of closed files while no `sync_all` runs.
//!    Otherwise a `sync_all` would flush it, and the next one would report it as lost.
//!
//! `record_flush` asserts the order in 1, and `RunningSync::end` that of the counts in 3. Both
//! `record_write` and `record_flush` compare the verifiers (2).

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use braid_types::{IodId, WriteVerifier};

use super::semaphore::lock;

/// The unflushed writes of one open file.
#[derive(Debug, Default)]
pub(crate) struct UnflushedWrites {
    table: Mutex<WriteTable>,
    losses: Arc<WriteErrors>,
}

#[derive(Debug, Default)]
struct WriteTable {
    daemons: BTreeMap<IodId, DaemonWrites>,
    /// Rises with every write to any daemon.
    writes: u64,
    /// The first daemon that lost writes.
    lost: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DaemonWrites {
    verifier: WriteVerifier,
    /// The value of `writes` at the last write to the daemon.
    last: u64,
}

impl UnflushedWrites {
    pub(crate) fn record_write(
        &self,
        iod: IodId,
        verifier: WriteVerifier,
        server: impl Fn() -> String,
    ) {
        let mut table = lock(&self.table);
        table.writes += 1;
        let last = table.writes;
        let before = table.daemons.insert(iod, DaemonWrites { verifier, last });
        if before.is_some_and(|before| before.verifier != verifier) {
            self.set_lost(&mut table, server);
        }
    }

    /// A flush ended with this verifier; `before` is the daemon's entry when the flush began.
    pub(super) fn record_flush(
        &self,
        iod: IodId,
        before: DaemonWrites,
        verifier: WriteVerifier,
        server: impl Fn() -> String,
    ) {
        let mut table = lock(&self.table);
        // No entry: another flush has covered these writes and reported their fate.
        let Some(daemon) = table.daemons.get_mut(&iod) else { return };
        debug_assert!(before.last <= daemon.last, "1: a flush began after the last write");
        let known = daemon.verifier;
        if daemon.last == before.last {
            table.daemons.remove(&iod);
        } else if known == before.verifier {
            // Writes since the flush began are not synced; their verifier is that of the flush or
            // newer.
            daemon.verifier = verifier;
        } else {
            return;
        }
        if known != verifier {
            self.set_lost(&mut table, server);
        }
    }

    fn set_lost(&self, table: &mut WriteTable, server: impl Fn() -> String) {
        table.lost.get_or_insert_with(&server);
        self.losses.add(server());
    }

    pub(super) fn pending(&self) -> Vec<(IodId, DaemonWrites)> {
        lock(&self.table).daemons.iter().map(|(iod, daemon)| (*iod, *daemon)).collect()
    }

    /// Whether the verifier of a daemon with unflushed writes has changed.
    pub(super) fn may_be_lost(&self, last: impl Fn(IodId) -> Option<WriteVerifier>) -> bool {
        lock(&self.table)
            .daemons
            .iter()
            .any(|(iod, daemon)| last(*iod).is_some_and(|last| last != daemon.verifier))
    }

    pub(crate) fn take_lost(&self) -> Option<String> {
        lock(&self.table).lost.take()
    }
}

/// The losses of all files of a client, whether reported or not.
#[derive(Debug, Default)]
struct WriteErrors(Mutex<ErrorCounts>);

#[derive(Debug, Default)]
struct ErrorCounts {
    count: u64,
    /// How many of them a `sync_all` has reported.
    reported: u64,
    last: String,
}

impl WriteErrors {
    fn add(&self, server: String) {
        let mut losses = lock(&self.0);
        losses.count += 1;
        losses.last = server;
    }
}

/// The unflushed writes of all files of a client, also of closed ones.
#[derive(Debug, Default)]
pub(crate) struct UnflushedFiles {
    files: Mutex<Files>,
    of_closed_files: Arc<UnflushedWrites>,
}

#[derive(Debug, Default)]
struct Files {
    /// By their address in memory. Also those in `closed`.
    open: HashMap<usize, Arc<UnflushedWrites>>,
    /// Calls of `sync_all` that run.
    syncs: usize,
    /// Files with unflushed writes that were closed while one ran, and the names of their daemons.
    closed: Vec<(Arc<UnflushedWrites>, BTreeMap<IodId, String>)>,
}

/// A `sync_all` that runs.
#[derive(Debug)]
pub(super) struct RunningSync<'a> {
    of: &'a UnflushedFiles,
    /// The losses reported before it began.
    reported: u64,
}

impl UnflushedFiles {
    /// Adds an opened file.
    pub(super) fn open(&self) -> Arc<UnflushedWrites> {
        let file = Arc::new(UnflushedWrites {
            table: Mutex::default(),
            losses: Arc::clone(&self.of_closed_files.losses),
        });
        lock(&self.files).open.insert(Arc::as_ptr(&file).addr(), Arc::clone(&file));
        file
    }

    /// The file is closed, and no write to it is in flight.
    pub(super) fn close(&self, file: &Arc<UnflushedWrites>, server: impl Fn(IodId) -> String) {
        // Locked until the end: a concurrent `sync_all` sees the open file, or what it left.
        let mut files = lock(&self.files);
        let pending = file.pending();
        if files.syncs > 0 && !pending.is_empty() {
            // Invariant 4.
            let servers = pending.into_iter().map(|(iod, _)| (iod, server(iod))).collect();
            files.closed.push((Arc::clone(file), servers));
            return;
        }
        files.open.remove(&Arc::as_ptr(file).addr());
        self.keep(pending, server);
    }

    /// Adds what a file left to that of closed files.
    fn keep(&self, pending: Vec<(IodId, DaemonWrites)>, server: impl Fn(IodId) -> String) {
        for (iod, daemon) in pending {
            self.of_closed_files.record_write(iod, daemon.verifier, || server(iod));
        }
    }

    /// A `sync_all` begins. Returns the open files and what closed files left.
    pub(super) fn begin_sync(&self) -> (RunningSync<'_>, Vec<Arc<UnflushedWrites>>) {
        let reported = lock(&self.of_closed_files.losses.0).reported;
        let mut files = lock(&self.files);
        files.syncs += 1;
        let all = files.open.values().cloned().chain([Arc::clone(&self.of_closed_files)]);
        (RunningSync { of: self, reported }, all.collect())
    }
}

impl RunningSync<'_> {
    /// Everything was flushed. Returns a daemon that lost writes, if that was not reported before
    /// this call began.
    pub(super) fn end(self) -> Option<String> {
        let mut losses = lock(&self.of.of_closed_files.losses.0);
        debug_assert!(
            self.reported <= losses.reported && losses.reported <= losses.count,
            "3: a loss is reported that never was"
        );
        losses.reported = losses.count;
        (losses.count > self.reported).then(|| losses.last.clone())
    }
}

impl Drop for RunningSync<'_> {
    fn drop(&mut self) {
        let mut files = lock(&self.of.files);
        files.syncs -= 1;
        if files.syncs > 0 {
            return;
        }
        for (file, servers) in std::mem::take(&mut files.closed) {
            files.open.remove(&Arc::as_ptr(&file).addr());
            self.of.keep(file.pending(), |iod| servers.get(&iod).cloned().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IOD: IodId = IodId(3);
    fn server() -> String {
        "I/O daemon 3".into()
    }

    #[test]
    fn a_verifier_that_changes_between_writes_is_a_loss_reported_once() {
        let unsynced = UnflushedWrites::default();
        unsynced.record_write(IOD, WriteVerifier(1), server);
        unsynced.record_write(IOD, WriteVerifier(1), server);
        assert_eq!(unsynced.take_lost(), None);
        unsynced.record_write(IOD, WriteVerifier(2), server);
        assert_eq!(unsynced.take_lost(), Some(server()));
        assert_eq!(unsynced.take_lost(), None);
    }

    #[test]
    fn a_write_during_a_flush_stays_unsynced() {
        let unsynced = UnflushedWrites::default();
        unsynced.record_write(IOD, WriteVerifier(1), server);
        let before = unsynced.pending()[0].1;
        unsynced.record_write(IOD, WriteVerifier(1), server);
        unsynced.record_flush(IOD, before, WriteVerifier(1), server);
        assert_eq!(unsynced.pending().len(), 1);
        let before = unsynced.pending()[0].1;
        unsynced.record_flush(IOD, before, WriteVerifier(1), server);
        assert_eq!((unsynced.pending().len(), unsynced.take_lost()), (0, None));
    }

    #[test]
    fn an_overtaken_flush_does_not_mark_later_writes_synced() {
        let unsynced = UnflushedWrites::default();
        unsynced.record_write(IOD, WriteVerifier(1), server);
        let before = unsynced.pending()[0].1;
        unsynced.record_flush(IOD, before, WriteVerifier(1), server);
        unsynced.record_write(IOD, WriteVerifier(1), server);
        unsynced.record_flush(IOD, before, WriteVerifier(1), server);
        assert_eq!(unsynced.pending().len(), 1);
    }

    #[test]
    fn two_flushes_report_one_loss_once() {
        let unsynced = UnflushedWrites::default();
        unsynced.record_write(IOD, WriteVerifier(1), server);
        let first = unsynced.pending()[0].1;
        unsynced.record_write(IOD, WriteVerifier(1), server);
        let second = unsynced.pending()[0].1;
        unsynced.record_flush(IOD, first, WriteVerifier(2), server);
        assert_eq!(unsynced.take_lost(), Some(server()));
        unsynced.record_flush(IOD, second, WriteVerifier(2), server);
        assert_eq!((unsynced.pending().len(), unsynced.take_lost()), (0, None));
    }

    /// What a `sync_all` reports when every daemon replies with this verifier.
    fn sync_all(open_files: &UnflushedFiles, verifier: u64) -> Option<String> {
        let (began, files) = open_files.begin_sync();
        for file in files {
            for (iod, before) in file.pending() {
                file.record_flush(iod, before, WriteVerifier(verifier), server);
            }
        }
        began.end()
    }

    #[test]
    fn losses_of_a_closed_file_are_reported_by_the_next_sync_all_only() {
        let files = UnflushedFiles::default();
        let file = files.open();
        file.record_write(IOD, WriteVerifier(1), server);
        files.close(&file, |_| server());
        assert_eq!(sync_all(&files, 2), Some(server()));
        assert_eq!(sync_all(&files, 2), None);
    }

    #[test]
    fn writes_covered_by_sync_all_are_never_reported_as_lost() {
        let files = UnflushedFiles::default();
        let (open, closed) = (files.open(), files.open());
        open.record_write(IOD, WriteVerifier(1), server);
        closed.record_write(IOD, WriteVerifier(1), server);
        files.close(&closed, |_| server());
        assert_eq!(sync_all(&files, 1), None);
        assert_eq!((open.pending().len(), sync_all(&files, 2)), (0, None));
    }

    #[test]
    fn a_file_closed_during_a_sync_all_is_covered_by_it() {
        let files = UnflushedFiles::default();
        let file = files.open();
        file.record_write(IOD, WriteVerifier(1), server);
        let (running, all) = files.begin_sync();
        let pending: Vec<_> = all.iter().map(|file| file.pending()).collect();
        files.close(&file, |_| server());
        for (file, pending) in all.iter().zip(pending) {
            for (iod, before) in pending {
                file.record_flush(iod, before, WriteVerifier(1), server);
            }
        }
        assert_eq!(running.end(), None);
        assert_eq!(sync_all(&files, 2), None, "what it flushed is not lost");
        assert!(lock(&files.files).open.is_empty());
    }

    #[test]
    fn a_file_closed_during_a_sync_all_that_fails_is_reported_by_the_next_one() {
        let files = UnflushedFiles::default();
        let file = files.open();
        file.record_write(IOD, WriteVerifier(1), server);
        let (running, _) = files.begin_sync();
        files.close(&file, |_| server());
        drop(running);
        assert!(lock(&files.files).open.is_empty());
        assert_eq!(sync_all(&files, 2), Some(server()));
    }

    #[test]
    fn a_loss_is_reported_by_the_file_and_by_each_earlier_sync_all() {
        let files = UnflushedFiles::default();
        let file = files.open();
        file.record_write(IOD, WriteVerifier(1), server);
        file.record_write(IOD, WriteVerifier(2), server);
        assert_eq!(file.take_lost(), Some(server()), "the file's own close comes first");
        let ((one, _), (other, _)) = (files.begin_sync(), files.begin_sync());
        assert_eq!(one.end(), Some(server()));
        assert_eq!(other.end(), Some(server()));
        let (late, _) = files.begin_sync();
        assert_eq!(late.end(), None);
    }

    #[test]
    fn a_verifier_that_changed_before_the_flush_is_a_loss() {
        let unsynced = UnflushedWrites::default();
        unsynced.record_write(IOD, WriteVerifier(1), server);
        let before = unsynced.pending()[0].1;
        unsynced.record_flush(IOD, before, WriteVerifier(2), server);
        assert_eq!((unsynced.pending().len(), unsynced.take_lost()), (0, Some(server())));
    }
}
