//! The loop of one connection's thread: it takes requests as they arrive, and runs slices of its
//! jobs in turn.
//!
//! ```text
//!            ┌─ a request has arrived: take it; its first slice answers a small one ─┐
//!   loop ────┤                                                                       ├──> loop
//!            └─ then one slice of the oldest waiting job: at most one data frame ────┘
//!   no job: block in recv
//! ```
//!
//! Invariants:
//! 1. Between two slices of a job, every request that has arrived gets a slice: a 4 KiB reply
//!    overtakes a 1 GiB one (I9).
//! 2. Requests in flight never exceed the credits; a peer that sends more gets an error and is
//!    disconnected. While reads whose views take much memory run, no further request is taken (I9).
//!    These reads always continue.
//! 3. A payload is received into one reused buffer, a chunk at a time. Each chunk is in its objects
//!    before the next is received. One thread receives the payloads of a collective write for all
//!    tasks. While a payload arrives nothing is sent: a peer that is busy sending need not be able
//!    to receive.
//!
//! No assertion checks these: a peer may send anything, so `check_credits` refuses what breaks 2.
//! The order of the jobs is that of a queue (1), and a write is received by the thread that serves
//! the connection (3).

use std::{
    collections::VecDeque,
    io::IoSliceMut,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use braid_net::{
    frames::push_frame,
    server::{AdmittedPeer, FrameSender, Handler, ReceiveError, ServerConnection},
};
use braid_store::LocalStore;
use braid_types::{Failure, Status, limits::CONNECTION_READS_BYTES_MAX};
use braid_wire::{
    Call, FrameFlags, FrameHeader, Role, Wire,
    message::{Cancel, iod::JoinWrite},
};

use super::{Daemon, socket_sink::SocketSink};
use crate::{
    collective::{ConnectionLost, JoinJob, JoinStep, PayloadSource},
    connection::{ConnectionState, Peer},
    frame_sink::Answer,
    ops::{BlockingWork, ReadJob, ReadProgress, WriteJob},
    requests::StartedRequest,
};

/// How much of a write's payload is received at a time (`docs/adr/0001-iod-data-path.md`: more
/// leaves the processor's cache between `recv` and `pwrite`).
const WRITE_CHUNK_BYTES: usize = 256 * 1024;

/// How often a thread that waits for other tasks checks its own connection.
const WATCH: Duration = Duration::from_millis(50);

/// Serves each connection of the daemon.
#[derive(Debug)]
pub(super) struct Connections {
    daemon: Arc<Daemon>,
}

impl Connections {
    pub(super) fn new(daemon: Arc<Daemon>) -> Self {
        Self { daemon }
    }
}

impl Handler for Connections {
    fn run(&self, admitted: AdmittedPeer) {
        let _counted = ConnectionCount::new(&self.daemon);
        let braid_net::server::Peer { role, credential, id, .. } = admitted.peer();
        // Before the peer is welcomed: from then on it may abandon this connection over another
        // one.
        let state = self.daemon.core.new_connection(&Peer {
            role: *role,
            credential: credential.clone(),
            id: *id,
        });
        let Some(connection) = admitted.accept() else { return };
        let peer = connection.peer().clone();
        tracing::debug!(
            address = peer.address,
            role = ?peer.role,
            connection = peer.connection,
            "connected"
        );
        let why = ConnectionLoop::new(&self.daemon, connection, state).run();
        tracing::debug!(address = peer.address, connection = peer.connection, %why, "disconnected");
    }
}

/// Counts a connection while it lives.
struct ConnectionCount<'a>(&'a AtomicU32);

impl<'a> ConnectionCount<'a> {
    fn new(daemon: &'a Daemon) -> Self {
        let connections = &daemon.core.counters().connections;
        connections.fetch_add(1, Ordering::Relaxed);
        Self(connections)
    }
}

impl Drop for ConnectionCount<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct ConnectionLoop<'a> {
    daemon: &'a Daemon,
    /// Other threads use it only while the payload of a collective write is offered.
    connection: Arc<Mutex<ServerConnection>>,
    role: Role,
    credits: u32,
    sender: Arc<FrameSender>,
    state: ConnectionState,
    /// Jobs in progress, the next first.
    jobs: VecDeque<ActiveJob>,
    /// Memory of those that are reads, in bytes.
    reads_bytes: usize,
    /// How many of them, in a row, wait for other tasks.
    waiting: usize,
    /// Works of this connection that the workers have.
    working: Arc<AtomicU32>,
    out: Vec<u8>,
    chunk: Vec<u8>,
}

struct ActiveJob {
    op: u16,
    request_id: u64,
    job: Job,
    /// Its part of [`ConnectionLoop::reads_bytes`].
    bytes: usize,
}

enum Job {
    Read(Box<ReadJob>),
    Join(Box<JoinJob>),
}

