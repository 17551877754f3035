//! Collective writes: whenever the payloads are offered, and in whatever pieces they come, the file
//! has every task's bytes.

use std::sync::Arc;

use braid_iod::{IodCore, JoinJob, JoinStep, MemorySource, PayloadSource, StartedRequest};
use braid_layout::{Request, View};
use braid_store::MemStore;
use braid_types::{ByteCount, ConnectionId, Failure, Status};
use braid_wire::{
    Call, Capability, Wire, decode_outcome,
    message::{
        collective::{CollectiveKind, StridedRequests},
        iod::{BeginCollective, JoinWrite, WriteReply},
    },
};
use proptest::prelude::*;

use super::harness::*;

const ID: [u8; 16] = [9; 16];

/// One task with all its calls.
struct Task<'c> {
    client: Client<'c>,
    rank: u32,
    /// Payloads of its calls that have not begun.
    calls: Vec<Vec<u8>>,
    /// The call in progress.
    call: Option<(Box<JoinJob>, Arc<dyn PayloadSource>)>,
    skip: u64,
    bytes_max: usize,
    /// Its last slice waited for other tasks.
    waits: bool,
}

impl Task<'_> {
    /// The whole payload in calls of this many bytes.
    fn new<'c>(
        core: &'c IodCore<MemStore>,
        rank: usize,
        payload: &[u8],
        call_bytes: usize,
        bytes_max: usize,
    ) -> Task<'c> {
        let calls = payload.chunks(call_bytes).map(<[u8]>::to_vec).collect();
        let client = Client::over(core, SESSION, ConnectionId([rank as u8 + 1; 16]));
        Task { client, rank: rank as u32, calls, call: None, skip: 0, bytes_max, waits: false }
    }

    /// One slice. Returns the outcome of a call that has ended.
    fn step(&mut self, capability: &Capability) -> Option<Result<WriteReply, Failure>> {
        let (job, source) = match &mut self.call {
            Some(call) => call,
            None if self.calls.is_empty() => return None,
            None => {
                let payload = self.calls.remove(0);
                let (present, skip) = (capability.sign(&server_key()), ByteCount(self.skip));
                let join = JoinWrite {
                    handle: 1,
                    present,
                    collective: ID,
                    rank: self.rank,
                    skip,
                    wait_ms: 1000,
                };
                let (body, bytes) = (join.to_bytes(), payload.len() as u32);
                let begun = self.client.core.begin(
                    &mut self.client.state,
                    NOW,
                    JoinWrite::OP,
                    &body,
                    bytes,
                );
                let StartedRequest::Join(job) = begun else { panic!("{begun:?}") };
                self.skip += payload.len() as u64;
                self.call.insert((job, MemorySource::new(&payload, self.bytes_max)))
            }
        };
        let outcome = job.write(self.client.core, NOW, source);
        self.waits = matches!(outcome, Err(JoinStep::Waits));
        let answer = outcome.ok()?;
        self.call = None;
        Some(decode_outcome(&answer.body).unwrap())
    }

    fn is_done(&self) -> bool {
        self.calls.is_empty() && self.call.is_none()
    }
}

