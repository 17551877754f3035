//! The costs of a collective call at the daemons: messages, and reads and writes of the disk.

use std::io::{IoSlice, IoSliceMut};

use braid_client::{CollectiveMode, CollectiveOptions, Group, Overlap, View};

use super::cluster::{Cluster, Counted, as_tasks, pattern, striped};

const TASKS: u64 = 4;
const SERVER: CollectiveOptions =
    CollectiveOptions { mode: CollectiveMode::Server, overlap: Overlap::HighestRank };

#[test]
fn one_collect_per_daemon_and_one_join_per_task_move_each_byte_once() {
    let cluster = Cluster::start(3);
    let files: Vec<_> = (0..TASKS)
        .map(|rank| {
            let view = View::strided(rank * 4096, 4096, TASKS * 4096);
            cluster.client().open("/f", &striped(65536, 3)).unwrap().with_view(view).unwrap()
        })
        .collect();
    const EACH: usize = 3 << 20;
    let all = EACH as u64 * TASKS;
    let before = cluster.counted();
    as_tasks(&files, |task, file| {
        let data = pattern(EACH, u64::from(task.rank()));
        file.write_all_vectored_at(task, &[IoSlice::new(&data)], 0, &SERVER).unwrap();
    });
    let written = cluster.counted() - before;
    // 12 MiB are 4 MiB at each daemon: sixteen chunks of 256 KiB, each contiguous.
    assert_eq!(written, Counted { collectives: 3, joins: 12, store_calls: 48, store_bytes: all });
    let before = cluster.counted();
    as_tasks(&files, |task, file| {
        let mut back = vec![0; EACH];
        file.read_all_vectored_at(task, &mut [IoSliceMut::new(&mut back)], 0, &SERVER).unwrap();
        assert!(back == pattern(EACH, u64::from(task.rank())));
    });
    let read = cluster.counted() - before;
    assert_eq!(read, Counted { collectives: 3, joins: 12, store_calls: 48, store_bytes: all });
}

#[test]
fn shared_bytes_are_read_once_and_sent_to_each_task() {
    let cluster = Cluster::start(2);
    let files: Vec<_> =
        (0..TASKS).map(|_| cluster.client().open("/same", &striped(65536, 2)).unwrap()).collect();
    let data = pattern(6 << 20, 1);
    files[0].write_at(&data, 0).unwrap();
    let before = cluster.counted();
    as_tasks(&files, |task, file| {
        let mut back = vec![0; data.len()];
        file.read_all_vectored_at(task, &mut [IoSliceMut::new(&mut back)], 0, &SERVER).unwrap();
        assert!(back == data);
    });
    let read = cluster.counted() - before;
    assert_eq!((read.collectives, read.store_bytes), (2, data.len() as u64));
}

/// The costs of `call`.
fn counted<R>(cluster: &Cluster, call: impl FnOnce() -> R) -> Counted {
    let before = cluster.counted();
    call();
    cluster.counted() - before
}

#[test]
fn small_holes_are_read_over_and_large_ones_are_not() {
    let cluster = Cluster::start(1);
    let data = pattern(8 << 20, 1);
    for (stride, calls) in [(16 << 10, 32..=33), (64 << 10, 128..=128)] {
        // Two tasks with 2 KiB each in every stride.
        let files: Vec<_> = (0..2)
            .map(|rank| {
                let view = View::strided(rank * 2048, 2048, stride);
                cluster
                    .client()
                    .open(&format!("/h{stride}")[..], &striped(65536, 1))
                    .unwrap()
                    .with_view(view)
                    .unwrap()
            })
            .collect();
        cluster
            .client()
            .open(&format!("/h{stride}")[..], &striped(65536, 1))
            .unwrap()
            .write_at(&data, 0)
            .unwrap();
        let before = cluster.counted();
        as_tasks(&files, |task, file| {
            let mut back = vec![0; (8 << 20) / stride as usize * 2048];
            file.read_all_vectored_at(task, &mut [IoSliceMut::new(&mut back)], 0, &SERVER).unwrap();
            let from = task.rank() as usize * 2048;
            let model: Vec<u8> = data
                .chunks(stride as usize)
                .flat_map(|row| &row[from..from + 2048])
                .copied()
                .collect();
            assert!(back == model);
        });
        let read = cluster.counted() - before;
        assert!(calls.contains(&read.store_calls), "every {stride} bytes: {read:?}");
    }
}

#[test]
fn unencrypted_short_pieces_are_read_singly_and_written_together() {
    let cluster = Cluster::start(2);
    let files: Vec<_> = (0..2)
        .map(|rank| {
            let view = View::strided(rank * 512, 512, 1024);
            cluster.client().open("/short", &striped(65536, 2)).unwrap().with_view(view).unwrap()
        })
        .collect();
    let data = pattern(1 << 20, 1);
    let written = counted(&cluster, || {
        as_tasks(&files, |task, file| file.write_all_at(task, &data, 0).map(drop).unwrap())
    });
    let read = counted(&cluster, || {
        as_tasks(&files, |task, file| {
            let mut back = vec![0; data.len()];
            file.read_all_at(task, &mut back, 0).unwrap();
            assert!(back == data);
        });
    });
    assert_eq!((written.collectives, read.collectives), (2, 0));
}

#[test]
fn one_task_alone_contiguous_blocks_and_long_pieces_are_ordinary_requests() {
    let cluster = Cluster::start(2);
    let files: Vec<_> =
        (0..TASKS).map(|_| cluster.client().open("/plain", &striped(65536, 2)).unwrap()).collect();
    const BLOCK: usize = 1 << 20;
    as_tasks(&files, |task, file| {
        let data = pattern(BLOCK, u64::from(task.rank()));
        let at = u64::from(task.rank()) * BLOCK as u64;
        file.write_all_at(task, &data, at).unwrap();
        let mut back = vec![0; BLOCK];
        file.read_all_at(task, &mut back, at).unwrap();
        assert!(back == data);
        let alone: &[u8] = if task.rank() == 2 { &data } else { &[] };
        assert_eq!(file.write_all_at(task, alone, 0).unwrap(), alone.len());
        let nobody = file.write_all_vectored_at(
            task,
            &[IoSlice::new(&[])],
            0,
            &CollectiveOptions::default(),
        );
        assert_eq!(nobody.unwrap(), 0);
    });
    assert_eq!(cluster.counted(), Counted::default());
}
