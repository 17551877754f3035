//! Client sessions: whose they are, what they have open, and their replay slots (I7).
//!
//! ```text
//!   OpenSession ──> live ──silence, revoked key──> ended and fenced
//!        ^            └────── CloseSession ──────> ended
//!        └── reclaim, within the grace period ── recorded (server restarted)
//! ```
//!
//! Invariants: (1) a session's id is never used twice; (2) it
//! belongs to one owner, and nobody else may join or reclaim it; (3) in a slot sequences only rise,
//! one call is in flight, and the newest answer is kept until the next call.

use std::{collections::HashMap, sync::Arc, time::Duration};

use braid_types::{Failure, FileIndex, KeyId, MdsEpoch, SessionId, Status};
use braid_wire::Rights;

use crate::connection::Pulse;

/// Replay slots of a session: as many calls as a client has in flight at once.
pub const SESSION_SLOTS: u32 = 64;
/// Sessions of one server (I9): a few hundred bytes each.
pub const SESSIONS_MAX: usize = 65_536;
/// Files that one session has open.
pub const SESSION_OPENS_MAX: usize = 262_144;
/// Retries of one call that wait for it at once. A client has one retry in flight, on a new connection.
pub const SLOT_WAITERS_MAX: usize = 4;

/// Who a session belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    /// The key that the connection proved, or that vouched for its ticket; 0 for the server key.
    pub key: KeyId,
    /// The user of a ticket.
    pub user: Option<u64>,
}

/// A file that a session has open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenFile {
    /// Which.
    pub file: FileIndex,
    /// For what.
    pub rights: Rights,
}

/// A session. `W` is what waits for the answer of a call.
#[derive(Debug)]
pub struct Session<W> {
    /// Its id.
    pub id: SessionId,
    /// Whose it is.
    pub owner: Owner,
    /// Who the client says it is.
    pub client: String,
    /// When it was last heard, and whether it ended: looked at without the server's lock.
    pub(crate) pulse: Arc<Pulse>,
    /// It was made by an earlier run of the server: the store may hold answers of its slots.
    pub reclaimed: bool,
    /// What it has open, by handle.
    pub opens: HashMap<u64, OpenFile>,
    next_open: u64,
    slots: Vec<Slot<W>>,
}

#[derive(Debug)]
struct Slot<W> {
    sequence: u64,
    state: SlotState<W>,
}

#[derive(Debug)]
enum SlotState<W> {
    Idle(Option<Arc<[u8]>>),
    InFlight(Vec<W>),
}

/// What to do with a call that changes something.
#[derive(Debug)]
pub enum Admission<W> {
    /// Do it. One that an earlier run of the server did is answered by the store.
    Do(W),
    /// It is a retry; this was the answer.
    Answered(W, Arc<[u8]>),
    /// It is a retry of a call that is not done yet; it gets that one's answer.
    Joined,
    /// It breaks the rules of slots.
    Refused(W, Failure),
}

impl<W> Session<W> {
    /// A session with nothing open.
    pub fn new(id: SessionId, owner: Owner, client: String, now: Duration, reclaimed: bool) -> Self {
        let (pulse, opens) = (Arc::new(Pulse::new(id, now)), HashMap::new());
        Self { id, owner, client, pulse, reclaimed, opens, next_open: 1, slots: Vec::new() }
    }

    /// Numbers handles from `epoch` on: a handle that this run gives is none that an earlier one gave, and that a
    /// client may still name.
    pub fn since(self, epoch: MdsEpoch) -> Self {
        Self { next_open: epoch.0 << 32 | 1, ..self }
    }

    /// Takes a call into its slot.
    pub fn admit(&mut self, slot: u32, sequence: u64, waiter: W) -> Admission<W> {
        if slot >= SESSION_SLOTS {
            let detail = format!("slot {slot} of {SESSION_SLOTS}");
            return Admission::Refused(waiter, Failure::new(Status::LimitExceeded, detail));
        }
        let slot = self.slot(slot);
        if sequence == slot.sequence {
            return slot.retry(waiter);
        }
        let in_flight = matches!(slot.state, SlotState::InFlight(_));
        if sequence < slot.sequence || in_flight {
            let why = if in_flight { "the slot has a call in flight" } else { "the sequence went back" };
            return Admission::Refused(waiter, Failure::new(Status::Malformed, why));
        }
        *slot = Slot { sequence, state: SlotState::InFlight(Vec::new()) };
        Admission::Do(waiter)
    }

