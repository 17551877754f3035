//! Leases and oplocks: what is granted, what breaks it, and how clients acknowledge.

mod durable;
mod matrix;
mod names;
mod recalls;
mod replay;
mod silence;

use std::time::Duration;

use braid_smb_wire::fscc::{Disposition, RenameFlags, RenameTarget, SetInformation};
use braid_smb_wire::smb2::Flags;
use braid_smb_wire::smb2::create::{
    CreateContext, Lease, LeaseFlags, LeaseState, LeaseV2, OplockLevel, context as tags,
};
use braid_smb_wire::smb2::oplock_break::{
    LeaseAcknowledgment, LeaseBreak, LeaseBreakFlags, OplockBreak, OplockBreakBody,
};
use braid_smb_wire::smb2::query_info::InfoType;
use braid_smb_wire::smb2::set_info::SetInfoRequest;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::*;
use crate::leases::rules::{ALL, READ as R, READ_HANDLE as RH, READ_WRITE as RW};
use crate::pending::Outcome;

const NONE: LeaseState = LeaseState::NONE;
const KEY: [u8; 16] = [1; 16];
const OTHER_KEY: [u8; 16] = [2; 16];

/// The messages to a client that answer nothing.
struct Notices(DuplexStream);

impl Notices {
    /// The next one.
    async fn next(&mut self) -> OplockBreakBody {
        let mut frame = vec![0; self.0.read_u32().await.unwrap() as usize];
        self.0.read_exact(&mut frame).await.unwrap();
        let mut reader = Reader::new(frame.into());
        let header = Header::decode(&mut reader).unwrap();
        assert_eq!((header.message_id, header.session_id, header.tree_id), (u64::MAX, 0, 0));
        assert_eq!((header.command, header.flags), (Command::OplockBreak as u16, Flags::RESPONSE));
        OplockBreakBody::decode(&mut reader).unwrap()
    }

    /// The break of a lease: its key, both states, and whether it is acknowledged.
    async fn lease(&mut self) -> ([u8; 16], LeaseState, LeaseState, bool) {
        match self.next().await {
            OplockBreakBody::LeaseNotification(LeaseBreak {
                key,
                current_state,
                new_state,
                flags,
                ..
            }) => (key, current_state, new_state, flags.has(LeaseBreakFlags::ACK_REQUIRED)),
            other => panic!("{other:?}"),
        }
    }

    /// Checks that there is none.
    async fn assert_none(&mut self) {
        // Time stands still: whatever runs has run.
        let next = timeout(Duration::from_millis(1), self.next()).await;
        assert!(next.is_err(), "{next:?}");
    }
}

/// A client on a machine of its own, and what it is notified of.
async fn client_of(server: &Arc<SmbServer<MemoryShare>>, number: u8) -> (Client, Notices) {
    session_of(server, (number, number)).await
}

/// The same with another session of a machine.
async fn session_of(
    server: &Arc<SmbServer<MemoryShare>>,
    (machine, number): (u8, u8),
) -> (Client, Notices) {
    let mut client = Client::of(server, user(), machine).await;
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let peer = "127.0.0.1:1".parse().unwrap();
    let connection = Arc::new(Connection::new(u64::from(number), peer, theirs));
    assert!(connection.set_negotiated(Negotiated { client_guid: [machine; 16], ..negotiated() }));
    client.connection = connection;
    (client, Notices(ours))
}

/// A server with the file `file`.
async fn server() -> Arc<SmbServer<MemoryShare>> {
    let client = Client::new(user()).await;
    client.put("file", b"0123456789", 0o666).await;
    Arc::clone(&client.server)
}

/// A CREATE that asks for a lease.
fn leased(access: u32, key: [u8; 16], state: LeaseState) -> CreateRequest {
    let v2 = Some(LeaseV2 { parent_key: [0; 16], epoch: 7 });
    let lease = Lease { key, state, flags: LeaseFlags::default(), v2 };
    CreateRequest {
        oplock_level: OplockLevel::LEASE,
        contexts: vec![lease.to_context()],
        ..request("file", access, CreateDisposition::OPEN_IF)
    }
}

fn with_oplock(access: u32, oplock_level: OplockLevel) -> CreateRequest {
    CreateRequest { oplock_level, ..request("file", access, CreateDisposition::OPEN) }
}

