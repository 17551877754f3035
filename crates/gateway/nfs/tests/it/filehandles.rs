//! File handles: current, saved, forged.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;
use bytes::Bytes;

use crate::client::{Connection, Session};
use crate::last;
use crate::server::{TestServer, config, export};

async fn handle(connection: &mut Connection, ops: Vec<ArgOp>) -> FileHandle {
    last!(GetFh, connection.compound(&ops).await).handle
}

fn put(handle: &FileHandle) -> ArgOp {
    ArgOp::PutFh(PutFhArgs { handle: handle.clone() })
}

async fn start() -> (TestServer, Connection, Session) {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let session = connection.session("a").await;
    (server, connection, session)
}

#[tokio::test]
async fn root_and_public_handle_are_the_same() {
    let (_server, mut connection, mut session) = start().await;
    let root = handle(&mut connection, session.ops([ArgOp::PutRootFh, ArgOp::GetFh])).await;
    assert!(root.0.len() <= FILE_HANDLE_BYTES_MAX);
    let public = handle(&mut connection, session.ops([ArgOp::PutPubFh, ArgOp::GetFh])).await;
    assert_eq!(root, public);
    let put = handle(&mut connection, session.ops([put(&root), ArgOp::GetFh])).await;
    assert_eq!(root, put);
}

#[tokio::test]
async fn handles_are_valid_at_all_gateways() {
    let (server, mut connection, mut session) = start().await;
    let root = handle(&mut connection, session.ops([ArgOp::PutRootFh, ArgOp::GetFh])).await;
    let other = TestServer::with_share(server.share.another_gateway(), config()).await;
    let mut connection = other.connect().await;
    let mut session = connection.session("a").await;
    let again = handle(&mut connection, session.ops([put(&root), ArgOp::GetFh])).await;
    assert_eq!(root, again);
}

#[tokio::test]
async fn operations_without_a_current_handle_fail() {
    let (_server, mut connection, mut session) = start().await;
    for op in [ArgOp::GetFh, ArgOp::SaveFh] {
        let ops = session.ops([op]);
        assert_eq!(connection.status(&ops).await, NfsStatus::NoFileHandle);
    }
    let ops = session.ops([ArgOp::RestoreFh]);
    assert_eq!(connection.status(&ops).await, NfsStatus::RestoreFh);
}

#[tokio::test]
async fn forged_handles_are_refused() {
    let (_server, mut connection, mut session) = start().await;
    let root = handle(&mut connection, session.ops([ArgOp::PutRootFh, ArgOp::GetFh])).await;
    let mut forged = root.0.to_vec();
    forged[17] ^= 3; // another file
    let forgeries = [Bytes::new(), Bytes::from(forged), Bytes::from(vec![0; 128])];
    for forged in forgeries {
        let ops = session.ops([put(&FileHandle(forged)), ArgOp::GetFh]);
        let result = connection.compound(&ops).await;
        assert_eq!(result.results.last(), Some(&ResOp::PutFh(Err(NfsStatus::BadHandle))));
    }
}

#[tokio::test]
async fn handle_over_128_bytes_is_bad_xdr() {
    let (_server, mut connection, mut session) = start().await;
    // 132 bytes, written by hand: the encoder refuses to.
    let xid = {
        let sequence = session.next_on(0);
        let procedure = (NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND);
        connection
            .send_call(procedure, |to| {
                use braid_nfs_wire::xdr::Xdr;
                let (tag, minor_version) = (Bytes::new(), 1);
                CompoundHeader { tag, minor_version, op_count: 2 }.encode(to);
                ArgOp::Sequence(sequence).encode(to);
                to.u32(OpNumber::PutFh.code());
                to.opaque(&[0; 132]);
            })
            .await
    };
    let result = connection.receive_compound(xid).await;
    assert_eq!(result.results.last(), Some(&ResOp::PutFh(Err(NfsStatus::BadXdr))));
}

#[tokio::test]
async fn saved_handle_is_restored() {
    let mut two = config();
    two.exports = vec![export("/a"), export("/b")];
    let server = TestServer::with_config(two).await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let root = handle(&mut connection, session.ops([ArgOp::PutRootFh, ArgOp::GetFh])).await;
    let ops = [ArgOp::PutRootFh, ArgOp::SaveFh, put(&root), ArgOp::RestoreFh, ArgOp::GetFh];
    assert_eq!(handle(&mut connection, session.ops(ops)).await, root);
}

#[tokio::test]
async fn handle_of_an_export_that_is_gone_is_stale() {
    let (server, mut connection, mut session) = start().await;
    let root = handle(&mut connection, session.ops([ArgOp::PutRootFh, ArgOp::GetFh])).await;
    let mut other = config();
    other.exports = vec![export("/a")];
    let other = TestServer::with_share(server.share.another_gateway(), other).await;
    let mut connection = other.connect().await;
    let mut session = connection.session("a").await;
    let ops = session.ops([put(&root)]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Stale);
}
