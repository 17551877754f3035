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
    engine::{Caller, Engine, Notice, gate::lock},
    error::{Error, Result},
    lease::{LeaseHolder, LeaseMode, LeaseOf, LeaseTicket, Recalled},
};

/// Threads that carry out recalls of data and layouts at a time, started when there is something to do and gone when there was not: each
/// may wait for I/O daemons to take what was gathered, and files on daemons that are away must not hold up every other's.
const DATA_LANES_MAX: usize = 64;
/// The same for names: each may wait for the metadata server to open what is open late, and for its answer to the return.
const NAMES_LANES_MAX: usize = 16;
/// A lane without work ends after this time: recalls come in bursts, and a new thread for each would cost more than the recall.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// The leases of a client: what it may keep of what it was told, until the server wants it back.
///
/// ```no_run
/// use std::sync::{Arc, Weak};
/// use braid_client::{Client, FileIndex, LeaseHolder, LeaseMode};
///
/// struct Cache;
/// impl LeaseHolder for Cache {
///     fn recall_names(&self, dir: FileIndex) { /* forget what was kept of the directory */ }
///     fn recall_data(&self, file: FileIndex, keep: LeaseMode) -> LeaseMode { LeaseMode::None }
///     fn lost_all(&self) { /* forget everything */ }
/// }
/// # fn example(client: &Client, cache: &Arc<Cache>) -> braid_client::Result<()> {
/// let leases = client.leases();
/// let holder: Weak<dyn LeaseHolder> = Arc::downgrade(cache) as Weak<dyn LeaseHolder>;
/// leases.serve(holder)?;
/// let ticket = leases.ask_names(FileIndex::ROOT)?;
/// let found = client.stat("/a")?;
/// if ticket.is_some_and(|ticket| leases.still(&ticket)) && !found.shared {
///     // `found` may be kept until `recall_names` is called.
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Leases {
    caller: Caller<Blocking>,
}

impl Client {
    /// The leases that this client holds: none, unless [`Leases::serve`] was called.
    pub fn leases(&self) -> Leases {
        Leases { caller: self.caller().clone() }
    }
}

impl Leases {
    /// Starts the threads that carry recalls out: before this nothing is granted. Once for a client.
    ///
    /// # Errors
    /// [`Status::Exists`] the second time, [`Status::LimitExceeded`] when there are too many threads.
    pub fn serve(&self, holder: Weak<dyn LeaseHolder>) -> Result<()> {
        let engine = self.caller.engine();
        if !engine.serve_recalls() {
            return Err(Error::new(
                Status::Exists,
                "the recalls of this client are carried out already",
            ));
        }
        let (state, names, data) = (Mutex::default(), Condvar::new(), Condvar::new());
        let lanes = Arc::new(Lanes { engine: Arc::downgrade(engine), holder, state, names, data });
        let started =
            thread::Builder::new().name("braid-recall".into()).spawn(move || lanes.serve());
        started.map(drop).map_err(|error| {
            Error::new(Status::LimitExceeded, format!("no thread for recalls: {error}"))
        })
    }

    /// The names lease of a directory, if it is held now. What is asked of the server after this, and answered while
    /// [`Leases::still`] says yes, may be kept for as long as it does: the directory's entries, absent ones too, its
    /// attributes, and those of its children that are not directories and not `shared`.
    pub fn names_ticket(&self, dir: FileIndex) -> Option<LeaseTicket> {
        self.caller.engine().ticket(LeaseOf::Names(dir))
    }

    /// The data lease of a file, if one is held now.
    pub fn data_ticket(&self, file: FileIndex) -> Option<LeaseTicket> {
        self.caller.engine().ticket(LeaseOf::Data(file))
    }

    /// Whether a lease was held, and allowed the same, from the moment of the ticket until now.
    pub fn still(&self, ticket: &LeaseTicket) -> bool {
        self.caller.engine().still(ticket)
    }

    /// Asks for the names lease of a directory; `None` when something is in its way.
    ///
    /// # Errors
    /// As any call.
    pub fn ask_names(&self, dir: FileIndex) -> Result<Option<LeaseTicket>> {
        block_on(self.caller.ask_names(dir))
    }

    /// As [`Leases::ask_names`], with the directory's own attributes, which may be kept under the ticket.
    ///
    /// # Errors
    /// As any call.
    pub fn ask_names_told(&self, dir: FileIndex) -> Result<Option<(LeaseTicket, Attributes)>> {
        block_on(self.caller.ask_names_told(dir))
    }

    /// Asks for the data lease of a file, and waits while it is recalled from others. What comes may be another mode
    /// than the one wished, unless it is to be had `alone`: see [`LeaseTicket::mode`]. `None`: it was recalled again before
    /// it came.
    ///
    /// # Errors
    /// As any call; [`Status::TryAgain`] with the name of a client that does not give it back.
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

    /// Asks for the layout lease of a file, with the layout, which may be kept and used while [`Leases::still`] says yes:
    /// before it changes, [`LeaseHolder::recall_layout`] is called. `None` when something is in its way. A truncate changes
    /// the size generation, not the layout; what a program of this client changes itself it knows.
    ///
    /// # Errors
    /// As any call.
    pub fn ask_layout(&self, file: FileIndex) -> Result<Option<(LeaseTicket, Layout)>> {
        block_on(self.caller.ask_layout(file))
    }

