use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::rpc::auth::{AUTH_BODY_BYTES_MAX, AUTH_SYS, AUTH_TLS, check_starttls};
use crate::rpc::auth_sys::AuthSys;
use crate::rpc::record::{RecordReader, record_header};

/// A COMPOUND call of Linux with its record header and the first unit of its arguments.
const CALL: &[u8] = &[
    0x80, 0x00, 0x00, 0x58, // last fragment, 88 bytes
    0x5a, 0x1b, 0x2c, 0x3d, // xid
    0x00, 0x00, 0x00, 0x00, // call
    0x00, 0x00, 0x00, 0x02, // RPC version 2
    0x00, 0x01, 0x86, 0xa3, // program 100003
    0x00, 0x00, 0x00, 0x04, // version 4
    0x00, 0x00, 0x00, 0x01, // procedure 1, COMPOUND
    0x00, 0x00, 0x00, 0x01, // credential: AUTH_SYS
    0x00, 0x00, 0x00, 0x24, // 36 bytes
    0x00, 0x00, 0x00, 0x00, // stamp
    0x00, 0x00, 0x00, 0x07, b'c', b'l', b'i', b'e', b'n', b't', b'1', 0x00, // machine name
    0x00, 0x00, 0x03, 0xe8, // uid 1000
    0x00, 0x00, 0x03, 0xe8, // gid 1000
    0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x1b, // groups 4, 27
    0x00, 0x00, 0x00, 0x00, // verifier: AUTH_NONE
    0x00, 0x00, 0x00, 0x00, // 0 bytes
    0x00, 0x00, 0x00, 0x00, // arguments: an empty tag
    0x00, 0x00, 0x00, 0x01, // arguments: minor version 1
    0x00, 0x00, 0x00, 0x00, // arguments: no operations
];

/// The reply to [`CALL`] with its record header.
const REPLY: &[u8] = &[
    0x80, 0x00, 0x00, 0x24, // last fragment, 36 bytes
    0x5a, 0x1b, 0x2c, 0x3d, // xid
    0x00, 0x00, 0x00, 0x01, // reply
    0x00, 0x00, 0x00, 0x00, // accepted
    0x00, 0x00, 0x00, 0x00, // verifier: AUTH_NONE
    0x00, 0x00, 0x00, 0x00, // 0 bytes
    0x00, 0x00, 0x00, 0x00, // success
    0x00, 0x00, 0x00, 0x00, // results: NFS4_OK
    0x00, 0x00, 0x00, 0x00, // results: an empty tag
    0x00, 0x00, 0x00, 0x00, // results: no operations
];

/// The call of [`CALL`].
fn call() -> CallHeader {
    let user = AuthSys {
        stamp: 0,
        machine_name: Bytes::from_static(b"client1"),
        uid: 1000,
        gid: 1000,
        gids: vec![4, 27],
    };
    CallHeader {
        xid: 0x5a1b_2c3d,
        program: 100_003,
        version: 4,
        procedure: 1,
        credential: user.to_credential(),
        verifier: OpaqueAuth::none(),
    }
}

/// The bytes of a header.
fn bytes(encode: impl FnOnce(&mut Encoder)) -> Vec<u8> {
    let mut to = Encoder::new();
    encode(&mut to);
    to.to_vec()
}

fn decode_call(bytes: &[u8]) -> Result<CallHeader, CallError> {
    CallHeader::decode(&mut Decoder::new(Bytes::copy_from_slice(bytes)))
}

#[test]
fn call_has_the_bytes_that_linux_sends() {
    let mut reader = RecordReader::new();
    reader.feed(CALL);
    let record = reader.next_record().unwrap().unwrap();
    let mut from = Decoder::new(record.clone());
    assert_eq!(CallHeader::decode(&mut from), Ok(call()));
    assert_eq!(from.remaining(), 12);
    let header = bytes(|to| call().encode(to));
    let sent = [&record_header(header.len() + 12)[..], &header, &record[header.len()..]].concat();
    assert_eq!(sent, CALL);
}

