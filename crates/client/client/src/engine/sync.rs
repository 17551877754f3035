//! What an I/O daemon acknowledged and was not told to sync yet (I6).
//!
//! Every write and flush reply carries the daemon's write verifier. It changes when writes that were never flushed
//! may be gone: the host lost power, a write-back failed. This layer holds no bytes, so it cannot send them again:
//! it tells the caller, once.
//!
//! Invariants: (1) a daemon is in the table from its first unsynced write until a flush that began after its last
//! one succeeds; (2) a verifier other than the one in the table is a loss; (3) a loss is reported once, at the
//! next sync or close.

use std::{collections::BTreeMap, sync::Mutex, time::Duration};

use braid_net::Driver;
use braid_types::{IodId, Status, WriteVerifier};
use braid_wire::{
    Rights,
    message::{iod::FlushReply, mds::FsyncFile, types::Attributes},
};

use super::{OpenFile, close::lost, gate::lock, iod_body::Body, mds_call::Kind, read::REPLANS_MAX, transfer::Stop};
use crate::error::{Error, Result};

#[derive(Debug, Default)]
pub(crate) struct Unsynced(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    daemons: BTreeMap<IodId, Daemon>,
    /// The first daemon that lost something.
    lost: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Daemon {
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
    fn flushed(&self, iod: IodId, before: Daemon, verifier: WriteVerifier, server: impl Fn() -> String) {
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

    fn pending(&self) -> Vec<(IodId, Daemon)> {
        lock(&self.0).daemons.iter().map(|(iod, daemon)| (*iod, *daemon)).collect()
    }

    /// Whether a daemon that was written to and not flushed has another verifier by now.
    fn is_doubted(&self, last: impl Fn(IodId) -> Option<WriteVerifier>) -> bool {
        lock(&self.0).daemons.iter().any(|(iod, daemon)| last(*iod).is_some_and(|last| last != daemon.verifier))
    }

    pub(crate) fn take_lost(&self) -> Option<String> {
        lock(&self.0).lost.take()
    }
}

impl<D: Driver> OpenFile<D> {
    /// Forces everything written through this file to disk: data on every daemon, then size and name (I6).
    ///
    /// # Errors
    /// [`Status::UnsyncedDataLost`], once, when a daemon lost writes that it had acknowledged;
    /// [`Status::StaleHandle`] when a restarted metadata server could not take the open file up again.
    pub async fn sync(&self) -> Result<Attributes> {
        self.sync_all(self.engine().deadline()).await.map_err(|error| error.during("sync", self.path()))
    }

    async fn sync_all(&self, deadline: Duration) -> Result<Attributes> {
        self.engine().check_process()?;
        self.handle.check()?;
        self.flush_daemons(deadline).await?;
        let call = FsyncFile { file: self.file() };
        let attributes = self.engine().call(self.caller.identity, &call, Kind::Free, deadline).await?;
        // The server may have restarted on the way, and not have taken the file up.
        self.handle.check()?;
        match self.unsynced.take_lost() {
            Some(server) => Err(lost(&server)),
            None => Ok(attributes),
        }
    }

    /// The daemons that said through another file that they may have lost something are asked about this one.
    pub(super) async fn clear_doubts(&self) {
        let grant = self.grant();
        let last = |iod: IodId| {
            let target = grant.map.targets().iter().position(|target| target.iod == iod)?;
            Some(grant.pools[target].last_verifier())
        };
        if self.unsynced.is_doubted(last) {
            // Who does not answer has not said that anything is lost.
            let _ = self.flush_daemons(self.engine().deadline()).await;
        }
    }

    /// Forces the file's data to disk on all its daemons at once, also what other handles and programs wrote: that is
    /// what `fsync` means, and a program that writes and closes leaves nobody else to do it. A handle that may not
    /// write has no right to flush, and wrote nothing.
    pub(super) async fn flush_daemons(&self, deadline: Duration) -> Result<()> {
        if !self.rights().allow(Rights::WRITE) {
            return Ok(());
        }
        for _ in 0..REPLANS_MAX {
            // A daemon that the layout names no more has no part of the file to flush.
            let (grant, pending) = (self.grant(), self.unsynced.pending());
            let targets: Vec<usize> = (0..grant.map.targets().len()).collect();
            let replies: Result<Vec<FlushReply>, Stop> =
                self.ask_targets(&grant, &targets, Body::Flush, deadline).await;
            match replies {
                Ok(replies) => {
                    for (target, reply) in targets.into_iter().zip(replies) {
                        let iod = grant.map.targets()[target].iod;
                        grant.pools[target].said(reply.verifier);
                        if let Some((_, before)) = pending.iter().find(|(pending, _)| *pending == iod) {
                            self.unsynced.flushed(iod, *before, reply.verifier, || grant.pools[target].server());
                        }
                    }
                    return Ok(());
                }
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Replan) => {}
            }
        }
        Err(Error::new(Status::TryAgain, "the file was truncated or laid out anew again and again"))
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
