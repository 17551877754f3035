//! Cached pages of kernels are current, and no call hangs: the kernels of these mounts lock a page
//! while they read it, and wait for that lock when they must drop it.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use braid_vfs::{
    Access, Allocation, CacheInvalidator, Consistency, FileHandle, FileIndex, Vfs, WriteAs,
};

use crate::support::{
    Cluster, create,
    kernel::{Mount, PAGE, PAGES},
};

const TURNS: u64 = 150;

/// Each page has one writer, which writes 1, 2, 3, … and then publishes the last number. A reader
/// of the page on any mount must not find a smaller number than was published before.
fn pages_are_never_old(readers: Access) {
    let cluster = Cluster::start(2);
    let mounts = [Mount::new(&cluster), Mount::new(&cluster)];
    pages_of_readers_are_never_old([&mounts[0], &mounts[1]], &[&mounts[0], &mounts[1]], readers);
}

fn pages_of_readers_are_never_old(mounts: [&Mount; 2], readers: &[&Mount], access: Access) {
    let (file, handle) = create(&mounts[0].vfs, format!("{access:?}").as_bytes());
    mounts[0].vfs.write(handle, 0, &vec![0; (PAGES * PAGE) as usize], WriteAs::default()).unwrap();
    let written: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for at in 0..PAGES {
            let (mount, written) = (mounts[at as usize % 2], &written[at as usize]);
            scope.spawn(move || {
                let handle = mount.open(file, Access::READ_WRITE);
                for round in 1..=TURNS {
                    mount.write(handle, at, round);
                    written.store(round, Ordering::Release);
                }
                mount.vfs.release(handle, None).unwrap();
            });
        }
        let (written_now, ended_now) = (&written, &ended);
        let reads = |mount| scope.spawn(move || reads(mount, file, access, written_now, ended_now));
        let reading: Vec<_> = readers.iter().map(|mount| reads(*mount)).collect();
        while written.iter().any(|written| written.load(Ordering::Acquire) < TURNS)
            && !reading.iter().any(|one| one.is_finished())
        {
            thread::yield_now();
        }
        ended.store(true, Ordering::Release);
        reading.into_iter().for_each(|one| one.join().unwrap());
    });
}

fn reads(
    mount: &Mount,
    file: FileIndex,
    access: Access,
    written: &[AtomicU64],
    ended: &AtomicBool,
) {
    let mut handle = mount.open(file, access);
    let mut round = 0;
    while !ended.load(Ordering::Acquire) {
        let at = round % PAGES;
        let before = written[at as usize].load(Ordering::Acquire);
        let found = mount.kernel.read(&mount.vfs, handle, at);
        assert!(found >= before, "page {at}: {before} was written, and {found} is in memory");
        round += 1;
        if round % 64 == 0 {
            mount.vfs.release(handle, None).unwrap();
            handle = mount.open(file, access);
        }
    }
    mount.vfs.release(handle, None).unwrap();
}

#[test]
fn pages_that_are_only_read_are_never_stale() {
    pages_are_never_old(Access::READ);
}

#[test]
fn pages_of_two_writing_mounts_are_never_stale_and_none_hangs() {
    pages_are_never_old(Access::READ_WRITE);
}

#[test]
fn pages_of_a_posix_mount_are_never_stale_beside_relaxed_writers() {
    let cluster = Cluster::start(2);
    let weak =
        [Consistency::CloseToOpen, Consistency::Commit].map(|mode| Mount::with(&cluster, mode));
    let posix = Mount::new(&cluster);
    pages_of_readers_are_never_old([&weak[0], &weak[1]], &[&posix], Access::READ);
    pages_of_readers_are_never_old([&weak[0], &posix], &[&posix], Access::READ_WRITE);
}

#[test]
fn unchanged_pages_cost_one_call_each() {
    let cluster = Cluster::start(1);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let (file, handle) = create(&one.vfs, b"f");
    one.vfs.write(handle, 0, &[7; PAGE as usize], WriteAs::default()).unwrap();
    one.vfs.release(handle, None).unwrap();
    // The close reaches the server a little later; until then it does not grant others the lease.
    let opened = [&two, &one].map(|mount| mount.open_keeping(file));
    let seen = two.kernel.read(&two.vfs, opened[0], 0);
    assert_eq!(seen, u64::from_le_bytes([7; 8]));
    let writes = one.open(file, Access::WRITE);
    one.write(writes, 0, 9);
    assert_eq!(
        two.kernel.read(&two.vfs, opened[0], 0),
        9,
        "the cached pages were dropped before the write"
    );
}

