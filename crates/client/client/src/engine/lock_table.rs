//! The locks that this client holds. They are reclaimed from a restarted metadata server, and a
//! close needs to know whether there is anything to unlock.
//!
//! Invariants:
//! 1. A range is in the table only if the server epoch in `reclaimed` granted it, or was sent it in
//!    a reclaim.
//! 2. An owner is in the table from before its first request is sent until all its ranges are
//!    unlocked and no request is in flight. So a close also covers a request whose reply was lost.
//! 3. A closed owner has a pending unlock until the server has answered it. None of its locks are
//!    reclaimed.
//!
//! `add` refuses grants of other epochs (1). `end` asserts 2 for requests in flight; what the
//! server did with a lost one is unknown here. `to_reclaim` leaves out owners with a pending unlock
//! (3).

use std::{collections::BTreeMap, sync::Mutex};

use braid_types::{FileIndex, RangeMap, SessionId};
use braid_wire::message::lock::{LockRange, LockRequest, LockSpace};

use super::{open_table::ServerEpoch, semaphore::lock};

#[derive(Debug, Default)]
pub(crate) struct LockTable(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    reclaimed: Option<ServerEpoch>,
    owners: BTreeMap<LockOwner, OwnerLocks>,
}

/// An owner of locks, with the file and the kind of lock.
pub(crate) type LockOwner = (FileIndex, u64, LockSpace);

#[derive(Debug, Default)]
struct OwnerLocks {
    /// Each range: whether it is exclusive, and its process.
    ranges: RangeMap<(bool, u32)>,
    in_flight: u32,
    /// The owner has closed the file, and the unlock is not answered yet.
    unlock_pending: bool,
}

pub(crate) fn owner_of(lock: &LockRequest) -> LockOwner {
    (lock.file, lock.owner, lock.space)
}

/// The range of all possible locks of an owner.
pub(crate) fn whole_range((file, owner, space): LockOwner) -> LockRange {
    LockRange { file, space, owner, start: 0, last: u64::MAX }
}

impl LockTable {
    /// A request is about to be sent.
    pub(crate) fn begin(&self, wanted: &LockRequest) {
        lock(&self.0).owners.entry(owner_of(wanted)).or_default().in_flight += 1;
    }

    /// A request has ended. `refused`: the server said that it changed nothing.
    pub(crate) fn end(&self, wanted: &LockRequest, refused: bool) {
        let mut table = lock(&self.0);
        let Some(owned) = table.owners.get_mut(&owner_of(wanted)) else { return };
        debug_assert!(owned.in_flight > 0, "2: an owner is here while its request is in flight");
        owned.in_flight = owned.in_flight.saturating_sub(1);
        if refused && owned.in_flight == 0 && owned.ranges.is_empty() {
            table.owners.remove(&owner_of(wanted));
        }
    }

    /// Epoch `run` granted a lock. False if another epoch was sent a reclaim meanwhile, without
    /// this lock.
    pub(crate) fn add(&self, run: ServerEpoch, given: &LockRequest) -> bool {
        let mut table = lock(&self.0);
        if table.reclaimed.is_some_and(|known| known != run) {
            return false;
        }
        let owned = table.owners.entry(owner_of(given)).or_default();
        owned.ranges.set(given.start, given.last, (given.exclusive, given.pid));
        true
    }

    /// A range was unlocked.
    pub(crate) fn remove(&self, range: &LockRange) {
        let mut table = lock(&self.0);
        let key = (range.file, range.owner, range.space);
        let Some(owned) = table.owners.get_mut(&key) else { return };
        owned.ranges.clear(range.start, range.last);
        if (range.start, range.last) == (0, u64::MAX) {
            owned.unlock_pending = false;
            if owned.in_flight == 0 {
                table.owners.remove(&key);
            }
        }
    }

    /// The owner has closed the file: it has a pending unlock, if it may have locks.
    pub(crate) fn set_unlock_pending(&self, key: LockOwner) {
        if let Some(owned) = lock(&self.0).owners.get_mut(&key) {
            owned.unlock_pending = true;
        }
    }

    /// Whether the owner has a pending unlock.
    pub(crate) fn is_unlock_pending(&self, key: LockOwner) -> bool {
        lock(&self.0).owners.get(&key).is_some_and(|owned| owned.unlock_pending)
    }

    /// All owners with a pending unlock.
    pub(crate) fn pending_unlocks(&self) -> Vec<LockOwner> {
        lock(&self.0)
            .owners
            .iter()
            .filter(|(_, owned)| owned.unlock_pending)
            .map(|(key, _)| *key)
            .collect()
    }

