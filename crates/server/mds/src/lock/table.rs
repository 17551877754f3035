//! The lock table: what is held, and the calls that change it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use braid_types::{RangeMap, SessionId};
use braid_wire::message::lock::{LockHolder, LockRequest, LockSpace};

use super::{
    Answers, LOCK_WAITS_MAX, LOCK_WAITS_USER_MAX, LOCKS_MAX, LOCKS_SESSION_MAX, LOCKS_USER_MAX,
    LockRequestOf, LockResult, LockTarget, Mode, Owner, Ticket, User, WaitOutcome, WaitingCall,
    waits::LockWait,
};

/// Every lock and every wait. `W` is a call that waits.
#[derive(Debug)]
pub(crate) struct LockTable<W> {
    pub(super) targets: BTreeMap<LockTarget, TargetLocks<W>>,
    /// Where a session holds or waits for locks.
    of_session: BTreeMap<SessionId, SessionUsage>,
    /// The target of each wait.
    pub(super) tickets: BTreeMap<Ticket, LockTarget>,
    /// What each user uses of the table.
    usage_of_user: HashMap<User, UserUsage>,
    /// The waits of each owner: the edges of the wait-for graph.
    pub(super) waits_of: BTreeMap<Owner, BTreeSet<Ticket>>,
    pub(super) ranges: usize,
    pub(super) granting: bool,
    pub(super) answers: Answers<W>,
    /// Locks granted since deadlocks were last searched for.
    pub(super) newly_granted: Vec<LockRequestOf>,
}

/// The locks of one target, and the waits for them.
#[derive(Debug)]
pub(super) struct TargetLocks<W> {
    pub(super) held: BTreeMap<Owner, RangeMap<Mode>>,
    pub(super) queue: VecDeque<LockWait<W>>,
}

#[derive(Debug, Default)]
pub(super) struct SessionUsage {
    targets: BTreeSet<LockTarget>,
    ranges: usize,
    /// Its owner, once it was granted something.
    user: Option<User>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct UserUsage {
    ranges: usize,
    pub(super) waits: usize,
}

impl<W> Default for TargetLocks<W> {
    fn default() -> Self {
        Self { held: BTreeMap::new(), queue: VecDeque::new() }
    }
}

impl<W> LockTable<W> {
    /// No locks. Nothing is granted before [`LockTable::start_granting`] unless `granting`.
    pub(crate) fn new(granting: bool) -> Self {
        Self {
            targets: BTreeMap::new(),
            of_session: BTreeMap::new(),
            tickets: BTreeMap::new(),
            usage_of_user: HashMap::new(),
            waits_of: BTreeMap::new(),
            ranges: 0,
            granting,
            answers: Vec::new(),
            newly_granted: Vec::new(),
        }
    }

    /// The number of locked ranges.
    pub(crate) fn count(&self) -> usize {
        self.ranges
    }

    /// Requests a lock. With a ticket it waits if it must; the call that waits comes with
    /// [`LockTable::attach_call`].
    pub(crate) fn request(
        &mut self,
        wanted: &LockRequestOf,
        ticket: Option<Ticket>,
        now: Duration,
    ) -> (LockResult, Answers<W>) {
        let asked = self.ask_only(wanted, ticket, now);
        (asked, self.take_answers())
    }

    fn ask_only(
        &mut self,
        wanted: &LockRequestOf,
        ticket: Option<Ticket>,
        now: Duration,
    ) -> LockResult {
        if ticket.is_some_and(|ticket| self.tickets.contains_key(&ticket)) {
            return LockResult::Waiting;
        }
        if !self.granting {
            return ticket
                .map_or(LockResult::InGracePeriod, |ticket| self.enqueue(wanted, ticket, now));
        }
        if wanted.target.space == LockSpace::Whole && !self.has(wanted) {
            // flock(2): a conversion is not atomic: the existing lock is released first.
            self.release(wanted.target, wanted.owner, 0, u64::MAX);
        }
        let Some(holder) = self.conflicting_lock(wanted) else {
            let given = self.grant(wanted);
            // The owner may have held more there.
            self.grant_waiting(wanted.target);
            self.newly_granted.push(*wanted);
            return given;
        };
        match ticket {
            None => LockResult::Held(holder),
            Some(_) if self.would_deadlock(wanted) => LockResult::Deadlock,
            Some(ticket) => self.enqueue(wanted, ticket, now),
        }
    }

