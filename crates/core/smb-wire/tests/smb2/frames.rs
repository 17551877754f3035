//! Frames, compounds and encrypted messages.

use braid_smb_wire::frame::{
    FrameKind, MAX_COMPOUND, Transform, decode_length, encode_length, messages,
};
use braid_smb_wire::smb2::{Command, HEADER_BYTES, Header};
use braid_smb_wire::{Reader, smb1};
use bytes::Bytes;

/// Messages of these lengths; each but the last one gives its length as `NextCommand`.
fn compound(lengths: &[usize]) -> Vec<u8> {
    let mut frame = Vec::new();
    for (index, length) in lengths.iter().enumerate() {
        let next = if index + 1 == lengths.len() { 0 } else { *length as u32 };
        let header = Header { next_command: next, ..Header::request(Command::Echo, index as u64) };
        frame.extend(header.to_bytes());
        frame.resize(frame.len() + length - HEADER_BYTES, 0);
    }
    frame
}

fn lengths(frame: Vec<u8>) -> Option<Vec<usize>> {
    Some(messages(frame.into()).ok()?.iter().map(Bytes::len).collect())
}

#[test]
fn a_frame_has_a_length_of_three_bytes() {
    assert_eq!(encode_length(0x01_0203), [0, 1, 2, 3]);
    assert_eq!(decode_length([0, 1, 2, 3], 0x01_0203), Ok(0x01_0203));
    assert!(decode_length([0, 1, 2, 3], 0x01_0202).is_err());
    assert!(decode_length([0x81, 0, 0, 68], usize::MAX).is_err(), "a NetBIOS session request");
}

#[test]
fn a_compound_is_split_where_its_messages_begin() {
    for case in [vec![64], vec![68], vec![64, 64], vec![72, 128, 67]] {
        assert_eq!(lengths(compound(&case)), Some(case));
    }
    let frame = Bytes::from(compound(&[72, 68]));
    assert_eq!(messages(frame.clone()).unwrap()[1].as_ptr(), frame[72..].as_ptr());
}

#[test]
fn a_compound_with_wrong_offsets_is_refused() {
    let good = compound(&[72, 68]);
    assert!(lengths(good.clone()).is_some());
    // Not aligned, inside the header, without a header behind it, at the end, beyond it.
    for next in [68u32, 71, 8, 56, 80, 136, 140, 144, !7] {
        let mut bad = good.clone();
        bad[20..24].copy_from_slice(&next.to_le_bytes());
        assert_eq!(lengths(bad), None, "{next}");
    }
    for length in 0..HEADER_BYTES {
        assert_eq!(lengths(good[..length].to_vec()), None, "{length}");
    }
}

#[test]
fn a_compound_has_a_limited_number_of_messages() {
    assert!(lengths(compound(&vec![64; MAX_COMPOUND])).is_some());
    assert_eq!(lengths(compound(&vec![64; MAX_COMPOUND + 1])), None);
}

#[test]
fn a_frame_is_known_by_its_first_bytes() {
    for (first, kind) in [
        (0xfe, FrameKind::Smb2),
        (0xff, FrameKind::Smb1),
        (0xfd, FrameKind::Transform),
        (0xfc, FrameKind::Compression),
    ] {
        assert_eq!(FrameKind::of(&[first, b'S', b'M', b'B', 0]), Ok(kind));
    }
    assert!(FrameKind::of(b"GET / HTTP/1.1").is_err());
    assert!(FrameKind::of(b"\xfeSM").is_err());
}

#[test]
fn a_transform_header_has_its_fields_where_the_standard_puts_them() {
    let header = Transform {
        signature: [1; 16],
        nonce: [2; 16],
        original_size: 0x0102,
        flags: Transform::ENCRYPTED,
        session_id: 3,
    };
    let mut bytes = vec![0xfd, b'S', b'M', b'B'];
    bytes.extend([1; 16]);
    bytes.extend([2; 16]);
    bytes.extend([2, 1, 0, 0, 0, 0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(header.to_bytes(), bytes[..]);
    assert_eq!(bytes[Transform::SIGNATURE], header.signature);
    assert_eq!(bytes[Transform::AUTHENTICATED][..16], header.nonce);
    assert_eq!(Transform::decode(&mut Reader::new(bytes.clone().into())), Ok(header));
    for length in 0..bytes.len() {
        let short = Bytes::copy_from_slice(&bytes[..length]);
        assert!(Transform::decode(&mut Reader::new(short)).is_err(), "{length}");
    }
}

#[test]
fn an_smb_1_negotiate_gives_its_dialects() {
    let mut frame = b"\xffSMB\x72".to_vec();
    frame.extend([0; 27]);
    frame.extend([0, 22, 0]);
    frame.extend(b"\x02SMB 2.002\0\x02SMB 2.???\0");
    let wanted = [smb1::SMB_2_002, smb1::SMB_2_WILDCARD];
    assert_eq!(smb1::smb1_dialects(&frame.clone().into()).unwrap(), wanted);
    for length in 0..frame.len() {
        let short = Bytes::copy_from_slice(&frame[..length]);
        assert!(smb1::smb1_dialects(&short).is_err(), "{length}");
    }
    // Another command, another buffer format, a string without its end.
    for (at, value) in [(4, 0x73), (35, 1), (56, b'x')] {
        let mut bad = frame.clone();
        bad[at] = value;
        assert!(smb1::smb1_dialects(&bad.into()).is_err(), "{at}");
    }
}
