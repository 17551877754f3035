//! A task that is lost in the middle of a collective write: what the others return, and the bytes
//! in the file afterwards.

use std::{
    io::IoSlice,
    net::TcpListener,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    task::Poll,
    time::Duration,
};

use braid_client::{
    CollectiveMode, CollectiveOptions, Error, File, Group, Overlap, Secret, Status, TcpGroup,
    ThreadGroup, ToPathRef, View,
    engine::{Engine, FileView},
};
use braid_net::Tokio;

use super::cluster::{Cluster, as_tasks, pattern, striped};

const SERVER: CollectiveOptions =
    CollectiveOptions { mode: CollectiveMode::Server, overlap: Overlap::HighestRank };
const LONG: Duration = Duration::from_secs(120);
/// More than a task has in flight at a time.
const EACH: usize = 24 << 20;
const TASKS: u32 = 3;

fn view(rank: u32) -> View {
    View::strided(u64::from(rank) * 4096, 4096, u64::from(TASKS) * 4096)
}

fn open(cluster: &Cluster, rank: u32) -> File {
    cluster.client().open("/lost", &striped(65536, 2)).unwrap().with_view(view(rank)).unwrap()
}

/// As a task that is killed: it begins its part and disappears.
fn begin_and_go(cluster: &Cluster, group: Box<dyn Group>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let caller = Engine::new(Tokio::new(), cluster.config()).caller();
        let file = caller.open(&"/lost".to_path_ref(), &striped(65536, 2)).await.unwrap();
        let data = vec![0xee; EACH];
        let from = [IoSlice::new(&data)];
        let view = FileView::new(view(group.rank())).unwrap();
        let before = cluster.counted().joins;
        let (mut goes, announced) = file.write_all_at(group.rank(), &view, 0, &from, &SERVER).await;
        let all = group.all_gather(&announced, LONG).unwrap();
        let mut step = std::pin::pin!(goes.step(&all));
        let mut look = tokio::time::interval(Duration::from_millis(5));
        let has_begun = AtomicBool::new(false);
        std::future::poll_fn(|context| {
            if has_begun.load(Relaxed) && cluster.counted().joins > before {
                return Poll::Ready(());
            }
            while look.poll_tick(context).is_ready() {}
            has_begun.store(true, Relaxed);
            step.as_mut()
                .poll(context)
                .map(|next| panic!("not all of it fits in one step: {next:?}"))
        })
        .await;
    });
}

fn threads() -> Vec<Box<dyn Group>> {
    ThreadGroup::of(TASKS).into_iter().map(|task| Box::new(task) as _).collect()
}

fn over_tcp() -> Vec<Box<dyn Group>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, secret) = (listener.local_addr().unwrap(), Secret::from_bytes([3; 32]));
    std::thread::scope(|scope| {
        let join = |rank| TcpGroup::join(address, rank, TASKS, &secret, LONG).unwrap();
        let others: Vec<_> = (1..TASKS).map(|rank| scope.spawn(move || join(rank))).collect();
        let root = TcpGroup::listen(listener, TASKS, &secret, LONG).unwrap();
        let others = others.into_iter().map(|other| other.join().unwrap());
        [root].into_iter().chain(others).map(|task| Box::new(task) as _).collect()
    })
}

/// The last task of the group is lost in the middle of a write.
fn lose_one(mut group: Vec<Box<dyn Group>>) {
    let cluster = Cluster::start(2);
    let files: Vec<File> = (0..TASKS - 1).map(|rank| open(&cluster, rank)).collect();
    let goes = group.pop().unwrap();
    let outcomes: Vec<Error> = std::thread::scope(|scope| {
        let lost = scope.spawn(|| begin_and_go(&cluster, goes));
        let others: Vec<_> = (0..TASKS - 1)
            .zip(group.iter().zip(&files))
            .map(|(rank, (group, file))| {
                let data = pattern(EACH, u64::from(rank));
                scope.spawn(move || {
                    file.write_all_vectored_at(&**group, &[IoSlice::new(&data)], 0, &SERVER)
                })
            })
            .collect();
        lost.join().unwrap();
        others.into_iter().map(|other| other.join().unwrap().unwrap_err()).collect()
    });
    for outcome in &outcomes {
        let (first, why) = (&outcomes[0], outcome.why());
        assert_eq!((outcome.status(), why), (first.status(), first.why()), "one and the same");
        assert_eq!(outcome.status(), Status::ConnectionLost, "{outcome}");
        assert!(why.contains("task 2 is lost"), "{outcome}");
    }
    // The others continue without it. What they write successfully stays, whatever is left of the
    // lost request.
    as_tasks(&files, |task, file| {
        let data = pattern(EACH, 10 + u64::from(task.rank()));
        assert_eq!(
            file.write_all_vectored_at(task, &[IoSlice::new(&data)], 0, &SERVER).unwrap(),
            EACH
        );
    });
    for (rank, file) in (0..).zip(&files) {
        let mut found = vec![0; EACH];
        assert_eq!(file.read_at(&mut found, 0).unwrap(), EACH);
        assert!(found == pattern(EACH, 10 + rank), "task {rank}");
    }
}

#[test]
fn a_thread_lost_during_a_write_fails_it_equally_for_all_others() {
    lose_one(threads());
}

#[test]
fn a_process_lost_during_a_write_fails_it_equally_for_all_others() {
    lose_one(over_tcp());
}
