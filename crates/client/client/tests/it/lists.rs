//! List I/O: pieces in any order, overlapping, or past the end of the file; and the number of
//! requests.

use std::io::{IoSlice, IoSliceMut};

use crate::fake::Fake;
use braid_client::{Extent, OpenOptions, ReadPiece, WritePiece, asynchronous::File};
use braid_net::block_on;
use braid_types::{IodId, limits::LIST_EXTENTS_MAX};
use braid_wire::{Call, message::iod};
use proptest::prelude::*;

fn open(fake: &Fake) -> File<Fake> {
    let options = OpenOptions::new().read(true).write(true).create(true);
    block_on(fake.client().open("/f", &options)).unwrap()
}

/// The behaviour of a plain file, one piece after the other.
fn model_write(model: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let (from, to) = (offset as usize, offset as usize + data.len());
    if from < to {
        model.resize(model.len().max(to), 0);
        model[from..to].copy_from_slice(data);
    }
}

fn model_read(model: &[u8], offset: u64, bytes: usize) -> &[u8] {
    let from = (offset as usize).min(model.len());
    &model[from..(from + bytes).min(model.len())]
}

/// Nearby offsets and lengths, so that they overlap, in any order; some are empty.
fn list() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec((0u64..40_000, prop_oneof![1 => Just(0), 9 => 1usize..9000]), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 256, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn pieces_behave_like_one_call_for_each_in_order(
        writes in prop::collection::vec(list(), 1..4), reads in list()
    ) {
        let file = open(&Fake::striped());
        let mut model = Vec::new();
        for (turn, list) in writes.iter().enumerate() {
            let data: Vec<Vec<u8>> = (1u8..)
                .zip(list)
                .map(|(at, (_, bytes))| vec![at + 20 * turn as u8; *bytes])
                .collect();
            let pieces: Vec<WritePiece<'_>> = list
                .iter()
                .zip(&data)
                .map(|((offset, _), data)| WritePiece::new(*offset, data))
                .collect();
            let all: usize = data.iter().map(Vec::len).sum();
            prop_assert_eq!(block_on(file.write_pieces(&pieces)).unwrap(), all);
            for ((offset, _), data) in list.iter().zip(&data) {
                model_write(&mut model, *offset, data);
            }
        }
        prop_assert_eq!(block_on(file.size()).unwrap(), model.len() as u64);
        let mut memory: Vec<Vec<u8>> = reads.iter().map(|(_, bytes)| vec![0xee; *bytes]).collect();
        let mut pieces: Vec<ReadPiece<'_>> =
            reads
                .iter()
                .zip(&mut memory)
                .map(|((offset, _), memory)| ReadPiece::new(*offset, memory))
                .collect();
        let got = block_on(file.read_pieces(&mut pieces)).unwrap();
        prop_assert_eq!(got, pieces.iter().map(|piece| piece.bytes).sum::<usize>());
        for (piece, (offset, bytes)) in pieces.iter().zip(&reads) {
            let expected = model_read(&model, *offset, *bytes);
            prop_assert!(piece.memory[..piece.bytes] == *expected, "{} from {}", bytes, offset);
        }
    }

    /// The lengths in the file are independent of those in memory.
    #[test]
    fn a_list_and_its_buffers_meet_in_the_middle_in_any_order(
        list in list(), cuts in prop::collection::vec(0usize..7000, 0..8)
    ) {
        let file = open(&Fake::striped());
        let mut model = vec![9; 60_000];
        block_on(file.write_at(&model, 0)).unwrap();
        let extents: Vec<Extent> = list
            .iter()
            .map(|(offset, bytes)| Extent { offset: *offset, bytes: *bytes as u64 })
            .collect();
        let buffers: Vec<Vec<u8>> =
            (1u8..).zip(&cuts).map(|(at, bytes)| vec![at + 10; *bytes]).collect();
        let slices: Vec<IoSlice<'_>> = buffers.iter().map(|buffer| IoSlice::new(buffer)).collect();
        let flat = buffers.concat();
        let total = flat.len().min(list.iter().map(|(_, bytes)| bytes).sum());
        prop_assert_eq!(block_on(file.write_list(&extents, &slices)).unwrap(), total);
        let mut at = 0;
        for (offset, bytes) in &list {
            let taken = (*bytes).min(flat.len() - at);
            model_write(&mut model, *offset, &flat[at..at + taken]);
            at += taken;
        }
        let mut back: Vec<Vec<u8>> = cuts.iter().map(|bytes| vec![0xee; *bytes]).collect();
        let mut slices: Vec<IoSliceMut<'_>> =
            back.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        prop_assert_eq!(block_on(file.read_list(&extents, &mut slices)).unwrap(), total);
        let expected: Vec<u8> = list
            .iter()
            .flat_map(|(offset, bytes)| model_read(&model, *offset, *bytes).to_vec())
            .collect();
        prop_assert!(back.concat()[..total] == expected[..total]);
    }
}

