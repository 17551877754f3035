//! How a run gets to the daemons: by whoever wants it there, or, where they are slow, by a thread while the next one is gathered.
//!
//! ```text
//!   full, long ── the one before it has landed ──> flight ──┬─ the next one is full ─> landed
//!   settle, anything else ──────────────────────────────────┴────────────────────────> landed, then the run behind it is written
//! ```
//!
//! A file has one flight. It is not over before somebody who holds the lock of what is gathered has seen it land: until then the file
//! counts as one of which something is gathered.

use std::{
    panic::resume_unwind,
    sync::{Arc, Mutex, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Instant,
};

use braid_client::Bound;

use super::{
    Data,
    gather::{Run, State},
};
use crate::{
    error::{Error, Result},
    files::{OpenFile, lock},
    promise::Holder,
};

/// A run on its way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) by: Arc<OpenFile>,
    bytes: usize,
    sends: JoinHandle<Result<()>>,
}

impl Holder {
    /// A run is full: it goes to the daemons. One of a long stretch, by a thread.
    ///
    /// # Errors
    /// What went before it could not be written, or this one, and its handle knows it.
    pub(super) fn send_off(self: &Arc<Self>, data: &Arc<Data>, state: &mut State) -> Result<()> {
        if !state.run.as_ref().is_some_and(|run| run.long) {
            return self.write_out(data, state);
        }
        let landed = self.land(state);
        if landed.is_err() {
            return self.write_behind(data, state, landed);
        }
        let Some(run) = state.run.take() else { return Ok(()) };
        let (by, bytes) = (Arc::clone(&run.by), run.bytes.len());
        let run = Arc::new(Mutex::new(Some(run)));
        let (holder, theirs, flies) = (Arc::clone(self), Arc::clone(data), Arc::clone(&run));
        let sends = move || lock(&flies).take().map_or(Ok(()), |run| holder.send(&theirs, run));
        match thread::Builder::new().name("vfs-flight".into()).spawn(sends) {
            Ok(sends) => state.flight = Some(Flight { by, bytes, sends }),
            // As many threads as there may be: this one writes it.
            Err(_) => {
                state.run = lock(&run).take();
                return self.write_out(data, state);
            }
        }
        Ok(())
    }

    /// What is gathered of a file is at the daemons when this returns, and what was on its way.
    ///
    /// # Errors
    /// It could not be written, and its handle knows it.
    pub(super) fn write_out(&self, data: &Data, state: &mut State) -> Result<()> {
        if state.run.is_none() && state.flight.is_none() {
            return self.write_behind(data, state, Ok(()));
        }
        let written = {
            // Bytes of earlier calls have their own time: they are not lost since this call has waited for something else.
            let _apart = Bound::apart();
            let landed = self.land(state);
            self.write_behind(data, state, landed)
        };
        match &written {
            Ok(()) => Bound::renew(),
            Err(error) => error.server().into_iter().for_each(Bound::blame),
        }
        written
    }

    /// The same, of what follows a flight that has landed so.
    fn write_behind(&self, data: &Data, state: &mut State, landed: Result<()>) -> Result<()> {
        let written = state.run.take().map_or(Ok(()), |run| {
            let bytes = run.bytes.len();
            let written = match &landed {
                // Its time is over: nobody waits for it once more.
                Err(error) if error.is_of_server_away() => {
                    self.lost(data, &run, error);
                    Ok(())
                }
                _ => self.send(data, run),
            };
            self.runs.free(bytes);
            written
        });
        if data.gathered.some.load(Ordering::Acquire) {
            *lock(&data.gathered.whose) = None;
            data.gathered.closed.store(false, Ordering::Release);
            data.gathered.some.store(false, Ordering::Release);
            self.runs.ages.ended(data.file);
        }
        landed.and(written)
    }

    /// Waits for what is on its way.
    fn land(&self, state: &mut State) -> Result<()> {
        let Some(Flight { bytes, sends, .. }) = state.flight.take() else { return Ok(()) };
        let landed = sends.join().unwrap_or_else(|panic| resume_unwind(panic));
        self.runs.free(bytes);
        landed
    }

    fn send(&self, data: &Data, mut run: Run) -> Result<()> {
        data.is_not_as_made();
        let (file, began) = (run.by.file.get(), Instant::now());
        // A full one is sent by the write that filled it.
        let modified = run.modified.filter(|_| !run.is_full());
        let written = file.and_then(|file| {
            Ok(file.write_held_of(&mut run.held, &run.bytes, run.offset, modified)?)
        });
        match &written {
            Ok(_) => self.runs.took(&run, began.elapsed()),
            Err(error) => self.lost(data, &run, error),
        }
        // Their time is that of the daemons.
        self.cache.change(&[data.file]);
        written.map(drop)
    }

    fn lost(&self, data: &Data, run: &Run, why: &Error) {
        run.by.lost.note(why);
        self.runs.losses.note(why);
        if run.closed {
            self.runs.losses.note_closed(data.file, why);
        }
        data.ends_at(None);
    }
}
