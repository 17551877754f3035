//! Counters of the server, and its page for Prometheus.

use std::{
    fmt::Write,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use braid_wire::message::types::IodState;

use crate::core::MdsCore;

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections open now.
    pub(crate) connections: AtomicU32,
    /// Calls received.
    pub(crate) calls: AtomicU64,
    /// Calls that failed because of the server itself.
    pub(crate) errors: AtomicU64,
    /// Files whose size was collected and whose mark was cleared.
    pub(crate) collected: AtomicU64,
    /// Queries for a size that were answered by the caller's own report.
    pub(crate) answered_by_report: AtomicU64,
    /// Files whose objects were deleted.
    pub(crate) deleted: AtomicU64,
    /// Sessions that were fenced.
    pub(crate) fenced: AtomicU64,
    /// Syncs of the log.
    pub(crate) log_syncs: AtomicU64,
}

/// Resident memory of the process, in bytes; 0 where the system does not say.
pub(crate) fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}

impl MdsCore {
    /// The page for Prometheus.
    pub fn prometheus(&self) -> String {
        let mut page = String::new();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        for (name, help, value) in [
            ("calls_total", "Calls received.", count(&counters.calls)),
            (
                "errors_total",
                "Calls that failed because of the server itself.",
                count(&counters.errors),
            ),
            (
                "sizes_collected_total",
                "Files whose size was collected.",
                count(&counters.collected),
            ),
            (
                "sizes_told_total",
                "Answers with a size that the caller itself reported.",
                count(&counters.answered_by_report),
            ),
            ("files_deleted_total", "Files whose objects were deleted.", count(&counters.deleted)),
            ("sessions_fenced_total", "Sessions that were fenced.", count(&counters.fenced)),
            ("log_forces_total", "Syncs of the log.", count(&counters.log_syncs)),
        ] {
            metric(&mut page, name, "counter", help, value);
        }
        let Ok(status) = self.status() else { return page };
        let up = status
            .map
            .iods
            .iter()
            .filter(|iod| !matches!(iod.state, IodState::Down | IodState::Removed))
            .count() as u64;
        let locked = self.state().locks.count() as u64;
        for (name, help, value) in [
            (
                "connections",
                "Connections open.",
                u64::from(counters.connections.load(Ordering::Relaxed)),
            ),
            ("sessions", "Client sessions.", u64::from(status.sessions)),
            ("open_files", "Open files.", status.open_files),
            ("sizes_in_objects", "Files whose size is in their objects.", status.sizes_in_objects),
            (
                "deletions_pending",
                "Files whose objects are to be deleted.",
                status.deletions_pending,
            ),
            ("intents_pending", "Truncates and punches in progress.", status.intents_pending),
            ("ranges_locked", "Byte ranges and whole files that are locked.", locked),
            ("grace", "1 in the grace period after a restart.", u64::from(status.grace)),
            ("epoch", "The server's epoch.", status.epoch.0),
            ("iods", "I/O daemons that ever joined.", status.map.iods.len() as u64),
            ("iods_up", "I/O daemons that are up.", up),
            ("inodes_cached", "Inodes in memory.", self.namespace.cached_inodes() as u64),
            (
                "memory_bytes",
                "Resident memory, including mapped pages of the base.",
                resident_bytes(),
            ),
        ] {
            metric(&mut page, name, "gauge", help, value);
        }
        page
    }
}

fn metric(page: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    // Writing to a String does not fail.
    let _ = writeln!(
        page,
        "# HELP braid_mds_{name} {help}\n# TYPE braid_mds_{name} {kind}\nbraid_mds_{name} {value}"
    );
}
