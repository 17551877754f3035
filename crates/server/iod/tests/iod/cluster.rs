//! A real daemon on loopback, and a metadata server that only knows registration and heartbeats.

use std::{
    io::{IoSlice, IoSliceMut, Read as _, Write as _},
    net::TcpStream,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use braid_iod::{Iod, IodConfig};
use braid_net::{
    Blocking, Connection, Driver, Endpoint, Exchange, NetError, TlsPolicy, block_on,
    frames::push_frame,
    handshake::ClientHandshake,
    server::{Authorizer, CallHandler, CallService, Listener, Peer, Responder, ServerConfig},
};
use braid_store::LocalStore;
use braid_types::{ByteCount, ClusterUuid, Failure, IodId, KeyId, MapEpoch, SessionId, Timestamp};
use braid_wire::{
    Call, Credential, FRAME_HEADER_BYTES, FrameFlags, FrameHeader, NodeKind, Role, Secret, Wire,
    decode_outcome, encode_failure, encode_success,
    message::mds::{
        Envelope, FileSizeReply, GetFileSize, Heartbeat, HeartbeatReply, RegisterIod,
        RegisterIodReply, SessionRange,
    },
};

use super::harness::{EPOCH, SESSION, server_key};

pub const CLUSTER: ClusterUuid = ClusterUuid([9; 16]);
pub const LONG: Duration = Duration::from_secs(60);

/// What the metadata server knows and has received.
#[derive(Default)]
pub struct MdsState {
    pub registered: Vec<RegisterIod>,
    pub fence_applied: u64,
    pub heartbeats: u64,
    pub fenced: Vec<SessionId>,
    pub fence: u64,
    pub refuses: bool,
    /// The size of every file.
    pub file_size: u64,
    pub size_queries: u64,
}

#[derive(Default)]
pub struct Mds {
    state: Mutex<MdsState>,
    changed: Condvar,
}

pub struct MdsKeys;

impl Authorizer for MdsKeys {
    fn secret(&self, _: Role, credential: &Credential) -> Result<Secret, Failure> {
        Ok(credential.secret(&server_key()))
    }
}

impl Mds {
    pub fn change(&self, change: impl FnOnce(&mut MdsState)) {
        change(&mut self.state.lock().unwrap());
    }

    /// Waits until it has received what is wanted.
    pub fn wait_until(&self, wanted: impl Fn(&MdsState) -> bool) {
        let state = self.state.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, LONG, |state| !wanted(state)).unwrap();
        assert!(!waited.1.timed_out(), "the daemon did not say what was waited for");
    }

    fn reply(state: &MdsState) -> HeartbeatReply {
        HeartbeatReply {
            epoch: EPOCH,
            epoch_min: EPOCH,
            map_epoch: MapEpoch(1),
            now: Timestamp::now(),
            fence: state.fence,
            fenced: state.fenced.iter().map(|id| SessionRange { first: *id, last: *id }).collect(),
            fences_follow: false,
        }
    }
}

impl CallService for Mds {
    type Session = ();
    fn connected(&self, _: &Peer) -> Result<(), Failure> {
        Ok(())
    }
    fn handle(&self, _: &Arc<()>, op: u16, body: &[u8], responder: Responder) {
        let mut state = self.state.lock().unwrap();
        let message = &body[Envelope::PLAIN.to_bytes().len()..];
        let reply = match op {
            _ if state.refuses => encode_failure(&braid_types::Status::TryAgain.into()),
            RegisterIod::OP => {
                let message = RegisterIod::from_bytes(message).unwrap();
                let id = if message.id == IodId(0) { IodId(4) } else { message.id };
                state.registered.push(message);
                encode_success(&RegisterIodReply { id, state: Self::reply(&state) })
            }
            Heartbeat::OP => {
                state.heartbeats += 1;
                state.fence_applied = Heartbeat::from_bytes(message).unwrap().fence_applied;
                encode_success(&Self::reply(&state))
            }
            GetFileSize::OP => {
                state.size_queries += 1;
                encode_success(&FileSizeReply { bytes: ByteCount(state.file_size) })
            }
            _ => panic!("message {op:#x}"),
        };
        drop(state);
        self.changed.notify_all();
        responder.send(reply);
    }
    fn disconnected(&self, _: &Arc<()>) {}
}

/// A directory, a metadata server, a daemon.
pub struct Cluster {
    pub dir: tempfile::TempDir,
    pub mds: Arc<Mds>,
    pub mds_listener: Listener,
    pub iod: Iod,
}

pub fn serve_mds(mds: &Arc<Mds>, address: &str) -> Listener {
    let config = ServerConfig::new(NodeKind::Mds, 0, CLUSTER);
    let listener = Listener::bind(&[address.to_owned()], config, Arc::new(MdsKeys)).unwrap();
    listener.serve(Arc::new(CallHandler::new(mds.clone()))).unwrap();
    listener
}

