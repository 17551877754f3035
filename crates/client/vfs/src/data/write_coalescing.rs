//! Consecutive writes, buffered in memory until they fill a flush unit: full stripes of the file.
//! Small writes are coalesced always; large ones where the daemons are slow ([`throughput`]).
//!
//! ```text
//!   write ── under a write lease, at the end of the last one ──> write buffer
//!     full ───────────────────────> sent by the writer, or in the background: background_flush
//!     older than BUFFER_AGE_MAX ─> sent by a thread: flush_timers
//!     another call needs it ──────> flush, by the thread that needs it
//!   flush: fsync, reads, other writes, sizes, attributes and renames on this mount; a recall for
//!          those of other clients
//!   close: leaves the buffer to the mount, which sends it soon (ADR 0034), or flushes
//! ```
//!
//! Invariants:
//! 1. Bytes are buffered only under a write lease while no other client uses the file, not even one
//!    without leases. They are at the daemons before the lease is returned.
//! 2. A file has one write buffer, and one background flush before it, of the same handle. A write
//!    that does not continue them goes to the daemons after them.
//! 3. The handle that wrote the bytes reports that they could not be sent: each of its writes and
//!    closes fails until an fsync has reported it. After its close, the next fsync of the file
//!    reports it.
//! 4. A mount buffers at most [`BUFFER_BYTES_MAX`], for at most [`BUFFER_AGE_MAX`] (I6, I9).
//! 5. No lock that pages or leases wait for is held while a buffer is sent. The cached attributes
//!    of the file are removed before another thread can find the file without a buffer.
//!
//! `coalesce` asserts 2, and `release_bytes` the count of 4; `count_bytes` refuses more. It is
//! called only for a use that is alone (1). Invariants 3 and 5 span other files: `write_errors.rs`
//! and the order of locks.
//!
//! [`throughput`]: super::throughput

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use braid_client::{Attributes, FileIndex, LeaseMode, Reservation, Timestamp};
use braid_types::ByteCount;

use super::{
    FileData, UseGuard,
    background_flush::BackgroundFlush,
    flush_timers::BufferAges,
    flush_unit::UNIT_BYTES,
    lease_state::DataUse,
    throughput::{SlowRates, ThroughputEstimate},
    write_errors::WriteErrors,
};
use crate::{
    error::Result, mount_caches::MountCaches, mutex::lock,
    names::cached_attributes::CachedAttributes, open::open_file::OpenFile, ops::write::WriteAs,
};

/// Where daemons are fast, a write of this many bytes or more is sent in its own call: a quarter of
/// a flush unit.
const COALESCE_BELOW: usize = 128 * 1024;
/// How many bytes one mount buffers at most (I6, I9).
pub const BUFFER_BYTES_MAX: usize = 64 << 20;
/// How long a byte is buffered at most before it is sent (I6).
pub const BUFFER_AGE_MAX: Duration = Duration::from_secs(1);
/// The unit in which disks allocate space.
const BLOCK_BYTES: u64 = 4096;
/// Where more is buffered, the oldest buffer is sent whatever its age. A program that makes many
/// small files continues meanwhile, and does not reach [`BUFFER_BYTES_MAX`].
const WRITE_BEHIND_BYTES: usize = BUFFER_BYTES_MAX / 4;

/// The buffered bytes of one file.
#[derive(Debug, Default)]
pub(super) struct BufferedFile {
    /// Whether there are any; read without the lock.
    pub(super) has_bytes: AtomicBool,
    /// Whether the handle that wrote them is closed.
    pub(super) closed: AtomicBool,
    /// Held while bytes are added or sent.
    pub(super) state: Mutex<BufferState>,
    /// The owner of the bytes, also while they are being sent.
    pub(super) owner: Mutex<Option<BufferOwner>>,
    /// The file's attributes at its creation on this mount, until something changes them or a byte
    /// of it is at the daemons.
    as_created: Mutex<Option<CachedAttributes>>,
}

