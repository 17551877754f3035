//! The calls of clients: read, write, flush, sizes, allocate, seek, release.

use braid_layout::{Distribution, Layout, Request, View};
use braid_store::{DiskOp, Fault};
use braid_types::{ByteCount, FileOffset, IodId, Status, limits::REPLY_DATA_BYTES_MAX};
use braid_wire::message::iod::{Allocate, Flush, ObjectSizes, Read, Release, Seek, SeekWhat};

use super::harness::*;

#[test]
fn what_was_written_is_read_and_only_the_daemons_own_strips() {
    let core = daemon(2);
    let capability = capability(striped([1, 2]));
    let mut client = Client::of_session(&core, SESSION);
    let data = pattern(2 * STRIPE as usize, 1);
    client.write(&capability, contiguous(0, 4 * STRIPE), &data).unwrap();
    let read = client.read(&capability, contiguous(100, 4 * STRIPE)).unwrap();
    assert_eq!(read.payload, data, "strips 1 and 3 are here, strips 0, 2 and 4 are not");
    assert_eq!(read.reply.ends, [end(1, 2 * STRIPE)]);
}

#[test]
fn a_read_ends_where_no_object_has_bytes_and_its_holes_are_zeros() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(100, 3), b"abc").unwrap();
    let read = client.read(&capability, contiguous(98, 1 << 40)).unwrap();
    assert_eq!(read.payload, b"\0\0abc");
    assert_eq!(read.reply.ends, [end(0, 103)]);
}

#[test]
fn the_end_of_the_shorter_object_is_a_hole_and_not_the_end_of_the_file() {
    let core = daemon(1);
    let capability = capability(striped([1, 1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(3 * STRIPE, 1), b"x").unwrap();
    let read = client.read(&capability, contiguous(0, 10 * STRIPE)).unwrap();
    let mut want = vec![0; 3 * STRIPE as usize];
    want.push(b'x');
    assert_eq!(read.payload, want);
    assert_eq!(read.reply.ends, [end(0, 0), end(1, STRIPE + 1)]);
}

#[test]
fn nothing_written_reads_as_no_bytes() {
    let core = daemon(1);
    let read = Client::of_session(&core, SESSION)
        .read(&capability(striped([1])), contiguous(0, 100))
        .unwrap();
    assert_eq!((read.payload.len(), read.reply.ends), (0, vec![end(0, 0)]));
}

#[test]
fn a_large_read_comes_in_full_data_frames() {
    let core = daemon(1);
    let capability = capability(Layout::one(Distribution::Single, [IodId(1)]));
    let mut client = Client::of_session(&core, SESSION);
    let data = pattern(REPLY_DATA_BYTES_MAX * 2 + 10_000, 3);
    client.write(&capability, contiguous(0, data.len() as u64), &data).unwrap();
    let read = client.read(&capability, contiguous(0, data.len() as u64)).unwrap();
    assert_eq!(read.payload, data);
    assert_eq!(read.data_frames, [REPLY_DATA_BYTES_MAX; 2], "and the rest in the final one");
}

#[test]
fn a_small_read_is_one_final_frame() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 4096), &pattern(4096, 1)).unwrap();
    let read = client.read(&capability, contiguous(0, 4096)).unwrap();
    assert_eq!((read.payload, read.data_frames), (pattern(4096, 1), vec![]));
}

#[test]
fn strided_requests_read_and_write_the_groups_and_nothing_else() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 1000), &[9; 1000]).unwrap();
    let groups = Request { view: View::strided(5, 3, 10), start: 0, bytes: 6 };
    client.write(&capability, groups.clone(), b"abcdef").unwrap();
    assert_eq!(client.read(&capability, groups).unwrap().payload, b"abcdef");
    let around = client.read(&capability, contiguous(4, 15)).unwrap().payload;
    assert_eq!(around, b"\x09abc\x09\x09\x09\x09\x09\x09\x09def\x09");
}

#[test]
fn a_payload_of_another_length_than_the_request_is_malformed() {
    let core = daemon(1);
    let capability = capability(striped([1, 2]));
    let mut client = Client::of_session(&core, SESSION);
    for bytes in [0, STRIPE - 1, STRIPE + 1] {
        let outcome =
            client.write(&capability, contiguous(0, 2 * STRIPE), &pattern(bytes as usize, 1));
        assert_eq!(refusal(outcome), Status::Malformed, "{bytes} bytes for one strip of {STRIPE}");
    }
    client.write(&capability, contiguous(0, 2 * STRIPE), &pattern(STRIPE as usize, 1)).unwrap();
}

