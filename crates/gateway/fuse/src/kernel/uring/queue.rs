//! The queues of one mount, their workers and their reserve entries.
//!
//! ```text
//!   kernel ── a worker of the queue waits ──> that worker (the one that replied last)
//!        +─── none waits ──> the reserve thread: registers another entry in place of this one, and
//!                            starts a worker, which owns the entry with the request from now on
//! ```
//!
//! The reserve thread does nothing else. Where more requests came at the same time than there were
//! entries, it makes the kernel scan the queue again ([`super::requeue`]).
#![allow(unsafe_code)]

use super::memory::EntryMemory;
use super::requeue::{QueueRescan, device_of};
use super::ring::{Ring, Waited};
use super::ring_entry::RingEntry;
use super::wire::{self, HEADER_BYTES};
use super::worker::{self, Begin};
use super::worker_ring::WorkerRing;
use crate::kernel::device::Device;
use crate::kernel::encode::Message;
use crate::kernel::interrupt::WATCH;
use crate::kernel::worker::Pool;
use rustix::io::Errno;
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// How long the registration of the queues may take. It waits for no other process.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// Reserve entries of a queue: the number of requests that may come before the reserve thread runs
/// and registers more. Read-ahead of a program sends 16 at the same time.
const RESERVE: usize = 32;

/// Requests without a pause that may have used up the reserve. It is less than the reserve,
/// since the kernel does not report requests that wait.
const BURST: usize = RESERVE / 4;
/// How often pending requests are checked for signals while there are none.
const WATCH_QUIET: Duration = Duration::from_secs(1);

/// See the module.
pub(in crate::kernel) struct Rings {
    pub(super) pool: Arc<Pool>,
    device: Arc<Device>,
    queues: u16,
    payload_bytes: usize,
    workers_max: usize,
    workers: AtomicUsize,
    full: AtomicBool,
    rescans: Vec<Arc<QueueRescan>>,
    /// The mount's device number. `None`: not known, with kernels before 6.16.
    mount: Option<u32>,
}

impl Rings {
    /// Registers each queue, after the reply to INIT. `Err`: the kernel continues with the device.
    pub(in crate::kernel) fn start(pool: &Arc<Pool>, queues: u16) -> io::Result<Arc<Self>> {
        let rings = Arc::new(Self {
            device: Arc::clone(pool.device()),
            queues,
            payload_bytes: pool.request_bytes_max(),
            workers_max: pool.options().workers_max,
            pool: Arc::clone(pool),
            workers: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            rescans: (0..queues).map(|_| Arc::default()).collect(),
            mount: pool.device().number().map(device_of),
        });
        let started = rings.register_all();
        if started.is_err() {
            // Otherwise all requests would wait for the missing queues.
            Ring::new(1).map(|mut ring| ring.decline(rings.fd()))?;
        }
        started?;
        let pool = Arc::clone(pool);
        // Without it a process that is killed at the wrong moment would wait for its reply.
        std::thread::Builder::new().name("fuse-ring-watch".into()).spawn(move || watch(&pool))?;
        Ok(rings)
    }

    fn register_all(self: &Arc<Self>) -> io::Result<()> {
        let (done, waiting) = mpsc::channel();
        for queue in 0..self.queues {
            let (rings, done) = (Arc::clone(self), done.clone());
            let stands_by = move || ReserveEntries::start(rings, queue, &done);
            std::thread::Builder::new().name(format!("fuse-queue-{queue}")).spawn(stands_by)?;
        }
        drop(done);
        all(&waiting, self.queues)
    }

    fn fd(&self) -> RawFd {
        self.device.fd().as_raw_fd()
    }

    /// The number of queues.
    pub(in crate::kernel) fn count(&self) -> u16 {
        self.queues
    }

    /// Threads that serve them.
    pub(in crate::kernel) fn workers(&self) -> usize {
        self.workers.load(Ordering::Relaxed)
    }

    /// A worker's ring and entry memory.
    pub(super) fn worker_ring(
        &self,
        ring: Ring,
        queue: u16,
        memory: &Arc<EntryMemory>,
    ) -> WorkerRing {
        WorkerRing::new(ring, Arc::clone(&self.device), Arc::clone(memory), queue)
    }

    /// Starts a worker that replies EINTR in place of one whose handler still runs, and takes over
    /// its entry. Whether it was started.
    pub(super) fn adopt(self: &Arc<Self>, slot: &Arc<RingEntry>, unique: u64) -> bool {
        self.spawn(slot.queue(), Begin::Adopt { slot: Arc::clone(slot), unique }).is_ok()
    }

    /// More requests may have come than there were entries: makes the kernel scan the queue again.
    pub(super) fn rescan(&self, queue: u16) {
        if let (Some(poke), Some(device)) = (self.rescans.get(usize::from(queue)), self.mount) {
            poke.begin(queue, device);
        }
    }

    /// Whether a request comes from such a scan.
    pub(super) fn is_rescan(&self, thread: u32) -> bool {
        self.rescans.iter().any(|poke| poke.is_by(thread))
    }

    /// Whether there may be another worker.
    fn more(&self) -> bool {
        let more = self.workers() < self.workers_max;
        if !more && !self.full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                workers = self.workers_max,
                "all workers are busy: further requests wait in the kernel"
            );
        }
        more
    }

    fn spawn(self: &Arc<Self>, queue: u16, begin: Begin) -> io::Result<()> {
        self.workers.fetch_add(1, Ordering::Relaxed);
        let count = Count(Arc::clone(self));
        std::thread::Builder::new()
            .name(format!("fuse-ring-{queue}"))
            .spawn(move || worker::run(&count.0, queue, begin))?;
        Ok(())
    }
}

