//! Buffered bytes are seen by every call that begins after their write returned. Threads write,
//! read, map and check sizes on two mounts and through a client without leases, all at the same
//! time.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use crate::support::{
    Cluster, ROOT, create,
    kernel::{Mount, PAGE, PAGES},
    read, size, write,
};
use braid_client::OpenOptions;
use braid_vfs::{Access, FileHandle, FileIndex, LookupResult, Options, SlowRates, Vfs, WriteAs};

const WORD: u64 = 8;
/// How often a writer opens the file again: the open brings the lease under which it buffers.
const REOPENS: u64 = 32;

/// How far a writer is, and whether the observers must end.
#[derive(Default)]
struct Progress {
    written: AtomicU64,
    ended: AtomicBool,
}

/// Ends the observers, also if the writer fails.
struct Ends<'a>(&'a Progress);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
    }
}

impl Progress {
    fn now(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Calls `look` each time the writer has advanced by `every`.
    fn watch(&self, every: u64, mut look: impl FnMut(u64)) {
        let mut next = 0;
        while !self.ended.load(Ordering::Acquire) {
            let now = self.now();
            if now < next {
                thread::yield_now();
                continue;
            }
            next = now + every;
            look(now);
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..WORD as usize].try_into().unwrap())
}

fn reopened(vfs: &Vfs, file: FileIndex, before: FileHandle) -> FileHandle {
    vfs.release(before, None).unwrap();
    vfs.open(file, Access::READ_WRITE).unwrap().handle
}

#[test]
fn sizes_and_reads_of_three_clients_are_never_older_than_a_write() {
    const TURNS: u64 = 1500;
    let cluster = Cluster::start(2);
    let (one, two, plain) = (cluster.serving_mount(), cluster.serving_mount(), cluster.client());
    let (file, first) = create(&one, b"log");
    let progress = &Progress::default();
    let reads = |vfs: &Vfs, now: u64| {
        let handle = vfs.open(file, Access::READ).unwrap().handle;
        if now > 0 {
            assert_eq!(word(&read(vfs, handle, (now - 1) * WORD, WORD as usize)), now);
        }
        vfs.release(handle, None).unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ends = Ends(progress);
            let mut handle = first;
            for round in 1..=TURNS {
                let record = round.to_le_bytes();
                if round % 2 == 0 {
                    write(&one, handle, (round - 1) * WORD, &record);
                } else {
                    one.write(handle, 0, &record, WriteAs { append: true, ..WriteAs::default() })
                        .unwrap();
                }
                progress.written.store(round, Ordering::Release);
                if round % REOPENS == 0 {
                    handle = reopened(&one, file, handle);
                }
            }
            one.release(handle, None).unwrap();
        });
        scope.spawn(|| {
            progress
                .watch(1, |now| assert!(size(&one, file) >= now * WORD, "the same mount's size"))
        });
        scope.spawn(|| progress.watch(1, |now| reads(&one, now)));
        scope.spawn(|| {
            progress
                .watch(40, |now| assert!(size(&two, file) >= now * WORD, "another mount's size"))
        });
        scope.spawn(|| progress.watch(70, |now| reads(&two, now)));
        scope.spawn(|| {
            progress.watch(90, |now| {
                assert!(
                    plain.lstat("/log").unwrap().bytes.0 >= now * WORD,
                    "the size without leases"
                );
                let opened = plain.open("/log", &OpenOptions::new().read(true)).unwrap();
                let mut record = [0; WORD as usize];
                if now > 0 {
                    assert_eq!(
                        opened.read_at(&mut record, (now - 1) * WORD).unwrap(),
                        record.len()
                    );
                    assert_eq!(word(&record), now);
                }
            });
        });
    });
    assert_eq!(plain.lstat("/log").unwrap().bytes.0, TURNS * WORD);
}

