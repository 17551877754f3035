//! The library on a real cluster, used as by the tasks of a parallel program: views, lists,
//! nonblocking operations, groups.
#![cfg(unix)]

use std::{thread, time::Duration};

use crate::harness::Cluster;
use braid_client::{
    Client, Config, Extent, Group, LockCancelHandle, LockRange, LockRequest, LockSpace,
    OpenOptions, PendingOperation, ReadPiece, Secret, TcpGroup, ThreadGroup, View, WritePiece,
    asynchronous,
};

/// Much longer than a test takes.
const LONG: Duration = Duration::from_secs(60);
const TASKS: u32 = 4;
const GROUP: u64 = 4096;
const ROUNDS: u64 = 50;

fn writable() -> OpenOptions {
    OpenOptions::new().read(true).write(true).create(true).stripe_size(16_384)
}

/// The view of one task: 4 KiB of every 16 KiB.
fn view(rank: u32) -> View {
    View::strided(u64::from(rank) * GROUP, GROUP, u64::from(TASKS) * GROUP)
}

/// The data that all tasks write together.
fn interleaved() -> Vec<u8> {
    let group = |at: u64| vec![(at % u64::from(TASKS)) as u8 + 1; GROUP as usize];
    (0..ROUNDS * u64::from(TASKS)).flat_map(group).collect()
}

/// A task of a parallel program. It writes its part and, when all have written, reads the part of
/// the next task.
fn task(config: Config, group: &dyn Group) {
    let client = Client::connect(config).unwrap();
    let file = client.open("/shared", &writable()).unwrap();
    let rank = group.rank();
    let mine = file.with_view(view(rank)).unwrap();
    let data = vec![rank as u8 + 1; (ROUNDS * GROUP) as usize];
    assert_eq!(mine.write_at(&data, 0).unwrap(), data.len());
    let all = group.all_gather(&rank.to_le_bytes(), LONG).unwrap();
    assert_eq!(all, (0..TASKS).map(|rank| rank.to_le_bytes()).collect::<Vec<_>>());
    let next = (rank + 1) % TASKS;
    let mut theirs = vec![0; data.len()];
    assert_eq!(file.with_view(view(next)).unwrap().read_at(&mut theirs, 0).unwrap(), theirs.len());
    assert!(theirs.iter().all(|byte| *byte == next as u8 + 1));
}

#[test]
fn tasks_that_are_threads_share_a_file_by_views() {
    let cluster = Cluster::up(3);
    let config = cluster.client_config();
    thread::scope(|scope| {
        for group in ThreadGroup::of(TASKS) {
            let config = config.clone();
            scope.spawn(move || task(config, &group));
        }
    });
    assert!(cluster.run(&["cat", "/shared"]).stdout == interleaved());
}

#[test]
fn tasks_that_find_each_other_over_tcp_share_a_file_by_views() {
    let cluster = Cluster::up(3);
    let config = cluster.client_config();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, secret) = (listener.local_addr().unwrap(), Secret::from_bytes([3; 32]));
    thread::scope(|scope| {
        for rank in 1..TASKS {
            let (config, secret) = (config.clone(), secret.clone());
            scope.spawn(move || {
                task(config, &TcpGroup::join(address, rank, TASKS, &secret, LONG).unwrap())
            });
        }
        task(config.clone(), &TcpGroup::listen(listener, TASKS, &secret, LONG).unwrap());
    });
    assert!(cluster.run(&["cat", "/shared"]).stdout == interleaved());
}