#[test]
fn reply_has_the_bytes_that_linux_expects() {
    let reply = call().accepted(OpaqueAuth::none(), AcceptStatus::Success);
    assert_eq!(reply.to_bytes(), REPLY[4..28]);
    let mut from = Decoder::new(Bytes::from_static(&REPLY[4..]));
    assert_eq!(ReplyHeader::decode(&mut from), Ok(reply));
    assert_eq!(from.remaining(), 12);
}

#[test]
fn header_cut_anywhere_is_malformed() {
    let call = &CALL[4..CALL.len() - 12];
    for length in 0..call.len() {
        let cut = decode_call(&call[..length]);
        assert_eq!(cut, Err(CallError::Malformed(XdrError::Truncated)), "call of {length}");
        assert_eq!(cut.unwrap_err().reply(), None);
    }
    for length in 0..24 {
        let cut = ReplyHeader::from_bytes(Bytes::from_static(&REPLY[4..4 + length]));
        assert_eq!(cut, Err(XdrError::Truncated), "reply of {length}");
    }
}

#[test]
fn every_kind_of_reply_has_its_bytes() {
    let accepted = |status| ReplyBody::Accepted { verifier: OpaqueAuth::none(), status };
    let auth = |status| ReplyBody::Denied(Denied::Auth(status));
    let cases: &[(ReplyBody, &[u32])] = &[
        (accepted(AcceptStatus::Success), &[0, 0, 0, 0]),
        (accepted(AcceptStatus::ProgramUnavailable), &[0, 0, 0, 1]),
        (accepted(AcceptStatus::ProgramMismatch { low: 4, high: 4 }), &[0, 0, 0, 2, 4, 4]),
        (accepted(AcceptStatus::ProcedureUnavailable), &[0, 0, 0, 3]),
        (accepted(AcceptStatus::GarbageArguments), &[0, 0, 0, 4]),
        (accepted(AcceptStatus::SystemError), &[0, 0, 0, 5]),
        (ReplyBody::Denied(Denied::RpcMismatch { low: 2, high: 2 }), &[1, 0, 2, 2]),
        (auth(AuthStatus::BadCredential), &[1, 1, 1]),
        (auth(AuthStatus::RejectedCredential), &[1, 1, 2]),
        (auth(AuthStatus::BadVerifier), &[1, 1, 3]),
        (auth(AuthStatus::RejectedVerifier), &[1, 1, 4]),
        (auth(AuthStatus::TooWeak), &[1, 1, 5]),
        (auth(AuthStatus::GssCredentialProblem), &[1, 1, 13]),
        (auth(AuthStatus::GssContextProblem), &[1, 1, 14]),
    ];
    for (body, units) in cases {
        let reply = ReplyHeader { xid: 9, body: body.clone() };
        let expected: Vec<u8> =
            [9, 1].iter().chain(*units).flat_map(|unit: &u32| unit.to_be_bytes()).collect();
        assert_eq!(reply.to_bytes(), expected);
        assert_eq!(ReplyHeader::from_bytes(expected.into()), Ok(reply));
    }
}

#[test]
fn unknown_numbers_in_replies_are_refused() {
    for units in [&[9, 1, 2][..], &[9, 1, 0, 0, 0, 6], &[9, 1, 1, 2], &[9, 1, 1, 1, 15], &[9, 0]] {
        let bytes: Vec<u8> = units.iter().flat_map(|unit: &u32| unit.to_be_bytes()).collect();
        let refused = ReplyHeader::from_bytes(bytes.into());
        assert!(matches!(refused, Err(XdrError::Invalid { .. })), "{units:?}: {refused:?}");
    }
}

#[test]
fn another_rpc_version_is_answered_with_the_supported_one() {
    let mut sent = CALL[4..].to_vec();
    sent[11] = 3;
    let error = decode_call(&sent).unwrap_err();
    assert_eq!(error, CallError::RpcVersion { xid: 0x5a1b_2c3d, version: 3 });
    let reply = error.reply().unwrap();
    let denied = ReplyBody::Denied(Denied::RpcMismatch { low: 2, high: 2 });
    assert_eq!(reply, ReplyHeader { xid: 0x5a1b_2c3d, body: denied });
}

#[test]
fn reply_in_place_of_a_call_is_malformed() {
    let error = decode_call(&REPLY[4..]).unwrap_err();
    assert_eq!(error.reply(), None);
}

