//! The table against a model of single bytes, and the cases that have a name.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use braid_types::{FileIndex, KeyId, SessionId};
use braid_wire::message::lock::LockSpace;
use proptest::prelude::*;

use super::*;

const BYTES: u64 = 8;
const USER: User = User { key: KeyId(1), user: Some(7) };

fn target(file: u64, space: LockSpace) -> LockTarget {
    LockTarget { file: FileIndex(file), space }
}

fn owner(owner: u64) -> Owner {
    Owner { session: SessionId(owner % 2), owner }
}

fn wanted(file: u64, who: u64, bytes: (u64, u64), exclusive: bool) -> LockRequestOf {
    let mode = Mode { exclusive, pid: who as u32 };
    let (start, last) = bytes;
    LockRequestOf {
        user: USER,
        target: target(file, LockSpace::Range),
        owner: owner(who),
        start,
        last,
        mode,
    }
}

fn flock(file: u64, who: u64, exclusive: bool) -> LockRequestOf {
    let whole = wanted(file, who, (0, u64::MAX), exclusive);
    LockRequestOf { target: target(file, LockSpace::Whole), ..whole }
}

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A table whose waits are named by their number.
struct Table {
    locks: LockTable<u64>,
    now: u64,
    answered: Vec<(u64, WaitOutcome)>,
}

impl Table {
    fn new() -> Self {
        Self { locks: LockTable::new(true), now: 0, answered: Vec::new() }
    }

    fn try_lock(&mut self, wanted: LockRequestOf) -> LockResult {
        let (asked, answers) = self.locks.request(&wanted, None, at(self.now));
        self.answered.extend(answers);
        asked
    }

    /// Asks, and waits with a call where it must.
    fn wait(&mut self, wanted: LockRequestOf, ticket: u64) -> LockResult {
        let (asked, answers) =
            self.locks.request(&wanted, Some((wanted.owner.session, ticket)), at(self.now));
        self.answered.extend(answers);
        if asked == LockResult::Waiting {
            self.attach(wanted, ticket);
        }
        asked
    }

    fn attach(&mut self, wanted: LockRequestOf, ticket: u64) {
        let waiter = WaitingCall { call: ticket, until: at(self.now + 1000) };
        let answers = self.locks.attach_call(&wanted, (wanted.owner.session, ticket), waiter);
        self.answered.extend(answers);
    }

    fn unlock(&mut self, wanted: LockRequestOf) {
        let (done, answers) =
            self.locks.unlock(wanted.target, wanted.owner, wanted.start, wanted.last);
        assert!(done);
        self.answered.extend(answers);
    }

    fn cancel(&mut self, session: u64, ticket: u64) {
        let answers = self.locks.cancel((SessionId(session), ticket));
        self.answered.extend(answers);
    }

    fn pass(&mut self, ms: u64) {
        self.now += ms;
        let answers = self.locks.expire(at(self.now));
        self.answered.extend(answers);
    }

    fn take_answered(&mut self) -> Vec<(u64, WaitOutcome)> {
        std::mem::take(&mut self.answered)
    }
}

#[test]
fn a_lock_is_granted_in_the_order_of_those_that_wait() {
    let mut table = Table::new();
    assert_eq!(table.try_lock(wanted(1, 1, (0, 9), true)), LockResult::Granted);
    for (who, ticket) in [(2, 20), (3, 30), (4, 40)] {
        assert_eq!(table.wait(wanted(1, who, (5, 5), true), ticket), LockResult::Waiting);
    }
    table.unlock(wanted(1, 1, (0, 4), true));
    assert_eq!(table.take_answered(), [], "their byte is still locked");
    table.unlock(wanted(1, 1, (5, 9), true));
    assert_eq!(table.take_answered(), [(20, WaitOutcome::Granted)]);
    table.unlock(wanted(1, 2, (0, 9), true));
    assert_eq!(table.take_answered(), [(30, WaitOutcome::Granted)]);
    table.cancel(0, 40);
    assert_eq!(table.take_answered(), [(40, WaitOutcome::Cancelled)]);
}

