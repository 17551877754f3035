//! Blocking locks: a client whose LOCK of type READW or WRITEW was denied is called back when the
//! lock is granted. RFC 8881 9.6, 18.10.3 and 20.11.
//!
//! ```text
//!   LOCK(WRITEW) ─> DENIED, and a wait in the queue of the metadata server
//!                      │ granted to the owner
//!                      v
//!   CB_NOTIFY_LOCK ─> client ─> LOCK(WRITEW) ─> the owner has it: OK
//!                      └─ no LOCK in HELD_MAX: unlocked
//! ```
//!
//! The lock is held for the client from the grant on. A mere message that it is free would let
//! waiters of mounts, which stand in the same queue, take it first each time: a client behind a
//! gateway might never get it. ADR 0039 has the alternatives.
//!
//! Invariants:
//! 1. A wait ends: [`WANTED_MAX`] after the client's last request for the lock, [`HELD_MAX`] after
//!    the grant, with the open (CLOSE), the lock state (FREE_STATEID), another LOCK or LOCKU of the
//!    owner in the range, or the client.
//! 2. What was granted and not claimed is unlocked before a request that ends the wait goes on.
//! 3. A wait's range overlaps nothing that its owner has locked, so that unlocking it takes nothing
//!    else. An owner that wants more of what it has (an upgrade) is served by a poll instead.
//!
//! [`WANTED_MAX`]: crate::state::lock_waits::WANTED_MAX

use std::sync::Arc;
use std::time::Duration;

use braid_nfs_wire::nfs4::args::LockArgs;
use braid_nfs_wire::nfs4::callback::{CallbackArgOp, NotifyLockArgs};
use braid_nfs_wire::nfs4::{LockType, NfsResult, NfsStatus, OpenResultFlags, StateOwner};
use braid_share::{FileIndex, Lock, Share, ShareClient};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::compound::CompoundState;
use crate::export::Node;
use crate::ops::filehandle::handle_of;
use crate::ops::stateid::FileOf;
use crate::server::{Client, NfsServer};
use crate::state::client_state::ClientState;
use crate::state::lock_waits::{Fate, LockWait};
use crate::state::opens::{LockState, LockUse};

/// Waits of all clients of a gateway: about 2 KiB each, and a call at the metadata server, which
/// has a limit of its own (16,384).
pub const WAITS_SERVER_MAX: usize = 4096;
/// How long a lock is held for a client after the grant: a callback, its reply, and a LOCK. If the
/// process that wanted the lock was interrupted, others wait for this time at most.
pub const HELD_MAX: Duration = Duration::from_secs(3);
/// How often the server asks whether a lock is free that has no place in the queue.
const POLL: Duration = Duration::from_secs(1);

/// What OPEN says of CB_NOTIFY_LOCK. A client that expects it polls once in 30 s only, so a client
/// without a back channel must not expect it.
pub fn open_flags<S: Share>(state: &CompoundState<'_, S>) -> OpenResultFlags {
    // RFC 8881 18.16.3.
    let up = state.client().is_ok_and(|client| state.server.can_call_client(client.id()));
    if up { OpenResultFlags::MAY_NOTIFY_LOCK } else { OpenResultFlags::default() }
}

/// Begins or renews a wait for a lock that was denied, if the client wants to wait. Called with the
/// lock state's `change` locked.
///
/// # Errors
/// `NOFILEHANDLE`, `OP_NOT_IN_SESSION`.
pub async fn denied<S: Share>(
    state: &CompoundState<'_, S>,
    args: &LockArgs,
    held: &LockUse<'_, FileOf<S>>,
    lock: Lock,
) -> NfsResult<()> {
    if !matches!(args.lock_type, LockType::ReadWaiting | LockType::WriteWaiting) {
        return Ok(());
    }
    let (server, client) = (state.server, state.client()?);
    let (file, client_state) = (held.open.file.file, state.client_state()?);
    let handle = handle_of(server, &Node::File(state.file(NfsStatus::IsDir)?.clone()));
    let waits = &client_state.lock_waits;
    if let Some(wait) = waits.find(file, &lock) {
        if wait.renew(Instant::now()) {
            return Ok(());
        }
        wait.decide(Fate::Unwanted);
        wait.ended().await;
    }
    // Without a permit the client polls.
    let Ok(permit) = Arc::clone(&server.lock_waits).try_acquire_owned() else { return Ok(()) };
    let Some(wait) = waits.begin(file, lock) else { return Ok(()) };
    let owner = StateOwner { client_id: client.id(), owner: held.owner.clone() };
    let task = Task {
        server: Arc::clone(server),
        client: Arc::clone(client),
        wait,
        notice: CallbackArgOp::NotifyLock(NotifyLockArgs { handle, owner }),
        // Invariant 3.
        polls: held.overlaps(lock.start, lock.last),
        _permit: permit,
    };
    tokio::spawn(task.run(held.for_task()));
    Ok(())
}

/// Ends waits of an owner that overlap the range of a LOCK or LOCKU, other than the wait `except`.
/// Called with the lock state's `change` locked.
pub async fn displace<S: Share>(
    client: &ClientState<S>,
    file: FileIndex,
    lock: &Lock,
    except: Option<&Lock>,
) {
    for wait in client.lock_waits.overlapping(file, lock) {
        if Some(&wait.lock) != except {
            wait.decide(Fate::Displaced);
            wait.ended().await;
        }
    }
}

