//! Forcing an open file to disk (I6).

use std::time::Duration;

use braid_net::Driver;
use braid_types::{IodId, Status};
use braid_wire::{
    Rights,
    message::{iod::FlushReply, mds::FsyncFile, types::Attributes},
};

use super::{
    OpenFile, close::unsynced_data_lost, iod_body::Body, read::REPLANS_MAX, transfer::TransferEnd,
};
use crate::error::{Error, Result};

impl<D: Driver> OpenFile<D> {
    /// Forces everything written through this file to disk: data on every daemon, then size and
    /// name (I6).
    ///
    /// # Errors
    /// [`Status::UnsyncedDataLost`], once, if a daemon lost writes that it had acknowledged;
    /// [`Status::StaleHandle`] if a restarted metadata server could not reclaim the open file.
    pub async fn sync(&self) -> Result<Attributes> {
        self.sync_inner(self.engine().deadline())
            .await
            .map_err(|error| error.during("sync", self.path()))
    }

    async fn sync_inner(&self, deadline: Duration) -> Result<Attributes> {
        self.engine().check_process()?;
        self.handle.check()?;
        let wrote = !self.unflushed.pending().is_empty();
        self.flush_daemons(deadline).await?;
        let call = FsyncFile { file: self.file() };
        let attributes = self
            .engine()
            .repeatable(call)
            .identity(self.caller.identity.number())
            .until(deadline)
            .send()
            .await?;
        // The server may have restarted meanwhile and not reclaimed the file.
        self.handle.check()?;
        if wrote {
            self.parts_were_recorded();
        }
        match self.unflushed.take_lost() {
            Some(server) => Err(unsynced_data_lost(&server)),
            None => Ok(attributes),
        }
    }

    /// If a daemon showed, through another file, that it may have lost writes, it is queried for
    /// this file.
    pub(super) async fn check_verifiers(&self) {
        let grant = self.state();
        let last = |iod: IodId| {
            let target = grant.map.targets().iter().position(|target| target.iod == iod)?;
            Some(grant.pools[target].last_verifier())
        };
        if self.unflushed.may_be_lost(last) {
            // A daemon that does not answer has not reported a loss.
            let _ = self.flush_daemons(self.engine().deadline()).await;
        }
    }

    /// Called before a truncate or a hole: bytes sent on a dropped connection must not be written
    /// afterwards. An object that does not exist yet cannot refuse an old size generation.
    pub(super) async fn wait_for_abandons(&self) -> Result<()> {
        let is_owed = self.state().pools.iter().any(|pool| !pool.abandoned.is_empty());
        if is_owed { self.flush_daemons(self.engine().deadline()).await } else { Ok(()) }
    }

    /// Forces the file's data to disk on all its daemons at the same time. This includes what other
    /// handles and programs wrote: `fsync` means that, and a program that has written and closed
    /// the file leaves nobody else to flush it. A handle without the right to write may not flush,
    /// and has written nothing.
    pub(super) async fn flush_daemons(&self, mut deadline: Duration) -> Result<()> {
        if !self.rights().allow(Rights::WRITE) {
            return Ok(());
        }
        for _ in 0..REPLANS_MAX {
            // A daemon that the layout does not name any more has no part of the file to flush.
            let (grant, pending) = (self.state(), self.unflushed.pending());
            let targets: Vec<usize> = (0..grant.map.targets().len()).collect();
            let replies: Result<Vec<FlushReply>, TransferEnd> =
                self.ask_targets(&grant, &targets, Body::Flush, &mut deadline).await;
            match replies {
                Ok(replies) => {
                    for (target, reply) in targets.into_iter().zip(replies) {
                        let iod = grant.map.targets()[target].iod;
                        grant.pools[target].set_verifier(reply.verifier);
                        if let Some((_, before)) =
                            pending.iter().find(|(pending, _)| *pending == iod)
                        {
                            self.unflushed.record_flush(iod, *before, reply.verifier, || {
                                grant.pools[target].server_name()
                            });
                        }
                    }
                    return Ok(());
                }
                Err(TransferEnd::Failed(error)) => return Err(error),
                Err(TransferEnd::Replan) => {}
            }
        }
        Err(Error::new(
            Status::TryAgain,
            "the file was truncated, or its layout changed, too often",
        ))
    }
}
