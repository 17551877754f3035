//! Any bytes in any fragments as a stream of frames: no panic, no memory beyond the limit, and the
//! same frames however the bytes arrive.
#![no_main]

use braid_net::frames::{FrameBuffer, push_frame};
use braid_wire::{FRAME_HEADER_BYTES, FrameFlags, FrameHeader};
use libfuzzer_sys::fuzz_target;

/// Longer than the initial buffer, so that it grows.
const BODY_BYTES_MAX: usize = 700;

/// The frames taken, and whether the stream was refused.
type Taken = (Vec<(FrameHeader, Vec<u8>, Vec<u8>)>, bool);

/// Takes frames and their payloads from `stream`, which arrives in fragments of these lengths,
/// repeated.
fn take(mut stream: &[u8], pieces: &[u8]) -> Taken {
    let mut buffer = FrameBuffer::with_body_max(64, BODY_BYTES_MAX);
    let mut pieces = pieces.iter().map(|bytes| usize::from(*bytes).max(1)).cycle();
    let (mut taken, mut payload_left): (Vec<(FrameHeader, Vec<u8>, Vec<u8>)>, usize) =
        (Vec::new(), 0);
    loop {
        if let Some((_, _, payload)) = taken.last_mut() {
            let bytes = buffer.take(payload_left);
            payload.extend_from_slice(bytes);
            payload_left -= bytes.len();
        }
        if payload_left == 0 {
            match buffer.frame() {
                Err(_) => return (taken, true),
                Ok(Some((header, body))) => {
                    assert_eq!(body.len(), header.body_bytes as usize);
                    payload_left = header.payload_bytes as usize;
                    taken.push((header, body.to_vec(), Vec::new()));
                    continue;
                }
                Ok(None) => {}
            }
        }
        let space = buffer.space();
        assert!(!space.is_empty(), "the buffer wants bytes and has no room");
        assert!(
            space.len() <= FRAME_HEADER_BYTES + BODY_BYTES_MAX,
            "the buffer is beyond its limit"
        );
        let bytes = space.len().min(stream.len()).min(pieces.next().unwrap_or(1));
        if bytes == 0 {
            return (taken, false);
        }
        space[..bytes].copy_from_slice(&stream[..bytes]);
        buffer.filled(bytes);
        stream = &stream[bytes..];
    }
}

/// A stream that begins with whole frames, since a fuzzer does not find their checksums by itself.
fn whole_frames(mut data: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let [kind, length, rest @ ..] = data {
        let length = (usize::from(*length) * 3).min(rest.len());
        let (body, later) = rest.split_at(length);
        if kind % 4 == 0 {
            stream.extend_from_slice(body); // any bytes
        } else {
            push_frame(&mut stream, u16::from(*kind), FrameFlags::FINAL, u64::from(*kind), body);
        }
        data = later;
    }
    stream
}

fuzz_target!(|data: &[u8]| {
    let [first, second, bytes @ ..] = data else { return };
    for stream in [bytes.to_vec(), whole_frames(bytes)] {
        assert_eq!(
            take(&stream, &[*first, *second]),
            take(&stream, &[255]),
            "frames depend on how bytes arrive"
        );
    }
});
