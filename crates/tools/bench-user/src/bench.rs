//! What every part of a run has at hand.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use crate::{
    error::{BenchError, Result},
    iods::Iod,
    options::Options,
    pace::Paced,
    report::Row,
    scratch::Scratch,
};

/// What every part of a run has at hand.
pub(crate) struct Bench<'a> {
    pub(crate) client: &'a Paced<'a>,
    pub(crate) scratch: &'a Scratch<'a>,
    pub(crate) options: &'a Options,
    /// Set by whoever stops the run.
    pub(crate) stop: &'a AtomicBool,
    /// The daemons that take part, in the order of the map.
    pub(crate) iods: Vec<Iod>,
    /// Bytes of the files of one row.
    pub(crate) bytes: u64,
    /// How long one sample of a row is.
    pub(crate) sample: Duration,
    /// How long one sample of a limit is.
    pub(crate) limit_sample: Duration,
    /// Is told of each result.
    pub(crate) tell: &'a (dyn Fn(Told<'_>) + Sync),
}

/// A result, as soon as it is there.
#[derive(Clone, Copy, Debug)]
pub enum Told<'r> {
    /// What is being measured now.
    Now(&'r str),
    /// A row.
    Row(&'r Row),
}

impl Bench<'_> {
    /// An error once the run is to stop.
    pub(crate) fn check_stop(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(()) }
    }

    /// The same, or once there is no time for more.
    pub(crate) fn check_time(&self) -> Result<()> {
        self.check_stop()?;
        self.client.pacer().check()
    }

    /// What time it is, by the clock of the run.
    pub(crate) fn now(&self) -> Duration {
        self.client.pacer().now()
    }
}
