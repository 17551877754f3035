//! Collective requests through the core: which tasks may join, what is refused, and what is not
//! written.

use std::sync::Arc;

use braid_iod::{JoinJob, JoinStep, MemorySink, MemorySource, PayloadSource, StartedRequest};
use braid_layout::{Distribution, Layout, Pattern, Request, View};
use braid_net::TlsPolicy;
use braid_types::{
    ByteCount, ConnectionId, Failure, IodId, SessionId, SizeGeneration, Status,
    limits::{COLLECTIVE_TASKS_MAX, COLLECTIVES_MAX, COLLECTIVES_OF_SESSION_MAX},
};
use braid_wire::{
    Call, Capability, FrameFlags, Rights, Wire, decode_outcome,
    message::{
        Cancel, Ping,
        collective::{CollectiveKind, StridedRequests},
        iod::{
            Abandon, BeginCollective, Fence, JoinRead, JoinWrite, ObjectLength, Truncate,
            WriteReply,
        },
    },
};

use super::{
    cluster::{Cluster, RawClient, SocketClient, request_frame},
    harness::*,
    slices::{beside, second_of_two},
};

pub const OTHER: SessionId = SessionId(6);
pub const ID: [u8; 16] = [3; 16];
/// A payload that is available immediately.
pub const WHOLE: usize = 1 << 30;

pub fn whole() -> Capability {
    capability(Layout::one(Distribution::Single, [IodId(1)]))
}

pub fn of(session: SessionId) -> Capability {
    Capability { session, ..whole() }
}

/// Two tasks with 8 of every 16 bytes each; sessions by rank.
pub fn collect(
    id: [u8; 16],
    kind: CollectiveKind,
    sessions: &[SessionId],
    bytes: u64,
) -> BeginCollective {
    let stride = 8 * sessions.len() as u64;
    let task = |n: usize| Request { view: View::strided(n as u64 * 8, 8, stride), start: 0, bytes };
    let tasks = StridedRequests::from_requests(&(0..sessions.len()).map(task).collect::<Vec<_>>());
    let sessions = sessions.iter().map(|session| (*session, 1)).collect();
    let present = of(SESSION).sign(&server_key());
    BeginCollective { handle: 1, present, collective: id, kind, tasks, sessions }
}

pub fn join_read(capability: &Capability, rank: u32, bytes: u64) -> JoinRead {
    let present = capability.sign(&server_key());
    let (skip, bytes) = (ByteCount(0), ByteCount(bytes));
    JoinRead { handle: 1, present, collective: ID, rank, skip, bytes, wait_ms: 1000 }
}

pub fn join_write(capability: &Capability, rank: u32) -> JoinWrite {
    let present = capability.sign(&server_key());
    JoinWrite { handle: 1, present, collective: ID, rank, skip: ByteCount(0), wait_ms: 1000 }
}

/// A task's write in progress, with its payload.
pub struct Write {
    pub job: Box<JoinJob>,
    pub payload: Arc<dyn PayloadSource>,
}

/// A write that has run as far as it can without others; `bytes_max` bytes of its payload come at a
/// time.
pub fn begun(client: &mut Client<'_>, join: &JoinWrite, payload: &[u8], bytes_max: usize) -> Write {
    let begun = client.core.begin(
        &mut client.state,
        NOW,
        JoinWrite::OP,
        &join.to_bytes(),
        payload.len() as u32,
    );
    let StartedRequest::Join(job) = begun else { panic!("{begun:?}") };
    Write { job, payload: MemorySource::new(payload, bytes_max) }
}

/// The outcome of a write; `None` while it waits for others.
pub fn ended(client: &Client<'_>, write: &mut Write) -> Option<Result<WriteReply, Failure>> {
    loop {
        match write.job.write(client.core, NOW, &write.payload) {
            Ok(answer) => return Some(decode_outcome(&answer.body).unwrap()),
            Err(JoinStep::Waits) => return None,
            Err(_) => {}
        }
    }
}

