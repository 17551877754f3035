//! A metadata server and some I/O daemons in this process, and groups of threads.

use std::{
    sync::{Arc, Condvar, Mutex, atomic::Ordering::Relaxed},
    time::Duration,
};

use braid_client::{Client, Config, Error, File, Group, OpenOptions, Result};
use braid_iod::{Iod, IodConfig};
use braid_testbed::in_process::InProcessCluster;
use braid_types::Status;
use braid_wire::message::mds::KeyRights;

pub use braid_testbed::random::noise as pattern;

use super::wire::Wire;

/// A running cluster.
pub struct Cluster {
    servers: InProcessCluster,
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
        let mut servers = InProcessCluster::start_mds_only(dir.path()).unwrap();
        for (number, wire) in wires.iter().enumerate() {
            let advertise = wire.iter().map(|wire| wire.address().to_string()).collect();
            let disk = dir.path().join(format!("disk{number}"));
            let started = servers.add_iod(&disk, |config| IodConfig { advertise, ..config });
            let address = started.unwrap();
            wire.iter().for_each(|wire| wire.lead_to(address));
        }
        servers.wait_until_up().unwrap();
        let key = servers.add_key("tasks", KeyRights::full()).unwrap();
        let config = servers.config(key.into_credential());
        Self { servers, config, _dir: dir }
    }

    /// The I/O daemons.
    pub fn iods(&self) -> &[Iod] {
        self.servers.iods()
    }

    /// The I/O daemons, to stop them.
    pub fn iods_mut(&mut self) -> &mut Vec<Iod> {
        self.servers.iods_mut()
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
        let counters = self.iods().iter().map(|iod| iod.core().counters());
        counters
            .map(|counters| counters.refusals.load(Relaxed) + counters.errors.load(Relaxed))
            .sum()
    }

    /// The numbers of collective requests, joins, store calls and bytes for collective requests, at
    /// all daemons.
    pub fn counted(&self) -> Counted {
        let mut counted = Counted::default();
        for iod in self.iods() {
            let counters = iod.core().counters();
            counted.collectives += counters.collectives.load(Relaxed);
            counted.joins += counters.joins.load(Relaxed);
            counted.store_calls += counters.collective_store_calls.load(Relaxed);
            counted.store_bytes += counters.collective_store_bytes.load(Relaxed);
        }
        counted
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
