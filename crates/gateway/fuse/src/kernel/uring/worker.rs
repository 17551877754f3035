//! A thread with one entry of a queue.
//!
//! ```text
//!   waits in its ring ── a request ──> nobody else idle in this queue? have another worker made
//!     ^                                   | handler, on this thread (may wait)
//!     +── the answer, in the call that waits, or before it <──+
//! ```
//!
//! 1. A request is given to an entry whose worker waits, and to no other: a queue never waits for a worker that waits for a
//!    server, and there is no hand-over between threads.
//! 2. A worker never ends while the kernel may give it a request: one would be lost with it. So workers stay, once made;
//!    the kernel wakes the one that answered last, and those that nobody needs give their memory back.
//! 3. The handler works in copies of what is small, and may answer before it is done. What is large (the bytes of a WRITE and of a page
//!    that is read) lies in the entry's memory: its answer waits until the handler has returned.
#![allow(unsafe_code)]

use super::lane::{self, Lane};
use super::memory::EntryMemory;
use super::queue::{Done, Rings};
use super::ring::Waited;
use super::slot::{After, Answer, Slot, When};
use super::wire;
use crate::kernel::abi::opcode;
use crate::kernel::channel::Channel;
use crate::kernel::encode::Message;
use crate::kernel::pages::Pages;
use crate::kernel::worker::{Deserting, dispatch, refuse};
use crate::kernel::{Header, Operation, Request};
use rustix::io::Errno;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A worker that had a large request and then none for so long gives the memory back.
const QUIET: Duration = Duration::from_secs(2);
/// From this many bytes on a request is large.
const LARGE_BYTES: usize = 64 << 10;

/// How a worker gets its entry.
pub(super) enum Begin {
    /// A new one.
    Register {
        /// Of those that the mount begins with.
        done: Option<Done>,
    },
    /// Another worker's, whose request is answered EINTR.
    Adopt { slot: Arc<Slot>, unique: u64 },
}

impl Begin {
    /// The other one ends.
    pub(super) fn replaces_another(&self) -> bool {
        matches!(self, Self::Adopt { .. })
    }
}

/// The whole life of a thread.
pub(super) fn run(rings: &Arc<Rings>, queue: u16, begin: Begin) {
    let memory = match begin {
        Begin::Register { done } => register(rings, queue, done),
        Begin::Adopt { slot, unique } => adopt(rings, &slot, unique),
    };
    if let Some(memory) = memory {
        Worker::new(rings, queue, memory).run();
    }
    lane::leave();
}

fn register(rings: &Arc<Rings>, queue: u16, done: Option<Done>) -> Option<Arc<EntryMemory>> {
    let registered = rings.memory().and_then(|memory| {
        let mut lane = rings.lane(queue, &memory)?;
        lane.register()?;
        lane::enter(lane);
        Ok(memory)
    });
    let (memory, result) = match registered {
        Ok(memory) => (Some(memory), Ok(())),
        Err(error) => (None, Err(error)),
    };
    match (done, result) {
        (Some(done), result) => drop(done.send(result)),
        (None, Ok(())) => rings.poke(queue),
        (None, Err(error)) => tracing::warn!(%error, queue, "no ring for another worker"),
    }
    memory
}

fn adopt(rings: &Arc<Rings>, slot: &Arc<Slot>, unique: u64) -> Option<Arc<EntryMemory>> {
    let Ok(lane) = rings.lane_for(slot) else {
        slot.give_up(unique);
        return None;
    };
    let memory = slot.take_over(unique)?;
    lane::enter(lane);
    let refused = Message::new(unique, -Errno::INTR.raw_os_error());
    let _ = lane::with(|lane| lane.adopt(refused, unique));
    Some(memory)
}

struct Worker {
    rings: Arc<Rings>,
    queue: u16,
    memory: Arc<EntryMemory>,
    slot: Arc<Slot>,
    input: Pages,
    scratch: Pages,
    large: bool,
}

/// What the next turn does.
enum Turn {
    /// Waits for a request.
    Wait,
    /// Is the last one.
    End,
}

impl Worker {
    fn new(rings: &Arc<Rings>, queue: u16, memory: Arc<EntryMemory>) -> Self {
        let slot = Slot::new(rings, queue, Arc::clone(&memory));
        let [input, scratch] = [0, 1].map(|_| Pages::new(memory.payload_bytes()));
        Self { rings: Arc::clone(rings), queue, memory, slot, input, scratch, large: false }
    }

