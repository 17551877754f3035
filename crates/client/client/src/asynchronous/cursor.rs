//! A file with a cursor, for async programs.

use std::{
    fmt,
    io::{IoSlice, IoSliceMut, SeekFrom},
};

use braid_net::Driver;

use super::File;
use crate::error::Result;

/// An open file with its own position, which its calls move. They take `&mut self`, so that two
/// tasks cannot conflict over it. Calls that do not move it are available through [`Cursor::file`].
///
/// ```no_run
/// use std::io::SeekFrom;
/// use braid_client::{Config, Credential, OpenOptions, asynchronous::Client};
/// # async fn example() -> Result<(), braid_client::Error> {
/// # let credential = Credential::from_key_file("/etc/braid/client.key")?;
/// # let client = Client::connect(Config::new(["mds:7000"], credential)).await?;
/// let mut log = client.open("/log", &OpenOptions::new().write(true)).await?.cursor();
/// log.seek(SeekFrom::End(0)).await?;
/// log.write(b"one more line\n").await?;
/// log.into_file().close().await?;
/// # Ok(()) }
/// ```
pub struct Cursor<D: Driver> {
    file: File<D>,
    position: u64,
}

impl<D: Driver> fmt::Debug for Cursor<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor")
            .field("file", &self.file)
            .field("position", &self.position)
            .finish()
    }
}

impl<D: Driver> Cursor<D> {
    pub(super) fn new(file: File<D>) -> Self {
        Self { file, position: 0 }
    }

    /// The file, which the cursor does not affect.
    pub fn file(&self) -> &File<D> {
        &self.file
    }

    /// The file without the cursor.
    pub fn into_file(self) -> File<D> {
        self.file
    }

    /// Where the next read or write begins, in bytes of the view's stream.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Moves the cursor. It may pass the end; a write there leaves a hole that reads as zeros.
    ///
    /// # Errors
    /// [`crate::Status::Invalid`] before the beginning: the cursor does not move.
    pub async fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.position =
            self.file.file.position_after_seek(&self.file.view, self.position, to).await?;
        Ok(self.position)
    }

    /// Reads from the cursor. Returns the number of bytes, which is less than requested only at the
    /// end of the file.
    ///
    /// # Errors
    /// With the path and the daemon: the cursor does not move.
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(buffer)]).await
    }

    /// Reads from the cursor into several buffers, one after the other.
    ///
    /// # Errors
    /// As [`Cursor::read`].
    pub async fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let bytes = self.file.read_vectored_at(buffers, self.position).await?;
        self.position += bytes as u64;
        Ok(bytes)
    }

    /// Writes all of `buffer` at the cursor.
    ///
    /// # Errors
    /// With the path and the daemon: the cursor does not move.
    pub async fn write(&mut self, buffer: &[u8]) -> Result<usize> {
        self.write_vectored(&[IoSlice::new(buffer)]).await
    }

    /// Writes several buffers, one after the other, at the cursor.
    ///
    /// # Errors
    /// As [`Cursor::write`].
    pub async fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> Result<usize> {
        let bytes = self.file.write_vectored_at(buffers, self.position).await?;
        self.position += bytes as u64;
        Ok(bytes)
    }
}
