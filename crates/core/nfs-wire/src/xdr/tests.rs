//! Items at their limits, and messages that are not XDR.

use bytes::Bytes;
use proptest::prelude::*;

use super::{
    Decoder, Encoder, PAYLOAD_COPIED_MAX, Segment, Xdr, XdrBounded, XdrError, xdr_enum, xdr_struct,
    xdr_union,
};

xdr_enum! {
    /// A colour.
    pub enum Colour {
        /// Red.
        Red = 1,
        /// Blue.
        Blue = 7,
    }
}

xdr_struct! {
    /// A record with every kind of field.
    pub struct Record {
        /// Fixed.
        pub id: u64,
        /// Variable.
        pub name: Bytes [5],
        /// Array.
        pub colours: Vec<Colour> [2],
        /// Optional.
        pub next: Option<u32>,
    }
}

xdr_union! {
    /// A union.
    pub enum Shape {
        /// Without a value.
        Nothing = 0,
        /// With a value.
        Number(u32) = 1,
        /// With a limit.
        Name(Bytes [4]) = 2,
    }
}

fn record() -> Record {
    Record {
        id: 0x0102_0304_0506_0708,
        name: Bytes::from_static(b"abcde"),
        colours: vec![Colour::Blue, Colour::Red],
        next: Some(9),
    }
}

#[test]
fn a_struct_has_its_fields_in_order_with_padding() {
    let expected = b"\x01\x02\x03\x04\x05\x06\x07\x08\
        \0\0\0\x05abcde\0\0\0\
        \0\0\0\x02\0\0\0\x07\0\0\0\x01\
        \0\0\0\x01\0\0\0\x09";
    assert_eq!(record().to_bytes(), expected);
    assert_eq!(Record::from_bytes(Bytes::from_static(expected)), Ok(record()));
}

#[test]
fn a_message_cut_anywhere_is_truncated() {
    let whole = Bytes::from(record().to_bytes());
    for length in 0..whole.len() {
        assert_eq!(Record::from_bytes(whole.slice(..length)), Err(XdrError::Truncated));
    }
}

#[test]
fn lengths_over_the_limit_are_refused() {
    let mut to = Encoder::new();
    to.opaque(b"abcde");
    let bytes = Bytes::from(to.to_vec());
    assert_eq!(Decoder::new(bytes.clone()).opaque(5), Ok(Bytes::from_static(b"abcde")));
    let refused = Decoder::new(bytes).opaque(4);
    assert_eq!(refused, Err(XdrError::TooLong { length: 5, limit: 4 }));
}

#[test]
fn a_count_that_the_message_cannot_contain_takes_no_memory() {
    let bytes = Bytes::from_static(b"\xff\xff\xff\xff\0\0\0\x01");
    let refused = Decoder::new(bytes.clone()).array(usize::MAX, Decoder::u32);
    assert_eq!(refused, Err(XdrError::Truncated));
    let refused = Vec::<u32>::decode_bounded(&mut Decoder::new(bytes), 3);
    assert_eq!(refused, Err(XdrError::TooLong { length: 0xffff_ffff, limit: 3 }));
}

#[test]
fn padding_of_any_content_is_accepted_but_must_be_there() {
    let bytes = Bytes::from_static(b"\0\0\0\x01a\x01\x02\x03");
    assert_eq!(Decoder::new(bytes.clone()).opaque(1), Ok(Bytes::from_static(b"a")));
    assert_eq!(Decoder::new(bytes.slice(..7)).opaque(1), Err(XdrError::Truncated));
    assert_eq!(Decoder::new(bytes.slice(4..7)).opaque_fixed::<1>(), Err(XdrError::Truncated));
    assert_eq!(Decoder::new(bytes.slice(4..)).opaque_fixed::<1>(), Ok(*b"a"));
}

#[test]
fn unknown_numbers_are_refused() {
    assert_eq!(Colour::ALL, [Colour::Red, Colour::Blue]);
    let two = Bytes::from_static(b"\0\0\0\x02");
    let unknown = Err(XdrError::Invalid { what: "Colour", value: 2 });
    assert_eq!(Colour::from_bytes(two.clone()), unknown);
    assert_eq!(bool::from_bytes(two), Err(XdrError::Invalid { what: "boolean", value: 2 }));
    let nine = Bytes::from_static(b"\0\0\0\x09");
    assert_eq!(Shape::from_bytes(nine), Err(XdrError::Invalid { what: "Shape", value: 9 }));
}

#[test]
fn unions_have_the_value_of_their_discriminant() {
    for (shape, bytes) in [
        (Shape::Nothing, &b"\0\0\0\0"[..]),
        (Shape::Number(3), b"\0\0\0\x01\0\0\0\x03"),
        (Shape::Name(Bytes::from_static(b"ab")), b"\0\0\0\x02\0\0\0\x02ab\0\0"),
    ] {
        assert_eq!(shape.to_bytes(), bytes);
        assert_eq!(Shape::from_bytes(Bytes::from_static(bytes)), Ok(shape));
    }
    let long = Bytes::from_static(b"\0\0\0\x02\0\0\0\x05abcde\0\0\0");
    assert_eq!(Shape::from_bytes(long), Err(XdrError::TooLong { length: 5, limit: 4 }));
}

