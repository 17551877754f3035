//! Fault plans: both stores ask one before every disk operation.
//!
//! A store without a plan pays one branch per operation.

use braid_types::Random;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

/// A disk operation, as a fault plan sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DiskOp {
    /// Opening an existing object.
    Open,
    /// Making the file of a new object.
    Create,
    /// Reading data.
    Read,
    /// Writing data.
    Write,
    /// Making an object durable.
    Sync,
    /// Making a name durable.
    SyncDirectory,
    /// Writing an object record.
    SetRecord,
    /// Truncating or growing a file.
    Truncate,
    /// Punching a hole.
    Punch,
    /// Reserving space.
    Allocate,
    /// Removing a name.
    Remove,
    /// Linking a name: a new object's, or a lost object's new one.
    Rename,
}

/// What happens instead of an operation, or to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It fails with an I/O error.
    Eio,
    /// It fails because the disk is full.
    NoSpace,
    /// It fails because the disk is read-only.
    ReadOnly,
    /// It fails because the file system has no files of that length.
    TooLarge,
    /// A read or write moves only half of its bytes. No other operation is affected.
    Short,
    /// The process dies before it: this and every later operation fails, until the store is opened
    /// again.
    Killed,
}

impl Fault {
    /// The system's error for it; `None` for [`Fault::Short`].
    pub(crate) fn error(self) -> Option<io::Error> {
        match self {
            Self::Eio => Some(io::Error::other("injected I/O error")),
            Self::NoSpace => Some(io::ErrorKind::StorageFull.into()),
            Self::ReadOnly => Some(io::ErrorKind::ReadOnlyFilesystem.into()),
            Self::TooLarge => Some(io::ErrorKind::FileTooLarge.into()),
            Self::Killed => Some(io::Error::other("the process was killed")),
            Self::Short => None,
        }
    }
}

/// Decides which operations fail: by number, by kind or at random.
#[derive(Debug, Default)]
pub struct FaultPlan {
    operations: AtomicU64,
    state: Mutex<PlanState>,
    /// `held` or `waiting` has changed.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PlanState {
    counted: BTreeMap<DiskOp, u64>,
    numbered: Vec<(Option<DiskOp>, u64, Fault)>,
    always: Vec<(DiskOp, Fault)>,
    chance: Option<(Random, u32, Vec<Fault>)>,
    killed: bool,
    /// Operations of this kind wait.
    held: Option<DiskOp>,
    /// How many operations wait.
    waiting: u64,
}

impl FaultPlan {
    /// The `n`-th operation from now fails, counted from 1: of this kind, or of any.
    pub fn fail_nth(&self, op: impl Into<Option<DiskOp>>, n: u64, fault: Fault) {
        let op = op.into();
        let mut state = self.lock();
        let so_far =
            op.map_or_else(|| self.operations(), |op| state.counted.get(&op).copied().unwrap_or(0));
        state.numbered.push((op, so_far.saturating_add(n), fault));
    }

    /// Every operation of this kind fails.
    pub fn fail_always(&self, op: DiskOp, fault: Fault) {
        self.lock().always.push((op, fault));
    }

    /// Each operation fails at random, `per_million` of them, with one of `faults`. A seed gives
    /// one sequence.
    pub fn fail_randomly(&self, seed: u64, per_million: u32, faults: &[Fault]) {
        self.lock().chance =
            (!faults.is_empty()).then(|| (Random::new(seed), per_million, faults.to_vec()));
    }

    /// Every operation of this kind waits from now on, as on a throttled disk. In the store in
    /// memory, all other operations wait with it.
    pub fn hold(&self, op: DiskOp) {
        self.lock().held = Some(op);
    }

    /// Waits until a held operation waits.
    pub fn wait_for_held_operation(&self) {
        let waits = self.changed.wait_while(self.lock(), |state| state.waiting == 0);
        drop(waits.unwrap_or_else(braid_types::poisoned));
    }

    /// Lets the held operations continue.
    pub fn release(&self) {
        self.lock().held = None;
        self.changed.notify_all();
    }

    /// The process has started again: [`Fault::Killed`] ends, all other faults stay.
    pub fn revive(&self) {
        self.lock().killed = false;
    }

    /// Removes all faults: the disk is repaired, and the process has started again.
    pub fn clear(&self) {
        let mut state = self.lock();
        *state = PlanState { counted: std::mem::take(&mut state.counted), ..PlanState::default() };
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Asked before each operation.
    pub(crate) fn next_fault(&self, op: DiskOp) -> Option<Fault> {
        let mut state = self.lock();
        if state.held == Some(op) {
            state.waiting += 1;
            self.changed.notify_all();
            let go_on = self.changed.wait_while(state, |state| state.held == Some(op));
            state = go_on.unwrap_or_else(braid_types::poisoned);
            state.waiting -= 1;
        }
        let total = self.operations.fetch_add(1, Ordering::Relaxed) + 1;
        let counted = state.counted.entry(op).or_default();
        *counted += 1;
        let of_kind = *counted;
        let fault = state.choose(op, total, of_kind);
        state.killed |= fault == Some(Fault::Killed);
        fault
    }

    /// Asked before each operation that cannot be partial.
    pub(crate) fn check(&self, op: DiskOp) -> io::Result<()> {
        self.next_fault(op).and_then(Fault::error).map_or(Ok(()), Err)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, PlanState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl PlanState {
    fn choose(&mut self, op: DiskOp, total: u64, of_kind: u64) -> Option<Fault> {
        if self.killed {
            return Some(Fault::Killed);
        }
        let now = |(of, n, _): &(Option<DiskOp>, u64, Fault)| match of {
            Some(of) => *of == op && *n == of_kind,
            None => *n == total,
        };
        if let Some(at) = self.numbered.iter().position(now) {
            return Some(self.numbered.swap_remove(at).2);
        }
        if let Some((_, fault)) = self.always.iter().find(|(of, _)| *of == op) {
            return Some(*fault);
        }
        let (random, per_million, faults) = self.chance.as_mut()?;
        (random.below(1_000_000) < u64::from(*per_million))
            .then(|| faults[random.below(faults.len() as u64) as usize])
    }
}
