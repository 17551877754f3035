//! Leases in the server: who waits for whom, who is told, who is given up. The table itself is [`braid_meta::lease`],
//! a state machine; ADR 0009 has the protocol.
//!
//! ```text
//!   change ─> claim ─ nobody else holds it ─────────────────────────────> done, claim dropped
//!               └── recalled from its holders, call parked ─ returned ──> again from its beginning
//!                                       └ RECALL_MS ─> session ended and fenced ─ its belief is over ─^
//!   AwaitRecalls ─> parked ── a recall, or AWAIT_RECALLS_MS ─> answered
//! ```
//!
//! Invariants: (1) this lock is taken last, and nothing is called, answered or done again under it; (2) a call that waits
//! keeps its claim, so that nobody is granted meanwhile what it waits for; (3) its wait is bounded in number and time, and
//! ends with the name of who does not answer (I8, I9); (4) a session's leases are freed when it says so, or when its belief
//! is over: [`LEASE_BROKEN_MS`] after it was last heard, and its fence holds; (5) after a restart nothing is claimed while a
//! session of before, other than the caller's, may still believe.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use braid_meta::{
    Inode,
    lease::{Asked, ClaimId, LeaseMode, LeaseOf, Table, Wait},
};
use braid_types::{
    Failure, FileIndex, MdsEpoch, SessionId, Status,
    limits::{
        AWAIT_RECALLS_MS, LEASE_BROKEN_MS, RECALL_DATA_MS, RECALL_HEARD_MS, RECALL_MS, RECALLS_MAX,
    },
};
use braid_wire::{Rights, encode_success};

use crate::{
    call::{Call, Flow},
    convert,
    core::MdsCore,
    gate::{GATE_WAIT_MS_MAX, Waiting},
};

/// Calls that wait for leases of one thing (I9).
const LEASE_QUEUE_MAX: usize = 1024;
/// How long a call waits for leases before it is told whose: below one attempt of a client, as at a gate.
const LEASE_WAIT_MS_MAX: u64 = GATE_WAIT_MS_MAX;

/// The leases, with a lock of their own.
#[derive(Debug)]
pub(crate) struct Leases {
    board: Mutex<Board>,
    /// Write leases there are: with none, a look needs no lock.
    writing: AtomicUsize,
}

#[derive(Debug)]
struct Board {
    table: Table,
    next_claim: u64,
    /// Calls that wait until somebody holds less of a thing.
    waiting: BTreeMap<Wait, VecDeque<Waiting>>,
    /// Rises whenever somebody holds less: who decided to wait before that looks again.
    freed: u64,
    /// The `AwaitRecalls` of each session.
    awaiting: HashMap<SessionId, Awaiting>,
    /// Sessions that are on record as holders of leases.
    users: HashSet<SessionId>,
    /// To be done again, and whether somebody does it.
    ready: VecDeque<Waiting>,
    draining: bool,
}

/// A session's question for recalls that it has not seen.
#[derive(Debug)]
struct Awaiting {
    call: Call,
    seen: u64,
}

/// What a call waits for.
#[derive(Debug)]
pub(crate) struct Blocked {
    by: Wait,
    freed: u64,
}

/// The claims of one call: dropped with it.
pub(crate) struct Hold {
    id: ClaimId,
    of: Things,
    core: Weak<MdsCore>,
}

/// Mostly one, which takes no memory of its own.
#[derive(PartialEq, Eq, Debug)]
enum Things {
    One(LeaseOf),
    More(Vec<LeaseOf>),
}

impl Things {
    fn of(needs: &[(LeaseOf, LeaseMode)]) -> Self {
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

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hold({:?}, {:?})", self.id, self.of)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(core) = self.core.upgrade() {
            core.on_board(|board| board.table.unclaim(self.id, self.of.as_slice()));
        }
    }
}

/// What a board was left with: to be done without its lock.
#[derive(Default)]
struct After {
    told: Vec<(Call, Vec<u8>)>,
    drains: bool,
}