#[test]
fn a_stranger_cannot_join_and_changes_nothing_for_the_tasks() {
    let core = daemon(1);
    let mut task = Client::of_session(&core, SESSION);
    task.write(&whole(), contiguous(0, 16), b"abcdefghijklmnop").unwrap();
    task.call(&collect(ID, CollectiveKind::Read, &[SESSION], 16)).unwrap();
    let mut stranger = Client::of_session(&core, OTHER);
    assert_eq!(
        refusal(stranger.call(&join_read(&of(OTHER), 0, 16))),
        Status::BadCapability,
        "another's place"
    );
    assert_eq!(
        refusal(stranger.call(&join_read(&of(OTHER), 1, 16))),
        Status::BadCapability,
        "no place"
    );
    assert_eq!(
        refusal(stranger.call(&join_read(&of(SESSION), 0, 16))),
        Status::BadCapability,
        "another's capability"
    );
    let other_file = Capability { file: braid_types::FileIndex(78), ..whole() };
    let mut elsewhere = Client::over(&core, SESSION, ConnectionId([8; 16]));
    assert_eq!(
        refusal(elsewhere.call(&join_read(&other_file, 0, 16))),
        Status::BadCapability,
        "another file's"
    );
    let read = task.call_with(&join_read(&whole(), 0, 16), &[]).unwrap();
    assert_eq!(read.payload, b"abcdefghijklmnop");
    assert_eq!(read.reply.bytes, ByteCount(16));
}

#[test]
fn the_right_that_is_needed_is_needed_by_master_and_task() {
    let core = daemon(1);
    let mut task = Client::of_session(&core, SESSION);
    let read_only = Capability { rights: Rights::READ, ..whole() };
    let writing = BeginCollective {
        present: read_only.sign(&server_key()),
        ..collect(ID, CollectiveKind::Write, &[SESSION], 16)
    };
    assert_eq!(refusal(task.call(&writing)), Status::BadCapability);
    assert_eq!(
        refusal(task.call_with(&join_write(&whole(), 0), &[1; 16])),
        Status::BadCapability,
        "and so are joins"
    );
    let id = [4; 16];
    task.call(&BeginCollective {
        collective: id,
        ..collect(id, CollectiveKind::Write, &[SESSION], 16)
    })
    .unwrap();
    let joining = JoinWrite { collective: id, ..join_write(&read_only, 0) };
    assert_eq!(refusal(task.call_with(&joining, &[1; 16])), Status::BadCapability);
    let reading = JoinRead { collective: id, ..join_read(&whole(), 0, 16) };
    assert_eq!(refusal(task.call(&reading)), Status::BadCapability, "it writes");
    let joining = JoinWrite { collective: id, ..join_write(&whole(), 0) };
    assert_eq!(task.call_with(&joining, &[1; 16]).unwrap().reply.bytes, ByteCount(16));
}

#[test]
fn a_master_that_is_no_task_and_lists_that_do_not_fit_are_refused() {
    let core = daemon(1);
    let mut master = Client::of_session(&core, SESSION);
    let stranger = collect([1; 16], CollectiveKind::Read, &[OTHER], 16);
    assert_eq!(refusal(master.call(&stranger)), Status::BadCapability);
    let mut short = collect([2; 16], CollectiveKind::Read, &[SESSION, OTHER], 16);
    short.sessions.pop();
    assert_eq!(refusal(master.call(&short)), Status::Malformed);
    let mut crowd = collect([4; 16], CollectiveKind::Read, &[SESSION], 16);
    crowd.tasks[0].count = COLLECTIVE_TASKS_MAX as u32 + 1;
    crowd.sessions[0].1 = COLLECTIVE_TASKS_MAX as u32 + 1;
    assert_eq!(refusal(master.call(&crowd)), Status::LimitExceeded);
    assert_eq!(
        refusal(Client::mds(&core).call(&collect(ID, CollectiveKind::Read, &[SESSION], 16))),
        Status::WrongRole
    );
}

/// A collective write of one task, in its leader task's session.
fn by(master: SessionId, id: u8) -> BeginCollective {
    let present = of(master).sign(&server_key());
    BeginCollective { present, ..collect([id; 16], CollectiveKind::Write, &[master], 16) }
}

