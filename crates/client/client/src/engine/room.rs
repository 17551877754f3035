//! Room that I/O daemons keep for what this client gathers (`docs/adr/0014-room-for-gathered-writes.md`).
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

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use braid_net::{Driver, Exchange};
use braid_types::{ByteCount, IodId, limits::ROOM_EXPIRES_MS};
use braid_wire::{
    Call, Rights, Wire, decode_outcome,
    message::iod::{ReturnRoom, Room, RoomAccount},
};

use super::{
    Engine, OpenFile,
    gate::lock,
    pool::{Pool, Pooled},
};

/// Room beyond what is held that a client likes to have: sixty-four steps, so that a burst of small files finds some.
const SPARE_BYTES: u64 = 4 << 20;
/// Room is held in steps of the file, so that most writes of a run find theirs held.
const STEP_BYTES: u64 = 64 << 10;
/// Spare room goes back after so long without use.
const IDLE: Duration = Duration::from_secs(5);
/// How long the return of room may keep others waiting. What is not returned expires.
const RETURN: Duration = Duration::from_secs(1);
const EXPIRES: Duration = Duration::from_millis(ROOM_EXPIRES_MS);

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
        bytes == 0 || (self.start <= offset && offset.checked_add(bytes).is_some_and(|end| end <= self.end))
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

/// What a write says of room, besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RoomAsk {
    pub(crate) term: u64,
    pub(crate) released: u64,
    pub(crate) wanted: u64,
    pub(crate) uses: u64,
    /// When it is sent, for the answer.
    pub(crate) sent: Duration,
}

/// This client's room on one daemon.
#[derive(Debug, Default)]
pub(crate) struct PoolRoom {
    /// Whether there is something to say: looked at without the lock.
    asks: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    term: u64,
    granted: u64,
    released: u64,
    /// Of `released`, what the daemon has heard.
    told: u64,
    held: u64,
    /// The most that was missed since the daemon was asked.
    missed: u64,
    /// When the request was sent that was last answered, and how long the answer holds from then.
    sent: Duration,
    holds: Duration,
    used: Duration,
}

impl State {
    fn spare(&self) -> u64 {
        (self.granted - self.released).saturating_sub(self.held)
    }

    fn is_good(&self, now: Duration) -> bool {
        now < self.sent.saturating_add(self.holds)
    }

    fn asks(&self) -> bool {
        self.missed > 0 || self.told < self.released
    }

    fn account(&self) -> RoomAccount {
        RoomAccount { term: self.term, released: ByteCount(self.released) }
    }
}

impl PoolRoom {
    /// Takes spare room; `false` when there is not so much: then the next write asks for it.
    fn hold(&self, bytes: u64, now: Duration) -> bool {
        let mut state = lock(&self.state);
        let found = state.is_good(now) && bytes <= state.spare();
        if found {
            state.held += bytes;
            state.used = now;
        } else {
            state.missed = state.missed.max(bytes);
            self.asks.store(true, Ordering::Release);
        }
        found
    }

    fn give_back(&self, bytes: u64) {
        let mut state = lock(&self.state);
        state.held = state.held.saturating_sub(bytes);
    }

    fn let_go(&self, bytes: u64) {
        let mut state = lock(&self.state);
        state.held = state.held.saturating_sub(bytes);
        state.released = state.released.saturating_add(bytes).min(state.granted);
        self.asks.store(state.asks(), Ordering::Release);
    }

    /// What a write of bytes that are held in `uses` bytes of room says; `None`: nothing, and it is an ordinary one.
    pub(crate) fn ask(&self, uses: u64, now: Duration) -> Option<RoomAsk> {
        if uses == 0 && !self.asks.load(Ordering::Acquire) {
            return None;
        }
        let state = lock(&self.state);
        let has = state.granted - state.released;
        let likes = state.held.saturating_add(SPARE_BYTES.max(state.missed));
        let wanted = if state.missed > 0 || uses > 0 { likes.saturating_sub(has) } else { 0 };
        // A daemon that restarted has granted less than is held: what is there is for one and all, until there is more.
        let uses = if state.held <= has { uses } else { 0 };
        Some(RoomAsk { term: state.term, released: state.released, wanted, uses, sent: now })
    }

