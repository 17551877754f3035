//! What lies under the lock of the leases: the table, the calls that wait, and the sessions that
//! wait for recalls. Nothing here calls, answers or runs anything.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{
        Mutex, MutexGuard, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use braid_meta::lease::{AskOutcome, ClaimId, LeaseMode, LeaseOf, LeaseTable, Wait};
use braid_types::{
    FileIndex, MdsEpoch, SessionId,
    limits::{AWAIT_RECALLS_MS, LEASE_EXPIRES_MS, RECALL_DATA_MS, RECALL_MS, RECALLS_MAX},
};
use braid_wire::encode_success;

use crate::{
    call::Call,
    convert,
    core::MdsCore,
    size::{GATE_WAIT_MS_MAX, SuspendedCall},
};

/// Calls that wait for leases of one item (I9).
const LEASE_QUEUE_MAX: usize = 1024;
/// How long a call waits for leases before it fails with their holders' names: less than one
/// attempt of a client, as at a gate.
const LEASE_WAIT_MS_MAX: u64 = GATE_WAIT_MS_MAX;

/// How long a file gets no delegation after one of it was recalled: one that is recalled soon costs
/// more than it saves.
const DELEGATION_PAUSE: Duration = Duration::from_secs(30);
/// Files that get no delegation, with the time of their recall (I9). Beyond this number the oldest
/// is forgotten.
const DELEGATION_PAUSES_MAX: usize = 65_536;

/// A lease that a call needs returned, and to which mode.
pub(super) type Need = (LeaseOf, LeaseMode);

/// The leases, with a lock of their own.
#[derive(Debug)]
pub(crate) struct Leases {
    service: Mutex<LeaseService>,
    /// Write leases there are: with none, the size of a file needs no lock.
    writing: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct LeaseService {
    table: LeaseTable,
    next_claim: u64,
    /// Calls that wait until a session holds less of an item.
    waiting: BTreeMap<Wait, VecDeque<SuspendedCall>>,
    /// Rises whenever a session holds less: a call that decided to wait before that tries again.
    freed: u64,
    /// The `AwaitRecalls` of each session.
    awaiting: HashMap<SessionId, AwaitingRecalls>,
    /// The sessions on record as holders of leases, and whether they do all I/O under leases, which
    /// is assumed of none that has not said it since the start.
    lease_holders: HashMap<SessionId, bool>,
    /// Files whose delegation was recalled, and when the last time.
    delegation_recalls: HashMap<FileIndex, Duration>,
    /// All these recalls, the oldest first.
    delegation_pauses: VecDeque<(Duration, FileIndex)>,
    /// Calls to run again, and whether a thread does it (invariant 6).
    ready: VecDeque<SuspendedCall>,
    resuming: bool,
}

/// A session's question for recalls that it has not seen.
#[derive(Debug)]
struct AwaitingRecalls {
    call: Call,
    seen: u64,
}

/// What a call waits for.
#[derive(Debug)]
pub(crate) struct LeaseWait {
    by: Wait,
    freed: u64,
}

/// The claims of one call: dropped with it.
pub(crate) struct ClaimGuard {
    id: ClaimId,
    pub(super) of: LeasedItems,
    core: Weak<MdsCore>,
}

/// The items of a claim: mostly one, which needs no allocation.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum LeasedItems {
    One(LeaseOf),
    More(Vec<LeaseOf>),
}

impl LeasedItems {
    pub(super) fn of(needs: &[Need]) -> Self {
        match needs {
            [(of, _)] => Self::One(*of),
            needs => Self::More(needs.iter().map(|(of, _)| *of).collect()),
        }
    }

    fn as_slice(&self) -> &[LeaseOf] {
        match self {
            Self::One(of) => std::slice::from_ref(of),
            Self::More(of) => of,
        }
    }
}

impl std::fmt::Debug for ClaimGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hold({:?}, {:?})", self.id, self.of)
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            core.with_leases(|service| service.table.unclaim(self.id, self.of.as_slice()));
        }
    }
}

/// What follows from a change, to be done without the lock.
#[derive(Default)]
pub(super) struct Deferred {
    /// Answers to sessions that waited for recalls.
    pub(super) replies: Vec<(Call, Vec<u8>)>,
    /// There are calls to run again, and no other thread does it.
    pub(super) must_resume: bool,
}

