//! Live and recorded sessions: whose they are, what they have open, and their replay slots (I7).
//!
//! Invariants:
//! 1. In a slot, sequences only rise and one call is in flight. The newest answer is cached until
//!    the next call.
//! 2. Once a session has reclaimed all that it has open, its handles of a file are as many as the
//!    opens that the store counts, apart from calls in progress. (Not asserted: calls are in
//!    progress at any time.)
//! 3. `cached_reply_bytes` is the sum over all slots, of one session and of all.
//!
//! `complete` and `Sessions::remove` assert 3, and `insert` that no handle is counted twice (2).
//! `admit` refuses a sequence that would break 1, since a client may send any.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use braid_meta::OpenMode;
use braid_types::{Failure, FileIndex, IdHashBuilder, KeyId, MdsEpoch, SessionId, Status};
use braid_wire::{Deny, Rights};

use crate::{connection::SessionActivity, convert};

/// Replay slots of a session: a client has as many calls in flight at most.
pub const SESSION_SLOTS: u32 = 64;
/// Sessions of one server (I9): a few hundred bytes each.
pub const SESSIONS_MAX: usize = 131_072;
/// Sessions of one owner: an owner that begins as many as it can leaves as many to others.
pub const SESSIONS_OWNER_MAX: usize = SESSIONS_MAX / 2;
/// Files that one session has open.
pub const SESSION_OPENS_MAX: usize = 262_144;
/// Answers cached for retries, of one session (I9). An ordinary answer has some hundred bytes, so
/// that 64 slots take a sixteenth of this; the answer for the widest file has 200 KB.
pub const CACHED_REPLIES_SESSION_BYTES_MAX: usize = 1 << 20;
/// Answers cached for retries, of all sessions (I9). An answer that does not fit is not cached: a
/// retry is answered from the record in the store, as after a restart.
pub const CACHED_REPLIES_BYTES_MAX: usize = 256 << 20;
/// Files that one session of a ticket has written and closed, whose sizes are asked of their
/// objects until the session ends (I9). With more, the oldest is collected: a program that goes on
/// writing that many files after it closed them harms only its own files.
pub const UNFENCED_CLOSES_SESSION_MAX: usize = 65_536;
/// Records of gateways with all sessions (I9): as many clients as a gateway may have (16384), with
/// the longest records.
pub const GATEWAY_RECORDS_BYTES_MAX: usize = 96 << 20;
/// Retries that wait for one call. A client has one retry in flight, on a new connection.
pub const SLOT_WAITERS_MAX: usize = 4;

/// The owner of a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Owner {
    /// The key that the connection proved, or that signed its ticket; 0 for the server key.
    pub key: KeyId,
    /// The user of a ticket.
    pub user: Option<u64>,
}

/// A file that a session has open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpenFile {
    /// The file.
    pub file: FileIndex,
    /// What the handle allows.
    pub rights: Rights,
    /// What the handle denies to other opens.
    pub deny: Deny,
}

impl OpenFile {
    /// Access and denial, as the store counts them.
    pub fn mode(self) -> OpenMode {
        convert::open_mode(self.rights, self.deny)
    }
}

/// A session. `W` is what waits for the answer of a call.
#[derive(Debug)]
pub struct ClientSession<W> {
    /// Its id.
    pub id: SessionId,
    /// Its owner.
    pub owner: Owner,
    /// The name that the client gave itself.
    pub client: String,
    /// When its last message arrived, and whether it ended: read without the server's lock.
    pub(crate) activity: Arc<SessionActivity>,
    /// The store may hold answers of opens that it does not count any more: opens from before a
    /// restart, or opens that were undone.
    pub recount_opens: bool,
    /// It has not reclaimed yet all that it had open before the restart.
    pub reclaiming: bool,
    /// It had a handle that writes, and so a capability that its client may still use.
    had_write_handle: bool,
    opens: HashMap<u64, OpenFile, IdHashBuilder>,
    /// The number of handles of each file, by access and denial.
    held: HashMap<FileIndex, braid_meta::OpenFile, IdHashBuilder>,
    first_open: u64,
    next_open: u64,
    slots: Vec<Slot<W>>,
    /// Files that it wrote and closed, where its user has a ticket: the oldest first, and as a set.
    unfenced_closes: VecDeque<FileIndex>,
    unfenced_close_files: HashSet<FileIndex, IdHashBuilder>,
    /// Bytes of the answers in its slots.
    cached_reply_bytes: usize,
    /// What a gateway keeps with it, for the gateway's next start.
    pub(super) gateway: Option<GatewayRecord>,
    /// The session of the gateway that has adopted it, if one has.
    pub(super) holder: Option<SessionId>,
}

