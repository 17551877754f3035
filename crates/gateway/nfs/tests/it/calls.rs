//! How many calls of the metadata server the usual compounds of Linux cost (ADR 0041).

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;

use crate::cluster::GatewayOfCluster;
use crate::last;
use crate::mount::{
    Mount, OpenFile, OpenOp, at, close, create, encoded, look_up, open, put, set_size, write,
};

/// What Linux asks for after most operations, without attributes of the file system.
fn get_attr() -> ArgOp {
    let which = [
        attribute::TYPE,
        attribute::CHANGE,
        attribute::SIZE,
        attribute::FSID,
        attribute::FILEID,
        attribute::MODE,
        attribute::NUMLINKS,
        attribute::OWNER,
        attribute::OWNER_GROUP,
        attribute::SPACE_USED,
        attribute::TIME_ACCESS,
        attribute::TIME_METADATA,
        attribute::TIME_MODIFY,
    ];
    ArgOp::GetAttr(GetAttrArgs { attributes: Bitmap::of(&which) })
}

fn access() -> ArgOp {
    ArgOp::Access(AccessArgs { access: AccessBits::READ | AccessBits::MODIFY | AccessBits::EXTEND })
}

/// A client of a gateway whose calls are counted.
struct Counted {
    gateway: GatewayOfCluster,
    mount: Mount,
    root: FileHandle,
}

impl Counted {
    async fn start() -> Self {
        let gateway = GatewayOfCluster::start().await;
        let mut connection = gateway.connect().await;
        connection.minor_version = 2;
        let session = connection.session("counted").await;
        let mut mount = Mount { connection, session };
        let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        assert_eq!(mount.status([complete]).await, NfsStatus::Ok);
        let root = mount.root().await;
        // The first call of a user also defines its identity.
        assert_eq!(mount.status(at(&root, get_attr())).await, NfsStatus::Ok);
        gateway.take_calls();
        Self { gateway, mount, root }
    }

