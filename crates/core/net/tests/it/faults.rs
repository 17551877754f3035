//! Servers and clients that misbehave, disappear or are silent, over real sockets.

use std::{
    io::{IoSlice, IoSliceMut, Read, Write},
    sync::{Arc, Barrier, Mutex, mpsc},
    thread,
    time::Duration,
};

use crate::support::{
    self, LONG, Mirror, SILENCE, Script, TRICKLED, answer_nothing, config, connect, echo, endpoint,
    listen, raw, stay_silent, trickle,
};
use braid_net::{
    Blocking, Connection, Driver, Endpoint, Exchange, NetError, TlsPolicy, Tokio, block_on,
    frames::{FrameBuffer, push_frame},
    handshake::ClientHandshake,
    server::{
        AdmittedPeer, CallHandler, CallService, Handler, Listener, Peer, Responder, SendError,
        ServerConnection,
    },
};
use braid_types::{Failure, Status};
use braid_wire::{
    FrameFlags, FrameHeader, NodeKind, Secret, decode_outcome,
    message::{OP_AUTH, OP_HELLO},
};

/// Short, for tests that expect a time-out.
const SHORT: Duration = Duration::from_millis(200);

/// The status of the single final frame that arrives before the server closes.
fn refusal(mut stream: std::net::TcpStream) -> Status {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let mut buffer = FrameBuffer::new(bytes.len());
    buffer.space()[..bytes.len()].copy_from_slice(&bytes);
    buffer.filled(bytes.len());
    let (header, body) = buffer.frame().unwrap().expect("a final frame");
    assert_eq!(header.flags, FrameFlags::FINAL);
    decode_outcome::<()>(body).unwrap().unwrap_err().status
}

fn still_serves(listener: &Listener) {
    let driver = Blocking::new();
    let shared =
        block_on(driver.connect_shared(&endpoint(listener, NodeKind::Mds, 0), LONG)).unwrap();
    assert_eq!(block_on(driver.call(&shared, 9, b"hello", LONG)).unwrap().body, b"hello");
}

#[test]
fn garbage_on_the_port_is_answered_with_a_reason_and_the_server_lives_on() {
    let listener = listen(config(NodeKind::Mds, 0), echo());
    let mut stream = raw(&listener);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n").unwrap();
    assert_eq!(refusal(stream), Status::Malformed);
    assert_eq!(listener.counters().refused, 1);
    still_serves(&listener);
}