impl BufferedFile {
    /// This process has written some of the bytes.
    fn add_owner(&self, new: BufferOwner) {
        let mut owner = lock(&self.owner);
        // Bytes of several processes have no single owner.
        let process = owner
            .map_or(new.process, |old| old.process.filter(|process| new.process == Some(*process)));
        *owner = Some(BufferOwner { process, ..new });
    }
}

/// The owner of buffered bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BufferOwner {
    /// The address of the open file in memory. It is unique while the buffer refers to the file.
    open: usize,
    /// The process. `None`: not known, or several.
    process: Option<u64>,
}

impl BufferOwner {
    fn of(open: &OpenFile, process: Option<u64>) -> Self {
        Self { open: std::ptr::from_ref(open).addr(), process }
    }

    /// Whether this process may have written some of the bytes.
    fn may_be(&self, other: Self) -> bool {
        let may_be =
            self.process.is_none() || other.process.is_none() || self.process == other.process;
        self.open == other.open && may_be
    }
}

#[derive(Debug, Default)]
pub(super) struct BufferState {
    pub(super) buffer: Option<WriteBuffer>,
    /// The buffer before it, which is being sent.
    pub(super) background: Option<BackgroundFlush>,
    /// Where the last write ended.
    next: u64,
}

/// Consecutive bytes of one handle.
#[derive(Debug)]
pub(super) struct WriteBuffer {
    pub(super) handle: Arc<OpenFile>,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    /// The space that is reserved for it on the daemons' disks.
    pub(super) reservation: Reservation,
    /// The offset at which it is full.
    until: u64,
    /// Its flush unit is a long one.
    pub(super) long: bool,
    /// When its last byte was written, by the metadata server's clock, if that is known.
    pub(super) modified: Option<Timestamp>,
    /// Its handle is closed.
    pub(super) closed: bool,
}

impl WriteBuffer {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    pub(super) fn is_full(&self) -> bool {
        self.end() == self.until
    }
}

/// The write buffers of a mount.
#[derive(Debug)]
pub(crate) struct WriteBuffers {
    /// Whether a close may leave its buffer to the mount (ADR 0034).
    write_behind: bool,
    bytes: AtomicUsize,
    pub(super) ages: BufferAges,
    pub(crate) errors: WriteErrors,
    throughput: ThroughputEstimate,
}

impl WriteBuffers {
    /// No buffer yet. `slow`: when large writes are buffered.
    pub(crate) fn new(slow: SlowRates, write_behind: bool) -> Self {
        let (bytes, ages) = (AtomicUsize::new(0), BufferAges::default());
        Self {
            write_behind,
            bytes,
            ages,
            errors: WriteErrors::default(),
            throughput: ThroughputEstimate::new(slow),
        }
    }

    /// Whether nothing is buffered on this mount.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.load(Ordering::Acquire) == 0
    }

    /// A buffer was sent to the daemons in this time.
    pub(super) fn note_sent(&self, buffer: &WriteBuffer, took: Duration) {
        match buffer.long {
            true => self.throughput.sent_as_unit(buffer.bytes.len(), took),
            false if buffer.is_full() && buffer.bytes.len() as u64 >= UNIT_BYTES => {
                self.throughput.sent_directly(buffer.bytes.len(), took);
            }
            false => {}
        }
    }

    /// Counts bytes that are to be buffered. `false`: there are too many, and they are not counted.
    fn count_bytes(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        let taken = before + bytes;
        if taken > BUFFER_BYTES_MAX {
            self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        } else if before <= WRITE_BEHIND_BYTES && taken > WRITE_BEHIND_BYTES {
            self.ages.wake_all();
        }
        taken <= BUFFER_BYTES_MAX
    }

    /// How long bytes may stay buffered now.
    pub(super) fn age_max(&self) -> Duration {
        let many = self.bytes.load(Ordering::Acquire) > WRITE_BEHIND_BYTES;
        if many { Duration::ZERO } else { BUFFER_AGE_MAX }
    }

    /// Whether a closed handle's buffer may be sent later: its time is known, the handle has no
    /// write error, and the daemons keep up. Otherwise the close sends it and reports an error.
    fn writes_behind(&self, buffer: &WriteBuffer, open: &OpenFile) -> bool {
        let may = self.write_behind && buffer.modified.is_some();
        may && open.write_error.check().is_ok()
            && self.errors.allow_write_behind()
            && self.ages.keeps_up()
    }

    /// Bytes are no longer buffered.
    pub(super) fn release_bytes(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(before >= bytes, "4: more bytes are released than are buffered");
    }
}

