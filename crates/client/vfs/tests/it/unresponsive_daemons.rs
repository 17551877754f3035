//! A daemon that refuses calls, since it gets no reply from the metadata server, is waited for
//! once, like one that is not there.

use std::time::{Duration, Instant};

use crate::support::{Cluster, create, wait_for, write};
use braid_client::{Config, Status};
use braid_vfs::{BUFFER_AGE_MAX, FileHandle, Options, SlowRates, Vfs, WriteAs};

const MIB: u64 = 1 << 20;
const PROBE: u64 = 256 << 10;
const DIRECT: WriteAs = WriteAs {
    direct: true,
    append: false,
    durable: false,
    kill_privileges: false,
    page: false,
    owner: None,
};

/// A mount with reservations at both daemons, which always buffers.
fn mount(cluster: &Cluster, slow: SlowRates) -> Vfs {
    let config = Config { timeout: Duration::from_secs(4), ..cluster.config() };
    let vfs = cluster
        .serving_mount_with(config, Options { slow, flush_on_close: true, ..Options::default() });
    let (mut tries, mut consecutive) = (0, [0; 2]);
    wait_for(|| {
        tries += 1;
        let (_, handle) = create(&vfs, format!("try{tries}").as_bytes());
        let before = cluster.written_to_each();
        write(&vfs, handle, 0, b"x");
        let is_gathered = cluster.written_to_each() == before;
        vfs.flush(handle, None).unwrap();
        let on = usize::from(cluster.written_to_each()[1] > before[1]);
        consecutive[on] = if is_gathered { consecutive[on] + 1 } else { 0 };
        vfs.release(handle, None).unwrap();
        consecutive.iter().all(|consecutive| *consecutive >= 4)
    });
    vfs
}

/// A file whose first byte is on this daemon.
fn begins_on(cluster: &Cluster, vfs: &Vfs, daemon: usize) -> FileHandle {
    let (mut tries, mut found) = (0, None);
    wait_for(|| {
        tries += 1;
        let (_, handle) = create(vfs, format!("f{tries}").as_bytes());
        let before = cluster.written_to_each()[daemon];
        // Too much to be buffered: no space is reserved.
        vfs.write(handle, 0, &[7; PROBE as usize], DIRECT).unwrap();
        found = (cluster.written_to_each()[daemon] > before).then_some(handle);
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn a_buffer_behind_a_failed_background_flush_is_not_sent() {
    let mut cluster = Cluster::start(2);
    let vfs = mount(&cluster, SlowRates::ALL);
    let handle = begins_on(&cluster, &vfs, 0);
    cluster.stop_metadata_server(&[0]);
    let (before, began) = (cluster.written_to_each()[0], Instant::now());
    // Two strips on each daemon: a background flush. The bytes behind it are for the daemon that
    // works.
    let through = |offset, bytes: u64| {
        vfs.write(handle, offset, &vec![7; bytes as usize], WriteAs::default())
    };
    let written =
        through(PROBE, 2 * MIB - PROBE).and(through(2 * MIB, 2 * MIB)).and(through(4 * MIB, 100));
    // On a machine that stalls here for a second the buffer is sent before it is full.
    if began.elapsed() > BUFFER_AGE_MAX / 2 {
        return;
    }
    written.unwrap();
    assert_eq!(vfs.flush(handle, None).unwrap_err().status(), Some(Status::NotServing));
    assert_eq!(cluster.written_to_each()[0] - before, 2 * MIB - PROBE, "the flight's part");
    assert_eq!(vfs.sync(handle).unwrap_err().status(), Some(Status::NotServing));
}

#[test]
fn an_fsync_forces_nothing_after_a_failed_flush() {
    let mut cluster = Cluster::start(2);
    // No reservation at the daemon that works: returning it would be a call.
    let config = Config { timeout: Duration::from_secs(4), ..cluster.config() };
    let vfs = cluster.serving_mount_with(
        config,
        Options { slow: SlowRates::NONE, flush_on_close: true, ..Options::default() },
    );
    let handle = begins_on(&cluster, &vfs, 1);
    // There is something to force to disk.
    vfs.write(handle, MIB, b"x", DIRECT).unwrap();
    let (mut at, mut consecutive) = (PROBE, 0);
    wait_for(|| {
        let before = cluster.written_to_each()[1];
        write(&vfs, handle, at, b"x");
        consecutive = if cluster.written_to_each()[1] == before { consecutive + 1 } else { 0 };
        vfs.flush(handle, None).unwrap();
        at += 1;
        consecutive == 4
    });
    cluster.stop_metadata_server(&[0]);
    let (before, began) = (cluster.answered_by_each()[0], Instant::now());
    let written = vfs.write(handle, at, b"nobody will see this", WriteAs::default());
    if began.elapsed() > BUFFER_AGE_MAX / 2 {
        return;
    }
    written.unwrap();
    assert_eq!(vfs.sync(handle).unwrap_err().status(), Some(Status::NotServing));
    assert_eq!(cluster.answered_by_each()[0], before);
    // The error is reported; the daemons are called again now.
    assert_eq!(vfs.sync(handle).unwrap_err().status(), Some(Status::NotServing));
    assert!(cluster.answered_by_each()[0] > before);
}
