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
    collections::{BTreeSet, HashMap},
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
/// How long the bytes of a closed file stay gathered: one thread sends what several closes have left.
const CLOSED_AGE: Duration = Duration::from_millis(100);
/// Files of which something is gathered: a close that finds more waits for its bytes (I9).
const RUNS_MAX: usize = 16 << 10;
/// How late a run may be before one more thread sends, for each that is sending already, up to [`HELPERS_LATE`] times.
const HELP_AFTER: Duration = Duration::from_millis(50);
const HELPERS_LATE: usize = 4;
/// A run that is so late shows that the daemons do not keep up, or are gone: closes wait for their bytes.
const OVERDUE: Duration = Duration::from_secs(1);

/// The files of which something is gathered.
#[derive(Debug, Default)]
pub(super) struct Ages {
    state: Mutex<State>,
    began: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Since when something is, and of what.
    since: HashMap<FileIndex, (Instant, Weak<Data>)>,
    /// Those that wait, the oldest first.
    queue: BTreeSet<(Instant, FileIndex)>,
    /// Those that are being sent.
    sending: BTreeSet<(Instant, FileIndex)>,
    /// A thread waits until the oldest is old enough.
    watched: bool,
    threads: usize,
    /// Those of them that send nothing now.
    free: usize,
}

impl State {
    fn add(&mut self, since: Instant, data: &Arc<Data>) {
        self.remove(data.file);
        self.since.insert(data.file, (since, Arc::downgrade(data)));
        self.queue.insert((since, data.file));
    }

    fn remove(&mut self, file: FileIndex) {
        if let Some((since, _)) = self.since.remove(&file) {
            self.queue.remove(&(since, file));
            self.sending.remove(&(since, file));
        }
    }

    /// The oldest run that waits is being sent from now on.
    fn take(&mut self) -> Option<Weak<Data>> {
        let first = self.queue.pop_first()?;
        self.sending.insert(first);
        self.since.get(&first.1).map(|(_, data)| Weak::clone(data))
    }

    /// Whether what is old enough is sent and gets there: no run is late by [`OVERDUE`].
    fn keeps_up(&self, now: Instant) -> bool {
        let oldest = [self.queue.first(), self.sending.first()].into_iter().flatten();
        let is_late = |(since, _): &(Instant, FileIndex)| *since + GATHER_AGE + OVERDUE < now;
        self.since.len() < RUNS_MAX && !oldest.into_iter().any(is_late)
    }

    /// How much longer the oldest run waits for each thread that is sending: one thread sends what is due, one after the other, and the
    /// next one helps when the first does not keep up.
    fn patience(&self) -> Duration {
        HELP_AFTER * u32::try_from((self.threads - self.free).min(HELPERS_LATE)).unwrap_or(0)
    }
}

impl Ages {
    /// Something is gathered of a file from now on, and is sent in time.
    pub(super) fn began(&self, data: &Arc<Data>, holder: &Arc<Holder>) {
        let mut state = lock(&self.state);
        state.add(Instant::now(), data);
        if state.free == 0 {
            one_more(&mut state, &holder.runs, Arc::downgrade(holder));
        }
        if !state.watched {
            self.began.notify_one();
        }
    }

    /// Nothing of a file is.
    pub(super) fn ended(&self, file: FileIndex) {
        lock(&self.state).remove(file);
    }

    /// More is gathered than is to be: what is oldest is sent now.
    pub(super) fn hurry(&self) {
        // Not between a thread's look and its wait.
        drop(lock(&self.state));
        self.began.notify_all();
    }

    /// Whether a close may leave its bytes to these threads.
    pub(super) fn keeps_up(&self) -> bool {
        lock(&self.state).keeps_up(Instant::now())
    }

    /// The handle of a run is closed: it is sent within [`CLOSED_AGE`].
    pub(super) fn closed(&self, file: FileIndex) {
        let mut state = lock(&self.state);
        let Some((since, data)) = state.since.get(&file) else { return };
        let waits = state.queue.contains(&(*since, file));
        let sooner = Instant::now()
            .checked_sub(GATHER_AGE - CLOSED_AGE)
            .filter(|sooner| waits && sooner < since);
        if let (Some(sooner), Some(data)) = (sooner, data.upgrade()) {
            let is_first = state.queue.first().is_some_and(|(first, _)| sooner < *first);
            state.add(sooner, &data);
            if is_first {
                // Whoever watches has waited for a later one.
                self.began.notify_all();
            }
        }
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
            let (watched, wait) = (state.watched, runs.age() + state.patience());
            let due = match state.queue.first() {
                Some((since, _)) if *since + wait <= now => {
                    let data = state.take();
                    state.free -= 1;
                    // There may be more, while this one is on its way.
                    if state.free == 0 && !state.queue.is_empty() {
                        one_more(&mut state, runs, Weak::clone(holder));
                    }
                    // Whoever watches already finds the next one by itself: a wake-up for each run is worth avoiding.
                    if !state.watched {
                        self.began.notify_one();
                    }
                    return data;
                }
                Some((since, _)) if !watched => Some(*since + wait),
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
    let begun = thread::Builder::new()
        .name("vfs-gather".into())
        .spawn(move || serve(&runs, &holder))
        .is_ok();
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
                    // The handle that wrote it may be gone with its bytes.
                    holder.forget_unused(data);
                }
                runs.ages.sent();
            }
            None if runs.ages.retires(holder.strong_count() == 0) => return,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consistency::Consistency;

    #[test]
    fn a_run_that_does_not_get_to_its_daemon_is_late_also_while_it_is_being_sent() {
        let (mut state, data) =
            (State::default(), Arc::new(Data::new(FileIndex(7), Consistency::Posix)));
        let since = Instant::now();
        state.add(since, &data);
        let late = since + GATHER_AGE + OVERDUE + Duration::from_millis(1);
        assert!(state.keeps_up(since + GATHER_AGE) && !state.keeps_up(late));
        assert!(state.take().is_some() && state.take().is_none());
        assert!(
            state.keeps_up(since + GATHER_AGE) && !state.keeps_up(late),
            "it is under way for too long"
        );
        state.remove(FileIndex(7));
        assert!(state.keeps_up(late));
    }
}