    /// Ends the call in a slot; the retries that waited for it. The answer of a call that changed something is
    /// kept; one that failed is `None`, and a retry of it is done anew.
    pub fn answered(&mut self, slot: u32, sequence: u64, answer: Option<&[u8]>) -> Vec<W> {
        let slot = self.slot(slot);
        if slot.sequence != sequence {
            return Vec::new();
        }
        match std::mem::replace(&mut slot.state, SlotState::Idle(answer.map(Arc::from))) {
            SlotState::InFlight(waiters) => waiters,
            SlotState::Idle(_) => Vec::new(),
        }
    }

    /// Marks a slot as busy with a call that an earlier run of the server began: its retry waits for it.
    pub fn resume(&mut self, slot: u32, sequence: u64) {
        if slot < SESSION_SLOTS {
            *self.slot(slot) = Slot { sequence, state: SlotState::InFlight(Vec::new()) };
        }
    }

    /// Gives an open file its handle.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`].
    pub fn open(&mut self, open: OpenFile) -> Result<u64, Failure> {
        self.check_room()?;
        let id = self.next_open;
        self.next_open += 1;
        self.opens.insert(id, open);
        Ok(id)
    }

    /// Takes up an open file under the handle that an earlier run of the server gave.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`].
    pub fn take_up(&mut self, id: u64, open: OpenFile) -> Result<(), Failure> {
        self.check_room()?;
        self.next_open = self.next_open.max(id.saturating_add(1));
        self.opens.insert(id, open);
        Ok(())
    }

    /// Whether one more file may be opened.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`].
    pub fn check_room(&self) -> Result<(), Failure> {
        if self.opens.len() < SESSION_OPENS_MAX {
            return Ok(());
        }
        Err(Failure::new(Status::TooManyOpen, format!("a session opens at most {SESSION_OPENS_MAX} files")))
    }

    fn slot(&mut self, slot: u32) -> &mut Slot<W> {
        let at = slot as usize;
        while self.slots.len() <= at {
            self.slots.push(Slot { sequence: 0, state: SlotState::Idle(None) });
        }
        &mut self.slots[at]
    }
}

impl<W> Slot<W> {
    fn retry(&mut self, waiter: W) -> Admission<W> {
        match &mut self.state {
            SlotState::Idle(Some(answer)) => Admission::Answered(waiter, answer.clone()),
            SlotState::InFlight(waiters) if waiters.len() < SLOT_WAITERS_MAX => {
                waiters.push(waiter);
                Admission::Joined
            }
            SlotState::InFlight(_) => {
                Admission::Refused(waiter, Failure::new(Status::Busy, "too many retries of one call"))
            }
            // It failed: nothing was changed.
            SlotState::Idle(None) => {
                self.state = SlotState::InFlight(Vec::new());
                Admission::Do(waiter)
            }
        }
    }
}

/// Every session, live and recorded.
#[derive(Debug)]
pub struct Sessions<W> {
    live: HashMap<SessionId, Session<W>>,
    /// Of an earlier run, not reclaimed yet.
    recorded: HashMap<SessionId, Owner>,
}

impl<W> Sessions<W> {
    /// The sessions that an earlier run of the server recorded wait to be reclaimed.
    pub fn new(recorded: HashMap<SessionId, Owner>) -> Self {
        Self { live: HashMap::new(), recorded }
    }

    /// Whether there is room for one more.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`].
    pub fn check_room(&self) -> Result<(), Failure> {
        if self.live.len() < SESSIONS_MAX {
            return Ok(());
        }
        Err(Failure::new(Status::TooManyOpen, format!("at most {SESSIONS_MAX} sessions")))
    }

    /// Adds a session.
    pub fn insert(&mut self, session: Session<W>) {
        self.recorded.remove(&session.id);
        self.live.insert(session.id, session);
    }

    /// A live session.
    pub fn live(&self, id: SessionId) -> Option<&Session<W>> {
        self.live.get(&id)
    }

    /// A live session.
    pub fn live_mut(&mut self, id: SessionId) -> Option<&mut Session<W>> {
        self.live.get_mut(&id)
    }

