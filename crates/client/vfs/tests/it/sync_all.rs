//! An fsync of the root syncs everything.

use std::time::{Duration, Instant};

use crate::support::{Cluster, ROOT, USER, create, wait_for, write};
use braid_client::{Config, Status};
use braid_vfs::{BUFFER_AGE_MAX, Vfs, WriteAs};

fn sync_root(vfs: &Vfs) -> braid_vfs::Result<()> {
    let root = vfs.open_directory(ROOT).unwrap();
    let synced = vfs.sync_directory(root);
    vfs.release_directory(root).unwrap();
    synced
}

/// Files, each with a few bytes that the mount buffers if it can.
const FILES: u64 = 20;
const BYTES: u64 = 100;

#[test]
fn only_an_fsync_of_the_root_sends_the_buffers_of_all_files() {
    let cluster = Cluster::start(2);
    let vfs = cluster.serving_mount();
    let other = vfs.make_directory(USER, ROOT, b"other", 0o777, 0).unwrap().attributes.file;
    let mut gathered_once = false;
    // It may take a while until the server knows that the mount carries out recalls and a daemon
    // grants a reservation.
    wait_for(|| {
        let (before, began) = (cluster.written().0, Instant::now());
        let handles: Vec<_> = (0..FILES)
            .map(|number| {
                let (_, handle) = create(&vfs, format!("{}-{number}", before).as_bytes());
                write(&vfs, handle, 0, &[7; BYTES as usize]);
                handle
            })
            .collect();
        let directory = vfs.open_directory(other).unwrap();
        vfs.sync_directory(directory).unwrap();
        let by_other = cluster.written().0 - before;
        sync_root(&vfs).unwrap();
        assert_eq!(cluster.written().0 - before, FILES * BYTES);
        gathered_once |= by_other < FILES * BYTES && began.elapsed() < BUFFER_AGE_MAX;
        vfs.release_directory(directory).unwrap();
        handles.into_iter().for_each(|handle| vfs.release(handle, None).unwrap());
        gathered_once
    });
}

#[test]
fn a_daemon_that_is_away_is_named_in_time() {
    let mut cluster = Cluster::start(2);
    let vfs =
        cluster.serving_mount_of(Config { timeout: Duration::from_secs(8), ..cluster.config() });
    let (_, handle) = create(&vfs, b"f");
    write(&vfs, handle, 0, b"closed");
    vfs.release(handle, None).unwrap();
    sync_root(&vfs).unwrap();
    cluster.stop_daemons();
    let error = sync_root(&vfs).unwrap_err();
    assert_eq!(error.status(), Some(Status::Unreachable));
    assert!(error.to_string().contains("I/O daemon"), "{error}");
}

#[test]
fn lost_buffered_bytes_are_reported_by_a_full_sync_and_by_their_file() {
    let mut cluster = Cluster::start(1);
    let vfs =
        cluster.serving_mount_of(Config { timeout: Duration::from_secs(2), ..cluster.config() });
    let (mut tries, mut gathered) = (0, None);
    // It may take a while until the server knows that the mount carries out recalls and the daemon
    // grants a reservation.
    wait_for(|| {
        tries += 1;
        let (_, handle) = create(&vfs, format!("{tries}").as_bytes());
        let before = cluster.written().0;
        write(&vfs, handle, 0, b"nobody will see this");
        gathered = (cluster.written().0 == before).then_some(handle);
        gathered.is_some()
    });
    let handle = gathered.unwrap();
    cluster.stop_daemons();
    wait_for(|| vfs.write(handle, 20, b"or this", WriteAs::default()).is_err());
    assert!(sync_root(&vfs).is_err(), "bytes are lost, or a daemon does not answer");
    assert_eq!(vfs.sync(handle).unwrap_err().status(), Some(Status::Unreachable));
}
