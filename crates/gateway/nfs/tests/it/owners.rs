//! The attributes `owner` and `owner_group`, and entries of lists, with names of a user database.

use std::io;
use std::sync::{Arc, Mutex, mpsc};

use braid_nfs::names::{NameKind, UserDatabase};
use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;

use crate::mount::*;
use crate::server::{TestServer, config};

/// Users and groups named `alice` (1000) and `staff` (100).
#[derive(Debug, Default)]
struct Database {
    /// Each answer waits for one message, if there is a channel.
    answers: Option<Mutex<mpsc::Receiver<()>>>,
}

const NAMES: [(&str, u32); 2] = [("alice", 1000), ("staff", 100)];

impl Database {
    fn wait(&self) {
        if let Some(answers) = &self.answers {
            let _ = answers.lock().unwrap().recv();
        }
    }
}

impl UserDatabase for Database {
    fn number(&self, _: NameKind, name: &str) -> io::Result<Option<u32>> {
        self.wait();
        Ok(NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number))
    }

    fn name(&self, _: NameKind, number: u32) -> io::Result<Option<String>> {
        self.wait();
        Ok(NAMES.iter().find(|(_, known)| *known == number).map(|(name, _)| (*name).to_owned()))
    }
}

async fn start(database: Database, domain: Option<&str>) -> TestServer {
    let mut config = config();
    config.users = Some(Arc::new(database));
    config.domain = domain.map(str::to_owned);
    TestServer::with_config(config).await
}

fn set(attributes: &Attributes) -> ArgOp {
    let attributes = encoded(attributes);
    ArgOp::SetAttr(SetAttrArgs { state_id: StateId::ANONYMOUS, attributes })
}

fn owners(owner: &str, group: &str) -> Attributes {
    let (owner, owner_group) = (Some(owner.to_owned().into()), Some(group.to_owned().into()));
    Attributes { owner, owner_group, ..Attributes::default() }
}

const OWNERS: [u32; 2] = [attribute::OWNER, attribute::OWNER_GROUP];

#[tokio::test]
async fn names_are_set_and_numbers_are_shown_without_a_domain() {
    let server = start(Database::default(), None).await;
    let mut a = Mount::new(&server, "a").await;
    let file = a.create("f").await;
    assert_eq!(a.status(file.op(set(&owners("alice", "staff")))).await, NfsStatus::Ok);
    assert_eq!(a.attributes(&file.handle, &OWNERS).await, owners("1000", "100"));
    for (owner, group) in [("bob", "staff"), ("alice", "bob"), ("alice@example.org", "100")] {
        let status = a.status(file.op(set(&owners(owner, group)))).await;
        assert_eq!(status, NfsStatus::BadOwner, "{owner} {group}");
    }
    let number = owners("5@example.org", "6");
    assert_eq!(a.status(file.op(set(&number))).await, NfsStatus::Ok);
    assert_eq!(a.attributes(&file.handle, &OWNERS).await, owners("5", "6"));
}

#[tokio::test]
async fn names_are_set_and_shown_with_a_domain() {
    let server = start(Database::default(), Some("example.org")).await;
    let mut a = Mount::new(&server, "a").await;
    let file = a.create("f").await;
    let named = owners("alice@example.org", "staff@example.org");
    assert_eq!(a.status(file.op(set(&owners("alice@EXAMPLE.org", "staff")))).await, NfsStatus::Ok);
    assert_eq!(a.attributes(&file.handle, &OWNERS).await, named);
    let other = owners("alice@other.org", "staff");
    assert_eq!(a.status(file.op(set(&other))).await, NfsStatus::BadOwner);
    for same in [named.clone(), owners("1000", "staff")] {
        let same = VerifyArgs { attributes: encoded(&same) };
        assert_eq!(a.status(file.op(ArgOp::Verify(same))).await, NfsStatus::Ok);
    }
    let entry = |flags, who: &'static str| Ace {
        ace_type: AceType::ALLOW,
        flags,
        mask: AceMask::READ_DATA,
        who: who.into(),
    };
    let (none, group) = (AceFlags::empty(), AceFlags::IDENTIFIER_GROUP);
    let list = |user, of_group, other| Attributes {
        acl: Some(vec![entry(none, user), entry(group, of_group), entry(none, other)]),
        ..Attributes::default()
    };
    let given = list("alice", "100", "77");
    assert_eq!(a.status(file.op(set(&given))).await, NfsStatus::Ok);
    let shown = a.attributes(&file.handle, &[attribute::ACL]).await;
    assert_eq!(shown, list("alice@example.org", "staff@example.org", "77"));
    let unknown = list("alice", "bob", "77");
    assert_eq!(a.status(file.op(set(&unknown))).await, NfsStatus::BadOwner);
    // READDIR shows the same.
    let args = ReadDirArgs {
        cookie: 0,
        verifier: Verifier([0; 8]),
        dir_count: 4096,
        max_count: 4096,
        attributes: Bitmap::of(&OWNERS),
    };
    let listed = crate::last!(ReadDir, a.run([ArgOp::PutRootFh, ArgOp::ReadDir(args)]).await);
    let entry = Attributes::from_encoded(&listed.entries[0].attributes).unwrap();
    assert_eq!(entry, named);
}

#[tokio::test]
async fn a_slow_user_database_delays_no_other_request() {
    let (answer, answers) = mpsc::channel();
    let server = start(Database { answers: Some(Mutex::new(answers)) }, None).await;
    let mut a = Mount::new(&server, "a").await;
    let mut b = Mount::new(&server, "b").await;
    let file = a.create("f").await;
    let ops = a.session.ops(file.op(set(&owners("alice", "staff"))));
    let slow = a.connection.send(&ops).await;
    // The test has one thread: if the lookup blocked it, this would never end.
    assert_eq!(b.attributes(&file.handle, &OWNERS).await, owners("0", "0"));
    answer.send(()).unwrap();
    answer.send(()).unwrap();
    assert_eq!(a.connection.receive_compound(slow).await.status, NfsStatus::Ok);
    assert_eq!(b.attributes(&file.handle, &OWNERS).await, owners("1000", "100"));
}