impl FileData {
    /// The file was made just now, with these attributes.
    pub(crate) fn note_created(&self, known: &CachedAttributes) {
        *lock(&self.buffered.as_created) = Some(known.clone());
    }

    /// Bytes of the file are at the daemons, or its attributes are changed.
    pub(crate) fn forget_created_attributes(&self) {
        *lock(&self.buffered.as_created) = None;
    }

    /// An append goes to this offset: it continues the last write if that ended there.
    pub(crate) fn expect_write(&self, offset: u64) {
        lock(&self.buffered.state).next = offset;
    }
}

impl MountCaches {
    /// Begins a write at an offset, or an append (`None`).
    pub(crate) fn begin_write(
        self: &Arc<Self>,
        data: &Arc<FileData>,
        offset: Option<u64>,
        bytes: usize,
    ) -> Result<Option<UseGuard>> {
        self.ask_for_write_lease(data, offset, bytes);
        self.begin(data, if offset.is_some() { DataUse::Write } else { DataUse::Append })
    }

    /// Before a write to a file that other clients write, or wrote: asks now and then whether this
    /// mount may have it alone.
    fn ask_for_write_lease(&self, data: &FileData, offset: Option<u64>, bytes: usize) {
        let is_useful = bytes < COALESCE_BELOW
            && match offset {
                Some(offset) => {
                    self.holds_mode(data, LeaseMode::Shared)
                        && lock(&data.buffered.state).next == offset
                }
                None => {
                    self.holds_mode(data, LeaseMode::None)
                        || self.holds_mode(data, LeaseMode::Shared)
                }
            };
        if is_useful && self.begin_ask_for_write(data) {
            // If it fails, the write continues under the lease that is held.
            let _ = self.ask(data, LeaseMode::Write, false);
        }
    }

    fn holds_mode(&self, data: &FileData, held: LeaseMode) -> bool {
        self.is_serving() && self.held(data, &lock(&data.state)) == held
    }

    fn begin_ask_for_write(&self, data: &FileData) -> bool {
        let (mut state, now) = (lock(&data.state), Instant::now());
        if state.ask_again_at.is_some_and(|again| now < again) || !state.lease.is_open() {
            return false;
        }
        state.ask_again_at = Some(now + BUFFER_AGE_MAX);
        state.lease.set_asking(true);
        true
    }

    /// Writes at an offset: to the daemons, or to the write buffer.
    ///
    /// # Errors
    /// A daemon failed; an earlier write of the handle is lost.
    pub(crate) fn write_or_buffer(
        self: &Arc<Self>,
        open: &Arc<OpenFile>,
        under: Option<&UseGuard>,
        (offset, bytes): (u64, &[u8]),
        how: WriteAs,
    ) -> Result<()> {
        open.write_error.check()?;
        if let Some(under) = under {
            let (data, end) = (&under.data, offset.saturating_add(bytes.len() as u64));
            let mut state = lock(&data.buffered.state);
            let follows = std::mem::replace(&mut state.next, end) == offset;
            if !under.alone {
                // The same bytes may be buffered from a time when this mount was alone.
                self.flush_buffer(data, &mut state)?;
            } else if self.coalesce((open, how), (data, &mut state), follows, (offset, bytes))? {
                return Ok(());
            }
        }
        open.data.forget_created_attributes();
        let (file, began) = (open.file.get()?, Instant::now());
        file.write_at(bytes, offset)?;
        if bytes.len() >= COALESCE_BELOW {
            self.buffers.throughput.sent_directly(bytes.len(), began.elapsed());
        }
        Ok(())
    }

