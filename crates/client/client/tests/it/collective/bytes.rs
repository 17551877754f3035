//! The bytes of every task, for random views and layouts.

use std::{
    io::{IoSlice, IoSliceMut},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use braid_client::{
    CollectiveMode, CollectiveOptions, Extent, Group, OpenOptions, Overlap, Pattern, Status, View,
};
use proptest::prelude::*;

use super::cluster::{Cluster, as_tasks, pattern, striped};

const SERVER: CollectiveOptions =
    CollectiveOptions { mode: CollectiveMode::Server, overlap: Overlap::HighestRank };

/// The access of one task: view, position, bytes.
type Ask = (View, u64, usize);

/// The file offsets of the bytes that a task accesses.
fn offsets((view, position, bytes): &Ask) -> Vec<u64> {
    let map = view.map().unwrap();
    (0..*bytes as u64).map(|at| map.file_offset(position + at).unwrap().0).collect()
}

fn view() -> impl Strategy<Value = View> {
    let vector = (1u64..5, 1u64..3000, 0u64..4000, 0u64..5000, 0u64..60_000).prop_map(
        |(count, block, gap, rest, from)| {
            let stride = block + gap;
            View::vector(from, count, block, stride, count * stride + rest)
        },
    );
    let strided = (0u64..100_000, 1u64..9000, 0u64..20_000)
        .prop_map(|(from, group, gap)| View::strided(from, group, group + gap));
    let list = prop::collection::vec((0u64..9000, 1u64..9000), 1..12).prop_map(|gaps| {
        let mut end = 0;
        let extents = gaps.into_iter().map(|(gap, bytes)| {
            let offset = end + gap;
            end = offset + bytes;
            Extent { offset, bytes }
        });
        let pattern = Pattern::Extents(extents.collect());
        View { displacement: 0, extent: end, pattern }
    });
    prop_oneof![3 => strided, 2 => vector, 1 => list, 1 => Just(View::whole())]
}

/// Two to five tasks: some have interleaved views, some arbitrary ones, some no bytes.
fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let any = prop::collection::vec(
        (view(), 0u64..50_000, prop_oneof![1 => Just(0usize), 6 => 1usize..400_000]),
        2..6,
    );
    let interleaved = (2u64..6, 1u64..9000, 0u64..9000, 1usize..300_000).prop_map(
        |(tasks, group, gap, bytes)| {
            let task = |n| (View::strided(n * group, group, tasks * group + gap), 0, bytes);
            (0..tasks).map(task).collect::<Vec<_>>()
        },
    );
    prop_oneof![any, interleaved]
}

#[test]
fn every_task_reads_its_bytes_whatever_the_views_and_layouts() {
    let cluster = Cluster::start(3);
    let clients: Vec<_> = (0..5).map(|_| cluster.client()).collect();
    let numbers = AtomicU64::new(0);
    let config =
        ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    let case = (asks(), 1u64..20, 1u16..4, 0usize..900_000, any::<u64>());
    proptest!(config, |((asks, stripes, parts, size, seed) in case)| {
        let number = numbers.fetch_add(1, Relaxed);
        let path = format!("/r{number}");
        let data = pattern(size, seed);
        let writer = clients[0].open(&path[..], &striped(stripes * 4096, parts)).unwrap();
        writer.write_at(&data, 0).unwrap();
        // A hole with data behind it.
        writer.write_at(&[7; 100], size as u64 + 300_000).unwrap();
        let mut file = data;
        file.resize(size + 300_000, 0);
        file.extend([7; 100]);
        let files: Vec<_> = asks.iter().zip(&clients).map(|((view, ..), client)| {
            let file = client.open(&path[..], &OpenOptions::new().read(true)).unwrap();
            file.with_view(view.clone()).unwrap()
        }).collect();
        let read = as_tasks(&files, |task, file| {
            let (_, position, bytes) = &asks[task.rank() as usize];
            let mut buffer = vec![0xee; *bytes];
            let (first, second) = buffer.split_at_mut(bytes / 3);
            let mut buffers = [IoSliceMut::new(first), IoSliceMut::new(second)];
            let read = file.read_all_vectored_at(task, &mut buffers, *position, &SERVER).unwrap();
            buffer.truncate(read);
            buffer
        });
        for (ask, read) in asks.iter().zip(read) {
            let inside = offsets(ask).into_iter().take_while(|offset| *offset < file.len() as u64);
            let model: Vec<u8> = inside.map(|offset| file[offset as usize]).collect();
            prop_assert!(read == model, "{ask:?}: {} bytes of {}", read.len(), model.len());
        }
    });
    let counted = cluster.counted();
    assert!(
        counted.collectives > 0 && counted.joins > 0,
        "the daemons' way was taken: {counted:?}"
    );
    assert_eq!(cluster.failed_calls(), 0, "and nobody fell back");
}

