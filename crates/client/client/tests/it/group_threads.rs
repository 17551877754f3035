//! A group whose tasks are threads: rounds, late tasks, lost tasks.

use std::{thread, time::Duration};

use braid_client::{Group, Result, Status, ThreadGroup};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);

/// Runs `work` on a thread for each task. Returns their results, in the order of ranks.
fn run<T: Send>(size: u32, work: impl Fn(ThreadGroup) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let tasks: Vec<_> =
            ThreadGroup::of(size).into_iter().map(|task| scope.spawn(move || work(task))).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    })
}

#[test]
fn every_task_receives_all_payloads_in_every_round() {
    let rounds = |task: ThreadGroup| {
        for round in 0..200u32 {
            // Of different lengths, some empty.
            let give = |rank: u32| vec![(rank + round) as u8; ((rank + round) % 5) as usize];
            let got = task.all_gather(&give(task.rank()), LONG).unwrap();
            assert_eq!(got, (0..task.size()).map(give).collect::<Vec<_>>(), "round {round}");
        }
    };
    for size in [1, 2, 7] {
        run(size, rounds);
    }
}

#[test]
fn a_task_that_does_not_come_fails_all_and_for_good() {
    let mut tasks = ThreadGroup::of(3);
    let absent = tasks.pop().unwrap();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let come = |task: ThreadGroup| {
            let late = task.all_gather(b"x", Duration::from_millis(20)).unwrap_err();
            (late, task.all_gather(b"x", LONG).unwrap_err(), task)
        };
        let tasks: Vec<_> = tasks.into_iter().map(|task| scope.spawn(move || come(task))).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).collect()
    });
    for (first, second, _) in &outcomes {
        assert_eq!(first.status(), Status::Unreachable);
        assert!(first.to_string().contains("task 2"), "{first}");
        assert_eq!(second, first, "one and the same outcome");
    }
    assert_eq!(
        absent.all_gather(b"x", LONG).unwrap_err().status(),
        Status::Unreachable,
        "the task that comes too late gets the same error"
    );
}

#[test]
fn a_task_that_panics_is_lost_and_no_task_keeps_waiting() {
    let outcomes: Vec<Result<Vec<Vec<u8>>>> = thread::scope(|scope| {
        let come = |task: ThreadGroup| {
            task.all_gather(b"", LONG).unwrap();
            match task.rank() {
                // Not `panic!`, whose message would look like a failure.
                1 => std::panic::resume_unwind(Box::new("planted")),
                _ => task.all_gather(b"", LONG),
            }
        };
        let tasks: Vec<_> =
            ThreadGroup::of(4).into_iter().map(|task| scope.spawn(move || come(task))).collect();
        tasks.into_iter().filter_map(|task| task.join().ok()).collect()
    });
    assert_eq!(outcomes.len(), 3);
    for outcome in outcomes {
        let error = outcome.unwrap_err();
        assert_eq!(error.status(), Status::ConnectionLost);
        assert!(error.to_string().contains("task 1 is lost"), "{error}");
    }
}

#[test]
fn a_task_that_ends_after_the_last_round_does_no_harm() {
    for _ in 0..200 {
        let got = run(3, |task| task.all_gather(&[task.rank() as u8], LONG));
        assert!(got.into_iter().all(|got| got.unwrap() == [[0], [1], [2]]));
    }
}