    /// Whether a write that continues the last one is to be buffered.
    fn is_worth_coalescing(&self, open: &OpenFile, bytes: usize, how: WriteAs) -> bool {
        let is_large = bytes >= COALESCE_BELOW;
        let immediate = how.direct || how.durable;
        let is_short_of = |bytes_max| open.flush_unit().reaches_fewer_daemons(bytes, bytes_max);
        !is_large || !immediate && self.buffers.throughput.long_unit_max().is_some_and(is_short_of)
    }

    /// Adds a write to the buffer and returns `true`, or flushes the buffer and returns `false`:
    /// the caller writes the bytes.
    fn coalesce(
        self: &Arc<Self>,
        (open, how): (&Arc<OpenFile>, WriteAs),
        (data, state): (&Arc<FileData>, &mut BufferState),
        follows: bool,
        (offset, bytes): (u64, &[u8]),
    ) -> Result<bool> {
        let mut left = bytes;
        let continues = follows && offset.checked_add(bytes.len() as u64).is_some();
        if !continues || !self.is_worth_coalescing(open, bytes.len(), how) {
            self.flush_buffer(data, state)?;
            return Ok(false);
        }
        // Bytes that are buffered now must not meet a quota when they are sent.
        open.file.get()?.reserve(offset + bytes.len() as u64)?;
        while !left.is_empty() {
            let at = offset + (bytes.len() - left.len()) as u64;
            let others = |by: &Arc<OpenFile>| !Arc::ptr_eq(by, open);
            if state
                .buffer
                .as_ref()
                .is_some_and(|buffer| others(&buffer.handle) || buffer.end() != at)
                || state.background.as_ref().is_some_and(|background| others(&background.by))
            {
                self.flush_buffer(data, state)?;
            }
            let begins = || match self.buffers.throughput.long_unit_max() {
                Some(bytes_max) => (open.flush_unit().long_end(at, bytes_max), true),
                None => (open.flush_unit().end(at), false),
            };
            let (until, long) =
                state.buffer.as_ref().map_or_else(begins, |buffer| (buffer.until, buffer.long));
            let fits = left.len().min(usize::try_from(until - at).unwrap_or(usize::MAX));
            let mut held = Reservation::default();
            let of_buffer =
                state.buffer.as_mut().map_or(&mut held, |buffer| &mut buffer.reservation);
            // Where no space can be reserved, a write to the daemons reports the disk full.
            if !open.file.get()?.reserve_space(at, fits as u64, of_buffer)
                || !self.buffers.count_bytes(fits)
            {
                self.flush_buffer(data, state)?;
                data.forget_created_attributes();
                open.file.get()?.write_at(left, at)?;
                return Ok(true);
            }
            data.buffered.add_owner(BufferOwner::of(open, how.owner));
            let (now, rest) = left.split_at(fits);
            let modified = self.clock.now();
            match &mut state.buffer {
                Some(buffer) => {
                    buffer.bytes.extend_from_slice(now);
                    buffer.modified = modified;
                }
                None => {
                    debug_assert!(
                        state
                            .background
                            .as_ref()
                            .is_none_or(|background| Arc::ptr_eq(&background.by, open)),
                        "2: a write buffer follows a background flush of another handle"
                    );
                    let (bytes, by) = (first_bytes(now, until - at), Arc::clone(open));
                    state.buffer = Some(WriteBuffer {
                        handle: by,
                        offset: at,
                        bytes,
                        reservation: held,
                        until,
                        long,
                        modified,
                        closed: false,
                    });
                    data.buffered.has_bytes.store(true, Ordering::Release);
                    self.buffers.ages.buffer_began(data, self);
                }
            }
            if at + fits as u64 == until {
                self.send_full(data, state)?;
            }
            left = rest;
        }
        Ok(true)
    }

