//! Connections of peers that do not read what they are sent. Time is that of the runtime, which
//! passes only when nothing else can run.

use std::sync::Arc;
use std::time::Duration;

use braid_share::memory::MemoryShare;
use braid_share::{
    AttributeChanges, Deny, FileIndex, Identity, OpenMode, OpenTarget, Rights, Share, ShareClient,
    ShareFile,
};
use braid_smb_wire::smb2::create::{
    CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use braid_smb_wire::smb2::read::{Channel, ReadFlags, ReadRequest};
use braid_smb_wire::smb2::{Body, Command, Empty, FileId, HEADER_BYTES, Header};
use braid_smb_wire::{NtStatus, Reader};
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::{Connection, TRANSFER_BYTES_MAX, serve};
use crate::config::{ShareConfig, SmbConfig};
use crate::ops::tests::{Nobody, negotiated, user};
use crate::protection::Protection;
use crate::server::SmbServer;
use crate::session::{Logon, Session};
use crate::tree::{Target, Tree};
use crate::users::User;

/// Credits for a READ of [`TRANSFER_BYTES_MAX`].
const CHARGE: u16 = 128;

/// A server whose share has a file `long` of [`TRANSFER_BYTES_MAX`].
async fn server() -> Arc<SmbServer<MemoryShare>> {
    let share = MemoryShare::new();
    let (client, root) = (share.own_client(), Identity::root());
    let changes = AttributeChanges { mode: Some(0o777), ..AttributeChanges::default() };
    client.set_attributes(&root, FileIndex::ROOT, changes).await.unwrap();
    let target = OpenTarget::Create {
        dir: FileIndex::ROOT,
        name: "long".into(),
        exclusive: true,
        truncate: false,
        mode: 0o666,
    };
    let mode = OpenMode { rights: Rights::WRITE, deny: Deny::NONE };
    let opened = client.open(&root, target, mode).await.unwrap();
    let data = Bytes::from(vec![7; TRANSFER_BYTES_MAX as usize]);
    opened.file.write(0, data, true).await.unwrap();
    opened.file.close().await.unwrap();
    SmbServer::new(share, SmbConfig::new("server", Arc::new(Nobody))).unwrap()
}

/// The other end of a connection, which has negotiated.
struct Peer {
    server: Arc<SmbServer<MemoryShare>>,
    connection: Arc<Connection>,
    requests: DuplexStream,
    responses: DuplexStream,
    serving: JoinHandle<()>,
    session: u64,
    tree: u32,
    next: u64,
}

impl Peer {
    /// One that has not logged on. Responses of over 1 KiB wait for the peer.
    fn stranger(server: &Arc<SmbServer<MemoryShare>>, number: u64) -> Self {
        let (requests, incoming) = duplex(1 << 30);
        let (outgoing, responses) = duplex(1024);
        let address = "127.0.0.1:1".parse().unwrap();
        let connection = Arc::new(Connection::new(number, address, outgoing));
        assert!(connection.set_negotiated(negotiated()));
        let serving = serve(Arc::clone(server), Arc::clone(&connection), incoming);
        let serving = tokio::spawn(serving);
        let server = Arc::clone(server);
        Self { server, connection, requests, responses, serving, session: 0, tree: 0, next: 0 }
    }

    /// One with a session, a tree and all credits.
    async fn with_session(server: &Arc<SmbServer<MemoryShare>>, number: u64) -> Self {
        let peer = Self::stranger(server, number);
        let machine = server.machines.session(&server.share, [number as u8; 16], "host").await;
        let user = User { name: "user".to_owned(), identity: user(), groups: Vec::new() };
        let user = (user, Logon::User);
        let protection = Protection::default();
        let session = Session::new(number, number, user, protection, machine.unwrap());
        let tree = |id| Tree {
            id,
            target: Target::Files {
                share: Arc::new(ShareConfig::new("data", "/")),
                root: FileIndex::ROOT,
            },
            maximal_access: 0x001f_01ff,
        };
        let tree = session.add_tree(&server.config.limits, tree).unwrap().id;
        server.add_session(Arc::new(session));
        peer.connection.add_session(number);
        peer.connection.grant(u16::MAX, 1);
        Self { session: number, tree, ..peer }
    }

    /// Sends a request, with `padding` behind it.
    async fn send(&mut self, command: Command, charge: u16, body: &impl Body, padding: usize) {
        let header = Header {
            credit_charge: charge,
            credits: u16::MAX,
            session_id: self.session,
            tree_id: self.tree,
            ..Header::request(command, self.next)
        };
        self.next += u64::from(charge);
        let message = [&header.to_bytes()[..], &body.to_bytes(), &vec![0; padding]].concat();
        self.requests.write_u32(message.len() as u32).await.unwrap();
        self.requests.write_all(&message).await.unwrap();
    }

    /// The next response.
    async fn receive(&mut self) -> (NtStatus, Bytes) {
        let length = self.responses.read_u32().await.unwrap();
        let mut message = vec![0; length as usize];
        self.responses.read_exact(&mut message).await.unwrap();
        let message = Bytes::from(message);
        let header = Header::decode(&mut Reader::new(message.clone())).unwrap();
        (header.status, message.slice(HEADER_BYTES..))
    }

    async fn open(&mut self, name: &str) -> FileId {
        self.send(Command::Create, 1, &create(name), 0).await;
        let (status, body) = self.receive().await;
        assert_eq!(status, NtStatus::SUCCESS);
        let message = [&[0; HEADER_BYTES][..], &body].concat();
        let mut reader = Reader::new(message.into());
        reader.skip(HEADER_BYTES).unwrap();
        CreateResponse::decode(&mut reader).unwrap().file_id
    }

    async fn has(&self, name: &str) -> bool {
        let client = self.server.share.own_client();
        client.look_up(&Identity::root(), FileIndex::ROOT, name.as_bytes()).await.is_ok()
    }
}

fn create(name: &str) -> CreateRequest {
    CreateRequest {
        impersonation: ImpersonationLevel::IMPERSONATION,
        desired_access: 0x0012_019f,
        share_access: ShareAccess(7),
        disposition: CreateDisposition::OPEN_IF,
        name: name.to_owned(),
        ..CreateRequest::default()
    }
}

fn read(file_id: FileId) -> ReadRequest {
    ReadRequest {
        flags: ReadFlags::default(),
        length: TRANSFER_BYTES_MAX,
        offset: 0,
        file_id,
        minimum_count: 0,
        channel: Channel::default(),
        remaining_bytes: 0,
    }
}

#[tokio::test(start_paused = true)]
async fn strangers_that_read_nothing_do_not_hold_those_with_a_session() {
    let server = server().await;
    let mut strangers = Vec::new();
    for number in 0..8 {
        let mut stranger = Peer::stranger(&server, 100 + number);
        for _ in 0..300 {
            stranger.send(Command::Echo, 1, &Empty, 70 << 10).await;
        }
        strangers.push(stranger);
    }
    sleep(Duration::from_secs(1)).await;
    assert_served(&server).await;
}

/// Checks that a peer with a session is served: a short request and a long one.
async fn assert_served(server: &Arc<SmbServer<MemoryShare>>) {
    let mut peer = Peer::with_session(server, 1).await;
    for padding in [0, 8 << 20] {
        peer.send(Command::Echo, 1, &Empty, padding).await;
        let answer = timeout(Duration::from_secs(1), peer.receive()).await;
        assert_eq!(answer.expect("it is answered").0, NtStatus::SUCCESS, "{padding}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_sends_one_request_after_the_other() {
    let server = server().await;
    let mut stranger = Peer::stranger(&server, 1);
    for number in 0..20 {
        stranger.send(Command::Echo, 1, &Empty, 0).await;
        assert_eq!(stranger.receive().await.0, NtStatus::SUCCESS, "{number}");
    }
    // Two numbers at a time were not granted.
    stranger.send(Command::Echo, 2, &Empty, 0).await;
    timeout(Duration::from_secs(1), stranger.serving).await.expect("it ends").unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_are_not_read_while_responses_wait() {
    let server = server().await;
    let mut peer = Peer::with_session(&server, 1).await;
    let id = peer.open("long").await;
    for _ in 0..16 {
        peer.send(Command::Read, CHARGE, &read(id), 0).await;
    }
    sleep(Duration::from_secs(1)).await;
    // Of 128 MiB.
    assert_eq!(peer.connection.budget.response_bytes_reserved(), 40 << 20);
    peer.send(Command::Create, 1, &create("made"), 0).await;
    sleep(Duration::from_secs(1)).await;
    assert!(!peer.has("made").await, "it is read");
    // In any order: the CREATE does not wait for READs.
    let mut long = 0;
    for _ in 0..17 {
        let (status, body) = peer.receive().await;
        assert_eq!(status, NtStatus::SUCCESS);
        long += usize::from(body.len() == 16 + TRANSFER_BYTES_MAX as usize);
    }
    assert_eq!(long, 16);
    assert!(peer.has("made").await);
}

#[tokio::test(start_paused = true)]
async fn peers_that_do_not_read_hold_no_bytes_of_requests() {
    let server = server().await;
    let mut slow = Vec::new();
    for number in 2..6 {
        let mut peer = Peer::with_session(&server, number).await;
        let id = peer.open("long").await;
        slow.push((peer, id));
    }
    for (peer, id) in &mut slow {
        peer.send(Command::Read, CHARGE, &read(*id), 0).await;
        // Their responses wait behind that of the READ.
        for _ in 0..3 {
            peer.send(Command::Echo, 1, &Empty, 8 << 20).await;
        }
    }
    sleep(Duration::from_secs(1)).await;
    assert_served(&server).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stops_reading_is_disconnected() {
    let server = server().await;
    let mut peer = Peer::with_session(&server, 1).await;
    let id = peer.open("long").await;
    for _ in 0..16 {
        peer.send(Command::Read, CHARGE, &read(id), 0).await;
    }
    let begun = Instant::now();
    timeout(Duration::from_secs(600), peer.serving).await.expect("it ends").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(70), "{:?}", begun.elapsed());
    assert!(server.session(1).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_slowly_gets_the_whole_response() {
    let server = server().await;
    let mut peer = Peer::with_session(&server, 1).await;
    let id = peer.open("long").await;
    peer.send(Command::Read, CHARGE, &read(id), 0).await;
    // A link of 1 Mbit/s.
    let mut missing = 4 + HEADER_BYTES + 16 + TRANSFER_BYTES_MAX as usize;
    let mut part = vec![0; 128 << 10];
    while missing > 0 {
        sleep(Duration::from_secs(1)).await;
        let length = missing.min(part.len());
        peer.responses.read_exact(&mut part[..length]).await.unwrap();
        missing -= length;
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_a_byte_now_and_then_is_disconnected() {
    let server = server().await;
    let mut peer = Peer::with_session(&server, 1).await;
    let id = peer.open("long").await;
    peer.send(Command::Read, CHARGE, &read(id), 0).await;
    let begun = Instant::now();
    while !peer.serving.is_finished() && begun.elapsed() < Duration::from_secs(600) {
        sleep(Duration::from_secs(10)).await;
        let _ = peer.responses.read_u8().await;
    }
    assert!(peer.serving.is_finished());
}
