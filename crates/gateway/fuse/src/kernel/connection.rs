//! A connection, from INIT to its end.

use super::abi::{BUFFER_HEADER_BYTES, MINOR_OLDEST};
use super::backing::BackingFiles;
use super::channel::Channel;
use super::device::Device;
use super::init::{InitOutcome, Offer, offer, ours};
use super::interrupt::Interrupts;
use super::invalidator::{Bounds, Invalidators};
use super::page_buffer::PageBuffer;
use super::uring::{IoUring, NoIoUring, Rings, Transport, plan};
use super::worker::{Pool, PoolOptions};
use super::{
    Features, Handler, Interrupt, KernelFeatures, Notifier, Operation, ParseError, ProtocolOptions,
    Reply, Request,
};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// INIT has 64 bytes today; the kernel requires space for any first request.
const FIRST_BYTES: usize = 64 << 10;

/// Why serving a mount could not begin.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The kernel's protocol is too old.
    #[error(
        "starting FUSE failed: the kernel has FUSE {major}.{minor}, and 7.{MINOR_OLDEST} is \
         needed; try: Linux 5.4 or newer"
    )]
    TooOld {
        /// The kernel's major version.
        major: u32,
        /// The kernel's minor version.
        minor: u32,
    },
    /// The first request was not INIT.
    #[error("starting FUSE failed: the kernel sent request {0} before INIT")]
    NoInit(u32),
    /// The first request could not be parsed.
    #[error("parsing the kernel's first request failed: {0}")]
    Parse(#[from] ParseError),
    /// `io_uring=on`, and it is not available.
    #[error(
        "starting FUSE over io_uring failed: {why}; try: {}, or -o io_uring=auto",
        why.remedy()
    )]
    NoIoUring {
        /// Why.
        why: NoIoUring,
    },
    /// A system call failed.
    #[error("talking to /dev/fuse failed: {0}")]
    Io(#[from] io::Error),
}

/// A device that is being served.
#[derive(Debug)]
pub(super) struct Connection {
    pool: Arc<Pool>,
    kernel: KernelFeatures,
    agreed: InitOutcome,
    rings: Result<Arc<Rings>, NoIoUring>,
}

impl Connection {
    /// Answers INIT and begins to serve. The device must be mounted.
    pub(super) fn start(
        fd: OwnedFd,
        handler: Arc<dyn Handler>,
        options: PoolOptions,
        io_uring: IoUring,
    ) -> Result<Self, StartError> {
        let device = Arc::new(Device::new(fd));
        let (kernel, agreed, queues) = negotiate(&device, &*handler, io_uring)?;
        tracing::debug!(
            minor = kernel.minor,
            offered = %kernel.offered,
            agreed = %agreed.features,
            "FUSE begins"
        );
        // Separate threads: names that wait for a directory's lock do not delay pages.
        let (pages, names) = (
            Invalidators::start(&device, Bounds::PAGES)?,
            Invalidators::start(&device, Bounds::NAMES)?,
        );
        let passes = agreed.features.contains(Features::PASSTHROUGH);
        let backing = passes.then(|| BackingFiles::new(Arc::clone(&device)));
        handler.started(Notifier::new(Arc::clone(&device), pages, names, backing));
        let pool = Pool::new(device, handler, &agreed, options);
        pool.start()?;
        let started = |queues| Rings::start(&pool, queues).map_err(NoIoUring::refused);
        let rings = allowed(queues.and_then(started), io_uring)?;
        Ok(Self { pool, kernel, agreed, rings })
    }

    /// The transport of requests.
    pub(super) fn transport(&self) -> Transport {
        match &self.rings {
            Ok(rings) => Transport::IoUring { queues: rings.count() },
            Err(why) => Transport::Device(why.clone()),
        }
    }

    /// The kernel's number of the connection, where it shows one.
    pub(super) fn number(&self) -> Option<u32> {
        self.pool.device().number()
    }

    pub(super) fn kernel(&self) -> &KernelFeatures {
        &self.kernel
    }

    pub(super) fn features(&self) -> Features {
        self.agreed.features
    }

    pub(super) fn read_ahead_bytes(&self) -> u32 {
        self.agreed.read_ahead_bytes
    }

    pub(super) fn workers(&self) -> usize {
        self.pool.workers() + self.rings.as_ref().map_or(0, |rings| rings.workers())
    }

    pub(super) fn wait(&self) {
        self.pool.wait();
    }

    pub(super) fn wait_for(&self, time: Duration) -> bool {
        self.pool.wait_for(time)
    }
}

/// With `io_uring=on` a failure of io_uring ends the mount; otherwise it is returned.
fn allowed<T>(
    found: Result<T, NoIoUring>,
    io_uring: IoUring,
) -> Result<Result<T, NoIoUring>, StartError> {
    match found {
        Err(why) if io_uring == IoUring::On => Err(StartError::NoIoUring { why }),
        found => Ok(found),
    }
}

/// The result of INIT: what the kernel offers, what was agreed, and the number of io_uring queues.
type Negotiated = (KernelFeatures, InitOutcome, Result<u16, NoIoUring>);

/// Answers INIT, until both sides use the same major version.
fn negotiate(
    device: &Arc<Device>,
    handler: &dyn Handler,
    io_uring: IoUring,
) -> Result<Negotiated, StartError> {
    let channel = Channel::Device(Arc::clone(device));
    let mut buffer = PageBuffer::new(FIRST_BYTES + BUFFER_HEADER_BYTES);
    let interrupts = Arc::new(Interrupts::default());
    loop {
        let bytes = first(device, buffer.bytes())?;
        let request = Request::parse(bytes, ProtocolOptions::default())?;
        let reply = Reply::new(&channel, &interrupts, Interrupt::new(0, None), &request.header);
        let Operation::Init { major, minor, read_ahead_bytes_max, flags } = request.operation
        else {
            reply.error(Errno::PROTO);
            return Err(StartError::NoInit(request.header.opcode));
        };
        match offer(major, minor, read_ahead_bytes_max, flags) {
            Offer::Newer => reply.send_fixed(ours).map_err(|refused| io::Error::from(refused.0))?,
            Offer::TooOld => {
                reply.error(Errno::PROTO);
                return Err(StartError::TooOld { major, minor });
            }
            Offer::Usable(kernel) => {
                let mut wanted = handler.init(&kernel);
                let queues = allowed(plan(&kernel, io_uring), io_uring)?;
                if queues.is_ok() {
                    wanted.features |= Features::OVER_IO_URING;
                }
                let agreed = InitOutcome::new(&kernel, &wanted, page_bytes());
                reply
                    .send_fixed(|message| agreed.encode(&kernel, message))
                    .map_err(|refused| io::Error::from(refused.0))?;
                return Ok((kernel, agreed, queues));
            }
        }
    }
}

fn first<'b>(device: &Device, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    loop {
        match rustix::io::read(device.fd(), &mut *buffer) {
            Ok(count) => return Ok(&buffer[..count]),
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn page_bytes() -> u32 {
    u32::try_from(rustix::param::page_size()).unwrap_or(4096)
}