impl Leases {
    /// Those of a server that has just started, and of the sessions of before that hold some.
    pub(crate) fn new(epoch: MdsEpoch, unknown: BTreeSet<SessionId>, now: Duration) -> Self {
        let mut table = Table::new(epoch);
        table.restarted(unknown.clone(), now + Duration::from_millis(LEASE_BROKEN_MS));
        let board = Board {
            table,
            next_claim: 0,
            waiting: BTreeMap::new(),
            freed: 0,
            awaiting: HashMap::new(),
            users: unknown.into_iter().collect(),
            ready: VecDeque::new(),
            draining: false,
        };
        Self { board: Mutex::new(board), writing: AtomicUsize::new(0) }
    }
}

impl Board {
    /// What follows from a change of the table.
    fn follow(&mut self) -> After {
        for by in self.table.take_freed() {
            self.freed += 1;
            if let Some(mut waiting) = self.waiting.remove(&by) {
                self.ready.append(&mut waiting);
            }
        }
        let told =
            self.table.take_told().into_iter().filter_map(|session| self.tell(session)).collect();
        let drains = !self.ready.is_empty() && !std::mem::replace(&mut self.draining, true);
        After { told, drains }
    }

    /// The answer to a session that waits for recalls, if there are any.
    fn tell(&mut self, session: SessionId) -> Option<(Call, Vec<u8>)> {
        let answer = self.recalls(session, self.awaiting.get(&session)?.seen)?;
        self.awaiting.remove(&session).map(|awaiting| (awaiting.call, answer))
    }

    fn recalls(&self, session: SessionId, seen: u64) -> Option<Vec<u8>> {
        let recalls = self.table.recalls(session, seen, RECALLS_MAX);
        let recalls: Vec<_> =
            recalls.iter().map(|(number, recall)| convert::recall(*number, recall)).collect();
        (!recalls.is_empty()).then(|| encode_success(&recalls))
    }

    fn park(&mut self, blocked: &Blocked, waiting: Waiting) -> Result<(), Box<Waiting>> {
        let queue = self.waiting.entry(blocked.by).or_default();
        if queue.len() >= LEASE_QUEUE_MAX {
            return Err(Box::new(waiting));
        }
        queue.push_back(waiting);
        Ok(())
    }

    fn expire(&mut self, now: Duration) -> Vec<(Call, Wait)> {
        let limit = Duration::from_millis(LEASE_WAIT_MS_MAX);
        let late = |(call, _): &Waiting| now.saturating_sub(call.came) > limit;
        let mut expired = Vec::new();
        for (by, queue) in &mut self.waiting {
            let (gone, kept): (VecDeque<_>, VecDeque<_>) = queue.drain(..).partition(late);
            *queue = kept;
            expired.extend(gone.into_iter().map(|(call, _)| (call, *by)));
        }
        self.waiting.retain(|_, queue| !queue.is_empty());
        expired
    }
}

impl MdsCore {
    /// Does something with the board, and then, without its lock, what follows from it.
    fn on_board<T>(&self, work: impl FnOnce(&mut Board) -> T) -> T {
        let (done, after) = {
            let mut board = self.leases.board.lock().unwrap_or_else(PoisonError::into_inner);
            let done = work(&mut board);
            self.leases.writing.store(board.table.writing(), Ordering::Release);
            (done, board.follow())
        };
        after.told.into_iter().for_each(|(call, answer)| call.responder.send(answer));
        if after.drains {
            self.drain_ready();
        }
        done
    }

    /// Does again what waited. One thread at a time, so that what one call frees does not nest in it.
    fn drain_ready(&self) {
        loop {
            let next = {
                let mut board = self.leases.board.lock().unwrap_or_else(PoisonError::into_inner);
                let next = board.ready.pop_front();
                board.draining = next.is_some();
                next
            };
            let Some((call, request)) = next else { return };
            self.run(call, request);
        }
    }

    /// Claims what a call needs, or looks at its claims again. The call comes back when it may go on.
    // A flow is large because a call is, and is handed on at once.
    #[allow(clippy::result_large_err)]
    pub(crate) fn claim(&self, call: Call, needs: &[(LeaseOf, LeaseMode)]) -> Result<Call, Flow> {
        let session = call.asker();
        self.claim_as(call, session, needs)
    }