#[test]
fn a_wait_keeps_its_position_between_calls_and_expires_without_one() {
    let mut table = Table::new();
    let (first, second) = (wanted(1, 2, (0, 0), true), wanted(1, 3, (0, 0), true));
    table.try_lock(wanted(1, 1, (0, 0), true));
    table.wait(first, 20);
    table.pass(1000);
    assert_eq!(table.take_answered(), [(20, WaitOutcome::StillWaiting)]);
    table.wait(second, 30);
    table.attach(first, 20);
    table.unlock(wanted(1, 1, (0, 0), true));
    assert_eq!(table.take_answered(), [(20, WaitOutcome::Granted)], "it came first");
    table.pass(1000);
    table.pass(LOCK_WAIT_FORGOTTEN_MS);
    table.attach(second, 30);
    assert_eq!(
        table.take_answered(),
        [(30, WaitOutcome::StillWaiting), (30, WaitOutcome::StillWaiting)][..1],
        "in time"
    );
    table.pass(1000);
    table.pass(LOCK_WAIT_FORGOTTEN_MS + 1);
    table.attach(second, 30);
    assert_eq!(
        table.take_answered(),
        [(30, WaitOutcome::StillWaiting), (30, WaitOutcome::NoSuchWait)],
        "too late"
    );
}

#[test]
fn nothing_is_granted_without_a_call_and_a_lost_answer_is_repeated() {
    let mut table = Table::new();
    let want = wanted(1, 2, (0, 3), true);
    table.try_lock(wanted(1, 1, (0, 0), true));
    table.wait(want, 20);
    table.pass(1000);
    table.unlock(wanted(1, 1, (0, 0), true));
    assert_eq!(table.take_answered(), [(20, WaitOutcome::StillWaiting)]);
    assert_eq!(table.try_lock(wanted(1, 3, (0, 0), true)), LockResult::Granted, "it is free");
    table.unlock(wanted(1, 3, (0, 0), true));
    table.attach(want, 20);
    assert_eq!(table.take_answered(), [(20, WaitOutcome::Granted)]);
    table.attach(want, 20);
    assert_eq!(table.take_answered(), [(20, WaitOutcome::Granted)], "the first answer was lost");
    table.unlock(wanted(1, 2, (1, 1), true));
    table.attach(want, 20);
    assert_eq!(
        table.take_answered(),
        [(20, WaitOutcome::NoSuchWait)],
        "it has not all of it any more"
    );
}

#[test]
fn a_cycle_of_waiting_owners_is_refused_and_a_chain_is_not() {
    let mut table = Table::new();
    for who in 1..=3 {
        assert_eq!(table.try_lock(wanted(who, who, (0, 0), true)), LockResult::Granted);
    }
    assert_eq!(table.wait(wanted(2, 1, (0, 0), true), 10), LockResult::Waiting);
    assert_eq!(table.wait(wanted(3, 2, (0, 0), true), 20), LockResult::Waiting);
    assert_eq!(table.wait(wanted(1, 3, (0, 0), true), 30), LockResult::Deadlock);
    assert!(
        matches!(table.try_lock(wanted(1, 3, (0, 0), true)), LockResult::Held(_)),
        "an owner that does not wait closes no cycle"
    );
    table.unlock(wanted(3, 3, (0, 0), true));
    assert_eq!(table.take_answered(), [(20, WaitOutcome::Granted)]);
}

#[test]
fn two_readers_that_both_want_to_write_are_a_deadlock() {
    let mut table = Table::new();
    table.try_lock(wanted(1, 1, (0, 9), false));
    table.try_lock(wanted(1, 2, (0, 9), false));
    assert_eq!(table.wait(wanted(1, 1, (0, 9), true), 10), LockResult::Waiting);
    assert_eq!(table.wait(wanted(1, 2, (0, 9), true), 20), LockResult::Deadlock);
    table.unlock(wanted(1, 2, (0, 9), false));
    assert_eq!(table.take_answered(), [(10, WaitOutcome::Granted)]);
}