/// What a gateway keeps with the session of one of its clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayRecord {
    /// The name of the gateway.
    pub gateway: Arc<str>,
    /// The record of the client; empty for the gateway itself.
    pub record: Arc<[u8]>,
}

impl GatewayRecord {
    /// Bytes of memory that count against the limit of all records.
    pub(super) fn bytes(&self) -> usize {
        self.gateway.len() + self.record.len()
    }
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
    /// Do it. A call that was done before a restart is answered by the store.
    Do(W),
    /// It is a retry; this was the answer.
    Answered(W, Arc<[u8]>),
    /// It is a retry of a call in flight, and gets the answer of that call.
    Joined,
    /// It violates the rules of slots.
    Refused(W, Failure),
}

impl<W> ClientSession<W> {
    /// A session with nothing open.
    pub fn new(
        id: SessionId,
        owner: Owner,
        client: String,
        now: Duration,
        reclaimed: bool,
    ) -> Self {
        let (activity, opens, held) =
            (Arc::new(SessionActivity::new(id, now)), HashMap::default(), HashMap::default());
        let (recounts, reclaiming) = (reclaimed, reclaimed);
        Self {
            id,
            owner,
            client,
            activity,
            recount_opens: recounts,
            reclaiming,
            had_write_handle: false,
            opens,
            held,
            first_open: 1,
            next_open: 1,
            slots: Vec::new(),
            unfenced_closes: VecDeque::new(),
            unfenced_close_files: HashSet::default(),
            cached_reply_bytes: 0,
            gateway: None,
            holder: None,
        }
    }

    /// Numbers handles from `epoch` on, so that no new handle equals one from before a restart that
    /// a client may still use.
    pub fn with_handles_since(self, epoch: MdsEpoch) -> Self {
        let first = epoch.0 << 32 | 1;
        Self { first_open: first, next_open: first, ..self }
    }

    /// A session that the next start of its gateway has adopted.
    pub(crate) fn held_by(self, holder: SessionId) -> Self {
        Self { holder: Some(holder), ..self }
    }

    /// The session of the gateway that has adopted it, if one has.
    pub(crate) fn holder(&self) -> Option<SessionId> {
        self.holder
    }

    /// Whether the next start of its gateway has adopted it.
    pub(crate) fn is_adopted(&self) -> bool {
        self.holder.is_some()
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
        let cached_bytes = slot.cached_reply_bytes();
        let in_flight = matches!(slot.state, SlotState::InFlight(_));
        if sequence < slot.sequence || in_flight {
            let why =
                if in_flight { "the slot has a call in flight" } else { "the sequence went back" };
            return Admission::Refused(waiter, Failure::new(Status::Malformed, why));
        }
        *slot = Slot { sequence, state: SlotState::InFlight(Vec::new()) };
        self.cached_reply_bytes -= cached_bytes;
        Admission::Do(waiter)
    }

    /// Ends the call in a slot: the retries that waited for it. The answer of a call that changed
    /// something is cached, if `bytes_free` bytes and the session's own limit allow it. `None` is
    /// the answer of a call that failed; a retry of it runs again.
    pub fn complete(
        &mut self,
        slot: u32,
        sequence: u64,
        answer: Option<&[u8]>,
        bytes_free: usize,
    ) -> Vec<W> {
        let fits = answer.is_none_or(|answer| {
            let left = CACHED_REPLIES_SESSION_BYTES_MAX.saturating_sub(self.cached_reply_bytes);
            answer.len() <= left.min(bytes_free)
        });
        let slot = self.slot(slot);
        if slot.sequence != sequence {
            return Vec::new();
        }
        let answer = answer.filter(|_| fits);
        let before = slot.cached_reply_bytes();
        let waiters = slot.end(answer);
        self.cached_reply_bytes = self.cached_reply_bytes - before + answer.map_or(0, <[u8]>::len);
        // A retry of an open is then answered by the store, which counted it, and gets a new
        // handle.
        self.recount_opens |= !fits;
        debug_assert_eq!(
            self.slots.iter().map(Slot::cached_reply_bytes).sum::<usize>(),
            self.cached_reply_bytes,
            "3: the sum over all slots"
        );
        waiters
    }