    /// Claims what a call needs of everybody but this session; of everybody, where it is 0, which is nobody's.
    #[allow(clippy::result_large_err)]
    pub(crate) fn claim_as(
        &self,
        mut call: Call,
        session: SessionId,
        needs: &[(LeaseOf, LeaseMode)],
    ) -> Result<Call, Flow> {
        if needs.is_empty() {
            return Ok(call);
        }
        let now = self.now();
        let of = Things::of(needs);
        let old = call.hold.take();
        let (kept, dropped) = match old {
            Some(hold) if hold.of == of => (Some(hold), None),
            old => (None, old),
        };
        let (hold, blocked) = self.on_board(|board| {
            let hold = kept.unwrap_or_else(|| {
                board.next_claim += 1;
                Hold { id: ClaimId(board.next_claim), of, core: self.weak() }
            });
            let by = board.table.claim(hold.id, session, needs, now);
            let freed = board.freed;
            (hold, by.map(|by| Blocked { by, freed }))
        });
        drop(dropped);
        call.hold = Some(hold);
        match blocked {
            None => Ok(call),
            Some(blocked) => Err(Flow::Lease(call, blocked)),
        }
    }

    /// Whether anybody else than the caller holds something, or may.
    pub(crate) fn is_leased(&self, call: &Call, of: LeaseOf) -> bool {
        let session = call.asker();
        self.on_board(|board| {
            board.table.is_unsure(session)
                || board.table.holders(of).any(|(holder, _)| holder != session)
        })
    }

    /// Claims what a look at a file's size needs: that nobody else gathers writes to it.
    #[allow(clippy::result_large_err)]
    pub(crate) fn look(&self, call: Call, file: FileIndex) -> Result<Call, Flow> {
        let of = LeaseOf::Data(file);
        if self.leases.writing.load(Ordering::Acquire) == 0 {
            return Ok(call);
        }
        let session = call.asker();
        let gathered = self.on_board(|board| {
            board
                .table
                .holders(of)
                .any(|(holder, mode)| holder != session && mode == LeaseMode::Write)
        });
        if gathered { self.claim(call, &[(of, LeaseMode::Look)]) } else { Ok(call) }
    }

    /// Whether somebody else than the caller may gather writes to a file.
    pub(crate) fn is_gathered(&self, call: &Call, file: FileIndex) -> bool {
        let session = call.asker();
        self.leases.writing.load(Ordering::Acquire) > 0
            && self.on_board(|board| {
                let mut holders = board.table.holders(LeaseOf::Data(file));
                holders.any(|(holder, mode)| holder != session && mode == LeaseMode::Write)
            })
    }

    /// Parks a call that waits for leases.
    pub(crate) fn park(&self, blocked: &Blocked, waiting: Waiting) {
        let parked = self.on_board(|board| {
            if board.freed != blocked.freed {
                return Some(Err(Box::new(waiting)));
            }
            match board.park(blocked, waiting) {
                Ok(()) => None,
                Err(waiting) => Some(Ok(waiting)),
            }
        });
        match parked {
            None => {}
            Some(Ok(full)) => {
                let why = "too many calls wait for leases of the file or directory";
                self.fail(full.0, &Failure::new(Status::TryAgain, why));
            }
            // Somebody let go meanwhile.
            Some(Err(again)) => {
                let (call, request) = *again;
                self.run(call, request);
            }
        }
    }

    /// Whether a session is on record as a holder of leases.
    pub(crate) fn uses_leases(&self, session: SessionId) -> bool {
        self.on_board(|board| board.users.contains(&session))
    }

    /// A session is on record as a holder of leases. False when it has ended.
    pub(crate) fn note_user(&self, session: SessionId) -> bool {
        // Held to the end: who ends it takes it off the living first, and its leases then.
        let state = self.state();
        let lives = state.sessions.live.get(session).is_some();
        if lives {
            self.leases.board.lock().unwrap_or_else(PoisonError::into_inner).users.insert(session);
        }
        lives
    }

    /// Grants a lease that all may hold, of names or of a layout, if nothing is in its way.
    pub(crate) fn grant_shared(&self, of: LeaseOf, session: SessionId) -> Option<u64> {
        let now = self.now();
        self.on_board(|board| {
            // One that has just ended would hold it for ever.
            let lives = board.users.contains(&session);
            if lives { board.table.grant_shared(of, session, now) } else { None }
        })
    }