#[test]
fn a_cycle_that_a_grant_to_a_second_thread_closes_fails_the_other() {
    let mut table = Table::new();
    table.try_lock(wanted(1, 1, (0, 0), true));
    table.try_lock(wanted(2, 3, (0, 0), true));
    // Owner 2 waits with two threads; owner 3 behind it for byte 0 of file 1.
    table.wait(wanted(2, 2, (0, 0), true), 20);
    table.wait(wanted(1, 2, (0, 0), true), 21);
    table.wait(wanted(1, 3, (0, 0), true), 30);
    table.unlock(wanted(1, 1, (0, 0), true));
    assert_eq!(table.take_answered(), [(21, WaitOutcome::Granted), (30, WaitOutcome::Deadlock)]);
}

#[test]
fn a_weaker_lock_admits_others_and_queues_only_behind_conflicts() {
    let mut table = Table::new();
    table.try_lock(wanted(1, 1, (0, 9), true));
    table.wait(wanted(1, 2, (0, 0), false), 20);
    table.wait(wanted(1, 3, (0, 0), true), 30);
    assert_eq!(table.try_lock(wanted(1, 1, (0, 9), false)), LockResult::Granted);
    assert_eq!(table.take_answered(), [(20, WaitOutcome::Granted)]);
    assert_eq!(
        table.try_lock(wanted(1, 4, (0, 0), false)),
        LockResult::Granted,
        "Linux's rule: 3 waits for 1 and 2"
    );
}

#[test]
fn converting_a_whole_file_lock_releases_it_first_without_deadlock() {
    let mut table = Table::new();
    table.try_lock(flock(1, 1, false));
    table.try_lock(flock(1, 2, false));
    assert_eq!(table.wait(flock(1, 1, true), 10), LockResult::Waiting, "and it has none meanwhile");
    assert_eq!(
        table.wait(flock(1, 2, true), 20),
        LockResult::Waiting,
        "it released the lock that the other waits for"
    );
    assert_eq!(table.take_answered(), [(10, WaitOutcome::Granted)]);
    table.unlock(flock(1, 1, true));
    assert_eq!(table.take_answered(), [(20, WaitOutcome::Granted)]);
    assert_eq!(
        table.try_lock(wanted(1, 2, (0, 9), true)),
        LockResult::Granted,
        "the other space does not see it"
    );
}

#[test]
fn a_cycle_that_the_next_granted_lock_opens_again_is_no_deadlock() {
    let mut table = Table::new();
    table.try_lock(wanted(1, 3, (1, 1), true));
    table.try_lock(wanted(2, 4, (0, 0), true));
    table.try_lock(wanted(1, 2, (2, 2), true));
    for (file, who, bytes, exclusive, ticket) in [
        (1, 4, (1, 2), false, 40),
        (1, 1, (1, 1), true, 10),
        (1, 1, (1, 1), false, 11),
        (2, 1, (0, 0), true, 12),
    ] {
        assert_eq!(table.wait(wanted(file, who, bytes, exclusive), ticket), LockResult::Waiting);
    }
    table.unlock(wanted(1, 3, (1, 1), true));
    assert_eq!(
        table.take_answered(),
        [(10, WaitOutcome::Granted), (11, WaitOutcome::Granted)],
        "4 waits for 2 alone"
    );
    table.unlock(wanted(1, 2, (2, 2), true));
    assert_eq!(table.take_answered(), [(40, WaitOutcome::Granted)]);
}

