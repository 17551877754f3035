//! Durable opens: which are kept, what ends them, and who gets them back. ADR 0056.

use std::time::Duration;

use braid_smb_wire::smb2::create::{
    DurableFlags, DurableReconnect, DurableReconnectV2, DurableRequest, DurableRequestV2,
    DurableResponseV2,
};
use braid_smb_wire::smb2::lock::LockFlags;

use super::super::data::{read, write};
use super::super::locks::{EXCLUSIVE, UNLOCK, lock};
use super::*;

const GUID: [u8; 16] = [9; 16];
const NOT_FOUND: Result<FileId, NtStatus> = Err(NtStatus::OBJECT_NAME_NOT_FOUND);

/// A client of a machine, with a session of its own that the server knows.
pub(super) async fn durable_client(
    server: &Arc<SmbServer<MemoryShare>>,
    machine: u8,
    (session, name): (u64, &str),
) -> (Client, Notices) {
    let (mut client, notices) = session_of(server, (machine, machine)).await;
    let user = User { name: name.to_owned(), identity: user(), groups: Vec::new() };
    let machine = Arc::clone(client.session.machine());
    let user = (user, Logon::User);
    let session = Arc::new(Session::new(session, 1, user, Protection::default(), machine));
    client.tree = Client::tree(server, &session, false);
    client.session = session;
    server.add_session(Arc::clone(&client.session));
    (client, notices)
}

/// Adds the wish for a durable open of version 2.
pub(super) fn durable(timeout: u32, request: CreateRequest) -> CreateRequest {
    let flags = DurableFlags::PERSISTENT;
    let context = DurableRequestV2 { timeout, flags, create_guid: GUID }.to_context();
    with_context(context, request)
}

fn with_context(context: CreateContext, mut request: CreateRequest) -> CreateRequest {
    request.contexts.push(context);
    request
}

/// What a client that is connected again sends; the other fields are ignored.
fn reconnect(id: FileId, create_guid: [u8; 16], key: Option<[u8; 16]>) -> CreateRequest {
    let flags = DurableFlags::default();
    let context = DurableReconnectV2 { file_id: id, create_guid, flags }.to_context();
    let lease = |key| Lease { key, state: NONE, flags: LeaseFlags::default(), v2: None };
    let contexts = key.map(|key| lease(key).to_context()).into_iter().chain([context]);
    let oplock_level = if key.is_some() { OplockLevel::LEASE } else { OplockLevel::NONE };
    let name = "FILE".to_owned();
    CreateRequest { oplock_level, name, contexts: contexts.collect(), ..CreateRequest::default() }
}

/// The time of a response, if the open is durable.
fn timeout_of(response: &CreateResponse) -> Option<u32> {
    let context = CreateContext::find(&response.contexts, tags::DURABLE_REQUEST_V2)?;
    let granted = DurableResponseV2::decode(context).unwrap();
    assert_eq!(granted.flags, DurableFlags::default(), "no share is continuously available");
    Some(granted.timeout)
}

impl Client {
    /// The connection is lost.
    async fn disconnect(&self) {
        self.connection.close();
        self.server.disconnect_session(self.session.id).await;
    }

    /// Opens the file with a durable lease.
    async fn keep_open(&self, access: u32, state: LeaseState) -> FileId {
        let response = self.create(durable(0, leased(access, KEY, state))).await.unwrap();
        assert_eq!((lease_of(&response).state, timeout_of(&response)), (state, Some(60_000)));
        response.file_id
    }

    /// Asks for an open with a lease.
    async fn get_back(&self, id: FileId) -> Result<FileId, NtStatus> {
        self.create(reconnect(id, GUID, Some(KEY))).await.map(|response| response.file_id)
    }