/// Ends the wait for a lock that a LOCK was granted. Called with the lock state's `change` locked.
pub async fn claim<S: Share>(client: &ClientState<S>, file: FileIndex, lock: &Lock) {
    if let Some(wait) = client.lock_waits.find(file, lock) {
        wait.decide(Fate::Claimed);
        wait.ended().await;
    }
}

/// Ends all waits of a lock state, which is freed or closed.
pub async fn end_all<S: Share>(client: &ClientState<S>, state: &LockState<FileOf<S>>) {
    let all = Lock { owner: state.number, start: 0, last: u64::MAX, exclusive: true };
    let waits = client.lock_waits.overlapping(state.open.file.file, &all);
    for wait in &waits {
        wait.decide(Fate::Unwanted);
    }
    for wait in waits {
        wait.ended().await;
    }
}

/// The task of one wait.
struct Task<S: Share> {
    server: Arc<NfsServer<S>>,
    client: Arc<Client<S>>,
    wait: Arc<LockWait>,
    notice: CallbackArgOp,
    polls: bool,
    _permit: OwnedSemaphorePermit,
}

impl<S: Share> Drop for Task<S> {
    fn drop(&mut self) {
        // Requests that end the wait must not wait for a task that is gone.
        self.wait.end();
        if let Some(state) = self.client.data() {
            state.lock_waits.remove(&self.wait);
        }
    }
}

impl<S: Share> Task<S> {
    async fn run(self, lock_state: Arc<LockState<FileOf<S>>>) {
        // The client is confirmed, since it has a session.
        let Some(state) = self.client.data() else { return };
        let held = state.states.used_by_task(lock_state);
        let fate = match self.polls {
            true => self.poll(state).await,
            false => self.wait_in_queue(state, &held).await,
        };
        drop(held);
        state.lock_waits.remove(&self.wait);
        self.wait.end();
        if fate == Some(Fate::Displaced) {
            self.notify(Instant::now() + HELD_MAX).await;
        }
    }

    /// Waits in the queue of the metadata server. Returns what a request decided.
    async fn wait_in_queue(
        &self,
        state: &ClientState<S>,
        held: &LockState<FileOf<S>>,
    ) -> Option<Fate> {
        let (file, lock) = (self.wait.file, self.wait.lock);
        let waiting = state.share.lock_wait(file, lock, &self.wait.cancel);
        let mut waiting = std::pin::pin!(waiting);
        let fate;
        let granted = tokio::select! {
            granted = &mut waiting => {
                fate = None;
                granted
            }
            decided = self.decided_or_abandoned() => {
                fate = decided;
                // If it fails, the wait itself repeats it.
                let _ = state.share.cancel_lock(&self.wait.cancel).await;
                // It may have been granted meanwhile, so its result must be seen.
                waiting.await
            }
        };
        match granted {
            Ok(()) => {
                self.wait.set_over();
                self.hold(state, held, fate).await
            }
            Err(_) if fate.is_some() || self.wait.cancel.is_cancelled() => fate,
            // The queue is full, or waiting would be a deadlock.
            Err(error) => {
                tracing::debug!(%error, "a wait for a lock has no place in the queue");
                self.poll(state).await
            }
        }
    }

    /// `None`: the client did not ask for too long.
    async fn decided_or_abandoned(&self) -> Option<Fate> {
        tokio::select! {
            fate = self.wait.fate() => Some(fate),
            () = self.wait.abandoned() => None,
        }
    }

    /// Holds a granted lock until the client claims it, for [`HELD_MAX`] at most. Without a client
    /// that wants it, it is unlocked.
    async fn hold(
        &self,
        state: &ClientState<S>,
        held: &LockState<FileOf<S>>,
        fate: Option<Fate>,
    ) -> Option<Fate> {
        let is_wanted = fate.is_none() && !self.wait.cancel.is_cancelled();
        let until = Instant::now() + if is_wanted { HELD_MAX } else { Duration::ZERO };
        let unclaimed = async {
            if is_wanted && self.notify(until).await {
                sleep_until(until).await;
            }
            // While this is locked, no LOCK takes the lock.
            held.change.lock().await
        };
        let (fate, _change) = tokio::select! {
            biased;
            fate = self.wait.fate() => (Some(fate), None),
            change = unclaimed => (None, Some(change)),
        };
        if fate != Some(Fate::Claimed)
            && let Err(error) = state.share.unlock(self.wait.file, self.wait.lock).await
        {
            tracing::debug!(%error, "a lock that was held for a client is not released");
        }
        fate
    }

    /// Asks again and again whether the lock is free, and notifies the client then.
    async fn poll(&self, state: &ClientState<S>) -> Option<Fate> {
        let ended = self.decided_or_abandoned();
        let mut ended = std::pin::pin!(ended);
        loop {
            tokio::select! {
                fate = &mut ended => return fate,
                () = sleep(POLL) => {}
            }
            match state.share.test_lock(self.wait.file, self.wait.lock).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.wait.set_over();
                    break;
                }
                Err(_) => return None,
            }
        }
        tokio::select! {
            fate = &mut ended => fate,
            _ = self.notify(Instant::now() + HELD_MAX) => None,
        }
    }

    /// Notifies the client: whether it answered until `until`. RFC 8881 20.11.
    async fn notify(&self, until: Instant) -> bool {
        let called = self.server.call_client(self.client.id(), &self.notice);
        match timeout_at(until, called).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => {
                tracing::debug!(client = self.client.id().0, %error, "CB_NOTIFY_LOCK");
                false
            }
            Err(_) => false,
        }
    }
}
