//! Any bytes as a callback and as its results: no panic, and operations that are decoded have the
//! same bytes after decoding them again.
#![no_main]

use braid_nfs_wire::nfs4::NfsStatus;
use braid_nfs_wire::nfs4::callback::{
    CallbackArgOp, CallbackHeader, CallbackResOp, HolderAttributes,
};
use braid_nfs_wire::xdr::{Decoder, Encoder, Xdr};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fn encoded(op: &CallbackArgOp) -> Bytes {
    let mut to = Encoder::new();
    op.encode(&mut to);
    to.to_vec().into()
}

fn read_request(mut from: Decoder) {
    let Ok(header) = CallbackHeader::decode(&mut from) else { return };
    let minor = 1 + header.minor_version % 2;
    for _ in 0..header.op_count.min(64) {
        match CallbackArgOp::decode(&mut from, minor) {
            Ok(CallbackArgOp::Illegal(_)) => return,
            Ok(op) => {
                let bytes = encoded(&op);
                let again = CallbackArgOp::decode(&mut Decoder::new(bytes.clone()), minor).unwrap();
                assert_eq!(encoded(&again), bytes);
            }
            Err(error) => {
                assert_eq!(error.result().status(), NfsStatus::BadXdr);
                return;
            }
        }
    }
}

fn read_results(mut from: Decoder) {
    while let Ok(op) = CallbackResOp::decode(&mut from) {
        if let CallbackResOp::GetAttr(Ok(result)) = &op {
            let _ = HolderAttributes::from_encoded(&result.attributes);
        }
        let bytes = op.to_bytes();
        assert_eq!(CallbackResOp::from_bytes(bytes.clone().into()).unwrap().to_bytes(), bytes);
    }
}

fuzz_target!(|data: &[u8]| {
    let from = Decoder::new(Bytes::copy_from_slice(data));
    read_request(from.clone());
    read_results(from);
});
