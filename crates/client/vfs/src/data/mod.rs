//! Data leases as this mount holds them: no byte is written, and none given to a kernel that keeps it, without one. On a weak
//! mount (ADR 0013) pages of a file that nobody here may write are given without; `version.rs` says when they are too old.
//!
//! ```text
//!   write, append ── begin: verdict of the gate ── go ── bytes to the daemons ── pages of them dropped ── end
//!   page          ──┘            └ ask: the server recalls from others           given to the keeper ─── end
//!   recall ── nothing begins, what runs ends ── the keeper drops all pages ── the lease is returned
//! ```
//!
//! What may begin when decides [`gate`], and why nobody waits for ever. Here are its lock, the threads that wait, and the
//! table of files.
//!
//! A kernel may write a page back that it read before a program's write of the same bytes: `overlap.rs` keeps the program's.
//!
//! Invariants: (1) a page waits on the condition that the beginning of a dropping ends, never in a call: its ask is made by
//! another thread; (2) a page that a kernel writes because it drops it is written at once; (3) nobody waits longer than
//! `WAIT_MAX` (I8); (4) of files that nobody has open at most `FILES_MAX` are kept (I9).

mod end;
mod flight;
pub mod gate;
pub(crate) mod gather;
mod losses;
mod lost;
mod overlap;
pub(crate) mod pace;
mod senders;
pub(crate) mod server_clock;
pub(crate) mod set_ids;
pub(crate) mod stretch;
mod table;
mod version;

