//! The receive window of a connection: what its peer may have on the way.
//!
//! ```text
//!   before connecting, and at a listener: a small buffer, so that the first payloads find the window small; the window's scale
//!                      is the usual one
//!   with a share:      the buffer is fixed, at three times the share, which holds it however it is packed; and the window is
//!                      clamped to the share. When the first full segment comes the kernel takes what the buffer can hold for
//!                      the clamp: so the buffer is half as large until an answer was there, and the clamp is set each time
//!   with a smaller:    the clamp at once, the buffer when what was allowed before has come
//!   without:           the system's own way (it grows both as it sees fit)
//! ```
//!
//! What was allowed is not taken back. A buffer that is too small for it makes the kernel drop what the peer then sends, which it
//! sends again after a time-out of 200 ms when nothing follows.
//!
//! Source: tcp(7), `TCP_WINDOW_CLAMP`, `TCP_INFO`; socket(7), `SO_RCVBUF`; Linux's net/ipv4/tcp_input.c.
#![allow(unsafe_code)] // options that no safe wrapper has

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use crate::{
    intake::Received,
    transport::{Transport, is_loopback},
};

/// Shares up to this are set. A buffer that holds more may be larger than the system lets everybody ask for.
#[cfg(target_os = "linux")]
const SHARE_BYTES_MAX: u32 = 128 << 10;
/// Before a connection is there: the kernel makes a window of about so many bytes of it.
#[cfg(target_os = "linux")]
const FIRST_BYTES: i32 = 8 << 10;

/// Linux's usual buffer, half of which it adds.
#[cfg(target_os = "linux")]
const USUAL_BYTES: i32 = 64 << 10;
/// Two full segments with what the kernel needs itself, half of which it adds.
const BUFFER_BYTES_MIN: u32 = 4 << 10;
/// [`Window::buffer`]: as the system has it.
const SYSTEMS: u32 = 0;
/// [`Window::buffer`]: as large as the system had made it.
const HELD: u32 = u32::MAX;

/// What was seen of the way here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// The shortest round trip of late; zero where none is known.
    pub(crate) round_trip: Duration,
    /// The largest segment that the peer may send, in bytes: with a window of less it waits for a timer.
    pub(crate) segment: u32,
    /// Segments that came before one that was sent earlier: what stood between was lost, or took another way.
    pub(crate) out_of_order: u32,
    /// Bytes that came in order, ever.
    pub(crate) received: u64,
    /// The largest window that the kernel offers now.
    pub(crate) offered: u32,
}

/// The window of one connection that is not on loopback.
#[derive(Debug)]
pub(crate) struct Window {
    /// The other end.
    pub(crate) peer: SocketAddr,
    /// The size that its buffer is fixed at, or [`SYSTEMS`], or [`HELD`].
    buffer: u32,
    /// While the buffer is larger than its share is: when so many bytes have been taken, what was allowed before has come.
    open_until: Option<u64>,
    /// No answer was there yet.
    is_new: bool,
    /// A share is two segments at least.
    least: u32,
    out_of_order: u32,
}

impl Window {
    /// `None` on loopback, and where the system does not tell what it sees.
    pub(crate) fn of(transport: &Transport) -> Option<Self> {
        let peer = transport.socket().peer_addr().ok().filter(|peer| !is_loopback(peer))?;
        let seen = sys::seen(transport.socket())?;
        Some(Self { least: 2 * seen.segment, out_of_order: seen.out_of_order, ..Self::new(peer) })
    }

    /// One of a connection on loopback, for tests.
    #[cfg(test)]
    pub(crate) fn anyway(transport: &Transport) -> Self {
        let peer = transport.socket().peer_addr().expect("its other end");
        Self { least: 2 * (u16::MAX as u32 - 52), ..Self::new(peer) }
    }

    fn new(peer: SocketAddr) -> Self {
        Self { peer, buffer: SYSTEMS, open_until: None, is_new: true, least: 0, out_of_order: 0 }
    }

    /// Before the connection receives.
    pub(crate) fn begin(&mut self, socket: &TcpStream, share: Option<u32>) {
        let share =
            share.map(|bytes| bytes.max(self.least)).filter(|bytes| *bytes <= sys::SHARE_BYTES_MAX);
        // What cannot be set leaves the system's own way.
        let _ = match share {
            Some(bytes) => self.set(socket, bytes),
            None if self.buffer != SYSTEMS => {
                (self.buffer, self.open_until) = (SYSTEMS, None);
                sys::release(socket)
            }
            None => Ok(()),
        };
    }

    fn set(&mut self, socket: &TcpStream, share: u32) -> io::Result<()> {
        // The kernel doubles it.
        let buffer = if self.is_new { share * 3 / 4 } else { share * 3 / 2 }.max(BUFFER_BYTES_MIN);
        if !self.is_kept(socket, buffer) {
            if std::mem::replace(&mut self.buffer, buffer) != buffer {
                sys::fix_buffer(socket, buffer)?;
            }
        } else if self.buffer == SYSTEMS {
            self.buffer = HELD;
            let _ = sys::hold_buffer(socket); // an older system lets it grow on
        }
        sys::clamp(socket, share)
    }

