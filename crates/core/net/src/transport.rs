//! A connected socket whose waits are bounded without a system call per wait.
//!
//! The socket has a receive and a send timeout of at most [`WAIT_SLICE`]; a call that must wait longer
//! waits again, and the timeout is only set anew when less than a slice is left. So the common call, whose
//! deadline is far away, is one `sendmsg` or one `recvmsg` and nothing else.
//!
//! Invariant: one thread receives and one thread sends at a time (the owners of a transport see to that);
//! the two do not wait for each other.

use std::{
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// The longest single wait in the kernel of a call that has a deadline.
const WAIT_SLICE: Duration = Duration::from_secs(1);
/// `IOV_MAX` of Linux: pieces that one system call takes.
pub(crate) const PIECES_MAX: usize = 1024;

/// How long an operation may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Not at all: [`ErrorKind::WouldBlock`].
    No,
    /// Until then: [`ErrorKind::TimedOut`].
    Until(Instant),
    /// Until the connection ends.
    Forever,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: TcpStream,
    receive_timeout: Timeout,
    send_timeout: Timeout,
}

impl Transport {
    /// Takes a connected socket.
    pub(crate) fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?; // every frame is written whole; waiting for more only costs latency
        Ok(Self { socket, receive_timeout: Timeout::default(), send_timeout: Timeout::default() })
    }

    /// The socket, to be polled.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether the peer is on loopback.
    pub(crate) fn is_loopback(&self) -> bool {
        self.socket.peer_addr().is_ok_and(|address| is_loopback(&address))
    }

    /// Receives into `pieces` in order; 0 when the peer ended the connection.
    pub(crate) fn recv(&self, pieces: &mut [IoSliceMut<'_>], wait: Wait) -> io::Result<usize> {
        let count = pieces.len().min(PIECES_MAX);
        self.receive_timeout.apply(
            wait,
            |time| self.socket.set_read_timeout(time),
            || sys::recv(&self.socket, &mut pieces[..count], wait),
        )
    }

    /// Receives into one buffer.
    pub(crate) fn recv_into(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        self.recv(&mut [IoSliceMut::new(buffer)], wait)
    }

    /// Sends a beginning of `pieces`; how many bytes. `more`: further bytes follow at once.
    pub(crate) fn send(&self, pieces: &[IoSlice<'_>], more: bool, wait: Wait) -> io::Result<usize> {
        let pieces = &pieces[..pieces.len().min(PIECES_MAX)];
        self.send_timeout.apply(
            wait,
            |time| self.socket.set_write_timeout(time),
            || sys::send(&self.socket, pieces, more, wait),
        )
    }

    /// Sends all of `pieces`.
    pub(crate) fn send_all(&self, mut pieces: &mut [IoSlice<'_>], more: bool, wait: Wait) -> io::Result<()> {
        IoSlice::advance_slices(&mut pieces, 0); // drops empty pieces in front
        while !pieces.is_empty() {
            match self.send(pieces, more, wait)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                sent => IoSlice::advance_slices(&mut pieces, sent),
            }
        }
        Ok(())
    }

    /// Sends `length` bytes of `file` from `offset` without copying them through this process; how many
    /// were sent, 0 at the end of the file. `None` where that is not possible here.
    pub(crate) fn send_file(
        &self,
        file: &std::fs::File,
        offset: u64,
        length: usize,
        wait: Wait,
    ) -> Option<io::Result<usize>> {
        let send = || sys::send_file(&self.socket, file, offset, length);
        sys::CAN_SEND_FILE.then(|| self.send_timeout.apply(wait, |time| self.socket.set_write_timeout(time), send))
    }

    /// Ends the connection in both directions; whoever waits in it returns.
    pub(crate) fn shutdown(&self) {
        let _ = self.socket.shutdown(Shutdown::Both); // fails only when it is already ended
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish_sending(&self) {
        let _ = self.socket.shutdown(Shutdown::Write); // as above
    }
}

pub(crate) fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// A timeout of the socket, set only when it changes.
#[derive(Debug, Default)]
struct Timeout {
    /// What the kernel has, in ns; 0 for none.
    set_ns: AtomicU64,
}

impl Timeout {
    /// Repeats `operation` until it does something other than run into the socket's timeout.
    fn apply(
        &self,
        wait: Wait,
        set: impl Fn(Option<Duration>) -> io::Result<()>,
        mut operation: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            if wait != Wait::No {
                self.prepare(wait, &set)?;
            }
            match operation() {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Windows says TimedOut, Unix WouldBlock
                Err(e) if wait != Wait::No && matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                done => return done,
            }
        }
    }

    fn prepare(&self, wait: Wait, set: impl Fn(Option<Duration>) -> io::Result<()>) -> io::Result<()> {
        let want = match wait {
            Wait::Until(deadline) => match deadline.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return Err(ErrorKind::TimedOut.into()),
                left => Some(left.min(WAIT_SLICE).max(Duration::from_millis(1))),
            },
            _ => None,
        };
        let want_ns = want.map_or(0, |time| time.as_nanos() as u64);
        if self.set_ns.swap(want_ns, Ordering::Relaxed) != want_ns {
            set(want)?;
        }
        Ok(())
    }
}

