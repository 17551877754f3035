//! Consecutive large writes are buffered where the daemons are slow, and no client can notice.

use std::time::{Duration, Instant};

use crate::support::{Cluster, create, read, size, wait_for, write};
use braid_client::{Config, OpenOptions, Status};
use braid_vfs::{Access, BUFFER_AGE_MAX, FileHandle, Options, SlowRates, Vfs, WriteAs};

const MIB: u64 = 1 << 20;
/// The smallest write that counts as large.
const LARGE: u64 = 128 << 10;
/// Rates at which the daemons count as slow after the first writes.
const SOON: SlowRates = SlowRates { from: 0, below: u64::MAX - 1 };

/// A mount whose daemons are slow at these rates, with reservations at all of them.
fn mount(cluster: &Cluster, slow: SlowRates) -> Vfs {
    mount_of(cluster, cluster.config(), slow)
}

fn mount_of(cluster: &Cluster, config: Config, slow: SlowRates) -> Vfs {
    let vfs = cluster
        .serving_mount_with(config, Options { slow, flush_on_close: true, ..Options::default() });
    let (mut tries, mut consecutive) = (0, 0);
    wait_for(|| {
        tries += 1;
        let (_, handle) = create(&vfs, format!("try{tries}").as_bytes());
        let before = cluster.written().0;
        write(&vfs, handle, 0, b"x");
        consecutive = if cluster.written().0 == before { consecutive + 1 } else { 0 };
        vfs.release(handle, None).unwrap();
        consecutive == 8
    });
    vfs
}

fn bytes(from: u64, bytes: u64) -> Vec<u8> {
    (from..from + bytes).map(|at| (at % 251) as u8).collect()
}

/// Writes `count` consecutive pieces from the beginning of the file.
fn write_pieces(vfs: &Vfs, handle: FileHandle, piece: u64, count: u64) {
    (0..count).for_each(|number| write(vfs, handle, number * piece, &bytes(number * piece, piece)));
}

#[test]
fn large_writes_to_slow_daemons_are_sent_in_long_flush_units() {
    let cluster = Cluster::start(4);
    let vfs = mount(&cluster, SlowRates::ALL);
    let (_, handle) = create(&vfs, b"f");
    let (before, began) = (cluster.written_to_each(), Instant::now());
    let since =
        |each: Vec<u64>| each.iter().zip(&before).map(|(now, then)| now - then).collect::<Vec<_>>();
    write_pieces(&vfs, handle, MIB, 3);
    // On a machine that stalls here for a second the test shows nothing.
    if began.elapsed() < BUFFER_AGE_MAX / 2 {
        assert_eq!(since(cluster.written_to_each()), [0; 4], "it is gathered");
    }
    write(&vfs, handle, 3 * MIB, &bytes(3 * MIB, MIB));
    wait_for(|| since(cluster.written_to_each()) == [MIB; 4]);
    vfs.release(handle, None).unwrap();
}

#[test]
fn a_long_flush_unit_is_one_call_to_each_daemon() {
    const COUNT: u64 = 256;
    let cluster = Cluster::start(4);
    let vfs = mount(&cluster, SlowRates::ALL);
    let (_, handle) = create(&vfs, b"f");
    let before = cluster.written();
    write_pieces(&vfs, handle, LARGE, COUNT);
    vfs.flush(handle, None).unwrap();
    assert_eq!(cluster.written().0 - before.0, COUNT * LARGE);
    // Eight flush units for four daemons each; some more where the machine stalled and bytes became
    // old.
    let calls = cluster.written().1 - before.1;
    assert!((32..COUNT / 2).contains(&calls), "{calls} calls of the daemons for {COUNT} writes");
    assert!(read(&vfs, handle, 0, (COUNT * LARGE) as usize) == bytes(0, COUNT * LARGE));
    vfs.release(handle, None).unwrap();
}

#[test]
fn large_writes_to_fast_daemons_are_there_when_they_return() {
    let cluster = Cluster::start(4);
    let vfs = mount(&cluster, SlowRates::NONE);
    let (_, handle) = create(&vfs, b"f");
    let before = cluster.written();
    for number in 0..32 {
        write(&vfs, handle, number * LARGE, &bytes(number * LARGE, LARGE));
        assert_eq!(cluster.written().0 - before.0, (number + 1) * LARGE);
    }
    vfs.release(handle, None).unwrap();
}

#[test]
fn daemons_count_as_slow_after_several_slow_writes() {
    let cluster = Cluster::start(4);
    let vfs = mount(&cluster, SOON);
    let (_, handle) = create(&vfs, b"f");
    let (before, began) = (cluster.written(), Instant::now());
    for number in 0..4 {
        write(&vfs, handle, number * LARGE, &bytes(number * LARGE, LARGE));
        assert_eq!(cluster.written().0 - before.0, (number + 1) * LARGE, "it is not known yet");
    }
    write(&vfs, handle, 4 * LARGE, &bytes(4 * LARGE, LARGE));
    if began.elapsed() < BUFFER_AGE_MAX / 2 {
        assert_eq!(cluster.written().0 - before.0, 4 * LARGE, "it is gathered");
    }
    vfs.release(handle, None).unwrap();
    assert_eq!(cluster.written().0 - before.0, 5 * LARGE);
}