    /// The answer to what was asked.
    pub(crate) fn heard(&self, asked: &RoomAsk, room: Option<Room>) {
        let mut state = lock(&self.state);
        match room {
            Some(room) if room.term == state.term => {
                state.granted = state.granted.max(room.granted.0);
                state.told = state.told.max(if asked.term == room.term { asked.released } else { 0 });
                state.sent = state.sent.max(asked.sent);
                state.holds = Duration::from_millis(u64::from(room.holds_ms));
            }
            // Numbers rise as long as the daemon's host is up; when it starts anew, what was known has run out meanwhile.
            Some(room) if room.term > state.term || !state.is_good(asked.sent) => {
                let holds = Duration::from_millis(u64::from(room.holds_ms));
                let (term, granted, held, used) = (room.term, room.granted.0, state.held, state.used);
                *state = State { term, granted, held, used, sent: asked.sent, holds, ..State::default() };
            }
            Some(_) => {}
            // It has none for us, whatever we had.
            None if asked.sent >= state.sent => (state.holds, state.told) = (Duration::ZERO, state.released),
            None => {}
        }
        state.missed = 0;
        self.asks.store(state.asks(), Ordering::Release);
    }

    /// What is to be told to the daemon that was not used for long, or `all`; what is spare is let go.
    fn to_return(&self, now: Duration, all: bool) -> Option<RoomAccount> {
        let mut state = lock(&self.state);
        let is_idle = state.held == 0 && now >= state.used.saturating_add(IDLE);
        if state.told == state.granted || !(is_idle || all) {
            return None;
        }
        if now >= state.sent.saturating_add(EXPIRES) {
            (state.released, state.told) = (state.granted, state.granted);
            return None;
        }
        state.released += state.spare();
        Some(state.account())
    }

    fn returned(&self, account: &RoomAccount) {
        let mut state = lock(&self.state);
        if state.term == account.term {
            state.told = state.told.max(account.released.0);
        }
        self.asks.store(state.asks(), Ordering::Release);
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
        let Some(end) = offset.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(STEP_BYTES)) else {
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
        let pools: Vec<Arc<Pool<D>>> = lock(&self.pools).values().cloned().collect();
        let deadline = self.driver.now().saturating_add(RETURN.min(self.config.timeout));
        // What a write that was given up took is let go, but the daemon must not believe it while it may still write.
        for pool in pools.into_iter().filter(|pool| pool.owed.is_empty()) {
            let Some(account) = pool.room.to_return(self.driver.now(), all) else { continue };
            // One that does not answer keeps no other waiting for long: what is left is for the next time, or expires.
            if self.return_to(&pool, account, deadline).await.is_none() {
                return;
            }
        }
    }

    async fn return_to(self: &Arc<Self>, pool: &Pool<D>, account: RoomAccount, deadline: Duration) -> Option<()> {
        let (lease, pooled) = pool.checkout(self, deadline).await.ok()?;
        let Pooled { connection, meta } = *pooled;
        let mut connections = [connection];
        let body = ReturnRoom { room: account.clone() }.to_bytes();
        let op = ReturnRoom::OP;
        let mut batch = [Exchange { connection: 0, op, body, send: Vec::new(), recv: Vec::new(), outcome: None }];
        self.driver.exchange(&mut connections, &mut batch, deadline).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);
    const HOLDS: Duration = Duration::from_secs(10);

    fn room(term: u64, granted: u64) -> Option<Room> {
        Some(Room { term, granted: ByteCount(granted), holds_ms: HOLDS.as_millis() as u32 })
    }

    /// Room of 1000 bytes in term 1.
    fn granted() -> PoolRoom {
        let pool = PoolRoom::default();
        assert!(!pool.hold(10, NOW));
        pool.heard(&pool.ask(0, NOW).unwrap(), room(1, 1000));
        pool
    }

