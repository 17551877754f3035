//! The metadata server: the real core over a store in memory.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use braid_mds::{Clock, CoreConfig, Environment, MdsCore, Spawner, TICK_MS};
use braid_meta::{MemoryStore, Namespace, Options};
use braid_net::{
    TlsPolicy,
    handshake::ServerIdentity,
    server::{Authorizer, CallService, Peer, Responder},
};
use braid_types::{Failure, Timestamp};
use braid_wire::{FrameHeader, NodeKind};

use super::{CLUSTER, MDS_ADDRESS, mds_link::SimIodLink, server_key, wall};
use crate::{
    driver::SimDriver,
    network::{Host, Network, Replies, Service, Session},
    random::Random,
    world::{ProcessLife, Simulation, lock},
};

/// Shards of a simulated namespace.
const SHARDS: u16 = 8;

/// The host of the metadata server.
pub struct MdsNode {
    /// Its host in the network.
    pub host: Host,
    network: Network,
    seed: u64,
    random: Arc<Random>,
    store: Mutex<Arc<MemoryStore>>,
    running: Mutex<Option<Running>>,
    trap: Arc<DieBeforeAnswer>,
}

struct Running {
    life: ProcessLife,
    core: Arc<MdsCore>,
}

/// The call after which the server dies, before it replies.
#[derive(Default)]
struct DieBeforeAnswer(Mutex<Option<u16>>);

impl MdsNode {
    /// A host with an empty namespace on its disk. Nothing runs yet.
    pub fn new(network: &Network, seed: u64) -> Arc<Self> {
        let store = MemoryStore::new();
        Namespace::format(&store, CLUSTER, SHARDS, wall(Duration::ZERO))
            .expect("an empty store takes a namespace");
        Arc::new(Self {
            host: network.add_host("mds", MDS_ADDRESS),
            network: network.clone(),
            seed,
            random: Arc::new(Random::new(seed, "mds")),
            store: Mutex::new(Arc::new(store)),
            running: Mutex::new(None),
            trap: Arc::default(),
        })
    }

    /// Whether the server runs.
    pub fn is_running(&self) -> bool {
        lock(&self.running).is_some()
    }

    /// Its disk.
    pub fn store(&self) -> Arc<MemoryStore> {
        Arc::clone(&lock(&self.store))
    }

    /// Starts the server.
    ///
    /// # Errors
    /// As the server's.
    pub fn start(self: &Arc<Self>) -> Result<(), Failure> {
        if self.is_running() {
            return Ok(());
        }
        let (world, life) = (self.network.world().clone(), ProcessLife::new());
        let driver = SimDriver::new(self.network.clone(), self.host, self.seed);
        let outside = MdsEnvironment {
            world: world.clone(),
            life: life.clone(),
            random: Arc::clone(&self.random),
        };
        let env = Environment {
            link: Arc::new(SimIodLink::new(world.clone(), life.clone(), driver)),
            spawner: Arc::new(outside.clone()),
            clock: Arc::new(outside),
        };
        let config = CoreConfig {
            addresses: vec![MDS_ADDRESS.into()],
            namespace: Options::default(),
            ..CoreConfig::new(server_key())
        };
        let core = MdsCore::open(self.store(), config, env)?;
        let node = Arc::clone(self);
        let service = MdsService {
            core: Arc::clone(&core),
            trap: Arc::clone(&self.trap),
            node,
            life: life.clone(),
        };
        *lock(&self.running) = Some(Running { life: life.clone(), core: Arc::clone(&core) });
        self.network.serve_on(self.host, Arc::new(service));
        world.clone().spawn(&life, async move {
            loop {
                world.sleep(Duration::from_millis(TICK_MS)).await;
                core.tick();
            }
        });
        Ok(())
    }

    /// The process dies; what it committed is on the disk or in the kernel's cache (I6).
    pub fn kill(&self) {
        self.network.kill(self.host);
        self.end();
        let killed = self.store().kill();
        *lock(&self.store) = Arc::new(killed);
    }

    /// The host loses power: the newest batches that were not forced may be gone.
    pub fn power_loss(&self) {
        self.network.power_off(self.host);
        self.end();
        let store = self.store();
        let cached = self.random.below(store.unsynced() as u64 + 1) as usize;
        *lock(&self.store) = Arc::new(store.lose_power(cached));
    }

    /// The next call with this message number is executed; then the server dies before it replies.
    pub fn die_before_answering(&self, op: u16) {
        *lock(&self.trap.0) = Some(op);
    }

    fn end(&self) {
        let running = lock(&self.running).take();
        if let Some(running) = running {
            running.life.end();
            drop(running.core);
        }
    }
}

impl std::fmt::Debug for MdsNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("mds")
    }
}

#[derive(Clone)]
struct MdsEnvironment {
    world: Simulation,
    life: ProcessLife,
    random: Arc<Random>,
}

impl Spawner for MdsEnvironment {
    fn spawn(&self, job: Box<dyn FnOnce() + Send>) {
        let (world, time) =
            (self.world.clone(), Duration::from_micros(self.random.within(100..3000)));
        self.world.spawn(&self.life, async move {
            world.sleep(time).await;
            job();
        });
    }
}

impl Clock for MdsEnvironment {
    fn monotonic(&self) -> Duration {
        self.world.now()
    }

    fn wall(&self) -> Timestamp {
        wall(self.world.now())
    }
}

struct MdsService {
    core: Arc<MdsCore>,
    trap: Arc<DieBeforeAnswer>,
    node: Arc<MdsNode>,
    life: ProcessLife,
}

impl Service for MdsService {
    fn identity(&self) -> ServerIdentity {
        ServerIdentity {
            node: NodeKind::Mds,
            node_id: 0,
            cluster: CLUSTER,
            credits: 256,
            tls: TlsPolicy::Never,
        }
    }

    fn authorizer(&self) -> &dyn Authorizer {
        &*self.core
    }

    fn connected(&self, peer: &Peer) -> Result<Box<dyn Session>, Failure> {
        let connection = Arc::new(self.core.connected(peer)?);
        let (core, trap) = (Arc::clone(&self.core), Arc::clone(&self.trap));
        let (node, life) = (Arc::clone(&self.node), self.life.clone());
        Ok(Box::new(MdsSession { core, connection, trap, node, life }))
    }
}

struct MdsSession {
    core: Arc<MdsCore>,
    connection: Arc<<MdsCore as CallService>::Session>,
    trap: Arc<DieBeforeAnswer>,
    node: Arc<MdsNode>,
    life: ProcessLife,
}

impl Session for MdsSession {
    fn request(&mut self, header: FrameHeader, body: Vec<u8>, _: Vec<u8>, replies: Replies) {
        let (trap, node, life) =
            (Arc::clone(&self.trap), Arc::clone(&self.node), self.life.clone());
        let answer = move |body: Vec<u8>| {
            if !life.is_alive() {
                return;
            }
            if lock(&trap.0).take_if(|op| *op == header.op).is_some() {
                let world = node.network.world().clone();
                world.trace_event(format_args!(
                    "mds carried out message {:#06x} and dies before the answer",
                    header.op
                ));
                world.after(Duration::ZERO, move || node.kill());
                return;
            }
            replies.finish(&body, &[]);
        };
        self.core.handle(&self.connection, header.op, &body, Responder::new(answer));
    }
}

impl Drop for MdsSession {
    fn drop(&mut self) {
        self.core.disconnected(&self.connection);
    }
}
