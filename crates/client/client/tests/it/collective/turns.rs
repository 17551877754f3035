//! Overlapping writes in several slots: the first failure is the result of all tasks, and ends the
//! call.

use std::{io::IoSlice, time::Duration};

use braid_client::{
    Client, CollectiveMode, CollectiveOptions, Error, File, Group, Overlap, Status,
};

use super::cluster::{Cluster, as_tasks, pattern, striped};

/// Enough tasks that waiting for each, one after the other, would take too long.
const TASKS: usize = 6;
const TIMEOUT: Duration = Duration::from_secs(10);

fn options(mode: CollectiveMode) -> CollectiveOptions {
    CollectiveOptions { mode, overlap: Overlap::HighestRank }
}

/// The tasks' write with a lost daemon. Returns the number of gathers.
fn meetings(mode: CollectiveMode) -> u64 {
    let mut cluster = Cluster::start(2);
    let hasty = |_| {
        Client::connect(cluster.hasty(TIMEOUT)).unwrap().open("/turns", &striped(4096, 2)).unwrap()
    };
    let files: Vec<File> = (0..TASKS).map(hasty).collect();
    files[0].write_at(&[0; 20_000], 0).unwrap();
    let gone = cluster.iods()[1].id();
    cluster.iods_mut()[1].stop();
    let ends: Vec<(Error, u64)> = as_tasks(&files, |task, file| {
        let data = vec![task.rank() as u8; 20_000];
        let error = file
            .write_all_vectored_at(task, &[IoSlice::new(&data)], 0, &options(mode))
            .unwrap_err();
        (error, task.rounds())
    });
    let (error, met) = &ends[0];
    assert!(ends.iter().all(|end| end == &ends[0]), "one and the same: {ends:?}");
    assert_eq!(error.status(), Status::Unreachable, "{error}");
    assert!(error.why().starts_with("task 0: "), "{error}");
    assert!(error.to_string().contains(&format!("I/O daemon {gone}")), "{error}");
    *met
}

#[test]
fn a_lost_daemon_costs_tasks_in_turns_the_time_of_one_call() {
    assert_eq!(meetings(CollectiveMode::Independent), 2, "the announcement, and the first turn");
}

#[test]
fn a_lost_daemon_costs_a_fallback_to_turns_the_time_of_one_call() {
    assert_eq!(
        meetings(CollectiveMode::Server),
        3,
        "the announcement, the request, and the first turn"
    );
}

#[test]
fn tasks_that_fall_back_take_their_turns_to_the_last_one() {
    let cluster = Cluster::start(2);
    let open = || cluster.client().open("/fallback", &striped(4096, 2)).unwrap();
    let files: Vec<File> = (0..TASKS).map(|_| open()).collect();
    // Their capabilities are old, so the daemons refuse the collective request.
    let other = open();
    other.write_at(&pattern(100_000, 1), 0).unwrap();
    other.set_len(50_000).unwrap();
    let rounds = as_tasks(&files, |task, file| {
        let data = vec![task.rank() as u8 + 1; 20_000];
        file.write_all_vectored_at(
            task,
            &[IoSlice::new(&data)],
            0,
            &options(CollectiveMode::Server),
        )
        .unwrap();
        task.rounds()
    });
    assert_eq!(rounds, [2 + TASKS as u64; TASKS], "the announcement, the request, and a turn each");
    let mut found = vec![0; 20_000];
    assert_eq!(other.read_at(&mut found, 0).unwrap(), found.len());
    assert!(found.iter().all(|byte| *byte == TASKS as u8), "the highest rank's");
}
