//! Tasks, connections and daemons that are lost in the middle: all tasks end with the same result,
//! in bounded time, and no write is reported that was not completed.

use std::{
    io::{IoSlice, IoSliceMut},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
    time::{Duration, Instant},
};

use braid_client::{
    CollectiveMode, CollectiveOptions, Config, Error, Group, Status, ToPathRef, View,
    engine::{Collective, Engine, FileView, Next, OpenFile},
    refuse_all,
};
use braid_net::{Blocking, Driver, Tokio, block_on};

use super::cluster::{Cluster, Task, as_tasks, pattern, striped};

const SERVER: CollectiveOptions =
    CollectiveOptions { mode: CollectiveMode::Server, overlap: braid_client::Overlap::HighestRank };
/// A daemon waits 4/15 of it for a task.
const TIMEOUT: Duration = Duration::from_secs(6);

/// One task's open file, on its own engine and session.
async fn open<D: Driver>(driver: D, config: Config, path: &str) -> Arc<OpenFile<D>> {
    let caller = Engine::new(driver, config).caller();
    caller.open(&path.to_path_ref(), &striped(65536, 2)).await.unwrap()
}

fn blocking(cluster: &Cluster, path: &str) -> Arc<OpenFile<Blocking>> {
    block_on(open(Blocking::new(), cluster.hasty(TIMEOUT), path))
}

fn view(rank: u32, tasks: u32) -> FileView {
    FileView::new(View::strided(u64::from(rank) * 4096, 4096, u64::from(tasks) * 4096)).unwrap()
}

/// The outcome of the task's part.
fn part(collective: &mut Collective<'_, '_, Blocking>, all: &[Vec<u8>]) -> Vec<u8> {
    match block_on(collective.step(all)) {
        Next::Gather(outcome) => outcome,
        Next::Done(result) => panic!("{result:?}"),
    }
}

#[test]
fn a_task_that_cannot_make_the_call_reports_it_without_a_wait() {
    let cluster = Cluster::start(1);
    let files: Vec<_> =
        (0..3).map(|_| cluster.client().open("/refused", &striped(65536, 1)).unwrap()).collect();
    let why = Error::new(Status::PermissionDenied, "no file is open here");
    let outcomes = as_tasks(&files, |task, file| match task.rank() {
        1 => refuse_all(task, &why, TIMEOUT).unwrap(),
        _ => file.write_all_at(task, &[1; 100], 0).unwrap_err(),
    });
    for outcome in outcomes {
        assert_eq!(
            (outcome.status(), outcome.why()),
            (why.status(), "task 1: no file is open here")
        );
    }
    assert_eq!(files[0].size().unwrap(), 0, "nothing was written");
}

#[test]
fn a_task_that_joins_too_late_makes_all_tasks_fall_back() {
    let cluster = Cluster::start(2);
    const EACH: usize = 12 << 20;
    for writes in [false, true] {
        let path = format!("/late{writes}");
        let files: Vec<_> = (0..3).map(|_| blocking(&cluster, &path)).collect();
        let data: Vec<Vec<u8>> = (0..3).map(|rank| pattern(EACH, rank)).collect();
        if !writes {
            for (rank, data) in (0..).zip(&data) {
                block_on(files[0].write_at(&view(rank, 3), 0, &[IoSlice::new(data)])).unwrap();
            }
        }
        let mut buffers: Vec<Vec<u8>> = vec![vec![0; EACH]; 3];
        let mut memory: Vec<[IoSliceMut<'_>; 1]> =
            buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let sources: Vec<[IoSlice<'_>; 1]> = data.iter().map(|data| [IoSlice::new(data)]).collect();
        let begun = (0..).zip(&files).zip(memory.iter_mut().zip(&sources)).map(
            |((rank, file), (into, from))| {
                block_on(async {
                    if writes {
                        file.write_all_at(rank, &view(rank, 3), 0, from, &SERVER).await
                    } else {
                        file.read_all_at(rank, &view(rank, 3), 0, into, &SERVER).await
                    }
                })
            },
        );
        let (mut tasks, announced): (Vec<_>, Vec<_>) = begun.unzip();
        let begun = Instant::now();
        let mut outcomes: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let announced = &announced;
            let parts: Vec<_> =
                tasks[..2].iter_mut().map(|task| scope.spawn(|| part(task, announced))).collect();
            parts.into_iter().map(|part| part.join().unwrap()).collect()
        });
        let waited = begun.elapsed();
        assert!(
            waited > Duration::from_secs(1) && waited < TIMEOUT,
            "waited for the third task for {waited:?}"
        );
        outcomes.push(part(&mut tasks[2], &announced));
        // All tasks fall back at the same step.
        let again: Vec<Vec<u8>> = tasks.iter_mut().map(|task| part(task, &outcomes)).collect();
        for task in &mut tasks {
            match block_on(task.step(&again)) {
                Next::Done(Ok(bytes)) => assert_eq!(bytes, EACH),
                other => panic!("{other:?}"),
            }
        }
        drop(tasks);
        drop(memory);
        for (rank, data) in (0..).zip(&data) {
            if writes {
                block_on(files[0].read_at(
                    &view(rank, 3),
                    0,
                    &mut [IoSliceMut::new(&mut buffers[rank as usize])],
                ))
                .unwrap();
            }
            assert!(buffers[rank as usize] == *data, "task {rank}");
        }
    }
}

