//! Copies of a range from file to file within a daemon.

use braid_layout::Layout;
use braid_types::{
    ByteCount, FileIndex, FileOffset, SessionId, SizeGeneration, Status,
    limits::COPY_RANGE_BYTES_MAX,
};
use braid_wire::{Capability, Rights, message::iod::CopyRange};

use super::harness::*;

const SOURCE: FileIndex = FileIndex(88);

fn source(layout: Layout) -> Capability {
    Capability { file: SOURCE, rights: Rights::READ, ..capability(layout) }
}

/// As if the metadata server had also opened the source for writing.
fn fill(client: &mut Client<'_>, layout: &Layout, offset: u64, data: &[u8], bytes: u64) {
    let writable = Capability { rights: Rights::READ_WRITE, ..source(layout.clone()) };
    client.write(&writable, contiguous(offset, bytes), data).unwrap();
}

fn copy(
    client: &mut Client<'_>,
    from: &Capability,
    to: &Capability,
    range: (u64, u64, u64),
) -> Result<u64, Status> {
    let (handle, present) = client.present(to);
    let (from_offset, to_offset, bytes) = range;
    let call = CopyRange {
        handle,
        present,
        source: from.sign(&server_key()),
        from: FileOffset(from_offset),
        to: FileOffset(to_offset),
        bytes: ByteCount(bytes),
    };
    client.call(&call).map(|reply| reply.bytes.0).map_err(|failure| failure.status)
}

#[test]
fn the_daemons_own_strips_of_a_range_are_copied() {
    let core = daemon(2);
    let mut client = Client::of_session(&core, SESSION);
    let layout = striped([1, 2]);
    let data = pattern(2 * STRIPE as usize, 3);
    fill(&mut client, &layout, 0, &data, 4 * STRIPE);
    let target = capability(layout.clone());
    let copied =
        copy(&mut client, &source(layout), &target, (100, 2 * STRIPE + 100, 3 * STRIPE)).unwrap();
    assert_eq!(copied, 100 + STRIPE, "strip 1, and the first 100 bytes of strip 3");
    let read = client.read(&target, contiguous(2 * STRIPE + 100, 3 * STRIPE)).unwrap();
    assert_eq!(read.payload, data[..STRIPE as usize + 100]);
}

#[test]
fn a_turned_layout_takes_the_part_of_the_same_daemon() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let data = pattern(STRIPE as usize, 5);
    fill(&mut client, &striped([1, 2]), 0, &data, 2 * STRIPE);
    let target = capability(striped([2, 1]));
    assert_eq!(
        copy(&mut client, &source(striped([1, 2])), &target, (0, STRIPE, 2 * STRIPE)),
        Ok(STRIPE)
    );
    let read = client.read(&target, contiguous(STRIPE, STRIPE)).unwrap();
    assert_eq!(read.payload, data);
    let unlike = copy(&mut client, &source(striped([1, 2])), &target, (0, 0, 2 * STRIPE));
    assert_eq!(unlike, Err(Status::Invalid), "its strip 0 is on daemon 2");
}

#[test]
fn what_the_source_does_not_have_is_zeros_in_the_target() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let target = capability(striped([1]));
    client.write(&target, contiguous(0, 3000), &pattern(3000, 1)).unwrap();
    assert_eq!(
        copy(&mut client, &source(striped([1])), &target, (0, 1000, 500)),
        Ok(500),
        "no object at all"
    );
    fill(&mut client, &striped([1]), 0, b"abc", 3);
    assert_eq!(
        copy(&mut client, &source(striped([1])), &target, (0, 2000, 2000)),
        Ok(2000),
        "a short one"
    );
    let mut want = pattern(3000, 1);
    want[1000..1500].fill(0);
    want.resize(4000, 0);
    want[2000..].fill(0);
    want[2000..2003].copy_from_slice(b"abc");
    assert_eq!(client.read(&target, contiguous(0, 5000)).unwrap().payload, want);
}

#[test]
fn a_range_longer_than_a_slice_is_copied_whole() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let data = pattern((2 << 20) + 77, 9);
    fill(&mut client, &striped([1]), 0, &data, data.len() as u64);
    let target = capability(striped([1]));
    let copied = copy(&mut client, &source(striped([1])), &target, (0, STRIPE, data.len() as u64));
    assert_eq!(copied, Ok(data.len() as u64));
    assert_eq!(client.read(&target, contiguous(STRIPE, data.len() as u64)).unwrap().payload, data);
}

#[test]
fn both_capabilities_must_allow_it() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    fill(&mut client, &striped([1]), 0, b"abc", 3);
    let (from, to) = (source(striped([1])), capability(striped([1])));
    let mut try_copy = |from: &Capability, to: &Capability| copy(&mut client, from, to, (0, 0, 3));
    let unreadable = Capability { rights: Rights::WRITE, ..from.clone() };
    let unwritable = Capability { rights: Rights::READ, ..to.clone() };
    let of_another = Capability { session: SessionId(99), ..from.clone() };
    assert_eq!(try_copy(&unreadable, &to), Err(Status::BadCapability));
    assert_eq!(try_copy(&from, &unwritable), Err(Status::BadCapability));
    assert_eq!(try_copy(&of_another, &to), Err(Status::BadCapability));
    assert_eq!(try_copy(&from, &to), Ok(3));
    let long = copy(&mut client, &from, &to, (0, 0, COPY_RANGE_BYTES_MAX + 1));
    assert_eq!(long, Err(Status::LimitExceeded));
}

#[test]
fn an_old_generation_of_either_file_is_refused() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let newer = |capability: &Capability| Capability {
        size_generation: SizeGeneration(2),
        ..capability.clone()
    };
    let (from, to) = (source(striped([1])), capability(striped([1])));
    fill(&mut client, &striped([1]), 0, b"abc", 3);
    client.write(&to, contiguous(0, 1), b"x").unwrap();
    for cut in [&from, &to] {
        let capability = newer(cut).sign(&server_key());
        let punch = braid_wire::message::iod::Punch {
            capability,
            offset: FileOffset(0),
            bytes: ByteCount(1),
            size_generation: SizeGeneration(2),
        };
        Client::mds(&core).call(&punch).unwrap();
        assert_eq!(copy(&mut client, &from, &to, (0, 0, 3)), Err(Status::StaleGeneration));
    }
    assert_eq!(copy(&mut client, &newer(&from), &newer(&to), (0, 0, 3)), Ok(3));
}
