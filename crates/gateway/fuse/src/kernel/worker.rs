//! The pool of threads that serve requests.
//!
//! ```text
//!   idle: blocked in read(2) of the device
//!     | a request
//!     v
//!   no other idle? start one first ── serve (may wait) ── more than the load needs? end : idle
//! ```
//!
//! 1. After a request was read and before it is served, another worker idles, or the limit is
//!    reached: the kernel's next request is read immediately, whatever the handler waits for.
//! 2. A worker ends only while another idles, and is not counted as idle then: the one that takes
//!    the next request sees that it was the last.
//! 3. Each worker owns its buffers until it ends: serving a request allocates no buffer.

use super::abi::{BUFFER_HEADER_BYTES, opcode};
use super::channel::Channel;
use super::clone::clone_device;
use super::device::Device;
use super::init::InitOutcome;
use super::interrupt::Interrupts;
use super::page_buffer::PageBuffer;
use super::worker_count::WorkerDemand;
use super::{Call, Forget, Handler, Header, Interrupt, Operation, ProtocolOptions, Reply, Request};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Workers at most. 1,024 requests that wait show a cluster in trouble; the next one waits in the
/// kernel.
pub const WORKERS_MAX: usize = 1024;

/// Options of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// The limit of threads.
    pub workers_max: usize,
    /// A descriptor of its own for each worker (`FUSE_DEV_IOC_CLONE`). Not faster on few cores
    /// (docs/adr/0010).
    pub clone_fd: bool,
}

impl Default for PoolOptions {
    /// As measured: docs/adr/0010.
    fn default() -> Self {
        Self { workers_max: WORKERS_MAX, clone_fd: false }
    }
}

/// What all workers of a mount share.
pub(super) struct Pool {
    device: Arc<Device>,
    handler: Arc<dyn Handler>,
    interrupts: Arc<Interrupts>,
    dialect: ProtocolOptions,
    request_bytes_max: usize,
    options: PoolOptions,
    began: Instant,
    demand: WorkerDemand,
    idle: AtomicUsize,
    workers: AtomicUsize,
    full: AtomicBool,
    ended: Mutex<bool>,
    end: Condvar,
}

impl Pool {
    pub(super) fn new(
        device: Arc<Device>,
        handler: Arc<dyn Handler>,
        agreed: &InitOutcome,
        options: PoolOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            device,
            handler,
            interrupts: Arc::default(),
            dialect: agreed.protocol_options(),
            request_bytes_max: usize::try_from(agreed.request_bytes_max).unwrap_or(usize::MAX),
            options,
            began: Instant::now(),
            demand: WorkerDemand::default(),
            idle: AtomicUsize::new(0),
            workers: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            ended: Mutex::new(false),
            end: Condvar::new(),
        })
    }

    /// Pending requests of both transports.
    pub(super) fn interrupts(&self) -> &Arc<Interrupts> {
        &self.interrupts
    }

    /// Starts the first worker; it starts others.
    pub(super) fn start(self: &Arc<Self>) -> std::io::Result<()> {
        self.spawn()
    }

    pub(super) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    pub(super) fn options(&self) -> PoolOptions {
        self.options
    }

    pub(super) fn protocol_options(&self) -> ProtocolOptions {
        self.dialect
    }

    pub(super) fn request_bytes_max(&self) -> usize {
        self.request_bytes_max
    }

    /// The number of threads.
    pub(super) fn workers(&self) -> usize {
        self.workers.load(Ordering::Relaxed)
    }

    /// Waits until the kernel has ended the mount.
    pub(super) fn wait(&self) {
        let mut ended = self.ended.lock().unwrap_or_else(braid_types::poisoned);
        while !*ended {
            ended = self.end.wait(ended).unwrap_or_else(braid_types::poisoned);
        }
    }

    /// As `wait`, for a limited time. Whether the mount has ended.
    pub(super) fn wait_for(&self, time: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(braid_types::poisoned);
        let waited = self.end.wait_timeout_while(ended, time, |ended| !*ended);
        *waited.unwrap_or_else(braid_types::poisoned).0
    }

    /// Whether a worker without a request stays. If so it counts as idle.
    fn stay(&self) -> bool {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (workers, idle) = (self.workers(), self.idle.load(Ordering::Acquire));
        let surplus = workers > self.demand.workers(now_ms, workers.saturating_sub(idle));
        let stay = !surplus || idle == 0;
        if stay {
            self.idle.fetch_add(1, Ordering::AcqRel);
        }
        stay
    }

    fn spawn(self: &Arc<Self>) -> std::io::Result<()> {
        if self.workers.fetch_add(1, Ordering::Relaxed) >= self.options.workers_max {
            self.workers.fetch_sub(1, Ordering::Relaxed);
            if !self.full.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    workers = self.options.workers_max,
                    "all workers are busy: further requests wait in the kernel"
                );
            }
            return Ok(());
        }
        let pool = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name("fuse-worker".into())
            .spawn(move || Worker::new(pool).run());
        if spawned.is_err() {
            self.workers.fetch_sub(1, Ordering::Relaxed);
        }
        spawned.map(drop)
    }

    /// The kernel has ended the connection.
    pub(super) fn finish(&self) {
        let mut ended = self.ended.lock().unwrap_or_else(braid_types::poisoned);
        let first = !std::mem::replace(&mut *ended, true);
        drop(ended);
        if first {
            self.handler.destroyed();
            self.end.notify_all();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("options", &self.options)
            .field("workers", &self.workers())
            .finish_non_exhaustive()
    }
}