#[test]
fn an_object_is_made_with_its_layout_and_owner() {
    use braid_store::ObjectStore;
    use braid_wire::Wire;
    let core = daemon(1);
    let capability = capability(striped([1, 2]));
    Client::of_session(&core, SESSION).write(&capability, contiguous(0, 1), b"x").unwrap();
    let record = core.store().open(object(0)).unwrap().record();
    assert_eq!(Layout::from_bytes(&record.layout), Ok(capability.layout));
    assert_eq!(
        (record.uid, record.gid, record.size_generation),
        (1000, 100, capability.size_generation)
    );
    assert!(core.store().open(object(1)).is_err(), "the other part is elsewhere");
}

#[test]
fn a_missing_recorded_part_is_an_error_in_every_data_call() {
    let core = daemon(1);
    let mut lost = capability(striped([1]));
    lost.existing_parts = vec![1];
    let mut client = Client::of_session(&core, SESSION);
    assert_eq!(refusal(client.read(&lost, contiguous(0, 1))), Status::ObjectLost);
    assert_eq!(refusal(client.write(&lost, contiguous(0, 1), b"x")), Status::ObjectLost);
    let (handle, present) = client.present(&lost);
    assert_eq!(
        refusal(client.call(&Flush { handle, present: present.clone() })),
        Status::ObjectLost
    );
    assert_eq!(
        refusal(client.call(&ObjectSizes { handle, present: present.clone() })),
        Status::ObjectLost
    );
    let seek = Seek { handle, present, offset: FileOffset(0), what: SeekWhat::Data };
    assert_eq!(refusal(client.call(&seek)), Status::ObjectLost);
    assert!(
        client.read(&capability(striped([1])), contiguous(0, 1)).is_ok(),
        "not recorded, not lost"
    );
}

#[test]
fn sizes_tell_which_parts_are_there_and_how_long() {
    let core = daemon(1);
    let capability = capability(striped([1, 2, 1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 10), &[1; 10]).unwrap();
    let (handle, present) = client.present(&capability);
    let sizes = client.call(&ObjectSizes { handle, present }).unwrap();
    let facts: Vec<_> = sizes.iter().map(|info| (info.part.0, info.exists, info.bytes.0)).collect();
    assert_eq!(facts, [(0, true, 10), (2, false, 0)]);
}

#[test]
fn a_failed_flush_is_an_error_and_changes_the_verifier() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    let written = client.write(&capability, contiguous(0, 1), b"x").unwrap();
    let (handle, present) = client.present(&capability);
    core.store().faults().fail_nth(DiskOp::Sync, 1, Fault::Eio);
    assert_eq!(
        refusal(client.call(&Flush { handle, present: present.clone() })),
        Status::DiskError
    );
    let flushed = client.call(&Flush { handle, present }).unwrap();
    assert_ne!(
        flushed.verifier, written.verifier,
        "the client must send again what it still holds"
    );
}

#[test]
fn flush_answers_with_the_verifier_of_the_write_when_nothing_was_lost() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    let written = client.write(&capability, contiguous(0, 1), b"x").unwrap();
    let flushed = client.call(&Flush { handle: 1, present: Vec::new() }).unwrap();
    assert_eq!(flushed.verifier, written.verifier);
}

#[test]
fn allocate_grows_the_objects_unless_the_size_is_kept() {
    let core = daemon(1);
    let capability = capability(striped([1, 1]));
    let mut client = Client::of_session(&core, SESSION);
    let (handle, present) = client.present(&capability);
    let mut allocate = Allocate {
        handle,
        present,
        offset: FileOffset(STRIPE),
        bytes: ByteCount(2 * STRIPE),
        keep_size: true,
    };
    client.call(&allocate).unwrap();
    assert_eq!(
        client.read(&capability, contiguous(0, 1)).unwrap().reply.ends,
        [end(0, 0), end(1, 0)]
    );
    allocate.keep_size = false;
    client.call(&allocate).unwrap();
    let ends = client.read(&capability, contiguous(0, 1)).unwrap().reply.ends;
    assert_eq!(ends, [end(0, 2 * STRIPE), end(1, STRIPE)], "strips 1 and 2 of the file");
    allocate.bytes = ByteCount(u64::MAX);
    assert_eq!(refusal(client.call(&allocate)), Status::TooLarge);
}

