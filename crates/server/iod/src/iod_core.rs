//! The state of the I/O daemon that its requests share, without sockets, threads or a clock.
//!
//! ```text
//!   requests.rs ──> ops/, collective/ ──> IodCore ──┬── request admission: capabilities, fences
//!                                                   ├── object store
//!                                                   └── reservations, flushes, counters, …
//! ```
//!
//! The operations use the core; the core knows none of them.
//!
//! Invariants:
//! 1. Objects are opened only by a verified capability ([`IodCore::open`]), or by the metadata
//!    server's own requests (I4).
//! 2. A part that is recorded as existing and is absent is an error, never zeros (I11).
//!
//! No assertion checks these: the type of the argument gives 1, and `open` returns an error where 2
//! would be broken, since a disk may lose an object.

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
    deleted_objects::DeletedObjects,
    flush_all::FlushAll,
    measurement_interval::MeasurementInterval,
    registration::HeartbeatInfo,
    request_admission::RequestAdmission,
    reservation::{Reservations, WriteCharge, WriteCost},
    verified_capability::{LocalPart, VerifiedCapability},
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
    deleted_objects: DeletedObjects,
    reservations: Reservations,
    started: Duration,
    /// Nanoseconds from this machine's wall clock to the metadata server's.
    clock_offset: AtomicI64,
}

/// An open object with its state when it was opened.
#[derive(Debug)]
pub(crate) struct OpenedObject {
    pub(crate) object: Arc<dyn Object>,
    pub(crate) stat: ObjectStat,
}

impl<S: ObjectStore> IodCore<S> {
    /// A daemon over `store`, which the caller may keep to simulate a crash. It serves no data
    /// before the first [`IodCore::serve_until`]. `now` is monotonic, as in all calls.
    pub fn new(store: Arc<S>, server_key: Secret, now: Duration) -> Self {
        let iod = store.identity().iod.unwrap_or_default();
        Self {
            store,
            admission: RequestAdmission::new(server_key, iod),
            collectives: Arc::default(),
            flush_all: FlushAll::default(),
            measuring: MeasurementInterval::default(),
            counters: Counters::default(),
            deleted_objects: DeletedObjects::default(),
            reservations: Reservations::of_one_daemon(),
            started: now,
            clock_offset: AtomicI64::new(0),
        }
    }

    /// Counts reservations together with the other daemons of this process on the same device. Call
    /// it before the first connection.
    ///
    /// # Errors
    /// A disk error.
    pub fn on_shared_device(mut self) -> Result<Self, Failure> {
        self.reservations = Reservations::of_device(self.store.space()?.device);
        Ok(self)
    }

    /// State for a new connection. Call it when the peer is authenticated and before it is
    /// informed: as soon as it knows the connection's id, it may abandon this connection over
    /// another one.
    pub fn new_connection(&self, peer: &Peer) -> ConnectionState {
        self.admission.connected(peer)
    }

    /// Refuses these sessions and older epochs from now on. Returns when none of their slices runs
    /// (I4).
    pub fn fence(&self, fence: &Fence) {
        if !fence.sessions.is_empty() {
            tracing::debug!(sessions = ?fence.sessions, fence = fence.fence, "fenced");
        }
        self.admission.fence(fence);
        self.reservations.end_sessions(&fence.sessions);
    }

    /// As [`IodCore::fence`] for ranges of sessions, without waiting, so that no write that is
    /// stuck in the disk delays a heartbeat. Returns whether the fence holds; if not, ask again.
    pub fn try_fence_ranges(&self, ranges: &[SessionRange], epoch_min: MdsEpoch) -> bool {
        if !ranges.is_empty() {
            tracing::debug!(count = ranges.len(), newest = ?ranges.last(), "session ranges fenced");
        }
        let holds = self.admission.try_fence_ranges(ranges, epoch_min);
        self.reservations.end_sessions_where(|session| {
            ranges.iter().any(|range| range.first <= session && session <= range.last)
        });
        holds
    }

    /// Serves data until this moment; `None` stops immediately.
    pub fn serve_until(&self, until: Option<Duration>) {
        self.admission.serve_until(until);
    }

