//! Copying from file to file.

use braid_types::limits::WINDOW_BYTES;

use crate::{error::Result, files::OpenFile, handles::FileHandle, vfs::Vfs};

/// What one call copies at most, so that it ends within the time that a caller waits (I8).
const COPY_BYTES_MAX: u64 = 64 << 20;

impl Vfs {
    /// Copies a range, or its beginning; returns how many bytes. Fewer than asked for also when the source ends.
    ///
    /// # Errors
    /// A handle is not open for it; with the daemon that failed, when nothing was copied before.
    pub fn copy_range(&self, from: (FileHandle, u64), to: (FileHandle, u64), bytes: u64) -> Result<u64> {
        let (source, target) = (self.readable(from.0)?, self.writable(to.0)?);
        let bytes = bytes.min(COPY_BYTES_MAX);
        let mut buffer = vec![0; bytes.min(WINDOW_BYTES) as usize];
        let mut done = 0;
        while done < bytes {
            let room = buffer.len().min((bytes - done) as usize);
            let under = self.holder.begin_write(target.file.index())?;
            let piece = copy_piece(&source, from.1 + done, &target, to.1 + done, &mut buffer[..room]);
            drop(under);
            self.changed(target.file.index());
            let copied = match piece {
                Err(error) if done == 0 => return Err(error.into()),
                Err(_) => break,
                Ok(copied) => copied,
            };
            done += copied as u64;
            // Where the source ended, it ended: what this call itself puts behind it is not copied again.
            if copied < room {
                break;
            }
        }
        Ok(done)
    }
}

fn copy_piece(
    source: &OpenFile,
    from: u64,
    target: &OpenFile,
    to: u64,
    buffer: &mut [u8],
) -> braid_client::Result<usize> {
    let got = source.file.read_at(buffer, from)?;
    target.file.write_at(&buffer[..got], to)
}