/// One thread.
struct Worker {
    pool: Arc<Pool>,
    device: Arc<Device>,
    input: PageBuffer,
    scratch: PageBuffer,
}

impl Worker {
    fn new(pool: Arc<Pool>) -> Self {
        let device = own_device(&pool);
        let (input, scratch) = (
            PageBuffer::new(pool.request_bytes_max + BUFFER_HEADER_BYTES),
            PageBuffer::new(pool.request_bytes_max),
        );
        Self { pool, device, input, scratch }
    }

    fn run(mut self) {
        while self.pool.stay() {
            let taken = self.take();
            let others_idle = self.pool.idle.fetch_sub(1, Ordering::AcqRel) - 1;
            self.pool.demand.note_request(self.pool.workers().saturating_sub(others_idle));
            let Some(bytes) = taken else {
                self.pool.finish();
                break;
            };
            if others_idle == 0
                && let Err(error) = self.pool.spawn()
            {
                tracing::warn!(%error, "starting another worker failed");
            }
            self.serve(bytes);
        }
    }

    /// Reads the next request and returns its length; `None`: the mount has ended.
    fn take(&mut self) -> Option<usize> {
        loop {
            match rustix::io::read(self.device.fd(), self.input.bytes()) {
                Ok(count) => return Some(count),
                // ENOENT: the request was aborted while it was copied.
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                Err(Errno::NODEV | Errno::CONNABORTED) => return None,
                Err(error) => {
                    tracing::error!(%error, "reading /dev/fuse failed: the mount ends");
                    return None;
                }
            }
        }
    }

    fn serve(&mut self, bytes: usize) {
        let bytes = &self.input.bytes()[..bytes];
        let channel = Channel::Device(Arc::clone(&self.device));
        match Request::parse(bytes, self.pool.dialect) {
            Ok(request) => {
                dispatch(
                    &self.pool,
                    &channel,
                    request,
                    self.scratch.bytes(),
                    Abandonable::IfNothingChanges,
                );
            }
            Err(error) => refuse(&self.pool, &channel, Header::parse(bytes), bytes.len(), error),
        }
    }
}

impl Drop for Worker {
    /// Also after a panic in a handler: the dropped reply has sent EIO.
    fn drop(&mut self) {
        self.pool.workers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A descriptor of its own, or the mount's descriptor, which works as well.
fn own_device(pool: &Pool) -> Arc<Device> {
    if !pool.options.clone_fd {
        return Arc::clone(&pool.device);
    }
    match clone_device(pool.device.fd().as_raw_fd()) {
        Ok(device) => Arc::new(device),
        Err(error) => {
            tracing::warn!(%error, "opening a descriptor for another worker failed");
            Arc::clone(&pool.device)
        }
    }
}

/// Whether a request may be answered EINTR before its handler is done ([`super::interrupt`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Abandonable {
    /// If the request changes nothing.
    IfNothingChanges,
    /// Never: the handler works in memory that the reply gives to the kernel.
    Never,
}

/// Serves the requests of this module, and gives the others to the handler.
pub(super) fn dispatch(
    pool: &Arc<Pool>,
    channel: &Channel,
    request: Request<'_>,
    scratch: &mut [u8],
    abandonable_kind: Abandonable,
) {
    let header = request.header;
    match &request.operation {
        Operation::Forget(forgotten) => {
            let nodes: Vec<Forget> = forgotten.iter().collect();
            return pool.handler.forget(&nodes);
        }
        Operation::Interrupt { unique } => return pool.interrupts.interrupt(*unique),
        // The reply to FUSE_NOTIFY_RETRIEVE, which is never sent. It needs no reply.
        Operation::Unknown if header.opcode == opcode::NOTIFY_REPLY => return,
        _ => {}
    }
    let abandonable =
        abandonable_kind == Abandonable::IfNothingChanges && request.operation.changes_nothing();
    let abandonable = abandonable.then(|| (channel.clone(), header.unique));
    let interrupt = Interrupt::new(header.pid, abandonable);
    pool.interrupts.register(header.unique, &interrupt);
    let reply = Reply::new(channel, &pool.interrupts, interrupt.clone(), &header);
    match request.operation {
        Operation::Unknown => reply.error(Errno::NOSYS),
        Operation::Init { .. } => reply.error(Errno::PROTO),
        Operation::Destroy => {
            reply.ok();
            pool.finish();
        }
        _ => pool.handler.handle(request, reply, &mut Call { interrupt: &interrupt, scratch }),
    }
}

/// Replies to bytes that cannot be parsed with an error, if their header can be read.
pub(super) fn refuse(
    pool: &Pool,
    channel: &Channel,
    header: Result<(Header, usize), super::ParseError>,
    bytes: usize,
    error: super::ParseError,
) {
    tracing::error!(%error, ?header, bytes, "parsing a request of the kernel failed");
    let Ok((header, _)) = header else { return };
    if !matches!(
        header.opcode,
        opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT | opcode::NOTIFY_REPLY
    ) {
        Reply::new(channel, &pool.interrupts, Interrupt::new(0, None), &header).error(Errno::IO);
    }
}
