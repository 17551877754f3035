//! The complete state.

use std::{
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    time::Duration,
};

use braid_client::lease::LeaseOf;
use braid_types::{FileIndex, limits::LEASE_STOP_MS};
use braid_wire::message::lease::{LeaseGrant, LeaseMode, Recall, ReturnedLease};

use crate::{
    client::Client,
    scenario::{Scenario, Variant},
    server::Server,
};

/// One tick of a clock: half of the time for which a client assumes a lease valid.
pub const TICK: Duration = Duration::from_millis(LEASE_STOP_MS / 2);
/// The time at which all clocks begin.
pub const START: Duration = Duration::from_secs(1000);
/// The directory.
pub const DIR: FileIndex = FileIndex(7);
/// The file.
pub const FILE: FileIndex = FileIndex(8);
/// How many clients there are.
pub const CLIENTS: usize = 2;

/// What a client wants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Want {
    /// The shared lease: of the directory's names, or of the file's layout.
    Shared,
    /// The value that it covers, to cache it.
    Look,
    /// A change of that value.
    Change,
    /// The data lease.
    Data(LeaseMode),
}

/// Messages in flight, in any order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// A call; `number` is never reused.
    Call { client: usize, session: u64, number: u32, want: Want },
    /// A request for recalls, with the time of sending.
    Await { client: usize, session: u64, epoch: u64, seen: u64, sent: Duration },
    /// A returned lease.
    Return { session: u64, lease: ReturnedLease },
    /// An answer from this epoch of the server.
    Answer { client: usize, session: u64, epoch: u64, number: u32, answer: Answer },
    /// Recalls, with the time at which the request was sent.
    Recalls { client: usize, session: u64, epoch: u64, recalls: Vec<Recall>, sent: Duration },
    /// The session has ended.
    NoSession { client: usize, session: u64 },
}

/// The answer to a call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// A lease, or none.
    Grant(LeaseGrant),
    /// The value.
    Value(u8),
    /// The change is done.
    Done,
}

/// What may still fail, and how long things may still take.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Budget {
    /// Messages that are lost.
    pub losses: u8,
    /// Messages that are repeated.
    pub repeats: u8,
    /// Ticks of every clock.
    pub ticks: u8,
    /// Ticks of the server's clock alone: the others are slow.
    pub drifts: u8,
    /// Restarts of the server.
    pub restarts: u8,
    /// Deaths of a client.
    pub deaths: u8,
    /// Leases that are returned without a recall.
    pub returns: u8,
}

/// The complete state.
#[derive(Clone, Hash, Debug)]
pub struct World {
    /// What the shared lease covers.
    pub of: LeaseOf,
    pub server: Server,
    pub clients: [Client; CLIENTS],
    /// The order has no meaning.
    pub network: Vec<Message>,
    pub budget: Budget,
    /// The file's bytes, as a version.
    pub daemon: u8,
    /// The newest version whose write was acknowledged to a program.
    pub acknowledged: u8,
    pub next_number: u32,
    /// The first error, if any.
    pub broken: Option<String>,
}

impl World {
    /// The beginning of a scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let mut world = Self::empty(scenario.of, scenario.budget, scenario.at_once);
        world.clients[0].wants = scenario.before.iter().copied().collect();
        world.rounds(Variant::Sound);
        if world.clients[0].data_mode() == LeaseMode::Write {
            world.use_data(0, true);
        }
        for (client, wants) in world.clients.iter_mut().zip(scenario.wants) {
            (client.wants, client.uses) = (wants.iter().copied().collect(), 2);
        }
        world.canonical();
        world
    }

    fn empty(of: LeaseOf, budget: Budget, at_once: usize) -> Self {
        let clients = [0, 1].map(|number| Client::new(number, at_once));
        let server = Server::new();
        let (network, broken) = (Vec::new(), None);
        Self {
            of,
            server,
            clients,
            network,
            budget,
            daemon: 0,
            acknowledged: 0,
            next_number: 1,
            broken,
        }
    }

    /// Sends a message. An identical one in flight counts as the same, since repeating is an event
    /// of its own.
    pub fn send(&mut self, message: Message) {
        if !self.network.contains(&message) {
            self.network.push(message);
        }
    }

    pub fn fail(&mut self, why: String) {
        self.broken.get_or_insert(why);
    }

    /// Sorts the messages: their order has no meaning.
    pub fn canonical(&mut self) {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        self.network.sort_by_cached_key(|message| hasher.hash_one(message));
    }
}