#[test]
fn a_frame_of_enormous_length_is_refused_before_it_is_read() {
    let listener = listen(config(NodeKind::Mds, 0), echo());
    let mut header =
        *b"BRD1\x01\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\x7f\xff\xff\xff\x7f\0\0\0\0\0\0\0\0";
    let crc = crc32c::crc32c(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
    let mut stream = raw(&listener);
    stream.write_all(&header).unwrap();
    assert_eq!(refusal(stream), Status::LimitExceeded);
    still_serves(&listener);
}

#[test]
fn a_message_before_the_handshake_is_refused() {
    let listener = listen(config(NodeKind::Mds, 0), echo());
    let mut frame = Vec::new();
    push_frame(&mut frame, 0x0010, FrameFlags::REQUEST, 1, &[]);
    let mut stream = raw(&listener);
    stream.write_all(&frame).unwrap();
    assert_eq!(refusal(stream), Status::UnknownMessage);
}

#[test]
fn a_hello_that_is_cut_or_overlong_is_refused() {
    let listener = listen(config(NodeKind::Mds, 0), echo());
    for (body, status) in
        [(vec![1; 3], Status::Malformed), (vec![0; 40_000], Status::LimitExceeded)]
    {
        let mut frame = Vec::new();
        push_frame(&mut frame, OP_HELLO, FrameFlags::REQUEST, 0, &body);
        let mut stream = raw(&listener);
        stream.write_all(&frame).unwrap();
        assert_eq!(refusal(stream), status);
    }
    still_serves(&listener);
}

#[test]
fn a_peer_that_stays_silent_in_the_handshake_is_dropped() {
    let mut config = config(NodeKind::Mds, 0);
    config.handshake_timeout = SHORT;
    let listener = listen(config, echo());
    let mut stream = raw(&listener);
    stream.write_all(b"BRD1").unwrap();
    let mut rest = Vec::new();
    assert_eq!(
        stream.read_to_end(&mut rest).unwrap(),
        0,
        "closed without a message after the handshake's time"
    );
}

#[test]
fn a_wrong_key_is_refused_with_the_servers_name_in_the_error() {
    let listener = listen(config(NodeKind::Mds, 0), echo());
    for tls in [TlsPolicy::Never, TlsPolicy::Always] {
        let secret = Secret::from_bytes([9; 32]);
        let endpoint = Endpoint { secret, tls, ..endpoint(&listener, NodeKind::Mds, 0) };
        let error = block_on(Blocking::new().connect(&endpoint, LONG)).unwrap_err();
        let NetError::Refused { server, failure } = error else { panic!("not refused: {error}") };
        assert_eq!(failure.status, Status::AuthenticationFailed);
        assert!(server.contains("metadata server at 127.0.0.1:"), "{server}");
    }
}

#[test]
fn a_proof_made_for_another_channel_is_refused() {
    let server = listen(config(NodeKind::Mds, 0), echo());
    let mut client = raw(&server);
    let mut frame = Vec::new();
    // the hello of a client that wants TLS, forwarded as one that does not
    push_frame(
        &mut frame,
        OP_HELLO,
        FrameFlags::REQUEST,
        0,
        &[1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    );
    client.write_all(&frame).unwrap();
    read_frame(&mut client);
    // a proof for another channel
    let auth = braid_wire::Auth {
        role: braid_wire::Role::Mds,
        credential: braid_wire::Credential::Server,
        nonce: [1; 32],
        proof: [2; 32],
    };
    let mut frame = Vec::new();
    push_frame(&mut frame, OP_AUTH, FrameFlags::REQUEST, 0, &braid_wire::Wire::to_bytes(&auth));
    client.write_all(&frame).unwrap();
    assert_eq!(refusal(client), Status::AuthenticationFailed);
}

fn one_exchange(
    connection: &mut [Connection],
    reply_buffer: &mut [u8],
    timeout: Duration,
) -> Result<(), NetError> {
    let recv = vec![IoSliceMut::new(reply_buffer)];
    let mut batch =
        [Exchange { connection: 0, op: 9, body: vec![1], send: Vec::new(), recv, outcome: None }];
    block_on(Blocking::new().exchange(connection, &mut batch, timeout));
    batch[0].outcome.take().unwrap().map(|_| ())
}

fn against(script: fn(&mut ServerConnection), timeout: Duration) -> NetError {
    let listener = listen(config(NodeKind::Iod, 1), Arc::new(Script(script)));
    let mut connection = [connect(&endpoint(&listener, NodeKind::Iod, 1))];
    let error = one_exchange(&mut connection, &mut [0; 1000], timeout).unwrap_err();
    assert!(
        error.to_string().contains("I/O daemon 1 at 127.0.0.1:"),
        "the error names the server: {error}"
    );
    assert_eq!(
        one_exchange(&mut connection, &mut [], LONG).unwrap_err(),
        error,
        "the connection stays unusable"
    );
    error
}

fn frame(flags: FrameFlags, request_id: u64, payload_bytes: u32) -> FrameHeader {
    FrameHeader { op: 9, flags, request_id, body_bytes: 0, payload_bytes }
}

#[test]
fn a_server_that_stays_silent_is_a_timeout() {
    let silent = |connection: &mut ServerConnection| {
        connection.next_header(None).unwrap();
        let _ = connection.next_header(None); // until the client gives up
    };
    assert!(matches!(against(silent, SHORT), NetError::TimedOut { .. }));
}

#[test]
fn a_server_that_goes_silent_in_the_middle_of_its_answer_is_a_timeout() {
    let stops = |connection: &mut ServerConnection| {
        let id = connection.next_header(None).unwrap().unwrap().request_id;
        connection
            .sender()
            .send(&frame(FrameFlags::DATA, id, 10), &[], &[IoSlice::new(&[0; 10])])
            .unwrap();
        let _ = connection.next_header(None); // until the client gives up
    };
    assert!(matches!(against(stops, SHORT), NetError::TimedOut { .. }));
}

/// One exchange with each of two servers at a time, with a buffer of `bytes` each. Returns how
/// many bytes arrived.
fn from_two(servers: [fn(&mut ServerConnection); 2], bytes: usize) -> [Result<u64, NetError>; 2] {
    let listeners =
        servers.map(|script| listen(config(NodeKind::Iod, 1), Arc::new(Script(script))));
    let mut connections =
        listeners.each_ref().map(|listener| connect(&endpoint(listener, NodeKind::Iod, 1)));
    let mut reply_buffers = [vec![0; bytes], vec![0; bytes]];
    let mut batch: Vec<_> = (reply_buffers.iter_mut().enumerate())
        .map(|(connection, reply_buffer)| {
            let (send, recv) = (Vec::new(), vec![IoSliceMut::new(reply_buffer)]);
            Exchange { connection, op: 9, body: vec![1], send, recv, outcome: None }
        })
        .collect();
    block_on(Blocking::new().exchange(&mut connections, &mut batch, SILENCE));
    [0, 1].map(|at| batch[at].outcome.take().unwrap().map(|answer| answer.payload_bytes))
}

#[test]
fn a_slow_server_is_waited_for_while_it_moves_and_a_silent_one_fails() {
    // Small buffers: one after another. Large ones: polled together.
    thread::scope(|scope| {
        for bytes in [TRICKLED, 100_000] {
            for slow in [0, 1] {
                scope.spawn(move || {
                    let servers =
                        if slow == 0 { [trickle, stay_silent] } else { [stay_silent, trickle] };
                    let outcomes = from_two(servers, bytes);
                    assert_eq!(
                        outcomes[slow],
                        Ok(TRICKLED as u64),
                        "{bytes} bytes of buffer, {slow} is slow"
                    );
                    let silent = &outcomes[1 - slow];
                    assert!(
                        matches!(silent, Err(NetError::TimedOut { .. })),
                        "{bytes} bytes of buffer, {slow} is slow: {silent:?}"
                    );
                });
            }
        }
        scope.spawn(|| {
            let listener = listen(config(NodeKind::Iod, 1), Arc::new(Script(trickle)));
            let mut connection = [connect(&endpoint(&listener, NodeKind::Iod, 1))];
            one_exchange(&mut connection, &mut [0; TRICKLED], SILENCE).unwrap();
        });
    });
}

#[test]
fn a_server_that_dies_in_the_middle_of_a_frame_is_a_lost_connection() {
    let dies = |connection: &mut ServerConnection| {
        let header = connection.next_header(None).unwrap().unwrap();
        let mut half = frame(FrameFlags::DATA, header.request_id, 1000).to_bytes().to_vec();
        half.extend([0; 100]);
        connection.sender().send_frames(&half).unwrap();
    };
    assert!(matches!(against(dies, LONG), NetError::ConnectionLost { .. }));
}

#[test]
fn more_payload_than_was_asked_for_is_refused() {
    let generous = |connection: &mut ServerConnection| {
        let id = connection.next_header(None).unwrap().unwrap().request_id;
        connection
            .sender()
            .send(&frame(FrameFlags::DATA, id, 1001), &[], &[IoSlice::new(&[0; 1001])])
            .unwrap();
        let _ = connection.next_header(None);
    };
    assert!(matches!(against(generous, LONG), NetError::PeerMisbehaved { .. }));
}

#[test]
fn frames_that_bring_nothing_are_refused_and_keep_no_call_waiting() {
    let refused =
        |error: NetError| assert!(matches!(error, NetError::PeerMisbehaved { .. }), "{error}");
    refused(against(answer_nothing, LONG));
    let listener = listen(config(NodeKind::Iod, 1), Arc::new(Script(answer_nothing)));
    let endpoint = endpoint(&listener, NodeKind::Iod, 1);
    #[cfg(target_os = "linux")]
    {
        let (mut pipe, mut connection) = (braid_net::Pipe::new().unwrap(), connect(&endpoint));
        pipe.begin(b"").unwrap();
        let (driver, mut reply_buffer) = (Blocking::new(), [0; 1000]);
        let answer = driver.exchange_into_pipe(
            &mut connection,
            (9, &[1]),
            (&mut pipe, &mut reply_buffer),
            LONG,
        );
        refused(block_on(answer).expect("it can").unwrap_err());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let driver = Tokio::new();
        let mut connection = [driver.connect(&endpoint, LONG).await.unwrap()];
        let mut reply_buffer = [0; 1000];
        let recv = vec![IoSliceMut::new(&mut reply_buffer)];
        let mut batch = [Exchange {
            connection: 0,
            op: 9,
            body: vec![1],
            send: Vec::new(),
            recv,
            outcome: None,
        }];
        driver.exchange(&mut connection, &mut batch, LONG).await;
        refused(batch[0].outcome.take().unwrap().unwrap_err());
    });
}

#[test]
fn an_answer_to_a_call_that_was_not_made_is_refused() {
    let confused = |connection: &mut ServerConnection| {
        let id = connection.next_header(None).unwrap().unwrap().request_id;
        connection.sender().send(&frame(FrameFlags::DATA, id + 1, 0), &[], &[]).unwrap();
        let _ = connection.next_header(None);
    };
    assert!(matches!(against(confused, LONG), NetError::PeerMisbehaved { .. }));
}

#[test]
fn one_dead_server_of_a_batch_leaves_the_others_answers() {
    let alive = listen(config(NodeKind::Iod, 1), Arc::new(Mirror));
    let dead = listen(
        config(NodeKind::Iod, 2),
        Arc::new(Script(|connection| {
            connection.next_header(None).unwrap();
        })),
    );
    let mut connections =
        [connect(&endpoint(&dead, NodeKind::Iod, 2)), connect(&endpoint(&alive, NodeKind::Iod, 1))];
    let sent = vec![5; 300_000];
    let mut reply_buffers = [vec![0; 300_000], vec![0; 300_000]];
    let mut batch: Vec<_> = (reply_buffers.iter_mut().enumerate())
        .map(|(connection, reply_buffer)| Exchange {
            connection,
            op: 9,
            body: Vec::new(),
            send: vec![IoSlice::new(&sent)],
            recv: vec![IoSliceMut::new(reply_buffer)],
            outcome: None,
        })
        .collect();
    block_on(Blocking::new().exchange(&mut connections, &mut batch, LONG));
    assert!(
        matches!(batch[0].outcome, Some(Err(NetError::ConnectionLost { .. }))),
        "{:?}",
        batch[0].outcome
    );
    assert!(matches!(batch[1].outcome, Some(Ok(_))), "{:?}", batch[1].outcome);
}

#[test]
fn a_server_that_is_not_there_is_unreachable_with_what_to_try() {
    let listener = listen(config(NodeKind::Mds, 0), echo());
    let endpoint = endpoint(&listener, NodeKind::Mds, 0);
    drop(listener);
    let error = block_on(Blocking::new().connect(&endpoint, LONG)).unwrap_err();
    assert!(
        matches!(error, NetError::Unreachable { .. }) && error.to_string().contains("try:"),
        "{error}"
    );
}

#[test]
fn a_port_in_use_is_an_error_with_what_to_try() {
    let listener = listen(config(NodeKind::Mds, 0), echo());
    let address = listener.local_addrs()[0].to_string();
    let error = Listener::bind(
        std::slice::from_ref(&address),
        config(NodeKind::Mds, 0),
        Arc::new(support::Keys),
    )
    .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("cannot listen on {address}: ")) && text.contains("; try: "),
        "{text}"
    );
}

