//! The callers' end of a connection's task.

use std::{
    io::{self, IoSliceMut},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use braid_types::limits::WINDOW_BYTES;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::Instant,
};

use super::task;
use crate::{
    driver::{Answer, Exchange, NetError},
    incast::ReceiveProgress,
    transport::Transport,
};

/// Payload of the calls in flight on one connection, in units of its semaphore (KiB); the same as
/// in the blocking driver.
const IN_FLIGHT_KIB_MAX: usize = (2 * WINDOW_BYTES / 1024) as usize;

/// Sends calls to the task of a connection. The task ends when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionHandle {
    server: String,
    commands: mpsc::Sender<Command>,
    credits: Arc<Semaphore>,
    window: Arc<Semaphore>,
    ended: Arc<OnceLock<NetError>>,
    last_progress: Arc<LastProgress>,
}

/// When the connection last moved a byte.
#[derive(Debug)]
pub(super) struct LastProgress {
    start: Instant,
    /// In ns since `start`.
    last_ns: AtomicU64,
}

impl LastProgress {
    /// Records that bytes moved.
    pub(super) fn record(&self) {
        self.last_ns.store(self.start.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

/// A call for the task.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) op: u16,
    pub(super) body: Vec<u8>,
    pub(super) payload: Vec<u8>,
    /// Maximum payload of the reply.
    pub(super) reply_bytes_max: usize,
    pub(super) answer: oneshot::Sender<Result<Reply, NetError>>,
    pub(super) permits: Permits,
    /// Where received bytes are reported for the permit.
    pub(super) progress: Option<ReceiveProgress>,
}

/// Held by a call until its reply has arrived, even if its caller gave up.
#[derive(Debug)]
pub(super) struct Permits {
    _credit: OwnedSemaphorePermit,
    _window: Option<OwnedSemaphorePermit>,
}

/// The frames of a reply, collected.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) body: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

type Answered = oneshot::Receiver<Result<Reply, NetError>>;

impl Reply {
    /// Copies the payload to its destination. The task has checked that it fits.
    pub(super) fn scatter(self, recv: &mut [IoSliceMut<'_>]) -> Answer {
        let mut rest = &self.payload[..];
        for slice in recv {
            let (now, later) = rest.split_at(rest.len().min(slice.len()));
            slice[..now.len()].copy_from_slice(now);
            rest = later;
        }
        Answer { body: self.body, payload_bytes: self.payload.len() as u64 }
    }
}

impl ConnectionHandle {
    pub(super) fn new(server: String, transport: Transport, credits: u32) -> io::Result<Self> {
        let credits = (credits as usize).min(Semaphore::MAX_PERMITS);
        // one slot for each credit, so that a caller with a credit never waits
        let (commands, receiver) = mpsc::channel(credits);
        let ended = Arc::new(OnceLock::new());
        let moves = Arc::new(LastProgress { start: Instant::now(), last_ns: AtomicU64::new(0) });
        task::spawn(server.clone(), transport, receiver, (Arc::clone(&ended), Arc::clone(&moves)))?;
        let (credits, window) =
            (Arc::new(Semaphore::new(credits)), Arc::new(Semaphore::new(IN_FLIGHT_KIB_MAX)));
        Ok(Self { server, commands, credits, window, ended, last_progress: moves })
    }

    /// Sends a call without payload to the task, once there is a credit.
    pub(super) async fn begin(&self, op: u16, body: &[u8]) -> Result<Answered, NetError> {
        let credit = Arc::clone(&self.credits).acquire_owned().await.map_err(|_| self.ended())?;
        let permits = Permits { _credit: credit, _window: None };
        Ok(self.hand_over((op, body.to_vec(), Vec::new()), 0, permits, None))
    }

    /// Sends an exchange to the task, once credits and window allow it.
    pub(super) async fn begin_exchange(
        &self,
        exchange: &Exchange<'_>,
        reply_bytes_max: usize,
        progress: Option<ReceiveProgress>,
    ) -> Result<Answered, NetError> {
        let mut payload = Vec::with_capacity(exchange.send.iter().map(|slice| slice.len()).sum());
        let kib =
            (reply_bytes_max + payload.capacity()).div_ceil(1024).min(IN_FLIGHT_KIB_MAX) as u32;
        let credit = Arc::clone(&self.credits).acquire_owned().await.map_err(|_| self.ended())?;
        let window =
            Arc::clone(&self.window).acquire_many_owned(kib).await.map_err(|_| self.ended())?;
        exchange.send.iter().for_each(|piece| payload.extend_from_slice(piece));
        let permits = Permits { _credit: credit, _window: Some(window) };
        Ok(self.hand_over(
            (exchange.op, exchange.body.clone(), payload),
            reply_bytes_max,
            permits,
            progress,
        ))
    }

    fn hand_over(
        &self,
        (op, body, payload): (u16, Vec<u8>, Vec<u8>),
        reply_bytes_max: usize,
        permits: Permits,
        progress: Option<ReceiveProgress>,
    ) -> Answered {
        let (answer, answered) = oneshot::channel();
        // if the task has ended, the dropped sender reports it
        let _ = self.commands.try_send(Command {
            op,
            body,
            payload,
            reply_bytes_max,
            answer,
            permits,
            progress,
        });
        answered
    }

    /// Why the task ended.
    pub(super) fn ended(&self) -> NetError {
        let unsaid = || NetError::ConnectionLost {
            server: self.server.clone(),
            why: "the runtime shut down".into(),
        };
        self.ended.get().cloned().unwrap_or_else(unsaid)
    }

    /// When it last moved a byte.
    pub(super) fn last_progress(&self) -> Instant {
        self.last_progress.start
            + Duration::from_nanos(self.last_progress.last_ns.load(Ordering::Relaxed))
    }

    /// The error of an answer that did not arrive within `waited`, after a wait of `unasked` for
    /// the permit.
    pub(super) fn timed_out(&self, waited: Duration, unasked: Duration) -> NetError {
        NetError::TimedOut { server: self.server.clone(), waited, permit_wait: unasked }
    }

    /// The error of a call that got no permit: this host received nothing for `waited`.
    pub(super) fn not_sent(&self, waited: Duration) -> NetError {
        NetError::NotSent { server: self.server.clone(), waited }
    }
}
