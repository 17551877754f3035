//! The state of a run that all its parts share.

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

/// The state of a run that all its parts share.
pub(crate) struct Bench<'a> {
    pub(crate) client: &'a Paced<'a>,
    pub(crate) scratch: &'a Scratch<'a>,
    pub(crate) options: &'a Options,
    /// Set by the caller to stop the run.
    pub(crate) stop: &'a AtomicBool,
    /// The daemons of the run, in the order of the cluster map.
    pub(crate) iods: Vec<Iod>,
    /// Bytes of the files of one row.
    pub(crate) bytes: u64,
    /// How long one sample of a row is.
    pub(crate) sample: Duration,
    /// How long one sample of a limit is.
    pub(crate) limit_sample: Duration,
    /// Receives each result.
    pub(crate) tell: &'a (dyn Fn(Progress<'_>) + Sync),
}

/// Progress of a run, reported as soon as it is known.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'r> {
    /// What is being measured now.
    Now(&'r str),
    /// A row.
    Row(&'r Row),
}

impl Bench<'_> {
    /// An error when the run must stop.
    pub(crate) fn check_stop(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(()) }
    }

    /// An error when the run must stop or has no time left.
    pub(crate) fn check_time(&self) -> Result<()> {
        self.check_stop()?;
        self.client.pacer().check()
    }

    /// The time on the run's clock.
    pub(crate) fn now(&self) -> Duration {
        self.client.pacer().now()
    }
}
