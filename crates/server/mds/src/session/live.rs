//! Client sessions: whose they are, what they have open, and their replay slots (I7).
//!
//! ```text
//!   OpenSession ──> live ──silence, revoked key──> ended and fenced
//!        ^            └────── CloseSession ──────> ended
//!        └── OpenSession, then Reclaim, within the grace period ── recorded (server restarted)
//! ```
//!
//! Invariants: (1) a session's id is never used twice; (2) it
//! belongs to one owner, and nobody else may join or reclaim it; (3) in a slot sequences only rise,
//! one call is in flight, and the newest answer is kept until the next call; (4) once a session has told all that it
//! has open, its handles of a file are as many as the store counts opens, but for calls that are under way.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use braid_meta::OpenMode;
use braid_types::{Failure, FileIndex, IdState, KeyId, MdsEpoch, SessionId, Status};
use braid_wire::{Deny, Rights};

use crate::{connection::Pulse, convert};

/// Replay slots of a session: as many calls as a client has in flight at once.
pub const SESSION_SLOTS: u32 = 64;
/// Sessions of one server (I9): a few hundred bytes each.
pub const SESSIONS_MAX: usize = 131_072;
/// Sessions of one owner: whoever begins as many as it can leaves as many to others.
pub const SESSIONS_OWNER_MAX: usize = SESSIONS_MAX / 2;
/// Files that one session has open.
pub const SESSION_OPENS_MAX: usize = 262_144;
/// Answers kept for retries, of one session (I9): an ordinary one has some hundred bytes, so its 64 slots take a
/// sixteenth of this; that of the widest file has 200 KB.
pub const KEPT_ANSWERS_SESSION_BYTES_MAX: usize = 1 << 20;
/// Answers kept for retries, of all sessions (I9). One that finds no room is not kept: a retry is answered from the record
/// in the store, as after a restart.
pub const KEPT_ANSWERS_BYTES_MAX: usize = 256 << 20;
/// Files that one session of a ticket has written and closed, whose sizes are asked of their objects until it ends (I9). Past
/// it that of the oldest is collected: a program that goes on writing so many files after it closed them harms its own files.
pub const WITHHELD_FILES_MAX: usize = 65_536;
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
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpenFile {
    /// Which.
    pub file: FileIndex,
    /// For what.
    pub rights: Rights,
    /// What it denies to other opens.
    pub deny: Deny,
}

impl OpenFile {
    /// What it has and denies, as the store counts it.
    pub fn mode(self) -> OpenMode {
        convert::open_mode(self.rights, self.deny)
    }
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
    /// The store may hold answers of opens that it does not count any more: of an earlier run, or taken back.
    pub recounts: bool,
    /// It has not told yet all that it had open then.
    pub reclaiming: bool,
    /// It had a handle that writes, and so a capability that may still be shown to I/O daemons.
    wrote: bool,
    opens: HashMap<u64, OpenFile, IdState>,
    /// How many handles of each file, by what they have and deny.
    held: HashMap<FileIndex, braid_meta::OpenFile, IdState>,
    first_open: u64,
    next_open: u64,
    slots: Vec<Slot<W>>,
    /// Files that it wrote and closed, where its user has a ticket: the oldest first, and the same to look one up.
    withheld: VecDeque<FileIndex>,
    withheld_files: HashSet<FileIndex, IdState>,
    /// Bytes of the answers in its slots.
    kept_bytes: usize,
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
    pub fn new(
        id: SessionId,
        owner: Owner,
        client: String,
        now: Duration,
        reclaimed: bool,
    ) -> Self {
        let (pulse, opens, held) =
            (Arc::new(Pulse::new(id, now)), HashMap::default(), HashMap::default());
        let (recounts, reclaiming) = (reclaimed, reclaimed);
        Self {
            id,
            owner,
            client,
            pulse,
            recounts,
            reclaiming,
            wrote: false,
            opens,
            held,
            first_open: 1,
            next_open: 1,
            slots: Vec::new(),
            withheld: VecDeque::new(),
            withheld_files: HashSet::default(),
            kept_bytes: 0,
        }
    }