    /// Asks for a data lease; the call comes back with its mode and number.
    #[allow(clippy::result_large_err)]
    pub(crate) fn ask_data(
        &self,
        mut call: Call,
        file: FileIndex,
        wish: (LeaseMode, bool),
    ) -> Result<(Call, LeaseMode, u64), Flow> {
        let (of, session, now) = (LeaseOf::Data(file), call.asker(), self.now());
        let kept = call.hold.take();
        let (hold, asked, freed) = self.on_board(|board| {
            let hold = kept.unwrap_or_else(|| {
                board.next_claim += 1;
                Hold { id: ClaimId(board.next_claim), of: Things::One(of), core: self.weak() }
            });
            let lives = board.users.contains(&session);
            let asked = lives.then(|| board.table.ask_data(hold.id, session, of, wish, now));
            (hold, asked, board.freed)
        });
        call.hold = Some(hold);
        let Some(asked) = asked else {
            return Err(Flow::Fail(
                call,
                Failure::new(Status::NoSession, format!("session {session} has ended")),
            ));
        };
        match asked {
            // Who must be alone is, as far as leases go: an append beside clients that use none is still to be done.
            Asked::Granted(mode, number) if wish.1 => Ok((call, mode, number)),
            Asked::Granted(mode, number) => Ok((call, self.lessened(file, session, mode), number)),
            Asked::Waits(by) => Err(Flow::Lease(call, Blocked { by, freed })),
            Asked::Full => {
                let why =
                    "the server has as many leases as it can hold; the least used are recalled";
                Err(Flow::Fail(call, Failure::new(Status::TryAgain, why)))
            }
        }
    }

    /// Grants a data lease with an open, if nothing is in its way.
    pub(crate) fn try_data(
        &self,
        call: &Call,
        file: FileIndex,
        wish: LeaseMode,
    ) -> (LeaseMode, u64) {
        let (of, session, now) = (LeaseOf::Data(file), call.asker(), self.now());
        let (read, _) = self.used_besides(file, session);
        let granted = self.on_board(|board| {
            // What it holds, by insisting, it may be using: that is not lessened by an open that crossed the ask.
            let holds = |(holder, mode)| holder == session && mode != LeaseMode::Shared;
            let may_use = read && board.table.holders(of).any(holds);
            if may_use || !board.users.contains(&session) {
                return None;
            }
            board.table.try_data(session, of, wish, now)
        });
        match granted {
            Some((mode, number)) => (self.lessened(file, session, mode), number),
            None => (LeaseMode::None, 0),
        }
    }

    /// What remains of a data lease beside those that use the file without leases. They are looked at after the grant: one
    /// that opens the file later claims it, and finds the grant.
    fn lessened(&self, file: FileIndex, session: SessionId, mode: LeaseMode) -> LeaseMode {
        if mode == LeaseMode::Shared {
            return mode;
        }
        let (read, written) = self.used_besides(file, session);
        if !(written || read && mode == LeaseMode::Write) {
            return mode;
        }
        self.on_board(|board| board.table.lessen(LeaseOf::Data(file), session, LeaseMode::Shared));
        LeaseMode::Shared
    }

    /// Whether others have a file open that use no leases, and whether for writing.
    fn used_besides(&self, file: FileIndex, session: SessionId) -> (bool, bool) {
        let opens = self.names.opens_of(file);
        let besides = || {
            opens.iter().filter(|open| open.session != session && !self.uses_leases(open.session))
        };
        (besides().next().is_some(), besides().any(|open| open.writers > 0))
    }

    /// What an open needs: of a client that uses no leases, that nobody keeps or gathers what it reads or writes.
    pub(crate) fn needs_of_open(
        &self,
        call: &Call,
        inode: &Inode,
        rights: Rights,
        empties: bool,
    ) -> Vec<(LeaseOf, LeaseMode)> {
        let writes = rights.allow(Rights::WRITE);
        let mut needs = Vec::new();
        if (writes || empties) && !self.is_written_besides(call, inode.file) {
            needs.extend(names_of(inode));
        }
        let data = match (self.uses_leases(call.asker()), empties || writes) {
            (true, _) if !empties => None,
            (_, true) => Some(LeaseMode::Shared),
            (_, false) => Some(LeaseMode::Look),
        };
        needs.extend(data.map(|mode| (LeaseOf::Data(inode.file), mode)));
        needs
    }

    /// Whether an open for writing changes nothing for those that keep attributes of the file: nobody does.
    fn is_written_besides(&self, call: &Call, file: FileIndex) -> bool {
        let writers = self.names.writers(file);
        writers.len() > 1 || writers.contains(&call.asker())
    }