    /// A call waits with a ticket. It is answered when the lock is granted, or that there is no
    /// such wait.
    pub(crate) fn attach_call(
        &mut self,
        wanted: &LockRequestOf,
        ticket: Ticket,
        waiter: WaitingCall<W>,
    ) -> Answers<W> {
        let Some(wait) = self.wait_mut(ticket) else {
            // The answer with the grant may have been lost.
            let outcome =
                if self.has(wanted) { WaitOutcome::Granted } else { WaitOutcome::NoSuchWait };
            self.answers.push((waiter.call, outcome));
            return self.take_answers();
        };
        let (before, target) = (wait.waiter.replace(waiter), wait.wanted.target);
        self.answers.extend(before.map(|before| (before.call, WaitOutcome::StillWaiting)));
        self.grant_waiting(target);
        self.take_answers()
    }

    /// Ends a wait.
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> Answers<W> {
        if let Some(waiter) = self.dequeue(ticket).and_then(|wait| wait.waiter) {
            self.answers.push((waiter.call, WaitOutcome::Cancelled));
        }
        self.take_answers()
    }

    /// Releases bytes. False when that would split a range, and the table is full.
    pub(crate) fn unlock(
        &mut self,
        target: LockTarget,
        owner: Owner,
        start: u64,
        last: u64,
    ) -> (bool, Answers<W>) {
        let held = self.targets.get(&target).and_then(|locked| locked.held.get(&owner));
        let splits = held.is_some_and(|held| {
            held.overlapping(start, last).any(|(a, b, _)| a < start && last < b)
        });
        let user = self.of_session.get(&owner.session).and_then(|of| of.user);
        let may = !splits || self.has_capacity(owner.session, user);
        if may {
            self.release(target, owner, start, last);
        }
        (may, self.take_answers())
    }

    /// A lock that conflicts with a request; `None` also if the owner holds the lock already.
    pub(crate) fn conflicting_lock(&self, wanted: &LockRequestOf) -> Option<LockHolder> {
        let locked = self.targets.get(&wanted.target)?;
        let others = locked.held.iter().filter(|(owner, _)| **owner != wanted.owner);
        others.into_iter().find_map(|(owner, ranges)| {
            let mut found = ranges.overlapping(wanted.start, wanted.last);
            let (start, last, mode) = found.find(|(.., mode)| wanted.conflicts(*mode))?;
            let Owner { session, owner } = *owner;
            Some(LockHolder {
                session,
                owner,
                pid: mode.pid,
                start,
                last,
                exclusive: mode.exclusive,
            })
        })
    }

    /// Reclaims a lock that its session held before a restart. False when another owner has it.
    pub(crate) fn reclaim(&mut self, wanted: &LockRequestOf) -> bool {
        self.has(wanted)
            || self.conflicting_lock(wanted).is_none() && self.grant(wanted) == LockResult::Granted
    }

