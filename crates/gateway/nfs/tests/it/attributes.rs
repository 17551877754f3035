//! SETATTR, extended attributes, read-only exports and squash.

use braid_nfs::config::Squash;
use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;
use bytes::Bytes;

use crate::client::user;
use crate::last;
use crate::mount::*;
use crate::server::{TestServer, config, export};

async fn start() -> (TestServer, Mount, OpenFile) {
    let server = TestServer::start().await;
    let mut mount = Mount::new(&server, "a").await;
    let file = mount.create("f").await;
    (server, mount, file)
}

fn set(attributes: &Attributes) -> ArgOp {
    let attributes = encoded(attributes);
    ArgOp::SetAttr(SetAttrArgs { state_id: StateId::ANONYMOUS, attributes })
}

#[tokio::test]
async fn attributes_are_set_or_refused() {
    let (_server, mut a, file) = start().await;
    let none = Attributes::default;
    let late = NfsTime { seconds: 1, nanoseconds: 1_000_000_000 };
    for (attributes, expected) in [
        (Attributes { mode: Some(0o600), ..none() }, NfsStatus::Ok),
        (Attributes { owner: Some("7".into()), ..none() }, NfsStatus::Ok),
        (Attributes { owner_group: Some("8@domain".into()), ..none() }, NfsStatus::Ok),
        (Attributes { time_modify_set: Some(SetTime::Server), ..none() }, NfsStatus::Ok),
        (none(), NfsStatus::Ok),
        (Attributes { mode: Some(0o10000), ..none() }, NfsStatus::Inval),
        (Attributes { owner: Some("nobody".into()), ..none() }, NfsStatus::BadOwner),
        (Attributes { owner: Some("".into()), ..none() }, NfsStatus::Inval),
        (Attributes { time_access_set: Some(SetTime::Client(late)), ..none() }, NfsStatus::Inval),
        (Attributes { fileid: Some(1), ..none() }, NfsStatus::Inval),
        (Attributes { owner_group: Some("staff@domain".into()), ..none() }, NfsStatus::BadOwner),
        (Attributes { owner: Some("007".into()), ..none() }, NfsStatus::BadOwner),
    ] {
        let status = a.status(file.op(set(&attributes))).await;
        assert_eq!(status, expected, "{attributes:?}");
    }
    let which = [attribute::MODE, attribute::OWNER, attribute::OWNER_GROUP];
    let known = a.attributes(&file.handle, &which).await;
    assert_eq!(known.mode, Some(0o600));
    let ids = (known.owner.unwrap(), known.owner_group.unwrap());
    assert_eq!(ids, (Bytes::from_static(b"7"), Bytes::from_static(b"8")));
}

#[tokio::test]
async fn size_is_set_as_by_a_write() {
    let (_server, mut a, file) = start().await;
    a.make_directory("d").await;
    let reader = open("f", ShareAccess::READ, ShareDeny::NONE).by("reader");
    let reader = a.open(reader).await.unwrap();
    let refused = a.status(file.op(set_size(reader.id, 3))).await;
    assert_eq!(refused, NfsStatus::OpenMode);
    for (id, size) in [(file.id, 5), (StateId::ANONYMOUS, 2)] {
        assert_eq!(a.status(file.op(set_size(id, size))).await, NfsStatus::Ok);
        let known = a.attributes(&file.handle, &[attribute::SIZE]).await;
        assert_eq!(known.size, Some(size));
    }
    let dir = [ArgOp::PutRootFh, look_up("d"), set_size(StateId::ANONYMOUS, 0)];
    assert_eq!(a.status(dir).await, NfsStatus::WrongType);
}

#[tokio::test]
async fn users_change_only_their_own_files() {
    let (_server, mut a, file) = start().await;
    a.connection.credential = user(5);
    let mode = Attributes { mode: Some(0o777), ..Attributes::default() };
    assert_eq!(a.status(file.op(set(&mode))).await, NfsStatus::Perm);
}

fn set_xattr(option: SetXattrOption, name: &'static str, value: &'static [u8]) -> ArgOp {
    let (name, value) = (name.into(), Bytes::from_static(value));
    ArgOp::SetXattr(SetXattrArgs { option, name, value })
}

fn get_xattr(name: &'static str) -> ArgOp {
    ArgOp::GetXattr(XattrNameArgs { name: name.into() })
}

fn list_xattrs(cookie: u64, max_count: u32) -> ArgOp {
    ArgOp::ListXattrs(ListXattrsArgs { cookie, max_count })
}

#[tokio::test]
async fn extended_attributes_are_set_listed_and_removed() {
    let (_server, mut a, file) = start().await;
    let remove = |name: &'static str| ArgOp::RemoveXattr(XattrNameArgs { name: name.into() });
    for (op, expected) in [
        (get_xattr("k"), NfsStatus::NoXattr),
        (set_xattr(SetXattrOption::Replace, "k", b"v"), NfsStatus::NoXattr),
        (set_xattr(SetXattrOption::Create, "k", b"v"), NfsStatus::Ok),
        (set_xattr(SetXattrOption::Create, "k", b"w"), NfsStatus::Exist),
        (set_xattr(SetXattrOption::Replace, "k", b"w"), NfsStatus::Ok),
        (set_xattr(SetXattrOption::Either, "other", b"x"), NfsStatus::Ok),
        (set_xattr(SetXattrOption::Either, "", b"x"), NfsStatus::Inval),
        (list_xattrs(0, 20), NfsStatus::TooSmall),
        (remove("missing"), NfsStatus::NoXattr),
    ] {
        assert_eq!(a.status(file.op(op.clone())).await, expected, "{op:?}");
    }
    let value = last!(GetXattr, a.run(file.op(get_xattr("k"))).await).value;
    assert_eq!(value, Bytes::from_static(b"w"));
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        // One name fits.
        let page = last!(ListXattrs, a.run(file.op(list_xattrs(cookie, 28))).await);
        names.extend(page.names.into_iter().map(|name| name.0));
        cookie = page.cookie;
        if page.eof {
            break;
        }
    }
    assert_eq!(names, [Bytes::from_static(b"k"), Bytes::from_static(b"other")]);
    assert_eq!(a.status(file.op(remove("k"))).await, NfsStatus::Ok);
    assert_eq!(a.status(file.op(get_xattr("k"))).await, NfsStatus::NoXattr);
}