    /// What was told of these files' sizes was lost with a daemon's power: nobody is to keep it. It is not waited for.
    pub(crate) fn forget_kept(&self, inodes: &[Arc<Inode>]) {
        self.recall_from_all(
            &inodes.iter().filter_map(|inode| names_of(inode)).collect::<Vec<_>>(),
        );
    }

    /// These files are gone, and their objects go: nobody is to use their layouts. It is not waited for: what is read there
    /// from now on is refused, and no other file ever has the index (I11).
    pub(crate) fn forget_layouts(&self, files: impl Iterator<Item = FileIndex>) {
        self.recall_from_all(&files.map(layout).collect::<Vec<_>>());
    }

    fn recall_from_all(&self, needs: &[(LeaseOf, LeaseMode)]) {
        if needs.is_empty() {
            return;
        }
        let now = self.now();
        self.on_board(|board| {
            board.next_claim += 1;
            let id = ClaimId(board.next_claim);
            board.table.claim(id, SessionId::default(), needs, now);
            board.table.unclaim(id, &needs.iter().map(|(of, _)| *of).collect::<Vec<_>>());
        });
    }

    /// A session waits for recalls; what it held before a restart is gone.
    pub(crate) fn park_for_recalls(&self, call: Call, session: SessionId, seen: u64) {
        let replaced = self.on_board(|board| {
            board.table.let_go(session);
            match board.recalls(session, seen) {
                Some(answer) => Some((call, answer)),
                None => {
                    let before = board.awaiting.insert(session, Awaiting { call, seen });
                    before.map(|before| (before.call, encode_success(&Vec::<u64>::new())))
                }
            }
        });
        if let Some((call, answer)) = replaced {
            call.responder.send(answer);
        }
    }

    /// A session gives leases back.
    pub(crate) fn take_back(&self, session: SessionId, leases: &[(LeaseOf, u64, LeaseMode)]) {
        self.on_board(|board| {
            leases
                .iter()
                .for_each(|(of, number, keep)| board.table.returned(session, *of, *number, *keep));
        });
    }

    /// A session of before a restart believes in no lease any more.
    pub(crate) fn has_let_go(&self, session: SessionId) {
        self.on_board(|board| board.table.let_go(session));
    }

    /// A session ended, and said itself that it stopped.
    pub(crate) fn free_leases(&self, session: SessionId) {
        let awaited = self.on_board(|board| {
            board.table.let_go(session);
            board.users.remove(&session);
            board.table.end_session(session);
            board.awaiting.remove(&session)
        });
        if let Some(Awaiting { call, .. }) = awaited {
            let ended = Failure::new(Status::NoSession, format!("session {session} has ended"));
            self.fail(call, &ended);
        }
    }

    /// A session was ended that was last heard then: what it holds is freed when it cannot believe it any more.
    pub(crate) fn break_leases(&self, session: SessionId, heard: Duration) {
        let until = heard + Duration::from_millis(LEASE_BROKEN_MS);
        let awaited = self.on_board(|board| {
            if board.users.remove(&session) {
                board.table.break_session(session, until);
            }
            board.awaiting.remove(&session)
        });
        if let Some(Awaiting { call, .. }) = awaited {
            let ended = Failure::new(Status::NoSession, format!("session {session} has ended"));
            self.fail(call, &ended);
        }
    }

    /// The fences of these sessions hold.
    pub(crate) fn leases_fenced(&self, sessions: &[SessionId]) {
        self.on_board(|board| board.table.fenced(sessions));
    }

