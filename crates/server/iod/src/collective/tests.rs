//! Tests of the state machine.

use std::sync::Arc;

use braid_layout::{Distribution, Layout, LayoutMap, PartSet, Request, View};
use braid_types::{Failure, IodId, Status, limits::COLLECTIVE_RING};

use super::{
    chunk::{Chunk, Plan, Planned},
    cursor::Cursor,
    desk::{Lent, Loan},
    progress::{Progress, Turn, Want},
    source::Given,
};
use crate::grant::Grant;

const CHUNK: u64 = 1 << 20;

fn map() -> LayoutMap {
    Layout::one(Distribution::Single, [IodId(1)]).map().unwrap()
}

fn grant() -> Grant {
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
    Grant::verify(&capability.sign(&key), &key, IodId(1)).unwrap()
}

fn progress(requests: &[Request], writes: bool) -> Progress {
    let (map, parts) = (map(), PartSet::first(1));
    let mut sweep = map.union_of(requests, &parts, u64::MAX).unwrap();
    assert!(sweep.find_next_accesses(&mut 1_000_000));
    let cursors = requests.iter().enumerate().map(|(at, request)| {
        let unfold = map.unfold(request, &parts).unwrap();
        sweep.has_more(at).then(|| Box::new(Cursor::new(unfold, u64::MAX)))
    });
    let cursors = cursors.collect();
    Progress::new(sweep, cursors, writes)
}

fn interleaved(tasks: u64, bytes: u64) -> Vec<Request> {
    (0..tasks)
        .map(|n| Request { view: View::strided(n * 4096, 4096, tasks * 4096), start: 0, bytes })
        .collect()
}

/// Makes the chunk that the task wants.
fn make(progress: &mut Progress, rank: usize) -> bool {
    let Want::Make(mut sweep, memory) = progress.want(rank) else { return false };
    let mut plan = Plan::default();
    let planned = loop {
        match plan.more(&mut sweep, &grant(), CHUNK, 0) {
            Planned::Paused => {}
            planned => break planned,
        }
    };
    progress.made(sweep, (planned == Planned::Whole).then(|| Chunk::new(plan, memory)));
    true
}

fn is_wait(want: &Want) -> bool {
    matches!(want, Want::Wait)
}

#[test]
fn the_fastest_task_is_a_ring_ahead_of_the_slowest_and_no_further() {
    let mut progress = progress(&interleaved(2, 20 * CHUNK), false);
    for number in 0..COLLECTIVE_RING {
        assert!(make(&mut progress, 0), "chunk {number}");
        assert!(matches!(progress.want(0), Want::Chunk(_)));
        progress.pass(0);
    }
    assert!(is_wait(&progress.want(0)), "the ring is full");
    let version = progress.version();
    assert!(matches!(progress.want(1), Want::Chunk(_)));
    progress.pass(1);
    assert_ne!(progress.version(), version, "threads that wait for a free chunk are woken");
    assert!(make(&mut progress, 0), "one chunk is released");
}

#[test]
fn one_task_makes_a_chunk_and_the_others_wait_for_it() {
    let mut progress = progress(&interleaved(3, CHUNK), false);
    let Want::Make(sweep, memory) = progress.want(1) else { panic!("the first makes it") };
    assert!(is_wait(&progress.want(0)) && is_wait(&progress.want(1)) && is_wait(&progress.want(2)));
    let (mut plan, mut sweep) = (Plan::default(), sweep);
    while plan.more(&mut sweep, &grant(), CHUNK, 0) == Planned::Paused {}
    assert_eq!(
        (plan.end, plan.bytes, plan.extents.len()),
        (CHUNK, CHUNK, 1),
        "interleaved pieces are one run"
    );
    progress.made(sweep, Some(Chunk::new(plan, memory)));
    assert!((0..3).all(|rank| matches!(progress.want(rank), Want::Chunk(_))));
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
    assert!(is_wait(&progress.want(0)));
    progress.finish(1);
    for _ in 0..3 * COLLECTIVE_RING {
        assert!(make(&mut progress, 0));
        progress.pass(0);
    }
}

fn loan(bytes: usize) -> Loan {
    use braid_types::ConnectionId;
    let caller = crate::callers::Callers::default().add(ConnectionId::default(), None);
    Loan::new(Given::new(&vec![0; bytes], bytes), &Arc::new(grant()), &caller)
}

/// Both tasks' calls have begun, and their payloads are offered.
fn lent() -> Progress {
    let mut progress = progress(&interleaved(2, CHUNK), true);
    for rank in 0..2 {
        assert!(matches!(progress.begin(rank, 0), Turn::Go(None)));
        progress.lend(rank, loan(100));
    }
    progress
}

