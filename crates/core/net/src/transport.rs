//! A connected socket whose waits are bounded without a system call per wait.
//!
//! The socket has a receive and a send time-out of at most [`WAIT_SLICE`]. A call that must wait
//! longer waits again; the time-out is set again only when less than a slice is left. So the
//! common call, whose deadline is far away, is a single `sendmsg` or `recvmsg`.
//!
//! Invariant: one thread receives and one thread sends at a time. The owners of a transport ensure
//! this; the two threads do not wait for each other.

use std::{
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use braid_wire::CHANNEL_BINDING_BYTES;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

use crate::{
    tcp,
    tls::{Channel, Handshake},
};

/// Maximum length of one wait in the kernel, for calls that have a deadline.
const WAIT_SLICE: Duration = Duration::from_secs(1);
/// See [`fits_a_socket`].
const TRY_BYTES_MAX: usize = 16 * 1024;
/// `IOV_MAX` of Linux: slices that one system call takes.
pub(crate) const PIECES_MAX: usize = 1024;

/// How long an operation may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Does not wait: [`ErrorKind::WouldBlock`].
    No,
    /// Until this time: [`ErrorKind::TimedOut`].
    Until(Instant),
    /// Until the connection ends.
    Forever,
}

/// A connected socket; see the module.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: TcpStream,
    /// Set once TLS is established.
    tls: OnceLock<Channel>,
    receive_timeout: Timeout,
    send_timeout: Timeout,
}

impl Transport {
    /// Takes a connected socket.
    pub(crate) fn new(socket: TcpStream) -> io::Result<Self> {
        // frames are written whole, so waiting for more would only add latency
        socket.set_nodelay(true)?;
        if socket.peer_addr().is_ok_and(|address| is_loopback(&address)) {
            tcp::without_pacing(&socket);
        }
        Ok(Self {
            socket,
            tls: OnceLock::new(),
            receive_timeout: Timeout::default(),
            send_timeout: Timeout::default(),
        })
    }

    /// The socket, and the TLS channel over it. No received byte is lost if
    /// [`has_received`](Self::has_received) is `false`.
    pub(crate) fn into_parts(self) -> (TcpStream, Option<Channel>) {
        (self.socket, self.tls.into_inner())
    }

    /// The socket, for polling.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Whether the peer is on loopback.
    pub(crate) fn is_loopback(&self) -> bool {
        self.socket.peer_addr().is_ok_and(|address| is_loopback(&address))
    }

    /// Sets up TLS over the connection. Returns the value that binds proofs to this channel.
    pub(crate) fn start_tls(
        &self,
        handshake: Handshake,
        wait: Wait,
    ) -> io::Result<[u8; CHANNEL_BINDING_BYTES]> {
        let recv = |buffer: &mut [u8]| self.recv_raw(&mut [IoSliceMut::new(buffer)], wait);
        let (channel, binding) =
            handshake.run(recv, |bytes| self.send_all(&mut [IoSlice::new(bytes)], false, wait))?;
        assert!(self.tls.set(channel).is_ok(), "TLS is set up once");
        Ok(binding)
    }