#[test]
fn a_task_whose_connection_ends_in_the_middle_fails_the_call_for_all() {
    let cluster = Cluster::start(2);
    const EACH: usize = 24 << 20;
    // It would wait as long as this, if nobody reported that the other is gone.
    const PATIENCE: Duration = Duration::from_secs(60);
    let file = block_on(open(Blocking::new(), cluster.hasty(PATIENCE), "/gone"));
    let data = pattern(EACH, 7);
    block_on(file.write_at(&view(0, 2), 0, &[IoSlice::new(&data)])).unwrap();
    let mut buffer = vec![0; EACH];
    let mut into = [IoSliceMut::new(&mut buffer)];
    let (mut stays, mine) = block_on(file.read_all_at(0, &view(0, 2), 0, &mut into, &SERVER));
    let (sender, receiver) = std::sync::mpsc::channel();
    let (config, leaves) = (cluster.hasty(TIMEOUT), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let goes = scope.spawn(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let file = open(Tokio::new(), config, "/gone").await;
                let mut buffer = vec![0; EACH];
                let mut into = [IoSliceMut::new(&mut buffer)];
                let (mut goes, announced) =
                    file.read_all_at(1, &view(1, 2), 0, &mut into, &SERVER).await;
                let all: Vec<Vec<u8>> = vec![mine, announced];
                sender.send(all.clone()).unwrap();
                let mut step = std::pin::pin!(goes.step(&all));
                let mut look = tokio::time::interval(Duration::from_millis(5));
                // Dropped in the middle, like a cancelled call.
                std::future::poll_fn(|context| {
                    if leaves.load(Relaxed) {
                        return Poll::Ready(());
                    }
                    while look.poll_tick(context).is_ready() {}
                    step.as_mut()
                        .poll(context)
                        .map(|next| panic!("the other task is not there: {next:?}"))
                })
                .await;
            });
        });
        let all = receiver.recv().unwrap();
        let begun = Instant::now();
        while cluster.counted().joins == 0 {
            assert!(begun.elapsed() < TIMEOUT, "it joins");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        leaves.store(true, Relaxed);
        goes.join().unwrap();
        let left = Instant::now();
        let outcome = part(&mut stays, &all);
        assert!(
            left.elapsed() < PATIENCE / 4,
            "the other task learns of it without a wait for its own limit: {:?}",
            left.elapsed()
        );
        let why = String::from_utf8_lossy(&outcome).into_owned();
        assert!(why.contains("task 1") || why.contains("the collective request"), "{why}");
    });
}

