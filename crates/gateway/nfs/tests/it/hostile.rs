//! Input that no correct client sends.

use std::time::Duration;

use braid_nfs::config::Limits;
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::rpc::record::RECORD_BYTES_MAX;
use braid_nfs_wire::xdr::Xdr;
use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio::time::timeout;

use crate::client::Connection;
use crate::server::{TestServer, config};

/// How long a test waits for what must happen; the time is simulated.
const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn garbage_ends_the_connection_and_not_the_server() {
    let server = TestServer::start().await;
    for garbage in [&b""[..], b"abc", &[0xff; 64], &[0; 64]] {
        let mut connection = server.connect().await;
        connection.send_record(garbage).await;
        if garbage == [0; 64] {
            // A call of RPC version 0, which has an answer.
            connection.receive(0).await;
        } else {
            connection.expect_close().await;
        }
    }
    assert_eq!(server.connect().await.status(&[]).await, NfsStatus::Ok);
}

#[tokio::test]
async fn announced_length_over_the_limit_ends_the_connection() {
    let server = TestServer::start().await;
    for length in [u32::MAX, 0x7fff_ffff, 0x8000_0000 | (RECORD_BYTES_MAX as u32 + 1)] {
        let mut connection = server.connect().await;
        connection.stream.write_all(&length.to_be_bytes()).await.unwrap();
        connection.expect_close().await;
    }
}

#[tokio::test]
async fn chain_of_empty_fragments_ends_the_connection() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let fragments = vec![0; 4 * 2000];
    connection.stream.write_all(&fragments).await.unwrap();
    connection.expect_close().await;
}

#[tokio::test]
async fn compound_that_announces_4_billion_operations_is_refused() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let sequence = session.next_on(0);
    for (ops, expected) in [
        (vec![ArgOp::Sequence(sequence)], NfsStatus::TooManyOps),
        (vec![ArgOp::PutRootFh], NfsStatus::OpNotInSession),
        (vec![], NfsStatus::BadXdr),
    ] {
        let procedure = (NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND);
        let xid = connection
            .send_call(procedure, |to| {
                let (tag, minor_version, op_count) = (Bytes::new(), 1, u32::MAX);
                CompoundHeader { tag, minor_version, op_count }.encode(to);
                ops.iter().for_each(|op| op.encode(to));
            })
            .await;
        assert_eq!(connection.receive_compound(xid).await.status, expected);
    }
}

#[tokio::test]
async fn connections_over_the_limits_are_closed() {
    let limits = Limits { connections: 3, connections_per_address: 2, ..Limits::default() };
    let server = TestServer::with_config(braid_nfs::NfsConfig { limits, ..config() }).await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    assert_eq!(first.status(&[]).await, NfsStatus::Ok);
    assert_eq!(second.status(&[]).await, NfsStatus::Ok);
    server.connect().await.expect_close().await;
    drop(first);
    // The server admits another one as soon as it has seen the end of the first.
    loop {
        let mut third = server.connect().await;
        let xid = third.send(&[]).await;
        if third.try_receive(xid).await {
            break;
        }
    }
    assert_eq!(second.status(&[]).await, NfsStatus::Ok);
}

#[tokio::test(start_paused = true)]
async fn sender_that_stops_in_a_record_is_disconnected() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    connection.stream.write_all(&[0x80, 0, 0, 100, 1, 2]).await.unwrap();
    timeout(LONG, connection.expect_close()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn connection_without_a_request_is_closed() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    timeout(LONG, connection.expect_close()).await.unwrap();
}

#[tokio::test]
async fn requests_without_reading_replies_do_not_stop_others() {
    let server = TestServer::start().await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut greedy = Connection::over(socket.connect(server.address).await.unwrap());
    // More replies than socket buffers hold; nothing is read. Each request has a tag to return.
    greedy.tag = Bytes::from(vec![b'a'; 1024]);
    let flood = async {
        loop {
            greedy.send(&[]).await;
        }
    };
    let mut other = server.connect().await;
    let others = async {
        for _ in 0..200 {
            assert_eq!(other.status(&[]).await, NfsStatus::Ok);
        }
    };
    tokio::select! {
        () = others => {}
        () = flood => unreachable!("it never ends"),
    }
}
