//! Data leases of this mount, and the reads and writes under them.
//!
//! No byte is written, and no page is given to a gateway that caches it, without a data lease. On a
//! relaxed mount (ADR 0013) pages of a file that nobody here may write need none; `page_version`
//! decides when they are too old.
//!
//! ```text
//!   write, append ─┬ begin: may it run? ── yes ── bytes to the daemons ── pages dropped ── end
//!   page ──────────┘         └ ask: the server recalls from others     given to the gateway
//!   recall ── nothing begins, what runs ends ── the gateway drops all pages ── lease returned
//! ```
//!
//! [`lease_state`] decides what may begin when, and why no call waits forever. This module has its
//! lock, the threads that wait, and the table of files. A kernel may write back a page that it read
//! before a program wrote the same bytes: `overlapping_writes` keeps the program's bytes.
//!
//! Invariants:
//! 1. A page waits only on a condition variable, which the beginning of a drop wakes, and never in
//!    a call to a server: another thread asks for its lease.
//! 2. A page that the kernel writes back because it drops it is written without waiting for a
//!    lease.
//! 3. No call waits longer than `WAIT_MAX` (I8).
//! 4. Of files that nobody has open, at most `FILES_MAX` are cached (I9).
//!
//! No assertion checks these: what a thread waits for is not recorded (1, 2), the clock goes on
//! while a thread sleeps (3; `time_left` ends the wait), and files are evicted only after they were
//! added (4; `table.rs`). The assertions of this file are those of `lease_state.rs`.

mod append_offset;
mod background_flush;
mod flush_timers;
pub(crate) mod flush_unit;
mod handle_data;
mod lease_loss;
pub mod lease_state;
mod overlapping_writes;
mod page_version;
pub(crate) mod server_clock;
pub(crate) mod set_ids;
mod table;
pub(crate) mod throughput;
pub(crate) mod write_coalescing;
pub(crate) mod write_errors;

