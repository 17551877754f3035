//! The request in one ring entry, as the threads that may answer it see it.
//!
//! ```text
//!   Idle ── a request came ──> Serving
//!     Serving ── Reply on the worker's thread ──> Committed ──> Idle
//!     Serving ── Reply that must wait for the handler, or on another thread ──> Answered
//!       Answered ── the worker commits it ──> Idle
//!     Serving ── abandoned: another worker takes over the entry ──> Adopted: this worker ends
//! ```
//!
//! 1. Each request has one reply: the thread that replies has claimed it
//!    ([`crate::kernel::Interrupt`]).
//! 2. Only the worker's own thread, or the thread that adopts its entry, uses the entry's memory.

use super::memory::EntryMemory;
use super::queue::Rings;
use super::worker_ring;
use crate::kernel::encode::Message;
use rustix::io::Errno;
use std::fmt;
use std::io::IoSlice;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::ThreadId;

/// See the module.
pub(in crate::kernel) struct RingEntry {
    thread: ThreadId,
    queue: u16,
    memory: Arc<EntryMemory>,
    rings: Weak<Rings>,
    state: Mutex<State>,
    changed: Condvar,
}

/// When a reply is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerTime {
    /// In the call of [`crate::kernel::Reply`], so that it is ordered against notifications.
    Now,
    /// After the handler has returned: it works in the entry's memory.
    Afterwards,
}

#[allow(
    clippy::large_enum_variant,
    reason = "one for each entry, and a reply must not cost an allocation"
)]
enum State {
    Idle,
    Serving { unique: u64, when: AnswerTime },
    Answered(Answer),
    Committed,
    Adopted,
}

/// A reply that waits for its worker.
pub(super) struct Answer {
    pub(super) message: Message,
    pub(super) data: AnswerData,
}

pub(super) enum AnswerData {
    /// This number of bytes, in the payload already.
    InPlace(usize),
    Copied(Vec<u8>),
}

/// What a worker does after a handler has returned.
#[allow(clippy::large_enum_variant, reason = "moved once; a reply must not cost an allocation")]
pub(super) enum AfterHandler {
    /// Nothing: the kernel has the reply.
    Committed,
    /// It commits this reply.
    Answer(Answer),
    /// It ends: the entry belongs to another worker.
    Adopted,
}

impl RingEntry {
    /// The entry of this thread.
    pub(super) fn new(rings: &Arc<Rings>, queue: u16, memory: Arc<EntryMemory>) -> Arc<Self> {
        let (thread, rings) = (std::thread::current().id(), Arc::downgrade(rings));
        Arc::new(Self {
            thread,
            queue,
            memory,
            rings,
            state: Mutex::new(State::Idle),
            changed: Condvar::new(),
        })
    }

    /// A request came.
    pub(super) fn begin(&self, unique: u64, when: AnswerTime) {
        *self.state() = State::Serving { unique, when };
    }

    /// The handler has returned. Waits if its reply moved to another thread.
    pub(super) fn finish(&self) -> AfterHandler {
        let state = self.state();
        let serving = |state: &mut State| matches!(state, State::Serving { .. });
        let mut state =
            self.changed.wait_while(state, serving).unwrap_or_else(braid_types::poisoned);
        match std::mem::replace(&mut *state, State::Idle) {
            State::Answered(answer) => AfterHandler::Answer(answer),
            State::Adopted => AfterHandler::Adopted,
            State::Idle | State::Committed | State::Serving { .. } => AfterHandler::Committed,
        }
    }

    /// Sends the one reply.
    pub(in crate::kernel) fn answer(
        &self,
        message: Message,
        data: &[IoSlice<'_>],
    ) -> Result<(), Errno> {
        let mut state = self.state();
        let State::Serving { when, .. } = *state else { return Err(Errno::NOENT) };
        let own = std::thread::current().id() == self.thread;
        if own && when == AnswerTime::Now {
            *state = State::Committed;
            drop(state);
            return worker_ring::commit(message, data);
        }
        *state = State::Answered(Answer { message, data: self.to_answer(data) });
        drop(state);
        if !own {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// The data of a reply. Bytes that the handler put into the payload stay there.
    fn to_answer(&self, data: &[IoSlice<'_>]) -> AnswerData {
        match data {
            [one] if std::ptr::eq(one.as_ptr(), self.memory.payload_address()) => {
                AnswerData::InPlace(one.len())
            }
            many => {
                AnswerData::Copied(many.iter().flat_map(|slice| slice.iter().copied()).collect())
            }
        }
    }

    /// Makes another worker reply EINTR and take over the entry. If there is none, the reply waits
    /// for the handler.
    pub(in crate::kernel) fn answer_interrupted(self: &Arc<Self>, unique: u64) {
        let adopted = self.rings.upgrade().is_some_and(|rings| rings.adopt(self, unique));
        if !adopted {
            self.give_up(unique);
        }
    }

    /// The worker itself replies EINTR, after its handler has returned.
    pub(super) fn give_up(&self, unique: u64) {
        let mut state = self.state();
        if matches!(*state, State::Serving { unique: serving, .. } if serving == unique) {
            let message = Message::new(unique, -Errno::INTR.raw_os_error());
            *state = State::Answered(Answer { message, data: AnswerData::InPlace(0) });
            self.changed.notify_all();
        }
    }

    /// Takes the entry from its worker, if it still serves this request.
    pub(super) fn take_over(&self, unique: u64) -> Option<Arc<EntryMemory>> {
        let mut state = self.state();
        let right = matches!(*state, State::Serving { unique: serving, .. } if serving == unique);
        right.then(|| {
            *state = State::Adopted;
            self.changed.notify_all();
            Arc::clone(&self.memory)
        })
    }

    pub(super) fn queue(&self) -> u16 {
        self.queue
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(braid_types::poisoned)
    }
}

impl fmt::Debug for RingEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("queue", &self.queue).finish_non_exhaustive()
    }
}
