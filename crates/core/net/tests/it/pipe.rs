//! Exchanges whose payload is spliced into a pipe: the pipe or the buffer holds exactly what was
//! sent.
#![cfg(target_os = "linux")]

use std::{
    io::{IoSlice, Read, Seek},
    sync::Arc,
    time::Duration,
};

use crate::support::{LONG, SILENCE, Script, TRICKLED, config, connect, endpoint, listen, trickle};
use braid_net::{
    Answer, Blocking, Connection, Driver, Endpoint, Exchange, NetError, Pipe, TlsPolicy, block_on,
    server::{AdmittedPeer, Handler, Listener, ServerConnection},
};
use braid_wire::{FrameFlags, FrameHeader, NodeKind};
use proptest::{collection::vec, prelude::*};

const PREFIX: &[u8] = b"sixteen bytes at";

/// For each byte `b` of a request's body, sends a frame of `4 b²` bytes, except for 0; the last
/// frame is final.
struct Frames;

impl Handler for Frames {
    fn run(&self, admitted: AdmittedPeer) {
        let Some(mut connection) = admitted.accept() else { return };
        while let Ok(Some(header)) = connection.next_header(None) {
            let cuts = connection.body().unwrap().to_vec();
            if send_frames(&connection, header.request_id, &cuts).is_err() {
                return;
            }
        }
    }
}

fn send_frames(
    connection: &ServerConnection,
    request_id: u64,
    cuts: &[u8],
) -> Result<(), braid_net::server::SendError> {
    let whole = content(cuts);
    let mut rest = &whole[..];
    for (at, cut) in cuts.iter().enumerate() {
        let (now, then) = rest.split_at(4 * usize::from(*cut).pow(2));
        rest = then;
        let is_last = at + 1 == cuts.len();
        if now.is_empty() && !is_last {
            continue;
        }
        let (flags, body) =
            if is_last { (FrameFlags::FINAL, &b"end"[..]) } else { (FrameFlags::DATA, &[][..]) };
        let (body_bytes, payload_bytes) = (body.len() as u32, now.len() as u32);
        let header = FrameHeader { op: 9, flags, request_id, body_bytes, payload_bytes };
        connection.sender().send(&header, body, &[IoSlice::new(now)])?;
    }
    Ok(())
}

fn content(cuts: &[u8]) -> Vec<u8> {
    (0..cuts.iter().map(|cut| 4 * usize::from(*cut).pow(2)).sum())
        .map(|n| (n % 241) as u8)
        .collect()
}

fn begun() -> Pipe {
    let mut pipe = Pipe::new().unwrap();
    pipe.begin(PREFIX).unwrap();
    pipe
}

fn exchange(
    connection: &mut Connection,
    cuts: &[u8],
    pipe: &mut Pipe,
    space: &mut [u8],
    timeout: Duration,
) -> Option<Result<Answer, NetError>> {
    block_on(Blocking::new().exchange_into_pipe(connection, (9, cuts), (pipe, space), timeout))
}