    /// Bytes of the cached answers.
    pub fn cached_reply_bytes(&self) -> usize {
        self.cached_reply_bytes
    }
}

impl<W> Slot<W> {
    fn cached_reply_bytes(&self) -> usize {
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

impl<W> ClientSession<W> {
    /// Marks a slot as busy with a call that was begun before a restart: its retry waits for it.
    pub fn mark_in_flight(&mut self, slot: u32, sequence: u64) {
        if slot < SESSION_SLOTS {
            self.cached_reply_bytes -= self.slot(slot).cached_reply_bytes();
            *self.slot(slot) = Slot { sequence, state: SlotState::InFlight(Vec::new()) };
        }
    }

    /// Makes a handle for an open file.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`].
    pub fn open(&mut self, open: OpenFile) -> Result<u64, Failure> {
        self.check_limit()?;
        let id = self.next_open;
        self.next_open += 1;
        self.insert(id, open);
        Ok(id)
    }

    /// Reclaims an open file under its handle from before the restart. Whether the session has it
    /// now: not when it completed its reclaim before, nor when the handle is from after the
    /// restart.
    pub fn reclaim(&mut self, id: u64, open: OpenFile) -> bool {
        if let Some(known) = self.opens.get(&id) {
            return *known == open;
        }
        let may = self.reclaiming && id < self.first_open && self.check_limit().is_ok();
        if may {
            self.insert(id, open);
        }
        may
    }

    /// Removes a handle: what it was.
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

    /// Restores a handle that was removed too early.
    pub fn restore(&mut self, id: u64, open: OpenFile) {
        if !self.opens.contains_key(&id) {
            self.insert(id, open);
        }
    }

    /// Makes a handle, also beyond the limit, for an open that the store counts and no client has.
    pub fn open_unclaimed(&mut self, open: OpenFile) -> u64 {
        let id = self.next_open;
        self.next_open += 1;
        self.insert(id, open);
        id
    }

    /// Records that a user with a ticket has closed a file that it may write. `None` when that is
    /// recorded already, else the oldest file if there were too many.
    pub fn note_unfenced_close(&mut self, file: FileIndex) -> Option<Option<FileIndex>> {
        if !self.unfenced_close_files.insert(file) {
            return None;
        }
        self.unfenced_closes.push_back(file);
        let oldest = if self.unfenced_closes.len() > UNFENCED_CLOSES_SESSION_MAX {
            self.unfenced_closes.pop_front()
        } else {
            None
        };
        if let Some(oldest) = oldest {
            self.unfenced_close_files.remove(&oldest);
        }
        Some(oldest)
    }

    /// The files that it closed and may still write.
    pub fn into_unfenced_closes(self) -> Vec<FileIndex> {
        self.unfenced_closes.into()
    }

    /// What a handle has open.
    pub fn opened(&self, id: u64) -> Option<OpenFile> {
        self.opens.get(&id).copied()
    }

    /// The first `count_max` handles after `after`, in their order.
    pub fn opens_after(&self, after: u64, count_max: usize) -> Vec<(u64, OpenFile)> {
        let later = self.opens.iter().filter(|(id, _)| **id > after);
        let mut opens: Vec<_> = later.map(|(id, open)| (*id, *open)).collect();
        opens.sort_unstable_by_key(|(id, _)| *id);
        opens.truncate(count_max);
        opens
    }

    /// Whether a call that has a slot runs.
    pub fn has_call_in_flight(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot.state, SlotState::InFlight(_)))
    }

    /// Its handles of a file.
    pub fn handles_of(&self, file: FileIndex) -> braid_meta::OpenFile {
        self.held.get(&file).cloned().unwrap_or_else(|| braid_meta::OpenFile::none(file, self.id))
    }

    /// Changes access and denial of a handle.
    pub fn change(&mut self, id: u64, rights: Rights, deny: Deny) {
        if let Some(was) = self.close(id) {
            self.insert(id, OpenFile { rights, deny, ..was });
        }
    }

    /// Whether it ever had a handle that writes.
    pub fn had_write_handle(&self) -> bool {
        self.had_write_handle
    }

