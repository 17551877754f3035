//! SEQUENCE: slots, retries, and the limits of a session.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;

use crate::client::{
    CHANNEL, Connection, Session, create_args, exchange_args, user, with_sequence,
};
use crate::last;
use crate::server::TestServer;

/// A session with another fore channel.
async fn session_with(connection: &mut Connection, fore_channel: ChannelAttributes) -> Session {
    let client = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    let args = create_args(client.client_id, client.sequence_id.0);
    let args = CreateSessionArgs { fore_channel, ..args };
    let created = connection.create_session(args).await.unwrap();
    Session::new(client.client_id, created)
}

#[tokio::test]
async fn sequence_returns_its_arguments_and_the_highest_slot() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let args = session.next_on(2);
    let result = last!(Sequence, connection.compound(&[ArgOp::Sequence(args)]).await);
    assert_eq!(result.session_id, session.id);
    assert_eq!((result.sequence_id, result.slot_id), (SequenceId(1), SlotId(2)));
    assert_eq!((result.highest_slot_id, result.target_highest_slot_id), (SlotId(7), SlotId(7)));
    assert_eq!(result.status_flags, SequenceStatus::empty());
}

#[tokio::test]
async fn wrong_sessions_slots_and_numbers_are_refused() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let good = session.next_on(0);
    let session_id = SessionId([0; 16]);
    for (args, expected) in [
        (SequenceArgs { session_id, ..good }, NfsStatus::BadSession),
        (SequenceArgs { slot_id: SlotId(8), ..good }, NfsStatus::BadSlot),
        (SequenceArgs { highest_slot_id: SlotId(8), ..good }, NfsStatus::BadHighSlot),
        (SequenceArgs { sequence_id: SequenceId(0), ..good }, NfsStatus::SeqMisordered),
        (SequenceArgs { sequence_id: SequenceId(2), ..good }, NfsStatus::SeqMisordered),
        (good, NfsStatus::Ok),
        (SequenceArgs { sequence_id: SequenceId(3), ..good }, NfsStatus::SeqMisordered),
        (SequenceArgs { sequence_id: SequenceId(0), ..good }, NfsStatus::SeqMisordered),
    ] {
        assert_eq!(connection.status(&[ArgOp::Sequence(args)]).await, expected, "{args:?}");
    }
}

#[tokio::test]
async fn sequence_is_the_first_operation_only() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let second = session.next_on(1);
    let ops = session.ops([ArgOp::Sequence(second)]);
    assert_eq!(connection.status(&ops).await, NfsStatus::SequencePos);
    for op in [ArgOp::PutRootFh, ArgOp::GetFh, ArgOp::ReadLink] {
        assert_eq!(connection.status(&[op]).await, NfsStatus::OpNotInSession);
    }
}

#[tokio::test]
async fn retry_gets_the_cached_reply_of_success_and_failure() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    for ops in [vec![ArgOp::PutRootFh, ArgOp::GetFh], vec![ArgOp::GetFh], Vec::new()] {
        let sequence = SequenceArgs { cache_this: true, ..session.next_on(0) };
        let compound = with_sequence(sequence, ops);
        let first = connection.compound(&compound).await;
        // The tag belongs to the request that ran.
        connection.tag = "another".into();
        assert_eq!(connection.compound(&compound).await, first);
        connection.tag = "".into();
    }
}

#[tokio::test]
async fn retry_on_another_connection_gets_the_cached_reply() {
    let server = TestServer::start().await;
    let mut first = server.connect().await;
    let mut session = first.session("a").await;
    // What it does is not done again: a second RECLAIM_COMPLETE would fail.
    let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    let sequence = SequenceArgs { cache_this: true, ..session.next_on(0) };
    let compound = with_sequence(sequence, [complete]);
    let result = first.compound(&compound).await;
    assert_eq!(result.status, NfsStatus::Ok);
    drop(first);
    let mut second = server.connect().await;
    assert_eq!(second.compound(&compound).await, result);
}

#[tokio::test]
async fn retry_without_a_cached_reply_fails_at_its_second_operation() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    let compound = session.ops([complete]);
    assert_eq!(connection.status(&compound).await, NfsStatus::Ok);
    let retried = connection.compound(&compound).await;
    assert_eq!(retried.results.len(), 2);
    assert!(matches!(retried.results[0], ResOp::Sequence(Ok(_))));
    assert_eq!(retried.results[1], ResOp::ReclaimComplete(Err(NfsStatus::RetryUncachedRep)));
}

#[tokio::test]
async fn sequence_alone_is_cached_without_being_asked() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let compound = session.ops([]);
    let first = connection.compound(&compound).await;
    assert_eq!(first.status, NfsStatus::Ok);
    assert_eq!(connection.compound(&compound).await, first);
}

