//! The server: the real table, and around it the minimum that serves calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use braid_client::lease::LeaseOf as Held;
use braid_meta::lease::{
    AskOutcome, ClaimId, LeaseMode as Mode, LeaseOf, LeaseTable, PendingRecall,
};
use braid_types::{
    MdsEpoch, SessionId,
    limits::{LEASE_EXPIRES_MS, RECALL_MS},
};
use braid_wire::message::lease::{LeaseGrant, LeaseKind, LeaseMode, Recall, ReturnedLease};

use crate::{
    scenario::Variant,
    world::{Answer, CLIENTS, FILE, Message, START, Want, World},
};

/// A call that the server has received and not answered.
#[derive(Clone, Hash, Debug)]
pub struct Pending {
    pub client: usize,
    pub session: u64,
    pub want: Want,
    /// Its claim holds: it is being carried out.
    pub doing: bool,
}

/// The server. A restart creates again what it forgets.
#[derive(Clone, Hash, Debug)]
pub struct Server {
    pub epoch: u64,
    pub clock: Duration,
    pub table: LeaseTable,
    /// Calls that wait or are being carried out, by number.
    pub pending: BTreeMap<u32, Pending>,
    /// Completed changes: a retry is answered and does not run again (I7).
    done: BTreeSet<u32>,
    /// Live sessions, and when the server last received a message of each.
    sessions: BTreeMap<u64, Duration>,
    /// Expired sessions that may still assume leases valid until then: they stay recorded.
    broken: BTreeMap<u64, Duration>,
    /// Sessions whose fence is pending.
    fencing: BTreeSet<u64>,
    /// Sessions that the I/O daemon refuses.
    fenced: BTreeSet<u64>,
    /// Pending requests for recalls: client, last number seen, time of sending.
    awaiting: BTreeMap<u64, (usize, u64, Duration)>,
    /// The directory's value.
    pub value: u8,
}

impl Server {
    pub fn new() -> Self {
        Self {
            epoch: 1,
            clock: START,
            table: LeaseTable::new(MdsEpoch(1)),
            pending: BTreeMap::new(),
            done: BTreeSet::new(),
            sessions: (1..=CLIENTS as u64).map(|session| (session, START)).collect(),
            broken: BTreeMap::new(),
            fencing: BTreeSet::new(),
            fenced: BTreeSet::new(),
            awaiting: BTreeMap::new(),
            value: 0,
        }
    }

    /// A new session of a client whose previous one has ended.
    pub fn begin_session(&mut self) -> u64 {
        let used =
            self.sessions.keys().chain(self.broken.keys()).chain(&self.fencing).chain(&self.fenced);
        let session = used.max().copied().unwrap_or_default() + 1;
        self.sessions.insert(session, self.clock);
        session
    }

    pub fn is_fenced(&self, session: u64) -> bool {
        self.fenced.contains(&session)
    }

    pub fn has_fencing(&self) -> bool {
        !self.fencing.is_empty()
    }
}

impl World {
    /// The server dies and starts again.
    pub fn restart(&mut self, variant: Variant) {
        let server = &mut self.server;
        server.epoch += 1;
        server.pending.clear();
        server.awaiting.clear();
        server.table = LeaseTable::new(MdsEpoch(server.epoch));
        if variant != Variant::NoGrace {
            let until = server.clock + Duration::from_millis(LEASE_EXPIRES_MS);
            let recorded = server.sessions.keys().chain(server.broken.keys());
            server.table.set_unreclaimed(recorded.map(|id| SessionId(*id)).collect(), until);
        }
        // The epoch fences the sessions whose fence was pending.
        let fencing = std::mem::take(&mut server.fencing);
        server.fenced.extend(fencing);
    }

    /// A message reaches the server.
    pub fn server_receives(&mut self, message: Message, variant: Variant) {
        match message {
            Message::Call { client, session, number, want } if self.is_heard(client, session) => {
                self.called(client, session, number, want, variant);
            }
            // A connection belongs to one epoch: a request to the previous one never arrives.
            Message::Await { client, session, epoch, seen, sent }
                if self.is_heard(client, session) && epoch == self.server.epoch =>
            {
                self.server.table.session_released(SessionId(session));
                self.server.awaiting.insert(session, (client, seen, sent));
            }
            Message::Return { session, lease } if self.is_heard(usize::MAX, session) => {
                let number = if variant == Variant::NoNumbers { u64::MAX } else { lease.number };
                let ReturnedLease { kind, file, keep, .. } = lease;
                let of = match kind {
                    LeaseKind::Names => LeaseOf::Names(file),
                    LeaseKind::Layout => LeaseOf::Layout(file),
                    _ => LeaseOf::Data(file),
                };
                self.server.table.return_lease(SessionId(session), of, number, from_wire(keep));
            }
            _ => {}
        }
        self.follow(variant);
    }

