//! Jobs are lazy and cut into slices (I9): counted in slices and frames, not in time.

use braid_iod::{MemorySink, ReadProgress, StartedRequest};
use braid_layout::{Distribution, Extent, Layout, Pattern, Request, View};
use braid_types::{
    ByteCount, ConnectionId, FileOffset, IodId, SessionId, Status,
    limits::{ABANDONED_CONNECTIONS_MAX, JOB_SLICE_ACCESSES_MAX, SEARCH_SLICES_MAX},
};
use braid_wire::{
    Call, Capability, Wire, decode_outcome,
    message::iod::{Abandon, Allocate, Fence, Read, ReadReply, Write},
};

use super::{harness::*, management::truncate};

/// Two levels of strides that never meet the daemon's strips: long to search, nothing to read.
fn burns_cpu() -> Request {
    let inner = Pattern::Vector {
        count: 1 << 20,
        stride: 2 * STRIPE + 2,
        child: Box::new(Pattern::Bytes(1)),
    };
    let view = View { displacement: 0, extent: 1 << 40, pattern: inner };
    Request { view, start: 0, bytes: 1 << 40 }
}

#[test]
fn a_small_read_finishes_between_the_slices_of_an_expensive_view() {
    let core = daemon(1);
    let capability = capability(striped([1, 2]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 3), b"abc").unwrap();
    let sparse = capability.clone();
    client.write(&sparse, contiguous(1 << 50, 1), b"x").unwrap();
    let present = capability.sign(&server_key());
    let evil = Read { handle: 1, present, request: burns_cpu() }.to_bytes();
    let StartedRequest::Read(mut job) = core.begin(&mut client.state, NOW, Read::OP, &evil, 0)
    else {
        panic!("a job")
    };
    let mut out = MemorySink::default();
    for slice in 0..100 {
        assert_eq!(job.step(&core, NOW, &mut out).unwrap(), ReadProgress::Again, "slice {slice}");
        assert_eq!(client.read(&capability, contiguous(0, 3)).unwrap().payload, b"abc");
    }
    assert!(out.body.is_none());
}

const GIB: u64 = 1 << 30;

/// A file of two parts in the largest stripes, of which daemon 1 has the second.
pub fn second_of_two() -> Capability {
    capability(Layout::one(Distribution::SimpleStripe { stripe_size: GIB }, [9, 1].map(IodId)))
}

/// Two bytes on the first part in every round, one byte further each time: 2^30 copies before the
/// second part has one, while the range that they span always touches it.
pub fn beside() -> Pattern {
    let entries = [0, 2 * GIB].map(|offset| Extent { offset, bytes: 1 });
    Pattern::Vector {
        count: 1 << 28,
        stride: 4 * GIB + 1,
        child: Box::new(Pattern::Extents(entries.into())),
    }
}

fn finds_nothing() -> Request {
    Request {
        view: View { displacement: 0, extent: 1 << 61, pattern: beside() },
        start: 0,
        bytes: 1 << 29,
    }
}

#[test]
fn a_request_that_is_searched_in_vain_is_refused_after_so_many_slices() {
    let core = daemon(1);
    let mut client = Client::of_session(&core, SESSION);
    let present = second_of_two().sign(&server_key());
    let read = Read { handle: 1, present: present.clone(), request: finds_nothing() };
    assert_eq!(refusal(client.call(&read)), Status::LimitExceeded);
    let write = Write { handle: 1, present, request: finds_nothing() };
    assert_eq!(refusal(client.call(&write)), Status::LimitExceeded);
    assert_eq!(
        refusal(client.call_with(&write, b"x")),
        Status::LimitExceeded,
        "its first byte is sought, too"
    );
    assert_eq!(
        client.write(&second_of_two(), contiguous(GIB, 1), b"x").unwrap().bytes,
        ByteCount(1)
    );
}

#[test]
fn a_long_search_of_a_write_ends_with_its_session_or_connection() {
    for abandoned in [false, true] {
        let core = daemon(1);
        let id = ConnectionId([1; 16]);
        let mut client = Client::over(&core, SESSION, id);
        let write = Write {
            handle: 1,
            present: second_of_two().sign(&server_key()),
            request: finds_nothing(),
        };
        let begun = core.begin(&mut client.state, NOW, Write::OP, &write.to_bytes(), 0);
        let StartedRequest::Write(mut job) = begun else { panic!("a job") };
        assert!((0..SEARCH_SLICES_MAX / 2).all(|_| job.finish(&core, NOW).is_none()));
        if abandoned {
            Client::of_session(&core, SESSION).call(&Abandon { connections: vec![id] }).unwrap();
        } else {
            Client::mds(&core)
                .call(&Fence { sessions: vec![SESSION], fence: 1, epoch_min: EPOCH })
                .unwrap();
        }
        let ended = if abandoned { Status::Cancelled } else { Status::Fenced };
        assert_eq!(job.finish(&core, NOW).unwrap().status, ended);
    }
}