    /// Checks that nothing is left, of disconnected opens neither.
    async fn assert_nothing_kept(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(self.server.disconnected.count(), 0);
        assert_eq!(self.server.creates.count(), 0);
        self.assert_nothing_leased().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_open_comes_back_with_its_bytes_locks_and_lease() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let id = one.keep_open(BOTH, ALL).await;
    write(&one, id, 0, b"written").await.unwrap();
    lock(&one, id, &[(0, 4, EXCLUSIVE)]).await.unwrap();
    one.disconnect().await;
    assert_eq!((server.disconnected.count(), server.share.lock_count()), (1, 1));
    let (two, mut notices) = durable_client(&server, 1, (2, "alice")).await;
    let response = two.create(reconnect(id, GUID, Some(KEY))).await.unwrap();
    assert_eq!((response.file_id, response.end_of_file), (id, 10));
    assert_eq!((lease_of(&response).state, timeout_of(&response)), (ALL, None));
    assert_eq!(read(&two, id, 0, 10).await.unwrap(), "written789");
    lock(&two, id, &[(0, 4, UNLOCK)]).await.unwrap();
    // Its notifications go to the new connection.
    let (three, _) = durable_client(&server, 1, (3, "alice")).await;
    let waiting = three.begin(request("file", READ, CreateDisposition::OPEN)).await;
    assert_eq!(notices.lease().await, (KEY, ALL, RH, true));
    two.keep(RH);
    let third = body::<CreateResponse>(&waiting.end().await.unwrap()).file_id;
    three.close(third).await.unwrap();
    two.close(id).await.unwrap();
    two.assert_nothing_kept().await;
}

#[tokio::test(start_paused = true)]
async fn an_open_without_handle_caching_or_wish_is_closed() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let requests = [
        leased(BOTH, KEY, ALL),
        durable(0, leased(BOTH, OTHER_KEY, RW)),
        durable(0, with_oplock(READ, OplockLevel::LEVEL_II)),
        durable(0, request("directory", READ, CreateDisposition::OPEN_IF)),
    ];
    for request in requests {
        let options = match request.name.as_str() {
            "directory" => CreateOptions::FILE_DIRECTORY_FILE,
            _ => CreateOptions::default(),
        };
        let response = one.create(with(options, request)).await.unwrap();
        assert_eq!(timeout_of(&response), None);
        one.close(response.file_id).await.unwrap();
    }
    one.create(leased(BOTH, KEY, ALL)).await.unwrap();
    one.disconnect().await;
    one.assert_nothing_kept().await;
}

#[tokio::test(start_paused = true)]
async fn a_guest_gets_no_durable_open() {
    let server = server().await;
    let (mut one, _) = durable_client(&server, 1, (1, "nobody")).await;
    let machine = Arc::clone(one.session.machine());
    let user = (one.session.user.clone(), Logon::Guest);
    one.session = Arc::new(Session::new(2, 1, user, Protection::default(), machine));
    one.tree = Client::tree(&server, &one.session, false);
    let response = one.create(durable(0, leased(BOTH, KEY, ALL))).await.unwrap();
    assert_eq!((lease_of(&response).state, timeout_of(&response)), (ALL, None));
}

#[tokio::test(start_paused = true)]
async fn only_its_user_and_its_lease_get_an_open_back() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let id = one.keep_open(BOTH, ALL).await;
    assert_eq!(one.get_back(id).await, NOT_FOUND, "it is connected");
    one.disconnect().await;
    let (mallory, _) = durable_client(&server, 1, (2, "mallory")).await;
    assert_eq!(mallory.get_back(id).await, Err(NtStatus::ACCESS_DENIED));
    let (elsewhere, _) = durable_client(&server, 2, (3, "alice")).await;
    assert_eq!(elsewhere.get_back(id).await, NOT_FOUND, "another machine");
    let (two, _) = durable_client(&server, 1, (4, "alice")).await;
    let wrong = FileId { persistent: id.persistent + 1, ..id };
    for request in [
        reconnect(wrong, GUID, Some(KEY)),
        reconnect(id, [8; 16], Some(KEY)),
        reconnect(id, GUID, Some(OTHER_KEY)),
        reconnect(id, GUID, None),
    ] {
        assert_eq!(two.create(request).await.map(|response| response.file_id), NOT_FOUND);
    }
    let named = CreateRequest { name: "other".to_owned(), ..reconnect(id, GUID, Some(KEY)) };
    let refused = two.create(named).await.map(|response| response.file_id);
    assert_eq!(refused, Err(NtStatus::INVALID_PARAMETER));
    assert_eq!(two.get_back(id).await, Ok(id));
    two.close(id).await.unwrap();
    two.assert_nothing_kept().await;
}

