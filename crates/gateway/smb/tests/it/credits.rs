//! The sequence window. MS-SMB2 3.3.5.2.3, 3.3.5.2.5.

use braid_smb_wire::NtStatus;
use braid_smb_wire::frame::MAX_COMPOUND;
use braid_smb_wire::smb2::{Body, Command, Dialect, Empty, Header};

use crate::client::{Client, offer, write};
use crate::logon::Logon;
use crate::server::Server;

#[test]
fn a_message_number_that_was_not_granted_ends_the_connection() {
    let server = Server::new();
    let mut other = Client::ready(&server);
    for charge in [1, 100] {
        let mut client = Client::connect(&server);
        client.ask = 10;
        client.negotiate(&offer(&[Dialect::Smb311]));
        let mut header = client.header(Command::Echo);
        header.credit_charge = charge;
        if charge == 1 {
            header.message_id = 11;
        }
        client.send(&client.signed(header, &Empty.to_bytes()));
        assert!(client.is_disconnected(), "{charge}");
    }
    assert_eq!(other.call(Command::Echo, &Empty).status(), NtStatus::SUCCESS);
}

#[test]
fn a_message_number_that_was_used_ends_the_connection() {
    let server = Server::new();
    for skipped in [0, 1] {
        let mut client = Client::ready(&server);
        // With a lower number that is free yet, and without.
        client.next += skipped;
        let header = client.header(Command::Echo);
        let first = client.call_as(header.clone(), &Empty.to_bytes());
        assert_eq!(first.status(), NtStatus::SUCCESS);
        client.send(&client.signed(header, &Empty.to_bytes()));
        assert!(client.is_disconnected());
    }
}

#[test]
fn a_client_never_has_more_than_8192_credits() {
    let server = Server::new();
    let mut client = Client::connect(&server);
    client.ask = u16::MAX;
    client.negotiate(&offer(&[Dialect::Smb311]));
    // One at a time before the logon: what is granted is there after its last response.
    let mut credits = i64::from(client.log_on_as(Logon::of("alice")).header.credits);
    assert_eq!(credits, 8192);
    for _ in 0..20 {
        credits += i64::from(client.call(Command::Echo, &Empty).header.credits) - 1;
        assert!((1..=8192).contains(&credits), "{credits}");
    }
    // The numbers of a request that needs many are granted once more.
    let header = Header { credit_charge: 1000, ..client.header(Command::Echo) };
    client.next += 999;
    credits += i64::from(client.call_as(header, &Empty.to_bytes()).header.credits) - 1000;
    assert_eq!(credits, 8192);
}

#[test]
fn a_write_that_was_not_paid_for_is_refused() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let id = client.open("file");
    let body = write(id, vec![7; 65_537]).to_bytes();
    for (charge, status) in [(1, NtStatus::INVALID_PARAMETER), (2, NtStatus::SUCCESS)] {
        let header = Header { credit_charge: charge, ..client.header(Command::Write) };
        client.next += u64::from(charge) - 1;
        assert_eq!(client.call_as(header, &body).status(), status);
        assert_eq!(client.read("file").is_empty(), status.is_error());
    }
}

#[test]
fn a_compound_of_too_many_messages_ends_its_connection_only() {
    let server = Server::new();
    let mut other = Client::ready(&server);
    let echo = (Command::Echo, false, Empty.to_bytes());
    for (count, served) in [(MAX_COMPOUND, true), (MAX_COMPOUND + 1, false), (10_000, false)] {
        let mut client = Client::ready(&server);
        client.ask = 8192;
        assert_eq!(client.call(Command::Echo, &Empty).status(), NtStatus::SUCCESS);
        let frame = client.compound_frame(&vec![echo.clone(); count]);
        client.send(&frame);
        let answers = client.answers();
        assert_eq!(answers.map(|answers| answers.len()), served.then_some(count));
        assert_eq!(other.call(Command::Echo, &Empty).status(), NtStatus::SUCCESS);
    }
}
