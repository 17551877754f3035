//! The network: hosts, links that can be cut, connections with delays.
//!
//! ```text
//!   client side            frames, in order, each after a delay              server side
//!   SimConnection ──────── ToServer ────────────────────────────────────────> Session::request
//!        ^  `─ Arrivals <─ ToClient ──────────────────────────────────────── Replies
//!        |                  cut link: frames wait there, as TCP sends them again
//!        `─ reset: each side learns it at its own moment; frames to a closed side are lost
//! ```
//!
//! Invariants, checked by `tests/network.rs`:
//!
//! 1. Frames of one direction of one connection arrive in order, complete and once. Those of
//!    different connections arrive in any order, also after the client has closed its side, like
//!    bytes in a socket.
//! 2. Everything that crosses a link is bytes that passed through the real header codec.
//! 3. The lock of the network is never held while a session, a waker or the drop of either runs. (A
//!    violation deadlocks: the lock is not reentrant.)

mod deliver;
mod fault;
mod host;
mod receive_queue;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

pub(crate) use host::frame;
pub use host::{Replies, Service, Session};
pub(crate) use receive_queue::{ReceiveQueue, ReceivedCall};

use crate::{
    random::Random,
    world::{Simulation, lock},
};
use host::ServerSide;

/// A host of the simulated network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Host(pub u32);

/// Delays and failures of the links.
#[derive(Clone, Debug)]
pub struct LinkConditions {
    /// Minimum delay of a frame.
    pub delay_min: Duration,
    /// Upper limit of the delay of a frame, exclusive.
    pub delay_max: Duration,
    /// How many of a million frames break their connection in flight.
    pub resets_per_million: u32,
}

impl Default for LinkConditions {
    /// A local network without failures.
    fn default() -> Self {
        Self {
            delay_min: Duration::from_micros(20),
            delay_max: Duration::from_micros(200),
            resets_per_million: 0,
        }
    }
}

/// The simulated network. Clones share its state.
#[derive(Clone)]
pub struct Network(Arc<Inner>);

struct Inner {
    world: Simulation,
    random: Random,
    state: Mutex<State>,
}

struct State {
    weather: LinkConditions,
    hosts: BTreeMap<Host, HostState>,
    addresses: BTreeMap<String, Host>,
    cut: BTreeSet<(Host, Host)>,
    next_connection: u64,
    connections: BTreeMap<u64, Connection>,
}

struct HostState {
    name: String,
    power: bool,
    service: Option<Arc<dyn Service>>,
    /// Frames from and to this host take this many times as long.
    slowness: u32,
}

struct Connection {
    client: Host,
    server: Host,
    arrivals: Arc<ReceiveQueue>,
    serving: ServerSide,
    client_open: bool,
    server_open: bool,
    /// The latest arrival, by direction: later frames arrive after it.
    arrives: [Duration; 2],
    /// What waits at a cut link, in order.
    held: VecDeque<(Direction, Transmission)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    ToServer = 0,
    ToClient = 1,
}

/// What a link carries.
pub(crate) enum Transmission {
    Frame(Vec<u8>),
    /// The sender closed its side.
    End,
    /// The connection is broken, and why.
    Reset(&'static str),
}

impl Network {
    /// A network without hosts.
    pub fn new(world: Simulation, seed: u64) -> Self {
        let state = State {
            weather: LinkConditions::default(),
            hosts: BTreeMap::new(),
            addresses: BTreeMap::new(),
            cut: BTreeSet::new(),
            next_connection: 1,
            connections: BTreeMap::new(),
        };
        Self(Arc::new(Inner {
            world,
            random: Random::new(seed, "network"),
            state: Mutex::new(state),
        }))
    }

    /// The simulation that the network is part of.
    pub fn world(&self) -> &Simulation {
        &self.0.world
    }

    /// Adds a host, reached at `address`.
    pub fn add_host(&self, name: &str, address: &str) -> Host {
        let mut state = lock(&self.0.state);
        let host = Host(state.hosts.len() as u32);
        let machine = HostState { name: name.to_owned(), power: true, service: None, slowness: 1 };
        state.hosts.insert(host, machine);
        state.addresses.insert(address.to_owned(), host);
        host
    }

    /// The host's name.
    pub fn name(&self, host: Host) -> String {
        lock(&self.0.state).hosts[&host].name.clone()
    }

    /// Changes how links behave from now on.
    pub fn set_link_conditions(&self, weather: LinkConditions) {
        lock(&self.0.state).weather = weather;
    }

    /// How links behave now.
    pub fn link_conditions(&self) -> LinkConditions {
        lock(&self.0.state).weather.clone()
    }

    fn world_and_state(&self) -> (&Simulation, std::sync::MutexGuard<'_, State>) {
        (&self.0.world, lock(&self.0.state))
    }
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Network")
    }
}

impl State {
    fn is_cut(&self, a: Host, b: Host) -> bool {
        self.cut.contains(&(a.min(b), a.max(b)))
    }

    fn delay(&self, random: &Random, a: Host, b: Host) -> Duration {
        let slowness = self.hosts[&a].slowness.max(self.hosts[&b].slowness);
        random.time(self.weather.delay_min..self.weather.delay_max) * slowness
    }
}
