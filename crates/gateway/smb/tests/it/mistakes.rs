//! What the log says about mistakes of operators and users.

use std::sync::Arc;

use braid_share::Identity;
use braid_smb::{NoUser, ShareConfig, User, Users};
use braid_smb_wire::NtStatus;
use braid_smb_wire::auth::ntlm::NtHash;
use braid_smb_wire::smb2::Dialect;

use crate::client::{Client, offer};
use crate::server::{Server, logged};

/// Users of a file that cannot be read.
#[derive(Debug)]
struct Unreadable;

impl Users for Unreadable {
    fn user(&self, _: &str) -> Result<(NtHash, User), NoUser> {
        Err(NoUser::Unusable("no user can log on: the file has mode 0644; try: chmod".to_owned()))
    }

    fn guest(&self) -> User {
        let identity = Identity { uid: 65_534, gid: 65_534, groups: Vec::new(), checked: false };
        User { name: "guest".to_owned(), identity, groups: Vec::new() }
    }
}

#[test]
fn a_share_without_its_directory_is_named_and_stops_no_other() {
    let lost = ShareConfig::new("lost", "/no/such");
    let server = Server::with(|config| config.shares.push(lost));
    let mut client = Client::ready(&server);
    assert_eq!(client.tree_connect("lost"), NtStatus::BAD_NETWORK_NAME);
    assert_eq!(client.tree_connect("data"), NtStatus::SUCCESS);
    let lines = logged("share lost cannot be used: ");
    let says = "/no/such does not exist; try: braid mkdir -p /no/such";
    assert!(lines.len() == 1 && lines[0].contains(says), "{lines:?}");
}

#[test]
fn an_unknown_share_is_in_the_log_once_for_each_connection() {
    let server = Server::new();
    for _ in 0..2 {
        let mut client = Client::ready(&server);
        for share in ["tpyo", "tpyo\u{1b}[31m"] {
            assert_eq!(client.tree_connect(share), NtStatus::BAD_NETWORK_NAME);
        }
    }
    let lines = logged("tpyo");
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("share \"tpyo\": no share has this name; try: "), "{lines:?}");
    assert!(lines[0].contains("user=\"alice\"") && lines[0].contains("peer=127.0.0.1"));
}

#[test]
fn a_users_file_that_cannot_be_used_is_the_reason_and_makes_no_guests() {
    let server = Server::with(|config| {
        config.users = Arc::new(Unreadable);
        config.shares.push(ShareConfig { guests: true, ..ShareConfig::new("open", "/") });
    });
    let mut client = Client::connect(&server);
    client.negotiate(&offer(&[Dialect::Smb311]));
    assert_eq!(client.log_on("unreadable-user"), NtStatus::LOGON_FAILURE);
    let lines = logged("unreadable-user");
    assert!(lines.len() == 1 && lines[0].contains("the file has mode 0644"), "{lines:?}");
    assert!(!lines[0].contains("password"), "{lines:?}");
}
