//! Daemons behind a slow wire, and behind one that is cut. A call waits as long as bytes move, and
//! gives up in the time of a call when they do not (I8).

use std::{
    io::IoSliceMut,
    time::{Duration, Instant},
};

use braid_client::{Client, CollectiveMode, CollectiveOptions, File, Overlap, Status, View};

use super::{
    cluster::{Cluster, as_tasks, pattern, striped},
    wire::Wire,
};

/// A daemon may be silent for a third of it. The slow wire passes something on every few
/// milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);
const SLOW_BYTES_PER_SECOND: u64 = 3 << 20;
/// On each daemon: more than the slow wire passes on in the time of a call.
const EACH: usize = 32 << 20;
const SERVER: CollectiveOptions =
    CollectiveOptions { mode: CollectiveMode::Server, overlap: Overlap::HighestRank };
/// Longer than any limit.
const LONG: Duration = Duration::from_secs(120);

/// A file on two daemons, one of them behind the wire, with its bytes.
fn start() -> (Wire, Cluster, Vec<u8>) {
    let wire = Wire::new();
    let cluster = Cluster::start_behind(&[None, Some(wire.clone())]);
    let data = pattern(2 * EACH, 5);
    let file = cluster.client().open("/f", &striped(65536, 2)).unwrap();
    assert_eq!(file.write_at(&data, 0).unwrap(), data.len());
    (wire, cluster, data)
}

fn open(cluster: &Cluster) -> File {
    Client::connect(cluster.hasty(TIMEOUT)).unwrap().open("/f", &striped(65536, 2)).unwrap()
}

#[test]
fn a_slow_wire_is_waited_for_and_a_cut_one_times_out() {
    let (wire, cluster, data) = start();
    let file = open(&cluster);
    let mut buffer = vec![0; data.len()];
    wire.slow_down(SLOW_BYTES_PER_SECOND);
    let begun = Instant::now();
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), data.len());
    assert!(begun.elapsed() > TIMEOUT, "it was slow: {:?}", begun.elapsed());
    assert!(buffer == data);
    wire.cut();
    let begun = Instant::now();
    let error = file.read_at(&mut buffer, 0).unwrap_err();
    assert_eq!(error.status(), Status::Unreachable, "{error}");
    assert!(
        error.to_string().contains(&format!("I/O daemon {}", cluster.iods()[1].id())),
        "{error}"
    );
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    wire.slow_down(u64::MAX);
}

#[test]
fn a_collective_call_over_a_slow_wire_takes_as_long_as_it_moves() {
    let (wire, cluster, data) = start();
    const PIECE: usize = 1024;
    let files: Vec<File> = (0..2)
        .map(|rank| {
            open(&cluster)
                .with_view(View::strided(rank * PIECE as u64, PIECE as u64, 2 * PIECE as u64))
                .unwrap()
        })
        .collect();
    wire.slow_down(SLOW_BYTES_PER_SECOND);
    let begun = Instant::now();
    let before = cluster.counted();
    as_tasks(&files, |task, file| {
        let mut buffer = vec![0; EACH];
        assert_eq!(
            file.read_all_vectored_at(task, &mut [IoSliceMut::new(&mut buffer)], 0, &SERVER)
                .unwrap(),
            EACH
        );
        let rank = braid_client::Group::rank(task) as usize;
        let mine: Vec<u8> = data.chunks(PIECE).skip(rank).step_by(2).flatten().copied().collect();
        assert!(buffer == mine, "task {rank}");
    });
    assert!(begun.elapsed() > TIMEOUT, "it was slow: {:?}", begun.elapsed());
    assert!((cluster.counted() - before).collectives > 0, "the daemons were asked together");
}
