//! Incast control of what clients send to a server: the limit and the permits of [`crate::incast`],
//! for each network interface.
//!
//! ```text
//!   header and body --> begin: waits for a permit; the window is a share of the interface's limit
//!                         |  a chunk of the payload is received and stored
//!                       begin: releases the permit; calls that wait come first
//!                         |  …
//!                       end
//! ```
//!
//! A client sends without asking. So the bytes that its earlier window allowed are already in
//! flight, and a connection that waits leaves them in the socket.
//!
//! Invariant: a connection that holds a permit waits for its own peer and its own disk only. It
//! releases the permit before it waits for other connections.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use braid_types::limits::TIMEOUT_SECONDS_DEFAULT;

use super::listener::lock;
use crate::{
    incast::{BOUNDED_BYTES_MIN, ReceiveLimiter, ReceivePermit, ReceiveProgress, ReceiveStats},
    tcp::ReceiveWindow,
    transport::Transport,
};

/// A connection that waits this long for a permit continues without one. Its client has filled the
/// window by then, and sees a server that moves nothing.
const PERMIT_WAIT_MAX: Duration = Duration::from_secs(3);

// A client gives up a server that moves nothing during a third of a call's time.
const _: () = assert!(PERMIT_WAIT_MAX.as_secs() * 3 < TIMEOUT_SECONDS_DEFAULT);

/// The interfaces of a server: one for each local address that clients have connected to.
#[derive(Debug, Default)]
pub(super) struct Interfaces(Mutex<HashMap<IpAddr, Arc<ReceiveLimiter>>>);

impl Interfaces {
    /// The limit for a new connection; `None` on loopback, and where the system does not report
    /// what it measures.
    pub(super) fn receive_limit(&self, transport: &Arc<Transport>) -> Option<ReceiveLimit> {
        let window = ReceiveWindow::for_connection(transport)?;
        let address = transport.socket().local_addr().ok()?.ip();
        let intake = Arc::clone(
            lock(&self.0).entry(address).or_insert_with(|| Arc::new(ReceiveLimiter::for_server())),
        );
        Some(ReceiveLimit::new(intake, window, Arc::clone(transport)))
    }
}

/// The payloads of one connection.
#[derive(Debug)]
pub(super) struct ReceiveLimit {
    intake: Arc<ReceiveLimiter>,
    window: ReceiveWindow,
    transport: Arc<Transport>,
    /// Whether the present payload is large enough to need a permit.
    is_limited: bool,
    wait_max: Duration,
    permit: Option<ActivePermit>,
}

#[derive(Debug)]
struct ActivePermit {
    permit: ReceivePermit,
    progress: ReceiveProgress,
}

impl ReceiveLimit {
    fn new(intake: Arc<ReceiveLimiter>, window: ReceiveWindow, transport: Arc<Transport>) -> Self {
        Self {
            intake,
            window,
            transport,
            is_limited: false,
            wait_max: PERMIT_WAIT_MAX,
            permit: None,
        }
    }

    /// A payload of `payload_bytes` follows.
    pub(super) fn expect_payload(&mut self, payload_bytes: u32) {
        self.is_limited = u64::from(payload_bytes) >= BOUNDED_BYTES_MIN;
    }

    /// Call before more of the payload is received. Waits for a permit, but at most
    /// [`PERMIT_WAIT_MAX`] and `wait_max`; then receives without one.
    pub(super) fn begin(&mut self, wait_max: Duration) {
        self.end();
        if !self.is_limited {
            return;
        }
        if let Some(permit) =
            self.intake.acquire_until(1, Instant::now() + wait_max.min(self.wait_max))
        {
            self.window.begin(self.transport.socket(), permit.window_share());
            self.permit = Some(ActivePermit { progress: permit.progress(), permit });
        }
    }

    /// The same without waiting, for payloads that other connections wait for. It exceeds the
    /// number of permits by at most one.
    pub(super) fn begin_without_waiting(&mut self) {
        self.end();
        if self.is_limited {
            let permit = self.intake.acquire_now(1);
            self.window.begin(self.transport.socket(), permit.window_share());
            self.permit = Some(ActivePermit { progress: permit.progress(), permit });
        }
    }

    /// Counts received bytes.
    pub(super) fn add(&mut self, bytes: usize) {
        if let Some(receiving) = &self.permit {
            receiving.progress.add(bytes);
        }
    }

    /// Call when the received bytes are stored, or before waiting for other connections.
    pub(super) fn end(&mut self) {
        if let Some(ActivePermit { permit, .. }) = self.permit.take() {
            let mut received = ReceiveStats::default();
            self.window.end(self.transport.socket(), &mut received);
            permit.finish(received);
        }
    }
}

impl Drop for ReceiveLimit {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;
    use crate::transport::Wait;

    const LARGE: u32 = BOUNDED_BYTES_MIN as u32;

    const LONG: Duration = Duration::from_secs(600);

