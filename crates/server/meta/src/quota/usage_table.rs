//! The usage table in memory: usage, limits, unrecorded bytes and growth grants.
//!
//! ```text
//!   0        recorded size     counted end       growth grant of a session
//!   |------------|------------------|--------------------|
//!                |   unrecorded     |  at most GROWTH_GRANT_MAX
//!                |   bytes          |  in all files of a session
//! ```

use std::collections::HashMap;
use std::ops::ControlFlow;

use braid_types::{Failure, FileIndex, SessionId, ShardId, Timestamp};

use super::limits::quota_exceeded;
use super::{QuotaOwners, UsageDelta, counted_bytes};
use crate::key::{self, Kind};
use crate::record::{Inode, Quota, QuotaOwner, RecordError, Usage};
use crate::store::Snapshot;

/// How far the growth grants of one session may reach beyond the counted bytes, in all its files
/// together. Usage may exceed a limit by at most this amount for each client. A stream of 1 GB/s
/// asks about 30 times a second.
pub const GROWTH_GRANT_MAX: u64 = 64 << 20;
/// How far a file may grow without asking when it is opened. Most files are smaller and need no
/// further call.
pub const GROWTH_GRANT_FIRST: u64 = 256 << 10;
/// The share of the remaining bytes that one file is granted: the nearer the limit, the smaller the
/// grants.
const GROWTH_GRANT_SHARE: u64 = 64;

/// A change of growth grants that the inodes of a batch do not show.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GrantChange {
    /// A truncate to `size`, or a punch, has begun: growth is counted from now on.
    SizeChangeBegun { file: FileIndex, size: Option<u64> },
    /// It is done: every earlier capability is void, and with it every growth grant.
    SizeChangeDone { file: FileIndex, size: Option<u64> },
}

/// A file that is being written, or whose final size is not recorded yet.
#[derive(Debug)]
struct UnrecordedFile {
    owners: QuotaOwners,
    recorded: u64,
    /// The file counts up to here.
    counted_end: u64,
    /// How far each session may write.
    grants: Vec<(SessionId, u64)>,
    /// A truncate or punch is in progress.
    intent: bool,
}

/// See `quota/mod.rs`.
#[derive(Debug, Default)]
pub(crate) struct UsageTable {
    usage: HashMap<(ShardId, QuotaOwner), Usage>,
    sums: HashMap<QuotaOwner, Usage>,
    quotas: HashMap<QuotaOwner, Quota>,
    files: HashMap<FileIndex, UnrecordedFile>,
    in_flight: HashMap<QuotaOwner, u128>,
    granted: HashMap<SessionId, u64>,
}

impl UsageTable {
    /// Loads the usage of one shard; the cluster's shard also holds the limits.
    pub(crate) fn load(&mut self, view: &dyn Snapshot, shard: ShardId) -> Result<(), Failure> {
        let mut read = Vec::new();
        let range = key::all(shard, Kind::Usage);
        view.scan(&range.from, &range.end, &mut |key, value| {
            let owner = key::owner_of(key).ok_or(RecordError::Broken { what: "usage" });
            read.push(owner.and_then(|owner| Ok((owner, Usage::decode(value)?))));
            ControlFlow::Continue(())
        })?;
        for found in read {
            let (owner, usage) = found?;
            self.set_usage(shard, owner, usage);
        }
        let mut quotas = Vec::new();
        if shard == key::CLUSTER_SHARD {
            let range = key::all(shard, Kind::Quota);
            view.scan(&range.from, &range.end, &mut |key, value| {
                let owner = key::owner_of(key).ok_or(RecordError::Broken { what: "quota" });
                quotas.push(owner.and_then(|owner| Ok((owner, Quota::decode(value)?))));
                ControlFlow::Continue(())
            })?;
        }
        self.quotas.extend(quotas.into_iter().collect::<Result<Vec<_>, RecordError>>()?);
        Ok(())
    }

    pub(crate) fn has_limits(&self) -> bool {
        !self.quotas.is_empty()
    }

