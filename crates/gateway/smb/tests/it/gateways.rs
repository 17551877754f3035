//! Several gateways with one name: referrals, and paths of DFS.

use std::net::TcpListener;
use std::time::Duration;

use braid_smb_wire::NtStatus;
use braid_smb_wire::dfs::{ReferralFlags, ReferralRequest, ReferralRequestEx, ReferralResponse};
use braid_smb_wire::fscc::Information;
use braid_smb_wire::fsctl::ControlCode;
use braid_smb_wire::smb2::create::CreateResponse;
use braid_smb_wire::smb2::ioctl::{IoctlFlags, IoctlRequest, IoctlResponse};
use braid_smb_wire::smb2::negotiate::Capabilities;
use braid_smb_wire::smb2::tree_connect::{ShareCapabilities, ShareFlags, TreeConnectResponse};
use braid_smb_wire::smb2::{Body, Command, Dialect, Empty, FileId, Flags};
use bytes::Bytes;

use crate::client::{Answer, Client, create, offer, tree_connect};
use crate::server::Server;

/// Probes so seldom that one failure, which changes nothing, is all.
const ONCE: Duration = Duration::from_secs(3600);

/// A server that clients know as `127.0.0.1`, with this port as `localhost` beside it.
fn one_of_two(other: u16, probe_interval: Duration) -> Server {
    Server::at(0, |config, own| {
        config.gateways = vec![own.to_string(), format!("localhost:{other}")];
        config.limits.probe_interval = probe_interval;
    })
}

/// A port at which nobody listens.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn ioctl(code: ControlCode, input: impl Into<Bytes>, max_output: u32) -> IoctlRequest {
    IoctlRequest {
        code: code.0,
        file_id: FileId::RELATED,
        flags: IoctlFlags::IS_FSCTL,
        input: input.into(),
        max_input: 0,
        max_output,
    }
}

fn ask(client: &mut Client, max_level: u16, path: &str) -> Answer {
    let input = ReferralRequest { max_level, path: path.to_owned() }.to_bytes();
    client.call(Command::Ioctl, &ioctl(ControlCode::DFS_GET_REFERRALS, input, 65_536))
}

fn referral(answer: &Answer) -> ReferralResponse {
    assert_eq!(answer.status(), NtStatus::SUCCESS);
    ReferralResponse::from_bytes(answer.body::<IoctlResponse>().output).unwrap()
}

fn targets(response: &ReferralResponse) -> Vec<String> {
    let mut targets: Vec<_> =
        response.entries.iter().map(|entry| entry.target.to_lowercase()).collect();
    targets.sort();
    targets
}

