//! Small writes are buffered, and no client can notice: on this mount, on another one, or through a
//! client without leases.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::support::{Cluster, ROOT, create, read, size, wait_for, write};
use braid_client::{AttributeChanges, Config, OpenOptions, Status, Timestamp};
use braid_types::ByteCount;
use braid_vfs::{
    Access, Allocation, BUFFER_AGE_MAX, BUFFER_BYTES_MAX, FileHandle, FileIndex, LookupResult,
    OpenAs, Options, SetTime, SlowRates, Vfs, WriteAs,
};
use proptest::prelude::*;

const KIB: usize = 1024;

fn bytes(from: u64, bytes: usize) -> Vec<u8> {
    (from..from + bytes as u64).map(|at| (at % 251) as u8).collect()
}

/// Writes `count` consecutive pieces of `piece` bytes.
fn write_pieces(vfs: &Vfs, handle: FileHandle, from: u64, piece: usize, count: u64) {
    for number in 0..count {
        let at = from + number * piece as u64;
        write(vfs, handle, at, &bytes(at, piece));
    }
}

/// A mount that buffers writes: the server knows that it carries out recalls, and it has
/// reservations at all daemons.
fn gathering_mount(cluster: &Cluster) -> Vfs {
    gathering(cluster, cluster.serving_mount())
}

fn gathering(cluster: &Cluster, vfs: Vfs) -> Vfs {
    let (mut tries, mut consecutive) = (0, 0);
    wait_for(|| {
        tries += 1;
        let (_, handle) = create(&vfs, format!("try{tries}").as_bytes());
        let before = cluster.written().0;
        write(&vfs, handle, 0, b"x");
        consecutive = if cluster.written().0 == before { consecutive + 1 } else { 0 };
        // Now, and not later while a test counts calls.
        vfs.sync(handle).unwrap();
        vfs.release(handle, None).unwrap();
        consecutive == 8
    });
    vfs
}

/// A mount whose closes send their bytes.
fn flushing_mount(cluster: &Cluster, config: Config) -> Vfs {
    let options = Options { flush_on_close: true, ..Options::default() };
    gathering(cluster, cluster.serving_mount_with(config, options))
}

fn append(vfs: &Vfs, handle: FileHandle, record: &[u8]) {
    let how = WriteAs { append: true, ..WriteAs::default() };
    assert_eq!(vfs.write(handle, 0, record, how).unwrap(), record.len());
}

#[test]
fn consecutive_small_writes_are_sent_in_full_flush_units() {
    let cluster = Cluster::start(4);
    let fast = Options { slow: SlowRates::NONE, ..Options::default() };
    let vfs = gathering(&cluster, cluster.serving_mount_with(cluster.config(), fast));
    let (_, handle) = create(&vfs, b"f");
    let before = cluster.written();
    write_pieces(&vfs, handle, 0, 4 * KIB, 1024);
    assert_eq!(
        cluster.written().0 - before.0,
        4 << 20,
        "each flush unit is sent as soon as it is full"
    );
    let calls = cluster.written().1 - before.1;
    assert!(calls <= 8 + 16, "{calls} calls of the daemons for 1024 writes of 4 KiB");
    vfs.release(handle, None).unwrap();
}

#[test]
fn appended_records_are_buffered() {
    let cluster = Cluster::start(4);
    let vfs = gathering_mount(&cluster);
    let (file, handle) = create(&vfs, b"log");
    let before = cluster.written();
    (0..1000).for_each(|_| append(&vfs, handle, &[7; 100]));
    let calls = cluster.written().1 - before.1;
    assert!(calls < 50, "{calls} calls of the daemons for 1000 records");
    assert_eq!(size(&vfs, file), 100_000);
    append(&vfs, handle, b"end");
    vfs.release(handle, None).unwrap();
    let client = cluster.client();
    assert_eq!(client.lstat("/log").unwrap().bytes.0, 100_003);
}

