//! Frames whose payload is a file, plain (`sendfile`) and over TLS, or ranges of a mapped file.

use std::{
    fs::File,
    io::IoSliceMut,
    sync::{Arc, mpsc},
};

use crate::support::{LONG, config, connect, endpoint, listen};
use braid_net::{
    Blocking, Driver, Endpoint, Exchange, TlsPolicy, block_on,
    server::{AdmittedPeer, FrameSender, Handler, MappedRange, SendError},
};
use braid_wire::{FrameFlags, FrameHeader, NodeKind};
use memmap2::MmapOptions;

/// Sends a frame from a file.
type Send =
    Box<dyn Fn(&FrameSender, &FrameHeader) -> Result<(), SendError> + Sync + std::marker::Send>;

/// Answers every request with one data frame from a file, and an empty final frame.
struct FromFile {
    send: Send,
    length: usize,
    sent: mpsc::SyncSender<Result<(), SendError>>,
}

impl Handler for FromFile {
    fn run(&self, admitted: AdmittedPeer) {
        let Some(mut connection) = admitted.accept() else { return };
        while let Ok(Some(FrameHeader { op, request_id, .. })) = connection.next_header(None) {
            let payload_bytes = self.length as u32;
            let data = FrameHeader {
                op,
                flags: FrameFlags::DATA,
                request_id,
                body_bytes: 0,
                payload_bytes,
            };
            self.sent.send((self.send)(connection.sender(), &data)).unwrap();
            let last =
                FrameHeader { flags: FrameFlags::FINAL, body_bytes: 3, payload_bytes: 0, ..data };
            connection.sender().send(&last, b"end", &[]).unwrap();
        }
    }
}

/// What a client receives when it asks for 200,000 bytes of `file` from offset 1,000.
fn received(file: File, tls: TlsPolicy) -> (Vec<u8>, Result<(), SendError>) {
    answered(
        200_000,
        tls,
        Box::new(move |sender, header| sender.send_data_from_file(header, &file, 1000, 200_000)),
    )
}

/// What a client receives as ranges of `file`, of `bytes` each, at these offsets. The file is
/// truncated or extended after it is mapped.
fn received_pieces(
    file: File,
    offsets: Vec<u64>,
    bytes: usize,
    length: Option<u64>,
) -> (Vec<u8>, Result<(), SendError>) {
    let frame = offsets.len() * bytes;
    let send = move |sender: &FrameSender, header: &FrameHeader| {
        let map = MmapOptions::new().len(1 << 20).map_raw_read_only(&file).unwrap();
        length.into_iter().for_each(|length| file.set_len(length).unwrap());
        let piece = |offset: &u64| MappedRange::new(&map, &file, *offset, bytes).unwrap();
        sender.send_data_mapped(header, &offsets.iter().map(piece).collect::<Vec<_>>())
    };
    answered(frame, TlsPolicy::Never, Box::new(send))
}

/// What a client receives as a frame of `length` bytes.
fn answered(length: usize, tls: TlsPolicy, send: Send) -> (Vec<u8>, Result<(), SendError>) {
    let (sent, outcome) = mpsc::sync_channel(1);
    let listener = listen(config(NodeKind::Iod, 1), Arc::new(FromFile { send, length, sent }));
    let endpoint = Endpoint { tls, ..endpoint(&listener, NodeKind::Iod, 1) };
    let mut buffer = vec![0xaa; length];
    let recv = vec![IoSliceMut::new(&mut buffer)];
    let mut batch =
        [Exchange { connection: 0, op: 9, body: vec![1], send: Vec::new(), recv, outcome: None }];
    block_on(Blocking::new().exchange(&mut [connect(&endpoint)], &mut batch, LONG));
    let answer = batch[0].outcome.take().unwrap().unwrap();
    assert_eq!((answer.body, answer.payload_bytes), (b"end".to_vec(), length as u64));
    (buffer, outcome.recv().unwrap())
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 241) as u8).collect()
}

/// An unnamed temporary file.
fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    file
}

#[test]
fn a_file_is_sent_as_it_is() {
    for tls in [TlsPolicy::Never, TlsPolicy::Always] {
        let all = content(300_000);
        let (bytes, sent) = received(file_of(&all), tls);
        assert!(bytes == all[1000..201_000]);
        sent.unwrap();
    }
}

#[test]
fn a_file_that_ends_too_early_is_filled_up_with_zeros() {
    for (tls, size) in
        [(TlsPolicy::Never, 150_000), (TlsPolicy::Always, 150_000), (TlsPolicy::Never, 0)]
    {
        let all = content(size);
        let (bytes, sent) = received(file_of(&all), tls);
        let there = size.saturating_sub(1000);
        assert!(
            bytes[..there] == all[all.len() - there..]
                && bytes[there..].iter().all(|byte| *byte == 0)
        );
        sent.unwrap();
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_on_a_connection_that_lives_on() {
    for tls in [TlsPolicy::Never, TlsPolicy::Always] {
        let (_, path) = tempfile::NamedTempFile::new().unwrap().into_parts();
        let write_only = File::options().write(true).open(&path).unwrap();
        let (bytes, sent) = received(write_only, tls);
        assert!(bytes.iter().all(|byte| *byte == 0));
        assert!(matches!(sent, Err(SendError::File(_))), "{sent:?}");
    }
}

#[test]
fn pieces_of_a_mapped_file_come_in_their_order_whatever_their_number() {
    let all = content(1_000_000);
    let shapes = [
        (2, 1, 7),
        (60, 4096, 16_384 - 1),
        (4, 65_000, 70_001),
        (128, 2048, 4096),
        (1023, 100, 300),
        (5000, 24, 190),
    ];
    for (pieces, bytes, stride) in shapes {
        // From the end to the beginning, so that no two can be confused.
        let offsets: Vec<u64> = (0..pieces).rev().map(|piece| piece * stride).collect();
        let want: Vec<u8> =
            offsets.iter().flat_map(|at| &all[*at as usize..][..bytes]).copied().collect();
        let (got, sent) = received_pieces(file_of(&all), offsets, bytes, None);
        assert!(got == want, "{pieces} pieces of {bytes} bytes");
        sent.unwrap();
    }
}

#[test]
fn a_file_truncated_after_mapping_is_sent_with_zeros() {
    // The last one grew, but not with data.
    for (left, length) in [(0, 0), (300_000, 300_000), (1_000_000, 1_040_000)] {
        let mut all = content(1_000_000);
        let offsets: Vec<u64> = (0..64).map(|piece| piece * 16_384).collect();
        let (got, sent) = received_pieces(file_of(&all), offsets.clone(), 4096, Some(length));
        all.truncate(left);
        all.resize(1 << 20, 0);
        let want: Vec<u8> =
            offsets.iter().flat_map(|at| &all[*at as usize..][..4096]).copied().collect();
        assert!(got == want, "cut at {left}");
        sent.unwrap();
    }
}

#[test]
fn a_piece_that_the_mapping_does_not_have_is_refused() {
    let file = file_of(b"abc");
    let map = MmapOptions::new().len(4096).map_raw_read_only(&file).unwrap();
    assert!(MappedRange::new(&map, &file, 4000, 96).is_some());
    assert!(MappedRange::new(&map, &file, 4000, 97).is_none());
    assert!(MappedRange::new(&map, &file, u64::MAX, 1).is_none());
}