    /// The first `count_max` locks of a session after `after`, in the order of target, owner and
    /// first byte.
    pub(crate) fn locks_after(
        &self,
        session: SessionId,
        after: Option<&LockRequest>,
        count_max: usize,
    ) -> Vec<LockRequest> {
        let place = |lock: &LockRequest| (lock.file, lock.space, lock.owner, lock.start);
        let targets = self.of_session.get(&session).map(|of| &of.targets);
        let held = targets.into_iter().flatten().filter_map(|target| {
            self.targets.get(target).map(|locked| (target, locked.held.range(owners_of(session))))
        });
        let locks = held.flat_map(|(target, held)| {
            held.flat_map(move |(owner, ranges)| {
                ranges.iter().map(move |(start, last, mode)| LockRequest {
                    file: target.file,
                    space: target.space,
                    owner: owner.owner,
                    pid: mode.pid,
                    start,
                    last,
                    exclusive: mode.exclusive,
                })
            })
        });
        let later = locks.filter(|lock| after.is_none_or(|after| place(lock) > place(after)));
        later.take(count_max).collect()
    }

    /// All clients from before the restart have reclaimed: locks are granted again.
    pub(crate) fn start_granting(&mut self) -> Answers<W> {
        self.granting = true;
        let targets: BTreeSet<LockTarget> = self.tickets.values().copied().collect();
        targets.into_iter().for_each(|target| self.grant_waiting(target));
        self.take_answers()
    }

    /// Another holder continues a session: the waits of the earlier one are removed. Otherwise a
    /// lock might be granted that nobody has asked for any more.
    pub(crate) fn end_waits(&mut self, session: SessionId) -> Answers<W> {
        for target in self.dequeue_all(session) {
            self.grant_waiting(target);
            self.drop_if_empty(target, session);
        }
        self.take_answers()
    }

    /// Removes the waits of a session. Returns what they waited for.
    fn dequeue_all(&mut self, session: SessionId) -> BTreeSet<LockTarget> {
        let waits: Vec<(Ticket, LockTarget)> = self
            .tickets
            .range((session, 0)..=(session, u64::MAX))
            .map(|(key, target)| (*key, *target))
            .collect();
        for (ticket, _) in &waits {
            let waiter = self.dequeue(*ticket).and_then(|wait| wait.waiter);
            self.answers.extend(waiter.map(|waiter| (waiter.call, WaitOutcome::NoSuchWait)));
        }
        waits.into_iter().map(|(_, target)| target).collect()
    }

    /// A session has ended: its locks are released, its waits are removed.
    pub(crate) fn end_session(&mut self, session: SessionId) -> Answers<W> {
        self.dequeue_all(session);
        let targets =
            self.of_session.get(&session).map(|of| of.targets.clone()).unwrap_or_default();
        for target in targets {
            let held = self
                .targets
                .get(&target)
                .into_iter()
                .flat_map(|locked| locked.held.range(owners_of(session)));
            let owners: Vec<Owner> = held.map(|(owner, _)| *owner).collect();
            owners
                .into_iter()
                .for_each(|owner| self.change(target, owner, |ranges| ranges.clear(0, u64::MAX)));
            self.grant_waiting(target);
            self.drop_if_empty(target, session);
        }
        self.of_session.remove(&session);
        self.take_answers()
    }

    /// Called at the end of each public call.
    pub(super) fn take_answers(&mut self) -> Answers<W> {
        self.break_deadlocks();
        std::mem::take(&mut self.answers)
    }

    /// Whether the owner holds every byte in this mode.
    pub(super) fn has(&self, wanted: &LockRequestOf) -> bool {
        let held =
            self.targets.get(&wanted.target).and_then(|locked| locked.held.get(&wanted.owner));
        held.is_some_and(|ranges| ranges.covers(wanted.start, wanted.last, wanted.mode))
    }

    /// Grants a lock that conflicts with none.
    pub(super) fn grant(&mut self, wanted: &LockRequestOf) -> LockResult {
        let user = Some(wanted.user);
        if !self.has_capacity(wanted.owner.session, user) {
            return LockResult::Full;
        }
        debug_assert!(self.conflicting_lock(wanted).is_none(), "1: two owners hold the same byte");
        self.of_session.entry(wanted.owner.session).or_default().user = user;
        self.change(wanted.target, wanted.owner, |ranges| {
            ranges.set(wanted.start, wanted.last, wanted.mode)
        });
        debug_assert!(self.ranges <= LOCKS_MAX, "6: bounded");
        LockResult::Granted
    }

