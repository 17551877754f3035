//! One connection to the metadata server that many threads call over at the same time.
//!
//! ```text
//!   send:     threads append frames to `out`; one of them sends until nothing is left
//!   receive:  the leader waits in recv and delivers each reply to its waiter; when it has its own
//!             answer, it wakes a waiter to lead next
//! ```
//!
//! Invariants:
//! 1. A single caller uses one send and one recv, and wakes no thread.
//! 2. While threads that are not sending wait for answers, exactly one of them is the leader or has
//!    been woken to become it.
//! 3. A call that timed out leaves its id behind, so that its late reply is recognized and dropped.
//!    It holds its credit until then.
//! 4. After an error every call gets that error immediately.
//!
//! `call` asserts the credits of 3. The leader is the thread that took `receiver`, of which there
//! is one (2). Which threads are woken (1), and when (4), cannot be seen from the state.

use std::{
    collections::HashMap,
    io::{self, ErrorKind, IoSlice},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use braid_types::IdHashBuilder;
use braid_wire::{FrameFlags, FrameHeader};

use super::connect::Connected;
use crate::{
    driver::{Answer, NetError},
    frames::{FrameBuffer, push_frame},
    transport::{Transport, Wait},
};

/// Bytes that one recv takes: some hundred small replies.
const RECEIVE_BYTES: usize = 32 * 1024;
/// A connection that many threads share; see the module.
#[derive(Debug)]
pub struct SharedConnection {
    server: String,
    transport: Transport,
    credits: usize,
    state: Mutex<CallTable>,
    /// Notified when a credit is returned.
    credit: Condvar,
}

#[derive(Debug)]
struct CallTable {
    next_id: u64,
    /// Calls in flight, at most as many as the credits.
    calls: HashMap<u64, CallState, IdHashBuilder>,
    out: Vec<u8>,
    /// Bytes of `out`, or their encryption, are not sent yet.
    has_unsent: bool,
    sending: bool,
    /// `None` while the leader uses it.
    receiver: Option<FrameBuffer>,
    broken: Option<NetError>,
}

#[derive(Debug)]
enum CallState {
    /// The thread waits, or will wait after sending.
    Waiting { op: u16, thread: Thread },
    /// The reply has arrived and was not taken yet.
    Answered(Answer),
    /// The caller gave up.
    Abandoned,
}

impl SharedConnection {
    pub(super) fn new(connected: Connected) -> Self {
        let Connected { server, transport, established } = connected;
        let state = CallTable {
            next_id: 1,
            calls: HashMap::default(),
            out: Vec::new(),
            has_unsent: false,
            sending: false,
            receiver: Some(FrameBuffer::new(RECEIVE_BYTES)),
            broken: None,
        };
        Self {
            server,
            transport,
            credits: established.credits as usize,
            state: Mutex::new(state),
            credit: Condvar::new(),
        }
    }

    /// One call; see [`crate::Driver::call`].
    pub(super) fn call(&self, op: u16, body: &[u8], deadline: Instant) -> Result<Answer, NetError> {
        let begin = Instant::now();
        let mut state = self.take_credit(begin, deadline)?;
        let id = state.next_id;
        state.next_id += 1;
        state.calls.insert(id, CallState::Waiting { op, thread: thread::current() });
        debug_assert!(state.calls.len() <= self.credits, "3: a call holds its credit");
        push_frame(&mut state.out, op, FrameFlags::REQUEST, id, body);
        state.has_unsent = true;
        self.wait(state, id, begin, deadline)
    }

    fn take_credit(
        &self,
        begin: Instant,
        deadline: Instant,
    ) -> Result<MutexGuard<'_, CallTable>, NetError> {
        let mut state = self.lock();
        loop {
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            if state.calls.len() < self.credits {
                return Ok(state);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.timed_out(begin));
            }
            state = self.credit.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends the collected frames, including those that others add meanwhile. Frames that are not
    /// sent by the deadline are left to the next thread.
    fn send<'a>(
        &'a self,
        mut state: MutexGuard<'a, CallTable>,
        deadline: Instant,
    ) -> MutexGuard<'a, CallTable> {
        state.sending = true;
        let mut outcome = Ok(());
        while state.has_unsent && outcome.is_ok() && state.broken.is_none() {
            state.has_unsent = false;
            let mut frames = std::mem::take(&mut state.out);
            drop(state);
            let sent;
            (sent, outcome) = self.send_some(&frames, Wait::Until(deadline));
            state = self.lock();
            frames.drain(..sent);
            frames.append(&mut state.out);
            state.out = frames;
            state.has_unsent |= outcome.is_err();
        }
        state.sending = false;
        match outcome {
            Err(error) if error.kind() == ErrorKind::TimedOut => wake(waiter(&state)),
            Err(error) => self.fail(&mut state, self.lost(&error)),
            Ok(()) => {}
        }
        state
    }

    /// How many bytes are sent for good, and the outcome.
    fn send_some(&self, frames: &[u8], wait: Wait) -> (usize, io::Result<()>) {
        let mut sent = 0;
        while sent < frames.len() {
            match self.transport.send(&[IoSlice::new(&frames[sent..])], false, wait) {
                Ok(bytes) => sent += bytes,
                Err(error) => return (sent, Err(error)),
            }
        }
        (sent, self.transport.flush(wait))
    }

    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, CallTable>,
        id: u64,
        begin: Instant,
        deadline: Instant,
    ) -> Result<Answer, NetError> {
        // Reading the clock costs as much as a table lookup. It is not read before something had to
        // be waited for.
        let mut now = Some(begin);
        loop {
            if let Some(CallState::Answered(_)) = state.calls.get(&id) {
                return self.take_answer(state, id);
            }
            if let Some(error) = state.broken.clone() {
                state.calls.remove(&id);
                return Err(error);
            }
            let left = deadline.saturating_duration_since(now.unwrap_or_else(Instant::now));
            if left.is_zero() {
                state.calls.insert(id, CallState::Abandoned);
                let next = next(&state);
                drop(state);
                wake(next);
                return Err(self.timed_out(begin));
            }
            if state.has_unsent && !state.sending {
                state = self.send(state, deadline);
                continue; // the answer may have arrived meanwhile
            }
            now = None;
            state = match state.receiver.take() {
                Some(receiver) => self.lead(state, receiver, deadline),
                None => {
                    drop(state);
                    thread::park_timeout(left);
                    self.lock()
                }
            };
        }
    }

    fn take_answer(
        &self,
        mut state: MutexGuard<'_, CallTable>,
        id: u64,
    ) -> Result<Answer, NetError> {
        let Some(CallState::Answered(answer)) = state.calls.remove(&id) else {
            // cannot happen: the caller has just seen it
            return Err(self.misbehaved("an answer was lost"));
        };
        let next = next(&state);
        let credit_is_back = state.calls.len() + 1 == self.credits;
        drop(state);
        wake(next);
        if credit_is_back {
            self.credit.notify_one();
        }
        Ok(answer)
    }

    /// Receives once and delivers what arrived.
    fn lead<'a>(
        &'a self,
        state: MutexGuard<'a, CallTable>,
        mut receiver: FrameBuffer,
        deadline: Instant,
    ) -> MutexGuard<'a, CallTable> {
        drop(state);
        let received = self.transport.recv_into(receiver.space(), Wait::Until(deadline));
        let mut state = self.lock();
        let mut wake = Vec::new();
        let outcome =
            match received {
                Ok(0) => Err(self
                    .lost(&io::Error::new(ErrorKind::UnexpectedEof, "it closed the connection"))),
                Ok(bytes) => {
                    receiver.filled(bytes);
                    self.deliver_replies(&mut state, &mut receiver, &mut wake)
                }
                Err(error) if error.kind() == ErrorKind::TimedOut => Ok(()),
                Err(error) => Err(self.lost(&error)),
            };
        state.receiver = Some(receiver);
        if let Err(error) = outcome {
            self.fail(&mut state, error);
        }
        if wake.is_empty() {
            return state;
        }
        drop(state);
        wake.iter().for_each(Thread::unpark);
        self.lock()
    }

    /// Gives each reply to its call. Adds to `wake` the threads to wake after the lock is released;
    /// woken under the lock, they would only wait for it.
    fn deliver_replies(
        &self,
        state: &mut CallTable,
        receiver: &mut FrameBuffer,
        wake: &mut Vec<Thread>,
    ) -> Result<(), NetError> {
        let me = thread::current().id();
        while let Some((header, body)) =
            receiver.frame().map_err(|error| self.misbehaved(&error.to_string()))?
        {
            let Some(waiting) = state.calls.get_mut(&header.request_id) else {
                return Err(self.misbehaved("it answered a call that was not made"));
            };
            match waiting {
                CallState::Waiting { op, thread } => {
                    self.check_reply(&header, *op)?;
                    let answered =
                        CallState::Answered(Answer { body: body.to_vec(), payload_bytes: 0 });
                    let for_other = thread.id() != me;
                    if let CallState::Waiting { thread, .. } = std::mem::replace(waiting, answered)
                        && for_other
                    {
                        wake.push(thread);
                    }
                }
                CallState::Abandoned => {
                    state.calls.remove(&header.request_id);
                    self.credit.notify_one();
                }
                CallState::Answered(_) => return Err(self.misbehaved("it answered a call twice")),
            }
        }
        Ok(())
    }

    fn check_reply(&self, header: &FrameHeader, op: u16) -> Result<(), NetError> {
        if header.flags != FrameFlags::FINAL || header.op != op || header.payload_bytes != 0 {
            return Err(self.misbehaved("its reply does not fit the call"));
        }
        Ok(())
    }

    /// Ends the connection for all present and later calls.
    fn fail(&self, state: &mut CallTable, error: NetError) {
        self.transport.shutdown();
        state.broken.get_or_insert(error);
        for waiting in state.calls.values() {
            if let CallState::Waiting { thread, .. } = waiting {
                thread.unpark();
            }
        }
        self.credit.notify_all();
    }

    fn timed_out(&self, begin: Instant) -> NetError {
        NetError::TimedOut {
            server: self.server.clone(),
            waited: begin.elapsed(),
            permit_wait: Duration::ZERO,
        }
    }

    fn lost(&self, error: &io::Error) -> NetError {
        NetError::ConnectionLost { server: self.server.clone(), why: error.to_string() }
    }

    fn misbehaved(&self, what: &str) -> NetError {
        NetError::PeerMisbehaved { server: self.server.clone(), what: what.to_string() }
    }

    fn lock(&self) -> MutexGuard<'_, CallTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that should lead next or send what is left, unless a thread already does.
fn next(state: &CallTable) -> Option<Thread> {
    let needed = state.receiver.is_some() || state.has_unsent && !state.sending;
    if needed { waiter(state) } else { None }
}

/// Another waiting thread.
fn waiter(state: &CallTable) -> Option<Thread> {
    let me = thread::current().id();
    state.calls.values().find_map(|waiting| match waiting {
        CallState::Waiting { thread, .. } if thread.id() != me => Some(thread.clone()),
        _ => None,
    })
}

fn wake(thread: Option<Thread>) {
    if let Some(thread) = thread {
        thread.unpark();
    }
}