#[test]
fn seek_finds_data_and_holes_across_parts() {
    let core = daemon(1);
    let capability = capability(striped([1, 1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(5 * STRIPE, STRIPE), &[1; STRIPE as usize]).unwrap();
    let mut seek = |offset, what| {
        let (handle, present) = client.present(&capability);
        let found =
            client.call(&Seek { handle, present, offset: FileOffset(offset), what }).unwrap();
        found.map(|offset| offset.0)
    };
    assert_eq!(seek(0, SeekWhat::Data), Some(5 * STRIPE));
    assert_eq!(seek(5 * STRIPE + 1, SeekWhat::Data), Some(5 * STRIPE + 1));
    assert_eq!(seek(6 * STRIPE, SeekWhat::Data), None);
    assert_eq!(seek(0, SeekWhat::Hole), Some(0));
    assert_eq!(seek(5 * STRIPE, SeekWhat::Hole), Some(6 * STRIPE));
}

#[test]
fn a_released_handle_is_unknown() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability(striped([1])), contiguous(0, 1), b"x").unwrap();
    let read = Read { handle: 1, present: Vec::new(), request: contiguous(0, 1) };
    assert_eq!(client.call_with(&read, &[]).unwrap().payload, b"x");
    client.call(&Release { handles: vec![1, 99] }).unwrap();
    assert_eq!(refusal(client.call(&read)), Status::UnknownHandle);
}

#[test]
fn a_read_of_what_an_object_has_lost_fails_and_one_of_the_rest_does_not() {
    let core = daemon(1);
    let capability = capability(striped([1, 1]));
    let mut client = Client::of_session(&core, SESSION);
    let whole = pattern(4 * STRIPE as usize, 3);
    client.write(&capability, contiguous(0, 4 * STRIPE), &whole).unwrap();
    let (handle, present) = client.present(&capability);
    client.call(&Flush { handle, present }).unwrap();
    // The second object has strips 1 and 3 of the file; its end is lost from the middle of strip 1
    // on.
    core.store().truncate_externally(object(1), STRIPE / 2);
    let good = STRIPE + STRIPE / 2;
    assert_eq!(
        client.read(&capability, contiguous(0, good)).unwrap().payload,
        whole[..good as usize]
    );
    let strip = |n: usize| whole[n * STRIPE as usize..(n + 1) * STRIPE as usize].to_vec();
    assert_eq!(client.read(&capability, contiguous(2 * STRIPE, STRIPE)).unwrap().payload, strip(2));
    for (offset, bytes) in
        [(0, 4 * STRIPE), (good - 1, 2), (good, 1), (3 * STRIPE, STRIPE), (4 * STRIPE - 1, 100)]
    {
        let failure = client.read(&capability, contiguous(offset, bytes)).err().expect("lost");
        assert_eq!(failure.status, Status::ObjectLost, "{bytes} bytes from {offset}");
        assert!(
            failure.detail.contains(&object(1).to_string()) && failure.detail.contains("2048"),
            "{failure}"
        );
    }
    let sizes = client.call(&ObjectSizes { handle: 1, present: Vec::new() }).unwrap();
    assert_eq!(
        sizes.iter().map(|info| info.bytes.0).sum::<u64>(),
        4 * STRIPE,
        "the file is as long as it was"
    );
    // An append would hide the loss; writing the lost bytes again repairs it.
    let append = client.write(&capability, contiguous(5 * STRIPE, 9), &[1; 9]);
    assert_eq!(refusal(append), Status::ObjectLost);
    let rest = whole[good as usize..2 * STRIPE as usize].to_vec();
    client.write(&capability, contiguous(good, STRIPE / 2), &rest).unwrap();
    client.write(&capability, contiguous(3 * STRIPE, STRIPE), &strip(3)).unwrap();
    assert_eq!(client.read(&capability, contiguous(0, 4 * STRIPE)).unwrap().payload, whole);
}