    /// Receives into `pieces` in order. Returns 0 when the peer closed the connection.
    pub(crate) fn recv(&self, pieces: &mut [IoSliceMut<'_>], wait: Wait) -> io::Result<usize> {
        match self.tls.get() {
            None => self.recv_raw(pieces, wait),
            Some(tls) => tls.recv(pieces, |buffers| self.recv_raw(buffers, wait)),
        }
    }

    fn recv_raw(&self, pieces: &mut [IoSliceMut<'_>], wait: Wait) -> io::Result<usize> {
        let count = pieces.len().min(PIECES_MAX);
        let mut receive = |wait| sys::recv(&self.socket, &mut pieces[..count], wait);
        // Bytes that have arrived are read without a new time-out. Otherwise a server that waits
        // without limit for the next request would set one for each payload, and reset it
        // afterwards. They are read even when the time is up: a thread that waited for another
        // connection has not waited for this one.
        if self.receive_timeout.is_tried_before(wait) {
            match receive(Wait::No) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                done => return done,
            }
        }
        self.receive_timeout.apply(
            wait,
            |time| self.socket.set_read_timeout(time),
            || receive(wait),
        )
    }

    /// Whether the bytes on the socket are not encrypted.
    pub(crate) fn is_plain(&self) -> bool {
        self.tls.get().is_none()
    }

    /// Moves a prefix of the next `bytes` of a plain connection into a pipe. Returns 0 when the
    /// peer closed the connection, and [`ErrorKind::StorageFull`] when the pipe is full.
    #[cfg(target_os = "linux")]
    pub(crate) fn splice_into(
        &self,
        pipe: &std::os::fd::OwnedFd,
        bytes: usize,
        wait: Wait,
    ) -> io::Result<usize> {
        let set = |time| self.socket.set_read_timeout(time);
        self.receive_timeout.apply(wait, set, || sys::splice_into(&self.socket, pipe, bytes))
    }

    /// Moves a prefix of `bytes` from a pipe to a plain connection. Returns how many. `more`:
    /// further bytes follow immediately.
    #[cfg(target_os = "linux")]
    pub(crate) fn splice_from(
        &self,
        pipe: &std::os::fd::OwnedFd,
        bytes: usize,
        more: bool,
        wait: Wait,
    ) -> io::Result<usize> {
        let set = |time| self.socket.set_write_timeout(time);
        self.send_timeout.apply(wait, set, || sys::splice_from(pipe, &self.socket, bytes, more))
    }

    /// Whether there may be bytes to receive that `poll` does not report.
    pub(crate) fn has_received(&self) -> bool {
        self.tls.get().is_some_and(Channel::has_received)
    }

    /// Whether [`Transport::send`] took bytes that [`Transport::flush`] must still send.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.get().is_some_and(Channel::has_unsent)
    }

    /// Sends the bytes that were taken and not sent.
    pub(crate) fn flush(&self, wait: Wait) -> io::Result<()> {
        let Some(tls) = self.tls.get() else { return Ok(()) };
        self.repeat_tls(wait, || tls.flush(|bytes| self.send_raw_now(bytes)))
    }

    fn send_raw_now(&self, bytes: &[u8]) -> io::Result<usize> {
        sys::send(&self.socket, &[IoSlice::new(bytes)], false, Wait::No)
    }

    /// Repeats a nonblocking operation until the socket has space for it. `wait` limits the time.
    fn repeat_tls<T>(
        &self,
        wait: Wait,
        mut operation: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match operation() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && wait != Wait::No => {
                    self.wait_for_space(wait)?
                }
                done => return done,
            }
        }
    }

    fn wait_for_space(&self, wait: Wait) -> io::Result<()> {
        let left = match wait {
            Wait::Until(deadline) => {
                deadline.saturating_duration_since(Instant::now()).min(WAIT_SLICE)
            }
            _ => WAIT_SLICE,
        };
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        match poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], Some(&timespec(left))) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until there are bytes to receive or the connection has ended. `false`: not within
    /// `time`.
    pub(crate) fn wait_for_bytes(&self, time: Duration) -> io::Result<bool> {
        if self.has_received() {
            return Ok(true);
        }
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timespec(time))) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives into one buffer.
    pub(crate) fn recv_into(&self, buffer: &mut [u8], wait: Wait) -> io::Result<usize> {
        self.recv(&mut [IoSliceMut::new(buffer)], wait)
    }

    /// Sends a prefix of `pieces`. Returns how many bytes. `more`: further bytes, or
    /// [`Transport::flush`], follow immediately.
    pub(crate) fn send(&self, pieces: &[IoSlice<'_>], more: bool, wait: Wait) -> io::Result<usize> {
        let pieces = &pieces[..pieces.len().min(PIECES_MAX)];
        if let Some(tls) = self.tls.get() {
            return self
                .repeat_tls(wait, || tls.send(pieces, more, |bytes| self.send_raw_now(bytes)));
        }
        if sys::CAN_TRY && wait != Wait::No && fits_a_socket(pieces) {
            match sys::send(&self.socket, pieces, more, Wait::No) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                sent => return sent,
            }
        }
        let send = || sys::send(&self.socket, pieces, more, wait);
        self.send_timeout.apply(wait, |time| self.socket.set_write_timeout(time), send)
    }

    /// Sends all of `pieces`.
    pub(crate) fn send_all(
        &self,
        mut pieces: &mut [IoSlice<'_>],
        more: bool,
        wait: Wait,
    ) -> io::Result<()> {
        IoSlice::advance_slices(&mut pieces, 0); // drops empty slices in front
        while !pieces.is_empty() {
            match self.send(pieces, more, wait)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                sent => IoSlice::advance_slices(&mut pieces, sent),
            }
        }
        if more { Ok(()) } else { self.flush(wait) }
    }

    /// Sends `length` bytes of `file` from `offset` without copying them through this process.
    /// Returns how many; 0 at the end of the file. `None` where that is not possible.
    pub(crate) fn send_file(
        &self,
        file: &std::fs::File,
        offset: u64,
        length: usize,
        wait: Wait,
    ) -> Option<io::Result<usize>> {
        let send = || sys::send_file(&self.socket, file, offset, length);
        let can = sys::CAN_SEND_FILE && self.tls.get().is_none();
        can.then(|| self.send_timeout.apply(wait, |time| self.socket.set_write_timeout(time), send))
    }

    /// Encrypts a prefix of `length` bytes that `read` puts into the given slices. Returns how many
    /// bytes `read` had. `None` on a plain connection. [`Transport::flush`] sends the rest.
    pub(crate) fn send_from(
        &self,
        length: usize,
        mut read: impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
        wait: Wait,
    ) -> Option<io::Result<usize>> {
        let tls = self.tls.get()?;
        Some(self.repeat_tls(wait, || {
            tls.send_from(length, &mut read, |bytes| self.send_raw_now(bytes))
        }))
    }

    /// Whether the peer has closed its half.
    pub(crate) fn is_hung_up(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
            let mut polled = [PollFd::new(&self.socket, PollFlags::RDHUP)];
            poll(&mut polled, Some(&timespec(Duration::ZERO))).is_ok()
                && polled[0].revents().intersects(gone)
        }
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Ends the connection in both directions. Threads that wait in it return.
    pub(crate) fn shutdown(&self) {
        let _ = self.socket.shutdown(Shutdown::Both); // fails only when it has already ended
    }

    /// Ends the sending direction.
    pub(crate) fn finish_sending(&self) {
        let _ = self.socket.shutdown(Shutdown::Write); // as above
    }
}

