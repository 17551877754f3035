//! Sends frames on a connection for any number of threads, one frame at a time.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use braid_wire::FrameHeader;

use super::{mapped_ranges::MappedRange, page_pipe::PagePipe};
use crate::transport::{Transport, Wait};

/// Bytes read at a time when the kernel cannot send a file by itself.
const COPY_BYTES: usize = 64 * 1024;
/// Replaces bytes that a file has lost.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Why a frame was not sent as intended.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The connection has ended; nothing more can be sent.
    #[error("the connection ended: {0}")]
    Connection(#[source] io::Error),
    /// The file could not be read. Zeros fill the frame, so the connection stays usable. Report the
    /// error in the final frame.
    #[error("the file could not be read: {0}")]
    File(#[source] io::Error),
}

/// The sending half of a [`super::ServerConnection`].
#[derive(Debug)]
pub struct FrameSender {
    transport: Arc<Transport>,
    timeout: Duration,
    /// Locked while a frame is sent, so that frames do not mix.
    state: Mutex<SenderState>,
}

#[derive(Debug, Default)]
struct SenderState {
    /// A frame was sent only in part.
    broken: bool,
    /// Buffer for files that the kernel cannot send by itself; allocated on first use.
    copy: Vec<u8>,
    /// For ranges of a mapping.
    pages: PagePipe,
}

impl FrameSender {
    pub(super) fn new(transport: Arc<Transport>, timeout: Duration) -> Self {
        Self { transport, timeout, state: Mutex::default() }
    }

    /// Sends a whole frame: header, body, and the payload from its slices.
    ///
    /// # Errors
    /// [`SendError::Connection`]; the connection is then shut down.
    ///
    /// # Panics
    /// When the lengths in `header` differ from those of `body` and `payload`.
    pub fn send(
        &self,
        header: &FrameHeader,
        body: &[u8],
        payload: &[IoSlice<'_>],
    ) -> Result<(), SendError> {
        let payload_bytes = payload.iter().map(|piece| piece.len()).sum();
        check_lengths(header, body.len(), payload_bytes);
        let header = header.to_bytes();
        let mut pieces = Vec::with_capacity(2 + payload.len());
        pieces.extend([IoSlice::new(&header), IoSlice::new(body)]);
        pieces.extend(payload.iter().map(|piece| IoSlice::new(piece)));
        self.send_frame_with(|_, wait| {
            self.transport.send_all(&mut pieces, false, wait).map_err(SendError::Connection)
        })
    }

    /// Sends whole frames that are already encoded, one after another.
    ///
    /// # Errors
    /// As [`FrameSender::send`].
    pub fn send_frames(&self, frames: &[u8]) -> Result<(), SendError> {
        let mut pieces = [IoSlice::new(frames)];
        self.send_frame_with(|_, wait| {
            self.transport.send_all(&mut pieces, false, wait).map_err(SendError::Connection)
        })
    }

    /// Sends a frame without body whose payload is `length` bytes of `file` from `offset`. Zeros
    /// replace what lies past the end of the file.
    ///
    /// # Errors
    /// As [`FrameSender::send_from_file`].
    pub fn send_data_from_file(
        &self,
        header: &FrameHeader,
        file: &File,
        offset: u64,
        length: usize,
    ) -> Result<(), SendError> {
        self.send_from_file(header, &[], file, offset, length)
    }

    /// Sends a frame whose payload is `length` bytes of `file` from `offset`, by `sendfile` where
    /// the kernel has it and the connection is not encrypted. Zeros replace what lies past the end
    /// of the file.
    ///
    /// # Errors [`SendError::Connection`] as in [`FrameSender::send`]. [`SendError::File`] when the
    /// file cannot be read: send data frames, so that the final frame can still report it.
    ///
    /// # Panics
    /// When the lengths in `header` differ from those of `body` and `length`.
    pub fn send_from_file(
        &self,
        header: &FrameHeader,
        body: &[u8],
        file: &File,
        offset: u64,
        length: usize,
    ) -> Result<(), SendError> {
        check_lengths(header, body.len(), length);
        let header = header.to_bytes();
        self.send_frame_with(|state, wait| {
            let mut head = [IoSlice::new(&header), IoSlice::new(body)];
            self.transport.send_all(&mut head, length > 0, wait).map_err(SendError::Connection)?;
            let (sent, outcome) = self.send_file(file, offset, length, &mut state.copy, wait);
            if !matches!(outcome, Err(SendError::Connection(_))) {
                self.send_zeros(length - sent, wait)?;
            }
            outcome
        })
    }

    /// Whether frames are not encrypted. Encryption would read the mapping in this process.
    pub fn is_plain(&self) -> bool {
        self.transport.is_plain()
    }

    /// Sends a frame without body whose payload is these ranges of mapped files, on a
    /// [plain](Self::is_plain) connection. Zeros replace what lies past the end of a file.
    ///
    /// # Errors
    /// As [`FrameSender::send_from_file`].
    ///
    /// # Panics
    /// When the lengths in `header` differ from those of the ranges, or the connection is
    /// encrypted.
    pub fn send_data_mapped(
        &self,
        header: &FrameHeader,
        payload: &[MappedRange<'_>],
    ) -> Result<(), SendError> {
        check_lengths(header, 0, payload.iter().map(|piece| piece.bytes).sum());
        assert!(self.is_plain(), "pieces of a mapping are for the kernel alone");
        let header = header.to_bytes();
        self.send_frame_with(|state, wait| {
            let mut pieces = Vec::with_capacity(1 + payload.len());
            pieces.push(IoSlice::new(&header));
            pieces.extend(payload.iter().map(MappedRange::as_io_slice));
            match self.send_pieces(&mut pieces, &mut state.pages, wait) {
                (_, Ok(())) => Ok(()),
                (sent, Err(error)) if is_fault(&error) => {
                    // One call sends the header too. If the kernel could not copy a range, it may
                    // not even have sent the header.
                    let mut rest_of_header = [IoSlice::new(&header[sent.min(header.len())..])];
                    self.transport
                        .send_all(&mut rest_of_header, true, wait)
                        .map_err(SendError::Connection)?;
                    self.send_rest(
                        payload,
                        sent.saturating_sub(header.len()),
                        &mut state.copy,
                        wait,
                    )
                }
                (_, Err(error)) => Err(SendError::Connection(error)),
            }
        })
    }

    /// Whether sending a frame failed, so that the connection has ended.
    pub fn is_broken(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).broken
    }

    /// Whether the peer has closed the connection, even if not all it sent earlier is received.
    /// Where the system cannot tell, the next send finds out.
    pub fn is_over(&self) -> bool {
        self.is_broken() || self.transport.is_hung_up()
    }

    /// Ends the connection: the next read of its thread returns.
    pub fn shutdown(&self) {
        self.transport.shutdown();
    }

    fn send_frame_with(
        &self,
        send: impl FnOnce(&mut SenderState, Wait) -> Result<(), SendError>,
    ) -> Result<(), SendError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.broken {
            return Err(SendError::Connection(io::ErrorKind::BrokenPipe.into()));
        }
        let sent = send(&mut state, Wait::Until(Instant::now() + self.timeout));
        if matches!(sent, Err(SendError::Connection(_))) {
            state.broken = true;
            self.transport.shutdown();
        }
        sent
    }

    /// Sends a header and ranges of a mapping. Returns how many bytes, and the outcome.
    fn send_pieces(
        &self,
        pieces: &mut [IoSlice<'_>],
        pages: &mut PagePipe,
        wait: Wait,
    ) -> (usize, io::Result<()>) {
        let bytes: usize = pieces[1..].iter().map(|piece| piece.len()).sum();
        if !PagePipe::is_worthwhile(pieces.len() - 1, bytes) {
            return self.send_counted(pieces, wait);
        }
        let header_bytes = pieces[0].len();
        if let Err(error) = self.transport.send_all(&mut [pieces[0]], true, wait) {
            return (0, Err(error));
        }
        let (sent, outcome) = pages.send(&self.transport, &pieces[1..], wait);
        if outcome.is_err() {
            return (header_bytes + sent, outcome);
        }
        let mut rest = &mut pieces[1..];
        IoSlice::advance_slices(&mut rest, sent);
        let (copied, outcome) = self.send_counted(rest, wait);
        (header_bytes + sent + copied, outcome)
    }

    /// Sends slices. Returns how many bytes, and the outcome.
    fn send_counted(&self, mut pieces: &mut [IoSlice<'_>], wait: Wait) -> (usize, io::Result<()>) {
        let mut sent = 0;
        while !pieces.is_empty() {
            match self.transport.send(pieces, false, wait) {
                Ok(0) => return (sent, Err(io::ErrorKind::WriteZero.into())),
                Ok(bytes) => {
                    sent += bytes;
                    IoSlice::advance_slices(&mut pieces, bytes);
                }
                Err(error) => return (sent, Err(error)),
            }
        }
        (sent, Ok(()))
    }

    /// Reads and sends what lies behind the first `sent` bytes of the ranges: the file was
    /// truncated, or its disk cannot be read.
    fn send_rest(
        &self,
        payload: &[MappedRange<'_>],
        mut sent: usize,
        copy: &mut Vec<u8>,
        wait: Wait,
    ) -> Result<(), SendError> {
        let mut outcome = Ok(());
        for piece in payload {
            let gone = piece.bytes.min(sent);
            sent -= gone;
            let (offset, bytes) = (piece.offset + gone as u64, piece.bytes - gone);
            let (read, read_well) = self.copy_file(piece.file, offset, bytes, copy, wait);
            if !matches!(read_well, Err(SendError::Connection(_))) {
                self.send_zeros(bytes - read, wait)?;
            }
            match read_well {
                Err(SendError::Connection(error)) => return Err(SendError::Connection(error)),
                of_the_file => outcome = outcome.and(of_the_file),
            }
        }
        outcome
    }

    /// Sends what the file has. Returns how many bytes, and the outcome.
    fn send_file(
        &self,
        file: &File,
        offset: u64,
        length: usize,
        copy: &mut Vec<u8>,
        wait: Wait,
    ) -> (usize, Result<(), SendError>) {
        let mut sent = 0;
        while sent < length {
            match self.transport.send_file(file, offset + sent as u64, length - sent, wait) {
                None => return self.encrypt_file(file, offset, length, copy, wait),
                Some(Ok(0)) => break,
                Some(Ok(bytes)) => sent += bytes,
                Some(Err(error)) if is_file_error(&error) => {
                    return (sent, Err(SendError::File(error)));
                }
                Some(Err(error)) => return (sent, Err(SendError::Connection(error))),
            }
        }
        (sent, Ok(()))
    }

    /// Reads the file into the buffer in which it is encrypted.
    fn encrypt_file(
        &self,
        file: &File,
        offset: u64,
        length: usize,
        copy: &mut Vec<u8>,
        wait: Wait,
    ) -> (usize, Result<(), SendError>) {
        let (mut sent, mut failure) = (0, None);
        while sent < length {
            let read = |buffers: &mut [IoSliceMut<'_>]| {
                read_slices_at(file, buffers, offset + sent as u64).map_err(|error| {
                    failure = Some(error);
                    // not an error of the connection, whatever its kind
                    io::Error::other("the file")
                })
            };
            match self.transport.send_from(length - sent, read, wait) {
                None => return self.copy_file(file, offset, length, copy, wait),
                Some(Ok(0)) => break,
                Some(Ok(bytes)) => sent += bytes,
                Some(Err(error)) => {
                    return (
                        sent,
                        Err(failure.map_or(SendError::Connection(error), SendError::File)),
                    );
                }
            }
        }
        (sent, self.transport.flush(wait).map_err(SendError::Connection))
    }

    fn copy_file(
        &self,
        file: &File,
        offset: u64,
        length: usize,
        buffer: &mut Vec<u8>,
        wait: Wait,
    ) -> (usize, Result<(), SendError>) {
        buffer.resize(COPY_BYTES, 0);
        let mut sent = 0;
        while sent < length {
            let want = buffer.len().min(length - sent);
            let bytes = match read_at(file, &mut buffer[..want], offset + sent as u64) {
                Ok(0) => break,
                Ok(bytes) => bytes,
                Err(error) => return (sent, Err(SendError::File(error))),
            };
            let more = sent + bytes < length;
            if let Err(error) =
                self.transport.send_all(&mut [IoSlice::new(&buffer[..bytes])], more, wait)
            {
                return (sent, Err(SendError::Connection(error)));
            }
            sent += bytes;
        }
        (sent, Ok(()))
    }

    fn send_zeros(&self, mut length: usize, wait: Wait) -> Result<(), SendError> {
        while length > 0 {
            let bytes = length.min(ZEROS.len());
            let mut pieces = [IoSlice::new(&ZEROS[..bytes])];
            self.transport
                .send_all(&mut pieces, bytes < length, wait)
                .map_err(SendError::Connection)?;
            length -= bytes;
        }
        Ok(())
    }
}

fn check_lengths(header: &FrameHeader, body: usize, payload: usize) {
    assert!(
        header.body_bytes as usize == body && header.payload_bytes as usize == payload,
        "the header of a frame says {} + {} bytes, the frame has {body} + {payload}",
        header.body_bytes,
        header.payload_bytes,
    );
}

/// `sendfile` reports errors of both sides. These are the errors that a disk causes.
fn is_file_error(error: &io::Error) -> bool {
    use io::ErrorKind as K;
    let of_the_connection =
        [K::BrokenPipe, K::ConnectionReset, K::ConnectionAborted, K::NotConnected, K::TimedOut];
    !of_the_connection.contains(&error.kind())
}

/// A page that the kernel should send is missing.
fn is_fault(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EFAULT)
}

/// Fills a prefix of the slices, in order.
#[cfg(target_os = "linux")]
fn read_slices_at(file: &File, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
    Ok(rustix::io::preadv(file, buffers, offset)?)
}

#[cfg(not(target_os = "linux"))]
fn read_slices_at(file: &File, buffers: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    for buffer in buffers {
        match read_at(file, buffer, offset + read as u64) {
            Ok(bytes) if bytes == buffer.len() => read += bytes,
            Ok(bytes) => return Ok(read + bytes),
            Err(error) if read == 0 => return Err(error),
            Err(_) => break, // the next read reports it again
        }
    }
    Ok(read)
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}