#[test]
fn a_slice_sends_at_most_one_frame() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    let bytes = 4 << 20;
    client.write(&capability, contiguous(0, bytes), &pattern(bytes as usize, 1)).unwrap();
    let present = capability.sign(&server_key());
    let read = Read { handle: 1, present, request: contiguous(0, bytes) }.to_bytes();
    let StartedRequest::Read(mut job) = core.begin(&mut client.state, NOW, Read::OP, &read, 0)
    else {
        panic!("a job")
    };
    let mut out = MemorySink::default();
    let mut frames = 0;
    while job.step(&core, NOW, &mut out).unwrap() == ReadProgress::Again {
        assert!(out.data_frames.len() - frames <= 1);
        frames = out.data_frames.len();
    }
    assert_eq!((frames, out.payload), (16, pattern(bytes as usize, 1)));
}

#[test]
fn a_read_of_single_bytes_is_cut_into_many_small_frames() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    let data = pattern(10 * JOB_SLICE_ACCESSES_MAX, 1);
    client.write(&capability, contiguous(0, data.len() as u64), &data).unwrap();
    let every_other =
        Request { view: View::strided(0, 1, 2), start: 0, bytes: data.len() as u64 / 2 };
    let read = client.read(&capability, every_other).unwrap();
    assert_eq!(read.payload, data.iter().step_by(2).copied().collect::<Vec<_>>());
    assert!(read.data_frames.iter().all(|bytes| *bytes <= JOB_SLICE_ACCESSES_MAX));
}

#[test]
fn a_write_of_single_bytes_takes_at_most_a_slice_at_a_time() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    let payload = pattern(5 * JOB_SLICE_ACCESSES_MAX, 1);
    let request = Request { view: View::strided(0, 1, 2), start: 0, bytes: payload.len() as u64 };
    let present = capability.sign(&server_key());
    let write = Write { handle: 1, present, request: request.clone() }.to_bytes();
    let StartedRequest::Write(mut job) =
        core.begin(&mut client.state, NOW, Write::OP, &write, payload.len() as u32)
    else {
        panic!("a job")
    };
    let mut rest = &payload[..];
    while !rest.is_empty() {
        let taken = job.push(&core, NOW, rest);
        assert!(taken <= JOB_SLICE_ACCESSES_MAX + 1, "{taken}");
        rest = &rest[taken..];
    }
    while job.finish(&core, NOW).is_none() {}
    assert_eq!(client.read(&capability, request).unwrap().payload, payload);
}

#[test]
fn a_read_that_a_truncate_overtakes_is_to_be_made_again() {
    // In one frame, and in several of which some are already sent.
    for bytes in [100, 1 << 20] {
        let core = daemon(1);
        let capability = capability(striped([1]));
        let mut client = Client::of_session(&core, SESSION);
        client.write(&capability, contiguous(0, bytes), &pattern(bytes as usize, 1)).unwrap();
        let read = Read {
            handle: 1,
            present: capability.sign(&server_key()),
            request: contiguous(0, bytes),
        };
        let begun = core.begin(&mut client.state, NOW, Read::OP, &read.to_bytes(), 0);
        let StartedRequest::Read(mut reading) = begun else { panic!("a job") };
        let mut out = MemorySink::default();
        if bytes > 100 {
            assert_eq!(reading.step(&core, NOW, &mut out).unwrap(), ReadProgress::Again);
        }

        Client::mds(&core).call(&truncate(&capability, &[(0, 10)], 2)).unwrap();

        while reading.step(&core, NOW, &mut out).unwrap() == ReadProgress::Again {}
        let outcome = decode_outcome::<ReadReply>(&out.body.unwrap()).unwrap();
        assert_eq!(
            refusal(outcome),
            Status::StaleGeneration,
            "{bytes} bytes, of which some are zeros now"
        );
    }
}

