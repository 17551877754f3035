//! How many creates a second the metadata server answers over loopback, client and server in one
//! process: the measuring program of ADR 4. `mds_load [threads] [creates per thread] [shared|own]
//! [open]`: one connection that all threads share, or one for each; `open` opens each file for
//! writing and closes it.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use braid_mds::{Mds, MdsConfig};
use braid_net::{Blocking, Driver, Endpoint, SharedConnection, TlsPolicy, block_on};
use braid_types::{ByteCount, ClusterUuid, IodId, WriteVerifier};
use braid_wire::{
    Call, Credential, Deny, NodeKind, Rights, Role, Secret, Wire, decode_outcome,
    message::{
        lease::LeaseMode,
        mds::{
            Close, Create, CreateReply, Envelope, Heartbeat, KeyAdd, KeyRights, MakeDirectory,
            OpenSession, RegisterIod,
        },
        types::{LayoutHint, PathRef, Space},
    },
};

const UUID: ClusterUuid = ClusterUuid([1; 16]);
const BOUND: Duration = Duration::from_secs(30);

struct Line(Blocking, SharedConnection);

impl Line {
    fn connect(address: &str, role: Role, credential: Credential, secret: Secret) -> Self {
        let driver = Blocking::new();
        let (addresses, tls) = (vec![address.to_owned()], TlsPolicy::Never);
        let endpoint = Endpoint {
            node: NodeKind::Mds,
            node_id: 0,
            cluster: Some(UUID),
            addresses,
            role,
            credential,
            secret,
            tls,
        };
        let shared =
            block_on(driver.connect_shared(&endpoint, driver.now() + BOUND)).expect("connected");
        Self(driver, shared)
    }

    fn call<M: Call>(&self, slot: u32, sequence: u64, message: &M) -> M::Reply {
        let mut body =
            Envelope { slot, sequence, identity: 0, size_reports: Vec::new() }.to_bytes();
        message.encode(&mut body);
        let answer =
            block_on(self.0.call(&self.1, M::OP, &body, self.0.now() + BOUND)).expect("answered");
        decode_outcome(&answer.body).expect("a reply").expect("done")
    }
}

fn space() -> Space {
    let bytes = ByteCount(1 << 40);
    Space { device: 1, total: bytes, free: bytes, available: bytes, files_free: 1 << 30 }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (threads, each) = (number(0, 16), number(1, 20_000));
    let own = arguments.get(2).is_some_and(|text| text == "own");
    let open = arguments.iter().any(|text| text == "open");
    let directory = std::env::temp_dir().join(format!("mds-load-{}", std::process::id()));
    let key = Secret::from_bytes([3; 32]);
    Mds::init(&directory, UUID, 64).expect("made");
    let config = MdsConfig::new(&directory, vec!["127.0.0.1:0".into()], key.clone());
    let mut mds = Mds::start(config).expect("started");
    let address = mds.local_addrs()[0].to_string();

    let daemon = Line::connect(&address, Role::Iod, Credential::Server, key.clone());
    for n in 0..4u8 {
        let (addresses, labels) = (vec!["127.0.0.1:9".to_owned()], Vec::new());
        let (id, verifier) = (IodId(0), WriteVerifier(1));
        let (directory, object_bytes_max) = ([n + 1; 16], ByteCount(1 << 40));
        let space = space();
        let call = RegisterIod {
            id,
            cluster: UUID,
            directory,
            addresses,
            labels,
            space,
            verifier,
            object_bytes_max,
        };
        daemon.call(0, 0, &call);
    }
    let admin = Line::connect(&address, Role::Admin, Credential::Server, key);
    let added = admin.call(0, 0, &KeyAdd { name: "load".into(), rights: KeyRights::full() });
    let connect = || {
        let (credential, secret) =
            (Credential::Client(added.key), Secret::from_bytes(added.secret));
        Line::connect(&address, Role::Client, credential, secret)
    };
    let first = connect();
    let session = first.call(0, 0, &OpenSession { session: None, client: "load".into() }).session;
    let directory_file = first
        .call(0, 1, &MakeDirectory { at: PathRef::root(b"d"), mode: 0o755, umask: 0 })
        .attributes
        .file;

    let done = AtomicBool::new(false);
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                daemon.call(
                    0,
                    0,
                    &Heartbeat {
                        space: space(),
                        verifier: WriteVerifier(1),
                        fence_applied: u64::MAX,
                    },
                );
                thread::sleep(Duration::from_millis(500));
            }
        });
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let (first, connect) = (&first, &connect);
                scope.spawn(move || {
                    let line = own.then(connect);
                    if let Some(line) = &line {
                        line.call(
                            0,
                            0,
                            &OpenSession { session: Some(session), client: "load".into() },
                        );
                    }
                    let line = line.as_ref().unwrap_or(first);
                    for n in 0..each {
                        let at = PathRef {
                            dir: directory_file,
                            path: format!("f{worker}-{n}").into_bytes(),
                        };
                        let (rights, wish) = (open.then_some(Rights::WRITE), LayoutHint::none());
                        let lease = LeaseMode::None;
                        let create = Create {
                            at,
                            mode: 0o644,
                            umask: 0,
                            exclusive: true,
                            truncate: false,
                            rights,
                            layout_hint: wish,
                            lease,
                            deny: Deny::NONE,
                        };
                        let sequence = 10 + 2 * n;
                        let made: CreateReply = line.call(worker as u32, sequence, &create);
                        if let Some(opened) = made.opened {
                            line.call(
                                worker as u32,
                                sequence + 1,
                                &Close { open_ids: vec![opened.open_id] },
                            );
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().expect("a worker"));
        done.store(true, Ordering::Relaxed);
    });
    let took = start.elapsed().as_secs_f64();
    let count = threads * each;
    println!(
        "{count} creates by {threads} threads in {took:.2} s: {:.0} per s",
        count as f64 / took
    );
    mds.stop();
    let _ = std::fs::remove_dir_all(&directory); // left over in the temporary directory at worst
}