impl<'a> ConnectionLoop<'a> {
    fn new(daemon: &'a Daemon, connection: ServerConnection, state: ConnectionState) -> Self {
        Self {
            daemon,
            sender: connection.sender().clone(),
            role: connection.peer().role,
            credits: connection.credits(),
            connection: Arc::new(Mutex::new(connection)),
            state,
            jobs: VecDeque::new(),
            reads_bytes: 0,
            waiting: 0,
            working: Arc::default(),
            out: Vec::new(),
            chunk: Vec::new(),
        }
    }

    /// Runs until the connection ends. Returns why it ended.
    fn run(mut self) -> ReceiveError {
        loop {
            if let Err(why) = self.serve_once() {
                self.leave_collectives();
                return why;
            }
        }
    }

    /// Ends the waiting of its tasks for others.
    fn leave_collectives(&mut self) {
        let now = self.daemon.clock.now();
        for reading in &mut self.jobs {
            if let Job::Join(job) = &mut reading.job {
                job.connection_closed(&self.daemon.core, now);
            }
        }
    }

    fn serve_once(&mut self) -> Result<(), ReceiveError> {
        let is_full = self.reads_bytes >= CONNECTION_READS_BYTES_MAX;
        if is_full && self.sender.is_over() {
            return Err(ReceiveError::Closed);
        }
        let header = {
            let mut connection = lock(&self.connection);
            let arrived = self.jobs.is_empty() || !is_full && connection.has_pending();
            if arrived { connection.next_header(None)? } else { None }
        };
        if let Some(header) = header {
            if self.state.is_abandoned() {
                // An abandoned connection's requests need not be received.
                return Err(ReceiveError::Closed);
            }
            self.take(&header)?;
        }
        match self.jobs.pop_front() {
            Some(reading) => self.slice(reading),
            None => Ok(()),
        }
    }

    /// Takes one request.
    fn take(&mut self, header: &FrameHeader) -> Result<(), ReceiveError> {
        self.check_credits(header)?;
        let core = &self.daemon.core;
        let (op, request_id, payload_bytes) = (header.op, header.request_id, header.payload_bytes);
        let mut connection = lock(&self.connection);
        let body = connection.body()?;
        // After the body, which may take long to arrive: the checks use the time at which they are
        // made.
        let now = self.daemon.clock.now();
        if op == Cancel::OP
            && let Ok(cancel) = Cancel::from_bytes(body)
        {
            drop(connection);
            self.cancel(cancel.request_id)?;
            return self.answer(op, request_id, &Answer::from_outcome(Ok(())));
        }
        let begun = core.begin(&mut self.state, now, op, body, payload_bytes);
        drop(connection);
        match begun {
            StartedRequest::Answer(answer) => self.answer(op, request_id, &answer),
            StartedRequest::Read(job) => {
                let bytes = job.size_bytes();
                self.reads_bytes += bytes;
                self.slice(ActiveJob { op, request_id, job: Job::Read(job), bytes })
            }
            StartedRequest::Join(job) if op == JoinWrite::OP => self.join_write(header, job),
            StartedRequest::Join(job) => {
                self.slice(ActiveJob { op, request_id, job: Job::Join(job), bytes: 0 })
            }
            StartedRequest::Write(job) => self.write(header, job),
            StartedRequest::Work(work) => {
                self.work(op, request_id, work);
                Ok(())
            }
        }
    }

    fn check_credits(&mut self, header: &FrameHeader) -> Result<(), ReceiveError> {
        let credits = self.credits;
        let in_flight = self.jobs.len() + self.working.load(Ordering::Acquire) as usize;
        if in_flight < credits as usize {
            return Ok(());
        }
        let failure =
            Failure::new(Status::LimitExceeded, format!("more than {credits} requests in flight"));
        self.answer(header.op, header.request_id, &Answer::failure(&failure))?;
        Err(ReceiveError::TooManyInFlight { credits })
    }

    /// One slice of a job. An unfinished job goes to the end of the queue.
    fn slice(&mut self, mut reading: ActiveJob) -> Result<(), ReceiveError> {
        let ActiveJob { op, request_id, .. } = reading;
        let mut sink = SocketSink { sender: &self.sender, op, request_id, buffer: &mut self.out };
        let (core, now) = (&self.daemon.core, self.daemon.clock.now());
        let step = match &mut reading.job {
            Job::Read(job) => job.step(core, now, &mut sink).map(|progress| match progress {
                ReadProgress::Again => JoinStep::Again,
                ReadProgress::Finished => JoinStep::Finished,
            }),
            Job::Join(job) => job.step(core, now, &mut sink),
        };
        let step = step.map_err(|_| ReceiveError::Closed)?;
        self.waiting = if step == JoinStep::Waits { self.waiting + 1 } else { 0 };
        if step == JoinStep::Finished {
            self.reads_bytes -= reading.bytes;
            return Ok(());
        }
        self.jobs.push_back(reading);
        if self.waiting > 0 && self.waiting >= self.jobs.len() {
            self.wait_for_others()
        } else {
            Ok(())
        }
    }