#[tokio::test]
async fn other_request_or_user_with_an_old_number_is_a_false_retry() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let sequence = SequenceArgs { cache_this: true, ..session.next_on(0) };
    let compound = with_sequence(sequence, [ArgOp::PutRootFh, ArgOp::GetFh]);
    let first = connection.compound(&compound).await;
    let other = with_sequence(sequence, [ArgOp::PutRootFh, ArgOp::SaveFh]);
    assert_eq!(connection.status(&other).await, NfsStatus::SeqFalseRetry);
    let shorter = with_sequence(sequence, [ArgOp::PutRootFh]);
    assert_eq!(connection.status(&shorter).await, NfsStatus::SeqFalseRetry);
    connection.credential = user(5);
    assert_eq!(connection.status(&compound).await, NfsStatus::SeqFalseRetry);
    connection.credential = user(0);
    assert_eq!(connection.compound(&compound).await, first);
}

#[tokio::test]
async fn compound_with_too_many_operations_is_refused() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session =
        session_with(&mut connection, ChannelAttributes { max_operations: 4, ..CHANNEL }).await;
    let most = session.ops(vec![ArgOp::PutRootFh; 3]);
    assert_eq!(connection.status(&most).await, NfsStatus::Ok);
    let more = session.ops(vec![ArgOp::PutRootFh; 4]);
    let result = connection.compound(&more).await;
    assert_eq!(result.results, [ResOp::Sequence(Err(NfsStatus::TooManyOps))]);
    // The slot has not changed.
    let again = with_sequence(session.again_on(0), vec![ArgOp::PutRootFh; 3]);
    assert_eq!(connection.status(&again).await, NfsStatus::Ok);
}

#[tokio::test]
async fn request_over_the_session_limit_is_refused() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session =
        session_with(&mut connection, ChannelAttributes { max_request_size: 512, ..CHANNEL }).await;
    let lookup = ArgOp::Lookup(LookupArgs { name: vec![b'a'; 500].into() });
    let ops = session.ops([ArgOp::PutRootFh, lookup]);
    assert_eq!(connection.status(&ops).await, NfsStatus::ReqTooBig);
}

#[tokio::test]
async fn reply_over_the_session_limit_ends_the_compound() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session =
        session_with(&mut connection, ChannelAttributes { max_response_size: 400, ..CHANNEL })
            .await;
    let mut ops = vec![ArgOp::PutRootFh];
    ops.extend(vec![ArgOp::GetFh; 14]);
    let ops = session.ops(ops);
    let xid = connection.send(&ops).await;
    let result = connection.receive_compound(xid).await;
    assert_eq!(result.status, NfsStatus::RepTooBig);
    assert_eq!(result.results.last(), Some(&ResOp::GetFh(Err(NfsStatus::RepTooBig))));
    // RPC header, compound header, SEQUENCE, PUTROOTFH and 6 GETFH of 48 bytes: 384 bytes.
    assert_eq!(result.results.len(), 2 + 6 + 1);
}

#[tokio::test]
async fn reply_over_the_cache_limit_is_refused_only_if_it_is_cached() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let small = ChannelAttributes { max_response_size_cached: 120, ..CHANNEL };
    let mut session = session_with(&mut connection, small).await;
    let sequence = SequenceArgs { cache_this: true, ..session.next_on(0) };
    let compound = with_sequence(sequence, [ArgOp::PutRootFh, ArgOp::GetFh]);
    let result = connection.compound(&compound).await;
    assert_eq!(result.status, NfsStatus::RepTooBigToCache);
    assert_eq!(result.results.last().unwrap().number(), OpNumber::GetFh);
    let compound = session.ops([ArgOp::PutRootFh, ArgOp::GetFh]);
    assert_eq!(connection.status(&compound).await, NfsStatus::Ok);

    let tiny = ChannelAttributes { max_response_size_cached: 10, ..CHANNEL };
    let mut session = session_with(&mut connection, tiny).await;
    let sequence = SequenceArgs { cache_this: true, ..session.next_on(0) };
    let result = connection.compound(&[ArgOp::Sequence(sequence)]).await;
    assert_eq!(result.results, [ResOp::Sequence(Err(NfsStatus::RepTooBigToCache))]);
}

#[tokio::test]
async fn change_does_not_begin_if_its_result_might_not_fit() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session =
        session_with(&mut connection, ChannelAttributes { max_response_size: 160, ..CHANNEL })
            .await;
    let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
    let ops = session.ops([ArgOp::PutRootFh, ArgOp::SaveFh, ArgOp::SaveFh, complete.clone()]);
    let result = connection.compound(&ops).await;
    assert_eq!(result.results.last(), Some(&ResOp::ReclaimComplete(Err(NfsStatus::RepTooBig))));
    let ops = session.ops([complete]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Ok, "it was not done before");
}

#[tokio::test]
async fn requests_of_different_slots_run_at_the_same_time() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let mut sent = Vec::new();
    for slot in 0..8 {
        let ops = with_sequence(session.next_on(slot), [ArgOp::PutRootFh, ArgOp::GetFh]);
        sent.push(connection.send(&ops).await);
    }
    for xid in sent.into_iter().rev() {
        assert_eq!(connection.receive_compound(xid).await.status, NfsStatus::Ok);
    }
}
