//! Exports: addresses and security flavours.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::results::{SecInfo, SecInfoResult};
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::rpc::auth::OpaqueAuth;
use braid_share::{Identity, Share, ShareClient};

use crate::last;
use crate::mount::{Mount, look_up, put};
use crate::server::{TestServer, config, export};

const ROOT: Identity = Identity { uid: 0, gid: 0, groups: Vec::new(), checked: false };

/// The directory `/data` in the file system.
async fn make_data(server: &TestServer) {
    let root = braid_share::FileIndex::ROOT;
    let client = server.share.own_client();
    client.make_directory(&ROOT, root, b"data", 0o755).await.unwrap();
}

fn sec_info(name: &str) -> ArgOp {
    ArgOp::SecInfo(SecInfoArgs { name: name.to_owned().into() })
}

fn no_name(style: SecInfoStyle) -> ArgOp {
    ArgOp::SecInfoNoName(SecInfoNoNameArgs { style })
}

fn sys() -> SecInfoResult {
    SecInfoResult(vec![SecInfo::Flavour(1)])
}

#[tokio::test]
async fn server_without_exports_has_an_empty_root() {
    let mut nothing = config();
    nothing.exports.clear();
    let server = TestServer::with_config(nothing).await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let ops = session.ops([ArgOp::PutRootFh, ArgOp::GetFh]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Ok);
    let ops = session.ops([ArgOp::PutRootFh, sec_info("data")]);
    assert_eq!(connection.status(&ops).await, NfsStatus::NoEnt);
}

#[tokio::test]
async fn address_outside_the_ranges_gets_no_access() {
    let mut other = config();
    other.exports[0].clients = vec!["10.9.8.0/24".parse().unwrap()];
    let server = TestServer::with_config(other).await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let ops = session.ops([ArgOp::PutRootFh]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Access);
}

#[tokio::test]
async fn handle_of_an_export_for_others_is_stale() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let ops = session.ops([ArgOp::PutRootFh, ArgOp::GetFh]);
    let handle = last!(GetFh, connection.compound(&ops).await).handle;
    let mut other = config();
    other.exports[0].clients = vec!["10.9.8.0/24".parse().unwrap()];
    let other = TestServer::with_share(server.share.another_gateway(), other).await;
    let mut connection = other.connect().await;
    let mut session = connection.session("a").await;
    let ops = session.ops([ArgOp::PutFh(PutFhArgs { handle })]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Stale);
}

#[tokio::test]
async fn flavour_that_is_not_allowed_is_refused_when_a_file_is_used() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    connection.credential = OpaqueAuth::none();
    let style = SecInfoStyle::CurrentFh;
    for (ops, expected) in [
        // RFC 8881 2.6.3.1: nothing is accessed, or the next operation reports the flavours.
        (vec![ArgOp::PutRootFh], NfsStatus::Ok),
        (vec![ArgOp::PutRootFh, no_name(style)], NfsStatus::Ok),
        (vec![ArgOp::PutRootFh, ArgOp::PutRootFh], NfsStatus::Ok),
        (vec![ArgOp::PutRootFh, ArgOp::GetFh], NfsStatus::WrongSec),
        (vec![ArgOp::PutRootFh, ArgOp::SaveFh, ArgOp::GetFh], NfsStatus::Ok),
        (
            vec![ArgOp::PutRootFh, ArgOp::SaveFh, ArgOp::RestoreFh, ArgOp::GetFh],
            NfsStatus::WrongSec,
        ),
    ] {
        let compound = session.ops(ops.clone());
        assert_eq!(connection.status(&compound).await, expected, "{ops:?}");
    }
}

#[tokio::test]
async fn any_flavour_passes_the_pseudo_file_system() {
    let mut one = config();
    one.exports = vec![export("/data")];
    let server = TestServer::with_config(one).await;
    make_data(&server).await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    connection.credential = OpaqueAuth::none();
    let ops = session.ops([ArgOp::PutRootFh, ArgOp::GetFh]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Ok);
    let ops = session.ops([ArgOp::PutRootFh, sec_info("data")]);
    assert_eq!(last!(SecInfo, connection.compound(&ops).await), sys());
}

