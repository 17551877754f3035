//! Durable opens over TCP: connections that are cut, and sessions that follow others. ADR 0056.

use std::time::{Duration, Instant};

use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::create::{
    CreateContext, CreateRequest, CreateResponse, DurableFlags, DurableReconnectV2,
    DurableRequestV2, Lease, LeaseFlags, LeaseState, OplockLevel, context as tags,
};
use braid_smb_wire::smb2::lock::{LockElement, LockFlags, LockRequest};
use braid_smb_wire::smb2::read::ReadReply;
use braid_smb_wire::smb2::{Body, Command, Empty, FileId, Flags};

use crate::client::{Client, close, create, offer, read, write};
use crate::logon::Logon;
use crate::server::Server;

const ALL: LeaseState = LeaseState(7);
const KEY: [u8; 16] = [5; 16];
const GUID: [u8; 16] = [6; 16];

fn lease() -> CreateContext {
    Lease { key: KEY, state: ALL, flags: LeaseFlags::default(), v2: None }.to_context()
}

fn lock(file_id: FileId, flags: LockFlags) -> LockRequest {
    LockRequest { sequence: 0, file_id, locks: vec![LockElement { offset: 0, length: 4, flags }] }
}

impl Client {
    /// Opens a file durably, writes it and locks its beginning.
    fn keep(&mut self) -> FileId {
        let flags = DurableFlags::default();
        let wish = DurableRequestV2 { timeout: 0, flags, create_guid: GUID };
        let contexts = vec![lease(), wish.to_context()];
        let request =
            CreateRequest { oplock_level: OplockLevel::LEASE, contexts, ..create("file") };
        let made = self.call(Command::Create, &request).body::<CreateResponse>();
        assert!(CreateContext::find(&made.contexts, tags::DURABLE_REQUEST_V2).is_some());
        let id = made.file_id;
        let written = self.call(Command::Write, &write(id, &b"some bytes"[..]));
        assert_eq!(written.status(), NtStatus::SUCCESS);
        let locked = self.call(Command::Lock, &lock(id, LockFlags::EXCLUSIVE));
        assert_eq!(locked.status(), NtStatus::SUCCESS);
        id
    }

    /// Asks for a lost open once.
    fn ask(&mut self, file_id: FileId) -> Result<CreateResponse, NtStatus> {
        let flags = DurableFlags::default();
        let lost = DurableReconnectV2 { file_id, create_guid: GUID, flags }.to_context();
        let contexts = vec![lease(), lost];
        let request =
            CreateRequest { oplock_level: OplockLevel::LEASE, contexts, ..create("file") };
        let answer = self.call(Command::Create, &request);
        match answer.status() {
            NtStatus::SUCCESS => Ok(answer.body()),
            status => Err(status),
        }
    }

    /// Asks for a lost open until the server has seen the end of the connection.
    fn get_back(&mut self, file_id: FileId) -> CreateResponse {
        let begun = Instant::now();
        loop {
            match self.ask(file_id) {
                Ok(response) => return response,
                Err(NtStatus::OBJECT_NAME_NOT_FOUND)
                    if begun.elapsed() < Duration::from_secs(10) => {}
                Err(status) => panic!("{status}"),
            }
        }
    }

    /// Checks that an open has its bytes, lock and lease, and closes it.
    fn check_and_close(&mut self, response: &CreateResponse) {
        let context = CreateContext::find(&response.contexts, tags::LEASE).unwrap();
        assert_eq!(Lease::decode(context).unwrap().state, ALL);
        let id = response.file_id;
        let bytes = self.call(Command::Read, &read(id, 100)).body::<ReadReply>().data;
        assert_eq!(bytes, "some bytes");
        let unlocked = self.call(Command::Lock, &lock(id, LockFlags::UNLOCK));
        assert_eq!(unlocked.status(), NtStatus::SUCCESS);
        assert_eq!(self.call(Command::Close, &close(id)).status(), NtStatus::SUCCESS);
    }
}

