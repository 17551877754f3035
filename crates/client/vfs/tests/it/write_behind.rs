//! A close leaves the bytes of a small file to the mount: no client can notice, and a loss is
//! reported.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::support::{Cluster, ROOT, USER, create, new_file, read, wait_for, write};
use braid_client::{AttributeChanges, Config, RenameMode};
use braid_vfs::{Access, Options, Vfs, WriteAs};

static TRIES: AtomicU64 = AtomicU64::new(0);

/// A mount with reservations at all daemons.
fn mount_with(cluster: &Cluster, config: Config, options: Options) -> Vfs {
    let vfs = cluster.serving_mount_with(config, options);
    let mut consecutive = 0;
    wait_for(|| {
        // Other mounts of the same cluster try, too.
        let name = format!("try{}", TRIES.fetch_add(1, Ordering::Relaxed));
        let (_, handle) = create(&vfs, name.as_bytes());
        let before = cluster.written().0;
        write(&vfs, handle, 0, b"x");
        consecutive = if cluster.written().0 == before { consecutive + 1 } else { 0 };
        vfs.sync(handle).unwrap();
        vfs.release(handle, None).unwrap();
        consecutive == 8
    });
    vfs
}

fn mount(cluster: &Cluster) -> Vfs {
    mount_with(cluster, cluster.config(), Options::default())
}

/// Creates a file with these bytes, as a program does.
fn make(vfs: &Vfs, name: &[u8], bytes: &[u8]) -> braid_vfs::FileIndex {
    let (file, handle) = create(vfs, name);
    write(vfs, handle, 0, bytes);
    vfs.flush(handle, Some(1)).unwrap();
    vfs.release(handle, None).unwrap();
    file
}

#[test]
fn closes_of_small_files_wait_for_no_daemon_and_the_bytes_follow() {
    const FILES: u64 = 200;
    let cluster = Cluster::start(2);
    let vfs = mount(&cluster);
    let before = cluster.written().0;
    for number in 0..FILES {
        make(&vfs, format!("f{number}").as_bytes(), &[number as u8; 100]);
    }
    // On a machine that stalls some are sent because of their age.
    let sent = (cluster.written().0 - before) / 100;
    if sent == FILES {
        println!("skipped: the machine stood still until every file was sent because of its age");
        return;
    }
    wait_for(|| cluster.written().0 - before == FILES * 100);
}

#[test]
fn another_client_sees_the_bytes_of_a_file_that_was_just_closed() {
    let cluster = Cluster::start(2);
    let vfs = mount(&cluster);
    let (library, other) = (cluster.client(), cluster.serving_mount());
    for number in 0..50_u64 {
        let name = format!("f{number}");
        let file = make(&vfs, name.as_bytes(), format!("bytes of {number}").as_bytes());
        let expected = format!("bytes of {number}");
        if number % 2 == 0 {
            assert_eq!(
                library.lstat(format!("/{name}").as_str()).unwrap().bytes.0,
                expected.len() as u64
            );
        } else {
            let opened = other.open(file, Access::READ).unwrap().handle;
            assert_eq!(read(&other, opened, 0, 64), expected.as_bytes());
            other.release(opened, None).unwrap();
        }
    }
}

#[test]
fn this_mount_sees_the_bytes_and_the_size_of_a_file_that_it_just_closed() {
    let cluster = Cluster::start(2);
    let vfs = mount(&cluster);
    for number in 0..50_u64 {
        let file = make(&vfs, format!("f{number}").as_bytes(), b"twelve bytes");
        assert_eq!(vfs.attributes(file, None).unwrap().attributes.bytes.0, 12);
        let opened = vfs.open(file, Access::READ).unwrap().handle;
        assert_eq!(read(&vfs, opened, 0, 64), b"twelve bytes");
        vfs.release(opened, None).unwrap();
    }
}

#[test]
fn files_have_the_times_of_their_writes_whichever_is_sent_first() {
    let cluster = Cluster::start(2);
    let vfs = mount(&cluster);
    for number in 0..30_u64 {
        let first = make(&vfs, format!("a{number}").as_bytes(), b"first");
        std::thread::sleep(Duration::from_millis(5));
        let second = make(&vfs, format!("b{number}").as_bytes(), b"second");
        // The file that is read first is sent first.
        let time = |file| vfs.attributes(file, None).unwrap().attributes.mtime;
        let (second, first) = (time(second), time(first));
        assert!(first < second, "round {number}: {first:?} was written before {second:?}");
    }
}

#[test]
fn a_file_is_sent_before_it_is_renamed() {
    let cluster = Cluster::start(2);
    let vfs = mount(&cluster);
    make(&vfs, b"target", b"what it was");
    for number in 0..20_u64 {
        let name = format!("new{number}").into_bytes();
        make(&vfs, &name, &[number as u8; 100]);
        let before = cluster.written().0;
        vfs.rename((ROOT, &name), (ROOT, b"target"), RenameMode::Replace).unwrap();
        let after = cluster.written().0;
        // Nothing of it is left: it was sent before the rename returned, or because of its age.
        std::thread::sleep(Duration::from_millis(1));
        assert!(after >= before);
        assert_eq!(vfs.attributes(found(&vfs, b"target"), None).unwrap().attributes.bytes.0, 100);
        assert_eq!(cluster.written().0, after, "round {number}: bytes were sent after the rename");
    }
}