/// Asks for referrals until there are these targets.
fn wait_for(client: &mut Client, wanted: &[&str]) {
    while targets(&referral(&ask(client, 4, r"\files\data"))) != wanted {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_share_has_all_gateways_as_targets() {
    let server = one_of_two(free_port(), ONCE);
    let mut client = Client::ready(&server);
    assert_eq!(client.tree_connect("IPC$"), NtStatus::SUCCESS);
    let response = referral(&ask(&mut client, 4, r"\files.example.org\DATA\a\b"));
    let both = [r"\127.0.0.1\data", r"\localhost\data"];
    assert_eq!(targets(&response), both);
    assert_eq!((response.version, response.path_consumed), (4, 2 * 23));
    for flag in [
        ReferralFlags::REFERRAL_SERVERS,
        ReferralFlags::STORAGE_SERVERS,
        ReferralFlags::TARGET_FAILBACK,
    ] {
        assert!(response.flags.has(flag));
    }
    for entry in &response.entries {
        assert!(entry.is_root && entry.begins_set && entry.time_to_live == 60);
        assert_eq!(entry.path, r"\files.example.org\DATA");
    }
    for level in 1..=9 {
        let response = referral(&ask(&mut client, level, r"\files\data"));
        assert_eq!((response.version, targets(&response).len()), (level.min(4), 2));
        assert_eq!(response.flags.has(ReferralFlags::TARGET_FAILBACK), level >= 4);
    }
    let path = r"\files\data\".to_owned();
    let input = ReferralRequestEx { max_level: 3, path, site: Some("here".to_owned()) }.to_bytes();
    let request = ioctl(ControlCode::DFS_GET_REFERRALS_EX, input, 4096);
    assert_eq!(targets(&referral(&client.call(Command::Ioctl, &request))), both);
    for (path, status) in [
        ("", NtStatus::NOT_FOUND),
        (r"\files", NtStatus::NOT_FOUND),
        (r"\files\other", NtStatus::NOT_FOUND),
        (r"\files\IPC$", NtStatus::NOT_FOUND),
        (r"files\data", NtStatus::INVALID_PARAMETER),
        (r"\\files\data", NtStatus::INVALID_PARAMETER),
    ] {
        assert_eq!(ask(&mut client, 4, path).status(), status, "{path}");
    }
    assert_eq!(ask(&mut client, 0, r"\files\data").status(), NtStatus::INVALID_PARAMETER);
}

#[test]
fn an_answer_without_room_is_asked_for_again() {
    let server = one_of_two(free_port(), ONCE);
    let mut client = Client::ready(&server);
    let input = ReferralRequest { max_level: 4, path: r"\files\data".to_owned() }.to_bytes();
    let code = ControlCode::DFS_GET_REFERRALS;
    let whole = client.call(Command::Ioctl, &ioctl(code, input.clone(), 4096));
    let bytes = whole.body::<IoctlResponse>().output.len() as u32;
    let fits = client.call(Command::Ioctl, &ioctl(code, input.clone(), bytes));
    assert_eq!(fits.status(), NtStatus::SUCCESS);
    let short = client.call(Command::Ioctl, &ioctl(code, input, bytes - 1));
    assert_eq!(short.status(), NtStatus::BUFFER_OVERFLOW);
    assert!(short.body::<IoctlResponse>().output.is_empty());
}

#[test]
fn hostile_requests_for_referrals_are_refused() {
    let server = one_of_two(free_port(), ONCE);
    let mut client = Client::ready(&server);
    let plain = ControlCode::DFS_GET_REFERRALS;
    let extended = ControlCode::DFS_GET_REFERRALS_EX;
    let long = [&[4, 0][..], &[0x5c; 65_534]].concat();
    let path = ReferralRequest { max_level: 4, path: r"\n\".repeat(5000) }.to_bytes();
    let server_name = format!(r"\{}\data", "x".repeat(300));
    let server_name = ReferralRequest { max_level: 4, path: server_name }.to_bytes();
    let lengths = [&[4, 0, 1, 0, 255, 255, 255, 255, 255, 255][..], &[0x5c; 1000]].concat();
    let inner = [&[4, 0, 1, 0, 6, 0, 0, 0, 255, 255][..], &[0x5c; 4]].concat();
    for (code, input) in [
        (plain, Vec::new()),
        (plain, vec![4]),
        (plain, vec![4, 0]),
        (plain, vec![4, 0, 92]),
        (plain, vec![4, 0, 92, 0, 110, 0, 92, 0, 100, 0]),
        (plain, vec![4, 0, 0, 0xd8, 0, 0]),
        (plain, long.clone()),
        (plain, path),
        (plain, server_name),
        (extended, Vec::new()),
        (extended, vec![4, 0, 0, 0, 0, 0, 0, 0]),
        (extended, long),
        (extended, lengths),
        (extended, inner),
    ] {
        let length = input.len();
        let answer = client.call(Command::Ioctl, &ioctl(code, input, 65_536));
        assert_eq!(answer.status(), NtStatus::INVALID_PARAMETER, "{code:?} {length}");
    }
    let input = ReferralRequest { max_level: 4, path: r"\files\data".to_owned() }.to_bytes();
    let of_file = IoctlRequest { file_id: client.open("a"), ..ioctl(plain, input, 4096) };
    assert_eq!(client.call(Command::Ioctl, &of_file).status(), NtStatus::INVALID_PARAMETER);
    assert_eq!(client.call(Command::Echo, &Empty).status(), NtStatus::SUCCESS);
}

#[test]
fn a_gateway_is_offered_while_it_answers() {
    let port = free_port();
    let server = one_of_two(port, Duration::from_millis(20));
    let mut client = Client::ready(&server);
    let (own, other) = (r"\127.0.0.1\data", r"\localhost\data");
    wait_for(&mut client, &[own]);
    let started = Server::at(port, |_, _| {});
    wait_for(&mut client, &[own, other]);
    drop(started);
    wait_for(&mut client, &[own]);
}

/// Opens or makes a file, with the flag of DFS or without.
fn open(client: &mut Client, name: &str, is_dfs: bool) -> Answer {
    let mut header = client.header(Command::Create);
    if is_dfs {
        header.flags = Flags::DFS_OPERATIONS;
    }
    client.call_as(header, &create(name).to_bytes())
}

#[test]
fn names_of_dfs_begin_with_a_server_and_a_share() {
    let server = one_of_two(free_port(), ONCE);
    let mut client = Client::ready(&server);
    for name in [r"127.0.0.1\data\one", r"\files\data\two", r"any\thing\three"] {
        assert_eq!(open(&mut client, name, true).status(), NtStatus::SUCCESS, "{name}");
    }
    for name in ["one", "two", "three"] {
        assert!(client.has(name), "{name}");
    }
    for root in [r"files\data", r"files\data\", "files"] {
        let answer = open(&mut client, root, true);
        // The root is opened, and is no file that can be written to.
        let file = answer.body::<CreateResponse>();
        assert_eq!((answer.status(), file.file_attributes & 0x10), (NtStatus::SUCCESS, 0x10));
    }
    for (name, status) in [
        ("", NtStatus::INVALID_PARAMETER),
        (r"n\s\..\a", NtStatus::OBJECT_NAME_INVALID),
        (r"n\s\\a", NtStatus::INVALID_PARAMETER),
        (r"n\s:x\a", NtStatus::OBJECT_NAME_INVALID),
        (r"n\s\missing\a", NtStatus::OBJECT_PATH_NOT_FOUND),
    ] {
        assert_eq!(open(&mut client, name, true).status(), status, "{name}");
    }
    let plain = open(&mut client, r"127.0.0.1\data\one", false);
    assert_eq!(plain.status(), NtStatus::OBJECT_PATH_NOT_FOUND, "without the flag");
    assert_eq!(client.tree_connect("IPC$"), NtStatus::SUCCESS);
    assert_eq!(open(&mut client, "srvsvc", true).status(), NtStatus::SUCCESS);
}

/// Whether NEGOTIATE and TREE_CONNECT say that shares are in DFS: of a share and of the pipes.
fn shown(server: &Server, dialect: Dialect) -> [bool; 3] {
    let mut client = Client::connect(server);
    let negotiated = client.negotiate(&offer(&[dialect]));
    assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
    client.signs = true;
    let [share, pipes] = ["data", "IPC$"].map(|share| {
        let answer = client.call(Command::TreeConnect, &tree_connect(share));
        let tree: TreeConnectResponse = answer.body();
        let flags = [ShareFlags::DFS, ShareFlags::DFS_ROOT].map(|flag| tree.flags.has(flag));
        let is_dfs = tree.capabilities.has(ShareCapabilities::DFS);
        assert_eq!(flags, [is_dfs; 2]);
        is_dfs
    });
    [negotiated.capabilities.has(Capabilities::DFS), share, pipes]
}

#[test]
fn shares_are_in_dfs_if_there_is_a_list_of_gateways() {
    let (alone, with_list) = (Server::new(), one_of_two(free_port(), ONCE));
    for dialect in Dialect::ALL {
        assert_eq!(shown(&alone, dialect), [false; 3]);
        assert_eq!(shown(&with_list, dialect), [true, true, false]);
    }
    let mut client = Client::ready(&alone);
    let answer = ask(&mut client, 4, r"\files\data");
    assert_eq!(answer.status(), NtStatus::FS_DRIVER_REQUIRED);
    let flagged = open(&mut client, r"files\data\a", true);
    assert_eq!(flagged.status(), NtStatus::OBJECT_PATH_NOT_FOUND, "the flag is ignored");
}
