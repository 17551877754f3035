//! Threads that send what is gathered because of its age.
//!
//! ```text
//!   a run begins ── nobody is free: one more ─┐
//!                                             v
//!              ┌─ free ── one of them watches the oldest run ── it is old: the next one watches, or one more ─> sends ─┐
//!              └───────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Invariant: while a run waits somebody watches it, unless [`SENDERS_MAX`] runs are being sent: one whose daemon is gone takes as long as
//! a call may take, and holds up no other.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use braid_client::FileIndex;

use super::{
    Data,
    gather::{GATHER_AGE, Runs},
};
use crate::{files::lock, promise::Holder};

/// Runs that are sent at a time because of their age (I9).
const SENDERS_MAX: usize = 128;
/// A thread that has nothing to send looks so often whether its mount is still there, and whether another does what it does.
const IDLE: Duration = Duration::from_secs(1);

/// The files of which something is gathered.
#[derive(Debug, Default)]
pub(super) struct Ages {
    state: Mutex<State>,
    began: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Since when something is, and of what; `None`: it is being sent.
    since: HashMap<FileIndex, (Option<Instant>, Weak<Data>)>,
    /// A thread waits until the oldest is old enough.
    watched: bool,
    threads: usize,
    /// Those of them that send nothing now.
    free: usize,
}

impl State {
    fn waits(&self) -> bool {
        self.since.values().any(|(since, _)| since.is_some())
    }
}

impl Ages {
    /// Something is gathered of a file from now on, and is sent in time.
    pub(super) fn began(&self, data: &Arc<Data>, holder: &Arc<Holder>) {
        let mut state = lock(&self.state);
        state.since.insert(data.file, (Some(Instant::now()), Arc::downgrade(data)));
        if state.free == 0 {
            one_more(&mut state, &holder.runs, Arc::downgrade(holder));
        }
        if !state.watched {
            self.began.notify_one();
        }
    }

    /// Nothing of a file is.
    pub(super) fn ended(&self, file: FileIndex) {
        lock(&self.state).since.remove(&file);
    }

    pub(super) fn all(&self) -> Vec<Arc<Data>> {
        lock(&self.state).since.values().filter_map(|(_, data)| data.upgrade()).collect()
    }

    /// A run that is old enough to be sent, waited for; the thread is not free any more. `None` when there was nothing for a while.
    /// One thread at a time watches what there is: a run that begins and ends in time wakes nobody.
    fn old(&self, runs: &Arc<Runs>, holder: &Weak<Holder>) -> Option<Weak<Data>> {
        let mut state = lock(&self.state);
        let until = Instant::now() + IDLE;
        loop {
            let now = Instant::now();
            let watched = state.watched;
            let waiting = state.since.values_mut().filter(|(since, _)| since.is_some());
            let due = match waiting.min_by_key(|(since, _)| *since) {
                Some((since, data)) if since.is_some_and(|since| now >= since + GATHER_AGE) => {
                    *since = None;
                    let data = data.clone();
                    state.free -= 1;
                    // There may be more, while this one is on its way.
                    if state.free == 0 && state.waits() {
                        one_more(&mut state, runs, Weak::clone(holder));
                    }
                    self.began.notify_one();
                    return Some(data);
                }
                Some((since, _)) if !watched => since.map(|since| since + GATHER_AGE),
                _ => None,
            };
            let left = due.unwrap_or(until).saturating_duration_since(now);
            if left.is_zero() {
                return None;
            }
            state.watched |= due.is_some();
            state = self.began.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.watched &= due.is_none();
        }
    }

    /// A thread has sent a run.
    fn sent(&self) {
        lock(&self.state).free += 1;
    }

    /// Whether a thread that found nothing to send is to end: another is free, or the mount is gone.
    fn retires(&self, is_gone: bool) -> bool {
        let mut state = lock(&self.state);
        let retires = is_gone || state.free > 1;
        if retires {
            state.free -= 1;
            state.threads -= 1;
        }
        retires
    }
}

/// Begins a thread, if there may be one more. It does not keep the mount alive while it sends nothing.
fn one_more(state: &mut State, runs: &Arc<Runs>, holder: Weak<Holder>) {
    if state.threads >= SENDERS_MAX {
        return;
    }
    let runs = Arc::clone(runs);
    let begun = thread::Builder::new().name("vfs-gather".into()).spawn(move || serve(&runs, &holder)).is_ok();
    state.threads += usize::from(begun);
    state.free += usize::from(begun);
}

fn serve(runs: &Arc<Runs>, holder: &Weak<Holder>) {
    loop {
        match runs.ages.old(runs, holder) {
            Some(data) => {
                if let (Some(data), Some(holder)) = (data.upgrade(), holder.upgrade()) {
                    // Whoever wrote it is told.
                    let _ = holder.settle(&data);
                }
                runs.ages.sent();
            }
            None if runs.ages.retires(holder.strong_count() == 0) => return,
            None => {}
        }
    }
}
