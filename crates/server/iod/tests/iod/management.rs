//! The calls of the metadata server and of fsck: truncate, punch, delete, collect, list,
//! lost+found, space.

use braid_layout::{Distribution, Layout};
use braid_store::{DiskOp, Fault};
use braid_types::{
    ByteCount, FileIndex, FileOffset, IodId, ObjectId, SizeGeneration, Status, Timestamp,
};
use braid_wire::{
    Capability,
    message::{
        DaemonStatus,
        iod::{
            Allocate, CollectSizes, Delete, DiskSpace, FlushAll, ListObjects, MoveToLost,
            ObjectLength, ObjectSizes, Punch, Truncate,
        },
    },
};

use super::harness::*;

pub(crate) fn truncate(
    capability: &Capability,
    lengths: &[(u16, u64)],
    generation: u64,
) -> Truncate {
    let length = |(part, bytes): &(u16, u64)| ObjectLength {
        object: object(*part),
        bytes: ByteCount(*bytes),
    };
    Truncate {
        objects: lengths.iter().map(length).collect(),
        size_generation: SizeGeneration(generation),
        capability: capability.sign(&server_key()),
        make_absent: false,
    }
}

fn later(capability: &Capability, generation: u64) -> Capability {
    Capability { size_generation: SizeGeneration(generation), ..capability.clone() }
}

#[test]
fn truncate_cuts_grows_and_makes_objects_but_not_empty_ones() {
    let core = daemon(1);
    let capability = capability(striped([1, 1, 1]));
    Client::of_session(&core, SESSION).write(&capability, contiguous(0, 100), &[1; 100]).unwrap();
    let mut mds = Client::mds(&core);
    let infos = mds.call(&truncate(&capability, &[(0, 10), (1, 20), (2, 0)], 2)).unwrap();
    let facts: Vec<_> = infos.iter().map(|info| (info.part.0, info.exists, info.bytes.0)).collect();
    assert_eq!(facts, [(0, true, 10), (1, true, 20), (2, false, 0)]);
    let read = Client::of_session(&core, SESSION)
        .read(&later(&capability, 2), contiguous(0, 1 << 20))
        .unwrap();
    let want = [&[1; 10][..], &[0; STRIPE as usize + 10]].concat();
    assert_eq!(read.payload, want, "truncated bytes stay lost when the file grows again");
}

#[test]
fn a_truncate_with_writers_makes_absent_parts_refuse_older_generations() {
    for make_absent in [false, true] {
        let core = daemon(1);
        let capability = capability(striped([1, 1]));
        let mut client = Client::of_session(&core, SESSION);
        client.write(&capability, contiguous(0, 100), &[1; 100]).unwrap();
        let cut = Truncate { make_absent, ..truncate(&capability, &[(0, 10), (1, 0)], 2) };
        for _ in 0..2 {
            let infos = Client::mds(&core).call(&cut).unwrap();
            let facts: Vec<_> = infos.iter().map(|info| (info.exists, info.bytes.0)).collect();
            assert_eq!(facts, [(true, 10), (make_absent, 0)]);
        }
        let late = client.write(&capability, contiguous(STRIPE, 3), b"old");
        if make_absent {
            assert_eq!(refusal(late), Status::StaleGeneration);
        } else {
            late.unwrap();
        }
        let mut client = Client::of_session(&core, SESSION);
        client.write(&later(&capability, 2), contiguous(STRIPE, 3), b"new").unwrap();
    }
}

#[test]
fn a_full_disk_does_not_hold_up_a_truncate_for_an_empty_object() {
    let core = daemon(1);
    let capability = capability(striped([1, 1]));
    Client::of_session(&core, SESSION).write(&capability, contiguous(0, 100), &[1; 100]).unwrap();
    core.store().faults().fail_always(DiskOp::Create, Fault::NoSpace);
    let cut = Truncate { make_absent: true, ..truncate(&capability, &[(0, 0), (1, 0)], 2) };
    let infos = Client::mds(&core).call(&cut).unwrap();
    let facts: Vec<_> = infos.iter().map(|info| (info.exists, info.bytes.0)).collect();
    assert_eq!(facts, [(true, 0), (false, 0)]);
    let grown = Truncate { make_absent: true, ..truncate(&capability, &[(0, 0), (1, 5)], 3) };
    assert_eq!(refusal(Client::mds(&core).call(&grown)), Status::NoSpace);
}

