//! Room that I/O daemons keep for what this client gathers (`docs/adr/0014-disk-space-reservations.md`).
//!
//! ```text
//!   granted ── known from replies ──┬─ held: by a HeldRoom, for bytes in memory ─┬─ written ──> released, told with the next call
//!                                   │                                            └─ dropped ──> spare
//!                                   └─ spare ── 5 s without use ──> released, told by ReturnRoom
//! ```
//!
//! Invariants: (1) a daemon keeps at least `granted - released`: both sums only rise within a term, and a term is known by its
//! number; (2) room is taken into use only for as long as the last answer said, counted from when its request was sent;
//! (3) what a write was sent with is let go when the write ends, however it ended; (4) nobody who holds no room pays more than
//! a load.

mod account;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use braid_net::{Driver, Exchange};
use braid_types::IodId;
use braid_wire::{
    Call, Rights, Wire, decode_outcome,
    message::iod::{ReturnRoom, RoomAccount},
};

pub(crate) use account::{PoolRoom, RoomAsk};

use super::{
    Engine, OpenFile,
    gate::lock,
    pool::{Pool, Pooled},
};

/// Room is held in steps of the file, so that most writes of a run find theirs held.
const STEP_BYTES: u64 = 64 << 10;
/// How long the return of room may keep others waiting. What is not returned expires.
const RETURN: Duration = Duration::from_secs(1);

/// Room for a stretch of a file at every daemon that it goes to. Dropped, it is free for others of this client; see
/// [`OpenFile::hold_room`].
#[derive(Debug, Default)]
pub struct HeldRoom {
    start: u64,
    end: u64,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    iod: IodId,
    room: Arc<PoolRoom>,
    bytes: u64,
}

/// Room of bytes that are being written; dropped, it is let go.
#[derive(Debug)]
pub(super) struct Spent(HeldRoom);

impl HeldRoom {
    /// Whether it holds room for these bytes of its file.
    pub fn covers(&self, offset: u64, bytes: u64) -> bool {
        bytes == 0
            || (self.start <= offset
                && offset.checked_add(bytes).is_some_and(|end| end <= self.end))
    }

    fn add(&mut self, iod: IodId, room: &Arc<PoolRoom>, bytes: u64) {
        match self.parts.iter_mut().find(|part| part.iod == iod) {
            Some(part) => part.bytes += bytes,
            None => self.parts.push(Part { iod, room: Arc::clone(room), bytes }),
        }
    }
}

impl Drop for HeldRoom {
    fn drop(&mut self) {
        self.parts.iter().for_each(|part| part.room.give_back(part.bytes));
    }
}

impl Spent {
    pub(super) fn of(held: &mut HeldRoom) -> Self {
        Self(std::mem::take(held))
    }

    /// What is held at one daemon.
    pub(super) fn at(&self, iod: IodId) -> u64 {
        self.0.parts.iter().find(|part| part.iod == iod).map_or(0, |part| part.bytes)
    }
}

impl Drop for Spent {
    fn drop(&mut self) {
        self.0.parts.drain(..).for_each(|part| part.room.let_go(part.bytes));
    }
}

impl<D: Driver> OpenFile<D> {
    /// Holds room for bytes of the file that are gathered, at every daemon that they go to: `held` covers them when this is
    /// `true`, and a write of them within 10 s does not meet a full disk. Waits for nobody. `false`: there is no room for them
    /// now, and they are to be written through, which asks for some; what `held` held, it holds.
    ///
    /// `held` is of this file alone, and of one stretch: what lies between its bytes and these is held, too.
    pub fn hold_room(&self, offset: u64, bytes: u64, held: &mut HeldRoom) -> bool {
        if held.covers(offset, bytes) {
            return true;
        }
        let Some(end) =
            offset.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(STEP_BYTES))
        else {
            return false;
        };
        if !self.rights().allow(Rights::WRITE) || !self.engine().is_ours() {
            return false;
        }
        let start = offset - offset % STEP_BYTES;
        // A stretch that is there grows at its ends.
        let (old, new) = match held.parts.is_empty() {
            true => ((start, start), (start, end)),
            false => ((held.start, held.end), (start.min(held.start), end.max(held.end))),
        };
        let (grant, now) = (self.grant(), self.engine().driver().now());
        let mut more = HeldRoom::default();
        for (low, high) in [(new.0, old.0), (old.1, new.1)] {
            // What cannot be laid out is refused when it is written.
            let Ok(costs) = grant.map.room(low, high) else { return false };
            for (target, bytes) in costs {
                let room = &grant.pools[target].room;
                if !room.hold(bytes, now) {
                    return false;
                }
                more.add(grant.map.targets()[target].iod, room, bytes);
            }
        }
        (held.start, held.end) = new;
        more.parts.drain(..).for_each(|part| held.add(part.iod, &part.room, part.bytes));
        true
    }
}

impl<D: Driver> Engine<D> {
    /// Gives room back that was not used for long, or `all` that is not held.
    pub(crate) async fn return_room(self: &Arc<Self>, all: bool) {
        // In the order of their daemons: a simulated run repeats itself.
        let pools: BTreeMap<IodId, Arc<Pool<D>>> =
            lock(&self.pools).iter().map(|(iod, pool)| (*iod, Arc::clone(pool))).collect();
        let deadline = self.driver.now().saturating_add(RETURN.min(self.config.timeout));
        // What a write that was given up took is let go, but the daemon must not believe it while it may still write.
        for pool in pools.into_values().filter(|pool| pool.owed.is_empty()) {
            let Some(account) = pool.room.to_return(self.driver.now(), all) else { continue };
            // One that does not answer keeps no other waiting for long: what is left is for the next time, or expires.
            if self.return_to(&pool, account, deadline).await.is_none() {
                return;
            }
        }
    }

    async fn return_to(
        self: &Arc<Self>,
        pool: &Pool<D>,
        account: RoomAccount,
        deadline: Duration,
    ) -> Option<()> {
        let (lease, pooled) = pool.checkout(self, deadline).await.ok()?;
        let Pooled { connection, meta } = *pooled;
        let mut connections = [connection];
        let body = ReturnRoom { room: account.clone() }.to_bytes();
        let op = ReturnRoom::OP;
        let mut batch = [Exchange {
            connection: 0,
            op,
            body,
            send: Vec::new(),
            recv: Vec::new(),
            outcome: None,
        }];
        let silence_max = deadline.saturating_sub(self.driver.now());
        self.driver.exchange(&mut connections, &mut batch, silence_max).await;
        let [connection] = connections;
        match batch[0].outcome.take() {
            Some(Ok(answer)) => {
                lease.give_back(Box::new(Pooled { connection, meta }));
                // A refusal says that it has nothing of ours.
                decode_outcome::<()>(&answer.body).is_ok().then(|| pool.room.returned(&account))
            }
            _ => {
                lease.give_up(connection, &meta);
                None
            }
        }
    }
}
