//! The state machine.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::{Hash, Hasher},
    time::Duration,
};

use braid_types::limits::LEASE_STOP_MS;
use braid_wire::message::lease::{LeaseGrant, LeaseMode, Recall, ReturnedLease};

use super::{LeaseOf, LeaseTicket, Recalled};
use crate::engine::ServerEpoch;

/// Recalls that are remembered because they may have overtaken grants (I9). Beyond this number, all
/// older grants are void.
const RECALLS_REMEMBERED_MAX: usize = 4096;

/// A request for a lease that is in flight.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LeaseRequest {
    /// The newest recall that was received before the request was sent.
    begun: u64,
    sent: Duration,
}

/// The action that is required before anything else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequiredAction {
    /// Drop everything, then confirm it with [`LeaseState::all_invalidated`] and this number.
    Invalidate(u64),
    /// Await recalls after this number. All leases are lost at the given time, unless a renewal is
    /// answered.
    AwaitRecalls(u64, Option<Duration>),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct HeldLease {
    number: u64,
    mode: LeaseMode,
    set_ids: bool,
    /// The moment from which it is held: a number that rises with every new lease.
    since: u64,
}

/// All leases of one client.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeaseState {
    epoch: Option<ServerEpoch>,
    held: HashMap<LeaseOf, HeldLease>,
    next_since: u64,
    /// The newest recall of this epoch that was received.
    seen: u64,
    /// Recalls that may have overtaken a grant, and leases that were returned, by their numbers.
    recalls: VecDeque<(u64, LeaseOf)>,
    /// Grants with a lower number are void.
    void_below: u64,
    /// Requests in flight, by the newest recall received before they were sent.
    pending_requests: BTreeMap<u64, u32>,
    valid_until: Duration,
    /// The number of lease losses, and up to which of them the caches are dropped.
    lost: u64,
    invalidated: u64,
}

impl LeaseState {
    /// No leases, and no server yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on the client is connected to this epoch of the server. Leases of another epoch are
    /// lost. Returns whether caches must be dropped.
    pub fn set_epoch(&mut self, run: ServerEpoch) -> bool {
        if self.epoch == Some(run) {
            return false;
        }
        let before = self.epoch.replace(run).is_some();
        self.seen = 0;
        self.void_below = 0;
        self.recalls.clear();
        self.valid_until = Duration::ZERO;
        if before {
            self.lose_all();
        }
        self.must_invalidate()
    }

    /// Whether the leases are of this epoch.
    pub fn is_of(&self, run: ServerEpoch) -> bool {
        self.epoch == Some(run)
    }

    /// Whether something cached before a lease loss is not dropped yet.
    pub fn must_invalidate(&self) -> bool {
        debug_assert!(self.invalidated <= self.lost, "3: caches are dropped after a lease loss");
        self.invalidated != self.lost
    }

    /// The action that is required now.
    pub fn required_action(&mut self, now: Duration) -> RequiredAction {
        self.expire(now);
        if self.must_invalidate() {
            return RequiredAction::Invalidate(self.lost);
        }
        RequiredAction::AwaitRecalls(self.seen, (!self.held.is_empty()).then_some(self.valid_until))
    }

    /// The caches were dropped for all lease losses up to this number.
    pub fn all_invalidated(&mut self, lost: u64) {
        self.invalidated = self.invalidated.max(lost);
    }

    /// A request for a lease is sent at `now`.
    pub fn begin_request(&mut self, now: Duration) -> LeaseRequest {
        *self.pending_requests.entry(self.seen).or_default() += 1;
        LeaseRequest { begun: self.seen, sent: now }
    }

    /// A request was answered by epoch `run`, with or without a grant.
    pub fn answered(
        &mut self,
        ask: LeaseRequest,
        run: ServerEpoch,
        grant: Option<(LeaseOf, LeaseGrant)>,
        now: Duration,
    ) -> Option<LeaseTicket> {
        let ticket = grant.and_then(|(of, grant)| self.apply_grant(&ask, run, of, &grant, now));
        self.end_request(&ask);
        ticket
    }

    /// A request ended without a reply; a later reply is ignored.
    pub fn unanswered(&mut self, ask: LeaseRequest) {
        self.end_request(&ask);
    }

    /// This epoch has answered a call of the session that was sent at `sent`.
    pub fn renewed(&mut self, run: ServerEpoch, sent: Duration, now: Duration) {
        self.expire(now);
        if self.epoch == Some(run) {
            self.valid_until = self.valid_until.max(sent + Duration::from_millis(LEASE_STOP_MS));
        }
    }

    /// Applies the recalls in a reply of this epoch to `AwaitRecalls`. Returns those to carry out.
    pub fn recalls(
        &mut self,
        run: ServerEpoch,
        recalls: &[Recall],
        now: Duration,
    ) -> Vec<Recalled> {
        self.expire(now);
        // While something is not dropped after a lease loss, no lease may be returned as if it were
        // dropped. Recalls that are not applied here are sent again.
        if self.epoch != Some(run) || self.must_invalidate() {
            return Vec::new();
        }
        recalls.iter().filter_map(|recall| self.recall(recall)).collect()
    }

    /// The time until which leases are valid, according to the last answered renewal.
    pub fn valid_until(&self) -> Duration {
        self.valid_until
    }

