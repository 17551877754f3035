//! Waits: which is granted next, who waits for whom, and which have no waiting call.

use std::{collections::BTreeSet, time::Duration};

use braid_wire::message::lock::LockSpace;

use super::{
    Answers, LOCK_WAIT_FORGOTTEN_MS, LockRequestOf, LockResult, LockTable, LockTarget, Owner,
    Ticket, WaitOutcome, WaitingCall,
};

/// A position in a queue.
#[derive(Debug)]
pub(super) struct LockWait<W> {
    pub(super) ticket: Ticket,
    pub(super) wanted: LockRequestOf,
    /// The call that waits now, if any.
    pub(super) waiter: Option<WaitingCall<W>>,
    /// Since when no call waits, if none does.
    pub(super) call_left_at: Duration,
}

impl<W> LockTable<W> {
    /// Answers calls whose waiting time is over that they still wait, and removes waits that had no
    /// call for too long.
    pub(crate) fn expire(&mut self, now: Duration) -> Answers<W> {
        let forgotten = Duration::from_millis(LOCK_WAIT_FORGOTTEN_MS);
        let tickets: Vec<Ticket> = self.tickets.keys().copied().collect();
        for ticket in tickets {
            let Some(wait) = self.wait_mut(ticket) else { continue };
            if let Some(over) = wait.waiter.take_if(|waiter| waiter.until <= now) {
                wait.call_left_at = now;
                self.answers.push((over.call, WaitOutcome::StillWaiting));
            } else if wait.waiter.is_none() && now.saturating_sub(wait.call_left_at) > forgotten {
                self.dequeue(ticket);
            }
        }
        self.take_answers()
    }

    pub(super) fn wait_mut(&mut self, ticket: Ticket) -> Option<&mut LockWait<W>> {
        let target = self.tickets.get(&ticket)?;
        self.targets.get_mut(target)?.queue.iter_mut().find(|wait| wait.ticket == ticket)
    }

    pub(super) fn dequeue(&mut self, ticket: Ticket) -> Option<LockWait<W>> {
        let target = self.tickets.remove(&ticket)?;
        let queue = &mut self.targets.get_mut(&target)?.queue;
        let at = queue.iter().position(|wait| wait.ticket == ticket)?;
        let wait = queue.remove(at)?;
        let owner = wait.wanted.owner;
        if let Some(waits) = self.waits_of.get_mut(&owner) {
            waits.remove(&ticket);
            if waits.is_empty() {
                self.waits_of.remove(&owner);
            }
        }
        self.count_for(wait.wanted.user, |usage| usage.waits -= 1);
        self.drop_if_empty(target, owner.session);
        Some(wait)
    }

    /// Grants what is free now to the requests that wait for it, in the order of their arrival.
    pub(super) fn grant_waiting(&mut self, target: LockTarget) {
        if !self.granting {
            return;
        }
        while let Some(ticket) = self.next_grantable(target)
            && let Some(wait) = self.dequeue(ticket)
        {
            let outcome = match self.grant(&wait.wanted) {
                LockResult::Granted => WaitOutcome::Granted,
                _ => WaitOutcome::Full,
            };
            self.answers.extend(wait.waiter.map(|waiter| (waiter.call, outcome)));
            self.newly_granted.extend((outcome == WaitOutcome::Granted).then_some(wait.wanted));
        }
    }

    /// The first wait in the queue without a conflict. A wait without a call keeps its position and
    /// is skipped.
    fn next_grantable(&self, target: LockTarget) -> Option<Ticket> {
        let queue = &self.targets.get(&target)?.queue;
        let ready = |wait: &&LockWait<W>| {
            wait.waiter.is_some() && self.conflicting_lock(&wait.wanted).is_none()
        };
        queue.iter().find(ready).map(|wait| wait.ticket)
    }

    /// Whether an owner of a conflicting lock waits, directly or indirectly, for this owner.
    pub(super) fn would_deadlock(&self, wanted: &LockRequestOf) -> bool {
        wanted.target.space == LockSpace::Range
            && self.waits_for(self.blockers(wanted), wanted.owner)
    }

    /// An owner that was granted a lock and still waits for another, with a second thread, may have
    /// closed a cycle with an earlier wait: that wait fails. Done after everything is granted that
    /// can be, since a grant may open a cycle that another closed.
    pub(super) fn break_deadlocks(&mut self) {
        for given in std::mem::take(&mut self.newly_granted) {
            while self.waits_of.contains_key(&given.owner)
                && let Some(ticket) = self.deadlocked_wait(given.target)
            {
                let waiter = self.dequeue(ticket).and_then(|wait| wait.waiter);
                self.answers.extend(waiter.map(|waiter| (waiter.call, WaitOutcome::Deadlock)));
            }
        }
    }

    fn deadlocked_wait(&self, target: LockTarget) -> Option<Ticket> {
        let queue = &self.targets.get(&target)?.queue;
        queue.iter().find(|wait| self.would_deadlock(&wait.wanted)).map(|wait| wait.ticket)
    }

    /// Owners of conflicting locks.
    fn blockers(&self, wanted: &LockRequestOf) -> Vec<Owner> {
        let held = self.targets.get(&wanted.target).into_iter().flat_map(|locked| &locked.held);
        let others = held.filter(|(owner, _)| **owner != wanted.owner);
        let blocking = others.filter(|(_, ranges)| {
            ranges.overlapping(wanted.start, wanted.last).any(|(.., mode)| wanted.conflicts(mode))
        });
        blocking.map(|(owner, _)| *owner).collect()
    }

    /// Whether one of `from` waits, directly or indirectly, for `owner`.
    fn waits_for(&self, mut from: Vec<Owner>, owner: Owner) -> bool {
        let mut seen = BTreeSet::new();
        while let Some(next) = from.pop() {
            if next == owner {
                return true;
            }
            if seen.insert(next) {
                let waits = self.waits_of.get(&next).into_iter().flatten();
                from.extend(
                    waits
                        .filter_map(|ticket| self.wait(*ticket))
                        .flat_map(|wait| self.blockers(&wait.wanted)),
                );
            }
        }
        false
    }

    fn wait(&self, ticket: Ticket) -> Option<&LockWait<W>> {
        let target = self.tickets.get(&ticket)?;
        self.targets.get(target)?.queue.iter().find(|wait| wait.ticket == ticket)
    }
}
