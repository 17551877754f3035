//! Byte-range locks.
//!
//! Invariants:
//! 1. No two owners have the same byte of a file, unless both share it. An owner never conflicts
//!    with itself: a new lock replaces what the owner has there (POSIX `fcntl()`).
//! 2. No request waits for a lock that is free. Released locks are granted in the order of arrival
//!    to the requests that conflict with no owner any more.
//! 3. No wait goes on that is part of a cycle of owners that wait for each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use braid_types::{FileIndex, RangeMap, SessionId, Status};
use tokio::sync::Notify;

use super::Outcome;
use crate::{Lock, LockCancelHandle, LockConflict};

/// The owner of a lock: a session, and the number that it chose.
type Owner = (SessionId, u64);

/// A request for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The file.
    pub file: FileIndex,
    /// The session of the owner.
    pub session: SessionId,
    /// The range and its owner.
    pub lock: Lock,
}

/// A request that waits. It stays in the table until its caller has seen the result.
#[derive(Debug)]
struct Wait {
    wanted: Wanted,
    cancel: LockCancelHandle,
    notify: Arc<Notify>,
    result: Option<Outcome<()>>,
}

/// All locks and waits.
#[derive(Debug, Default)]
pub struct LockTable {
    /// Whether each range is locked exclusively.
    held: BTreeMap<FileIndex, BTreeMap<Owner, RangeMap<bool>>>,
    /// By number, which is the order of arrival.
    waits: BTreeMap<u64, Wait>,
    newest_wait: u64,
}

impl Wanted {
    fn owner(&self) -> Owner {
        (self.session, self.lock.owner)
    }

    fn check(&self) -> Outcome<()> {
        if self.lock.start <= self.lock.last { Ok(()) } else { Err(Status::Invalid) }
    }
}

impl LockTable {
    /// Ranges that are locked.
    pub fn count(&self) -> usize {
        self.held.values().flat_map(BTreeMap::values).map(RangeMap::len).sum()
    }

    /// The locks of a session.
    pub fn of_session(&self, session: SessionId) -> Vec<(FileIndex, Lock)> {
        let owners = self.held.iter().flat_map(|(file, owners)| {
            let own = owners.range((session, 0)..=(session, u64::MAX));
            own.map(move |((_, owner), ranges)| (*file, *owner, ranges))
        });
        let locks = owners.flat_map(|(file, owner, ranges)| {
            ranges
                .iter()
                .map(move |(start, last, exclusive)| (file, Lock { owner, start, last, exclusive }))
        });
        locks.collect()
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.waits.values().filter(|wait| wait.result.is_none()).count()
    }

    /// Grants a lock, or returns the one that conflicts.
    ///
    /// # Errors
    /// `Invalid`: the range is empty.
    pub fn request(&mut self, wanted: Wanted) -> Outcome<Option<LockConflict>> {
        wanted.check()?;
        let conflict = self.conflict(&wanted);
        if conflict.is_none() {
            self.grant(&wanted);
            self.settle();
        }
        Ok(conflict)
    }

    /// The lock that conflicts with a request.
    ///
    /// # Errors
    /// `Invalid`: the range is empty.
    pub fn test(&self, wanted: &Wanted) -> Outcome<Option<LockConflict>> {
        wanted.check()?;
        Ok(self.conflict(wanted))
    }

    /// Releases a range of an owner.
    ///
    /// # Errors
    /// `Invalid`: the range is empty.
    pub fn unlock(&mut self, wanted: &Wanted) -> Outcome<()> {
        wanted.check()?;
        if let Some(owners) = self.held.get_mut(&wanted.file)
            && let Some(ranges) = owners.get_mut(&wanted.owner())
        {
            ranges.clear(wanted.lock.start, wanted.lock.last);
            if ranges.is_empty() {
                owners.remove(&wanted.owner());
            }
            if owners.is_empty() {
                self.held.remove(&wanted.file);
            }
            self.settle();
        }
        Ok(())
    }

    /// Adds a request that waits. Returns its number, and what wakes its caller.
    ///
    /// # Errors
    /// `Invalid`: the range is empty.
    pub fn begin_wait(
        &mut self,
        wanted: Wanted,
        cancel: &LockCancelHandle,
    ) -> Outcome<(u64, Arc<Notify>)> {
        wanted.check()?;
        self.newest_wait += 1;
        let notify = Arc::new(Notify::new());
        let (cancel, woken) = (cancel.clone(), Arc::clone(&notify));
        self.waits.insert(self.newest_wait, Wait { wanted, cancel, notify, result: None });
        if self.deadlocks(&wanted) {
            self.finish(self.newest_wait, Err(Status::Deadlock));
        }
        self.settle();
        Ok((self.newest_wait, woken))
    }