use std::{
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use braid_client::{CallDeadline, FileIndex, LeaseMode, LeaseOf, LeaseTicket, Status};
use braid_types::limits::TIMEOUT_SECONDS_DEFAULT;

pub(crate) use self::{handle_data::HandleData, table::FileDataTable};
use self::{
    lease_state::{DataLeaseState, DataUse, Decision},
    overlapping_writes::OverlappingWrites,
    page_version::CachedPages,
    set_ids::SetIds,
    write_coalescing::BufferedFile,
};
use crate::{
    consistency::Consistency,
    error::{Error, Result},
    mount_caches::MountCaches,
    mutex::lock,
    names::{
        cached_attributes::CachedAttributes, change_marks::ChangeMark, names_lease::NamesLease,
    },
};

/// How long a call waits for a lease that other clients do not return, unless its deadline is
/// sooner.
const WAIT_MAX: Duration = Duration::from_secs(TIMEOUT_SECONDS_DEFAULT);

/// The use of one file's bytes by this mount.
#[derive(Debug)]
pub(crate) struct FileData {
    file: FileIndex,
    state: Mutex<DataState>,
    changed: Condvar,
    /// Held by the thread that drops all pages.
    dropping: Mutex<()>,
    buffered: BufferedFile,
}

#[derive(Debug, Default)]
struct DataState {
    lease: DataLeaseState,
    /// The lease that is being returned: nothing begins under it any more.
    returning: Option<LeaseTicket>,
    /// A write lease that was asked for as required. Clients without leases may have the file open
    /// at the same time.
    required: Option<LeaseTicket>,
    /// When to ask again for a write lease, which shows that no other client writes the file.
    ask_again_at: Option<Instant>,
    /// Why the last request for a lease failed, for the page that waits for it.
    failed: Option<Error>,
    /// Where the file ends. `None`: not known, or other clients use the file.
    end: Option<u64>,
    /// The version of the pages, where they need no lease.
    pages: Option<CachedPages<NamesLease>>,
    set_ids: SetIds,
    /// The gateway has no attributes that were given out before this.
    attributes_dropped: ChangeMark,
    overlapping: OverlappingWrites,
}

impl FileData {
    fn new(file: FileIndex, consistency: Consistency) -> Self {
        let lease = if consistency.is_weak() {
            DataLeaseState::relaxed()
        } else {
            DataLeaseState::default()
        };
        let state = Mutex::new(DataState { lease, ..DataState::default() });
        Self {
            file,
            state,
            changed: Condvar::new(),
            dropping: Mutex::default(),
            buffered: BufferedFile::default(),
        }
    }

    /// The request for a lease was answered.
    fn ask_answered(
        &self,
        (mode, required): (LeaseMode, bool),
        answer: &braid_client::Result<Option<LeaseTicket>>,
    ) {
        let mut state = lock(&self.state);
        if let (LeaseMode::Write, true, Ok(ticket)) = (mode, required, answer) {
            state.required.clone_from(ticket);
        }
        state.lease.set_asking(false);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for a state that other threads reach by themselves.
    fn wait_while(&self, waits: impl Fn(&DataLeaseState) -> bool) -> MutexGuard<'_, DataState> {
        let state = lock(&self.state);
        self.changed
            .wait_while(state, |state| waits(&state.lease))
            .unwrap_or_else(braid_types::poisoned)
    }

    /// Changes the lease state, and wakes all threads that wait for it.
    fn change<T>(&self, work: impl FnOnce(&mut DataLeaseState) -> T) -> T {
        let done = work(&mut lock(&self.state).lease);
        self.changed.notify_all();
        done
    }

    /// The lease may be returned, or is: uses may begin again.
    fn end_recall(&self) {
        self.change(|lease| {
            debug_assert!(
                lease.has_no_writes(),
                "lease_state I1: a write runs under a returned lease"
            );
            debug_assert!(
                !lease.may_have_pages(),
                "lease_state I1: pages are left of a returned lease"
            );
            lease.end_recall();
        });
    }

    pub(crate) fn file(&self) -> FileIndex {
        self.file
    }

    /// The gateway has no attributes of the file that were given out before this.
    pub(crate) fn attributes_dropped(&self) -> ChangeMark {
        lock(&self.state).attributes_dropped
    }

    /// The gateway has dropped the attributes that were given out before `now`.
    pub(crate) fn note_attributes_dropped(&self, now: ChangeMark) {
        let dropped = &mut lock(&self.state).attributes_dropped;
        *dropped = now.max(*dropped);
    }

    /// Writes back cached pages. `write` gets the parts that no program's call is writing now.
    /// Waits for no other thread.
    pub(crate) fn write_pages(
        &self,
        bytes: Range<u64>,
        write: impl FnOnce(&[Range<u64>]) -> Result<()>,
    ) -> Result<()> {
        self.forget_created_attributes();
        let (number, parts) = lock(&self.state).overlapping.begin_pages(bytes);
        let written = write(&parts);
        lock(&self.state).overlapping.end_pages(number);
        self.changed.notify_all();
        written
    }

    /// The mode in which a recalled lease is kept: *shared* where a program here writes, *read*
    /// where none does.
    pub(crate) fn mode_after_recall(&self, keep: LeaseMode) -> LeaseMode {
        let writes = lock(&self.state).lease.has_writers();
        match keep {
            LeaseMode::Shared if writes => keep,
            LeaseMode::Read if !writes => keep,
            _ => LeaseMode::None,
        }
    }
}

/// A use of a file's bytes that has begun: a read, a write, or a page that is being read.
pub(crate) struct UseGuard {
    data: Arc<FileData>,
    what: DataUse,
    /// No other client uses the file: writes may be buffered.
    alone: bool,
    /// The lease. `None`: a page that needs none.
    ticket: Option<LeaseTicket>,
    /// The number of the program's call that changes bytes, in [`OverlappingWrites`].
    call: Option<u64>,
}

impl UseGuard {
    /// Whether it holds a lease.
    pub(crate) fn is_leased(&self) -> bool {
        self.ticket.is_some()
    }

    /// Whether no other client uses the file, not even one without leases.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    pub(crate) fn file(&self) -> FileIndex {
        self.data.file
    }

    pub(crate) fn data(&self) -> &FileData {
        &self.data
    }

    /// These bytes are about to be changed. Until this is dropped, pages that the kernel writes
    /// back leave them out. Waits for pages of them that are being written already.
    pub(crate) fn exclude_write_back(&mut self, offset: u64, bytes: u64) {
        let mut state = lock(&self.data.state);
        let call = state.overlapping.begin_call(offset..offset.saturating_add(bytes));
        self.call = Some(call);
        if state.overlapping.must_wait(call) {
            let waits = |state: &mut DataState| state.overlapping.must_wait(call);
            drop(self.data.changed.wait_while(state, waits).unwrap_or_else(braid_types::poisoned));
        }
    }
}

