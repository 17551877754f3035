//! The tokio driver against the server, over loopback, plain and over TLS.

use std::{
    io::{IoSlice, IoSliceMut},
    sync::Arc,
    time::Duration,
};

use crate::support::{
    LONG, Mirror, SILENCE, Script, TRICKLED, config, echo, endpoint, listen, stay_silent, trickle,
};
use braid_net::{Driver, Endpoint, Exchange, NetError, TlsPolicy, Tokio, server::ServerConnection};
use braid_wire::{FrameFlags, FrameHeader, NodeKind};

const POLICIES: [TlsPolicy; 2] = [TlsPolicy::Never, TlsPolicy::Always];

#[tokio::test]
async fn calls_of_many_tasks_share_a_connection() {
    for tls in POLICIES {
        let listener = listen(config(NodeKind::Mds, 0), echo());
        let endpoint = Endpoint { tls, ..endpoint(&listener, NodeKind::Mds, 0) };
        let driver = Tokio::new();
        let shared = Arc::new(driver.connect_shared(&endpoint, LONG).await.unwrap());
        let calls = (0..500u32).map(|n| {
            let (driver, shared) = (driver.clone(), Arc::clone(&shared));
            tokio::spawn(async move {
                (n, driver.call(&shared, 9, &n.to_le_bytes(), LONG).await.unwrap().body)
            })
        });
        for call in calls.collect::<Vec<_>>() {
            let (n, body) = call.await.unwrap();
            assert_eq!(body, n.to_le_bytes());
        }
    }
}