#[test]
fn an_append_with_cached_attributes_asks_no_daemon_for_the_end() {
    const FILES: u64 = 100;
    let cluster = Cluster::start(4);
    let vfs = gathering_mount(&cluster);
    let name = |number| format!("f{number}").into_bytes();
    for number in 0..FILES {
        let (_, handle) = create(&vfs, &name(number));
        write(&vfs, handle, 0, b"what it was");
        vfs.release(handle, None).unwrap();
    }
    let known = |number| {
        let LookupResult::Found(found) = vfs.look_up(ROOT, &name(number)).unwrap() else {
            panic!("it is there")
        };
        let cacheable = vfs.reply_cacheable(&found.leases, |cacheable| cacheable.attributes);
        cacheable.then_some(found.attributes.file)
    };
    let files: Vec<FileIndex> = (0..FILES)
        .map(|number| {
            wait_for(|| known(number).is_some());
            known(number).unwrap()
        })
        .collect();
    let (_, before) = cluster.written();
    for file in &files {
        let opened = vfs.open(*file, Access::WRITE).unwrap().handle;
        append(&vfs, opened, b" and is");
        vfs.release(opened, None).unwrap();
    }
    // One call to write each; a question for the end would go to all four.
    let calls = cluster.written().1 - before;
    assert!(calls < 3 * FILES, "{calls} calls of I/O daemons for {FILES} appends");
    for file in files {
        let opened = vfs.open(file, Access::READ).unwrap().handle;
        assert_eq!(read(&vfs, opened, 0, 64), b"what it was and is");
    }
}

#[test]
fn lines_appended_by_two_mounts_and_a_leaseless_client_are_all_there() {
    let cluster = Cluster::start(4);
    let mounts = [cluster.serving_mount(), cluster.serving_mount()];
    let (file, handle) = create(&mounts[0], b"log");
    mounts[0].release(handle, None).unwrap();
    let library = cluster.client();
    let mut text = Vec::new();
    for round in 0..60_u64 {
        let line = format!("line {round}\n").into_bytes();
        if round % 3 == 2 {
            let opened = library.open(file, &OpenOptions::new().read(true).write(true)).unwrap();
            opened.write_at(&line, text.len() as u64).unwrap();
            opened.close().unwrap();
        } else {
            let vfs = &mounts[round as usize % 3];
            // From now on other clients change what is cached of it.
            assert_eq!(size(vfs, file), text.len() as u64);
            let opened = vfs.open(file, Access::WRITE).unwrap().handle;
            append(vfs, opened, &line);
            vfs.release(opened, None).unwrap();
        }
        text.extend(line);
        let all = mounts.each_ref().map(|vfs| size(vfs, file));
        assert_eq!(all, [text.len() as u64; 2]);
    }
    let opened = mounts[1].open(file, Access::READ).unwrap().handle;
    assert_eq!(read(&mounts[1], opened, 0, text.len() + 1), text);
}

#[test]
fn buffered_bytes_are_data_to_a_mount_that_has_the_file_open() {
    let cluster = Cluster::start(2);
    let (one, two) = (gathering_mount(&cluster), cluster.serving_mount());
    let (file, handle) = create(&one, b"f");
    let opened = two.open(file, Access::READ).unwrap().handle;
    for round in 0..40 {
        let end = (round + 1) * 10;
        write(&one, handle, round * 10, &bytes(round * 10, 10));
        let found = if round % 2 == 0 {
            two.next_data(opened, end - 1)
        } else {
            two.next_hole(opened, end - 1)
        };
        assert_eq!(found.unwrap(), end - 1 + round % 2);
    }
    two.release(opened, None).unwrap();
    one.release(handle, None).unwrap();
}

#[test]
fn buffered_bytes_are_seen_by_all_clients_immediately() {
    let cluster = Cluster::start(2);
    let (one, two, plain) = (gathering_mount(&cluster), cluster.serving_mount(), cluster.client());
    for (number, look) in
        [look_stat, look_name, look_read, look_list, look_plain_stat, look_plain_read]
            .iter()
            .enumerate()
    {
        let name = format!("f{number}");
        let (file, handle) = create(&one, name.as_bytes());
        for round in 0..20 {
            write(&one, handle, round * 10, &bytes(round * 10, 10));
            look(&two, &plain, file, &name, (round + 1) * 10);
        }
        one.release(handle, None).unwrap();
    }
    // The same on the mount that writes.
    for (number, look) in [look_stat, look_name, look_read, look_list].iter().enumerate() {
        let name = format!("own{number}");
        let (file, handle) = create(&one, name.as_bytes());
        for round in 0..20 {
            write(&one, handle, round * 10, &bytes(round * 10, 10));
            look(&one, &plain, file, &name, (round + 1) * 10);
        }
        one.release(handle, None).unwrap();
    }
}

