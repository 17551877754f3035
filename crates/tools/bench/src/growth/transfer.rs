//! Files that curves read and write.

use anyhow::{Result, ensure};
use braid_client::{Client, File, OpenOptions};

use super::{
    Growth,
    series::{Point, Series, Unit},
    stage::{Amount, Stage},
};

/// Bytes of a stripe.
pub const STRIPE_BYTES: u64 = 64 << 10;

/// Reads a file and overwrites it in calls of `call` bytes, in samples of at least `sample` bytes;
/// `path` must be new.
pub struct Transfer {
    pub read: Series,
    pub rewrite: Series,
}

/// The bytes of one point.
pub struct TransferredBytes<'p> {
    pub path: &'p str,
    pub parts: u16,
    pub bytes: u64,
    pub call_bytes: u64,
    pub sample_bytes: u64,
}

impl Transfer {
    /// With these two series.
    pub fn new(read: Series, rewrite: Series) -> Self {
        Self { read, rewrite }
    }

    /// Measures both at a size, and removes the file.
    pub fn point(
        &mut self,
        stage: &Stage<'_>,
        client: &Client,
        size: u64,
        moved: &TransferredBytes<'_>,
    ) -> Result<()> {
        let options = OpenOptions::new().read(true).write(true).create_new(true);
        let file =
            client.open(moved.path, &options.stripe_size(STRIPE_BYTES).iod_count(moved.parts))?;
        let mut buffer = vec![0x5a; moved.call_bytes as usize];
        write(&file, moved.bytes, &buffer)?;
        let passes = moved.sample_bytes.div_ceil(moved.bytes).max(1);
        let (amount, buffers) = (Amount::Bytes(passes * moved.bytes), moved.call_bytes);
        self.rewrite.push(stage.point(size, amount, buffers, || {
            (0..passes).try_for_each(|_| write(&file, moved.bytes, &buffer))
        })?);
        self.read.push(stage.point(size, amount, buffers, || {
            (0..passes).try_for_each(|_| read(&file, moved.bytes, &mut buffer))
        })?);
        file.close()?;
        Ok(client.unlink(moved.path)?)
    }
}

fn write(file: &File, bytes: u64, buffer: &[u8]) -> Result<()> {
    (0..bytes)
        .step_by(buffer.len())
        .try_for_each(|at| file.write_at(buffer, at).map(drop))
        .map_err(Into::into)
}

fn read(file: &File, bytes: u64, buffer: &mut [u8]) -> Result<()> {
    for at in (0..bytes).step_by(buffer.len()) {
        let read = file.read_at(buffer, at)?;
        ensure!(read == buffer.len(), "at {at} only {read} bytes were read");
    }
    Ok(())
}

/// The whole life of a small file, `count` times: create, write 4 KiB, close, remove.
pub fn small_files(client: &Client, parts: Option<u16>, count: u64) -> Result<()> {
    let options = OpenOptions::new().write(true).create_new(true).stripe_size(STRIPE_BYTES);
    let options = parts.map_or(options.clone(), |parts| options.iod_count(parts));
    for number in 0..count {
        let path = format!("/small{number}");
        let file = client.open(path.as_str(), &options)?;
        file.write_at(&[0x5a; 4096], 0)?;
        file.close()?;
        client.unlink(path.as_str())?;
    }
    Ok(())
}

/// Samples of [`small_files`].
pub fn small_point(
    growth: &Growth,
    stage: &Stage<'_>,
    client: &Client,
    size: u64,
    parts: Option<u16>,
) -> Result<Point> {
    let count = growth.amount(3000);
    stage.calls(size, Amount::Count(count), 0, || small_files(client, parts, count))
}

/// The series of [`small_point`].
pub fn small_series() -> Series {
    Series::linear(
        "small_file",
        "a file made, 4 KiB written, closed, removed: every part is asked to remove it",
        Unit::Each,
    )
}