#[test]
fn credential_and_verifier_over_400_bytes_are_denied() {
    let auth = |length| OpaqueAuth { flavor: 1, body: vec![0; length].into() };
    let sent = |credential: usize, verifier: usize| {
        bytes(|to| {
            [7, 0, 2, 100_003, 4, 1, 1].into_iter().for_each(|unit| to.u32(unit));
            to.opaque(&vec![0; credential]);
            to.u32(1);
            to.opaque(&vec![0; verifier]);
        })
    };
    let longest = decode_call(&sent(AUTH_BODY_BYTES_MAX, AUTH_BODY_BYTES_MAX)).unwrap();
    assert_eq!((longest.credential, longest.verifier), (auth(400), auth(400)));
    let denied = |status| Err(CallError::Auth { xid: 7, status });
    assert_eq!(decode_call(&sent(401, 0)), denied(AuthStatus::BadCredential));
    assert_eq!(decode_call(&sent(0, 401)), denied(AuthStatus::BadVerifier));
    let reply = decode_call(&sent(401, 0)).unwrap_err().reply().unwrap();
    assert_eq!(reply.body, ReplyBody::Denied(Denied::Auth(AuthStatus::BadCredential)));
}

#[test]
fn peek_returns_the_type_of_a_message() {
    let call = MessageType::peek(&CALL[4..]);
    assert_eq!(call, Ok((0x5a1b_2c3d, MessageType::Call)));
    let reply = MessageType::peek(&REPLY[4..]);
    assert_eq!(reply, Ok((0x5a1b_2c3d, MessageType::Reply)));
    for length in 0..8 {
        assert_eq!(MessageType::peek(&CALL[4..4 + length]), Err(XdrError::Truncated));
    }
    let neither = MessageType::peek(&[0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(neither, Err(XdrError::Invalid { what: "MessageType", value: 2 }));
}

#[test]
fn starttls_needs_a_null_call_with_empty_bodies() {
    let tls = OpaqueAuth { flavor: AUTH_TLS, body: Bytes::new() };
    let probe = CallHeader { procedure: 0, credential: tls.clone(), ..call() };
    assert_eq!(check_starttls(&probe), Ok(()));
    let body = Bytes::from_static(b"body");
    let bad_credentials = [
        CallHeader { procedure: 1, ..probe.clone() },
        CallHeader { credential: OpaqueAuth { flavor: AUTH_SYS, ..tls.clone() }, ..probe.clone() },
        CallHeader { credential: OpaqueAuth { body: body.clone(), ..tls }, ..probe.clone() },
    ];
    for bad in bad_credentials {
        assert_eq!(check_starttls(&bad), Err(AuthStatus::BadCredential));
    }
    let bad = CallHeader { verifier: OpaqueAuth { flavor: 0, body }, ..probe };
    assert_eq!(check_starttls(&bad), Err(AuthStatus::BadVerifier));
}

#[test]
fn starttls_verifier_has_its_eight_characters() {
    let verifier = OpaqueAuth::starttls();
    assert_eq!(verifier.to_bytes(), b"\0\0\0\0\0\0\0\x08STARTTLS");
    assert!(verifier.is_starttls());
    assert!(!OpaqueAuth::none().is_starttls());
}

fn auth() -> impl Strategy<Value = OpaqueAuth> {
    (any::<u32>(), proptest::collection::vec(any::<u8>(), 0..=AUTH_BODY_BYTES_MAX))
        .prop_map(|(flavor, body)| OpaqueAuth { flavor, body: body.into() })
}

proptest! {
    #[test]
    fn every_call_survives_both_directions(
        xid: u32, program: u32, version: u32, procedure: u32,
        credential in auth(), verifier in auth(),
    ) {
        let call = CallHeader { xid, program, version, procedure, credential, verifier };
        let encoded = bytes(|to| call.encode(to));
        prop_assert_eq!(decode_call(&encoded), Ok(call.clone()));
        // The signed part ends where the verifier begins.
        let signed = bytes(|to| call.encode_signed_part(to));
        prop_assert_eq!(&encoded[..call.signed_part_bytes()], &signed[..]);
        prop_assert_eq!(&encoded[signed.len()..], &call.verifier.to_bytes()[..]);
    }
}
