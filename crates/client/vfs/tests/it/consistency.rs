//! Relaxed mounts: what their reads see, and what other mounts see of their writes.

use std::thread;

use crate::support::{
    self, Cluster, ROOT, create, found,
    kernel::{Mount, PAGE},
    read, wait_for,
};
use braid_vfs::{Access, Consistency, FileHandle, FileIndex, OpenAs, WriteAs};

const WEAK: [Consistency; 2] = [Consistency::CloseToOpen, Consistency::Commit];

/// A file of one page with this word, closed by its writer.
fn file_of(creator: &Mount, name: &[u8], word: u64) -> FileIndex {
    let (file, handle) = create(&creator.vfs, name);
    creator.vfs.write(handle, 0, &[0; PAGE as usize], WriteAs::default()).unwrap();
    creator.write(handle, 0, word);
    creator.vfs.release(handle, None).unwrap();
    file
}

/// Opens, writes a word, closes.
fn rewrite(mount: &Mount, file: FileIndex, word: u64) {
    let handle = mount.open(file, Access::WRITE);
    mount.write(handle, 0, word);
    mount.vfs.release(handle, None).unwrap();
}

#[test]
fn pages_of_a_relaxed_mount_are_as_of_the_open_and_delay_no_writer() {
    for mode in WEAK {
        let cluster = Cluster::start(1);
        let (weak, posix) = (Mount::with(&cluster, mode), Mount::new(&cluster));
        let file = file_of(&posix, b"f", 1);
        let handle = weak.open(file, Access::READ);
        assert_eq!(weak.read(handle, 0), 1);
        rewrite(&posix, file, 2);
        assert!(weak.kernel.has(0), "{mode}: nothing was recalled for the write");
        assert_eq!(weak.read(handle, 0), 1);
        let opened = weak.vfs.open(file, OpenAs::from(Access::READ)).unwrap();
        assert!(opened.may_cache_pages);
        assert_eq!(
            weak.read(opened.handle, 0),
            2,
            "{mode}: writes that were closed before the open are seen"
        );
        assert_eq!(weak.read(handle, 0), 2, "{mode}: also through an earlier handle");
    }
}

#[test]
fn a_relaxed_mount_caches_a_file_being_written_until_the_next_open() {
    let cluster = Cluster::start(1);
    let (weak, posix) = (Mount::with(&cluster, Consistency::CloseToOpen), Mount::new(&cluster));
    let file = file_of(&posix, b"f", 1);
    let writes = posix.open(file, Access::WRITE);
    for word in 2..50 {
        posix.write(writes, 0, word);
        let opened = weak.vfs.open(file, OpenAs::from(Access::READ)).unwrap();
        assert!(opened.may_cache_pages);
        assert_eq!(weak.read(opened.handle, 0), word);
        weak.vfs.release(opened.handle, None).unwrap();
    }
}

#[test]
fn unchanged_pages_stay_cached_from_open_to_open_without_a_call() {
    let cluster = Cluster::start(1);
    let (weak, posix) = (Mount::with(&cluster, Consistency::CloseToOpen), Mount::new(&cluster));
    let file = file_of(&posix, b"f", 1);
    // Once the close has arrived and the size is recorded, its attributes are cached.
    wait_for(|| {
        weak.vfs.reply_cacheable(&found(&weak.vfs, b"f").unwrap().leases, |cacheable| {
            cacheable.attributes
        })
    });
    let opens_and_reads = || {
        let handle = weak.open(file, Access::READ);
        assert_eq!(weak.read(handle, 0), 1);
        weak.vfs.release(handle, None).unwrap();
    };
    opens_and_reads();
    let before = cluster.calls();
    for _ in 0..2000 {
        assert!(weak.kernel.has(0));
        opens_and_reads();
    }
    // Other calls: heartbeats and renewals.
    assert!(cluster.calls() - before < 100, "{} calls", cluster.calls() - before);
    rewrite(&posix, file, 2);
    assert_eq!(weak.read(weak.open(file, Access::READ), 0), 2);
}

