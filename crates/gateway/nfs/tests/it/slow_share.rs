//! Requests that wait for the share: others run meanwhile, and they are executed once.

use std::net::SocketAddr;
use std::sync::Arc;

use braid_nfs::{Listener, NfsServer};
use braid_nfs_wire::nfs4::*;
use braid_share::memory::{MemoryClient, MemoryShare};
use braid_share::{ClientRecord, DataServer, FileSystemId, Share};
use tokio::sync::{Semaphore, watch};

use crate::client::{Connection, create_args, exchange_args};
use crate::server::{client_records, config};

/// A share whose [`Share::begin_client`] waits for a permit.
#[derive(Clone)]
struct SlowShare {
    share: MemoryShare,
    permits: Arc<Semaphore>,
    waiting: watch::Sender<u32>,
}

impl Share for SlowShare {
    type Client = MemoryClient;

    fn file_system(&self) -> FileSystemId {
        self.share.file_system()
    }

    fn gateway_id(&self) -> u64 {
        self.share.gateway_id()
    }

    fn own_client(&self) -> MemoryClient {
        self.share.own_client()
    }

    async fn data_servers(&self) -> braid_share::Result<Vec<DataServer>> {
        self.share.data_servers().await
    }

    async fn begin_client(&self, record: ClientRecord) -> braid_share::Result<MemoryClient> {
        self.waiting.send_modify(|waiting| *waiting += 1);
        self.permits.acquire().await.unwrap().forget();
        self.share.begin_client(record).await
    }
}

struct SlowServer {
    share: SlowShare,
    address: SocketAddr,
    _stop: watch::Sender<bool>,
}

impl SlowServer {
    async fn start() -> Self {
        let share = SlowShare {
            share: MemoryShare::new(),
            permits: Arc::new(Semaphore::new(0)),
            waiting: watch::channel(0).0,
        };
        let server = NfsServer::new(share.clone(), config()).unwrap();
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.address();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(listener.serve(server, stopped));
        Self { share, address, _stop: stop }
    }

    /// Waits until `number` calls of `begin_client` were made.
    async fn waiting(&self, number: u32) {
        let mut waiting = self.share.waiting.subscribe();
        waiting.wait_for(|waiting| *waiting == number).await.unwrap();
    }
}

/// A client that has not created its session yet.
async fn client(connection: &mut Connection, owner: &str) -> ArgOp {
    let client = connection.exchange_id(exchange_args(owner, 1)).await.unwrap();
    ArgOp::CreateSession(create_args(client.client_id, client.sequence_id.0))
}

#[tokio::test]
async fn requests_run_while_another_one_waits() {
    let server = SlowServer::start().await;
    let mut connection = Connection::new(server.address).await;
    let first = client(&mut connection, "a").await;
    let second = client(&mut connection, "b").await;
    let first = connection.send(&[first]).await;
    server.waiting(1).await;
    let second = connection.send(&[second]).await;
    server.waiting(2).await;
    assert_eq!(connection.status(&[]).await, NfsStatus::Ok);
    server.share.permits.add_permits(2);
    for xid in [first, second] {
        assert_eq!(connection.receive_compound(xid).await.status, NfsStatus::Ok);
    }
}

#[tokio::test]
async fn request_of_a_lost_connection_is_completed_and_done_once() {
    let server = SlowServer::start().await;
    let mut first = Connection::new(server.address).await;
    let create = client(&mut first, "a").await;
    first.send(std::slice::from_ref(&create)).await;
    server.waiting(1).await;
    drop(first);
    let mut second = Connection::new(server.address).await;
    let running = second.status(std::slice::from_ref(&create)).await;
    assert_eq!(running, NfsStatus::Delay);
    server.share.permits.add_permits(1);
    let mut status = NfsStatus::Delay;
    while status == NfsStatus::Delay {
        status = second.status(std::slice::from_ref(&create)).await;
    }
    assert_eq!(status, NfsStatus::Ok);
    assert_eq!(*server.share.waiting.borrow(), 1, "the retry got the first reply");
    assert_eq!(client_records(&server.share.share).len(), 1);
}

#[tokio::test]
async fn new_instance_while_the_former_one_is_confirmed_wins() {
    let server = SlowServer::start().await;
    let mut connection = Connection::new(server.address).await;
    let create = client(&mut connection, "a").await;
    let former = connection.send(&[create]).await;
    server.waiting(1).await;
    connection.exchange_id(exchange_args("a", 2)).await.unwrap();
    server.share.permits.add_permits(1);
    let former = connection.receive_compound(former).await;
    assert_eq!(former.status, NfsStatus::StaleClientId);
    assert_eq!(client_records(&server.share.share).len(), 0, "its session has ended");
}