    /// A connection on loopback that is treated as remote, and the client's end.
    fn connection(intake: &Arc<ReceiveLimiter>) -> (ReceiveLimit, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client =
            TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let transport =
            Arc::new(Transport::new(listener.accept().expect("it").0).expect("a transport"));
        (
            ReceiveLimit::new(
                Arc::clone(intake),
                ReceiveWindow::for_loopback(&transport),
                transport,
            ),
            client,
        )
    }

    #[test]
    fn only_a_large_payload_takes_a_permit_and_releases_it_at_its_end() {
        let intake = ReceiveLimiter::with_frozen_clock();
        let (mut inflow, _client) = connection(&intake);
        inflow.expect_payload(LARGE - 1);
        inflow.begin(LONG);
        assert!(intake.is_idle());
        inflow.expect_payload(LARGE);
        inflow.begin(LONG);
        assert!(!intake.is_idle());
        inflow.end();
        assert!(intake.is_idle());
        inflow.begin(LONG);
        inflow.begin(LONG); // the next chunk
        assert!(!intake.is_idle());
        drop(inflow);
        assert!(intake.is_idle());
    }

    #[test]
    fn a_payload_that_others_wait_for_needs_no_free_permit() {
        let intake = ReceiveLimiter::with_frozen_clock();
        let others = intake.acquire_now(1000);
        let (mut inflow, _client) = connection(&intake);
        inflow.expect_payload(LARGE - 1);
        inflow.begin_without_waiting();
        assert!(inflow.permit.is_none(), "it is small");
        inflow.expect_payload(LARGE);
        inflow.begin_without_waiting();
        assert!(inflow.permit.is_some());
        drop(others);
        assert!(!intake.is_idle());
        inflow.end();
        assert!(intake.is_idle());
    }

    #[test]
    fn without_time_a_payload_is_received_without_a_permit() {
        let intake = ReceiveLimiter::with_frozen_clock();
        let others = intake.acquire_now(1000);
        let (mut inflow, _client) = connection(&intake);
        inflow.expect_payload(LARGE);
        inflow.begin(Duration::ZERO);
        assert!(inflow.permit.is_none());
        drop(others);
        assert!(intake.is_idle());
    }

    #[test]
    fn a_payload_is_received_without_a_permit_before_its_client_gives_up() {
        let intake = ReceiveLimiter::with_frozen_clock();
        let others = intake.acquire_now(1000);
        let (mut inflow, _client) = connection(&intake);
        inflow.expect_payload(LARGE);
        let (done, is_done) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                // until it is done, or far too late
                let _ = is_done.recv_timeout(Duration::from_secs(TIMEOUT_SECONDS_DEFAULT));
                drop(others);
            });
            inflow.begin(LONG);
            assert!(inflow.permit.is_none());
            done.send(()).expect("it waits");
        });
        assert!(intake.is_idle());
    }

    #[test]
    fn many_writers_receive_permits_a_few_at_a_time_and_complete() {
        const CLIENTS: usize = 24;
        const BYTES: usize = 100_000;
        const CHUNK: usize = 32 << 10;
        let intake = ReceiveLimiter::with_frozen_clock();
        let (receiving, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (mut inflow, mut client) = connection(&intake);
                // a connection that goes on without a permit would be counted too
                inflow.wait_max = LONG;
                scope.spawn(move || {
                    client.write_all(&vec![number as u8; BYTES]).expect("the server reads")
                });
                let (receiving, most) = (&receiving, &most);
                scope.spawn(move || {
                    inflow.expect_payload(BYTES as u32);
                    let (mut left, mut buffer) = (BYTES, vec![0; CHUNK]);
                    while left > 0 {
                        inflow.begin(LONG);
                        most.fetch_max(
                            1 + receiving.fetch_add(1, Ordering::SeqCst),
                            Ordering::SeqCst,
                        );
                        let bytes = left.min(CHUNK);
                        let bytes = inflow
                            .transport
                            .recv_into(&mut buffer[..bytes], Wait::Until(Instant::now() + LONG))
                            .expect("the bytes");
                        assert!(
                            bytes > 0
                                && buffer[..bytes].iter().all(|byte| usize::from(*byte) == number)
                        );
                        inflow.add(bytes);
                        left -= bytes;
                        receiving.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        let most = most.into_inner();
        assert!((1..=intake.permit_count()).contains(&most), "{most}");
        assert!(intake.is_idle());
    }

    #[test]
    fn a_client_that_stops_within_a_payload_does_not_block_others() {
        let intake = Arc::new(ReceiveLimiter::for_server());
        let ill: Vec<_> = (0..intake.permit_count())
            .map(|_| {
                let (mut inflow, client) = connection(&intake);
                inflow.expect_payload(LARGE);
                inflow.begin(LONG);
                inflow.add(1);
                (inflow, client)
            })
            .collect();
        let (mut inflow, mut client) = connection(&intake);
        inflow.expect_payload(LARGE);
        inflow.begin(LONG);
        assert!(inflow.permit.is_some());
        client.write_all(&[7]).expect("sent");
        let mut byte = [0];
        let mut socket = inflow.transport.socket();
        socket.read_exact(&mut byte).expect("received");
        assert_eq!(byte, [7]);
        drop(ill);
    }
}