impl Drop for UseGuard {
    fn drop(&mut self) {
        let mut state = lock(&self.data.state);
        self.call.into_iter().for_each(|call| state.overlapping.end_call(call));
        state.lease.end(self.what);
        drop(state);
        self.data.changed.notify_all();
    }
}

/// A handle that is open for writing.
#[derive(Debug)]
pub(crate) struct Writer {
    data: Arc<FileData>,
    caches: Arc<MountCaches>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut state = lock(&self.data.state);
        // After the last writer a lease for writing only keeps others from caching. It is given
        // back under the lock, so that the next open for writing finds it gone and asks again. A
        // write lease stays while pages are cached under it.
        let held = match state.lease.close_writer() {
            true => {
                // A lease that was given back is not recalled, so nothing else resets the end.
                state.end = None;
                self.caches.held(&self.data, &state)
            }
            false => LeaseMode::None,
        };
        if held == LeaseMode::Shared || held == LeaseMode::Write && !state.lease.may_have_pages() {
            self.caches.leases().return_lease_later(LeaseOf::Data(self.data.file));
        }
        drop(state);
        self.data.changed.notify_all();
    }
}

impl MountCaches {
    /// Begins a use of a file's bytes, and waits for the lease that it needs. `None`: this mount
    /// takes no leases.
    pub(crate) fn begin(
        self: &Arc<Self>,
        data: &Arc<FileData>,
        what: DataUse,
    ) -> Result<Option<UseGuard>> {
        if !self.is_serving() {
            return Ok(None);
        }
        let mut until = None;
        let mut state = lock(&data.state);
        // An earlier failure belongs to an earlier call.
        state.failed = None;
        loop {
            let ticket = self.ticket(data, &state);
            let held = ticket.as_ref().map_or(LeaseMode::None, LeaseTicket::mode);
            let verdict = state.lease.decide(what, held);
            if verdict == Decision::Go {
                state.lease.begin(what);
                let alone = held == LeaseMode::Write
                    && !state.lease.is_asking()
                    && state.required != ticket;
                let data = Arc::clone(data);
                return Ok(Some(UseGuard { data, what, alone, ticket, call: None }));
            }
            let left = time_left(&mut until)?;
            if let Decision::Ask { mode, required } = verdict {
                state.lease.set_asking(true);
                if what != DataUse::Page {
                    drop(state);
                    self.ask(data, mode, required)?;
                    state = lock(&data.state);
                    continue;
                }
                self.ask_elsewhere(data, (mode, required), &mut state)?;
            }
            state = data.changed.wait_timeout(state, left).unwrap_or_else(braid_types::poisoned).0;
            if what == DataUse::Page
                && let Some(error) = state.failed.take()
            {
                return Err(error);
            }
        }
    }

    /// Whether a page may be read now without waiting: then caching the file's pages is worth it.
    pub(crate) fn can_cache_pages(&self, data: &FileData) -> bool {
        let state = lock(&data.state);
        self.is_serving()
            && state.lease.decide(DataUse::Page, self.held(data, &state)) == Decision::Go
    }

