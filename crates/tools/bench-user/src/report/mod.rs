//! What a run found: plain data, printed as text, kept as JSON, shown as HTML, compared.

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
pub use text::{amount, bound_text, limit_cells, row_cells};
pub use theme::clipped;

pub use crate::bench::Told;

use serde::{Deserialize, Serialize};

use crate::stats::Summary;

/// The version of the JSON form. Another one is refused.
pub const REPORT_FORMAT: u32 = 1;

/// What a run found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`REPORT_FORMAT`].
    pub format: u32,
    /// The version of `braid`.
    pub version: String,
    /// When it began, seconds since 1970 (UTC).
    pub began: u64,
    /// How long it took, seconds.
    pub seconds: f64,
    /// Where the client ran.
    pub host: String,
    /// Its processors.
    pub processors: usize,
    /// How the run was asked for.
    pub asked: Asked,
    /// The daemons that took part: names.
    pub iods: Vec<String>,
    /// What the cluster stands on.
    pub limits: Vec<Limit>,
    /// What the file system did.
    pub rows: Vec<Row>,
    /// Rows for which a quick run had no time: names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Directories that earlier runs left, or that other runs were using.
    pub leftovers: Vec<String>,
}

/// How a run was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// Time of one row, milliseconds.
    pub row_ms: u64,
    /// Samples of each row.
    pub samples: usize,
    /// Bytes of the files of one row.
    pub bytes: u64,
    /// Tasks of rows that have several.
    pub tasks: u32,
    /// Whether it was to be quick.
    pub quick: bool,
    /// The preset, if one was named.
    pub preset: Option<String>,
}

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes per second.
    BytesPerSecond,
    /// Operations per second.
    PerSecond,
    /// Seconds for one.
    Seconds,
}

impl Unit {
    /// Whether less is better.
    #[must_use]
    pub fn is_time(self) -> bool {
        self == Self::Seconds
    }
}

/// What a limit is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    /// Copying in the client's memory.
    Memory,
    /// Bytes to one daemon.
    Send,
    /// Bytes from one daemon.
    Receive,
    /// Bytes to all daemons at once.
    SendAll,
    /// Bytes from all daemons at once: incast.
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
    /// Files made and opened by the metadata server, no byte written, by all tasks.
    MdsCreates,
    /// First bytes of new files, for which all daemons make objects, by all tasks.
    IodObjects,
    /// Files opened by the metadata server, no byte read, by all tasks.
    MdsOpens,
    /// First reads of open files by all daemons, by all tasks.
    IodFirstReads,
    /// Bytes to one disk in order, flushed; by the daemons on it.
    DiskWrite,
    /// Bytes from one disk in order.
    DiskRead,
    /// 4 KiB to one disk at random places, many between two flushes.
    DiskRandomWrite,
    /// 4 KiB from one disk at random places.
    DiskRandomRead,
    /// 4 KiB to one disk at random places, each flushed.
    DiskSync,
    /// 4 KiB of one daemon, from its memory.
    SmallRead,
    /// 4 KiB to one daemon, with its sync.
    Force,
    /// A change of metadata, forced to the metadata server's disk.
    MdsForce,
}

impl LimitKind {
    /// What is waited for, before the name of a daemon.
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

/// Something that the cluster stands on, measured by itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// What it is of.
    pub kind: LimitKind,
    /// Of which daemon.
    pub iod: Option<u64>,
    /// What people call it.
    pub name: String,
    /// How it was measured.
    pub how: String,
    /// What the samples count.
    pub unit: Unit,
    /// Each sample.
    pub samples: Vec<f64>,
}

impl Limit {
    /// The median of its samples; 0 when there are none.
    #[must_use]
    pub fn median(&self) -> f64 {
        Summary::of(&self.samples).map_or(0.0, |summary| summary.median)
    }
}

/// What the file system did.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Its name, as `--only` takes it.
    pub name: String,
    /// What it does.
    pub what: String,
    /// What the samples count.
    pub unit: Unit,
    /// Tasks at the same time.
    pub tasks: u32,
    /// Each sample.
    pub samples: Vec<f64>,
    /// Median and spread of the samples.
    pub summary: Summary,
    /// The limit that binds it.
    pub bound: Option<Bound>,
}

/// The limit that binds a row.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bound {
    /// The limit's name.
    pub limit: String,
    /// What it would allow, in the row's unit.
    pub ceiling: f64,
    /// What part of that the row's median is.
    pub percent: f64,
}

impl Report {
    /// As JSON, for people too.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report is plain data")
    }

    /// From JSON.
    ///
    /// # Errors
    /// It is no report, or one of another format.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let report: Self = serde_json::from_str(text)
            .map_err(|error| format!("not a report of braid bench: {error}"))?;
        if report.format == REPORT_FORMAT {
            return Ok(report);
        }
        Err(format!("a report of format {}, where this braid knows {REPORT_FORMAT}", report.format))
    }
}
