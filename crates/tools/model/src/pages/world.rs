//! The complete state.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    time::Duration,
};

use braid_meta::lease::{ClaimId, LeaseTable};
use braid_types::{FileIndex, MdsEpoch};
use braid_wire::message::lease::{LeaseGrant, LeaseMode, Recall, ReturnedLease};

use super::{
    client::{Client, Page},
    leaseless::LeaselessClient,
    scenario::{Act, Scenario, Variant},
};
use crate::explore::Model;

/// The only time: a lease that expires is lost by an event.
pub const NOW: Duration = Duration::from_secs(1000);
/// The file.
pub const FILE: FileIndex = FileIndex(8);
/// How many clients there are.
pub const CLIENTS: usize = 2;
/// Pages of the file, at most.
pub const PAGES: usize = 3;

/// A call to the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    /// The data lease; the call waits for it.
    Ask(LeaseMode, bool),
    /// Opens the file, with a wish for a lease.
    Open(LeaseMode),
    /// A size query.
    Look,
    /// Opens the file, without leases.
    OpenPlain,
}

/// Messages in flight, in any order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// A call; `number` is never reused.
    Call { client: usize, number: u32, call: Call },
    /// Its answer to this session.
    Answer { client: usize, session: u64, number: u32, grant: Option<LeaseGrant>, size: u8 },
    /// Recalls.
    Recalls { client: usize, session: u64, recalls: Vec<Recall> },
    /// A returned lease.
    Return { session: u64, lease: ReturnedLease },
}

/// A call that waits at the server.
#[derive(Clone, Hash, Debug)]
pub struct Pending {
    pub client: usize,
    pub call: Call,
    pub claim: ClaimId,
}

/// The complete state.
#[derive(Clone, Hash, Debug)]
pub struct World {
    pub clients: [Client; CLIENTS],
    pub plain: LeaselessClient,
    pub table: LeaseTable,
    pub pending: BTreeMap<u32, Pending>,
    pub network: Vec<Message>,
    /// The pages at the daemons, as versions, and how many there are.
    pub daemon: [u8; PAGES],
    pub size: u8,
    /// Pages to explore.
    pub pages: usize,
    /// The newest version of each page whose write has returned.
    pub returned: [u8; PAGES],
    /// The end of the file according to writes that have returned.
    pub returned_size: u8,
    pub next_number: u32,
    /// Calls to explore.
    pub numbers_max: u32,
    pub next_claim: u64,
    pub next_session: u64,
    /// What may still fail.
    pub deaths: u8,
    pub losses: u8,
    pub failures: u8,
    /// The next write buffer cannot be written.
    pub fails: bool,
    /// Buffered bytes are lost, or were.
    pub has_lost: bool,
    /// Small writes may be buffered.
    pub buffers: bool,
    /// A broken server reduces a lease that a session holds and knows of.
    pub lessens_held: bool,
    /// A broken mount closes a handle while its bytes stay buffered.
    pub returns_at_close: bool,
    /// A broken mount forgets that bytes of a closed handle were lost.
    pub forgets_closed_loss: bool,
    /// A broken library carries out two recalls of one lease at the same time.
    pub recalls_at_once: bool,
    /// The first error, if any.
    pub broken: Option<String>,
}

impl World {
    /// The beginning of a scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let clients = [0, 1].map(Client::new);
        let mut world = Self {
            clients,
            plain: LeaselessClient::new(&[]),
            table: LeaseTable::new(MdsEpoch(1)),
            pending: BTreeMap::new(),
            network: Vec::new(),
            daemon: [0; PAGES],
            size: scenario.size,
            pages: scenario.pages,
            returned: [0; PAGES],
            returned_size: scenario.size,
            next_number: 1,
            numbers_max: u32::MAX,
            next_claim: 1,
            next_session: CLIENTS as u64 + 1,
            deaths: 0,
            losses: 0,
            failures: 0,
            fails: false,
            has_lost: false,
            buffers: scenario.buffers,
            lessens_held: false,
            returns_at_close: false,
            forgets_closed_loss: false,
            recalls_at_once: false,
            broken: None,
        };
        scenario.before.iter().for_each(|(who, acts)| world.runs(*who, acts));
        for (client, programs) in world.clients.iter_mut().zip(scenario.programs) {
            programs.iter().for_each(|acts| client.begin(acts));
        }
        world.numbers_max = world.next_number + scenario.calls;
        (world.deaths, world.losses, world.failures) =
            (scenario.deaths, scenario.losses, scenario.failures);
        world.plain = LeaselessClient::new(scenario.plain);
        world.canonical();
        world
    }

    /// Lets one client act while nothing else happens.
    fn runs(&mut self, who: usize, acts: &'static [Act]) {
        self.clients[who].begin(acts);
        while let Some(event) = self.events().first() {
            self.happen(*event, Variant::Sound);
        }
        self.clients[who].programs.clear();
    }

    pub fn send(&mut self, message: Message) {
        self.network.push(message);
    }

    /// Sends a call; returns its number.
    pub fn call(&mut self, client: usize, call: Call) -> u32 {
        let number = self.next_number;
        self.next_number += 1;
        self.send(Message::Call { client, number, call });
        number
    }

    pub fn fail(&mut self, why: String) {
        self.broken.get_or_insert(why);
    }

    /// A version of a page that is newer than all others.
    pub fn newer(&self, page: usize) -> u8 {
        let gathered = self
            .clients
            .iter()
            .map(|client| client.buffered_version(page))
            .max()
            .unwrap_or_default();
        self.daemon[page].max(self.returned[page]).max(gathered) + 1
    }

    /// A write of a page has returned.
    pub fn has_returned(&mut self, page: usize, version: u8) {
        self.returned[page] = self.returned[page].max(version);
        if version > 0 {
            self.returned_size = self.returned_size.max(page as u8 + 1);
        }
    }

    /// A client's process and its kernel die, with everything that was only in their memory.
    pub fn die(&mut self, who: usize) {
        for page in 0..PAGES {
            if let Page::Dirty(_) | Page::Flushing(_) | Page::Going(_) =
                self.clients[who].kernel[page]
            {
                self.returned[page] = self.daemon[page];
            }
        }
        if let Some(run) = self.clients[who].buffer.take() {
            self.lose_buffer(&run);
        }
        self.clients[who].die();
    }

    /// Sorts the messages: their order has no meaning.
    pub fn canonical(&mut self) {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        self.network.sort_by_cached_key(|message| hasher.hash_one(message));
    }
}
