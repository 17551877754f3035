//! Leases, for programs with threads.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    thread,
    time::Duration,
};

use braid_layout::Layout;
use braid_net::Blocking;
use braid_types::{FileIndex, Status};
use braid_wire::message::types::Attributes;

use super::{Client, block_on};
use crate::{
    engine::{Caller, Engine, RecallNotice, semaphore::lock},
    error::{Error, Result},
    lease::{LeaseHolder, LeaseMode, LeaseOf, LeaseTicket, Recalled, does_io_under_leases},
};

/// Threads that carry out recalls of data and layout leases at the same time; they start and end on
/// demand. Each may wait for I/O daemons to accept buffered bytes. Files on unresponsive daemons
/// must not delay the recalls of other files.
const DATA_WORKERS_MAX: usize = 64;
/// The same for names leases. Each may wait for the metadata server to process lazy opens, and for
/// its reply to the returned lease.
const NAMES_WORKERS_MAX: usize = 16;
/// An idle thread ends after this time. Recalls come in bursts, and starting a thread costs more
/// than a recall.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// The leases of a client. Under a lease it may cache what the server replied, until the server
/// recalls the lease.
///
/// ```no_run
/// use std::sync::{Arc, Weak};
/// use braid_client::{Client, FileIndex, LeaseHolder, LeaseMode};
///
/// struct Cache;
/// impl LeaseHolder for Cache {
///     fn recall_names(&self, dir: FileIndex) { /* drop what is cached of the directory */ }
///     fn recall_data(&self, file: FileIndex, keep: LeaseMode) -> LeaseMode { LeaseMode::None }
///     fn lost_all(&self) { /* drop everything */ }
/// }
/// # fn example(client: &Client, cache: &Arc<Cache>) -> braid_client::Result<()> {
/// let leases = client.leases();
/// let holder: Weak<dyn LeaseHolder> = Arc::downgrade(cache) as Weak<dyn LeaseHolder>;
/// leases.serve(holder)?;
/// let ticket = leases.ask_names(FileIndex::ROOT)?;
/// let found = client.stat("/a")?;
/// if ticket.is_some_and(|ticket| leases.is_valid(&ticket)) && !found.uncacheable {
///     // `found` may be cached until `recall_names` is called.
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Leases {
    caller: Caller<Blocking>,
}

impl Client {
    /// Starts the thread of the read cache, if there is one and it has not been started. Without a
    /// thread there is no cache.
    pub(super) fn start_read_cache(&self) {
        let Some(cache) = self.caller().engine().read_cache() else { return };
        if !self.caller().engine().serves_recalls() {
            let _ = self.leases().start(Arc::downgrade(cache) as Weak<dyn LeaseHolder>);
        }
    }

    /// The leases that this client holds. It holds none before [`Leases::serve`].
    pub fn leases(&self) -> Leases {
        Leases { caller: self.caller().clone() }
    }
}

impl Leases {
    /// Starts the threads that carry out recalls. Before this call no lease is granted. Once for
    /// each client.
    ///
    /// # Errors
    /// [`Status::Exists`] at the second call; [`Status::LimitExceeded`] when the host has too many
    /// threads.
    pub fn serve(&self, holder: Weak<dyn LeaseHolder>) -> Result<()> {
        let engine = self.caller.engine();
        if engine.read_cache().is_some() {
            let why = "the read cache of this client holds its leases";
            return Err(Error::new(Status::Exists, why).with_hint("Config::read_cache_bytes = 0"));
        }
        self.start(holder)
    }

    /// As [`Leases::serve`].
    fn start(&self, holder: Weak<dyn LeaseHolder>) -> Result<()> {
        let engine = self.caller.engine();
        let under_leases = does_io_under_leases(&holder);
        if !engine.serve_recalls(under_leases) {
            return Err(Error::new(Status::Exists, "this client serves its recalls already"));
        }
        let (state, names, data) = (Mutex::default(), Condvar::new(), Condvar::new());
        let workers =
            Arc::new(RecallWorkers { engine: Arc::downgrade(engine), holder, state, names, data });
        let started =
            thread::Builder::new().name("braid-recall".into()).spawn(move || workers.serve());
        started.map(drop).map_err(|error| {
            // Without a thread no lease may be requested: nobody would answer its recall.
            engine.serve_no_recalls();
            Error::new(Status::LimitExceeded, format!("cannot start a thread for recalls: {error}"))
        })
    }

    /// The names lease of a directory, if it is held now.
    ///
    /// A reply may be cached if its request was sent after this call and [`Leases::is_valid`]
    /// returns true after the reply came. It may be used as long as [`Leases::is_valid`] returns
    /// true. The lease covers the directory's entries and negative entries, its attributes, and
    /// the attributes of those children that are not directories and not `uncacheable`.
    pub fn names_ticket(&self, dir: FileIndex) -> Option<LeaseTicket> {
        self.caller.engine().ticket(LeaseOf::Names(dir))
    }