/// Collects responders until it must answer them in reverse.
struct Reversing {
    waiting: Mutex<Vec<(Vec<u8>, Responder)>>,
    answer_at: usize,
}

impl CallService for Reversing {
    type Session = ();
    fn connected(&self, _: &Peer) -> Result<(), Failure> {
        Ok(())
    }
    fn handle(&self, _: &Arc<()>, _: u16, body: &[u8], responder: Responder) {
        let mut waiting = self.waiting.lock().unwrap();
        waiting.push((body.to_vec(), responder));
        if waiting.len() == self.answer_at {
            let all = std::mem::take(&mut *waiting);
            thread::spawn(move || {
                all.into_iter().rev().for_each(|(body, responder)| responder.send(body))
            });
        }
    }
    fn disconnected(&self, _: &Arc<()>) {}
}

#[test]
fn many_threads_on_one_connection_get_their_own_answers_out_of_order() {
    const THREADS: usize = 8;
    for tls in [TlsPolicy::Never, TlsPolicy::Always] {
        let service = Reversing { waiting: Mutex::default(), answer_at: THREADS };
        let listener =
            listen(config(NodeKind::Mds, 0), Arc::new(CallHandler::new(Arc::new(service))));
        let endpoint = Endpoint { tls, ..endpoint(&listener, NodeKind::Mds, 0) };
        let driver = Blocking::new();
        let shared = block_on(driver.connect_shared(&endpoint, LONG)).unwrap();
        thread::scope(|scope| {
            for n in 0..THREADS {
                let (driver, shared) = (&driver, &shared);
                scope.spawn(move || {
                    for round in 0..50 {
                        let body = format!("{n} {round}").into_bytes();
                        let answer = block_on(driver.call(shared, 9, &body, LONG)).unwrap();
                        assert_eq!(answer.body, body);
                    }
                });
            }
        });
    }
}

