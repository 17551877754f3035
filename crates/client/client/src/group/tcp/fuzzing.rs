//! Entry points for `fuzz/` into the parsers of this module. Not a public interface.

use braid_wire::Secret;

use super::{
    SIZE_MAX,
    frame::{Direction, FrameKind},
    member::{decode_all, decode_failure, decode_payload, encode_all},
    proof::{HELLO_BYTES, Hello},
};

/// The key of the frames.
const KEY: [u8; 32] = [7; 32];

/// The codes of kinds, and bodies.
pub type Frames = Vec<(u8, Vec<u8>)>;

/// The bytes of these frames as a task sends them. A code without a kind is left out.
pub fn write_frames(frames: &Frames) -> Vec<u8> {
    let (mut direction, mut bytes) = (Direction::new(Secret::from_bytes(KEY)), Vec::new());
    for (code, body) in frames {
        if let Some(kind) = FrameKind::of_code(*code) {
            bytes.extend(direction.next_head(kind, body));
            bytes.extend_from_slice(body);
        }
    }
    bytes
}

/// Reads frames of at most `bytes_max` until one is refused or the bytes end. Reads each body as
/// the receivers of every kind do.
pub fn read_frames(mut bytes: &[u8], bytes_max: usize) -> Frames {
    let (mut direction, mut frames) = (Direction::new(Secret::from_bytes(KEY)), Frames::new());
    while let Ok((kind, body)) = direction.read_frame(&mut bytes, bytes_max) {
        read_body(&body);
        frames.push((kind.code(), body));
    }
    frames
}

/// Reads the bytes as the body of each kind of frame.
///
/// # Panics
/// When what was read is not the same after encoding it again.
pub fn read_body(body: &[u8]) {
    if let Some((size, _)) = body.split_first_chunk::<4>() {
        // A member knows the size of its group: it is tested with the size that the list has.
        let size = u32::from_le_bytes(*size);
        if let Some(all) = decode_all(body, size.min(SIZE_MAX)) {
            assert_eq!(encode_all(&all), body);
        }
    }
    let _ = (decode_failure(body), decode_payload(body.to_vec()));
}

/// Reads the bytes as the first message of a task, which has proved nothing yet.
///
/// # Panics
/// When what was read is not the same after encoding it again.
pub fn read_hello(bytes: &[u8]) {
    let Some(bytes) = bytes.first_chunk::<HELLO_BYTES>() else { return };
    if let Some(hello) = Hello::from_bytes(bytes) {
        assert_eq!(hello.to_bytes(), *bytes);
    }
}
