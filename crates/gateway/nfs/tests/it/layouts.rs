//! Layouts of type `files`, and the devices that they name.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::layout_files::{FileDevice, FileLayout};
use braid_nfs_wire::nfs4::results::{GetDeviceInfoFailure, LayoutGetFailure};
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::xdr::{Decoder, Xdr};
use braid_share::{ByteCount, DataServer, DirectAccess, FileIndex};
use braid_types::IodId;

use crate::client::{CHANNEL, Session, create_args};
use crate::last;
use crate::mount::*;
use crate::server::{TestServer, config};

pub async fn start() -> (TestServer, Mount, OpenFile) {
    let mut pnfs = config();
    pnfs.exports[0].pnfs = true;
    let server = TestServer::with_config(pnfs).await;
    let mut mount = Mount::new(&server, "a").await;
    let file = mount.create("f").await;
    (server, mount, file)
}

/// Two data servers with one part each.
pub fn two_parts() -> DirectAccess {
    let server = |number| DataServer {
        iod: IodId(number),
        addresses: vec![format!("127.0.0.{number}:2050")],
    };
    DirectAccess {
        stripe_bytes: ByteCount(1 << 20),
        servers: vec![server(1), server(2)],
        first_part: 1,
        handles: vec![b"part 0".to_vec(), b"part 1".to_vec()],
    }
}

pub async fn set_access(server: &TestServer, mount: &mut Mount, file: &OpenFile) {
    let known = mount.attributes(&file.handle, &[attribute::FILEID]).await;
    server.share.set_direct_access(FileIndex(known.fileid.unwrap()), two_parts());
}

/// Whether a client gets a layout of a file that has data servers. The attribute must say the same.
pub async fn are_given(server: &TestServer, mount: &mut Mount) -> bool {
    let file = mount.create("layout").await;
    set_access(server, mount, &file).await;
    let get = ArgOp::LayoutGet(layout_get(file.id, LayoutIoMode::Read));
    let given = match mount.run(file.op(get)).await.status {
        NfsStatus::Ok => true,
        NfsStatus::LayoutUnavailable => false,
        other => panic!("{other:?}"),
    };
    let known = mount.attributes(&file.handle, &[attribute::FS_LAYOUT_TYPES]).await;
    let expected = if given { vec![LayoutType::FILES] } else { Vec::new() };
    assert_eq!(known.fs_layout_types, Some(expected));
    given
}

pub fn layout_get(state_id: StateId, io_mode: LayoutIoMode) -> LayoutGetArgs {
    LayoutGetArgs {
        signal_available: false,
        layout_type: LayoutType::FILES,
        io_mode,
        offset: 0,
        length: LENGTH_TO_END,
        min_length: 4096,
        state_id,
        max_count: 4096,
    }
}

pub fn give_back(state_id: StateId) -> ArgOp {
    let (offset, length, body) = (0, LENGTH_TO_END, "".into());
    let what = LayoutReturnWhat::File(LayoutReturnFile { offset, length, state_id, body });
    let (layout_type, io_mode) = (LayoutType::FILES, LayoutIoMode::Any);
    ArgOp::LayoutReturn(LayoutReturnArgs { reclaim: false, layout_type, io_mode, what })
}

fn commit(state_id: StateId) -> ArgOp {
    ArgOp::LayoutCommit(LayoutCommitArgs {
        offset: 0,
        length: LENGTH_TO_END,
        reclaim: false,
        state_id,
        last_write_offset: Some(9),
        time_modify: None,
        update: LayoutUpdate { layout_type: LayoutType::FILES, body: "".into() },
    })
}

