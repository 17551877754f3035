//! Leases, for programs with threads.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, Weak},
    thread,
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

/// Threads that carry out recalls of data and layouts at a time, started when there is something to do and gone when there is not: each
/// may wait for I/O daemons to take what was gathered, and files on daemons that are away must not hold up every other's.
const DATA_LANES_MAX: usize = 64;

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
            return Err(Error::new(Status::Exists, "the recalls of this client are carried out already"));
        }
        let lanes = Arc::new(Lanes { engine: Arc::downgrade(engine), holder, queue: Mutex::default() });
        let started = thread::Builder::new().name("braid-recall".into()).spawn(move || lanes.serve());
        started.map(drop).map_err(|error| Error::new(Status::LimitExceeded, format!("no thread for recalls: {error}")))
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
    pub fn ask_data(&self, file: FileIndex, mode: LeaseMode, alone: bool) -> Result<Option<LeaseTicket>> {
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

/// Who carries recalls out: one thread for names and for hearing of them, and a few for data while there is something
/// to do.
struct Lanes {
    engine: Weak<Engine<Blocking>>,
    holder: Weak<dyn LeaseHolder>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// As many as the server recalls at a time: `RECALLS_MAX`, and each lease once (I9).
    data: VecDeque<Recalled>,
    /// Of these one is being carried out. Of two at once the one that keeps something would let its holder use it while
    /// the other takes it away.
    busy: HashSet<LeaseOf>,
    threads: usize,
}

impl Queue {
    /// The next that may be carried out.
    fn next(&mut self) -> Option<Recalled> {
        let at = self.data.iter().position(|recalled| !self.busy.contains(&recalled.of))?;
        let recalled = self.data.remove(at)?;
        self.busy.insert(recalled.of);
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
                Notice::Recalled(recalled) => recalled.into_iter().for_each(|one| self.take(&engine, one)),
                Notice::Quiet => {}
                Notice::Ended => return,
            }
        }
    }

    fn take(self: &Arc<Self>, engine: &Arc<Engine<Blocking>>, recalled: Recalled) {
        match recalled.of {
            LeaseOf::Data(_) | LeaseOf::Layout(_) if recalled.held => self.queue(recalled),
            _ => self.carry_out(engine, &recalled),
        }
    }

    fn queue(self: &Arc<Self>, recalled: Recalled) {
        let more = {
            let mut queue = lock(&self.queue);
            queue.data.push_back(recalled);
            let more = queue.threads < DATA_LANES_MAX;
            queue.threads += usize::from(more);
            more
        };
        let lanes = Arc::clone(self);
        if more && thread::Builder::new().name("braid-recall-data".into()).spawn(move || lanes.drain()).is_err() {
            // Late is better than never.
            self.drain();
        }
    }

    fn drain(&self) {
        loop {
            let next = {
                let mut queue = lock(&self.queue);
                let next = queue.next();
                queue.threads -= usize::from(next.is_none());
                next
            };
            let (Some(recalled), Some(engine)) = (next, self.engine.upgrade()) else { return };
            self.carry_out(&engine, &recalled);
            // Others of the same lease, which no thread began, are this one's next.
            lock(&self.queue).busy.remove(&recalled.of);
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
