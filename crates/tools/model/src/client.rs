//! A client: the real holder, and around it a cache of one name's value and one file's bytes.

use std::{collections::VecDeque, time::Duration};

use braid_client::lease::{
    LeaseOf, LeaseRequest, LeaseState, LeaseTicket, Recalled, RequiredAction, ServerEpoch,
};
use braid_types::{MdsEpoch, SessionId};
use braid_wire::message::lease::{LeaseGrant, LeaseMode, Recall, ReturnedLease};

use crate::{
    scenario::Variant,
    world::{Answer, FILE, Message, START, Want, World},
};

/// A call that is pending.
#[derive(Clone, Hash, Debug)]
pub struct PendingCall {
    pub number: u32,
    pub want: Want,
    ask: Option<LeaseRequest>,
    /// The names lease at the time when the call was sent.
    ticket: Option<LeaseTicket>,
}

/// A client.
#[derive(Clone, Hash, Debug)]
pub struct Client {
    pub number: usize,
    pub dead: bool,
    pub clock: Duration,
    pub session: u64,
    pub epoch: u64,
    pub holding: LeaseState,
    pub calling: Vec<PendingCall>,
    /// How many calls it may have pending at a time.
    pub at_once: usize,
    /// What it still has to do, in this order. The two clients may interleave in any way.
    pub wants: VecDeque<Want>,
    /// A request for recalls is outstanding.
    pub awaits: bool,
    pub recalled: Vec<Recalled>,
    /// Leases that it returned in messages that were lost: sent again until they are answered.
    pub unreturned: Vec<ReturnedLease>,
    /// The value of the name, as the kernel caches it.
    pub cached: Option<u8>,
    /// Bytes of the file that it read and caches.
    pub page: Option<u8>,
    /// Bytes that it buffers.
    pub dirty: Option<u8>,
    /// Reads and writes that it may still do under data leases.
    pub uses: u8,
}

impl Client {
    pub fn new(number: usize, at_once: usize) -> Self {
        let mut client = Self {
            number,
            dead: false,
            clock: START,
            session: number as u64 + 1,
            epoch: 1,
            holding: LeaseState::new(),
            calling: Vec::new(),
            at_once,
            wants: VecDeque::new(),
            awaits: false,
            recalled: Vec::new(),
            unreturned: Vec::new(),
            cached: None,
            page: None,
            dirty: None,
            uses: 2,
        };
        client.holding.set_epoch(client.run());
        client
    }

    pub fn run(&self) -> ServerEpoch {
        ServerEpoch { session: SessionId(self.session), epoch: MdsEpoch(self.epoch) }
    }

    pub fn ticket(&self, of: LeaseOf) -> Option<LeaseTicket> {
        self.holding.ticket(of, self.clock)
    }

    /// What it may do with the file's bytes.
    pub fn data_mode(&self) -> LeaseMode {
        self.ticket(LeaseOf::Data(FILE)).map_or(LeaseMode::None, |ticket| ticket.mode())
    }

    /// Whether it has lost leases whose caches it must drop.
    pub fn must_drop(&self) -> bool {
        !self.dead
            && matches!(
                self.holding.clone().required_action(self.clock),
                RequiredAction::Invalidate(_)
            )
    }

    /// Whether it has something to do that takes no time: no clock advances before it is done.
    /// Returning names means notifying the kernel. Flushing buffered bytes, or getting a layout
    /// back from others, may take time.
    pub fn is_busy(&self) -> bool {
        let names = self
            .recalled
            .iter()
            .any(|recalled| recalled.held && matches!(recalled.of, LeaseOf::Names(_)));
        self.must_drop() || names && !self.dead
    }
}

impl World {
    /// Sends the next call.
    pub fn call(&mut self, who: usize) {
        let of = self.of;
        let client = &mut self.clients[who];
        let Some(want) = client.wants.pop_front() else { return };
        let asks = matches!(want, Want::Shared | Want::Data(_));
        let ask = asks.then(|| client.holding.begin_request(client.clock));
        let ticket = client.ticket(of);
        if want == Want::Change {
            // Its own change: the kernel drops what it cached of it.
            client.cached = None;
        }
        client.calling.push(PendingCall { number: self.next_number, want, ask, ticket });
        self.next_number += 1;
        let last = client.calling.len() - 1;
        self.call_again(who, last);
    }