#[test]
fn collective_requests_are_limited_and_idle_ones_are_ended() {
    let core = daemon(1);
    let mut masters: Vec<_> =
        (10..15).map(|session| Client::of_session(&core, SessionId(session))).collect();
    for (number, id) in (0..COLLECTIVES_MAX as u8).enumerate() {
        let at = number / COLLECTIVES_OF_SESSION_MAX;
        masters[at].call(&by(SessionId(10 + at as u64), id)).unwrap();
    }
    let last = SessionId(14);
    assert_eq!(refusal(masters[4].call(&by(last, 200))), Status::LimitExceeded);
    core.serve_until(None);
    masters[4].now += std::time::Duration::from_secs(61);
    core.serve_until(Some(masters[4].now + SERVES_FOR));
    masters[4].call(&by(last, 201)).unwrap();
    assert_eq!(refusal(masters[4].call(&by(last, 201))), Status::Exists, "an id is used once");
}

#[test]
fn one_session_does_not_take_all_places_and_what_is_over_is_given_back() {
    let core = daemon(1);
    let mut master = Client::of_session(&core, SESSION);
    for id in 0..COLLECTIVES_OF_SESSION_MAX as u8 {
        master.call(&by(SESSION, id)).unwrap();
    }
    assert_eq!(refusal(master.call(&by(SESSION, 100))), Status::LimitExceeded);
    Client::of_session(&core, OTHER).call(&by(OTHER, 101)).unwrap();
    let join = JoinWrite { collective: [0; 16], ..join_write(&whole(), 0) };
    master.call_with(&join, &[1; 16]).unwrap();
    master.call(&by(SESSION, 102)).unwrap();
}

#[test]
fn views_of_collective_requests_take_bounded_memory() {
    let core = daemon(1);
    let mut master = Client::of_session(&core, SESSION);
    // 14 nested vectors that cannot be simplified: 250 bytes each in the message, 3 KiB prepared.
    let chain = |_| {
        (0..14).fold(Pattern::Bytes(1), |child, level| Pattern::Vector {
            count: 2,
            stride: 3 << (2 * level),
            child: Box::new(child),
        })
    };
    let chains = Pattern::Struct((0..2000).map(|at| (at << 40, chain(at))).collect());
    let request = Request {
        view: View { displacement: 0, extent: 1 << 62, pattern: chains },
        start: 0,
        bytes: 16,
    };
    let large = |id: u8, count: u32| {
        let tasks = vec![StridedRequests {
            first: request.clone(),
            count,
            displacement_step: 0,
            start_step: 0,
        }];
        BeginCollective { tasks, sessions: vec![(SESSION, count)], ..by(SESSION, id) }
    };
    master.call(&large(1, 16)).unwrap();
    assert_eq!(
        refusal(master.call(&large(2, 16))),
        Status::LimitExceeded,
        "two of them are more than a session's share"
    );
    master.call(&by(SESSION, 3)).unwrap();
}

#[test]
fn a_collective_write_is_one_call_of_the_store_after_all_tasks() {
    let core = daemon(1);
    let (mut first, mut second) =
        (Client::of_session(&core, SESSION), Client::of_session(&core, OTHER));
    first.call(&collect(ID, CollectiveKind::Write, &[SESSION, OTHER], 16)).unwrap();
    let mut one = begun(&mut first, &join_write(&of(SESSION), 0), b"aaaaaaaacccccccc", WHOLE);
    assert_eq!(ended(&first, &mut one), None, "the other's bytes are missing");
    assert_eq!(first.read(&whole(), contiguous(0, 32)).unwrap().payload, b"", "nothing is written");
    let mut two = begun(&mut second, &join_write(&of(OTHER), 1), b"bbbbbbbbdddddddd", WHOLE);
    assert_eq!(ended(&second, &mut two).unwrap().unwrap().bytes, ByteCount(16));
    assert_eq!(ended(&first, &mut one).unwrap().unwrap().bytes, ByteCount(16));
    assert_eq!(
        first.read(&whole(), contiguous(0, 32)).unwrap().payload,
        b"aaaaaaaabbbbbbbbccccccccdddddddd"
    );
    let calls = core.counters().collective_store_calls.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(calls, 1);
}