/// Answers "now" immediately, and "never" only when the connection ends.
#[derive(Default)]
struct Stubborn {
    responders: Mutex<Vec<Responder>>,
}

impl CallService for Stubborn {
    type Session = ();
    fn connected(&self, _: &Peer) -> Result<(), Failure> {
        Ok(())
    }
    fn handle(&self, _: &Arc<()>, _: u16, body: &[u8], responder: Responder) {
        match body {
            b"never" => self.responders.lock().unwrap().push(responder),
            b"forget" => drop(responder),
            b"late" => self
                .responders
                .lock()
                .unwrap()
                .drain(..)
                .for_each(|responders| responders.send(b"late".to_vec())),
            _ => responder.send(body.to_vec()),
        }
    }
    fn disconnected(&self, _: &Arc<()>) {}
}

#[test]
fn a_call_that_timed_out_leaves_the_connection_to_the_others() {
    let service = Arc::new(Stubborn::default());
    let listener = listen(config(NodeKind::Mds, 0), Arc::new(CallHandler::new(service)));
    let driver = Blocking::new();
    let shared =
        block_on(driver.connect_shared(&endpoint(&listener, NodeKind::Mds, 0), LONG)).unwrap();
    let error = block_on(driver.call(&shared, 9, b"never", driver.now() + SHORT)).unwrap_err();
    assert!(matches!(error, NetError::TimedOut { .. }), "{error}");
    assert_eq!(block_on(driver.call(&shared, 9, b"now", LONG)).unwrap().body, b"now");
    // the late reply arrives and belongs to no call
    let dropped = block_on(driver.call(&shared, 9, b"late", LONG)).unwrap();
    assert_eq!(decode_outcome::<()>(&dropped.body).unwrap().unwrap_err().status, Status::Internal);
    assert_eq!(block_on(driver.call(&shared, 9, b"now", LONG)).unwrap().body, b"now");
}

