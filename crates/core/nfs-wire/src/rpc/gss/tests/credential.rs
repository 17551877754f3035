use super::*;
use crate::rpc::auth::{AUTH_SYS, RPCSEC_GSS};

/// A DATA credential as Linux sends it with `sec=krb5i`.
const DATA: &[u8] = &[
    0x00, 0x00, 0x00, 0x01, // version 1
    0x00, 0x00, 0x00, 0x00, // DATA
    0x00, 0x00, 0x00, 0x2a, // sequence number 42
    0x00, 0x00, 0x00, 0x02, // integrity
    0x00, 0x00, 0x00, 0x04, 0xde, 0xad, 0xbe, 0xef, // handle
];

fn data() -> GssCredential {
    GssCredential {
        procedure: GssProcedure::Data,
        sequence: 42,
        service: Service::Integrity.code(),
        handle: Bytes::from_static(&[0xde, 0xad, 0xbe, 0xef]),
    }
}

fn decode(body: &[u8]) -> Result<GssCredential, AuthStatus> {
    let body = Bytes::copy_from_slice(body);
    GssCredential::from_credential(&OpaqueAuth { flavor: RPCSEC_GSS, body })
}

#[test]
fn credential_has_the_bytes_that_linux_sends() {
    assert_eq!(data().to_credential().body, DATA);
    assert_eq!(decode(DATA), Ok(data()));
}

#[test]
fn malformed_credentials_are_refused() {
    for length in 0..DATA.len() {
        assert_eq!(decode(&DATA[..length]), Err(AuthStatus::BadCredential), "{length} bytes");
    }
    assert_eq!(decode(&[DATA, &[0; 4]].concat()), Err(AuthStatus::BadCredential));
    let procedure_4 = [&DATA[..7], &[4], &DATA[8..]].concat();
    assert_eq!(decode(&procedure_4), Err(AuthStatus::BadCredential));
    let other = OpaqueAuth { flavor: AUTH_SYS, body: Bytes::from_static(DATA) };
    assert_eq!(GssCredential::from_credential(&other), Err(AuthStatus::BadCredential));
}

#[test]
fn other_versions_are_rejected() {
    for version in [0, 2, 3] {
        let body = [&[0, 0, 0, version], &DATA[4..]].concat();
        assert_eq!(decode(&body), Err(AuthStatus::RejectedCredential));
    }
}

#[test]
fn init_result_cut_anywhere_is_malformed() {
    let result = InitResult {
        handle: Bytes::from_static(b"handle"),
        major: 0,
        minor: 0,
        sequence_window: 128,
        token: Bytes::from_static(b"token"),
    };
    let bytes = Bytes::from(result.to_bytes());
    assert_eq!(&bytes[..], b"\0\0\0\x06handle\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\0\0\0\x05token\0\0\0");
    for length in 0..bytes.len() {
        assert!(InitResult::from_bytes(bytes.slice(..length)).is_err(), "{length} bytes");
    }
    assert_eq!(InitResult::from_bytes(bytes), Ok(result));
}

#[test]
fn longest_token_is_accepted_and_no_longer_one() {
    let token = |length| {
        let mut to = Encoder::new();
        to.opaque(&vec![0; length]);
        InitArguments::from_bytes(to.to_vec().into())
    };
    assert_eq!(token(GSS_TOKEN_BYTES_MAX).unwrap().token.len(), GSS_TOKEN_BYTES_MAX);
    assert!(token(GSS_TOKEN_BYTES_MAX + 1).is_err());
}
