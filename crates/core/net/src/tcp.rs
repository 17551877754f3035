//! The receive window of a connection: how many bytes its peer may have in flight.
//!
//! ```text
//!   before connecting, and at a listener: a small buffer, so that the first payloads find a
//!                     small window; the window scale is the usual one
//!   with a share:     the buffer is fixed at three times the share, which holds it in segments
//!                     of any fill; and the window is clamped to the share. At the first full
//!                     segment, the kernel replaces the clamp by what the buffer can hold. So the
//!                     buffer has half the size until the first answer, and the clamp is set
//!                     each time.
//!   smaller share:    the clamp is set immediately, the buffer once the bytes allowed before
//!                     have arrived
//!   without a share:  the system manages both, and grows them as it sees fit
//! ```
//!
//! A window that was offered cannot be taken back. If the buffer is too small for it, the kernel
//! drops what the peer sends. The peer retransmits that after a time-out of 200 ms if nothing
//! follows.
//!
//! Source: tcp(7), `TCP_WINDOW_CLAMP`, `TCP_INFO`; socket(7), `SO_RCVBUF`; Linux's
//! net/ipv4/tcp_input.c.
#![allow(unsafe_code)] // socket options without a safe wrapper

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use crate::{
    incast::ReceiveStats,
    transport::{Transport, is_loopback},
};

/// Larger shares are not set: the system may refuse a buffer for them to unprivileged processes.
#[cfg(target_os = "linux")]
const SHARE_BYTES_MAX: u32 = 128 << 10;
/// Buffer size before connecting; the kernel offers a window of about this size.
#[cfg(target_os = "linux")]
const FIRST_BYTES: i32 = 8 << 10;

/// Linux's default buffer, without the half that the kernel adds.
#[cfg(target_os = "linux")]
const USUAL_BYTES: i32 = 64 << 10;
/// Two full segments with the kernel's overhead, without the half that the kernel adds.
const BUFFER_BYTES_MIN: u32 = 4 << 10;
/// [`ReceiveWindow::buffer`]: managed by the system.
const SYSTEM_MANAGED: u32 = 0;
/// [`ReceiveWindow::buffer`]: locked at the size that the system had chosen.
const LOCKED: u32 = u32::MAX;

/// Measurements of the network path to this host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SocketStats {
    /// Recent minimum RTT; zero while it is not known.
    pub(crate) round_trip: Duration,
    /// Maximum segment size of the peer, in bytes. With a smaller window the peer waits for a
    /// timer.
    pub(crate) segment: u32,
    /// Segments that arrived before one that was sent earlier: the missing bytes were lost, or took
    /// another path.
    pub(crate) out_of_order: u32,
    /// Total of bytes that arrived in order.
    pub(crate) received: u64,
    /// The largest window that the kernel offers now.
    pub(crate) offered: u32,
}

/// The receive window of a connection that is not on loopback.
#[derive(Debug)]
pub(crate) struct ReceiveWindow {
    /// The peer's address.
    pub(crate) peer: SocketAddr,
    /// The fixed size of its buffer, or [`SYSTEM_MANAGED`], or [`LOCKED`].
    buffer: u32,
    /// Set while the buffer is larger than the share needs. Once this many bytes are read, what was
    /// allowed before has arrived.
    shrink_after: Option<u64>,
    /// No answer has arrived yet.
    is_new: bool,
    /// Minimum share: two segments.
    share_min: u32,
    out_of_order: u32,
}

impl ReceiveWindow {
    /// `None` on loopback, and where the system does not report measurements.
    pub(crate) fn for_connection(transport: &Transport) -> Option<Self> {
        let peer = transport.socket().peer_addr().ok().filter(|peer| !is_loopback(peer))?;
        let seen = sys::seen(transport.socket())?;
        Some(Self {
            share_min: 2 * seen.segment,
            out_of_order: seen.out_of_order,
            ..Self::new(peer)
        })
    }

    /// The window of a connection on loopback, for tests.
    #[cfg(test)]
    pub(crate) fn for_loopback(transport: &Transport) -> Self {
        let peer = transport.socket().peer_addr().expect("its other end");
        Self { share_min: 2 * (u16::MAX as u32 - 52), ..Self::new(peer) }
    }

