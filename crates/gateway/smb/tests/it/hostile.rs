//! Peers that mean harm: the server lives, and serves the others.

use std::time::{Duration, Instant};

use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::change_notify::{
    ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter,
};
use braid_smb_wire::smb2::create::{CreateDisposition, CreateOptions, CreateRequest};
use braid_smb_wire::smb2::flush::FlushRequest;
use braid_smb_wire::smb2::ioctl::{IoctlFlags, IoctlRequest};
use braid_smb_wire::smb2::lock::{LockElement, LockFlags, LockRequest};
use braid_smb_wire::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use braid_smb_wire::smb2::query_info::{InfoType, QueryInfoFlags, QueryInfoRequest};
use braid_smb_wire::smb2::session_setup::SessionSetupRequest;
use braid_smb_wire::smb2::set_info::SetInfoRequest;
use braid_smb_wire::smb2::{Body, Command, Dialect, Empty, FileId, HEADER_BYTES};
use bytes::Bytes;

use crate::client::{Client, close, create, offer, read, tree_connect, write};
use crate::server::Server;

/// Random frames that are sent.
const RANDOM_FRAMES: usize = 4000;

/// Checks that a client that was there before, and a new one, are served.
fn assert_alive(server: &Server, other: &mut Client) {
    assert_eq!(other.call(Command::Echo, &Empty).status(), NtStatus::SUCCESS);
    other.open("alive");
    assert!(Client::ready(server).has("alive"));
}