impl Cluster {
    pub fn start() -> Self {
        Self::start_with(|_| {})
    }

    pub fn start_with(configure: impl FnOnce(&mut IodConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        LocalStore::init(dir.path().join("iod"), CLUSTER, None).unwrap();
        let mds = Arc::<Mds>::default();
        let mds_listener = serve_mds(&mds, "127.0.0.1:0");
        let mut config = config(&dir, &mds_listener);
        configure(&mut config);
        let iod = Iod::start(config).unwrap();
        assert!(iod.wait_until_serving(LONG));
        Self { dir, mds, mds_listener, iod }
    }

    pub fn endpoint(&self, role: Role, credential: Credential) -> Endpoint {
        Endpoint {
            node: NodeKind::Iod,
            node_id: self.iod.id().0,
            cluster: Some(CLUSTER),
            addresses: vec![self.iod.addresses()[0].to_string()],
            role,
            secret: credential.secret(&server_key()),
            credential,
            tls: TlsPolicy::UnlessLoopback,
        }
    }

    pub fn client_endpoint(&self) -> Endpoint {
        self.endpoint(
            Role::Client,
            Credential::Session { session: SESSION, key: KeyId(1), user: None, epoch: EPOCH },
        )
    }

    pub fn client(&self) -> SocketClient {
        SocketClient::connect(&self.client_endpoint()).unwrap()
    }

    pub fn mds_client(&self) -> SocketClient {
        SocketClient::connect(&self.endpoint(Role::Mds, Credential::Server)).unwrap()
    }
}

pub fn config(dir: &tempfile::TempDir, mds: &Listener) -> IodConfig {
    IodConfig::on_loopback(
        dir.path().join("iod"),
        CLUSTER,
        vec![mds.local_addrs()[0].to_string()],
        server_key(),
    )
}

/// The blocking driver on one connection.
pub struct SocketClient {
    connection: [Connection; 1],
}

impl SocketClient {
    pub fn connect(endpoint: &Endpoint) -> Result<Self, NetError> {
        let driver = Blocking::new();
        Ok(Self { connection: [block_on(driver.connect(endpoint, LONG))?] })
    }

    /// One call. Reads its payload into `reply_buffer`, and returns how many bytes came.
    pub fn call<C: Call>(
        &mut self,
        call: &C,
        payload: &[u8],
        reply_buffer: &mut [u8],
    ) -> Result<(Result<C::Reply, Failure>, u64), NetError> {
        let mut batch = [Exchange {
            connection: 0,
            op: C::OP,
            body: call.to_bytes(),
            send: vec![IoSlice::new(payload)],
            recv: vec![IoSliceMut::new(reply_buffer)],
            outcome: None,
        }];
        block_on(Blocking::new().exchange(&mut self.connection, &mut batch, LONG));
        let answer = batch[0].outcome.take().unwrap()?;
        Ok((decode_outcome(&answer.body).unwrap(), answer.payload_bytes))
    }
}

/// Sends and receives single frames.
pub struct RawClient {
    pub socket: TcpStream,
    pub credits: u32,
}

impl RawClient {
    pub fn connect(endpoint: &Endpoint) -> Self {
        let mut socket = TcpStream::connect(&endpoint.addresses[0]).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        let mut handshake = ClientHandshake::new(endpoint, true, [1; 32]);
        socket.write_all(&handshake.hello()).unwrap();
        let (header, body) = receive(&mut socket);
        handshake.hello_reply(&header, &body).unwrap();
        socket.write_all(&handshake.auth([0; 32])).unwrap();
        let (header, body) = receive(&mut socket);
        let credits = handshake.auth_reply(&header, &body).unwrap().credits;
        Self { socket, credits }
    }

    pub fn send(&mut self, frames: &[u8]) {
        self.socket.write_all(frames).unwrap();
    }

    /// The next frame: its header and body. Its payload is dropped.
    pub fn receive(&mut self) -> (FrameHeader, Vec<u8>) {
        receive(&mut self.socket)
    }

    /// Waits until the daemon closes the connection.
    pub fn expect_end(&mut self) {
        let mut buffer = [0; 4096];
        // A reset counts as closed.
        while matches!(self.socket.read(&mut buffer), Ok(1..)) {}
    }
}

pub fn receive(socket: &mut TcpStream) -> (FrameHeader, Vec<u8>) {
    let mut header = [0; FRAME_HEADER_BYTES];
    socket.read_exact(&mut header).unwrap();
    let header = FrameHeader::from_bytes(&header).unwrap();
    let mut body = vec![0; header.body_bytes as usize + header.payload_bytes as usize];
    socket.read_exact(&mut body).unwrap();
    body.truncate(header.body_bytes as usize);
    (header, body)
}

pub fn request_frame<C: Call>(request_id: u64, call: &C) -> Vec<u8> {
    let mut frame = Vec::new();
    push_frame(&mut frame, C::OP, FrameFlags::REQUEST, request_id, &call.to_bytes());
    frame
}
