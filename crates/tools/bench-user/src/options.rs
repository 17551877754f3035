//! The options of a run.

use std::time::Duration;

use crate::{
    error::{BenchError, Result},
    preset,
};

/// The options of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Time of all samples of one row together.
    pub row_time: Duration,
    /// Samples of each row and limit.
    pub samples: usize,
    /// Maximum size of the files of one row, in bytes.
    pub bytes_max: u64,
    /// Tasks of the rows that have several; `None`: the preset's, or 4.
    pub tasks: Option<u32>,
    /// The requested rows; empty: the default set.
    pub only: Vec<String>,
    /// A preset: rows with the parameters of one of the papers, in place of the default set.
    pub preset: Option<String>,
    /// A run of under a minute: fewer and shorter rows.
    pub quick: bool,
    /// The directory in the file system where the scratch directory is created.
    pub at: String,
}

/// The defaults.
pub const OPTIONS_DEFAULT: Options = Options {
    row_time: Duration::from_secs(3),
    samples: 5,
    bytes_max: 1 << 30,
    tasks: None,
    only: Vec::new(),
    preset: None,
    quick: false,
    at: String::new(),
};

/// Maximum time of a quick run with set-up and clean-up (see `pace.rs`): less than a minute, with a
/// reserve for calls that take longer than any call of their kind before.
const QUICK: Duration = Duration::from_secs(54);
/// Time of a quick run for filling [`QUICK_FILLS`] sets of files: two in each of four rounds, more
/// than any set of rows except the presets needs.
const QUICK_FILL: Duration = Duration::from_secs(12);
const QUICK_FILLS: u32 = 16;
/// Time of a quick run for all rows.
const QUICK_ROWS: Duration = Duration::from_secs(16);
/// Time of a quick run for all limits.
const QUICK_LIMITS: Duration = Duration::from_secs(6);
/// Time of a run for all limits.
const LIMITS: Duration = Duration::from_secs(40);
/// A sample is at least this long: shorter ones measure the scheduler.
const SAMPLE_MIN: Duration = Duration::from_millis(20);
/// A limit's sample is at most this long.
const LIMIT_SAMPLE_MAX: Duration = Duration::from_millis(500);
/// Default number of tasks.
const TASKS: u32 = 4;
/// Maximum number of tasks: each is a thread with a connection to each daemon.
const TASKS_MAX: u32 = 256;

impl Options {
    /// Maximum time of the run; `None`: unlimited.
    pub(crate) fn time_limit(&self) -> Option<Duration> {
        self.quick.then_some(QUICK)
    }

    /// Size of a row's files, at most `bytes`, when this many bytes per second fill them.
    pub(crate) fn bytes_in_time(&self, bytes: u64, rate: Option<f64>) -> u64 {
        match rate.filter(|_| self.quick) {
            Some(rate) => {
                let filled = rate * (QUICK_FILL / QUICK_FILLS).as_secs_f64();
                (filled as u64 / MIN_BYTES * MIN_BYTES).clamp(MIN_BYTES.min(bytes), bytes)
            }
            None => bytes,
        }
    }

    /// Length of one sample of a row, when there are `rows` of them.
    #[must_use]
    pub fn sample(&self, rows: usize) -> Duration {
        let row = if self.quick {
            self.row_time.min(QUICK_ROWS / rows.max(1) as u32)
        } else {
            self.row_time
        };
        (row / self.samples.max(1) as u32).max(SAMPLE_MIN)
    }

    /// Length of one sample of a limit, when there are `limits` of them.
    #[must_use]
    pub fn limit_sample(&self, limits: usize) -> Duration {
        let all = if self.quick { QUICK_LIMITS } else { LIMITS };
        let one = all / (limits.max(1) * self.samples.max(1)) as u32;
        one.clamp(SAMPLE_MIN, LIMIT_SAMPLE_MAX.min(self.row_time).max(SAMPLE_MIN))
    }

    /// Tasks of the rows that have several.
    #[must_use]
    pub fn tasks(&self) -> u32 {
        self.tasks.or_else(|| preset::tasks(self.preset.as_deref()?)).unwrap_or(TASKS)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(BenchError::Usage(what.to_owned()));
        if self.tasks() == 0 || self.tasks() > TASKS_MAX {
            return wrong("tasks are 1 to 256");
        }
        if self.samples == 0 || self.samples > 1000 {
            return wrong("samples are 1 to 1000");
        }
        if self.bytes_max < MIN_BYTES {
            return wrong("files of less than 1 MiB measure nothing");
        }
        if self.row_time.is_zero() || self.row_time > Duration::from_secs(3600) {
            return wrong("a row's time is more than 0 and at most an hour");
        }
        Ok(())
    }
}

/// Minimum size of files.
pub(crate) const MIN_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quick_run_stays_within_its_time_whatever_there_is_to_measure() {
        let quick = Options { quick: true, samples: 4, ..OPTIONS_DEFAULT };
        for rows in [1, 10, 30] {
            assert!(
                quick.sample(rows) * 4 * rows as u32
                    <= QUICK_ROWS.max(SAMPLE_MIN * 4 * rows as u32)
            );
        }
        for limits in [10, 40, 90] {
            assert!(
                quick.limit_sample(limits) * 4 * limits as u32
                    <= QUICK_LIMITS.max(SAMPLE_MIN * 4 * limits as u32)
            );
        }
        assert_eq!(quick.sample(1), Duration::from_millis(750), "no longer than a row of any run");
    }

    #[test]
    fn a_quick_runs_files_are_as_long_as_they_are_filled_in_its_time() {
        let quick = Options { quick: true, ..OPTIONS_DEFAULT };
        let bytes = |rate| quick.bytes_in_time(128 << 20, rate);
        assert_eq!(
            (bytes(None), bytes(Some(1e9)), bytes(Some(10.0))),
            (128 << 20, 128 << 20, 1 << 20)
        );
        assert_eq!(bytes(Some(40.0 * 1048576.0)), 30 << 20);
        assert_eq!(OPTIONS_DEFAULT.bytes_in_time(128 << 20, Some(10.0)), 128 << 20);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert_eq!(OPTIONS_DEFAULT.check(), Ok(()));
        for wrong in [
            Options { tasks: Some(0), ..OPTIONS_DEFAULT },
            Options { tasks: Some(257), ..OPTIONS_DEFAULT },
            Options { samples: 0, ..OPTIONS_DEFAULT },
            Options { bytes_max: 4096, ..OPTIONS_DEFAULT },
            Options { row_time: Duration::ZERO, ..OPTIONS_DEFAULT },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