    fn insert(&mut self, id: u64, open: OpenFile) {
        self.had_write_handle |= open.rights.allow(Rights::WRITE);
        let before = self.opens.insert(id, open);
        debug_assert!(before.is_none(), "2: a handle is counted once");
        let none = || braid_meta::OpenFile::none(open.file, self.id);
        // There are fewer handles than the count holds: `SESSION_OPENS_MAX`.
        let _ = self.held.entry(open.file).or_insert_with(none).add(open.mode());
    }

    /// Checks whether one more file may be opened.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`].
    pub fn check_limit(&self) -> Result<(), Failure> {
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
    live: HashMap<SessionId, ClientSession<W>, IdHashBuilder>,
    /// The number of live sessions of each owner.
    of_owner: HashMap<Owner, usize>,
    /// From before the restart, and not reclaimed yet.
    recorded: HashMap<SessionId, Owner>,
    /// Bytes of the answers that all live sessions cache, and their limit.
    cached_reply_bytes: usize,
    cached_reply_bytes_max: usize,
    /// Bytes of the records of gateways, of all live sessions.
    gateway_record_bytes: usize,
}

impl<W> Sessions<W> {
    /// No live session; `recorded` are those from before the restart, which may be reclaimed.
    pub fn new(recorded: HashMap<SessionId, Owner>) -> Self {
        let (live, of_owner) = (HashMap::default(), HashMap::new());
        Self {
            live,
            of_owner,
            recorded,
            cached_reply_bytes: 0,
            cached_reply_bytes_max: CACHED_REPLIES_BYTES_MAX,
            gateway_record_bytes: 0,
        }
    }

    /// Sets what a gateway keeps with a session.
    ///
    /// # Errors
    /// [`Status::NoSession`]. [`Status::LimitExceeded`] if the records of all sessions take too
    /// much memory.
    pub(super) fn set_gateway(
        &mut self,
        id: SessionId,
        record: GatewayRecord,
    ) -> Result<(), Failure> {
        let live = self.live.get_mut(&id).ok_or(Failure::from(Status::NoSession))?;
        let before = live.gateway.as_ref().map_or(0, GatewayRecord::bytes);
        let after = self.gateway_record_bytes - before + record.bytes();
        if after > GATEWAY_RECORDS_BYTES_MAX {
            let why = format!("at most {GATEWAY_RECORDS_BYTES_MAX} bytes of records of gateways");
            return Err(Failure::new(Status::LimitExceeded, why));
        }
        self.gateway_record_bytes = after;
        live.gateway = Some(record);
        Ok(())
    }

    /// Takes a call of a session into its slot: [`ClientSession::admit`].
    pub fn admit(&mut self, id: SessionId, slot: u32, sequence: u64, waiter: W) -> Admission<W> {
        let Some(live) = self.live.get_mut(&id) else {
            return Admission::Refused(
                waiter,
                Failure::new(Status::NoSession, format!("session {id} has ended")),
            );
        };
        let before = live.cached_reply_bytes;
        let admission = live.admit(slot, sequence, waiter);
        self.cached_reply_bytes = self.cached_reply_bytes - before + live.cached_reply_bytes;
        admission
    }

    /// Ends the call in a slot of a session: [`ClientSession::complete`].
    pub fn complete(
        &mut self,
        id: SessionId,
        slot: u32,
        sequence: u64,
        answer: Option<&[u8]>,
    ) -> Vec<W> {
        let bytes_free = self.cached_reply_bytes_max.saturating_sub(self.cached_reply_bytes);
        let Some(live) = self.live.get_mut(&id) else { return Vec::new() };
        let before = live.cached_reply_bytes;
        let waiters = live.complete(slot, sequence, answer, bytes_free);
        self.cached_reply_bytes = self.cached_reply_bytes - before + live.cached_reply_bytes;
        waiters
    }

    /// Bytes of the answers that are cached for retries.
    pub fn cached_reply_bytes(&self) -> usize {
        self.cached_reply_bytes
    }

    /// Sets the limit of cached answers.
    #[cfg(test)]
    pub(crate) fn keep_at_most(&mut self, bytes: usize) {
        self.cached_reply_bytes_max = bytes;
    }

