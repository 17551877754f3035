//! The state of the I/O daemon that its requests share, without sockets, threads or a clock.
//!
//! ```text
//!   requests.rs ──> ops/, collective/ ──> IodCore ──┬── RequestAdmission   capabilities, fences, heartbeat
//!                                                   ├── ObjectStore        the objects
//!                                                   └── Keeper, FlushAll, Counters, …
//! ```
//!
//! The operations use the core; the core knows none of them.
//!
//! Invariants:
//! 1. Objects are opened only by a verified capability ([`IodCore::open`]), or by the metadata server's own requests (I4).
//! 2. A part that is recorded as existing and is absent is an error, never zeros (I11).

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
    time::Duration,
};

use braid_store::{Object, ObjectStat, ObjectStore, StoreSpace};
use braid_types::{ByteCount, Failure, IodId, MdsEpoch, PartIndex, Status, Timestamp};
use braid_wire::{
    Secret,
    message::{
        iod::Fence,
        mds::SessionRange,
        types::{ObjectInfo, Space},
    },
};

use crate::{
    collective::Collectives,
    connection::{ConnectionState, Peer},
    counters::Counters,
    flush_all::FlushAll,
    grant::{Grant, Place},
    measurement_interval::MeasurementInterval,
    registration::Vitals,
    request_admission::RequestAdmission,
    room::{Charge, Cost, Keeper},
};

/// The daemon's state that all connections share.
#[derive(Debug)]
pub struct IodCore<S> {
    store: Arc<S>,
    admission: RequestAdmission,
    collectives: Arc<Collectives>,
    flush_all: FlushAll,
    measuring: MeasurementInterval,
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

impl<S: ObjectStore> IodCore<S> {
    /// A daemon over `store`, which whoever simulates a crash keeps. It serves no data before the first [`IodCore::serve_until`]. `now` is monotonic, as in
    /// all calls.
    pub fn new(store: Arc<S>, server_key: Secret, now: Duration) -> Self {
        let iod = store.identity().iod.unwrap_or_default();
        Self {
            store,
            admission: RequestAdmission::new(server_key, iod),
            collectives: Arc::default(),
            flush_all: FlushAll::default(),
            measuring: MeasurementInterval::default(),
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
        self.admission.connected(peer)
    }

    /// Refuses these sessions and older epochs from now on; returns when that holds (I4).
    pub fn fence(&self, fence: &Fence) {
        if !fence.sessions.is_empty() {
            tracing::debug!(sessions = ?fence.sessions, fence = fence.fence, "fenced");
        }
        self.admission.fence(fence);
        self.room.end(&fence.sessions);
    }

    /// As [`IodCore::fence`], of sessions in a row, but waits for nobody: no heartbeat is held up by a write that is stuck in
    /// the disk. Whether the fence holds; where it does not yet, ask again.
    pub fn try_fence_ranges(&self, ranges: &[SessionRange], epoch_min: MdsEpoch) -> bool {
        if !ranges.is_empty() {
            tracing::debug!(count = ranges.len(), newest = ?ranges.last(), "ranges of sessions fenced");
        }
        let holds = self.admission.try_fence_ranges(ranges, epoch_min);
        self.room.end_where(|session| {
            ranges.iter().any(|range| range.first <= session && session <= range.last)
        });
        holds
    }

    /// Serves data until this moment; `None` stops at once.
    pub fn serve_until(&self, until: Option<Duration>) {
        self.admission.serve_until(until);
    }

    /// Whether data is served at `now`.
    pub fn serves(&self, now: Duration) -> bool {
        self.admission.serves(now)
    }

    /// The store under the daemon.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// The daemon's id; 0 until it was given one.
    pub fn iod(&self) -> IodId {
        self.admission.iod()
    }

    /// Keeps the id that the metadata server gave, also on disk.
    ///
    /// # Errors
    /// The disk's, and another id than the one that the directory carries.
    pub fn assign_iod(&self, iod: IodId) -> Result<(), Failure> {
        self.store.assign_iod(iod)?;
        self.admission.set_iod(iod);
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
        let space = self.space()?;
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

    /// Which requests and slices may touch objects.
    pub(crate) fn admission(&self) -> &RequestAdmission {
        &self.admission
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
    pub(crate) fn measuring(&self) -> &MeasurementInterval {
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

    /// Free space of the disk, without what is reserved for buffered writes.
    pub(crate) fn space(&self) -> Result<Space, Failure> {
        let space = self.store.space()?;
        let device = u128::from_le_bytes(space.device.0);
        let reserved = self.room.kept();
        Ok(Space {
            // 64 bits travel; folding keeps devices apart whichever half of the name differs.
            device: (device >> 64) as u64 ^ device as u64,
            total: ByteCount(space.total_bytes),
            free: ByteCount(space.free_bytes.saturating_sub(reserved)),
            available: ByteCount(space.available_bytes.saturating_sub(reserved)),
            files_free: space.free_objects,
        })
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
