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

use super::bounds::exceeded;
use super::{Delta, Owners, bytes_of};
use crate::key::{self, Kind};
use crate::record::{Inode, Quota, QuotaOwner, RecordError, Usage};
use crate::store::View;

/// How far the growth grants of one session may reach beyond the counted bytes, in all its files
/// together. Usage may exceed a limit by at most this amount for each client. A stream of 1 GB/s
/// asks about 30 times a second.
pub const AHEAD_BYTES_MAX: u64 = 64 << 20;
/// How far a file may grow without asking when it is opened. Most files are smaller and need no
/// further call.
pub const AHEAD_FIRST_BYTES: u64 = 256 << 10;
/// The share of the remaining bytes that one file is granted: the nearer the limit, the smaller the
/// grants.
const AHEAD_SHARE: u64 = 64;

/// A change of growth grants that the inodes of a batch do not show.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    /// A truncate to `size`, or a punch, has begun: growth is counted from now on.
    Begun { file: FileIndex, size: Option<u64> },
    /// It is done: every earlier capability is void, and with it every growth grant.
    Done { file: FileIndex, size: Option<u64> },
}

/// A file that is being written, or whose final size is not recorded yet.
#[derive(Debug)]
struct InFlight {
    owners: Owners,
    recorded: u64,
    /// The file counts up to here.
    reached: u64,
    /// How far each session may write.
    ends: Vec<(SessionId, u64)>,
    /// A truncate or punch is in progress.
    intent: bool,
}

/// See `quota/mod.rs`.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    usage: HashMap<(ShardId, QuotaOwner), Usage>,
    sums: HashMap<QuotaOwner, Usage>,
    quotas: HashMap<QuotaOwner, Quota>,
    files: HashMap<FileIndex, InFlight>,
    in_flight: HashMap<QuotaOwner, u128>,
    ahead: HashMap<SessionId, u64>,
}

