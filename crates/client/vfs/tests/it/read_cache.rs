//! The read cache of the library: what it saves, and that a read sees every write that returned
//! before it, by mounts, by clients without a cache, and by the client itself.

use std::{
    sync::Barrier,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

use crate::support::{Cluster, ROOT};
use braid_client::{Client, Config, File, OpenOptions};
use braid_vfs::{Access, FileIndex, LookupResult, Vfs, WriteAs};

fn caching(cluster: &Cluster) -> Client {
    Client::connect(Config { read_cache_bytes: 8 << 20, ..cluster.config() }).unwrap()
}

fn writable() -> OpenOptions {
    OpenOptions::new().read(true).write(true).create(true).mode(0o666)
}

fn make(client: &Client, path: &str, content: &[u8]) {
    let file = client.open(path, &writable()).unwrap();
    file.write_at(content, 0).unwrap();
    file.close().unwrap();
}

fn reader(client: &Client, path: &str) -> File {
    client.open(path, &OpenOptions::new().read(true)).unwrap()
}

fn read(file: &File, offset: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0xee; bytes];
    let got = file.read_at(&mut buffer, offset).unwrap();
    buffer.truncate(got);
    buffer
}

/// A file whose reads are cached. An open has no lease until the client's channel for recalls is
/// connected, which a thread of its own does.
fn cached_reader(cluster: &Cluster, client: &Client, path: &str) -> File {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let file = reader(client, path);
        read(&file, 0, 10);
        let before = answered(cluster);
        read(&file, 0, 10);
        if answered(cluster) == before {
            return file;
        }
        assert!(Instant::now() < limit, "no open gets a lease");
        thread::sleep(Duration::from_millis(10));
    }
}

fn look_up(mount: &Vfs, name: &[u8]) -> FileIndex {
    let LookupResult::Found(found) = mount.look_up(ROOT, name).unwrap() else { panic!("absent") };
    found.attributes.file
}

fn answered(cluster: &Cluster) -> u64 {
    cluster.answered_by_each().iter().sum()
}

#[test]
fn small_reads_of_an_unchanged_file_ask_the_daemons_once_for_a_page() {
    let cluster = Cluster::start(2);
    let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at / 7) as u8).collect();
    let client = caching(&cluster);
    make(&cluster.client(), "/f", &content);
    let file = cached_reader(&cluster, &client, "/f");
    let before = answered(&cluster);
    for _ in 0..2 {
        for (at, expected) in content.chunks(1000).enumerate() {
            assert_eq!(read(&file, at as u64 * 1000, 1000), expected);
        }
        assert_eq!(read(&file, 1_000_000, 10), b"");
    }
    let calls = answered(&cluster) - before;
    assert!(calls <= 2 * 16, "{calls} calls for 16 pages on 2 daemons, not 2,000");
    let uncached = reader(&cluster.client(), "/f");
    let before = answered(&cluster);
    (0..100).for_each(|at| _ = read(&uncached, at * 1000, 1000));
    assert!(answered(&cluster) - before > 90, "without a cache each read is a call");
}

#[test]
fn a_write_by_a_mount_or_a_client_is_seen_by_the_next_read() {
    let cluster = Cluster::start(2);
    let (client, plain, mount) = (caching(&cluster), cluster.client(), cluster.serving_mount());
    make(&plain, "/f", &[1; 5000]);
    let file = reader(&client, "/f");
    assert_eq!(read(&file, 0, 10), [1; 10]);
    let writer = plain.open("/f", &writable()).unwrap();
    writer.write_at(&[2; 10], 0).unwrap();
    assert_eq!(read(&file, 0, 10), [2; 10]);
    writer.set_len(3).unwrap();
    assert_eq!(read(&file, 0, 10), [2; 3]);
    writer.close().unwrap();
    // A mount buffers its writes, which the open of a client that reads must make it return.
    let found = look_up(&mount, b"f");
    let handle = mount.open(found, Access { write: true, ..Access::READ }).unwrap().handle;
    for round in 3..20_u8 {
        mount.write(handle, 0, &[round; 10], WriteAs::default()).unwrap();
        assert_eq!(read(&file, 0, 10), [round; 10], "an open of before");
        assert_eq!(read(&reader(&client, "/f"), 0, 10), [round; 10], "a new open");
    }
}

