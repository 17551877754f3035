//! Room that is kept free for sessions that gather writes (`docs/adr/0014-disk-space-reservations.md`).
//!
//! ```text
//!   WriteWithRoom ── Keeper::ask ──> Terms: what each session has ──┐
//!   every write ──── Keeper::begin ─────────────────────────────────┴─> Space: free, in flight, kept
//!                    drop(Charge) when the disk has it
//! ```
//!
//! Invariants:
//! 1. What is kept is never more than what is free: ordinary writes, allocations, copies and grants leave it alone; a write on
//!    blocks that are there takes none, where the file system does not copy on write.
//! 2. A session's room is never less than what the session knows of: both sums only rise within a term.
//! 3. Where nobody has room a write costs two additions, and the disk is not asked for its space.

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
use braid_types::{Failure, SessionId, Status, limits::ROOM_OBJECT_BYTES};
use braid_wire::message::iod::{Room, RoomAccount};

use self::{
    space::{Space, blocks},
    terms::Terms,
};

/// What a write asks the disk for, as it is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cost(u64);

impl Cost {
    /// Bytes at an offset of an object; `first`: its name, its record and the map of its blocks may have to be made, too.
    pub(crate) fn of(offset: u64, bytes: u64, first: bool) -> Self {
        Self(blocks(offset, bytes).saturating_add(if first { ROOM_OBJECT_BYTES } else { 0 }))
    }
}

/// What a write has a right to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// In room of its session: it is taken.
    InRoom,
    /// It leaves alone what is kept, and the margin.
    Ordinary,
}

/// All room on one device.
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

/// One daemon's hand on the room of its device.
#[derive(Debug)]
pub(crate) struct Keeper {
    device: Arc<Device>,
    member: u32,
}

/// A write in flight; dropped when the disk has it, or has refused it.
#[must_use = "the write counts as done when it is dropped"]
#[derive(Debug)]
pub(crate) struct Charge<'a> {
    device: &'a Device,
    cost: Cost,
}

impl Keeper {
    /// Room on a device that no other daemon of the process is on.
    pub(crate) fn alone() -> Self {
        Self::of(Arc::default())
    }

    /// Room on a device by its name: together with the other daemons of this process that are on it.
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

    /// A request of a session: what it let go, and how much more it wants. What it has now, and whether `uses` of it is
    /// there for the request's own bytes. `measure` asks the device for its space.
    pub(crate) fn ask(
        &self,
        session: SessionId,
        account: &RoomAccount,
        wanted: u64,
        uses: u64,
        now: Duration,
        measure: impl FnOnce() -> Option<StoreSpace>,
    ) -> (Option<Room>, bool) {
        let State { space, terms, .. } = &mut *self.device.lock();
        let key = (self.member, session);
        space.let_go(terms.expire(now));
        space.let_go(terms.released(key, account, now));
        let covered = uses > 0 && terms.covers(key, account.term, uses);
        let granted = space.grant(terms.allowed(key, wanted), now, measure);
        (terms.granted(key, granted, now), covered)
    }

    /// A session gave room back; with the last of it the term ends.
    pub(crate) fn take_back(&self, session: SessionId, account: &RoomAccount, now: Duration) {
        let State { space, terms, .. } = &mut *self.device.lock();
        let key = (self.member, session);
        space.let_go(terms.released(key, account, now));
        terms.end_empty(key);
    }

    /// These sessions write no more.
    pub(crate) fn end(&self, sessions: &[SessionId]) {
        let State { space, terms, .. } = &mut *self.device.lock();
        sessions.iter().for_each(|session| space.let_go(terms.end((self.member, *session))));
    }

    /// Sessions of which this holds write no more.
    pub(crate) fn end_where(&self, over: impl Fn(SessionId) -> bool) {
        let State { space, terms, .. } = &mut *self.device.lock();
        space.let_go(terms.end_sessions(self.member, over));
    }

    /// Bytes that are kept free on the device.
    pub(crate) fn kept(&self) -> u64 {
        self.device.lock().space.kept()
    }

    /// Counts a write before it is done. `in_place` tells whether all of it falls on blocks that are there; asked only where it
    /// would be refused otherwise, and not refused then. `measure` asks the device for its space.
    ///
    /// # Errors
    /// [`Status::NoSpace`]: what is left of the disk is kept.
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
        // Looked at without the lock: it may take the disk's time.
        if in_place() {
            self.device.lock().space.count(cost.0);
            return Ok(charge());
        }
        let kept = self.kept();
        let detail = format!(
            "no space left on the disk but {kept} bytes that are kept for what clients have gathered"
        );
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
