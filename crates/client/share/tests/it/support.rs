//! Starts the two implementations, and helps the tests.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use braid_client::{Client, Config, Credential};
use braid_iod::{Iod, IodConfig};
use braid_mds::{Mds, MdsConfig};
use braid_share::{
    Attributes, ClientRecord, Deny, FileIndex, Identity, OpenMode, OpenTarget, Result, Rights,
    Share, ShareClient, ShareFile, Status, cluster::ClusterShare, memory::MemoryShare,
};
use braid_store::LocalStore;
use braid_types::{ClusterUuid, limits::SHARDS_DEFAULT};
use braid_wire::{
    Secret,
    message::{mds::KeyRights, types::IodState},
};
use bytes::Bytes;

pub const ROOT: FileIndex = FileIndex::ROOT;
pub const BOTH: OpenMode = OpenMode { rights: Rights::READ_WRITE, deny: Deny::NONE };
const UUID: ClusterUuid = ClusterUuid([7; 16]);
const IODS: usize = 2;
/// How long a cluster may take to start.
const START_SECONDS_MAX: u64 = 120;

/// Makes a test of each function, on both implementations.
macro_rules! on_both {
    ($($test:ident,)*) => {
        mod memory {
            $( #[test] fn $test() { crate::support::on_memory(super::$test) } )*
        }
        mod cluster {
            $( #[test] fn $test() { crate::support::on_cluster(super::$test) } )*
        }
    };
}
pub(crate) use on_both;

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// Runs a test on a file system in memory, in a new directory.
pub fn on_memory<F: Future<Output = ()>>(test: impl FnOnce(MemoryShare, FileIndex) -> F) {
    run(async {
        let share = MemoryShare::new();
        let top = new_directory(&share).await;
        test(share, top).await;
    });
}

/// Runs a test on a cluster that other tests use at the same time, in a new directory.
pub fn on_cluster<F: Future<Output = ()>>(test: impl FnOnce(ClusterShare, FileIndex) -> F) {
    let cluster = shared_cluster();
    run(async {
        let share = cluster.gateway().await;
        let top = new_directory(&share).await;
        test(share, top).await;
    });
}

async fn new_directory<S: Share>(share: &S) -> FileIndex {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("test{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    mkdir(&share.own_client(), ROOT, &name, 0o755).await
}

/// The cluster of the tests that run now. The last one of them stops it, so that its directory is
/// removed; the next test starts another.
fn shared_cluster() -> Arc<Cluster> {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let cluster = Arc::new(Cluster::start());
        *shared = Arc::downgrade(&cluster);
        cluster
    })
}

/// A cluster in this process. The metadata server is dropped first, as it should.
pub struct Cluster {
    mds: Option<Mds>,
    iods: Vec<Iod>,
    pub config: Config,
    admin: Client,
    _dir: tempfile::TempDir,
}

impl Cluster {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let key = Secret::from_bytes([9; 32]);
        Mds::init(&dir.path().join("mds"), UUID, SHARDS_DEFAULT).expect("a new cluster");
        let listen = vec!["127.0.0.1:0".into()];
        let mds = Mds::start(MdsConfig::new(dir.path().join("mds"), listen, key.clone()));
        let mds = mds.expect("a metadata server");
        let address: Vec<String> = mds.local_addrs().iter().map(ToString::to_string).collect();
        let iods = (0..IODS).map(|number| {
            let dir = dir.path().join(format!("iod{number}"));
            std::fs::create_dir_all(&dir).expect("a directory");
            LocalStore::init(&dir, UUID, None).expect("a store");
            let config = IodConfig::on_loopback(dir, UUID, address.clone(), key.clone());
            Iod::start(config).expect("an I/O daemon")
        });
        let iods: Vec<Iod> = iods.collect();
        let admin = Client::connect(Config::new(address.clone(), Credential::ServerKey(key)));
        let admin = admin.expect("a client");
        let begun = Instant::now();
        let is_up = |client: &Client| {
            let map = client.cluster_map().expect("the cluster map");
            map.iods.iter().filter(|iod| iod.state == IodState::Up).count() == IODS
        };
        while !is_up(&admin) {
            assert!(begun.elapsed() < Duration::from_secs(START_SECONDS_MAX), "no I/O daemons");
            std::thread::sleep(Duration::from_millis(2));
        }
        let made = admin.key_add("gateway", KeyRights::full()).expect("a key");
        let credential = Credential::Key { id: made.key, secret: Secret::from_bytes(made.secret) };
        let config = Config { cluster: Some(UUID), ..Config::new(address, credential) };
        Self { mds: Some(mds), iods, config, admin, _dir: dir }
    }

    /// A new gateway.
    pub async fn gateway(&self) -> ClusterShare {
        ClusterShare::connect(self.config.clone()).await.expect("a gateway")
    }

    /// A client of the library, as a mount has one.
    pub fn admin(&self) -> &Client {
        &self.admin
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.mds = None;
        self.iods.iter_mut().for_each(|iod| _ = iod.stop());
    }
}

pub fn root() -> Identity {
    Identity::root()
}

/// A user with a group of the same number.
pub fn user(uid: u64) -> Identity {
    Identity { uid, gid: uid, groups: Vec::new(), checked: false }
}

/// A new protocol client.
pub async fn client<S: Share>(share: &S) -> S::Client {
    let record = ClientRecord { name: "client of a test".into(), record: b"record".to_vec() };
    share.begin_client(record).await.expect("a session")
}

/// The status of a refusal.
pub fn refused<T>(result: Result<T>) -> Status {
    match result {
        Ok(_) => panic!("the call was not refused"),
        Err(error) => error.status(),
    }
}

/// What creates a file with mode 0644, or finds it.
pub fn create_target(dir: FileIndex, name: &str) -> OpenTarget {
    let name = name.into();
    OpenTarget::Create { dir, name, exclusive: false, truncate: false, mode: 0o644 }
}

/// Creates a file as root.
pub async fn create<C: ShareClient>(client: &C, dir: FileIndex, name: &str) -> C::File {
    let opened = client.open(&root(), create_target(dir, name), BOTH).await.expect("a new file");
    assert!(opened.created);
    opened.file
}

/// Makes a directory as root.
pub async fn mkdir<C: ShareClient>(client: &C, dir: FileIndex, name: &str, mode: u32) -> FileIndex {
    let made = client.make_directory(&root(), dir, name.as_bytes(), mode).await;
    made.expect("a new directory").0.file
}

pub async fn look_up<C: ShareClient>(client: &C, dir: FileIndex, name: &str) -> Attributes {
    client.look_up(&root(), dir, name.as_bytes()).await.expect("an existing name")
}

pub async fn change_of<C: ShareClient>(client: &C, file: FileIndex) -> u64 {
    client.attributes(&root(), file).await.expect("attributes").change
}

pub async fn write<F: ShareFile>(file: &F, offset: u64, data: &[u8]) {
    let written = file.write(offset, Bytes::copy_from_slice(data), false).await.expect("a write");
    assert_eq!(written.bytes, data.len() as u64);
}

pub async fn read<F: ShareFile>(file: &F, offset: u64, bytes: u32) -> (Vec<u8>, bool) {
    let read = file.read(offset, bytes).await.expect("a read");
    (read.data.to_vec(), read.end)
}
