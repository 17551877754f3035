//! The daemon's counters, for `braid status`.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use braid_store::ObjectStore;
use braid_wire::message::DaemonStatusReply;

use crate::iod_core::IodCore;

pub(crate) fn status<S: ObjectStore>(core: &IodCore<S>, now: Duration) -> DaemonStatusReply {
    let counters = core.counters();
    DaemonStatusReply {
        uptime_seconds: core.uptime(now).as_secs(),
        connections: counters.connections.load(Relaxed),
        calls: counters.calls.load(Relaxed),
        errors: counters.errors.load(Relaxed),
        bytes_read: counters.bytes_read.load(Relaxed),
        bytes_written: counters.bytes_written.load(Relaxed),
        memory_bytes: resident_bytes(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Resident memory of the process; 0 where the system does not say.
fn resident_bytes() -> u64 {
    // proc(5), /proc/pid/status: "VmRSS:     1234 kB".
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib * 1024)
}