#[test]
fn a_fence_stops_a_read_and_a_write_between_two_slices() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let mut client = Client::of_session(&core, SESSION);
    client.write(&capability, contiguous(0, 1 << 20), &pattern(1 << 20, 1)).unwrap();
    let present = capability.sign(&server_key());
    let request = contiguous(0, 1 << 20);
    let read = Read { handle: 1, present: present.clone(), request: request.clone() }.to_bytes();
    let write = Write { handle: 1, present, request }.to_bytes();
    let StartedRequest::Read(mut reading) = core.begin(&mut client.state, NOW, Read::OP, &read, 0)
    else {
        panic!("a job")
    };
    let begun = core.begin(&mut client.state, NOW, Write::OP, &write, 1 << 20);
    let StartedRequest::Write(mut writing) = begun else { panic!("a job") };
    let mut out = MemorySink::default();
    assert_eq!(reading.step(&core, NOW, &mut out).unwrap(), ReadProgress::Again);
    assert_eq!(writing.push(&core, NOW, &[0xee; 1000]), 1000);

    Client::mds(&core)
        .call(&Fence { sessions: vec![SESSION], fence: 1, epoch_min: EPOCH })
        .unwrap();

    assert_eq!(reading.step(&core, NOW, &mut out).unwrap(), ReadProgress::Finished);
    let outcome = decode_outcome::<ReadReply>(&out.body.unwrap()).unwrap();
    assert_eq!(refusal(outcome), Status::Fenced);
    let rest = vec![0xee; (1 << 20) - 1000];
    assert_eq!(
        writing.push(&core, NOW, &rest),
        rest.len(),
        "taken, so that the connection lives on, and dropped"
    );
    assert_eq!(writing.finish(&core, NOW).unwrap().status, Status::Fenced);
    let mut after = Client::mds(&core).read(&capability, contiguous(0, 2000)).unwrap().payload;
    assert_eq!(
        after.split_off(1000),
        pattern(2000, 1)[1000..],
        "nothing was written after the fence"
    );
}

#[test]
fn a_write_changes_nothing_after_its_abandonment_is_answered() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let (given_up, fresh) = (ConnectionId([1; 16]), ConnectionId([2; 16]));
    let mut first = Client::over(&core, SESSION, given_up);
    let mut second = Client::over(&core, SESSION, fresh);
    let request = contiguous(0, 2000);
    let write =
        Write { handle: 1, present: capability.sign(&server_key()), request: request.clone() }
            .to_bytes();
    let StartedRequest::Write(mut late) =
        core.begin(&mut first.state, NOW, Write::OP, &write, 2000)
    else {
        panic!("a job")
    };
    assert_eq!(late.push(&core, NOW, &[0xee; 1000]), 1000);

    second.call(&Abandon { connections: vec![given_up] }).unwrap();
    second.write(&capability, request.clone(), &pattern(2000, 1)).unwrap();

    assert_eq!(late.push(&core, NOW, &[0xee; 1000]), 1000, "taken and dropped");
    assert_eq!(late.finish(&core, NOW).unwrap().status, Status::Cancelled);
    let StartedRequest::Write(mut later) =
        core.begin(&mut first.state, NOW, Write::OP, &write, 2000)
    else {
        panic!("a job")
    };
    assert_eq!(later.push(&core, NOW, &[0xee; 2000]), 2000, "nor does a later one write");
    assert_eq!(later.finish(&core, NOW).unwrap().status, Status::Cancelled);
    assert_eq!(second.read(&capability, request).unwrap().payload, pattern(2000, 1));
}

#[test]
fn a_queued_allocation_is_not_done_after_its_connection_was_abandoned() {
    let core = daemon(1);
    let capability = capability(striped([1]));
    let given_up = ConnectionId([1; 16]);
    let mut first = Client::over(&core, SESSION, given_up);
    let mut second = Client::over(&core, SESSION, ConnectionId([2; 16]));
    let (offset, bytes, keep_size) = (FileOffset(0), ByteCount(10_000), false);
    let allocate =
        Allocate { handle: 1, present: capability.sign(&server_key()), offset, bytes, keep_size };
    let begun = core.begin(&mut first.state, NOW, Allocate::OP, &allocate.to_bytes(), 0);
    let StartedRequest::Work(late) = begun else { panic!("a work") };
    drop(first);

    second.call(&Abandon { connections: vec![given_up] }).unwrap();

    assert_eq!(
        late.run(&core, &|| NOW).status,
        Status::Cancelled,
        "also when the connection itself has ended"
    );
    assert_eq!(second.read(&capability, contiguous(0, 1)).unwrap().reply.ends, [end(0, 0)]);
}

#[test]
fn a_session_abandons_only_its_own_connections_and_unknown_ones() {
    let core = daemon(1);
    let id = ConnectionId([1; 16]);
    let mut theirs = Client::over(&core, SESSION, id);
    let mut ours = Client::over(&core, SessionId(6), ConnectionId([2; 16]));
    let abandon = |id| Abandon { connections: vec![id] };
    assert_eq!(refusal(ours.call(&abandon(id))), Status::NotPermitted);
    assert_eq!(refusal(Client::mds(&core).call(&abandon(id))), Status::WrongRole);
    let many = Abandon { connections: vec![ConnectionId([3; 16]); ABANDONED_CONNECTIONS_MAX + 1] };
    assert_eq!(refusal(ours.call(&many)), Status::LimitExceeded);
    ours.call(&abandon(ConnectionId([3; 16]))).unwrap();
    theirs.write(&capability(striped([1])), contiguous(0, 100), &[1; 100]).unwrap();
}
