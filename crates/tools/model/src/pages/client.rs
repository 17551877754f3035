//! A client: the real holder and the real lease state, and around them a kernel and threads.

use braid_client::lease::{LeaseOf, LeaseState, LeaseTicket, Recalled, ServerEpoch as ServerRun};
use braid_types::{MdsEpoch, SessionId};
use braid_vfs::data::lease_state::DataLeaseState;
use braid_wire::message::lease::{LeaseGrant, LeaseMode, Recall};

use super::{
    drops::DrainStep,
    program::{PendingCall, Program, ProgramState},
    scenario::Act,
    world::{FILE, Message, NOW, PAGES, World},
    write_buffer::WriteBuffer,
};

/// A page in a kernel's cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Page {
    /// Not cached.
    Absent,
    /// Being read: a thread that uses or drops the page waits.
    Locked,
    /// Cached.
    Has(u8),
    /// Changed through a mapping.
    Dirty(u8),
    /// Being written back by the kernel on its own: a thread that uses or drops the page waits.
    Flushing(u8),
    /// Being written because it is dropped.
    Going(u8),
}

/// A client.
#[derive(Clone, Hash, Debug)]
pub struct Client {
    pub dead: bool,
    /// Its session, which the server has freed if the client is dead.
    pub session: u64,
    pub freed: bool,
    pub holding: LeaseState,
    pub lease_state: DataLeaseState,
    /// The lease under which nothing begins any more.
    pub dead_lease: Option<LeaseTicket>,
    /// The write lease that was obtained by insisting.
    pub insisted: Option<LeaseTicket>,
    /// The buffered bytes.
    pub buffer: Option<WriteBuffer>,
    /// Bytes of a closed handle were lost, and the mount remembers it for the next sync.
    pub closed_loss: bool,
    /// The same, as it was: the next sync must report it.
    pub must_report: bool,
    /// It has asked whether this client is alone: not again for a second.
    pub has_wished: bool,
    /// The cached size of the file.
    pub kept_size: Option<u8>,
    /// The append offset, if known.
    pub end: Option<u8>,
    /// A thread drops all pages.
    pub dropping: bool,
    /// How many threads drop parts of the file, as the lease state knows too.
    pub drops: u32,
    /// A program appends.
    pub appending: bool,
    pub kernel: [Page; PAGES],
    pub programs: Vec<Program>,
    /// Threads that request a lease on behalf of a page.
    pub askers: Vec<PendingCall>,
    /// Threads that carry out recalls.
    pub drains: Vec<(Recalled, DrainStep)>,
    /// The thread that drops caches after a lease loss: session, number of the loss, progress.
    pub loss: Option<(u64, u64, DrainStep)>,
}

impl Client {
    pub fn new(number: usize) -> Self {
        let mut client = Self {
            dead: false,
            session: number as u64 + 1,
            freed: false,
            holding: LeaseState::new(),
            lease_state: DataLeaseState::default(),
            dead_lease: None,
            insisted: None,
            buffer: None,
            closed_loss: false,
            must_report: false,
            has_wished: false,
            kept_size: None,
            end: None,
            dropping: false,
            drops: 0,
            appending: false,
            kernel: [Page::Absent; PAGES],
            programs: Vec::new(),
            askers: Vec::new(),
            drains: Vec::new(),
            loss: None,
        };
        client.holding.set_epoch(client.server_run());
        client
    }

    pub fn server_run(&self) -> ServerRun {
        ServerRun { session: SessionId(self.session), epoch: MdsEpoch(1) }
    }

    pub fn begin(&mut self, acts: &'static [Act]) {
        self.programs.push(Program { acts, at: ProgramState::Idle, small: false, lost: false });
    }

    pub fn ticket(&self) -> Option<LeaseTicket> {
        self.holding.ticket(LeaseOf::Data(FILE), NOW)
    }

