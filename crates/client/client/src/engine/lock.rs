//! Locks on byte ranges and on whole files. The metadata server holds them for owners that the
//! caller names.
//!
//! ```text
//!   LockSet ──granted──> held                       Unlock ──> free
//!      └─waits─> LockAwait ─wait_ms over─> LockAwait ... ──granted──> held
//!                    └─cancelled, or forgotten by the server─> an error, LockSet again
//!
//!   an owner closes ──> unlock pending ── Unlock, by the closing call or the service thread,
//!                                         until it is answered ──> free
//! ```
//!
//! Owner numbers are reused. So an owner with a pending unlock requests no lock before the unlock
//! is answered: a late Unlock would release the locks of the next owner with the same number.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use braid_net::Driver;
use braid_types::{FileIndex, Status, limits::LOCK_WAIT_MS_MAX};
use braid_wire::message::{
    lock::{LockHolder, LockOutcome, LockRange, LockReply, LockRequest, LockSpace},
    mds::{LockAwait, LockCancel, LockSet, LockTest, Unlock},
    types::PathRef,
};

use super::{
    Caller, Engine,
    lock_table::{LockOwner, owner_of, whole_range},
    open_table::ServerEpoch,
    semaphore::Semaphore,
};
use crate::error::{Error, Result};

/// Lock waits that have a call at the server at the same time. The other credits of the connection
/// are left for the calls that end the waits.
const WAITS_ATTACHED_MAX: u64 = 128;
/// How often a wait beyond this number polls the server.
const POLL: Duration = Duration::from_millis(200);
const LOCK: &str = "lock";
const UNLOCK: &str = "unlock";
/// Unlocks of closed owners that may be in flight at the same time.
const UNLOCK_QUEUES: usize = 64;

/// Ends a lock wait from another thread. Use one for each wait.
#[derive(Clone, Debug, Default)]
pub struct LockCancelHandle(Arc<Cancel>);

#[derive(Debug, Default)]
struct Cancel {
    cancelled: AtomicBool,
    /// The wait in progress; 0 for none.
    ticket: AtomicU64,
}

impl LockCancelHandle {
    /// A handle for a wait that is about to begin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the wait was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }
}

impl<D: Driver> Caller<D> {
    /// Requests a lock without waiting. `None`: the owner has the lock now. Otherwise the holder of
    /// the conflicting lock.
    pub async fn try_lock_range(&self, lock: &LockRequest) -> Result<Option<LockHolder>> {
        let reply = self.request_lock(lock, 0).await?;
        match (reply.outcome, reply.holder) {
            (LockOutcome::Granted, _) => Ok(None),
            (_, Some(holder)) => Ok(Some(holder)),
            _ => Err(misbehaved(lock)),
        }
    }

    /// Requests a lock and waits for it. Fails with [`Status::Interrupted`] when `cancel` ended the
    /// wait, and with [`Status::Deadlock`] when the holder waits for the caller.
    pub async fn lock_range(&self, lock: &LockRequest, cancel: &LockCancelHandle) -> Result<()> {
        loop {
            if cancel.is_cancelled() {
                return Err(interrupted(lock));
            }
            let ticket = self.engine().next_ticket.fetch_add(1, Ordering::Relaxed);
            cancel.0.ticket.store(ticket, Ordering::Release);
            let first = self.request_lock(lock, ticket).await;
            let outcome = match first {
                Ok(LockReply { outcome: LockOutcome::Waiting, .. }) => {
                    self.wait(lock, ticket, cancel).await
                }
                other => other.map(|reply| reply.outcome),
            };
            cancel.0.ticket.store(0, Ordering::Release);
            match outcome? {
                LockOutcome::Granted => return Ok(()),
                LockOutcome::NoSuchWait if !cancel.is_cancelled() => {}
                LockOutcome::NoSuchWait | LockOutcome::Cancelled => return Err(interrupted(lock)),
                _ => return Err(misbehaved(lock)),
            }
        }
    }

