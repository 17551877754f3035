//! The blocking driver against the server, over loopback.

use std::io::{IoSlice, IoSliceMut};

use crate::support::{LONG, Mirror, config, connect, echo, endpoint, listen};
use braid_net::{Blocking, Driver, Exchange, block_on};
use braid_wire::NodeKind;

#[test]
fn a_shared_connection_answers_each_call() {
    let listener = listen(config(NodeKind::Mds, 0), echo());
    let driver = Blocking::new();
    let shared =
        block_on(driver.connect_shared(&endpoint(&listener, NodeKind::Mds, 0), LONG)).unwrap();
    for n in 0..100u8 {
        let answer = block_on(driver.call(&shared, 9, &[n; 5], LONG)).unwrap();
        assert_eq!(answer.body, [n; 5]);
    }
}

#[test]
fn an_exchange_brings_payload_there_and_back() {
    let listener = listen(config(NodeKind::Iod, 3), std::sync::Arc::new(Mirror));
    let mut connections = [connect(&endpoint(&listener, NodeKind::Iod, 3))];
    let sent: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut received = vec![0; sent.len()];
    let (head, tail) = received.split_at_mut(333_333);
    let mut batch = [Exchange {
        connection: 0,
        op: 9,
        body: vec![255, 1, 255, 100, 255],
        send: vec![IoSlice::new(&sent[..77]), IoSlice::new(&sent[77..])],
        recv: vec![IoSliceMut::new(head), IoSliceMut::new(tail)],
        outcome: None,
    }];
    block_on(Blocking::new().exchange(&mut connections, &mut batch, LONG));
    let answer = batch[0].outcome.take().unwrap().unwrap();
    assert_eq!((answer.body, answer.payload_bytes), (vec![255, 1, 255, 100, 255], 1_000_000));
    assert!(sent == received);
}

#[test]
fn an_exchange_and_calls_go_over_tls() {
    let listener = listen(config(NodeKind::Iod, 3), std::sync::Arc::new(Mirror));
    let mut secret = endpoint(&listener, NodeKind::Iod, 3);
    secret.tls = braid_net::TlsPolicy::Always;
    let mut connections = [connect(&secret), connect(&secret)];
    let sent: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let mut received = vec![vec![0; sent.len()]; 4];
    let body = [255; 12].to_vec();
    let mut batch: Vec<_> = (received.iter_mut().enumerate())
        .map(|(n, buffer)| Exchange {
            connection: n % 2,
            op: 9,
            body: body.clone(),
            send: sent.chunks(100_000).map(IoSlice::new).collect(),
            recv: buffer.chunks_mut(65_536).map(IoSliceMut::new).collect(),
            outcome: None,
        })
        .collect();
    block_on(Blocking::new().exchange(&mut connections, &mut batch, LONG));
    for exchange in &batch {
        assert_eq!(exchange.outcome.as_ref().unwrap().as_ref().unwrap().payload_bytes, 3_000_000);
    }
    drop(batch);
    assert!(received.iter().all(|bytes| *bytes == sent));
}
