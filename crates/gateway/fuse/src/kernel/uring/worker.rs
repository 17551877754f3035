//! A worker: a thread with one entry of a queue.
//!
//! ```text
//!   made with a request ──+
//!                         v
//!   waits in its ring ──> handler, on this thread (may wait)
//!     ^                      |
//!     +── the reply, in the call that waits, or before it
//! ```
//!
//! 1. A request goes only to an entry whose worker waits. So a queue never waits for a worker that
//!    waits for a server, and no request is handed from one thread to another.
//! 2. A worker never ends while the kernel may give it a request, which would be lost. So workers
//!    stay once started. The kernel wakes the one that replied last, and unused workers release
//!    their memory.
//! 3. The handler works in copies of small data, and may reply before it returns. Large data (of a
//!    WRITE, and of a page that is read) is in the entry's memory: its reply waits until the
//!    handler has returned.
#![allow(unsafe_code)]

use super::memory::EntryMemory;
use super::queue::Rings;
use super::ring::{Ring, Waited};
use super::ring_entry::{AfterHandler, Answer, AnswerTime, RingEntry};
use super::wire;
use super::worker_ring::{self, WorkerRing};
use crate::kernel::abi::opcode;
use crate::kernel::channel::Channel;
use crate::kernel::encode::Message;
use crate::kernel::page_buffer::PageBuffer;
use crate::kernel::worker::{Abandonable, dispatch, refuse};
use crate::kernel::{Header, Operation, Request, SpaceStat};
use rustix::io::Errno;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// How long after a large request an idle worker releases its memory.
const QUIET: Duration = Duration::from_secs(2);
/// From this size on a request is large.
const LARGE_BYTES: usize = 64 << 10;

/// How a worker gets its entry.
#[allow(clippy::large_enum_variant, reason = "one for each start of a thread")]
pub(super) enum Begin {
    /// An entry from the queue's reserve, with a request in it.
    Serve { ring: Ring, memory: Arc<EntryMemory> },
    /// The entry of another worker, whose request is answered EINTR.
    Adopt { slot: Arc<RingEntry>, unique: u64 },
}

/// The body of the thread.
pub(super) fn run(rings: &Arc<Rings>, queue: u16, begin: Begin) {
    match begin {
        Begin::Serve { mut ring, memory } => {
            if let Err(error) = ring.enable() {
                // A ring that was created can normally be enabled.
                tracing::error!(%error, queue, "enabling a worker's ring failed: the mount ends");
                return rings.pool.finish();
            }
            worker_ring::enter(rings.worker_ring(ring, queue, &memory));
            worker_ring::with(WorkerRing::take);
            let mut worker = Worker::new(rings, queue, memory);
            if let NextStep::Wait = worker.serve() {
                worker.run();
            }
        }
        Begin::Adopt { slot, unique } => {
            if let Some(memory) = adopt(rings, &slot, unique) {
                Worker::new(rings, queue, memory).run();
            }
        }
    }
    worker_ring::leave();
}

fn adopt(rings: &Arc<Rings>, slot: &Arc<RingEntry>, unique: u64) -> Option<Arc<EntryMemory>> {
    let Ok(ring) = Ring::new(1) else {
        slot.give_up(unique);
        return None;
    };
    let memory = slot.take_over(unique)?;
    worker_ring::enter(rings.worker_ring(ring, slot.queue(), &memory));
    let refused = Message::new(unique, -Errno::INTR.raw_os_error());
    let _ = worker_ring::with(|ring| ring.adopt(refused, unique));
    Some(memory)
}

struct Worker {
    rings: Arc<Rings>,
    queue: u16,
    memory: Arc<EntryMemory>,
    slot: Arc<RingEntry>,
    input: PageBuffer,
    scratch: PageBuffer,
    large: bool,
}

/// What a worker does next.
enum NextStep {
    /// It waits for a request.
    Wait,
    /// It ends.
    End,
}

impl Worker {
    fn new(rings: &Arc<Rings>, queue: u16, memory: Arc<EntryMemory>) -> Self {
        let slot = RingEntry::new(rings, queue, Arc::clone(&memory));
        let [input, scratch] = [0, 1].map(|_| PageBuffer::new(memory.payload_bytes()));
        Self { rings: Arc::clone(rings), queue, memory, slot, input, scratch, large: false }
    }

