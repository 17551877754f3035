//! Any bytes as a COMPOUND of NFSv4.1 or 4.2, and as its reply: no panic, operations that are
//! decoded have the same bytes after decoding them again, and no list is longer than its message.
#![no_main]

use braid_nfs_wire::nfs4::{ArgOp, CompoundHeader, CompoundReplyHeader, NfsStatus, ResOp};
use braid_nfs_wire::xdr::{Decoder, Encoder, Xdr};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fn encoded(op: &ArgOp) -> Bytes {
    let mut to = Encoder::new();
    op.encode(&mut to);
    to.to_vec().into()
}

fn read_request(mut from: Decoder) {
    let Ok(header) = CompoundHeader::decode(&mut from) else { return };
    let minor = 1 + header.minor_version % 2;
    // Each operation has at least its number.
    for _ in 0..header.op_count.min(64) {
        let before = from.remaining();
        match ArgOp::decode(&mut from, minor) {
            Ok(ArgOp::Illegal(_) | ArgOp::Forbidden(_)) => return,
            Ok(op) => {
                let bytes = encoded(&op);
                assert!(bytes.len() <= before - from.remaining(), "{op:?}");
                let again = ArgOp::decode(&mut Decoder::new(bytes.clone()), minor).unwrap();
                assert_eq!(encoded(&again), bytes);
            }
            Err(error) => {
                assert_eq!(error.result().status(), NfsStatus::BadXdr);
                return;
            }
        }
    }
}

fn read_reply(mut from: Decoder) {
    let Ok(header) = CompoundReplyHeader::decode(&mut from) else { return };
    for _ in 0..header.op_count.min(64) {
        let before = from.remaining();
        let Ok(op) = ResOp::decode(&mut from) else { return };
        let bytes = op.to_bytes();
        assert!(bytes.len() <= before - from.remaining(), "{op:?}");
        assert_eq!(bytes[4..8], op.status().code().to_be_bytes());
        assert_eq!(ResOp::from_bytes(bytes.clone().into()).unwrap().to_bytes(), bytes);
    }
}

fuzz_target!(|data: &[u8]| {
    let from = Decoder::new(Bytes::copy_from_slice(data));
    read_request(from.clone());
    read_reply(from);
});