    /// Whether a file that nobody has open stays in the table: its pages are cached, or may be.
    pub(crate) fn stays_in_table(&self, data: &FileData) -> bool {
        let state = lock(&data.state);
        state.lease.may_have_pages()
            || matches!(self.held(data, &state), LeaseMode::Read | LeaseMode::Write)
    }

    /// A file whose pages need no lease is opened for reading, with these attributes: pages of
    /// another version of it are dropped. No other open of it continues until that is done.
    pub(crate) fn check_page_version(&self, data: &FileData, known: &CachedAttributes) {
        if !lock(&data.state).lease.needs_no_lease() {
            return;
        }
        let now = Instant::now();
        let (version, lease) = ((&known.attributes).into(), known.leases.attributes.as_ref());
        let _one = lock(&data.dropping);
        {
            let mut state = lock(&data.state);
            if state.pages.as_ref().is_some_and(|held| held.is_current(&version, lease)) {
                return;
            }
            let before = state.pages.take();
            state.pages = Some(CachedPages::read_from(before, version, lease, now));
        }
        self.drop_once(data);
    }

    /// Drops cached pages that need no lease, so that later reads see current data.
    pub(crate) fn drop_relaxed_pages(&self, data: &FileData) {
        let _one = lock(&data.dropping);
        if lock(&data.state).lease.needs_no_lease() {
            self.drop_once(data);
        }
    }

    /// What programs have stored in mappings is at the daemons when this returns.
    pub(crate) fn drop_dirty_pages(&self, data: &FileData) {
        let _one = lock(&data.dropping);
        // A program with a writable mapping has the file open for writing, by the mapping at least.
        if lock(&data.state).lease.has_writers() {
            self.drop_once(data);
        }
    }

    /// Drops the pages that are cached now. Returns whether none is left: others may have been read
    /// meanwhile.
    fn drop_once(&self, data: &FileData) -> bool {
        let begins = data.change(|lease| {
            let has_pages = lease.may_have_pages();
            if has_pages {
                lease.begin_drop(true);
            }
            has_pages
        });
        if begins {
            self.drop_pages(data.file, 0, 0);
        }
        !begins || data.change(|lease| lease.end_drop(true))
    }

    /// The mode of the lease that is held and is not being returned.
    fn held(&self, data: &FileData, state: &DataState) -> LeaseMode {
        self.ticket(data, state).map_or(LeaseMode::None, |ticket| ticket.mode())
    }

    fn ticket(&self, data: &FileData, state: &DataState) -> Option<LeaseTicket> {
        self.leases()
            .data_ticket(data.file)
            .filter(|ticket| state.returning.as_ref() != Some(ticket))
    }

    /// The mode to ask for with an open. A lease that is held already is not asked for again.
    pub(crate) fn mode_to_ask(&self, data: &FileData, wanted: LeaseMode) -> LeaseMode {
        if !self.is_serving() {
            return LeaseMode::None;
        }
        let state = lock(&data.state);
        match (self.held(data, &state), wanted) {
            (LeaseMode::Write, _) => LeaseMode::None,
            (_, LeaseMode::Read) if state.lease.needs_no_lease() => LeaseMode::None,
            (held, wanted) if held == wanted => LeaseMode::None,
            // A read lease would replace the one that this mount's writers need.
            (LeaseMode::Shared, LeaseMode::Read) => LeaseMode::None,
            _ => wanted,
        }
    }

    fn ask(&self, data: &FileData, mode: LeaseMode, required: bool) -> Result<()> {
        let asked = self.leases().ask_data(data.file, mode, required);
        data.ask_answered((mode, required), &asked);
        asked?;
        Ok(())
    }

