//! The state machine.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::{Hash, Hasher},
    time::Duration,
};

use braid_types::limits::LEASE_STOP_MS;
use braid_wire::message::lease::{LeaseGrant, LeaseMode, Recall, ReturnedLease};

use super::{LeaseOf, LeaseTicket, Recalled};
use crate::engine::Run;

/// Recalls that are remembered for the sake of grants that they may have overtaken (I9). Beyond it, older grants are void
/// whatever they are of.
const RECALLS_REMEMBERED_MAX: usize = 4096;

/// A question for a lease that is under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ask {
    /// The newest recall that had been seen when it was sent.
    begun: u64,
    sent: Duration,
}

/// What is to be done before anything else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duty {
    /// To drop everything, and say so with [`Holding::all_dropped`] of this number.
    Drop(u64),
    /// To await recalls, having seen those up to this number; all is lost at the time given, unless a renewal is
    /// answered.
    Await(u64, Option<Duration>),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Held {
    number: u64,
    mode: LeaseMode,
    set_ids: bool,
    /// When it began to be held: rises with every lease that was not held before.
    since: u64,
}

/// Every lease of one client.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    run: Option<Run>,
    held: HashMap<LeaseOf, Held>,
    next_since: u64,
    /// The newest recall of this run that was taken in.
    seen: u64,
    /// Recalls that may have overtaken a grant, and leases that were given back, in the order of their numbers.
    recalls: VecDeque<(u64, LeaseOf)>,
    /// Grants below it are void.
    floor: u64,
    /// Asks that are under way, by what had been seen when they were sent.
    asks: BTreeMap<u64, u32>,
    believed_until: Duration,
    /// How often everything was lost, and up to which of these it was dropped.
    lost: u64,
    dropped: u64,
}

impl Holding {
    /// Nothing is held, of nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// The client speaks to this run of the server from now on. Whether there may be leases of another one: then
    /// everything is lost.
    pub fn met(&mut self, run: Run) -> bool {
        if self.run == Some(run) {
            return false;
        }
        let before = self.run.replace(run).is_some();
        self.seen = 0;
        self.floor = 0;
        self.recalls.clear();
        self.believed_until = Duration::ZERO;
        if before {
            self.lose_all();
        }
        self.owes_dropping()
    }

    /// Whether the leases are of this run.
    pub fn is_of(&self, run: Run) -> bool {
        self.run == Some(run)
    }

    /// Whether what was believed before is not dropped yet.
    pub fn owes_dropping(&self) -> bool {
        self.dropped != self.lost
    }

    /// What is to be done now.
    pub fn duty(&mut self, now: Duration) -> Duty {
        self.look_at(now);
        if self.owes_dropping() {
            return Duty::Drop(self.lost);
        }
        Duty::Await(self.seen, (!self.held.is_empty()).then_some(self.believed_until))
    }

    /// Everything that was lost up to this number is dropped.
    pub fn all_dropped(&mut self, lost: u64) {
        self.dropped = self.dropped.max(lost);
    }

    /// A lease is asked for at `now`.
    pub fn ask(&mut self, now: Duration) -> Ask {
        *self.asks.entry(self.seen).or_default() += 1;
        Ask { begun: self.seen, sent: now }
    }

    /// An ask has ended, with a grant or without; the grant was `run`'s.
    pub fn answered(
        &mut self,
        ask: Ask,
        run: Run,
        grant: Option<(LeaseOf, LeaseGrant)>,
        now: Duration,
    ) -> Option<LeaseTicket> {
        let ticket = grant.and_then(|(of, grant)| self.take_in(&ask, run, of, &grant, now));
        self.forget_ask(&ask);
        ticket
    }

    /// An ask has ended without an answer: should there be one, nobody will see it.
    pub fn unanswered(&mut self, ask: Ask) {
        self.forget_ask(&ask);
    }

    /// A call of the session that was sent then was answered by this run.
    pub fn renewed(&mut self, run: Run, sent: Duration, now: Duration) {
        self.look_at(now);
        if self.run == Some(run) {
            self.believed_until =
                self.believed_until.max(sent + Duration::from_millis(LEASE_STOP_MS));
        }
    }

    /// Takes in what an `AwaitRecalls` of this run was answered with; what is to be carried out.
    pub fn recalls(&mut self, run: Run, recalls: &[Recall], now: Duration) -> Vec<Recalled> {
        self.look_at(now);
        // While something that was lost is not dropped yet, nothing is given back as if it were: what is not taken in is
        // told again.
        if self.run != Some(run) || self.owes_dropping() {
            return Vec::new();
        }
        recalls.iter().filter_map(|recall| self.recall(recall)).collect()
    }

    /// Until when leases are believed, as far as the server was heard.
    pub fn believed_until(&self) -> Duration {
        self.believed_until
    }