    /// Whether data is served at `now`.
    pub fn serves(&self, now: Duration) -> bool {
        self.admission.serves(now)
    }

    /// The object store.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// The daemon's id; 0 until the metadata server has assigned one.
    pub fn iod(&self) -> IodId {
        self.admission.iod()
    }

    /// Stores the id that the metadata server assigned, also on disk.
    ///
    /// # Errors
    /// A disk error, or an id that differs from the one in the directory.
    pub fn assign_iod(&self, iod: IodId) -> Result<(), Failure> {
        self.store.assign_iod(iod)?;
        self.admission.set_iod(iod);
        Ok(())
    }

    /// Updates the offset to the metadata server's wall clock, which read `mds_now` between the
    /// moments `sent` and `received` here. The known offset stays while it may still be right,
    /// within 10 ms: a reported write time must not change with every heartbeat, least of all with
    /// a slow one.
    pub fn set_clock_offset(&self, mds_now: Timestamp, sent: Timestamp, received: Timestamp) {
        let at = |here| nanos(mds_now).saturating_sub(nanos(here));
        // If the clock was set back in between, the two are in the wrong order.
        let (least, most) = (at(received).min(at(sent)), at(received).max(at(sent)));
        let agrees = CLOCK_AGREES.as_nanos() as i64;
        let known = self.clock_offset.load(Relaxed);
        if known < least.saturating_sub(agrees) || known > most.saturating_add(agrees) {
            self.clock_offset.store(least.midpoint(most), Relaxed);
        }
    }

    /// The contents of a heartbeat.
    pub fn heartbeat_info(&self) -> Result<HeartbeatInfo, Failure> {
        let space = self.space()?;
        Ok(HeartbeatInfo { space, verifier: self.store.write_verifier() })
    }

    /// Counters since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Time since the start.
    pub fn uptime(&self, now: Duration) -> Duration {
        now.saturating_sub(self.started)
    }

    /// The counters in Prometheus' text format.
    pub fn prometheus(&self, now: Duration) -> String {
        self.counters.prometheus(self.iod().0, self.serves(now))
    }
}

impl<S: ObjectStore> IodCore<S> {
    /// The object of a local part, opened; `None` when it is absent and was never recorded (I11).
    ///
    /// # Errors
    /// [`Status::ObjectLost`] when a recorded object is absent, and [`Status::StaleHandle`] when it
    /// was deleted; [`Status::StaleGeneration`] when the file was truncated since the capability
    /// was signed (I5).
    pub(crate) fn open(
        &self,
        capability: &VerifiedCapability,
        local_part: &LocalPart,
    ) -> Result<Option<OpenedObject>, Failure> {
        let object = match self.store.open(local_part.object) {
            Err(why) if why.is_no_object() && !local_part.recorded => return Ok(None),
            Err(why) if why.is_no_object() => {
                self.check_not_deleted(local_part)?;
                return self.logged(Err(why));
            }
            opened => self.logged(opened)?,
        };
        let stat = self.logged(object.stat())?;
        if capability.size_generation < stat.size_generation {
            let (asked, current) = (capability.size_generation, stat.size_generation);
            let detail = format!(
                "object {}: size generation {asked} is older than {current}",
                local_part.object
            );
            return Err(Failure::new(Status::StaleGeneration, detail));
        }
        Ok(Some(OpenedObject { object, stat }))
    }

    /// The object of a local part for writing. It is created when it is absent and was never
    /// recorded (I11).
    ///
    /// # Errors
    /// As [`IodCore::open`], and disk errors.
    pub(crate) fn open_or_create(
        &self,
        capability: &VerifiedCapability,
        local_part: &LocalPart,
    ) -> Result<Arc<dyn Object>, Failure> {
        self.check_not_deleted(local_part)?;
        let new = capability.new_object(local_part.object);
        // An object that is not recorded is usually absent: the first write creates it.
        if !local_part.recorded
            && let Some(object) = self.logged(self.store.create_if_absent(&new))?
        {
            return Ok(object);
        }
        match self.open(capability, local_part)? {
            Some(OpenedObject { object, .. }) => Ok(object),
            None => self.logged(self.store.create(&new)),
        }
    }