    /// Asks for the lease on another thread: the one that waits for a page must notice when pages
    /// are dropped (1).
    fn ask_elsewhere(
        self: &Arc<Self>,
        data: &Arc<FileData>,
        (mode, required): (LeaseMode, bool),
        state: &mut DataState,
    ) -> Result<()> {
        let (caches, theirs) = (Arc::clone(self), Arc::clone(data));
        let deadline = CallDeadline::current();
        let asks = move || {
            // The deadline of the call that waits for the page.
            let _deadline = CallDeadline::enter(deadline);
            let asked = caches.leases().ask_data(theirs.file, mode, required);
            if let Err(error) = &asked {
                lock(&theirs.state).failed = Some(error.clone().into());
            }
            theirs.ask_answered((mode, required), &asked);
        };
        thread::Builder::new().name("vfs-lease".into()).spawn(asks).map(drop).map_err(|_| {
            state.lease.set_asking(false);
            Error::of(Status::TooManyOpen)
        })
    }

    /// A handle is about to be opened for writing.
    pub(crate) fn begin_writer(self: &Arc<Self>, data: &Arc<FileData>) -> Writer {
        let must_drop = {
            let mut state = lock(&data.state);
            let held = self.held(data, &state);
            state.lease.open_writer(held)
        };
        let writer = Writer { data: Arc::clone(data), caches: Arc::clone(self) };
        if must_drop {
            self.drop_all(data);
        }
        writer
    }

    /// Bytes were written at the daemons.
    pub(crate) fn note_written(
        &self,
        data: &FileData,
        under: Option<&UseGuard>,
        offset: u64,
        bytes: u64,
    ) {
        data.extend_end(offset + bytes);
        // Before the drop: a page that is read after it must not be cut at the end known before.
        self.names.invalidate(&[data.file]);
        self.drop_changed_pages(under, offset, bytes);
    }

    /// Bytes were changed at the daemons. Drops pages of them that the gateway may have read
    /// before.
    pub(crate) fn drop_changed_pages(&self, under: Option<&UseGuard>, offset: u64, bytes: u64) {
        let Some(UseGuard { data, .. }) = under else { return };
        if bytes == 0 || !lock(&data.state).lease.may_have_pages() {
            return;
        }
        data.change(|lease| lease.begin_drop(false));
        self.drop_pages(data.file, offset, bytes);
        data.change(|lease| lease.end_drop(false));
    }

    /// Waits for what runs under a file's lease, and drops all its pages: the lease may be
    /// returned.
    pub(crate) fn drain(&self, data: &FileData) {
        self.drain_and(data, || ());
    }

    /// As [`MountCaches::drain`]. Calls `then` before anything may begin again.
    pub(crate) fn drain_and(&self, data: &FileData, then: impl FnOnce()) {
        self.begin_recall(data);
        // An append that still ran may have set the end, which is known only under the lease.
        data.wait_while(|lease| !lease.has_no_writes()).end = None;
        // The handle that wrote the bytes reports the error.
        let _ = self.flush(data);
        self.drop_all(data);
        // Other clients see the writes of this mount once the lease is returned. A kernel learns of
        // a write from its reply, which may not have arrived.
        if lock(&data.state).lease.has_writers() {
            self.drop_given_attributes(data);
        }
        then();
        data.end_recall();
    }

    /// Drops pages until the gateway has none of the file.
    fn drop_all(&self, data: &FileData) {
        let _one = lock(&data.dropping);
        while !self.drop_once(data) {
            drop(data.wait_while(DataLeaseState::is_reading_pages));
        }
    }
}

/// How long the call may still wait. The time begins with the first call of this function.
fn time_left(until: &mut Option<Instant>) -> Result<Duration> {
    let now = Instant::now();
    let time = || CallDeadline::time_left().map_or(WAIT_MAX, |left| left.min(WAIT_MAX));
    let left = until.get_or_insert_with(|| now + time()).saturating_duration_since(now);
    if left.is_zero() {
        let why = "another client did not return its lease on the file's data in time";
        return Err(braid_client::Error::new(Status::TryAgain, why).into());
    }
    Ok(left)
}