    pub(crate) fn quota(&self, owner: QuotaOwner) -> Option<Quota> {
        self.quotas.get(&owner).copied()
    }

    pub(crate) fn set_quota(&mut self, owner: QuotaOwner, quota: Option<Quota>) {
        match quota {
            Some(quota) => drop(self.quotas.insert(owner, quota)),
            None => drop(self.quotas.remove(&owner)),
        }
    }

    /// Recorded usage.
    pub(crate) fn recorded_usage(&self, owner: QuotaOwner) -> Usage {
        self.sums.get(&owner).copied().unwrap_or_default()
    }

    /// Bytes that count and are not recorded yet.
    pub(crate) fn in_flight(&self, owner: QuotaOwner) -> u128 {
        self.in_flight.get(&owner).copied().unwrap_or_default()
    }

    /// All owners that have a usage or limits.
    pub(crate) fn owners(&self) -> Vec<QuotaOwner> {
        let mut owners: Vec<_> = self.sums.keys().chain(self.quotas.keys()).copied().collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Recorded usage in one shard.
    pub(crate) fn of_shard(&self, shard: ShardId) -> HashMap<QuotaOwner, Usage> {
        self.usage
            .iter()
            .filter(|((of, _), _)| *of == shard)
            .map(|((_, owner), usage)| (*owner, *usage))
            .collect()
    }

    /// A shard's usage of an owner after a change.
    pub(crate) fn usage_after(&self, shard: ShardId, delta: &UsageDelta) -> Usage {
        let usage = self.usage.get(&(shard, delta.owner)).copied().unwrap_or_default();
        changed(usage, delta)
    }

    pub(crate) fn set_usage(&mut self, shard: ShardId, owner: QuotaOwner, usage: Usage) {
        let before = self.usage.remove(&(shard, owner)).unwrap_or_default();
        if usage != Usage::default() {
            self.usage.insert((shard, owner), usage);
        }
        let sum = self.sums.entry(owner).or_default();
        sum.bytes = (sum.bytes + usage.bytes).saturating_sub(before.bytes);
        sum.inodes = (sum.inodes + usage.inodes).saturating_sub(before.inodes);
        if *sum == Usage::default() {
            self.sums.remove(&owner);
        }
    }

    /// An owner's limits with their times updated after a change; `None` if it has none or nothing
    /// changes.
    pub(crate) fn quota_after(
        &self,
        owner: QuotaOwner,
        delta: &UsageDelta,
        now: Timestamp,
    ) -> Option<Quota> {
        let quota = self.quota(owner)?;
        let after = quota.with_grace_updated(changed(self.recorded_usage(owner), delta), now);
        (after != quota).then_some(after)
    }

    /// Whether an owner may have this much more.
    pub(crate) fn check(&self, delta: &UsageDelta, now: Timestamp) -> Result<(), Failure> {
        let Some(quota) = self.quotas.get(&delta.owner) else { return Ok(()) };
        let sum = self.recorded_usage(delta.owner);
        let fits = |ceiling: Option<u64>, used: u128, more: i128| {
            more <= 0
                || ceiling.is_none_or(|ceiling| used + more.unsigned_abs() <= u128::from(ceiling))
        };
        if !fits(
            quota.inodes.effective_limit(quota.grace_seconds, now),
            u128::from(sum.inodes),
            i128::from(delta.inodes),
        ) {
            return Err(quota_exceeded(delta.owner, "inodes"));
        }
        let counts = sum.bytes + self.in_flight(delta.owner);
        if !fits(quota.bytes.effective_limit(quota.grace_seconds, now), counts, delta.bytes) {
            return Err(quota_exceeded(delta.owner, "bytes"));
        }
        Ok(())
    }

    /// The offset up to which a file counts.
    pub(crate) fn counted_end(&self, inode: &Inode) -> u64 {
        let recorded = counted_bytes(inode);
        self.files.get(&inode.file).map_or(recorded, |growth| growth.counted_end.max(recorded))
    }

    /// Whether a file may grow to `size`.
    pub(crate) fn check_growth(
        &self,
        inode: &Inode,
        size: u64,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let bytes = i128::from(size.saturating_sub(self.counted_end(inode)));
        QuotaOwners::of(inode)
            .iter()
            .try_for_each(|owner| self.check(&UsageDelta { owner, bytes, inodes: 0 }, now))
    }

    /// How far a session may write: at least to `wanted`, if given. `size` is the file's observed
    /// size. Returns `None` for no bound: no owner of the file has a limit of bytes.
    pub(crate) fn extend_grant(
        &mut self,
        session: SessionId,
        inode: &Inode,
        size: u64,
        wanted: Option<u64>,
        now: Timestamp,
    ) -> Result<Option<u64>, Failure> {
        if !self.limits_growth(inode) {
            return Ok(None);
        }
        debug_assert!(inode.size_in_objects, "3: a file that grows has the size mark");
        let reached = self.counted_end(inode).max(size);
        let wanted = wanted.map_or(reached, |wanted| wanted.max(reached));
        if wanted > reached {
            self.check_growth(inode, wanted, now)?;
        }
        self.update(inode, |growth| growth.counted_end = growth.counted_end.max(wanted));
        let grown = wanted.saturating_sub(counted_bytes(inode)).max(GROWTH_GRANT_FIRST);
        let ahead = grown
            .min(self.remaining_bytes(inode, now) / GROWTH_GRANT_SHARE)
            .min(self.remaining_grant(session, inode.file) / 2);
        let end = wanted.saturating_add(ahead);
        self.update(inode, |growth| {
            match growth.grants.iter_mut().find(|(of, _)| *of == session) {
                Some((_, known)) => *known = end.max(*known),
                None => growth.grants.push((session, end)),
            }
        });
        let ahead = self.granted.get(&session).copied().unwrap_or_default();
        debug_assert!(ahead <= GROWTH_GRANT_MAX, "4: a session's growth grants are bounded");
        Ok(Some(end))
    }

    /// Whether any owner of the file has a limit of bytes.
    fn limits_growth(&self, inode: &Inode) -> bool {
        let limited = |owner| {
            self.quotas
                .get(&owner)
                .is_some_and(|quota| (quota.bytes.hard, quota.bytes.soft) != (None, None))
        };
        !self.quotas.is_empty() && QuotaOwners::of(inode).iter().any(limited)
    }

    /// The bytes that the file's owners have left; the smallest of their figures.
    fn remaining_bytes(&self, inode: &Inode, now: Timestamp) -> u64 {
        let of = |owner| {
            let quota = self.quotas.get(&owner)?;
            let ceiling = quota.bytes.effective_limit(quota.grace_seconds, now)?;
            let counts = self.recorded_usage(owner).bytes + self.in_flight(owner);
            Some(u128::from(ceiling).saturating_sub(counts) as u64)
        };
        QuotaOwners::of(inode).iter().filter_map(of).min().unwrap_or(u64::MAX)
    }

    /// How much further a session may be granted, without what it has in this file.
    fn remaining_grant(&self, session: SessionId, file: FileIndex) -> u64 {
        let here = self.files.get(&file).map_or(0, |growth| growth.grant_beyond_counted(session));
        let all = self.granted.get(&session).copied().unwrap_or_default();
        GROWTH_GRANT_MAX.saturating_sub(all.saturating_sub(here))
    }

    /// A session no longer has the file open for writing while others do. What it may have written
    /// counts until the size is known.
    pub(crate) fn end_writer(&mut self, inode: &Inode, session: SessionId) {
        if !self.files.contains_key(&inode.file) {
            return;
        }
        self.update(inode, |growth| {
            let end =
                growth.grants.iter().find(|(of, _)| *of == session).map_or(0, |(_, end)| *end);
            growth.counted_end = growth.counted_end.max(end);
            growth.grants.retain(|(of, _)| *of != session);
        });
    }

    /// The last writer has closed and the daemons have reported the size. Also for a file that was
    /// opened before there was a limit.
    pub(crate) fn set_collected_size(&mut self, inode: &Inode, size: u64) {
        if self.files.contains_key(&inode.file)
            || inode.size_in_objects && self.limits_growth(inode)
        {
            self.update(inode, |growth| {
                growth.counted_end = size.max(growth.recorded);
                growth.grants.clear();
            });
        }
    }

    pub(crate) fn apply_grant_change(&mut self, inode: &Inode, mark: GrantChange) {
        match mark {
            GrantChange::SizeChangeBegun { size, .. }
                if self.files.contains_key(&inode.file) || self.limits_growth(inode) =>
            {
                self.update(inode, |growth| {
                    growth.intent = true;
                    growth.counted_end = growth.counted_end.max(size.unwrap_or(0));
                });
            }
            GrantChange::SizeChangeDone { size, .. } if self.files.contains_key(&inode.file) => {
                self.update(inode, |growth| {
                    growth.intent = false;
                    growth.counted_end = size.unwrap_or(growth.counted_end).max(growth.recorded);
                    growth.grants.clear();
                });
            }
            _ => {}
        }
    }

    /// A batch has changed or removed a file.
    pub(crate) fn update_file(&mut self, file: FileIndex, inode: Option<&Inode>) {
        let Some(growth) = self.files.get(&file) else { return };
        match inode {
            Some(inode) if inode.size_in_objects || growth.intent => self.update(inode, |_| {}),
            _ => {
                if let Some(growth) = self.files.remove(&file) {
                    self.count(&growth, false);
                }
            }
        }
    }

    /// Changes the entry of a file, and the sums with it.
    fn update(&mut self, inode: &Inode, change: impl FnOnce(&mut UnrecordedFile)) {
        let (owners, recorded) = (QuotaOwners::of(inode), counted_bytes(inode));
        let mut growth = match self.files.remove(&inode.file) {
            Some(growth) => {
                self.count(&growth, false);
                UnrecordedFile { owners, recorded, ..growth }
            }
            None => UnrecordedFile {
                owners,
                recorded,
                counted_end: recorded,
                grants: Vec::new(),
                intent: false,
            },
        };
        change(&mut growth);
        growth.counted_end = growth.counted_end.max(recorded);
        self.count(&growth, true);
        self.files.insert(inode.file, growth);
    }

    fn count(&mut self, growth: &UnrecordedFile, add: bool) {
        let bytes = u128::from(growth.counted_end.saturating_sub(growth.recorded));
        for owner in growth.owners.iter().filter(|_| bytes > 0) {
            let sum = self.in_flight.entry(owner).or_default();
            *sum = if add { *sum + bytes } else { sum.saturating_sub(bytes) };
            if *sum == 0 {
                self.in_flight.remove(&owner);
            }
        }
        for (session, _) in &growth.grants {
            let bytes = growth.grant_beyond_counted(*session);
            let sum = self.granted.entry(*session).or_default();
            *sum = if add { sum.saturating_add(bytes) } else { sum.saturating_sub(bytes) };
            if *sum == 0 {
                self.granted.remove(session);
            }
        }
    }

    /// How far all growth grants together reach beyond the counted bytes.
    #[cfg(test)]
    pub(crate) fn total_grants(&self) -> u64 {
        self.granted.values().sum()
    }

    /// Files with unrecorded bytes.
    #[cfg(test)]
    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }
}

impl UnrecordedFile {
    fn grant_beyond_counted(&self, session: SessionId) -> u64 {
        let end = self.grants.iter().find(|(of, _)| *of == session).map_or(0, |(_, end)| *end);
        end.saturating_sub(self.counted_end)
    }
}

fn changed(usage: Usage, delta: &UsageDelta) -> Usage {
    let bytes = usage.bytes.saturating_add_signed(delta.bytes);
    Usage { bytes, inodes: usage.inodes.saturating_add_signed(delta.inodes) }
}
