//! Compounds. MS-SMB2 3.3.5.2.7.

use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::create::{CreateDisposition, CreateRequest, CreateResponse};
use braid_smb_wire::smb2::read::ReadReply;
use braid_smb_wire::smb2::{Body, Command, Empty, FileId, Header};

use crate::client::{Answer, Client, close, create, read, write};
use crate::server::Server;

const RELATED: FileId = FileId::RELATED;

fn statuses(answers: &[Answer]) -> Vec<NtStatus> {
    answers.iter().map(Answer::status).collect()
}

fn create_write_close(request: &CreateRequest) -> Vec<(Command, bool, Vec<u8>)> {
    vec![
        (Command::Create, false, request.to_bytes()),
        (Command::Write, true, write(RELATED, "abc").to_bytes()),
        (Command::Close, true, close(RELATED).to_bytes()),
    ]
}

#[test]
fn related_requests_use_the_open_of_the_first_one() {
    let server = Server::new();
    for (signs, encrypts) in [(false, false), (true, false), (false, true)] {
        let mut client = Client::ready(&server);
        (client.signs, client.encrypts) = (signs, encrypts);
        let name = format!("file {signs} {encrypts}");
        let answers = client.compound(&create_write_close(&create(&name)));
        assert_eq!(statuses(&answers), [NtStatus::SUCCESS; 3]);
        let id = answers[0].body::<CreateResponse>().file_id;
        assert_eq!(client.call(Command::Close, &close(id)).status(), NtStatus::FILE_CLOSED);
        assert_eq!(&client.read(&name)[..], b"abc");
    }
}

#[test]
fn related_requests_fail_with_the_status_of_a_create_that_failed() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let request = CreateRequest { disposition: CreateDisposition::OPEN, ..create("none") };
    let mut requests = create_write_close(&request);
    requests.push((Command::Echo, false, Empty.to_bytes()));
    let answers = client.compound(&requests);
    let missing = NtStatus::OBJECT_NAME_NOT_FOUND;
    assert_eq!(statuses(&answers), [missing, missing, missing, NtStatus::SUCCESS]);
}

#[test]
fn requests_that_are_not_related_go_on_after_a_failure() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let missing = CreateRequest { disposition: CreateDisposition::OPEN, ..create("none") };
    let answers = client.compound(&[
        (Command::Create, false, missing.to_bytes()),
        (Command::Create, false, create("made").to_bytes()),
        (Command::Close, true, close(RELATED).to_bytes()),
        (Command::Close, false, close(RELATED).to_bytes()),
    ]);
    let statuses = statuses(&answers);
    assert_eq!(statuses[0], NtStatus::OBJECT_NAME_NOT_FOUND);
    assert_eq!(statuses[1..3], [NtStatus::SUCCESS; 2]);
    assert_eq!(statuses[3], NtStatus::FILE_CLOSED, "no open is taken over");
    assert!(client.has("made"));
}

#[test]
fn a_first_request_that_is_related_to_none_is_refused() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let answers = client.compound(&[
        (Command::Create, true, create("made").to_bytes()),
        (Command::Write, true, write(RELATED, "abc").to_bytes()),
    ]);
    assert_eq!(answers[0].status(), NtStatus::INVALID_PARAMETER);
    assert!(answers[1].status().is_error());
    assert!(!client.has("made"));
}

#[test]
fn each_response_of_a_compound_ends_at_a_multiple_of_8_bytes() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    client.compound(&create_write_close(&create("file")));
    let reads = [
        (Command::Create, false, create("file").to_bytes()),
        (Command::Read, true, read(RELATED, 100).to_bytes()),
    ];
    let answers = client.compound(&reads);
    // A header, a READ response and its 3 bytes, which are the last of the frame.
    assert_eq!(answers[1].message.len(), 64 + 16 + 8);
    assert_eq!(&answers[1].body::<ReadReply>().data[..], b"abc");
    let id = answers[0].body::<CreateResponse>().file_id;
    assert_eq!(client.call(Command::Read, &read(id, 100)).message.len(), 64 + 16 + 3);
}

#[test]
fn a_request_that_is_related_to_one_without_a_session_is_refused() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let session = std::mem::replace(&mut client.session, u64::MAX);
    let answers = client.compound(&[
        (Command::Close, false, close(RELATED).to_bytes()),
        (Command::Close, true, close(RELATED).to_bytes()),
    ]);
    client.session = session;
    let wanted = [NtStatus::USER_SESSION_DELETED, NtStatus::INVALID_PARAMETER];
    assert_eq!(statuses(&answers), wanted);
}

#[test]
fn responses_that_are_too_long_for_one_frame_are_errors() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    client.ask = 1024;
    client.call(Command::Echo, &Empty);
    let id = client.open("file");
    let length = 8 << 20;
    let paid = |header| Header { credit_charge: 128, ..header };
    let header = paid(client.header(Command::Write));
    client.next += 127;
    let body = write(id, vec![7; length as usize]).to_bytes();
    assert_eq!(client.call_as(header, &body).status(), NtStatus::SUCCESS);
    let mut frame = Vec::new();
    let mut body = read(id, length).to_bytes();
    body.resize(56, 0);
    for number in 0..4 {
        let mut header = paid(client.header(Command::Read));
        client.next += 127;
        header.next_command = if number < 3 { 120 } else { 0 };
        frame.extend(client.signed(header, &body));
    }
    client.send(&frame);
    let statuses = statuses(&client.answers().unwrap());
    assert_eq!(statuses[0], NtStatus::SUCCESS);
    assert_eq!(statuses[1..], [NtStatus::INSUFFICIENT_RESOURCES; 3]);
    assert_eq!(client.call(Command::Echo, &Empty).status(), NtStatus::SUCCESS);
}

#[test]
fn a_signature_is_checked_for_each_request_of_a_compound() {
    let server = Server::with(|config| config.require_signing = true);
    let mut client = Client::connect(&server);
    client.negotiate(&crate::client::offer(&[braid_smb_wire::smb2::Dialect::Smb311]));
    assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
    client.signs = true;
    assert_eq!(client.tree_connect("data"), NtStatus::SUCCESS);
    let mut frame = client.compound_frame(&create_write_close(&create("file")));
    // The data of the WRITE are changed in flight.
    let at = frame.windows(3).position(|bytes| bytes == b"abc").unwrap();
    frame[at] = b'x';
    client.send(&frame);
    let answers = client.answers().unwrap();
    let denied = NtStatus::ACCESS_DENIED;
    assert_eq!(statuses(&answers), [NtStatus::SUCCESS, denied, NtStatus::SUCCESS]);
    assert!(client.read("file").is_empty());
}