    /// Runs a compound, which must succeed, and returns the calls that it needed.
    async fn calls(&mut self, ops: Vec<ArgOp>) -> Vec<&'static str> {
        self.gateway.take_calls();
        let result = self.mount.run(ops).await;
        assert_eq!(result.status, NfsStatus::Ok, "{:?}", result.results);
        self.gateway.take_calls()
    }

    fn at_root(&self, ops: impl IntoIterator<Item = ArgOp>) -> Vec<ArgOp> {
        [put(&self.root)].into_iter().chain(ops).collect()
    }

    async fn make(&mut self, name: &str) -> OpenFile {
        let made = self.mount.create(name).await;
        self.gateway.take_calls();
        made
    }

    /// OPEN as Linux sends it: with ACCESS and GETATTR. The file, and the calls.
    async fn open(&mut self, open: ArgOp) -> (OpenFile, ChangeInfo, Vec<&'static str>) {
        let ops = self.at_root([open, ArgOp::GetFh, access(), get_attr()]);
        self.gateway.take_calls();
        let result = self.mount.run(ops).await;
        assert_eq!(result.status, NfsStatus::Ok, "{:?}", result.results);
        let calls = self.gateway.take_calls();
        match &result.results[2..4] {
            [ResOp::Open(Ok(opened)), ResOp::GetFh(Ok(handle))] => {
                let file = OpenFile { handle: handle.handle.clone(), id: opened.state_id };
                (file, opened.change, calls)
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_compounds_cost_one_call_each() {
    let mut counted = Counted::start().await;
    let file = counted.make("f").await;
    let ops = counted.at_root([look_up("f"), ArgOp::GetFh, get_attr()]);
    assert_eq!(counted.calls(ops).await, ["Stat"], "lookup");
    assert_eq!(counted.calls(file.op(get_attr()).into()).await, ["Stat"], "getattr");
    let ops = vec![put(&file.handle), access(), get_attr()];
    assert_eq!(counted.calls(ops).await, ["Stat"], "access");
    counted.mount.make_symlink("l").await;
    let link = counted.mount.handle(counted.at_root([look_up("l")])).await;
    assert_eq!(counted.calls(at(&link, ArgOp::ReadLink).into()).await, ["ReadLink"], "readlink");
    let list = ArgOp::ReadDir(ReadDirArgs {
        cookie: 0,
        verifier: Verifier([0; 8]),
        dir_count: 4096,
        max_count: 32_768,
        attributes: Bitmap::of(&[attribute::FILEID, attribute::SIZE, attribute::MODE]),
    });
    let ops = counted.at_root([list]);
    assert_eq!(counted.calls(ops).await, ["ReadDirectory"], "readdir");
}

#[tokio::test(flavor = "multi_thread")]
async fn open_costs_one_call_whether_the_file_exists_or_not() {
    let mut counted = Counted::start().await;
    let new = open("f", ShareAccess::BOTH, ShareDeny::NONE).create();
    let (file, made, calls) = counted.open(new.clone()).await;
    assert_eq!(calls, ["OpenEntry"], "open of a new file");
    assert!(made.atomic && made.after > made.before, "{made:?}");
    assert_eq!(counted.mount.close(&file).await, NfsStatus::Ok);
    let (file, found, calls) = counted.open(new).await;
    assert_eq!(calls, ["OpenEntry"], "open-or-create of an existing file");
    let unchanged = ChangeInfo { atomic: true, before: made.after, after: made.after };
    assert_eq!(found, unchanged, "nothing was created");
    assert_eq!(counted.mount.close(&file).await, NfsStatus::Ok);
    let (file, _, calls) = counted.open(open("f", ShareAccess::READ, ShareDeny::NONE)).await;
    assert_eq!(calls, ["OpenEntry"], "open of an existing file");
    assert_eq!(counted.mount.close(&file).await, NfsStatus::Ok);
    let empty = Attributes { size: Some(0), ..Attributes::default() };
    let truncating = open("f", ShareAccess::BOTH, ShareDeny::NONE)
        .how(OpenHow::Create(CreateHow::Unchecked(encoded(&empty))));
    let (_, _, calls) = counted.open(truncating).await;
    assert_eq!(calls, ["OpenEntry"], "open with truncation");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_kinds_have_their_status_after_an_open() {
    let mut counted = Counted::start().await;
    counted.mount.make_symlink("l").await;
    counted.mount.make_directory("d").await;
    counted.mount.handle(counted.at_root([create(CreateObject::Other(NfsFtype::Fifo), "p")])).await;
    let refused = [
        ("l", NfsStatus::SymLink),
        ("d", NfsStatus::IsDir),
        ("p", NfsStatus::WrongType),
        ("none", NfsStatus::NoEnt),
    ];
    for (name, status) in refused {
        let opening = open(name, ShareAccess::READ, ShareDeny::NONE);
        assert_eq!(counted.mount.open(opening.clone()).await, Err(status), "{name}");
        if status != NfsStatus::NoEnt {
            assert_eq!(counted.mount.open(opening.create()).await, Err(status), "create {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::await_holding_lock, reason = "the guard holds back a thread of its own")]
async fn close_costs_no_call_and_waits_for_none() {
    let mut counted = Counted::start().await;
    let file = counted.make("f").await;
    // The metadata server gets nothing while CLOSE is answered.
    let held = counted.gateway.hold_calls();
    let status = counted.mount.session.ops(file.op(close(file.id)));
    let result = counted.mount.connection.compound(&status).await;
    drop(held);
    assert_eq!(result.status, NfsStatus::Ok);
    assert!(counted.gateway.take_calls().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn changing_compounds_cost_one_call_and_are_atomic() {
    let mut counted = Counted::start().await;
    let file = counted.make("f").await;
    let below = counted.mount.make_directory("below").await;
    let mode = Attributes { mode: Some(0o600), ..Attributes::default() };
    let set = ArgOp::SetAttr(SetAttrArgs { state_id: file.id, attributes: encoded(&mode) });
    let ops = vec![put(&file.handle), set, get_attr()];
    assert_eq!(counted.calls(ops).await, ["SetAttributes"], "setattr");
    let ops = vec![put(&file.handle), set_size(file.id, 100), get_attr()];
    assert_eq!(counted.calls(ops).await, ["SetAttributes"], "truncate");
    let made = create(CreateObject::Other(NfsFtype::Directory), "d");
    let ops = counted.at_root([made, ArgOp::GetFh, get_attr()]);
    assert_eq!(counted.calls(ops).await, ["MakeEntry"], "mkdir");
    let link = ArgOp::Link(LinkArgs { new_name: "g".into() });
    let ops = [put(&file.handle), ArgOp::SaveFh, put(&counted.root)];
    let ops = ops.into_iter().chain([link, ArgOp::RestoreFh, get_attr()]).collect();
    assert_eq!(counted.calls(ops).await, ["MakeEntry"], "link");
    let renamed = ArgOp::Rename(RenameArgs { old_name: "g".into(), new_name: "h".into() });
    let mut ops = vec![put(&counted.root), ArgOp::SaveFh, put(&below)];
    ops.push(renamed);
    counted.gateway.take_calls();
    let renamed = last!(Rename, counted.mount.run(ops).await);
    assert_eq!(counted.gateway.take_calls(), ["RenameEntry"], "rename");
    for change in [renamed.source, renamed.target] {
        assert!(change.atomic && change.after > change.before, "{change:?}");
    }
    for name in ["f", "d"] {
        let remove = ArgOp::Remove(RemoveArgs { name: name.to_owned().into() });
        let before = counted.mount.attributes(&counted.root.clone(), &[attribute::CHANGE]).await;
        counted.gateway.take_calls();
        let removed = last!(Remove, counted.mount.run(counted.at_root([remove])).await).change;
        assert_eq!(counted.gateway.take_calls(), ["RemoveEntry"], "remove {name}");
        assert!(removed.atomic && removed.after > removed.before, "{removed:?}");
        let after = counted.mount.attributes(&counted.root.clone(), &[attribute::CHANGE]).await;
        assert_eq!((before.change, after.change), (Some(removed.before), Some(removed.after)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attributes_show_what_the_same_compound_has_changed() {
    let mut counted = Counted::start().await;
    let file = counted.make("f").await;
    let (size, before) = (ArgOp::GetAttr(GetAttrArgs { attributes: SIZE }), 0);
    let ops = counted.at_root([
        look_up("f"),
        size.clone(),
        write(file.id, 0, b"123456"),
        size.clone(),
        set_size(file.id, 3),
        size,
    ]);
    let result = counted.mount.run(ops).await;
    assert_eq!(result.status, NfsStatus::Ok, "{:?}", result.results);
    let sizes: Vec<_> = result.results.iter().filter_map(size_of).collect();
    assert_eq!(sizes, [before, 6, 3]);
}

const SIZE: Bitmap = Bitmap::of(&[attribute::SIZE]);

fn size_of(result: &ResOp) -> Option<u64> {
    match result {
        ResOp::GetAttr(Ok(got)) => Attributes::from_encoded(&got.attributes).unwrap().size,
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_costs_one_call_to_set_and_none_where_there_is_no_list() {
    let mut counted = Counted::start().await;
    let file = counted.make("f").await;
    let acl = || ArgOp::GetAttr(GetAttrArgs { attributes: Bitmap::of(&[attribute::ACL]) });
    let shown = vec![put(&file.handle), get_attr(), acl()];
    assert_eq!(counted.calls(shown.clone()).await, ["Stat"], "without a list");
    let named = Ace {
        ace_type: AceType::ALLOW,
        flags: AceFlags::empty(),
        mask: AceMask::READ_DATA,
        who: "7".into(),
    };
    let both = Attributes { mode: Some(0o600), acl: Some(vec![named]), ..Attributes::default() };
    let state_id = StateId::ANONYMOUS;
    let set = ArgOp::SetAttr(SetAttrArgs { state_id, attributes: encoded(&both) });
    let ops = vec![put(&file.handle), set, get_attr()];
    assert_eq!(counted.calls(ops).await, ["SetAttributesAndAcl"], "mode and list");
    assert_eq!(counted.calls(shown).await, ["Stat", "GetXattr"], "with a list");
}
