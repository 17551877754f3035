//! Records against rustls, against modified bytes, and against every way in which bytes may arrive.

use std::{
    io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use aws_lc_rs::aead::{AES_128_GCM, CHACHA20_POLY1305};
use proptest::{collection::vec, prelude::*};
use rustls::{ServerConnection, StreamOwned};

use super::*;
use crate::tls::open::OpenedRecord;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn ends(cipher: &'static Algorithm) -> (Sealer, RecordOpener) {
    let keys = || Keys::new(cipher, [7; SECRET_BYTES]).unwrap();
    (Sealer::new(keys()), RecordOpener::new(keys(), Inbox::new()))
}

/// Seals all of `pieces` into one byte stream.
fn seal_all(sealer: &mut Sealer, pieces: &[IoSlice<'_>]) -> Vec<u8> {
    let mut pieces = pieces.to_vec();
    let (mut rest, mut out) = (&mut pieces[..], Vec::new());
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        let taken = sealer.take(rest).unwrap();
        out.extend_from_slice(sealer.unsent());
        sealer.sent(sealer.unsent().len());
        IoSlice::advance_slices(&mut rest, taken);
    }
    out
}

#[test]
fn rustls_reads_what_is_sealed_and_the_other_way_round_across_new_keys() {
    let (client, server) = pair();
    let echo = thread::spawn(move || {
        let mut stream =
            StreamOwned::new(ServerConnection::new(server_config().unwrap()).unwrap(), server);
        let mut bytes = [0; 5000];
        for n in 0.. {
            let got = stream.read(&mut bytes).unwrap_or(0); // the client closes without an alert
            if got == 0 {
                return n;
            }
            if n % 7 == 3 {
                stream.conn.refresh_traffic_keys().unwrap();
            }
            stream.write_all(&bytes[..got]).unwrap();
        }
        0
    });
    let recv = |bytes: &mut [u8]| (&client).read(bytes);
    let send = |bytes: &[u8]| (&client).write(bytes);
    let (channel, _) = initiate().unwrap().run(recv, |bytes| (&client).write_all(bytes)).unwrap();
    channel.set_records_per_key(3);
    for length in (0..40).map(|n| n * n * 40 + 1) {
        let data: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
        let (mut sent, mut received) = (0, vec![0; length]);
        while sent < length {
            sent += channel.send(&[IoSlice::new(&data[sent..])], false, send).unwrap();
        }
        let mut done = 0;
        while done < length {
            let recv = |buffers: &mut [IoSliceMut<'_>]| (&client).read_vectored(buffers);
            let got = channel.recv(&mut [IoSliceMut::new(&mut received[done..])], recv).unwrap();
            assert_ne!(got, 0, "the echo ended");
            done += got;
        }
        assert_eq!(received, data);
    }
    client.shutdown(std::net::Shutdown::Both).unwrap();
    assert!(echo.join().unwrap() >= 40);
}

#[test]
fn keys_are_those_of_rfc_8448() {
    // RFC 8448 section 3: {server} derive write traffic keys for application data
    let secret = hex("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643");
    let keys = Keys::new(&AES_128_GCM, secret.try_into().unwrap()).unwrap();
    assert_eq!(keys.iv().to_vec(), hex("cf782b88dd83549aadf1e984"));
}

fn hex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .chunks(2)
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn a_bit_changed_anywhere_in_a_record_ends_the_channel() {
    let (mut sealer, _) = ends(&AES_128_GCM);
    let sealed = seal_all(&mut sealer, &[IoSlice::new(b"forty-two")]);
    // RFC 8446 section 5.2: the two version bytes are not checked, but the tag covers them
    for bit in 0..sealed.len() * 8 {
        let mut changed = sealed.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        changed.resize(RECEIVE_BYTES, 0); // so that a larger length finds its bytes
        let (_, mut opener) = ends(&AES_128_GCM);
        let refilled = opener.refill(RECEIVE_BYTES, &mut |buffer: &mut [u8]| {
            buffer[..changed.len()].copy_from_slice(&changed);
            Ok(changed.len())
        });
        refilled.unwrap();
        let error = opener.open().map(|_| ()).expect_err("a changed record was opened");
        assert_eq!(error.kind(), ErrorKind::InvalidData, "bit {bit}");
        assert!(
            matches!(opener.open(), Ok(OpenedRecord::End)),
            "something is opened after an error"
        );
    }
}

#[test]
fn a_changed_bit_in_a_record_opened_in_place_ends_the_channel() {
    let sealed = seal_all(&mut ends(&AES_128_GCM).0, &[IoSlice::new(&[9; 60_000])]);
    let mut buffer = vec![0; 60_000];
    for byte in (0..sealed.len()).step_by(997) {
        let mut changed = sealed.clone();
        changed[byte] ^= 1;
        let (sealer, opener) = ends(&AES_128_GCM);
        let channel = Channel::new(sealer, opener);
        let mut arrive = |buffers: &mut [IoSliceMut<'_>]| (&changed[..]).read_vectored(buffers);
        let error = channel
            .recv(&mut [IoSliceMut::new(&mut buffer)], &mut arrive)
            .expect_err("a changed record");
        assert_eq!(error.kind(), ErrorKind::InvalidData, "byte {byte}");
        assert_eq!(
            channel.recv(&mut [IoSliceMut::new(&mut buffer)], arrive).unwrap(),
            0,
            "something after an error"
        );
    }
}

#[test]
fn a_little_of_which_more_follows_is_sent_with_what_follows() {
    let (sealer, opener) = ends(&AES_128_GCM);
    let channel = Channel::new(sealer, opener);
    let mut sent = Vec::new();
    let mut send = |bytes: &[u8]| {
        sent.push(bytes.to_vec());
        Ok(bytes.len())
    };
    assert_eq!(channel.send(&[IoSlice::new(b"head")], true, &mut send).unwrap(), 4);
    assert!(channel.has_unsent());
    channel.send_from(5, |buffers| (&b"bytes"[..]).read_vectored(buffers), &mut send).unwrap();
    assert!(!channel.has_unsent());
    channel.send(&[IoSlice::new(b"tail")], true, &mut send).unwrap();
    channel.flush(&mut send).unwrap();
    assert_eq!(
        sent.len(),
        2,
        "one call for the head with its bytes, and what was held back by a flush"
    );
    let mut buffer = [0; 13];
    let mut arrive = |buffers: &mut [IoSliceMut<'_>]| (&sent.concat()[..]).read_vectored(buffers);
    assert_eq!(channel.recv(&mut [IoSliceMut::new(&mut buffer)], &mut arrive).unwrap(), 13);
    assert_eq!(&buffer, b"headbytestail");
}

#[test]
fn a_record_that_comes_twice_ends_the_channel() {
    let (mut sealer, mut opener) = ends(&AES_128_GCM);
    let sealed = seal_all(&mut sealer, &[IoSlice::new(b"once")]).repeat(2);
    let mut arrive = |buffer: &mut [u8]| (&sealed[..]).read(buffer);
    opener.refill(sealed.len(), &mut arrive).unwrap();
    assert!(matches!(opener.open(), Ok(OpenedRecord::Data)));
    assert_eq!(opener.copy_to(&mut IoSliceMut::new(&mut [0; 4]), 0), 4);
    assert_eq!(opener.open().map(|_| ()).unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn a_file_that_cannot_be_read_costs_no_sequence_number() {
    let (mut sealer, mut opener) = ends(&AES_128_GCM);
    let error = sealer.take_from(10, |_| Err(io::Error::other("a bad sector"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Other);
    let sealed = seal_all(&mut sealer, &[IoSlice::new(b"whole")]);
    opener.refill(sealed.len(), &mut |buffer: &mut [u8]| (&sealed[..]).read(buffer)).unwrap();
    assert!(matches!(opener.open(), Ok(OpenedRecord::Data)));
}

proptest! {
    #[test]
    fn what_is_sealed_is_opened_however_it_arrives(
        pieces in vec(vec(any::<u8>(), 0..40_000), 1..5),
        arrivals in vec(1usize..90_000, 1..5),
        buffers in vec((1usize..90_000, 0usize..40_000), 1..5),
        records_per_key in 2u64..6,
        chacha in any::<bool>(),
    ) {
        let (mut sealer, opener) = ends(if chacha { &CHACHA20_POLY1305 } else { &AES_128_GCM });
        sealer.set_records_per_key(records_per_key);
        let slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let sealed = seal_all(&mut sealer, &slices);
        let (mut stream, mut arrivals) = (&sealed[..], arrivals.iter().cycle());
        let mut arrive = |pieces: &mut [IoSliceMut<'_>]| {
            let mut now = &stream[..stream.len().min(*arrivals.next().unwrap())];
            let read = now.read_vectored(pieces)?;
            stream = &stream[read..];
            Ok(read)
        };
        let channel = Channel::new(ends(&AES_128_GCM).0, opener);
        let mut opened = Vec::new();
        for (first, second) in buffers.iter().cycle() {
            let (mut first, mut second) = (vec![0; *first], vec![0; *second]);
            let mut slices = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
            let bytes = channel.recv(&mut slices, &mut arrive).unwrap();
            if bytes == 0 {
                break;
            }
            first.append(&mut second);
            opened.extend_from_slice(&first[..bytes]);
        }
        prop_assert_eq!(opened, pieces.concat());
    }
}