    fn new(peer: SocketAddr) -> Self {
        Self {
            peer,
            buffer: SYSTEM_MANAGED,
            shrink_after: None,
            is_new: true,
            share_min: 0,
            out_of_order: 0,
        }
    }

    /// Call before the connection receives.
    pub(crate) fn begin(&mut self, socket: &TcpStream, share: Option<u32>) {
        let share = share
            .map(|bytes| bytes.max(self.share_min))
            .filter(|bytes| *bytes <= sys::SHARE_BYTES_MAX);
        // If the options cannot be set, the system keeps managing the window.
        let _ = match share {
            Some(bytes) => self.set(socket, bytes),
            None if self.buffer != SYSTEM_MANAGED => {
                (self.buffer, self.shrink_after) = (SYSTEM_MANAGED, None);
                sys::release(socket)
            }
            None => Ok(()),
        };
    }

    fn set(&mut self, socket: &TcpStream, share: u32) -> io::Result<()> {
        // The kernel doubles it.
        let buffer = if self.is_new { share * 3 / 4 } else { share * 3 / 2 }.max(BUFFER_BYTES_MIN);
        if !self.must_keep_buffer(socket, buffer) {
            if std::mem::replace(&mut self.buffer, buffer) != buffer {
                sys::fix_buffer(socket, buffer)?;
            }
        } else if self.buffer == SYSTEM_MANAGED {
            self.buffer = LOCKED;
            let _ = sys::hold_buffer(socket); // an older system lets it grow
        }
        sys::clamp(socket, share)
    }

    /// Whether the larger buffer must stay: the peer may have in flight what was allowed before.
    fn must_keep_buffer(&mut self, socket: &TcpStream, buffer: u32) -> bool {
        let shrinks = !self.is_new && (self.buffer == SYSTEM_MANAGED || buffer < self.buffer);
        let seen = if shrinks { sys::seen(socket) } else { None };
        let is_known = seen.is_some_and(|seen| {
            let until = *self.shrink_after.get_or_insert(seen.received + u64::from(seen.offered));
            seen.received.saturating_sub(sys::unread(socket)) < until
        });
        if !is_known {
            self.shrink_after = None;
        }
        is_known
    }

    /// Call after the connection has received. Adds the measurements to `received`.
    pub(crate) fn end(&mut self, socket: &TcpStream, received: &mut ReceiveStats) {
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

/// Loopback loses nothing. Where BBR is the system's choice, it costs both ends a tenth to a fifth
/// more CPU than Reno (docs/results/parallel-notes.md, Over MPI). A connection that began with BBR
/// also keeps its timers for life.
pub(crate) fn without_pacing(socket: &TcpStream) {
    sys::without_pacing(socket);
}

/// Makes connections to `listener` begin with a small window.
pub(crate) fn accept_small(listener: &TcpListener) {
    match listener.local_addr() {
        Ok(address) if is_loopback(&address) => sys::without_pacing(listener),
        _ => sys::accept_small(listener), // an older system keeps its own window
    }
}

/// Gives the usual window to a connection from loopback that was accepted with a small one.
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
    use super::{FIRST_BYTES, SocketStats, USUAL_BYTES};
    use crate::transport::{is_loopback, timespec};

    /// `SO_BUF_LOCK`: the system manages both buffers; since Linux 5.14.
    const UNLOCKED: i32 = 0;
    /// `SO_BUF_LOCK`: the receive buffer keeps its size.
    const RECEIVE_LOCKED: i32 = 2;

    pub(super) fn seen(socket: &TcpStream) -> Option<SocketStats> {
        let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
        let mut bytes = size_of::<libc::tcp_info>() as libc::socklen_t;
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        // SAFETY: the descriptor is open during the borrow; the kernel writes at most `bytes` bytes
        // to `info`, which has that size.
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
        // SAFETY: plain numbers; all their bytes are set, by the kernel or to zero.
        let info = unsafe { info.assume_init() };
        // The kernel reports u32::MAX for "none yet".
        let round_trip = if info.tcpi_min_rtt == u32::MAX { 0 } else { info.tcpi_min_rtt };
        let round_trip = Duration::from_micros(round_trip.into());
        Some(SocketStats {
            round_trip,
            segment: info.tcpi_advmss,
            out_of_order: info.tcpi_rcv_ooopack,
            received: info.tcpi_bytes_received,
            offered: info.tcpi_rcv_ssthresh,
        })
    }

    /// Bytes that arrived and were not read.
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
            let _ = begin_with(socket.as_fd(), FIRST_BYTES); // an older system keeps its own window
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
        let _ = set_tcp_congestion(socket, "reno"); // on failure the system's choice stays
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

    /// Call before the socket is connected, or before it has received.
    fn begin_with(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
        set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes)?;
        // Otherwise the kernel takes this size as final, and chooses the window scale for it.
        set(socket, libc::SOL_SOCKET, libc::SO_BUF_LOCK, UNLOCKED)
    }