    fn run(mut self) {
        loop {
            let time = self.large.then_some(QUIET);
            let Some(waited) = worker_ring::with(|ring| ring.wait(time)) else { return };
            match waited {
                Waited::Request(_) => {}
                Waited::Nothing => {
                    self.release();
                    continue;
                }
                Waited::Failed(
                    _,
                    Errno::NOTCONN | Errno::NODEV | Errno::CONNABORTED | Errno::CANCELED,
                ) => {
                    return self.rings.pool.finish();
                }
                Waited::Failed(_, error) => {
                    // The request is lost with its entry.
                    tracing::error!(
                        %error,
                        queue = self.queue,
                        "the kernel refused a ring entry: another one is registered"
                    );
                    if worker_ring::with(WorkerRing::register)
                        .is_none_or(|registered| registered.is_err())
                    {
                        return;
                    }
                    continue;
                }
            }
            if let NextStep::End = self.serve() {
                return;
            }
        }
    }

    /// Releases the memory of a large request.
    fn release(&mut self) {
        self.large = false;
        worker_ring::with(WorkerRing::release);
        for pages in [&mut self.input, &mut self.scratch] {
            *pages = PageBuffer::new(self.memory.payload_bytes());
        }
    }

    fn serve(&mut self) -> NextStep {
        let Some(header) = worker_ring::with(|ring| *ring.header()) else { return NextStep::End };
        let payload_max = self.memory.payload_bytes();
        let arrived = match wire::arrived(&header, payload_max) {
            Ok(arrived) => arrived,
            Err(error) => {
                tracing::error!(%error, "parsing a request of the kernel failed: the mount ends");
                self.rings.pool.finish();
                return NextStep::End;
            }
        };
        worker_ring::with(|ring| ring.serves(arrived.commit_id));
        self.large |= arrived.payload_bytes >= LARGE_BYTES;
        // SAFETY: it has a request, so it belongs to this thread until the reply.
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
        match Request::parse_pieces(pieces, pool.protocol_options()) {
            _ if code == opcode::NOTIFY_REPLY => {
                // Nothing here requests it; over a ring it needs a reply all the same.
                self.slot.begin(arrived.commit_id, AnswerTime::Afterwards);
                let _ = self.slot.answer(Message::new(arrived.commit_id, 0), &[]);
            }
            Ok(Request { operation: Operation::StatFs, header, .. })
                if self.rings.is_rescan(header.pid) =>
            {
                self.slot.begin(header.unique, AnswerTime::Now);
                let mut message = Message::new(header.unique, 0);
                message.space(&SpaceStat::default());
                let _ = self.slot.answer(message, &[]);
                if worker_ring::with(WorkerRing::has_next) == Some(true) {
                    self.rings.rescan(self.queue);
                }
            }
            Ok(request) => {
                let page = matches!(request.operation, Operation::Read { lock_owner: None, .. });
                self.large |= matches!(
                    request.operation,
                    Operation::Read { size, .. } if size as usize >= LARGE_BYTES
                );
                let when = if page || in_place { AnswerTime::Afterwards } else { AnswerTime::Now };
                self.slot.begin(request.header.unique, when);
                let scratch = if page {
                    // SAFETY: a READ has no payload to which a reference exists above. No thread
                    // replies before the handler has returned (`AnswerTime::Afterwards`, and it is
                    // not abandoned), and the kernel writes only after the reply.
                    unsafe { self.memory.payload_mut() }
                } else {
                    self.scratch.bytes()
                };
                let deserting =
                    if page { Abandonable::Never } else { Abandonable::IfNothingChanges };
                let served = catch_unwind(AssertUnwindSafe(|| {
                    dispatch(pool, &channel, request, scratch, deserting)
                }));
                if served.is_err() {
                    tracing::error!("a handler panicked: its request failed, the worker continues");
                }
            }
            Err(error) => {
                let (header, bytes) =
                    (Header::of_pieces(pieces), pieces.map(<[u8]>::len).iter().sum());
                self.slot.begin(arrived.commit_id, AnswerTime::Now);
                refuse(pool, &channel, header, bytes, error);
                self.slot.give_up(arrived.commit_id);
            }
        }
        match self.slot.finish() {
            AfterHandler::Committed => NextStep::Wait,
            AfterHandler::Answer(answer) => self.prepare(answer),
            AfterHandler::Adopted => NextStep::End,
        }
    }

    fn prepare(&self, answer: Answer) -> NextStep {
        match worker_ring::with(|ring| ring.prepare(answer)) {
            Some(Ok(()) | Err(Errno::INVAL)) => NextStep::Wait,
            _ => NextStep::End,
        }
    }
}

/// Whether this process can create rings, checked before the kernel is promised some.
pub(super) fn probe() -> io::Result<()> {
    Ring::new(1).map(drop)
}
