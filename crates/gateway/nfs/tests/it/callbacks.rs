//! Callbacks over the back channel.

use std::sync::Arc;

use braid_nfs::backchannel::CallbackError;
use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::callback::{CallbackArgOp, CallbackResOp, RecallArgs};
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::rpc::auth::{AUTH_NONE, AUTH_SYS};
use braid_nfs_wire::rpc::auth_sys::AuthSys;
use bytes::Bytes;
use tokio::task::JoinHandle;

use crate::client::{CHANNEL, Connection, Session, create_args, exchange_args};
use crate::last;
use crate::server::TestServer;

type CallResult = Result<CallbackResOp, CallbackError>;

/// A recall that names `number`.
fn recall(number: u8) -> CallbackArgOp {
    CallbackArgOp::Recall(RecallArgs {
        state_id: StateId { seqid: 1, other: [number; 12] },
        truncate: false,
        handle: FileHandle(Bytes::from_static(b"file")),
    })
}

/// The server recalls in a task of its own.
fn call(server: &TestServer, client: ClientId, number: u8) -> JoinHandle<CallResult> {
    let server = Arc::clone(&server.server);
    tokio::spawn(async move { server.call_client(client, &recall(number)).await })
}

const DONE: CallbackResOp = CallbackResOp::Recall(Ok(()));

async fn status_flags(connection: &mut Connection, session: &mut Session) -> SequenceStatus {
    last!(Sequence, connection.compound(&session.ops([])).await).status_flags
}

async fn bind(connection: &mut Connection, session: &Session, direction: ChannelDirFromClient) {
    let args = BindConnToSessionArgs { session_id: session.id, direction, use_rdma: false };
    assert_eq!(connection.status(&[ArgOp::BindConnToSession(args)]).await, NfsStatus::Ok);
}

const DOWN: SequenceStatus =
    SequenceStatus(SequenceStatus::CB_PATH_DOWN.0 | SequenceStatus::CB_PATH_DOWN_SESSION.0);

#[tokio::test]
async fn callback_reaches_the_client_and_returns_its_answer() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let session = connection.session("a").await;
    for number in 1..4 {
        let called = call(&server, session.client, number);
        let callback = connection.callback().await;
        assert_eq!(callback.header.minor_version, 1);
        assert_eq!(callback.call.credential.flavor, AUTH_NONE);
        assert_eq!(callback.sequence.session_id, session.id);
        assert_eq!(callback.sequence.sequence_id, SequenceId(u32::from(number)));
        assert_eq!(callback.sequence.slot_id, SlotId(0));
        assert_eq!(callback.op, recall(number));
        let result = CallbackResOp::Recall(Err(NfsStatus::BadStateId));
        connection.answer(&callback, NfsStatus::Ok, &result).await;
        assert_eq!(called.await.unwrap(), Ok(result));
    }
}

#[tokio::test]
async fn callbacks_use_the_parameters_of_the_session() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    connection.minor_version = 2;
    let client = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    let user = AuthSys {
        stamp: 3,
        machine_name: Bytes::from_static(b"host"),
        uid: 5,
        gid: 6,
        gids: vec![7],
    };
    let args = CreateSessionArgs {
        callback_security: vec![CallbackSecurity::None, CallbackSecurity::Sys(user)],
        back_channel: ChannelAttributes { max_requests: 2, ..CHANNEL },
        ..create_args(client.client_id, 1)
    };
    let created = connection.create_session(args).await.unwrap();
    let mut session = Session::new(client.client_id, created);
    let calls: Vec<_> = (1..=3).map(|number| call(&server, session.client, number)).collect();
    let (first, second) = (connection.callback().await, connection.callback().await);
    assert_eq!(first.header.minor_version, 2);
    assert_eq!(first.call.credential.flavor, AUTH_SYS);
    assert_eq!((first.sequence.slot_id, second.sequence.slot_id), (SlotId(0), SlotId(1)));
    assert_eq!(second.sequence.highest_slot_id, SlotId(1));
    connection.answer(&second, NfsStatus::Ok, &DONE).await;
    let third = connection.callback().await;
    assert_eq!(third.sequence.slot_id, SlotId(1), "only two at a time");
    assert_eq!(third.sequence.sequence_id, SequenceId(2));
    for callback in [first, third] {
        connection.answer(&callback, NfsStatus::Ok, &DONE).await;
    }
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(DONE));
    }

    let args = BackchannelCtlArgs {
        callback_program: crate::client::CALLBACK_PROGRAM,
        security: vec![CallbackSecurity::None],
    };
    let ops = session.ops([ArgOp::BackchannelCtl(args)]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Ok);
    let called = call(&server, session.client, 4);
    let callback = connection.callback().await;
    assert_eq!(callback.call.credential.flavor, AUTH_NONE);
    connection.answer(&callback, NfsStatus::Ok, &DONE).await;
    assert_eq!(called.await.unwrap(), Ok(DONE));
}