    /// Sends the buffered bytes of a file. They are at the daemons when this returns.
    ///
    /// # Errors
    /// They could not be written. The handle that wrote them reports the error, too.
    pub(crate) fn flush(&self, data: &FileData) -> Result<()> {
        if !data.buffered.has_bytes.load(Ordering::Acquire) {
            return Ok(());
        }
        self.flush_buffer(data, &mut lock(&data.buffered.state))
    }

    /// A process closes this open file: its buffer is sent, or, where it may be left to the mount,
    /// sent soon. Bytes of other processes stay buffered; so a child that closes what it has
    /// inherited sends nothing.
    ///
    /// # Errors
    /// As [`MountCaches::flush`].
    pub(crate) fn flush_at_close(&self, open: &Arc<OpenFile>, process: Option<u64>) -> Result<()> {
        let closes = BufferOwner::of(open, process);
        let owner = *lock(&open.data.buffered.owner);
        if !owner.is_some_and(|owner| owner.may_be(closes)) || self.is_left_to_mount(open) {
            return Ok(());
        }
        self.flush(&open.data)
    }

    /// The last descriptor of an open file is gone: its buffer is sent, now or soon.
    ///
    /// # Errors
    /// As [`MountCaches::flush`].
    pub(crate) fn flush_at_release(&self, open: &Arc<OpenFile>) -> Result<()> {
        let data: &FileData = &open.data;
        if !data.buffered.has_bytes.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = lock(&data.buffered.state);
        let is_flushing = state.background.is_some();
        match state.buffer.as_mut().filter(|buffer| Arc::ptr_eq(&buffer.handle, open)) {
            Some(buffer) if !is_flushing && self.buffers.writes_behind(buffer, open) => {
                self.leave_to_mount(data, buffer);
                Ok(())
            }
            Some(buffer) => {
                // No close of a program waits for it: an fsync of the file reports an error.
                buffer.closed = true;
                self.flush_buffer(data, &mut state)
            }
            None => self.flush_buffer(data, &mut state),
        }
    }

    /// Leaves the buffer of a closed file to the mount, if it may, and returns whether it did. The
    /// program makes no further call, so an fsync of the file reports an error.
    fn is_left_to_mount(&self, open: &Arc<OpenFile>) -> bool {
        let data: &FileData = &open.data;
        let state = &mut *lock(&data.buffered.state);
        let is_flushing = state.background.is_some();
        let Some(buffer) = state
            .buffer
            .as_mut()
            .filter(|buffer| !is_flushing && Arc::ptr_eq(&buffer.handle, open))
        else {
            return false;
        };
        let is_left = self.buffers.writes_behind(buffer, open);
        if is_left {
            self.leave_to_mount(data, buffer);
        }
        is_left
    }

    fn leave_to_mount(&self, data: &FileData, buffer: &mut WriteBuffer) {
        buffer.closed = true;
        data.buffered.closed.store(true, Ordering::Release);
        self.buffers.ages.handle_closed(data.file);
    }

    /// As [`MountCaches::flush`], of a file by its index.
    ///
    /// # Errors
    /// As [`MountCaches::flush`].
    pub(crate) fn flush_file(&self, file: FileIndex) -> Result<()> {
        if self.buffers.is_empty() {
            return Ok(());
        }
        let Some(data) = self.data.get(file) else { return Ok(()) };
        let flushed = self.flush(&data);
        self.forget_unused(data);
        flushed
    }