#[test]
fn a_cycle_that_the_end_of_a_session_opens_again_is_no_deadlock() {
    let mut table = Table::new();
    table.try_lock(wanted(1, 3, (0, 0), true));
    table.try_lock(wanted(2, 1, (0, 2), true));
    table.try_lock(wanted(2, 2, (3, 3), true));
    table.try_lock(wanted(1, 6, (1, 1), true));
    for (file, who, bytes, exclusive, ticket) in [
        (2, 2, (0, 4), false, 20),
        (1, 4, (0, 0), false, 40),
        (2, 4, (0, 3), false, 41),
        (1, 2, (0, 1), true, 21),
    ] {
        assert_eq!(table.wait(wanted(file, who, bytes, exclusive), ticket), LockResult::Waiting);
    }
    let answers = table.locks.end_session(SessionId(1));
    assert_eq!(
        answers,
        [(40, WaitOutcome::Granted), (20, WaitOutcome::Granted), (41, WaitOutcome::Granted)]
    );
}

#[test]
fn waits_of_an_earlier_holder_are_removed_and_its_locks_stay() {
    let mut table = Table::new();
    table.try_lock(wanted(1, 1, (0, 0), true));
    table.try_lock(wanted(1, 2, (5, 5), true));
    table.wait(wanted(1, 1, (5, 5), true), 11);
    table.wait(wanted(1, 4, (0, 0), true), 40);
    assert_eq!(table.locks.end_waits(SessionId(1)), [(11, WaitOutcome::NoSuchWait)]);
    assert_eq!(table.locks.count(), 2);
    assert_eq!(table.locks.end_session(SessionId(0)), [(40, WaitOutcome::NoSuchWait)]);
    assert_eq!(table.locks.count(), 1, "the range that was waited for is granted to nobody");
}

#[test]
fn the_end_of_a_session_frees_what_it_had_and_forgets_what_it_waited_for() {
    let mut table = Table::new();
    table.try_lock(wanted(1, 1, (0, 0), true));
    table.try_lock(wanted(2, 2, (0, 0), true));
    table.wait(wanted(1, 2, (0, 0), true), 20);
    table.wait(wanted(2, 1, (5, 5), true), 11);
    table.wait(wanted(1, 3, (0, 0), true), 30);
    let answers = table.locks.end_session(SessionId(1));
    assert_eq!(answers, [(30, WaitOutcome::NoSuchWait), (20, WaitOutcome::Granted)]);
    let answers = table.locks.end_session(SessionId(0));
    assert_eq!((answers, table.locks.count()), (vec![], 0));
    assert!(
        table.locks.targets.is_empty()
            && table.locks.tickets.is_empty()
            && table.locks.waits_of.is_empty()
    );
}

#[test]
fn nothing_is_granted_before_all_locks_are_reclaimed() {
    let mut table = Table { locks: LockTable::new(false), ..Table::new() };
    assert_eq!(table.try_lock(wanted(1, 1, (0, 0), true)), LockResult::InGracePeriod);
    assert_eq!(table.wait(wanted(1, 1, (0, 0), true), 10), LockResult::Waiting);
    assert!(table.locks.reclaim(&wanted(1, 2, (0, 0), true)));
    assert!(table.locks.reclaim(&wanted(1, 2, (0, 0), true)), "twice is once");
    assert!(!table.locks.reclaim(&wanted(1, 3, (0, 0), false)));
    assert_eq!(table.locks.start_granting(), []);
    table.unlock(wanted(1, 2, (0, 0), true));
    assert_eq!(table.take_answered(), [(10, WaitOutcome::Granted)]);
}

#[test]
fn a_session_has_a_bounded_number_of_ranges() {
    let mut table = Table::new();
    let full = LOCKS_SESSION_MAX as u64 - 1;
    for n in 0..full {
        assert_eq!(table.try_lock(wanted(1, 1, (n * 4, n * 4 + 2), true)), LockResult::Granted);
    }
    assert_eq!(table.try_lock(wanted(1, 1, (full * 4, full * 4), true)), LockResult::Full);
    let hole = wanted(1, 1, (1, 1), true);
    assert!(!table.locks.unlock(hole.target, hole.owner, 1, 1).0, "a hole makes two of one");
    assert_eq!(
        table.try_lock(wanted(1, 2, (full * 4, full * 4), true)),
        LockResult::Granted,
        "another session"
    );
}

