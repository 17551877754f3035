//! Threads that send write buffers because of their age.
//!
//! ```text
//!   a buffer begins ── no thread is free: start one ─┐
//!                                                    v
//!       ┌─ free ── one watches the oldest buffer ── it is old: the next one watches ──> sends ─┐
//!       └──────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Invariant: while a buffer waits a thread watches it, unless [`SENDERS_MAX`] buffers are being
//! sent. A buffer whose daemon is unresponsive takes as long as a call may take, and delays no
//! other.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Condvar, Mutex, Weak},
    thread,
    time::{Duration, Instant},
};

use braid_client::FileIndex;

use super::{
    FileData,
    write_coalescing::{BUFFER_AGE_MAX, WriteBuffers},
};
use crate::{mount_caches::MountCaches, mutex::lock};

/// Buffers that are sent at a time because of their age (I9).
const SENDERS_MAX: usize = 128;
/// How often an idle thread checks whether its mount still exists and whether another thread is
/// idle.
const IDLE: Duration = Duration::from_secs(1);
/// How long the bytes of a closed file stay buffered: one thread sends what several closes have
/// left.
const CLOSED_AGE: Duration = Duration::from_millis(100);
/// Files with buffered bytes: a close that finds more sends its bytes itself (I9).
const RUNS_MAX: usize = 16 << 10;
/// How late a buffer may be before one more thread sends. The time counts once for each thread that
/// is sending already, up to [`HELPERS_LATE`] of them.
const HELP_AFTER: Duration = Duration::from_millis(50);
const HELPERS_LATE: usize = 4;
/// A delay that shows that the daemons do not keep up: closes send their bytes
/// themselves.
const OVERDUE: Duration = Duration::from_secs(1);

/// The files with buffered bytes.
#[derive(Debug, Default)]
pub(super) struct BufferAges {
    state: Mutex<TimerState>,
    began: Condvar,
}

#[derive(Debug, Default)]
struct TimerState {
    /// All of them, and since when they have buffered bytes.
    since: HashMap<FileIndex, (Instant, Weak<FileData>)>,
    /// Those whose buffer waits, the oldest first.
    queue: BTreeSet<(Instant, FileIndex)>,
    /// Those whose buffer is being sent.
    sending: BTreeSet<(Instant, FileIndex)>,
    /// A thread waits until the oldest is old enough.
    watched: bool,
    threads: usize,
    /// Threads that send nothing now.
    free: usize,
}

impl TimerState {
    fn add(&mut self, since: Instant, data: &Arc<FileData>) {
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

    /// Takes the oldest buffer that waits: it is being sent from now on.
    fn take(&mut self) -> Option<Weak<FileData>> {
        let first = self.queue.pop_first()?;
        self.sending.insert(first);
        self.since.get(&first.1).map(|(_, data)| Weak::clone(data))
    }

    /// Whether buffers are sent in time: none is late by [`OVERDUE`].
    fn keeps_up(&self, now: Instant) -> bool {
        let oldest = [self.queue.first(), self.sending.first()].into_iter().flatten();
        let is_late = |(since, _): &(Instant, FileIndex)| *since + BUFFER_AGE_MAX + OVERDUE < now;
        self.since.len() < RUNS_MAX && !oldest.into_iter().any(is_late)
    }

    /// How much longer the oldest buffer waits because of threads that are sending. One thread
    /// sends what is due, one buffer after the other; the next one helps when the first does not
    /// keep up.
    fn wait_time(&self) -> Duration {
        HELP_AFTER * u32::try_from((self.threads - self.free).min(HELPERS_LATE)).unwrap_or(0)
    }
}

impl BufferAges {
    /// A file has buffered bytes from now on.
    pub(super) fn buffer_began(&self, data: &Arc<FileData>, caches: &Arc<MountCaches>) {
        let mut state = lock(&self.state);
        state.add(Instant::now(), data);
        if state.free == 0 {
            one_more(&mut state, &caches.buffers, Arc::downgrade(caches));
        }
        if !state.watched {
            self.began.notify_one();
        }
    }

    /// A file has no buffered bytes any more.
    pub(super) fn buffer_ended(&self, file: FileIndex) {
        lock(&self.state).remove(file);
    }

    /// Too much is buffered: the oldest buffers are sent now.
    pub(super) fn wake_all(&self) {
        // The lock orders this after the moment at which a thread decides to wait.
        drop(lock(&self.state));
        self.began.notify_all();
    }