    /// Sends a pending call again: no message of it is in flight any more.
    pub fn call_again(&mut self, who: usize, at: usize) {
        let client = &self.clients[who];
        if let Some(PendingCall { number, want, .. }) = client.calling.get(at).cloned() {
            self.send(Message::Call { client: who, session: client.session, number, want });
        }
    }

    /// Sends a request for recalls, if nothing else comes first and none is outstanding.
    pub fn await_recalls(&mut self, who: usize) {
        let client = &mut self.clients[who];
        if client.dead || client.awaits {
            return;
        }
        if let RequiredAction::AwaitRecalls(seen, _) = client.holding.required_action(client.clock)
        {
            client.awaits = true;
            let (session, epoch, sent) = (client.session, client.epoch, client.clock);
            self.send(Message::Await { client: who, session, epoch, seen, sent });
        }
    }

    /// All leases were lost: drops all caches.
    pub fn drop_all(&mut self, who: usize) {
        let clock = self.clients[who].clock;
        if let RequiredAction::Invalidate(lost) = self.clients[who].holding.required_action(clock) {
            self.clients[who].cached = None;
            self.clients[who].page = None;
            self.flush(who);
            self.clients[who].holding.all_invalidated(lost);
        }
    }

    /// Carries out a recall and returns the lease.
    pub fn carry_out(&mut self, who: usize, at: usize) {
        let recalled = self.clients[who].recalled.remove(at);
        let mut written = true;
        if recalled.held {
            match recalled.of {
                LeaseOf::Names(_) | LeaseOf::Layout(_) | LeaseOf::Delegation(_) => {
                    self.clients[who].cached = None;
                }
                LeaseOf::Data(_) => {
                    written = self.flush(who);
                    if recalled.keep != LeaseMode::Read || !written {
                        self.clients[who].page = None;
                    }
                }
            }
        }
        let keep = if recalled.held && written { recalled.keep } else { LeaseMode::None };
        let lease = self.clients[who].holding.carried_out(&recalled, keep);
        let session = self.clients[who].session;
        self.send(Message::Return { session, lease });
    }

    /// Sends lost returns again.
    pub fn return_again(&mut self, who: usize) {
        let session = self.clients[who].session;
        for lease in std::mem::take(&mut self.clients[who].unreturned) {
            self.send(Message::Return { session, lease });
        }
    }

    /// Returns a lease that nobody has recalled.
    pub fn give_back(&mut self, who: usize, of: LeaseOf) {
        match of {
            LeaseOf::Names(_) | LeaseOf::Layout(_) | LeaseOf::Delegation(_) => {
                self.clients[who].cached = None;
            }
            LeaseOf::Data(_) => {
                self.flush(who);
                self.clients[who].page = None;
            }
        }
        if let Some(lease) = self.clients[who].holding.return_lease(of) {
            let session = self.clients[who].session;
            self.send(Message::Return { session, lease });
        }
    }

    /// Sends buffered bytes to the daemon. If the daemon refuses them, they are lost, and the
    /// program gets an error.
    fn flush(&mut self, who: usize) -> bool {
        let Some(dirty) = self.clients[who].dirty.take() else { return true };
        let taken = !self.server.is_fenced(self.clients[who].session);
        if taken {
            self.daemon = dirty;
        } else {
            self.acknowledged = self.daemon;
        }
        taken
    }