#[tokio::test]
async fn read_only_export_is_not_changed() {
    let (server, mut a, file) = start().await;
    let link = a.make_symlink("s").await;
    let mut read_only = config();
    read_only.exports[0].read_only = true;
    let server = TestServer::with_share(server.share.another_gateway(), read_only).await;
    let mut b = Mount::new(&server, "b").await;
    let mode = Attributes { mode: Some(0o777), ..Attributes::default() };
    let name = || Bytes::from_static(b"f");
    for op in [
        open("f", ShareAccess::WRITE, ShareDeny::NONE),
        open("new", ShareAccess::READ, ShareDeny::NONE).create(),
        create(CreateObject::Other(NfsFtype::Directory), "d"),
        ArgOp::Remove(RemoveArgs { name: name() }),
        write(StateId::ANONYMOUS, 0, b"x"),
        ArgOp::Commit(CommitArgs { offset: 0, count: 0 }),
        set(&mode),
        set_xattr(SetXattrOption::Either, "k", b"v"),
    ] {
        assert_eq!(b.status([ArgOp::PutRootFh, op.clone()]).await, NfsStatus::RoFs, "{op:?}");
    }
    let save = [put(&file.handle), ArgOp::SaveFh, ArgOp::PutRootFh];
    let new_name = Bytes::from_static(b"new");
    let rename = ArgOp::Rename(RenameArgs { old_name: name(), new_name: new_name.clone() });
    for op in [rename, ArgOp::Link(LinkArgs { new_name })] {
        let ops = save.clone().into_iter().chain([op]);
        assert_eq!(b.status(ops).await, NfsStatus::RoFs);
    }
    b.open(open("f", ShareAccess::READ, ShareDeny::NONE)).await.unwrap();
    assert_eq!(b.status(at(&link, ArgOp::ReadLink)).await, NfsStatus::Ok);
}

#[tokio::test]
async fn squashed_users_own_what_they_create() {
    for (squash, uid, expected) in [
        (Squash::None, 0, "0"),
        (Squash::Root, 0, "99"),
        (Squash::Root, 5, "5"),
        (Squash::All, 5, "99"),
    ] {
        let mut squashed = config();
        squashed.exports[0].squash = squash;
        squashed.exports[0].anonymous_uid = 99;
        let server = TestServer::with_config(squashed).await;
        open_to_all(&server).await;
        let mut a = Mount::new(&server, "a").await;
        a.connection.credential = user(uid);
        let file = a.create("f").await;
        let known = a.attributes(&file.handle, &[attribute::OWNER]).await;
        assert_eq!(known.owner, Some(expected.into()), "{squash:?} {uid}");
    }
}

/// Lets all users create names in the root directory.
async fn open_to_all(server: &TestServer) {
    use braid_share::{AttributeChanges, FileIndex, Identity, Share, ShareClient};
    let root = Identity { uid: 0, gid: 0, groups: Vec::new(), checked: false };
    let changes = AttributeChanges { mode: Some(0o777), ..AttributeChanges::none() };
    let client = server.share.own_client();
    client.set_attributes(&root, FileIndex::ROOT, changes).await.unwrap();
}

#[tokio::test]
async fn names_do_not_move_between_exports() {
    let server = TestServer::start().await;
    let mut a = Mount::new(&server, "a").await;
    a.make_directory("one").await;
    a.make_directory("two").await;
    let mut both = config();
    both.exports = vec![export("/one"), export("/two")];
    let server = TestServer::with_share(server.share.another_gateway(), both).await;
    let mut b = Mount::new(&server, "b").await;
    let file = open("f", ShareAccess::BOTH, ShareDeny::NONE).create();
    let file = b.handle([ArgOp::PutRootFh, look_up("one"), file]).await;
    let (old_name, new_name) = (Bytes::from_static(b"f"), Bytes::from_static(b"g"));
    let rename = ArgOp::Rename(RenameArgs { old_name, new_name: new_name.clone() });
    let two = [ArgOp::PutRootFh, look_up("two")];
    let from_one = [ArgOp::PutRootFh, look_up("one"), ArgOp::SaveFh];
    let renamed = b.status(from_one.into_iter().chain(two.clone()).chain([rename])).await;
    assert_eq!(renamed, NfsStatus::XDev);
    let link = ArgOp::Link(LinkArgs { new_name });
    let linked = [put(&file), ArgOp::SaveFh].into_iter().chain(two).chain([link]);
    assert_eq!(b.status(linked).await, NfsStatus::XDev);
    // RFC 8881 7.3: above the exports nothing is created.
    let dir = create(CreateObject::Other(NfsFtype::Directory), "d");
    assert_eq!(b.status([ArgOp::PutRootFh, dir]).await, NfsStatus::RoFs);
    // The other gateway exports the root, so a handle of it names another export.
    let old = a.handle([ArgOp::PutRootFh, look_up("one")]).await;
    assert_eq!(b.status([put(&old)]).await, NfsStatus::Stale);
}