/// Waits that ended with time: see [`LeaseService::expire_all`].
pub(super) struct ExpiredWaits {
    /// Calls that waited too long for leases.
    pub(super) expired: Vec<(Call, Wait)>,
    /// Sessions' questions for recalls, to be answered with none.
    pub(super) awaited: Vec<Call>,
    /// Sessions that did not return a lease in time, in their order.
    pub(super) overdue: Vec<SessionId>,
    /// Sessions that sent messages meanwhile and so had more time to return a data lease, and did
    /// not return it in that time.
    pub(super) overdue_though_active: Vec<SessionId>,
}

/// What became of a request for a data lease.
pub(super) enum DataGrant {
    /// Its mode and its number.
    Granted(LeaseMode, u64),
    Waits(LeaseWait),
    /// The table is full.
    Full,
    /// The session has ended.
    Ended,
}

/// What became of a call that was to wait.
pub(super) enum SuspendOutcome {
    Waits,
    /// A session returned a lease in the meantime: the call runs again.
    Freed(Box<SuspendedCall>),
    /// Too many calls wait.
    Full(Box<SuspendedCall>),
}

impl Leases {
    /// The leases of a server that has just started. `unknown` are the sessions of before that hold
    /// some.
    pub(crate) fn new(epoch: MdsEpoch, unknown: BTreeSet<SessionId>, now: Duration) -> Self {
        let mut table = LeaseTable::new(epoch);
        table.set_unreclaimed(unknown.clone(), now + Duration::from_millis(LEASE_EXPIRES_MS));
        let service = LeaseService {
            table,
            next_claim: 0,
            waiting: BTreeMap::new(),
            freed: 0,
            awaiting: HashMap::new(),
            lease_holders: unknown.into_iter().map(|session| (session, false)).collect(),
            delegation_recalls: HashMap::new(),
            delegation_pauses: VecDeque::new(),
            ready: VecDeque::new(),
            resuming: false,
        };
        Self { service: Mutex::new(service), writing: AtomicUsize::new(0) }
    }

    /// Does something under the lock. The caller does what follows, without it.
    pub(super) fn with_lock<T>(&self, work: impl FnOnce(&mut LeaseService) -> T) -> (T, Deferred) {
        let mut service = self.lock();
        let done = work(&mut service);
        self.writing.store(service.table.write_count(), Ordering::Release);
        (done, service.take_deferred())
    }

    /// The next call to run again. With `None` the caller stops: another thread may begin.
    pub(super) fn next_ready(&self) -> Option<SuspendedCall> {
        let mut service = self.lock();
        debug_assert!(
            service.resuming,
            "6: calls are run again by a thread that did not announce it"
        );
        let next = service.ready.pop_front();
        service.resuming = next.is_some();
        next
    }

    /// Lets another thread run calls again, after this one panicked.
    pub(super) fn stop_draining(&self) {
        self.lock().resuming = false;
    }

    /// Whether there are write leases. Takes no lock.
    pub(super) fn any_writing(&self) -> bool {
        self.writing.load(Ordering::Acquire) > 0
    }

    /// Notes a session as a holder of leases. Nothing follows from that: it may be called under the
    /// server's lock.
    pub(super) fn add_lease_holder(&self, session: SessionId) {
        self.lock().lease_holders.entry(session).or_insert(false);
    }

    fn lock(&self) -> MutexGuard<'_, LeaseService> {
        self.service.lock().unwrap_or_else(braid_types::poisoned)
    }
}

impl LeaseService {
    /// What follows from a change of the table.
    fn take_deferred(&mut self) -> Deferred {
        for by in self.table.take_freed() {
            self.freed += 1;
            if let Some(mut waiting) = self.waiting.remove(&by) {
                self.ready.append(&mut waiting);
            }
        }
        let replies = self
            .table
            .take_recalled_sessions()
            .into_iter()
            .filter_map(|session| self.take_recall_reply(session))
            .collect();
        let must_resume = !self.ready.is_empty() && !std::mem::replace(&mut self.resuming, true);
        Deferred { replies, must_resume }
    }

    /// The answer to a session that waits for recalls, if there are any.
    fn take_recall_reply(&mut self, session: SessionId) -> Option<(Call, Vec<u8>)> {
        let answer = self.recalls(session, self.awaiting.get(&session)?.seen)?;
        self.awaiting.remove(&session).map(|awaiting| (awaiting.call, answer))
    }