/// Tasks run slices until all are done. Each runs now and then, whatever `choose` draws from the
/// others.
///
/// # Errors
/// The outcome of a call; `None` while all wait.
fn run(
    tasks: &mut [Task<'_>],
    capability: &Capability,
    mut choose: impl FnMut(usize) -> usize,
) -> Result<(), Option<Failure>> {
    let mut idle = 0;
    for turn in 0.. {
        let left: Vec<usize> = (0..tasks.len()).filter(|task| !tasks[*task].is_done()).collect();
        if left.is_empty() {
            break;
        }
        let task = &mut tasks
            [left[if turn % 3 == 0 { turn / 3 % left.len() } else { choose(left.len()) }]];
        let ended = task.step(capability);
        idle = if ended.is_none() && task.waits { idle + 1 } else { 0 };
        ended.transpose().map_err(Some)?;
        // Each had several slices.
        if idle > 20 * left.len() {
            return Err(None);
        }
    }
    Ok(())
}

/// The file's contents when all have written; in overlaps, the highest rank's.
fn file_of(wishes: &[Wish], payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    wishes.iter().zip(payloads).for_each(|(wish, payload)| wish.put(payload, &mut file));
    file
}

fn read_back(core: &IodCore<MemStore>, capability: &Capability, bytes: usize) -> Vec<u8> {
    let mut client = Client::of_session(core, SESSION);
    let mut read = client.read(capability, contiguous(0, bytes as u64)).unwrap().payload;
    read.resize(bytes, 0);
    read
}

/// A task's strided pieces.
#[derive(Clone, Debug)]
struct Wish {
    from: u64,
    group: u64,
    stride: u64,
    bytes: u64,
}

impl Wish {
    fn request(&self) -> Request {
        Request {
            view: View::strided(self.from, self.group, self.stride),
            start: 0,
            bytes: self.bytes,
        }
    }

    fn put(&self, payload: &[u8], file: &mut Vec<u8>) {
        for (at, piece) in payload.chunks(self.group as usize).enumerate() {
            let from = (self.from + at as u64 * self.stride) as usize;
            if file.len() < from + piece.len() {
                file.resize(from + piece.len(), 0);
            }
            file[from..from + piece.len()].copy_from_slice(piece);
        }
    }
}

fn wish() -> impl Strategy<Value = Wish> {
    let group = prop_oneof![1..40u64, 1000..6000u64];
    (0..30_000u64, group, 0..12_000u64, 1..60_000u64).prop_map(|(from, group, hole, bytes)| {
        // Few enough pieces that a case does not take long.
        Wish { from, group, stride: group + hole, bytes: bytes.min(group * 400) }
    })
}

fn capability_of(parts: usize) -> Capability {
    capability(striped(vec![1; parts]))
}

fn collect(client: &mut Client<'_>, capability: &Capability, requests: &[Request]) {
    let (tasks, present) =
        (StridedRequests::from_requests(requests), capability.sign(&server_key()));
    let sessions = vec![(SESSION, requests.len() as u32)];
    let collect = BeginCollective {
        handle: 1,
        present,
        collective: ID,
        kind: CollectiveKind::Write,
        tasks,
        sessions,
    };
    client.call(&collect).unwrap();
}

/// Always the same tasks, again and again.
fn run_in(
    order: &[prop::sample::Index],
    tasks: &mut [Task<'_>],
    capability: &Capability,
) -> Result<(), Option<Failure>> {
    let mut turns = order.iter().cycle();
    run(tasks, capability, |left| turns.next().expect("endless").index(left))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_file_has_every_tasks_bytes_and_overlaps_are_the_highest_ranks(
        wishes in prop::collection::vec(wish(), 1..5),
        parts in 1..4usize,
        call_bytes in prop_oneof![1..3000usize, 20_000..100_000usize],
        bytes_max in prop_oneof![1..300usize, 2000..9000usize, Just(1usize << 20)],
        order in prop::collection::vec(any::<prop::sample::Index>(), 16),
    ) {
        let longest = wishes.iter().map(|wish| wish.bytes as usize).max().unwrap();
        let call_bytes = call_bytes.max(longest / 40 + 1);
        let core = daemon(1);
        let capability = capability_of(parts);
        let requests: Vec<Request> = wishes.iter().map(Wish::request).collect();
        let payloads: Vec<Vec<u8>> =
            wishes.iter().zip(0..).map(|(wish, rank)| pattern(wish.bytes as usize, rank)).collect();
        collect(&mut Client::of_session(&core, SESSION), &capability, &requests);
        let mut tasks: Vec<Task<'_>> = payloads.iter().enumerate()
            .map(|(rank, payload)| Task::new(&core, rank, payload, call_bytes, bytes_max))
            .collect();
        let ended = run_in(&order, &mut tasks, &capability);
        prop_assert!(ended.is_ok(), "{ended:?}");
        drop(tasks);
        let file = file_of(&wishes, &payloads);
        prop_assert!(read_back(&core, &capability, file.len()) == file);
    }
}

/// Tasks whose pieces of 4 KiB interleave, each with this many bytes.
fn interleaved(bytes: &[u64]) -> Vec<Wish> {
    let stride = 4096 * bytes.len() as u64;
    bytes
        .iter()
        .zip(0..)
        .map(|(bytes, rank)| Wish { from: rank * 4096, group: 4096, stride, bytes: *bytes })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tasks_that_want_unequal_amounts_in_several_chunks_all_come_to_an_end(
        pieces in prop::collection::vec(1..65u64, 1..5),
        more in prop_oneof![1..64u64, 64..500u64],
        calls in 1..4usize,
        bytes_max in prop_oneof![Just(5000usize), Just(100_000), Just(1 << 20)],
        order in prop::collection::vec(any::<prop::sample::Index>(), 64),
    ) {
        // 64 pieces of each task fill a chunk: all but the last task are done after the first one.
        let rest = 64 * (pieces.len() as u64 + 1) - pieces.iter().sum::<u64>() + more;
        let bytes: Vec<u64> =
            pieces.into_iter().chain([rest]).map(|pieces| pieces * 4096).collect();
        let (core, capability, wishes) = (daemon(1), capability_of(1), interleaved(&bytes));
        let requests: Vec<Request> = wishes.iter().map(Wish::request).collect();
        collect(&mut Client::of_session(&core, SESSION), &capability, &requests);
        let payload = |(bytes, rank): (&u64, u64)| pattern(*bytes as usize, rank);
        let payloads: Vec<Vec<u8>> = bytes.iter().zip(0..).map(payload).collect();
        let mut tasks: Vec<Task<'_>> = payloads.iter().enumerate()
            .map(|(rank, payload)| {
                Task::new(&core, rank, payload, payload.len().div_ceil(calls), bytes_max)
            })
            .collect();
        let ended = run_in(&order, &mut tasks, &capability);
        prop_assert!(ended.is_ok(), "{ended:?}");
        drop(tasks);
        let file = file_of(&wishes, &payloads);
        prop_assert!(read_back(&core, &capability, file.len()) == file);
    }
}

/// 256 KiB of each task fill the first chunk. The last task has one more piece, which is the second
/// chunk.
#[test]
fn a_task_need_not_wait_for_the_thread_that_received_its_last_bytes() {
    let (core, capability) = (daemon(1), capability_of(1));
    let bytes = [256u64 << 10, 256 << 10, 256 << 10, 260 << 10];
    let requests: Vec<Request> = interleaved(&bytes).iter().map(Wish::request).collect();
    collect(&mut Client::of_session(&core, SESSION), &capability, &requests);
    let task = |rank: usize| {
        Task::new(&core, rank, &pattern(bytes[rank] as usize, rank as u64), 1 << 20, 1 << 20)
    };
    let mut tasks: [Task<'_>; 4] = std::array::from_fn(task);
    for task in &mut tasks {
        assert!(task.step(&capability).is_none(), "it has offered its payload");
    }
    for (rank, bytes) in bytes.into_iter().enumerate() {
        let ended = (0..1000)
            .find_map(|_| tasks[rank].step(&capability))
            .expect("it comes to an end by itself");
        assert_eq!(ended.unwrap().bytes, ByteCount(bytes));
        if let Some((_, payload)) = &tasks[3].call {
            assert_eq!(
                payload.left(),
                4096,
                "a task that only has to answer does not receive for others"
            );
        }
    }
}

/// Two tasks with 16 bytes each, alternating by 8. The first has offered 8 bytes, which come by 2,
/// and both wait.
fn two_tasks<'c>(core: &'c IodCore<MemStore>, capability: &Capability) -> [Task<'c>; 2] {
    let wish = |rank: u64| Wish { from: rank * 8, group: 8, stride: 16, bytes: 16 };
    collect(
        &mut Client::of_session(core, SESSION),
        capability,
        &[wish(0).request(), wish(1).request()],
    );
    [0, 1].map(|rank| Task::new(core, rank, &[b'a' + rank as u8; 16], 8, 2))
}

#[test]
fn one_task_receives_for_all_as_far_as_it_can_and_another_goes_on() {
    let (core, capability) = (daemon(1), capability_of(1));
    let [mut first, mut second] = two_tasks(&core, &capability);
    let until_it_waits = |task: &mut Task<'_>| (0..50).find_map(|_| task.step(&capability));
    assert!(
        until_it_waits(&mut second).is_none(),
        "the first task, whose bytes come first, has offered nothing"
    );
    assert_eq!(
        until_it_waits(&mut first).unwrap().unwrap().bytes,
        ByteCount(8),
        "its first call is over"
    );
    assert!(until_it_waits(&mut second).is_none(), "more of the first come before its own");
    assert!(
        until_it_waits(&mut first).is_none(),
        "it has received its own bytes, and what the second offered"
    );
    assert_eq!(until_it_waits(&mut second).unwrap().unwrap().bytes, ByteCount(8));
    assert_eq!(
        until_it_waits(&mut second).unwrap().unwrap().bytes,
        ByteCount(8),
        "it has received the rest, and written all"
    );
    assert_eq!(until_it_waits(&mut first).unwrap().unwrap().bytes, ByteCount(8));
    let read = first.client.read(&capability, contiguous(0, 32)).unwrap();
    assert_eq!(read.payload, b"aaaaaaaabbbbbbbbaaaaaaaabbbbbbbb");
}

#[test]
fn a_task_that_ends_while_it_receives_for_all_fails_the_request() {
    let (core, capability) = (daemon(1), capability_of(1));
    let [mut first, mut second] = two_tasks(&core, &capability);
    for _ in 0..10 {
        assert!(second.step(&capability).is_none());
    }
    for _ in 0..3 {
        assert!(first.step(&capability).is_none());
    }
    drop(first);
    let ended = (0..3).find_map(|_| second.step(&capability)).expect("immediately");
    assert_eq!(refusal(ended), Status::Cancelled);
    assert_eq!(
        second.client.read(&capability, contiguous(0, 32)).unwrap().payload,
        b"",
        "nothing is written"
    );
}

/// A connection that ends in the middle.
#[derive(Debug)]
struct Broken;

impl PayloadSource for Broken {
    fn left(&self) -> usize {
        16
    }

    fn receive(
        &self,
        _: &mut [std::io::IoSliceMut<'_>],
    ) -> Result<usize, braid_iod::ConnectionLost> {
        Err(braid_iod::ConnectionLost)
    }
}

#[test]
fn a_payload_that_does_not_come_ends_it_for_all_and_names_the_task() {
    let (core, capability) = (daemon(1), capability_of(1));
    let [mut first, mut second] = two_tasks(&core, &capability);
    let join = JoinWrite {
        handle: 1,
        present: capability.sign(&server_key()),
        collective: ID,
        rank: 0,
        skip: ByteCount(0),
        wait_ms: 1000,
    };
    let begun =
        first.client.core.begin(&mut first.client.state, NOW, JoinWrite::OP, &join.to_bytes(), 16);
    let StartedRequest::Join(mut job) = begun else { panic!("{begun:?}") };
    let broken: Arc<dyn PayloadSource> = Arc::new(Broken);
    assert!((0..5).all(|_| second.step(&capability).is_none()));
    let answer = (0..5).find_map(|_| job.write(&core, NOW, &broken).ok()).expect("immediately");
    let failure = decode_outcome::<WriteReply>(&answer.body).unwrap().unwrap_err();
    assert_eq!(failure.detail, "the connection of task 0 of the collective request ended");
    let others = (0..3).find_map(|_| second.step(&capability)).expect("immediately").unwrap_err();
    assert_eq!(others, failure);
}

#[test]
fn a_task_whose_bytes_do_not_come_is_named_after_the_wait() {
    /// No bytes come.
    #[derive(Debug)]
    struct Silent;
    impl PayloadSource for Silent {
        fn left(&self) -> usize {
            16
        }
        fn receive(
            &self,
            _: &mut [std::io::IoSliceMut<'_>],
        ) -> Result<usize, braid_iod::ConnectionLost> {
            Ok(0)
        }
    }
    let (core, capability) = (daemon(1), capability_of(1));
    let wish = Wish { from: 0, group: 8, stride: 16, bytes: 16 };
    let mut client = Client::of_session(&core, SESSION);
    collect(&mut client, &capability, &[wish.request()]);
    let present = capability.sign(&server_key());
    let join = JoinWrite {
        handle: 1,
        present,
        collective: ID,
        rank: 0,
        skip: ByteCount(0),
        wait_ms: 1000,
    };
    let begun = core.begin(&mut client.state, NOW, JoinWrite::OP, &join.to_bytes(), 16);
    let StartedRequest::Join(mut job) = begun else { panic!("{begun:?}") };
    let silent: Arc<dyn PayloadSource> = Arc::new(Silent);
    let mut at = |millis| {
        (0..5).find_map(|_| {
            match job.write(&core, NOW + std::time::Duration::from_millis(millis), &silent) {
                Ok(answer) => {
                    Some(decode_outcome::<WriteReply>(&answer.body).unwrap().unwrap_err())
                }
                Err(step) => {
                    assert_eq!(step, JoinStep::Again, "it waits in its source");
                    None
                }
            }
        })
    };
    assert!(at(0).is_none() && at(999).is_none());
    let failure = at(1000).expect("the time is up");
    assert_eq!(failure.detail, "task 0 of the collective request made no progress for 1000 ms");
}