#[test]
fn payloads_of_fenced_or_abandoned_tasks_are_not_written() {
    for abandoned in [false, true] {
        let core = daemon(1);
        let id = ConnectionId([5; 16]);
        let (mut first, mut second) =
            (Client::over(&core, SESSION, id), Client::of_session(&core, OTHER));
        first.call(&collect(ID, CollectiveKind::Write, &[SESSION, OTHER], 16)).unwrap();
        let mut one = begun(&mut first, &join_write(&of(SESSION), 0), b"aaaaaaaacccccccc", WHOLE);
        assert_eq!(ended(&first, &mut one), None);
        let status = if abandoned {
            let mut again = Client::over(&core, SESSION, ConnectionId([6; 16]));
            again.call(&Abandon { connections: vec![id] }).unwrap();
            Status::Cancelled
        } else {
            let fence = Fence { sessions: vec![SESSION], fence: 1, epoch_min: EPOCH };
            Client::mds(&core).call(&fence).unwrap();
            Status::Fenced
        };
        let mut two = begun(&mut second, &join_write(&of(OTHER), 1), b"bbbbbbbbdddddddd", WHOLE);
        assert_eq!(
            ended(&second, &mut two).unwrap().unwrap_err().status,
            status,
            "the same for all"
        );
        assert_eq!(ended(&first, &mut one).unwrap().unwrap_err().status, status);
        assert_eq!(second.read(&of(OTHER), contiguous(0, 32)).unwrap().payload, b"");
    }
}

#[test]
fn a_truncate_in_between_ends_a_read_and_a_write_as_stale() {
    for kind in [CollectiveKind::Read, CollectiveKind::Write] {
        let core = daemon(1);
        let mut task = Client::of_session(&core, SESSION);
        task.write(&whole(), contiguous(0, 16), b"abcdefghijklmnop").unwrap();
        task.call(&collect(ID, kind, &[SESSION], 16)).unwrap();
        let objects = vec![ObjectLength { object: object(0), bytes: ByteCount(16) }];
        let (size_generation, capability) = (SizeGeneration(2), whole().sign(&server_key()));
        let truncate = Truncate { objects, size_generation, capability, make_absent: false };
        Client::mds(&core).call(&truncate).unwrap();
        let status = match kind {
            CollectiveKind::Read => refusal(task.call(&join_read(&whole(), 0, 16))),
            _ => refusal(task.call_with(&join_write(&whole(), 0), &[1; 16])),
        };
        assert_eq!(status, Status::StaleGeneration, "{kind:?}");
        let fresh = Capability { size_generation, ..whole() };
        assert_eq!(task.read(&fresh, contiguous(0, 16)).unwrap().payload, b"abcdefghijklmnop");
    }
}

#[test]
fn a_task_of_a_newer_size_generation_than_the_master_ends_it_for_all() {
    let core = daemon(1);
    let mut task = Client::of_session(&core, SESSION);
    task.write(&whole(), contiguous(0, 16), &[1; 16]).unwrap();
    task.call(&collect(ID, CollectiveKind::Read, &[SESSION], 16)).unwrap();
    let newer = Capability { size_generation: SizeGeneration(2), ..whole() };
    assert_eq!(refusal(task.call(&join_read(&newer, 0, 16))), Status::StaleGeneration);
    assert_eq!(refusal(task.call(&join_read(&whole(), 0, 16))), Status::StaleGeneration);
}

#[test]
fn a_payload_that_is_not_what_the_task_wants_fails_for_all() {
    for bytes in [8usize, 24] {
        let core = daemon(1);
        let mut task = Client::of_session(&core, SESSION);
        task.call(&collect(ID, CollectiveKind::Write, &[SESSION], 16)).unwrap();
        let outcome = task.call_with(&join_write(&whole(), 0), &vec![7; bytes]);
        if bytes == 8 {
            // The rest may come with another call, but there is none.
            assert_eq!(outcome.unwrap().reply.bytes, ByteCount(8));
            assert_eq!(task.read(&whole(), contiguous(0, 16)).unwrap().payload, b"");
        } else {
            assert_eq!(refusal(outcome), Status::Malformed);
        }
    }
}