    /// Sets the buffer's size; the system no longer manages it.
    pub(super) fn fix_buffer(socket: &TcpStream, bytes: u32) -> io::Result<()> {
        set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, bytes as i32)
    }

    /// Locks the buffer at its present size.
    pub(super) fn hold_buffer(socket: &TcpStream) -> io::Result<()> {
        set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BUF_LOCK, RECEIVE_LOCKED)
    }

    /// Limits the window. A window that was offered is not taken back.
    pub(super) fn clamp(socket: &TcpStream, bytes: u32) -> io::Result<()> {
        set(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes as i32)
    }

    /// Lets the system manage buffer and window again.
    pub(super) fn release(socket: &TcpStream) -> io::Result<()> {
        set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_BUF_LOCK, UNLOCKED)?;
        set(socket.as_fd(), libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, i32::MAX)
    }

    fn set(socket: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
        let bytes = size_of::<i32>() as libc::socklen_t;
        // SAFETY: the descriptor is open during the borrow; the kernel reads `bytes` bytes of
        // `value`.
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

    use super::SocketStats;

    pub(super) const SHARE_BYTES_MAX: u32 = 0;

    pub(super) fn connect(address: &SocketAddr, left: Duration) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(address, left)
    }

    pub(super) fn without_pacing<T>(_: &T) {}

    pub(super) fn accept_small(_: &TcpListener) {}

    pub(super) fn accepted_near(_: &TcpStream) {}

    pub(super) fn seen(_: &TcpStream) -> Option<SocketStats> {
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

    /// A connection on loopback after its first answer, and its other end. Its shares may be
    /// smaller than a segment there.
    fn connection() -> (ReceiveWindow, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer =
            TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
        let transport =
            Transport::new(listener.accept().expect("accepted").0).expect("a transport");
        let mut window = ReceiveWindow { share_min: 0, ..ReceiveWindow::for_loopback(&transport) };
        let socket = transport.into_parts().0;
        window.end(&socket, &mut ReceiveStats::default());
        (window, socket, peer)
    }

    /// The buffer bytes for this share.
    fn three_times(share: u32) -> usize {
        3 * share as usize
    }

    fn buffer(socket: &TcpStream) -> usize {
        socket_recv_buffer_size(socket).expect("its size")
    }

    /// The peer sends `allowed` bytes, which all arrive; `taken` of them are read.
    fn send(allowed: u32, (mut peer, mut socket): (&TcpStream, &TcpStream), taken: u32) {
        peer.write_all(&vec![0; allowed as usize]).expect("there is room");
        socket.read_exact(&mut vec![0; taken as usize]).expect("it comes");
    }

    #[test]
    fn a_buffer_shrinks_after_the_allowed_bytes_and_grows_immediately() {
        let (mut window, socket, peer) = connection();
        window.begin(&socket, Some(SMALL));
        let systems = buffer(&socket);
        assert!(systems > three_times(SMALL) && window.buffer == LOCKED, "{systems}");
        let allowed = window.shrink_after.expect("it is known") as u32;
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
