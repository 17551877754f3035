//! SEEK, ALLOCATE, DEALLOCATE, COPY and CLONE of NFSv4.2 (RFC 7862), and READ_PLUS, which is not
//! supported.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;
use bytes::Bytes;

use crate::cluster::on_both;
use crate::last;
use crate::mount::*;

on_both! {
    data_and_holes_are_found,
    an_allocation_extends_the_file_and_changes_no_byte,
    a_deallocated_range_reads_as_zeros_and_keeps_the_size,
    ranges_that_no_file_has_are_refused,
    a_range_is_copied_to_another_file,
    a_range_is_copied_within_a_file_if_it_does_not_overlap,
    a_copy_past_the_end_of_its_source_is_refused,
    a_clone_has_any_alignment_and_the_same_bytes,
    copies_need_opens_that_allow_them,
    read_plus_is_not_supported,
}

const MIB: u64 = 1 << 20;
/// Bytes of one WRITE.
const PIECE: u64 = 512 << 10;
static ONES: [u8; PIECE as usize] = [1; PIECE as usize];

/// A MiB of ones at each of the offsets, which are whole stripes: the I/O daemons have holes, too.
async fn write_mib(a: &mut Mount, file: &OpenFile, offsets: &[u64]) {
    for offset in offsets {
        for part in [0, PIECE] {
            let op = write(file.id, offset + part, &ONES);
            assert_eq!(last!(Write, a.run(file.op(op)).await).count, PIECE as u32);
        }
    }
}

