//! The I/O daemon without sockets, threads or a clock: requests and time in, frames out.
//!
//! ```text
//!   begin(connection, now, op, body) ──┬── Begun::Answer   done: the final frame
//!                                      ├── Begun::Read     a lazy job: step() sends at most one frame, then again
//!                                      ├── Begun::Write    a lazy job: push() takes the payload as it arrives
//!                                      ├── Begun::Join     the same, as step() or write(): it may say that it waits for others
//!                                      └── Begun::Work     waits for the disk: run() it where waiting harms nobody
//! ```
//!
//! Invariants:
//! 1. No object is touched without a verified capability or the metadata server's own key (I4).
//! 2. Every slice of a job passes the [`Gate`] anew: a fence, a truncate or silence of the metadata server stops a
//!    job in its middle.
//! 3. A slice spends at most [`JOB_SLICE_ACCESSES_MAX`](braid_types::limits::JOB_SLICE_ACCESSES_MAX) steps of
//!    unfolding, and sends at most one data frame (I9).
//! 4. A part that is recorded as existing and is not there is an error, never zeros (I11).

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use braid_store::{Object, ObjectStat, ObjectStore, StoreSpace};
use braid_types::{
    ByteCount, ConnectionId, Failure, IodId, MdsEpoch, PartIndex, SessionId, Status, Timestamp,
};
use braid_wire::{
    Rights, Secret,
    message::{iod::Fence, mds::SessionRange, types::ObjectInfo},
};

use crate::{
    callers::{Caller, Callers},
    collective::{Collectives, JoinJob},
    connection::{ConnectionState, Peer},
    counters::Counters,
    flush_all::FlushAll,
    gate::{Gate, Pass},
    grant::{Grant, Place},
    ops::{self, ReadJob, Work, WriteJob},
    registration::Vitals,
    room::{Charge, Cost, Keeper},
    sink::{Answer, FrameSink, SinkError},
};

/// The daemon's state that all connections share.
#[derive(Debug)]
pub struct IodCore<S> {
    store: Arc<S>,
    server_key: Secret,
    iod: AtomicU32,
    gate: Gate,
    callers: Callers,
    collectives: Arc<Collectives>,
    flush_all: FlushAll,
    measuring: ops::Turn,
    counters: Counters,
    room: Keeper,
    started: Duration,
    /// Nanoseconds from this machine's wall clock to the metadata server's.
    clock_offset: AtomicI64,
}

/// An open object with its facts.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) object: Arc<dyn Object>,
    pub(crate) stat: ObjectStat,
}

/// What became of a request.
#[derive(Debug)]
pub enum Begun<S> {
    /// It is done.
    Answer(Answer),
    /// [`ReadJob::step`] until it has finished.
    Read(Box<ReadJob>),
    /// [`WriteJob::push`] the payload, then [`WriteJob::finish`].
    Write(Box<WriteJob>),
    /// A task's part in a collective request: it may have to wait for other tasks.
    Join(Box<JoinJob>),
    /// [`Work::run`], on a thread that may wait for the disk.
    Work(Work<S>),
}

impl<S: ObjectStore> IodCore<S> {
    /// A daemon over `store`, which whoever simulates a crash keeps. It serves no data before the first [`IodCore::serve_until`]. `now` is monotonic, as in
    /// all calls.
    pub fn new(store: Arc<S>, server_key: Secret, now: Duration) -> Self {
        let callers = Callers::default();
        Self {
            iod: AtomicU32::new(store.identity().iod.map_or(0, |iod| iod.0)),
            store,
            server_key,
            gate: Gate::closed(callers.clone()),
            callers,
            collectives: Arc::default(),
            flush_all: FlushAll::default(),
            measuring: ops::Turn::default(),
            counters: Counters::default(),
            room: Keeper::alone(),
            started: now,
            clock_offset: AtomicI64::new(0),
        }
    }

    /// Counts room for sessions that gather together with the other daemons of this process that are on the same device. Before
    /// the first connection.
    ///
    /// # Errors
    /// The disk's.
    pub fn on_shared_device(mut self) -> Result<Self, Failure> {
        self.room = Keeper::on(self.store.space()?.device);
        Ok(self)
    }

    /// State for a new connection, after its peer has proved itself and before it is told: another connection may
    /// abandon this one as soon as the peer knows its id.
    pub fn connected(&self, peer: &Peer) -> ConnectionState {
        ConnectionState::new(peer, &self.callers)
    }