use std::{
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use braid_client::{Bound, FileIndex, LeaseMode, LeaseOf, LeaseTicket, Status};
use braid_types::limits::TIMEOUT_SECONDS_DEFAULT;

pub(crate) use self::table::Table;
use self::{
    gate::{Gate, Use, Verdict},
    gather::Gathered,
    overlap::Overlap,
    set_ids::SetIds,
    version::Held,
};
use crate::{
    consistency::Consistency,
    error::{Error, Result},
    files::lock,
    known::Known,
    promise::{Holder, Promise},
};

/// How long one waits for a lease that others do not return, unless the program's call may take less.
const WAIT_MAX: Duration = Duration::from_secs(TIMEOUT_SECONDS_DEFAULT);

/// What is under way with one file's bytes.
#[derive(Debug)]
pub(crate) struct Data {
    file: FileIndex,
    state: Mutex<State>,
    changed: Condvar,
    /// Held by the one that drops all pages.
    dropping: Mutex<()>,
    gathered: Gathered,
}

#[derive(Debug, Default)]
struct State {
    gate: Gate,
    /// The lease that is being returned: nothing begins under it any more.
    dead: Option<LeaseTicket>,
    /// The write lease that was had by insisting: clients that use no leases may have the file open beside it.
    insisted: Option<LeaseTicket>,
    /// When to ask again whether nobody else writes the file.
    wish_again: Option<Instant>,
    /// Why the last ask that a page waits for came to nothing.
    failed: Option<Error>,
    /// Where the file ends, while this mount is alone with it and knows.
    end: Option<u64>,
    /// What the pages are of, where they are given without a lease.
    held: Option<Held<Promise>>,
    set_ids: SetIds,
    overlap: Overlap,
}

impl Data {
    fn new(file: FileIndex, consistency: Consistency) -> Self {
        let gate = if consistency.is_weak() { Gate::weak() } else { Gate::default() };
        let state = Mutex::new(State { gate, ..State::default() });
        Self {
            file,
            state,
            changed: Condvar::new(),
            dropping: Mutex::default(),
            gathered: Gathered::default(),
        }
    }

    /// A lease was asked for, and this was answered.
    fn asked(
        &self,
        (mode, alone): (LeaseMode, bool),
        answer: &braid_client::Result<Option<LeaseTicket>>,
    ) {
        let mut state = lock(&self.state);
        if let (LeaseMode::Write, true, Ok(ticket)) = (mode, alone, answer) {
            state.insisted.clone_from(ticket);
        }
        state.gate.ask(false);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until something holds that comes by itself.
    fn wait_while(&self, waits: impl Fn(&Gate) -> bool) -> MutexGuard<'_, State> {
        let state = lock(&self.state);
        self.changed
            .wait_while(state, |state| waits(&state.gate))
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the gate, and has everybody look at it again.
    fn change<T>(&self, work: impl FnOnce(&mut Gate) -> T) -> T {
        let done = work(&mut lock(&self.state).gate);
        self.changed.notify_all();
        done
    }

    pub(crate) fn file(&self) -> FileIndex {
        self.file
    }

    /// Writes pages that a kernel has kept: `write` is given the parts that no program's call is writing now. Waits for nobody.
    pub(crate) fn write_pages(
        &self,
        bytes: Range<u64>,
        write: impl FnOnce(&[Range<u64>]) -> Result<()>,
    ) -> Result<()> {
        self.is_not_as_made();
        let (number, parts) = lock(&self.state).overlap.begin_pages(bytes);
        let written = write(&parts);
        lock(&self.state).overlap.end_pages(number);
        self.changed.notify_all();
        written
    }

    /// What of a lease that was drained may be kept: *shared* is for those that write, *read* for a mount where nobody
    /// does.
    pub(crate) fn may_keep(&self, keep: LeaseMode) -> LeaseMode {
        let writes = lock(&self.state).gate.has_writers();
        match keep {
            LeaseMode::Shared if writes => keep,
            LeaseMode::Read if !writes => keep,
            _ => LeaseMode::None,
        }
    }
}

/// A write, or a page on its way to the keeper.
pub(crate) struct Under {
    data: Arc<Data>,
    what: Use,
    /// What is written under it may be gathered: nobody else uses the file.
    gathers: bool,
    /// The lease; a weak page needs none.
    ticket: Option<LeaseTicket>,
    /// The bytes that it is about to change, as [`Overlap`] numbers them.
    call: Option<u64>,
}

impl Under {
    /// Whether it holds a lease.
    pub(crate) fn is_leased(&self) -> bool {
        self.ticket.is_some()
    }

    /// Whether nobody else uses the file, also no client without leases.
    pub(crate) fn is_alone(&self) -> bool {
        self.gathers
    }

    pub(crate) fn file(&self) -> FileIndex {
        self.data.file
    }

    /// These bytes are about to be changed: until this is dropped, pages that a kernel writes back leave them alone. Waits for
    /// those that it is writing already.
    pub(crate) fn changes(&mut self, offset: u64, bytes: u64) {
        let mut state = lock(&self.data.state);
        let call = state.overlap.begin_call(offset..offset.saturating_add(bytes));
        self.call = Some(call);
        if state.overlap.must_wait(call) {
            let waits = |state: &mut State| state.overlap.must_wait(call);
            drop(
                self.data.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner),
            );
        }
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        let mut state = lock(&self.data.state);
        self.call.into_iter().for_each(|call| state.overlap.end_call(call));
        state.gate.end(self.what);
        drop(state);
        self.data.changed.notify_all();
    }
}

/// Somebody has the file open for writing.
#[derive(Debug)]
pub(crate) struct Writer {
    data: Arc<Data>,
    holder: Arc<Holder>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = lock(&self.data.state);
        // Nobody here writes any more: what is held for that would only keep others from caching. Under the lock: whoever opens
        // the file for writing next finds it gone, and asks. Pages that were given under *write* stay, and it with them.
        let held = match state.gate.writer_goes() {
            true => {
                // Nobody here appends any more, and a lease that was given back is not recalled.
                state.end = None;
                self.holder.held(&self.data, &state)
            }
            false => LeaseMode::None,
        };
        if held == LeaseMode::Shared || held == LeaseMode::Write && !state.gate.has_given() {
            self.holder.leases().give_back_later(LeaseOf::Data(self.data.file));
        }
        drop(state);
        self.data.changed.notify_all();
    }
}

