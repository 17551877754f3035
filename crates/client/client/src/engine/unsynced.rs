//! What I/O daemons acknowledged and were not told to sync yet (I6).
//!
//! Every write and flush reply carries the daemon's write verifier. It changes when writes that were never flushed
//! may be gone: the host lost power, a write-back failed. This layer holds no bytes, so it cannot send them again:
//! it tells the caller, once.
//!
//! ```text
//!   Unsynced   of one open file ──┬── its sync, its close: told of its own losses, once
//!      │ closed, its writes not synced
//!      v                          │
//!   Ledger     of the client: open files, what closed ones left, losses ── a sync of all: told of those of anybody
//! ```
//!
//! Invariants: (1) a daemon is in a table from its first unsynced write until a flush that began after its last
//! one succeeds; (2) a verifier other than the one in the table is a loss; (3) a loss is reported once, at the
//! next sync or close of the file, and to each sync of all that began before another one had told it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use braid_types::{IodId, WriteVerifier};

use super::gate::lock;

/// Of one open file.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    table: Mutex<Table>,
    losses: Arc<Losses>,
}

#[derive(Debug, Default)]
struct Table {
    daemons: BTreeMap<IodId, Daemon>,
    /// Rises with every write to any daemon.
    writes: u64,
    /// The first daemon that lost something.
    lost: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Daemon {
    verifier: WriteVerifier,
    /// The table's number of the last write.
    last: u64,
}

impl Unsynced {
    pub(crate) fn wrote(&self, iod: IodId, verifier: WriteVerifier, server: impl Fn() -> String) {
        let mut table = lock(&self.table);
        table.writes += 1;
        let last = table.writes;
        let before = table.daemons.insert(iod, Daemon { verifier, last });
        if before.is_some_and(|before| before.verifier != verifier) {
            self.is_lost(&mut table, server);
        }
    }

    /// A flush that began when the daemon stood so in the table ended with this verifier.
    pub(super) fn flushed(
        &self,
        iod: IodId,
        before: Daemon,
        verifier: WriteVerifier,
        server: impl Fn() -> String,
    ) {
        let mut table = lock(&self.table);
        // Of none, another flush that covers these writes was quicker, and has told what became of them.
        let Some(daemon) = table.daemons.get_mut(&iod) else { return };
        let known = daemon.verifier;
        if daemon.last == before.last {
            table.daemons.remove(&iod);
        } else if known == before.verifier {
            // What was written since is not synced; its verifier is that of the flush or newer.
            daemon.verifier = verifier;
        } else {
            return;
        }
        if known != verifier {
            self.is_lost(&mut table, server);
        }
    }

    fn is_lost(&self, table: &mut Table, server: impl Fn() -> String) {
        table.lost.get_or_insert_with(&server);
        self.losses.add(server());
    }

    pub(super) fn pending(&self) -> Vec<(IodId, Daemon)> {
        lock(&self.table).daemons.iter().map(|(iod, daemon)| (*iod, *daemon)).collect()
    }

    /// Whether a daemon that was written to and not flushed has another verifier by now.
    pub(super) fn is_doubted(&self, last: impl Fn(IodId) -> Option<WriteVerifier>) -> bool {
        lock(&self.table)
            .daemons
            .iter()
            .any(|(iod, daemon)| last(*iod).is_some_and(|last| last != daemon.verifier))
    }

    pub(crate) fn take_lost(&self) -> Option<String> {
        lock(&self.table).lost.take()
    }
}

/// The losses of a client's files, whoever was told of them.
#[derive(Debug, Default)]
struct Losses(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    count: u64,
    /// How many of them a sync of all has told.
    told: u64,
    last: String,
}

impl Losses {
    fn add(&self, server: String) {
        let mut losses = lock(&self.0);
        losses.count += 1;
        losses.last = server;
    }
}

/// Of all files of a client, those that it has closed too.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// By where they lie in memory.
    open: Mutex<HashMap<usize, Arc<Unsynced>>>,
    left: Arc<Unsynced>,
}

/// Where a sync of all began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Began(u64);

impl Ledger {
    /// For a file that was opened.
    pub(super) fn open(&self) -> Arc<Unsynced> {
        let file =
            Arc::new(Unsynced { table: Mutex::default(), losses: Arc::clone(&self.left.losses) });
        lock(&self.open).insert(Arc::as_ptr(&file).addr(), Arc::clone(&file));
        file
    }

    /// The file is closed, and no write to it under way.
    pub(super) fn close(&self, file: &Arc<Unsynced>, server: impl Fn(IodId) -> String) {
        // Held: whoever looks at all finds it open, or what it left.
        let mut open = lock(&self.open);
        open.remove(&Arc::as_ptr(file).addr());
        for (iod, daemon) in file.pending() {
            self.left.wrote(iod, daemon.verifier, || server(iod));
        }
    }

    /// A sync of all begins: the files that are open, and what closed ones left.
    pub(super) fn all(&self) -> (Began, Vec<Arc<Unsynced>>) {
        let told = lock(&self.left.losses.0).told;
        let open = lock(&self.open);
        (Began(told), open.values().cloned().chain([Arc::clone(&self.left)]).collect())
    }