    /// Takes a request up. `payload_bytes` is what the frame announces behind the body.
    pub fn begin(
        &self,
        connection: &mut ConnectionState,
        now: Duration,
        op: u16,
        body: &[u8],
        payload_bytes: u32,
    ) -> Begun<S> {
        let begun = ops::begin(self, connection, now, op, body, payload_bytes);
        let begun = begun.unwrap_or_else(|failure| Begun::Answer(Answer::failure(&failure)));
        if let Begun::Answer(answer) = &begun {
            self.counters.answered(answer.status);
        }
        begun
    }

    /// Does a whole call at once: for simulated networks and tests. The daemon itself takes the slices in turn.
    ///
    /// # Errors
    /// The sink's.
    pub fn handle(
        &self,
        connection: &mut ConnectionState,
        now: Duration,
        op: u16,
        body: &[u8],
        payload: &[u8],
        out: &mut dyn FrameSink,
    ) -> Result<(), SinkError> {
        let payload_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let answer = match self.begin(connection, now, op, body, payload_bytes) {
            Begun::Read(mut job) => {
                while job.step(self, now, out)? == Progress::Again {}
                return Ok(());
            }
            Begun::Join(mut job) => return job.run_alone(self, now, payload, out),
            Begun::Answer(answer) => answer,
            Begun::Work(work) => work.run(self, now),
            Begun::Write(mut job) => {
                let mut rest = payload;
                while !rest.is_empty() {
                    rest = &rest[job.push(self, now, rest)..];
                }
                loop {
                    if let Some(answer) = job.finish(self, now) {
                        break answer;
                    }
                }
            }
        };
        out.finish(&answer.body, &crate::Payload::EMPTY)
    }

    /// Refuses these sessions and older epochs from now on; returns when that holds (I4).
    pub fn fence(&self, fence: &Fence) {
        if !fence.sessions.is_empty() {
            tracing::debug!(sessions = ?fence.sessions, fence = fence.fence, "fenced");
        }
        self.gate.fence(&fence.sessions, fence.epoch_min);
        self.room.end(&fence.sessions);
    }

    /// As [`IodCore::fence`], of sessions in a row, but waits for nobody: no heartbeat is held up by a write that is stuck in
    /// the disk. Whether the fence holds; where it does not yet, ask again.
    pub fn try_fence_ranges(&self, ranges: &[SessionRange], epoch_min: MdsEpoch) -> bool {
        if !ranges.is_empty() {
            tracing::debug!(count = ranges.len(), newest = ?ranges.last(), "ranges of sessions fenced");
        }
        let holds = self
            .gate
            .try_fence_ranges(ranges.iter().map(|range| (range.first, range.last)), epoch_min);
        self.room.end_where(|session| {
            ranges.iter().any(|range| range.first <= session && session <= range.last)
        });
        holds
    }

    /// Refuses a call that shows no capability to a caller that was fenced or given up, and while it is not known who was.
    ///
    /// # Errors
    /// [`Status::Fenced`], [`Status::NotServing`], [`Status::Cancelled`].
    pub(crate) fn admit(&self, connection: &ConnectionState, now: Duration) -> Result<(), Failure> {
        self.gate.admit(connection.caller(), now)
    }

    /// Carries out nothing more of these connections of a session; returns when that holds. Those that are not known
    /// are gone: nothing of them is left that could be carried out.
    ///
    /// # Errors
    /// [`Status::NotPermitted`] when one is of another session; then nothing was done.
    pub(crate) fn abandon(
        &self,
        connections: &[ConnectionId],
        session: SessionId,
    ) -> Result<(), Failure> {
        let callers = self.callers.find(connections, session)?;
        tracing::debug!(%session, asked = connections.len(), found = callers.len(), "abandoned");
        self.gate.abandon(&callers);
        Ok(())
    }

    /// Serves data until this moment; `None` stops at once.
    pub fn serve_until(&self, until: Option<Duration>) {
        self.gate.serve_until(until);
    }

    /// Whether data is served at `now`.
    pub fn serves(&self, now: Duration) -> bool {
        self.gate.serves(now)
    }

    /// The store under the daemon.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// The daemon's id; 0 until it was given one.
    pub fn iod(&self) -> IodId {
        IodId(self.iod.load(Relaxed))
    }

    /// Keeps the id that the metadata server gave, also on disk.
    ///
    /// # Errors
    /// The disk's, and another id than the one that the directory carries.
    pub fn assign_iod(&self, iod: IodId) -> Result<(), Failure> {
        self.store.assign_iod(iod)?;
        self.iod.store(iod.0, Relaxed);
        Ok(())
    }