    /// Looks at the clock: who waits too long, who does not answer, whose belief is over.
    pub(crate) fn age_leases(self: &Arc<Self>, now: Duration) {
        let (expired, awaited, overdue) = self.on_board(|board| {
            board.table.age(now);
            let wait = Duration::from_millis(AWAIT_RECALLS_MS);
            let late = |awaiting: &Awaiting| now.saturating_sub(awaiting.call.came) >= wait;
            let sessions: BTreeSet<SessionId> = board
                .awaiting
                .iter()
                .filter(|(_, awaiting)| late(awaiting))
                .map(|(session, _)| *session)
                .collect();
            let awaited: Vec<Awaiting> =
                sessions.iter().filter_map(|session| board.awaiting.remove(session)).collect();
            let since = |ms| now.checked_sub(Duration::from_millis(ms));
            let overdue = since(RECALL_MS).map(|recalled| {
                (
                    board.table.overdue(recalled),
                    board.table.overdue_though_heard(recalled, since(RECALL_DATA_MS)),
                )
            });
            (board.expire(now), awaited, overdue.unwrap_or_default())
        });
        let nothing = encode_success(&Vec::<u64>::new());
        awaited.into_iter().for_each(|awaiting| awaiting.call.responder.send(nothing.clone()));
        for (call, by) in expired {
            let failure = self.blame(&call, by);
            self.fail(call, &failure);
        }
        let (overdue, though_heard) = overdue;
        let is_given_up = |id: &SessionId| {
            let state = self.state();
            let silent = state.sessions.live.get(*id).map(|session| session.pulse.silent_ms(now));
            silent.is_some_and(|silent| silent > RECALL_HEARD_MS || though_heard.contains(id))
        };
        let overdue: Vec<SessionId> = overdue.into_iter().filter(is_given_up).collect();
        if !overdue.is_empty() {
            tracing::warn!(count = overdue.len(), "sessions do not give leases back in time");
            self.end_fenced(&overdue);
        }
    }

    /// Who keeps a call waiting.
    fn blame(&self, call: &Call, by: Wait) -> Failure {
        let session = call.asker();
        let holders: Vec<SessionId> = self.on_board(|board| match by {
            Wait::For(of) => board
                .table
                .holders(of)
                .map(|(holder, _)| holder)
                .filter(|holder| *holder != session)
                .collect(),
            Wait::Restart => board.table.unknown().collect(),
        });
        let names: Vec<String> = {
            let state = self.state();
            let ended = |id: &SessionId| state.sessions.ended_client(*id);
            let name = |id: &SessionId| match (state.sessions.live.get(*id), ended(id)) {
                (Some(live), _) => format!("{} (session {id})", live.client),
                (None, Some(client)) => format!("{client} (session {id}, which is ended)"),
                (None, None) => format!("session {id}, which is ended"),
            };
            holders.iter().take(3).map(name).collect()
        };
        let what = if by != Wait::Restart {
            "does not give back its lease"
        } else {
            "may hold leases of before the restart"
        };
        let who = if names.is_empty() { "another client".to_owned() } else { names.join(", ") };
        Failure::new(Status::TryAgain, format!("client {who} {what}; it is given up soon"))
    }

    /// Whether attributes of a file that the caller is told may not be kept under the names lease of its directory.
    /// `settled`: its size is recorded, or was heard after its last writer.
    pub(crate) fn is_shared(&self, call: &Call, inode: &Inode, settled: bool) -> bool {
        if inode.is_directory() {
            return inode.nlink == 0;
        }
        if self.names.denied(inode.file).read {
            // Who kept them would open the file without a word.
            return true;
        }
        if inode.nlink != 1 || inode.linked || self.is_in_doubt() && inode.layout.is_some() {
            return true;
        }
        if !inode.size_in_objects {
            return false;
        }
        let writers = self.names.writers(inode.file);
        match writers.as_slice() {
            [] => !settled,
            writers => writers.iter().any(|writer| *writer != call.asker()),
        }
    }
}

/// The call, once its claims hold; else the operation ends here for now.
macro_rules! claimed {
    ($claim:expr) => {
        match $claim {
            Ok(call) => call,
            Err(flow) => return flow,
        }
    };
}
pub(crate) use claimed;

/// What a change of an inode's attributes needs: that nobody else keeps them.
pub(crate) fn names_of(inode: &Inode) -> Option<(LeaseOf, LeaseMode)> {
    let dir = match inode.is_directory() {
        true => Some(inode.file),
        // Nobody keeps those of a file with several names, or none.
        false => (inode.nlink == 1 && !inode.linked).then_some(inode.parent),
    };
    dir.map(names)
}

/// What a change of a directory's entries needs.
pub(crate) fn names(dir: FileIndex) -> (LeaseOf, LeaseMode) {
    (LeaseOf::Names(dir), LeaseMode::Write)
}

/// What a change of where a file's bytes lie needs.
pub(crate) fn layout(file: FileIndex) -> (LeaseOf, LeaseMode) {
    (LeaseOf::Layout(file), LeaseMode::Write)
}
