//! Writes that follow one another, gathered in memory until they make a full stretch of the file's stripes: small ones, and large
//! ones where the daemons take them slowly ([`pace`](super::pace)).
//!
//! ```text
//!   write ── write lease, where the last one ended, worth it ─> run ┬─ as long as its stretch ──────> daemons, by the writer or, a
//!                                                                   │                                 long one, by a thread: flight
//!                                                                   ├─ GATHER_AGE ──────────────────> daemons, by a thread
//!                                                                   └─ whoever must see it: settle ─> daemons, by who asks
//!   settle: fsync, reads, other writes, sizes, attributes, renames on this mount; a recall for those of others
//!   close: leaves the run to the mount, which sends it soon (ADR 0034); where it may not, settle
//! ```
//!
//! Invariants: (1) bytes are gathered only under a write lease that nobody shares, also not clients without leases, and are at
//! the daemons before it goes; (2) a file has one run, and one flight before it, of the same handle: what does not continue them
//! goes to the daemons after them; (3) what a run could not write is told through the handle that wrote it: every write and close
//! fails until an fsync has told it; after its close the next fsync of the file reports it; (4) at most [`GATHER_BYTES_MAX`] of a mount, for [`GATHER_AGE`] (I6, I9); (5) a run is written
//! without any lock that pages or leases wait for; what is remembered of the file's attributes goes before anybody may take the file
//! for settled.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use braid_client::{Attributes, FileIndex, HeldRoom, LeaseMode, Timestamp};
use braid_types::ByteCount;

use super::{
    Data, Under,
    flight::Flight,
    losses::Losses,
    pace::{Pace, SlowRates},
    senders::Ages,
    stretch::STRETCH_BYTES,
};
use crate::{
    error::Result,
    files::{OpenFile, lock},
    known::Known,
    ops::write::WriteAs,
    promise::Holder,
};

/// A write of so many bytes or more is worth a call of its own where daemons are fast: a quarter of a stretch.
const GATHER_BELOW: usize = 128 * 1024;
/// What one mount has gathered at most (I6, I9).
pub const GATHER_BYTES_MAX: usize = 64 << 20;
/// How long a byte stays gathered before it is sent (I6).
pub const GATHER_AGE: Duration = Duration::from_secs(1);
/// What disks give space in.
const BLOCK_BYTES: u64 = 4096;
/// Where more than that is gathered, the oldest is sent whatever its age: a program that makes many small files goes on while they are
/// sent, and does not meet [`GATHER_BYTES_MAX`].
const WRITE_BEHIND_BYTES: usize = GATHER_BYTES_MAX / 4;

/// What is gathered of one file.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Whether something is: looked at without the lock.
    pub(super) some: AtomicBool,
    /// Whether its handle is closed.
    pub(super) closed: AtomicBool,
    /// Held while bytes are taken in, or sent.
    state: Mutex<State>,
    /// Whose it is, also while it is being sent.
    pub(super) whose: Mutex<Option<Whose>>,
    /// The file's attributes at its creation on this mount, until something changes them, or a byte of it is at the daemons.
    as_made: Mutex<Option<Known>>,
}

impl Gathered {
    /// This one has a part in what is gathered, or on its way.
    fn wrote(&self, who: Whose) {
        let mut whose = lock(&self.whose);
        let owner = whose
            .map_or(who.owner, |of_run| of_run.owner.filter(|owner| who.owner == Some(*owner)));
        *whose = Some(Whose { owner, ..who });
    }
}

/// Whose a run is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Whose {
    /// Where its open file lies in memory, which names it while the run has a part in it.
    open: usize,
    /// The process, if it is one that is known.
    owner: Option<u64>,
}

impl Whose {
    fn of(open: &OpenFile, owner: Option<u64>) -> Self {
        Self { open: std::ptr::from_ref(open).addr(), owner }
    }

    /// Whether this process may have had a part in it.
    fn has(&self, other: Self) -> bool {
        let may_be = self.owner.is_none() || other.owner.is_none() || self.owner == other.owner;
        self.open == other.open && may_be
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) run: Option<Run>,
    /// The one before it.
    pub(super) flight: Option<Flight>,
    /// Where the last write ended.
    next: u64,
}