    /// Whether an owner may have locks of any kind on a file.
    pub(crate) fn has(&self, file: FileIndex, owner: u64) -> bool {
        let keys = (file, owner, LockSpace::Range)..=(file, owner, LockSpace::Whole);
        lock(&self.0).owners.range(keys).next().is_some()
    }

    /// A connection to epoch `run` was made. Returns the locks to reclaim. A new session has none
    /// of the old session's locks.
    pub(crate) fn to_reclaim(&self, run: ServerEpoch) -> Vec<LockRequest> {
        let mut table = lock(&self.0);
        let before: Option<SessionId> = table.reclaimed.map(|known| known.session);
        table.reclaimed = Some(run);
        if before.is_some_and(|before| before != run.session) {
            table.owners.values_mut().for_each(|owned| owned.ranges.clear(0, u64::MAX));
        }
        let ranges = table
            .owners
            .iter()
            .filter(|(_, owned)| !owned.unlock_pending)
            .flat_map(|(key, owned)| owned.ranges.iter().map(|range| (*key, range)));
        ranges
            .map(|((file, owner, space), (start, last, (exclusive, pid)))| LockRequest {
                file,
                space,
                owner,
                pid,
                start,
                last,
                exclusive,
            })
            .collect()
    }

    /// A restarted server granted this lock to another client.
    pub(crate) fn reclaim_refused(&self, lost: &LockRequest) {
        if let Some(owned) = lock(&self.0).owners.get_mut(&owner_of(lost)) {
            owned.ranges.clear(lost.start, lost.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use braid_types::MdsEpoch;

    use super::*;

    fn run(session: u64, epoch: u64) -> ServerEpoch {
        ServerEpoch { session: SessionId(session), epoch: MdsEpoch(epoch) }
    }

    fn wanted(start: u64, last: u64) -> LockRequest {
        LockRequest {
            file: FileIndex(5),
            space: LockSpace::Range,
            owner: 7,
            pid: 70,
            start,
            last,
            exclusive: true,
        }
    }

    fn range(start: u64, last: u64) -> LockRange {
        LockRange { file: FileIndex(5), space: LockSpace::Range, owner: 7, start, last }
    }

    #[test]
    fn a_new_epoch_is_sent_the_locks_and_a_new_session_none() {
        let held = LockTable::default();
        assert_eq!(held.to_reclaim(run(1, 1)), []);
        held.begin(&wanted(0, 9));
        assert!(held.add(run(1, 1), &wanted(0, 9)));
        held.end(&wanted(0, 9), false);
        held.remove(&range(4, 5));
        assert_eq!(held.to_reclaim(run(1, 2)), [wanted(0, 3), wanted(6, 9)]);
        held.reclaim_refused(&wanted(0, 3));
        assert_eq!(held.to_reclaim(run(1, 2)), [wanted(6, 9)]);
        assert!(
            !held.add(run(1, 1), &wanted(20, 20)),
            "the old epoch granted it, and it was not reclaimed in the new one"
        );
        assert_eq!(held.to_reclaim(run(2, 2)), []);
    }

    #[test]
    fn a_closed_owner_has_a_pending_unlock_and_is_not_reclaimed() {
        let held = LockTable::default();
        let mine = owner_of(&wanted(0, 9));
        held.set_unlock_pending(mine);
        assert_eq!(held.pending_unlocks(), [], "it has nothing");
        held.begin(&wanted(0, 9));
        assert!(held.add(run(1, 1), &wanted(0, 9)));
        held.end(&wanted(0, 9), false);
        held.set_unlock_pending(mine);
        assert!(held.is_unlock_pending(mine));
        assert_eq!(held.to_reclaim(run(1, 2)), []);
        held.remove(&range(0, 9));
        assert_eq!(held.pending_unlocks(), [mine], "not all that it may have");
        held.remove(&whole_range(mine));
        assert!(!held.is_unlock_pending(mine) && !held.has(FileIndex(5), 7));
    }

    #[test]
    fn an_owner_is_known_from_its_first_request_until_all_was_let_go() {
        let held = LockTable::default();
        let has = || held.has(FileIndex(5), 7);
        held.begin(&wanted(0, 9));
        held.remove(&range(0, u64::MAX));
        assert!(has(), "a request is in flight");
        held.end(&wanted(0, 9), false);
        assert!(has(), "its answer was lost: it may hold the lock");
        held.remove(&range(0, 9));
        assert!(has(), "not all bytes");
        held.remove(&range(0, u64::MAX));
        assert!(!has());
        held.begin(&wanted(0, 9));
        held.end(&wanted(0, 9), true);
        assert!(!has(), "it was refused");
    }
}