    /// A recall has been carried out. Returns the message to the server.
    pub fn carried_out(&mut self, recalled: &Recalled, keep: LeaseMode) -> ReturnedLease {
        let keep = if keep == recalled.keep { keep } else { LeaseMode::None };
        if let Some(held) = self.held.get_mut(&recalled.of).filter(|_| recalled.held) {
            // The ticket changes, so that the holder stops using what it cached before the recall.
            self.next_since += 1;
            held.since = self.next_since;
        }
        if let Some(held) =
            self.held.get_mut(&recalled.of).filter(|held| held.number < recalled.number)
        {
            held.mode = keep;
            held.number = recalled.number;
            if keep == LeaseMode::None {
                self.held.remove(&recalled.of);
            }
        }
        returned(recalled.of, recalled.number, keep)
    }

    /// Returns a lease that is not needed any more. The result is the message to the server.
    pub fn return_lease(&mut self, of: LeaseOf) -> Option<ReturnedLease> {
        let held = self.held.remove(&of)?;
        // The server drops grants that crossed this return, too.
        if !self.pending_requests.is_empty() {
            let at = self.recalls.partition_point(|(number, _)| *number <= held.number);
            self.recalls.insert(at, (held.number, of));
        }
        Some(returned(of, held.number, LeaseMode::None))
    }

    /// A lease, if it is held and valid now.
    pub fn ticket(&self, of: LeaseOf, now: Duration) -> Option<LeaseTicket> {
        // Invariants 1 and 3.
        if now >= self.valid_until || self.must_invalidate() {
            return None;
        }
        let held = self.held.get(&of)?;
        Some(LeaseTicket { of, mode: held.mode, set_ids: held.set_ids, since: held.since })
    }

    /// Whether a lease was held, and allowed no less, from the ticket's moment until now.
    pub fn is_valid(&self, ticket: &LeaseTicket, now: Duration) -> bool {
        self.ticket(ticket.of, now).as_ref() == Some(ticket)
    }

    fn apply_grant(
        &mut self,
        ask: &LeaseRequest,
        run: ServerEpoch,
        of: LeaseOf,
        grant: &LeaseGrant,
        now: Duration,
    ) -> Option<LeaseTicket> {
        self.renewed(run, ask.sent, now);
        let void = self.epoch != Some(run)
            || self.must_invalidate()
            || self.is_overtaken(of, grant.number);
        if void || grant.mode == LeaseMode::None || now >= self.valid_until {
            return None;
        }
        let next = &mut self.next_since;
        let mut begin = || {
            *next += 1;
            *next
        };
        match self.held.get_mut(&of) {
            // A late reply to an earlier request.
            Some(held) if held.number > grant.number => return self.ticket(of, now),
            Some(held) => {
                if (held.mode, held.set_ids) != (grant.mode, grant.set_ids) {
                    held.since = begin();
                }
                (held.mode, held.set_ids, held.number) = (grant.mode, grant.set_ids, grant.number);
            }
            None => {
                let LeaseGrant { number, mode, set_ids } = *grant;
                let held = HeldLease { number, mode, set_ids, since: begin() };
                self.held.insert(of, held);
            }
        }
        self.ticket(of, now)
    }

    fn is_overtaken(&self, of: LeaseOf, number: u64) -> bool {
        debug_assert!(self.recalls.iter().is_sorted_by_key(|(number, _)| *number), "2: in order");
        let later = self.recalls.iter().rev().take_while(|(recalled, _)| *recalled > number);
        number < self.void_below || later.into_iter().any(|(_, recalled)| *recalled == of)
    }

    fn recall(&mut self, recall: &Recall) -> Option<Recalled> {
        let of = LeaseOf::new(recall.kind, recall.file)?;
        if recall.number <= self.seen {
            return None;
        }
        self.seen = recall.number;
        if !self.pending_requests.is_empty() {
            // A lease of a higher number may have been returned before this recall arrived.
            let at = self.recalls.partition_point(|(number, _)| *number <= recall.number);
            self.recalls.insert(at, (recall.number, of));
        }
        if self.recalls.len() > RECALLS_REMEMBERED_MAX
            && let Some((number, _)) = self.recalls.pop_front()
        {
            self.void_below = number;
        }
        let held = self.held.get(&of).is_some_and(|held| held.number < recall.number);
        if held && matches!(of, LeaseOf::Names(_)) {
            self.held.remove(&of);
        }
        Some(Recalled { of, number: recall.number, keep: recall.keep, held })
    }

    fn end_request(&mut self, ask: &LeaseRequest) {
        if let Some(count) = self.pending_requests.get_mut(&ask.begun) {
            *count -= 1;
            if *count == 0 {
                self.pending_requests.remove(&ask.begun);
            }
        }
        let oldest = self.pending_requests.first_key_value().map_or(u64::MAX, |(begun, _)| *begun);
        while self.recalls.front().is_some_and(|(number, _)| *number <= oldest) {
            self.recalls.pop_front();
        }
    }

    /// Loses all leases if their time is over.
    fn expire(&mut self, now: Duration) {
        if now >= self.valid_until && !self.held.is_empty() {
            self.lose_all();
        }
    }

    fn lose_all(&mut self) {
        self.held.clear();
        self.lost += 1;
    }
}

impl Hash for LeaseState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut held: Vec<_> = self.held.iter().collect();
        held.sort_unstable();
        let (counts, times) = (
            (self.next_since, self.seen, self.void_below, self.lost, self.invalidated),
            self.valid_until,
        );
        (self.epoch, held, counts, times, &self.recalls, &self.pending_requests).hash(state);
    }
}

fn returned(of: LeaseOf, number: u64, keep: LeaseMode) -> ReturnedLease {
    ReturnedLease { kind: of.kind(), file: of.file(), number, keep }
}
