//! Exchanges with random slices, frames and batches: every byte arrives at its place.

use std::{
    io::{IoSlice, IoSliceMut},
    sync::Arc,
};

use crate::support::{LONG, Mirror, config, connect, endpoint, listen};
use braid_net::{Blocking, Connection, Driver, Exchange, TlsPolicy, block_on};
use braid_wire::NodeKind;
use proptest::prelude::*;

/// One exchange: its connection, its length, and how it is split when sent, when received, and into
/// the server's frames.
#[derive(Clone, Debug)]
struct Plan {
    connection: usize,
    bytes: usize,
    send_piece: usize,
    recv_piece: usize,
    frames: Vec<u8>,
    /// Buffer space beyond the reply.
    spare: usize,
}

fn plan() -> impl Strategy<Value = Plan> {
    let bytes = prop_oneof![0..200usize, 0..20_000usize, 0..700_000usize];
    let piece = || prop_oneof![1..64usize, 4096..4097usize, 1..100_000usize];
    let frames = prop::collection::vec(any::<u8>(), 0..8);
    (0..3usize, bytes, piece(), piece(), frames, 0..3000usize).prop_map(
        |(connection, bytes, send_piece, recv_piece, frames, spare)| {
            // at most some thousand slices: more would test nothing new
            let piece = |piece: usize| piece.max(bytes / 3000 + 1);
            Plan {
                connection,
                bytes,
                send_piece: piece(send_piece),
                recv_piece: piece(recv_piece),
                frames,
                spare,
            }
        },
    )
}

fn content(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n.wrapping_mul(31).wrapping_add(seed * 7) >> 3) as u8).collect()
}

fn check(connections: &mut [Connection], plans: &[Plan]) {
    let sent: Vec<_> = plans.iter().enumerate().map(|(n, plan)| content(n, plan.bytes)).collect();
    let mut received: Vec<_> =
        plans.iter().map(|plan| vec![0xaa; plan.bytes + plan.spare]).collect();
    let mut batch: Vec<_> = (plans.iter().zip(&sent).zip(&mut received))
        .map(|((plan, sent), received)| Exchange {
            connection: plan.connection,
            op: 0x0201,
            body: plan.frames.clone(),
            send: sent.chunks(plan.send_piece).map(IoSlice::new).collect(),
            recv: received.chunks_mut(plan.recv_piece).map(IoSliceMut::new).collect(),
            outcome: None,
        })
        .collect();
    block_on(Blocking::new().exchange(connections, &mut batch, LONG));
    for (exchange, plan) in batch.iter().zip(plans) {
        let answer = exchange.outcome.as_ref().unwrap().as_ref().unwrap();
        assert_eq!((&answer.body, answer.payload_bytes), (&plan.frames, plan.bytes as u64));
    }
    drop(batch);
    for ((received, sent), plan) in received.iter().zip(&sent).zip(plans) {
        assert!(received[..plan.bytes] == sent[..], "bytes lie where they belong");
        assert!(
            received[plan.bytes..].iter().all(|byte| *byte == 0xaa),
            "what was not sent is untouched"
        );
    }
}

fn run(tls: TlsPolicy, cases: u32) {
    let listener = listen(config(NodeKind::Iod, 1), Arc::new(Mirror));
    let mut endpoint = endpoint(&listener, NodeKind::Iod, 1);
    endpoint.tls = tls;
    let connections =
        std::cell::RefCell::new([connect(&endpoint), connect(&endpoint), connect(&endpoint)]);
    proptest!(ProptestConfig::with_cases(cases), |(plans in prop::collection::vec(plan(), 1..10))| {
        check(&mut *connections.borrow_mut(), &plans);
    });
}

#[test]
fn every_byte_comes_back_where_it_belongs() {
    run(TlsPolicy::UnlessLoopback, 128);
}

#[test]
fn every_byte_comes_back_where_it_belongs_over_tls() {
    run(TlsPolicy::Always, 24);
}