    fn recalls(&self, session: SessionId, seen: u64) -> Option<Vec<u8>> {
        let recalls = self.table.recalls(session, seen, RECALLS_MAX);
        let recalls: Vec<_> =
            recalls.iter().map(|(number, recall)| convert::recall(*number, recall)).collect();
        (!recalls.is_empty()).then(|| encode_success(&recalls))
    }

    fn next_claim(&mut self) -> ClaimId {
        self.next_claim += 1;
        ClaimId(self.next_claim)
    }

    /// The claim that a call has already, or a new one of these items.
    fn claim_guard(
        &mut self,
        earlier_guard: Option<ClaimGuard>,
        of: LeasedItems,
        core: &Weak<MdsCore>,
    ) -> ClaimGuard {
        earlier_guard.unwrap_or_else(|| ClaimGuard {
            id: self.next_claim(),
            of,
            core: core.clone(),
        })
    }

    /// Claims what a call needs of all sessions but this one. `earlier_guard` is a claim of the
    /// same items.
    pub(super) fn claim(
        &mut self,
        earlier_guard: Option<ClaimGuard>,
        core: &Weak<MdsCore>,
        session: SessionId,
        needs: &[Need],
        now: Duration,
    ) -> (ClaimGuard, Option<LeaseWait>) {
        let claim_guard = self.claim_guard(earlier_guard, LeasedItems::of(needs), core);
        let by = self.table.claim(claim_guard.id, session, needs, now);
        if by.is_some() {
            self.note_recalled_delegations(session, needs, now);
        }
        let freed = self.freed;
        (claim_guard, by.map(|by| LeaseWait { by, freed }))
    }

    /// Recalls leases from all sessions, and waits for none of them.
    pub(super) fn recall_from_all(&mut self, needs: &[Need], now: Duration) {
        let id = self.next_claim();
        self.table.claim(id, SessionId::default(), needs, now);
        self.table.unclaim(id, &needs.iter().map(|(of, _)| *of).collect::<Vec<_>>());
    }

    /// Whether another session holds an item, or may.
    pub(super) fn is_held_by_other(&self, session: SessionId, of: LeaseOf) -> bool {
        self.table.must_wait_for_reclaim(session)
            || self.table.holders(of).any(|(holder, _)| holder != session)
    }

    /// Whether another session may have buffered writes of a file.
    pub(super) fn has_buffered_writes(&self, session: SessionId, file: FileIndex) -> bool {
        let both = [LeaseOf::Data(file), LeaseOf::Delegation(file)];
        let mut holders = both.into_iter().flat_map(|of| self.table.holders(of));
        holders.any(|(holder, mode)| holder != session && mode == LeaseMode::Write)
    }

    /// Grants a delegation if nothing conflicts with it, unless one of the file was recalled not
    /// long ago.
    pub(super) fn try_delegation(
        &mut self,
        session: SessionId,
        file: FileIndex,
        mode: LeaseMode,
        now: Duration,
    ) -> Option<u64> {
        self.end_delegation_pauses(now);
        // A session that has just ended would hold it forever.
        if !self.is_lease_holder(session) || self.delegation_recalls.contains_key(&file) {
            return None;
        }
        self.table.try_grant_delegation(session, LeaseOf::Delegation(file), mode, now)
    }

    /// A call waits: notes the files whose delegations it has recalled.
    fn note_recalled_delegations(&mut self, session: SessionId, needs: &[Need], now: Duration) {
        for (of, need) in needs {
            let LeaseOf::Delegation(file) = *of else { continue };
            let mut holders = self.table.holders(*of);
            if !holders.any(|(holder, mode)| holder != session && mode.conflicts(*need)) {
                continue;
            }
            self.delegation_recalls.insert(file, now);
            self.delegation_pauses.push_back((now, file));
        }
        self.end_delegation_pauses(now);
    }

    /// Forgets recalls of delegations that are long ago, or too many.
    fn end_delegation_pauses(&mut self, now: Duration) {
        while let Some((noted, file)) = self.delegation_pauses.front().copied() {
            let is_over = now.saturating_sub(noted) >= DELEGATION_PAUSE;
            if !is_over && self.delegation_pauses.len() <= DELEGATION_PAUSES_MAX {
                return;
            }
            self.delegation_pauses.pop_front();
            // If it was recalled again meanwhile, the later entry ends the pause.
            if self.delegation_recalls.get(&file) == Some(&noted) {
                self.delegation_recalls.remove(&file);
            }
        }
    }

