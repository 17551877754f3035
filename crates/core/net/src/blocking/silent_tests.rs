//! One of several servers is silent: the answers of the others are received nevertheless.
//!
//! No test waits for a clock. Answers are sent before the calls are made; time-outs are zero, or
//! too long to be reached.

use std::{
    io::{IoSliceMut, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use braid_types::{ClusterUuid, ConnectionId};
use braid_wire::{FRAME_HEADER_BYTES, FrameFlags, FrameHeader};

use super::{Connection, connect::Connected, exchange::exchange};
use crate::{
    NetError, driver::Exchange, handshake::Established, incast::ReceiveLimiter, tcp::ReceiveWindow,
    transport::Transport,
};

const OP: u16 = 9;
const BYTES: usize = 40 << 10;
/// More than this on a connection makes the connections be polled together.
const POLLED_BYTES: usize = 72 << 10;
const LONG: Duration = Duration::from_secs(60);

/// A connection and its server's end.
fn connection(name: &str) -> (Connection, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let client =
        TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
    let transport = Transport::new(client).expect("a transport");
    let established = Established {
        credits: 16,
        cluster: ClusterUuid([0; 16]),
        connection: ConnectionId::default(),
    };
    let connected = Connected { server: name.to_owned(), transport, established };
    (Connection::new(connected), listener.accept().expect("accepted").0)
}

/// The same, but treated as remote: its payloads need a permit.
fn bounded(name: &str) -> (Connection, TcpStream) {
    let (mut connection, server) = connection(name);
    connection.window = Some(ReceiveWindow::for_loopback(&connection.transport));
    (connection, server)
}

/// The answer to a connection's first call: [`BYTES`] bytes of 7.
fn answer() -> Vec<u8> {
    let header = FrameHeader {
        op: OP,
        flags: FrameFlags::FINAL,
        request_id: 1,
        body_bytes: 0,
        payload_bytes: BYTES as u32,
    };
    [&header.to_bytes()[..], &[7; BYTES]].concat()
}

/// The same connection after the answer to its first call has arrived.
fn answered((connection, mut server): (Connection, TcpStream)) -> (Connection, TcpStream) {
    server.write_all(&answer()).expect("sent");
    let mut seen = vec![0; answer().len()];
    while connection.transport.socket().peek(&mut seen).expect("it comes") < seen.len() {
        thread::yield_now();
    }
    (connection, server)
}

/// One call on each connection, with `bytes` bytes of buffer. Returns the servers named in errors,
/// `None` for a whole answer.
fn call(
    intake: &Arc<ReceiveLimiter>,
    connections: &mut [Connection],
    bytes: usize,
    silence_max: Duration,
) -> Vec<Option<String>> {
    let mut buffers = vec![vec![0; bytes]; connections.len()];
    let calls = buffers.iter_mut().enumerate().map(|(connection, bytes)| {
        let recv = vec![IoSliceMut::new(bytes)];
        Exchange { connection, op: OP, body: Vec::new(), send: Vec::new(), recv, outcome: None }
    });
    let mut batch: Vec<_> = calls.collect();
    exchange(intake, connections, &mut batch, silence_max);
    let outcomes: Vec<_> =
        batch.into_iter().map(|call| call.outcome.expect("an outcome")).collect();
    let came = outcomes.into_iter().zip(&buffers).map(|(outcome, bytes)| match outcome {
        Ok(answer) => {
            assert!(
                answer.payload_bytes == BYTES as u64
                    && bytes[..BYTES].iter().all(|byte| *byte == 7)
            );
            None
        }
        Err(NetError::TimedOut { server, .. } | NetError::NotSent { server, .. }) => Some(server),
        Err(other) => panic!("{other}"),
    });
    came.collect()
}

#[test]
fn only_the_server_that_was_silent_until_the_time_out_is_reported() {
    let (mut connections, _servers): (Vec<_>, Vec<_>) =
        [answered(connection("X")), connection("Y"), answered(connection("Z"))].into_iter().unzip();
    let reported =
        call(&ReceiveLimiter::with_frozen_clock(), &mut connections, BYTES, Duration::ZERO);
    assert_eq!(reported, [None, Some("Y".to_owned()), None]);
    let broken: Vec<bool> =
        connections.iter().map(|connection| connection.broken.is_some()).collect();
    assert_eq!(broken, [false, true, false]);
}

#[test]
fn a_missing_permit_takes_no_answer_from_connections_that_need_none() {
    let intake = ReceiveLimiter::with_frozen_clock();
    let others = intake.acquire_now(1000);
    let (mut connections, _servers): (Vec<_>, Vec<_>) =
        [bounded("X"), answered(connection("Y")), answered(connection("Z"))].into_iter().unzip();
    let reported = call(&intake, &mut connections, POLLED_BYTES, Duration::ZERO);
    assert_eq!(reported, [Some("X".to_owned()), None, None]);
    assert!(
        connections.iter().all(|connection| connection.broken.is_none()),
        "nothing was sent to X"
    );
    drop(others);
    assert!(intake.is_idle());
}

#[cfg(target_os = "linux")]
#[test]
fn a_missing_permit_leaves_a_spliced_connection_usable() {
    let intake = ReceiveLimiter::with_frozen_clock();
    let (mut connection, mut server) = bounded("X");
    let (mut pipe, mut buffer) = (crate::Pipe::new().expect("a pipe"), vec![0; BYTES]);
    pipe.begin(b"").expect("it is empty");
    let mut ask = |silence_max| {
        super::splice_exchange::exchange(
            &intake,
            &mut connection,
            (OP, &[]),
            (&mut pipe, &mut buffer),
            silence_max,
        )
    };
    let others = intake.acquire_now(1000);
    let reported = ask(Duration::ZERO);
    assert!(matches!(reported, Some(Err(NetError::NotSent { .. }))), "{reported:?}");
    drop(others);
    let server = thread::spawn(move || {
        server.read_exact(&mut [0; FRAME_HEADER_BYTES]).expect("the call");
        server.write_all(&answer()).expect("sent");
        server
    });
    let answer = ask(LONG).expect("it can").expect("an answer");
    assert_eq!(answer.payload_bytes, BYTES as u64);
    assert!(intake.is_idle());
    drop(server.join());
}

#[test]
fn a_large_answer_is_received_while_an_earlier_server_is_silent() {
    let intake = ReceiveLimiter::with_frozen_clock();
    let deadline = Instant::now() + LONG;
    let ((first, mut server), (second, _second_server)) = (bounded("X"), answered(bounded("Y")));
    let (reported, came_before) = thread::scope(|scope| {
        let came_before = scope.spawn(|| {
            server.read_exact(&mut [0; FRAME_HEADER_BYTES]).expect("the call");
            while intake.received() < BYTES as u64 && Instant::now() < deadline {
                thread::yield_now();
            }
            let came = intake.received() >= BYTES as u64;
            // if the client gave up, the assertions below report it
            let _ = server.write_all(&answer());
            came
        });
        (call(&intake, &mut [first, second], BYTES, LONG), came_before.join().expect("no panic"))
    });
    assert_eq!(reported, [None, None]);
    assert!(came_before, "the second's answer waited for the first's");
    assert!(intake.is_idle());
}