#[test]
fn every_task_writes_its_bytes_and_the_highest_rank_wins() {
    let cluster = Cluster::start(3);
    let clients: Vec<_> = (0..5).map(|_| cluster.client()).collect();
    let numbers = AtomicU64::new(0);
    let config =
        ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    let case = (asks(), 1u64..20, 1u16..4, 0usize..300_000, any::<u64>());
    proptest!(config, |((asks, stripes, parts, size, seed) in case)| {
        let number = numbers.fetch_add(1, Relaxed);
        let path = format!("/w{number}");
        let mut model = pattern(size, seed);
        let before = clients[0].open(&path[..], &striped(stripes * 4096, parts)).unwrap();
        before.write_at(&model, 0).unwrap();
        for (rank, ask) in asks.iter().enumerate() {
            let data = pattern(ask.2, rank as u64 + 100);
            for (offset, byte) in offsets(ask).into_iter().zip(data) {
                model.resize(model.len().max(offset as usize + 1), 0);
                model[offset as usize] = byte;
            }
        }
        let files: Vec<_> = asks.iter().zip(&clients).map(|((view, ..), client)| {
            let file = client.open(&path[..], &OpenOptions::new().write(true)).unwrap();
            file.with_view(view.clone()).unwrap()
        }).collect();
        as_tasks(&files, |task, file| {
            let (_, position, bytes) = &asks[task.rank() as usize];
            let data = pattern(*bytes, u64::from(task.rank()) + 100);
            let (first, second) = data.split_at(bytes / 3);
            let buffers = [IoSlice::new(first), IoSlice::new(second)];
            let written = file.write_all_vectored_at(task, &buffers, *position, &SERVER);
            assert_eq!(written.unwrap(), *bytes);
        });
        let mut after = vec![0; model.len() + 100];
        let bytes = before.read_at(&mut after, 0).unwrap();
        after.truncate(bytes);
        prop_assert!(after == model, "{asks:?}: {} bytes of {}", after.len(), model.len());
    });
    let counted = cluster.counted();
    assert!(
        counted.collectives > 0 && counted.joins > 0,
        "the daemons' way was taken: {counted:?}"
    );
    assert_eq!(cluster.failed_calls(), 0, "and nobody fell back");
}

#[test]
fn overlapping_writes_have_one_winner_or_are_refused_entirely() {
    let cluster = Cluster::start(2);
    let clients: Vec<_> = (0..4).map(|_| cluster.client()).collect();
    let open = |path: &str| {
        clients
            .iter()
            .map(|client| client.open(path, &striped(4096, 2)).unwrap())
            .collect::<Vec<_>>()
    };
    for mode in [CollectiveMode::Auto, CollectiveMode::Server, CollectiveMode::Independent] {
        let files = open(&format!("/{mode:?}"));
        let options = CollectiveOptions { mode, overlap: Overlap::HighestRank };
        for _ in 0..5 {
            as_tasks(&files, |task, file| {
                // Rank n writes all but its first n pages; all tasks write the last page.
                let data = vec![task.rank() as u8 + 1; 3_000_000 - task.rank() as usize * 4096];
                let at = u64::from(task.rank()) * 4096;
                file.write_all_vectored_at(task, &[IoSlice::new(&data)], at, &options).unwrap();
            });
            let mut got = vec![0; 3_000_000];
            files[0].read_at(&mut got, 0).unwrap();
            let rank_at = |at: usize| (at / 4096).min(3) as u8 + 1;
            assert!(got.iter().enumerate().all(|(at, byte)| *byte == rank_at(at)), "{mode:?}");
        }
        let refuse = CollectiveOptions { mode, overlap: Overlap::Refuse };
        let refused = as_tasks(&files, |task, file| {
            file.write_all_vectored_at(
                task,
                &[IoSlice::new(&[9; 5000])],
                u64::from(task.rank()) * 4999,
                &refuse,
            )
        });
        assert!(
            refused.iter().all(|refused| refused.as_ref().unwrap_err().status() == Status::Invalid)
        );
        let mut first = [0];
        files[0].read_at(&mut first, 0).unwrap();
        assert_eq!(first, [1], "nothing was written");
    }
}

#[test]
fn tasks_may_be_threads_of_one_client_more_than_its_pool_has_connections() {
    let cluster = Cluster::start(2);
    let client = cluster.client();
    const TASKS: usize = 40;
    let files: Vec<_> = (0..TASKS)
        .map(|rank| {
            let view = View::strided(rank as u64 * 512, 512, TASKS as u64 * 512);
            client.open("/threads", &striped(65536, 2)).unwrap().with_view(view).unwrap()
        })
        .collect();
    as_tasks(&files, |task, file| {
        let data = pattern(100_000, u64::from(task.rank()));
        assert_eq!(file.write_all_at(task, &data, 0).unwrap(), data.len());
        let mut back = vec![0; data.len()];
        assert_eq!(
            file.read_all_vectored_at(task, &mut [IoSliceMut::new(&mut back)], 0, &SERVER).unwrap(),
            data.len()
        );
        assert!(back == data);
    });
    assert_eq!(cluster.counted().collectives, 4, "one of each kind at each daemon");
}

#[test]
fn a_call_of_many_windows_goes_in_rounds() {
    let cluster = Cluster::start(2);
    let clients: Vec<_> = (0..2).map(|_| cluster.client()).collect();
    let open = |(rank, client): (u64, &braid_client::Client)| {
        // Rank 0 accesses seven eighths of the file.
        let (from, group) = if rank == 0 { (0, 7 * 4096) } else { (7 * 4096, 4096) };
        client
            .open("/long", &striped(1 << 16, 2))
            .unwrap()
            .with_view(View::strided(from, group, 8 * 4096))
            .unwrap()
    };
    let files: Vec<_> = (0..).zip(&clients).map(open).collect();
    let bytes = |rank: u32| if rank == 0 { 105 << 20 } else { 15 << 20 };
    as_tasks(&files, |task, file| {
        let data = pattern(bytes(task.rank()), u64::from(task.rank()));
        assert_eq!(
            file.write_all_vectored_at(task, &[IoSlice::new(&data)], 0, &SERVER).unwrap(),
            data.len()
        );
        let mut back = vec![0; data.len()];
        let read =
            file.read_all_vectored_at(task, &mut [IoSliceMut::new(&mut back)], 0, &SERVER).unwrap();
        assert!(read == data.len() && back == data);
    });
    let counted = cluster.counted();
    assert_eq!(counted.collectives, 4, "one Collect for each call and daemon, however many rounds");
    assert!(counted.joins >= 2 * (105 / 4 + 15 / 4), "{counted:?}");
}
