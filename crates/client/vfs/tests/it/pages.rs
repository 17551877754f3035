//! Pages that kernels keep are what is in the file, and nobody waits for ever: mounts whose kernels lock a page while they
//! ask for it, and wait for that lock when they are to drop it.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use crate::support::{
    Cluster, create,
    kernel::{Mount, PAGE, PAGES},
};
use braid_vfs::{Access, Consistency, FileIndex, WriteAs};

const TURNS: u64 = 150;

/// Each page has one writer, which writes 1, 2, 3, … and then says how far it is. Whoever reads the page, on any mount, must
/// not find less than was said before.
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
                for turn in 1..=TURNS {
                    mount.write(handle, at, turn);
                    written.store(turn, Ordering::Release);
                }
                mount.vfs.release(handle, None).unwrap();
            });
        }
        let (told, ended_now) = (&written, &ended);
        let reads = |mount| scope.spawn(move || reads(mount, file, access, told, ended_now));
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

fn reads(mount: &Mount, file: FileIndex, access: Access, written: &[AtomicU64], ended: &AtomicBool) {
    let mut handle = mount.open(file, access);
    let mut turn = 0;
    while !ended.load(Ordering::Acquire) {
        let at = turn % PAGES;
        let before = written[at as usize].load(Ordering::Acquire);
        let found = mount.kernel.read(&mount.vfs, handle, at);
        assert!(found >= before, "page {at}: {before} was written, and {found} is in memory");
        turn += 1;
        if turn % 64 == 0 {
            mount.vfs.release(handle, None).unwrap();
            handle = mount.open(file, access);
        }
    }
    mount.vfs.release(handle, None).unwrap();
}

#[test]
fn pages_that_are_only_read_are_never_old() {
    pages_are_never_old(Access::READ);
}

#[test]
fn pages_of_two_mounts_that_both_may_write_are_never_old_and_none_waits_for_ever() {
    pages_are_never_old(Access::READ_WRITE);
}

#[test]
fn pages_of_a_posix_mount_are_never_old_beside_weak_mounts_that_write() {
    let cluster = Cluster::start(2);
    let weak = [Consistency::CloseToOpen, Consistency::Commit].map(|mode| Mount::with(&cluster, mode));
    let posix = Mount::new(&cluster);
    pages_of_readers_are_never_old([&weak[0], &weak[1]], &[&posix], Access::READ);
    pages_of_readers_are_never_old([&weak[0], &posix], &[&posix], Access::READ_WRITE);
}

#[test]
fn pages_that_nobody_changes_cost_one_call_each() {
    let cluster = Cluster::start(1);
    let (one, two) = (Mount::new(&cluster), Mount::new(&cluster));
    let (file, handle) = create(&one.vfs, b"f");
    one.vfs.write(handle, 0, &[7; PAGE as usize], WriteAs::default()).unwrap();
    one.vfs.release(handle, None).unwrap();
    // The server learns a little after the close that the writer is gone; until then a wish of the others comes to nothing.
    let opened = [&two, &one].map(|mount| mount.open_keeping(file));
    let seen = two.kernel.read(&two.vfs, opened[0], 0);
    assert_eq!(seen, u64::from_le_bytes([7; 8]));
    let writes = one.open(file, Access::WRITE);
    one.write(writes, 0, 9);
    assert_eq!(two.kernel.read(&two.vfs, opened[0], 0), 9, "what was kept was dropped before the write");
}
