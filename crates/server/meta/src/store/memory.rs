//! A metadata store in memory that fails and crashes on command: a test double of the engine.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, RwLock, RwLockReadGuard};

use braid_types::Random;

use super::{Batch, Fence, MetaStore, Sequence, Snapshot, StoreError, Visit};

/// Which calls of a [`MemoryStore`] fail. Calls are counted from 0 for each kind.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Commits that fail with a disk error.
    pub failing_commits: Vec<u64>,
    /// Commits that fail because the disk is full.
    pub full_commits: Vec<u64>,
    /// Syncs that fail with a disk error.
    pub failing_syncs: Vec<u64>,
}

impl Faults {
    /// Faults drawn from `seed`: of the first `calls` commits about one in `one_in` fails, half of
    /// them because the disk is full.
    pub fn seeded(seed: u64, calls: u64, one_in: u64) -> Self {
        let mut faults = Self::default();
        let mut random = Random::new(seed);
        for call in 0..calls {
            let draw = random.next_u64();
            match draw % (2 * one_in.max(1)) {
                0 => faults.failing_commits.push(call),
                1 => faults.full_commits.push(call),
                _ => {}
            }
        }
        faults
    }
}

/// An ordered map that remembers what was synced. `kill` and `lose_power` return the store that a
/// restart finds.
#[derive(Default)]
pub struct MemoryStore {
    map: RwLock<Map>,
    state: Mutex<MemoryState>,
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct MemoryState {
    /// What is certainly on disk.
    synced: Map,
    /// Batches committed since then, oldest first.
    unsynced: Vec<Batch>,
    committed: u64,
    fence: u64,
    faults: Faults,
    commits: u64,
    syncs: u64,
}

impl MemoryStore {
    /// An empty store that does not fail.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets which of the following calls fail. Counting begins again at 0.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.state();
        (state.faults, state.commits, state.syncs) = (faults, 0, 0);
    }

    /// The store that a restart finds after a kill of the process: every committed batch (I6).
    pub fn kill(&self) -> Self {
        let count = self.state().unsynced.len();
        self.lose_power(count)
    }

    /// The store that a restart finds after a loss of power if `count` of the unsynced batches
    /// reached the disk. It is always a prefix.
    pub fn lose_power(&self, count: usize) -> Self {
        let state = self.state();
        let mut map = state.synced.clone();
        let count = count.min(state.unsynced.len());
        let lost = (state.unsynced.len() - count) as u64;
        state.unsynced[..count].iter().for_each(|batch| apply(&mut map, batch));
        let fresh = MemoryState {
            synced: map.clone(),
            committed: state.committed - lost,
            fence: state.fence,
            ..MemoryState::default()
        };
        Self { map: RwLock::new(map), state: Mutex::new(fresh) }
    }

    /// How many committed batches are not synced yet.
    pub fn unsynced(&self) -> usize {
        self.state().unsynced.len()
    }

    /// Every key and value, in order.
    pub fn dump(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.read().iter().map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(braid_types::poisoned)
    }

    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.map.read().unwrap_or_else(braid_types::poisoned)
    }
}

fn apply(map: &mut Map, batch: &Batch) {
    for change in batch.changes() {
        match change.value {
            Some(value) => map.insert(change.key.to_vec(), value.to_vec()),
            None => map.remove(change.key),
        };
    }
}

fn injected(what: &'static str) -> StoreError {
    StoreError::Disk { what, source: std::io::Error::other("injected") }
}

impl MemoryState {
    fn commit_fault(&mut self) -> Result<(), StoreError> {
        let call = self.commits;
        self.commits += 1;
        if self.faults.failing_commits.contains(&call) {
            return Err(injected("commit"));
        }
        if self.faults.full_commits.contains(&call) {
            return Err(StoreError::NoSpace("injected".into()));
        }
        Ok(())
    }
}

impl MetaStore for MemoryStore {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, StoreError> {
        Ok(Box::new(MemorySnapshot(self.read())))
    }

    fn commit(&self, batch: Batch, fence: Fence) -> Result<Sequence, StoreError> {
        batch.check_size()?;
        let mut state = self.state();
        if fence.0 < state.fence {
            return Err(StoreError::Fenced { offered: fence.0, current: state.fence });
        }
        state.commit_fault()?;
        state.fence = fence.0;
        state.committed += 1;
        apply(&mut self.map.write().unwrap_or_else(braid_types::poisoned), &batch);
        state.unsynced.push(batch);
        Ok(Sequence(state.committed))
    }

    fn committed(&self) -> Sequence {
        Sequence(self.state().committed)
    }

    fn sync(&self, _sequence: Sequence) -> Result<(), StoreError> {
        let mut state = self.state();
        let call = state.syncs;
        state.syncs += 1;
        if state.faults.failing_syncs.contains(&call) {
            return Err(injected("sync"));
        }
        let batches = std::mem::take(&mut state.unsynced);
        batches.iter().for_each(|batch| apply(&mut state.synced, batch));
        Ok(())
    }

    fn fence(&self) -> Fence {
        Fence(self.state().fence)
    }
}

struct MemorySnapshot<'a>(RwLockReadGuard<'a, Map>);

impl Snapshot for MemorySnapshot<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, from: &[u8], end: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        if from >= end {
            return Ok(());
        }
        for (key, value) in self.0.range(from.to_vec()..end.to_vec()) {
            if let ControlFlow::Break(()) = visit(key, value) {
                break;
            }
        }
        Ok(())
    }
}
