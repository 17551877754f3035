//! Starts the two implementations, and helps the tests.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use braid_client::{Client, Config};
use braid_share::{
    Attributes, ClientRecord, Deny, FileIndex, Identity, OpenMode, OpenTarget, Result, Rights,
    Share, ShareClient, ShareFile, Status, cluster::ClusterShare, memory::MemoryShare,
};
use braid_testbed::in_process::InProcessCluster;
use braid_wire::message::mds::KeyRights;
use bytes::Bytes;

pub const ROOT: FileIndex = FileIndex::ROOT;
pub const BOTH: OpenMode = OpenMode { rights: Rights::READ_WRITE, deny: Deny::NONE };

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

/// A cluster in this process.
pub struct Cluster {
    servers: InProcessCluster,
    pub config: Config,
    admin: Client,
    _dir: tempfile::TempDir,
}

impl Cluster {
    pub fn restart_mds(&mut self) {
        self.servers.stop_mds();
        self.servers.start_mds().expect("a metadata server");
    }

    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let servers = InProcessCluster::start(dir.path(), 2).expect("a cluster");
        let key = servers.add_key("gateway", KeyRights::full()).expect("a key");
        let config = servers.config(key.into_credential());
        let admin = servers.admin().expect("a client");
        Self { servers, config, admin, _dir: dir }
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