#[test]
fn the_end_of_a_connection_ends_what_its_task_is_in() {
    let core = daemon(1);
    let (mut first, mut second) =
        (Client::of_session(&core, SESSION), Client::of_session(&core, OTHER));
    first.call(&collect(ID, CollectiveKind::Write, &[SESSION, OTHER], 16)).unwrap();
    // The first half of its bytes: answered, and no call of the task runs.
    let mut one = begun(&mut first, &join_write(&of(SESSION), 0), b"aaaaaaaa", WHOLE);
    assert_eq!(ended(&first, &mut one).unwrap().unwrap().bytes, ByteCount(8));
    drop(one);
    drop(first);
    let lost = refusal(second.call_with(&join_write(&of(OTHER), 1), &[1; 16]));
    assert_eq!(lost, Status::TryAgain);
    assert_eq!(second.read(&of(OTHER), contiguous(0, 32)).unwrap().payload, b"");
}

#[test]
fn without_threads_a_task_that_would_wait_gets_try_again() {
    let core = daemon(1);
    let mut task = Client::of_session(&core, SESSION);
    assert_eq!(
        refusal(task.call(&join_read(&whole(), 0, 16))),
        Status::TryAgain,
        "no Collect came"
    );
    task.call(&collect(ID, CollectiveKind::Write, &[SESSION, OTHER], 16)).unwrap();
    assert_eq!(refusal(task.call_with(&join_write(&whole(), 0), &[1; 16])), Status::TryAgain);
}

/// 256 KiB of this daemon and a byte, then nothing of it for 2^30 steps.
fn more_is_long_to_search() -> BeginCollective {
    let entries =
        vec![(0, Pattern::Bytes(256 * 1024)), (512 * 1024, Pattern::Bytes(1)), (1 << 30, beside())];
    let view = View { displacement: 1 << 30, extent: 1 << 61, pattern: Pattern::Struct(entries) };
    let request = Request { view, start: 0, bytes: 1 << 29 };
    let present = second_of_two().sign(&server_key());
    let (kind, tasks) = (CollectiveKind::Read, StridedRequests::from_requests(&[request]));
    BeginCollective {
        handle: 1,
        present,
        collective: ID,
        kind,
        tasks,
        sessions: vec![(SESSION, 1)],
    }
}

#[test]
fn the_search_for_a_tasks_next_byte_is_limited_and_fails_the_others() {
    let core = daemon(1);
    let mut task = Client::of_session(&core, SESSION);
    task.write(&second_of_two(), contiguous((1 << 60) - 1, 1), b"x").unwrap();
    task.call(&more_is_long_to_search()).unwrap();
    let join = join_read(&second_of_two(), 0, 256 * 1024);
    assert_eq!(task.call(&join).unwrap().bytes, ByteCount(256 * 1024), "the call has its bytes");
    assert_eq!(refusal(task.call(&join)), Status::LimitExceeded);
}

#[test]
fn what_a_task_wants_after_its_call_is_not_sought_for_a_fenced_session() {
    let core = daemon(1);
    let mut task = Client::of_session(&core, SESSION);
    task.write(&second_of_two(), contiguous((1 << 60) - 1, 1), b"x").unwrap();
    task.call(&more_is_long_to_search()).unwrap();
    let join = join_read(&second_of_two(), 0, 256 * 1024).to_bytes();
    let StartedRequest::Join(mut job) = core.begin(&mut task.state, NOW, JoinRead::OP, &join, 0)
    else {
        panic!("a job")
    };
    let mut out = MemorySink::default();
    while out.body.is_none() {
        assert_eq!(job.step(&core, NOW, &mut out).unwrap(), JoinStep::Again);
    }
    Client::mds(&core)
        .call(&Fence { sessions: vec![SESSION], fence: 1, epoch_min: EPOCH })
        .unwrap();
    let answer = out.body.take();
    assert_eq!(job.step(&core, NOW, &mut out).unwrap(), JoinStep::Finished);
    assert!(answer.is_some() && out.body.is_none(), "it was answered once");
}

#[test]
fn a_task_that_goes_before_it_has_seen_the_collect_is_not_waited_for() {
    let core = daemon(1);
    let (mut first, mut second) =
        (Client::of_session(&core, SESSION), Client::of_session(&core, OTHER));
    first.write(&whole(), contiguous(0, 32), &[1; 32]).unwrap();
    let join = join_read(&of(OTHER), 1, 16).to_bytes();
    let StartedRequest::Join(mut job) = core.begin(&mut second.state, NOW, JoinRead::OP, &join, 0)
    else {
        panic!("a job")
    };
    assert_eq!(job.step(&core, NOW, &mut MemorySink::default()).unwrap(), JoinStep::Waits);
    first.call(&collect(ID, CollectiveKind::Read, &[SESSION, OTHER], 16)).unwrap();
    job.connection_closed(&core, NOW);
    drop(job);
    assert_eq!(refusal(first.call(&join_read(&whole(), 0, 16))), Status::Cancelled);
}

