//! Waits for locks. They last as long as somebody pleases, so none may hold a worker: with all of them waiting nobody would read the
//! unlock that they wait for, nor that their processes are killed. Each has a thread of its own, and there is a bound (I9). (To try first
//! on the worker saves the thread where the lock is free, but while a metadata server that restarted gives none no signal would end that.)

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc::sync_channel},
    thread,
    time::{Duration, Instant},
};

use braid_vfs::{Error, FileHandle, Lock, LockSpace, LockWait, Vfs};
use rustix::io::Errno;

use super::{Answer, Done, FileSystem, errors::Refusal};
use crate::kernel::{Header, Interrupt, SignalGuard};

/// Locks that are asked for with a wait, of one mount at most; who comes then is told that there are no locks. As many as there may be workers.
pub(super) const WAITS_MAX: usize = 1024;
/// A wait is one call.
const STACK_BYTES: usize = 512 << 10;
/// That there are too many is told once in this time.
const TOLD_AGAIN: Duration = Duration::from_secs(10);

/// Those that wait.
#[derive(Debug)]
pub(super) struct LockWaits {
    waits_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The mount is over.
    ended: bool,
    next: u64,
    waits: HashMap<u64, LockWait>,
    told: Option<Instant>,
}

/// One of them, while it lasts.
#[derive(Debug)]
struct Place {
    waits: Arc<LockWaits>,
    number: u64,
    wait: LockWait,
}

impl FileSystem {
    /// Answers when the lock is had, or when the process got a signal.
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
        // By a channel: without a thread the reply is still here.
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
                // The kernel takes EINTR for a signal only.
                Error::Interrupted if !interrupt.signalled() => Errno::NOTCONN.into(),
                error => Refusal::from(error),
            });
            report.refuse(&header, done.and_then(|()| Answer(&mut reply).ok()), reply);
        };
        thread::Builder::new()
            .name("fuse-lock".into())
            .stack_size(STACK_BYTES)
            .spawn(waits)
            .map_err(|error| {
                tracing::error!(%error, "no thread could be had to wait for a lock");
                Errno::NOLCK
            })?;
        answer.with(|reply| drop(give.send(reply)))
    }

    /// Has a signal to the process end its wait. The server is told on a thread of its own: who tells of signals must not
    /// wait for a server.
    fn ends_with(&self, interrupt: &Interrupt, wait: &LockWait) -> SignalGuard {
        let (vfs, wait) = (Arc::clone(&self.vfs), wait.clone());
        interrupt.on_signal(move || end(&vfs, vec![wait.clone()]))
    }

    /// Ends all waits, and those that come.
    pub(super) fn end_lock_waits(&self) {
        end(&self.vfs, self.lock_waits.end());
    }
}

fn end(vfs: &Arc<Vfs>, waits: Vec<LockWait>) {
    if waits.is_empty() {
        return;
    }
    let vfs = Arc::clone(vfs);
    // What the server is not told it finds out by itself.
    let tells = move || waits.iter().for_each(|wait| drop(vfs.cancel(wait)));
    if thread::Builder::new().name("fuse-unwait".into()).spawn(tells).is_err() {
        tracing::error!("no thread could be had to end the wait for a lock: it goes on");
    }
}

impl LockWaits {
    pub(super) fn new(waits_max: usize) -> Arc<Self> {
        Arc::new(Self { waits_max, state: Mutex::default() })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.state().waits.len()
    }

    /// One more, if there is room.
    fn begin(self: &Arc<Self>) -> Option<Place> {
        let mut state = self.state();
        if state.waits.len() >= self.waits_max {
            let now = Instant::now();
            if state.told.is_none_or(|told| now.duration_since(told) >= TOLD_AGAIN) {
                state.told = Some(now);
                tracing::warn!(
                    waits = self.waits_max,
                    "too many wait for locks: further ones are refused (ENOLCK)"
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
        Some(Place { waits: Arc::clone(self), number, wait })
    }

    /// The mount is over: those that are to be ended.
    fn end(&self) -> Vec<LockWait> {
        let mut state = self.state();
        state.ended = true;
        state.waits.values().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waits.state().waits.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_have_a_bound_and_none_begins_when_the_mount_is_over() {
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