    fn is_heard(&mut self, client: usize, session: u64) -> bool {
        let clock = self.server.clock;
        match self.server.sessions.get_mut(&session) {
            Some(last_active) => {
                *last_active = clock;
                true
            }
            None => {
                if client < CLIENTS {
                    self.send(Message::NoSession { client, session });
                }
                false
            }
        }
    }

    /// What the shared lease covers, as the table names it.
    fn shared(&self) -> LeaseOf {
        match self.of {
            Held::Names(dir) => LeaseOf::Names(dir),
            Held::Data(file) => LeaseOf::Data(file),
            Held::Layout(file) => LeaseOf::Layout(file),
            Held::Delegation(file) => LeaseOf::Delegation(file),
        }
    }

    fn called(&mut self, client: usize, session: u64, number: u32, want: Want, variant: Variant) {
        let (id, clock, of) = (SessionId(session), self.server.clock, self.shared());
        match want {
            Want::Look => self.answer(client, session, number, Answer::Value(self.server.value)),
            Want::Shared => {
                let granted = self.server.table.grant_shared(of, id, clock);
                let grant = granted.map_or(LeaseGrant::NONE, |number| LeaseGrant {
                    mode: LeaseMode::Read,
                    number,
                    ..LeaseGrant::NONE
                });
                self.answer(client, session, number, Answer::Grant(grant));
            }
            Want::Change if self.server.done.contains(&number) => {
                self.answer(client, session, number, Answer::Done)
            }
            Want::Change | Want::Data(_) => {
                let pending = Pending { client, session, want, doing: false };
                self.server.pending.entry(number).or_insert(pending);
                self.try_again(number, variant);
            }
        }
    }

    /// Checks whether a waiting call may proceed.
    fn try_again(&mut self, number: u32, variant: Variant) {
        let Some(pending) = self.server.pending.get(&number).cloned() else { return };
        let (id, clock, claim) =
            (SessionId(pending.session), self.server.clock, ClaimId(u64::from(number)));
        let of = self.shared();
        match pending.want {
            _ if pending.doing => {}
            Want::Change => {
                let needs = [(of, Mode::Write)];
                let waits = self.server.table.claim(claim, id, &needs, clock).is_some();
                if !waits && variant == Variant::GrantWhileDone {
                    self.server.table.unclaim(claim, &[of]);
                }
                if !waits && let Some(pending) = self.server.pending.get_mut(&number) {
                    pending.doing = true;
                }
            }
            Want::Data(mode) => {
                let wish = (from_wire(mode), false);
                let asked =
                    self.server.table.request_data(claim, id, LeaseOf::Data(FILE), wish, clock);
                if let AskOutcome::Granted(mode, grant) = asked {
                    self.server.pending.remove(&number);
                    let grant =
                        LeaseGrant { mode: to_wire(mode), number: grant, ..LeaseGrant::NONE };
                    self.answer(pending.client, pending.session, number, Answer::Grant(grant));
                }
            }
            Want::Look | Want::Shared => {}
        }
    }

    /// Carries out a change whose claim holds.
    pub fn apply(&mut self, number: u32, variant: Variant) {
        let Some(pending) = self.server.pending.remove(&number) else { return };
        self.server.value += 1;
        self.server.done.insert(number);
        let of = self.shared();
        self.server.table.unclaim(ClaimId(u64::from(number)), &[of]);
        self.answer(pending.client, pending.session, number, Answer::Done);
        self.follow(variant);
    }

    fn answer(&mut self, client: usize, session: u64, number: u32, answer: Answer) {
        let epoch = self.server.epoch;
        self.send(Message::Answer { client, session, epoch, number, answer });
    }

