//! Counters of the daemon, for `braid status` and Prometheus.

use std::{
    fmt::Write,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

use braid_types::Status;

/// What the daemon did since it started. Relaxed: the numbers are independent.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections open now.
    pub connections: AtomicU32,
    /// Calls answered.
    pub calls: AtomicU64,
    /// Calls answered with an error of the daemon or its disk.
    pub errors: AtomicU64,
    /// Calls refused: roles, capabilities, fences, malformed messages.
    pub refusals: AtomicU64,
    /// Payload bytes of reads.
    pub bytes_read: AtomicU64,
    /// Payload bytes of writes.
    pub bytes_written: AtomicU64,
    /// Collective requests started.
    pub collectives: AtomicU64,
    /// Calls by which tasks joined collective requests.
    pub joins: AtomicU64,
    /// Bytes that collective requests have read from the store or written to it.
    pub collective_store_bytes: AtomicU64,
    /// Calls of the store for that.
    pub collective_store_calls: AtomicU64,
}

impl Counters {
    /// Counts an answered call.
    pub fn answered(&self, status: Status) {
        self.calls.fetch_add(1, Relaxed);
        match status {
            Status::Ok => {}
            status if is_own_fault(status) => {
                self.errors.fetch_add(1, Relaxed);
            }
            _ => {
                self.refusals.fetch_add(1, Relaxed);
            }
        }
    }

    /// The counters in Prometheus' text format, with the daemon's id and whether it serves data.
    pub fn prometheus(&self, iod: u32, serving: bool) -> String {
        let rows = [
            (
                "connections",
                "gauge",
                "Connections open now.",
                u64::from(self.connections.load(Relaxed)),
            ),
            (
                "serving",
                "gauge",
                "1 when data is served, 0 without the metadata server.",
                u64::from(serving),
            ),
            ("calls_total", "counter", "Calls answered.", self.calls.load(Relaxed)),
            (
                "errors_total",
                "counter",
                "Calls answered with an error of the disk.",
                self.errors.load(Relaxed),
            ),
            ("refusals_total", "counter", "Calls refused.", self.refusals.load(Relaxed)),
            (
                "read_bytes_total",
                "counter",
                "Payload bytes of reads.",
                self.bytes_read.load(Relaxed),
            ),
            (
                "written_bytes_total",
                "counter",
                "Payload bytes of writes.",
                self.bytes_written.load(Relaxed),
            ),
            (
                "collectives_total",
                "counter",
                "Collective requests started.",
                self.collectives.load(Relaxed),
            ),
            (
                "joins_total",
                "counter",
                "Calls of tasks in collective requests.",
                self.joins.load(Relaxed),
            ),
            (
                "collective_store_bytes_total",
                "counter",
                "Bytes between collective requests and the disk.",
                self.collective_store_bytes.load(Relaxed),
            ),
            (
                "collective_store_calls_total",
                "counter",
                "Reads and writes of the disk for collective requests.",
                self.collective_store_calls.load(Relaxed),
            ),
        ];
        rows.iter().fold(String::new(), |mut text, (name, kind, help, value)| {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "# HELP braid_iod_{name} {help}\n# TYPE braid_iod_{name} {kind}\n\
                 braid_iod_{name}{{iod=\"{iod}\"}} {value}"
            );
            text
        })
    }
}

/// Whether the daemon or its disk is at fault, and not the caller.
fn is_own_fault(status: Status) -> bool {
    use Status::{Corrupted, DiskError, Internal, NoSpace, ObjectLost, ReadOnly};
    matches!(status, DiskError | NoSpace | ReadOnly | ObjectLost | Corrupted | Internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_and_a_refused_capability_is_not() {
        let counters = Counters::default();
        for status in [Status::Ok, Status::NoSpace, Status::BadCapability] {
            counters.answered(status);
        }
        let text = counters.prometheus(3, true);
        assert!(text.contains("braid_iod_calls_total{iod=\"3\"} 3\n"), "{text}");
        assert!(text.contains("braid_iod_errors_total{iod=\"3\"} 1\n"), "{text}");
        assert!(text.contains("braid_iod_refusals_total{iod=\"3\"} 1\n"), "{text}");
        assert!(text.contains("braid_iod_serving{iod=\"3\"} 1\n"), "{text}");
    }
}
