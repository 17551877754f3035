//! Frames whose payload is a file, plain (`sendfile`) and over TLS.

mod support;

use std::{
    fs::File,
    io::IoSliceMut,
    sync::{Arc, mpsc},
};

use braid_net::{
    Blocking, Driver, Endpoint, Exchange, TlsPolicy, block_on,
    server::{Handler, Newcomer, SendError},
};
use braid_wire::{FrameFlags, FrameHeader, NodeKind};
use support::{LONG, config, connect, endpoint, listen};

/// Answers every request with one data frame from `file` and an empty final frame.
struct FromFile {
    file: File,
    length: usize,
    sent: mpsc::SyncSender<Result<(), SendError>>,
}

impl Handler for FromFile {
    fn run(&self, newcomer: Newcomer) {
        let Some(mut connection) = newcomer.welcome() else { return };
        while let Ok(Some(FrameHeader { op, request_id, .. })) = connection.next_header(None) {
            let payload_bytes = self.length as u32;
            let data = FrameHeader { op, flags: FrameFlags::DATA, request_id, body_bytes: 0, payload_bytes };
            let sent = connection.sender().send_data_from_file(&data, &self.file, 1000, self.length);
            self.sent.send(sent).unwrap();
            let last = FrameHeader { flags: FrameFlags::FINAL, body_bytes: 3, payload_bytes: 0, ..data };
            connection.sender().send(&last, b"end", &[]).unwrap();
        }
    }
}

/// What a client receives as 200,000 bytes of `file` from offset 1,000.
fn received(file: File, tls: TlsPolicy) -> (Vec<u8>, Result<(), SendError>) {
    let (sent, outcome) = mpsc::sync_channel(1);
    let listener = listen(config(NodeKind::Iod, 1), Arc::new(FromFile { file, length: 200_000, sent }));
    let endpoint = Endpoint { tls, ..endpoint(&listener, NodeKind::Iod, 1) };
    let mut room = vec![0xaa; 200_000];
    let recv = vec![IoSliceMut::new(&mut room)];
    let mut batch = [Exchange { connection: 0, op: 9, body: vec![1], send: Vec::new(), recv, outcome: None }];
    block_on(Blocking::new().exchange(&mut [connect(&endpoint)], &mut batch, LONG));
    let answer = batch[0].outcome.take().unwrap().unwrap();
    assert_eq!((answer.body, answer.payload_bytes), (b"end".to_vec(), 200_000));
    (room, outcome.recv().unwrap())
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n % 241) as u8).collect()
}

/// A file of its own that nobody else can name.
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
    for (tls, size) in [(TlsPolicy::Never, 150_000), (TlsPolicy::Always, 150_000), (TlsPolicy::Never, 0)] {
        let all = content(size);
        let (bytes, sent) = received(file_of(&all), tls);
        let there = size.saturating_sub(1000);
        assert!(bytes[..there] == all[all.len() - there..] && bytes[there..].iter().all(|byte| *byte == 0));
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