    /// Ends a lock wait of another thread. Does nothing if that wait has ended, and prevents it if
    /// it has not begun.
    pub async fn cancel_lock(&self, cancel: &LockCancelHandle) -> Result<()> {
        cancel.0.cancelled.store(true, Ordering::Release);
        match cancel.0.ticket.load(Ordering::Acquire) {
            0 => Ok(()),
            ticket => {
                self.repeatable("cancel a wait in", &PathRef::root(b""), LockCancel { ticket })
                    .send()
                    .await
            }
        }
    }

    /// The lock that would conflict with this one, if any.
    pub async fn test_lock(&self, lock: &LockRequest) -> Result<Option<LockHolder>> {
        self.repeatable(
            "test a lock of",
            &PathRef::file(lock.file),
            LockTest { lock: lock.clone() },
        )
        .send()
        .await
    }

    /// Unlocks a range of bytes.
    pub async fn unlock_range(&self, range: &LockRange) -> Result<()> {
        self.once(UNLOCK, &PathRef::file(range.file), Unlock { range: range.clone() })
            .send()
            .await?;
        self.engine().locks.remove(range);
        Ok(())
    }

    /// Notes that an owner has closed a file. Its locks are not reclaimed from a restarted server,
    /// and are removed by [`Caller::unlock_owners`] or a little later. Sends nothing.
    pub fn defer_unlock(&self, file: FileIndex, space: LockSpace, owner: u64) {
        if self.engine().is_ours() {
            self.engine().locks.set_unlock_pending((file, owner, space));
        }
    }

    /// Removes all locks of owners that have closed a file. If this fails, the service thread
    /// retries it.
    ///
    /// # Errors
    /// The first failure. The locks of the remaining owners are left to the service thread, too.
    pub async fn unlock_owners(&self, file: FileIndex, owners: &[(LockSpace, u64)]) -> Result<()> {
        let engine = self.engine();
        engine.check_process()?;
        owners
            .iter()
            .for_each(|(space, owner)| engine.locks.set_unlock_pending((file, *owner, *space)));
        for (space, owner) in owners {
            let unlocked =
                engine.send_pending_unlock((file, *owner, *space), engine.deadline()).await;
            unlocked.map_err(|error| error.during(UNLOCK, format!("file {file}")))?;
        }
        Ok(())
    }

    /// Whether an owner may have locked something of a file. Sends nothing.
    pub fn has_locks(&self, file: FileIndex, owner: u64) -> bool {
        self.engine().locks.has(file, owner)
    }

    async fn request_lock(&self, lock: &LockRequest, ticket: u64) -> Result<LockReply> {
        let (engine, at) = (self.engine(), PathRef::file(lock.file));
        let unlocked = engine.send_pending_unlock(owner_of(lock), engine.deadline()).await;
        unlocked.map_err(|error| error.during(LOCK, format!("file {}", lock.file)))?;
        let locks = &engine.locks;
        locks.begin(lock);
        let mut answer;
        loop {
            answer = self
                .once(LOCK, &at, LockSet { lock: lock.clone(), ticket })
                .send_with_epoch()
                .await;
            // Repeat if the lock was granted by an epoch that has ended: the client did not reclaim
            // it in the next epoch.
            if !matches!(&answer, Ok((reply, run)) if !self.take(lock, reply, *run)) {
                break;
            }
        }
        let refused = match &answer {
            Ok((reply, _)) => reply.outcome != LockOutcome::Granted,
            Err(error) => error.server().is_some() && !is_doubtful(error.status()),
        };
        locks.end(lock, refused);
        answer.map(|(reply, _)| reply)
    }

    /// Records a granted lock. False if it is already lost again.
    fn take(&self, lock: &LockRequest, reply: &LockReply, run: ServerEpoch) -> bool {
        reply.outcome != LockOutcome::Granted || self.engine().locks.add(run, lock)
    }

    /// Waits in bounded calls until the lock is granted, the wait is cancelled, or the server does
    /// not know the wait.
    async fn wait(
        &self,
        lock: &LockRequest,
        ticket: u64,
        cancel: &LockCancelHandle,
    ) -> Result<LockOutcome> {
        let _waits = WaitCount::one_more(&self.engine().lock_waits);
        let locks = &self.engine().locks;
        locks.begin(lock);
        let outcome = self.wait_slices(lock, ticket, cancel).await;
        let refused = outcome.as_ref().is_ok_and(|outcome| *outcome != LockOutcome::Granted)
            || outcome.as_ref().is_err_and(|error| error.status() == Status::Deadlock);
        locks.end(lock, refused);
        outcome
    }