    fn run(mut self) {
        loop {
            let time = self.large.then_some(QUIET);
            let Some((waited, others)) = lane::with(|lane| lane.wait(time)) else { return };
            match waited {
                Waited::Request => {}
                Waited::Nothing => {
                    self.release();
                    continue;
                }
                Waited::Failed(Errno::NOTCONN | Errno::NODEV | Errno::CONNABORTED | Errno::CANCELED) => {
                    return self.rings.pool.finish();
                }
                Waited::Failed(error) => {
                    // The request that was to be answered is gone, and the entry with it.
                    tracing::error!(%error, queue = self.queue, "the kernel refused a ring's entry: it gets another one");
                    if lane::with(Lane::register).is_none_or(|registered| registered.is_err()) {
                        return;
                    }
                    continue;
                }
            }
            if others == 0 {
                self.rings.grow(self.queue);
            }
            if let Turn::End = self.serve() {
                return;
            }
        }
    }

    /// What a large request left behind.
    fn release(&mut self) {
        self.large = false;
        lane::with(Lane::release);
        for pages in [&mut self.input, &mut self.scratch] {
            *pages = Pages::new(self.memory.payload_bytes());
        }
    }

    fn serve(&mut self) -> Turn {
        let Some(header) = lane::with(|lane| *lane.header()) else { return Turn::End };
        let payload_max = self.memory.payload_bytes();
        let arrived = match wire::arrived(&header, payload_max) {
            Ok(arrived) => arrived,
            Err(error) => {
                tracing::error!(%error, "the kernel sent what is not understood: the mount ends");
                self.rings.pool.finish();
                return Turn::End;
            }
        };
        lane::with(|lane| lane.serves(arrived.commit_id));
        self.large |= arrived.payload_bytes >= LARGE_BYTES;
        // SAFETY: a request lies in it: it is this thread's until the answer.
        let payload = unsafe { self.memory.payload(arrived.payload_bytes) };
        let code = u32::from_ne_bytes([4, 5, 6, 7].map(|at: usize| header[at]));
        let in_place = code == opcode::WRITE;
        let rest = if in_place {
            payload
        } else {
            let copy = &mut self.input.bytes()[..payload.len()];
            copy.copy_from_slice(payload);
            &*copy
        };
        let channel = Channel::Ring(Arc::clone(&self.slot));
        let pieces = [arrived.header, arrived.fixed, rest];
        let pool = &self.rings.pool;
        match Request::parse_pieces(pieces, pool.dialect()) {
            _ if code == opcode::NOTIFY_REPLY => {
                // The answer to a poke.
                self.slot.begin(arrived.commit_id, When::Afterwards);
                let _ = self.slot.answer(Message::new(arrived.commit_id, 0), &[]);
            }
            Ok(request) => {
                let page = matches!(request.operation, Operation::Read { lock_owner: None, .. });
                self.large |= matches!(request.operation, Operation::Read { size, .. } if size as usize >= LARGE_BYTES);
                let when = if page || in_place { When::Afterwards } else { When::Now };
                self.slot.begin(request.header.unique, when);
                let scratch = if page {
                    // SAFETY: a READ has no payload that was lent out above, nobody may answer it before the handler has returned
                    // (`When::Afterwards`, and it is not deserted), and the kernel writes only after the answer.
                    unsafe { self.memory.payload_mut() }
                } else {
                    self.scratch.bytes()
                };
                let deserting = if page { Deserting::Never } else { Deserting::IfNothingChanges };
                let served = catch_unwind(AssertUnwindSafe(|| dispatch(pool, &channel, request, scratch, deserting)));
                if served.is_err() {
                    tracing::error!("a handler panicked: its request failed, the worker goes on");
                }
            }
            Err(error) => {
                let (header, bytes) = (Header::of_pieces(pieces), pieces.map(<[u8]>::len).iter().sum());
                self.slot.begin(arrived.commit_id, When::Now);
                refuse(pool, &channel, header, bytes, error);
                self.slot.give_up(arrived.commit_id);
            }
        }
        match self.slot.finish() {
            After::Committed => Turn::Wait,
            After::Answer(answer) => self.prepare(answer),
            After::Adopted => Turn::End,
        }
    }

    fn prepare(&self, answer: Answer) -> Turn {
        match lane::with(|lane| lane.prepare(answer)) {
            Some(Ok(()) | Err(Errno::INVAL)) => Turn::Wait,
            _ => Turn::End,
        }
    }
}

/// Whether rings can be had here, before anybody is promised that.
pub(super) fn probe() -> io::Result<()> {
    super::ring::Ring::new().map(drop)
}
