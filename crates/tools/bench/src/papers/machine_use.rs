//! How much of the machine all processes use.

use std::fs;

use anyhow::{Context, Result};

/// Times of all processors since the start, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct CpuUse {
    busy: u64,
    idle: u64,
}

impl CpuUse {
    /// The current times.
    pub fn now() -> Result<Self> {
        of(&fs::read_to_string("/proc/stat")?).context("reading /proc/stat")
    }

    /// The part that was not idle, 0 to 1.
    pub fn since(self, start: Self) -> f64 {
        let (busy, idle) = (self.busy - start.busy, self.idle - start.idle);
        busy as f64 / (busy + idle).max(1) as f64
    }
}

/// `cpu user nice system idle iowait irq softirq steal ...`
fn of(stat: &str) -> Option<CpuUse> {
    let fields: Vec<u64> = stat
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .map_while(|field| field.parse().ok())
        .collect();
    let idle = fields.get(3)? + fields.get(4)?;
    Some(CpuUse { busy: fields.iter().take(8).sum::<u64>() - idle, idle })
}

/// The congestion control that this machine's TCP uses.
pub fn congestion() -> String {
    let control =
        fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    control.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_idle_is_used() {
        let start = of("cpu  10 0 10 100 0 0 0 0 0 0\n").unwrap();
        let end = of("cpu  20 0 10 120 5 3 2 0 7 7\n").unwrap();
        assert_eq!(end.since(start), 15.0 / 40.0);
        assert!(CpuUse::now().is_ok());
    }
}
