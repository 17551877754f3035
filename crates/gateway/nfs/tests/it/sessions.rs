//! EXCHANGE_ID, CREATE_SESSION and what ends sessions and clients. The cases of EXCHANGE_ID are
//! tested beside `state/clients`.

use braid_nfs::config::Security;
use braid_nfs::{Listener, NfsServer};
use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;
use braid_share::Status;
use braid_share::memory::{CallKind, MemoryShare};

use crate::client::{CHANNEL, create_args, exchange_args, user, with_sequence};
use crate::last;
use crate::server::{TestServer, client_records, config, export};

#[tokio::test]
async fn exchange_id_names_server_scope_and_role() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let result = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    assert_eq!(result.flags, ExchangeIdFlags::USE_NON_PNFS);
    assert_eq!(result.server_owner.major_id, "test:2049");
    assert!(!result.server_scope.is_empty());

    let mut config = config();
    config.exports[0].pnfs = true;
    let other = MemoryShare::another_gateway(&server.share);
    let other = TestServer::with_share(other, config).await;
    let mut connection = other.connect().await;
    let second = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    assert_eq!(second.flags, ExchangeIdFlags::USE_PNFS_MDS);
    assert_eq!(second.server_scope, result.server_scope, "one file system");
    assert_ne!(second.client_id, result.client_id, "two gateways");
}

#[tokio::test]
async fn exchange_id_refuses_undefined_and_result_flags() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    for (flags, minor_version, allowed) in [
        (ExchangeIdFlags::USE_PNFS_DS, 1, true),
        (ExchangeIdFlags::CONFIRMED_R, 1, false),
        (ExchangeIdFlags(8), 1, false),
        (ExchangeIdFlags::SUPP_FENCE_OPS, 1, false),
        (ExchangeIdFlags::SUPP_FENCE_OPS, 2, true),
    ] {
        connection.minor_version = minor_version;
        let args = ExchangeIdArgs { flags, ..exchange_args("a", 1) };
        let expected = if allowed { None } else { Some(NfsStatus::Inval) };
        assert_eq!(connection.exchange_id(args).await.err(), expected, "{flags:?}");
    }
}

#[tokio::test]
async fn state_protection_needs_kerberos() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let ops = StateProtectOps { must_enforce: Bitmap::new(), must_allow: Bitmap::new() };
    let state_protect = StateProtectArgs::MachineCredential(ops);
    let args = ExchangeIdArgs { state_protect, ..exchange_args("a", 1) };
    assert_eq!(connection.exchange_id(args).await.err(), Some(NfsStatus::Inval));
    let state_protect = StateProtectArgs::Ssv(SsvParameters {
        ops,
        hash_algorithms: Vec::new(),
        encryption_algorithms: Vec::new(),
        window: 1,
        gss_handles: 1,
    });
    let args = ExchangeIdArgs { state_protect, ..exchange_args("a", 1) };
    assert_eq!(connection.exchange_id(args).await.err(), Some(NfsStatus::EncrAlgUnsupp));
}

#[tokio::test]
async fn session_at_the_mds_begins_with_create_session() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let client = connection.exchange_id(exchange_args("host a", 1)).await.unwrap();
    assert_eq!(server.client_records().len(), 0);
    let args = create_args(client.client_id, client.sequence_id.0);
    connection.create_session(args).await.unwrap();
    let records = server.client_records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].1.name, "host a");

    let client = connection.exchange_id(exchange_args("host a", 1)).await.unwrap();
    assert!(client.flags.contains(ExchangeIdFlags::CONFIRMED_R));
    let args = create_args(client.client_id, client.sequence_id.0);
    connection.create_session(args).await.unwrap();
    assert_eq!(server.client_records().len(), 1, "the second session shares it");
}

#[tokio::test]
async fn failure_at_the_mds_leaves_the_client_unconfirmed() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let client = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    let args = create_args(client.client_id, client.sequence_id.0);
    server.share.fail_next(CallKind::BeginClient, Status::Unreachable);
    let failed = connection.create_session(args.clone()).await;
    assert_eq!(failed, Err(NfsStatus::Delay));
    assert!(connection.create_session(args).await.is_ok(), "the number was not used up");
}

#[tokio::test]
async fn create_session_is_repeated_with_and_without_sequence() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let args = create_args(session.client, 2);
    let result = connection.create_session(args.clone()).await.unwrap();
    assert_eq!(connection.create_session(args.clone()).await, Ok(result));
    let ops = session.ops([ArgOp::CreateSession(args)]);
    assert_eq!(last!(CreateSession, connection.compound(&ops).await), result);
}