type Plain = braid_client::Client;

fn look_stat(vfs: &Vfs, _: &Plain, file: FileIndex, _: &str, expected: u64) {
    assert_eq!(size(vfs, file), expected);
}

fn look_name(vfs: &Vfs, _: &Plain, _: FileIndex, name: &str, expected: u64) {
    let LookupResult::Found(known) = vfs.look_up(ROOT, name.as_bytes()).unwrap() else {
        panic!("it is there")
    };
    assert_eq!(known.attributes.bytes.0, expected);
}

fn look_read(vfs: &Vfs, _: &Plain, file: FileIndex, _: &str, expected: u64) {
    let opened = vfs.open(file, Access::READ).unwrap();
    assert_eq!(opened.known.attributes.bytes.0, expected);
    assert_eq!(read(vfs, opened.handle, 0, 4096), bytes(0, expected as usize));
    vfs.release(opened.handle, None).unwrap();
}

fn look_list(vfs: &Vfs, _: &Plain, file: FileIndex, _: &str, expected: u64) {
    let handle = vfs.open_directory(ROOT).unwrap();
    let listed = vfs.read_directory(handle, 0, 1000, true).unwrap();
    vfs.release_directory(handle).unwrap();
    let found = listed.entries.iter().find(|entry| entry.file == file).unwrap();
    // Attributes of buffered files are left out of listings: clients that want them ask for them.
    if let Some(attributes) = &found.attributes {
        assert_eq!(attributes.bytes.0, expected);
    }
    assert_eq!(size(vfs, file), expected);
}

fn look_plain_stat(_: &Vfs, plain: &Plain, _: FileIndex, name: &str, expected: u64) {
    assert_eq!(plain.lstat(&*format!("/{name}")).unwrap().bytes.0, expected);
}

fn look_plain_read(_: &Vfs, plain: &Plain, _: FileIndex, name: &str, expected: u64) {
    let file = plain.open(&*format!("/{name}"), &OpenOptions::new().read(true)).unwrap();
    let mut buffer = vec![0; 4096];
    let got = file.read_at(&mut buffer, 0).unwrap();
    assert_eq!(buffer[..got], bytes(0, expected as usize));
}

#[test]
fn a_leaseless_client_reads_each_append_that_has_returned() {
    let cluster = Cluster::start(2);
    let (one, plain) = (cluster.serving_mount(), cluster.client());
    let (_, handle) = create(&one, b"log");
    append(&one, handle, &bytes(0, 10));
    let file = plain.open("/log", &OpenOptions::new().read(true)).unwrap();
    for round in 1..20 {
        append(&one, handle, &bytes(round * 10, 10));
        let mut buffer = vec![0; 4096];
        let got = file.read_at(&mut buffer, 0).unwrap();
        assert_eq!(buffer[..got], bytes(0, (round as usize + 1) * 10));
    }
    one.release(handle, None).unwrap();
}

#[test]
fn buffered_bytes_are_sent_because_of_their_age() {
    let cluster = Cluster::start(2);
    let vfs = gathering_mount(&cluster);
    let (_, handle) = create(&vfs, b"f");
    let before = cluster.written().0;
    let began = Instant::now();
    write(&vfs, handle, 0, b"waits");
    // On a machine that stalls here for a second the test shows nothing.
    if began.elapsed() < BUFFER_AGE_MAX / 2 {
        assert_eq!(cluster.written().0 - before, 0, "the bytes are buffered");
    }
    wait_for(|| cluster.written().0 - before == 5);
    assert!(began.elapsed() >= BUFFER_AGE_MAX);
    vfs.release(handle, None).unwrap();
}

#[test]
fn buffered_bytes_are_bounded() {
    const FILES: usize = 300;
    let cluster = Cluster::start(2);
    let vfs = flushing_mount(&cluster, cluster.config());
    let (before, began) = (cluster.written().0, Instant::now());
    let handles: Vec<FileHandle> = (0..FILES)
        .map(|number| {
            let (_, handle) = create(&vfs, format!("f{number}").as_bytes());
            write_pieces(&vfs, handle, 0, 100 * KIB, 3);
            handle
        })
        .collect();
    let (sent, all) = ((cluster.written().0 - before) as usize, FILES * 300 * KIB);
    assert!(all - sent <= BUFFER_BYTES_MAX, "{} bytes are buffered", all - sent);
    assert!(
        began.elapsed() > BUFFER_AGE_MAX || all - sent > BUFFER_BYTES_MAX / 64,
        "some bytes are buffered"
    );
    handles.into_iter().for_each(|handle| vfs.release(handle, None).unwrap());
    assert_eq!((cluster.written().0 - before) as usize, all);
}

