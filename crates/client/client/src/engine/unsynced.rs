//! What an I/O daemon acknowledged and was not told to sync yet (I6).
//!
//! Every write and flush reply carries the daemon's write verifier. It changes when writes that were never flushed
//! may be gone: the host lost power, a write-back failed. This layer holds no bytes, so it cannot send them again:
//! it tells the caller, once.
//!
//! Invariants: (1) a daemon is in the table from its first unsynced write until a flush that began after its last
//! one succeeds; (2) a verifier other than the one in the table is a loss; (3) a loss is reported once, at the
//! next sync or close.

use std::{collections::BTreeMap, sync::Mutex};

use braid_types::{IodId, WriteVerifier};

use super::gate::lock;

#[derive(Debug, Default)]
pub(crate) struct Unsynced(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    daemons: BTreeMap<IodId, Daemon>,
    /// The first daemon that lost something.
    lost: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Daemon {
    verifier: WriteVerifier,
    /// Rises with every write.
    writes: u64,
}

impl Unsynced {
    pub(crate) fn wrote(&self, iod: IodId, verifier: WriteVerifier, server: impl Fn() -> String) {
        let mut table = lock(&self.0);
        let daemon = table.daemons.entry(iod).or_insert(Daemon { verifier, writes: 0 });
        daemon.writes += 1;
        if daemon.verifier != verifier {
            daemon.verifier = verifier;
            table.lost.get_or_insert_with(server);
        }
    }

    /// A flush that began when the daemon had `writes` writes ended with this verifier.
    pub(super) fn flushed(&self, iod: IodId, before: Daemon, verifier: WriteVerifier, server: impl Fn() -> String) {
        let mut table = lock(&self.0);
        if before.verifier != verifier {
            table.lost.get_or_insert_with(server);
        }
        match table.daemons.get_mut(&iod) {
            Some(daemon) if daemon.writes == before.writes => {
                table.daemons.remove(&iod);
            }
            // What was written since is not synced; its verifier is that of the flush or newer.
            Some(daemon) if daemon.verifier == before.verifier => daemon.verifier = verifier,
            _ => {}
        }
    }

    pub(super) fn pending(&self) -> Vec<(IodId, Daemon)> {
        lock(&self.0).daemons.iter().map(|(iod, daemon)| (*iod, *daemon)).collect()
    }

    /// Whether a daemon that was written to and not flushed has another verifier by now.
    pub(super) fn is_doubted(&self, last: impl Fn(IodId) -> Option<WriteVerifier>) -> bool {
        lock(&self.0).daemons.iter().any(|(iod, daemon)| last(*iod).is_some_and(|last| last != daemon.verifier))
    }

    pub(crate) fn take_lost(&self) -> Option<String> {
        lock(&self.0).lost.take()
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
    fn a_verifier_that_changed_before_the_flush_is_a_loss() {
        let unsynced = Unsynced::default();
        unsynced.wrote(IOD, WriteVerifier(1), server);
        let before = unsynced.pending()[0].1;
        unsynced.flushed(IOD, before, WriteVerifier(2), server);
        assert_eq!((unsynced.pending().len(), unsynced.take_lost()), (0, Some(server())));
    }
}