#[tokio::test]
async fn callback_is_repeated_over_a_new_connection() {
    let server = TestServer::start().await;
    let mut first = server.connect().await;
    let mut session = first.session("a").await;
    let called = call(&server, session.client, 1);
    let lost = first.callback().await;
    drop(first);
    let mut second = server.connect().await;
    // The server learns of the loss when it reads the end of the stream.
    while status_flags(&mut second, &mut session).await != DOWN {
        tokio::task::yield_now().await;
    }
    bind(&mut second, &session, ChannelDirFromClient::BackOrBoth).await;
    let again = second.callback().await;
    assert_eq!(again.sequence.sequence_id, lost.sequence.sequence_id);
    assert_eq!(again.op, lost.op);
    second.answer(&again, NfsStatus::Ok, &DONE).await;
    assert_eq!(called.await.unwrap(), Ok(DONE));
    assert_eq!(status_flags(&mut second, &mut session).await, SequenceStatus::empty());
}

#[tokio::test]
async fn callback_whose_reply_was_lost_gets_the_next_number() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let session = connection.session("a").await;
    let called = call(&server, session.client, 1);
    let callback = connection.callback().await;
    connection.answer(&callback, NfsStatus::RetryUncachedRep, &DONE).await;
    let again = connection.callback().await;
    assert_eq!(again.sequence.sequence_id, SequenceId(2));
    connection.answer(&again, NfsStatus::Ok, &DONE).await;
    assert_eq!(called.await.unwrap(), Ok(DONE));
}

#[tokio::test]
async fn client_that_refuses_callbacks_is_reported_as_a_fault() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let called = call(&server, session.client, 1);
    let callback = connection.callback().await;
    connection.answer(&callback, NfsStatus::BadSession, &DONE).await;
    let refused = Err(CallbackError::Refused(NfsStatus::BadSession));
    assert_eq!(called.await.unwrap(), refused);
    let flags = status_flags(&mut connection, &mut session).await;
    assert_eq!(flags, SequenceStatus::BACKCHANNEL_FAULT);
}

#[tokio::test]
async fn delayed_callback_is_repeated_with_its_number() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let session = connection.session("a").await;
    let called = call(&server, session.client, 1);
    let callback = connection.callback().await;
    connection.answer(&callback, NfsStatus::Delay, &DONE).await;
    let again = connection.callback().await;
    assert_eq!(again.sequence, callback.sequence);
    connection.answer(&again, NfsStatus::Ok, &DONE).await;
    assert_eq!(called.await.unwrap(), Ok(DONE));
}

#[tokio::test]
async fn callback_ends_with_its_session() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let session = connection.session("a").await;
    let called = call(&server, session.client, 1);
    connection.callback().await;
    let end = ArgOp::DestroySession(DestroySessionArgs { session_id: session.id });
    assert_eq!(connection.status(&[end]).await, NfsStatus::Ok);
    assert_eq!(called.await.unwrap(), Err(CallbackError::SessionEnded));
    let without = call(&server, session.client, 2).await.unwrap();
    assert_eq!(without, Err(CallbackError::SessionEnded));
}

#[tokio::test]
async fn client_without_a_back_channel_is_called_when_it_binds_one() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let client = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    let args = create_args(client.client_id, 1);
    let args = CreateSessionArgs { flags: CreateSessionFlags::empty(), ..args };
    let created = connection.create_session(args).await.unwrap();
    let mut session = Session::new(client.client_id, created);
    let flags = status_flags(&mut connection, &mut session).await;
    assert_eq!(flags, SequenceStatus::empty(), "it did not ask for callbacks");
    let called = call(&server, session.client, 1);
    let mut second = server.connect().await;
    bind(&mut second, &session, ChannelDirFromClient::Back).await;
    let callback = second.callback().await;
    second.answer(&callback, NfsStatus::Ok, &DONE).await;
    assert_eq!(called.await.unwrap(), Ok(DONE));
    // RFC 8881 2.10.3.1: SEQUENCE binds the fore channel too.
    assert_eq!(second.status(&session.ops([])).await, NfsStatus::Ok);
}

#[tokio::test]
async fn malformed_answer_to_a_callback_is_an_error() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let session = connection.session("a").await;
    let called = call(&server, session.client, 1);
    let callback = connection.callback().await;
    let mut record = callback.call.xid.to_be_bytes().to_vec();
    record.extend([0, 0, 0, 1, 0, 0, 0, 9]);
    connection.send_record(&record).await;
    assert_eq!(called.await.unwrap(), Err(CallbackError::Malformed));
    // A reply that nobody waits for is ignored.
    connection.send_record(&record).await;
    assert_eq!(connection.status(&[]).await, NfsStatus::Ok);
}
