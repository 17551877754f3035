//! Buffered bytes that could not be written. The handle that wrote them reports it, and so does a
//! sync of the whole mount.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use braid_client::FileIndex;

use crate::{
    error::{Error, Result},
    mutex::lock,
};

/// Files whose write errors are remembered after their close (I9). Beyond that only a sync of the
/// whole mount reports them.
const CLOSED_MAX: usize = 10_000;
/// How long after a write error every close sends its bytes itself, so that programs see the
/// next error themselves.
const CAREFUL_TIME: Duration = Duration::from_secs(60);

/// The error of a handle's buffered bytes, until a call has reported it.
#[derive(Debug, Default)]
pub(crate) struct HandleWriteError(Mutex<Option<Error>>);

impl HandleWriteError {
    /// Records an error, unless there is one already.
    pub(crate) fn note(&self, error: &Error) {
        lock(&self.0).get_or_insert_with(|| error.clone());
    }

    /// Fails while the error is not reported.
    pub(crate) fn check(&self) -> Result<()> {
        lock(&self.0).clone().map_or(Ok(()), Err)
    }

    /// Reports the error, once.
    pub(crate) fn report(&self) -> Result<()> {
        lock(&self.0).take().map_or(Ok(()), Err)
    }
}

/// The write errors of a mount.
#[derive(Debug, Default)]
pub(crate) struct WriteErrors(Mutex<ErrorState>);

#[derive(Debug, Default)]
struct ErrorState {
    count: u64,
    /// How many of them a sync of the whole mount has reported.
    reported: u64,
    last: Option<Error>,
    /// Of files whose handle was closed, until an fsync of the file has reported it.
    closed: HashMap<FileIndex, Error>,
    /// Until when every close sends its bytes itself.
    careful_until: Option<Instant>,
}

/// How many errors were reported when a sync of the whole mount began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncStart(u64);

impl WriteErrors {
    /// Records an error.
    pub(crate) fn note(&self, error: &Error) {
        let mut state = lock(&self.0);
        state.count += 1;
        state.last = Some(error.clone());
        state.careful_until = Some(Instant::now() + CAREFUL_TIME);
    }

    /// Records an error of a file whose handle is closed.
    pub(crate) fn record_closed(&self, file: FileIndex, error: &Error) {
        tracing::error!(
            %error,
            file = file.0,
            "bytes of a closed file could not be written; fsync of the file reports it"
        );
        let mut state = lock(&self.0);
        if state.closed.len() < CLOSED_MAX {
            state.closed.entry(file).or_insert_with(|| error.clone());
        }
    }

    /// Reports, once, that bytes of a file were lost after their handle was closed.
    ///
    /// # Errors
    /// The recorded error.
    pub(crate) fn report_closed(&self, file: FileIndex) -> Result<()> {
        lock(&self.0).closed.remove(&file).map_or(Ok(()), Err)
    }

    /// Whether a close may leave its bytes to the mount: there was no write error lately.
    pub(crate) fn allow_write_behind(&self) -> bool {
        lock(&self.0).careful_until.is_none_or(|until| Instant::now() >= until)
    }

    /// A sync of the whole mount begins.
    pub(crate) fn begin(&self) -> SyncStart {
        SyncStart(lock(&self.0).reported)
    }

    /// A sync of the whole mount has sent everything.
    ///
    /// # Errors
    /// The last error that was not reported when the sync began. Each of several concurrent syncs
    /// reports it.
    pub(crate) fn end(&self, began: SyncStart) -> Result<()> {
        let mut state = lock(&self.0);
        state.reported = state.count;
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
    fn a_write_error_is_reported_to_all_syncs_that_began_before_its_report() {
        let losses = WriteErrors::default();
        let (one, other) = (losses.begin(), losses.begin());
        losses.note(&Error::of(Status::Unreachable));
        assert!(losses.end(one).is_err() && losses.end(other).is_err());
        let late = losses.begin();
        assert!(losses.end(late).is_ok());
    }
}
