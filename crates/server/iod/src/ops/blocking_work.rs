//! Operations that block on the disk: flush, truncate, delete and others.
//!
//! Invariant: a work gets a clock, not a time. It admits each of its slices with the present time,
//! so that it ends when the daemon may serve no longer (I4).

use std::{fmt, time::Duration};

use braid_store::ObjectStore;
use braid_types::Failure;
use braid_wire::Wire;

use crate::{frame_sink::Answer, iod_core::IodCore};

/// The clock of the caller: monotonic time, as in all calls of [`IodCore`].
pub(super) type Clock<'c> = &'c dyn Fn() -> Duration;

type Run<S> = Box<dyn FnOnce(&IodCore<S>, Clock<'_>) -> Answer + Send>;

/// An operation that is decoded and admitted, for a thread that may block.
pub struct BlockingWork<S> {
    name: &'static str,
    is_long_running: bool,
    run: Run<S>,
}

impl<S: ObjectStore> BlockingWork<S> {
    pub(super) fn new<R: Wire>(
        name: &'static str,
        run: impl FnOnce(&IodCore<S>, Clock<'_>) -> Result<R, Failure> + Send + 'static,
    ) -> Self {
        Self {
            name,
            is_long_running: false,
            run: Box::new(move |core, clock| Answer::from_outcome(run(core, clock))),
        }
    }

    /// An operation that may take as long as all others together.
    pub(super) fn long_running<R: Wire>(
        name: &'static str,
        run: impl FnOnce(&IodCore<S>, Clock<'_>) -> Result<R, Failure> + Send + 'static,
    ) -> Self {
        Self { is_long_running: true, ..Self::new(name, run) }
    }

    /// Whether it needs its own queue, so that others do not wait for it.
    pub fn is_long_running(&self) -> bool {
        self.is_long_running
    }

    /// Carries it out. `clock` is read for each slice.
    pub fn run(self, core: &IodCore<S>, clock: &dyn Fn() -> Duration) -> Answer {
        let answer = (self.run)(core, clock);
        core.counters().answered(answer.status);
        tracing::debug!(call = self.name, status = ?answer.status, "done");
        answer
    }
}

impl<S> fmt::Debug for BlockingWork<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("name", &self.name).finish_non_exhaustive()
    }
}
