//! Waits for locks. They have no time limit, so none may occupy a worker: with all workers waiting,
//! no thread would read the unlock that they wait for, or that their processes are killed. Each
//! wait has a thread of its own, and their number is bounded (I9). Trying first on the worker would
//! save the thread where the lock is free. But while a restarted metadata server grants no locks,
//! no signal would end such a try.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, mpsc::sync_channel},
    thread,
    time::{Duration, Instant},
};

use braid_vfs::{Error, FileHandle, Lock, LockSpace, LockWait, Vfs};
use rustix::io::Errno;

use super::{Answer, Done, FileSystem, errors::ErrnoReply};
use crate::kernel::{Header, Interrupt, SignalGuard};

/// Waits for locks of one mount at most, as many as there may be workers. Further ones fail with
/// ENOLCK.
pub(super) const WAITS_MAX: usize = 1024;
/// The stack of a thread that makes one call.
const STACK_BYTES: usize = 512 << 10;
/// How often it is logged that there are too many.
const LOG_AGAIN: Duration = Duration::from_secs(10);

/// The waits for locks of one mount.
#[derive(Debug)]
pub(super) struct LockWaits {
    waits_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The mount has ended.
    ended: bool,
    next: u64,
    waits: HashMap<u64, LockWait>,
    logged: Option<Instant>,
}

/// One wait, while it lasts.
#[derive(Debug)]
struct LockWaitPermit {
    waits: Arc<LockWaits>,
    number: u64,
    wait: LockWait,
}

impl FileSystem {
    /// Replies when the lock is granted, or when the process got a signal.
    pub(super) fn wait_for_lock(
        &self,
        header: &Header,
        (handle, space, lock): (FileHandle, LockSpace, Lock),
        interrupt: &Interrupt,
        answer: Answer<'_>,
    ) -> Done {
        let place = self.lock_waits.begin().ok_or(Errno::NOLCK)?;
        let (vfs, report, header) = (Arc::clone(&self.vfs), Arc::clone(&self.report), *header);
        let (interrupt, guard) = (interrupt.clone(), self.ends_with(interrupt, &place.wait));
        // Through a channel: if no thread can be started, the reply is still here.
        let (give, taken) = sync_channel(1);
        let waits = move || {
            let done = match interrupt.signalled() {
                true => Err(Error::Interrupted),
                false => vfs.lock(handle, space, &lock, &place.wait),
            };
            drop((guard, place));
            let Ok(reply) = taken.recv() else { return };
            let mut reply = Some(reply);
            let done = done.map_err(|error| match error {
                // The kernel expects EINTR only after a signal.
                Error::Interrupted if !interrupt.signalled() => Errno::NOTCONN.into(),
                error => ErrnoReply::from(error),
            });
            report.refuse(&header, done.and_then(|()| Answer(&mut reply).ok()), reply);
        };
        thread::Builder::new()
            .name("fuse-lock".into())
            .stack_size(STACK_BYTES)
            .spawn(waits)
            .map_err(|error| {
                tracing::error!(%error, "starting a thread to wait for a lock failed");
                Errno::NOLCK
            })?;
        answer.with(|reply| drop(give.send(reply)))
    }

    /// Ends the wait when the process gets a signal. Another thread cancels it at the server: the
    /// thread that reports signals must not wait for a server.
    fn ends_with(&self, interrupt: &Interrupt, wait: &LockWait) -> SignalGuard {
        let (vfs, wait) = (Arc::clone(&self.vfs), wait.clone());
        interrupt.on_signal(move || end(&vfs, vec![wait.clone()]))
    }

    /// Ends all waits, and refuses further ones.
    pub(super) fn end_lock_waits(&self) {
        end(&self.vfs, self.lock_waits.end());
    }
}

fn end(vfs: &Arc<Vfs>, waits: Vec<LockWait>) {
    if waits.is_empty() {
        return;
    }
    let vfs = Arc::clone(vfs);
    // If the call fails, the server notices by itself that the wait has ended.
    let cancels = move || waits.iter().for_each(|wait| drop(vfs.cancel(wait)));
    if thread::Builder::new().name("fuse-unwait".into()).spawn(cancels).is_err() {
        tracing::error!("starting a thread to end the wait for a lock failed: the wait continues");
    }
}

impl LockWaits {
    pub(super) fn new(waits_max: usize) -> Arc<Self> {
        Arc::new(Self { waits_max, state: Mutex::default() })
    }

    /// How many waits there are.
    pub(super) fn count(&self) -> usize {
        self.state().waits.len()
    }

    /// Begins a wait, unless there are too many.
    fn begin(self: &Arc<Self>) -> Option<LockWaitPermit> {
        let mut state = self.state();
        if state.waits.len() >= self.waits_max {
            let now = Instant::now();
            if state.logged.is_none_or(|logged| now.duration_since(logged) >= LOG_AGAIN) {
                state.logged = Some(now);
                tracing::warn!(
                    waits = self.waits_max,
                    "too many waits for locks: further ones fail with ENOLCK"
                );
            }
            return None;
        }
        if state.ended {
            return None;
        }
        let (number, wait) = (state.next, LockWait::new());
        state.next += 1;
        state.waits.insert(number, wait.clone());
        Some(LockWaitPermit { waits: Arc::clone(self), number, wait })
    }

    /// The mount has ended: the waits that must be ended.
    fn end(&self) -> Vec<LockWait> {
        let mut state = self.state();
        state.ended = true;
        state.waits.values().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(braid_types::poisoned)
    }
}

impl Drop for LockWaitPermit {
    fn drop(&mut self) {
        self.waits.state().waits.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_bounded_and_none_begins_after_the_end_of_the_mount() {
        let waits = LockWaits::new(2);
        let (first, second) = (waits.begin().unwrap(), waits.begin().unwrap());
        assert!(waits.begin().is_none());
        drop(first);
        let third = waits.begin().unwrap();
        assert_eq!((waits.count(), waits.end().len()), (2, 2));
        drop((second, third));
        assert_eq!(waits.count(), 0);
        assert!(waits.begin().is_none());
    }
}
