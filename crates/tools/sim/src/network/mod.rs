//! The network: hosts, links that can be cut, connections whose bytes take their time.
//!
//! ```text
//!   client side            frames, in order, each after a delay              server side
//!   SimConnection ──────── ToServer ────────────────────────────────────────> Session::request
//!        ^  `─ Arrivals <─ ToClient ──────────────────────────────────────── Replies
//!        |                  cut link: frames wait there, as TCP sends them again
//!        `─ reset: each side learns it at a moment of its own; what is under way to a closed side is lost
//! ```
//!
//! Invariants: (1) frames of one direction of one connection arrive in order, whole, once; those of different
//! connections in any order, also after the client has given the connection up, as what lies in a socket does; (2) everything that crosses a link is bytes that went through the real header codec;
//! (3) the lock of the network is never held while a session, a waker or the drop of either runs.

mod arrivals;
mod deliver;
mod fault;
mod host;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

pub(crate) use arrivals::{Arrivals, Call};
pub(crate) use host::frame;
pub use host::{Replies, Service, Session};

use crate::{
    random::Random,
    world::{World, lock},
};
use host::Serving;

/// A machine of the simulated network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Host(pub u32);

/// How the links behave.
#[derive(Clone, Debug)]
pub struct Weather {
    /// A frame takes at least this long.
    pub delay_min: Duration,
    /// And less than this.
    pub delay_max: Duration,
    /// Of a million frames, so many break their connection on the way.
    pub resets_per_million: u32,
}

impl Default for Weather {
    /// A local network on a good day.
    fn default() -> Self {
        Self {
            delay_min: Duration::from_micros(20),
            delay_max: Duration::from_micros(200),
            resets_per_million: 0,
        }
    }
}

/// The simulated network. Clones are the same network.
#[derive(Clone)]
pub struct Network(Arc<Inner>);

struct Inner {
    world: World,
    random: Random,
    state: Mutex<State>,
}

struct State {
    weather: Weather,
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
    /// Frames from and to it take so many times as long.
    slowness: u32,
}

struct Connection {
    client: Host,
    server: Host,
    arrivals: Arc<Arrivals>,
    serving: Serving,
    client_open: bool,
    server_open: bool,
    /// The last moment at which something arrives, by direction: later frames come later.
    arrives: [Duration; 2],
    /// Waits at a cut link, in order.
    held: VecDeque<(Direction, Parcel)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    ToServer = 0,
    ToClient = 1,
}

/// What travels.
pub(crate) enum Parcel {
    Frame(Vec<u8>),
    /// The sender closed its side.
    End,
    /// The connection is broken, and why.
    Reset(&'static str),
}

impl Network {
    /// A network without hosts.
    pub fn new(world: World, seed: u64) -> Self {
        let state = State {
            weather: Weather::default(),
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

    /// The world it is part of.
    pub fn world(&self) -> &World {
        &self.0.world
    }

    /// A new machine, reached at `address`.
    pub fn add_host(&self, name: &str, address: &str) -> Host {
        let mut state = lock(&self.0.state);
        let host = Host(state.hosts.len() as u32);
        let machine = HostState { name: name.to_owned(), power: true, service: None, slowness: 1 };
        state.hosts.insert(host, machine);
        state.addresses.insert(address.to_owned(), host);
        host
    }

    /// What a person calls the host.
    pub fn name(&self, host: Host) -> String {
        lock(&self.0.state).hosts[&host].name.clone()
    }

    /// Changes how links behave from now on.
    pub fn set_weather(&self, weather: Weather) {
        lock(&self.0.state).weather = weather;
    }

    /// How links behave now.
    pub fn weather(&self) -> Weather {
        lock(&self.0.state).weather.clone()
    }

    fn world_and_state(&self) -> (&World, std::sync::MutexGuard<'_, State>) {
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
