//! The harness: a server that can be killed, daemons that can be held, and clients.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use braid_meta::{MemoryStore, Namespace};
use braid_net::{
    Answer, NetError,
    server::{CallService, Peer, Responder},
};
use braid_types::{
    ByteCount, ClusterUuid, Failure, FileIndex, IodId, MdsEpoch, ObjectId, SessionId, Status,
    Timestamp, WriteVerifier,
};
use braid_wire::{
    Call as WireCall, Capability, Credential, Deny, Rights, Role, Secret, Wire, decode_outcome,
    encode_failure, encode_success,
    message::{
        iod::{CollectReply, IodRequest},
        lease::LeaseMode,
        mds::*,
        types::{Attributes, LayoutHint, ObjectInfo, PathRef, Space},
    },
};

use crate::{Clock, Connection, CoreConfig, Environment, IodLink, LinkDone, MdsCore, Spawner};

pub const UUID: ClusterUuid = ClusterUuid(*b"a test's cluster");
pub const KEY: [u8; 32] = *b"the server key of a test cluster";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
pub struct ManualClock(AtomicU64, /* the next question for the time panics */ pub AtomicBool);

impl ManualClock {
    /// A number that no other call gets.
    pub fn next(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Timestamp {
        assert!(!self.1.swap(false, Ordering::Relaxed), "a fault that a test put here");
        let ms = self.0.load(Ordering::Relaxed);
        Timestamp { seconds: 1_000_000 + (ms / 1000) as i64, nanos: (ms % 1000) as u32 * 1_000_000 }
    }
}

/// Runs blocking work immediately.
struct Inline;

impl Spawner for Inline {
    fn spawn(&self, job: Box<dyn FnOnce() + Send>) {
        job();
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Object {
    pub bytes: u64,
    pub generation: u64,
    pub mtime: Timestamp,
}

/// How the log names a `CollectSizes` with a flush.
const FLUSHING: &str = "CollectSizes with a flush";

type Held = (IodId, u16, Vec<u8>, LinkDone);

#[derive(Default)]
pub struct FakeState {
    pub objects: BTreeMap<(IodId, ObjectId), Object>,
    /// What survives a loss of power.
    flushed: BTreeMap<(IodId, ObjectId), Object>,
    /// How often each daemon's host lost power.
    losses: BTreeMap<IodId, u64>,
    pub fenced: BTreeMap<IodId, BTreeSet<SessionId>>,
    pub epoch_min: BTreeMap<IodId, MdsEpoch>,
    /// Daemons that do not answer.
    pub dead: BTreeSet<IodId>,
    /// Daemons that refuse truncates to more than a number of bytes, and all holes, with this
    /// status.
    pub refusing: BTreeMap<IodId, (u64, Status)>,
    /// Every call, in order.
    pub log: Vec<(IodId, &'static str)>,
    hold: bool,
    held: VecDeque<Held>,
}

/// Daemons without disks.
#[derive(Default)]
pub struct FakeIods(pub Mutex<FakeState>);

impl FakeIods {
    pub fn state(&self) -> MutexGuard<'_, FakeState> {
        lock(&self.0)
    }

    /// Later calls wait for [`FakeIods::step`].
    pub fn hold(&self) {
        self.state().hold = true;
    }

    /// Answers the oldest waiting call. False when there is none.
    pub fn step(&self) -> bool {
        let held = self.state().held.pop_front();
        let Some((iod, op, body, done)) = held else { return false };
        self.perform(iod, op, &body, done);
        true
    }

    /// Drops the waiting calls, as at the death of the server.
    pub fn drop_held(&self) {
        let held = std::mem::take(&mut self.state().held);
        self.state().hold = false;
        std::mem::forget(held); // closures of a server that is dead must not answer
    }

    pub fn waiting(&self) -> usize {
        self.state().held.len()
    }

    pub fn release(&self) {
        self.state().hold = false;
        while self.step() {}
    }

    fn perform(&self, iod: IodId, op: u16, body: &[u8], done: LinkDone) {
        let request =
            IodRequest::decode(op, body).expect("an I/O daemon's call").expect("well formed");
        let mut state = self.state();
        if state.dead.contains(&iod) {
            drop(state);
            let server = format!("I/O daemon {iod}");
            return done(Err(NetError::Unreachable {
                server,
                waited: Duration::ZERO,
                why: "dead".into(),
            }));
        }
        let flushes = matches!(&request, IodRequest::CollectSizes(call) if call.flush);
        state.log.push((iod, if flushes { FLUSHING } else { request.name() }));
        let body = state.answer(iod, request);
        drop(state);
        done(Ok(Answer { body, payload_bytes: 0 }));
    }
}

impl FakeState {
    fn verifier(&self, iod: IodId) -> WriteVerifier {
        WriteVerifier(1 + self.losses.get(&iod).copied().unwrap_or(0))
    }

    fn flush(&mut self, iod: IodId, object: ObjectId) {
        if let Some(there) = self.objects.get(&(iod, object)) {
            self.flushed.insert((iod, object), *there);
        }
    }

    /// A daemon's host loses power and comes back immediately: what was not flushed is gone. The
    /// server learns of it with the next heartbeat.
    pub fn lose_power(&mut self, iod: IodId) {
        *self.losses.entry(iod).or_default() += 1;
        self.objects.retain(|(at, _), _| *at != iod);
        self.objects.extend(
            self.flushed
                .iter()
                .filter(|((at, _), _)| *at == iod)
                .map(|(key, there)| (*key, *there)),
        );
    }

    /// The calls that asked for sizes so far: the daemon, and whether with a flush.
    pub fn collects(&self) -> Vec<(IodId, bool)> {
        let flushes = |name: &str| name == FLUSHING;
        let asked = self.log.iter().filter(|(_, name)| flushes(name) || *name == "CollectSizes");
        asked.map(|(iod, name)| (*iod, flushes(name))).collect()
    }

    /// A daemon applies the answer to its heartbeat.
    pub fn obey(&mut self, iod: IodId, reply: &HeartbeatReply) {
        let fenced = reply.fenced.iter().flat_map(|range| range.first.0..=range.last.0);
        self.fenced.entry(iod).or_default().extend(fenced.map(SessionId));
        self.epoch_min.insert(iod, reply.epoch_min);
    }

    fn info(&self, iod: IodId, id: ObjectId) -> ObjectInfo {
        let object = self.objects.get(&(iod, id));
        let bytes = ByteCount(object.map_or(0, |object| object.bytes));
        let mtime = object.map_or(Timestamp::default(), |object| object.mtime);
        ObjectInfo { part: id.part, exists: object.is_some(), bytes, bytes_used: bytes, mtime }
    }

    fn answer(&mut self, iod: IodId, request: IodRequest) -> Vec<u8> {
        match request {
            IodRequest::CollectSizes(call) => {
                let objects = call.objects.iter().map(|id| self.info(iod, *id)).collect();
                if call.flush {
                    call.objects.iter().for_each(|id| self.flush(iod, *id));
                }
                encode_success(&CollectReply { objects, verifier: self.verifier(iod) })
            }
            IodRequest::Truncate(call) => {
                let secret = Secret::from_bytes(KEY);
                if Capability::verify(&call.capability, &secret).is_none() {
                    return encode_failure(&Status::BadCapability.into());
                }
                for wanted in &call.objects {
                    if let Some((most, status)) = self.refusing.get(&iod)
                        && wanted.bytes.0 > *most
                    {
                        return encode_failure(&(*status).into());
                    }
                    let key = (iod, wanted.object);
                    if wanted.bytes.0 == 0 && !call.make_absent && !self.objects.contains_key(&key)
                    {
                        continue;
                    }
                    let fresh = Object { bytes: 0, generation: 0, mtime: Timestamp::default() };
                    let object = self.objects.entry(key).or_insert(fresh);
                    assert!(
                        object.generation <= call.size_generation.0,
                        "a truncate of an older generation"
                    );
                    (object.bytes, object.generation) = (wanted.bytes.0, call.size_generation.0);
                    self.flush(iod, wanted.object);
                }
                let infos: Vec<ObjectInfo> =
                    call.objects.iter().map(|wanted| self.info(iod, wanted.object)).collect();
                encode_success(&infos)
            }
            IodRequest::Punch(call) => {
                if let Some((_, status)) = self.refusing.get(&iod)
                    && call.bytes.0 > 0
                {
                    return encode_failure(&(*status).into());
                }
                let capability =
                    Capability::verify(&call.capability, &Secret::from_bytes(KEY)).expect("signed");
                for ((_, id), object) in self.objects.iter_mut().filter(|((at, _), _)| *at == iod) {
                    if id.file == capability.file {
                        object.generation = call.size_generation.0;
                    }
                }
                encode_success(&())
            }
            IodRequest::Delete(call) => {
                call.objects.iter().for_each(|id| {
                    self.objects.remove(&(iod, *id));
                    if call.durable {
                        self.flushed.remove(&(iod, *id));
                    }
                });
                encode_success(&())
            }
            IodRequest::Fence(call) => {
                self.fenced.entry(iod).or_default().extend(call.sessions);
                self.epoch_min.insert(iod, call.epoch_min);
                encode_success(&())
            }
            other => panic!("the metadata server does not ask {}", other.name()),
        }
    }
}

struct Link(Arc<FakeIods>);

impl IodLink for Link {
    fn call(&self, iod: IodId, op: u16, body: Vec<u8>, done: LinkDone) {
        let mut state = self.0.state();
        if state.hold {
            return state.held.push_back((iod, op, body, done));
        }
        drop(state);
        self.0.perform(iod, op, &body, done);
    }

    fn locate(&self, _: IodId, _: &[String]) {}
}

/// A cluster.
pub struct World {
    pub store: Arc<MemoryStore>,
    pub iods: Arc<FakeIods>,
    pub clock: Arc<ManualClock>,
    pub core: Arc<MdsCore>,
    daemons: Vec<Client>,
    /// Daemons that have not registered since the server started.
    unreachable: u32,
    connections: u64,
    /// How often the server's host lost power.
    boot: u128,
}

impl World {
    /// A server with this many daemons that have registered.
    pub fn new(iods: u32) -> Self {
        let store = Arc::new(MemoryStore::new());
        Namespace::format(&*store, UUID, 8, Timestamp::default()).unwrap();
        let (clock, fakes) = (Arc::new(ManualClock::default()), Arc::new(FakeIods::default()));
        let core = open(&store, &fakes, &clock, 0);
        let mut world = Self {
            store,
            iods: fakes,
            clock,
            core,
            daemons: Vec::new(),
            unreachable: 0,
            connections: 0,
            boot: 0,
        };
        world.daemons = (1..=iods).map(|id| world.daemon(id)).collect();
        world
    }

    fn daemon(&mut self, id: u32) -> Client {
        let daemon = self.connect(Role::Iod, Credential::Server);
        let reply = daemon.call(register(0, id as u8)).unwrap();
        assert_eq!(reply.id, IodId(id));
        self.iods.state().obey(reply.id, &reply.state);
        daemon.beat(reply.state.fence);
        daemon
    }

    pub fn connect(&mut self, role: Role, credential: Credential) -> Client {
        self.try_connect(role, credential).unwrap()
    }

    pub fn try_connect(&mut self, role: Role, credential: Credential) -> Result<Client, Failure> {
        use braid_net::server::Authorizer;
        self.connections += 1;
        let connection = self.connections;
        self.core.secret(role, &credential)?;
        let id = braid_types::ConnectionId::default();
        let peer = Peer {
            role,
            credential,
            address: "test".into(),
            loopback: true,
            tls: false,
            connection,
            id,
        };
        let connection = Arc::new(self.core.connected(&peer)?);
        Ok(Client {
            core: self.core.clone(),
            connection,
            session: SessionId(0),
            sequence: AtomicU64::new(0),
        })
    }

    pub fn admin(&mut self) -> Client {
        self.connect(Role::Admin, Credential::Server)
    }

    /// A client with a key of its own and a session.
    pub fn client(&mut self) -> Client {
        let key = self.key(KeyRights::full());
        self.client_of(key)
    }

    pub fn key(&mut self, rights: KeyRights) -> braid_types::KeyId {
        self.admin().call(KeyAdd { name: "host".into(), rights }).unwrap().key
    }

    pub fn client_of(&mut self, key: braid_types::KeyId) -> Client {
        let mut client = self.connect(Role::Client, Credential::Client(key));
        client.session =
            client.call(OpenSession { session: None, client: "test".into() }).unwrap().session;
        client
    }

    /// The server dies, and another opens the store. The daemons connect again.
    pub fn restart(&mut self) {
        self.restart_alone();
        self.register_all();
    }

    /// As [`World::restart`], but no daemon has noticed yet.
    pub fn restart_alone(&mut self) {
        self.restart_on(self.store.kill());
    }

    /// The server's host loses power: what was not synced is gone.
    pub fn power_loss(&mut self) {
        self.boot += 1;
        self.restart_on(self.store.lose_power(0));
        self.register_all();
    }

    /// As [`World::power_loss`], and this daemon does not register.
    pub fn power_loss_without(&mut self, out: u32) {
        self.restart_on(self.store.lose_power(0));
        let all = std::mem::take(&mut self.unreachable);
        self.daemons = (1..=all).filter(|id| *id != out).map(|id| self.daemon(id)).collect();
    }

    fn restart_on(&mut self, store: MemoryStore) {
        self.iods.drop_held();
        self.store = Arc::new(store);
        self.core = open(&self.store, &self.iods, &self.clock, self.boot);
        self.unreachable = std::mem::take(&mut self.daemons).len() as u32;
    }

    /// The daemons register with the server.
    pub fn register_all(&mut self) {
        self.daemons =
            (1..=std::mem::take(&mut self.unreachable)).map(|id| self.daemon(id)).collect();
    }

    /// A daemon restarts: it has forgotten every fence, and registers.
    pub fn restart_daemon(&mut self, iod: IodId) {
        self.iods.state().fenced.remove(&iod);
        self.daemons[iod.0 as usize - 1] = self.daemon(iod.0);
    }

    /// Time passes, and all daemons send heartbeats.
    pub fn pass(&self, ms: u64) {
        self.pass_with(ms, |_| true);
    }

    /// Time passes until every size that can be collected is recorded.
    pub fn settle(&self) {
        self.pass(crate::size::RECORD_SIZE_MS + 1500);
    }

    /// Time passes; only the daemons that `beats` selects send heartbeats.
    pub fn pass_with(&self, ms: u64, beats: impl Fn(u32) -> bool) {
        let end = self.clock.0.load(Ordering::Relaxed) + ms;
        while self.clock.0.load(Ordering::Relaxed) < end {
            self.clock.0.fetch_add(250.min(ms), Ordering::Relaxed);
            for (at, daemon) in
                self.daemons.iter().enumerate().filter(|(at, _)| beats(*at as u32 + 1))
            {
                let iod = IodId(at as u32 + 1);
                let verifier = self.iods.state().verifier(iod);
                let reply = daemon.beat_with(0, verifier);
                self.iods.state().obey(iod, &reply);
                daemon.beat_with(reply.fence, verifier);
            }
            self.core.tick();
        }
    }

    /// A client's write on the daemons, which check it as real ones do.
    pub fn write(&self, opened: &OpenReply, size: u64) -> Result<(), Status> {
        let capability = Capability::verify(&opened.capability, &Secret::from_bytes(KEY))
            .ok_or(Status::BadCapability)?;
        let mtime = self.clock.wall();
        let mut state = self.iods.state();
        for (part, placement) in crate::objects::parts(&capability.layout) {
            let iod = placement.iods[0];
            let bytes = capability.layout.object_bytes(size, part).unwrap();
            let fenced =
                state.fenced.get(&iod).is_some_and(|all| all.contains(&capability.session));
            if fenced || state.epoch_min.get(&iod).is_some_and(|min| capability.epoch < *min) {
                return Err(Status::Fenced);
            }
            if !capability.rights.allow(Rights::WRITE) {
                return Err(Status::BadCapability);
            }
            let id = ObjectId { file: capability.file, part, generation: placement.generation };
            let generation = capability.size_generation.0;
            let old = state.objects.get(&(iod, id)).copied();
            if old.is_some_and(|old| old.generation > generation) {
                return Err(Status::StaleGeneration);
            }
            let bytes = bytes.max(old.map_or(0, |old| old.bytes));
            if bytes > 0 {
                state.objects.insert((iod, id), Object { bytes, generation, mtime });
            }
        }
        Ok(())
    }

    /// The report of a file, as its client makes it from the answers of the daemons.
    pub fn size_report(&self, opened: &OpenReply) -> SizeReport {
        let state = self.iods.state();
        let mut daemons = BTreeMap::<IodId, DaemonReport>::new();
        for (iod, id) in state.objects.keys().filter(|(_, id)| id.file == opened.attributes.file) {
            let (verifier, objects) = (state.verifier(*iod), Vec::new());
            let daemon =
                daemons.entry(*iod).or_insert(DaemonReport { iod: *iod, verifier, objects });
            daemon.objects.push(state.info(*iod, *id));
        }
        SizeReport { open_id: opened.open_id, daemons: daemons.into_values().collect() }
    }

    /// Of how many files the server knows the sole writer.
    pub fn makers(&self) -> usize {
        self.core.state().sizes.sole_writer_count()
    }

    pub fn objects_of(&self, file: FileIndex) -> usize {
        self.iods.state().objects.keys().filter(|(_, id)| id.file == file).count()
    }

    pub fn status(&mut self) -> MdsStatusReply {
        self.admin().call(MdsStatus {}).unwrap()
    }
}

fn open(
    store: &Arc<MemoryStore>,
    iods: &Arc<FakeIods>,
    clock: &Arc<ManualClock>,
    boot: u128,
) -> Arc<MdsCore> {
    let mut config = CoreConfig::new(Secret::from_bytes(KEY));
    config.namespace.boot = Some(boot);
    let env = Environment {
        link: Arc::new(Link(iods.clone())),
        spawner: Arc::new(Inline),
        clock: clock.clone(),
    };
    let core = MdsCore::open(store.clone(), config, env).unwrap();
    core.set_addresses(vec!["127.0.0.1:1".into()]);
    core
}

pub fn register(id: u32, directory: u8) -> RegisterIod {
    RegisterIod {
        id: IodId(id),
        cluster: UUID,
        directory: [directory; 16],
        addresses: vec![format!("127.0.0.1:{}", 7000 + u16::from(directory))],
        labels: Vec::new(),
        space: space(),
        verifier: WriteVerifier(1),
        object_bytes_max: ByteCount(braid_types::limits::FILE_BYTES_MAX),
    }
}

pub fn space() -> Space {
    let bytes = ByteCount(1 << 39);
    Space { device: 1, total: ByteCount(1 << 40), free: bytes, available: bytes, files_free: 1000 }
}

/// A reply that may not have come yet.
#[derive(Clone, Default)]
pub struct Pending(Arc<Mutex<Option<Vec<u8>>>>);

impl Pending {
    pub fn take<R: Wire>(&self) -> Option<Result<R, Failure>> {
        let body = lock(&self.0).take()?;
        Some(decode_outcome(&body).expect("a reply"))
    }

    pub fn set(&self, body: Vec<u8>) {
        *lock(&self.0) = Some(body);
    }

    pub fn has_come(&self) -> bool {
        lock(&self.0).is_some()
    }
}

/// One connection of a client.
pub struct Client {
    pub core: Arc<MdsCore>,
    pub connection: Arc<Connection>,
    pub session: SessionId,
    pub sequence: AtomicU64,
}

impl Client {
    /// A call with the next sequence in slot 0, answered immediately.
    pub fn call<M: WireCall>(&self, message: M) -> Result<M::Reply, Failure> {
        let envelope = self.next();
        self.call_as(envelope, message)
    }

    pub fn next(&self) -> Envelope {
        if self.session == SessionId(0) {
            return Envelope::PLAIN;
        }
        Envelope {
            slot: 0,
            sequence: self.sequence.fetch_add(1, Ordering::Relaxed) + 1,
            identity: 0,
            size_reports: Vec::new(),
        }
    }

    pub fn call_as<M: WireCall>(
        &self,
        envelope: Envelope,
        message: M,
    ) -> Result<M::Reply, Failure> {
        self.begin_as(envelope, message).take().expect("an immediate answer")
    }

    /// A call whose answer may come later, in slot `slot`.
    pub fn begin<M: WireCall>(&self, slot: u32, message: M) -> Pending {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        self.begin_as(Envelope { slot, sequence, identity: 0, size_reports: Vec::new() }, message)
    }

    pub fn begin_as<M: WireCall>(&self, envelope: Envelope, message: M) -> Pending {
        let mut body = envelope.to_bytes();
        message.encode(&mut body);
        let pending = Pending::default();
        let answer = pending.clone();
        let responder = Responder::new(move |body| {
            let before = lock(&answer.0).replace(body);
            assert!(before.is_none(), "answered twice");
        });
        self.core.handle(&self.connection, M::OP, &body, responder);
        pending
    }

    /// The same client after a restart of the server: another connection, the session reclaimed,
    /// nothing open.
    pub fn reclaim(&self, world: &mut World) -> Result<Self, Failure> {
        self.reclaim_with(world, &[])
    }

    /// As [`Client::reclaim`], with these files open.
    pub fn reclaim_with(&self, world: &mut World, open: &[&OpenReply]) -> Result<Self, Failure> {
        let again = self.join(world)?;
        assert_eq!(again.tell(open, true)?, [], "nothing is refused");
        Ok(again)
    }

    /// Reclaims open files: the handles that are refused.
    pub fn tell(&self, open: &[&OpenReply], complete: bool) -> Result<Vec<u64>, Failure> {
        self.tell_as(0, open, complete)
    }

    /// As [`Client::tell`], of an identity.
    pub fn tell_as(
        &self,
        identity: u32,
        open: &[&OpenReply],
        complete: bool,
    ) -> Result<Vec<u64>, Failure> {
        self.tell_denying(identity, open, Deny::NONE, complete)
    }

    /// As [`Client::tell_as`], of opens that deny something.
    pub fn tell_denying(
        &self,
        identity: u32,
        open: &[&OpenReply],
        deny: Deny,
        complete: bool,
    ) -> Result<Vec<u64>, Failure> {
        let named = |opened: &&OpenReply| {
            let capability =
                Capability::verify(&opened.capability, &Secret::from_bytes(KEY)).expect("signed");
            let (open_id, file, rights) =
                (opened.open_id, opened.attributes.file, capability.rights);
            ReclaimedOpen { open_id, file, rights, deny }
        };
        let envelope = Envelope { identity, ..Envelope::PLAIN };
        self.call_as(
            envelope,
            Reclaim {
                opens: open.iter().map(named).collect(),
                complete,
                leases: false,
                io_under_leases: true,
            },
        )
    }

    /// The number of a user on this connection.
    pub fn define(&self, uid: u64) -> u32 {
        let identity = braid_wire::message::types::Identity {
            uid,
            gid: uid,
            groups: Vec::new(),
            checked: false,
        };
        let number = uid as u32;
        self.call_as(Envelope::PLAIN, DefineIdentity { number, identity }).unwrap();
        number
    }

    /// Another connection of the session.
    pub fn join(&self, world: &mut World) -> Result<Self, Failure> {
        let mut again =
            world.connect(self.connection.peer.role, self.connection.peer.credential.clone());
        again.sequence = AtomicU64::new(self.sequence.load(Ordering::Relaxed));
        again.call_as(
            Envelope::PLAIN,
            OpenSession { session: Some(self.session), client: "test".into() },
        )?;
        again.session = self.session;
        Ok(again)
    }

    pub fn beat(&self, fence_applied: u64) -> HeartbeatReply {
        self.beat_with(fence_applied, WriteVerifier(1))
    }

    pub fn beat_with(&self, fence_applied: u64, verifier: WriteVerifier) -> HeartbeatReply {
        let beat = Heartbeat { space: space(), verifier, fence_applied };
        self.call_as(Envelope::PLAIN, beat).unwrap()
    }

    pub fn create(&self, path: &str) -> OpenReply {
        self.call(create(path)).unwrap().opened.unwrap()
    }

    pub fn close(&self, opened: &OpenReply) {
        self.call(Close { open_ids: vec![opened.open_id] }).unwrap();
    }

    pub fn stat(&self, path: &str) -> Result<Attributes, Failure> {
        self.call(Stat { at: at(path), follow: true })
    }

    pub fn truncate(&self, path: &str, bytes: u64) -> Result<Attributes, Failure> {
        self.call(set_size(path, bytes))
    }
}

pub fn at(path: &str) -> PathRef {
    PathRef::root(path.as_bytes())
}

pub fn create(path: &str) -> Create {
    Create {
        at: at(path),
        mode: 0o644,
        umask: 0,
        exclusive: true,
        truncate: false,
        rights: Some(Rights::READ_WRITE),
        layout_hint: LayoutHint { stripe_bytes: Some(4096), ..LayoutHint::none() },
        lease: LeaseMode::None,
        deny: Deny::NONE,
    }
}

pub fn set_size(path: &str, bytes: u64) -> SetAttributes {
    let changes = AttributeChanges { bytes: Some(ByteCount(bytes)), ..AttributeChanges::none() };
    SetAttributes { at: at(path), follow: true, changes }
}

impl FakeState {
    /// The second waiting call overtakes the first.
    pub fn swap_held(&mut self) {
        self.held.swap(0, 1);
    }
}