    /// Whether the buffer stays although this one would do for the share: the peer may have on the way what was allowed before.
    fn is_kept(&mut self, socket: &TcpStream, buffer: u32) -> bool {
        let shrinks = !self.is_new && (self.buffer == SYSTEMS || buffer < self.buffer);
        let seen = if shrinks { sys::seen(socket) } else { None };
        let kept = seen.is_some_and(|seen| {
            let until = *self.open_until.get_or_insert(seen.received + u64::from(seen.offered));
            seen.received.saturating_sub(sys::unread(socket)) < until
        });
        if !kept {
            self.open_until = None;
        }
        kept
    }

    /// After it: what was seen is added.
    pub(crate) fn end(&mut self, socket: &TcpStream, received: &mut Received) {
        self.is_new = false;
        if let Some(seen) = sys::seen(socket) {
            let before = std::mem::replace(&mut self.out_of_order, seen.out_of_order);
            received.out_of_order += seen.out_of_order.wrapping_sub(before);
            if !seen.round_trip.is_zero() {
                received.round_trips.push((self.peer.ip(), seen.round_trip));
            }
        }
    }
}

/// Connects within `left`. The first answers find a small window, unless the peer is on loopback.
pub(crate) fn connect(address: &SocketAddr, left: Duration) -> io::Result<TcpStream> {
    sys::connect(address, left)
}

/// Nothing is lost on loopback: BBR, where it is the system's choice, costs both ends a tenth to a fifth more CPU there than Reno
/// (docs/results/parallel-notes.md, Over MPI), and timers for the life of a connection that began with it.
pub(crate) fn without_pacing(socket: &TcpStream) {
    sys::without_pacing(socket);
}

/// Who connects to `listener` from now on finds a small window.
pub(crate) fn accept_small(listener: &TcpListener) {
    match listener.local_addr() {
        Ok(address) if is_loopback(&address) => sys::without_pacing(listener),
        _ => sys::accept_small(listener), // an older system has the window as it has it
    }
}

/// A connection from loopback that was accepted small has its window as the system has it.
pub(crate) fn accepted_near(socket: &TcpStream) {
    sys::accepted_near(socket);
}

#[cfg(target_os = "linux")]
mod sys {
    use std::{
        io,
        mem::{MaybeUninit, offset_of, size_of},
        net::{SocketAddr, TcpListener, TcpStream},
        os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        time::{Duration, Instant},
    };

    use rustix::{
        event::{PollFd, PollFlags, poll},
        io::{Errno, ioctl_fionread},
        net::{
            AddressFamily, SocketFlags, SocketType, connect as begin_connect, socket_with,
            sockopt::{set_tcp_congestion, socket_error},
        },
    };

    pub(super) use super::SHARE_BYTES_MAX;
    use super::{FIRST_BYTES, Seen, USUAL_BYTES};
    use crate::transport::{is_loopback, timespec};

    /// `SO_BUF_LOCK`'s value for buffers whose size is the system's affair; since Linux 5.14.
    const UNLOCKED: i32 = 0;
    /// For a receive buffer that stays as it is.
    const RECEIVE_LOCKED: i32 = 2;

    pub(super) fn seen(socket: &TcpStream) -> Option<Seen> {
        let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
        let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        // SAFETY: the descriptor is open for the borrow; the kernel writes at most `bytes` bytes to `info`, which has as many.
        let failed = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                level,
                option,
                info.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        if failed != 0
            || (bytes as usize) < offset_of!(libc::tcp_info, tcpi_rcv_ooopack) + size_of::<u32>()
        {
            return None;
        }
        // SAFETY: plain numbers, of which all bytes are set: by the kernel, or to zero.
        let info = unsafe { info.assume_init() };
        // The kernel has u32::MAX for "none yet".
        let round_trip = if info.tcpi_min_rtt == u32::MAX { 0 } else { info.tcpi_min_rtt };
        let round_trip = Duration::from_micros(round_trip.into());
        Some(Seen {
            round_trip,
            segment: info.tcpi_advmss,
            out_of_order: info.tcpi_rcv_ooopack,
            received: info.tcpi_bytes_received,
            offered: info.tcpi_rcv_ssthresh,
        })
    }

    /// Bytes that came and were not taken yet.
    pub(super) fn unread(socket: &TcpStream) -> u64 {
        ioctl_fionread(socket).unwrap_or(0)
    }

