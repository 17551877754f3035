//! READ, WRITE and COMMIT.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;
use bytes::Bytes;

use crate::last;
use crate::mount::*;
use crate::server::TestServer;

async fn start() -> (TestServer, Mount, OpenFile) {
    let server = TestServer::start().await;
    let mut mount = Mount::new(&server, "a").await;
    let file = mount.create("f").await;
    (server, mount, file)
}

fn commit(offset: u64, count: u32) -> ArgOp {
    ArgOp::Commit(CommitArgs { offset, count })
}

#[tokio::test]
async fn bytes_that_were_written_are_read() {
    let (_server, mut a, file) = start().await;
    let written = last!(Write, a.run(file.op(write(file.id, 5, b"abcdef"))).await);
    assert_eq!(written.count, 6);
    for (offset, count, data, eof) in [
        (0, 100, &b"\0\0\0\0\0abcdef"[..], true),
        (4, 3, &b"\0ab"[..], false),
        (9, 2, &b"ef"[..], true),
        (11, 5, &b""[..], true),
        (u64::MAX, 5, &b""[..], true),
        (3, 0, &b""[..], false),
    ] {
        let read = last!(Read, a.run(file.op(read(file.id, offset, count))).await);
        let expected = (Payload::Bytes(Bytes::from_static(data)), eof);
        assert_eq!((read.data, read.eof), expected, "{offset} {count}");
    }
}

#[tokio::test]
async fn verifier_changes_when_bytes_were_lost() {
    let (server, mut a, file) = start().await;
    let written = last!(Write, a.run(file.op(write(file.id, 0, b"abc"))).await);
    assert_eq!(written.committed, StableHow::Unstable);
    let committed = last!(Commit, a.run(file.op(commit(0, 0))).await).verifier;
    assert_eq!(committed, written.verifier);
    let written = last!(Write, a.run(file.op(write(file.id, 0, b"xyz"))).await);
    server.share.lose_unflushed();
    let committed = last!(Commit, a.run(file.op(commit(0, 3))).await).verifier;
    assert_ne!(committed, written.verifier);
    for stable in [StableHow::DataSync, StableHow::FileSync] {
        let (offset, data) = (0, Bytes::from_static(b"123"));
        let args = WriteArgs { state_id: file.id, offset, stable, data };
        let written = last!(Write, a.run(file.op(ArgOp::Write(args))).await);
        assert_eq!(written.committed, StableHow::FileSync);
    }
    server.share.lose_unflushed();
    let read = last!(Read, a.run(file.op(read(file.id, 0, 3))).await);
    assert_eq!(read.data, Payload::Bytes(Bytes::from_static(b"123")));
}

#[tokio::test]
async fn special_state_ids_access_data_without_an_open() {
    let (server, mut a, file) = start().await;
    let mut b = Mount::new(&server, "b").await;
    let before = server.share.open_count();
    assert_eq!(b.status(file.op(write(StateId::ANONYMOUS, 0, b"abc"))).await, NfsStatus::Ok);
    for id in [StateId::ANONYMOUS, StateId::READ_BYPASS] {
        let read = last!(Read, b.run(file.op(read(id, 1, 9))).await);
        assert_eq!(read.data, Payload::Bytes(Bytes::from_static(b"bc")));
    }
    assert_eq!(b.status(file.op(commit(0, 0))).await, NfsStatus::Ok);
    assert_eq!(server.share.open_count(), before, "no open remains");
    assert_eq!(a.close(&file).await, NfsStatus::Ok);
}

#[tokio::test]
async fn only_files_have_data() {
    let (_server, mut a, _) = start().await;
    let root = a.root().await;
    let link = a.make_symlink("s").await;
    let fifo = create(CreateObject::Other(NfsFtype::Fifo), "p");
    let fifo = a.handle([ArgOp::PutRootFh, fifo]).await;
    for (handle, expected) in
        [(root, NfsStatus::IsDir), (link, NfsStatus::SymLink), (fifo, NfsStatus::WrongType)]
    {
        let anonymous = StateId::ANONYMOUS;
        for op in [read(anonymous, 0, 1), write(anonymous, 0, b"x"), commit(0, 0)] {
            let status = a.status(at(&handle, op.clone())).await;
            assert_eq!(status, expected, "{op:?}");
        }
    }
}

#[tokio::test]
async fn offsets_past_the_largest_file_are_refused() {
    let (_server, mut a, file) = start().await;
    let too_far = file.op(write(file.id, u64::MAX - 1, b"abc"));
    assert_eq!(a.status(too_far).await, NfsStatus::FBig);
    assert_eq!(a.status(file.op(set_size(file.id, u64::MAX))).await, NfsStatus::FBig);
    assert_eq!(a.status(file.op(commit(u64::MAX, 2))).await, NfsStatus::Inval);
}

#[tokio::test]
async fn data_operations_need_a_file_handle() {
    let (_server, mut a, file) = start().await;
    for op in [read(file.id, 0, 1), write(file.id, 0, b"x"), commit(0, 0), close(file.id)] {
        assert_eq!(a.status([op]).await, NfsStatus::NoFileHandle);
    }
}