/// The lease of a response.
fn lease_of(response: &CreateResponse) -> Lease {
    assert_eq!(response.oplock_level, OplockLevel::LEASE);
    Lease::decode(CreateContext::find(&response.contexts, tags::LEASE).unwrap()).unwrap()
}

fn acknowledgement(key: [u8; 16], state: LeaseState) -> OplockBreakBody {
    OplockBreakBody::LeaseAcknowledgment(LeaseAcknowledgment { key, state })
}

impl Client {
    /// Opens the file with a lease: the number, and what is granted.
    async fn lease(&self, access: u32, key: [u8; 16], state: LeaseState) -> (FileId, LeaseState) {
        let response = self.create(leased(access, key, state)).await.unwrap();
        (response.file_id, lease_of(&response).state)
    }

    fn acknowledge(&self, body: OplockBreakBody) -> Result<OplockBreakBody, NtStatus> {
        super::super::oplock_break::acknowledge(&self.context(), body)
            .map(|reply| self::body(&reply))
    }

    /// Acknowledges the break of the lease with [`KEY`].
    fn keep(&self, state: LeaseState) {
        let done = self.acknowledge(acknowledgement(KEY, state));
        assert_eq!(done, Ok(acknowledgement(KEY, state)));
    }

    /// A CREATE that waits, until it is cancelled.
    async fn begin(&self, request: CreateRequest) -> Waiting {
        Waiting::begin(super::super::create::create(&self.context(), request).await)
    }

    async fn set(&self, id: FileId, information: SetInformation) -> Outcome {
        let request = SetInfoRequest {
            info_type: InfoType::FILE,
            info_class: information.class().0,
            additional_information: 0,
            file_id: id,
            data: information.to_bytes().into(),
        };
        super::super::set_info::set_info(&self.context(), request).await
    }

    /// Checks that clients cache nothing, and have nothing open.
    async fn assert_nothing_leased(&self) {
        // What was returned is returned in a task.
        timeout(Duration::from_secs(1), async {
            while self.share().delegation_count() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("all delegations are returned");
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(self.server.leases.count(), 0);
        self.assert_nothing_open();
    }
}

/// A request that is answered later.
struct Waiting {
    task: tokio::task::JoinHandle<OpResult>,
    cancel: oneshot::Sender<()>,
}

impl Waiting {
    fn begin(outcome: Outcome) -> Self {
        let Outcome::Waits(wait) = outcome else { panic!("it waits") };
        let (cancel, cancelled) = oneshot::channel();
        Self { task: tokio::spawn(wait(cancelled)), cancel }
    }

    async fn end(self) -> OpResult {
        let Self { task, cancel } = self;
        let result = task.await.unwrap();
        drop(cancel);
        result
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaks_writing_and_waits_for_the_acknowledgement() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    let (first, granted) = one.lease(BOTH, KEY, ALL).await;
    assert_eq!(granted, ALL);
    let waiting = two.begin(request("file", READ, CreateDisposition::OPEN)).await;
    assert_eq!(notices.lease().await, (KEY, ALL, RH, true));
    // What was buffered is written during the break.
    super::data::write(&one, first, 0, b"buffered").await.unwrap();
    assert!(!waiting.task.is_finished());
    // The client's own opens go on, and learn of the break.
    let again = one.create(leased(READ, KEY, ALL)).await.unwrap();
    let lease = lease_of(&again);
    assert_eq!((lease.state, lease.flags), (ALL, LeaseFlags::BREAK_IN_PROGRESS));
    one.keep(RH);
    let second: CreateResponse = body(&waiting.end().await.unwrap());
    assert_eq!(super::data::read(&two, second.file_id, 0, 8).await.unwrap(), "buffered");
    notices.assert_none().await;
    for (client, id) in [(&one, first), (&one, again.file_id), (&two, second.file_id)] {
        client.close(id).await.unwrap();
    }
    one.assert_nothing_leased().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_acknowledge_loses_its_lease_after_35_s() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    one.lease(BOTH, KEY, ALL).await;
    let waiting = two.begin(request("file", READ, CreateDisposition::OPEN)).await;
    notices.lease().await;
    let begun = tokio::time::Instant::now();
    waiting.end().await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 35);
    let late = one.acknowledge(acknowledgement(KEY, RH));
    assert_eq!(late, Err(NtStatus::UNSUCCESSFUL));
    let (_, granted) = one.lease(BOTH, KEY, NONE).await;
    assert_eq!(granted, NONE);
}

#[tokio::test(start_paused = true)]
async fn a_close_lets_those_go_on_that_wait_for_it() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    let alone = CreateRequest { share_access: ShareAccess(0), ..leased(BOTH, KEY, ALL) };
    let first = one.create(alone).await.unwrap();
    assert_eq!(lease_of(&first).state, ALL);
    let waiting = two.begin(request("file", READ, CreateDisposition::OPEN)).await;
    assert_eq!(notices.lease().await, (KEY, ALL, RW, true), "its close may be delayed");
    one.close(first.file_id).await.unwrap();
    waiting.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_open_that_is_excluded_after_all_fails() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    let alone = CreateRequest { share_access: ShareAccess(0), ..leased(BOTH, KEY, ALL) };
    one.create(alone).await.unwrap();
    let waiting = two.begin(request("file", READ, CreateDisposition::OPEN)).await;
    notices.lease().await;
    one.keep(RW);
    assert_eq!(waiting.end().await, Err(NtStatus::SHARING_VIOLATION));
    // Now it is known that the client uses it.
    let again = two.create(request("file", READ, CreateDisposition::OPEN)).await;
    assert_eq!(again, Err(NtStatus::SHARING_VIOLATION));
    notices.assert_none().await;
}

#[tokio::test(start_paused = true)]
async fn an_open_that_waits_can_be_cancelled() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    let (first, _) = one.lease(BOTH, KEY, ALL).await;
    let Waiting { task, cancel } = two.begin(request("file", READ, CreateDisposition::OPEN)).await;
    cancel.send(()).unwrap();
    assert_eq!(task.await.unwrap(), Err(NtStatus::CANCELLED));
    notices.lease().await;
    one.keep(RH);
    one.close(first).await.unwrap();
    one.assert_nothing_leased().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_key_breaks_nothing() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    let (first, _) = one.lease(BOTH, KEY, ALL).await;
    let (second, granted) = two.lease(BOTH, KEY, ALL).await;
    assert_eq!(granted, ALL);
    let overwriting =
        CreateRequest { disposition: CreateDisposition::OVERWRITE, ..leased(BOTH, KEY, ALL) };
    two.create(overwriting).await.unwrap();
    super::data::write(&two, second, 0, b"x").await.unwrap();
    super::data::write(&one, first, 0, b"x").await.unwrap();
    notices.assert_none().await;
}