    /// Whether a session may have two more ranges: a lock can make three of one.
    fn has_capacity(&self, session: SessionId, user: Option<User>) -> bool {
        let of = self.of_session.get(&session).map_or(0, |of| of.ranges);
        let usage =
            user.and_then(|user| self.usage_of_user.get(&user)).map_or(0, |usage| usage.ranges);
        self.ranges + 2 <= LOCKS_MAX && of + 2 <= LOCKS_SESSION_MAX && usage + 2 <= LOCKS_USER_MAX
    }

    /// Changes the usage of a user, and removes a user without any.
    pub(super) fn count_for(&mut self, user: User, change: impl FnOnce(&mut UserUsage)) {
        let usage = self.usage_of_user.entry(user).or_default();
        change(usage);
        if *usage == UserUsage::default() {
            self.usage_of_user.remove(&user);
        }
    }

    #[cfg(test)]
    pub(super) fn has_no_shares(&self) -> bool {
        self.usage_of_user.is_empty()
    }

    fn release(&mut self, target: LockTarget, owner: Owner, start: u64, last: u64) {
        let held = self.targets.get(&target).is_some_and(|locked| locked.held.contains_key(&owner));
        if held {
            self.change(target, owner, |ranges| ranges.clear(start, last));
            self.grant_waiting(target);
            self.drop_if_empty(target, owner.session);
        }
    }

    /// Changes what an owner holds at a target, and updates the counts.
    fn change(
        &mut self,
        target: LockTarget,
        owner: Owner,
        change: impl FnOnce(&mut RangeMap<Mode>),
    ) {
        let locked = self.targets.entry(target).or_default();
        let ranges = locked.held.entry(owner).or_default();
        let before = ranges.len();
        change(ranges);
        let after = ranges.len();
        if ranges.is_empty() {
            locked.held.remove(&owner);
        }
        self.ranges = self.ranges + after - before;
        let of = self.of_session.entry(owner.session).or_default();
        of.ranges = of.ranges + after - before;
        of.targets.insert(target);
        if let Some(user) = of.user {
            self.count_for(user, |usage| usage.ranges = usage.ranges + after - before);
        }
    }

    /// Removes targets and sessions that have nothing left.
    pub(super) fn drop_if_empty(&mut self, target: LockTarget, session: SessionId) {
        let Some(locked) = self.targets.get(&target) else { return };
        if locked.held.range(owners_of(session)).next().is_none()
            && let Some(of) = self.of_session.get_mut(&session)
        {
            of.targets.remove(&target);
            if of.targets.is_empty() {
                self.of_session.remove(&session);
            }
        }
        if locked.held.is_empty() && locked.queue.is_empty() {
            self.targets.remove(&target);
        }
    }

    fn enqueue(&mut self, wanted: &LockRequestOf, ticket: Ticket, now: Duration) -> LockResult {
        let usage = self.usage_of_user.get(&wanted.user).map_or(0, |usage| usage.waits);
        if self.tickets.len() >= LOCK_WAITS_MAX || usage >= LOCK_WAITS_USER_MAX {
            return LockResult::Full;
        }
        self.count_for(wanted.user, |usage| usage.waits += 1);
        self.tickets.insert(ticket, wanted.target);
        self.waits_of.entry(wanted.owner).or_default().insert(ticket);
        let wait = LockWait { ticket, wanted: *wanted, waiter: None, call_left_at: now };
        self.targets.entry(wanted.target).or_default().queue.push_back(wait);
        LockResult::Waiting
    }
}

pub(super) fn owners_of(session: SessionId) -> std::ops::RangeInclusive<Owner> {
    Owner { session, owner: 0 }..=Owner { session, owner: u64::MAX }
}