#[tokio::test]
async fn sec_info_finds_names_and_consumes_the_handle() {
    let server = TestServer::start().await;
    make_data(&server).await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let ops = session.ops([ArgOp::PutRootFh, sec_info("data")]);
    assert_eq!(last!(SecInfo, connection.compound(&ops).await), sys());
    for (name, expected) in [
        ("other", NfsStatus::NoEnt),
        ("", NfsStatus::Inval),
        ("..", NfsStatus::BadName),
        ("a/b", NfsStatus::BadChar),
    ] {
        let ops = session.ops([ArgOp::PutRootFh, sec_info(name)]);
        assert_eq!(connection.status(&ops).await, expected, "{name:?}");
    }
    for op in [sec_info("data"), no_name(SecInfoStyle::CurrentFh)] {
        let ops = session.ops([ArgOp::PutRootFh, op, ArgOp::GetFh]);
        assert_eq!(connection.status(&ops).await, NfsStatus::NoFileHandle);
    }
    let ops = session.ops([sec_info("data")]);
    assert_eq!(connection.status(&ops).await, NfsStatus::NoFileHandle);
}

#[tokio::test]
async fn root_has_no_parent_for_sec_info_no_name() {
    let server = TestServer::start().await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let ops = session.ops([ArgOp::PutRootFh, no_name(SecInfoStyle::CurrentFh)]);
    assert_eq!(last!(SecInfoNoName, connection.compound(&ops).await), sys());
    let ops = session.ops([ArgOp::PutRootFh, no_name(SecInfoStyle::Parent)]);
    assert_eq!(connection.status(&ops).await, NfsStatus::NoEnt);
}

#[tokio::test]
async fn export_of_a_directory_that_is_missing_is_no_entry() {
    let mut missing = config();
    missing.exports = vec![export("/")];
    missing.exports[0].path = "/data".into();
    let server = TestServer::with_config(missing).await;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let node = server.server.exports.all()[0].node();
    let number = server.server.exports.pseudo(node).number;
    let target = braid_nfs::handle::HandleTarget::Pseudo { node: number };
    let handle = server.server.handles.encode(target);
    let ops = session.ops([ArgOp::PutFh(PutFhArgs { handle: handle.clone() })]);
    assert_eq!(connection.status(&ops).await, NfsStatus::NoEnt);
    make_data(&server).await;
    let ops = session.ops([ArgOp::PutFh(PutFhArgs { handle })]);
    assert_eq!(connection.status(&ops).await, NfsStatus::Ok, "it exists now");
}

#[tokio::test]
async fn directory_moved_out_of_its_export_has_no_parent() {
    let mut one = config();
    one.exports = vec![export("/data")];
    let server = TestServer::with_config(one).await;
    make_data(&server).await;
    let client = server.share.own_client();
    let root = braid_share::FileIndex::ROOT;
    let data = client.look_up(&ROOT, root, b"data").await.unwrap().file;
    let made = client.make_directory(&ROOT, data, b"a", 0o755).await.unwrap();
    let inner = client.make_directory(&ROOT, made.0.file, b"b", 0o755).await.unwrap().0.file;
    let mut connection = server.connect().await;
    let mut session = connection.session("a").await;
    let number = server.server.exports.all()[0].number();
    let target = braid_nfs::handle::HandleTarget::File { export: number, file: inner };
    let put = ArgOp::PutFh(PutFhArgs { handle: server.server.handles.encode(target) });
    let parent = [put, no_name(SecInfoStyle::Parent)];
    let ops = session.ops(parent.clone());
    assert_eq!(last!(SecInfoNoName, connection.compound(&ops).await), sys());
    let rename = braid_share::RenameMode::Replace;
    client.rename(&ROOT, (data, b"a"), (root, b"a"), rename).await.unwrap();
    let ops = session.ops(parent);
    assert_eq!(connection.status(&ops).await, NfsStatus::Stale);
}

#[tokio::test]
async fn copy_between_exports_is_refused_as_between_file_systems() {
    let mut two = config();
    two.exports.push(export("/data"));
    let server = TestServer::with_config(two).await;
    make_data(&server).await;
    let mut mount = Mount::new(&server, "a").await;
    let source = mount.create("source").await;
    let data = mount.handle([ArgOp::PutRootFh, look_up("data")]).await;
    let copy = ArgOp::Copy(CopyArgs {
        source_state_id: source.id,
        destination_state_id: StateId::ANONYMOUS,
        source_offset: 0,
        destination_offset: 0,
        count: 0,
        consecutive: true,
        synchronous: true,
        source_servers: Vec::new(),
    });
    let clone = ArgOp::Clone(CloneArgs {
        source_state_id: source.id,
        destination_state_id: StateId::ANONYMOUS,
        source_offset: 0,
        destination_offset: 0,
        count: 0,
    });
    for op in [copy, clone] {
        let ops = [put(&source.handle), ArgOp::SaveFh, put(&data), op];
        assert_eq!(mount.status(ops).await, NfsStatus::XDev);
    }
}