fn on(cluster: &Cluster) -> Capability {
    capability(Layout::one(Distribution::Single, [cluster.iod.id()]))
}

#[test]
fn a_waiting_join_can_be_cancelled_and_does_not_block_its_connection() {
    let cluster = Cluster::start();
    let mut client = RawClient::connect(&cluster.client_endpoint());
    let join = JoinRead { wait_ms: 30_000, ..join_read(&on(&cluster), 0, 16) };
    client.send(&request_frame(1, &join));
    client.send(&request_frame(2, &Ping {}));
    let (header, _) = client.receive();
    assert_eq!((header.request_id, header.flags), (2, FrameFlags::FINAL));
    client.send(&request_frame(3, &Cancel { request_id: 1 }));
    let mut ended = || {
        let (header, body) = client.receive();
        (
            header.request_id,
            decode_outcome::<()>(&body).unwrap().err().map(|failure| failure.status),
        )
    };
    assert_eq!([ended(), ended()], [(1, Some(Status::Cancelled)), (3, None)]);
}

#[test]
fn joins_without_a_collect_or_without_the_others_time_out() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let join = JoinRead { wait_ms: 100, ..join_read(&on(&cluster), 0, 16) };
    let (alone, _) = client.call(&join, &[], &mut [0; 16]).unwrap();
    let late = "the leader task sent no collective request within 100 ms";
    assert_eq!(alone.unwrap_err().detail, late);
    let present = on(&cluster).sign(&server_key());
    let collect =
        BeginCollective { present, ..collect(ID, CollectiveKind::Write, &[SESSION, SESSION], 16) };
    client.call(&collect, &[], &mut []).unwrap().0.unwrap();
    let join = JoinWrite { wait_ms: 100, ..join_write(&on(&cluster), 1) };
    let (waited, _) = client.call(&join, &[7; 16], &mut []).unwrap();
    let failure = waited.unwrap_err();
    assert_eq!(failure.status, Status::TryAgain);
    assert_eq!(failure.detail, "task 0 did not join the collective request within 100 ms");
    let join = JoinWrite { wait_ms: 30_000, ..join_write(&on(&cluster), 0) };
    let (late, _) = client.call(&join, &[7; 16], &mut []).unwrap();
    assert_eq!(late.unwrap_err(), failure, "the same, immediately");
}

#[test]
fn collective_data_goes_over_tls() {
    let cluster = Cluster::start_with(|config| config.tls = TlsPolicy::Always);
    let mut endpoint = cluster.client_endpoint();
    endpoint.tls = TlsPolicy::Always;
    let mut client = SocketClient::connect(&endpoint).unwrap();
    let request = Request { view: View::strided(100, 4000, 8000), start: 0, bytes: 1 << 20 };
    let present = on(&cluster).sign(&server_key());
    for (id, kind) in [(ID, CollectiveKind::Write), ([4; 16], CollectiveKind::Read)] {
        let tasks = StridedRequests::from_requests(std::slice::from_ref(&request));
        let (present, sessions) = (present.clone(), vec![(SESSION, 1)]);
        let collect = BeginCollective { handle: 1, present, collective: id, kind, tasks, sessions };
        client.call(&collect, &[], &mut []).unwrap().0.unwrap();
        let data = pattern(1 << 20, 1);
        if kind == CollectiveKind::Write {
            let (written, _) = client.call(&join_write(&on(&cluster), 0), &data, &mut []).unwrap();
            assert_eq!(written.unwrap().bytes, ByteCount(1 << 20));
        } else {
            let mut back = vec![0; 1 << 20];
            let join = JoinRead { collective: id, ..join_read(&on(&cluster), 0, 1 << 20) };
            let (read, filled) = client.call(&join, &[], &mut back).unwrap();
            assert_eq!((read.unwrap().bytes, filled), (ByteCount(1 << 20), 1 << 20));
            assert!(back == data);
        }
    }
}