#[test]
fn the_sessions_of_one_user_leave_half_of_the_locks_to_others() {
    let mut table = Table::new();
    let other = User { user: Some(8), ..USER };
    let lock = |user, session, n: u64| {
        let owner = Owner { session: SessionId(session), owner: 1 };
        LockRequestOf { user, owner, ..wanted(session, 1, (n * 4, n * 4 + 2), true) }
    };
    let mut given = 0;
    for session in [10, 11, 12] {
        given += (0..)
            .take_while(|n| table.try_lock(lock(USER, session, *n)) == LockResult::Granted)
            .count();
    }
    assert_eq!(given, LOCKS_USER_MAX - 1);
    assert_eq!(table.try_lock(lock(other, 13, 0)), LockResult::Granted);
    table.locks.end_session(SessionId(10));
    assert_eq!(table.try_lock(lock(USER, 12, 10)), LockResult::Granted);
    [11, 12, 13].into_iter().for_each(|session| drop(table.locks.end_session(SessionId(session))));
    assert!(table.locks.has_no_shares());
}

#[test]
fn the_waits_of_one_user_leave_half_of_the_waits_to_others() {
    let mut table = Table::new();
    assert_eq!(table.try_lock(wanted(1, 1, (0, 0), true)), LockResult::Granted);
    let waits = |user| LockRequestOf { user, ..wanted(1, 2, (0, 0), true) };
    let mut ask = |user, ticket: u64| {
        table.locks.request(&waits(user), Some((owner(2).session, ticket)), at(0)).0
    };
    for ticket in 0..LOCK_WAITS_USER_MAX as u64 {
        assert_eq!(ask(USER, ticket), LockResult::Waiting);
    }
    assert_eq!(ask(USER, u64::MAX), LockResult::Full);
    assert_eq!(ask(User { user: Some(8), ..USER }, u64::MAX - 1), LockResult::Waiting);
    table.locks.cancel((owner(2).session, 0));
    let again = table.locks.request(&waits(USER), Some((owner(2).session, u64::MAX)), at(0)).0;
    assert_eq!(again, LockResult::Waiting);
}

/// What is asked of the table and of the model.
#[derive(Clone, Debug)]
enum Step {
    Try { file: u64, who: u64, bytes: (u64, u64), exclusive: bool },
    Wait { file: u64, who: u64, bytes: (u64, u64), exclusive: bool },
    Unlock { file: u64, who: u64, bytes: (u64, u64) },
    Cancel(usize),
    Leave(usize),
    Come(usize),
    End(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = (0..BYTES, 0..BYTES).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let lock = (1..3_u64, 1..5_u64, bytes, any::<bool>());
    prop_oneof![
        4 => lock.clone().prop_map(|(file, who, bytes, exclusive)| {
            Step::Try { file, who, bytes, exclusive }
        }),
        4 => lock.clone().prop_map(|(file, who, bytes, exclusive)| {
            Step::Wait { file, who, bytes, exclusive }
        }),
        4 => lock.prop_map(|(file, who, bytes, _)| Step::Unlock { file, who, bytes }),
        1 => (0..8_usize).prop_map(Step::Cancel),
        1 => (0..8_usize).prop_map(Step::Leave),
        1 => (0..8_usize).prop_map(Step::Come),
        1 => (0..2_u64).prop_map(Step::End),
    ]
}

/// Single bytes, each with its owners; and who waits, in order.
#[derive(Default)]
struct Model {
    bytes: BTreeMap<(u64, u64), BTreeMap<u64, bool>>,
    waits: Vec<(u64, LockRequestOf, bool)>,
}

impl Model {
    fn blockers_of(&self, wanted: &LockRequestOf) -> BTreeSet<u64> {
        let bytes = (wanted.start..=wanted.last)
            .filter_map(|at| self.bytes.get(&(wanted.target.file.0, at)));
        let others = bytes.flatten().filter(|(who, alone)| {
            **who != wanted.owner.owner && (wanted.mode.exclusive || **alone)
        });
        others.map(|(who, _)| *who).collect()
    }

