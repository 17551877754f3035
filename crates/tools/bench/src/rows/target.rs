//! Files that rows read and write, through the library.

use anyhow::{Result, ensure};
use braid_client::{Client, File, OpenOptions};

/// Bytes of one call of the sequential rows.
pub const CALL_BYTES: usize = 1 << 20;

/// A file of `bytes`, created and written once unless it exists.
pub fn file(client: &Client, path: &str, bytes: u64) -> Result<File> {
    let file = client.open(path, &OpenOptions::new().read(true).write(true).create(true))?;
    if file.size()? != bytes {
        write(&file, bytes, &vec![0x5a; CALL_BYTES])?;
    }
    Ok(file)
}

/// Writes `0..bytes`, 1 MiB a call.
pub fn write(file: &File, bytes: u64, buffer: &[u8]) -> Result<()> {
    for at in (0..bytes).step_by(buffer.len()) {
        file.write_at(buffer, at)?;
    }
    Ok(())
}

/// Reads `0..bytes`, 1 MiB a call.
pub fn read(file: &File, bytes: u64, buffer: &mut [u8]) -> Result<()> {
    for at in (0..bytes).step_by(buffer.len()) {
        let read = file.read_at(buffer, at)?;
        ensure!(read == buffer.len(), "at {at} only {read} bytes were read");
    }
    Ok(())
}