    /// The data lease of a file, if it is held now.
    pub fn data_ticket(&self, file: FileIndex) -> Option<LeaseTicket> {
        self.caller.engine().ticket(LeaseOf::Data(file))
    }

    /// Whether the lease was held, and allowed the same, from the moment of the ticket until now.
    pub fn is_valid(&self, ticket: &LeaseTicket) -> bool {
        self.caller.engine().is_valid(ticket)
    }

    /// Requests the names lease of a directory; `None` if something conflicts.
    ///
    /// # Errors
    /// As any call.
    pub fn ask_names(&self, dir: FileIndex) -> Result<Option<LeaseTicket>> {
        block_on(self.caller.ask_names(dir))
    }

    /// As [`Leases::ask_names`]; also returns the directory's own attributes, which may be cached
    /// under the ticket.
    ///
    /// # Errors
    /// As any call.
    pub fn ask_names_with_attributes(
        &self,
        dir: FileIndex,
    ) -> Result<Option<(LeaseTicket, Attributes)>> {
        block_on(self.caller.ask_names_with_attributes(dir))
    }

    /// Requests the data lease of a file, and waits while it is recalled from other clients. Unless
    /// `alone` is set, the granted mode may differ from the requested one: see
    /// [`LeaseTicket::mode`]. `None`: the lease was recalled again before the reply came.
    ///
    /// # Errors
    /// As any call; [`Status::TryAgain`] with the name of a client that does not return its lease.
    pub fn ask_data(
        &self,
        file: FileIndex,
        mode: LeaseMode,
        alone: bool,
    ) -> Result<Option<LeaseTicket>> {
        block_on(self.caller.ask_data(file, mode, alone))
    }

    /// The layout lease of a file, if it is held now.
    pub fn layout_ticket(&self, file: FileIndex) -> Option<LeaseTicket> {
        self.caller.engine().ticket(LeaseOf::Layout(file))
    }

    /// Requests the layout lease of a file. Returns also the layout, which may be cached and used
    /// while [`Leases::is_valid`] returns true. Before the layout changes,
    /// [`LeaseHolder::recall_layout`] is called. `None` if something conflicts. A truncate changes
    /// the size generation, not the layout. Changes by this client itself cause no recall.
    ///
    /// # Errors
    /// As any call.
    pub fn ask_layout(&self, file: FileIndex) -> Result<Option<(LeaseTicket, Layout)>> {
        block_on(self.caller.ask_layout(file))
    }

    /// As [`Leases::return_lease`], but the server learns of it a little later, together with the
    /// closes.
    pub fn return_lease_later(&self, of: LeaseOf) {
        self.caller.engine().return_lease_later(of);
    }

    /// Returns a lease that is not needed any more. First drop what is cached under it.
    ///
    /// # Errors
    /// As any call; the lease is lost in any case.
    pub fn return_lease(&self, of: LeaseOf) -> Result<()> {
        block_on(self.caller.return_lease(of))
    }
}

/// Carries out recalls.
///
/// ```text
///   recall thread: AwaitRecalls ─┬─ names, leases not held ─> workers of names ─┐ recall_…,
///     drops all at a lease loss  └─ data, layouts ──────────> workers of data ──┘ ReturnLeases
/// ```
///
/// Invariants:
/// 1. The recall thread only waits for the server, and drops everything at a lease loss. So nothing
///    is used after its lease became invalid, whatever a recall waits for.
/// 2. Recalls of one lease are carried out one after the other, in order. If two ran at the same
///    time, the one that keeps a mode would let the holder use it while the other removes it.
/// 3. A recall of names never waits behind a recall of data.
/// 4. At most `RECALLS_MAX` recalls wait, the number that the server sends at a time, and each
///    lease occurs once (I9).
///
/// Assertions check 2. Each kind has its own queue and threads (3), and the recall thread carries
/// out no recall while another thread can be started (1). The server bounds 4; nothing here counts
/// it.
struct RecallWorkers {
    engine: Weak<Engine<Blocking>>,
    holder: Weak<dyn LeaseHolder>,
    state: Mutex<RecallQueues>,
    names: Condvar,
    data: Condvar,
}

#[derive(Default)]
struct RecallQueues {
    names: RecallQueue,
    data: RecallQueue,
    /// Leases with a recall that is being carried out.
    busy: HashSet<LeaseOf>,
}

#[derive(Default)]
struct RecallQueue {
    waiting: VecDeque<Recalled>,
    threads: usize,
    /// The idle threads among them.
    idle: usize,
}

/// One of the two queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QueueKind {
    Names,
    Data,
}

impl QueueKind {
    fn of(recalled: &Recalled) -> Self {
        match recalled.of {
            LeaseOf::Data(_) | LeaseOf::Layout(_) if recalled.held => Self::Data,
            _ => Self::Names,
        }
    }