    /// A sync of all has seen everything: who lost something that no sync had told before this one began.
    pub(super) fn ended(&self, began: Began) -> Option<String> {
        let mut losses = lock(&self.left.losses.0);
        losses.told = losses.count;
        (losses.count > began.0).then(|| losses.last.clone())
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
    fn a_verifier_that_changes_between_writes_is_a_loss_told_once() {
        let unsynced = Unsynced::default();
        unsynced.wrote(IOD, WriteVerifier(1), server);
        unsynced.wrote(IOD, WriteVerifier(1), server);
        assert_eq!(unsynced.take_lost(), None);
        unsynced.wrote(IOD, WriteVerifier(2), server);
        assert_eq!(unsynced.take_lost(), Some(server()));
        assert_eq!(unsynced.take_lost(), None);
    }

    #[test]
    fn a_write_during_a_flush_stays_unsynced() {
        let unsynced = Unsynced::default();
        unsynced.wrote(IOD, WriteVerifier(1), server);
        let before = unsynced.pending()[0].1;
        unsynced.wrote(IOD, WriteVerifier(1), server);
        unsynced.flushed(IOD, before, WriteVerifier(1), server);
        assert_eq!(unsynced.pending().len(), 1);
        let before = unsynced.pending()[0].1;
        unsynced.flushed(IOD, before, WriteVerifier(1), server);
        assert_eq!((unsynced.pending().len(), unsynced.take_lost()), (0, None));
    }

    #[test]
    fn a_flush_that_another_one_overtook_takes_no_later_write_for_synced() {
        let unsynced = Unsynced::default();
        unsynced.wrote(IOD, WriteVerifier(1), server);
        let before = unsynced.pending()[0].1;
        unsynced.flushed(IOD, before, WriteVerifier(1), server);
        unsynced.wrote(IOD, WriteVerifier(1), server);
        unsynced.flushed(IOD, before, WriteVerifier(1), server);
        assert_eq!(unsynced.pending().len(), 1);
    }

    #[test]
    fn two_flushes_of_one_loss_tell_it_once() {
        let unsynced = Unsynced::default();
        unsynced.wrote(IOD, WriteVerifier(1), server);
        let first = unsynced.pending()[0].1;
        unsynced.wrote(IOD, WriteVerifier(1), server);
        let second = unsynced.pending()[0].1;
        unsynced.flushed(IOD, first, WriteVerifier(2), server);
        assert_eq!(unsynced.take_lost(), Some(server()));
        unsynced.flushed(IOD, second, WriteVerifier(2), server);
        assert_eq!((unsynced.pending().len(), unsynced.take_lost()), (0, None));
    }

    /// What a sync of all tells when every daemon answers with this verifier.
    fn sync_all(ledger: &Ledger, verifier: u64) -> Option<String> {
        let (began, files) = ledger.all();
        for file in files {
            for (iod, before) in file.pending() {
                file.flushed(iod, before, WriteVerifier(verifier), server);
            }
        }
        ledger.ended(began)
    }

    #[test]
    fn what_a_closed_file_lost_is_told_by_the_next_sync_of_all_and_no_other() {
        let ledger = Ledger::default();
        let file = ledger.open();
        file.wrote(IOD, WriteVerifier(1), server);
        ledger.close(&file, |_| server());
        assert_eq!(sync_all(&ledger, 2), Some(server()));
        assert_eq!(sync_all(&ledger, 2), None);
    }

    #[test]
    fn what_a_sync_of_all_covered_is_lost_to_nobody_after_it() {
        let ledger = Ledger::default();
        let (open, closed) = (ledger.open(), ledger.open());
        open.wrote(IOD, WriteVerifier(1), server);
        closed.wrote(IOD, WriteVerifier(1), server);
        ledger.close(&closed, |_| server());
        assert_eq!(sync_all(&ledger, 1), None);
        assert_eq!((open.pending().len(), sync_all(&ledger, 2)), (0, None));
    }

    #[test]
    fn a_loss_is_told_by_the_file_and_by_each_sync_of_all_that_began_before_it_was_told() {
        let ledger = Ledger::default();
        let file = ledger.open();
        file.wrote(IOD, WriteVerifier(1), server);
        file.wrote(IOD, WriteVerifier(2), server);
        assert_eq!(file.take_lost(), Some(server()), "the file's own close comes first");
        let ((one, _), (other, _)) = (ledger.all(), ledger.all());
        assert_eq!(ledger.ended(one), Some(server()));
        assert_eq!(ledger.ended(other), Some(server()));
        let (late, _) = ledger.all();
        assert_eq!(ledger.ended(late), None);
    }

    #[test]
    fn a_verifier_that_changed_before_the_flush_is_a_loss() {
        let unsynced = Unsynced::default();
        unsynced.wrote(IOD, WriteVerifier(1), server);
        let before = unsynced.pending()[0].1;
        unsynced.flushed(IOD, before, WriteVerifier(2), server);
        assert_eq!((unsynced.pending().len(), unsynced.take_lost()), (0, Some(server())));
    }
}
