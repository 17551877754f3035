//! Gathered bytes of a mount that could not be written: whoever wrote them is told, and who has everything forced.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use braid_client::FileIndex;

use crate::{
    error::{Error, Result},
    files::lock,
};

#[derive(Debug, Default)]
pub(crate) struct Losses(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    count: u64,
    /// How many of them were told.
    told: u64,
    last: Option<Error>,
    /// Of files whose handle was closed, until an fsync of the file has told it.
    closed: HashMap<FileIndex, Error>,
    /// Until when every close waits for its bytes.
    careful_until: Option<Instant>,
}

/// Files whose losses are remembered after their close (I9). One more is told by a sync of all only.
const CLOSED_MAX: usize = 10_000;
/// After a loss every close waits for its bytes for so long, so that programs hear of the next one themselves.
const CAREFUL: Duration = Duration::from_secs(60);

/// Where a sync of all began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began(u64);

impl Losses {
    pub(crate) fn note(&self, error: &Error) {
        let mut state = lock(&self.0);
        state.count += 1;
        state.last = Some(error.clone());
        state.careful_until = Some(Instant::now() + CAREFUL);
    }

    /// Bytes of a file are lost whose handle is closed.
    pub(crate) fn note_closed(&self, file: FileIndex, error: &Error) {
        tracing::error!(%error, file = file.0, "bytes of a closed file could not be written; fsync of the file reports it");
        let mut state = lock(&self.0);
        if state.closed.len() < CLOSED_MAX {
            state.closed.entry(file).or_insert_with(|| error.clone());
        }
    }

    /// Reports, once, that bytes of a file were lost after their handle was closed.
    ///
    /// # Errors
    /// They were.
    pub(crate) fn tell_closed(&self, file: FileIndex) -> Result<()> {
        lock(&self.0).closed.remove(&file).map_or(Ok(()), Err)
    }

    /// Whether a close may leave its bytes to the mount: nothing was lost lately.
    pub(crate) fn allow_write_behind(&self) -> bool {
        lock(&self.0).careful_until.is_none_or(|until| Instant::now() >= until)
    }

    pub(crate) fn begin(&self) -> Began {
        Began(lock(&self.0).told)
    }

    /// A sync of all has sent everything.
    ///
    /// # Errors
    /// What was lost and not told when it began: each of several that go on at the same time tells it.
    pub(crate) fn end(&self, began: Began) -> Result<()> {
        let mut state = lock(&self.0);
        state.told = state.count;
        if state.count == began.0 {
            return Ok(());
        }
        state.last.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use braid_client::Status;

    use super::*;

    #[test]
    fn a_loss_is_told_to_all_who_began_before_it_was_told_and_to_nobody_after() {
        let losses = Losses::default();
        let (one, other) = (losses.begin(), losses.begin());
        losses.note(&Error::of(Status::Unreachable));
        assert!(losses.end(one).is_err() && losses.end(other).is_err());
        let late = losses.begin();
        assert!(losses.end(late).is_ok());
    }
}