    /// The pending fences hold.
    pub fn fence_holds(&mut self, variant: Variant) {
        let fencing = std::mem::take(&mut self.server.fencing);
        let sessions: Vec<SessionId> = fencing.iter().map(|id| SessionId(*id)).collect();
        self.server.fenced.extend(fencing);
        self.server.table.sessions_fenced(&sessions);
        self.age(variant);
    }

    /// The server's clock advances.
    pub fn server_ticks(&mut self, by: Duration, variant: Variant) {
        self.server.clock += by;
        let silent: Vec<u64> = self.server.awaiting.keys().copied().collect();
        silent.into_iter().for_each(|session| self.send_recalls(session, true));
        let since = self.server.clock - Duration::from_millis(RECALL_MS);
        for SessionId(session) in self.server.table.overdue(since) {
            if let Some(last_active) = self.server.sessions.remove(&session) {
                let until = match variant {
                    Variant::OneClock => self.server.clock,
                    _ => last_active + Duration::from_millis(LEASE_EXPIRES_MS),
                };
                self.server.table.end_session_later(SessionId(session), until);
                self.server.fencing.insert(session);
                self.server.broken.insert(session, until);
                self.server.awaiting.remove(&session);
                let of_it = |pending: &Pending| pending.session == session && !pending.doing;
                let shared = self.shared();
                for (number, pending) in
                    self.server.pending.extract_if(.., |_, pending| of_it(pending))
                {
                    let of =
                        if pending.want == Want::Change { shared } else { LeaseOf::Data(FILE) };
                    self.server.table.unclaim(ClaimId(u64::from(number)), &[of]);
                }
            }
        }
        self.age(variant);
    }

    fn age(&mut self, variant: Variant) {
        let before: Vec<SessionId> = self.server.table.unreclaimed_sessions().collect();
        self.server.table.expire(self.server.clock);
        let (fencing, clock) = (self.server.fencing.clone(), self.server.clock);
        self.server.broken.retain(|session, until| fencing.contains(session) || clock < *until);
        if self.server.table.unreclaimed_sessions().next().is_none() {
            // By now every daemon knows this epoch, or has stopped: sessions that did not reclaim
            // are refused.
            self.server.fenced.extend(before.iter().map(|id| id.0));
        }
        self.follow(variant);
    }

    /// What follows from a change of the table.
    fn follow(&mut self, variant: Variant) {
        for _ in 0..4 {
            let freed = !self.server.table.take_freed().is_empty();
            let numbers: Vec<u32> = self.server.pending.keys().copied().collect();
            if freed {
                numbers.into_iter().for_each(|number| self.try_again(number, variant));
            }
        }
        self.server.table.take_recalled_sessions();
        let waiting: Vec<u64> = self.server.awaiting.keys().copied().collect();
        waiting.into_iter().for_each(|session| self.send_recalls(session, false));
    }

    fn send_recalls(&mut self, session: u64, also_nothing: bool) {
        let Some((client, seen, sent)) = self.server.awaiting.get(&session).copied() else {
            return;
        };
        let recalls = self.server.table.recalls(SessionId(session), seen, 10);
        if recalls.is_empty() && !also_nothing {
            return;
        }
        self.server.awaiting.remove(&session);
        let recalls = recalls.iter().map(|(number, recall)| wire(*number, recall)).collect();
        let epoch = self.server.epoch;
        self.send(Message::Recalls { client, session, epoch, recalls, sent });
    }
}

pub(crate) fn from_wire(mode: LeaseMode) -> Mode {
    match mode {
        LeaseMode::Read => Mode::Read,
        LeaseMode::Write => Mode::Write,
        LeaseMode::Shared => Mode::Shared,
        _ => Mode::None,
    }
}

pub(crate) fn to_wire(mode: Mode) -> LeaseMode {
    match mode {
        Mode::Read => LeaseMode::Read,
        Mode::Write => LeaseMode::Write,
        Mode::Shared => LeaseMode::Shared,
        Mode::None | Mode::Look => LeaseMode::None,
    }
}

fn wire(number: u64, recall: &PendingRecall) -> Recall {
    let (kind, file) = match recall.of {
        LeaseOf::Names(file) => (LeaseKind::Names, file),
        LeaseOf::Data(file) => (LeaseKind::Data, file),
        LeaseOf::Layout(file) => (LeaseKind::Layout, file),
        LeaseOf::Delegation(file) => (LeaseKind::Delegation, file),
    };
    Recall { number, kind, file, keep: to_wire(recall.keep) }
}