#[tokio::test]
async fn exchanges_over_several_connections_bring_every_byte_back() {
    for tls in POLICIES {
        let listener = listen(config(NodeKind::Iod, 1), Arc::new(Mirror));
        let endpoint = Endpoint { tls, ..endpoint(&listener, NodeKind::Iod, 1) };
        let driver = Tokio::new();
        let mut connections = [
            driver.connect(&endpoint, LONG).await.unwrap(),
            driver.connect(&endpoint, LONG).await.unwrap(),
        ];
        let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n % 253) as u8).collect();
        let mut received = vec![vec![0; sent.len()]; 7];
        let mut batch: Vec<_> = (received.iter_mut().enumerate())
            .map(|(n, buffer)| Exchange {
                connection: n % 2,
                op: 9,
                body: vec![255; n],
                send: sent.chunks(77_777).map(IoSlice::new).collect(),
                recv: buffer.chunks_mut(65_536).map(IoSliceMut::new).collect(),
                outcome: None,
            })
            .collect();
        driver.exchange(&mut connections, &mut batch, LONG).await;
        for (n, exchange) in batch.iter().enumerate() {
            let answer = exchange.outcome.as_ref().unwrap().as_ref().unwrap();
            assert_eq!((&answer.body, answer.payload_bytes), (&vec![255; n], 3_000_000));
        }
        drop(batch);
        assert!(received.iter().all(|bytes| *bytes == sent));
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_the_connection_whole() {
    let listener = listen(config(NodeKind::Mds, 0), echo());
    let driver = Tokio::new();
    let shared = driver.connect_shared(&endpoint(&listener, NodeKind::Mds, 0), LONG).await.unwrap();
    for n in 0..1000u32 {
        let body = n.to_le_bytes();
        tokio::select! {
            biased;
            _ = driver.call(&shared, 9, &body, LONG) => {}
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(driver.call(&shared, 9, b"whole", LONG).await.unwrap().body, b"whole");
}

#[tokio::test]
async fn a_slow_server_is_waited_for_while_it_moves_and_a_silent_one_fails() {
    let slow = listen(config(NodeKind::Iod, 1), Arc::new(Script(trickle)));
    let silent = listen(config(NodeKind::Iod, 2), Arc::new(Script(stay_silent)));
    let driver = Tokio::new();
    let mut connections = [
        driver.connect(&endpoint(&slow, NodeKind::Iod, 1), LONG).await.unwrap(),
        driver.connect(&endpoint(&silent, NodeKind::Iod, 2), LONG).await.unwrap(),
    ];
    let mut buffers = [vec![0; TRICKLED], vec![0; TRICKLED]];
    let mut batch: Vec<_> = (buffers.iter_mut().enumerate())
        .map(|(connection, buffer)| {
            let (send, recv) = (Vec::new(), vec![IoSliceMut::new(buffer)]);
            Exchange { connection, op: 9, body: vec![1], send, recv, outcome: None }
        })
        .collect();
    driver.exchange(&mut connections, &mut batch, SILENCE).await;
    let outcomes: Vec<_> =
        batch.iter_mut().map(|exchange| exchange.outcome.take().unwrap()).collect();
    assert_eq!(outcomes[0].as_ref().unwrap().payload_bytes, TRICKLED as u64);
    assert!(matches!(outcomes[1], Err(NetError::TimedOut { .. })), "{:?}", outcomes[1]);
}

#[tokio::test]
async fn a_server_that_dies_or_stays_silent_is_named_in_the_error() {
    let dies = Script(|connection| {
        connection.next_header(None).unwrap();
    });
    let silent = Script(|connection| while connection.next_header(None).is_ok() {});
    for (script, timeout) in [(dies, LONG), (silent, Duration::from_millis(200))] {
        let listener = listen(config(NodeKind::Iod, 1), Arc::new(script));
        let driver = Tokio::new();
        let mut connection =
            [driver.connect(&endpoint(&listener, NodeKind::Iod, 1), LONG).await.unwrap()];
        for _ in 0..2 {
            let (send, recv) = (Vec::new(), Vec::new());
            let mut batch =
                [Exchange { connection: 0, op: 9, body: vec![1], send, recv, outcome: None }];
            driver.exchange(&mut connection, &mut batch, timeout).await;
            let error = batch[0].outcome.take().unwrap().unwrap_err();
            assert!(error.to_string().contains("I/O daemon 1 at"), "{error}");
            assert_eq!(matches!(error, NetError::TimedOut { .. }), timeout != LONG, "{error}");
        }
    }
}

/// Answers with as many bytes of `pattern` as the body states, in frames of 1000 bytes.
fn send_pattern(connection: &mut ServerConnection) {
    while let Ok(Some(header)) = connection.next_header(None) {
        let FrameHeader { op, request_id, .. } = header;
        let body = connection.body().unwrap().try_into().unwrap();
        let payload = pattern(u32::from_le_bytes(body) as usize);
        let mut frames: Vec<_> = payload.chunks(1000).collect();
        let last = frames.pop().unwrap_or_default();
        let flagged = frames.into_iter().map(|frame| (FrameFlags::DATA, frame));
        for (flags, frame) in flagged.chain([(FrameFlags::FINAL, last)]) {
            let payload_bytes = frame.len() as u32;
            let header = FrameHeader { op, flags, request_id, body_bytes: 0, payload_bytes };
            if connection.sender().send(&header, &[], &[IoSlice::new(frame)]).is_err() {
                return;
            }
        }
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

#[tokio::test]
async fn payload_is_received_into_a_vector_whose_length_the_server_decides() {
    for tls in POLICIES {
        let listener = listen(config(NodeKind::Iod, 1), Arc::new(Script(send_pattern)));
        let endpoint = Endpoint { tls, ..endpoint(&listener, NodeKind::Iod, 1) };
        let driver = Tokio::new();
        let mut connection = driver.connect(&endpoint, LONG).await.unwrap();
        for (bytes, most) in
            [(0, 0), (0, 10), (10, 10), (999, 5000), (5000, 5000), (700_001, 1 << 20)]
        {
            let call = (9, (bytes as u32).to_le_bytes().to_vec());
            let done = driver.exchange_to_vec(&mut connection, call, most, LONG).await;
            let (answer, payload) = done.unwrap().unwrap();
            assert_eq!(answer.payload_bytes, bytes as u64);
            assert_eq!(payload, pattern(bytes), "{bytes} of {most}");
            assert!(payload.capacity() <= 2 * bytes + 8, "{bytes} bytes keep {most}");
        }
        let call = (9, 11_u32.to_le_bytes().to_vec());
        let done = driver.exchange_to_vec(&mut connection, call, 10, LONG).await.unwrap();
        let error = done.unwrap_err();
        assert!(matches!(error, NetError::PeerMisbehaved { .. }), "{error}");
    }
}