    #[test]
    fn room_is_asked_for_when_it_was_missed_and_by_nobody_else() {
        let pool = PoolRoom::default();
        assert_eq!(pool.ask(0, NOW), None);
        assert!(!pool.hold(10, NOW));
        let asked = pool.ask(0, NOW).unwrap();
        assert_eq!((asked.term, asked.wanted, asked.uses), (0, SPARE_BYTES, 0));
        pool.heard(&asked, room(1, 1000));
        assert!(pool.hold(1000, NOW) && !pool.hold(1, NOW));
    }

    #[test]
    fn room_holds_from_when_its_request_was_sent() {
        let pool = granted();
        assert!(pool.hold(1, NOW + HOLDS - Duration::from_millis(1)) && !pool.hold(1, NOW + HOLDS));
        pool.heard(&pool.ask(0, NOW + HOLDS).unwrap(), room(1, 1000));
        assert!(pool.hold(1, NOW + HOLDS));
    }

    #[test]
    fn what_was_written_is_let_go_and_what_was_not_is_spare_again() {
        let pool = Arc::new(granted());
        let mut held = HeldRoom::default();
        assert!(pool.hold(300, NOW));
        held.add(IodId(1), &pool, 300);
        let spent = Spent::of(&mut held);
        assert_eq!((spent.at(IodId(1)), spent.at(IodId(2))), (300, 0));
        assert_eq!(pool.ask(300, NOW).unwrap().uses, 300);
        drop(spent);
        drop(held);
        assert_eq!(pool.ask(0, NOW).map(|ask| (ask.released, ask.wanted)), Some((300, 0)), "it is told");
        assert!(pool.hold(700, NOW) && !pool.hold(1, NOW));
        let mut held = HeldRoom::default();
        held.add(IodId(1), &pool, 700);
        drop(held);
        assert!(pool.hold(700, NOW));
    }

    #[test]
    fn another_term_voids_what_was_there_and_a_late_answer_of_the_old_one_brings_nothing_back() {
        let pool = granted();
        assert!(pool.hold(600, NOW));
        let (first, later) = (pool.ask(600, NOW).unwrap(), pool.ask(600, NOW + HOLDS / 2).unwrap());
        pool.heard(&first, room(2, 500));
        assert_eq!(pool.ask(600, NOW).unwrap().uses, 0, "600 bytes are held, 500 are kept for them");
        pool.heard(&later, room(1, 5000));
        assert!(!pool.hold(1, NOW));
        pool.heard(&pool.ask(600, NOW).unwrap(), room(2, 700));
        assert_eq!(pool.ask(600, NOW).unwrap().uses, 600);
        assert!(pool.hold(100, NOW) && !pool.hold(1, NOW));
    }

    #[test]
    fn a_daemon_that_has_nothing_for_us_any_more_is_believed() {
        let pool = granted();
        pool.heard(&pool.ask(1, NOW).unwrap(), None);
        assert!(!pool.hold(1, NOW));
        let again = pool.ask(0, NOW).unwrap();
        assert_eq!(again.term, 1, "the term is named, in case that it lives");
        pool.heard(&again, room(1, 1000));
        assert!(pool.hold(1000, NOW));
    }

    #[test]
    fn spare_room_goes_back_when_it_is_idle_and_is_not_used_after_that() {
        let pool = granted();
        assert!(pool.hold(100, NOW));
        assert_eq!(pool.to_return(NOW + IDLE, false), None, "it is held");
        pool.give_back(100);
        assert_eq!(pool.to_return(NOW + IDLE - Duration::from_millis(1), false), None);
        let account = pool.to_return(NOW + IDLE, false).unwrap();
        assert_eq!((account.term, account.released.0), (1, 1000));
        assert!(!pool.hold(1, NOW + IDLE));
        assert!(pool.to_return(NOW + IDLE, false).is_some(), "until it is told");
        pool.returned(&account);
        assert_eq!(pool.to_return(NOW + IDLE, false), None);
        pool.heard(&pool.ask(0, NOW + IDLE).unwrap(), room(2, 10));
        assert!(pool.hold(10, NOW + IDLE));
    }
}