#[test]
fn what_was_started_on_many_views_at_once_is_all_done() {
    let cluster = Cluster::up(3);
    let client = Client::connect(cluster.client_config()).unwrap();
    let file = client.open("/f", &writable()).unwrap();
    let part = |rank: u32| file.with_view(view(rank)).unwrap();
    let data = |rank: u32, at: u64| vec![(u64::from(rank) * ROUNDS + at) as u8; GROUP as usize];
    let calls = || (0..TASKS).flat_map(|rank| (0..ROUNDS).map(move |at| (rank, at)));
    let writes: Vec<_> =
        calls().map(|(rank, at)| part(rank).start_write_at(data(rank, at), at * GROUP)).collect();
    for (written, buffer) in writes.into_iter().rev().map(PendingOperation::wait) {
        assert_eq!(written.unwrap(), buffer.len());
    }
    file.start_sync().wait().unwrap();
    let reads: Vec<_> = calls()
        .map(|(rank, at)| part(rank).start_read_at(vec![0; GROUP as usize], at * GROUP))
        .collect();
    for ((rank, at), (read, buffer)) in calls().zip(reads.into_iter().map(PendingOperation::wait)) {
        assert_eq!(read.unwrap(), buffer.len());
        assert!(buffer == data(rank, at), "{at} of {rank}");
    }
    let extents = vec![Extent { offset: 2 * GROUP, bytes: 10 }, Extent { offset: 5, bytes: 10 }];
    let (read, buffers) = file.start_read_list(extents.clone(), vec![[0; 4], [0; 4]]).wait();
    assert_eq!((read.unwrap(), buffers), (8, vec![[100; 4], [100; 4]]));
    let (written, _) = file.start_write_list(extents, vec![vec![9; 15]]).wait();
    assert_eq!(written.unwrap(), 15);
    let size = client.start(|client| client.stat("/f").unwrap().bytes.0);
    assert_eq!(size.wait(), u64::from(TASKS) * ROUNDS * GROUP);
}

#[test]
fn the_program_goes_on_while_what_it_started_waits() {
    let cluster = Cluster::up(2);
    let client = Client::connect(cluster.client_config()).unwrap();
    let file = client.open("/f", &writable()).unwrap();
    let lock = |owner| LockRequest {
        file: file.index(),
        space: LockSpace::Range,
        owner,
        pid: 1,
        start: 0,
        last: 0,
        exclusive: true,
    };
    client.lock_range(&lock(1), &LockCancelHandle::new()).unwrap();
    let wanted = lock(2);
    let waiting = client.start(move |client| client.lock_range(&wanted, &LockCancelHandle::new()));
    // The other owner has the lock: nothing that this thread does ends the wait.
    file.write_at(b"meanwhile", 0).unwrap();
    assert_eq!(file.start_read_at([0; 9], 0).wait().1, *b"meanwhile");
    let waiting = waiting.test().unwrap_err();
    let range =
        LockRange { file: file.index(), space: LockSpace::Range, owner: 1, start: 0, last: 0 };
    client.unlock_range(&range).unwrap();
    waiting.wait().unwrap();
}

#[test]
fn lists_on_the_async_face_run_as_tasks_of_a_runtime() {
    let cluster = Cluster::up(3);
    let config = cluster.client_config();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = asynchronous::Client::connect(config).await.unwrap();
        let file = client.open("/f", &writable()).await.unwrap();
        let writers = (0..8u8).map(|turn| {
            let file = file.clone();
            tokio::spawn(async move {
                let data = vec![turn; 3000];
                let at = u64::from(turn) * 3000;
                let halves =
                    [WritePiece::new(at + 1500, &data[1500..]), WritePiece::new(at, &data[..1500])];
                file.write_pieces(&halves).await.unwrap()
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            assert_eq!(writer.await.unwrap(), 3000);
        }
        let (mut last, mut first, mut past) = ([0; 3000], [9; 3000], [0; 10]);
        let mut pieces = [
            ReadPiece::new(21_000, &mut last),
            ReadPiece::new(23_995, &mut past),
            ReadPiece::new(0, &mut first),
        ];
        assert_eq!(file.read_pieces(&mut pieces).await.unwrap(), 6005);
        assert_eq!(pieces.map(|piece| piece.bytes), [3000, 5, 3000]);
        assert_eq!((last, first), ([7; 3000], [0; 3000]));
        assert_eq!(past[..5], [7; 5]);
        file.close().await.unwrap();
        client.close().await;
    });
}
