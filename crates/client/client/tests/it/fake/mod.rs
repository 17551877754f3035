//! A whole in-memory cluster behind the client's `Driver`: one metadata server and some I/O
//! daemons, with faults that a test injects. Its clock moves only when a task sleeps or a call is
//! lost.
#![allow(dead_code, reason = "each test binary uses some of it")]

pub mod iod;
pub mod mds;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::{Future, pending, ready},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use braid_client::{Config, Credential, asynchronous::Client};
use braid_layout::{Distribution, Layout};
use braid_net::{Answer, CallTimeLimit, Driver, Endpoint, Exchange, NetError};
use braid_types::{
    ConnectionId, FileIndex, IodId, MapEpoch, MdsEpoch, PartIndex, SessionId, SizeGeneration,
    Status, WriteVerifier,
};
use braid_wire::{Credential as Proved, NodeKind, Rights, Secret, message::lock::LockRequest};

/// What happens to the next call with a given `op`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The connection ends before the server receives the call.
    RequestLost,
    /// The server executes the call, and the connection ends before the reply.
    ReplyLost,
    /// The server executes the call, and the reply never comes.
    ReplyLate,
    /// The connection ends, and the call reaches the server when the test decides.
    RequestLate,
    /// The server refuses.
    Refused(Status),
    /// The call waits this long for its turn, and then the server does not reply.
    SilentAfterTurn(Duration),
    /// The call waits this long for its turn, and then nothing is received.
    NotAsked(Duration),
    /// The metadata server executes the call and restarts before the reply.
    RestartAfter,
    /// The metadata server forgets the session before it receives the call.
    SessionForgotten,
}

pub struct FakeFile {
    pub index: FileIndex,
    pub layout: Layout,
    pub size_generation: SizeGeneration,
    pub existing_parts: Vec<u8>,
}

pub struct Cluster {
    pub now: Duration,
    pub server_key: Secret,
    pub epoch: MdsEpoch,
    pub map_epoch: MapEpoch,
    pub layout: Layout,
    pub files: BTreeMap<Vec<u8>, FakeFile>,
    pub directories: HashSet<Vec<u8>>,
    pub objects: HashMap<(IodId, FileIndex, PartIndex), Vec<u8>>,
    pub verifiers: HashMap<IodId, WriteVerifier>,
    pub fenced: HashSet<SessionId>,
    /// Calls in flight on connections that their client dropped, with their payload.
    pub late: Vec<(Connection, u16, Vec<u8>, Vec<u8>)>,
    pub abandoned: HashSet<ConnectionId>,
    pub down: HashSet<IodId>,
    pub mds_down: bool,
    pub sessions: HashSet<SessionId>,
    pub next_session: u64,
    pub next_open: u64,
    pub replay: HashMap<(SessionId, u32), (u64, Vec<u8>)>,
    pub done: Vec<&'static str>,
    pub faults: Vec<(u16, Fault)>,
    /// Faults of the next exchanges with a daemon.
    pub faults_at: Vec<(IodId, Fault)>,
    /// How long daemons take for each exchange; those of one connection run one after the other.
    pub answer_time: Duration,
    /// The number of exchanges that are answered before a connection to a daemon ends.
    pub answers_max: Option<usize>,
    /// When a daemon last answered.
    pub last_answer: Duration,
    /// Daemons that accept connections, and the time from which they do not reply.
    pub silent_from: HashMap<IodId, Duration>,
    /// After this number of reads, another client extends all objects to this size.
    pub grows_after: Option<(usize, usize)>,
    /// Daemons fill reads with zeros past the end.
    pub pad_reads: bool,
    /// (daemon, op, payload bytes) of every exchange.
    pub exchanges: Vec<(IodId, u16, u64)>,
    /// (op, bytes of the request's body) of every exchange that reached a daemon.
    pub request_bytes: Vec<(u16, usize)>,
    pub mds_calls: Vec<u16>,
    pub connects: usize,
    pub presents: usize,
    pub addresses_used: Vec<String>,
    pub addresses: HashMap<IodId, Vec<String>>,
    pub closed: Vec<u64>,
    /// Handles that this epoch of the metadata server knows.
    pub known: HashSet<u64>,
    /// The handles named in each `Reclaim`, and whether it was the last message.
    pub reclaims: Vec<(Vec<u64>, bool)>,
    /// Handles that it refuses to reclaim.
    pub refused: HashSet<u64>,
    pub largest_round: u64,
    /// How far files may be written, and how far without a new request.
    pub quota: Option<u64>,
    pub ahead: u64,
    /// The reservation of each session at each daemon: term, granted, released.
    pub reservations: HashMap<(IodId, SessionId), (u64, u64, u64)>,
    /// The most that a daemon grants one session.
    pub reservation_bytes_max: u64,
    /// The reserved space that writes used, by (daemon, term).
    pub reserved_bytes_used: Vec<(IodId, u64, u64)>,
    /// Locks that the metadata server has granted, and those that were reclaimed.
    pub locks: Vec<LockRequest>,
    pub locks_reported: Vec<LockRequest>,
    /// After this number of sleeps, the clock stops.
    pub sleeps: Option<u32>,
    /// The deadline of a program's call, and the server for which it waited without success.
    pub bound: Option<CallTimeLimit>,
    pub blamed: Option<String>,
}