#[test]
fn no_path_leads_out_of_a_share() {
    let server = Server::with(|config| {
        config.shares.push(braid_smb::ShareConfig::new("below", "/below"));
    });
    let mut client = Client::ready(&server);
    client.open("outside");
    let options = CreateOptions::FILE_DIRECTORY_FILE;
    for name in ["below", r"below\a"] {
        let answer = client.call(Command::Create, &CreateRequest { options, ..create(name) });
        assert_eq!(answer.status(), NtStatus::SUCCESS);
    }
    assert_eq!(client.tree_connect("below"), NtStatus::SUCCESS);
    let invalid = NtStatus::OBJECT_NAME_INVALID;
    let long = "x".repeat(4097);
    let long_parts = r"a\".repeat(2049);
    let deep = r"a\".repeat(300) + "a";
    for (name, status) in [
        ("..", invalid),
        (r"..\outside", invalid),
        (r"..\..\outside", invalid),
        (r"a\..\..\outside", invalid),
        (r"a\.\b", invalid),
        (r".\a", invalid),
        (r"a\\b", invalid),
        ("../outside", invalid),
        ("a/../../outside", invalid),
        ("/outside", invalid),
        (r"\outside", NtStatus::INVALID_PARAMETER),
        (r"\..\outside", NtStatus::INVALID_PARAMETER),
        ("a\0", invalid),
        ("a\u{1}", invalid),
        ("a:b:stream", invalid),
        (r"a:b\..\c", invalid),
        (r"a:..\c", invalid),
        (&long, invalid),
        (&long_parts, invalid),
        (&deep, invalid),
        (&"x".repeat(256), invalid),
    ] {
        for disposition in [CreateDisposition::OPEN_IF, CreateDisposition::OPEN] {
            let answer =
                client.call(Command::Create, &CreateRequest { disposition, ..create(name) });
            assert_eq!(answer.status(), status, "{name:?}");
        }
    }
    // 256 names, as many as are allowed: the second one is missing.
    let answer = client.call(Command::Create, &create(&(r"a\".repeat(255) + "a")));
    assert_eq!(answer.status(), NtStatus::OBJECT_PATH_NOT_FOUND);
    assert!(!client.has("outside"));
}

#[test]
fn a_name_of_half_a_character_is_refused() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    let mut body = create("ab").to_bytes();
    // A high surrogate alone is no UTF-16.
    body[56..58].copy_from_slice(&[0x00, 0xd8]);
    let header = client.header(Command::Create);
    assert!(client.call_as(header, &body).status().is_error());
    assert_eq!(client.call(Command::Echo, &Empty).status(), NtStatus::SUCCESS);
}

/// A request of each command, of an open.
fn requests(file_id: FileId) -> Vec<(Command, Vec<u8>)> {
    let lock = LockElement {
        offset: 0,
        length: 1,
        flags: LockFlags::EXCLUSIVE.with(LockFlags::FAIL_IMMEDIATELY),
    };
    let notify = ChangeNotifyRequest {
        flags: ChangeNotifyFlags::default(),
        output_buffer_length: 1000,
        file_id,
        filter: CompletionFilter::default(),
    };
    let ioctl = IoctlRequest {
        code: 0x0009_8208,
        file_id,
        flags: IoctlFlags(1),
        input: Bytes::from_static(&[0; 16]),
        max_input: 0,
        max_output: 1000,
    };
    let list = QueryDirectoryRequest {
        information_class: 37,
        flags: QueryDirectoryFlags::default(),
        file_index: 0,
        file_id,
        pattern: "*".to_owned(),
        output_buffer_length: 1000,
    };
    let query = QueryInfoRequest {
        info_type: InfoType::FILE,
        info_class: 18,
        output_buffer_length: 1000,
        additional_information: 0,
        flags: QueryInfoFlags::default(),
        file_id,
        input: Bytes::new(),
    };
    let set = SetInfoRequest {
        info_type: InfoType::FILE,
        info_class: 20,
        additional_information: 0,
        file_id,
        data: Bytes::from_static(&[3, 0, 0, 0, 0, 0, 0, 0]),
    };
    let setup = SessionSetupRequest {
        security_buffer: Bytes::from_static(b"NTLMSSP\0\x01\0\0\0"),
        ..SessionSetupRequest::default()
    };
    let lock = LockRequest { sequence: 0, file_id, locks: vec![lock] };
    vec![
        (Command::Negotiate, offer(&Dialect::ALL).to_bytes()),
        (Command::SessionSetup, setup.to_bytes()),
        (Command::Logoff, Empty.to_bytes()),
        (Command::TreeConnect, tree_connect("data").to_bytes()),
        (Command::TreeDisconnect, Empty.to_bytes()),
        (Command::Create, create("another").to_bytes()),
        (Command::Close, close(file_id).to_bytes()),
        (Command::Flush, FlushRequest { file_id }.to_bytes()),
        (Command::Read, read(file_id, 10).to_bytes()),
        (Command::Write, write(file_id, "abc").to_bytes()),
        (Command::Lock, lock.to_bytes()),
        (Command::Ioctl, ioctl.to_bytes()),
        (Command::Echo, Empty.to_bytes()),
        (Command::QueryDirectory, list.to_bytes()),
        (Command::ChangeNotify, notify.to_bytes()),
        (Command::QueryInfo, query.to_bytes()),
        (Command::SetInfo, set.to_bytes()),
        (Command::OplockBreak, [&[24, 0][..], &[0; 22]].concat()),
    ]
}

/// Commands whose last bytes are the data of the operation, or padding of one byte, so that a
/// message with some bytes less may be right.
fn fixed_bytes(command: Command, body: &[u8]) -> usize {
    match command {
        // The data are behind it, and their length is in it.
        Command::Read => 48,
        Command::QueryInfo => 40,
        _ => body.len(),
    }
}

#[test]
fn a_message_that_is_cut_anywhere_fails_alone() {
    let server = Server::new();
    let mut other = Client::ready(&server);
    // Before 3.1.1, where a TREE_CONNECT without a signature would end the connection.
    let offer = offer(&[Dialect::Smb302]);
    let mut client = Client::ready_with(&server, &offer);
    for (index, (command, _)) in requests(FileId::RELATED).into_iter().enumerate() {
        let mut id = client.open("file");
        let length = requests(id)[index].1.len();
        for cut in 0..HEADER_BYTES + length {
            let body = requests(id)[index].1.clone();
            let mut message = match command {
                Command::Negotiate => {
                    client = Client::connect(&server);
                    client.message(command, &body)
                }
                _ => client.message(command, &body),
            };
            message.truncate(cut);
            client.send(&message);
            let answers = client.answers();
            // Less than a header is no message; the rest is a request that fails.
            assert_eq!(answers.is_some(), cut >= HEADER_BYTES, "{command:?} {cut}");
            if let Some(answers) = &answers {
                let is_short = cut < HEADER_BYTES + fixed_bytes(command, &body);
                let status = answers[0].status();
                assert!(!is_short || status.is_error(), "{command:?} {cut} {status:?}");
            }
            if answers.is_none() || command == Command::Negotiate {
                client = Client::ready_with(&server, &offer);
                id = client.open("file");
            }
        }
        client = Client::ready_with(&server, &offer);
    }
    assert_alive(&server, &mut other);
}

/// Numbers that look random, the same in every run: xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

#[test]
fn random_changes_of_requests_harm_nobody() {
    let server = Server::new();
    let mut other = Client::ready(&server);
    let mut random = Random(0x5eed);
    let mut client = Client::ready(&server);
    let mut id = client.open("file");
    let mut answered = 0;
    for _ in 0..RANDOM_FRAMES {
        let all = requests(id);
        let (command, mut body) = all[random.below(all.len())].clone();
        for _ in 0..=random.below(3) {
            let at = random.below(body.len());
            // Limits of lengths are found more often by their ends than by any number.
            body[at] = [0, 1, 0x7f, 0x80, 0xff, random.next() as u8][random.below(6)];
        }
        let message = client.message(command, &body);
        client.send(&message);
        match client.answers() {
            Some(_) => answered += 1,
            None => {
                client = Client::ready(&server);
                id = client.open("file");
            }
        }
        if matches!(command, Command::Logoff | Command::TreeDisconnect | Command::Close) {
            client = Client::ready(&server);
            id = client.open("file");
        }
    }
    // Most bodies reach an operation, so that this tests more than the frames.
    assert!(answered > RANDOM_FRAMES / 2, "{answered}");
    assert_alive(&server, &mut other);
}

#[test]
fn frames_of_random_bytes_harm_nobody() {
    let server = Server::new();
    let mut other = Client::ready(&server);
    let mut random = Random(0xf00d);
    for number in 0..RANDOM_FRAMES / 4 {
        let mut client = Client::connect(&server);
        let mut frame: Vec<u8> = (0..random.below(300)).map(|_| random.next() as u8).collect();
        // Half of them begin like a frame.
        if frame.len() >= 4 && number % 2 == 0 {
            frame[..4].copy_from_slice(&[[0xfe, 0xff, 0xfd, 0xfc][number / 2 % 4], 83, 77, 66]);
        }
        match number % 5 {
            0 => client.send_raw(&frame),
            _ => client.send(&frame),
        }
    }
    assert_alive(&server, &mut other);
}

#[test]
fn a_frame_that_is_too_long_ends_the_connection() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    client.send_raw(&[0, 0xff, 0xff, 0xff]);
    assert!(client.is_disconnected());
    let mut client = Client::ready(&server);
    client.send_raw(&[0x81, 0, 0, 0x44]);
    assert!(client.is_disconnected(), "NetBIOS is not spoken");
}

#[test]
fn clients_that_begin_a_frame_and_stop_do_not_hold_the_others() {
    let server = Server::new();
    let mut other = Client::ready(&server);
    let stalled: Vec<_> = (0..64)
        .map(|_| {
            let mut client = Client::connect(&server);
            // The length of 8 MiB, and the first bytes of them.
            client.send_raw(&[0, 0x80, 0, 0, 0xfe, b'S', b'M', b'B']);
            client
        })
        .collect();
    let begun = Instant::now();
    assert_alive(&server, &mut other);
    assert!(begun.elapsed() < Duration::from_secs(10));
    drop(stalled);
}

#[test]
fn opens_of_another_session_or_tree_cannot_be_used() {
    let server = Server::new();
    let mut owner = Client::ready(&server);
    let id = owner.open("file");
    let mut bob = Client::connect(&server);
    bob.negotiate(&offer(&[Dialect::Smb311]));
    assert_eq!(bob.log_on("bob"), NtStatus::SUCCESS);
    assert_eq!(bob.tree_connect("data"), NtStatus::SUCCESS);
    let half = FileId { persistent: id.persistent ^ 1, ..id };
    for (command, body) in [
        (Command::Write, write(id, "abc").to_bytes()),
        (Command::Read, read(id, 10).to_bytes()),
        (Command::Close, close(id).to_bytes()),
        (Command::Flush, FlushRequest { file_id: id }.to_bytes()),
    ] {
        let header = bob.header(command);
        assert_eq!(bob.call_as(header, &body).status(), NtStatus::FILE_CLOSED, "{command:?}");
        // The session and the tree of another connection.
        let mut header = bob.header(command);
        (header.session_id, header.tree_id) = (owner.session, owner.tree);
        let status = bob.call_as(header, &body).status();
        assert_eq!(status, NtStatus::USER_SESSION_DELETED, "{command:?}");
    }
    // Another tree of the same session, and half of the number.
    let tree = owner.tree;
    assert_eq!(owner.tree_connect("data"), NtStatus::SUCCESS);
    assert_ne!(owner.tree, tree);
    assert_eq!(owner.call(Command::Write, &write(id, "abc")).status(), NtStatus::FILE_CLOSED);
    owner.tree = tree;
    assert_eq!(owner.call(Command::Write, &write(half, "abc")).status(), NtStatus::FILE_CLOSED);
    owner.tree = 1000;
    let status = owner.call(Command::Write, &write(id, "abc")).status();
    assert_eq!(status, NtStatus::NETWORK_NAME_DELETED);
    owner.tree = tree;
    assert!(owner.read("file").is_empty());
    assert_eq!(owner.call(Command::Write, &write(id, "abc")).status(), NtStatus::SUCCESS);
}