#[test]
fn large_writes_being_sent_are_seen_by_calls_that_begin_later() {
    const TURNS: u64 = 160;
    const RECORD: u64 = 256 << 10;
    let cluster = Cluster::start(3);
    let slow = || {
        cluster.serving_mount_with(
            cluster.config(),
            Options { slow: SlowRates::ALL, ..Options::default() },
        )
    };
    let (one, two, plain) = (slow(), slow(), cluster.client());
    let (file, first) = create(&one, b"log");
    let progress = &Progress::default();
    let reads = |vfs: &Vfs, now: u64| {
        let handle = vfs.open(file, Access::READ).unwrap().handle;
        if now > 0 {
            assert_eq!(word(&read(vfs, handle, now * RECORD - WORD, WORD as usize)), now);
        }
        vfs.release(handle, None).unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ends = Ends(progress);
            let mut handle = first;
            for round in 1..=TURNS {
                write(
                    &one,
                    handle,
                    (round - 1) * RECORD,
                    &round.to_le_bytes().repeat((RECORD / WORD) as usize),
                );
                progress.written.store(round, Ordering::Release);
                if round % REOPENS == 0 {
                    handle = reopened(&one, file, handle);
                }
            }
            one.release(handle, None).unwrap();
        });
        scope.spawn(|| {
            progress
                .watch(3, |now| assert!(size(&one, file) >= now * RECORD, "the same mount's size"))
        });
        scope.spawn(|| progress.watch(5, |now| reads(&one, now)));
        scope.spawn(|| {
            progress
                .watch(20, |now| assert!(size(&two, file) >= now * RECORD, "another mount's size"))
        });
        scope.spawn(|| progress.watch(30, |now| reads(&two, now)));
        scope.spawn(|| {
            progress.watch(40, |now| assert!(plain.lstat("/log").unwrap().bytes.0 >= now * RECORD))
        });
    });
    let handle = two.open(file, Access::READ).unwrap().handle;
    (1..=TURNS).for_each(|round| {
        assert_eq!(word(&read(&two, handle, (round - 1) * RECORD, WORD as usize)), round)
    });
    two.release(handle, None).unwrap();
}

#[test]
fn pages_of_two_mounts_are_never_older_than_buffered_bytes() {
    const TURNS: u64 = 400;
    let cluster = Cluster::start(2);
    let mounts = [Mount::new(&cluster), Mount::new(&cluster)];
    let (file, first) = create(&mounts[0].vfs, b"f");
    write(&mounts[0].vfs, first, 0, &vec![0; (PAGES * PAGE) as usize]);
    let progress = &Progress::default();
    let looks = |mount: &Mount, every| {
        let mut handle = mount.open(file, Access::READ);
        let mut round = 0;
        // In each round one page after the other is written.
        progress.watch(every, |now| {
            let at = round % PAGES;
            let found = mount.read(handle, at);
            assert!(
                found >= (now + PAGES - 1 - at) / PAGES,
                "page {at}: {now} pages were written, and {found} is in memory"
            );
            round += 1;
            if round % 16 == 0 {
                mount.vfs.release(handle, None).unwrap();
                handle = mount.open(file, Access::READ);
            }
        });
        mount.vfs.release(handle, None).unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ends = Ends(progress);
            let mut handle = first;
            for round in 1..=TURNS {
                for at in 0..PAGES {
                    let page: Vec<u8> = round.to_le_bytes().repeat((PAGE / WORD) as usize);
                    write(&mounts[0].vfs, handle, at * PAGE, &page);
                    progress.written.fetch_add(1, Ordering::Release);
                }
                if round % (REOPENS / PAGES) == 0 {
                    handle = reopened(&mounts[0].vfs, file, handle);
                }
            }
            mounts[0].vfs.release(handle, None).unwrap();
        });
        scope.spawn(|| looks(&mounts[0], 1));
        scope.spawn(|| looks(&mounts[1], 10));
    });
    let handle = mounts[1].open(file, Access::READ);
    (0..PAGES).for_each(|at| assert_eq!(mounts[1].read(handle, at), TURNS, "page {at} at the end"));
    mounts[1].vfs.release(handle, None).unwrap();
}

#[test]
fn a_cached_size_is_never_older_than_a_write_of_the_same_mount() {
    const TURNS: u64 = 2_000;
    let cluster = Cluster::start(1);
    let one = cluster.serving_mount();
    let (file, first) = create(&one, b"f");
    // The attributes of a file are cached beside a name of it.
    assert!(matches!(one.look_up(ROOT, b"f").unwrap(), LookupResult::Found(_)));
    let progress = &Progress::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ends = Ends(progress);
            for round in 1..=TURNS {
                write(&one, first, (round - 1) * WORD, &round.to_le_bytes());
                assert_eq!(
                    size(&one, file),
                    round * WORD,
                    "replies to questions of that time are not cached"
                );
                progress.written.store(round, Ordering::Release);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| progress.watch(0, |now| assert!(size(&one, file) >= now * WORD)));
        }
    });
    one.release(first, None).unwrap();
}