#[test]
fn a_recorded_part_that_is_lost_is_not_made_by_a_truncate_beside_writers() {
    let core = daemon(1);
    let mut capability = capability(striped([1, 1]));
    Client::of_session(&core, SESSION).write(&capability, contiguous(0, 100), &[1; 100]).unwrap();
    capability.existing_parts = vec![0b11];
    let cut = Truncate { make_absent: true, ..truncate(&capability, &[(0, 10), (1, 0)], 2) };
    let infos = Client::mds(&core).call(&cut).unwrap();
    assert!(infos[0].exists && !infos[1].exists, "a loss stays one (I11)");
}

#[test]
fn truncate_may_be_repeated_and_an_older_one_is_refused() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 100), &[1; 100]).unwrap();
    let mut mds = Client::mds(&core);
    mds.call(&truncate(&capability, &[(0, 10)], 3)).unwrap();
    assert_eq!(mds.call(&truncate(&capability, &[(0, 10)], 3)).unwrap()[0].bytes.0, 10);
    assert_eq!(refusal(mds.call(&truncate(&capability, &[(0, 50)], 2))), Status::StaleGeneration);
    assert_eq!(client.read(&later(&capability, 3), contiguous(0, 100)).unwrap().payload, [1; 10]);
}

#[test]
fn truncate_passes_over_a_lost_object_and_cuts_the_others() {
    let core = daemon(1);
    let mut capability = capability(striped([1, 1]));
    Client::of_session(&core, SESSION)
        .write(&capability, contiguous(STRIPE, 100), &[1; 100])
        .unwrap();
    capability.existing_parts = vec![0b11];
    for (generation, bytes) in [(2, 10), (3, 0)] {
        let infos = Client::mds(&core)
            .call(&truncate(&capability, &[(0, bytes), (1, bytes)], generation))
            .unwrap();
        let facts: Vec<_> = infos.iter().map(|info| (info.exists, info.bytes.0)).collect();
        assert_eq!(facts, [(false, 0), (true, bytes)]);
        let read = Client::of_session(&core, SESSION)
            .read(&later(&capability, generation), contiguous(0, 10));
        assert_eq!(refusal(read), Status::ObjectLost, "it is not made of zeros (I11)");
    }
}

#[test]
fn what_passes_the_disks_longest_file_is_too_large_and_harms_nothing() {
    let core = daemon(1);
    core.store().limit_object_bytes(1 << 20);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 3), b"abc").unwrap();
    assert_eq!(refusal(client.write(&capability, contiguous(1 << 20, 1), b"x")), Status::TooLarge);
    let (handle, present) = client.present(&capability);
    let (offset, bytes) = (FileOffset(1 << 20), ByteCount(1));
    let allocate = Allocate { handle, present, offset, bytes, keep_size: false };
    assert_eq!(refusal(client.call(&allocate)), Status::TooLarge);
    let mut mds = Client::mds(&core);
    for _ in 0..2 {
        assert_eq!(
            refusal(mds.call(&truncate(&capability, &[(0, (1 << 20) + 1)], 2))),
            Status::TooLarge
        );
    }
    // The disk refuses what the daemon considers possible.
    core.store().faults().fail_always(DiskOp::Truncate, Fault::TooLarge);
    for _ in 0..2 {
        assert_eq!(refusal(mds.call(&truncate(&capability, &[(0, 1 << 20)], 2))), Status::TooLarge);
    }
    assert_eq!(client.read(&capability, contiguous(0, 9)).unwrap().payload, b"abc");
    client.write(&capability, contiguous(0, 1), b"x").unwrap();
}