#[derive(Clone)]
pub struct Fake(Arc<Mutex<Cluster>>);

#[derive(Clone)]
pub struct Connection {
    id: ConnectionId,
    iod: IodId,
    session: SessionId,
    handles: HashMap<u32, Vec<u8>>,
    answers: usize,
    dead: bool,
}

pub struct Shared {
    session: Mutex<Option<SessionId>>,
    epoch: MdsEpoch,
    server: String,
    dead: Mutex<bool>,
}

impl Fake {
    pub fn new(layout: Layout) -> Self {
        let mut iods: Vec<IodId> =
            layout.placements().map(|(_, placement)| placement.iods[0]).collect();
        iods.sort_unstable();
        iods.dedup();
        let addresses = iods
            .iter()
            .map(|iod| (*iod, vec![format!("iod{iod}:1"), format!("iod{iod}:2")]))
            .collect();
        Self(Arc::new(Mutex::new(Cluster {
            now: Duration::ZERO,
            server_key: Secret::from_bytes([7; 32]),
            epoch: MdsEpoch(1),
            map_epoch: MapEpoch(1),
            layout,
            files: BTreeMap::new(),
            directories: HashSet::new(),
            objects: HashMap::new(),
            verifiers: iods.iter().map(|iod| (*iod, WriteVerifier(1))).collect(),
            fenced: HashSet::new(),
            late: Vec::new(),
            abandoned: HashSet::new(),
            down: HashSet::new(),
            mds_down: false,
            sessions: HashSet::new(),
            next_session: 0,
            next_open: 0,
            replay: HashMap::new(),
            done: Vec::new(),
            faults: Vec::new(),
            faults_at: Vec::new(),
            answer_time: Duration::ZERO,
            answers_max: None,
            last_answer: Duration::ZERO,
            silent_from: HashMap::new(),
            grows_after: None,
            pad_reads: false,
            exchanges: Vec::new(),
            request_bytes: Vec::new(),
            mds_calls: Vec::new(),
            connects: 0,
            presents: 0,
            addresses_used: Vec::new(),
            addresses,
            closed: Vec::new(),
            known: HashSet::new(),
            reclaims: Vec::new(),
            refused: HashSet::new(),
            largest_round: 0,
            quota: None,
            ahead: 0,
            reservations: HashMap::new(),
            reservation_bytes_max: 0,
            reserved_bytes_used: Vec::new(),
            locks: Vec::new(),
            locks_reported: Vec::new(),
            sleeps: None,
            bound: None,
            blamed: None,
        })))
    }

    /// Strips of 4 KiB on daemons 1, 2 and 3.
    pub fn striped() -> Self {
        Self::new(Layout::one(Distribution::SimpleStripe { stripe_size: 4096 }, (1..=3).map(IodId)))
    }

    pub fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.0.lock().unwrap()
    }

    pub fn client(&self) -> Client<Self> {
        let secret = self.cluster().server_key.clone();
        Client::over(self.clone(), Config::new(["mds:1"], Credential::ServerKey(secret)))
    }

    /// A program's call with this time limit begins, or it ends.
    pub fn bound_by(&self, time: Option<Duration>) {
        let mut cluster = self.cluster();
        let now = cluster.now;
        cluster.bound = time.map(|time| CallTimeLimit { until: now + time, time });
        cluster.blamed = None;
    }

    /// Injects a fault into the next call with this `op`.
    pub fn fault(&self, op: u16, fault: Fault) {
        self.cluster().faults.push((op, fault));
    }
}

impl Cluster {
    pub fn take_fault(&mut self, op: u16) -> Option<Fault> {
        let at = self.faults.iter().position(|(of, _)| *of == op)?;
        Some(self.faults.remove(at).1)
    }

    pub fn take_fault_at(&mut self, iod: IodId) -> Option<Fault> {
        let at = self.faults_at.iter().position(|(of, _)| *of == iod)?;
        Some(self.faults_at.remove(at).1)
    }

    pub fn restart_mds(&mut self) {
        self.epoch.0 += 1;
        self.known.clear();
        self.locks.clear();
    }