#[test]
fn a_synced_closed_or_direct_file_has_no_buffered_bytes() {
    let cluster = Cluster::start(2);
    let vfs = flushing_mount(&cluster, cluster.config());
    let (_, handle) = create(&vfs, b"f");
    let before = cluster.written().0;
    write(&vfs, handle, 0, &[1; 10]);
    vfs.sync(handle).unwrap();
    assert_eq!(cluster.written().0 - before, 10);
    write(&vfs, handle, 10, &[1; 10]);
    vfs.flush(handle, None).unwrap();
    assert_eq!(cluster.written().0 - before, 20);
    vfs.write(handle, 20, &[1; 10], WriteAs { direct: true, ..WriteAs::default() }).unwrap();
    assert_eq!(cluster.written().0 - before, 30);
    vfs.write(handle, 30, &[1; 10], WriteAs { durable: true, ..WriteAs::default() }).unwrap();
    assert_eq!(cluster.written().0 - before, 40);
    write(&vfs, handle, 40, &[1; 10]);
    vfs.flush_all();
    assert_eq!(cluster.written().0 - before, 50);
    write(&vfs, handle, 50, &[1; 10]);
    vfs.release(handle, None).unwrap();
    assert_eq!(cluster.written().0 - before, 60);
}

#[test]
fn new_times_and_sizes_come_after_buffered_writes() {
    let cluster = Cluster::start(2);
    let (vfs, plain) = (gathering_mount(&cluster), cluster.client());
    let (file, handle) = create(&vfs, b"f");
    let time = Timestamp { seconds: 1_000_000, nanos: 7 };
    write(&vfs, handle, 0, &[1; 100]);
    let changes =
        AttributeChanges { mtime: Some(SetTime { time: Some(time) }), ..AttributeChanges::none() };
    vfs.set_attributes(file, None, changes, false).unwrap();
    thread::sleep(BUFFER_AGE_MAX + Duration::from_millis(300));
    assert_eq!(plain.lstat("/f").unwrap().mtime, time, "no later flush changed it");
    write(&vfs, handle, 100, &[2; 100]);
    let changes = AttributeChanges { bytes: Some(ByteCount(50)), ..AttributeChanges::none() };
    vfs.set_attributes(file, Some(handle), changes, false).unwrap();
    assert_eq!(plain.lstat("/f").unwrap().bytes.0, 50);
    write(&vfs, handle, 50, &[3; 10]);
    plain.truncate("/f", 20).unwrap();
    assert_eq!(
        (size(&vfs, file), read(&vfs, handle, 0, 100)),
        (20, vec![1; 20]),
        "a truncate by another client comes after it, too"
    );
    vfs.release(handle, None).unwrap();
    assert_eq!(plain.lstat("/f").unwrap().bytes.0, 20);
}

#[test]
fn a_write_error_fails_further_writes_until_it_is_reported() {
    let mut cluster = Cluster::start(1);
    let config = Config { timeout: Duration::from_secs(2), ..cluster.config() };
    let vfs = flushing_mount(&cluster, config);
    let (_, handle) = create(&vfs, b"f");
    let (_, other) = create(&vfs, b"g");
    write(&vfs, other, 0, b"was at the daemon");
    vfs.flush(other, None).unwrap();
    write(&vfs, handle, 0, b"nobody will see this");
    cluster.stop_daemons();
    let failed = |result: braid_vfs::Result<()>| result.unwrap_err().status().unwrap();
    wait_for(|| vfs.write(handle, 20, b"or this", WriteAs::default()).is_err());
    assert!(
        vfs.write(handle, 27, b"or this", WriteAs::default()).is_err(),
        "until the error is reported"
    );
    assert_eq!(failed(vfs.flush(handle, None)), Status::Unreachable);
    assert_eq!(
        failed(vfs.flush(handle, None)),
        Status::Unreachable,
        "the close may have been that of a child process"
    );
    assert_eq!(failed(vfs.sync(handle)), Status::Unreachable);
    vfs.flush(handle, None).unwrap();
    vfs.flush(other, None).unwrap();
}

