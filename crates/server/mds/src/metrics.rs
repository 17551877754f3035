//! What the server counts, and its page for Prometheus.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections open now.
    pub(crate) connections: AtomicU32,
    /// Calls that came.
    pub(crate) calls: AtomicU64,
    /// Calls that failed by the server's own fault.
    pub(crate) errors: AtomicU64,
    /// Files whose size was collected and whose mark was cleared.
    pub(crate) collected: AtomicU64,
    /// Files whose objects were deleted.
    pub(crate) deleted: AtomicU64,
    /// Sessions that were fenced.
    pub(crate) fenced: AtomicU64,
    /// Forces of the log.
    pub(crate) forces: AtomicU64,
}

/// Resident memory of the process, in bytes; 0 where the system does not say.
pub(crate) fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}