    /// Learns how far this machine's wall clock is from the metadata server's, which read `mds_now` between the moments `sent`
    /// and `received` here. What is known is kept while it may be true, within 10 ms: the time of a write that was told once
    /// must not move with every heartbeat, least of all with one that was long under way.
    pub fn set_clock_offset(&self, mds_now: Timestamp, sent: Timestamp, received: Timestamp) {
        let at = |here| nanos(mds_now).saturating_sub(nanos(here));
        // A clock that was set back in between would turn them round.
        let (least, most) = (at(received).min(at(sent)), at(received).max(at(sent)));
        let agrees = CLOCK_AGREES.as_nanos() as i64;
        let known = self.clock_offset.load(Relaxed);
        if known < least.saturating_sub(agrees) || known > most.saturating_add(agrees) {
            self.clock_offset.store(least.midpoint(most), Relaxed);
        }
    }

    /// What a heartbeat says.
    pub fn vitals(&self) -> Result<Vitals, Failure> {
        let space = ops::space(self)?;
        Ok(Vitals { space, verifier: self.store.write_verifier() })
    }

    /// Counters since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Time since the start.
    pub fn uptime(&self, now: Duration) -> Duration {
        now.saturating_sub(self.started)
    }

    /// The counters as Prometheus wants them.
    pub fn prometheus(&self, now: Duration) -> String {
        self.counters.prometheus(self.iod().0, self.serves(now))
    }
}

impl<S: ObjectStore> IodCore<S> {
    /// The grant behind a data call, if it is allowed now.
    pub(crate) fn grant(
        &self,
        connection: &mut ConnectionState,
        now: Duration,
        handle: u32,
        present: &[u8],
        wanted: Rights,
    ) -> Result<(Arc<Grant>, Arc<Caller>), Failure> {
        let grant = connection.grant(handle, present, &self.server_key, self.iod())?;
        grant.allow(wanted)?;
        let caller = connection.data_caller()?.clone();
        self.check(&grant, &caller, now)?;
        Ok((grant, caller))
    }

    /// The grant of a second file of the same call, and of the same session.
    pub(crate) fn further_grant(
        &self,
        first: &Grant,
        signed: &[u8],
        wanted: Rights,
    ) -> Result<Grant, Failure> {
        let grant = Grant::verify(signed, &self.server_key, self.iod())?;
        if grant.session != first.session {
            return Err(Failure::new(Status::BadCapability, "it was made for another session"));
        }
        grant.allow(wanted)?;
        self.gate.check_epoch(grant.epoch)?;
        Ok(grant)
    }

    /// The grant of a call of the metadata server, which signs for itself.
    pub(crate) fn mds_grant(&self, signed: &[u8]) -> Result<Grant, Failure> {
        let grant = Grant::verify(signed, &self.server_key, self.iod())?;
        self.gate.check_epoch(grant.epoch)?;
        Ok(grant)
    }