    pub(super) fn connect(address: &SocketAddr, left: Duration) -> io::Result<TcpStream> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = socket_with(
            family,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        if is_loopback(address) {
            without_pacing(&socket);
        } else {
            let _ = begin_with(socket.as_fd(), FIRST_BYTES); // an older system has the window as it has it
        }
        match begin_connect(&socket, address) {
            Ok(()) => {}
            Err(Errno::INPROGRESS) => wait_connected(&socket, left)?,
            Err(error) => return Err(error.into()),
        }
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    pub(super) fn without_pacing(socket: &impl AsFd) {
        let _ = set_tcp_congestion(socket, "reno"); // what cannot be set leaves the system's own way
    }

    fn wait_connected(socket: &OwnedFd, left: Duration) -> io::Result<()> {
        let until = Instant::now() + left;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&timespec(left))) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return socket_error(socket)?.map_err(io::Error::from),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(super) fn accept_small(listener: &TcpListener) {
        let _ = begin_with(listener.as_fd(), FIRST_BYTES);
    }

    pub(super) fn accepted_near(socket: &TcpStream) {
        let _ = begin_with(socket.as_fd(), USUAL_BYTES);
    }

    /// Before it is connected, or has received.
    fn begin_with(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
        set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)?;
        // Else the kernel takes it for all that there will ever be, and scales the window by it.
        set(socket, libc::SOL_SOCKET, libc::SO_BUF_LOCK, UNLOCKED)
    }

    /// Sets the buffer's size, and takes it out of the system's hands.
    pub(super) fn fix_buffer(socket: &TcpStream, bytes: u32) -> io::Result<()> {
        set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, bytes as i32)
    }

    /// Takes it out of the system's hands as it is.
    pub(super) fn hold_buffer(socket: &TcpStream) -> io::Result<()> {
        set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BUF_LOCK, RECEIVE_LOCKED)
    }

    /// What was allowed is not taken back.
    pub(super) fn clamp(socket: &TcpStream, bytes: u32) -> io::Result<()> {
        set(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes as i32)
    }

    /// Gives buffer and window to the system again.
    pub(super) fn release(socket: &TcpStream) -> io::Result<()> {
        set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BUF_LOCK, UNLOCKED)?;
        set(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, i32::MAX)
    }

    fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
        let bytes = size_of::<i32>() as libc::socklen_t;
        // SAFETY: the descriptor is open for the borrow; the kernel reads `bytes` bytes of `value`.
        let done = unsafe {
            libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), bytes)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use std::{
        io,
        net::{SocketAddr, TcpListener, TcpStream},
        time::Duration,
    };

    use super::Seen;

    pub(super) const SHARE_BYTES_MAX: u32 = 0;

    pub(super) fn connect(address: &SocketAddr, left: Duration) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(address, left)
    }

    pub(super) fn without_pacing<T>(_: &T) {}

    pub(super) fn accept_small(_: &TcpListener) {}

    pub(super) fn accepted_near(_: &TcpStream) {}

    pub(super) fn seen(_: &TcpStream) -> Option<Seen> {
        None
    }

    pub(super) fn unread(_: &TcpStream) -> u64 {
        0
    }

    pub(super) fn hold_buffer(_: &TcpStream) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn fix_buffer(_: &TcpStream, _: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn clamp(_: &TcpStream, _: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn release(_: &TcpStream) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{Read, Write};

    use rustix::net::sockopt::socket_recv_buffer_size;

    use super::*;

    const LARGE: u32 = 96 << 10;
    const SMALL: u32 = 12 << 10;

    /// A connection on loopback that had an answer, whose shares may be smaller than a segment there, and its other end.
    fn connection() -> (Window, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer =
            TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let transport =
            Transport::new(listener.accept().expect("accepted").0).expect("a transport");
        let mut window = Window { least: 0, ..Window::anyway(&transport) };
        let socket = transport.into_parts().0;
        window.end(&socket, &mut Received::default());
        (window, socket, peer)
    }

    /// The bytes of buffer for this share.
    fn three_times(share: u32) -> usize {
        3 * share as usize
    }

    fn buffer(socket: &TcpStream) -> usize {
        socket_recv_buffer_size(socket).expect("its size")
    }

    /// The peer sends what was allowed before, all of which is there then, and some of it is taken.
    fn send(allowed: u32, (mut peer, mut socket): (&TcpStream, &TcpStream), taken: u32) {
        peer.write_all(&vec![0; allowed as usize]).expect("there is room");
        socket.read_exact(&mut vec![0; taken as usize]).expect("it comes");
    }

    #[test]
    fn a_buffer_becomes_smaller_when_all_that_was_allowed_before_has_been_taken_and_larger_at_once()
    {
        let (mut window, socket, peer) = connection();
        window.begin(&socket, Some(SMALL));
        let systems = buffer(&socket);
        assert!(systems > three_times(SMALL) && window.buffer == HELD, "{systems}");
        let allowed = window.open_until.expect("it is known") as u32;
        send(allowed, (&peer, &socket), allowed - 1);
        window.begin(&socket, Some(SMALL));
        assert_eq!(buffer(&socket), systems);
        send(0, (&peer, &socket), 1);
        window.begin(&socket, Some(SMALL));
        assert_eq!(buffer(&socket), three_times(SMALL));
        window.begin(&socket, Some(LARGE));
        assert_eq!(buffer(&socket), three_times(LARGE));
    }
}
