//! Quota: the write end, which nothing is sent past before the metadata server has extended it (ADR 0012), and what
//! administrators set.
//!
//! Invariants: (1) a write end goes with the capability that it came with: a truncate voids both; (2) where nobody has a limit it
//! is past every file, and costs a comparison.

use std::{sync::atomic::Ordering, time::Duration};

use braid_net::Driver;
use braid_types::{FileIndex, ShardId};
use braid_wire::{
    Rights,
    message::{
        mds::{
            ExtendWriteEnd, FsckUsage, QuotaGet, QuotaList, QuotaRemove, QuotaSet, QuotaWalk,
            QuotaWalked,
        },
        quota::{QuotaDifference, QuotaLimits, QuotaOwner, QuotaReport},
        types::At,
    },
};

use super::{Caller, OpenFile, open_file::Grant};
use crate::error::Result;

impl<D: Driver> OpenFile<D> {
    /// Makes sure that the file may be written up to `end`: then no quota refuses a write below it while the file is open. For
    /// whoever takes bytes in to send them later.
    ///
    /// # Errors
    /// [`braid_types::Status::QuotaExceeded`], and as any call of the metadata server.
    pub async fn reserve(&self, end: u64) -> Result<()> {
        let reserved = async {
            self.allow_telling(Rights::WRITE)?;
            self.reach(&*self.grant(), end, self.engine().deadline()).await
        };
        reserved.await.map_err(|error| error.during("write", self.path()))
    }

    /// Asks for a farther write end where `end` is past it.
    pub(crate) async fn reach(&self, grant: &Grant<D>, end: u64, deadline: Duration) -> Result<()> {
        if end <= grant.write_end.load(Ordering::Relaxed) {
            return Ok(());
        }
        let call = ExtendWriteEnd { open_id: self.open_id(), file: self.file(), end };
        // A repetition gives the same: no replay record is needed.
        let (session, identity) = (self.handle.session, self.caller.identity.number());
        let extended = self
            .engine()
            .repeatable(call)
            .in_session(session)
            .identity(identity)
            .until(deadline)
            .send()
            .await;
        // Why the server does not have it open is known better here.
        let extended = extended.map_err(|error| self.handle.check().err().unwrap_or(error))?;
        grant.write_end.fetch_max(extended.unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(())
    }
}

impl<D: Driver> Caller<D> {
    /// Sets limits. When a directory is not counted completely after it, walk it ([`Caller::quota_walk`]).
    pub async fn quota_set(&self, owner: QuotaOwner, limits: QuotaLimits) -> Result<QuotaReport> {
        self.repeatable("set a quota in", &At::root(b""), QuotaSet { owner, limits }).send().await
    }

    /// Limits and usage.
    pub async fn quota(&self, owner: QuotaOwner) -> Result<QuotaReport> {
        self.repeatable("show a quota of", &At::root(b""), QuotaGet { owner }).send().await
    }

    /// Everybody who has limits or uses something, in order, after `after`: some of them, none at the end.
    pub async fn quotas(&self, after: Option<QuotaOwner>) -> Result<Vec<QuotaReport>> {
        self.repeatable("list the quotas of", &At::root(b""), QuotaList { after }).send().await
    }

    /// Removes limits; whether there were any. A directory is to be walked then.
    pub async fn quota_remove(&self, owner: QuotaOwner) -> Result<bool> {
        self.repeatable("remove a quota from", &At::root(b""), QuotaRemove { owner }).send().await
    }

    /// Counts everything below a directory where the directory is counted; how many inodes were counted elsewhere before. Doing it
    /// again changes nothing.
    pub async fn quota_walk(&self, dir: FileIndex) -> Result<u64> {
        let (mut stack, mut moved) = (vec![dir], 0);
        while let Some(dir) = stack.pop() {
            let mut cookie = Some(0);
            while let Some(from) = cookie {
                let call = QuotaWalk { dir, cookie: from };
                let reply = match self.repeatable("count", &At::file(dir), call).send().await {
                    Ok(reply) => reply,
                    // It was removed meanwhile.
                    Err(error) if is_gone(&error) && !stack.is_empty() => break,
                    Err(error) => return Err(error),
                };
                (cookie, moved) = (reply.next, moved + reply.moved);
                stack.extend(reply.directories);
            }
        }
        Ok(moved)
    }

    /// Everything below a directory with a quota was walked.
    pub async fn quota_walked(&self, dir: FileIndex) -> Result<()> {
        self.repeatable("count", &At::file(dir), QuotaWalked { dir }).send().await
    }

    /// Counts a shard's usage anew; with `mend`, records it.
    pub async fn fsck_usage(&self, shard: ShardId, mend: bool) -> Result<Vec<QuotaDifference>> {
        self.repeatable("check", &At::root(b""), FsckUsage { shard, mend }).send().await
    }
}

fn is_gone(error: &crate::Error) -> bool {
    use braid_types::Status::{NotFound, StaleHandle};
    matches!(error.status(), NotFound | StaleHandle)
}