    /// Checks whether an owner may begin one more session.
    ///
    /// # Errors
    /// [`Status::TooManyOpen`].
    pub fn check_limit(&self, owner: Owner) -> Result<(), Failure> {
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
    pub(super) fn insert(&mut self, session: ClientSession<W>) {
        self.recorded.remove(&session.id);
        self.remove(session.id);
        *self.of_owner.entry(session.owner).or_default() += 1;
        self.live.insert(session.id, session);
    }

    /// A live session.
    pub fn get(&self, id: SessionId) -> Option<&ClientSession<W>> {
        self.live.get(&id)
    }

    /// A live session.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut ClientSession<W>> {
        self.live.get_mut(&id)
    }

    /// The owner of a recorded session.
    pub fn recorded(&self, id: SessionId) -> Option<Owner> {
        self.recorded.get(&id).copied()
    }

    /// Removes a session.
    pub(super) fn remove(&mut self, id: SessionId) -> Option<ClientSession<W>> {
        let session = self.live.remove(&id)?;
        debug_assert!(
            self.cached_reply_bytes >= session.cached_reply_bytes,
            "3: cached bytes of all sessions"
        );
        self.cached_reply_bytes -= session.cached_reply_bytes;
        self.gateway_record_bytes -= session.gateway.as_ref().map_or(0, GatewayRecord::bytes);
        if let Some(count) = self.of_owner.get_mut(&session.owner) {
            *count -= 1;
            if *count == 0 {
                self.of_owner.remove(&session.owner);
            }
        }
        Some(session)
    }

    /// Every live session.
    pub fn iter(&self) -> impl Iterator<Item = &ClientSession<W>> {
        self.live.values()
    }

    /// The number of live sessions.
    pub fn count(&self) -> usize {
        self.live.len()
    }

    /// Whether a session from before the restart has neither ended nor reclaimed all that it had
    /// open.
    pub(super) fn awaits_reclaims(&self) -> bool {
        !self.recorded.is_empty() || self.live.values().any(|session| session.reclaiming)
    }

