//! I/O daemons, 1 to 64, each a process: what a byte, a small file and an idle daemon cost.

use std::{thread, time::Duration};

use anyhow::Result;

use super::{
    Growth, Plan,
    series::{Series, Unit},
    stage::{Amount, Stage},
    transfer::{Transfer, TransferredBytes, small_point, small_series},
};

/// Bytes of one call, 256 KiB for each of 64 daemons. A call that grows with the daemons would show
/// the processor's cache.
const CALL_BYTES: u64 = 16 << 20;
/// Size of the file, larger than any processor cache.
const FILE_BYTES: u64 = 512 << 20;
/// Time after which earlier work has ended: objects are removed and sizes recorded.
const SETTLE_SECONDS: u64 = 2;

pub const PLAN: Plan = Plan {
    name: "daemons",
    about: "I/O daemons: a file on all of them, a small file, heartbeats",
    size: "I/O daemons",
    sizes: &[1, 2, 4, 8, 16, 32, 64],
    quick: &[1, 8, 64],
    run,
};

fn run(growth: &Growth, sizes: &[u64]) -> Result<Vec<Series>> {
    let mut transfer = Transfer::new(
        Series::flat("read", "a file on all, calls of 16 MiB in stripes of 64 KiB", Unit::Gib),
        Series::flat("rewrite", "the same, written over", Unit::Gib),
    );
    let mut small = small_series();
    let mut idle = Series::flat("idle", "nobody asks anything: of a daemon", Unit::Second);
    let mut stage = Stage::start(growth, 0)?;
    for &size in sizes {
        stage.grow(size as usize)?;
        // An older client knows the cluster without the new daemons.
        let client = stage.client()?;
        let moved = TransferredBytes {
            path: "/daemons",
            parts: size as u16,
            bytes: growth.amount(FILE_BYTES / CALL_BYTES) * CALL_BYTES,
            call_bytes: CALL_BYTES,
            sample_bytes: 0,
        };
        transfer.point(&stage, &client, size, &moved)?;
        small.push(small_point(growth, &stage, &client, size, None)?);
        drop(client);
        thread::sleep(Duration::from_secs(SETTLE_SECONDS));
        idle.push(stage.once(size, Amount::Count(size), || {
            thread::sleep(Duration::from_secs(1));
            Ok(())
        })?);
    }
    Ok(vec![transfer.read, transfer.rewrite, small, idle])
}
