//! Frames between the tasks of a TCP group. What a task sent is read as it was sent. Changed bytes
//! end the reading at an earlier frame, and no other frame is read. No bytes cause a panic.
#![no_main]

use arbitrary::Arbitrary;
use braid_client::group::fuzzing::{Frames, read_body, read_frames, read_hello, write_frames};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    frames: Frames,
    bytes_max: u8,
    /// Where to overwrite, and with what.
    changes: Vec<(u16, u8)>,
    cut: Option<u16>,
    more: Vec<u8>,
}

fuzz_target!(|input: Input| {
    read_body(&input.more);
    read_hello(&input.more);
    read_hello(&[b"BRDGRP01", &input.more[..]].concat());

    let kinds = |(code, body): &(u8, Vec<u8>)| (1 + code % 4, body.clone());
    let sent: Frames = input.frames.iter().map(kinds).collect();
    let bytes_max = usize::from(input.bytes_max);
    let fits = |frame: &&(u8, Vec<u8>)| frame.1.len() <= bytes_max;
    let expected: Frames = sent.iter().take_while(fits).cloned().collect();
    let mut bytes = write_frames(&sent);
    assert_eq!(read_frames(&bytes, bytes_max), expected);

    for (at, byte) in &input.changes {
        let at = usize::from(*at) % bytes.len().max(1);
        if let Some(place) = bytes.get_mut(at) {
            *place = *byte;
        }
    }
    let cut = usize::from(input.cut.unwrap_or(0)) % bytes.len().max(1);
    bytes.truncate(bytes.len() - cut);
    bytes.extend_from_slice(&input.more);
    let read = read_frames(&bytes, bytes_max);
    assert!(expected.starts_with(&read), "a frame that no task sent: {read:?}");
    assert!(read_frames(&input.more, bytes_max).is_empty(), "a frame without the key");
});