    /// The result of a wait, if it has one; the wait is removed then.
    pub fn take_result(&mut self, wait: u64) -> Option<Outcome<()>> {
        let result = self.waits.get(&wait).map_or(Some(Err(Status::Internal)), |wait| wait.result);
        if result.is_some() {
            self.waits.remove(&wait);
        }
        result
    }

    /// The caller of a wait went away. A lock that it was granted meanwhile is released, since
    /// nobody knows of it.
    pub fn abandon(&mut self, wait: u64) {
        if let Some(Wait { wanted, result: Some(Ok(())), .. }) = self.waits.remove(&wait) {
            let _ = self.unlock(&wanted);
        }
    }

    /// Ends the waits whose handles were cancelled.
    pub fn end_cancelled(&mut self) {
        self.finish_where(|wait| wait.cancel.is_cancelled(), Status::Interrupted);
    }

    /// Releases the locks of a session, and ends its waits.
    pub fn end_session(&mut self, session: SessionId) {
        self.finish_where(|wait| wait.wanted.session == session, Status::NoSession);
        for owners in self.held.values_mut() {
            owners.retain(|(of, _), _| *of != session);
        }
        self.held.retain(|_, owners| !owners.is_empty());
        self.settle();
    }

    fn conflict(&self, wanted: &Wanted) -> Option<LockConflict> {
        self.blockers(wanted).next()
    }

    /// Conflicting locks of other owners.
    fn blockers(&self, wanted: &Wanted) -> impl Iterator<Item = LockConflict> {
        let (me, Lock { start, last, exclusive, .. }) = (wanted.owner(), wanted.lock);
        let owners = self.held.get(&wanted.file).into_iter().flatten();
        owners.filter(move |(owner, _)| **owner != me).flat_map(move |(owner, ranges)| {
            let (session, owner) = *owner;
            ranges.overlapping(start, last).filter(move |(.., other)| exclusive || *other).map(
                move |(start, last, exclusive)| LockConflict {
                    session,
                    owner,
                    pid: 0,
                    start,
                    last,
                    exclusive,
                },
            )
        })
    }

    fn grant(&mut self, wanted: &Wanted) {
        let Lock { start, last, exclusive, .. } = wanted.lock;
        let owners = self.held.entry(wanted.file).or_default();
        owners.entry(wanted.owner()).or_default().set(start, last, exclusive);
    }

    /// Grants what is free now, then ends waits that would never end.
    fn settle(&mut self) {
        while let Some(wait) = self.first_wait(|table, wait| table.conflict(wait).is_none()) {
            let wanted = self.waits[&wait].wanted;
            self.grant(&wanted);
            self.finish(wait, Ok(()));
        }
        while let Some(wait) = self.first_wait(Self::deadlocks) {
            self.finish(wait, Err(Status::Deadlock));
        }
    }

    fn first_wait(&self, which: impl Fn(&Self, &Wanted) -> bool) -> Option<u64> {
        let mut waits = self.waits.iter().filter(|(_, wait)| wait.result.is_none());
        waits.find(|(_, wait)| which(self, &wait.wanted)).map(|(number, _)| *number)
    }

    /// Whether an owner of a conflicting lock waits, directly or indirectly, for this owner.
    fn deadlocks(&self, wanted: &Wanted) -> bool {
        let owner_of = |lock: LockConflict| (lock.session, lock.owner);
        let mut reached: Vec<Owner> = self.blockers(wanted).map(owner_of).collect();
        let mut seen = BTreeSet::new();
        while let Some(next) = reached.pop() {
            if next == wanted.owner() {
                return true;
            }
            if seen.insert(next) {
                let waits = self
                    .waits
                    .values()
                    .filter(|wait| wait.result.is_none() && wait.wanted.owner() == next);
                reached.extend(waits.flat_map(|wait| self.blockers(&wait.wanted)).map(owner_of));
            }
        }
        false
    }

    fn finish_where(&mut self, which: impl Fn(&Wait) -> bool, status: Status) {
        let found = self.waits.iter().filter(|(_, wait)| wait.result.is_none() && which(wait));
        let numbers: Vec<u64> = found.map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.finish(number, Err(status)));
    }

    fn finish(&mut self, wait: u64, result: Outcome<()>) {
        if let Some(wait) = self.waits.get_mut(&wait) {
            wait.result = Some(result);
            wait.notify.notify_one();
        }
    }
}