    fn set(&mut self, wanted: &LockRequestOf, how: Option<bool>) {
        for at in wanted.start..=wanted.last {
            let owners = self.bytes.entry((wanted.target.file.0, at)).or_default();
            match how {
                Some(exclusive) => owners.insert(wanted.owner.owner, exclusive),
                None => owners.remove(&wanted.owner.owner),
            };
        }
    }

    /// The owners for which `who` waits, by any chain.
    fn waits_for(&self, who: u64) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        let mut next = vec![who];
        while let Some(who) = next.pop() {
            for (_, wanted, _) in
                self.waits.iter().filter(|(_, wanted, _)| wanted.owner.owner == who)
            {
                next.extend(
                    self.blockers_of(wanted).into_iter().filter(|other| found.insert(*other)),
                );
            }
        }
        found
    }

    /// Takes over the outcomes that the table reported to waits. Each must be correct.
    /// Returns the waits that were ended as deadlocks.
    fn apply(&mut self, answered: Vec<(u64, WaitOutcome)>) -> Vec<(u64, LockRequestOf, bool)> {
        let mut ended = Vec::new();
        for (ticket, outcome) in answered {
            let at = self.waits.iter().position(|(known, ..)| *known == ticket).expect("a wait");
            let (_, wanted, _) = self.waits.remove(at);
            match outcome {
                WaitOutcome::Granted => {
                    assert!(
                        self.blockers_of(&wanted).is_empty(),
                        "granted to {wanted:?} though another has it"
                    );
                    let earlier = self.waits[..at]
                        .iter()
                        .filter(|(_, other, here)| *here && other.target == wanted.target);
                    let skipped: Vec<_> = earlier
                        .filter(|(_, other, _)| self.blockers_of(other).is_empty())
                        .collect();
                    assert!(skipped.is_empty(), "{wanted:?} came after {skipped:?}");
                    self.set(&wanted, Some(wanted.mode.exclusive));
                }
                WaitOutcome::Deadlock => {
                    self.waits.push((ticket, wanted, true));
                    assert!(
                        self.waits_for(wanted.owner.owner).contains(&wanted.owner.owner),
                        "no cycle"
                    );
                    ended.extend(self.waits.pop());
                }
                WaitOutcome::Cancelled | WaitOutcome::NoSuchWait => {}
                other => panic!("{other:?} unasked"),
            }
        }
        ended
    }

    /// A wait without a suspended call that closed a cycle is forgotten: its client will ask again,
    /// and receive the deadlock.
    fn forget(&mut self, table: &Table, ended: Vec<(u64, LockRequestOf, bool)>) {
        let count = ended.len();
        self.waits.extend(ended);
        let known = |ticket, wanted: &LockRequestOf| {
            table.locks.tickets.contains_key(&(wanted.owner.session, ticket))
        };
        let gone = |wait: &&(u64, LockRequestOf, bool)| !wait.2 && !known(wait.0, &wait.1);
        for (_, wanted, _) in self.waits.iter().filter(gone) {
            assert!(
                self.waits_for(wanted.owner.owner).contains(&wanted.owner.owner),
                "forgotten without a reason"
            );
        }
        let forgotten: Vec<u64> =
            self.waits.iter().filter(gone).map(|(ticket, ..)| *ticket).collect();
        self.waits.truncate(self.waits.len() - count);
        self.waits.retain(|(ticket, ..)| !forgotten.contains(ticket));
    }

