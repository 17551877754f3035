//! Works that block on the disk: each slice is admitted when it begins.

use std::{cell::Cell, time::Duration};

use braid_iod::{BlockingWork, IodCore, StartedRequest};
use braid_store::{DiskOp, Fault, MemStore};
use braid_types::{ByteCount, FileOffset, MdsEpoch, Status};
use braid_wire::{
    Call, Capability,
    message::iod::{Allocate, CopyRange, Fence, Flush},
};

use super::harness::*;

/// The epoch of a metadata server that starts during a test.
const NEXT_EPOCH: MdsEpoch = MdsEpoch(EPOCH.0 + 1);

/// A clock that moves by `step` each time it is read.
fn ticking(step: Duration) -> impl Fn() -> Duration {
    let reads = Cell::new(0);
    move || {
        reads.set(reads.get() + 1);
        NOW + step * (reads.get() - 1)
    }
}

fn work<C: Call>(client: &mut Client<'_>, call: &C) -> BlockingWork<MemStore> {
    match client.core.begin(&mut client.state, NOW, C::OP, &call.to_bytes(), 0) {
        StartedRequest::Work(work) => work,
        other => panic!("a work, not {other:?}"),
    }
}

/// A copy within a file of one object that takes three slices, onto its own end.
fn copy_in_three_slices(client: &mut Client<'_>, capability: &Capability) -> CopyRange {
    const BYTES: u64 = 3 << 20;
    client.write(capability, contiguous(0, BYTES), &pattern(BYTES as usize, 1)).unwrap();
    let (handle, present) = client.present(capability);
    let (source, from, to) = (present.clone(), FileOffset(0), FileOffset(BYTES));
    CopyRange { handle, present, source, from, to, bytes: ByteCount(BYTES) }
}

#[test]
fn a_copy_ends_at_the_slice_in_which_the_daemon_serves_no_longer() {
    for (step, status) in [(SERVES_FOR / 2, Status::NotServing), (SERVES_FOR / 3, Status::Ok)] {
        let core = daemon(1);
        let capability = capability(striped([1]));
        let mut client = Client::of_session(&core, SESSION);
        let copy = copy_in_three_slices(&mut client, &capability);
        let copy = work(&mut client, &copy);
        assert_eq!(copy.run(&core, &ticking(step)).status, status, "{step:?} for each slice");
        let copied = client.read(&capability, contiguous(3 << 20, 3 << 20)).unwrap().payload.len();
        assert_eq!(copied, if status == Status::Ok { 3 << 20 } else { 2 << 20 });
    }
}

#[test]
fn an_allocation_ends_at_the_part_at_which_the_daemon_serves_no_longer() {
    let core = daemon(1);
    let capability = capability(striped([1, 1, 1]));
    let mut client = Client::of_session(&core, SESSION);
    let (handle, present) = client.present(&capability);
    let (offset, bytes) = (FileOffset(0), ByteCount(3 * STRIPE));
    let allocate = Allocate { handle, present, offset, bytes, keep_size: false };
    let allocate = work(&mut client, &allocate);
    assert_eq!(allocate.run(&core, &ticking(SERVES_FOR / 2)).status, Status::NotServing);
    let ends = client.read(&capability, contiguous(0, 3 * STRIPE)).unwrap().reply.ends;
    assert_eq!(ends, [end(0, STRIPE), end(1, STRIPE), end(2, 0)]);
}

#[test]
fn a_new_epoch_during_a_copy_ends_it_also_when_only_its_source_is_older() {
    for (source_epoch, status) in [(EPOCH, Status::StaleEpoch), (NEXT_EPOCH, Status::Ok)] {
        let core = daemon(1);
        let capability = capability(striped([1]));
        let mut client = Client::of_session(&core, SESSION);
        let mut copy = copy_in_three_slices(&mut client, &capability);
        let of_epoch = |epoch| Capability { epoch, ..capability.clone() };
        copy.present = of_epoch(NEXT_EPOCH).sign(&server_key());
        copy.source = of_epoch(source_epoch).sign(&server_key());
        copy.handle = 2;
        let copy = work(&mut client, &copy);
        // The epoch rises before the second slice.
        let slices = Cell::new(0);
        let clock = || {
            slices.set(slices.get() + 1);
            if slices.get() == 2 {
                core.fence(&Fence { sessions: Vec::new(), fence: 1, epoch_min: NEXT_EPOCH });
            }
            NOW
        };
        assert_eq!(copy.run(&core, &clock).status, status, "source of {source_epoch:?}");
        let mut later = Client::mds(&core);
        let copied = later.read(&of_epoch(NEXT_EPOCH), contiguous(3 << 20, 3 << 20)).unwrap();
        assert_eq!(copied.payload.len(), if status == Status::Ok { 3 << 20 } else { 1 << 20 });
    }
}

#[test]
fn a_queued_flush_is_refused_to_a_session_that_was_fenced_meanwhile() {
    type End = (fn(&IodCore<MemStore>), Duration, Status);
    let ends: [End; 3] = [
        (
            |core| {
                let fence = Fence { sessions: vec![SESSION], fence: 1, epoch_min: EPOCH };
                Client::mds(core).call(&fence).unwrap();
            },
            NOW,
            Status::Fenced,
        ),
        (|_| {}, NOW + SERVES_FOR, Status::NotServing),
        (|_| {}, NOW, Status::Ok),
    ];
    for (end, now, status) in ends {
        let core = daemon(1);
        let capability = capability(striped([1]));
        let mut client = Client::of_session(&core, SESSION);
        client.write(&capability, contiguous(0, 3), b"abc").unwrap();
        let (handle, present) = client.present(&capability);
        let flush = work(&mut client, &Flush { handle, present });
        end(&core);
        core.store().faults().fail_always(DiskOp::Sync, Fault::Eio);
        let syncs = if status == Status::Ok { Status::DiskError } else { status };
        assert_eq!(flush.run(&core, &|| now).status, syncs, "the disk is asked only if admitted");
    }
}
