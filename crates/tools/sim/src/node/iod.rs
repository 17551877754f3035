//! An I/O daemon: the real core over objects in memory, registered by the real state machine.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use braid_iod::{
    IodCore,
    registration::{HeartbeatActions, Registration, RegistrationInfo, RegistrationStep},
};
use braid_net::{
    Driver, Endpoint, NetError, TlsPolicy,
    handshake::ServerIdentity,
    server::{Authorizer, Peer},
};
use braid_store::{MemStore, ObjectStore};
use braid_types::{
    Failure, IodId, Status, Timestamp,
    limits::{FILE_BYTES_MAX, HEARTBEAT_MS},
};
use braid_wire::{
    Call, Credential, NodeKind, Role, Secret, Wire, decode_outcome, message::mds::Envelope,
};

use super::{CLUSTER, MDS_ADDRESS, iod_session::IodSession, server_key, wall};
use crate::{
    driver::{SimConnection, SimDriver},
    network::{Host, Network, Service, Session},
    random::Random,
    world::{ProcessLife, Simulation, lock},
};

/// Maximum wait for one reply of the metadata server, as in the daemon.
const ANSWER_WAIT: Duration = Duration::from_millis(3 * HEARTBEAT_MS);

/// A host with one I/O daemon.
pub struct IodNode {
    /// `iod1` and so on.
    pub name: String,
    /// Its host in the network.
    pub host: Host,
    /// Its disk.
    pub store: MemStore,
    network: Network,
    driver: SimDriver,
    random: Arc<Random>,
    introduction: RegistrationInfo,
    running: Mutex<Option<Running>>,
    ignores_abandon: Arc<AtomicBool>,
    joins: OnJoin,
}

type Event = Box<dyn FnOnce() + Send>;

/// What to do when the daemon has registered.
#[derive(Clone, Default)]
struct OnJoin(Arc<Mutex<Vec<Event>>>);

struct Running {
    life: ProcessLife,
    core: Arc<IodCore<MemStore>>,
}

impl IodNode {
    /// A host with an empty disk. Nothing runs yet.
    pub fn new(network: &Network, number: u32, seed: u64) -> Arc<Self> {
        let name = format!("iod{number}");
        let address = format!("{name}:7001");
        let host = network.add_host(&name, &address);
        let random = Random::new(seed, &name);
        let mut directory = [0; 16];
        random.fill(&mut directory);
        let (addresses, labels, object_bytes_max) = (vec![address], Vec::new(), FILE_BYTES_MAX);
        let introduction =
            RegistrationInfo { cluster: CLUSTER, directory, addresses, labels, object_bytes_max };
        Arc::new(Self {
            store: MemStore::new(CLUSTER, None, random.next()),
            driver: SimDriver::new(network.clone(), host, seed),
            network: network.clone(),
            random: Arc::new(random),
            running: Mutex::new(None),
            ignores_abandon: Arc::default(),
            joins: OnJoin::default(),
            introduction,
            name,
            host,
        })
    }

    /// Whether the daemon runs.
    pub fn is_running(&self) -> bool {
        lock(&self.running).is_some()
    }

    /// Its id; 0 before it has registered.
    pub fn id(&self) -> IodId {
        lock(&self.running).as_ref().map_or(IodId(0), |running| running.core.iod())
    }

    /// Its id as recorded on its disk, also while it does not run.
    pub fn known_id(&self) -> Option<IodId> {
        self.store.identity().iod
    }

    /// Starts the daemon.
    pub fn start(self: &Arc<Self>) {
        if self.is_running() {
            return;
        }
        let world = self.network.world().clone();
        let life = ProcessLife::new();
        let core = Arc::new(IodCore::new(Arc::new(self.store.clone()), server_key(), world.now()));
        *lock(&self.running) = Some(Running { life: life.clone(), core: Arc::clone(&core) });
        let service = IodService {
            core: Arc::clone(&core),
            keys: Keys,
            life: life.clone(),
            world: world.clone(),
            random: Arc::clone(&self.random),
            ignores_abandon: Arc::clone(&self.ignores_abandon),
        };
        self.network.serve_on(self.host, Arc::new(service));
        let registration = Registration::new(self.introduction.clone(), core.iod());
        let (driver, joins) = (self.driver.clone(), self.joins.clone());
        let registrar = Registrar { core, registration, driver, world, connection: None, joins };
        self.network.world().spawn(&life, registrar.run());
    }

    /// Runs `event` when the metadata server registers the daemon the next time.
    pub fn when_joined(&self, event: impl FnOnce() + Send + 'static) {
        lock(&self.joins.0).push(Box::new(event));
    }

    /// The process dies; its host keeps running.
    pub fn kill(&self) {
        self.network.kill(self.host);
        self.end();
        self.store.restart();
    }

    /// The host loses power: data that was not flushed may be lost.
    pub fn power_loss(&self) {
        self.network.power_off(self.host);
        self.end();
        self.store.crash();
    }

    /// From now on the daemon reports abandons as done and does not execute them, to show what they
    /// prevent.
    pub fn ignore_abandon(&self) {
        self.ignores_abandon.store(true, Ordering::Relaxed);
    }

