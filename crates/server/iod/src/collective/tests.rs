//! Tests of the state machine.

use std::sync::Arc;

use braid_layout::{Distribution, Layout, LayoutMap, PartSet, Request, View};
use braid_types::{Failure, IodId, Status, limits::COLLECTIVE_RING};

use super::{
    chunk::{Chunk, ChunkPlan, PlanResult},
    cursor::Cursor,
    payload_exchange::{OfferState, OfferedPayload},
    progress::{CollectiveProgress, JoinAction, NextAction},
    source::MemorySource,
};
use crate::verified_capability::VerifiedCapability;

const CHUNK: u64 = 1 << 20;

fn map() -> LayoutMap {
    Layout::one(Distribution::Single, [IodId(1)]).map().unwrap()
}

fn grant() -> VerifiedCapability {
    use braid_types::{FileIndex, MdsEpoch, SessionId, SizeGeneration};
    use braid_wire::{Capability, Rights, Secret};
    let key = Secret::from_bytes([1; 32]);
    let capability = Capability {
        file: FileIndex(1),
        size_generation: SizeGeneration(1),
        rights: Rights::READ_WRITE,
        session: SessionId(1),
        epoch: MdsEpoch(1),
        owner: (0, 0),
        layout: Layout::one(Distribution::Single, [IodId(1)]),
        existing_parts: Vec::new(),
    };
    VerifiedCapability::verify(&capability.sign(&key), &key, IodId(1)).unwrap()
}

fn progress(requests: &[Request], writes: bool) -> CollectiveProgress {
    let (map, parts) = (map(), PartSet::first(1));
    let mut union = map.union_of(requests, &parts, u64::MAX).unwrap();
    assert!(union.find_next_accesses(&mut 1_000_000));
    let cursors = requests.iter().enumerate().map(|(at, request)| {
        let unfold = map.unfold(request, &parts).unwrap();
        union.has_more(at).then(|| Box::new(Cursor::new(unfold, u64::MAX)))
    });
    let cursors = cursors.collect();
    CollectiveProgress::new(union, cursors, writes)
}

fn interleaved(tasks: u64, bytes: u64) -> Vec<Request> {
    (0..tasks)
        .map(|n| Request { view: View::strided(n * 4096, 4096, tasks * 4096), start: 0, bytes })
        .collect()
}

/// Makes the chunk that the task wants.
fn make(progress: &mut CollectiveProgress, rank: usize) -> bool {
    let NextAction::Make(mut union, memory) = progress.next_action(rank) else { return false };
    let mut plan = ChunkPlan::default();
    let planned = loop {
        match plan.more(&mut union, &grant(), CHUNK, 0) {
            PlanResult::Paused => {}
            planned => break planned,
        }
    };
    progress.made(union, (planned == PlanResult::Whole).then(|| Chunk::new(plan, memory)));
    true
}

fn is_wait(want: &NextAction) -> bool {
    matches!(want, NextAction::Wait)
}

#[test]
fn the_fastest_task_is_a_ring_ahead_of_the_slowest_and_no_further() {
    let mut progress = progress(&interleaved(2, 20 * CHUNK), false);
    for number in 0..COLLECTIVE_RING {
        assert!(make(&mut progress, 0), "chunk {number}");
        assert!(matches!(progress.next_action(0), NextAction::Chunk(_)));
        progress.pass(0);
    }
    assert!(is_wait(&progress.next_action(0)), "the ring is full");
    let version = progress.version();
    assert!(matches!(progress.next_action(1), NextAction::Chunk(_)));
    progress.pass(1);
    assert_ne!(progress.version(), version, "threads that wait for a free chunk are woken");
    assert!(make(&mut progress, 0), "one chunk is released");
}