    fn check(&self, table: &Table) {
        for file in 1..3 {
            for who in 1..5 {
                for at in 0..BYTES {
                    let held = table.locks.targets.get(&target(file, LockSpace::Range));
                    let held = held.and_then(|locked| locked.held.get(&owner(who)));
                    let mode = held
                        .and_then(|held| held.overlapping(at, at).next())
                        .map(|(.., mode)| mode.exclusive);
                    let model =
                        self.bytes.get(&(file, at)).and_then(|owners| owners.get(&who)).copied();
                    assert_eq!(mode, model, "file {file}, owner {who}, byte {at}");
                }
            }
        }
        for (_, wanted, here) in &self.waits {
            assert!(!here || !self.blockers_of(wanted).is_empty(), "{wanted:?} waits for nothing");
            assert!(
                !self.waits_for(wanted.owner.owner).contains(&wanted.owner.owner),
                "a cycle remains"
            );
        }
        let waits: BTreeSet<u64> = table.locks.tickets.keys().map(|(_, ticket)| *ticket).collect();
        assert_eq!(waits, self.waits.iter().map(|(ticket, ..)| *ticket).collect());
        let ranges = |locked: &table::TargetLocks<u64>| {
            locked.held.values().map(|held| held.len()).sum::<usize>()
        };
        assert_eq!(table.locks.count(), table.locks.targets.values().map(ranges).sum::<usize>());
    }

    fn step(&mut self, table: &mut Table, ticket: u64, step: &Step) {
        match *step {
            Step::Try { file, who, bytes, exclusive } => {
                let want = wanted(file, who, bytes, exclusive);
                let blocked = self.blockers_of(&want);
                match table.try_lock(want) {
                    LockResult::Granted => {
                        assert!(blocked.is_empty());
                        self.set(&want, Some(exclusive));
                    }
                    LockResult::Held(holder) => assert!(blocked.contains(&holder.owner)),
                    other => panic!("{other:?}"),
                }
            }
            Step::Wait { file, who, bytes, exclusive } => {
                let want = wanted(file, who, bytes, exclusive);
                let blocked = self.blockers_of(&want);
                let cycle = blocked
                    .iter()
                    .any(|other| *other == who || self.waits_for(*other).contains(&who));
                match table.wait(want, ticket) {
                    LockResult::Granted => {
                        assert!(blocked.is_empty());
                        self.set(&want, Some(exclusive));
                    }
                    LockResult::Waiting => {
                        assert!(!blocked.is_empty() && !cycle);
                        self.waits.push((ticket, want, true));
                    }
                    LockResult::Deadlock => assert!(cycle),
                    other => panic!("{other:?}"),
                }
            }
            Step::Unlock { file, who, bytes } => {
                let want = wanted(file, who, bytes, false);
                self.set(&want, None);
                table.unlock(want);
            }
            Step::Cancel(at) => {
                let Some((ticket, want, _)) = self.waits.get(at).copied() else { return };
                table.cancel(want.owner.session.0, ticket);
                self.waits.retain(|(known, ..)| *known != ticket);
                table.answered.retain(|(known, _)| *known != ticket);
            }
            Step::Leave(at) => {
                let Some((ticket, want, here)) = self.waits.get_mut(at) else { return };
                *here = false;
                let key = (want.owner.session, *ticket);
                let wait = table.locks.wait_mut(key).expect("it waits");
                wait.waiter = None;
            }
            Step::Come(at) => {
                let Some((ticket, want, here)) = self.waits.get_mut(at) else { return };
                *here = true;
                let (ticket, want) = (*ticket, *want);
                table.attach(want, ticket);
                table.answered.retain(|(_, outcome)| *outcome != WaitOutcome::StillWaiting);
            }
            Step::End(session) => {
                let answers = table.locks.end_session(SessionId(session));
                self.waits.retain(|(_, want, _)| want.owner.session.0 != session);
                self.bytes
                    .values_mut()
                    .for_each(|owners| owners.retain(|who, _| owner(*who).session.0 != session));
                table.answered.extend(
                    answers.into_iter().filter(|(_, outcome)| *outcome != WaitOutcome::NoSuchWait),
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_calls_leaves_what_single_bytes_would(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let (mut table, mut model) = (Table::new(), Model::default());
        for (ticket, step) in steps.iter().enumerate() {
            model.step(&mut table, ticket as u64 + 1, step);
            let answered = table.take_answered();
            let ended = model.apply(answered);
            model.forget(&table, ended);
            model.check(&table);
        }
    }
}