    /// Numbers handles from `epoch` on: a handle that this run gives is none that an earlier one gave, and that a
    /// client may still name.
    pub fn since(self, epoch: MdsEpoch) -> Self {
        let first = epoch.0 << 32 | 1;
        Self { first_open: first, next_open: first, ..self }
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
        let kept = slot.kept_bytes();
        let in_flight = matches!(slot.state, SlotState::InFlight(_));
        if sequence < slot.sequence || in_flight {
            let why =
                if in_flight { "the slot has a call in flight" } else { "the sequence went back" };
            return Admission::Refused(waiter, Failure::new(Status::Malformed, why));
        }
        *slot = Slot { sequence, state: SlotState::InFlight(Vec::new()) };
        self.kept_bytes -= kept;
        Admission::Do(waiter)
    }

    /// Ends the call in a slot; the retries that waited for it. The answer of a call that changed something is
    /// kept, where `room` bytes and the session's own bound allow it; one that failed is `None`, and a retry of it is done anew.
    pub fn answered(
        &mut self,
        slot: u32,
        sequence: u64,
        answer: Option<&[u8]>,
        room: usize,
    ) -> Vec<W> {
        let fits = answer.is_none_or(|answer| {
            let left = KEPT_ANSWERS_SESSION_BYTES_MAX.saturating_sub(self.kept_bytes);
            answer.len() <= left.min(room)
        });
        let slot = self.slot(slot);
        if slot.sequence != sequence {
            return Vec::new();
        }
        let answer = answer.filter(|_| fits);
        let before = slot.kept_bytes();
        let waiters = slot.end(answer);
        self.kept_bytes = self.kept_bytes - before + answer.map_or(0, <[u8]>::len);
        // A retry of an open is answered by the store, which counted it, and gets a handle of its own.
        self.recounts |= !fits;
        waiters
    }

    /// Bytes of the answers that are kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }
}

impl<W> Slot<W> {
    fn kept_bytes(&self) -> usize {
        match &self.state {
            SlotState::Idle(Some(answer)) => answer.len(),
            SlotState::Idle(None) | SlotState::InFlight(_) => 0,
        }
    }

    fn end(&mut self, answer: Option<&[u8]>) -> Vec<W> {
        match std::mem::replace(&mut self.state, SlotState::Idle(answer.map(Arc::from))) {
            SlotState::InFlight(waiters) => waiters,
            SlotState::Idle(_) => Vec::new(),
        }
    }
}