#[test]
fn one_task_makes_a_chunk_and_the_others_wait_for_it() {
    let mut progress = progress(&interleaved(3, CHUNK), false);
    let NextAction::Make(union, memory) = progress.next_action(1) else {
        panic!("the first makes it")
    };
    assert!(
        is_wait(&progress.next_action(0))
            && is_wait(&progress.next_action(1))
            && is_wait(&progress.next_action(2))
    );
    let (mut plan, mut union) = (ChunkPlan::default(), union);
    while plan.more(&mut union, &grant(), CHUNK, 0) == PlanResult::Paused {}
    assert_eq!(
        (plan.end, plan.bytes, plan.extents.len()),
        (CHUNK, CHUNK, 1),
        "interleaved pieces are one run"
    );
    progress.made(union, Some(Chunk::new(plan, memory)));
    assert!((0..3).all(|rank| matches!(progress.next_action(rank), NextAction::Chunk(_))));
}

#[test]
fn a_task_that_wants_nothing_more_holds_nobody_up() {
    let mut requests = interleaved(2, 20 * CHUNK);
    requests[1].bytes = 4096;
    let mut progress = progress(&requests, false);
    for _ in 0..COLLECTIVE_RING {
        assert!(make(&mut progress, 0));
        progress.pass(0);
    }
    assert!(is_wait(&progress.next_action(0)));
    progress.finish(1);
    for _ in 0..3 * COLLECTIVE_RING {
        assert!(make(&mut progress, 0));
        progress.pass(0);
    }
}

fn offer(bytes: usize) -> OfferedPayload {
    use braid_types::ConnectionId;
    let caller = crate::connections::ConnectionTable::default().add(ConnectionId::default(), None);
    OfferedPayload::new(MemorySource::new(&vec![0; bytes], bytes), &Arc::new(grant()), &caller)
}

/// Both tasks' calls have begun, and their payloads are offered.
fn offered() -> CollectiveProgress {
    let mut progress = progress(&interleaved(2, CHUNK), true);
    for rank in 0..2 {
        assert!(matches!(progress.begin(rank, 0), JoinAction::Go(None)));
        progress.offer(rank, offer(100));
    }
    progress
}

#[test]
fn another_thread_takes_the_writer_when_the_missing_payload_is_offered() {
    let mut progress = progress(&interleaved(2, CHUNK), true);
    assert!(matches!(progress.begin(0, 0), JoinAction::Go(None)));
    progress.offer(0, offer(100));
    let writer = progress.take_writer().expect("it is free");
    assert!(progress.take_writer().is_none(), "somebody has it");
    assert!(progress.take_offer(1).is_none(), "it has offered nothing");
    progress.park_writer(writer);
    assert!(progress.take_writer().is_none(), "it waits for the other task");
    progress.begin(1, 0);
    let version = progress.version();
    progress.offer(1, offer(100));
    let writer = progress.take_writer().expect("it is there");
    assert_eq!(progress.version(), version, "no other thread is woken for it");
    progress.park_writer(writer);
    assert_ne!(progress.version(), version, "the thread that parks it wakes the others");
}

#[test]
fn a_task_whose_bytes_of_a_chunk_were_all_taken_is_not_waited_for() {
    let mut progress = offered();
    let writer = progress.take_writer().expect("it is free");
    let borrowed = progress.take_offer(1).expect("it is offered");
    progress.complete_offer(1, borrowed);
    progress.task_received();
    let version = progress.version();
    progress.park_writer(writer);
    assert_ne!(progress.version(), version, "the others are woken");
    assert!(progress.take_writer().is_some(), "another thread lands the chunk");
}

#[test]
fn a_thread_has_its_payload_back_before_it_answers_also_after_a_failure() {
    let mut progress = offered();
    let borrowed = progress.take_offer(1).expect("it is offered");
    assert!(matches!(progress.offer_state(1), Ok(OfferState::Receiving)));
    progress.fail(Failure::new(Status::NoSpace, "the disk is full"));
    assert!(!progress.reclaim_offer(1), "it is being received from");
    assert!(progress.reclaim_offer(0), "no thread receives from it");
    let version = progress.version();
    progress.return_offer(1, borrowed);
    assert_ne!(progress.version(), version, "its thread is woken");
    assert!(progress.reclaim_offer(1));
    assert!(
        progress.take_offer(1).is_none() && progress.take_writer().is_none(),
        "nothing is received any more"
    );
}