impl Holder {
    /// Begins a use of a file's bytes, waiting for the lease that it needs. `None` when this mount keeps nothing.
    pub(crate) fn begin(self: &Arc<Self>, data: &Arc<Data>, what: Use) -> Result<Option<Under>> {
        if !self.is_serving() {
            return Ok(None);
        }
        let mut until = None;
        let mut state = lock(&data.state);
        // Whatever failed before failed for others.
        state.failed = None;
        loop {
            let ticket = self.ticket(data, &state);
            let held = ticket.as_ref().map_or(LeaseMode::None, LeaseTicket::mode);
            let verdict = state.gate.verdict(what, held);
            if verdict == Verdict::Go {
                state.gate.begin(what);
                let gathers =
                    held == LeaseMode::Write && !state.gate.is_asking() && state.insisted != ticket;
                return Ok(Some(Under {
                    data: Arc::clone(data),
                    what,
                    gathers,
                    ticket,
                    call: None,
                }));
            }
            let left = time_left(&mut until)?;
            if let Verdict::Ask { mode, alone } = verdict {
                state.gate.ask(true);
                if what != Use::Page {
                    drop(state);
                    self.ask(data, mode, alone)?;
                    state = lock(&data.state);
                    continue;
                }
                self.ask_elsewhere(data, mode, alone, &mut state)?;
            }
            state =
                data.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            if what == Use::Page
                && let Some(error) = state.failed.take()
            {
                return Err(error);
            }
        }
    }

    /// Whether a page may be had now without waiting: then a keeper gains by keeping the file's pages.
    pub(crate) fn keeps_pages(&self, data: &Data) -> bool {
        let state = lock(&data.state);
        self.is_serving() && state.gate.verdict(Use::Page, self.held(data, &state)) == Verdict::Go
    }

    /// Whether a file that nobody has open is worth remembering: its pages are kept, or may be.
    pub(crate) fn is_worth_keeping(&self, data: &Data) -> bool {
        let state = lock(&data.state);
        state.gate.has_given()
            || matches!(self.held(data, &state), LeaseMode::Read | LeaseMode::Write)
    }

    /// A file is opened for reading whose pages need no lease, and is known to be so now: pages of another version of it are
    /// dropped. Until that is done no other open of it goes on.
    pub(crate) fn renew(&self, data: &Data, known: &Known) {
        if !lock(&data.state).gate.is_weak() {
            return;
        }
        let now = Instant::now();
        let (version, promise) = ((&known.attributes).into(), known.keep.attributes.as_ref());
        let _one = lock(&data.dropping);
        {
            let mut state = lock(&data.state);
            if state.held.as_ref().is_some_and(|held| held.is_of(&version, promise)) {
                return;
            }
            let before = state.held.take();
            state.held = Some(Held::from_now(before, version, promise, now));
        }
        self.drop_once(data);
    }

    /// What is read from now on is of now, also where pages need no lease.
    pub(crate) fn drop_weak(&self, data: &Data) {
        let _one = lock(&data.dropping);
        if lock(&data.state).gate.is_weak() {
            self.drop_once(data);
        }
    }

    /// What mappings have stored so far is at the daemons when this returns.
    pub(crate) fn drop_stored(&self, data: &Data) {
        let _one = lock(&data.dropping);
        // Who may store has the file open for writing, with its mapping at the latest.
        if lock(&data.state).gate.has_writers() {
            self.drop_once(data);
        }
    }

    /// Drops the pages that there are; those that come meanwhile were read meanwhile. Whether there are none now.
    fn drop_once(&self, data: &Data) -> bool {
        let begins = data.change(|gate| {
            let given = gate.has_given();
            if given {
                gate.begin_drop(true);
            }
            given
        });
        if begins {
            self.keeper_drops(data.file, 0, 0);
        }
        !begins || data.change(|gate| gate.end_drop(true))
    }

    /// The mode that is held now, and is not being returned.
    fn held(&self, data: &Data, state: &State) -> LeaseMode {
        self.ticket(data, state).map_or(LeaseMode::None, |ticket| ticket.mode())
    }

    fn ticket(&self, data: &Data, state: &State) -> Option<LeaseTicket> {
        self.leases().data_ticket(data.file).filter(|ticket| state.dead.as_ref() != Some(ticket))
    }

