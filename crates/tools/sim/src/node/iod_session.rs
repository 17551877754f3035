//! One connection of an I/O daemon. Jobs run in slices and wait for the disk's time, so that a
//! fence, a truncate, a crash or another client's write can fall between any two slices.

use std::{
    io::IoSlice,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use braid_iod::{
    ConnectionState, FrameSink, IodCore, JoinJob, JoinStep, MemorySource, Payload, PayloadSource,
    Peer, ReadProgress, SinkError, StartedRequest, WriteJob,
};
use braid_store::MemStore;
use braid_wire::{Call, FrameHeader, encode_success, message::iod::Abandon};

use crate::{
    network::{Replies, Session},
    random::Random,
    world::{ProcessLife, Simulation, lock},
};

/// Payload of a write that one slice takes; small, so that even small writes have several slices.
const WRITE_SLICE_BYTES: usize = 8 * 1024;

pub(super) struct IodSession {
    shared: SessionState,
    state: Arc<Mutex<ConnectionState>>,
    ignores_abandon: Arc<AtomicBool>,
}

#[derive(Clone)]
struct SessionState {
    core: Arc<IodCore<MemStore>>,
    life: ProcessLife,
    world: Simulation,
    random: Arc<Random>,
}

impl IodSession {
    pub(super) fn new(
        core: Arc<IodCore<MemStore>>,
        peer: &braid_net::server::Peer,
        life: ProcessLife,
        world: Simulation,
        random: Arc<Random>,
        ignores_abandon: Arc<AtomicBool>,
    ) -> Self {
        let state = core.new_connection(&Peer {
            role: peer.role,
            credential: peer.credential.clone(),
            id: peer.id,
        });
        Self {
            shared: SessionState { core, life, world, random },
            state: Arc::new(Mutex::new(state)),
            ignores_abandon,
        }
    }
}

impl Session for IodSession {
    fn request(&mut self, header: FrameHeader, body: Vec<u8>, payload: Vec<u8>, replies: Replies) {
        if header.op == Abandon::OP && self.ignores_abandon.load(Ordering::Relaxed) {
            replies.finish(&encode_success(&()), &[]);
            return;
        }
        let (shared, now) = (self.shared.clone(), self.shared.world.now());
        let begun = self.shared.core.begin(
            &mut lock(&self.state),
            now,
            header.op,
            &body,
            header.payload_bytes,
        );
        self.shared.world.spawn(&self.shared.life, async move {
            shared.finish(begun, &payload, &replies).await
        });
    }
}

impl SessionState {
    async fn finish(&self, begun: StartedRequest<MemStore>, payload: &[u8], replies: &Replies) {
        let answer = match begun {
            StartedRequest::Read(mut job) => {
                let mut sink = Sink(replies);
                while job.step(&self.core, self.world.now(), &mut sink) == Ok(ReadProgress::Again) {
                    self.pause(5..50).await;
                }
                return;
            }
            StartedRequest::Join(mut job) if !job.writes() => {
                let mut sink = Sink(replies);
                loop {
                    match job.step(&self.core, self.world.now(), &mut sink) {
                        Ok(JoinStep::Finished) | Err(_) => return,
                        Ok(step) => self.pause(pause_after(step)).await,
                    }
                }
            }
            StartedRequest::Join(job) => self.join_write(job, payload).await,
            StartedRequest::Write(job) => self.write(job, payload).await,
            StartedRequest::Work(work) => {
                self.pause(50..2000).await;
                let answer = work.run(&self.core, &|| self.world.now());
                // The disk is done; the process may still die before it replies.
                self.pause(1..200).await;
                answer
            }
            StartedRequest::Answer(answer) => answer,
        };
        replies.finish(&answer.body, &[]);
    }

    async fn write(&self, mut job: Box<WriteJob>, payload: &[u8]) -> braid_iod::Answer {
        for mut slice in payload.chunks(WRITE_SLICE_BYTES) {
            while !slice.is_empty() {
                slice = &slice[job.push(&self.core, self.world.now(), slice)..];
                self.pause(5..100).await;
            }
        }
        loop {
            if let Some(answer) = job.finish(&self.core, self.world.now()) {
                return answer;
            }
            self.pause(1..10).await;
        }
    }

    async fn join_write(&self, mut job: Box<JoinJob>, payload: &[u8]) -> braid_iod::Answer {
        let source: Arc<dyn PayloadSource> = MemorySource::new(payload, WRITE_SLICE_BYTES);
        loop {
            match job.write(&self.core, self.world.now(), &source) {
                Ok(answer) => return answer,
                Err(step) => self.pause(pause_after(step)).await,
            }
        }
    }

    async fn pause(&self, micros: std::ops::Range<u64>) {
        let time = Duration::from_micros(self.random.within(micros));
        self.world.sleep(time).await;
    }
}

/// How long the next slice of a task's part in a collective request waits, in microseconds.
fn pause_after(step: JoinStep) -> std::ops::Range<u64> {
    if step == JoinStep::Waits { 100..1000 } else { 5..100 }
}

struct Sink<'a>(&'a Replies);

impl Sink<'_> {
    fn read(payload: &Payload<'_>) -> Result<Vec<u8>, SinkError> {
        let mut bytes = Vec::with_capacity(payload.bytes());
        payload.read_into(&mut bytes).map_err(SinkError::Disk)?;
        Ok(bytes)
    }
}

impl FrameSink for Sink<'_> {
    fn data(&mut self, payload: &Payload<'_>) -> Result<(), SinkError> {
        let bytes = Self::read(payload)?;
        if self.0.data(&bytes) { Ok(()) } else { Err(SinkError::Closed) }
    }

    fn finish(&mut self, body: &[u8], payload: &Payload<'_>) -> Result<(), SinkError> {
        let bytes = Self::read(payload)?;
        if self.0.finish(body, &bytes) { Ok(()) } else { Err(SinkError::Closed) }
    }

    fn data_from_memory(&mut self, pieces: &[IoSlice<'_>]) -> Result<(), SinkError> {
        if self.0.data(&gathered(pieces)) { Ok(()) } else { Err(SinkError::Closed) }
    }

    fn finish_from_memory(&mut self, body: &[u8], pieces: &[IoSlice<'_>]) -> Result<(), SinkError> {
        if self.0.finish(body, &gathered(pieces)) { Ok(()) } else { Err(SinkError::Closed) }
    }
}

fn gathered(pieces: &[IoSlice<'_>]) -> Vec<u8> {
    pieces.iter().flat_map(|piece| piece.iter().copied()).collect()
}