/// What a device receives.
fn sent(pipe: &mut Pipe) -> Vec<u8> {
    let mut file = tempfile::tempfile().unwrap();
    pipe.send(&file).unwrap();
    assert!(pipe.is_empty());
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Whether the payload arrived in the pipe. In any case it must equal what was sent.
fn goes_through(connection: &mut Connection, cuts: &[u8], more_space: usize) -> bool {
    let content = content(cuts);
    let (mut pipe, mut space) = (begun(), vec![0xaa; content.len() + more_space]);
    // Nothing, after a call on this connection that filled its pipe.
    let Some(answer) = exchange(connection, cuts, &mut pipe, &mut space, LONG) else {
        return false;
    };
    let answer = answer.unwrap();
    assert_eq!(answer, Answer { body: b"end".to_vec(), payload_bytes: content.len() as u64 });
    if pipe.payload_bytes() == 0 {
        assert!(
            space[..content.len()] == content
                && space[content.len()..].iter().all(|byte| *byte == 0xaa)
        );
        return content.is_empty();
    }
    assert_eq!(pipe.payload_bytes(), content.len());
    assert!(sent(&mut pipe) == [PREFIX, &content].concat());
    assert!(space.iter().all(|byte| *byte == 0xaa), "the buffer is not touched");
    true
}

fn server() -> (Listener, Endpoint) {
    let listener = listen(config(NodeKind::Iod, 1), Arc::new(Frames));
    let endpoint = endpoint(&listener, NodeKind::Iod, 1);
    (listener, endpoint)
}

#[test]
fn the_payload_follows_the_prefix_out_of_the_pipe() {
    let (_listener, endpoint) = server();
    let mut connection = connect(&endpoint);
    for cuts in [&[255, 255, 0][..], &[100, 1, 7], &[50], &[255, 3]] {
        assert!(goes_through(&mut connection, cuts, 0), "{cuts:?}");
        assert!(goes_through(&mut connection, cuts, 1000), "less than there is room for: {cuts:?}");
    }
    assert!(goes_through(&mut connection, &[0], 10), "nothing at all");
}

#[test]
fn a_full_pipe_moves_all_payload_to_the_buffer_and_is_not_tried_again() {
    let (_listener, endpoint) = server();
    let mut connection = connect(&endpoint);
    let many_pieces: Vec<u8> = (0..1000).map(|at| 1 + at as u8 % 40).collect();
    assert!(
        !goes_through(&mut connection, &many_pieces, 0),
        "a place for each frame at least: there are 256"
    );
    let (mut pipe, mut space) = (begun(), vec![0; 4 * 8100]);
    assert!(exchange(&mut connection, &[90], &mut pipe, &mut space, LONG).is_none());
    let mut connections = [connection];
    let recv = vec![std::io::IoSliceMut::new(&mut space)];
    let mut batch =
        [Exchange { connection: 0, op: 9, body: vec![90], send: vec![], recv, outcome: None }];
    block_on(Blocking::new().exchange(&mut connections, &mut batch, LONG));
    assert!(
        batch[0].outcome.take().unwrap().is_ok() && space == content(&[90]),
        "it is as good as before"
    );
}

#[test]
fn calls_by_pipe_and_by_buffer_take_turns_on_a_connection() {
    let (_listener, endpoint) = server();
    let mut connections = [connect(&endpoint)];
    for _ in 0..3 {
        assert!(goes_through(&mut connections[0], &[200, 100, 0], 0));
        let (cuts, mut space) = (vec![90, 9], vec![0; 4 * (8100 + 81)]);
        let recv = vec![std::io::IoSliceMut::new(&mut space)];
        let mut batch = [Exchange {
            connection: 0,
            op: 9,
            body: cuts.clone(),
            send: vec![],
            recv,
            outcome: None,
        }];
        block_on(Blocking::new().exchange(&mut connections, &mut batch, LONG));
        assert!(batch[0].outcome.take().unwrap().is_ok());
        assert!(space == content(&cuts));
    }
}

#[test]
fn over_tls_nothing_is_sent_and_the_connection_stays_good() {
    let (_listener, endpoint) = server();
    let mut connections = [connect(&Endpoint { tls: TlsPolicy::Always, ..endpoint })];
    let (mut pipe, mut space) = (begun(), vec![0; 40_000]);
    assert!(exchange(&mut connections[0], &[100], &mut pipe, &mut space, LONG).is_none());
    let recv = vec![std::io::IoSliceMut::new(&mut space)];
    let mut batch =
        [Exchange { connection: 0, op: 9, body: vec![100], send: vec![], recv, outcome: None }];
    block_on(Blocking::new().exchange(&mut connections, &mut batch, LONG));
    assert!(batch[0].outcome.take().unwrap().is_ok());
    assert!(space == content(&[100]));
}

/// The error of a call to a server that follows the script. What arrived before can be taken out of
/// the pipe.
fn against(script: fn(&mut ServerConnection), timeout: Duration) -> NetError {
    let listener = listen(config(NodeKind::Iod, 1), Arc::new(Script(script)));
    let mut connection = connect(&endpoint(&listener, NodeKind::Iod, 1));
    let (mut pipe, mut space) = (begun(), vec![0; 1000]);
    let error =
        exchange(&mut connection, &[1], &mut pipe, &mut space, timeout).unwrap().unwrap_err();
    assert!(
        error.to_string().contains("I/O daemon 1 at 127.0.0.1:"),
        "the error names the server: {error}"
    );
    pipe.take(&mut space).unwrap();
    assert!(pipe.is_empty());
    assert!(
        exchange(&mut connection, &[1], &mut pipe, &mut space, LONG).is_none(),
        "the connection is not used again"
    );
    error
}

fn frame(flags: FrameFlags, request_id: u64, payload_bytes: u32) -> FrameHeader {
    FrameHeader { op: 9, flags, request_id, body_bytes: 0, payload_bytes }
}

#[test]
fn a_server_that_stays_silent_in_the_middle_is_a_timeout() {
    let script = |connection: &mut ServerConnection| {
        let header = connection.next_header(None).unwrap().unwrap();
        let half = frame(FrameFlags::DATA, header.request_id, 500);
        connection.sender().send(&half, &[], &[IoSlice::new(&[1; 500])]).unwrap();
        while !matches!(connection.next_header(None), Ok(None) | Err(_)) {}
    };
    let error = against(script, Duration::from_millis(200));
    assert!(matches!(error, NetError::TimedOut { .. }), "{error}");
}

#[test]
fn a_server_that_is_slow_is_waited_for_while_it_moves() {
    let listener = listen(config(NodeKind::Iod, 1), Arc::new(Script(trickle)));
    let mut connection = connect(&endpoint(&listener, NodeKind::Iod, 1));
    let (mut pipe, mut space) = (begun(), vec![0; TRICKLED]);
    let answer = exchange(&mut connection, &[1], &mut pipe, &mut space, SILENCE).unwrap().unwrap();
    assert_eq!(answer.payload_bytes, TRICKLED as u64);
}

#[test]
fn a_server_that_dies_in_the_middle_is_a_lost_connection() {
    let script = |connection: &mut ServerConnection| {
        let header = connection.next_header(None).unwrap().unwrap();
        let half = frame(FrameFlags::DATA, header.request_id, 500);
        connection.sender().send(&half, &[], &[IoSlice::new(&[1; 500])]).unwrap();
    };
    assert!(matches!(against(script, LONG), NetError::ConnectionLost { .. }));
}

#[test]
fn excess_payload_and_an_answer_to_another_call_are_refused() {
    let too_much = |connection: &mut ServerConnection| {
        let header = connection.next_header(None).unwrap().unwrap();
        let all = frame(FrameFlags::DATA, header.request_id, 1001);
        let _ = connection.sender().send(&all, &[], &[IoSlice::new(&[1; 1001])]);
        while !matches!(connection.next_header(None), Ok(None) | Err(_)) {}
    };
    assert!(matches!(against(too_much, LONG), NetError::PeerMisbehaved { .. }));
    let other = |connection: &mut ServerConnection| {
        let header = connection.next_header(None).unwrap().unwrap();
        let _ =
            connection.sender().send(&frame(FrameFlags::FINAL, header.request_id + 1, 0), &[], &[]);
        while !matches!(connection.next_header(None), Ok(None) | Err(_)) {}
    };
    assert!(matches!(against(other, LONG), NetError::PeerMisbehaved { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_frames_come_as_they_were_sent(
        calls in vec((vec(any::<u8>(), 1..12), 0..5000usize), 1..6),
    ) {
        let (_listener, endpoint) = server();
        let mut connection = connect(&endpoint);
        for (cuts, more_space) in calls {
            goes_through(&mut connection, &cuts, more_space);
        }
    }
}
