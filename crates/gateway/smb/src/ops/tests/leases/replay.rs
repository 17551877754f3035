//! CREATE requests that are repeated, requests that are late, and applications that move. MS-SMB2
//! 3.3.5.9.10, 3.3.5.2.10, 3.3.5.9.13.

use braid_smb_wire::smb2::create::{AppInstanceId, AppInstanceVersion, CreateAction};

use super::super::data::{read, write};
use super::durable::{durable, durable_client};
use super::*;

impl Client {
    /// The context of a request with these flags and channel sequence.
    fn context_as(&self, command: Command, flags: Flags, sequence: u16) -> Context<MemoryShare> {
        let mut context = self.context();
        context.header.command = command as u16;
        context.header.flags = flags;
        context.header.status = NtStatus(sequence.into());
        context
    }

    async fn replay(&self, request: CreateRequest) -> Result<CreateResponse, NtStatus> {
        let context = self.context_as(Command::Create, Flags::REPLAY, 0);
        let created = super::super::super::create::create(&context, request).await;
        created.done().map(|reply| body(&reply))
    }
}

fn new_file() -> CreateRequest {
    let request = durable(0, leased(BOTH, KEY, ALL));
    CreateRequest { name: "new".to_owned(), disposition: CreateDisposition::CREATE, ..request }
}

#[tokio::test(start_paused = true)]
async fn a_create_is_answered_again_until_its_open_is_used() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let first = one.create(new_file()).await.unwrap();
    assert_eq!(one.replay(new_file()).await.unwrap(), first);
    let again = one.create(new_file()).await.map(|response| response.file_id);
    assert_eq!(again, Err(NtStatus::DUPLICATE_OBJECTID), "it does not say that it is repeated");
    write(&one, first.file_id, 0, b"used").await.unwrap();
    let again = one.replay(new_file()).await.map(|response| response.file_id);
    assert_eq!(again, Err(NtStatus::OBJECT_NAME_COLLISION), "a request like any other");
    one.close(first.file_id).await.unwrap();
    assert_eq!(server.creates.count(), 0);
    one.assert_nothing_leased().await;
}

