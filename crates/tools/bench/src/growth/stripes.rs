//! Parts of one file, 1 to 64, on 64 daemons.

use anyhow::{Result, ensure};
use braid_client::{Client, OpenOptions};

use super::{
    Growth, Plan,
    series::{Point, Series, Unit},
    stage::{Amount, Stage},
    transfer::{STRIPE_BYTES, Transfer, TransferredBytes, small_point, small_series},
};

/// Size of the file.
const FILE_BYTES: u64 = 256 << 20;
/// Bytes of a call for any number of parts: 64 stripes.
const CALL_BYTES: u64 = 64 * STRIPE_BYTES;

pub const PLAN: Plan = Plan {
    name: "stripes",
    about: "parts of a file on 64 daemons: calls of 4 MiB, a small file, a file with bytes in \
        all parts, a stat of it",
    size: "parts",
    sizes: &[1, 2, 4, 8, 16, 32, 64],
    quick: &[1, 8, 64],
    run,
};

fn run(growth: &Growth, sizes: &[u64]) -> Result<Vec<Series>> {
    let mut transfer = Transfer::new(
        Series::linear(
            "read",
            "calls of 4 MiB in stripes of 64 KiB: a request to each part",
            Unit::Gib,
        ),
        Series::linear("rewrite", "the same, written over", Unit::Gib),
    );
    let mut small = small_series();
    let mut wide = Series::flat(
        "wide_file",
        "a file made, a stripe written to each part, closed, removed: of a part",
        Unit::Each,
    );
    let mut stat = Series::linear(
        "stat",
        "of a file that another client writes: all parts are asked",
        Unit::Each,
    );
    let stage = Stage::start(growth, *sizes.last().unwrap_or(&1) as usize)?;
    let client = stage.client()?;
    for &size in sizes {
        let moved = TransferredBytes {
            path: "/stripes",
            parts: size as u16,
            bytes: growth.amount(FILE_BYTES / CALL_BYTES) * CALL_BYTES,
            call_bytes: CALL_BYTES,
            sample_bytes: growth.amount(FILE_BYTES),
        };
        transfer.point(&stage, &client, size, &moved)?;
        small.push(small_point(growth, &stage, &client, size, Some(size as u16))?);
        let files = growth.amount(2000).div_ceil(size).max(growth.amount(100));
        wide.push(stage.calls(size, Amount::Count(files * size), size * STRIPE_BYTES, || {
            wide_files(&client, size, files)
        })?);
        stat.push(stat_point(growth, &stage, &client, size)?);
    }
    Ok(vec![transfer.read, transfer.rewrite, small, wide, stat])
}

fn options(parts: u64) -> OpenOptions {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .stripe_size(STRIPE_BYTES)
        .iod_count(parts as u16)
}

fn wide_files(client: &Client, parts: u64, count: u64) -> Result<()> {
    let buffer = vec![0x5a; (parts * STRIPE_BYTES) as usize];
    for number in 0..count {
        let path = format!("/wide{number}");
        let file = client.open(path.as_str(), &options(parts))?;
        file.write_at(&buffer, 0)?;
        file.close()?;
        client.unlink(path.as_str())?;
    }
    Ok(())
}

fn stat_point(growth: &Growth, stage: &Stage<'_>, client: &Client, parts: u64) -> Result<Point> {
    let bytes = parts * STRIPE_BYTES;
    let writer = client.open("/written", &options(parts))?;
    writer.write_at(&vec![0x5a; bytes as usize], 0)?;
    let (other, count) = (stage.client()?, growth.amount((24_000 / parts).clamp(500, 3000)));
    let point = stage.calls(parts, Amount::Count(count), 0, || {
        for _ in 0..count {
            let found = other.stat("/written")?.bytes.0;
            ensure!(found == bytes, "a stat says {found} bytes of {bytes}");
        }
        Ok(())
    })?;
    writer.close()?;
    client.unlink("/written")?;
    Ok(point)
}
