//! Frames from streams that are split anywhere, and from garbage.

use braid_net::frames::{FrameBuffer, push_frame};
use braid_types::limits::FRAME_BODY_BYTES_MAX;
use braid_wire::{FRAME_HEADER_BYTES, FrameFlags, WireError};
use proptest::prelude::*;

fn feed(buffer: &mut FrameBuffer, bytes: &[u8], cut: usize) -> usize {
    let space = buffer.space();
    let n = space.len().min(cut.max(1)).min(bytes.len());
    space[..n].copy_from_slice(&bytes[..n]);
    buffer.filled(n);
    n
}

proptest! {
    #[test]
    fn frames_come_out_whole_however_the_stream_is_cut(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..20),
        cuts in prop::collection::vec(1..200usize, 1..50),
        bytes in 32..500usize,
    ) {
        let mut stream = Vec::new();
        for (id, body) in bodies.iter().enumerate() {
            push_frame(&mut stream, 7, FrameFlags::REQUEST, id as u64, body);
        }
        let (mut buffer, mut at, mut out) = (FrameBuffer::new(bytes), 0, Vec::new());
        let mut cuts = cuts.iter().cycle();
        while out.len() < bodies.len() {
            while let Some((header, body)) = buffer.frame().unwrap() {
                prop_assert_eq!(header.request_id, out.len() as u64);
                out.push(body.to_vec());
            }
            at += feed(&mut buffer, &stream[at..], *cuts.next().unwrap());
        }
        prop_assert_eq!(out, bodies);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn garbage_is_an_error_and_takes_no_memory(
        bytes in prop::collection::vec(any::<u8>(), 32..200),
    ) {
        let mut buffer = FrameBuffer::new(256);
        feed(&mut buffer, &bytes, usize::MAX);
        prop_assert!(buffer.frame().is_err());
        prop_assert!(buffer.space().len() <= 256);
    }
}

/// A header with a correct checksum and the largest possible lengths.
fn enormous(flags: u16) -> [u8; FRAME_HEADER_BYTES] {
    let mut header = [0; FRAME_HEADER_BYTES];
    header[..4].copy_from_slice(b"BRD1");
    header[6..8].copy_from_slice(&flags.to_le_bytes());
    header[16..24].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0x7f]);
    let crc = crc32c::crc32c(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
    header
}

#[test]
fn a_frame_of_enormous_length_is_refused_before_memory_is_taken() {
    for flags in 0..3 {
        let mut buffer = FrameBuffer::new(64);
        feed(&mut buffer, &enormous(flags), usize::MAX);
        assert_eq!(buffer.frame().unwrap_err(), WireError::TooLong);
        assert!(buffer.space().len() <= 64);
    }
}

#[test]
fn a_body_at_the_limit_passes_and_one_over_it_does_not() {
    for (body_bytes, passes) in
        [(FRAME_BODY_BYTES_MAX, true), (FRAME_BODY_BYTES_MAX + 1, false), (100, true)]
    {
        let mut stream = Vec::new();
        push_frame(&mut stream, 7, FrameFlags::REQUEST, 1, &vec![1; body_bytes]);
        let (mut buffer, mut at) = (FrameBuffer::new(64), 0);
        let outcome = loop {
            match buffer.frame() {
                Ok(Some((_, body))) => break Ok(body.len()),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
            at += feed(&mut buffer, &stream[at..], usize::MAX);
        };
        assert_eq!(outcome, if passes { Ok(body_bytes) } else { Err(WireError::TooLong) });
    }
    let mut before_auth = FrameBuffer::with_body_max(64, 100);
    let mut stream = Vec::new();
    push_frame(&mut stream, 7, FrameFlags::REQUEST, 1, &[1; 101]);
    feed(&mut before_auth, &stream, usize::MAX);
    assert_eq!(before_auth.frame().unwrap_err(), WireError::TooLong);
}
