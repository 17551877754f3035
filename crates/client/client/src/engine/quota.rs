//! Quota. No write passes the growth grant before the metadata server has extended it (ADR 0012).
//! Also the calls by which administrators set quotas.
//!
//! Invariants:
//! 1. A growth grant belongs to the capability that it came with: a truncate invalidates both.
//! 2. Without a limit the growth grant is larger than any file, and its check costs one comparison.
//!
//! No assertion checks these: the growth grant is a field of the capability's `FileState` (1), and
//! `u64::MAX` where there is no limit (2).

use std::{sync::atomic::Ordering, time::Duration};

use braid_net::Driver;
use braid_types::{FileIndex, ShardId};
use braid_wire::{
    Rights,
    message::{
        mds::{
            ExtendGrowthGrant, FsckUsage, QuotaGet, QuotaList, QuotaRemove, QuotaSet, QuotaWalk,
            QuotaWalked,
        },
        quota::{QuotaDifference, QuotaLimits, QuotaOwner, QuotaReport},
        types::PathRef,
    },
};

use super::{Caller, OpenFile, open_file::FileState};
use crate::error::Result;

impl<D: Driver> OpenFile<D> {
    /// Ensures that the file may be written up to `end`: no quota refuses a write below it while
    /// the file is open. For callers that buffer bytes before they send them.
    ///
    /// # Errors
    /// [`braid_types::Status::QuotaExceeded`], and as any call of the metadata server.
    pub async fn reserve(&self, end: u64) -> Result<()> {
        let reserved = async {
            self.check_rights_keeping_report(Rights::WRITE)?;
            self.extend_growth_grant(&*self.state(), end, self.engine().deadline()).await
        };
        reserved.await.map_err(|error| error.during("write", self.path()))
    }

    /// Requests a larger growth grant if `end` is past it.
    pub(crate) async fn extend_growth_grant(
        &self,
        grant: &FileState<D>,
        end: u64,
        deadline: Duration,
    ) -> Result<()> {
        if end <= grant.growth_grant.load(Ordering::Relaxed) {
            return Ok(());
        }
        let call = ExtendGrowthGrant { open_id: self.open_id(), file: self.file(), end };
        // A repetition returns the same: it needs no replay record.
        let (session, identity) = (self.handle.session, self.caller.identity.number());
        let extended = self
            .engine()
            .repeatable(call)
            .in_session(session)
            .identity(identity)
            .until(deadline)
            .send()
            .await;
        // If the server does not have the file open, the handle knows the reason.
        let extended = extended.map_err(|error| self.handle.check().err().unwrap_or(error))?;
        grant.growth_grant.fetch_max(extended.unwrap_or(u64::MAX), Ordering::Relaxed);
        Ok(())
    }
}

impl<D: Driver> Caller<D> {
    /// Sets limits. If the report says that a directory is not counted completely, count it with
    /// [`Caller::quota_walk`].
    pub async fn quota_set(&self, owner: QuotaOwner, limits: QuotaLimits) -> Result<QuotaReport> {
        self.repeatable("set a quota in", &PathRef::root(b""), QuotaSet { owner, limits })
            .send()
            .await
    }

    /// Limits and usage.
    pub async fn quota(&self, owner: QuotaOwner) -> Result<QuotaReport> {
        self.repeatable("show a quota of", &PathRef::root(b""), QuotaGet { owner }).send().await
    }

    /// Owners that have limits or use something, in order, after `after`. Returns a batch; empty at
    /// the end.
    pub async fn quotas(&self, after: Option<QuotaOwner>) -> Result<Vec<QuotaReport>> {
        self.repeatable("list the quotas of", &PathRef::root(b""), QuotaList { after }).send().await
    }

    /// Removes limits. Returns whether there were any. A directory must be counted again
    /// afterwards.
    pub async fn quota_remove(&self, owner: QuotaOwner) -> Result<bool> {
        self.repeatable("remove a quota from", &PathRef::root(b""), QuotaRemove { owner })
            .send()
            .await
    }

    /// Counts everything below a directory towards that directory. Returns how many inodes were
    /// counted elsewhere before. Repeating it changes nothing.
    pub async fn quota_walk(&self, dir: FileIndex) -> Result<u64> {
        let (mut stack, mut moved) = (vec![dir], 0);
        while let Some(dir) = stack.pop() {
            let mut cookie = Some(0);
            while let Some(from) = cookie {
                let call = QuotaWalk { dir, cookie: from };
                let reply = match self.repeatable("count", &PathRef::file(dir), call).send().await {
                    Ok(reply) => reply,
                    // The directory was removed meanwhile.
                    Err(error) if is_gone(&error) && !stack.is_empty() => break,
                    Err(error) => return Err(error),
                };
                (cookie, moved) = (reply.next, moved + reply.moved);
                stack.extend(reply.directories);
            }
        }
        Ok(moved)
    }

    /// Records that everything below a directory with a quota has been counted.
    pub async fn quota_walked(&self, dir: FileIndex) -> Result<()> {
        self.repeatable("count", &PathRef::file(dir), QuotaWalked { dir }).send().await
    }

    /// Counts a shard's usage again; with `mend`, records the result.
    pub async fn fsck_usage(&self, shard: ShardId, mend: bool) -> Result<Vec<QuotaDifference>> {
        self.repeatable("check", &PathRef::root(b""), FsckUsage { shard, mend }).send().await
    }
}

fn is_gone(error: &crate::Error) -> bool {
    use braid_types::Status::{NotFound, StaleHandle};
    matches!(error.status(), NotFound | StaleHandle)
}