    /// Whether a session is on record as a holder of leases.
    pub(super) fn is_lease_holder(&self, session: SessionId) -> bool {
        self.lease_holders.contains_key(&session)
    }

    /// Whether a session reads and writes files only while it holds their data lease.
    pub(super) fn does_io_under_leases(&self, session: SessionId) -> bool {
        self.lease_holders.get(&session) == Some(&true)
    }

    /// A holder of leases says whether it does all I/O under leases.
    pub(super) fn set_io_under_leases(&mut self, session: SessionId, yes: bool) {
        if let Some(known) = self.lease_holders.get_mut(&session) {
            *known = yes;
        }
    }

    /// Suspends a call, unless a session returned a lease since the call decided to wait.
    pub(super) fn suspend(
        &mut self,
        blocked: &LeaseWait,
        waiting: SuspendedCall,
    ) -> SuspendOutcome {
        if self.freed != blocked.freed {
            return SuspendOutcome::Freed(Box::new(waiting));
        }
        let queue = self.waiting.entry(blocked.by).or_default();
        if queue.len() >= LEASE_QUEUE_MAX {
            return SuspendOutcome::Full(Box::new(waiting));
        }
        queue.push_back(waiting);
        debug_assert!(queue.len() <= LEASE_QUEUE_MAX, "3: bounded");
        SuspendOutcome::Waits
    }

    /// Grants a lease that all sessions may hold, if nothing conflicts with it. Returns its number.
    pub(super) fn grant_shared(
        &mut self,
        of: LeaseOf,
        session: SessionId,
        now: Duration,
    ) -> Option<u64> {
        // A session that has just ended would hold it forever.
        if self.is_lease_holder(session) { self.table.grant_shared(of, session, now) } else { None }
    }

    /// Asks for a data lease.
    pub(super) fn ask_data(
        &mut self,
        earlier_guard: Option<ClaimGuard>,
        core: &Weak<MdsCore>,
        (session, file): (SessionId, FileIndex),
        wish: (LeaseMode, bool),
        now: Duration,
    ) -> (ClaimGuard, DataGrant) {
        let of = LeaseOf::Data(file);
        let claim_guard = self.claim_guard(earlier_guard, LeasedItems::One(of), core);
        if !self.is_lease_holder(session) {
            return (claim_guard, DataGrant::Ended);
        }
        let granted = match self.table.request_data(claim_guard.id, session, of, wish, now) {
            AskOutcome::Granted(mode, number) => DataGrant::Granted(mode, number),
            AskOutcome::Waits(by) => DataGrant::Waits(LeaseWait { by, freed: self.freed }),
            AskOutcome::Full => DataGrant::Full,
        };
        (claim_guard, granted)
    }

    /// Grants a data lease with an open, if nothing conflicts with it. `read_besides`: sessions
    /// without leases have the file open.
    pub(super) fn try_data(
        &mut self,
        session: SessionId,
        file: FileIndex,
        wish: LeaseMode,
        read_besides: bool,
        now: Duration,
    ) -> Option<(LeaseMode, u64)> {
        let of = LeaseOf::Data(file);
        // The session may be using what it holds already. An open that crossed the request for
        // that lease does not lessen it.
        let holds = |(holder, mode)| holder == session && mode != LeaseMode::Shared;
        let may_use = read_besides && self.table.holders(of).any(holds);
        if may_use || !self.is_lease_holder(session) {
            return None;
        }
        self.table.try_grant_data(session, of, wish, now)
    }

    /// Lessens a data lease to the shared mode.
    pub(super) fn lessen(&mut self, file: FileIndex, session: SessionId) {
        self.table.reduce_grant(LeaseOf::Data(file), session, LeaseMode::Shared);
    }

