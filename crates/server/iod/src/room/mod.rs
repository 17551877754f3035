//! Disk space reserved for sessions with buffered writes
//! (`docs/adr/0014-disk-space-reservations.md`).
//!
//! ```text
//!   WriteWithRoom ── what each session has ───────────┐
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

mod space;
mod terms;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::Duration,
};

use braid_store::{DeviceId, StoreSpace};
use braid_types::{Failure, SessionId, Status, limits::RESERVATION_OBJECT_BYTES};
use braid_wire::message::iod::{Reservation, ReservationAccount};

use self::{
    space::{Space, blocks},
    terms::Terms,
};

/// The disk space that a write is charged for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cost(u64);

impl Cost {
    /// Bytes at an offset of an object. `first`: also its name, record and block map, which may be
    /// new.
    pub(crate) fn of(offset: u64, bytes: u64, first: bool) -> Self {
        Self(blocks(offset, bytes).saturating_add(if first { RESERVATION_OBJECT_BYTES } else { 0 }))
    }
}

/// Which space a write may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// Its session's reservation.
    InRoom,
    /// Space that is neither reserved nor in the margin.
    Ordinary,
}

/// The reservations on one device.
#[derive(Debug, Default)]
pub(crate) struct Device {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    space: Space,
    terms: Terms,
    members: u32,
}

/// One daemon's part in the reservations on its device.
#[derive(Debug)]
pub(crate) struct Keeper {
    device: Arc<Device>,
    member: u32,
}

/// A write in flight. Drop it when the disk has the write or has refused it.
#[must_use = "the write counts as done when it is dropped"]
#[derive(Debug)]
pub(crate) struct Charge<'a> {
    device: &'a Device,
    cost: Cost,
}

impl Keeper {
    /// On a device that no other daemon of this process uses.
    pub(crate) fn alone() -> Self {
        Self::of(Arc::default())
    }

    /// On a device by its id, together with the other daemons of this process on it.
    pub(crate) fn on(device: DeviceId) -> Self {
        static DEVICES: OnceLock<Mutex<HashMap<DeviceId, Weak<Device>>>> = OnceLock::new();
        let mut devices =
            DEVICES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        devices.retain(|_, known| known.strong_count() > 0);
        let found = devices.get(&device).and_then(Weak::upgrade).unwrap_or_default();
        devices.insert(device, Arc::downgrade(&found));
        Self::of(found)
    }

    fn of(device: Arc<Device>) -> Self {
        let mut state = device.lock();
        state.members += 1;
        let member = state.members;
        drop(state);
        Self { device, member }
    }

    /// A session reports what it released and asks for `wanted` more. Returns what it has now, and
    /// whether `uses` of it covers the request's own bytes. `measure` asks the device for its
    /// space.
    pub(crate) fn ask(
        &self,
        session: SessionId,
        account: &ReservationAccount,
        wanted: u64,
        uses: u64,
        now: Duration,
        measure: impl FnOnce() -> Option<StoreSpace>,
    ) -> (Option<Reservation>, bool) {
        let State { space, terms, .. } = &mut *self.device.lock();
        let key = (self.member, session);
        space.let_go(terms.expire(now));
        space.let_go(terms.released(key, account, now));
        let covered = uses > 0 && terms.covers(key, account.term, uses);
        let granted = space.grant(terms.allowed(key, wanted), now, measure);
        (terms.granted(key, granted, now), covered)
    }

    /// A session returned space. When nothing is left, its term ends.
    pub(crate) fn take_back(&self, session: SessionId, account: &ReservationAccount, now: Duration) {
        let State { space, terms, .. } = &mut *self.device.lock();
        let key = (self.member, session);
        space.let_go(terms.released(key, account, now));
        terms.end_empty(key);
    }

    /// Ends the reservations of these sessions.
    pub(crate) fn end(&self, sessions: &[SessionId]) {
        let State { space, terms, .. } = &mut *self.device.lock();
        sessions.iter().for_each(|session| space.let_go(terms.end((self.member, *session))));
    }

    /// Ends the reservations of the sessions for which `over` holds.
    pub(crate) fn end_where(&self, over: impl Fn(SessionId) -> bool) {
        let State { space, terms, .. } = &mut *self.device.lock();
        space.let_go(terms.end_sessions(self.member, over));
    }

    /// Reserved bytes of the device.
    pub(crate) fn kept(&self) -> u64 {
        self.device.lock().space.kept()
    }

    /// Charges a write before it is done. `in_place` returns whether all of it falls on allocated
    /// blocks. It is asked only for a write that would be refused otherwise, which is then allowed.
    /// `measure` asks the device for its space.
    ///
    /// # Errors
    /// [`Status::NoSpace`]: the rest of the disk is reserved.
    pub(crate) fn begin(
        &self,
        cost: Cost,
        in_room: bool,
        now: Duration,
        measure: impl Fn() -> Option<StoreSpace>,
        in_place: impl FnOnce() -> bool,
    ) -> Result<Charge<'_>, Failure> {
        let claim = if in_room { Claim::InRoom } else { Claim::Ordinary };
        let charge = || Charge { device: &self.device, cost };
        let admit = |claim| {
            let State { space, terms, .. } = &mut *self.device.lock();
            if space.admit(cost.0, claim, now, &measure) {
                return true;
            }
            space.let_go(terms.expire(now));
            space.admit(cost.0, claim, now, &measure)
        };
        if admit(claim) {
            return Ok(charge());
        }
        // Without the lock, since it may read from the disk.
        if in_place() {
            self.device.lock().space.count(cost.0);
            return Ok(charge());
        }
        let kept = self.kept();
        let detail =
            format!("no space left on the disk except {kept} bytes reserved for buffered writes");
        Err(Failure::new(
            Status::NoSpace,
            format!("{detail}; try: df, or again in {} s", space::EXPIRES.as_secs()),
        ))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let State { space, terms, .. } = &mut *self.device.lock();
        space.let_go(terms.end_member(self.member));
    }
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.device.lock().space.done(self.cost.0);
    }
}

impl Device {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