#[test]
fn what_a_thread_that_has_ended_offered_is_withdrawn() {
    let mut progress = offered();
    let borrowed = progress.take_offer(0).expect("it is offered");
    progress.withdraw(0);
    let source = Arc::downgrade(&borrowed.source);
    progress.return_offer(0, borrowed);
    assert!(source.upgrade().is_none(), "else its connection would not end");
}

#[test]
fn a_call_ends_with_its_payload_and_the_last_one_when_it_is_written() {
    let mut progress = offered();
    progress.chunk_begun();
    let borrowed = progress.take_offer(0).expect("it is offered");
    progress.has_bytes_in_chunk(0);
    progress.complete_offer(0, borrowed);
    assert!(
        matches!(progress.offer_state(0), Ok(OfferState::Received(0))),
        "the task has another call to make"
    );
    progress.finish(0);
    assert!(matches!(progress.offer_state(0), Ok(OfferState::Writing)));
    let version = progress.version();
    progress.chunk_written();
    assert_ne!(progress.version(), version, "its thread waits for that");
    assert!(matches!(progress.offer_state(0), Ok(OfferState::Received(0))));
    assert!(!progress.is_over(), "the other task wants more");
    progress.finish(1);
    assert!(!progress.is_over(), "calls run");
    progress.withdraw(0);
    progress.withdraw(1);
    assert!(progress.is_over());
}

#[test]
fn it_fails_once_with_the_first_failure_and_for_everybody() {
    let mut progress = progress(&interleaved(2, CHUNK), false);
    assert!(matches!(progress.begin(0, 0), JoinAction::Go(_)));
    progress.fail(Failure::new(Status::NoSpace, "first"));
    progress.fail(Failure::new(Status::Cancelled, "second"));
    let is_first = |failure: &Failure| failure.detail == "first";
    assert!(matches!(progress.next_action(0), NextAction::Failed(failure) if is_first(&failure)));
    assert!(matches!(progress.begin(1, 0), JoinAction::Failed(failure) if is_first(&failure)));
    assert!(progress.offer_state(0).is_err_and(|failure| is_first(&failure)));
    assert!(!progress.is_over(), "a call runs");
    progress.withdraw(0);
    assert!(progress.is_over());
}

#[test]
fn a_tasks_calls_continue_each_other() {
    let mut progress = progress(&interleaved(2, CHUNK), false);
    let JoinAction::Go(Some(cursor)) = progress.begin(0, 0) else { panic!("its first call") };
    assert!(matches!(progress.begin(0, 4096), JoinAction::Wait), "the first one runs");
    progress.end(0, Some(cursor), 4096);
    assert!(matches!(progress.begin(0, 8192), JoinAction::Wait), "one is missing before it");
    assert!(matches!(progress.begin(0, 0), JoinAction::Misplaced));
    assert!(matches!(progress.begin(0, 4096), JoinAction::Go(_)));
    progress.finish(1);
    assert!(matches!(progress.begin(1, 77), JoinAction::Nothing));
}

#[test]
fn who_is_missing_is_named() {
    let mut progress = progress(&interleaved(3, CHUNK), false);
    let _held = (progress.begin(0, 0), progress.begin(2, 0));
    assert_eq!(
        progress.stalled(5).detail,
        "task 1 did not join the collective request within 5 ms"
    );
    let _held = progress.begin(1, 0);
    make(&mut progress, 0);
    progress.pass(0);
    progress.pass(1);
    assert_eq!(
        progress.stalled(5).detail,
        "task 2 of the collective request made no progress for 5 ms"
    );
}