#[test]
fn an_empty_punch_sets_the_next_generation_also_beside_lost_objects() {
    let core = daemon(1);
    let mut capability = capability(striped([1, 1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 3), b"abc").unwrap();
    capability.existing_parts = vec![0b11];
    let none = |bytes| Punch {
        capability: capability.sign(&server_key()),
        offset: FileOffset(0),
        bytes: ByteCount(bytes),
        size_generation: SizeGeneration(2),
    };
    assert_eq!(refusal(Client::mds(&core).call(&none(2 * STRIPE))), Status::ObjectLost);
    Client::mds(&core).call(&none(0)).unwrap();
    assert_eq!(refusal(client.write(&capability, contiguous(0, 1), b"x")), Status::StaleGeneration);
}

#[test]
fn truncate_of_objects_that_the_capability_does_not_place_here_is_refused() {
    let core = daemon(1);
    let mut mds = Client::mds(&core);
    let capability = capability(striped([1, 2]));
    assert_eq!(refusal(mds.call(&truncate(&capability, &[(1, 10)], 2))), Status::BadCapability);
    let mut forged = truncate(&capability, &[(0, 10)], 2);
    forged.capability[3] ^= 1;
    assert_eq!(refusal(mds.call(&forged)), Status::BadCapability);
}

#[test]
fn punch_makes_zeros_of_a_range_across_strips_and_refuses_older_writers() {
    let core = daemon(1);
    let capability = capability(striped([1, 1, 1]));
    let mut client = Client::of_session(&core, SESSION);
    let bytes = 2 * STRIPE;
    client.write(&capability, contiguous(0, bytes), &pattern(bytes as usize, 1)).unwrap();
    let punch = Punch {
        capability: capability.sign(&server_key()),
        offset: FileOffset(100),
        bytes: ByteCount(STRIPE),
        size_generation: SizeGeneration(2),
    };
    Client::mds(&core).call(&punch).unwrap();
    Client::mds(&core).call(&punch).unwrap();
    let mut want = pattern(bytes as usize, 1);
    want[100..100 + STRIPE as usize].fill(0);
    assert_eq!(client.read(&later(&capability, 2), contiguous(0, bytes)).unwrap().payload, want);
    assert_eq!(refusal(client.write(&capability, contiguous(0, 1), b"x")), Status::StaleGeneration);
    let past = Punch { bytes: ByteCount(u64::MAX), ..punch };
    assert_eq!(refusal(Client::mds(&core).call(&past)), Status::TooLarge);
}

#[test]
fn punch_behind_an_object_still_refuses_its_older_writers() {
    let core = daemon(1);
    let capability = capability(striped([1, 1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 10), &[1; 10]).unwrap();
    let punch = Punch {
        capability: capability.sign(&server_key()),
        offset: FileOffset(STRIPE),
        bytes: ByteCount(10),
        size_generation: SizeGeneration(2),
    };
    Client::mds(&core).call(&punch).unwrap();
    assert_eq!(refusal(client.write(&capability, contiguous(0, 1), b"x")), Status::StaleGeneration);
    assert_eq!(client.read(&later(&capability, 2), contiguous(0, 100)).unwrap().payload, [1; 10]);
}

#[test]
fn deleted_objects_are_gone_and_again_is_harmless() {
    let core = daemon(1);
    let capability = capability(striped([1, 1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 10), &[1; 10]).unwrap();
    let delete = Delete { objects: vec![object(0), object(1)], durable: false };
    let mut mds = Client::mds(&core);
    mds.call(&delete).unwrap();
    mds.call(&delete).unwrap();
    assert_eq!(client.read(&capability, contiguous(0, 10)).unwrap().payload, b"");
    // Nor does a capability that a client keeps create them again.
    let late = client.write(&capability, contiguous(0, 10), &[2; 10]);
    assert_eq!(refusal(late), Status::StaleHandle);
    assert_eq!(client.read(&capability, contiguous(0, 10)).unwrap().payload, b"");
    let recorded = Capability { existing_parts: vec![1], ..capability };
    let late = client.read(&recorded, contiguous(0, 10));
    assert_eq!(refusal(late), Status::StaleHandle, "it is not lost");
}

#[test]
fn collected_sizes_are_in_request_order_with_the_mds_clock() {
    let core = daemon(1);
    let capability = capability(striped([1, 1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 10), &[1; 10]).unwrap();
    for flush in [false, true] {
        let collect = CollectSizes { objects: vec![object(1), object(0)], flush };
        let reply = Client::mds(&core).call(&collect).unwrap();
        let facts: Vec<_> =
            reply.objects.iter().map(|info| (info.part.0, info.exists, info.bytes.0)).collect();
        assert_eq!(facts, [(1, false, 0), (0, true, 10)]);
    }
    let (handle, present) = client.present(&capability);
    let sizes = ObjectSizes { handle, present };
    let here = client.call(&sizes).unwrap()[0].mtime;
    let at = |seconds, nanos| Timestamp { seconds, nanos };
    core.set_clock_offset(at(1000, 500_000_000), at(1003, 0), at(1003, 0));
    let there = client.call(&sizes).unwrap()[0].mtime;
    let nanos = |time: Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    assert_eq!(nanos(there) - nanos(here), -2_500_000_000);
    // A heartbeat that took half a second says nothing about the clock, whichever direction was
    // slow. Nor does one that differs by 9 ms. One that differs by 2.6 s does.
    for (sent, received) in [((1003, 500_000_000), (1004, 0)), ((1004, 0), (1004, 500_000_000))] {
        core.set_clock_offset(
            at(1001, 500_000_000),
            at(sent.0, sent.1),
            at(received.0, received.1),
        );
        assert_eq!(client.call(&sizes).unwrap()[0].mtime, there, "a reported time does not change");
    }
    core.set_clock_offset(at(1001, 500_000_000), at(1004, 9_000_000), at(1004, 9_000_000));
    assert_eq!(client.call(&sizes).unwrap()[0].mtime, there, "a reported time does not change");
    core.set_clock_offset(at(1002, 500_000_000), at(1005, 90_000_000), at(1005, 110_000_000));
    assert_eq!(nanos(client.call(&sizes).unwrap()[0].mtime) - nanos(here), -2_600_000_000);
}

#[test]
fn what_was_collected_with_a_flush_survives_the_loss_of_power() {
    let core = daemon(1);
    let capability = capability(striped([1, 1]));
    Client::of_session(&core, SESSION).write(&capability, contiguous(0, 10), &[1; 10]).unwrap();
    let collect = |flush| {
        let reply =
            Client::mds(&core).call(&CollectSizes { objects: vec![object(0)], flush }).unwrap();
        (reply.objects[0].exists, reply.objects[0].bytes.0, reply.verifier)
    };
    let heard = collect(false);
    let flushed = collect(true);
    assert_eq!(heard, flushed, "nothing was lost in between");
    core.store().crash();
    let (exists, bytes, verifier) = collect(false);
    assert_eq!((exists, bytes), (true, 10));
    assert_ne!(verifier, flushed.2);
}

#[test]
fn what_was_deleted_durably_stays_away_after_every_loss_of_power() {
    let came_back = |durable, rounds: u32| {
        let core = daemon(1);
        (1..=rounds).any(|round| {
            // A deleted file never comes again.
            let file = FileIndex(FILE.0 + u64::from(round));
            let capability = Capability { file, ..capability(striped([1, 1])) };
            let objects = vec![ObjectId { file, ..object(0) }];
            let collect = || {
                let collect = CollectSizes { objects: objects.clone(), flush: true };
                Client::mds(&core).call(&collect).unwrap().objects[0].exists
            };
            Client::of_session(&core, SESSION)
                .write(&capability, contiguous(0, 10), &[1; 10])
                .unwrap();
            assert!(collect());
            let delete = Delete { objects: objects.clone(), durable };
            Client::mds(&core).call(&delete).unwrap();
            core.store().crash();
            collect()
        })
    };
    assert!(came_back(false, 100), "the disk may undo it");
    assert!(!came_back(true, 100));
}

#[test]
fn a_durable_deletion_that_the_disk_refuses_is_reported() {
    let core = daemon(1);
    let capability = capability(striped([1, 1]));
    Client::of_session(&core, SESSION).write(&capability, contiguous(0, 10), &[1; 10]).unwrap();
    Client::mds(&core).call(&CollectSizes { objects: vec![object(0)], flush: true }).unwrap();
    core.store().faults().fail_nth(DiskOp::SyncDirectory, 1, Fault::Eio);
    let delete = Delete { objects: vec![object(0)], durable: true };
    assert_eq!(refusal(Client::mds(&core).call(&delete)), Status::DiskError);
    Client::mds(&core).call(&delete).unwrap();
}

#[test]
fn a_write_that_fails_while_sizes_are_collected_is_reported() {
    let core = daemon(1);
    let capability = capability(striped([1, 1]));
    Client::of_session(&core, SESSION).write(&capability, contiguous(0, 10), &[1; 10]).unwrap();
    core.store().faults().fail_nth(DiskOp::Sync, 1, Fault::Eio);
    let collect = CollectSizes { objects: vec![object(0)], flush: true };
    assert_eq!(refusal(Client::mds(&core).call(&collect)), Status::DiskError);
}

#[test]
fn a_list_whose_answer_would_not_fit_is_refused() {
    let core = daemon(1);
    let mut collect = CollectSizes { objects: vec![object(0); 16_384], flush: false };
    assert_eq!(Client::mds(&core).call(&collect).unwrap().objects.len(), 16_384);
    collect.objects.push(object(0));
    assert_eq!(refusal(Client::mds(&core).call(&collect)), Status::LimitExceeded);
}

#[test]
fn every_object_is_listed_once_with_its_record() {
    let core = daemon(1);
    let layout =
        Layout::one(Distribution::SimpleStripe { stripe_size: STRIPE }, [1; 200].map(IodId));
    let capability = capability(layout.clone());
    let bytes = 200 * STRIPE;
    Client::of_session(&core, SESSION)
        .write(&capability, contiguous(0, bytes), &vec![1; bytes as usize])
        .unwrap();
    let (mut found, mut cursor) = (Vec::new(), Vec::new());
    loop {
        let page = Client::mds(&core).call(&ListObjects { cursor, count_max: u32::MAX }).unwrap();
        found.extend(page.objects);
        match page.cursor {
            Some(next) => cursor = next,
            None => break,
        }
    }
    let mut parts: Vec<_> = found.iter().map(|record| record.object.part.0).collect();
    parts.sort_unstable();
    assert_eq!(parts, (0..200).collect::<Vec<_>>());
    assert!(found.iter().all(|record| record.owner == (1000, 100) && record.bytes.0 == STRIPE));
    assert!(found.iter().all(|record| record.layout.as_ref() == Some(&layout)));
    let bad = ListObjects { cursor: vec![1, 2, 3], count_max: 1 };
    assert_eq!(refusal(Client::mds(&core).call(&bad)), Status::Invalid);
}

#[test]
fn an_object_moved_to_lost_and_found_is_out_of_service() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 10), &[1; 10]).unwrap();
    Client::mds(&core).call(&MoveToLost { object: object(0) }).unwrap();
    assert_eq!(client.read(&capability, contiguous(0, 10)).unwrap().payload, b"");
    assert_eq!(
        refusal(Client::mds(&core).call(&MoveToLost { object: object(0) })),
        Status::ObjectLost
    );
}

#[test]
fn status_counts_what_was_done() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 10), &[1; 10]).unwrap();
    client.read(&capability, contiguous(0, 4)).unwrap();
    let mut mds = Client::mds(&core);
    mds.call(&FlushAll {}).unwrap();
    assert!(mds.call(&DiskSpace {}).unwrap().total.0 > 0);
    mds.now = NOW + std::time::Duration::from_secs(7);
    let status = mds.call(&DaemonStatus {}).unwrap();
    assert_eq!((status.bytes_written, status.bytes_read, status.errors), (10, 4, 0));
    assert_eq!((status.calls, status.uptime_seconds), (4, 7));
}