    /// As [`Leases::give_back`], but the server learns of it a little later, together with closes.
    pub fn give_back_later(&self, of: LeaseOf) {
        self.caller.engine().give_back_later(of);
    }

    /// Gives a lease back that is of no more use: first forget what was kept under it.
    ///
    /// # Errors
    /// As any call; the lease is lost in any case.
    pub fn give_back(&self, of: LeaseOf) -> Result<()> {
        block_on(self.caller.give_back(of))
    }
}

/// Carries recalls out.
///
/// ```text
///   notice thread: AwaitRecalls ──┬── names, and what is not held ──> lanes of names ──┐ recall_…, ReturnLeases
///     drops all when it is lost   └── data, layouts ────────────────> lanes of data ───┘
/// ```
///
/// Invariants: (1) the notice thread only waits for the server and drops everything when leases are lost: whatever a recall waits for,
/// nothing is used for longer than leases are believed; (2) recalls of one lease are carried out one after the other, in their
/// order: of two at once the one that keeps something would let its holder use it while the other takes it away; (3) a
/// recall of names never waits behind one of data; (4) at most as many recalls wait as the server has out at a time:
/// `RECALLS_MAX`, and each lease once (I9).
struct Lanes {
    engine: Weak<Engine<Blocking>>,
    holder: Weak<dyn LeaseHolder>,
    state: Mutex<State>,
    names: Condvar,
    data: Condvar,
}

#[derive(Default)]
struct State {
    names: Queue,
    data: Queue,
    /// Of these one is being carried out.
    busy: HashSet<LeaseOf>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Recalled>,
    threads: usize,
    /// Those of them that wait for work.
    idle: usize,
}

/// Which of the two queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Names,
    Data,
}

impl Kind {
    fn of(recalled: &Recalled) -> Self {
        match recalled.of {
            LeaseOf::Data(_) | LeaseOf::Layout(_) if recalled.held => Self::Data,
            _ => Self::Names,
        }
    }

    const fn threads_max(self) -> usize {
        match self {
            Self::Names => NAMES_LANES_MAX,
            Self::Data => DATA_LANES_MAX,
        }
    }
}

impl State {
    fn queue(&mut self, kind: Kind) -> &mut Queue {
        match kind {
            Kind::Names => &mut self.names,
            Kind::Data => &mut self.data,
        }
    }

    /// The next that may be carried out.
    fn next(&mut self, kind: Kind) -> Option<Recalled> {
        let Self { names, data, busy } = self;
        let queue = if kind == Kind::Names { names } else { data };
        let at = queue.waiting.iter().position(|recalled| !busy.contains(&recalled.of))?;
        let recalled = queue.waiting.remove(at)?;
        busy.insert(recalled.of);
        Some(recalled)
    }
}

impl Lanes {
    fn serve(self: Arc<Self>) {
        while let Some(engine) = self.engine.upgrade() {
            match block_on(engine.next_notice()) {
                Notice::LostAll(lost) => {
                    if let Some(holder) = self.holder.upgrade() {
                        holder.lost_all();
                    }
                    engine.all_dropped(lost);
                }
                Notice::Recalled(recalled) => recalled.into_iter().for_each(|one| self.queue(one)),
                Notice::Quiet => {}
                Notice::Ended => return,
            }
        }
    }

    fn changed(&self, kind: Kind) -> &Condvar {
        match kind {
            Kind::Names => &self.names,
            Kind::Data => &self.data,
        }
    }

    fn queue(self: &Arc<Self>, recalled: Recalled) {
        let kind = Kind::of(&recalled);
        let more = {
            let mut state = lock(&self.state);
            let queue = state.queue(kind);
            queue.waiting.push_back(recalled);
            let more = queue.idle < queue.waiting.len() && queue.threads < kind.threads_max();
            queue.threads += usize::from(more);
            more
        };
        self.changed(kind).notify_one();
        let lanes = Arc::clone(self);
        let name = if kind == Kind::Names { "braid-recall-names" } else { "braid-recall-data" };
        if more
            && thread::Builder::new()
                .name(name.into())
                .spawn(move || lanes.drain(kind, IDLE_TIME))
                .is_err()
        {
            // Late is better than never.
            self.drain(kind, Duration::ZERO);
        }
    }

    /// Carries recalls out until there was none for a while.
    fn drain(&self, kind: Kind, idle_time: Duration) {
        while let Some(recalled) = self.next(kind, idle_time) {
            if let Some(engine) = self.engine.upgrade() {
                self.carry_out(&engine, &recalled);
            }
            lock(&self.state).busy.remove(&recalled.of);
            // Others of the same lease may be in either queue, and may be what a lane waits for.
            self.names.notify_one();
            self.data.notify_one();
        }
    }

    /// The next recall, waited for; `None`, and the thread's place is free, when there was none for a while.
    fn next(&self, kind: Kind, idle_time: Duration) -> Option<Recalled> {
        let mut state = lock(&self.state);
        let mut waited = false;
        loop {
            if let Some(recalled) = state.next(kind) {
                return Some(recalled);
            }
            // One that waits behind another of its lease is carried out by whoever is left.
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
            (None, _) => LeaseMode::None,
        };
        // Not heard of it, the server ends the session: the next notice says so.
        let _ = block_on(engine.carried_out(recalled, keep));
    }
}