#[tokio::test]
async fn create_session_checks_client_number_and_flags() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let client = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    let args = create_args(client.client_id, 1);
    let flags = CreateSessionFlags(8);
    for (args, expected) in [
        (create_args(ClientId(99), 1), NfsStatus::StaleClientId),
        (create_args(client.client_id, 0), NfsStatus::SeqMisordered),
        (create_args(client.client_id, 2), NfsStatus::SeqMisordered),
        (CreateSessionArgs { flags, ..args.clone() }, NfsStatus::Inval),
    ] {
        assert_eq!(connection.create_session(args).await, Err(expected));
    }
    connection.credential = user(5);
    let refused = connection.create_session(args).await;
    assert_eq!(refused, Err(NfsStatus::ClidInUse), "another principal");
}

#[tokio::test]
async fn refused_channel_sizes_use_up_no_number() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let client = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    let args = create_args(client.client_id, 1);
    let small = [
        ChannelAttributes { max_request_size: 20, ..CHANNEL },
        ChannelAttributes { max_response_size: 0, ..CHANNEL },
    ];
    for channel in small {
        let fore = CreateSessionArgs { fore_channel: channel, ..args.clone() };
        assert_eq!(connection.create_session(fore).await, Err(NfsStatus::TooSmall));
        let back = CreateSessionArgs { back_channel: channel, ..args.clone() };
        assert_eq!(connection.create_session(back).await, Err(NfsStatus::TooSmall));
    }
    let granted = connection.create_session(args).await.unwrap();
    assert_eq!(granted.fore_channel, CHANNEL);
    assert_eq!(granted.flags, CreateSessionFlags::CONN_BACK_CHAN);
}

#[tokio::test]
async fn channels_are_limited_by_the_server() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let client = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    let most = ChannelAttributes {
        header_pad_size: 64,
        max_request_size: u32::MAX,
        max_response_size: u32::MAX,
        max_response_size_cached: u32::MAX,
        max_operations: u32::MAX,
        max_requests: u32::MAX,
        rdma_ird: Some(3),
    };
    let flags = CreateSessionFlags::PERSIST | CreateSessionFlags::CONN_RDMA;
    let args = create_args(client.client_id, 1);
    let args = CreateSessionArgs { fore_channel: most, flags, ..args };
    let granted = connection.create_session(args).await.unwrap();
    assert_eq!(granted.flags, CreateSessionFlags::empty());
    let fore = granted.fore_channel;
    assert_eq!((fore.header_pad_size, fore.rdma_ird), (0, None));
    assert_eq!((fore.max_requests, fore.max_operations), (64, 64));
    assert!(fore.max_request_size >= (1 << 20) + 4096 && fore.max_request_size < 2 << 20);
}

#[tokio::test]
async fn restarted_client_loses_its_former_state_when_confirmed() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut old = connection.session("a").await;
    let client = connection.exchange_id(exchange_args("a", 2)).await.unwrap();
    assert_ne!(client.client_id, old.client);
    assert_eq!(connection.status(&old.ops([])).await, NfsStatus::Ok);
    let before = server.client_records();
    connection.create_session(create_args(client.client_id, 1)).await.unwrap();
    assert_eq!(connection.status(&old.ops([])).await, NfsStatus::BadSession);
    let after = server.client_records();
    assert_eq!(after.len(), 1, "the former session at the MDS has ended");
    assert_ne!(after[0].0, before[0].0);
}

#[tokio::test]
async fn operations_outside_a_session_stand_alone() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let session = connection.session("a").await;
    let bind = BindConnToSessionArgs {
        session_id: session.id,
        direction: ChannelDirFromClient::Fore,
        use_rdma: false,
    };
    for op in [
        ArgOp::ExchangeId(exchange_args("a", 1)),
        ArgOp::CreateSession(create_args(session.client, 2)),
        ArgOp::BindConnToSession(bind),
        ArgOp::DestroySession(DestroySessionArgs { session_id: session.id }),
        ArgOp::DestroyClientId(DestroyClientIdArgs { client_id: session.client }),
    ] {
        let number = op.number();
        let result = connection.compound(&[op, ArgOp::PutRootFh]).await;
        assert_eq!(result.results, [ResOp::failure(number, NfsStatus::NotOnlyOp)]);
    }
}