    /// The mode to wish for with an open: what is held already is not asked for again.
    pub(crate) fn to_wish(&self, data: &Data, wanted: LeaseMode) -> LeaseMode {
        if !self.is_serving() {
            return LeaseMode::None;
        }
        let state = lock(&data.state);
        match (self.held(data, &state), wanted) {
            (LeaseMode::Write, _) => LeaseMode::None,
            (_, LeaseMode::Read) if state.gate.is_weak() => LeaseMode::None,
            (held, wanted) if held == wanted => LeaseMode::None,
            // A wish to read would take from the writers of this mount what they have.
            (LeaseMode::Shared, LeaseMode::Read) => LeaseMode::None,
            _ => wanted,
        }
    }

    fn ask(&self, data: &Data, mode: LeaseMode, alone: bool) -> Result<()> {
        let asked = self.leases().ask_data(data.file, mode, alone);
        data.asked((mode, alone), &asked);
        asked?;
        Ok(())
    }

    /// Has the lease asked for by another thread: whoever wants a page must be there when pages are dropped.
    fn ask_elsewhere(
        self: &Arc<Self>,
        data: &Arc<Data>,
        mode: LeaseMode,
        alone: bool,
        state: &mut State,
    ) -> Result<()> {
        let (holder, theirs) = (Arc::clone(self), Arc::clone(data));
        let bound = Bound::current();
        let asks = move || {
            // A part of the call that waits for the page.
            let _bound = Bound::enter(bound);
            let asked = holder.leases().ask_data(theirs.file, mode, alone);
            if let Err(error) = &asked {
                lock(&theirs.state).failed = Some(error.clone().into());
            }
            theirs.asked((mode, alone), &asked);
        };
        thread::Builder::new().name("vfs-lease".into()).spawn(asks).map(drop).map_err(|_| {
            state.gate.ask(false);
            Error::of(Status::TooManyOpen)
        })
    }

    /// Somebody is about to open the file for writing.
    pub(crate) fn writer(self: &Arc<Self>, data: &Arc<Data>) -> Writer {
        let must_drop = {
            let mut state = lock(&data.state);
            let held = self.held(data, &state);
            state.gate.writer_comes(held)
        };
        let writer = Writer { data: Arc::clone(data), holder: Arc::clone(self) };
        if must_drop {
            self.drop_all(data);
        }
        writer
    }

    /// Bytes were written past the keeper: it may have got pages of them meanwhile, of before.
    pub(crate) fn drop_written(&self, under: Option<&Under>, offset: u64, bytes: u64) {
        let Some(Under { data, .. }) = under else { return };
        if bytes == 0 || !lock(&data.state).gate.has_given() {
            return;
        }
        data.change(|gate| gate.begin_drop(false));
        self.keeper_drops(data.file, offset, bytes);
        data.change(|gate| gate.end_drop(false));
    }

    /// Ends what runs under a file's lease, and has all its pages dropped: the lease may go.
    pub(crate) fn drain(&self, data: &Data) {
        self.drain_and(data, || ());
    }

    /// The same, and does something before anything begins again.
    pub(crate) fn drain_and(&self, data: &Data, then: impl FnOnce()) {
        self.close(data);
        // What an append that still ran knows of the end goes with the lease.
        data.wait_while(|gate| !gate.is_still()).end = None;
        // What cannot be written is lost: whoever wrote it is told.
        let _ = self.settle(data);
        self.drop_all(data);
        then();
        data.change(Gate::returned);
    }

    /// Until the keeper has no page of the file.
    fn drop_all(&self, data: &Data) {
        let _one = lock(&data.dropping);
        while !self.drop_once(data) {
            drop(data.wait_while(Gate::has_pages_under_way));
        }
    }
}

/// How long may still be waited; the time begins with the first question.
fn time_left(until: &mut Option<Instant>) -> Result<Duration> {
    let now = Instant::now();
    let time = || Bound::left().map_or(WAIT_MAX, |left| left.min(WAIT_MAX));
    let left = until.get_or_insert_with(|| now + time()).saturating_duration_since(now);
    if left.is_zero() {
        let why = "another client does not give back its lease of the file's bytes";
        return Err(braid_client::Error::new(Status::TryAgain, why).into());
    }
    Ok(left)
}
