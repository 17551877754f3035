//! Writes whole frames, one after the other.

use std::io::{self, IoSlice};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::STALL_MAX;

/// A peer that reads more slowly than this for long is disconnected: else one that reads a byte now
/// and then would hold the response's memory. 1 MiB of a response may take 16 s, besides
/// [`STALL_MAX`] once.
const SLOWEST_BYTES_PER_SECOND: u64 = 64 << 10;
/// Most slices of one `writev`. A frame has few; more are written in several calls.
const SLICES_MAX: usize = 64;

type Stream = Box<dyn AsyncWrite + Send + Unpin>;

/// The sending half of a connection.
pub(super) struct Writer {
    stream: Mutex<Option<Stream>>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    pub fn new(stream: Stream) -> Self {
        Self { stream: Mutex::new(Some(stream)) }
    }

    /// Writes one frame, MS-SMB2 2.1. After an error, or when it is cancelled in the middle of a
    /// frame, the stream is unusable, and every later call fails. `TimedOut` is a peer that does
    /// not read.
    pub async fn send(&self, frame: &[Bytes]) -> io::Result<()> {
        let mut guard = self.stream.lock().await;
        // Taken until the frame is complete: a cancelled call leaves nothing to continue with.
        let mut stream = guard.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let length: usize = frame.iter().map(Bytes::len).sum();
        let length = u32::try_from(length).ok().filter(|length| *length < 1 << 24);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        let prefix = length.to_be_bytes();
        let slices = [&prefix[..]].into_iter().chain(frame.iter().map(|slice| &slice[..]));
        let longest = STALL_MAX + Duration::from_secs(u64::from(length) / SLOWEST_BYTES_PER_SECOND);
        timeout(longest, write_all(&mut stream, slices)).await??;
        *guard = Some(stream);
        Ok(())
    }

    /// Sends what is buffered, and the end of the stream.
    pub async fn shut_down(&self) {
        if let Some(mut stream) = self.stream.lock().await.take() {
            // The peer may be gone.
            let _ = timeout(STALL_MAX, stream.shutdown()).await;
        }
    }
}

async fn write_all<'a>(
    stream: &mut Stream,
    slices: impl Iterator<Item = &'a [u8]>,
) -> io::Result<()> {
    let slices: Vec<_> = slices.filter(|slice| !slice.is_empty()).map(IoSlice::new).collect();
    let mut slices = slices;
    let mut left = &mut slices[..];
    while !left.is_empty() {
        let now = left.len().min(SLICES_MAX);
        let written = timeout(STALL_MAX, stream.write_vectored(&left[..now])).await??;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut left, written);
    }
    stream.flush().await
}