/// A kernel with one page of a file, into which a program has stored through a mapping: it writes
/// the whole page back before it drops it.
#[derive(Default)]
struct Mapped {
    vfs: OnceLock<Arc<Vfs>>,
    dirty: Mutex<Option<(FileHandle, Vec<u8>)>>,
}

impl CacheInvalidator for Mapped {
    fn drop_names(&self, _: &[(FileIndex, Vec<FileIndex>)]) {}
    fn drop_attributes(&self, _: FileIndex) {}

    fn drop_data(&self, _: FileIndex, _: u64, _: u64) {
        let Some((handle, bytes)) = self.dirty.lock().unwrap().take() else { return };
        let writes = || {
            self.vfs.get().unwrap().write(
                handle,
                0,
                &bytes,
                WriteAs { page: true, ..WriteAs::default() },
            )
        };
        // A kernel sends it to another thread of the mount, and waits.
        thread::scope(|scope| scope.spawn(writes).join().unwrap()).unwrap();
    }
}

impl Mapped {
    /// Reads the first page of a file, and stores into it.
    fn store(&self, handle: FileHandle, at: usize, byte: u8) {
        let give = |page: braid_vfs::Page<'_>| {
            let braid_vfs::Page::Bytes(bytes) = page else { panic!("no pipe was given") };
            let mut page = bytes.to_vec();
            page[at] = byte;
            *self.dirty.lock().unwrap() = Some((handle, page));
        };
        self.vfs.get().unwrap().read_page(handle, 0, &mut [0; PAGE as usize], None, give).unwrap();
    }
}

#[test]
fn a_page_that_was_read_before_a_write_of_its_bytes_does_not_undo_it() {
    const BYTES: usize = 3000;
    const STORED_AT: usize = 2048;
    let cluster = Cluster::start(2);
    let mapped = Arc::new(Mapped::default());
    let vfs = Arc::new(Vfs::new(cluster.client()).unwrap());
    vfs.serve(Arc::clone(&mapped) as Arc<dyn CacheInvalidator>).unwrap();
    assert!(mapped.vfs.set(Arc::clone(&vfs)).is_ok());
    let (_, source) = create(&vfs, b"source");
    crate::support::write(&vfs, source, 0, b"copied");
    let append = WriteAs { append: true, ..WriteAs::default() };
    type Change<'a> = &'a dyn Fn(FileHandle);
    let changes: [(&str, Change<'_>, usize, &[u8]); 6] = [
        ("write", &|file| crate::support::write(&vfs, file, 100, b"written"), 100, b"written"),
        (
            "append",
            &|file| assert_eq!(vfs.write(file, 0, b"behind", append).unwrap(), 6),
            BYTES,
            b"behind",
        ),
        (
            "copy",
            &|file| assert_eq!(vfs.copy_range((source, 0), (file, 7), 6, false).unwrap(), 6),
            7,
            b"copied",
        ),
        (
            "punch",
            &|file| vfs.allocate(file, 20, 5, Allocation::Punch, false).unwrap(),
            20,
            &[0; 5],
        ),
        (
            "zero",
            &|file| vfs.allocate(file, 9, 5, Allocation::Zero { keep_size: true }, false).unwrap(),
            9,
            &[0; 5],
        ),
        ("both sides", &|file| crate::support::write(&vfs, file, 2040, &[1; 8]), 2040, &[1; 8]),
    ];
    for (what, change, at, expected) in changes {
        let (_, file) = create(&vfs, what.as_bytes());
        crate::support::write(&vfs, file, 0, &[0xaa; BYTES]);
        mapped.store(file, STORED_AT, 0xbb);
        change(file);
        let found = crate::support::read(&vfs, file, 0, PAGE as usize);
        assert_eq!(&found[at..at + expected.len()], expected, "{what} is undone");
        assert_eq!(found[STORED_AT], 0xbb, "the store beside {what} is lost");
        let touched = |byte: usize| byte == STORED_AT || (at..at + expected.len()).contains(&byte);
        assert!(
            (0..BYTES).all(|byte| touched(byte) || found[byte] == 0xaa),
            "{what}: nothing else is changed"
        );
        vfs.release(file, None).unwrap();
    }
}