impl<W> Session<W> {
    /// Marks a slot as busy with a call that an earlier run of the server began: its retry waits for it.
    pub fn resume(&mut self, slot: u32, sequence: u64) {
        if slot < SESSION_SLOTS {
            self.kept_bytes -= self.slot(slot).kept_bytes();
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
        self.insert(id, open);
        Ok(id)
    }

    /// Takes up an open file under the handle that an earlier run of the server gave. Tells whether the session has it
    /// now: not when it has told all before, nor when this run gave the handle.
    pub fn take_up(&mut self, id: u64, open: OpenFile) -> bool {
        if let Some(known) = self.opens.get(&id) {
            return *known == open;
        }
        let may = self.reclaiming && id < self.first_open && self.check_room().is_ok();
        if may {
            self.insert(id, open);
        }
        may
    }

    /// Ends a handle; what it was.
    pub fn close(&mut self, id: u64) -> Option<OpenFile> {
        let open = self.opens.remove(&id)?;
        if let Some(held) = self.held.get_mut(&open.file) {
            held.remove(open.mode());
            if held.is_none() {
                self.held.remove(&open.file);
            }
        }
        Some(open)
    }

    /// Gives a handle back that was ended too early.
    pub fn restore(&mut self, id: u64, open: OpenFile) {
        if !self.opens.contains_key(&id) {
            self.insert(id, open);
        }
    }

    /// A handle, also beyond the limit, of an open that the store counts and that was given to nobody.
    pub fn keep(&mut self, open: OpenFile) -> u64 {
        let id = self.next_open;
        self.next_open += 1;
        self.insert(id, open);
        id
    }

    /// Notes that a user with a ticket has closed a file that it may write: `None` when it is noted already, else the file for
    /// which there is no room any more.
    pub fn withhold(&mut self, file: FileIndex) -> Option<Option<FileIndex>> {
        if !self.withheld_files.insert(file) {
            return None;
        }
        self.withheld.push_back(file);
        let oldest =
            if self.withheld.len() > WITHHELD_FILES_MAX { self.withheld.pop_front() } else { None };
        if let Some(oldest) = oldest {
            self.withheld_files.remove(&oldest);
        }
        Some(oldest)
    }

    /// The files that it closed and may write all the same.
    pub fn into_withheld(self) -> Vec<FileIndex> {
        self.withheld.into()
    }

    /// What a handle names.
    pub fn opened(&self, id: u64) -> Option<OpenFile> {
        self.opens.get(&id).copied()
    }

    /// Its handles of a file.
    pub fn held(&self, file: FileIndex) -> braid_meta::OpenFile {
        self.held.get(&file).cloned().unwrap_or_else(|| braid_meta::OpenFile::none(file, self.id))
    }

    /// A handle has, and denies, something else from now on.
    pub fn change(&mut self, id: u64, rights: Rights, deny: Deny) {
        if let Some(was) = self.close(id) {
            self.insert(id, OpenFile { rights, deny, ..was });
        }
    }

    /// Whether it ever had a handle that writes.
    pub fn had_write_handle(&self) -> bool {
        self.wrote
    }

    fn insert(&mut self, id: u64, open: OpenFile) {
        self.wrote |= open.rights.allow(Rights::WRITE);
        self.opens.insert(id, open);
        let none = || braid_meta::OpenFile::none(open.file, self.id);
        // There are fewer handles than the count holds: `SESSION_OPENS_MAX`.
        let _ = self.held.entry(open.file).or_insert_with(none).add(open.mode());
    }

    /// Whether one more file may be opened.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`].
    pub fn check_room(&self) -> Result<(), Failure> {
        if self.opens.len() < SESSION_OPENS_MAX {
            return Ok(());
        }
        Err(Failure::new(
            Status::TooManyOpen,
            format!("a session opens at most {SESSION_OPENS_MAX} files"),
        ))
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
            SlotState::InFlight(_) => Admission::Refused(
                waiter,
                Failure::new(Status::Busy, "too many retries of one call"),
            ),
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
    live: HashMap<SessionId, Session<W>, IdState>,
    /// How many of them are whose.
    of_owner: HashMap<Owner, usize>,
    /// Of an earlier run, not reclaimed yet.
    recorded: HashMap<SessionId, Owner>,
    /// Bytes of the answers that all live ones keep, and how many there may be.
    kept_bytes: usize,
    kept_bytes_max: usize,
}

impl<W> Sessions<W> {
    /// The sessions that an earlier run of the server recorded wait to be reclaimed.
    pub fn new(recorded: HashMap<SessionId, Owner>) -> Self {
        let (live, of_owner) = (HashMap::default(), HashMap::new());
        Self { live, of_owner, recorded, kept_bytes: 0, kept_bytes_max: KEPT_ANSWERS_BYTES_MAX }
    }

    /// Takes a call of a session into its slot: [`Session::admit`].
    pub fn admit(&mut self, id: SessionId, slot: u32, sequence: u64, waiter: W) -> Admission<W> {
        let Some(live) = self.live.get_mut(&id) else {
            return Admission::Refused(
                waiter,
                Failure::new(Status::NoSession, format!("session {id} has ended")),
            );
        };
        let before = live.kept_bytes;
        let admission = live.admit(slot, sequence, waiter);
        self.kept_bytes = self.kept_bytes - before + live.kept_bytes;
        admission
    }

    /// Ends the call in a slot of a session: [`Session::answered`].
    pub fn answered(
        &mut self,
        id: SessionId,
        slot: u32,
        sequence: u64,
        answer: Option<&[u8]>,
    ) -> Vec<W> {
        let room = self.kept_bytes_max.saturating_sub(self.kept_bytes);
        let Some(live) = self.live.get_mut(&id) else { return Vec::new() };
        let before = live.kept_bytes;
        let waiters = live.answered(slot, sequence, answer, room);
        self.kept_bytes = self.kept_bytes - before + live.kept_bytes;
        waiters
    }

    /// Bytes of the answers that are kept for retries.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Keeps no more than this from now on.
    #[cfg(test)]
    pub(crate) fn keep_at_most(&mut self, bytes: usize) {
        self.kept_bytes_max = bytes;
    }

    /// Whether there is room for one more of an owner.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`].
    pub fn check_room(&self, owner: Owner) -> Result<(), Failure> {
        if self.of_owner.get(&owner).is_some_and(|count| *count >= SESSIONS_OWNER_MAX) {
            let why = format!("at most {SESSIONS_OWNER_MAX} sessions of one user or key");
            return Err(Failure::new(Status::TooManyOpen, why));
        }
        if self.live.len() < SESSIONS_MAX {
            return Ok(());
        }
        Err(Failure::new(Status::TooManyOpen, format!("at most {SESSIONS_MAX} sessions")))
    }

    /// Adds a session.
    pub(super) fn insert(&mut self, session: Session<W>) {
        self.recorded.remove(&session.id);
        self.remove(session.id);
        *self.of_owner.entry(session.owner).or_default() += 1;
        self.live.insert(session.id, session);
    }

    /// A live session.
    pub fn get(&self, id: SessionId) -> Option<&Session<W>> {
        self.live.get(&id)
    }

    /// A live session.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut Session<W>> {
        self.live.get_mut(&id)
    }

    /// Whose a recorded session is.
    pub fn recorded(&self, id: SessionId) -> Option<Owner> {
        self.recorded.get(&id).copied()
    }

    /// Removes a session.
    pub(super) fn remove(&mut self, id: SessionId) -> Option<Session<W>> {
        let session = self.live.remove(&id)?;
        self.kept_bytes -= session.kept_bytes;
        if let Some(count) = self.of_owner.get_mut(&session.owner) {
            *count -= 1;
            if *count == 0 {
                self.of_owner.remove(&session.owner);
            }
        }
        Some(session)
    }

    /// Every live session.
    pub fn iter(&self) -> impl Iterator<Item = &Session<W>> {
        self.live.values()
    }

    /// How many live sessions there are.
    pub fn count(&self) -> usize {
        self.live.len()
    }

    /// Whether some session of an earlier run was neither ended nor has told all that it has open.
    pub(super) fn is_awaited(&self) -> bool {
        !self.recorded.is_empty() || self.live.values().any(|session| session.reclaiming)
    }

    /// Sessions that satisfy `which`, in the order of their ids: the order of events must not hang on a hash.
    pub fn select(&self, which: impl Fn(&Session<W>) -> bool) -> Vec<SessionId> {
        let mut ids: Vec<SessionId> =
            self.live.values().filter(|s| which(s)).map(|s| s.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Ends the wait for sessions that nobody reclaimed; which they are.
    pub(super) fn give_up_recorded(&mut self) -> Vec<SessionId> {
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
        assert!(session.answered(0, 1, Some(b"yes"), usize::MAX).is_empty());
        assert!(
            matches!(session.admit(0, 1, 11), Admission::Answered(11, answer) if *answer == *b"yes")
        );
        assert!(matches!(session.admit(0, 2, 12), Admission::Do(_)));
    }

    #[test]
    fn a_retry_of_a_call_that_failed_is_done_anew() {
        let mut session = session(false);
        assert!(matches!(session.admit(0, 1, 10), Admission::Do(10)));
        session.answered(0, 1, None, usize::MAX);
        assert!(matches!(session.admit(0, 1, 11), Admission::Do(11)));
    }

    #[test]
    fn a_retry_of_a_call_in_flight_waits_for_it() {
        let mut session = session(false);
        assert!(matches!(session.admit(3, 7, 10), Admission::Do(_)));
        for retry in 0..SLOT_WAITERS_MAX as u32 {
            assert!(matches!(session.admit(3, 7, retry), Admission::Joined));
        }
        assert!(
            matches!(session.admit(3, 7, 99), Admission::Refused(99, f) if f.status == Status::Busy)
        );
        assert!(
            matches!(session.admit(3, 8, 98), Admission::Refused(98, f) if f.status == Status::Malformed)
        );
        assert_eq!(session.answered(3, 7, Some(b"x"), usize::MAX), [0, 1, 2, 3]);
    }

    #[test]
    fn answers_that_are_kept_take_bounded_memory_of_a_session_and_of_all() {
        let mut sessions = Sessions::<u32>::new(HashMap::new());
        sessions.insert(session(false));
        let id = SessionId(1);
        let answer = vec![7; KEPT_ANSWERS_SESSION_BYTES_MAX / 4];
        for slot in 0..SESSION_SLOTS {
            assert!(matches!(sessions.admit(id, slot, 1, 0), Admission::Do(_)));
            sessions.answered(id, slot, 1, Some(&answer));
            assert!(sessions.kept_bytes() <= KEPT_ANSWERS_SESSION_BYTES_MAX);
        }
        assert_eq!(sessions.kept_bytes(), KEPT_ANSWERS_SESSION_BYTES_MAX);
        assert!(matches!(sessions.admit(id, 3, 1, 0), Admission::Answered(..)));
        assert!(
            matches!(sessions.admit(id, 4, 1, 0), Admission::Do(_)),
            "done again, with the store's record"
        );
        assert!(sessions.get(id).is_some_and(|live| live.recounts));
        // The next call of a slot frees what the last one left there.
        assert!(matches!(sessions.admit(id, 0, 2, 0), Admission::Do(_)));
        assert_eq!(sessions.kept_bytes(), KEPT_ANSWERS_SESSION_BYTES_MAX / 4 * 3);
        sessions.keep_at_most(sessions.kept_bytes());
        sessions.answered(id, 0, 2, Some(b"x"));
        assert!(matches!(sessions.admit(id, 0, 2, 0), Admission::Do(_)), "no room in all");
        sessions.remove(id);
        assert_eq!(sessions.kept_bytes(), 0);
    }

    #[test]
    fn sequences_never_go_back_and_slots_are_bounded() {
        let mut session = session(false);
        assert!(matches!(session.admit(0, 5, 1), Admission::Do(_)));
        session.answered(0, 5, Some(b""), usize::MAX);
        assert!(
            matches!(session.admit(0, 4, 1), Admission::Refused(1, f) if f.status == Status::Malformed)
        );
        assert!(matches!(session.admit(SESSION_SLOTS - 1, 1, 1), Admission::Do(_)));
        assert!(
            matches!(session.admit(SESSION_SLOTS, 1, 1), Admission::Refused(1, f) if f.status == Status::LimitExceeded)
        );
    }

    const OPEN: OpenFile = OpenFile { file: FileIndex(5), rights: Rights::READ, deny: Deny::NONE };

    fn readers(readers: u32) -> braid_meta::OpenFile {
        braid_meta::OpenFile { readers, ..braid_meta::OpenFile::none(OPEN.file, SessionId(1)) }
    }

    #[test]
    fn a_restarted_server_gives_no_handle_that_an_earlier_run_gave() {
        let before = session(false).since(MdsEpoch(1)).open(OPEN).unwrap();
        let mut after = session(true).since(MdsEpoch(2));
        let given = after.open(OPEN).unwrap();
        assert!(after.take_up(before, OPEN));
        assert_ne!(before, given);
        assert_eq!(after.held(OPEN.file), readers(2));
    }

    #[test]
    fn a_handle_is_taken_up_once_and_only_while_the_session_reclaims() {
        let mut session = session(true).since(MdsEpoch(2));
        let given = session.open(OPEN).unwrap();
        assert_eq!(session.close(given), Some(OPEN));
        assert!(!session.take_up(given, OPEN), "this run gave it, and it was closed");
        assert!(session.take_up(41, OPEN) && session.take_up(41, OPEN));
        assert_eq!(session.held(OPEN.file), readers(1));
        assert!(
            !session.take_up(41, OpenFile { rights: Rights::WRITE, ..OPEN }),
            "it is open for something else"
        );
        session.reclaiming = false;
        assert!(session.take_up(41, OPEN), "a repetition is answered alike");
        assert!(!session.take_up(42, OPEN));
        assert_eq!((session.close(41), session.close(41)), (Some(OPEN), None));
        assert_eq!(session.held(OPEN.file), readers(0));
    }

    #[test]
    fn one_owner_leaves_room_for_the_sessions_of_others() {
        let (one, other) =
            (Owner { key: KeyId(1), user: Some(7) }, Owner { key: KeyId(1), user: None });
        let mut sessions = Sessions::<u32>::new(HashMap::new());
        let begin = |id| Session::new(SessionId(id), one, String::new(), Duration::ZERO, false);
        for id in 0..SESSIONS_OWNER_MAX as u64 {
            sessions.check_room(one).unwrap();
            sessions.insert(begin(id));
        }
        assert_eq!(sessions.check_room(one).unwrap_err().status, Status::TooManyOpen);
        sessions.check_room(other).unwrap();
        sessions.insert(begin(0));
        assert!(sessions.check_room(one).is_err(), "it is there once");
        sessions.remove(SessionId(0));
        sessions.check_room(one).unwrap();
    }
}