async fn bytes_of(a: &mut Mount, file: &OpenFile, offset: u64, count: u32) -> Vec<u8> {
    let read = last!(Read, a.run(file.op(read(file.id, offset, count))).await);
    match read.data {
        Payload::Bytes(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

async fn size_of(a: &mut Mount, file: &OpenFile) -> u64 {
    a.attributes(&file.handle, &[attribute::SIZE]).await.size.unwrap()
}

fn seek(file: &OpenFile, what: ContentType, offset: u64) -> [ArgOp; 2] {
    file.op(ArgOp::Seek(SeekArgs { state_id: file.id, offset, what }))
}

fn allocate(file: &OpenFile, offset: u64, length: u64) -> [ArgOp; 2] {
    file.op(ArgOp::Allocate(AllocateArgs { state_id: file.id, offset, length }))
}

fn deallocate(file: &OpenFile, offset: u64, length: u64) -> [ArgOp; 2] {
    file.op(ArgOp::Deallocate(AllocateArgs { state_id: file.id, offset, length }))
}

/// An operation with the source as the saved and the destination as the current file handle.
fn between(from: &OpenFile, to: &OpenFile, op: ArgOp) -> [ArgOp; 4] {
    [put(&from.handle), ArgOp::SaveFh, put(&to.handle), op]
}

fn copy(from: (&OpenFile, u64), to: (&OpenFile, u64), count: u64) -> [ArgOp; 4] {
    let args = CopyArgs {
        source_state_id: from.0.id,
        destination_state_id: to.0.id,
        source_offset: from.1,
        destination_offset: to.1,
        count,
        consecutive: true,
        synchronous: true,
        source_servers: Vec::new(),
    };
    between(from.0, to.0, ArgOp::Copy(args))
}

fn clone(from: (&OpenFile, u64), to: (&OpenFile, u64), count: u64) -> [ArgOp; 4] {
    let args = CloneArgs {
        source_state_id: from.0.id,
        destination_state_id: to.0.id,
        source_offset: from.1,
        destination_offset: to.1,
        count,
    };
    between(from.0, to.0, ArgOp::Clone(args))
}

/// A file with these bytes.
async fn file_of(a: &mut Mount, name: &str, bytes: &'static [u8]) -> OpenFile {
    let file = a.create(name).await;
    assert_eq!(a.status(file.op(write(file.id, 0, bytes))).await, NfsStatus::Ok);
    file
}

async fn data_and_holes_are_found(mut a: Mount) {
    let file = a.create("f").await;
    write_mib(&mut a, &file, &[0, 4 * MIB]).await;
    assert_eq!(a.status(file.op(set_size(file.id, 8 * MIB))).await, NfsStatus::Ok);
    for (what, from, expected) in [
        (ContentType::DATA, 0, (0, false)),
        (ContentType::HOLE, 0, (MIB, false)),
        (ContentType::DATA, MIB, (4 * MIB, false)),
        (ContentType::HOLE, MIB + 5, (MIB + 5, false)),
        (ContentType::DATA, 4 * MIB + 5, (4 * MIB + 5, false)),
        (ContentType::HOLE, 4 * MIB, (5 * MIB, false)),
        // RFC 7862 15.11.3: no data up to the end of the file.
        (ContentType::DATA, 5 * MIB, (8 * MIB, true)),
    ] {
        let found = last!(Seek, a.run(seek(&file, what, from)).await);
        assert_eq!((found.offset, found.eof), expected, "{what:?} from {from}");
    }
    // The end of a file is a hole.
    let whole = file_of(&mut a, "g", b"abc").await;
    let found = last!(Seek, a.run(seek(&whole, ContentType::HOLE, 1)).await);
    assert_eq!((found.offset, found.eof), (3, true));
    for (offset, what, expected) in [
        (3, ContentType::DATA, NfsStatus::NxIo),
        (3, ContentType::HOLE, NfsStatus::NxIo),
        (u64::MAX, ContentType::DATA, NfsStatus::NxIo),
        (0, ContentType(7), NfsStatus::UnionNotSupp),
    ] {
        assert_eq!(a.status(seek(&whole, what, offset)).await, expected, "{what:?} {offset}");
    }
    let dir = a.make_directory("d").await;
    let args = SeekArgs { state_id: StateId::ANONYMOUS, offset: 0, what: ContentType::DATA };
    assert_eq!(a.status(at(&dir, ArgOp::Seek(args))).await, NfsStatus::IsDir);
}

async fn an_allocation_extends_the_file_and_changes_no_byte(mut a: Mount) {
    let file = file_of(&mut a, "f", b"abc").await;
    assert_eq!(a.status(allocate(&file, 1, 9999)).await, NfsStatus::Ok);
    assert_eq!(size_of(&mut a, &file).await, 10_000);
    assert_eq!(bytes_of(&mut a, &file, 0, 5).await, b"abc\0\0");
    assert_eq!(a.status(allocate(&file, 0, 10)).await, NfsStatus::Ok);
    assert_eq!(size_of(&mut a, &file).await, 10_000, "it does not shrink");
}

async fn a_deallocated_range_reads_as_zeros_and_keeps_the_size(mut a: Mount) {
    let file = a.create("f").await;
    write_mib(&mut a, &file, &[0, MIB]).await;
    let within = a.status(deallocate(&file, 5, 3)).await;
    let over_the_end = a.status(deallocate(&file, MIB, 100 * MIB)).await;
    let past_it = a.status(deallocate(&file, 50 * MIB, MIB)).await;
    assert_eq!([within, over_the_end, past_it], [NfsStatus::Ok; 3]);
    assert_eq!(size_of(&mut a, &file).await, 2 * MIB);
    assert_eq!(bytes_of(&mut a, &file, 4, 5).await, [1, 0, 0, 0, 1]);
    assert_eq!(bytes_of(&mut a, &file, MIB - 1, 3).await, [1, 0, 0]);
    assert_eq!(bytes_of(&mut a, &file, 2 * MIB - 2, 9).await, [0, 0]);
    let hole = last!(Seek, a.run(seek(&file, ContentType::HOLE, 100)).await);
    assert_eq!(hole.offset, MIB);
}

async fn ranges_that_no_file_has_are_refused(mut a: Mount) {
    let file = file_of(&mut a, "f", b"abc").await;
    let reader = open("f", ShareAccess::READ, ShareDeny::NONE).by("reader");
    let reader = a.open(reader).await.unwrap();
    for range in [allocate, deallocate] {
        for (file, offset, length, expected) in [
            (&file, 0, 0, NfsStatus::Inval),
            (&file, u64::MAX, 2, NfsStatus::Inval),
            (&file, 1 << 62, 1 << 62, NfsStatus::FBig),
            (&reader, 0, 1, NfsStatus::OpenMode),
        ] {
            let status = a.status(range(file, offset, length)).await;
            assert_eq!(status, expected, "{offset} {length}");
        }
    }
    assert_eq!(bytes_of(&mut a, &file, 0, 9).await, b"abc");
}

async fn a_range_is_copied_to_another_file(mut a: Mount) {
    let from = file_of(&mut a, "from", b"0123456789").await;
    let to = file_of(&mut a, "to", b"abc").await;
    let copied = last!(Copy, a.run(copy((&from, 4), (&to, 2), 3)).await);
    assert_eq!(copied.response.count, 3);
    assert_eq!(copied.response.committed, StableHow::FileSync);
    assert_eq!(copied.response.callback_id, None);
    assert!(copied.requirements.synchronous && copied.requirements.consecutive);
    assert_eq!(bytes_of(&mut a, &to, 0, 99).await, b"ab456");
    // The verifier is that of COMMIT.
    let commit = ArgOp::Commit(CommitArgs { offset: 0, count: 0 });
    let committed = last!(Commit, a.run(to.op(commit)).await);
    assert_eq!(committed.verifier, copied.response.verifier);
    // 0: up to the end of the source, here past the end of the destination.
    let copied = last!(Copy, a.run(copy((&from, 7), (&to, 8), 0)).await);
    assert_eq!(copied.response.count, 3);
    assert_eq!(bytes_of(&mut a, &to, 0, 99).await, b"ab456\0\0\x00789");
    assert_eq!(bytes_of(&mut a, &from, 0, 99).await, b"0123456789");
    // Many stripes.
    write_mib(&mut a, &from, &[0, MIB, 3 * MIB]).await;
    let copied = last!(Copy, a.run(copy((&from, 1), (&to, 0), 0)).await);
    assert_eq!((copied.response.count, size_of(&mut a, &to).await), (4 * MIB - 1, 4 * MIB - 1));
    assert_eq!(bytes_of(&mut a, &to, 2 * MIB - 2, 3).await, [1, 0, 0]);
    assert_eq!(bytes_of(&mut a, &to, 3 * MIB - 2, 3).await, [0, 1, 1]);
}

async fn a_range_is_copied_within_a_file_if_it_does_not_overlap(mut a: Mount) {
    let file = file_of(&mut a, "f", b"0123456789").await;
    let copied = last!(Copy, a.run(copy((&file, 0), (&file, 5), 3)).await);
    assert_eq!(copied.response.count, 3);
    assert_eq!(bytes_of(&mut a, &file, 0, 99).await, b"0123401289");
    for (from, to, count) in [(0, 2, 5), (2, 0, 5), (3, 3, 1), (4, 6, 0)] {
        for op in
            [copy((&file, from), (&file, to), count), clone((&file, from), (&file, to), count)]
        {
            assert_eq!(a.status(op).await, NfsStatus::Inval, "{from} {to} {count}");
        }
    }
    // Of these two ranges one call copies less than lies between their beginnings.
    assert_eq!(a.status(file.op(set_size(file.id, 700 * MIB))).await, NfsStatus::Ok);
    let op = copy((&file, 0), (&file, 300 * MIB), 400 * MIB);
    assert_eq!(a.status(op).await, NfsStatus::Inval);
    assert_eq!(bytes_of(&mut a, &file, 0, 10).await, b"0123401289");
}

async fn a_copy_past_the_end_of_its_source_is_refused(mut a: Mount) {
    let from = file_of(&mut a, "from", b"0123456789").await;
    let to = file_of(&mut a, "to", b"abc").await;
    for op in [copy, clone] {
        for (offset, count) in [(11, 0), (11, 1), (0, 11), (9, 2), (5, u64::MAX), (u64::MAX, 1)] {
            let status = a.status(op((&from, offset), (&to, 0), count)).await;
            assert_eq!(status, NfsStatus::Inval, "{offset} {count}");
        }
        let too_far = op((&from, 0), (&to, u64::MAX - 2), 5);
        assert_eq!(a.status(too_far).await, NfsStatus::FBig);
        // Nothing is left to copy.
        assert_eq!(a.status(op((&from, 10), (&to, 0), 0)).await, NfsStatus::Ok);
    }
    assert_eq!(bytes_of(&mut a, &to, 0, 99).await, b"abc");
}

async fn a_clone_has_any_alignment_and_the_same_bytes(mut a: Mount) {
    let from = a.create("from").await;
    let to = a.create("to").await;
    assert_eq!(a.attributes(&to.handle, &[attribute::CLONE_BLKSIZE]).await.clone_blksize, Some(1));
    write_mib(&mut a, &from, &[0, 2 * MIB]).await;
    assert_eq!(a.status(clone((&from, 0), (&to, 0), 3 * MIB)).await, NfsStatus::Ok);
    assert_eq!(size_of(&mut a, &to).await, 3 * MIB);
    assert_eq!(bytes_of(&mut a, &to, MIB - 1, 3).await, [1, 0, 0]);
    assert_eq!(bytes_of(&mut a, &to, 2 * MIB - 1, 3).await, [0, 1, 1]);
    let unaligned = clone((&from, 2 * MIB - 3), (&to, 7), 5);
    assert_eq!(a.status(unaligned).await, NfsStatus::Ok);
    assert_eq!(bytes_of(&mut a, &to, 6, 7).await, [1, 0, 0, 0, 1, 1, 1]);
    assert_eq!(size_of(&mut a, &to).await, 3 * MIB);
}

async fn copies_need_opens_that_allow_them(mut a: Mount) {
    let from = file_of(&mut a, "from", b"0123456789").await;
    let to = file_of(&mut a, "to", b"abc").await;
    let by = |name: &str, access| open(name, access, ShareDeny::NONE).by("other");
    let writer = a.open(by("from", ShareAccess::WRITE)).await.unwrap();
    let reader = a.open(by("to", ShareAccess::READ)).await.unwrap();
    for op in [copy, clone] {
        assert_eq!(a.status(op((&writer, 0), (&to, 0), 1)).await, NfsStatus::OpenMode);
        assert_eq!(a.status(op((&from, 0), (&reader, 0), 1)).await, NfsStatus::OpenMode);
        let mut alone = op((&from, 0), (&to, 0), 1).to_vec();
        alone.remove(1);
        assert_eq!(a.status(alone).await, NfsStatus::NoFileHandle, "no saved file handle");
    }
    // From another server.
    let [put_from, save, put_to, _] = copy((&from, 0), (&to, 0), 1);
    let args = CopyArgs {
        source_state_id: from.id,
        destination_state_id: to.id,
        source_offset: 0,
        destination_offset: 0,
        count: 1,
        consecutive: true,
        synchronous: true,
        source_servers: vec![NetLocation::Name(Bytes::from_static(b"other"))],
    };
    let status = a.status([put_from, save, put_to, ArgOp::Copy(args)]).await;
    assert_eq!(status, NfsStatus::PartnerNotSupp);
    assert_eq!(bytes_of(&mut a, &to, 0, 9).await, b"abc");
}

/// ADR 0037: a client reads with READ.
async fn read_plus_is_not_supported(mut a: Mount) {
    let file = file_of(&mut a, "f", b"abc").await;
    let args = ReadArgs { state_id: file.id, offset: 0, count: 3 };
    assert_eq!(a.status(file.op(ArgOp::ReadPlus(args))).await, NfsStatus::NotSupp);
    // NFSv4.1 does not define it.
    a.connection.minor_version = 1;
    assert_eq!(a.status(file.op(ArgOp::ReadPlus(args))).await, NfsStatus::OpIllegal);
    a.connection.minor_version = 2;
    assert_eq!(bytes_of(&mut a, &file, 0, 9).await, b"abc");
}