#[tokio::test(start_paused = true)]
async fn hostile_acknowledgements_change_nothing() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    let (stranger, _) = client_of(&server, 3).await;
    one.lease(BOTH, KEY, ALL).await;
    let not_broken = one.acknowledge(acknowledgement(KEY, R));
    assert_eq!(not_broken, Err(NtStatus::UNSUCCESSFUL));
    let waiting = two.begin(request("file", READ, CreateDisposition::OPEN)).await;
    notices.lease().await;
    for state in [ALL, RW, LeaseState(u32::MAX), LeaseState(8), LeaseState::WRITE] {
        let more = one.acknowledge(acknowledgement(KEY, state));
        assert_eq!(more, Err(NtStatus::REQUEST_NOT_ACCEPTED), "{state:?}");
    }
    for key in [OTHER_KEY, [0; 16]] {
        let unknown = one.acknowledge(acknowledgement(key, R));
        assert_eq!(unknown, Err(NtStatus::OBJECT_NAME_NOT_FOUND));
    }
    let of_another = stranger.acknowledge(acknowledgement(KEY, R));
    assert_eq!(of_another, Err(NtStatus::OBJECT_NAME_NOT_FOUND));
    let notification = LeaseBreak {
        new_epoch: 0,
        flags: LeaseBreakFlags::default(),
        key: KEY,
        current_state: ALL,
        new_state: R,
    };
    let reversed = one.acknowledge(OplockBreakBody::LeaseNotification(notification));
    assert_eq!(reversed, Err(NtStatus::INVALID_PARAMETER));
    assert!(!waiting.task.is_finished());
    one.keep(NONE);
    waiting.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_oplock_is_acknowledged_with_less_or_lost() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    for (level, answer, result) in [
        (OplockLevel::BATCH, OplockLevel::LEVEL_II, Ok(())),
        (OplockLevel::EXCLUSIVE, OplockLevel::NONE, Ok(())),
        (OplockLevel::BATCH, OplockLevel::EXCLUSIVE, Err(NtStatus::INVALID_OPLOCK_PROTOCOL)),
        (OplockLevel::BATCH, OplockLevel(0x77), Err(NtStatus::INVALID_OPLOCK_PROTOCOL)),
    ] {
        let held = one.create(with_oplock(BOTH, level)).await.unwrap();
        assert_eq!(held.oplock_level, level);
        let file_id = held.file_id;
        let body = |oplock_level| OplockBreakBody::Oplock(OplockBreak { oplock_level, file_id });
        let early = one.acknowledge(body(OplockLevel::LEVEL_II));
        assert_eq!(early, Err(NtStatus::INVALID_OPLOCK_PROTOCOL));
        let waiting = two.begin(with_oplock(READ, OplockLevel::BATCH)).await;
        assert_eq!(notices.next().await, body(OplockLevel::LEVEL_II));
        let wrong = one.acknowledge(body(OplockLevel::LEASE));
        assert_eq!(wrong, Err(NtStatus::INVALID_PARAMETER));
        assert_eq!(one.acknowledge(body(answer)).map(drop), result, "{answer:?}");
        let second: CreateResponse = self::body(&waiting.end().await.unwrap());
        assert_eq!(second.oplock_level, OplockLevel::LEVEL_II);
        one.close(file_id).await.unwrap();
        two.close(second.file_id).await.unwrap();
    }
    one.assert_nothing_leased().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_breaks_level_ii_of_all_opens_and_its_own() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, mut others) = session_of(&server, (1, 2)).await;
    let first = one.create(with_oplock(BOTH, OplockLevel::LEVEL_II)).await.unwrap().file_id;
    let second = two.create(with_oplock(READ, OplockLevel::LEVEL_II)).await.unwrap().file_id;
    super::data::write(&one, first, 0, b"x").await.unwrap();
    for (notices, file_id) in [(&mut notices, first), (&mut others, second)] {
        let broken = OplockBreak { oplock_level: OplockLevel::NONE, file_id };
        assert_eq!(notices.next().await, OplockBreakBody::Oplock(broken));
    }
    super::data::write(&one, first, 0, b"x").await.unwrap();
    notices.assert_none().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_locked_is_not_cached() {
    use braid_smb_wire::smb2::lock::{LockElement, LockFlags, LockRequest};
    let server = server().await;
    let (one, _notices) = session_of(&server, (1, 1)).await;
    let id = one.open("file", BOTH).await.unwrap();
    for (offset, wanted) in [(100, RH), (9, NONE)] {
        let locks = vec![LockElement { offset, length: 1, flags: LockFlags(0x12) }];
        let request = LockRequest { sequence: 0, file_id: id, locks };
        let locked = super::super::lock::lock(&one.context(), request).await.unwrap();
        locked.done().unwrap();
        let (second, granted) = one.lease(BOTH, KEY, RH).await;
        assert_eq!(granted, wanted, "{offset}");
        one.close(second).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_after_a_close_is_granted_as_much_again() {
    let server = server().await;
    let (one, _notices) = session_of(&server, (1, 1)).await;
    for _ in 0..3 {
        let held = one.create(with_oplock(BOTH, OplockLevel::EXCLUSIVE)).await.unwrap();
        assert_eq!(held.oplock_level, OplockLevel::EXCLUSIVE);
        one.close(held.file_id).await.unwrap();
    }
    one.assert_nothing_leased().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_names_one_file() {
    let server = server().await;
    let (one, _) = client_of(&server, 1).await;
    let (first, _) = one.lease(BOTH, KEY, ALL).await;
    let refused = Err(NtStatus::INVALID_PARAMETER);
    one.put("other", b"", 0o666).await;
    for name in ["other", "new"] {
        let request = CreateRequest { name: name.to_owned(), ..leased(BOTH, KEY, ALL) };
        assert_eq!(one.create(request).await.map(drop), refused, "{name}");
    }
    assert!(!one.exists("new").await);
    // That of another client is another one.
    let (two, _) = client_of(&server, 2).await;
    let other = CreateRequest { name: "other".to_owned(), ..leased(BOTH, KEY, ALL) };
    assert_eq!(lease_of(&two.create(other).await.unwrap()).state, ALL);
    one.close(first).await.unwrap();
    let other = CreateRequest { name: "new".to_owned(), ..leased(BOTH, KEY, ALL) };
    assert_eq!(lease_of(&one.create(other).await.unwrap()).state, ALL);
}

#[tokio::test(start_paused = true)]
async fn a_lease_grows_to_the_whole_wish_or_stays() {
    let server = server().await;
    for (held, wish, wanted) in [
        (NONE, RH, RH),
        (R, RH, RH),
        (RH, RW, RH),
        (RH, ALL, ALL),
        (RW, RH, RW),
        (ALL, R, ALL),
        (R, LeaseState::WRITE, R),
    ] {
        let (one, _) = client_of(&server, 1).await;
        let (first, _) = one.lease(BOTH, KEY, held).await;
        let (second, granted) = one.lease(BOTH, KEY, wish).await;
        assert_eq!(granted, wanted, "{held:?} {wish:?}");
        one.close(first).await.unwrap();
        one.close(second).await.unwrap();
        one.assert_nothing_leased().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_epoch_counts_the_changes_of_a_lease() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    let epoch = |response: &CreateResponse| lease_of(response).v2.unwrap().epoch;
    assert_eq!(epoch(&one.create(leased(BOTH, KEY, RH)).await.unwrap()), 8);
    assert_eq!(epoch(&one.create(leased(BOTH, KEY, ALL)).await.unwrap()), 9);
    assert_eq!(epoch(&one.create(leased(BOTH, KEY, ALL)).await.unwrap()), 9);
    let _waiting = two.begin(request("file", READ, CreateDisposition::OPEN)).await;
    let OplockBreakBody::LeaseNotification(notice) = notices.next().await else {
        panic!("a lease")
    };
    assert_eq!(notice.new_epoch, 10);
}

#[tokio::test(start_paused = true)]
async fn a_rename_waits_until_others_have_closed_or_use_the_file() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    one.lease(READ, KEY, RH).await;
    let id = two.open("file", BOTH | DELETE).await.unwrap();
    let target = RenameTarget {
        flags: RenameFlags::default(),
        root_directory: 0,
        name: "renamed".to_owned(),
    };
    let waiting = Waiting::begin(two.set(id, SetInformation::Rename(target)).await);
    assert_eq!(notices.lease().await, (KEY, RH, R, true));
    assert!(two.exists("file").await);
    one.keep(R);
    waiting.end().await.unwrap();
    assert!(two.exists("renamed").await);
    let removal = SetInformation::Disposition(Disposition::DELETE);
    two.set(id, removal).await.done().unwrap();
    notices.assert_none().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_connection_is_gone_loses_its_lease_at_the_break() {
    let server = server().await;
    let (one, _notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    one.lease(BOTH, KEY, ALL).await;
    one.connection.close();
    two.open("file", READ).await.unwrap();
}

#[tokio::test]
async fn a_client_that_reads_no_notifications_is_disconnected() {
    let connection = Connection::new(1, "127.0.0.1:1".parse().unwrap(), tokio::io::sink());
    for _ in 0..crate::connection::NOTICES_MAX {
        assert!(connection.begin_notice());
    }
    connection.end_notice();
    assert!(connection.begin_notice() && !connection.is_closed());
    assert!(!connection.begin_notice() && connection.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_request_inside_of_a_compound_waits_before_the_rest() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    one.lease(BOTH, KEY, ALL).await;
    let context = Context { is_last: false, ..two.context() };
    let request = request("file", READ, CreateDisposition::OPEN);
    let create = super::super::create::create(&context, request);
    let acknowledge = async {
        notices.lease().await;
        one.keep(RH);
    };
    let (created, ()) = tokio::join!(create, acknowledge);
    created.done().unwrap();
}

#[tokio::test]
async fn a_server_without_leases_grants_none() {
    let client = Client::new(user()).await;
    let config = SmbConfig { leases: false, ..client.server.config.clone() };
    let server = SmbServer::new(client.share().clone(), config).unwrap();
    let (client, _) = client_of(&server, 1).await;
    let response = client.create(leased(BOTH, KEY, ALL)).await.unwrap();
    assert_eq!(response.oplock_level, OplockLevel::NONE);
    assert!(CreateContext::find(&response.contexts, tags::LEASE).is_none());
}