#[test]
fn a_child_that_closes_inherited_files_sends_nothing_of_its_parent() {
    let cluster = Cluster::start(2);
    let vfs = flushing_mount(&cluster, cluster.config());
    let (_, handle) = create(&vfs, b"f");
    let (before, parent) = (cluster.written().0, WriteAs { owner: Some(1), ..WriteAs::default() });
    let began = Instant::now();
    vfs.write(handle, 0, &[1; 10], parent).unwrap();
    vfs.flush(handle, Some(2)).unwrap();
    if began.elapsed() < BUFFER_AGE_MAX / 2 {
        assert_eq!(cluster.written().0 - before, 0);
    }
    vfs.flush(handle, Some(1)).unwrap();
    assert_eq!(cluster.written().0 - before, 10);
    // Bytes of several processes are sent by the close of each.
    vfs.write(handle, 10, &[1; 10], parent).unwrap();
    vfs.write(handle, 20, &[1; 10], WriteAs { owner: Some(2), ..WriteAs::default() }).unwrap();
    vfs.flush(handle, Some(2)).unwrap();
    assert_eq!(cluster.written().0 - before, 30);
    vfs.release(handle, None).unwrap();
}

/// A step of the test below, on a file that starts empty.
#[derive(Clone, Debug)]
enum Step {
    /// Writes the next bytes.
    Next {
        by: usize,
        bytes: usize,
    },
    At {
        by: usize,
        offset: u64,
        bytes: usize,
    },
    Append {
        by: usize,
        bytes: usize,
    },
    Read {
        by: usize,
        offset: u64,
        bytes: usize,
    },
    Stat {
        by: usize,
    },
    Cut {
        by: usize,
        bytes: u64,
    },
    Punch {
        by: usize,
        offset: u64,
        bytes: u64,
    },
    Sync {
        by: usize,
    },
    Reopen {
        by: usize,
    },
}

/// Steps on a file of about `file` bytes, in pieces of less than `piece` bytes.
fn step(file: u64, piece: usize) -> impl Strategy<Value = Step> {
    let by = || 0..2usize;
    let (offset, length) = (move || 0..file, move || prop_oneof![4 => 1..600usize, 1 => 1..piece]);
    steps(by, offset, length)
}

/// The same, mostly with large pieces.
fn large_step() -> impl Strategy<Value = Step> {
    let by = || prop_oneof![3 => Just(0usize), 1 => Just(1usize)];
    steps(by, || 0..6_000_000u64, || prop_oneof![1 => 1..600usize, 4 => 130 * KIB..1024 * KIB])
}

fn steps<B, O, L>(
    by: impl Fn() -> B,
    offset: impl Fn() -> O,
    length: impl Fn() -> L,
) -> impl Strategy<Value = Step>
where
    B: Strategy<Value = usize> + 'static,
    O: Strategy<Value = u64> + 'static,
    L: Strategy<Value = usize> + 'static,
{
    prop_oneof![
        8 => (by(), length()).prop_map(|(by, bytes)| Step::Next { by, bytes }),
        2 => (by(), offset(), length())
            .prop_map(|(by, offset, bytes)| Step::At { by, offset, bytes }),
        4 => (by(), length()).prop_map(|(by, bytes)| Step::Append { by, bytes }),
        3 => (0..3usize, offset(), length())
            .prop_map(|(by, offset, bytes)| Step::Read { by, offset, bytes }),
        2 => (0..3usize).prop_map(|by| Step::Stat { by }),
        1 => (0..3usize, offset()).prop_map(|(by, bytes)| Step::Cut { by, bytes }),
        1 => (by(), offset(), 1..50_000u64)
            .prop_map(|(by, offset, bytes)| Step::Punch { by, offset, bytes }),
        1 => by().prop_map(|by| Step::Sync { by }),
        1 => by().prop_map(|by| Step::Reopen { by }),
    ]
}

