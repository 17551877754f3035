//! A metadata server and some I/O daemons in this process, and groups of threads.

use std::{
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use braid_client::{
    Client, Config, Credential, Error, File, Group, OpenOptions, Result, Secret,
    message::types::IodState,
};
use braid_iod::{Iod, IodConfig};
use braid_mds::{Mds, MdsConfig};
use braid_store::LocalStore;
use braid_types::{ClusterUuid, Status, limits::SHARDS_DEFAULT};
use braid_wire::message::mds::KeyRights;

use super::wire::Wire;

const UUID: ClusterUuid = ClusterUuid([7; 16]);

/// A running cluster. The metadata server is dropped first.
pub struct Cluster {
    mds: Mds,
    pub iods: Vec<Iod>,
    config: Config,
    _dir: tempfile::TempDir,
}

impl Cluster {
    pub fn start(iods: usize) -> Self {
        Self::start_behind(&vec![None; iods])
    }

    /// A cluster whose daemons are reached over these wires.
    pub fn start_behind(wires: &[Option<Wire>]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = Secret::from_bytes([9; 32]);
        Mds::init(&dir.path().join("mds"), UUID, SHARDS_DEFAULT).unwrap();
        let mds = Mds::start(MdsConfig::new(
            dir.path().join("mds"),
            vec!["127.0.0.1:0".into()],
            key.clone(),
        ))
        .unwrap();
        let address: Vec<String> = mds.local_addrs().iter().map(ToString::to_string).collect();
        let start_iod = |disk: PathBuf, wire: &Option<Wire>| {
            std::fs::create_dir_all(&disk).unwrap();
            LocalStore::init(&disk, UUID, None).unwrap();
            let advertise = wire.iter().map(|wire| wire.address().to_string()).collect();
            let config = IodConfig::on_loopback(disk, UUID, address.clone(), key.clone());
            let iod = Iod::start(IodConfig { advertise, ..config }).unwrap();
            wire.iter().for_each(|wire| wire.lead_to(iod.addresses()[0]));
            iod
        };
        let disk = |number| dir.path().join(format!("disk{number}"));
        let iods: Vec<Iod> =
            wires.iter().enumerate().map(|(number, wire)| start_iod(disk(number), wire)).collect();
        let admin =
            Client::connect(Config::new(address.clone(), Credential::ServerKey(key))).unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        while admin
            .cluster_map()
            .unwrap()
            .iods
            .iter()
            .filter(|iod| iod.state == IodState::Up)
            .count()
            < iods.len()
        {
            assert!(Instant::now() < deadline, "the daemons did not come up");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let made = admin.key_add("tasks", KeyRights::full()).unwrap();
        let credential = Credential::Key { id: made.key, secret: Secret::from_bytes(made.secret) };
        Self { mds, iods, config: Config::new(address, credential), _dir: dir }
    }

    /// A client with its own session.
    pub fn client(&self) -> Client {
        Client::connect(self.config.clone()).unwrap()
    }

    /// The configuration of a client.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// The configuration of a client whose calls end earlier when a server is gone.
    pub fn hasty(&self, timeout: Duration) -> Config {
        Config { timeout, ..self.config.clone() }
    }

    /// The number of calls that the daemons have refused or failed.
    pub fn failed_calls(&self) -> u64 {
        let counters = self.iods.iter().map(|iod| iod.core().counters());
        counters
            .map(|counters| counters.refusals.load(Relaxed) + counters.errors.load(Relaxed))
            .sum()
    }

    /// The numbers of collective requests, joins, store calls and bytes for collective requests, at
    /// all daemons.
    pub fn counted(&self) -> Counted {
        let mut counted = Counted::default();
        for iod in &self.iods {
            let counters = iod.core().counters();
            counted.collectives += counters.collectives.load(Relaxed);
            counted.joins += counters.joins.load(Relaxed);
            counted.store_calls += counters.collective_store_calls.load(Relaxed);
            counted.store_bytes += counters.collective_store_bytes.load(Relaxed);
        }
        counted
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.mds.stop();
        self.iods.iter_mut().for_each(|iod| _ = iod.stop());
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    pub collectives: u64,
    pub joins: u64,
    pub store_calls: u64,
    pub store_bytes: u64,
}

impl std::ops::Sub for Counted {
    type Output = Self;
    fn sub(self, before: Self) -> Self {
        Self {
            collectives: self.collectives - before.collectives,
            joins: self.joins - before.joins,
            store_calls: self.store_calls - before.store_calls,
            store_bytes: self.store_bytes - before.store_bytes,
        }
    }
}

/// A file for all tasks.
pub fn striped(stripe_bytes: u64, parts: u16) -> OpenOptions {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .stripe_size(stripe_bytes)
        .iod_count(parts)
}

/// Tasks that are threads.
pub struct Task {
    rank: u32,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    size: usize,
    round: u64,
    given: Vec<Option<Vec<u8>>>,
    last: Vec<Vec<u8>>,
}

impl Task {
    pub fn group(size: usize) -> Vec<Self> {
        let shared = Arc::new(Shared::default());
        *shared.state.lock().unwrap() = State { size, given: vec![None; size], ..State::default() };
        (0..size as u32).map(|rank| Self { rank, shared: shared.clone() }).collect()
    }

    /// The number of gathers so far.
    pub fn rounds(&self) -> u64 {
        self.shared.state.lock().unwrap().round
    }
}

impl Group for Task {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.shared.state.lock().unwrap().size as u32
    }

    fn all_gather(&self, mine: &[u8], time_max: Duration) -> Result<Vec<Vec<u8>>> {
        let mut state = self.shared.state.lock().unwrap();
        let round = state.round;
        state.given[self.rank as usize] = Some(mine.to_vec());
        if state.given.iter().all(Option::is_some) {
            let size = state.size;
            let given = std::mem::replace(&mut state.given, vec![None; size]);
            state.last = given.into_iter().flatten().collect();
            state.round += 1;
            self.shared.changed.notify_all();
        } else {
            let waited = self
                .shared
                .changed
                .wait_timeout_while(state, time_max, |state| state.round == round)
                .unwrap();
            state = waited.0;
            if waited.1.timed_out() {
                return Err(Error::new(Status::Unreachable, "a task was lost"));
            }
        }
        Ok(state.last.clone())
    }
}

/// Runs `work` as every task of a group of `size`, each on a file of its own session. Returns the
/// result of each.
pub fn as_tasks<T: Send>(files: &[File], work: impl Fn(&Task, &File) -> T + Sync) -> Vec<T> {
    let tasks = Task::group(files.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            tasks.iter().zip(files).map(|(task, file)| scope.spawn(|| work(task, file))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Bytes whose values depend on their offsets.
pub fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}