#[tokio::test]
async fn client_with_a_session_is_busy_until_it_is_destroyed() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let session = connection.session("a").await;
    let destroy = [ArgOp::DestroyClientId(DestroyClientIdArgs { client_id: session.client })];
    assert_eq!(connection.status(&destroy).await, NfsStatus::ClientIdBusy);
    let end = [ArgOp::DestroySession(DestroySessionArgs { session_id: session.id })];
    assert_eq!(connection.status(&end).await, NfsStatus::Ok);
    assert_eq!(connection.status(&end).await, NfsStatus::BadSession);
    assert_eq!(connection.status(&destroy).await, NfsStatus::Ok);
    assert_eq!(connection.status(&destroy).await, NfsStatus::StaleClientId);
    assert_eq!(server.client_records().len(), 0);
}

#[tokio::test]
async fn session_is_destroyed_over_its_own_connections_only() {
    let server = TestServer::start().await;
    let mut first = server.connect().await;
    let mut session = first.session("a").await;
    let mut second = server.connect().await;
    let end = [ArgOp::DestroySession(DestroySessionArgs { session_id: session.id })];
    assert_eq!(second.status(&end).await, NfsStatus::ConnNotBoundToSession);
    assert_eq!(second.status(&session.ops([])).await, NfsStatus::Ok);
    assert_eq!(second.status(&end).await, NfsStatus::Ok);
}

#[tokio::test]
async fn session_is_destroyed_by_its_own_last_operation() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let end = ArgOp::DestroySession(DestroySessionArgs { session_id: session.id });
    let ops = session.ops([end.clone(), ArgOp::PutRootFh]);
    assert_eq!(connection.status(&ops).await, NfsStatus::NotOnlyOp);
    let ops = session.ops([end]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Ok);
    assert_eq!(connection.status(&session.ops([])).await, NfsStatus::BadSession);
}

#[tokio::test]
async fn other_clients_are_destroyed_from_within_a_session() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let other = connection.exchange_id(exchange_args("b", 1)).await.unwrap();
    let destroy = |client_id| ArgOp::DestroyClientId(DestroyClientIdArgs { client_id });
    let ops = session.ops([destroy(other.client_id)]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Ok);
    let ops = session.ops([destroy(session.client)]);
    assert_eq!(connection.status(&ops).await, NfsStatus::ClientIdBusy);
}

#[tokio::test]
async fn reclaim_complete_is_sent_once() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let complete = |one_fs| ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs });
    let ops = session.ops([complete(true)]);
    assert_eq!(connection.status(&ops).await, NfsStatus::NoFileHandle);
    let ops = session.ops([ArgOp::PutRootFh, complete(true)]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Ok);
    let ops = session.ops([complete(false)]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Ok);
    let ops = session.ops([complete(false)]);
    assert_eq!(connection.status(&ops).await, NfsStatus::CompleteAlready);
}

#[tokio::test]
async fn bind_conn_to_session_stands_alone_and_needs_a_session() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let bind = |session_id, direction| {
        let use_rdma = true;
        ArgOp::BindConnToSession(BindConnToSessionArgs { session_id, direction, use_rdma })
    };
    let fore = bind(session.id, ChannelDirFromClient::Fore);
    let bound = last!(BindConnToSession, connection.compound(std::slice::from_ref(&fore)).await);
    assert!(!bound.use_rdma && bound.session_id == session.id);
    let unknown = bind(SessionId([0; 16]), ChannelDirFromClient::Fore);
    assert_eq!(connection.status(&[unknown]).await, NfsStatus::BadSession);
    let ops = with_sequence(session.next_on(0), [fore]);
    assert_eq!(connection.status(&ops).await, NfsStatus::NotOnlyOp);
}

#[tokio::test]
async fn sessions_of_clients_are_left_for_the_next_start_of_the_server() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    connection.session("a").await;
    let share = server.share.clone();
    assert_eq!(client_records(&share).len(), 1);
    server.stop().await;
    assert_eq!(client_records(&share).len(), 1);
    connection.expect_close().await;
}

#[tokio::test]
async fn wrong_configurations_do_not_start() {
    let refused = |exports| {
        let mut config = config();
        config.exports = exports;
        NfsServer::new(MemoryShare::new(), config).unwrap_err().to_string()
    };
    let twice = refused(vec![export("/a"), export("/a")]);
    assert_eq!(twice, "NFS configuration: /a is exported twice");
    let mut kerberos = export("/a");
    kerberos.security.push(Security::Krb5p);
    assert!(refused(vec![kerberos]).contains("/a: its security flavours need Kerberos"));
}

#[tokio::test]
async fn port_in_use_is_reported_with_the_address() {
    let server = TestServer::start().await;
    let refused = Listener::bind(server.address).await.unwrap_err().to_string();
    assert!(refused.starts_with(&format!("listen on {}: ", server.address)), "{refused}");
}