    /// Reads or writes the file, as the lease allows.
    pub fn use_data(&mut self, who: usize, writes: bool) {
        self.clients[who].uses -= 1;
        let next = self.acknowledged + 1;
        match (self.clients[who].data_mode(), writes) {
            (LeaseMode::Write, true) => {
                self.clients[who].dirty = Some(next);
                self.clients[who].page = Some(next);
                self.acknowledged = next;
            }
            (LeaseMode::Shared, true) if !self.server.is_fenced(self.clients[who].session) => {
                self.daemon = next;
                self.acknowledged = next;
            }
            (LeaseMode::Read | LeaseMode::Write, false) => {
                let page = self.clients[who].page.unwrap_or(self.daemon);
                self.clients[who].page = Some(page);
            }
            (LeaseMode::Shared, false) if self.daemon != self.acknowledged => {
                let why = format!(
                    "client {who} read {} at the daemon, {} was written",
                    self.daemon, self.acknowledged
                );
                self.fail(why);
            }
            _ => {}
        }
    }

    /// The process dies, and its buffered bytes are lost.
    pub fn die(&mut self, who: usize) {
        let client = &mut self.clients[who];
        client.dead = true;
        (client.cached, client.page, client.calling, client.wants) =
            (None, None, Vec::new(), VecDeque::new());
        if client.dirty.take().is_some() {
            self.acknowledged = self.daemon;
        }
    }

    /// A message reaches a client.
    pub fn client_receives(&mut self, message: Message, variant: Variant) {
        match message {
            Message::Answer { client, session, epoch, number, answer }
                if self.knows_session(client, session, epoch) =>
            {
                self.answered(client, number, answer, variant);
            }
            Message::Recalls { client, session, epoch, recalls, sent }
                if self.knows_session(client, session, epoch) =>
            {
                self.receive_recalls(client, &recalls, sent);
            }
            Message::NoSession { client, session } if session == self.clients[client].session => {
                let (next, epoch) = (self.server.begin_session(), self.server.epoch);
                let client = &mut self.clients[client];
                (client.session, client.epoch, client.awaits) = (next, epoch, false);
                // A change with an unknown outcome is not repeated; a request for a lease is sent
                // again.
                client.calling.retain(|calling| calling.want != Want::Change);
                client.recalled.clear();
                client.unreturned.clear();
                client.holding.set_epoch(client.run());
            }
            _ => {}
        }
    }

    /// Whether a message belongs to the session and to an epoch that the client knows. It may learn
    /// of a new epoch by it.
    fn knows_session(&mut self, who: usize, session: u64, epoch: u64) -> bool {
        let client = &mut self.clients[who];
        if client.dead || client.session != session || epoch < client.epoch {
            return false;
        }
        if epoch > client.epoch {
            (client.epoch, client.awaits) = (epoch, false);
            client.recalled.clear();
            client.holding.set_epoch(client.run());
        }
        true
    }

    fn answered(&mut self, who: usize, number: u32, answer: Answer, variant: Variant) {
        let kept_of = self.of;
        let client = &mut self.clients[who];
        let Some(at) = client.calling.iter().position(|calling| calling.number == number) else {
            return;
        };
        let calling = client.calling.remove(at);
        match answer {
            Answer::Grant(grant) => {
                let number = if variant == Variant::NoNumbers {
                    grant.number | 1 << 31
                } else {
                    grant.number
                };
                let of = if calling.want == Want::Shared { kept_of } else { LeaseOf::Data(FILE) };
                let (run, clock) = (client.run(), client.clock);
                if let Some(ask) = calling.ask {
                    let grant = LeaseGrant { number, ..grant };
                    client.holding.answered(ask, run, Some((of, grant)), clock);
                }
            }
            Answer::Value(value) => {
                // The rule of the vfs: the lease must be held from before the call until its answer
                // is taken in.
                let held = calling
                    .ticket
                    .is_some_and(|ticket| client.holding.is_valid(&ticket, client.clock));
                let careless = variant == Variant::NoContinuity && client.ticket(kept_of).is_some();
                if held || careless {
                    client.cached = Some(value);
                }
            }
            Answer::Done => {}
        }
    }

    fn receive_recalls(&mut self, who: usize, recalls: &[Recall], sent: Duration) {
        let client = &mut self.clients[who];
        client.awaits = false;
        let (run, clock) = (client.run(), client.clock);
        client.holding.renewed(run, sent, clock);
        let recalled = client.holding.recalls(run, recalls, clock);
        client.recalled.extend(recalled);
    }
}
