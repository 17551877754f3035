//! Any bytes as an RPC message: an error or a value, never a panic; and a value that is encoded
//! again has the same fields.
#![no_main]

use arbitrary::Arbitrary;
use braid_nfs_wire::rpc::auth::{AuthStatus, check_starttls};
use braid_nfs_wire::rpc::auth_sys::AuthSys;
use braid_nfs_wire::rpc::gss::{GssCredential, InitArguments, InitResult};
use braid_nfs_wire::rpc::message::{CallMessage, MessageType, ReplyHeader};
use braid_nfs_wire::xdr::{Decoder, Encoder, Xdr};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

/// A header that fits the protocol, so that the fuzzer gets further; or any bytes.
#[derive(Arbitrary, Debug)]
enum Sent {
    Bytes(Vec<u8>),
    Call { fixed: [u32; 4], flavor: u8, credential: Vec<u8>, verifier: Vec<u8>, rest: Vec<u8> },
    Reply { kind: u8, verifier: Vec<u8>, rest: Vec<u8> },
}

impl Sent {
    fn bytes(self) -> Bytes {
        let mut to = Encoder::new();
        match self {
            Self::Bytes(bytes) => return bytes.into(),
            Self::Call { fixed: [xid, program, version, procedure], .. } if xid % 16 == 0 => {
                [xid, 0, version, program, procedure].into_iter().for_each(|unit| to.u32(unit));
            }
            Self::Call { fixed, flavor, credential, verifier, rest } => {
                let [xid, program, version, procedure] = fixed;
                let units = [xid, 0, 2, program, version, procedure, u32::from(flavor)];
                units.into_iter().for_each(|unit| to.u32(unit));
                to.opaque(&credential);
                to.u32(u32::from(flavor));
                to.opaque(&verifier);
                to.raw(rest.into());
            }
            Self::Reply { kind, verifier, rest } => {
                [1, 1, u32::from(kind % 2), 0].into_iter().for_each(|unit| to.u32(unit));
                to.opaque(&verifier);
                to.raw(rest.into());
            }
        }
        to.to_vec().into()
    }
}

fn check_call(bytes: &Bytes) {
    let call = match CallMessage::decode(bytes.clone()) {
        Ok(call) => call,
        Err(error) => {
            // A reply that is sent is one that a client can decode.
            if let Some(reply) = error.reply() {
                assert_eq!(ReplyHeader::from_bytes(reply.to_bytes().into()), Ok(reply));
            }
            return;
        }
    };
    let mut to = Encoder::new();
    call.header.encode_signed_part(&mut to);
    assert_eq!(to.len(), call.signed_part().len());
    call.header.verifier.encode(&mut to);
    assert_eq!(to.len() + call.arguments.len(), bytes.len());
    to.raw(call.arguments.clone());
    let again = CallMessage::decode(to.to_vec().into()).expect("an encoded call");
    assert_eq!((&again.header, &again.arguments), (&call.header, &call.arguments));
    if check_starttls(&call.header).is_ok() {
        assert!(call.header.credential.body.is_empty());
    }
    let credential = &call.header.credential;
    match AuthSys::from_credential(credential) {
        Ok(user) => assert_eq!(AuthSys::from_credential(&user.to_credential()), Ok(user)),
        Err(status) => assert_eq!(status, AuthStatus::BadCredential),
    }
    if let Ok(gss) = GssCredential::from_credential(credential) {
        assert_eq!(GssCredential::from_credential(&gss.to_credential()), Ok(gss));
    }
    let _ = InitArguments::from_bytes(call.arguments);
}

fuzz_target!(|sent: Sent| {
    let bytes = sent.bytes();
    let _ = MessageType::peek(&bytes);
    check_call(&bytes);
    let mut from = Decoder::new(bytes);
    if let Ok(reply) = ReplyHeader::decode(&mut from) {
        assert_eq!(ReplyHeader::from_bytes(reply.to_bytes().into()), Ok(reply));
        let _ = InitResult::decode(&mut from);
    }
});
