//! Bytes that no client sends: decoders return an error or a value, and take little memory.

use braid_nfs_wire::nfs4::callback::{CallbackArgOp, CallbackResOp};
use braid_nfs_wire::nfs4::layout_files::{FileDevice, FileLayout};
use braid_nfs_wire::nfs4::results::ReadDirEncoder;
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::xdr::{Decoder, Encoder, Xdr};
use bytes::Bytes;
use proptest::prelude::*;

use crate::callback_samples::{callback_results, callbacks};
use crate::request_samples::requests;
use crate::result_samples::results;
use crate::round_trip::{callback_bytes, request_bytes};
use crate::values::{attributes, verifier};

/// Decodes `bytes` as everything. What can be decoded has the same bytes after decoding them again:
/// not always the same value, since a bitmap does not keep numbers that are too high.
fn decode_as_everything(bytes: &Bytes) {
    let from = Decoder::new(bytes.clone());
    if let Ok(op) = ArgOp::decode(&mut from.clone(), 2) {
        let again = request_bytes(&op);
        let op = ArgOp::decode(&mut Decoder::new(again.clone()), 2).unwrap();
        assert_eq!(request_bytes(&op), again);
    }
    if let Ok(op) = ResOp::decode(&mut from.clone()) {
        let again = op.to_bytes();
        assert_eq!(ResOp::from_bytes(again.clone().into()).unwrap().to_bytes(), again);
    }
    if let Ok(op) = CallbackArgOp::decode(&mut from.clone(), 2) {
        let again = callback_bytes(&op);
        let op = CallbackArgOp::decode(&mut Decoder::new(again.clone()), 2).unwrap();
        assert_eq!(callback_bytes(&op), again);
    }
    let _ = CallbackResOp::decode(&mut from.clone());
    let _ = FileDevice::decode(&mut from.clone());
    let _ = FileLayout::decode(&mut from.clone());
}

fn messages() -> Vec<Bytes> {
    let mut all: Vec<Bytes> = requests().iter().map(request_bytes).collect();
    all.extend(results().iter().map(|result| Bytes::from(result.to_bytes())));
    all.extend(callbacks().iter().map(callback_bytes));
    all.extend(callback_results().iter().map(|result| Bytes::from(result.to_bytes())));
    all
}

#[test]
fn any_number_in_place_of_each_word_is_decoded_or_refused() {
    for message in messages() {
        for at in (0..message.len()).step_by(4) {
            for word in [0, 1, 2, 5, 0x7fff_ffff, 0x8000_0000, 0xffff_fffc, u32::MAX] {
                let mut changed = message.to_vec();
                changed[at..at + 4].copy_from_slice(&u32::to_be_bytes(word));
                decode_as_everything(&changed.into());
            }
        }
    }
}

#[test]
fn an_entry_over_the_limit_of_a_directory_list_is_left_out() {
    let entry = |list: &mut ReadDirEncoder, cookie, to: &mut Encoder| {
        list.entry(cookie, b"a name", to, |to| attributes().encode(to))
    };
    // Status, verifier, end: 4 + 8 + 8 bytes. An entry: 4 + 8 + 12 + 20 bytes.
    for (max_count, entries) in [(0, 0), (20 + 43, 0), (20 + 44, 1), (20 + 87, 1), (20 + 88, 2)] {
        let mut to = Encoder::new();
        let mut list = ReadDirEncoder::begin(verifier(), max_count, &mut to);
        let written = (0..5).take_while(|cookie| entry(&mut list, *cookie, &mut to)).count();
        list.finish(false, &mut to);
        assert_eq!(written, entries);
        let bytes = to.to_vec();
        assert!(entries == 0 || bytes.len() <= max_count as usize + 4);
        let Ok(ResOp::ReadDir(Ok(result))) = ResOp::from_bytes(bytes.into()) else {
            panic!("not a READDIR")
        };
        assert_eq!(result.entries.len(), entries);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        decode_as_everything(&bytes.into());
    }

    #[test]
    fn any_bytes_after_an_operation_are_decoded_or_refused(
        number in 0u32..80,
        words in proptest::collection::vec(prop_oneof![0u32..4, any::<u32>()], 0..64),
    ) {
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.extend(words.into_iter().flat_map(u32::to_be_bytes));
        decode_as_everything(&bytes.into());
    }

    #[test]
    fn any_attributes_are_decoded_or_refused(
        numbers in proptest::collection::vec(0u32..128, 0..8),
        values in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..256),
    ) {
        let mask = numbers.into_iter().collect();
        let encoded = EncodedAttributes { mask, values: values.into() };
        if let Ok(attributes) = Attributes::from_encoded(&encoded) {
            prop_assert_eq!(attributes.mask(), mask);
            let again = attributes.to_encoded(&mask);
            prop_assert_eq!(Attributes::from_encoded(&again), Ok(attributes));
        }
    }
}