    /// A recall has been carried out; what to tell the server.
    pub fn carried_out(&mut self, recalled: &Recalled, keep: LeaseMode) -> ReturnedLease {
        let keep = if keep == recalled.keep { keep } else { LeaseMode::None };
        if let Some(held) = self.held.get_mut(&recalled.of).filter(|_| recalled.held) {
            // What its holder uses no more since the recall it knows from what it has now by the ticket.
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

    /// Gives a lease back that nobody wants; what to tell the server.
    pub fn give_back(&mut self, of: LeaseOf) -> Option<ReturnedLease> {
        let held = self.held.remove(&of)?;
        // A grant of before that crossed this one goes with it at the server.
        if !self.asks.is_empty() {
            let at = self.recalls.partition_point(|(number, _)| *number <= held.number);
            self.recalls.insert(at, (held.number, of));
        }
        Some(returned(of, held.number, LeaseMode::None))
    }

    /// A lease, if it is held and believed now.
    pub fn ticket(&self, of: LeaseOf, now: Duration) -> Option<LeaseTicket> {
        if now >= self.believed_until || self.owes_dropping() {
            return None;
        }
        let held = self.held.get(&of)?;
        Some(LeaseTicket { of, mode: held.mode, set_ids: held.set_ids, since: held.since })
    }

    /// Whether a lease was held, and allowed no less, from the ticket's moment until now.
    pub fn still(&self, ticket: &LeaseTicket, now: Duration) -> bool {
        self.ticket(ticket.of, now).as_ref() == Some(ticket)
    }

    fn take_in(
        &mut self,
        ask: &Ask,
        run: Run,
        of: LeaseOf,
        grant: &LeaseGrant,
        now: Duration,
    ) -> Option<LeaseTicket> {
        self.renewed(run, ask.sent, now);
        let void =
            self.run != Some(run) || self.owes_dropping() || self.is_overtaken(of, grant.number);
        if void || grant.mode == LeaseMode::None || now >= self.believed_until {
            return None;
        }
        let next = &mut self.next_since;
        let mut begin = || {
            *next += 1;
            *next
        };
        match self.held.get_mut(&of) {
            // A late answer to an earlier ask.
            Some(held) if held.number > grant.number => return self.ticket(of, now),
            Some(held) => {
                if (held.mode, held.set_ids) != (grant.mode, grant.set_ids) {
                    held.since = begin();
                }
                (held.mode, held.set_ids, held.number) = (grant.mode, grant.set_ids, grant.number);
            }
            None => {
                let LeaseGrant { number, mode, set_ids } = *grant;
                let held = Held { number, mode, set_ids, since: begin() };
                self.held.insert(of, held);
            }
        }
        self.ticket(of, now)
    }

    fn is_overtaken(&self, of: LeaseOf, number: u64) -> bool {
        let later = self.recalls.iter().rev().take_while(|(recalled, _)| *recalled > number);
        number < self.floor || later.into_iter().any(|(_, recalled)| *recalled == of)
    }

    fn recall(&mut self, recall: &Recall) -> Option<Recalled> {
        let of = LeaseOf::new(recall.kind, recall.file)?;
        if recall.number <= self.seen {
            return None;
        }
        self.seen = recall.number;
        if !self.asks.is_empty() {
            self.recalls.push_back((recall.number, of));
        }
        if self.recalls.len() > RECALLS_REMEMBERED_MAX
            && let Some((number, _)) = self.recalls.pop_front()
        {
            self.floor = number;
        }
        let held = self.held.get(&of).is_some_and(|held| held.number < recall.number);
        if held && matches!(of, LeaseOf::Names(_)) {
            self.held.remove(&of);
        }
        Some(Recalled { of, number: recall.number, keep: recall.keep, held })
    }

    fn forget_ask(&mut self, ask: &Ask) {
        if let Some(count) = self.asks.get_mut(&ask.begun) {
            *count -= 1;
            if *count == 0 {
                self.asks.remove(&ask.begun);
            }
        }
        let oldest = self.asks.first_key_value().map_or(u64::MAX, |(begun, _)| *begun);
        while self.recalls.front().is_some_and(|(number, _)| *number <= oldest) {
            self.recalls.pop_front();
        }
    }

    /// The time is over for what was not renewed.
    fn look_at(&mut self, now: Duration) {
        if now >= self.believed_until && !self.held.is_empty() {
            self.lose_all();
        }
    }

    fn lose_all(&mut self) {
        self.held.clear();
        self.lost += 1;
    }
}

impl Hash for Holding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut held: Vec<_> = self.held.iter().collect();
        held.sort_unstable();
        let (counts, times) = (
            (self.next_since, self.seen, self.floor, self.lost, self.dropped),
            self.believed_until,
        );
        (self.run, held, counts, times, &self.recalls, &self.asks).hash(state);
    }
}

fn returned(of: LeaseOf, number: u64, keep: LeaseMode) -> ReturnedLease {
    ReturnedLease { kind: of.kind(), file: of.file(), number, keep }
}