#[test]
fn direct_durable_and_unit_sized_writes_are_not_buffered() {
    let cluster = Cluster::start(4);
    let vfs = mount(&cluster, SlowRates::ALL);
    let (_, handle) = create(&vfs, b"f");
    let before = cluster.written();
    let through = |offset, length, how, expected| {
        assert_eq!(vfs.write(handle, offset, &bytes(offset, length), how).unwrap() as u64, length);
        assert_eq!(cluster.written().0 - before.0, expected);
    };
    through(0, MIB, WriteAs { direct: true, ..WriteAs::default() }, MIB);
    through(MIB, MIB, WriteAs { durable: true, ..WriteAs::default() }, 2 * MIB);
    through(8 * MIB, MIB, WriteAs::default(), 3 * MIB);
    through(9 * MIB, 4 * MIB, WriteAs::default(), 7 * MIB);
    vfs.release(handle, None).unwrap();
}

#[test]
fn buffered_large_writes_are_seen_by_all_clients_immediately() {
    const PIECE: u64 = 300_000;
    let cluster = Cluster::start(3);
    let (one, plain) = (mount(&cluster, SlowRates::ALL), cluster.client());
    let two = cluster.serving_mount();
    for look in 0..5 {
        let name = format!("f{look}");
        let (file, handle) = create(&one, name.as_bytes());
        for step in 0..24 {
            let end = (step + 1) * PIECE;
            write(&one, handle, step * PIECE, &bytes(step * PIECE, PIECE));
            // Some checks find a flush unit that has just become full, most one that has not.
            match look {
                0 => assert_eq!(size(&two, file), end),
                1 => assert_eq!(size(&one, file), end),
                2 => assert_eq!(plain.lstat(&*format!("/{name}")).unwrap().bytes.0, end),
                3 => assert!(read(&one, handle, end - PIECE, 1 << 20) == bytes(end - PIECE, PIECE)),
                _ => {
                    let opened = two.open(file, Access::READ).unwrap().handle;
                    assert!(read(&two, opened, end - PIECE, 1 << 20) == bytes(end - PIECE, PIECE));
                    two.release(opened, None).unwrap();
                }
            }
        }
        one.release(handle, None).unwrap();
        let opened = plain.open(&*format!("/{name}"), &OpenOptions::new().read(true)).unwrap();
        let mut found = vec![0; 24 * PIECE as usize + 1];
        let got = opened.read_at(&mut found, 0).unwrap();
        assert!(found[..got] == bytes(0, 24 * PIECE));
    }
}

#[test]
fn only_the_close_of_the_writer_waits_for_the_background_flush() {
    let cluster = Cluster::start(4);
    let vfs = mount(&cluster, SlowRates::ALL);
    let (_, handle) = create(&vfs, b"f");
    let (before, parent) = (cluster.written().0, WriteAs { owner: Some(1), ..WriteAs::default() });
    let began = Instant::now();
    for number in 0..5 {
        vfs.write(handle, number * MIB, &bytes(number * MIB, MIB), parent).unwrap();
    }
    vfs.flush(handle, Some(2)).unwrap();
    if began.elapsed() < BUFFER_AGE_MAX / 2 {
        assert!(cluster.written().0 - before <= 4 * MIB, "the fifth is buffered");
    }
    vfs.flush(handle, Some(1)).unwrap();
    assert_eq!(cluster.written().0 - before, 5 * MIB);
    vfs.release(handle, None).unwrap();
}

#[test]
fn two_handles_that_continue_each_others_writes_keep_their_order() {
    let cluster = Cluster::start(4);
    let vfs = mount(&cluster, SlowRates::ALL);
    let (file, one) = create(&vfs, b"f");
    let two = vfs.open(file, Access::READ_WRITE).unwrap().handle;
    for round in 0..4 {
        for number in 0..9 {
            let by = if number < 4 { one } else { two };
            write(&vfs, by, number * MIB, &vec![round * 9 + number as u8; MIB as usize]);
        }
    }
    vfs.release(one, None).unwrap();
    vfs.release(two, None).unwrap();
    let plain = cluster.client();
    let opened = plain.open(file, &OpenOptions::new().read(true)).unwrap();
    let mut found = vec![0; 9 * MIB as usize + 1];
    assert_eq!(opened.read_at(&mut found, 0).unwrap() as u64, 9 * MIB);
    for number in 0..9 {
        let part = &found[number * MIB as usize..][..MIB as usize];
        assert!(
            part.iter().all(|byte| usize::from(*byte) == 27 + number),
            "of the last round, part {number}"
        );
    }
}

#[test]
fn large_writes_that_were_lost_are_told() {
    let mut cluster = Cluster::start(2);
    let config = Config { timeout: Duration::from_secs(2), ..cluster.config() };
    let vfs = mount_of(&cluster, config, SlowRates::ALL);
    let (_, handle) = create(&vfs, b"f");
    cluster.stop_daemons();
    let mut next = 0;
    wait_for(|| {
        let failed = vfs
            .write(handle, next * LARGE, &bytes(next * LARGE, LARGE), WriteAs::default())
            .is_err();
        next += 1;
        failed
    });
    let failed = |result: braid_vfs::Result<()>| result.unwrap_err().status().unwrap();
    assert!(
        vfs.write(handle, next * LARGE, b"or this", WriteAs::default()).is_err(),
        "until the error is reported"
    );
    assert_eq!(failed(vfs.flush(handle, None)), Status::Unreachable);
    assert_eq!(failed(vfs.sync(handle)), Status::Unreachable);
    vfs.flush(handle, None).unwrap();
}