    /// All jobs wait for other tasks: the thread sleeps, and checks its connection now and then.
    fn wait_for_others(&mut self) -> Result<(), ReceiveError> {
        self.waiting = 0;
        if lock(&self.connection).has_pending() {
            return Ok(());
        }
        if self.sender.is_over() {
            return Err(ReceiveError::Closed);
        }
        if let Some(ActiveJob { job: Job::Join(job), .. }) = self.jobs.front() {
            job.wait(&self.daemon.core, WATCH);
        }
        Ok(())
    }

    /// Offers the payload of a task's part in a collective write, and perhaps receives the payloads
    /// of all tasks.
    fn join_write(
        &mut self,
        header: &FrameHeader,
        mut job: Box<JoinJob>,
    ) -> Result<(), ReceiveError> {
        let (core, clock) = (&self.daemon.core, self.daemon.clock);
        let source: Arc<dyn PayloadSource> = Arc::new(SocketPayload(Arc::clone(&self.connection)));
        let mut watched = clock.now();
        let answer = loop {
            let now = clock.now();
            let step = match job.write(core, now, &source) {
                Ok(answer) => break answer,
                Err(step) => step,
            };
            if step == JoinStep::Waits || now.saturating_sub(watched) >= WATCH {
                watched = now;
                if self.sender.is_over() {
                    return Err(ReceiveError::Closed);
                }
            }
            if step == JoinStep::Waits {
                job.wait(core, WATCH);
            }
        };
        lock(&self.connection).drain()?;
        self.answer(header.op, header.request_id, &answer)
    }

    /// Receives the payload of a write, a chunk at a time, and writes it.
    fn write(&mut self, header: &FrameHeader, mut job: Box<WriteJob>) -> Result<(), ReceiveError> {
        let (core, clock) = (&self.daemon.core, self.daemon.clock);
        let mut connection = lock(&self.connection);
        while connection.payload_left() > 0 {
            let bytes = connection.payload_left().min(WRITE_CHUNK_BYTES);
            if self.chunk.len() < bytes {
                self.chunk.resize(bytes, 0);
            }
            connection.payload(&mut self.chunk[..bytes])?;
            let mut rest = &self.chunk[..bytes];
            while !rest.is_empty() {
                let taken = job.push(core, clock.now(), rest);
                if taken == 0 && self.sender.is_over() {
                    return Err(ReceiveError::Closed);
                }
                rest = &rest[taken..];
            }
        }
        drop(connection);
        let answer = loop {
            if let Some(answer) = job.finish(core, clock.now()) {
                break answer;
            }
            if self.sender.is_over() {
                return Err(ReceiveError::Closed);
            }
        };
        self.answer(header.op, header.request_id, &answer)
    }

    /// Gives a blocking operation to the workers, which answer it.
    fn work(&mut self, op: u16, request_id: u64, work: BlockingWork<LocalStore>) {
        let workers = match self.role {
            _ if work.is_long_running() => &self.daemon.flusher,
            Role::Mds | Role::Admin => &self.daemon.mds_workers,
            _ => &self.daemon.client_workers,
        };
        let (sender, working) = (self.sender.clone(), self.working.clone());
        working.fetch_add(1, Ordering::AcqRel);
        workers.submit(work, move |answer| {
            // Before the reply is sent: the client may use the credit as soon as it has read the
            // reply.
            working.fetch_sub(1, Ordering::AcqRel);
            let mut frame = Vec::new();
            push_frame(&mut frame, op, FrameFlags::FINAL, request_id, &answer.body);
            // The connection's own thread notices when it is closed.
            let _ = sender.send_frames(&frame);
        });
    }

    /// Ends a read in progress. Works are not interrupted, and finished requests stay as they are.
    fn cancel(&mut self, cancelled: u64) -> Result<(), ReceiveError> {
        let Some(at) = self.jobs.iter().position(|reading| reading.request_id == cancelled) else {
            return Ok(());
        };
        let Some(reading) = self.jobs.remove(at) else { return Ok(()) };
        self.reads_bytes -= reading.bytes;
        let answer = Answer::failure(&Status::Cancelled.into());
        self.daemon.core.counters().answered(answer.status);
        self.answer(reading.op, cancelled, &answer)
    }

    fn answer(&mut self, op: u16, request_id: u64, answer: &Answer) -> Result<(), ReceiveError> {
        self.out.clear();
        push_frame(&mut self.out, op, FrameFlags::FINAL, request_id, &answer.body);
        self.sender.send_frames(&self.out).map_err(|_| ReceiveError::Closed)
    }
}

/// The payload of one call, for the thread that receives it.
#[derive(Debug)]
struct SocketPayload(Arc<Mutex<ServerConnection>>);

impl PayloadSource for SocketPayload {
    fn left(&self) -> usize {
        lock(&self.0).payload_left()
    }

    fn receive(&self, pieces: &mut [IoSliceMut<'_>]) -> Result<usize, ConnectionLost> {
        lock(&self.0).payload_within(pieces, WATCH).map_err(|_| ConnectionLost)
    }
}

fn lock(connection: &Mutex<ServerConnection>) -> MutexGuard<'_, ServerConnection> {
    connection.lock().unwrap_or_else(braid_types::poisoned)
}