#[test]
fn a_responder_dropped_unsent_answers_internal_error() {
    let listener =
        listen(config(NodeKind::Mds, 0), Arc::new(CallHandler::new(Arc::new(Stubborn::default()))));
    let driver = Blocking::new();
    let shared =
        block_on(driver.connect_shared(&endpoint(&listener, NodeKind::Mds, 0), LONG)).unwrap();
    let answer = block_on(driver.call(&shared, 9, b"forget", LONG)).unwrap();
    assert_eq!(decode_outcome::<()>(&answer.body).unwrap().unwrap_err().status, Status::Internal);
    let (send, receive) = mpsc::channel();
    drop(Responder::new(move |body| send.send(body).unwrap()));
    assert_eq!(
        decode_outcome::<()>(&receive.recv().unwrap()).unwrap().unwrap_err().status,
        Status::Internal
    );
}

/// A raw connection whose handshake the test runs itself.
fn authenticated(listener: &Listener) -> std::net::TcpStream {
    let endpoint = endpoint(listener, NodeKind::Mds, 0);
    let mut stream = raw(listener);
    let mut handshake = ClientHandshake::new(&endpoint, true, [1; 32]);
    stream.write_all(&handshake.hello()).unwrap();
    let (header, body) = read_frame(&mut stream);
    handshake.hello_reply(&header, &body).unwrap();
    stream.write_all(&handshake.auth([0; 32])).unwrap();
    let (header, body) = read_frame(&mut stream);
    handshake.auth_reply(&header, &body).unwrap();
    stream
}

fn read_frame(stream: &mut std::net::TcpStream) -> (FrameHeader, Vec<u8>) {
    let mut header = [0; 32];
    stream.read_exact(&mut header).unwrap();
    let header = FrameHeader::from_bytes(&header).unwrap();
    let mut body = vec![0; header.body_bytes as usize];
    stream.read_exact(&mut body).unwrap();
    (header, body)
}