    pub fn requests_to(&self, iod: IodId, op: u16) -> usize {
        self.exchanges.iter().filter(|(to, of, _)| (*to, *of) == (iod, op)).count()
    }

    /// A capability for a file as the metadata server would sign it.
    pub fn capability(&self, file: &FakeFile, rights: Rights, session: SessionId) -> Vec<u8> {
        braid_wire::Capability {
            file: file.index,
            size_generation: file.size_generation,
            rights,
            session,
            epoch: self.epoch,
            owner: (0, 0),
            layout: file.layout.clone(),
            existing_parts: file.existing_parts.clone(),
        }
        .sign(&self.server_key)
    }
}

fn unreachable(endpoint: &Endpoint) -> NetError {
    NetError::Unreachable {
        server: endpoint.name(),
        waited: Duration::ZERO,
        why: "connection refused".into(),
    }
}

fn lost(server: &str) -> NetError {
    NetError::ConnectionLost { server: server.into(), why: "reset".into() }
}

impl Driver for Fake {
    type Connection = Connection;
    type Shared = Shared;

    fn connect(
        &self,
        endpoint: &Endpoint,
        _: Duration,
    ) -> impl Future<Output = Result<Connection, NetError>> + Send {
        let mut cluster = self.cluster();
        let iod = IodId(endpoint.node_id);
        assert_eq!(endpoint.node, NodeKind::Iod);
        let Proved::Session { session, .. } = endpoint.credential else {
            panic!("a daemon is shown a session")
        };
        assert_eq!(
            endpoint.credential.secret(&cluster.server_key),
            endpoint.secret,
            "the session's own secret"
        );
        let known = cluster.addresses[&iod].clone();
        let result = if cluster.down.contains(&iod) || !known.contains(&endpoint.addresses[0]) {
            Err(unreachable(endpoint))
        } else {
            cluster.connects += 1;
            cluster.addresses_used.push(endpoint.addresses[0].clone());
            let id = ConnectionId((cluster.connects as u128).to_be_bytes());
            Ok(Connection { id, iod, session, handles: HashMap::new(), answers: 0, dead: false })
        };
        ready(result)
    }

    fn connect_shared(
        &self,
        endpoint: &Endpoint,
        _: Duration,
    ) -> impl Future<Output = Result<Shared, NetError>> + Send {
        let cluster = self.cluster();
        ready(match cluster.mds_down {
            true => Err(unreachable(endpoint)),
            false => Ok(Shared {
                session: Mutex::new(None),
                epoch: cluster.epoch,
                server: endpoint.name(),
                dead: Mutex::new(false),
            }),
        })
    }

    fn connection_id(connection: &Connection) -> ConnectionId {
        connection.id
    }

    fn exchange(
        &self,
        connections: &mut [Connection],
        batch: &mut [Exchange<'_>],
        silence_max: Duration,
    ) -> impl Future<Output = ()> + Send {
        let mut cluster = self.cluster();
        let wanted =
            batch.iter().map(|e| e.recv.iter().map(|slice| slice.len() as u64).sum::<u64>()).sum();
        cluster.largest_round = cluster.largest_round.max(wanted);
        let mut broken: Vec<Option<NetError>> = vec![None; connections.len()];
        for exchange in batch {
            let (connection, broken) =
                (&mut connections[exchange.connection], &mut broken[exchange.connection]);
            let outcome = match broken {
                Some(error) => Err(error.clone()),
                None => cluster.exchange(connection, exchange, silence_max),
            };
            *broken = outcome.as_ref().err().cloned();
            exchange.outcome = Some(outcome);
        }
        ready(())
    }

    fn call(
        &self,
        connection: &Shared,
        op: u16,
        body: &[u8],
        deadline: Duration,
    ) -> impl Future<Output = Result<Answer, NetError>> + Send {
        ready(self.cluster().mds_call(connection, op, body, deadline))
    }

    fn now(&self) -> Duration {
        self.cluster().now
    }

    fn call_deadline(&self) -> Option<CallTimeLimit> {
        self.cluster().bound
    }

    fn extend_call_deadline(&self, until: Duration) {
        if let Some(bound) = &mut self.cluster().bound {
            bound.until = bound.until.max(until);
        }
    }

    fn blame(&self, server: &str) {
        self.cluster().blamed = Some(server.to_owned());
    }

    fn blamed(&self) -> Option<String> {
        self.cluster().blamed.clone()
    }

    fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send {
        let mut cluster = self.cluster();
        cluster.now += time;
        let stops = cluster.sleeps.as_mut().is_some_and(|left| {
            *left = left.saturating_sub(1);
            *left == 0
        });
        async move {
            if stops {
                pending().await
            }
        }
    }
}