/// The reserve entries of a queue, and their thread.
struct ReserveEntries {
    rings: Arc<Rings>,
    queue: u16,
    ring: Ring,
    /// Indexed by the tags of their commands.
    entries: Vec<Option<Arc<EntryMemory>>>,
}

impl ReserveEntries {
    /// The body of the thread.
    fn start(rings: Arc<Rings>, queue: u16, done: &Done) {
        let begun = Self::register(rings, queue);
        let (stands_by, result) = match begun {
            Ok(stands_by) => (Some(stands_by), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let _ = done.send(result);
        stands_by.into_iter().for_each(Self::run);
    }

    fn register(rings: Arc<Rings>, queue: u16) -> io::Result<Self> {
        // An entry is replaced before it is handed over, so there may be twice as many for a
        // moment.
        let ring = Ring::new(2 * RESERVE as u32)?;
        let mut this =
            Self { rings, queue, ring, entries: (0..2 * RESERVE).map(|_| None).collect() };
        for tag in 0..RESERVE {
            this.add(tag)?;
        }
        Ok(this)
    }

    /// Registers another entry.
    fn add(&mut self, tag: usize) -> io::Result<()> {
        let memory = Arc::new(EntryMemory::new(self.rings.payload_bytes)?);
        self.ring.register((self.rings.fd(), self.queue), &memory, tag as u64)?;
        self.entries[tag] = Some(memory);
        Ok(())
    }

    fn run(mut self) {
        let mut burst = 0;
        loop {
            match self.ring.wait(None) {
                Waited::Request(tag) => {
                    burst += 1;
                    self.hand_over(tag);
                    if self.ring.unhandled() == 0 {
                        if burst >= BURST {
                            self.rings.rescan(self.queue);
                        }
                        burst = 0;
                    }
                }
                Waited::Nothing => {}
                Waited::Failed(
                    _,
                    Errno::NOTCONN | Errno::NODEV | Errno::CONNABORTED | Errno::CANCELED,
                ) => {
                    return self.rings.pool.finish();
                }
                Waited::Failed(tag, error) => {
                    tracing::error!(
                        %error,
                        queue = self.queue,
                        tag,
                        "the kernel refused a ring entry: it is left out"
                    );
                    if self.entries.iter().all(Option::is_none) {
                        return;
                    }
                }
            }
        }
    }

    /// Hands an entry with a request to a new worker, and registers another entry in its place.
    fn hand_over(&mut self, tag: u64) {
        let Some(memory) =
            usize::try_from(tag).ok().and_then(|tag| self.entries.get_mut(tag)?.take())
        else {
            return;
        };
        let vacant = self.entries.iter().position(Option::is_none);
        if let Some(tag) = vacant.filter(|_| self.rings.more())
            && let Err(error) = self.add(tag)
        {
            tracing::warn!(
                %error,
                queue = self.queue,
                "registering a further entry of a queue failed"
            );
        }
        // The ring is created here: a worker without one could not reply with an error.
        let begun = Ring::disabled(1).and_then(|ring| {
            let begin = Begin::Serve { ring, memory: Arc::clone(&memory) };
            self.rings.spawn(self.queue, begin)
        });
        if let Err(error) = begun {
            tracing::warn!(
                %error,
                queue = self.queue,
                "starting another worker failed: a request fails with ENOMEM"
            );
            self.refuse(memory);
        }
    }

    /// Replies ENOMEM and keeps the entry.
    fn refuse(&mut self, memory: Arc<EntryMemory>) {
        let Some(tag) = self.entries.iter().position(Option::is_none) else { return };
        // SAFETY: its request was not handed over, so the memory belongs to this thread.
        let mut header: [u8; HEADER_BYTES] = unsafe { memory.header() };
        let Ok(commit_id) =
            wire::arrived(&header, memory.payload_bytes()).map(|arrived| arrived.commit_id)
        else {
            return;
        };
        let mut message = Message::new(commit_id, -Errno::NOMEM.raw_os_error());
        let Some(answer) = message.finish(0).first_chunk() else { return };
        wire::put_answer(&mut header, answer, 0);
        // SAFETY: as above.
        unsafe { memory.set_header(&header) };
        let committed = self.ring.commit((self.rings.fd(), self.queue), commit_id, tag as u64);
        self.entries[tag] = committed.is_ok().then_some(memory);
    }
}

/// Checks for signals that the kernel does not report, until the mount ends.
fn watch(pool: &Pool) {
    let mut waiting = HashSet::new();
    while !pool.wait_for(if waiting.is_empty() { WATCH_QUIET } else { WATCH }) {
        waiting = pool.interrupts().look_for_signals(&waiting);
    }
}

fn all(waiting: &Receiver<io::Result<()>>, expected: u16) -> io::Result<()> {
    for _ in 0..expected {
        waiting.recv_timeout(START_PATIENCE).map_err(|_| io::Error::from(Errno::TIMEDOUT))??;
    }
    Ok(())
}

/// Where a queue reports the result of its registration.
type Done = Sender<io::Result<()>>;

/// Counts a worker while it exists.
struct Count(Arc<Rings>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.workers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings")
            .field("queues", &self.count())
            .field("workers", &self.workers())
            .finish_non_exhaustive()
    }
}