    /// `MountCaches::ticket`: the lease that is held and is not being returned.
    pub fn held_ticket(&self) -> Option<LeaseTicket> {
        self.ticket().filter(|ticket| self.dead_lease.as_ref() != Some(ticket))
    }

    pub fn held(&self) -> LeaseMode {
        self.held_ticket().map_or(LeaseMode::None, |ticket| ticket.mode())
    }

    /// The mode of its valid lease, being returned or not.
    pub fn leased_mode(&self) -> LeaseMode {
        self.ticket().map_or(LeaseMode::None, |ticket| ticket.mode())
    }

    /// `Data::change`: everything that waits checks again.
    pub fn change<T>(&mut self, work: impl FnOnce(&mut DataLeaseState) -> T) -> T {
        let done = work(&mut self.lease_state);
        self.notify();
        done
    }

    pub fn notify(&mut self) {
        for program in &mut self.programs {
            if let ProgramState::Waits(what, page) = program.at {
                program.at = ProgramState::Wants(what, page);
            }
        }
    }

    /// Whether nothing is in progress in it.
    pub fn is_idle(&self) -> bool {
        let programs = self
            .programs
            .iter()
            .all(|program| program.acts.is_empty() && program.at == ProgramState::Idle);
        programs && self.askers.is_empty() && self.drains.is_empty() && self.loss.is_none()
    }

    pub fn die(&mut self) {
        let session = self.session;
        *self = Self { dead: true, session, ..Self::new(0) };
    }
}

impl World {
    /// A message reaches a client.
    pub fn client_receives(&mut self, message: Message) {
        match message {
            Message::Answer { client, session, number, grant, size }
                if !self.clients[client].dead =>
            {
                self.clients[client].answered(session, number, grant, size);
            }
            Message::Recalls { client, session, recalls } => {
                let one = &self.clients[client];
                if !one.dead && one.session == session {
                    self.recalled(client, &recalls);
                }
            }
            _ => {}
        }
    }

    /// Takes in recalls: each one of a held lease starts a thread; others are answered immediately.
    fn recalled(&mut self, who: usize, recalls: &[Recall]) {
        let run = self.clients[who].server_run();
        for recalled in self.clients[who].holding.recalls(run, recalls, NOW) {
            if recalled.held {
                self.clients[who].drains.push((recalled, DrainStep::Ticket));
                continue;
            }
            let lease = self.clients[who].holding.carried_out(&recalled, LeaseMode::None);
            let session = self.clients[who].session;
            self.send(Message::Return { session, lease });
        }
    }

    /// The server has ended the session, or did not answer in time: all leases are lost.
    pub fn lose(&mut self, who: usize) {
        let old = self.clients[who].session;
        let session = self.next_session;
        self.next_session += 1;
        self.broken_session(who, old);
        let client = &mut self.clients[who];
        client.session = session;
        client.holding.set_epoch(client.server_run());
        if let braid_client::lease::RequiredAction::Invalidate(lost) =
            client.holding.required_action(NOW)
        {
            client.loss = Some((old, lost, DrainStep::Ticket));
        }
    }
}

impl Client {
    fn answered(&mut self, session: u64, number: u32, grant: Option<LeaseGrant>, size: u8) {
        let run = ServerRun { session: SessionId(session), epoch: MdsEpoch(1) };
        let of_program = self.programs.iter_mut().find_map(|program| match &mut program.at {
            ProgramState::Calls(asking) if asking.number == number => Some(asking),
            _ => None,
        });
        let Some(asking) =
            of_program.or_else(|| self.askers.iter_mut().find(|asking| asking.number == number))
        else {
            return;
        };
        asking.answered = true;
        asking.size = size;
        if let Some(ask) = asking.ask.take() {
            let grant = grant.map(|grant| (LeaseOf::Data(FILE), grant));
            asking.ticket = self.holding.answered(ask, run, grant, NOW);
        }
    }
}