    const fn threads_max(self) -> usize {
        match self {
            Self::Names => NAMES_WORKERS_MAX,
            Self::Data => DATA_WORKERS_MAX,
        }
    }
}

impl RecallQueues {
    fn queue(&mut self, kind: QueueKind) -> &mut RecallQueue {
        match kind {
            QueueKind::Names => &mut self.names,
            QueueKind::Data => &mut self.data,
        }
    }

    /// The next recall that may be carried out now.
    fn next(&mut self, kind: QueueKind) -> Option<Recalled> {
        let Self { names, data, busy } = self;
        let queue = if kind == QueueKind::Names { names } else { data };
        let at = queue.waiting.iter().position(|recalled| !busy.contains(&recalled.of))?;
        let recalled = queue.waiting.remove(at)?;
        let is_first = busy.insert(recalled.of);
        debug_assert!(is_first, "2: recalls of one lease run one after the other");
        Some(recalled)
    }
}

impl RecallWorkers {
    fn serve(self: Arc<Self>) {
        while let Some(engine) = self.engine.upgrade() {
            match block_on(engine.next_notice()) {
                RecallNotice::AllLost(lost) => {
                    if let Some(holder) = self.holder.upgrade() {
                        holder.lost_all();
                    }
                    engine.all_invalidated(lost);
                }
                RecallNotice::Recalled(recalled) => {
                    recalled.into_iter().for_each(|one| self.queue(one))
                }
                RecallNotice::Quiet => {}
                RecallNotice::Ended => return,
            }
        }
    }

    fn changed(&self, kind: QueueKind) -> &Condvar {
        match kind {
            QueueKind::Names => &self.names,
            QueueKind::Data => &self.data,
        }
    }

    fn queue(self: &Arc<Self>, recalled: Recalled) {
        let kind = QueueKind::of(&recalled);
        let more = {
            let mut state = lock(&self.state);
            let queue = state.queue(kind);
            queue.waiting.push_back(recalled);
            let more = queue.idle < queue.waiting.len() && queue.threads < kind.threads_max();
            queue.threads += usize::from(more);
            more
        };
        self.changed(kind).notify_one();
        let workers = Arc::clone(self);
        let name =
            if kind == QueueKind::Names { "braid-recall-names" } else { "braid-recall-data" };
        if more
            && thread::Builder::new()
                .name(name.into())
                .spawn(move || workers.work(kind, IDLE_TIME))
                .is_err()
        {
            // No thread could be started: this thread carries it out, late but not lost.
            self.work(kind, Duration::ZERO);
        }
    }

    /// Carries out recalls until none came for `idle_time`.
    fn work(&self, kind: QueueKind, idle_time: Duration) {
        while let Some(recalled) = self.next(kind, idle_time) {
            if let Some(engine) = self.engine.upgrade() {
                self.carry_out(&engine, &recalled);
            }
            let was_busy = lock(&self.state).busy.remove(&recalled.of);
            debug_assert!(was_busy, "2: recalls of one lease run one after the other");
            // Other recalls of this lease may be in either queue, and a worker may wait for them.
            self.names.notify_one();
            self.data.notify_one();
        }
    }

    /// The next recall. Waits for it; `None` if none came for `idle_time`, and then the thread is
    /// not counted any more.
    fn next(&self, kind: QueueKind, idle_time: Duration) -> Option<Recalled> {
        let mut state = lock(&self.state);
        let mut waited = false;
        loop {
            if let Some(recalled) = state.next(kind) {
                return Some(recalled);
            }
            // A recall that waits behind another one of its lease is left to the remaining workers.
            let others_left = state.queue(kind).waiting.is_empty() || state.queue(kind).idle > 0;
            if waited && (others_left || idle_time.is_zero()) {
                state.queue(kind).threads -= 1;
                return None;
            }
            state.queue(kind).idle += 1;
            let (woken, time) = self
                .changed(kind)
                .wait_timeout(state, idle_time)
                .unwrap_or_else(PoisonError::into_inner);
            (state, waited) = (woken, time.timed_out());
            state.queue(kind).idle -= 1;
        }
    }

    fn carry_out(&self, engine: &Arc<Engine<Blocking>>, recalled: &Recalled) {
        let keep = match (self.holder.upgrade().filter(|_| recalled.held), recalled.of) {
            (Some(holder), LeaseOf::Names(dir)) => {
                holder.recall_names(dir);
                LeaseMode::None
            }
            (Some(holder), LeaseOf::Layout(file)) => {
                holder.recall_layout(file);
                LeaseMode::None
            }
            (Some(holder), LeaseOf::Data(file)) => holder.recall_data(file, recalled.keep),
            // Only gateways request delegations.
            (Some(_), LeaseOf::Delegation(_)) | (None, _) => LeaseMode::None,
        };
        // If the server does not receive this, it ends the session, and the next notice reports
        // that.
        let _ = block_on(engine.carried_out(recalled, keep));
    }
}