#[test]
fn a_posix_mount_sees_writes_of_a_relaxed_mount_immediately() {
    for mode in WEAK {
        let cluster = Cluster::start(1);
        let (weak, posix) = (Mount::with(&cluster, mode), Mount::new(&cluster));
        let file = file_of(&posix, b"f", 1);
        let reads = posix.open(file, Access::READ);
        let writes = weak.open(file, Access::READ_WRITE);
        for word in 2..20 {
            weak.write(writes, 0, word);
            assert_eq!(posix.read(reads, 0), word, "{mode}");
        }
    }
}

#[test]
fn a_relaxed_mount_that_may_write_a_file_sees_all_its_writes() {
    let cluster = Cluster::start(1);
    let (weak, posix) = (Mount::with(&cluster, Consistency::CloseToOpen), Mount::new(&cluster));
    let file = file_of(&posix, b"f", 1);
    let reads = weak.open(file, Access::READ);
    assert_eq!(weak.read(reads, 0), 1);
    let (here, there) = (weak.open(file, Access::READ_WRITE), posix.open(file, Access::WRITE));
    for word in 2..20 {
        let (mount, handle) = if word % 2 == 0 { (&weak, here) } else { (&posix, there) };
        mount.write(handle, 0, word);
        assert_eq!(weak.read(reads, 0), word);
    }
}

#[test]
fn fsync_shows_a_reader_what_others_committed_on_a_commit_mount_alone() {
    for (mode, seen) in [(Consistency::CloseToOpen, 1), (Consistency::Commit, 2)] {
        let cluster = Cluster::start(1);
        let (weak, posix) = (Mount::with(&cluster, mode), Mount::new(&cluster));
        let file = file_of(&posix, b"f", 1);
        let handle = weak.open(file, Access::READ);
        assert_eq!(weak.read(handle, 0), 1);
        let writes = posix.open(file, Access::WRITE);
        posix.write(writes, 0, 2);
        posix.vfs.sync(writes).unwrap();
        assert_eq!(weak.read(handle, 0), 1, "{mode}");
        weak.vfs.sync(handle).unwrap();
        assert_eq!(weak.read(handle, 0), seen, "{mode}");
    }
}

#[test]
fn appends_of_relaxed_and_posix_mounts_never_overlap() {
    const RECORDS: u64 = 60;
    let cluster = Cluster::start(2);
    let mounts = [Consistency::Posix, Consistency::CloseToOpen, Consistency::Commit]
        .map(|m| Mount::with(&cluster, m));
    let (file, _) = create(&mounts[0].vfs, b"f");
    let reader = mounts[1].open(file, Access::READ);
    thread::scope(|scope| {
        for (who, mount) in (1u8..).zip(&mounts) {
            scope.spawn(move || append_records(mount, file, who, RECORDS));
        }
    });
    let bytes = read(&mounts[2].vfs, mounts[2].open(file, Access::READ), 0, 1 << 20);
    let records: Vec<&[u8]> = bytes.chunks(100).collect();
    assert!(
        records
            .iter()
            .all(|record| record.len() == 100 && record.iter().all(|byte| *byte == record[0]))
    );
    for who in 1u8..=3 {
        assert_eq!(
            records.iter().filter(|record| record[0] == who).count() as u64,
            RECORDS,
            "of mount {who}"
        );
    }
    mounts[1].vfs.release(reader, None).unwrap();
}

fn append_records(mount: &Mount, file: FileIndex, who: u8, records: u64) {
    let handle: FileHandle = mount.open(file, Access::WRITE);
    for _ in 0..records {
        mount
            .vfs
            .write(handle, 0, &[who; 100], WriteAs { append: true, ..WriteAs::default() })
            .unwrap();
    }
    mount.vfs.release(handle, None).unwrap();
}

#[test]
fn names_and_attributes_of_a_relaxed_mount_are_coherent() {
    let cluster = Cluster::start(1);
    let (weak, posix) = (Mount::with(&cluster, Consistency::CloseToOpen), Mount::new(&cluster));
    file_of(&posix, b"f", 1);
    let file = found(&weak.vfs, b"f").unwrap().attributes.file;
    rewrite(&posix, file, 2);
    let writes = posix.open(file, Access::WRITE);
    posix.vfs.write(writes, PAGE, b"longer", WriteAs::default()).unwrap();
    assert_eq!(support::size(&weak.vfs, file), PAGE + 6);
    posix.vfs.unlink(ROOT, b"f").unwrap();
    assert!(found(&weak.vfs, b"f").is_none());
}