/// Whether a socket nearly always has space for the bytes. Then a send is tried first without
/// reading the clock, which a wait would need.
fn fits_a_socket(pieces: &[IoSlice<'_>]) -> bool {
    pieces.iter().map(|piece| piece.len()).sum::<usize>() <= TRY_BYTES_MAX
}

pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ }
}

pub(crate) fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// A time-out of the socket, set only when it changes.
#[derive(Debug, Default)]
struct Timeout {
    /// The value in the kernel, in ns; 0 for none.
    set_ns: AtomicU64,
}

impl Timeout {
    /// Repeats `operation` until its result is something other than the socket's time-out.
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
                // Windows reports TimedOut, Unix WouldBlock
                Err(e)
                    if wait != Wait::No
                        && matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                done => return done,
            }
        }
    }

    /// Whether to try first without waiting: a wait would need a new time-out in the kernel, or no
    /// time is left.
    fn is_tried_before(&self, wait: Wait) -> bool {
        match (wait, slice(wait)) {
            (Wait::No, _) => false,
            (_, Some(Duration::ZERO)) => true,
            (_, want) => sys::CAN_TRY && self.set_ns.load(Ordering::Relaxed) != nanoseconds(want),
        }
    }

    fn prepare(
        &self,
        wait: Wait,
        set: impl Fn(Option<Duration>) -> io::Result<()>,
    ) -> io::Result<()> {
        let want = slice(wait);
        if want == Some(Duration::ZERO) {
            return Err(ErrorKind::TimedOut.into());
        }
        let want_ns = nanoseconds(want);
        if self.set_ns.swap(want_ns, Ordering::Relaxed) != want_ns {
            set(want)?;
        }
        Ok(())
    }
}

/// The time-out of the next wait: `None` for no limit, zero once the time is up.
fn slice(wait: Wait) -> Option<Duration> {
    let Wait::Until(deadline) = wait else { return None };
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Some(Duration::ZERO),
        left => Some(left.min(WAIT_SLICE).max(Duration::from_millis(1))),
    }
}

fn nanoseconds(timeout: Option<Duration>) -> u64 {
    timeout.map_or(0, |time| time.as_nanos() as u64)
}

