//! Started collective calls, and those of async programs.

use std::sync::{Arc, Mutex};

use braid_client::{
    CollectiveMode, CollectiveOptions, Group, Overlap, PendingOperation, Result, Status, View,
    asynchronous, refuse_all,
};
use tokio::sync::Barrier;

use super::cluster::{Cluster, Task, pattern, striped};

const SERVER: CollectiveOptions =
    CollectiveOptions { mode: CollectiveMode::Server, overlap: Overlap::HighestRank };
const TASKS: usize = 20;
const PIECE: usize = 1000;
const EACH: usize = 5 * PIECE;

/// Each task's piece in every group of pieces.
fn view(rank: usize) -> View {
    View::strided((rank * PIECE) as u64, PIECE as u64, (TASKS * PIECE) as u64)
}

/// The bytes of the file that a task sees.
fn part(file: &[u8], rank: usize) -> Vec<u8> {
    file.chunks(PIECE).skip(rank).step_by(TASKS).flatten().copied().collect()
}

/// More operations than a client has threads for started ones: each waits for all others.
#[test]
fn tasks_that_share_a_client_all_start_their_calls() {
    let cluster = Cluster::start(2);
    let client = cluster.client();
    let whole = client.open("/f", &striped(4096, 2)).unwrap();
    let groups: Vec<Arc<dyn Group>> =
        Task::group(TASKS).into_iter().map(|task| Arc::new(task) as _).collect();
    let files: Vec<_> = (0..TASKS).map(|rank| whole.with_view(view(rank)).unwrap()).collect();
    let data = pattern(TASKS * EACH, 1);
    let start = |rank: usize| {
        files[rank].start_write_all_at(groups[rank].clone(), part(&data, rank), 0, SERVER)
    };
    let mut writes: Vec<_> = (1..TASKS).map(start).collect();
    // The last one has not begun.
    assert!(writes.iter().all(|write| !write.is_done()));
    writes.push(start(0));
    for (written, buffer) in writes.into_iter().map(PendingOperation::wait) {
        assert_eq!(written.unwrap(), buffer.len());
    }
    let mut found = vec![0; data.len() + 1];
    assert_eq!(whole.read_at(&mut found, 0).unwrap(), data.len());
    assert!(found[..data.len()] == data);
    let reads: Vec<_> = files
        .iter()
        .zip(&groups)
        .map(|(file, group)| file.start_read_all_at(group.clone(), vec![0; EACH], 0, SERVER))
        .collect();
    for (rank, (read, buffer)) in reads.into_iter().map(PendingOperation::wait).enumerate() {
        assert_eq!(read.unwrap(), EACH);
        assert!(buffer == part(&data, rank), "task {rank}");
    }
    let why = braid_client::Error::new(Status::Invalid, "not today");
    let calls: Vec<_> = (0..TASKS)
        .map(|rank| {
            let (group, why) = (groups[rank].clone(), why.clone());
            match rank {
                3 => PendingOperation::on_own_thread(move || {
                    refuse_all(&*group, &why, std::time::Duration::from_secs(60)).map(|_| 0)
                }),
                _ => files[rank].start_together(move |file| file.read_all_at(&*group, &mut [0], 0)),
            }
        })
        .collect();
    for (rank, called) in calls.into_iter().map(PendingOperation::wait).enumerate() {
        match rank {
            3 => assert_eq!(called.unwrap(), 0),
            _ => assert!(
                called.unwrap_err().to_string().contains("task 3: not today"),
                "task {rank}"
            ),
        }
    }
}

/// Tasks of a runtime that meet between two barriers.
struct Meeting {
    barrier: Barrier,
    given: Mutex<Vec<Vec<u8>>>,
}

impl Meeting {
    async fn all_gather(&self, rank: usize, mine: Vec<u8>) -> Result<Vec<Vec<u8>>> {
        self.given.lock().unwrap()[rank] = mine;
        self.barrier.wait().await;
        let all = self.given.lock().unwrap().clone();
        self.barrier.wait().await;
        Ok(all)
    }
}

#[test]
fn collective_calls_on_the_async_face_run_as_tasks_of_a_runtime() {
    let cluster = Cluster::start(3);
    let data = Arc::new(pattern(TASKS * EACH, 2));
    let meeting = Arc::new(Meeting {
        barrier: Barrier::new(TASKS),
        given: Mutex::new(vec![Vec::new(); TASKS]),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = cluster.config();
    runtime.block_on(async {
        let client = asynchronous::Client::connect(config).await.unwrap();
        let whole = client.open("/f", &striped(4096, 3)).await.unwrap();
        let tasks = (0..TASKS).map(|rank| {
            let (data, meeting) = (data.clone(), meeting.clone());
            let file = whole.with_view(view(rank)).unwrap();
            tokio::spawn(async move {
                let all_gather = |mine| meeting.all_gather(rank, mine);
                let mine = part(&data, rank);
                let written =
                    file.write_all_at(rank as u32, all_gather, &mine, 0, &SERVER).await.unwrap();
                assert_eq!(written, EACH);
                let mut found = vec![0; EACH + 1];
                let read = file
                    .read_all_at(rank as u32, all_gather, &mut found, 0, &SERVER)
                    .await
                    .unwrap();
                assert!(read == EACH && found[..EACH] == mine, "task {rank}");
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        let mut found = vec![0; data.len()];
        assert_eq!(whole.read_at(&mut found, 0).await.unwrap(), data.len());
        assert!(found == *data);
        whole.close().await.unwrap();
        client.close().await;
    });
    let counted = cluster.counted();
    assert!(
        counted.collectives > 0 && counted.joins > 0,
        "the daemons' way was taken: {counted:?}"
    );
}