impl Ledger {
    /// Loads the usage of one shard; the cluster's shard also holds the limits.
    pub(crate) fn load(&mut self, view: &dyn View, shard: ShardId) -> Result<(), Failure> {
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
    pub(crate) fn sum(&self, owner: QuotaOwner) -> Usage {
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
    pub(crate) fn usage_after(&self, shard: ShardId, delta: &Delta) -> Usage {
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
        delta: &Delta,
        now: Timestamp,
    ) -> Option<Quota> {
        let quota = self.quota(owner)?;
        let after = quota.following(changed(self.sum(owner), delta), now);
        (after != quota).then_some(after)
    }

    /// Whether an owner may have this much more.
    pub(crate) fn check(&self, delta: &Delta, now: Timestamp) -> Result<(), Failure> {
        let Some(quota) = self.quotas.get(&delta.owner) else { return Ok(()) };
        let sum = self.sum(delta.owner);
        let fits = |ceiling: Option<u64>, used: u128, more: i128| {
            more <= 0
                || ceiling.is_none_or(|ceiling| used + more.unsigned_abs() <= u128::from(ceiling))
        };
        if !fits(
            quota.inodes.ceiling(quota.grace_seconds, now),
            u128::from(sum.inodes),
            i128::from(delta.inodes),
        ) {
            return Err(exceeded(delta.owner, "inodes"));
        }
        let counts = sum.bytes + self.in_flight(delta.owner);
        if !fits(quota.bytes.ceiling(quota.grace_seconds, now), counts, delta.bytes) {
            return Err(exceeded(delta.owner, "bytes"));
        }
        Ok(())
    }

    /// The offset up to which a file counts.
    pub(crate) fn reached(&self, inode: &Inode) -> u64 {
        let recorded = bytes_of(inode);
        self.files.get(&inode.file).map_or(recorded, |flight| flight.reached.max(recorded))
    }

    /// Whether a file may grow to `size`.
    pub(crate) fn check_growth(
        &self,
        inode: &Inode,
        size: u64,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let bytes = i128::from(size.saturating_sub(self.reached(inode)));
        Owners::of(inode)
            .iter()
            .try_for_each(|owner| self.check(&Delta { owner, bytes, inodes: 0 }, now))
    }

    /// How far a session may write: at least to `wanted`, if given. `size` is the file's observed
    /// size. Returns `None` for no bound: no owner of the file has a limit of bytes.
    pub(crate) fn extend(
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
        let reached = self.reached(inode).max(size);
        let wanted = wanted.map_or(reached, |wanted| wanted.max(reached));
        if wanted > reached {
            self.check_growth(inode, wanted, now)?;
        }
        self.update(inode, |flight| flight.reached = flight.reached.max(wanted));
        let grown = wanted.saturating_sub(bytes_of(inode)).max(AHEAD_FIRST_BYTES);
        let ahead = grown
            .min(self.left(inode, now) / AHEAD_SHARE)
            .min(self.budget(session, inode.file) / 2);
        let end = wanted.saturating_add(ahead);
        self.update(inode, |flight| match flight.ends.iter_mut().find(|(of, _)| *of == session) {
            Some((_, known)) => *known = end.max(*known),
            None => flight.ends.push((session, end)),
        });
        let ahead = self.ahead.get(&session).copied().unwrap_or_default();
        debug_assert!(ahead <= AHEAD_BYTES_MAX, "4: a session's growth grants are bounded");
        Ok(Some(end))
    }

    /// Whether any owner of the file has a limit of bytes.
    fn limits_growth(&self, inode: &Inode) -> bool {
        let limited = |owner| {
            self.quotas
                .get(&owner)
                .is_some_and(|quota| (quota.bytes.hard, quota.bytes.soft) != (None, None))
        };
        !self.quotas.is_empty() && Owners::of(inode).iter().any(limited)
    }

    /// The bytes that the file's owners have left; the smallest of their figures.
    fn left(&self, inode: &Inode, now: Timestamp) -> u64 {
        let of = |owner| {
            let quota = self.quotas.get(&owner)?;
            let ceiling = quota.bytes.ceiling(quota.grace_seconds, now)?;
            let counts = self.sum(owner).bytes + self.in_flight(owner);
            Some(u128::from(ceiling).saturating_sub(counts) as u64)
        };
        Owners::of(inode).iter().filter_map(of).min().unwrap_or(u64::MAX)
    }

    /// How much further a session may be granted, without what it has in this file.
    fn budget(&self, session: SessionId, file: FileIndex) -> u64 {
        let here = self.files.get(&file).map_or(0, |flight| flight.ahead_of(session));
        let all = self.ahead.get(&session).copied().unwrap_or_default();
        AHEAD_BYTES_MAX.saturating_sub(all.saturating_sub(here))
    }

    /// A session no longer has the file open for writing while others do. What it may have written
    /// counts until the size is known.
    pub(crate) fn leave(&mut self, inode: &Inode, session: SessionId) {
        if !self.files.contains_key(&inode.file) {
            return;
        }
        self.update(inode, |flight| {
            let end = flight.ends.iter().find(|(of, _)| *of == session).map_or(0, |(_, end)| *end);
            flight.reached = flight.reached.max(end);
            flight.ends.retain(|(of, _)| *of != session);
        });
    }

    /// The last writer has closed and the daemons have reported the size. Also for a file that was
    /// opened before there was a limit.
    pub(crate) fn heard(&mut self, inode: &Inode, size: u64) {
        if self.files.contains_key(&inode.file)
            || inode.size_in_objects && self.limits_growth(inode)
        {
            self.update(inode, |flight| {
                flight.reached = size.max(flight.recorded);
                flight.ends.clear();
            });
        }
    }

    pub(crate) fn mark(&mut self, inode: &Inode, mark: Mark) {
        match mark {
            Mark::Begun { size, .. }
                if self.files.contains_key(&inode.file) || self.limits_growth(inode) =>
            {
                self.update(inode, |flight| {
                    flight.intent = true;
                    flight.reached = flight.reached.max(size.unwrap_or(0));
                });
            }
            Mark::Done { size, .. } if self.files.contains_key(&inode.file) => {
                self.update(inode, |flight| {
                    flight.intent = false;
                    flight.reached = size.unwrap_or(flight.reached).max(flight.recorded);
                    flight.ends.clear();
                });
            }
            _ => {}
        }
    }

    /// A batch has changed or removed a file.
    pub(crate) fn follow(&mut self, file: FileIndex, inode: Option<&Inode>) {
        let Some(flight) = self.files.get(&file) else { return };
        match inode {
            Some(inode) if inode.size_in_objects || flight.intent => self.update(inode, |_| {}),
            _ => {
                if let Some(flight) = self.files.remove(&file) {
                    self.count(&flight, false);
                }
            }
        }
    }

    /// Changes the entry of a file, and the sums with it.
    fn update(&mut self, inode: &Inode, change: impl FnOnce(&mut InFlight)) {
        let (owners, recorded) = (Owners::of(inode), bytes_of(inode));
        let mut flight = match self.files.remove(&inode.file) {
            Some(flight) => {
                self.count(&flight, false);
                InFlight { owners, recorded, ..flight }
            }
            None => {
                InFlight { owners, recorded, reached: recorded, ends: Vec::new(), intent: false }
            }
        };
        change(&mut flight);
        flight.reached = flight.reached.max(recorded);
        self.count(&flight, true);
        self.files.insert(inode.file, flight);
    }

    fn count(&mut self, flight: &InFlight, add: bool) {
        let bytes = u128::from(flight.reached.saturating_sub(flight.recorded));
        for owner in flight.owners.iter().filter(|_| bytes > 0) {
            let sum = self.in_flight.entry(owner).or_default();
            *sum = if add { *sum + bytes } else { sum.saturating_sub(bytes) };
            if *sum == 0 {
                self.in_flight.remove(&owner);
            }
        }
        for (session, _) in &flight.ends {
            let bytes = flight.ahead_of(*session);
            let sum = self.ahead.entry(*session).or_default();
            *sum = if add { sum.saturating_add(bytes) } else { sum.saturating_sub(bytes) };
            if *sum == 0 {
                self.ahead.remove(session);
            }
        }
    }

    /// How far all growth grants together reach beyond the counted bytes.
    #[cfg(test)]
    pub(crate) fn ahead(&self) -> u64 {
        self.ahead.values().sum()
    }

    /// Files with unrecorded bytes.
    #[cfg(test)]
    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }
}

impl InFlight {
    fn ahead_of(&self, session: SessionId) -> u64 {
        let end = self.ends.iter().find(|(of, _)| *of == session).map_or(0, |(_, end)| *end);
        end.saturating_sub(self.reached)
    }
}

fn changed(usage: Usage, delta: &Delta) -> Usage {
    let bytes = usage.bytes.saturating_add_signed(delta.bytes);
    Usage { bytes, inodes: usage.inodes.saturating_add_signed(delta.inodes) }
}
