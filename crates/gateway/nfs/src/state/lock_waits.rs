//! Waits of one client for locks that were denied: which exist, until when each is wanted, and how
//! each ends. `ops/lock_wait.rs` runs them.
//!
//! ```text
//!   denied ─> waiting ──granted──> held for the client ──LOCK of the same lock──> claimed
//!                │                        │
//!                └── not wanted any more, or time is over ──> unlocked, ended
//! ```
//!
//! Invariants:
//! 1. A request decides the fate of a wait only while it holds the lock state's `change` (CLOSE
//!    and the end of a client do it after the lock state is gone). So a lock that is held for the
//!    client is never unlocked while a LOCK of the same owner takes it.
//! 2. At most [`WAITS_CLIENT_MAX`] waits of a client (I9).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braid_share::{FileIndex, Lock, LockCancelHandle};
use tokio::sync::watch;
use tokio::time::Instant;

/// Waits of one client. Each is a call in flight at the metadata server, and a client library
/// serves as many without polling.
pub const WAITS_CLIENT_MAX: usize = 128;
/// How long a wait lasts after the client's last LOCK for it. Linux repeats LOCK after 30 s
/// without a callback, so a wait of a process that still waits never ends by this.
pub const WANTED_MAX: Duration = Duration::from_secs(45);

/// What a request decided about a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// A LOCK has taken the lock: nothing is unlocked.
    Claimed,
    /// The client does not want the lock any more.
    Unwanted,
    /// Another request of the owner changes the range. The client is notified, since another
    /// thread of the owner may still wait.
    Displaced,
}

/// A wait for one lock.
#[derive(Debug)]
pub struct LockWait {
    /// The file.
    pub file: FileIndex,
    /// The wanted lock.
    pub lock: Lock,
    /// Ends the wait at the metadata server.
    pub cancel: LockCancelHandle,
    /// `None`: it ends, or its lock is granted.
    wanted_until: Mutex<Option<Instant>>,
    fate: watch::Sender<Option<Fate>>,
    ended: watch::Sender<bool>,
}

impl LockWait {
    fn new(file: FileIndex, lock: Lock, now: Instant) -> Self {
        Self {
            file,
            lock,
            cancel: LockCancelHandle::new(),
            wanted_until: Mutex::new(Some(now + WANTED_MAX)),
            fate: watch::channel(None).0,
            ended: watch::channel(false).0,
        }
    }

    /// The client was denied the lock again. `false` if this wait is over, and it needs another.
    pub fn renew(&self, now: Instant) -> bool {
        let mut until = self.wanted_until();
        if until.is_some() {
            *until = Some(now + WANTED_MAX);
        }
        until.is_some()
    }

    /// From now on it cannot be renewed.
    pub fn set_over(&self) {
        *self.wanted_until() = None;
    }

    /// Waits until the client has not asked for the lock for [`WANTED_MAX`]. It is over then.
    pub async fn abandoned(&self) {
        loop {
            let until = {
                let mut until = self.wanted_until();
                match *until {
                    Some(at) if at > Instant::now() => at,
                    _ => {
                        *until = None;
                        return;
                    }
                }
            };
            tokio::time::sleep_until(until).await;
        }
    }

    /// Decides the fate, unless it was decided before (invariant 1).
    pub fn decide(&self, fate: Fate) {
        self.fate.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(fate);
            is_first
        });
    }

    /// Waits until a request has decided the fate.
    pub async fn fate(&self) -> Fate {
        let mut fate = self.fate.subscribe();
        loop {
            let known = *fate.borrow_and_update();
            match known {
                Some(known) => return known,
                // This owns the sender, so the channel is open.
                None => drop(fate.changed().await),
            }
        }
    }

    /// Notes that nothing is left of the wait at the metadata server, or in the lock state.
    pub fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Waits until [`LockWait::end`].
    pub async fn ended(&self) {
        let mut ended = self.ended.subscribe();
        // This owns the sender, so the channel is open.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    fn overlaps(&self, lock: &Lock) -> bool {
        self.lock.start <= lock.last && lock.start <= self.lock.last
    }

    fn wanted_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.wanted_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waits of a client.
#[derive(Debug, Default)]
pub struct LockWaits(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    waits: Vec<Arc<LockWait>>,
    /// The client has ended.
    closed: bool,
}

impl LockWaits {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a wait; `None` if there are too many, or the client has ended.
    pub fn begin(&self, file: FileIndex, lock: Lock) -> Option<Arc<LockWait>> {
        let mut table = self.lock();
        // Invariant 2.
        if table.closed || table.waits.len() >= WAITS_CLIENT_MAX {
            return None;
        }
        let wait = Arc::new(LockWait::new(file, lock, Instant::now()));
        table.waits.push(Arc::clone(&wait));
        Some(wait)
    }

    /// The wait for exactly this lock.
    pub fn find(&self, file: FileIndex, lock: &Lock) -> Option<Arc<LockWait>> {
        let table = self.lock();
        table.waits.iter().find(|wait| wait.file == file && wait.lock == *lock).cloned()
    }

    /// Waits of the lock's owner for ranges that overlap it.
    pub fn overlapping(&self, file: FileIndex, lock: &Lock) -> Vec<Arc<LockWait>> {
        let table = self.lock();
        let same = |wait: &&Arc<LockWait>| {
            wait.file == file && wait.lock.owner == lock.owner && wait.overlaps(lock)
        };
        table.waits.iter().filter(same).cloned().collect()
    }

    /// Removes a wait that has ended.
    pub fn remove(&self, wait: &Arc<LockWait>) {
        self.lock().waits.retain(|other| !Arc::ptr_eq(other, wait));
    }

    /// Ends all waits with the client. Does not wait for their ends.
    pub fn close(&self) {
        let mut table = self.lock();
        table.closed = true;
        for wait in &table.waits {
            wait.decide(Fate::Unwanted);
        }
    }

    /// Waits that have not ended.
    pub fn len(&self) -> usize {
        self.lock().waits.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