/// Uses `MSG_NOSIGNAL`, so that a dead peer is an error and not a signal in programs that are not
/// written in Rust. Uses `MSG_DONTWAIT`, so that a socket need not switch modes.
#[cfg(target_os = "linux")]
mod sys {
    use std::{
        fs::File,
        io::{self, IoSlice, IoSliceMut},
        net::TcpStream,
        os::fd::OwnedFd,
        time::Duration,
    };

    use rustix::{
        event::{PollFd, PollFlags, poll},
        io::Errno,
        net::{RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg},
        pipe::{SpliceFlags, splice},
    };

    use super::{Wait, timespec};

    pub(super) const CAN_SEND_FILE: bool = true;
    /// Whether [`send`] without waiting costs no more than with waiting.
    pub(super) const CAN_TRY: bool = true;

    pub(super) fn recv(
        socket: &TcpStream,
        pieces: &mut [IoSliceMut<'_>],
        wait: Wait,
    ) -> io::Result<usize> {
        let flags = if wait == Wait::No { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
        if let [piece] = pieces {
            return Ok(rustix::net::recv(socket, &mut **piece, flags)?.1);
        }
        Ok(recvmsg(socket, pieces, &mut RecvAncillaryBuffer::default(), flags)?.bytes)
    }

    pub(super) fn send(
        socket: &TcpStream,
        pieces: &[IoSlice<'_>],
        more: bool,
        wait: Wait,
    ) -> io::Result<usize> {
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::DONTWAIT, wait == Wait::No);
        flags.set(SendFlags::MORE, more);
        if let [piece] = pieces {
            return Ok(rustix::net::send(socket, piece, flags)?);
        }
        Ok(sendmsg(socket, pieces, &mut SendAncillaryBuffer::default(), flags)?)
    }

    /// Waits for the socket, up to its time-out, and never for the pipe.
    pub(super) fn splice_into(
        socket: &TcpStream,
        pipe: &OwnedFd,
        bytes: usize,
    ) -> io::Result<usize> {
        match splice(socket, None, pipe, None, bytes, SpliceFlags::NONBLOCK) {
            Err(Errno::AGAIN) if !has_space(pipe)? => Err(io::ErrorKind::StorageFull.into()),
            done => Ok(done?),
        }
    }

    /// Waits for the socket, up to its time-out.
    pub(super) fn splice_from(
        pipe: &OwnedFd,
        socket: &TcpStream,
        bytes: usize,
        more: bool,
    ) -> io::Result<usize> {
        let flags = if more { SpliceFlags::MORE } else { SpliceFlags::empty() };
        Ok(splice(pipe, None, socket, None, bytes, flags)?)
    }

    fn has_space(pipe: &OwnedFd) -> io::Result<bool> {
        let mut polled = [PollFd::new(pipe, PollFlags::OUT)];
        poll(&mut polled, Some(&timespec(Duration::ZERO)))?;
        Ok(polled[0].revents().contains(PollFlags::OUT))
    }

    pub(super) fn send_file(
        socket: &TcpStream,
        file: &File,
        offset: u64,
        length: usize,
    ) -> io::Result<usize> {
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
    pub(super) const CAN_TRY: bool = false;

    pub(super) fn recv(
        mut socket: &TcpStream,
        pieces: &mut [IoSliceMut<'_>],
        wait: Wait,
    ) -> io::Result<usize> {
        in_mode(socket, wait, || socket.read_vectored(pieces))
    }

    pub(super) fn send(
        mut socket: &TcpStream,
        pieces: &[IoSlice<'_>],
        _: bool,
        wait: Wait,
    ) -> io::Result<usize> {
        in_mode(socket, wait, || socket.write_vectored(pieces))
    }

    pub(super) fn send_file(_: &TcpStream, _: &File, _: u64, _: usize) -> io::Result<usize> {
        Err(ErrorKind::Unsupported.into())
    }

    fn in_mode(
        socket: &TcpStream,
        wait: Wait,
        operation: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        if wait != Wait::No {
            return operation();
        }
        socket.set_nonblocking(true)?;
        let done = operation();
        socket.set_nonblocking(false)?;
        done
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn both_ends_on_loopback_take_reno() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client =
            Transport::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
        let server = Transport::new(listener.accept().unwrap().0).unwrap();
        for transport in [client, server] {
            assert_eq!(rustix::net::sockopt::tcp_congestion(transport.socket()).unwrap(), "reno");
        }
    }
}