#[test]
fn an_open_comes_back_after_its_connection_was_reset_in_a_write() {
    let server = Server::new();
    let mut one = Client::ready(&server);
    let id = one.keep();
    let frame = one.message(Command::Write, &write(id, vec![0; 4000]).to_bytes());
    let length = (frame.len() as u32).to_be_bytes();
    one.reset(&[&length[..], &frame[..2000]].concat());
    let mut two = Client::ready(&server);
    let back = two.get_back(id);
    two.check_and_close(&back);
    assert_eq!((server.share.open_count(), server.share.lock_count()), (0, 0));
}

#[test]
fn another_user_gets_nothing_from_a_lost_connection() {
    let server = Server::new();
    let mut one = Client::ready(&server);
    let id = one.keep();
    one.reset(&[]);
    let mut two = Client::ready(&server);
    let begun = Instant::now();
    let mut bob = Client::connect(&server);
    bob.negotiate(&offer(&[braid_smb_wire::smb2::Dialect::Smb311]));
    assert_eq!(bob.log_on("bob"), NtStatus::SUCCESS);
    assert_eq!(bob.tree_connect("data"), NtStatus::SUCCESS);
    // Until the server has seen the end of the connection, the open is not there.
    while bob.ask(id).err() != Some(NtStatus::ACCESS_DENIED) {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    let back = two.get_back(id);
    two.check_and_close(&back);
}

#[test]
fn a_logon_that_names_the_session_takes_its_opens_over() {
    let server = Server::new();
    let mut one = Client::ready(&server);
    let id = one.keep();
    let mut two = Client::connect(&server);
    two.negotiate(&offer(&[braid_smb_wire::smb2::Dialect::Smb311]));
    let logon = Logon { previous: one.session, ..Logon::of("alice") };
    assert_eq!(two.log_on_as(logon).status(), NtStatus::SUCCESS);
    assert_eq!(two.tree_connect("data"), NtStatus::SUCCESS);
    let lost = one.call(Command::Read, &read(id, 100));
    assert_eq!(lost.status(), NtStatus::USER_SESSION_DELETED);
    let back = two.ask(id).unwrap();
    two.check_and_close(&back);
}

#[test]
fn a_logoff_keeps_durable_opens_and_closes_the_others() {
    let server = Server::new();
    let mut one = Client::ready(&server);
    let id = one.keep();
    one.open("other");
    assert_eq!(server.share.open_count(), 2);
    assert_eq!(one.call(Command::Logoff, &Empty).status(), NtStatus::SUCCESS);
    assert_eq!(server.share.open_count(), 1);
    let mut two = Client::ready(&server);
    let back = two.ask(id).unwrap();
    two.check_and_close(&back);
}

#[test]
fn a_tree_disconnect_closes_durable_opens() {
    let server = Server::new();
    let mut one = Client::ready(&server);
    let id = one.keep();
    assert_eq!(one.call(Command::TreeDisconnect, &Empty).status(), NtStatus::SUCCESS);
    assert_eq!(server.share.open_count(), 0);
    assert_eq!(one.tree_connect("data"), NtStatus::SUCCESS);
    assert_eq!(one.ask(id).err(), Some(NtStatus::OBJECT_NAME_NOT_FOUND));
}

/// Names of DFS begin with a server and a share.
#[test]
fn an_open_comes_back_by_the_name_that_it_has_in_dfs() {
    let server = Server::at(0, |config, own| config.gateways = vec![own.to_string()]);
    let mut one = Client::ready(&server);
    let id = one.keep();
    one.reset(&[]);
    let mut two = Client::ready(&server);
    let (flags, guid) = (DurableFlags::default(), GUID);
    let lost = DurableReconnectV2 { file_id: id, create_guid: guid, flags }.to_context();
    let begun = Instant::now();
    let mut ask = |name: &str| {
        let contexts = vec![lease(), lost.clone()];
        let request = CreateRequest { oplock_level: OplockLevel::LEASE, contexts, ..create(name) };
        let mut header = two.header(Command::Create);
        header.flags = Flags::DFS_OPERATIONS;
        two.call_as(header, &request.to_bytes())
    };
    // Until the server has seen the end of the connection, the open is not there.
    while ask(r"files\data\other").status() != NtStatus::INVALID_PARAMETER {
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    let back = ask(r"files\data\file").body::<CreateResponse>();
    two.check_and_close(&back);
}