    /// Whose a recorded session is.
    pub fn recorded(&self, id: SessionId) -> Option<Owner> {
        self.recorded.get(&id).copied()
    }

    /// Removes a session.
    pub fn remove(&mut self, id: SessionId) -> Option<Session<W>> {
        self.live.remove(&id)
    }

    /// Every live session.
    pub fn iter(&self) -> impl Iterator<Item = &Session<W>> {
        self.live.values()
    }

    /// How many live sessions there are.
    pub fn count(&self) -> usize {
        self.live.len()
    }

    /// Whether some recorded session was not reclaimed.
    pub fn has_recorded(&self) -> bool {
        !self.recorded.is_empty()
    }

    /// Sessions that satisfy `which`, in the order of their ids: the order of events must not hang on a hash.
    pub fn select(&self, which: impl Fn(&Session<W>) -> bool) -> Vec<SessionId> {
        let mut ids: Vec<SessionId> = self.live.values().filter(|s| which(s)).map(|s| s.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Ends the wait for sessions that nobody reclaimed; which they are.
    pub fn give_up_recorded(&mut self) -> Vec<SessionId> {
        let mut ids: Vec<SessionId> = self.recorded.drain().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(reclaimed: bool) -> Session<u32> {
        let owner = Owner { key: KeyId(1), user: None };
        Session::new(SessionId(1), owner, "host".into(), Duration::ZERO, reclaimed)
    }

    #[test]
    fn a_retry_is_answered_with_the_first_answer() {
        let mut session = session(false);
        assert!(matches!(session.admit(0, 1, 10), Admission::Do(10)));
        assert!(session.answered(0, 1, Some(b"yes")).is_empty());
        assert!(matches!(session.admit(0, 1, 11), Admission::Answered(11, answer) if *answer == *b"yes"));
        assert!(matches!(session.admit(0, 2, 12), Admission::Do(_)));
    }

    #[test]
    fn a_retry_of_a_call_that_failed_is_done_anew() {
        let mut session = session(false);
        assert!(matches!(session.admit(0, 1, 10), Admission::Do(10)));
        session.answered(0, 1, None);
        assert!(matches!(session.admit(0, 1, 11), Admission::Do(11)));
    }

    #[test]
    fn a_retry_of_a_call_in_flight_waits_for_it() {
        let mut session = session(false);
        assert!(matches!(session.admit(3, 7, 10), Admission::Do(_)));
        for retry in 0..SLOT_WAITERS_MAX as u32 {
            assert!(matches!(session.admit(3, 7, retry), Admission::Joined));
        }
        assert!(matches!(session.admit(3, 7, 99), Admission::Refused(99, f) if f.status == Status::Busy));
        assert!(matches!(session.admit(3, 8, 98), Admission::Refused(98, f) if f.status == Status::Malformed));
        assert_eq!(session.answered(3, 7, Some(b"x")), [0, 1, 2, 3]);
    }

    #[test]
    fn sequences_never_go_back_and_slots_are_bounded() {
        let mut session = session(false);
        assert!(matches!(session.admit(0, 5, 1), Admission::Do(_)));
        session.answered(0, 5, Some(b""));
        assert!(matches!(session.admit(0, 4, 1), Admission::Refused(1, f) if f.status == Status::Malformed));
        assert!(matches!(session.admit(SESSION_SLOTS - 1, 1, 1), Admission::Do(_)));
        assert!(
            matches!(session.admit(SESSION_SLOTS, 1, 1), Admission::Refused(1, f) if f.status == Status::LimitExceeded)
        );
    }

    #[test]
    fn a_restarted_server_gives_no_handle_that_an_earlier_run_gave() {
        let open = OpenFile { file: FileIndex(5), rights: Rights::READ };
        let before = session(false).since(MdsEpoch(1)).open(open).unwrap();
        let mut after = session(true).since(MdsEpoch(2));
        let given = after.open(open).unwrap();
        after.take_up(before, open).unwrap();
        assert_ne!(before, given);
        assert_eq!(after.opens.len(), 2);
    }

    #[test]
    fn handles_are_not_given_twice_also_after_a_restart() {
        let mut session = session(true);
        let open = OpenFile { file: FileIndex(5), rights: Rights::READ };
        session.take_up(41, open).unwrap();
        assert_eq!(session.open(open), Ok(42));
    }
}