    /// Sessions that satisfy `which`, in the order of their ids: the order of events must not
    /// depend on a hash.
    pub fn select(&self, which: impl Fn(&ClientSession<W>) -> bool) -> Vec<SessionId> {
        let mut ids: Vec<SessionId> =
            self.live.values().filter(|s| which(s)).map(|s| s.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Removes and returns the recorded sessions, which nobody reclaimed.
    pub(super) fn take_unreclaimed(&mut self) -> Vec<SessionId> {
        let mut ids: Vec<SessionId> = self.recorded.drain().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(reclaimed: bool) -> ClientSession<u32> {
        let owner = Owner { key: KeyId(1), user: None };
        ClientSession::new(SessionId(1), owner, "host".into(), Duration::ZERO, reclaimed)
    }

    #[test]
    fn a_retry_is_answered_with_the_first_answer() {
        let mut session = session(false);
        assert!(matches!(session.admit(0, 1, 10), Admission::Do(10)));
        assert!(session.complete(0, 1, Some(b"yes"), usize::MAX).is_empty());
        assert!(
            matches!(session.admit(0, 1, 11), Admission::Answered(11, answer) if *answer == *b"yes")
        );
        assert!(matches!(session.admit(0, 2, 12), Admission::Do(_)));
    }

    #[test]
    fn a_retry_of_a_call_that_failed_is_done_anew() {
        let mut session = session(false);
        assert!(matches!(session.admit(0, 1, 10), Admission::Do(10)));
        session.complete(0, 1, None, usize::MAX);
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
        assert!(matches!(session.admit(3, 8, 98),
                Admission::Refused(98, f) if f.status == Status::Malformed));
        assert_eq!(session.complete(3, 7, Some(b"x"), usize::MAX), [0, 1, 2, 3]);
    }

    #[test]
    fn cached_answers_take_bounded_memory_of_a_session_and_of_all() {
        let mut sessions = Sessions::<u32>::new(HashMap::new());
        sessions.insert(session(false));
        let id = SessionId(1);
        let answer = vec![7; CACHED_REPLIES_SESSION_BYTES_MAX / 4];
        for slot in 0..SESSION_SLOTS {
            assert!(matches!(sessions.admit(id, slot, 1, 0), Admission::Do(_)));
            sessions.complete(id, slot, 1, Some(&answer));
            assert!(sessions.cached_reply_bytes() <= CACHED_REPLIES_SESSION_BYTES_MAX);
        }
        assert_eq!(sessions.cached_reply_bytes(), CACHED_REPLIES_SESSION_BYTES_MAX);
        assert!(matches!(sessions.admit(id, 3, 1, 0), Admission::Answered(..)));
        assert!(
            matches!(sessions.admit(id, 4, 1, 0), Admission::Do(_)),
            "done again, with the store's record"
        );
        assert!(sessions.get(id).is_some_and(|live| live.recount_opens));
        // The next call of a slot frees what the last one left there.
        assert!(matches!(sessions.admit(id, 0, 2, 0), Admission::Do(_)));
        assert_eq!(sessions.cached_reply_bytes(), CACHED_REPLIES_SESSION_BYTES_MAX / 4 * 3);
        sessions.keep_at_most(sessions.cached_reply_bytes());
        sessions.complete(id, 0, 2, Some(b"x"));
        assert!(
            matches!(sessions.admit(id, 0, 2, 0), Admission::Do(_)),
            "no space for answers of all sessions"
        );
        sessions.remove(id);
        assert_eq!(sessions.cached_reply_bytes(), 0);
    }

    #[test]
    fn sequences_never_go_back_and_slots_are_bounded() {
        let mut session = session(false);
        assert!(matches!(session.admit(0, 5, 1), Admission::Do(_)));
        session.complete(0, 5, Some(b""), usize::MAX);
        assert!(matches!(session.admit(0, 4, 1),
                Admission::Refused(1, f) if f.status == Status::Malformed));
        assert!(matches!(session.admit(SESSION_SLOTS - 1, 1, 1), Admission::Do(_)));
        assert!(matches!(session.admit(SESSION_SLOTS, 1, 1),
                Admission::Refused(1, f) if f.status == Status::LimitExceeded));
    }

    const OPEN: OpenFile = OpenFile { file: FileIndex(5), rights: Rights::READ, deny: Deny::NONE };

    fn readers(readers: u32) -> braid_meta::OpenFile {
        braid_meta::OpenFile { readers, ..braid_meta::OpenFile::none(OPEN.file, SessionId(1)) }
    }

    #[test]
    fn a_restarted_server_gives_no_handle_that_an_earlier_run_gave() {
        let before = session(false).with_handles_since(MdsEpoch(1)).open(OPEN).unwrap();
        let mut after = session(true).with_handles_since(MdsEpoch(2));
        let given = after.open(OPEN).unwrap();
        assert!(after.reclaim(before, OPEN));
        assert_ne!(before, given);
        assert_eq!(after.handles_of(OPEN.file), readers(2));
    }

    #[test]
    fn a_handle_is_reclaimed_once_and_only_while_the_session_reclaims() {
        let mut session = session(true).with_handles_since(MdsEpoch(2));
        let given = session.open(OPEN).unwrap();
        assert_eq!(session.close(given), Some(OPEN));
        assert!(!session.reclaim(given, OPEN), "this run gave it, and it was closed");
        assert!(session.reclaim(41, OPEN) && session.reclaim(41, OPEN));
        assert_eq!(session.handles_of(OPEN.file), readers(1));
        assert!(
            !session.reclaim(41, OpenFile { rights: Rights::WRITE, ..OPEN }),
            "it is open for something else"
        );
        session.reclaiming = false;
        assert!(session.reclaim(41, OPEN), "a repetition is answered alike");
        assert!(!session.reclaim(42, OPEN));
        assert_eq!((session.close(41), session.close(41)), (Some(OPEN), None));
        assert_eq!(session.handles_of(OPEN.file), readers(0));
    }

    #[test]
    fn one_owner_leaves_sessions_to_others() {
        let (one, other) =
            (Owner { key: KeyId(1), user: Some(7) }, Owner { key: KeyId(1), user: None });
        let mut sessions = Sessions::<u32>::new(HashMap::new());
        let begin =
            |id| ClientSession::new(SessionId(id), one, String::new(), Duration::ZERO, false);
        for id in 0..SESSIONS_OWNER_MAX as u64 {
            sessions.check_limit(one).unwrap();
            sessions.insert(begin(id));
        }
        assert_eq!(sessions.check_limit(one).unwrap_err().status, Status::TooManyOpen);
        sessions.check_limit(other).unwrap();
        sessions.insert(begin(0));
        assert!(sessions.check_limit(one).is_err(), "it is there once");
        sessions.remove(SessionId(0));
        sessions.check_limit(one).unwrap();
    }
}