/// Bytes that follow one another, all of one handle.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) by: Arc<OpenFile>,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    /// Room for it on the daemons' disks.
    pub(super) held: HeldRoom,
    /// Where it is full.
    until: u64,
    /// Its stretch is a long one.
    pub(super) long: bool,
    /// When its last byte was written, by the metadata server's clock, if that is known.
    pub(super) modified: Option<Timestamp>,
    /// Its handle is closed: it is written behind the close.
    pub(super) closed: bool,
}

impl Run {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    pub(super) fn is_full(&self) -> bool {
        self.end() == self.until
    }
}

/// The runs of a mount.
#[derive(Debug)]
pub(crate) struct Runs {
    /// Whether a close may leave what it has gathered to the mount (ADR 0034).
    write_behind: bool,
    bytes: AtomicUsize,
    pub(super) ages: Ages,
    pub(crate) losses: Losses,
    pace: Pace,
}

impl Runs {
    /// None, of a mount whose daemons are slow at these rates.
    pub(crate) fn new(slow: SlowRates, write_behind: bool) -> Self {
        let (bytes, ages) = (AtomicUsize::new(0), Ages::default());
        Self { write_behind, bytes, ages, losses: Losses::default(), pace: Pace::new(slow) }
    }

    /// Whether nothing is gathered on this mount.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.load(Ordering::Acquire) == 0
    }

    /// A run went to the daemons in this time.
    pub(super) fn took(&self, run: &Run, took: Duration) {
        match run.long {
            true => self.pace.went_gathered(run.bytes.len(), took),
            false if run.is_full() && run.bytes.len() as u64 >= STRETCH_BYTES => {
                self.pace.went_through(run.bytes.len(), took);
            }
            false => {}
        }
    }

    fn take_room(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        let taken = before + bytes;
        if taken > GATHER_BYTES_MAX {
            self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        } else if before <= WRITE_BEHIND_BYTES && taken > WRITE_BEHIND_BYTES {
            self.ages.hurry();
        }
        taken <= GATHER_BYTES_MAX
    }

    /// How long bytes stay gathered now.
    pub(super) fn age(&self) -> Duration {
        let many = self.bytes.load(Ordering::Acquire) > WRITE_BEHIND_BYTES;
        if many { Duration::ZERO } else { GATHER_AGE }
    }

    /// Whether a run of a handle that is closed may be sent later: its time is known, nothing of the handle is lost, and daemons take what
    /// is sent. Else the close sends it, and its program hears of an error.
    fn writes_behind(&self, run: &Run, open: &OpenFile) -> bool {
        let may = self.write_behind && run.modified.is_some();
        may && open.lost.check().is_ok() && self.losses.allow_write_behind() && self.ages.keeps_up()
    }

    /// So many bytes are gathered no more.
    pub(super) fn free(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

impl Data {
    /// The file was made just now, with these attributes.
    pub(crate) fn made(&self, known: &Known) {
        *lock(&self.gathered.as_made) = Some(known.clone());
    }

    /// Bytes of the file are at the daemons, or its attributes are changed.
    pub(crate) fn is_not_as_made(&self) {
        *lock(&self.gathered.as_made) = None;
    }
}

impl Holder {
    /// Before a write: where this mount shares a file with others that write it, or did, it asks now and then whether it is alone by
    /// now.
    /// `offset` is `None` for an append.
    pub(crate) fn wish_alone(&self, data: &Data, offset: Option<u64>, bytes: usize) {
        let gains = bytes < GATHER_BELOW
            && match offset {
                Some(offset) => {
                    self.may_wish(data, LeaseMode::Shared)
                        && lock(&data.gathered.state).next == offset
                }
                None => {
                    self.may_wish(data, LeaseMode::None) || self.may_wish(data, LeaseMode::Shared)
                }
            };
        if gains && self.begins_to_wish(data) {
            // Whoever writes goes on with what is held.
            let _ = self.ask(data, LeaseMode::Write, false);
        }
    }

    fn may_wish(&self, data: &Data, held: LeaseMode) -> bool {
        self.is_serving() && self.held(data, &lock(&data.state)) == held
    }

    fn begins_to_wish(&self, data: &Data) -> bool {
        let (mut state, now) = (lock(&data.state), Instant::now());
        if state.wish_again.is_some_and(|again| now < again) || !state.gate.is_open() {
            return false;
        }
        state.wish_again = Some(now + GATHER_AGE);
        state.gate.ask(true);
        true
    }

    /// Writes at an offset: to the daemons, or to what is gathered.
    ///
    /// # Errors
    /// With the daemon; that an earlier write of the handle is lost.
    pub(crate) fn put(
        self: &Arc<Self>,
        open: &Arc<OpenFile>,
        under: Option<&Under>,
        (offset, bytes): (u64, &[u8]),
        how: WriteAs,
    ) -> Result<()> {
        open.lost.check()?;
        if let Some(Under { data, gathers, .. }) = under {
            let mut state = lock(&data.gathered.state);
            let follows =
                std::mem::replace(&mut state.next, offset.saturating_add(bytes.len() as u64))
                    == offset;
            match *gathers {
                true if self.gather(
                    (open, how),
                    (data, &mut state),
                    follows,
                    (offset, bytes),
                )? =>
                {
                    return Ok(());
                }
                true => {}
                // Others may have gathered what this one writes over, before it was asked for more than the lease that they had.
                false => self.write_out(data, &mut state)?,
            }
        }
        open.bytes.data().into_iter().for_each(|data| data.is_not_as_made());
        let (file, began) = (open.file.get()?, Instant::now());
        file.write_at(bytes, offset)?;
        if bytes.len() >= GATHER_BELOW {
            self.runs.pace.went_through(bytes.len(), began.elapsed());
        }
        Ok(())
    }

    /// Whether a write that follows the one before is to be gathered.
    fn is_worth_gathering(&self, open: &OpenFile, bytes: usize, how: WriteAs) -> bool {
        let is_large = bytes >= GATHER_BELOW;
        let at_once = how.direct || how.durable;
        let is_short_of = |bytes_max| open.stretch().is_short_of(bytes, bytes_max);
        !is_large || !at_once && self.runs.pace.long_stretch().is_some_and(is_short_of)
    }

    /// Takes a write in, if it is one to be gathered; else what was gathered before is at the daemons.
    fn gather(
        self: &Arc<Self>,
        (open, how): (&Arc<OpenFile>, WriteAs),
        (data, state): (&Arc<Data>, &mut State),
        follows: bool,
        (offset, bytes): (u64, &[u8]),
    ) -> Result<bool> {
        let (mut left, owner) = (bytes, how.owner);
        let goes_on = follows && offset.checked_add(bytes.len() as u64).is_some();
        if !goes_on || !self.is_worth_gathering(open, bytes.len(), how) {
            self.write_out(data, state)?;
            return Ok(false);
        }
        // What is taken in now is not refused when it is sent.
        open.file.get()?.reserve(offset + bytes.len() as u64)?;
        while !left.is_empty() {
            let at = offset + (bytes.len() - left.len()) as u64;
            let others = |by: &Arc<OpenFile>| !Arc::ptr_eq(by, open);
            if state.run.as_ref().is_some_and(|run| others(&run.by) || run.end() != at)
                || state.flight.as_ref().is_some_and(|flight| others(&flight.by))
            {
                self.write_out(data, state)?;
            }
            let begins = || match self.runs.pace.long_stretch() {
                Some(bytes_max) => (open.stretch().long_end(at, bytes_max), true),
                None => (open.stretch().end(at), false),
            };
            let (until, long) = state.run.as_ref().map_or_else(begins, |run| (run.until, run.long));
            let fits = left.len().min(usize::try_from(until - at).unwrap_or(usize::MAX));
            let mut held = HeldRoom::default();
            let of_run = state.run.as_mut().map_or(&mut held, |run| &mut run.held);
            // Where daemons have no room to spare, what is written through asks for some.
            if !open.file.get()?.hold_room(at, fits as u64, of_run) || !self.runs.take_room(fits) {
                self.write_out(data, state)?;
                data.is_not_as_made();
                open.file.get()?.write_at(left, at)?;
                return Ok(true);
            }
            data.gathered.wrote(Whose::of(open, owner));
            let (now, rest) = left.split_at(fits);
            let modified = self.clock.now();
            match &mut state.run {
                Some(run) => {
                    run.bytes.extend_from_slice(now);
                    run.modified = modified;
                }
                None => {
                    let (bytes, by) = (begun(now, until - at), Arc::clone(open));
                    state.run = Some(Run {
                        by,
                        offset: at,
                        bytes,
                        held,
                        until,
                        long,
                        modified,
                        closed: false,
                    });
                    data.gathered.some.store(true, Ordering::Release);
                    self.runs.ages.began(data, self);
                }
            }
            if at + fits as u64 == until {
                self.send_off(data, state)?;
            }
            left = rest;
        }
        Ok(true)
    }

    /// Everything that was written to a file on this mount is at the daemons when this returns.
    ///
    /// # Errors
    /// It could not be written; whoever wrote it is told, too.
    pub(crate) fn settle(&self, data: &Data) -> Result<()> {
        if !data.gathered.some.load(Ordering::Acquire) {
            return Ok(());
        }
        self.write_out(data, &mut lock(&data.gathered.state))
    }

    /// This process closes this open file: what it has gathered is sent, or, where that can be left to the mount, soon after. What others
    /// have gathered stays; so it does for a process that was forked and lets go of what it has inherited.
    ///
    /// # Errors
    /// As [`Holder::settle`].
    pub(crate) fn settle_at_close(
        &self,
        data: &Data,
        open: &Arc<OpenFile>,
        owner: Option<u64>,
    ) -> Result<()> {
        let whose = *lock(&data.gathered.whose);
        if !whose.is_some_and(|whose| whose.has(Whose::of(open, owner)))
            || self.is_written_behind(data, open)
        {
            return Ok(());
        }
        self.settle(data)
    }

    /// The last descriptor of an open file is gone: what it has gathered is sent, or soon.
    ///
    /// # Errors
    /// As [`Holder::settle`].
    pub(crate) fn settle_at_release(&self, data: &Data, open: &Arc<OpenFile>) -> Result<()> {
        if !data.gathered.some.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = lock(&data.gathered.state);
        let flies = state.flight.is_some();
        match state.run.as_mut().filter(|run| Arc::ptr_eq(&run.by, open)) {
            Some(run) if !flies && self.runs.writes_behind(run, open) => {
                self.leave_behind(data, run);
                Ok(())
            }
            Some(run) => {
                // No close of a program waits for it: a loss is reported by an fsync of the file.
                run.closed = true;
                self.write_out(data, &mut state)
            }
            None => self.write_out(data, &mut state),
        }
    }

    /// Whether what this open file has gathered may be sent after it was closed; then it is sent soon. Its program asks no more: a loss
    /// is reported by an fsync of the file.
    fn is_written_behind(&self, data: &Data, open: &Arc<OpenFile>) -> bool {
        let state = &mut *lock(&data.gathered.state);
        let flies = state.flight.is_some();
        let Some(run) = state.run.as_mut().filter(|run| !flies && Arc::ptr_eq(&run.by, open))
        else {
            return false;
        };
        let is_behind = self.runs.writes_behind(run, open);
        if is_behind {
            self.leave_behind(data, run);
        }
        is_behind
    }

    fn leave_behind(&self, data: &Data, run: &mut Run) {
        run.closed = true;
        data.gathered.closed.store(true, Ordering::Release);
        self.runs.ages.closed(data.file);
    }

    /// The same, of a file by its index.
    ///
    /// # Errors
    /// As [`Holder::settle`].
    pub(crate) fn settle_file(&self, file: FileIndex) -> Result<()> {
        if self.runs.is_empty() {
            return Ok(());
        }
        let Some(data) = self.data.known(file) else { return Ok(()) };
        let settled = self.settle(&data);
        self.forget_unused(data);
        settled
    }

    /// The file's bytes may be used no more: its last handle was closed before its bytes were sent.
    pub(super) fn forget_unused(&self, data: Arc<Data>) {
        self.data.forget(data, |data| self.is_worth_keeping(data));
    }

    /// The same, of all files; also what others are just sending. With a server that is away no more is tried: its time is over.
    ///
    /// # Errors
    /// What was gathered is lost, now or since the last call of this. Whoever wrote it is told, too.
    pub(crate) fn settle_all(&self) -> Result<()> {
        let began = self.runs.losses.begin();
        for data in self.runs.ages.all() {
            let settled = self.settle(&data);
            self.forget_unused(data);
            if settled.is_err_and(|error| error.is_of_server_away()) {
                break;
            }
        }
        self.runs.losses.end(began)
    }

    /// What closed files have gathered is at the daemons when this returns, as far as they take it.
    ///
    /// # Errors
    /// Of the first that could not be written; the others are not tried then. An fsync of the file reports it.
    pub(crate) fn settle_all_closed(&self) -> Result<()> {
        let closed = |data: &Arc<Data>| data.gathered.closed.load(Ordering::Acquire);
        self.runs.ages.all().into_iter().filter(closed).try_for_each(|data| {
            // What is just being sent may wait for a daemon that is gone.
            let settled = data
                .gathered
                .state
                .try_lock()
                .map_or(Ok(()), |mut state| self.write_out(&data, &mut state));
            self.forget_unused(data);
            settled
        })
    }

    /// The attributes of a file that was made on this mount and of which all bytes are still gathered: those of its creation, with the
    /// size and the time of what was written. A kernel does not keep them: how much the disks take is not known yet.
    pub(crate) fn attributes_of_buffered(&self, file: FileIndex) -> Option<Known> {
        if self.runs.is_empty() {
            return None;
        }
        let data = self.data.known(file)?;
        let state = lock(&data.gathered.state);
        let run = state.run.as_ref().filter(|run| run.offset == 0 && state.flight.is_none())?;
        let (Known { attributes, keep }, modified) =
            (lock(&data.gathered.as_made).clone()?, run.modified?);
        // Without the promise others may have changed its owner or mode.
        if attributes.bytes.0 != 0 || !keep.attributes.is_some_and(|promise| self.holds(&promise)) {
            return None;
        }
        let bytes_used = ByteCount(run.end().next_multiple_of(BLOCK_BYTES));
        let (bytes, mtime, ctime) =
            (ByteCount(run.end()), modified, attributes.ctime.max(modified));
        Some(Known::now(Attributes { bytes, bytes_used, mtime, ctime, ..attributes }))
    }

    /// This mount is about to change attributes of a file otherwise than by writing.
    pub(crate) fn attributes_change(&self, file: FileIndex) {
        if let Some(data) = self.data.known(file) {
            data.is_not_as_made();
        }
    }

    /// Whether something of a file is gathered, or was a moment ago and is on its way.
    pub(crate) fn has_gathered(&self, file: FileIndex) -> bool {
        !self.runs.is_empty()
            && self.data.known(file).is_some_and(|data| data.gathered.some.load(Ordering::Acquire))
    }

    /// Where the next write is expected: an append goes where the file ends.
    pub(crate) fn expect_write(data: &Data, offset: u64) {
        lock(&data.gathered.state).next = offset;
    }
}

/// The first bytes of a run that takes so many at most: memory for all of them where they are large, so that it does not move.
fn begun(bytes: &[u8], at_most: u64) -> Vec<u8> {
    let bytes_max = if bytes.len() >= GATHER_BELOW {
        usize::try_from(at_most).unwrap_or(bytes.len())
    } else {
        0
    };
    let mut run = Vec::with_capacity(bytes_max.max(bytes.len()));
    run.extend_from_slice(bytes);
    run
}