#[tokio::test]
async fn layout_names_the_servers_of_the_parts() {
    let (server, mut a, file) = start().await;
    set_access(&server, &mut a, &file).await;
    let get = ArgOp::LayoutGet(layout_get(file.id, LayoutIoMode::ReadWrite));
    let got = last!(LayoutGet, a.run(file.op(get)).await);
    assert_eq!((got.state_id.seqid, got.return_on_close), (1, true));
    let [layout] = &got.layouts[..] else { panic!("{got:?}") };
    assert_eq!((layout.offset, layout.length), (0, LENGTH_TO_END));
    let content = FileLayout::decode(&mut Decoder::new(layout.content.clone())).unwrap();
    assert_eq!(content.util.stripe_unit(), 1 << 20);
    assert!(!content.util.is_dense());
    assert_eq!(content.first_stripe_index, 1);
    let handles: Vec<_> = content.handles.iter().map(|handle| &handle.0[..]).collect();
    assert_eq!(handles, [b"part 0", b"part 1"]);

    let device = GetDeviceInfoArgs {
        device_id: content.device_id,
        layout_type: LayoutType::FILES,
        max_count: 4096,
        notify_types: Bitmap::new(),
    };
    let known = last!(GetDeviceInfo, a.run([ArgOp::GetDeviceInfo(device)]).await);
    let known = FileDevice::decode(&mut Decoder::new(known.address)).unwrap();
    assert_eq!(known.stripe_indices, [0, 1]);
    let address = &known.data_servers[1].0[0];
    assert_eq!(&address.address[..], b"127.0.0.2.8.2");
    let small = GetDeviceInfoArgs { max_count: 8, ..device };
    let refused = a.run([ArgOp::GetDeviceInfo(small)]).await.results.pop();
    let Some(ResOp::GetDeviceInfo(Err(GetDeviceInfoFailure::TooSmall(bytes)))) = refused else {
        panic!("{refused:?}")
    };
    let enough = GetDeviceInfoArgs { max_count: bytes, ..device };
    assert_eq!(a.status([ArgOp::GetDeviceInfo(enough)]).await, NfsStatus::Ok);
    let unknown = GetDeviceInfoArgs { device_id: DeviceId([3; 16]), ..device };
    assert_eq!(a.status([ArgOp::GetDeviceInfo(unknown)]).await, NfsStatus::NoEnt);
}

/// As many parts as a layout can have, with handles of the usual length.
fn many_parts() -> DirectAccess {
    let two = two_parts();
    DirectAccess {
        servers: two.servers.into_iter().cycle().take(32).collect(),
        handles: vec![vec![7; 105]; 32],
        ..two
    }
}

#[tokio::test]
async fn layout_that_exceeds_the_reply_changes_no_state() {
    let (server, mut a, file) = start().await;
    let known = a.attributes(&file.handle, &[attribute::FILEID]).await;
    server.share.set_direct_access(FileIndex(known.fileid.unwrap()), many_parts());
    // Another session of the client, for short replies.
    let fore_channel = ChannelAttributes { max_response_size: 2000, ..CHANNEL };
    let args = CreateSessionArgs { fore_channel, ..create_args(a.session.client, 2) };
    let created = a.connection.create_session(args).await.unwrap();
    let mut short = Session::new(a.session.client, created);
    let get = file.op(ArgOp::LayoutGet(layout_get(file.id, LayoutIoMode::ReadWrite)));
    let refused = a.connection.compound(&short.ops(get.clone())).await;
    assert_eq!(refused.status, NfsStatus::RepTooBig);
    let failure = LayoutGetFailure::from(NfsStatus::RepTooBig);
    assert_eq!(refused.results.last(), Some(&ResOp::LayoutGet(Err(failure))));
    let got = last!(LayoutGet, a.run(get.clone()).await);
    assert_eq!(got.state_id.seqid, 1, "the refused request made no state id");
    assert!(got.layouts[0].content.len() > 3600);
    // The short session gets a short layout.
    server.share.set_direct_access(FileIndex(known.fileid.unwrap()), two_parts());
    let got = last!(LayoutGet, a.connection.compound(&short.ops(get)).await);
    assert_eq!(got.state_id.seqid, 2);
}

/// The thresholds of a file, if the server has an opinion on it.
async fn thresholds(mount: &mut Mount, handle: &FileHandle) -> Option<Thresholds> {
    let known = mount.attributes(handle, &[attribute::MDSTHRESHOLD]).await;
    let hints = known.mdsthreshold?.hints;
    let [hint] = &hints[..] else { panic!("{hints:?}") };
    assert_eq!(hint.layout_type, LayoutType::FILES);
    Some(hint.thresholds().unwrap())
}

#[tokio::test]
async fn open_says_which_files_go_through_the_gateway() {
    let (_server, mut a, file) = start().await;
    // As Linux asks: in the compound of OPEN.
    let asked = GetAttrArgs { attributes: Bitmap::of(&[attribute::MDSTHRESHOLD]) };
    let create = open("f", ShareAccess::BOTH, ShareDeny::NONE).create();
    let result = a.run([ArgOp::PutRootFh, create, ArgOp::GetAttr(asked)]).await;
    let attributes = last!(GetAttr, result).attributes;
    // One item: the layout type, a bitmap with the bits 0 and 1, and two sizes in 16 bytes.
    let mut expected = vec![0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 16];
    expected.extend([0, 0, 0, 0, 0, 1, 0, 0].repeat(2));
    assert_eq!(attributes.values[..], expected[..]);
    let expected =
        Thresholds { read_size: Some(65_536), write_size: Some(65_536), ..Default::default() };
    assert_eq!(thresholds(&mut a, &file.handle).await, Some(expected));
    let root = a.root().await;
    assert_eq!(thresholds(&mut a, &root).await, None, "a directory");
    let supported = a.attributes(&root, &[attribute::SUPPORTED_ATTRS]).await.supported_attrs;
    assert!(supported.unwrap().has(attribute::MDSTHRESHOLD), "Linux does not ask otherwise");
}

