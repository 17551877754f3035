//! Leases over TCP: notifications, and requests that wait for them. MS-SMB2 3.3.4.6, 3.3.4.7.

use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::create::{
    CreateContext, CreateRequest, CreateResponse, Lease, LeaseFlags, LeaseState, OplockLevel,
    context as tags,
};
use braid_smb_wire::smb2::oplock_break::{LeaseAcknowledgment, LeaseBreak, OplockBreakBody};
use braid_smb_wire::smb2::{Body, Command, Empty, Flags, Header};

use crate::client::{Client, create, write};
use crate::server::Server;

const ALL: LeaseState = LeaseState(7);
const RH: LeaseState = LeaseState(3);
const KEY: [u8; 16] = [5; 16];

fn leased() -> CreateRequest {
    let lease = Lease { key: KEY, state: ALL, flags: LeaseFlags::default(), v2: None };
    CreateRequest {
        oplock_level: OplockLevel::LEASE,
        contexts: vec![lease.to_context()],
        ..create("file")
    }
}

impl Client {
    /// Opens a file with a lease of everything.
    fn lease(&mut self) -> CreateResponse {
        let response = self.call(Command::Create, &leased()).body::<CreateResponse>();
        let lease = CreateContext::find(&response.contexts, tags::LEASE).unwrap();
        assert_eq!(Lease::decode(lease).unwrap().state, ALL);
        response
    }

    /// The notification of a break.
    fn notice(&mut self) -> LeaseBreak {
        let answer = self.answer();
        assert_eq!((answer.header.message_id, answer.header.session_id), (u64::MAX, 0));
        match answer.body() {
            OplockBreakBody::LeaseNotification(notice) => notice,
            other => panic!("{other:?}"),
        }
    }

    /// Sends a CREATE that waits.
    fn wait_for_open(&mut self) -> Header {
        let answer = self.call(Command::Create, &create("file"));
        assert_eq!(answer.status(), NtStatus::PENDING);
        answer.header
    }

    fn acknowledge(&mut self, state: LeaseState) -> NtStatus {
        let body = LeaseAcknowledgment { key: KEY, state };
        let body = OplockBreakBody::LeaseAcknowledgment(body);
        self.call(Command::OplockBreak, &body).status()
    }
}

#[test]
fn an_open_waits_until_the_holder_has_written_and_acknowledged() {
    let server = Server::new();
    for encrypts in [false, true] {
        let (mut one, mut two) = (Client::ready(&server), Client::ready(&server));
        if encrypts {
            for client in [&mut one, &mut two] {
                client.encrypts = true;
                assert_eq!(client.tree_connect("secret"), NtStatus::SUCCESS);
            }
        }
        let id = one.lease().file_id;
        let waiting = two.wait_for_open();
        let notice = one.notice();
        assert_eq!((notice.key, notice.current_state, notice.new_state), (KEY, ALL, RH));
        let written = one.call(Command::Write, &write(id, &b"buffered"[..]));
        assert_eq!(written.status(), NtStatus::SUCCESS);
        assert_eq!(one.acknowledge(RH), NtStatus::SUCCESS);
        let late = two.answer();
        assert_eq!(late.status(), NtStatus::SUCCESS);
        assert_eq!(late.header.message_id, waiting.message_id);
        assert_eq!(late.header.async_id, waiting.async_id);
        assert_eq!(late.body::<CreateResponse>().end_of_file, 8);
    }
}

#[test]
fn an_open_that_waits_is_cancelled() {
    let server = Server::new();
    let (mut one, mut two) = (Client::ready(&server), Client::ready(&server));
    one.lease();
    let waiting = two.wait_for_open();
    one.notice();
    let cancel = Header {
        flags: Flags::ASYNC,
        async_id: waiting.async_id,
        session_id: two.session,
        ..Header::request(Command::Cancel, waiting.message_id)
    };
    let message = two.signed(cancel, &Empty.to_bytes());
    two.send(&message);
    assert_eq!(two.answer().status(), NtStatus::CANCELLED);
}

#[test]
fn the_end_of_a_connection_lets_those_go_on_that_wait_for_it() {
    let server = Server::new();
    let (mut one, mut two) = (Client::ready(&server), Client::ready(&server));
    one.lease();
    two.wait_for_open();
    one.notice();
    drop(one);
    assert_eq!(two.answer().status(), NtStatus::SUCCESS);
}