    /// Lets one slice through.
    pub(crate) fn pass(
        &self,
        grant: &Grant,
        caller: &Arc<Caller>,
        now: Duration,
    ) -> Result<Pass<'_>, Failure> {
        self.gate.pass(caller, grant.epoch, now)
    }

    /// Whether a slice would be let through: for one that changes nothing, which no fence waits for.
    pub(crate) fn check(
        &self,
        grant: &Grant,
        caller: &Caller,
        now: Duration,
    ) -> Result<(), Failure> {
        self.gate.check(caller, grant.epoch, now)
    }

    /// The object of a place, with its facts; `None` when it is not there and need not be (I11).
    ///
    /// # Errors
    /// [`Status::ObjectLost`] when it should be; [`Status::StaleGeneration`] when it was truncated since (I5).
    pub(crate) fn open(&self, grant: &Grant, place: &Place) -> Result<Option<Opened>, Failure> {
        let object = match self.store.open(place.object) {
            Err(why) if why.is_no_object() && !place.recorded => return Ok(None),
            opened => self.warned(opened)?,
        };
        let stat = self.warned(object.stat())?;
        if grant.size_generation < stat.size_generation {
            let (asked, current) = (grant.size_generation, stat.size_generation);
            let detail =
                format!("object {}: size generation {asked} is older than {current}", place.object);
            return Err(Failure::new(Status::StaleGeneration, detail));
        }
        Ok(Some(Opened { object, stat }))
    }

    /// The object of a place to write to; made when it is not there and need not be (I11).
    ///
    /// # Errors
    /// As [`IodCore::open`], and the disk's.
    pub(crate) fn open_or_create(
        &self,
        grant: &Grant,
        place: &Place,
    ) -> Result<Arc<dyn Object>, Failure> {
        let new = grant.new_object(place.object);
        // What is not on record is rarely there: the first write makes it.
        if !place.recorded
            && let Some(object) = self.warned(self.store.make(&new))?
        {
            return Ok(object);
        }
        match self.open(grant, place)? {
            Some(Opened { object, .. }) => Ok(object),
            None => self.warned(self.store.create(&new)),
        }
    }

    /// Lets a slice through that is of several callers, each with its grant.
    pub(crate) fn pass_together(
        &self,
        of: &[(Arc<Grant>, Arc<Caller>)],
        now: Duration,
    ) -> Result<Pass<'_>, Failure> {
        self.gate.pass_together(of.iter().map(|(grant, caller)| (caller, grant.epoch)), now)
    }

    /// The collective requests that are under way.
    pub(crate) fn collectives(&self) -> &Arc<Collectives> {
        &self.collectives
    }

    /// Flushes of everything.
    pub(crate) fn flushes(&self) -> &FlushAll {
        &self.flush_all
    }

    /// Whose turn it is to measure the disk.
    pub(crate) fn measuring(&self) -> &ops::Turn {
        &self.measuring
    }

    /// The room that is kept for sessions that gather.
    pub(crate) fn room(&self) -> &Keeper {
        &self.room
    }

    /// Counts an ordinary write before it is done, wherever it falls.
    ///
    /// # Errors
    /// [`Status::NoSpace`] when what is left of the disk is kept for others.
    pub(crate) fn take_space(&self, cost: Cost, now: Duration) -> Result<Charge<'_>, Failure> {
        self.room.begin(cost, false, now, || self.measured(), || false)
    }

    /// What the device says of its space now.
    pub(crate) fn measured(&self) -> Option<StoreSpace> {
        self.store.space().ok()
    }

    /// How an object is described on the wire.
    pub(crate) fn info(&self, part: PartIndex, stat: Option<&ObjectStat>) -> ObjectInfo {
        ObjectInfo {
            part,
            exists: stat.is_some(),
            bytes: ByteCount(stat.map_or(0, |stat| stat.size)),
            bytes_used: ByteCount(stat.map_or(0, |stat| stat.allocated_bytes)),
            mtime: stat.map_or_else(Timestamp::default, |stat| self.mds_time(stat.mtime)),
        }
    }

    /// Turns a failure of the store into one for the wire, and says so in the log when the disk is at fault.
    pub(crate) fn warned<T>(&self, outcome: braid_store::Result<T>) -> Result<T, Failure> {
        outcome.map_err(|why| {
            let failure = Failure::from(why);
            if matches!(
                failure.status,
                Status::DiskError | Status::NoSpace | Status::ReadOnly | Status::Corrupted
            ) {
                tracing::warn!(iod = self.iod().0, status = ?failure.status, "{}", failure.detail);
            }
            failure
        })
    }

    fn mds_time(&self, here: Timestamp) -> Timestamp {
        timestamp(nanos(here).saturating_add(self.clock_offset.load(Relaxed)))
    }

    /// A time of the metadata server's clock by this machine's, if a client may have buffered bytes since then that were written
    /// to the disk at `written`.
    pub(crate) fn buffered_since(
        &self,
        modified: Timestamp,
        written: Timestamp,
    ) -> Option<Timestamp> {
        let here = nanos(modified).saturating_sub(self.clock_offset.load(Relaxed));
        let age = nanos(written).checked_sub(here)?;
        let (most, ahead) = (BUFFERED_MAX.as_nanos() as i64, 2 * CLOCK_AGREES.as_nanos() as i64);
        (-ahead..=most).contains(&age).then(|| timestamp(here))
    }
}

/// How long a client may have buffered what it writes: longer than a call may take. A time before that is not believed, nor one that
/// is further ahead than clocks may differ and the file system's own is behind.
const BUFFERED_MAX: Duration = Duration::from_secs(60);

/// A time from nanoseconds since 1970.
fn timestamp(nanos: i64) -> Timestamp {
    Timestamp { seconds: nanos.div_euclid(NANOS), nanos: nanos.rem_euclid(NANOS) as u32 }
}

const NANOS: i64 = 1_000_000_000;
/// How far a clock's offset may be from what an answer shows before it counts as another one: no more than clocks under NTP
/// are apart.
const CLOCK_AGREES: Duration = Duration::from_millis(10);

/// Nanoseconds since 1970; saturates in the year 2262.
fn nanos(time: Timestamp) -> i64 {
    time.seconds.saturating_mul(NANOS).saturating_add(i64::from(time.nanos))
}

/// Whether a job has more to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Call again.
    Again,
    /// The final frame was sent.
    Finished,
}
