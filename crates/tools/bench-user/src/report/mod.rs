//! The results of a run: plain data, printed as text, stored as JSON, shown as HTML, compared.

pub mod chart;
mod compare;
mod html;
pub mod plot;
mod svg;
mod text;
mod text_width;
mod theme;

pub use compare::{Comparison, compare};
pub use html::html;
pub use text::{amount, bottleneck_text, limit_cells, row_cells};
pub use theme::clipped;

pub use crate::bench::Progress;

use serde::{Deserialize, Serialize};

use crate::stats::Summary;

/// The version of the JSON form. Other versions are refused.
pub const REPORT_FORMAT: u32 = 1;

/// The results of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`REPORT_FORMAT`].
    pub format: u32,
    /// The version of `braid`.
    pub version: String,
    /// Start time, seconds since 1970 (UTC).
    pub began: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// The client's host.
    pub host: String,
    /// Its processors.
    pub processors: usize,
    /// The requested options.
    pub asked: RequestedOptions,
    /// Names of the daemons of the run.
    pub iods: Vec<String>,
    /// The hardware limits of the cluster.
    pub limits: Vec<Limit>,
    /// The results of the file system.
    pub rows: Vec<Row>,
    /// Names of the rows for which a quick run had no time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Directories that earlier runs left, or that other runs were using.
    pub leftovers: Vec<String>,
}

/// The requested options.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestedOptions {
    /// Time of one row in milliseconds.
    pub row_ms: u64,
    /// Samples of each row.
    pub samples: usize,
    /// Size of the files of one row in bytes.
    pub bytes: u64,
    /// Number of tasks in rows that have several.
    pub tasks: u32,
    /// Whether a quick run was requested.
    pub quick: bool,
    /// The preset, if any.
    pub preset: Option<String>,
}

/// The unit of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes per second.
    BytesPerSecond,
    /// Operations per second.
    PerSecond,
    /// Seconds for one operation.
    Seconds,
}

impl Unit {
    /// Whether less is better.
    #[must_use]
    pub fn is_time(self) -> bool {
        self == Self::Seconds
    }
}

/// The kind of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    /// Copying in the client's memory.
    Memory,
    /// Bytes to one daemon.
    Send,
    /// Bytes from one daemon.
    Receive,
    /// Bytes to all daemons together.
    SendAll,
    /// Bytes from all daemons together: incast.
    ReceiveAll,
    /// A call of one daemon that does nothing.
    RoundTrip,
    /// A call of the metadata server that changes nothing.
    MdsRoundTrip,
    /// Calls of all daemons that do nothing, by all tasks.
    IodCalls,
    /// Calls of the metadata server that change nothing, by all tasks.
    MdsCalls,
    /// Changes of metadata, not forced to disk, by all tasks.
    MdsChanges,
    /// Files created and opened by the metadata server, without data, by all tasks.
    MdsCreates,
    /// First bytes of new files, for which all daemons create objects, by all tasks.
    IodObjects,
    /// Files opened by the metadata server, no byte read, by all tasks.
    MdsOpens,
    /// First reads of open files by all daemons, by all tasks.
    IodFirstReads,
    /// Bytes to one disk in order, flushed; by the daemons on it.
    DiskWrite,
    /// Bytes from one disk in order.
    DiskRead,
    /// 4 KiB to one disk at random offsets, many between two flushes.
    DiskRandomWrite,
    /// 4 KiB from one disk at random offsets.
    DiskRandomRead,
    /// 4 KiB to one disk at random offsets, each flushed.
    DiskSync,
    /// A 4 KiB read from one daemon's memory.
    SmallRead,
    /// A 4 KiB write to one daemon, with its sync.
    Force,
    /// A change of metadata, forced to the metadata server's disk.
    MdsForce,
}

impl LimitKind {
    /// What a call waits for; the name of a daemon follows.
    #[must_use]
    pub fn of_one(self) -> &'static str {
        match self {
            Self::SmallRead => "a 4 KiB read from the memory of",
            Self::Force => "a 4 KiB write and sync at",
            Self::RoundTrip => "the round trip to",
            _ => "",
        }
    }
}

/// A hardware limit of the cluster, measured alone.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// Its kind.
    pub kind: LimitKind,
    /// The daemon's id, if it belongs to one.
    pub iod: Option<u64>,
    /// Its name for people.
    pub name: String,
    /// How it was measured.
    pub how: String,
    /// The unit of the samples.
    pub unit: Unit,
    /// The samples.
    pub samples: Vec<f64>,
}

impl Limit {
    /// The median of its samples; 0 when there are none.
    #[must_use]
    pub fn median(&self) -> f64 {
        Summary::of(&self.samples).map_or(0.0, |summary| summary.median)
    }
}

/// A result of the file system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Its name, also for `--only`.
    pub name: String,
    /// What it does.
    pub what: String,
    /// The unit of the samples.
    pub unit: Unit,
    /// Number of tasks at the same time.
    pub tasks: u32,
    /// The samples.
    pub samples: Vec<f64>,
    /// Median and spread of the samples.
    pub summary: Summary,
    /// Its bottleneck.
    pub bound: Option<Bottleneck>,
}

/// The bottleneck of a row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bottleneck {
    /// The limit's name.
    pub limit: String,
    /// The row's rate at this limit, in the row's unit.
    pub ceiling: f64,
    /// The row's median as a percentage of it.
    pub percent: f64,
}

impl Report {
    /// As JSON that people can read too.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is plain data")
    }

    /// From JSON.
    ///
    /// # Errors
    /// The text is no report, or has another format version.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let report: Self = serde_json::from_str(text)
            .map_err(|error| format!("not a report of braid bench: {error}"))?;
        if report.format == REPORT_FORMAT {
            return Ok(report);
        }
        Err(format!(
            "read a report: its format is {}, and this braid reads {REPORT_FORMAT}",
            report.format
        ))
    }
}
