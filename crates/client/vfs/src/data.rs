//! Data leases as this mount holds them: no byte is written, and no page of a file kept, without one.
//!
//! ```text
//!   direct write   needs shared or write        page into the kernel's cache   needs read or write
//!   recall: no write begins, those under way end ── keeper drops the pages ── a page was read meanwhile? again ── returned
//!             a page that is wanted while pages are being dropped is read at once: dropping may wait for it
//! ```
//!
//! Invariants: (1) a lease is returned only when no write runs under it and no page was handed out since the last drop
//! began; (2) with read held, a write asks for write alone, with shared held a page does: pages and writes of this
//! mount are kept apart by its kernel; (3) recalls run on threads that serve no gateway.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use braid_client::{FileIndex, LeaseMode, LeaseTicket, Status};

use crate::{
    error::{Error, Result},
    files::lock,
    promise::Holder,
};

/// A lease that is recalled again and again before it is used is given up on.
const ASKS_MAX: usize = 64;

/// What of one file is under way.
#[derive(Debug, Default)]
pub(crate) struct Data {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The lease that is being returned: nothing begins under it.
    dead: Option<LeaseTicket>,
    recalled: bool,
    dropping: bool,
    /// A page was handed out since the dropping began.
    read_since: bool,
    writes: u32,
    reads: u32,
}

/// What is done under the lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Write,
    Page,
}

/// A write, or a page on its way to the kernel.
pub(crate) struct Under {
    data: Arc<Data>,
    what: Use,
}

impl Drop for Under {
    fn drop(&mut self) {
        let mut state = lock(&self.data.state);
        match self.what {
            Use::Write => state.writes -= 1,
            Use::Page => state.reads -= 1,
        }
        self.data.changed.notify_all();
    }
}

impl Holder {
    /// Before bytes are written to a file, which are the daemons' alone: `None` when this mount keeps nothing.
    pub(crate) fn begin_write(&self, file: FileIndex) -> Result<Option<Under>> {
        self.begin(file, Use::Write)
    }

    /// Before a page is read that a kernel keeps. To be held until it has it.
    pub(crate) fn begin_page(&self, file: FileIndex) -> Result<Option<Under>> {
        self.begin(file, Use::Page)
    }

    fn begin(&self, file: FileIndex, what: Use) -> Result<Option<Under>> {
        if !self.is_serving() {
            return Ok(None);
        }
        let data = self.data_of(file);
        let mut state = lock(&data.state);
        for _ in 0..ASKS_MAX {
            while state.recalled && !(state.dropping && what == Use::Page) {
                state = wait(&data, state);
            }
            let held = self.data_ticket(file).filter(|ticket| state.dead.as_ref() != Some(ticket));
            let mode = held.map(|ticket| ticket.mode());
            if state.recalled || allows(mode, what) {
                state.read_since |= what == Use::Page;
                match what {
                    Use::Write => state.writes += 1,
                    Use::Page => state.reads += 1,
                }
                drop(state);
                return Ok(Some(Under { data, what }));
            }
            drop(state);
            let (mode, alone) = to_ask(mode, what);
            self.ask_data(file, mode, alone)?;
            state = lock(&data.state);
        }
        Err(Error::of(Status::TryAgain))
    }

    /// Ends what runs under a file's lease, and has its pages dropped. The lease may be returned after it.
    pub(crate) fn drain(&self, file: FileIndex) {
        let Some(data) = self.known_data(file) else { return };
        let mut state = lock(&data.state);
        state.recalled = true;
        state.dead = self.data_ticket(file);
        while state.writes > 0 {
            state = wait(&data, state);
        }
        loop {
            (state.dropping, state.read_since) = (true, state.reads > 0);
            data.changed.notify_all();
            drop(state);
            self.drop_data(file);
            state = lock(&data.state);
            state.dropping = false;
            if !state.read_since {
                break;
            }
            while state.reads > 0 {
                state = wait(&data, state);
            }
        }
        state.recalled = false;
        data.changed.notify_all();
    }

    /// Whether a page that a mapping made dirty is written out under the lease that is being returned.
    pub(crate) fn is_dropping(&self, file: FileIndex) -> bool {
        self.known_data(file).is_some_and(|data| lock(&data.state).recalled)
    }
}

fn allows(mode: Option<LeaseMode>, what: Use) -> bool {
    match mode {
        Some(LeaseMode::Write) => true,
        Some(LeaseMode::Shared) => what == Use::Write,
        Some(LeaseMode::Read) => what == Use::Page,
        _ => false,
    }
}

/// What is asked for, and whether nothing less will do.
fn to_ask(held: Option<LeaseMode>, what: Use) -> (LeaseMode, bool) {
    match (held, what) {
        (Some(LeaseMode::Read | LeaseMode::Shared), _) => (LeaseMode::Write, true),
        (_, Use::Write) => (LeaseMode::Shared, false),
        (_, Use::Page) => (LeaseMode::Read, true),
    }
}

fn wait<'a>(data: &'a Data, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    data.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
}