    /// Forgets a file that is not used any more: its last handle may have been closed before its
    /// bytes were sent.
    pub(super) fn forget_unused(&self, data: Arc<FileData>) {
        self.data.forget(data, |data| self.stays_in_table(data));
    }

    /// Sends the buffered bytes of all files, and waits for those that other threads are sending.
    /// Stops at an unresponsive server: the call's time is used up.
    ///
    /// # Errors
    /// Buffered bytes were lost, now or since the last call of this. The handles that wrote them
    /// report it, too.
    pub(crate) fn flush_all(&self) -> Result<()> {
        let began = self.buffers.errors.begin();
        for data in self.buffers.ages.all() {
            let flushed = self.flush(&data);
            self.forget_unused(data);
            if flushed.is_err_and(|error| error.is_server_unresponsive()) {
                break;
            }
        }
        self.buffers.errors.end(began)
    }

    /// Sends the buffered bytes of closed files.
    ///
    /// # Errors
    /// Bytes of one file could not be written; the files after it are not tried. An fsync of that
    /// file reports it.
    pub(crate) fn flush_closed_files(&self) -> Result<()> {
        let closed = |data: &Arc<FileData>| data.buffered.closed.load(Ordering::Acquire);
        self.buffers.ages.all().into_iter().filter(closed).try_for_each(|data| {
            // Another thread that is sending it may wait for an unresponsive daemon.
            let flushed = data
                .buffered
                .state
                .try_lock()
                .map_or(Ok(()), |mut state| self.flush_buffer(&data, &mut state));
            self.forget_unused(data);
            flushed
        })
    }

    /// The attributes of a file that was made on this mount and whose bytes are all still buffered:
    /// those of its creation, with the size and time of the buffered bytes. They are not cacheable,
    /// since the used disk space is not known yet.
    pub(crate) fn attributes_of_buffered(&self, file: FileIndex) -> Option<CachedAttributes> {
        if self.buffers.is_empty() {
            return None;
        }
        let data = self.data.get(file)?;
        let state = lock(&data.buffered.state);
        let buffer = state
            .buffer
            .as_ref()
            .filter(|buffer| buffer.offset == 0 && state.background.is_none())?;
        let (CachedAttributes { attributes, leases: keep }, modified) =
            (lock(&data.buffered.as_created).clone()?, buffer.modified?);
        // Without the lease another client may have changed its owner or mode.
        if attributes.bytes.0 != 0 || !keep.attributes.is_some_and(|lease| self.is_valid(&lease)) {
            return None;
        }
        let bytes_used = ByteCount(buffer.end().next_multiple_of(BLOCK_BYTES));
        let (bytes, mtime, ctime) =
            (ByteCount(buffer.end()), modified, attributes.ctime.max(modified));
        Some(CachedAttributes::uncacheable(Attributes {
            bytes,
            bytes_used,
            mtime,
            ctime,
            ..attributes
        }))
    }

    /// This mount is about to change attributes of a file otherwise than by writing.
    pub(crate) fn note_attribute_change(&self, file: FileIndex) {
        if let Some(data) = self.data.get(file) {
            data.forget_created_attributes();
        }
    }

    /// Whether bytes of a file are buffered or being sent.
    pub(crate) fn has_buffered(&self, file: FileIndex) -> bool {
        !self.buffers.is_empty()
            && self
                .data
                .get(file)
                .is_some_and(|data| data.buffered.has_bytes.load(Ordering::Acquire))
    }
}

/// The first bytes of a buffer of at most `at_most` bytes. Where they are large it gets memory for
/// all of them, so that it is not moved.
fn first_bytes(bytes: &[u8], at_most: u64) -> Vec<u8> {
    let bytes_max = if bytes.len() >= COALESCE_BELOW {
        usize::try_from(at_most).unwrap_or(bytes.len())
    } else {
        0
    };
    let mut buffer = Vec::with_capacity(bytes_max.max(bytes.len()));
    buffer.extend_from_slice(bytes);
    buffer
}
