//! Programs, versions, credentials, and the frame of compounds.

use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::rpc::auth::{AUTH_TLS, AuthStatus, OpaqueAuth, RPCSEC_GSS};
use braid_nfs_wire::rpc::message::{AcceptStatus, Denied, ReplyBody};
use braid_nfs_wire::xdr::{Encoder, Xdr};
use bytes::Bytes;

use crate::client::{Connection, exchange_args};
use crate::server::TestServer;

async fn answer(connection: &mut Connection, procedure: (u32, u32, u32)) -> AcceptStatus {
    let xid = connection.send_call(procedure, |_| {}).await;
    match connection.receive(xid).await.0 {
        ReplyBody::Accepted { status, .. } => status,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn only_nfs_version_4_is_served() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mismatch = AcceptStatus::ProgramMismatch { low: 4, high: 4 };
    for (procedure, expected) in [
        ((NFS_PROGRAM, 4, 0), AcceptStatus::Success),
        ((NFS_PROGRAM, 2, 0), mismatch),
        ((NFS_PROGRAM, 3, 1), mismatch),
        ((NFS_PROGRAM, 5, 0), mismatch),
        ((NFS_PROGRAM, 4, 2), AcceptStatus::ProcedureUnavailable),
        ((100_005, 3, 0), AcceptStatus::ProgramUnavailable),
        ((NFS_PROGRAM, 4, 1), AcceptStatus::GarbageArguments),
    ] {
        assert_eq!(answer(&mut connection, procedure).await, expected, "{procedure:?}");
    }
}

#[tokio::test]
async fn minor_versions_1_and_2_are_served() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    for (minor_version, expected) in [
        (0, NfsStatus::MinorVersMismatch),
        (1, NfsStatus::OpNotInSession),
        (2, NfsStatus::OpNotInSession),
        (3, NfsStatus::MinorVersMismatch),
        (u32::MAX, NfsStatus::MinorVersMismatch),
    ] {
        connection.minor_version = minor_version;
        connection.tag = Bytes::from_static(b"tag");
        let result = connection.compound(&[ArgOp::PutRootFh]).await;
        assert_eq!((result.status, &result.tag[..]), (expected, &b"tag"[..]));
        let mismatch = expected == NfsStatus::MinorVersMismatch;
        assert_eq!(result.results.is_empty(), mismatch);
    }
}

#[tokio::test]
async fn empty_compound_succeeds_and_has_its_tag() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    connection.tag = Bytes::from_static("é".as_bytes());
    let result = connection.compound(&[]).await;
    assert_eq!((result.status, result.tag), (NfsStatus::Ok, connection.tag.clone()));
    connection.tag = Bytes::from_static(b"\xff");
    assert_eq!(connection.status(&[]).await, NfsStatus::Inval);
    connection.tag = Bytes::from(vec![b'a'; 1025]);
    let xid = connection.send(&[]).await;
    let (body, _) = connection.receive(xid).await;
    let ReplyBody::Accepted { status, .. } = body else { panic!("{body:?}") };
    assert_eq!(status, AcceptStatus::GarbageArguments);
}

#[tokio::test]
async fn unknown_and_forbidden_operations_are_answered_by_name() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    for number in [0, 2, OpNumber::Seek.code(), 76, 10044] {
        let result = connection.compound(&[ArgOp::Illegal(number)]).await;
        assert_eq!(result.results, [ResOp::Illegal(NfsStatus::OpIllegal)], "{number}");
    }
    let renew = ArgOp::Forbidden(OpNumber::Renew);
    let result = connection.compound(&[renew]).await;
    assert_eq!(result.results, [ResOp::Forbidden(OpNumber::Renew, NfsStatus::NotSupp)]);
    connection.minor_version = 2;
    let seek = OpNumber::Seek.code();
    let result = connection.compound(&[ArgOp::Illegal(seek)]).await;
    assert_eq!(result.status, NfsStatus::BadXdr, "it is known, and has no arguments here");
}

#[tokio::test]
async fn arguments_that_end_early_are_bad_xdr() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut to = Encoder::new();
    ArgOp::ExchangeId(exchange_args("a", 1)).encode(&mut to);
    let whole = to.to_vec();
    for length in (4..whole.len()).step_by(4) {
        let procedure = (NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND);
        let xid = connection
            .send_call(procedure, |to| {
                let (tag, minor_version) = (Bytes::new(), 1);
                CompoundHeader { tag, minor_version, op_count: 1 }.encode(to);
                to.raw(Bytes::copy_from_slice(&whole[..length]));
            })
            .await;
        let result = connection.receive_compound(xid).await;
        assert_eq!(result.results, [ResOp::ExchangeId(Err(NfsStatus::BadXdr))]);
    }
}

#[tokio::test]
async fn credentials_that_are_not_understood_are_denied() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let bad = ReplyBody::Denied(Denied::Auth(AuthStatus::BadCredential));
    for (flavor, body) in [(1, &b"short"[..]), (RPCSEC_GSS, b""), (AUTH_TLS, b""), (99, b"")] {
        connection.credential = OpaqueAuth { flavor, body: Bytes::from_static(body) };
        let xid = connection.send(&[ArgOp::PutRootFh]).await;
        assert_eq!(connection.receive(xid).await.0, bad, "flavor {flavor}");
    }
    connection.credential = OpaqueAuth::none();
    assert_eq!(connection.status(&[ArgOp::PutRootFh]).await, NfsStatus::OpNotInSession);
}

#[tokio::test]
async fn server_without_tls_refuses_a_probe() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    connection.credential = OpaqueAuth { flavor: AUTH_TLS, body: Bytes::new() };
    let xid = connection.send_call((NFS_PROGRAM, NFS_VERSION, PROCEDURE_NULL), |_| {}).await;
    let (body, _) = connection.receive(xid).await;
    let ReplyBody::Accepted { verifier, status } = body else { panic!("{body:?}") };
    assert_eq!((verifier, status), (OpaqueAuth::none(), AcceptStatus::Success));
}
