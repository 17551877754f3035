//! `braid cat`.

use std::io::{self, Write};

use braid_client::OpenOptions;

use crate::{config::Settings, connect, output::Fault};

/// Bytes of one read.
const CHUNK_BYTES: usize = 4 << 20;

/// Prints files. A closed pipe ends the command without an error.
pub fn cat(paths: &[String], settings: &Settings) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut out = io::stdout().lock();
    for path in paths {
        let file = client.open(path, &OpenOptions::new().read(true))?;
        let mut offset = 0;
        loop {
            let read = file.read_at(&mut buffer, offset)?;
            match out.write_all(&buffer[..read]) {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                outcome => outcome.map_err(|e| Fault::failed("writing to standard output", e))?,
            }
            offset += read as u64;
            if read < buffer.len() {
                break;
            }
        }
    }
    out.flush().map_err(|e| Fault::failed("writing to standard output", e))
}
