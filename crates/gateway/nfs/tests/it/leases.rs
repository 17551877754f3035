//! Client leases: renewal, expiry, courtesy.

use std::time::Duration;

use braid_nfs_wire::nfs4::*;
use tokio::time::{advance, pause, resume};

use crate::client::{create_args, exchange_args, user};
use crate::server::TestServer;

/// A bit more than half of the lease time, 60 s.
const HALF: Duration = Duration::from_secs(31);

/// Simulates that time passes.
pub async fn pass(time: Duration) {
    pause();
    advance(time).await;
    resume();
}

#[tokio::test]
async fn requests_renew_the_lease() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    for _ in 0..4 {
        pass(HALF).await;
        assert!(!server.server.end_expired_client(session.client).await);
        assert_eq!(connection.status(&session.ops([])).await, NfsStatus::Ok);
    }
}

#[tokio::test]
async fn expired_client_continues_if_nobody_conflicts() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    pass(2 * HALF).await;
    connection.session("b").await;
    assert_eq!(connection.status(&session.ops([])).await, NfsStatus::Ok);
    assert!(!server.server.end_expired_client(session.client).await, "it renewed its lease");
}

#[tokio::test]
async fn expired_client_ends_at_a_conflict() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    assert_eq!(server.client_records().len(), 1);
    pass(2 * HALF).await;
    assert!(server.server.end_expired_client(session.client).await);
    assert_eq!(server.client_records().len(), 0);
    assert_eq!(connection.status(&session.ops([])).await, NfsStatus::BadSession);
    let create = create_args(session.client, 2);
    assert_eq!(connection.create_session(create).await, Err(NfsStatus::StaleClientId));
    assert!(!server.server.end_expired_client(session.client).await);
}

#[tokio::test]
async fn owner_of_an_expired_client_passes_to_another_principal() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    connection.credential = user(5);
    let early = connection.exchange_id(exchange_args("a", 1)).await;
    assert_eq!(early.err(), Some(NfsStatus::ClidInUse));
    pass(2 * HALF).await;
    let client = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    assert_ne!(client.client_id, session.client);
    assert_eq!(server.client_records().len(), 0);
    assert_eq!(connection.status(&session.ops([])).await, NfsStatus::BadSession);
}

#[tokio::test]
async fn client_that_is_not_confirmed_in_time_is_forgotten() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let client = connection.exchange_id(exchange_args("a", 1)).await.unwrap();
    pass(2 * HALF).await;
    let created = connection.create_session(create_args(client.client_id, 1)).await;
    assert_eq!(created, Err(NfsStatus::StaleClientId));
}