#[tokio::test(start_paused = true)]
async fn a_repetition_with_another_lease_or_session_is_refused() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let first = one.create(new_file()).await.unwrap();
    let other = durable(0, leased(BOTH, OTHER_KEY, ALL));
    let refused = one.replay(other).await.map(|response| response.file_id);
    assert_eq!(refused, Err(NtStatus::ACCESS_DENIED));
    let plain = durable(0, request("new", BOTH, CreateDisposition::OPEN_IF));
    let refused = one.replay(plain).await.map(|response| response.file_id);
    assert_eq!(refused, Err(NtStatus::ACCESS_DENIED));
    let (two, _) = durable_client(&server, 1, (2, "alice")).await;
    let refused = two.replay(new_file()).await.map(|response| response.file_id);
    assert_eq!(refused, Err(NtStatus::DUPLICATE_OBJECTID));
    assert_eq!(one.replay(new_file()).await.unwrap(), first);
    // The name is that of a client: another one has its own.
    let name = ([2; 16], [9; 16]);
    assert!(server.creates.begin(name, 77).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_create_that_waits_is_not_repeated_meanwhile() {
    let server = server().await;
    let (one, mut notices) = durable_client(&server, 1, (1, "alice")).await;
    one.lease(BOTH, KEY, ALL).await;
    let (two, _) = durable_client(&server, 1, (2, "bob")).await;
    let asked = || durable(0, leased(READ, OTHER_KEY, RH));
    let waiting = two.begin(asked()).await;
    notices.lease().await;
    let refused = two.replay(asked()).await.map(|response| response.file_id);
    assert_eq!(refused, Err(NtStatus::FILE_NOT_AVAILABLE));
    one.keep(RH);
    let made = body::<CreateResponse>(&waiting.end().await.unwrap());
    assert_eq!(two.replay(asked()).await.unwrap(), made);
    two.close(made.file_id).await.unwrap();
    assert_eq!(server.creates.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_late_write_changes_nothing() {
    use braid_smb_wire::smb2::read::Channel;
    use braid_smb_wire::smb2::write::{WriteFlags, WriteRequest};
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let id = one.open("file", BOTH).await.unwrap();
    let write_as = async |sequence, flags, data: &'static [u8]| {
        let request = WriteRequest {
            offset: 0,
            file_id: id,
            channel: Channel::NONE,
            remaining_bytes: 0,
            flags: WriteFlags(0),
            data: Bytes::from_static(data),
        };
        let context = one.context_as(Command::Write, flags, sequence);
        super::super::super::write::write(&context, request).await.map(|_| ())
    };
    let late = Err(NtStatus::FILE_NOT_AVAILABLE);
    assert_eq!(write_as(1, Flags::default(), b"one").await, Ok(()));
    assert_eq!(write_as(0, Flags::default(), b"two").await, late);
    assert_eq!(write_as(0, Flags::REPLAY, b"two").await, late);
    assert_eq!(write_as(2, Flags::REPLAY, b"six").await, Ok(()));
    assert_eq!(read(&one, id, 0, 3).await.unwrap(), "six");
    one.close(id).await.unwrap();
    one.assert_nothing_leased().await;
}

/// The client, on a connection of 3.1.1.
fn with_311(client: Client, machine: u8) -> Client {
    let peer = "127.0.0.1:1".parse().unwrap();
    let connection = Arc::new(Connection::new(9, peer, tokio::io::sink()));
    let (dialect, client_guid) = (Dialect::Smb311, [machine; 16]);
    assert!(connection.set_negotiated(Negotiated { dialect, client_guid, ..negotiated() }));
    Client { connection, ..client }
}

#[tokio::test(start_paused = true)]
async fn an_earlier_version_of_an_application_closes_nothing() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let (two, _) = durable_client(&server, 2, (2, "alice")).await;
    let (one, two) = (with_311(one, 1), with_311(two, 2));
    let asked = |version| by_app(version, request("file", BOTH, CreateDisposition::OPEN));
    let first = one.create(asked(5)).await.unwrap().file_id;
    for version in [4, 5] {
        let refused = two.create(asked(version)).await.map(|response| response.file_id);
        assert_eq!(refused, Err(NtStatus::FILE_FORCED_CLOSED));
    }
    let second = two.create(asked(6)).await.unwrap().file_id;
    assert_eq!(one.close(first).await.map(|_| ()), Err(NtStatus::FILE_CLOSED));
    two.close(second).await.unwrap();
    two.assert_nothing_leased().await;
}

/// A CREATE by an application, with a version.
fn by_app(version: u64, request: CreateRequest) -> CreateRequest {
    let mut request = durable(0, request);
    request.contexts.push(AppInstanceId([3; 16]).to_context());
    request.contexts.push(AppInstanceVersion { high: 0, low: version }.to_context());
    CreateRequest { share_access: ShareAccess(0), ..request }
}

#[tokio::test(start_paused = true)]
async fn an_application_closes_the_opens_of_the_machine_that_it_has_left() {
    let server = server().await;
    for is_connected in [true, false] {
        let (one, _) = durable_client(&server, 1, (1, "alice")).await;
        let asked = || by_app(5, request("file", BOTH, CreateDisposition::OPEN));
        let first = one.create(asked()).await.unwrap().file_id;
        if !is_connected {
            one.close(first).await.unwrap();
            let leased = by_app(5, leased(BOTH, KEY, ALL));
            one.create(leased).await.unwrap();
            one.connection.close();
            server.disconnect_session(1).await;
            assert_eq!(server.disconnected.count(), 1);
        }
        let (two, _) = durable_client(&server, 2, (2, "alice")).await;
        let later = || by_app(6, request("file", BOTH, CreateDisposition::OPEN));
        if is_connected {
            let (mallory, _) = durable_client(&server, 3, (3, "mallory")).await;
            let refused = mallory.create(later()).await.map(|response| response.file_id);
            assert_eq!(refused, Err(NtStatus::SHARING_VIOLATION), "another user");
        }
        let second = two.create(later()).await.unwrap();
        assert_eq!(second.action, CreateAction::OPENED);
        assert_eq!(one.close(first).await.map(|_| ()), Err(NtStatus::FILE_CLOSED));
        two.close(second.file_id).await.unwrap();
        two.assert_nothing_leased().await;
    }
}