#[tokio::test(start_paused = true)]
async fn contexts_that_exclude_each_other_are_refused() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let flags = DurableFlags::default();
    let id = FileId { persistent: 1, volatile: 1 };
    let v1 = DurableRequest.to_context();
    let v1_reconnect = DurableReconnect { file_id: id }.to_context();
    let v2 = DurableRequestV2 { timeout: 0, flags, create_guid: GUID }.to_context();
    let v2_reconnect = DurableReconnectV2 { file_id: id, create_guid: GUID, flags }.to_context();
    for pair in [
        [&v1, &v2],
        [&v1, &v2_reconnect],
        [&v1_reconnect, &v2],
        [&v1_reconnect, &v2_reconnect],
        [&v2, &v2_reconnect],
    ] {
        let contexts = pair.map(Clone::clone).to_vec();
        let request = CreateRequest { contexts, ..request("file", READ, CreateDisposition::OPEN) };
        let refused = one.create(request).await.map(|response| response.file_id);
        assert_eq!(refused, Err(NtStatus::INVALID_PARAMETER), "{pair:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_open_ends_with_its_time() {
    let server = server().await;
    let v1 = |request| with_context(DurableRequest.to_context(), request);
    for (asked, seconds) in
        [(Some(0), 60), (Some(1000), 1), (Some(299_000), 299), (Some(u32::MAX), 300), (None, 960)]
    {
        for (late, is_there) in [(false, true), (true, false)] {
            let (one, _) = durable_client(&server, 1, (1, "alice")).await;
            let request = leased(BOTH, KEY, ALL);
            let request = asked.map_or(v1(request.clone()), |asked| durable(asked, request));
            let response = one.create(request).await.unwrap();
            assert_eq!(timeout_of(&response), asked.map(|_| seconds * 1000));
            one.disconnect().await;
            let time = Duration::from_secs(seconds.into());
            let margin = Duration::from_millis(10);
            tokio::time::sleep(if late { time + margin } else { time - margin }).await;
            let (two, _) = durable_client(&server, 1, (2, "alice")).await;
            let lost = response.file_id;
            let guid = if asked.is_some() { GUID } else { [0; 16] };
            let back = two.create(reconnect(lost, guid, Some(KEY))).await;
            assert_eq!(back.is_ok(), is_there, "{asked:?} {late} {back:?}");
            if is_there {
                two.close(lost).await.unwrap();
            }
            two.disconnect().await;
            two.assert_nothing_kept().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_that_conflicts_ends_a_disconnected_one() {
    let server = server().await;
    let nothing = braid_smb_wire::smb2::create::ShareAccess(0);
    for (state, shares) in [(ALL, true), (ALL, false), (RH, false)] {
        let (one, _) = durable_client(&server, 1, (1, "alice")).await;
        let mut asked = durable(0, leased(BOTH, KEY, state));
        if !shares {
            asked.share_access = nothing;
        }
        let id = one.create(asked).await.unwrap().file_id;
        lock(&one, id, &[(0, 4, EXCLUSIVE)]).await.unwrap();
        one.disconnect().await;
        let (two, _) = durable_client(&server, 1, (2, "bob")).await;
        let waiting = two.begin(leased(BOTH, OTHER_KEY, ALL)).await;
        let response = body::<CreateResponse>(&waiting.end().await.unwrap());
        assert_eq!(lease_of(&response).state, ALL, "nothing is left of the other one");
        write(&two, response.file_id, 0, b"own").await.unwrap();
        let (three, _) = durable_client(&server, 1, (3, "alice")).await;
        assert_eq!(three.get_back(id).await, NOT_FOUND);
        two.close(response.file_id).await.unwrap();
        two.assert_nothing_kept().await;
    }
}

#[tokio::test(start_paused = true)]
async fn opens_that_do_not_conflict_leave_a_disconnected_one() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let id = one.keep_open(READ, RH).await;
    one.disconnect().await;
    let (two, _) = durable_client(&server, 1, (2, "alice")).await;
    let reader = two.open("file", READ).await.unwrap();
    let looker = two.open("file", ATTRIBUTES).await.unwrap();
    assert_eq!(two.get_back(id).await, Ok(id));
    for id in [reader, looker, id] {
        two.close(id).await.unwrap();
    }
    two.assert_nothing_kept().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_or_a_rename_by_another_ends_a_disconnected_open() {
    let server = server().await;
    for renames in [false, true] {
        let (one, _) = durable_client(&server, 1, (1, "alice")).await;
        let (two, _) = durable_client(&server, 1, (2, "bob")).await;
        let other = two.open("file", BOTH | DELETE).await.unwrap();
        let response = one.create(durable(0, leased(READ, KEY, RH))).await.unwrap();
        assert_eq!(timeout_of(&response), Some(60_000));
        one.disconnect().await;
        if renames {
            let flags = RenameFlags::default();
            let target = RenameTarget { flags, root_directory: 0, name: "renamed".to_owned() };
            let renamed = two.set(other, SetInformation::Rename(target)).await;
            match renamed {
                Outcome::Done(done) => drop(done.unwrap()),
                waits => drop(Waiting::begin(waits).end().await.unwrap()),
            }
        } else {
            write(&two, other, 0, b"changed").await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(server.disconnected.count(), 0);
        two.close(other).await.unwrap();
        two.assert_nothing_kept().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_with_delete_on_close_is_removed_by_what_ends_its_open() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let asked = durable(0, leased(BOTH | DELETE, KEY, ALL));
    one.create(with(CreateOptions::FILE_DELETE_ON_CLOSE, asked)).await.unwrap();
    one.disconnect().await;
    assert_eq!(server.disconnected.count(), 1, "it may come back");
    let (two, _) = durable_client(&server, 1, (2, "bob")).await;
    let waiting = two.begin(request("file", BOTH, CreateDisposition::OPEN_IF)).await;
    let response = body::<CreateResponse>(&waiting.end().await.unwrap());
    assert_eq!(response.action, braid_smb_wire::smb2::create::CreateAction::CREATED);
    two.close(response.file_id).await.unwrap();
    two.assert_nothing_kept().await;
}

#[tokio::test(start_paused = true)]
async fn a_file_that_waits_for_its_removal_keeps_no_open() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let id = one.create(durable(0, leased(BOTH | DELETE, KEY, ALL))).await.unwrap().file_id;
    one.set(id, SetInformation::Disposition(Disposition::DELETE)).await.done().unwrap();
    one.disconnect().await;
    assert!(!one.exists("file").await);
    one.assert_nothing_kept().await;
}

#[tokio::test(start_paused = true)]
async fn a_writer_elsewhere_ends_a_disconnected_open() {
    let server = server().await;
    let mount = recalls::another(&server).await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let id = one.keep_open(READ, RH).await;
    one.disconnect().await;
    let file = recalls::find(&mount).await;
    let begun = tokio::time::Instant::now();
    recalls::open_to(&mount, file, Rights::WRITE).await.close().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 0, "nobody is waited for");
    let (two, _) = durable_client(&server, 1, (2, "alice")).await;
    assert_eq!(two.get_back(id).await, NOT_FOUND);
    two.assert_nothing_kept().await;
}

#[tokio::test(start_paused = true)]
async fn a_look_from_elsewhere_leaves_a_disconnected_lease_without_writes() {
    let server = server().await;
    let mount = recalls::another(&server).await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let id = one.keep_open(BOTH, ALL).await;
    one.disconnect().await;
    recalls::find(&mount).await;
    let (two, _) = durable_client(&server, 1, (2, "alice")).await;
    let response = two.create(reconnect(id, GUID, Some(KEY))).await.unwrap();
    assert_eq!(lease_of(&response).state, RH);
    two.close(id).await.unwrap();
    two.assert_nothing_kept().await;
}

#[tokio::test(start_paused = true)]
async fn lost_delegations_end_disconnected_opens() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    one.keep_open(BOTH, ALL).await;
    one.disconnect().await;
    server.share.lose_delegations(one.session.client().session());
    one.assert_nothing_kept().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_being_broken_keeps_no_open() {
    let server = server().await;
    let (one, mut notices) = durable_client(&server, 1, (1, "alice")).await;
    one.keep_open(BOTH, ALL).await;
    let (two, _) = durable_client(&server, 1, (2, "bob")).await;
    let waiting = two.begin(request("file", READ, CreateDisposition::OPEN)).await;
    notices.lease().await;
    one.disconnect().await;
    assert_eq!(server.disconnected.count(), 0);
    let second = body::<CreateResponse>(&waiting.end().await.unwrap()).file_id;
    two.close(second).await.unwrap();
    two.assert_nothing_kept().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_oplock_is_taken_over_on_another_machine() {
    let server = server().await;
    let (one, _) = durable_client(&server, 1, (1, "alice")).await;
    let asked = durable(0, with_oplock(BOTH, OplockLevel::BATCH));
    let id = one.create(asked).await.unwrap().file_id;
    lock(&one, id, &[(0, 4, EXCLUSIVE)]).await.unwrap();
    one.disconnect().await;
    drop(one);
    let (two, _) = durable_client(&server, 2, (2, "alice")).await;
    let response = two.create(reconnect(id, GUID, None)).await.unwrap();
    assert_eq!(response.oplock_level, OplockLevel::BATCH);
    write(&two, id, 0, b"own").await.unwrap();
    lock(&two, id, &[(0, 4, UNLOCK), (0, 0, LockFlags::UNLOCK)]).await.unwrap_err();
    two.close(id).await.unwrap();
    two.assert_nothing_kept().await;
}

/// Opens `count` new files durably on a machine of a user, and loses the connection.
async fn lose_opens(
    server: &Arc<SmbServer<MemoryShare>>,
    machine: u8,
    (session, user): (u64, &str),
    count: u32,
) {
    let (client, _) = durable_client(server, machine, (session, user)).await;
    for number in 0..count {
        let mut create_guid = [0; 16];
        create_guid[..4].copy_from_slice(&number.to_le_bytes());
        let flags = DurableFlags::default();
        let wish = DurableRequestV2 { timeout: 0, flags, create_guid }.to_context();
        // In directories of 100: larger ones are slow in memory.
        let directory = format!("{user} {machine} {}", number / 100);
        if number % 100 == 0 {
            let made = request(&directory, READ, CreateDisposition::CREATE);
            client.create(with(CreateOptions::FILE_DIRECTORY_FILE, made)).await.unwrap();
        }
        let name = format!("{directory}\\{number}");
        let disposition = CreateDisposition::CREATE;
        let asked = with_oplock(BOTH, OplockLevel::BATCH);
        let asked = CreateRequest { name, disposition, ..with_context(wish, asked) };
        assert!(timeout_of(&client.create(asked).await.unwrap()).is_some());
    }
    client.disconnect().await;
}

#[tokio::test(start_paused = true)]
async fn disconnected_opens_are_bounded_for_each_user_and_for_all() {
    let limits = Limits { durable: (5, 8), durable_of_user: (3, 2), ..Limits::default() };
    let first = Client::with_limits(user(), limits).await;
    let server = &first.server;
    lose_opens(server, 1, (1, "alice"), 4).await;
    assert_eq!(server.disconnected.count(), 3);
    for machine in 2..=4 {
        lose_opens(server, machine, (u64::from(machine), "bob"), 1).await;
    }
    assert_eq!(server.disconnected.count(), 5, "two machines of a user");
    lose_opens(server, 5, (5, "carol"), 1).await;
    assert_eq!((server.disconnected.count(), server.share.open_count()), (5, 5));
    tokio::time::sleep(Duration::from_secs(61)).await;
    first.assert_nothing_kept().await;
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_lost_opens_stay_within_the_bounds() {
    let limits = Limits { durable: (1000, 1024), durable_of_user: (20, 1), ..Limits::default() };
    let first = Client::with_limits(user(), limits).await;
    for number in 1..=100 {
        lose_opens(&first.server, number, (number.into(), &format!("user {number}")), 100).await;
        let most = 1000.min(20 * usize::from(number));
        assert_eq!(first.server.disconnected.count(), most);
        assert_eq!(first.share().open_count(), most, "the others are closed");
    }
    tokio::time::sleep(Duration::from_secs(61)).await;
    first.assert_nothing_kept().await;
}