#[test]
fn a_clients_own_changes_are_seen_through_its_cache() {
    let cluster = Cluster::start(2);
    let client = caching(&cluster);
    make(&client, "/f", &[1; 5000]);
    let file = reader(&client, "/f");
    assert_eq!(read(&file, 0, 4), [1; 4]);
    let writer = client.open("/f", &OpenOptions::new().write(true)).unwrap();
    writer.write_at(&[2; 4], 0).unwrap();
    assert_eq!(read(&file, 0, 4), [2; 4]);
    writer.close().unwrap();
    assert_eq!(read(&file, 0, 4), [2; 4]);
    client.truncate("/f", 2).unwrap();
    assert_eq!(read(&file, 0, 4), [2; 2]);
    client.open("/f", &writable().truncate(true)).unwrap().close().unwrap();
    assert_eq!(read(&file, 0, 4), b"");
}

/// The leases of before are lost, and the pages with them. An open file requests no other lease.
#[test]
fn a_restart_of_the_metadata_server_ends_caching_until_the_next_open() {
    let mut cluster = Cluster::start(2);
    let (client, plain) = (caching(&cluster), cluster.client());
    make(&plain, "/f", &[1; 5000]);
    let file = reader(&client, "/f");
    assert_eq!(read(&file, 0, 10), [1; 10]);
    cluster.stop_mds();
    assert_eq!(read(&file, 0, 10), [1; 10], "it needs no server");
    cluster.start_mds();
    plain.open("/f", &writable()).unwrap().write_at(&[2; 10], 0).unwrap();
    assert_eq!(read(&file, 0, 10), [2; 10]);
    let before = answered(&cluster);
    (0..10).for_each(|_| _ = read(&file, 0, 10));
    assert!(answered(&cluster) > before, "without a lease each read asks a daemon");
    // Until the client knows the new epoch of the server, an open has no lease.
    let asks_daemons = || {
        let file = reader(&client, "/f");
        assert_eq!(read(&file, 0, 10), [2; 10]);
        let before = answered(&cluster);
        (0..10).for_each(|_| assert_eq!(read(&file, 0, 10), [2; 10]));
        answered(&cluster) > before
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while asks_daemons() {
        assert!(Instant::now() < deadline, "no new open gets a lease");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_client_with_a_read_cache_serves_no_other_holder_of_leases() {
    let cluster = Cluster::start(1);
    let client = caching(&cluster);
    let holder =
        std::sync::Weak::<NoCache>::new() as std::sync::Weak<dyn braid_client::LeaseHolder>;
    let error = client.leases().serve(holder).unwrap_err();
    assert!(error.to_string().contains("read cache"), "{error}");
}

struct NoCache;

impl braid_client::LeaseHolder for NoCache {
    fn recall_names(&self, _: braid_client::FileIndex) {}
    fn recall_data(
        &self,
        _: braid_client::FileIndex,
        keep: braid_client::LeaseMode,
    ) -> braid_client::LeaseMode {
        keep
    }
    fn lost_all(&self) {}
}

/// Writers raise a number in a file, and publish it after each write. A reader must never read a
/// number below the one that was published before its read.
#[test]
fn no_reader_sees_a_number_below_one_that_was_written_before() {
    let cluster = Cluster::start(2);
    make(&cluster.client(), "/n", &0_u64.to_be_bytes());
    let (written, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let start = Barrier::new(4);
    let write = |mount: bool| {
        let (plain, vfs) = (cluster.client(), cluster.serving_mount());
        let file = look_up(&vfs, b"n");
        start.wait();
        for _ in 0..60 {
            // Only one of the two writes at a time: the number rises.
            while written.load(SeqCst) % 2 != u64::from(mount) {
                thread::yield_now();
            }
            let next = written.load(SeqCst) + 1;
            if mount {
                let access = Access { write: true, ..Access::READ };
                let handle = vfs.open(file, access).unwrap().handle;
                vfs.write(handle, 0, &next.to_be_bytes(), WriteAs::default()).unwrap();
                written.store(next, SeqCst);
                vfs.release(handle, None).unwrap();
            } else {
                let file = plain.open("/n", &OpenOptions::new().write(true)).unwrap();
                file.write_at(&next.to_be_bytes(), 0).unwrap();
                written.store(next, SeqCst);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let client = caching(&cluster);
                start.wait();
                while !done.load(SeqCst) {
                    let file = reader(&client, "/n");
                    for _ in 0..20 {
                        let least = written.load(SeqCst);
                        let seen = u64::from_be_bytes(read(&file, 0, 8).try_into().unwrap());
                        assert!(seen >= least, "read {seen} after {least} was written");
                    }
                }
            });
        }
        let (one, two) = (scope.spawn(|| write(false)), scope.spawn(|| write(true)));
        one.join().unwrap();
        two.join().unwrap();
        done.store(true, SeqCst);
    });
    assert_eq!(written.load(SeqCst), 120);
}