#[test]
fn another_thread_takes_the_writer_when_the_missing_payload_is_offered() {
    let mut progress = progress(&interleaved(2, CHUNK), true);
    assert!(matches!(progress.begin(0, 0), Turn::Go(None)));
    progress.lend(0, loan(100));
    let writer = progress.take_writer().expect("it is free");
    assert!(progress.take_writer().is_none(), "somebody has it");
    assert!(progress.borrow(1).is_none(), "it has offered nothing");
    progress.park_writer(writer);
    assert!(progress.take_writer().is_none(), "it waits for the other task");
    progress.begin(1, 0);
    let version = progress.version();
    progress.lend(1, loan(100));
    let writer = progress.take_writer().expect("it is there");
    assert_eq!(progress.version(), version, "no other thread is woken for it");
    progress.park_writer(writer);
    assert_ne!(progress.version(), version, "the thread that parks it wakes the others");
}

#[test]
fn a_task_whose_bytes_of_a_chunk_were_all_taken_is_not_waited_for() {
    let mut progress = lent();
    let writer = progress.take_writer().expect("it is free");
    let borrowed = progress.borrow(1).expect("it is offered");
    progress.give_back(1, borrowed);
    progress.went_on();
    let version = progress.version();
    progress.park_writer(writer);
    assert_ne!(progress.version(), version, "the others are woken");
    assert!(progress.take_writer().is_some(), "another thread lands the chunk");
}

#[test]
fn a_thread_has_its_payload_back_before_it_answers_also_after_a_failure() {
    let mut progress = lent();
    let borrowed = progress.borrow(1).expect("it is offered");
    assert!(matches!(progress.lent(1), Ok(Lent::Wanted)));
    progress.fail(Failure::new(Status::NoSpace, "the disk is full"));
    assert!(!progress.take_back(1), "it is being received from");
    assert!(progress.take_back(0), "no thread receives from it");
    let version = progress.version();
    progress.put_back(1, borrowed);
    assert_ne!(progress.version(), version, "its thread is woken");
    assert!(progress.take_back(1));
    assert!(
        progress.borrow(1).is_none() && progress.take_writer().is_none(),
        "nothing is received any more"
    );
}

#[test]
fn what_a_thread_that_is_gone_has_lent_goes_with_it() {
    let mut progress = lent();
    let borrowed = progress.borrow(0).expect("it is offered");
    progress.withdraw(0);
    let source = Arc::downgrade(&borrowed.source);
    progress.put_back(0, borrowed);
    assert!(source.upgrade().is_none(), "else its connection would not end");
}

#[test]
fn a_call_ends_with_its_payload_and_the_last_one_when_it_is_written() {
    let mut progress = lent();
    progress.began();
    let borrowed = progress.borrow(0).expect("it is offered");
    progress.put(0);
    progress.give_back(0, borrowed);
    assert!(matches!(progress.lent(0), Ok(Lent::Taken(0))), "the task has another call to make");
    progress.finish(0);
    assert!(matches!(progress.lent(0), Ok(Lent::Landing)));
    let version = progress.version();
    progress.landed();
    assert_ne!(progress.version(), version, "its thread waits for that");
    assert!(matches!(progress.lent(0), Ok(Lent::Taken(0))));
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
    assert!(matches!(progress.begin(0, 0), Turn::Go(_)));
    progress.fail(Failure::new(Status::NoSpace, "first"));
    progress.fail(Failure::new(Status::Cancelled, "second"));
    let is_first = |failure: &Failure| failure.detail == "first";
    assert!(matches!(progress.want(0), Want::Failed(failure) if is_first(&failure)));
    assert!(matches!(progress.begin(1, 0), Turn::Failed(failure) if is_first(&failure)));
    assert!(progress.lent(0).is_err_and(|failure| is_first(&failure)));
    assert!(!progress.is_over(), "a call runs");
    progress.withdraw(0);
    assert!(progress.is_over());
}

#[test]
fn a_tasks_calls_continue_each_other() {
    let mut progress = progress(&interleaved(2, CHUNK), false);
    let Turn::Go(Some(cursor)) = progress.begin(0, 0) else { panic!("its first call") };
    assert!(matches!(progress.begin(0, 4096), Turn::Wait), "the first one runs");
    progress.end(0, Some(cursor), 4096);
    assert!(matches!(progress.begin(0, 8192), Turn::Wait), "one is missing before it");
    assert!(matches!(progress.begin(0, 0), Turn::Misplaced));
    assert!(matches!(progress.begin(0, 4096), Turn::Go(_)));
    progress.finish(1);
    assert!(matches!(progress.begin(1, 77), Turn::Nothing));
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
