//! Every sample is the same after encoding and decoding, and needs each of its bytes.

use std::collections::BTreeSet;

use braid_nfs_wire::nfs4::args::{LookupArgs, WriteArgs};
use braid_nfs_wire::nfs4::callback::{
    CallbackArgError, CallbackArgOp, CallbackHeader, CallbackOpNumber, CallbackResOp,
};
use braid_nfs_wire::nfs4::results::ReadResult;
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::xdr::{Decoder, Encoder, PAYLOAD_COPIED_MAX, Segment, Xdr, XdrError};
use bytes::Bytes;

use crate::callback_samples::{callback_results, callbacks};
use crate::request_samples::requests;
use crate::result_samples::results;
use crate::values::{name, state_id};

/// The bytes of a request.
pub fn request_bytes(op: &ArgOp) -> Bytes {
    let mut to = Encoder::new();
    op.encode(&mut to);
    to.to_vec().into()
}

/// The bytes of a callback.
pub fn callback_bytes(op: &CallbackArgOp) -> Bytes {
    let mut to = Encoder::new();
    op.encode(&mut to);
    to.to_vec().into()
}

#[test]
fn every_request_is_the_same_after_encoding_and_decoding() {
    for request in requests() {
        let mut from = Decoder::new(request_bytes(&request));
        assert_eq!(ArgOp::decode(&mut from, 2), Ok(request));
        assert_eq!(from.finish(), Ok(()));
    }
}

#[test]
fn every_operation_has_a_request_sample() {
    let sampled: BTreeSet<OpNumber> = requests().iter().map(ArgOp::number).collect();
    let all = OpNumber::ALL.iter().copied();
    let expected: BTreeSet<OpNumber> =
        all.filter(|op| !op.is_minor_0_only() && *op != OpNumber::Illegal).collect();
    assert_eq!(sampled, expected);
    assert_eq!(expected.len(), 75 - 2 - 5);
}

#[test]
fn every_operation_has_a_sample_of_a_success() {
    let succeeded: BTreeSet<OpNumber> = results()
        .iter()
        .filter(|result| result.status() == NfsStatus::Ok)
        .map(ResOp::number)
        .collect();
    let requested: BTreeSet<OpNumber> = requests().iter().map(ArgOp::number).collect();
    assert_eq!(succeeded, requested);
}

#[test]
fn every_result_is_the_same_after_encoding_and_decoding() {
    for result in results() {
        assert_eq!(ResOp::from_bytes(result.to_bytes().into()), Ok(result));
    }
}

#[test]
fn a_result_starts_with_its_number_and_status() {
    for result in results() {
        let bytes = result.to_bytes();
        assert_eq!(bytes[..4], result.number().code().to_be_bytes());
        assert_eq!(bytes[4..8], result.status().code().to_be_bytes());
    }
}

#[test]
fn a_failure_has_the_number_and_status_that_it_was_made_with() {
    for op in OpNumber::ALL {
        for status in [NfsStatus::Delay, NfsStatus::Denied, NfsStatus::TooSmall] {
            let result = ResOp::failure(*op, status);
            assert_eq!((result.number(), result.status()), (*op, status));
        }
    }
}

#[test]
fn a_request_cut_anywhere_is_bad_xdr_of_its_operation() {
    for request in requests() {
        let whole = request_bytes(&request);
        for length in 0..whole.len() {
            let error = ArgOp::decode(&mut Decoder::new(whole.slice(..length)), 2).unwrap_err();
            let op = if length < 4 { OpNumber::Illegal } else { request.number() };
            assert_eq!((error.op, error.error), (op, XdrError::Truncated));
            let result = error.result();
            assert_eq!((result.number(), result.status()), (op, NfsStatus::BadXdr));
        }
    }
}

#[test]
fn a_result_cut_anywhere_is_truncated() {
    for result in results() {
        let whole = Bytes::from(result.to_bytes());
        for length in 0..whole.len() {
            assert_eq!(ResOp::from_bytes(whole.slice(..length)), Err(XdrError::Truncated));
        }
    }
}

#[test]
fn every_callback_is_the_same_after_encoding_and_decoding() {
    let mut numbers = BTreeSet::from([CallbackOpNumber::Illegal]);
    for callback in callbacks() {
        numbers.insert(callback.number());
        let whole = callback_bytes(&callback);
        for length in 0..whole.len() {
            let cut = CallbackArgOp::decode(&mut Decoder::new(whole.slice(..length)), 2);
            let CallbackArgError { error, .. } = cut.unwrap_err();
            assert_eq!(error, XdrError::Truncated);
        }
        let mut from = Decoder::new(whole);
        assert_eq!(CallbackArgOp::decode(&mut from, 2), Ok(callback));
        assert_eq!(from.finish(), Ok(()));
    }
    assert_eq!(numbers, CallbackOpNumber::ALL.iter().copied().collect());
    for result in callback_results() {
        assert_eq!(CallbackResOp::from_bytes(result.to_bytes().into()), Ok(result));
    }
}

