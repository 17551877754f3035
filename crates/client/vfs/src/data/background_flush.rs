//! How a write buffer gets to the daemons: sent by the thread that needs it there or, where daemons
//! are slow, by a thread of its own while the next buffer fills.
//!
//! ```text
//!   full, long ── the one before landed ──> background flush ─┬─ the next one is full ─> landed
//!   flush ────────────────────────────────────────────────────┴─> landed, the next one is sent
//! ```
//!
//! A file has one background flush. It ends when a thread that holds the lock of the buffer has
//! seen its result. Until then the file counts as one with buffered bytes.

use std::{
    panic::resume_unwind,
    sync::{Arc, Mutex, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Instant,
};

use braid_client::CallDeadline;

use super::{
    Data,
    write_coalescing::{BufferState, Run},
};
use crate::{
    error::{Error, Result},
    mount_caches::Holder,
    mutex::lock,
    open::open_file::OpenFile,
};

/// A write buffer that is being sent.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) by: Arc<OpenFile>,
    bytes: usize,
    sends: JoinHandle<Result<()>>,
}

impl Holder {
    /// Sends a full buffer: one with a long flush unit in the background.
    ///
    /// # Errors
    /// It could not be written, or the buffer before it. The handle that wrote it reports it, too.
    pub(super) fn send_off(
        self: &Arc<Self>,
        data: &Arc<Data>,
        state: &mut BufferState,
    ) -> Result<()> {
        if !state.run.as_ref().is_some_and(|run| run.long) {
            return self.write_out(data, state);
        }
        let landed = self.wait_for_background(state);
        if landed.is_err() {
            return self.send_after(data, state, landed);
        }
        let Some(run) = state.run.take() else { return Ok(()) };
        let (by, bytes) = (Arc::clone(&run.by), run.bytes.len());
        let run = Arc::new(Mutex::new(Some(run)));
        let (caches, theirs, to_send) = (Arc::clone(self), Arc::clone(data), Arc::clone(&run));
        let sends = move || lock(&to_send).take().map_or(Ok(()), |run| caches.send(&theirs, run));
        match thread::Builder::new().name("vfs-flight".into()).spawn(sends) {
            Ok(sends) => state.flight = Some(Flight { by, bytes, sends }),
            // No thread to be had: this one sends it.
            Err(_) => {
                state.run = lock(&run).take();
                return self.write_out(data, state);
            }
        }
        Ok(())
    }

    /// Sends the buffered bytes of a file, and waits for a background flush before them.
    ///
    /// # Errors
    /// They could not be written. The handle that wrote them reports it, too.
    pub(super) fn write_out(&self, data: &Data, state: &mut BufferState) -> Result<()> {
        if state.run.is_none() && state.flight.is_none() {
            return self.send_after(data, state, Ok(()));
        }
        let written = {
            // Bytes of earlier calls have a deadline of their own: they must not be lost because
            // this call has waited for something else.
            let _apart = CallDeadline::suspend();
            let landed = self.wait_for_background(state);
            self.send_after(data, state, landed)
        };
        match &written {
            Ok(()) => CallDeadline::restart(),
            Err(error) => error.server().into_iter().for_each(CallDeadline::blame),
        }
        written
    }

    /// Sends the buffer behind a background flush that ended with this result.
    fn send_after(&self, data: &Data, state: &mut BufferState, landed: Result<()>) -> Result<()> {
        let written = state.run.take().map_or(Ok(()), |run| {
            let bytes = run.bytes.len();
            let written = match &landed {
                // The server was waited for already: the bytes are lost without a second wait.
                Err(error) if error.is_of_server_away() => {
                    self.record_loss(data, &run, error);
                    Ok(())
                }
                _ => self.send(data, run),
            };
            self.runs.free(bytes);
            written
        });
        if data.gathered.some.load(Ordering::Acquire) {
            *lock(&data.gathered.owner) = None;
            data.gathered.closed.store(false, Ordering::Release);
            data.gathered.some.store(false, Ordering::Release);
            self.runs.ages.ended(data.file);
        }
        landed.and(written)
    }

    /// Waits for the background flush.
    fn wait_for_background(&self, state: &mut BufferState) -> Result<()> {
        let Some(Flight { bytes, sends, .. }) = state.flight.take() else { return Ok(()) };
        let landed = sends.join().unwrap_or_else(|panic| resume_unwind(panic));
        self.runs.free(bytes);
        landed
    }

    fn send(&self, data: &Data, mut run: Run) -> Result<()> {
        data.is_not_as_made();
        let (file, began) = (run.by.file.get(), Instant::now());
        // A full buffer is sent by the write that filled it, so the daemon's time is right.
        let modified = run.modified.filter(|_| !run.is_full());
        let written = file.and_then(|file| {
            Ok(file.write_reserved_modified(&mut run.held, &run.bytes, run.offset, modified)?)
        });
        match &written {
            Ok(_) => self.runs.took(&run, began.elapsed()),
            Err(error) => self.record_loss(data, &run, error),
        }
        // The bytes have the daemons' time now.
        self.cache.change(&[data.file]);
        written.map(drop)
    }

    fn record_loss(&self, data: &Data, run: &Run, why: &Error) {
        run.by.lost.note(why);
        self.runs.losses.note(why);
        if run.closed {
            self.runs.losses.note_closed(data.file, why);
        }
        data.ends_at(None);
    }
}