    async fn wait_slices(
        &self,
        lock: &LockRequest,
        ticket: u64,
        cancel: &LockCancelHandle,
    ) -> Result<LockOutcome> {
        let engine = self.engine();
        // Shorter than one attempt, so that a missing reply means that the server is away.
        let slice =
            (engine.config.timeout / 5).as_millis().min(u128::from(LOCK_WAIT_MS_MAX)) as u32;
        loop {
            if cancel.is_cancelled() {
                // The cancel call of the handle may have reached the server before the wait did.
                self.repeatable(LOCK, &PathRef::file(lock.file), LockCancel { ticket })
                    .send()
                    .await?;
            }
            let crowded = engine.lock_waits.load(Ordering::Relaxed) > WAITS_ATTACHED_MAX;
            let call =
                LockAwait { lock: lock.clone(), ticket, wait_ms: if crowded { 0 } else { slice } };
            let (reply, run) =
                self.repeatable(LOCK, &PathRef::file(lock.file), call).send_with_epoch().await?;
            match reply.outcome {
                LockOutcome::Granted if !engine.locks.add(run, lock) => {
                    return Ok(LockOutcome::NoSuchWait);
                }
                LockOutcome::Waiting if crowded => engine.driver.sleep(POLL).await,
                LockOutcome::Waiting => {}
                outcome => return Ok(outcome),
            }
        }
    }
}

impl<D: Driver> Engine<D> {
    /// Sends the pending unlocks of closed owners, until one fails.
    pub(super) async fn send_pending_unlocks(self: &Arc<Self>, deadline: Duration) -> Result<()> {
        for owner in self.locks.pending_unlocks() {
            self.send_pending_unlock(owner, deadline).await?;
        }
        Ok(())
    }

    /// Sends the pending unlock of one owner, if any. After success no older unlock of the owner is
    /// in flight.
    async fn send_pending_unlock(
        self: &Arc<Self>,
        owner: LockOwner,
        deadline: Duration,
    ) -> Result<()> {
        if !self.locks.is_unlock_pending(owner) {
            return Ok(());
        }
        let one_at_a_time = self.unlock_queues.of(owner).acquire(&self.driver, deadline).await;
        let _one = one_at_a_time.map_err(|refused| self.queue_error(refused))?;
        if self.locks.is_unlock_pending(owner) {
            self.once(Unlock { range: whole_range(owner) }).until(deadline).send().await?;
            self.locks.remove(&whole_range(owner));
        }
        Ok(())
    }
}

/// Allows one unlock in flight for each owner.
#[derive(Debug)]
pub(super) struct UnlockQueues([Semaphore; UNLOCK_QUEUES]);

impl Default for UnlockQueues {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Semaphore::new(1)))
    }
}

impl UnlockQueues {
    fn of(&self, (file, owner, _): LockOwner) -> &Semaphore {
        let mixed = (file.0 ^ owner.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.0[(mixed >> 32) as usize % UNLOCK_QUEUES]
    }

    /// See [`Semaphore::wake_expired`].
    pub(super) fn wake_expired(&self) {
        self.0.iter().for_each(Semaphore::wake_expired);
    }
}

/// Counts a lock wait while it exists.
struct WaitCount<'a>(&'a AtomicU64);

impl<'a> WaitCount<'a> {
    fn one_more(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for WaitCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the failure leaves the outcome of the call unknown.
fn is_doubtful(status: Status) -> bool {
    matches!(
        status,
        Status::Unreachable | Status::ConnectionLost | Status::TryAgain | Status::Internal
    )
}

fn interrupted(lock: &LockRequest) -> Error {
    Error::new(Status::Interrupted, "the wait for the lock was cancelled")
        .during(LOCK, format!("file {}", lock.file))
}

fn misbehaved(lock: &LockRequest) -> Error {
    let why = "the metadata server sent an unexpected reply to a lock request";
    Error::new(Status::Malformed, why).during(LOCK, format!("file {}", lock.file))
}