#[test]
fn operations_of_minor_version_2_are_illegal_in_version_1() {
    for request in requests() {
        let number = request.number();
        let decoded = ArgOp::decode(&mut Decoder::new(request_bytes(&request)), 1);
        if number.code() <= 58 {
            assert_eq!(decoded, Ok(request));
        } else {
            assert_eq!(decoded, Ok(ArgOp::Illegal(number.code())));
        }
    }
    let offload = Decoder::new(Bytes::from_static(b"\0\0\0\x0f"));
    assert_eq!(CallbackArgOp::decode(&mut offload.clone(), 1), Ok(CallbackArgOp::Illegal(15)));
    assert!(CallbackArgOp::decode(&mut offload.clone(), 2).is_err());
}

#[test]
fn unknown_operations_are_illegal() {
    for number in [0, 1, 2, 76, 10043, 10044, u32::MAX] {
        let mut from = Decoder::new(Bytes::copy_from_slice(&number.to_be_bytes()));
        let decoded = ArgOp::decode(&mut from, 2).unwrap();
        assert_eq!(decoded, ArgOp::Illegal(number));
        assert_eq!(decoded.number(), OpNumber::Illegal);
    }
    let result = ResOp::failure(OpNumber::Illegal, NfsStatus::OpIllegal);
    assert_eq!(result.to_bytes(), b"\0\0\x27\x3c\0\0\x27\x3c");
}

#[test]
fn operations_of_minor_version_0_are_forbidden() {
    for number in [20, 30, 35, 36, 39] {
        let mut from = Decoder::new(Bytes::from(vec![0, 0, 0, number]));
        let op = OpNumber::from_code(number.into()).unwrap();
        assert_eq!(ArgOp::decode(&mut from, 1), Ok(ArgOp::Forbidden(op)));
        let result = ResOp::failure(op, NfsStatus::NotSupp);
        assert_eq!(result, ResOp::Forbidden(op, NfsStatus::NotSupp));
        assert_eq!(ResOp::from_bytes(result.to_bytes().into()), Ok(result));
    }
}

#[test]
fn a_compound_is_read_and_answered_operation_by_operation() {
    let header = CompoundHeader { tag: name(), minor_version: 1, op_count: 2 };
    let lookup = ArgOp::Lookup(LookupArgs { name: name() });
    let mut to = Encoder::new();
    header.encode(&mut to);
    ArgOp::PutRootFh.encode(&mut to);
    lookup.encode(&mut to);

    let mut from = Decoder::new(to.to_vec().into());
    assert_eq!(CompoundHeader::decode(&mut from), Ok(header.clone()));
    assert_eq!(ArgOp::decode(&mut from, 1), Ok(ArgOp::PutRootFh));
    assert_eq!(ArgOp::decode(&mut from, 1), Ok(lookup));
    assert_eq!(from.finish(), Ok(()));

    let results = [ResOp::PutRootFh(Ok(())), ResOp::Lookup(Err(NfsStatus::NoEnt))];
    let mut to = Encoder::new();
    let mut reply = CompoundReply::begin(&header.tag, &mut to);
    results.iter().for_each(|result| reply.push(result, &mut to));
    assert_eq!(reply.op_count(), 2);
    reply.finish(&mut to);

    let mut from = Decoder::new(to.to_vec().into());
    let (status, op_count) = (NfsStatus::NoEnt, 2);
    let expected = CompoundReplyHeader { status, tag: name(), op_count };
    assert_eq!(CompoundReplyHeader::decode(&mut from), Ok(expected));
    for result in results {
        assert_eq!(ResOp::decode(&mut from), Ok(result));
    }
    assert_eq!(from.finish(), Ok(()));
}

#[test]
fn a_callback_header_is_the_same_after_encoding_and_decoding() {
    let header = CallbackHeader { tag: name(), minor_version: 2, callback_ident: 0, op_count: 3 };
    let bytes = header.to_bytes();
    assert_eq!(bytes[12..], [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
    assert_eq!(CallbackHeader::from_bytes(bytes.into()), Ok(header));
}

#[test]
fn written_data_is_a_slice_of_the_request() {
    let data = Bytes::from(vec![7; 2 * PAYLOAD_COPIED_MAX]);
    let stable = StableHow::Unstable;
    let write = ArgOp::Write(WriteArgs { state_id: state_id(1), offset: 0, stable, data });
    let message = request_bytes(&write);
    let Ok(ArgOp::Write(args)) = ArgOp::decode(&mut Decoder::new(message.clone()), 1) else {
        panic!("not a WRITE")
    };
    let start = message.as_ptr() as usize;
    let at = args.data.as_ptr() as usize;
    assert_eq!(at - start, message.len() - args.data.len());
}

#[test]
fn read_data_is_not_copied_and_may_be_external() {
    let data = Bytes::from(vec![7; PAYLOAD_COPIED_MAX + 1]);
    let read = |data| ResOp::Read(Ok(ReadResult { eof: false, data }));
    let segments = |result: ResOp| {
        let mut to = Encoder::new();
        result.encode(&mut to);
        to.into_segments()
    };
    let of_bytes = segments(read(Payload::Bytes(data.clone())));
    let Segment::Bytes(sent) = &of_bytes[1] else { panic!("{of_bytes:?}") };
    assert_eq!(sent.as_ptr(), data.as_ptr());

    let external = segments(read(Payload::External(data.len())));
    assert_eq!(external[1], Segment::External(data.len()));
    assert_eq!((&external[0], &external[2]), (&of_bytes[0], &of_bytes[2]));
}