    fn check_not_deleted(&self, local_part: &LocalPart) -> Result<(), Failure> {
        if self.deleted_objects.contains(local_part.object) {
            let detail = format!("the file of object {} was removed", local_part.object);
            return Err(Failure::new(Status::StaleHandle, detail));
        }
        Ok(())
    }

    /// The objects that were deleted last.
    pub(crate) fn deleted_objects(&self) -> &DeletedObjects {
        &self.deleted_objects
    }

    /// Decides which requests and slices may touch objects.
    pub(crate) fn admission(&self) -> &RequestAdmission {
        &self.admission
    }

    /// The collective requests that run.
    pub(crate) fn collectives(&self) -> &Arc<Collectives> {
        &self.collectives
    }

    /// Flushes of the whole store.
    pub(crate) fn flushes(&self) -> &FlushAll {
        &self.flush_all
    }

    /// The interval between measurements of the disk.
    pub(crate) fn measuring(&self) -> &MeasurementInterval {
        &self.measuring
    }

    /// The disk space reserved for buffered writes.
    pub(crate) fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// Charges an ordinary write before it is done, whatever blocks it falls on.
    ///
    /// # Errors
    /// [`Status::NoSpace`] when the rest of the disk is reserved.
    pub(crate) fn charge_space(
        &self,
        cost: WriteCost,
        now: Duration,
    ) -> Result<WriteCharge<'_>, Failure> {
        self.reservations.charge(cost, false, now, || self.free_space(), || false)
    }

    /// Free space of the disk, without what is reserved for buffered writes.
    pub(crate) fn space(&self) -> Result<Space, Failure> {
        let space = self.store.space()?;
        let device = u128::from_le_bytes(space.device.0);
        let reserved = self.reservations.reserved_bytes();
        Ok(Space {
            // 64 bits are sent; folding keeps devices apart whichever half of the name differs.
            device: (device >> 64) as u64 ^ device as u64,
            total: ByteCount(space.total_bytes),
            free: ByteCount(space.free_bytes.saturating_sub(reserved)),
            available: ByteCount(space.available_bytes.saturating_sub(reserved)),
            files_free: space.free_objects,
        })
    }

    /// The device's own space, measured now.
    pub(crate) fn free_space(&self) -> Option<StoreSpace> {
        self.store.space().ok()
    }

    /// An object's description on the wire.
    pub(crate) fn object_info(&self, part: PartIndex, stat: Option<&ObjectStat>) -> ObjectInfo {
        ObjectInfo {
            part,
            exists: stat.is_some(),
            bytes: ByteCount(stat.map_or(0, |stat| stat.size)),
            bytes_used: ByteCount(stat.map_or(0, |stat| stat.allocated_bytes)),
            mtime: stat.map_or_else(Timestamp::default, |stat| self.mds_time(stat.mtime)),
        }
    }

    /// Converts a store error for the wire, and logs it when the disk is at fault.
    pub(crate) fn logged<T>(&self, outcome: braid_store::Result<T>) -> Result<T, Failure> {
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

    /// Converts `modified`, a time of the metadata server's clock, to this machine's clock. `None`
    /// unless a client may have buffered bytes from then until they were written to the disk at
    /// `written`.
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

/// How long a client may have buffered a write: longer than a call may take. An earlier time is
/// ignored, and so is one that is later than clock differences and a coarse file system clock
/// explain.
const BUFFERED_MAX: Duration = Duration::from_secs(60);

/// A time from nanoseconds since 1970.
fn timestamp(nanos: i64) -> Timestamp {
    Timestamp { seconds: nanos.div_euclid(NANOS), nanos: nanos.rem_euclid(NANOS) as u32 }
}

const NANOS: i64 = 1_000_000_000;
/// How far a known clock offset may be outside the range of a reply before it is replaced: NTP
/// keeps clocks this close.
const CLOCK_AGREES: Duration = Duration::from_millis(10);

/// Nanoseconds since 1970; saturates in the year 2262.
fn nanos(time: Timestamp) -> i64 {
    time.seconds.saturating_mul(NANOS).saturating_add(i64::from(time.nanos))
}
