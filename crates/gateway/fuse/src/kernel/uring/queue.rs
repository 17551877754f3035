//! The queues of one mount and the workers that wait in them.

use super::lane::Lane;
use super::memory::EntryMemory;
use super::ring::Ring;
use super::slot::Slot;
use super::worker::{self, Begin};
use crate::kernel::abi::{ROOT, notify};
use crate::kernel::device::Device;
use crate::kernel::encode::Message;
use crate::kernel::worker::Pool;
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

/// How long the first workers may take to register; they wait for nobody.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// Entries of a queue in whose processor this process may not run: it cannot have the kernel look again there ([`Rings::poke`]).
const ENTRIES_ELSEWHERE: usize = 8;
/// Uniques of pokes: the kernel counts its own from 2.
const POKES_FROM: u64 = 1 << 62;

/// See the module.
pub(in crate::kernel) struct Rings {
    pub(super) pool: Arc<Pool>,
    device: Arc<Device>,
    payload_bytes: usize,
    workers_max: usize,
    queues: Vec<Queue>,
    workers: AtomicUsize,
    full: AtomicBool,
    pokes: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    /// Workers that wait for a request.
    idle: Arc<AtomicUsize>,
}

impl Rings {
    /// Registers workers for each queue, after INIT was answered. `Err`: the kernel goes on by the device.
    pub(in crate::kernel) fn start(pool: &Arc<Pool>, queues: u16) -> io::Result<Arc<Self>> {
        let device = Arc::clone(pool.device());
        let rings = Arc::new(Self {
            payload_bytes: pool.request_bytes_max(),
            workers_max: pool.options().workers_max.max(usize::from(queues)),
            pool: Arc::clone(pool),
            device,
            queues: (0..queues).map(|_| Queue::default()).collect(),
            workers: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            pokes: AtomicU64::new(POKES_FROM),
        });
        let started = rings.register_all();
        if started.is_err() {
            // Else all requests would wait for the queues that are missing.
            Ring::new().map(|mut ring| ring.decline(rings.device.fd().as_raw_fd()))?;
        }
        started.map(|()| rings)
    }

    fn register_all(self: &Arc<Self>) -> io::Result<()> {
        let (done, waiting) = mpsc::channel();
        let mut expected = 0;
        for queue in 0..self.count() {
            let entries = if on_processor(queue, || ()).is_some() { 1 } else { ENTRIES_ELSEWHERE };
            for _ in 0..entries {
                self.spawn(queue, Begin::Register { done: Some(done.clone()) })?;
                expected += 1;
            }
        }
        drop(done);
        all(&waiting, expected)
    }

    /// How many queues there are.
    pub(in crate::kernel) fn count(&self) -> u16 {
        u16::try_from(self.queues.len()).unwrap_or(u16::MAX)
    }

    /// Threads that serve them.
    pub(in crate::kernel) fn workers(&self) -> usize {
        self.workers.load(Ordering::Relaxed)
    }

    /// What a new worker of a queue begins with.
    pub(super) fn lane(&self, queue: u16, memory: &Arc<EntryMemory>) -> io::Result<Lane> {
        let idle = Arc::clone(&self.queues[usize::from(queue)].idle);
        Ok(Lane::new(Ring::new()?, Arc::clone(&self.device), Arc::clone(memory), (queue, idle)))
    }

    /// As `lane`, for the entry that another worker has.
    pub(super) fn lane_for(&self, slot: &Slot) -> io::Result<Lane> {
        self.lane(slot.queue(), slot.memory())
    }

    pub(super) fn memory(&self) -> io::Result<Arc<EntryMemory>> {
        EntryMemory::new(self.payload_bytes).map(Arc::new)
    }

    /// The last idle worker of a queue has a request: another one is needed before that is served.
    pub(super) fn grow(self: &Arc<Self>, queue: u16) {
        if let Err(error) = self.spawn(queue, Begin::Register { done: None }) {
            tracing::warn!(%error, queue, "no thread for another worker");
        }
    }

    /// Has a new worker answer EINTR in place of one whose handler goes on, and take its entry; whether it tries.
    pub(super) fn adopt(self: &Arc<Self>, slot: &Arc<Slot>, unique: u64) -> bool {
        self.spawn(slot.queue(), Begin::Adopt { slot: Arc::clone(slot), unique }).is_ok()
    }

    fn spawn(self: &Arc<Self>, queue: u16, begin: Begin) -> io::Result<()> {
        if self.workers.fetch_add(1, Ordering::Relaxed) >= self.workers_max && !begin.replaces_another() {
            self.workers.fetch_sub(1, Ordering::Relaxed);
            if !self.full.swap(true, Ordering::Relaxed) {
                tracing::warn!(workers = self.workers_max, "every worker is busy: requests wait in the kernel");
            }
            return Ok(());
        }
        let rings = Arc::clone(self);
        let spawned = std::thread::Builder::new().name(format!("fuse-ring-{queue}")).spawn(move || {
            let _count = Count(Arc::clone(&rings));
            worker::run(&rings, queue, begin);
        });
        if spawned.is_err() {
            self.workers.fetch_sub(1, Ordering::Relaxed);
        }
        spawned.map(drop)
    }

    /// Has the kernel give out what may wait in a queue. A request that comes while all entries are taken waits for
    /// an answer in one of them, also when a new entry was registered in the meantime (Linux 6.18). So after each
    /// registration the kernel is asked for nothing of the root (`FUSE_NOTIFY_RETRIEVE`), on the queue's
    /// processor: what it sends back takes the new entry, and answering that fetches the one that waits.
    pub(super) fn poke(&self, queue: u16) {
        let unique = self.pokes.fetch_add(2, Ordering::Relaxed);
        let mut message = Message::new(0, notify::RETRIEVE);
        message.u64(unique).u64(ROOT).u64(0).u32(0).u32(0);
        match on_processor(queue, || self.device.send(message)) {
            Some(Ok(()) | Err(Errno::NODEV | Errno::CONNABORTED | Errno::NOTCONN)) => {}
            // No program runs there, or this process must not.
            None => tracing::debug!(queue, "a queue's processor is not to be had"),
            Some(Err(error)) => tracing::warn!(%error, queue, "the kernel was not asked to look at a queue again"),
        }
    }
}

/// Runs something on a processor; `None`: this thread may not.
fn on_processor<R>(processor: u16, run: impl FnOnce() -> R) -> Option<R> {
    let mut there = CpuSet::new();
    if usize::from(processor) >= CpuSet::MAX_CPU {
        return None;
    }
    there.set(processor.into());
    let before = sched_getaffinity(None).ok()?;
    sched_setaffinity(None, &there).ok()?;
    let result = run();
    let _ = sched_setaffinity(None, &before);
    Some(result)
}

fn all(waiting: &Receiver<io::Result<()>>, expected: usize) -> io::Result<()> {
    for _ in 0..expected {
        waiting.recv_timeout(START_PATIENCE).map_err(|_| io::Error::from(Errno::TIMEDOUT))??;
    }
    Ok(())
}

/// Where a first worker says how its registration went.
pub(super) type Done = Sender<io::Result<()>>;

/// A thread that serves.
struct Count(Arc<Rings>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.workers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings").field("queues", &self.count()).field("workers", &self.workers()).finish_non_exhaustive()
    }
}