/// `MSG_NOSIGNAL`, so that a dead peer is an error and not a signal in a program that is not Rust's, and
/// `MSG_DONTWAIT`, so that a socket need not be switched between modes.
#[cfg(target_os = "linux")]
mod sys {
    use std::{
        fs::File,
        io::{self, IoSlice, IoSliceMut},
        net::TcpStream,
    };

    use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg};

    use super::Wait;

    pub(super) const CAN_SEND_FILE: bool = true;

    pub(super) fn recv(socket: &TcpStream, pieces: &mut [IoSliceMut<'_>], wait: Wait) -> io::Result<usize> {
        let flags = if wait == Wait::No { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        if let [piece] = pieces {
            return Ok(rustix::net::recv(socket, &mut **piece, flags)?.1);
        }
        Ok(recvmsg(socket, pieces, &mut RecvAncillaryBuffer::default(), flags)?.bytes)
    }

    pub(super) fn send(socket: &TcpStream, pieces: &[IoSlice<'_>], more: bool, wait: Wait) -> io::Result<usize> {
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::DONTWAIT, wait == Wait::No);
        flags.set(SendFlags::MORE, more);
        if let [piece] = pieces {
            return Ok(rustix::net::send(socket, piece, flags)?);
        }
        Ok(sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), flags)?)
    }

    pub(super) fn send_file(socket: &TcpStream, file: &File, offset: u64, length: usize) -> io::Result<usize> {
        let mut offset = offset;
        Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), length)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use std::{
        fs::File,
        io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write},
        net::TcpStream,
    };

    use super::Wait;

    pub(super) const CAN_SEND_FILE: bool = false;

    pub(super) fn recv(mut socket: &TcpStream, pieces: &mut [IoSliceMut<'_>], wait: Wait) -> io::Result<usize> {
        in_mode(socket, wait, || socket.read_vectored(pieces))
    }

    pub(super) fn send(mut socket: &TcpStream, pieces: &[IoSlice<'_>], _: bool, wait: Wait) -> io::Result<usize> {
        in_mode(socket, wait, || socket.write_vectored(pieces))
    }

    pub(super) fn send_file(_: &TcpStream, _: &File, _: u64, _: usize) -> io::Result<usize> {
        Err(ErrorKind::Unsupported.into())
    }

    fn in_mode(socket: &TcpStream, wait: Wait, operation: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        if wait != Wait::No {
            return operation();
        }
        socket.set_nonblocking(true)?;
        let done = operation();
        socket.set_nonblocking(false)?;
        done
    }
}