/// A file of `bytes` bytes whose values depend on their offsets; the counters are reset.
fn written(fake: &Fake, bytes: usize) -> (File<Fake>, Vec<u8>) {
    let file = open(fake);
    let data: Vec<u8> = (0..bytes).map(|at| (at * 13 + at / 251) as u8).collect();
    block_on(file.write_at(&data, 0)).unwrap();
    fake.cluster().exchanges.clear();
    (file, data)
}

/// Reads pieces of `bytes` each and checks them.
fn read_all(file: &File<Fake>, data: &[u8], offsets: &[u64], bytes: usize) {
    let mut memory = vec![0; offsets.len() * bytes];
    let mut pieces: Vec<ReadPiece<'_>> = offsets
        .iter()
        .zip(memory.chunks_mut(bytes))
        .map(|(offset, memory)| ReadPiece::new(*offset, memory))
        .collect();
    assert_eq!(block_on(file.read_pieces(&mut pieces)).unwrap(), offsets.len() * bytes);
    for piece in pieces {
        assert!(*piece.memory == *model_read(data, piece.offset, bytes), "at {}", piece.offset);
    }
}

/// The same numbers in an irregular order.
fn shuffled(offsets: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut offsets: Vec<u64> = offsets.collect();
    offsets.sort_by_key(|offset| offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
    offsets
}

#[test]
fn pieces_in_any_order_take_the_requests_of_an_ascending_list() {
    let fake = Fake::striped();
    let count = 2 * LIST_EXTENTS_MAX as u64 + 5;
    let (file, data) = written(&fake, 50 * count as usize + 100);
    // Distances of 48 to 50 bytes: not a strided view.
    read_all(&file, &data, &shuffled((0..count).map(|at| at * 50 - at % 3)), 20);
    for iod in (1..=3).map(IodId) {
        assert!(
            (1..=3).contains(&fake.cluster().requests_to(iod, iod::Read::OP)),
            "I2: one for each message of the list"
        );
    }
    fake.cluster().exchanges.clear();
    read_all(&file, &data, &shuffled((0..count).map(|at| at * 50)), 20);
    for iod in (1..=3).map(IodId) {
        assert_eq!(
            fake.cluster().requests_to(iod, iod::Read::OP),
            1,
            "a formula is one, however many pieces it has"
        );
    }
}

#[test]
fn a_list_travels_to_each_daemon_once_however_many_windows_it_takes() {
    let fake = Fake::striped();
    let (count, bytes) = (4000u64, 10_000);
    let (file, data) = written(&fake, 11_000 * count as usize);
    let offsets: Vec<u64> = (0..count).map(|at| at * 11_000 - at % 7).collect();
    read_all(&file, &data, &offsets, bytes);
    fake.cluster().request_bytes.clear();
    read_all(&file, &data, &offsets, bytes);
    let cluster = fake.cluster();
    let (requests, sent) = (
        cluster.request_bytes.len(),
        cluster.request_bytes.iter().map(|(_, bytes)| bytes).sum::<usize>(),
    );
    assert!(requests >= 3 * 4, "each daemon has {} bytes: some windows", bytes as u64 * count / 3);
    // 16 bytes for each extent. An extent shared by two windows is sent twice, and each request has
    // some fields.
    let list = 16 * count as usize;
    assert!(
        sent <= 3 * list + requests * 100,
        "{sent} bytes in {requests} requests, and the list is {list}"
    );
}

#[test]
fn bytes_that_several_pieces_want_travel_once() {
    let fake = Fake::striped();
    let (file, data) = written(&fake, 40_000);
    read_all(&file, &data, &[10_000, 0, 5000, 10_000, 2500, 20_000], 10_000);
    let payload: u64 = fake.cluster().exchanges.iter().map(|(.., bytes)| bytes).sum();
    assert_eq!(payload, 30_000);
}

#[test]
fn bytes_that_a_later_piece_overwrites_are_not_sent() {
    let fake = Fake::striped();
    let (file, mut data) = written(&fake, 40_000);
    let (low, high) = ([1; 10_000], [2; 10_000]);
    let pieces = [
        WritePiece::new(10_000, &low),
        WritePiece::new(5000, &high),
        WritePiece::new(5000, &low[..100]),
    ];
    block_on(file.write_pieces(&pieces)).unwrap();
    let payload: u64 = fake.cluster().exchanges.iter().map(|(.., bytes)| bytes).sum();
    assert_eq!(payload, 15_000);
    pieces.iter().for_each(|piece| model_write(&mut data, piece.offset, &piece.memory));
    read_all(&file, &data, &[0], 40_000);
}

#[test]
fn an_empty_list_sends_no_request() {
    let fake = Fake::striped();
    let (file, _) = written(&fake, 100);
    assert_eq!(block_on(file.read_pieces(&mut [])).unwrap(), 0);
    assert_eq!(
        block_on(
            file.read_pieces(&mut [ReadPiece::new(5, &mut []), ReadPiece::new(u64::MAX, &mut [1])])
        )
        .unwrap(),
        0
    );
    assert_eq!(block_on(file.write_pieces(&[WritePiece::new(u64::MAX, &[])])).unwrap(), 0);
    assert_eq!(block_on(file.read_list(&[], &mut [IoSliceMut::new(&mut [0; 9])])).unwrap(), 0);
    assert!(fake.cluster().exchanges.is_empty());
}
