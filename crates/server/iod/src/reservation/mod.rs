//! Disk space reserved for sessions with buffered writes
//! (`docs/adr/0014-disk-space-reservations.md`).
//!
//! ```text
//!   WriteWithReservation ── what each session has ────┐
//!   every write ──── charge ──────────────────────────┴─> free space: free, in flight, reserved
//!                    drop the charge when the disk has the write
//! ```
//!
//! Invariants:
//! 1. Reserved space never exceeds free space. Ordinary writes, allocations, copies and grants
//!    leave it alone. A write on allocated blocks needs none, if the file system does not copy on
//!    write.
//! 2. A session's reservation is never less than the session knows: within a term, both sums only
//!    rise.
//! 3. While nothing is reserved, a write costs two additions, and the disk is not asked for its
//!    space.
//!
//! `FreeSpace::reserve` asserts 1, and `ReservationTerm::reserved` that no sum exceeds the other
//! (2). The tests count the queries of free space (3).

mod free_space;
mod terms;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, Weak},
    time::Duration,
};

use braid_store::{DeviceId, StoreSpace};
use braid_types::{Failure, SessionId, Status, limits::RESERVATION_OBJECT_BYTES};
use braid_wire::message::iod::{Reservation, ReservationAccount};

use self::{
    free_space::{FreeSpace, blocks},
    terms::ReservationTerms,
};

/// The disk space that a write is charged for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WriteCost(u64);

impl WriteCost {
    /// Bytes at an offset of an object. `first`: also its name, record and block map, which may be
    /// new.
    pub(crate) fn of(offset: u64, bytes: u64, first: bool) -> Self {
        Self(blocks(offset, bytes).saturating_add(if first { RESERVATION_OBJECT_BYTES } else { 0 }))
    }
}

/// Which space a write may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChargeKind {
    /// Its session's reservation.
    Reserved,
    /// Space that is neither reserved nor in the margin.
    Ordinary,
}

/// The reservations on one device.
#[derive(Debug, Default)]
pub(crate) struct DeviceReservations {
    state: Mutex<DeviceState>,
}

#[derive(Debug, Default)]
struct DeviceState {
    space: FreeSpace,
    terms: ReservationTerms,
    members: u32,
}

/// One daemon's part in the reservations on its device.
#[derive(Debug)]
pub(crate) struct Reservations {
    device: Arc<DeviceReservations>,
    member: u32,
}

/// A write in flight. Drop it when the disk has the write or has refused it.
#[must_use = "the write counts as done when it is dropped"]
#[derive(Debug)]
pub(crate) struct WriteCharge<'a> {
    device: &'a DeviceReservations,
    cost: WriteCost,
}

impl Reservations {
    /// On a device that no other daemon of this process uses.
    pub(crate) fn of_one_daemon() -> Self {
        Self::of(Arc::default())
    }

    /// On a device by its id, together with the other daemons of this process on it.
    pub(crate) fn of_device(device: DeviceId) -> Self {
        static DEVICES: OnceLock<Mutex<HashMap<DeviceId, Weak<DeviceReservations>>>> =
            OnceLock::new();
        let mut devices =
            DEVICES.get_or_init(Mutex::default).lock().unwrap_or_else(braid_types::poisoned);
        devices.retain(|_, known| known.strong_count() > 0);
        let found = devices.get(&device).and_then(Weak::upgrade).unwrap_or_default();
        devices.insert(device, Arc::downgrade(&found));
        Self::of(found)
    }

    fn of(device: Arc<DeviceReservations>) -> Self {
        let mut state = device.lock();
        state.members += 1;
        let member = state.members;
        drop(state);
        Self { device, member }
    }

    /// A session reports what it released and asks for `wanted` more. Returns what it has now, and
    /// whether `uses` of it covers the request's own bytes. `measure` asks the device for its
    /// space.
    pub(crate) fn update(
        &self,
        session: SessionId,
        account: &ReservationAccount,
        wanted: u64,
        uses: u64,
        now: Duration,
        measure: impl FnOnce() -> Option<StoreSpace>,
    ) -> (Option<Reservation>, bool) {
        let DeviceState { space, terms, .. } = &mut *self.device.lock();
        let key = (self.member, session);
        space.release(terms.expire(now));
        space.release(terms.apply_release(key, account, now));
        let covered = uses > 0 && terms.covers(key, account.term, uses);
        let granted = space.reserve(terms.allowed(key, wanted), now, measure);
        (terms.add_grant(key, granted, now), covered)
    }

    /// A session returned space. When nothing is left, its term ends.
    pub(crate) fn release(&self, session: SessionId, account: &ReservationAccount, now: Duration) {
        let DeviceState { space, terms, .. } = &mut *self.device.lock();
        let key = (self.member, session);
        space.release(terms.apply_release(key, account, now));
        terms.end_empty(key);
    }

    /// Ends the reservations of these sessions.
    pub(crate) fn end_sessions(&self, sessions: &[SessionId]) {
        let DeviceState { space, terms, .. } = &mut *self.device.lock();
        sessions.iter().for_each(|session| space.release(terms.end((self.member, *session))));
    }

    /// Ends the reservations of the sessions for which `over` holds.
    pub(crate) fn end_sessions_where(&self, over: impl Fn(SessionId) -> bool) {
        let DeviceState { space, terms, .. } = &mut *self.device.lock();
        space.release(terms.end_sessions(self.member, over));
    }

    /// Reserved bytes of the device.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.device.lock().space.reserved()
    }

    /// Charges a write before it is done. `in_place` returns whether all of it falls on allocated
    /// blocks. It is asked only for a write that would be refused otherwise, which is then allowed.
    /// `measure` asks the device for its space.
    ///
    /// # Errors
    /// [`Status::NoSpace`]: the rest of the disk is reserved.
    pub(crate) fn charge(
        &self,
        cost: WriteCost,
        uses_reservation: bool,
        now: Duration,
        measure: impl Fn() -> Option<StoreSpace>,
        in_place: impl FnOnce() -> bool,
    ) -> Result<WriteCharge<'_>, Failure> {
        let claim = if uses_reservation { ChargeKind::Reserved } else { ChargeKind::Ordinary };
        let charge = || WriteCharge { device: &self.device, cost };
        let admit = |claim| {
            let DeviceState { space, terms, .. } = &mut *self.device.lock();
            if space.try_charge(cost.0, claim, now, &measure) {
                return true;
            }
            space.release(terms.expire(now));
            space.try_charge(cost.0, claim, now, &measure)
        };
        if admit(claim) {
            return Ok(charge());
        }
        // Without the lock, since it may read from the disk.
        if in_place() {
            self.device.lock().space.charge(cost.0);
            return Ok(charge());
        }
        let reserved = self.reserved_bytes();
        let detail = format!(
            "no space left on the disk except {reserved} bytes reserved for buffered writes"
        );
        Err(Failure::new(
            Status::NoSpace,
            format!("{detail}; try: df, or again in {} s", free_space::TERM_LIFETIME.as_secs()),
        ))
    }
}

impl Drop for Reservations {
    fn drop(&mut self) {
        let DeviceState { space, terms, .. } = &mut *self.device.lock();
        space.release(terms.end_member(self.member));
    }
}

impl Drop for WriteCharge<'_> {
    fn drop(&mut self) {
        self.device.lock().space.complete(self.cost.0);
    }
}

impl DeviceReservations {
    fn lock(&self) -> MutexGuard<'_, DeviceState> {
        self.state.lock().unwrap_or_else(braid_types::poisoned)
    }
}