    /// Whether a close may leave its bytes to these threads.
    pub(super) fn keeps_up(&self) -> bool {
        lock(&self.state).keeps_up(Instant::now())
    }

    /// The handle of a buffer is closed: it is sent within [`CLOSED_AGE`].
    pub(super) fn handle_closed(&self, file: FileIndex) {
        let mut state = lock(&self.state);
        let Some((since, data)) = state.since.get(&file) else { return };
        let waits = state.queue.contains(&(*since, file));
        let sooner = Instant::now()
            .checked_sub(BUFFER_AGE_MAX - CLOSED_AGE)
            .filter(|sooner| waits && sooner < since);
        if let (Some(sooner), Some(data)) = (sooner, data.upgrade()) {
            let is_first = state.queue.first().is_some_and(|(first, _)| sooner < *first);
            state.add(sooner, &data);
            if is_first {
                // The watching thread waits for a later one.
                self.began.notify_all();
            }
        }
    }

    /// All files with buffered bytes.
    pub(super) fn all(&self) -> Vec<Arc<FileData>> {
        lock(&self.state).since.values().filter_map(|(_, data)| data.upgrade()).collect()
    }

    /// Waits for a buffer that is old enough to be sent; the thread then counts as sending. `None`:
    /// there was none for a while. One thread at a time watches the oldest buffer, so that a buffer
    /// that is sent by its writer wakes no thread.
    fn old(&self, runs: &Arc<WriteBuffers>, caches: &Weak<MountCaches>) -> Option<Weak<FileData>> {
        let mut state = lock(&self.state);
        let until = Instant::now() + IDLE;
        loop {
            let now = Instant::now();
            let (watched, wait) = (state.watched, runs.age_max() + state.wait_time());
            let due = match state.queue.first() {
                Some((since, _)) if *since + wait <= now => {
                    let data = state.take();
                    state.free -= 1;
                    // Others may become due while this one is being sent.
                    if state.free == 0 && !state.queue.is_empty() {
                        one_more(&mut state, runs, Weak::clone(caches));
                    }
                    // A thread that watches already finds the next one without being woken.
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
            state = self.began.wait_timeout(state, left).unwrap_or_else(braid_types::poisoned).0;
            state.watched &= due.is_none();
        }
    }

    /// A thread has sent a buffer.
    fn sent(&self) {
        lock(&self.state).free += 1;
    }

    /// Whether a thread that found nothing to send ends: another is free, or the mount is gone.
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

/// Starts a thread, unless there are [`SENDERS_MAX`]. An idle thread does not keep the mount alive.
fn one_more(state: &mut TimerState, runs: &Arc<WriteBuffers>, caches: Weak<MountCaches>) {
    if state.threads >= SENDERS_MAX {
        return;
    }
    let runs = Arc::clone(runs);
    let begun = thread::Builder::new()
        .name("vfs-gather".into())
        .spawn(move || serve(&runs, &caches))
        .is_ok();
    state.threads += usize::from(begun);
    state.free += usize::from(begun);
}

fn serve(runs: &Arc<WriteBuffers>, caches: &Weak<MountCaches>) {
    loop {
        match runs.ages.old(runs, caches) {
            Some(data) => {
                if let (Some(data), Some(caches)) = (data.upgrade(), caches.upgrade()) {
                    // The handle that wrote the bytes reports the error.
                    let _ = caches.flush(&data);
                    // The handle that wrote them may be closed by now.
                    caches.forget_unused(data);
                }
                runs.ages.sent();
            }
            None if runs.ages.retires(caches.strong_count() == 0) => return,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consistency::Consistency;

    #[test]
    fn a_buffer_that_is_being_sent_for_too_long_counts_as_late() {
        let (mut state, data) =
            (TimerState::default(), Arc::new(FileData::new(FileIndex(7), Consistency::Posix)));
        let since = Instant::now();
        state.add(since, &data);
        let late = since + BUFFER_AGE_MAX + OVERDUE + Duration::from_millis(1);
        assert!(state.keeps_up(since + BUFFER_AGE_MAX) && !state.keeps_up(late));
        assert!(state.take().is_some() && state.take().is_none());
        assert!(
            state.keeps_up(since + BUFFER_AGE_MAX) && !state.keeps_up(late),
            "it is being sent for too long"
        );
        state.remove(FileIndex(7));
        assert!(state.keeps_up(late));
    }
}