    /// Suspends a session's question for recalls, or returns the answer: to this call, or to the
    /// one that it replaces.
    pub(super) fn await_recalls(
        &mut self,
        call: Call,
        session: SessionId,
        seen: u64,
    ) -> Option<(Call, Vec<u8>)> {
        self.table.session_released(session);
        match self.recalls(session, seen) {
            Some(answer) => Some((call, answer)),
            None => {
                let before = self.awaiting.insert(session, AwaitingRecalls { call, seen });
                before.map(|before| (before.call, no_recalls()))
            }
        }
    }

    /// A session returns leases.
    pub(super) fn return_leases(
        &mut self,
        session: SessionId,
        leases: &[(LeaseOf, u64, LeaseMode)],
    ) {
        leases
            .iter()
            .for_each(|(of, number, keep)| self.table.return_lease(session, *of, *number, *keep));
    }

    /// A session of before a restart relies on no lease any more.
    pub(super) fn drop_unreclaimed(&mut self, session: SessionId) {
        self.table.session_released(session);
    }

    /// A session closed: its leases are free. Its question for recalls, if it waits.
    pub(super) fn end_closed(&mut self, session: SessionId) -> Option<Call> {
        self.table.session_released(session);
        self.lease_holders.remove(&session);
        self.table.end_session(session);
        self.awaiting.remove(&session).map(|awaiting| awaiting.call)
    }

    /// A session was ended whose last message arrived at `last_active`: its leases are freed when
    /// they are no longer valid. Returns its question for recalls, if one waits.
    pub(super) fn end_broken(&mut self, session: SessionId, last_active: Duration) -> Option<Call> {
        if self.lease_holders.remove(&session).is_some() {
            self.table
                .end_session_later(session, last_active + Duration::from_millis(LEASE_EXPIRES_MS));
        }
        self.awaiting.remove(&session).map(|awaiting| awaiting.call)
    }

    /// The fences of these sessions hold.
    pub(super) fn fenced(&mut self, sessions: &[SessionId]) {
        self.table.sessions_fenced(sessions);
    }

    /// Which sessions a call waits for.
    pub(super) fn holders_waited_for(&self, by: Wait, session: SessionId) -> Vec<SessionId> {
        match by {
            Wait::For(of) => {
                let holders = self.table.holders(of).map(|(holder, _)| holder);
                holders.filter(|holder| *holder != session).collect()
            }
            Wait::Restart => self.table.unreclaimed_sessions().collect(),
        }
    }

    /// Ends what is over at `now`: waits, questions for recalls, leases of broken sessions.
    pub(super) fn expire_all(&mut self, now: Duration) -> ExpiredWaits {
        self.table.expire(now);
        let wait = Duration::from_millis(AWAIT_RECALLS_MS);
        let is_late =
            |awaiting: &AwaitingRecalls| now.saturating_sub(awaiting.call.received_at) >= wait;
        let over = self.awaiting.iter().filter(|(_, awaiting)| is_late(awaiting));
        // Ordered: the order of answers must not depend on a hash.
        let over: BTreeSet<SessionId> = over.map(|(session, _)| *session).collect();
        let awaited = over
            .iter()
            .filter_map(|session| self.awaiting.remove(session).map(|awaiting| awaiting.call))
            .collect();
        let since = |ms| now.checked_sub(Duration::from_millis(ms));
        let (overdue, overdue_though_active) = since(RECALL_MS)
            .map(|recalled| {
                let though_active =
                    self.table.overdue_but_responsive(recalled, since(RECALL_DATA_MS));
                (self.table.overdue(recalled), though_active)
            })
            .unwrap_or_default();
        ExpiredWaits { expired: self.expire(now), awaited, overdue, overdue_though_active }
    }

    fn expire(&mut self, now: Duration) -> Vec<(Call, Wait)> {
        let limit = Duration::from_millis(LEASE_WAIT_MS_MAX);
        let is_late = |(call, _): &SuspendedCall| now.saturating_sub(call.received_at) > limit;
        let mut expired = Vec::new();
        for (by, queue) in &mut self.waiting {
            let (gone, earlier_guard): (VecDeque<_>, VecDeque<_>) =
                queue.drain(..).partition(is_late);
            *queue = earlier_guard;
            expired.extend(gone.into_iter().map(|(call, _)| (call, *by)));
        }
        self.waiting.retain(|_, queue| !queue.is_empty());
        expired
    }
}

/// The answer to a question for recalls when there are none.
pub(super) fn no_recalls() -> Vec<u8> {
    encode_success(&Vec::<u64>::new())
}
