//! Operations that wait for the disk: flush, truncate, delete and their like.

use std::{fmt, time::Duration};

use braid_store::ObjectStore;
use braid_types::Failure;
use braid_wire::Wire;

use crate::{iod_core::IodCore, sink::Answer};

type Run<S> = Box<dyn FnOnce(&IodCore<S>, Duration) -> Answer + Send>;

/// An operation that is decoded and allowed, and waits for a thread that may block.
pub struct Work<S> {
    name: &'static str,
    run: Run<S>,
}

impl<S: ObjectStore> Work<S> {
    pub(super) fn new<R: Wire>(
        name: &'static str,
        run: impl FnOnce(&IodCore<S>, Duration) -> Result<R, Failure> + Send + 'static,
    ) -> Self {
        Self { name, run: Box::new(move |core, now| Answer::from_outcome(run(core, now))) }
    }

    /// Does it.
    pub fn run(self, core: &IodCore<S>, now: Duration) -> Answer {
        let answer = (self.run)(core, now);
        core.counters().answered(answer.status);
        tracing::debug!(call = self.name, status = ?answer.status, "done");
        answer
    }
}

impl<S> fmt::Debug for Work<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("name", &self.name).finish_non_exhaustive()
    }
}