#[test]
fn more_requests_in_flight_than_credits_end_the_connection() {
    let mut config = config(NodeKind::Mds, 0);
    config.credits = 4;
    let listener = listen(config, Arc::new(CallHandler::new(Arc::new(Stubborn::default()))));
    let mut stream = authenticated(&listener);
    let mut frames = Vec::new();
    (1..=5).for_each(|id| push_frame(&mut frames, 9, FrameFlags::REQUEST, id, b"never"));
    stream.write_all(&frames).unwrap();
    let (header, body) = read_frame(&mut stream);
    assert_eq!(header.request_id, 5);
    assert_eq!(decode_outcome::<()>(&body).unwrap().unwrap_err().status, Status::LimitExceeded);
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "and closed");
}

#[test]
fn a_client_that_dies_in_the_middle_of_a_frame_costs_nobody_else_anything() {
    let listener = listen(config(NodeKind::Mds, 0), echo());
    let mut stream = authenticated(&listener);
    let mut frame = Vec::new();
    push_frame(&mut frame, 9, FrameFlags::REQUEST, 1, &[1; 1000]);
    stream.write_all(&frame[..500]).unwrap();
    drop(stream);
    still_serves(&listener);
    assert!(listener.stop(), "its thread ended");
}

#[test]
fn our_client_waits_for_a_credit() {
    let mut config = config(NodeKind::Mds, 0);
    config.credits = 4;
    let listener = listen(config, Arc::new(CallHandler::new(Arc::new(Stubborn::default()))));
    let driver = Blocking::new();
    let shared =
        block_on(driver.connect_shared(&endpoint(&listener, NodeKind::Mds, 0), LONG)).unwrap();
    // our own client keeps to the credits: the fifth call waits for one and times out
    let barrier = Barrier::new(5);
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| {
                barrier.wait();
                let error =
                    block_on(driver.call(&shared, 9, b"never", driver.now() + SHORT)).unwrap_err();
                assert!(matches!(error, NetError::TimedOut { .. }), "{error}");
            });
        }
    });
    assert_eq!(listener.counters().connections, 1, "the connection is still there");
}

#[test]
fn stop_ends_waiting_connections_and_calls() {
    let service = Arc::new(Stubborn::default());
    let listener = listen(config(NodeKind::Mds, 0), Arc::new(CallHandler::new(service)));
    let driver = Blocking::new();
    let shared =
        block_on(driver.connect_shared(&endpoint(&listener, NodeKind::Mds, 0), LONG)).unwrap();
    thread::scope(|scope| {
        let call = scope.spawn(|| block_on(driver.call(&shared, 9, b"never", LONG)));
        assert_eq!(block_on(driver.call(&shared, 9, b"now", LONG)).unwrap().body, b"now");
        assert!(listener.stop(), "every connection ended in time");
        assert!(matches!(call.join().unwrap(), Err(NetError::ConnectionLost { .. })));
    });
    assert_eq!(listener.counters().connections, 0);
}

/// Sends without end. Returns how it ended.
struct Flood(Mutex<mpsc::Sender<Result<(), SendError>>>);

impl Handler for Flood {
    fn run(&self, admitted: AdmittedPeer) {
        let Some(connection) = admitted.accept() else { return };
        let payload = vec![0; 256 * 1024];
        let header = frame(FrameFlags::DATA, 1, payload.len() as u32);
        let sent = loop {
            if let Err(error) = connection.sender().send(&header, &[], &[IoSlice::new(&payload)]) {
                break Err(error);
            }
        };
        self.0.lock().unwrap().send(sent).unwrap();
    }
}

#[test]
fn a_client_that_does_not_read_does_not_hold_a_thread_for_ever() {
    let (send, receive) = mpsc::channel();
    let mut config = config(NodeKind::Mds, 0);
    config.stall_timeout = SHORT;
    let listener = listen(config, Arc::new(Flood(Mutex::new(send))));
    let _silent = authenticated(&listener);
    let ended = receive.recv_timeout(LONG).expect("the thread comes back");
    assert!(matches!(ended, Err(SendError::Connection(_))), "{ended:?}");
}
