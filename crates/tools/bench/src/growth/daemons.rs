//! I/O daemons, 1 to 64, each a process: what a byte, a small file and an idle daemon cost.

use std::{thread, time::Duration};

use anyhow::Result;

use super::{
    Growth, Plan,
    series::{Series, Unit},
    stage::{Amount, Stage},
    transfer::{Moved, STRIPE_BYTES, Transfer, small_point, small_series},
};

/// Bytes of one call to each daemon: four stripes.
const CALL_BYTES_EACH: u64 = 4 * STRIPE_BYTES;
/// Bytes of the file on each daemon: 1 GiB on 64.
const FILE_BYTES_EACH: u64 = 16 << 20;
/// Bytes of a sample at least.
const SAMPLE_BYTES: u64 = 512 << 20;

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
        Series::flat("read", "a file on all, calls of 256 KiB of each daemon", Unit::Gib),
        Series::flat("rewrite", "the same, written over", Unit::Gib),
    );
    let mut small = small_series();
    let mut idle = Series::flat("idle", "nobody asks anything: of a daemon in a second", Unit::Each);
    let mut stage = Stage::start(growth, 0)?;
    for &size in sizes {
        stage.grow(size as usize)?;
        // The one before knows the cluster of before.
        let client = stage.client()?;
        let moved = Moved {
            path: "/daemons",
            parts: size as u16,
            bytes: growth.amount(FILE_BYTES_EACH / CALL_BYTES_EACH) * CALL_BYTES_EACH * size,
            call_bytes: CALL_BYTES_EACH * size,
            sample_bytes: growth.amount(SAMPLE_BYTES),
        };
        transfer.point(&stage, &client, size, &moved)?;
        small.push(small_point(growth, &stage, &client, size, None)?);
        drop(client);
        idle.push(stage.once(size, Amount::Count(size), || {
            thread::sleep(Duration::from_secs(1));
            Ok(())
        })?);
    }
    Ok(vec![transfer.read, transfer.rewrite, small, idle])
}
