//! The daemon over real sockets, with real I/O daemons.

use std::{io::IoSlice, time::Duration};

use braid_iod::{Iod, IodConfig};
use braid_layout::{Pattern, Request, View};
use braid_net::{Blocking, Driver, Endpoint, Exchange, SharedConnection, TlsPolicy, block_on};
use braid_store::LocalStore;
use braid_types::{ByteCount, ClusterUuid, Failure, FileIndex};
use braid_wire::{
    Call as WireCall, Credential, NodeKind, Role, Secret, Wire, decode_outcome,
    message::{
        iod::{Write, WriteReply},
        mds::*,
    },
};

use super::world::{at, create};
use crate::{Mds, MdsConfig};

const UUID: ClusterUuid = ClusterUuid([9; 16]);
const BOUND: Duration = Duration::from_secs(20);

fn server_key() -> Secret {
    Secret::from_bytes([5; 32])
}

struct Cluster {
    mds: Mds,
    iods: Vec<Iod>,
    _dir: tempfile::TempDir,
}

/// A metadata server and two I/O daemons, each with its sockets and threads.
fn cluster() -> Cluster {
    let dir = tempfile::tempdir().unwrap();
    let meta = dir.path().join("meta");
    Mds::init(&meta, UUID, 8).unwrap();
    let mds = Mds::start(MdsConfig::new(&meta, vec!["127.0.0.1:0".into()], server_key())).unwrap();
    let address = vec![mds.local_addrs()[0].to_string()];
    let daemon = |n: u32| {
        let objects = dir.path().join(format!("iod{n}"));
        LocalStore::init(&objects, UUID, None).unwrap();
        let iod = Iod::start(IodConfig::on_loopback(&objects, UUID, address.clone(), server_key()))
            .unwrap();
        assert!(iod.wait_until_serving(BOUND));
        iod
    };
    let iods = (1..=2).map(daemon).collect();
    Cluster { mds, iods, _dir: dir }
}

fn endpoint(
    address: &str,
    node: NodeKind,
    node_id: u32,
    role: Role,
    credential: Credential,
    secret: Secret,
) -> Endpoint {
    let (addresses, tls) = (vec![address.to_owned()], TlsPolicy::UnlessLoopback);
    Endpoint { node, node_id, cluster: Some(UUID), addresses, role, credential, secret, tls }
}

struct Line {
    driver: Blocking,
    shared: SharedConnection,
}

impl Line {
    fn connect(cluster: &Cluster, role: Role, credential: Credential, secret: Secret) -> Self {
        let driver = Blocking::new();
        let address = cluster.mds.local_addrs()[0].to_string();
        let endpoint = endpoint(&address, NodeKind::Mds, 0, role, credential, secret);
        let shared = block_on(driver.connect_shared(&endpoint, driver.now() + BOUND)).unwrap();
        Self { driver, shared }
    }

    fn call<M: WireCall>(&self, sequence: u64, message: &M) -> Result<M::Reply, Failure> {
        let mut body =
            Envelope { slot: 0, sequence, identity: 0, size_reports: Vec::new() }.to_bytes();
        message.encode(&mut body);
        let deadline = self.driver.now() + BOUND;
        let answer = block_on(self.driver.call(&self.shared, M::OP, &body, deadline)).unwrap();
        decode_outcome(&answer.body).unwrap()
    }
}

/// Writes `bytes` at the start of a file that lies on one daemon.
fn write(cluster: &Cluster, opened: &OpenReply, session: &OpenSessionReply, bytes: &[u8]) {
    let iod = opened.layout.components[0].parts[0].iods[0];
    let daemon = cluster.iods.iter().find(|daemon| daemon.id() == iod).unwrap();
    let OpenSessionReply { session: id, key, user, epoch, .. } = *session;
    let credential = Credential::Session { session: id, key, user, epoch };
    let secret = Secret::from_bytes(session.secret);
    let address = daemon.addresses()[0].to_string();
    let endpoint = endpoint(&address, NodeKind::Iod, iod.0, Role::Client, credential, secret);
    let driver = Blocking::new();
    let mut connections = vec![block_on(driver.connect(&endpoint, driver.now() + BOUND)).unwrap()];
    let count = bytes.len() as u64;
    let view = View { displacement: 0, extent: count, pattern: Pattern::Bytes(count) };
    let request = Request { view, start: 0, bytes: count };
    let body = Write { handle: 1, present: opened.capability.clone(), request }.to_bytes();
    let send = vec![IoSlice::new(bytes)];
    let mut batch =
        [Exchange { connection: 0, op: Write::OP, body, send, recv: Vec::new(), outcome: None }];
    block_on(driver.exchange(&mut connections, &mut batch, BOUND));
    let answer = batch[0].outcome.take().unwrap().unwrap();
    let reply: WriteReply = decode_outcome(&answer.body).unwrap().unwrap();
    assert_eq!(reply.bytes, ByteCount(count));
}

#[test]
fn a_file_is_made_written_closed_truncated_and_unlinked() {
    let cluster = cluster();
    let admin = Line::connect(&cluster, Role::Admin, Credential::Server, server_key());
    let key = admin.call(0, &KeyAdd { name: "host".into(), rights: KeyRights::full() }).unwrap();
    let secret = Secret::from_bytes(key.secret);
    let client = Line::connect(&cluster, Role::Client, Credential::Client(key.key), secret);
    let session = client.call(0, &OpenSession { session: None, client: "test".into() }).unwrap();
    assert_eq!(session.map.iods.len(), 2);
    let mut wish = create("f");
    wish.layout_hint.parts = Some(1);
    let opened = client.call(1, &wish).unwrap().opened.unwrap();
    write(&cluster, &opened, &session, &[7; 10_000]);
    let stat = Stat { at: at("f"), follow: true };
    assert_eq!(client.call(0, &stat).unwrap().bytes, ByteCount(10_000), "asked of the daemon");
    let synced = client.call(0, &FsyncFile { file: opened.attributes.file }).unwrap();
    assert_eq!(synced.bytes, ByteCount(10_000));
    client.call(2, &Close { open_ids: vec![opened.open_id] }).unwrap();
    assert_eq!(client.call(0, &stat).unwrap().bytes, ByteCount(10_000));
    let cut = super::world::set_size("f", 123);
    assert_eq!(client.call(3, &cut).unwrap().bytes, ByteCount(123));
    let listing =
        ReadDirectory { dir: FileIndex::ROOT, cookie: 0, bytes_max: 4096, with_attributes: true };
    assert_eq!(client.call(0, &listing).unwrap().entries.len(), 1);
    client.call(4, &Unlink { at: at("f") }).unwrap();
    assert!(client.call(0, &stat).is_err());
    client.call(0, &CloseSession {}).unwrap();
}

#[test]
fn a_wrong_key_is_refused_and_a_second_server_on_one_directory_too() {
    let cluster = cluster();
    let driver = Blocking::new();
    let address = cluster.mds.local_addrs()[0].to_string();
    let wrong = Secret::from_bytes([6; 32]);
    let endpoint = endpoint(&address, NodeKind::Mds, 0, Role::Admin, Credential::Server, wrong);
    let refused = block_on(driver.connect_shared(&endpoint, driver.now() + BOUND));
    assert!(matches!(refused, Err(braid_net::NetError::Refused { .. })), "{:?}", refused.err());
    let config =
        MdsConfig::new(cluster._dir.path().join("meta"), vec!["127.0.0.1:0".into()], server_key());
    let second = Mds::start(config).err().unwrap().to_string();
    assert!(second.contains("in use"), "{second}");
}