#[test]
fn a_daemon_that_dies_fails_the_call_for_all_with_one_error() {
    let mut cluster = Cluster::start(2);
    const EACH: usize = 12 << 20;
    let files: Vec<_> = (0..3).map(|_| blocking(&cluster, "/dies")).collect();
    let group = Task::group(3);
    // Two tasks are in the middle of the call when a daemon dies; the third begins afterwards.
    let (begun, has_begun) = std::sync::mpsc::channel();
    let errors: Vec<Error> = std::thread::scope(|scope| {
        let tasks: Vec<_> = group
            .iter()
            .zip(&files)
            .map(|(task, file)| {
                let begun = begun.clone();
                scope.spawn(move || {
                    let data = pattern(EACH, u64::from(task.rank()));
                    let from = [IoSlice::new(&data)];
                    let view = view(task.rank(), 3);
                    let (mut collective, mut mine) =
                        block_on(file.write_all_at(task.rank(), &view, 0, &from, &SERVER));
                    let mut step = 0;
                    loop {
                        let all = task.all_gather(&mine, 10 * TIMEOUT).unwrap();
                        if step == 0 && task.rank() == 2 {
                            let (sender, receiver) = std::sync::mpsc::channel();
                            begun.send(sender).unwrap();
                            receiver.recv().unwrap();
                        }
                        step += 1;
                        match block_on(collective.step(&all)) {
                            Next::Gather(next) => mine = next,
                            Next::Done(result) => return result.unwrap_err(),
                        }
                    }
                })
            })
            .collect();
        let go_on = has_begun.recv().unwrap();
        let since = Instant::now();
        while cluster.counted().joins < 4 {
            assert!(since.elapsed() < TIMEOUT, "two tasks join at both daemons");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let dead = cluster.iods()[1].id();
        cluster.iods_mut()[1].stop();
        go_on.send(()).unwrap();
        let errors: Vec<Error> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
        assert!(since.elapsed() < 3 * TIMEOUT, "{:?}", since.elapsed());
        assert!(errors[0].to_string().contains(&format!("I/O daemon {dead}")), "{}", errors[0]);
        errors
    });
    assert!(errors.iter().all(|error| *error == errors[0]), "one and the same: {errors:?}");
    assert_eq!(errors[0].status(), Status::Unreachable, "{}", errors[0]);
}

#[test]
fn a_task_without_rights_fails_the_call_before_anything_is_sent() {
    let cluster = Cluster::start(2);
    let files: Vec<_> = (0..3)
        .map(|rank| {
            let options =
                braid_client::OpenOptions::new().read(true).write(rank != 1).create(rank != 1);
            cluster.client().open("/rights", &options).unwrap()
        })
        .collect();
    let errors = as_tasks(&files, |task, file| file.write_all_at(task, &[1; 5000], 0).unwrap_err());
    for error in &errors {
        assert_eq!(
            error.to_string(),
            "write together /rights: task 1: the file is not open for writing; \
             try: braid stat to see its owner and mode"
        );
    }
    assert_eq!(cluster.counted().collectives, 0);
    assert_eq!(files[0].size().unwrap(), 0);
}

#[test]
fn a_file_that_was_truncated_by_another_is_read_together_by_falling_back() {
    let cluster = Cluster::start(2);
    let files: Vec<_> = (0..3)
        .map(|rank| {
            let view = View::strided(rank * 1024, 1024, 3 * 1024);
            cluster.client().open("/cut", &striped(65536, 2)).unwrap().with_view(view).unwrap()
        })
        .collect();
    let other = cluster.client().open("/cut", &striped(65536, 2)).unwrap();
    other.write_at(&pattern(3 << 20, 1), 0).unwrap();
    other.set_len(2 << 20).unwrap();
    let data = &pattern(3 << 20, 1)[..2 << 20];
    let begun = Instant::now();
    as_tasks(&files, |task, file| {
        let mut buffer = vec![0; 1 << 20];
        let bytes = file.read_all_at(task, &mut buffer, 0).unwrap();
        let from = task.rank() as usize * 1024;
        let mine: Vec<u8> = data
            .chunks(3 * 1024)
            .flat_map(|row| row.iter().skip(from).take(1024))
            .copied()
            .collect();
        assert!(buffer[..bytes] == mine, "task {}", task.rank());
    });
    assert!(cluster.failed_calls() > 0, "the daemons refused the old capability");
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "nobody waited for a task: {:?}",
        begun.elapsed()
    );
}

/// The parts of a collective call may move to another thread.
const _: fn() = || {
    fn sent<T: Send>(_: Option<T>) {}
    sent::<Collective<'static, 'static, Blocking>>(None);
    sent::<Arc<Engine<Tokio>>>(None);
};