#[test]
fn trailing_bytes_are_refused() {
    let bytes = Bytes::from_static(b"\0\0\0\x01\0");
    assert_eq!(u32::from_bytes(bytes), Err(XdrError::TrailingBytes { count: 1 }));
}

#[test]
fn long_payloads_are_not_copied() {
    let short = Bytes::from(vec![1; PAYLOAD_COPIED_MAX]);
    let long = Bytes::from(vec![2; PAYLOAD_COPIED_MAX + 1]);
    let mut to = Encoder::new();
    to.payload(short);
    to.payload(long.clone());
    to.u32(7);
    let segments = to.into_segments();
    assert_eq!(segments.len(), 3);
    let Segment::Bytes(sent) = &segments[1] else { panic!("{segments:?}") };
    assert_eq!(sent.as_ptr(), long.as_ptr());
    assert_eq!(segments[0].len(), 4 + PAYLOAD_COPIED_MAX + 4);
    assert_eq!(segments[2], Segment::Bytes(Bytes::from_static(b"\0\0\0\0\0\0\x07")));
}

#[test]
fn opaque_data_is_a_slice_of_the_message() {
    let message = Bytes::from_static(b"\0\0\0\x04data");
    let data = Decoder::new(message.clone()).opaque(4).unwrap();
    assert_eq!(data.as_ptr(), message[4..].as_ptr());
}

#[test]
fn external_data_has_its_length_and_padding() {
    let mut to = Encoder::new();
    to.external(6);
    to.external(0);
    assert_eq!(to.len(), 4 + 8 + 4);
    assert_eq!(to.to_vec(), b"\0\0\0\x06\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(
        to.into_segments(),
        [
            Segment::Bytes(Bytes::from_static(b"\0\0\0\x06")),
            Segment::External(6),
            Segment::Bytes(Bytes::from_static(b"\0\0\0\0\0\0")),
        ]
    );
}

#[test]
fn counts_are_patched_before_and_after_payloads() {
    let mut to = Encoder::new();
    let first = to.position();
    to.u32(0);
    to.external(8);
    let second = to.position();
    to.u32(0);
    to.payload(Bytes::from(vec![0; PAYLOAD_COPIED_MAX + 4]));
    let third = to.position();
    to.u32(0);
    for (at, value) in [(first, 1), (second, 2), (third, 3)] {
        to.patch_u32(at, value);
    }
    let all = to.to_vec();
    for (at, value) in [(first, 1), (second, 2), (third, 3)] {
        assert_eq!(all[at..at + 4], [0, 0, 0, value]);
    }
}

/// One call of an encoder.
#[derive(Clone, Debug)]
enum Call {
    Number(u32),
    Opaque(Vec<u8>),
    Payload(usize),
    External(usize),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        any::<u32>().prop_map(Call::Number),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(Call::Opaque),
        (0..3 * PAYLOAD_COPIED_MAX).prop_map(Call::Payload),
        (0usize..9).prop_map(Call::External),
    ];
    proptest::collection::vec(call, 0..12)
}

fn apply(to: &mut Encoder, call: &Call) {
    match call {
        Call::Number(number) => to.u32(*number),
        Call::Opaque(data) => to.opaque(data),
        Call::Payload(length) => to.payload(Bytes::from(vec![0xa5; *length])),
        Call::External(length) => to.external(*length),
    }
}

proptest! {
    #[test]
    fn truncation_restores_the_message_at_that_position(all in calls(), keep in 0usize..12) {
        let keep = keep.min(all.len());
        let mut to = Encoder::new();
        all[..keep].iter().for_each(|call| apply(&mut to, call));
        let (position, before) = (to.position(), to.to_vec());
        prop_assert_eq!(before.len(), position);
        all[keep..].iter().for_each(|call| apply(&mut to, call));
        prop_assert_eq!(&to.to_vec()[..position], &before[..]);
        to.truncate(position);
        prop_assert_eq!(to.to_vec(), before);
        to.u32(5);
        prop_assert_eq!(to.len(), position + 4);
    }

    #[test]
    fn segments_have_all_bytes_in_order(all in calls()) {
        let mut to = Encoder::new();
        all.iter().for_each(|call| apply(&mut to, call));
        let expected = to.to_vec();
        let mut bytes = Vec::new();
        for segment in to.into_segments() {
            prop_assert!(!segment.is_empty());
            match segment {
                Segment::Bytes(part) => bytes.extend_from_slice(&part),
                Segment::External(length) => bytes.resize(bytes.len() + length, 0),
            }
        }
        prop_assert_eq!(bytes, expected);
    }
}
