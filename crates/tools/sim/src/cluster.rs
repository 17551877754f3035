//! A whole cluster: one metadata server, I/O daemons, clients, and the faults that can hit them.

use std::{future::Future, sync::Arc, time::Duration};

use braid_client::asynchronous::Client;

use crate::{
    driver::SimDriver,
    network::{Host, Network},
    node::{ClientNode, IodNode, MdsNode},
    random::Random,
    world::Simulation,
};

/// The size of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSize {
    /// Number of I/O daemons.
    pub iods: u32,
    /// Number of clients.
    pub clients: u32,
}

impl Default for ClusterSize {
    fn default() -> Self {
        Self { iods: 4, clients: 2 }
    }
}

/// A simulated cluster.
#[derive(Debug)]
pub struct Cluster {
    /// Virtual time and events.
    pub world: Simulation,
    /// The simulated network.
    pub network: Network,
    /// The metadata server.
    pub mds: Arc<MdsNode>,
    /// The I/O daemons.
    pub iods: Vec<Arc<IodNode>>,
    /// The clients.
    pub clients: Vec<Arc<ClientNode>>,
}

/// A process of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Node {
    /// The metadata server.
    Mds,
    /// An I/O daemon, from 0.
    Iod(usize),
    /// A client, from 0.
    Client(usize),
}

/// Maximum time until every daemon has registered.
const START_MAX: Duration = Duration::from_secs(10);

impl Cluster {
    /// A cluster with everything started and every daemon registered.
    pub fn start(seed: u64, shape: ClusterSize, trace_all: bool) -> Self {
        let world = Simulation::new(trace_all);
        let network = Network::new(world.clone(), seed);
        let mds = MdsNode::new(&network, seed);
        let iods = (1..=shape.iods).map(|number| IodNode::new(&network, number, seed)).collect();
        let clients =
            (1..=shape.clients).map(|number| ClientNode::new(&network, number, seed)).collect();
        let cluster = Self { world, network, mds, iods, clients };
        cluster.restart(Node::Mds);
        (0..cluster.iods.len()).for_each(|iod| cluster.restart(Node::Iod(iod)));
        let joined = || cluster.iods.iter().all(|iod| iod.id().0 != 0);
        let end = cluster.world.now() + START_MAX;
        while !joined() && cluster.world.step(end) {}
        assert!(joined(), "not every I/O daemon has registered within {START_MAX:?}");
        cluster
    }

    /// The host of a process.
    pub fn host(&self, node: Node) -> Host {
        match node {
            Node::Mds => self.mds.host,
            Node::Iod(iod) => self.iods[iod].host,
            Node::Client(client) => self.clients[client].host,
        }
    }

    /// Starts a process that was stopped, or whose host has power again.
    pub fn restart(&self, node: Node) {
        self.world.trace_event(format_args!("start {node:?}"));
        match node {
            Node::Mds => self.mds.start().expect("the metadata server starts on its own disk"),
            Node::Iod(iod) => self.iods[iod].start(),
            Node::Client(client) => drop(self.clients[client].start()),
        }
    }

    /// Kills a process.
    pub fn kill(&self, node: Node) {
        self.world.trace_event(format_args!("kill {node:?}"));
        match node {
            Node::Mds => self.mds.kill(),
            Node::Iod(iod) => self.iods[iod].kill(),
            Node::Client(client) => self.clients[client].kill(),
        }
    }

    /// Cuts the power of a process's host.
    pub fn power_loss(&self, node: Node) {
        self.world.trace_event(format_args!("power loss at {node:?}"));
        match node {
            Node::Mds => self.mds.power_loss(),
            Node::Iod(iod) => self.iods[iod].power_loss(),
            Node::Client(client) => self.clients[client].kill(),
        }
    }

    /// Cuts the link between two hosts.
    pub fn partition(&self, a: Node, b: Node) {
        self.world.trace_event(format_args!("cut {a:?} from {b:?}"));
        self.network.cut(self.host(a), self.host(b));
    }

    /// Restores the link between two hosts.
    pub fn heal(&self, a: Node, b: Node) {
        self.world.trace_event(format_args!("heal {a:?} to {b:?}"));
        self.network.heal(self.host(a), self.host(b));
    }

    /// Whether a process runs.
    pub fn is_running(&self, node: Node) -> bool {
        match node {
            Node::Mds => self.mds.is_running(),
            Node::Iod(iod) => self.iods[iod].is_running(),
            Node::Client(_) => true,
        }
    }

    /// Advances virtual time.
    pub fn advance(&self, time: Duration) {
        self.world.run_until(self.world.now() + time);
    }

    /// Runs a future in a client's process until it ends.
    ///
    /// # Panics
    /// When it has not ended within an hour of virtual time: then a call waits forever (I8).
    pub fn client<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        client: usize,
        what: impl FnOnce(Client<SimDriver>) -> F,
    ) -> T {
        let (life, api, _) = self.clients[client].start();
        let ended = self.world.run(&life, Duration::from_secs(3600), what(api));
        ended.unwrap_or_else(|| {
            panic!("I8 violated: a call did not end within an hour\n{}", self.world.trace())
        })
    }

    /// A stream of random numbers for the code that drives the cluster.
    pub fn random(seed: u64, purpose: &str) -> Random {
        Random::new(seed, purpose)
    }
}