#[tokio::test]
async fn exports_have_thresholds_of_their_own() {
    for (pnfs, bytes, expected) in [(true, 1, Some(1)), (true, 0, None), (false, 1, None)] {
        let mut config = config();
        config.exports[0].pnfs = pnfs;
        config.exports[0].pnfs_threshold = bytes;
        let server = TestServer::with_config(config).await;
        let mut a = Mount::new(&server, "a").await;
        let file = a.create("f").await;
        let known = thresholds(&mut a, &file.handle).await;
        assert_eq!(known.map(|known| known.read_size.unwrap()), expected, "{pnfs} {bytes}");
    }
}

#[tokio::test]
async fn wrong_layout_requests_are_refused() {
    let (server, mut a, file) = start().await;
    let args = layout_get(file.id, LayoutIoMode::Read);
    let unavailable = a.status(file.op(ArgOp::LayoutGet(args))).await;
    assert_eq!(unavailable, NfsStatus::LayoutUnavailable);
    set_access(&server, &mut a, &file).await;
    let other = a.create("g").await;
    let reader = open("f", ShareAccess::READ, ShareDeny::NONE);
    let mut b = Mount::new(&server, "b").await;
    let of_b = b.open(reader).await.unwrap();
    for (args, expected) in [
        (LayoutGetArgs { layout_type: LayoutType::BLOCK, ..args }, NfsStatus::UnknownLayoutType),
        (LayoutGetArgs { io_mode: LayoutIoMode::Any, ..args }, NfsStatus::BadIoMode),
        (LayoutGetArgs { length: 0, ..args }, NfsStatus::Inval),
        (LayoutGetArgs { length: 5, min_length: 6, ..args }, NfsStatus::Inval),
        (LayoutGetArgs { offset: 2, length: u64::MAX - 1, ..args }, NfsStatus::Inval),
        (LayoutGetArgs { state_id: other.id, ..args }, NfsStatus::BadStateId),
        (LayoutGetArgs { state_id: StateId::ANONYMOUS, ..args }, NfsStatus::BadStateId),
        (LayoutGetArgs { max_count: 64, ..args }, NfsStatus::TooSmall),
    ] {
        let result = a.run(file.op(ArgOp::LayoutGet(args))).await;
        assert_eq!(result.status, expected, "{args:?}");
        let last = result.results.last();
        assert_eq!(last, Some(&ResOp::LayoutGet(Err(LayoutGetFailure::from(expected)))));
    }
    let write = ArgOp::LayoutGet(layout_get(of_b.id, LayoutIoMode::ReadWrite));
    assert_eq!(b.status(of_b.op(write)).await, NfsStatus::OpenMode);
}

#[tokio::test]
async fn layout_ends_when_it_is_returned_or_the_file_closed() {
    let (server, mut a, file) = start().await;
    set_access(&server, &mut a, &file).await;
    let get = |id| ArgOp::LayoutGet(layout_get(id, LayoutIoMode::ReadWrite));
    let first = last!(LayoutGet, a.run(file.op(get(file.id))).await).state_id;
    let second = last!(LayoutGet, a.run(file.op(get(first))).await).state_id;
    assert_eq!(second, StateId { seqid: 2, ..first });
    assert_eq!(a.status(file.op(commit(second))).await, NfsStatus::Ok);
    assert_eq!(a.status(file.op(commit(file.id))).await, NfsStatus::BadStateId);
    // RFC 8881 8.2.2: state ids of layouts are not for data.
    assert_eq!(a.status(file.op(read(second, 0, 1))).await, NfsStatus::BadStateId);
    let returned = last!(LayoutReturn, a.run(file.op(give_back(second))).await);
    assert_eq!(returned.state_id, None);
    for op in [give_back(second), commit(second), get(second)] {
        assert_eq!(a.status(file.op(op)).await, NfsStatus::BadStateId);
    }
    let third = last!(LayoutGet, a.run(file.op(get(file.id))).await).state_id;
    assert_eq!(a.close(&file).await, NfsStatus::Ok);
    assert_eq!(a.status(file.op(give_back(third))).await, NfsStatus::BadStateId);
}