/// Two mounts and a client without leases take turns: each sees all earlier changes.
fn runs(cluster: &Cluster, slow: SlowRates, steps: &[Step]) {
    let mount =
        || cluster.serving_mount_with(cluster.config(), Options { slow, ..Options::default() });
    let (mounts, plain) = ([mount(), mount()], cluster.client());
    let (file, first) = create(&mounts[0], b"f");
    let open = |by: usize| mounts[by].open(file, OpenAs::from(Access::READ_WRITE)).unwrap().handle;
    let mut handles = [first, open(1)];
    let (mut model, mut next, mut value) = (Vec::<u8>::new(), [0u64; 2], 0u8);
    let store = |model: &mut Vec<u8>, offset: u64, bytes: &[u8]| {
        let end = offset as usize + bytes.len();
        model.resize(model.len().max(end), 0);
        model[offset as usize..end].copy_from_slice(bytes);
    };
    for one in steps {
        value = value.wrapping_add(1);
        match *one {
            Step::Next { by, bytes } => {
                write(&mounts[by], handles[by], next[by], &vec![value; bytes]);
                store(&mut model, next[by], &vec![value; bytes]);
                next[by] += bytes as u64;
            }
            Step::At { by, offset, bytes } => {
                write(&mounts[by], handles[by], offset, &vec![value; bytes]);
                store(&mut model, offset, &vec![value; bytes]);
                next[by] = offset + bytes as u64;
            }
            Step::Append { by, bytes } => {
                append(&mounts[by], handles[by], &vec![value; bytes]);
                let end = model.len() as u64;
                store(&mut model, end, &vec![value; bytes]);
            }
            Step::Read { by, offset, bytes } => {
                let expected = &model
                    [model.len().min(offset as usize)..model.len().min(offset as usize + bytes)];
                let found = match by {
                    2 => {
                        let opened = plain.open("/f", &OpenOptions::new().read(true)).unwrap();
                        let mut buffer = vec![0xee; bytes];
                        let got = opened.read_at(&mut buffer, offset).unwrap();
                        buffer.truncate(got);
                        buffer
                    }
                    by => read(&mounts[by], handles[by], offset, bytes),
                };
                assert!(found == expected, "{one:?}: {} bytes of {}", found.len(), expected.len());
            }
            Step::Stat { by } => {
                let found = if by == 2 {
                    plain.lstat("/f").unwrap().bytes.0
                } else {
                    size(&mounts[by], file)
                };
                assert_eq!(found, model.len() as u64, "{one:?}");
            }
            Step::Cut { by, bytes } => {
                match by {
                    2 => drop(plain.truncate("/f", bytes).unwrap()),
                    by => {
                        let changes = AttributeChanges {
                            bytes: Some(ByteCount(bytes)),
                            ..AttributeChanges::none()
                        };
                        mounts[by].set_attributes(file, Some(handles[by]), changes, false).unwrap();
                    }
                };
                model.resize(bytes as usize, 0);
            }
            Step::Punch { by, offset, bytes } => {
                mounts[by].allocate(handles[by], offset, bytes, Allocation::Punch, false).unwrap();
                let (from, to) =
                    (model.len().min(offset as usize), model.len().min((offset + bytes) as usize));
                model[from..to].fill(0);
            }
            Step::Sync { by } => mounts[by].sync(handles[by]).unwrap(),
            Step::Reopen { by } => {
                mounts[by].release(handles[by], None).unwrap();
                handles[by] = open(by);
            }
        }
    }
    let opened = plain.open("/f", &OpenOptions::new().read(true)).unwrap();
    let mut buffer = vec![0xee; model.len() + 1];
    let got = opened.read_at(&mut buffer, 0).unwrap();
    assert!(buffer[..got] == model[..], "at the end");
    (0..2).for_each(|by| mounts[by].release(handles[by], None).unwrap());
    drop(opened);
    plain.unlink("/f").unwrap();
}

fn run_all(cases: u32, slow: SlowRates, steps: impl Strategy<Value = Vec<Step>>) {
    let cluster = Cluster::start(3);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        ..ProptestConfig::default()
    });
    runner
        .run(&steps, |steps| {
            runs(&cluster, slow, &steps);
            Ok(())
        })
        .unwrap();
}

#[test]
fn any_order_of_calls_on_three_clients_shows_all_earlier_writes() {
    run_all(48, SlowRates::default(), prop::collection::vec(step(200_000, 40_000), 1..60));
}

#[test]
fn any_order_of_large_writes_to_slow_daemons_shows_all_earlier_writes() {
    run_all(24, SlowRates::ALL, prop::collection::vec(large_step(), 1..40));
}