    fn end(&self) {
        let running = lock(&self.running).take();
        if let Some(running) = running {
            running.life.end();
        }
    }
}

impl std::fmt::Debug for IodNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

struct IodService {
    core: Arc<IodCore<MemStore>>,
    keys: Keys,
    life: ProcessLife,
    world: Simulation,
    random: Arc<Random>,
    ignores_abandon: Arc<AtomicBool>,
}

/// As in the daemon: the key of a session, or the server key.
struct Keys;

impl Authorizer for Keys {
    fn secret(&self, role: Role, credential: &Credential) -> Result<Secret, Failure> {
        match (role, credential) {
            (Role::Client, Credential::Session { .. })
            | (Role::Mds | Role::Admin, Credential::Server) => Ok(credential.secret(&server_key())),
            _ => {
                Err(Failure::new(Status::AuthenticationFailed, "this key does not have this role"))
            }
        }
    }
}

impl Service for IodService {
    fn identity(&self) -> ServerIdentity {
        let node_id = self.core.iod().0;
        ServerIdentity {
            node: NodeKind::Iod,
            node_id,
            cluster: CLUSTER,
            credits: 64,
            tls: TlsPolicy::Never,
        }
    }

    fn authorizer(&self) -> &dyn Authorizer {
        &self.keys
    }

    fn connected(&self, peer: &Peer) -> Result<Box<dyn Session>, Failure> {
        let (core, life) = (Arc::clone(&self.core), self.life.clone());
        let ignores_abandon = Arc::clone(&self.ignores_abandon);
        let (world, random) = (self.world.clone(), Arc::clone(&self.random));
        Ok(Box::new(IodSession::new(core, peer, life, world, random, ignores_abandon)))
    }
}

/// Keeps the daemon registered, like the daemon's registrar thread.
struct Registrar {
    core: Arc<IodCore<MemStore>>,
    registration: Registration,
    driver: SimDriver,
    world: Simulation,
    connection: Option<SimConnection>,
    joins: OnJoin,
}

impl Registrar {
    async fn run(mut self) {
        loop {
            if self.heartbeat().await.is_err() {
                self.connection = None;
                self.registration.failed();
            }
        }
    }

    async fn heartbeat(&mut self) -> Result<(), NetError> {
        let now = self.world.now();
        let step = match self.core.heartbeat_info() {
            Ok(vitals) => self.registration.next(now, || vitals),
            Err(_) => RegistrationStep::Wait(now + Duration::from_millis(HEARTBEAT_MS)),
        };
        match step {
            RegistrationStep::Wait(until) => self.world.sleep_until(until).await,
            RegistrationStep::Register(message) => {
                self.connection = None;
                let sent = wall(self.world.now());
                let reply = self.call(&message).await?;
                let id = reply.id;
                let orders =
                    self.registration.registered(reply).map_err(|failure| broken(&failure))?;
                self.core.assign_iod(id).map_err(|failure| broken(&failure))?;
                let joins = std::mem::take(&mut *lock(&self.joins.0));
                joins.into_iter().for_each(|event| event());
                self.carry_out(&orders, sent);
            }
            RegistrationStep::Heartbeat(message) => {
                let sent = wall(self.world.now());
                let reply = self.call(&message).await?;
                let orders = self.registration.heartbeat_answered(reply);
                self.carry_out(&orders, sent);
            }
        }
        Ok(())
    }

    /// The order matters: the daemon must not serve between a reply and its fences (I4).
    fn carry_out(&mut self, orders: &HeartbeatActions, sent: Timestamp) {
        self.core.set_clock_offset(orders.mds_now, sent, wall(self.world.now()));
        if self.core.try_fence_ranges(&orders.fenced, orders.epoch_min) {
            self.registration.confirm_fence(orders.fence);
        }
        if let Some(until) = orders.serve_until {
            self.core.serve_until(Some(until));
        }
    }

    async fn call<C: Call>(&mut self, message: &C) -> Result<C::Reply, NetError> {
        let deadline = self.driver.now() + ANSWER_WAIT;
        if self.connection.is_none() {
            self.connection = Some(self.driver.connect_shared(&mds_endpoint(), deadline).await?);
        }
        let Some(connection) = &self.connection else { return Err(broken(&"no connection")) };
        let mut body = Envelope::PLAIN.to_bytes();
        message.encode(&mut body);
        let answer = self.driver.call(connection, C::OP, &body, deadline).await?;
        let outcome: Result<C::Reply, Failure> =
            decode_outcome(&answer.body).map_err(|why| broken(&why))?;
        outcome.map_err(|failure| broken(&failure))
    }
}

fn broken(why: &dyn std::fmt::Display) -> NetError {
    NetError::PeerMisbehaved { server: "metadata server".into(), what: why.to_string() }
}

fn mds_endpoint() -> Endpoint {
    Endpoint {
        node: NodeKind::Mds,
        node_id: 0,
        cluster: Some(CLUSTER),
        addresses: vec![MDS_ADDRESS.into()],
        role: Role::Iod,
        credential: Credential::Server,
        secret: server_key(),
        tls: TlsPolicy::Never,
    }
}