fn found(vfs: &Vfs, name: &[u8]) -> braid_vfs::FileIndex {
    crate::support::found(vfs, name).unwrap().attributes.file
}

#[test]
fn bytes_lost_after_a_close_are_reported_once_by_an_fsync_of_the_file() {
    let mut cluster = Cluster::start(1);
    let config = Config { timeout: Duration::from_secs(2), ..cluster.config() };
    let vfs = mount_with(&cluster, config, Options::default());
    let (file, handle) = create(&vfs, b"f");
    // The only daemon stops before the bytes are sent: the first close does not notice.
    let (_, open_too) = create(&vfs, b"g");
    write(&vfs, handle, 0, b"lost");
    let opened = vfs.open(file, Access::READ).unwrap().handle;
    write(&vfs, handle, 4, b" bytes");
    cluster.stop_daemon(0);
    if vfs.flush(handle, Some(1)).is_err() {
        println!("skipped: the bytes were sent before the daemon stopped");
        return;
    }
    vfs.release(handle, None).unwrap();
    wait_for(|| vfs.sync(opened).is_err());
    write_fails_at_close(&vfs, open_too);
}

/// After a loss closes send their bytes themselves, and report errors.
fn write_fails_at_close(vfs: &Vfs, handle: braid_vfs::FileHandle) {
    let written = vfs.write(handle, 0, b"x", braid_vfs::WriteAs::default());
    assert!(written.is_err() || vfs.flush(handle, Some(1)).is_err(), "the daemon is gone");
}

#[test]
fn with_flush_on_close_each_close_waits_for_its_bytes() {
    let cluster = Cluster::start(2);
    let options = Options { flush_on_close: true, ..Options::default() };
    let vfs = mount_with(&cluster, cluster.config(), options);
    for number in 0..20_u64 {
        let before = cluster.written().0;
        make(&vfs, format!("f{number}").as_bytes(), &[7; 100]);
        assert_eq!(cluster.written().0 - before, 100);
    }
}

#[test]
fn a_full_sync_forces_the_buffered_bytes_of_closed_files() {
    let cluster = Cluster::start(2);
    let vfs = mount(&cluster);
    let before = cluster.written().0;
    (0..100_u64).for_each(|number| _ = make(&vfs, format!("f{number}").as_bytes(), &[7; 100]));
    vfs.sync_all().unwrap();
    assert_eq!(cluster.written().0 - before, 100 * 100);
}

#[test]
fn lines_appended_and_closed_by_two_mounts_in_turn_are_all_there() {
    let cluster = Cluster::start(2);
    let mounts = [mount(&cluster), mount(&cluster)];
    let (file, handle) = create(&mounts[0], b"log");
    mounts[0].release(handle, None).unwrap();
    let mut text = Vec::new();
    let append = WriteAs { append: true, ..WriteAs::default() };
    for round in 0..30_u64 {
        let (vfs, line) = (&mounts[round as usize % 2], format!("line {round}\n").into_bytes());
        let opened = vfs.open(file, Access::WRITE).unwrap().handle;
        vfs.write(opened, 0, &line, append).unwrap();
        vfs.flush(opened, Some(1)).unwrap();
        vfs.release(opened, None).unwrap();
        text.extend_from_slice(&line);
        if round % 3 == 0 {
            // Until its age has sent it: its bytes are gone with the handle.
            let before = cluster.client().lstat("/log").unwrap().bytes.0;
            assert_eq!(before, text.len() as u64);
            wait_for(|| {
                vfs.attributes(file, None).unwrap().attributes.bytes.0 == text.len() as u64
            });
        } else if round % 3 == 1 {
            std::thread::sleep(Duration::from_millis(150));
        }
    }
    let opened = mounts[0].open(file, Access::READ).unwrap().handle;
    assert_eq!(read(&mounts[0], opened, 0, 4096), text);
}

#[test]
fn the_mode_of_a_file_renamed_and_changed_elsewhere_is_never_stale() {
    let cluster = Cluster::start(2);
    let (vfs, other) = (mount(&cluster), cluster.serving_mount());
    let from = vfs.make_directory(USER, ROOT, b"from", 0o777, 0).unwrap().attributes.file;
    let to = vfs.make_directory(USER, ROOT, b"to", 0o777, 0).unwrap().attributes.file;
    let (opened, _) = vfs.create(USER, from, b"a", &new_file(0o666)).unwrap();
    let (file, handle) = (opened.known.attributes.file, opened.handle);
    vfs.rename((from, b"a"), (to, b"b"), RenameMode::Replace).unwrap();
    write(&vfs, handle, 0, b"buffered");
    let mode = AttributeChanges { mode: Some(0o600), ..AttributeChanges::none() };
    other.set_attributes(file, None, mode, false).unwrap();
    assert_eq!(vfs.attributes(file, Some(handle)).unwrap().attributes.mode, 0o600);
    vfs.release(handle, None).unwrap();
}
