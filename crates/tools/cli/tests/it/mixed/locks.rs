//! Byte-range locks of an NFS client and of programs on a mount (`fcntl`).

use std::{fs::File, io};

use braid_mount_tests::record_locks::{Mode, Space, conflicting_lock, lock};
use braid_nfs_wire::nfs4::callback::CallbackArgOp;
use braid_testbed::{
    nfs::{NfsCallbacks, NfsFile},
    wait::wait_for,
};

use super::{Mixed, Nfs, open_both, waits_for};

/// Locks bytes of an open file of the mount; `false` if another owner has them.
fn try_lock(file: &File, start: i64, bytes: i64) -> bool {
    match lock(file, Space::Open, Mode::Alone, false, start, bytes) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

fn unlock(file: &File, start: i64, bytes: i64) {
    lock(file, Space::Open, Mode::Unlock, false, start, bytes).unwrap();
}

fn both_open(mixed: &Mixed, name: &str) -> (File, Nfs, NfsFile) {
    let (dir, mut nfs) = mixed.dir(name);
    nfs.create("f", &[0; 100]);
    let file = nfs.open("f");
    (open_both(&dir.join("f")), nfs, file)
}

#[test]
fn locks_of_a_mount_and_of_nfs_exclude_each_other() {
    let Some(mixed) = Mixed::shared() else { return };
    let (open, mut nfs, mut file) = both_open(&mixed, "locks");
    assert!(nfs.mount.lock(&mut file, 10, 10).unwrap());
    assert!(!try_lock(&open, 15, 1));
    assert!(!try_lock(&open, 0, 0), "the whole file");
    assert!(conflicting_lock(&open, Mode::Alone, 19, 1).unwrap().is_some());
    assert!(conflicting_lock(&open, Mode::Alone, 20, 1).unwrap().is_none());
    assert!(try_lock(&open, 0, 10) && try_lock(&open, 20, 10), "beside it");
    assert!(!nfs.mount.lock(&mut file, 0, 1).unwrap());
    assert!(!nfs.mount.may_lock(&file, 29, 5).unwrap());
    assert!(nfs.mount.may_lock(&file, 30, 5).unwrap());
    // A part of what the mount has.
    unlock(&open, 25, 5);
    assert!(nfs.mount.lock(&mut file, 25, 5).unwrap());
    nfs.mount.unlock(&mut file, 10, 10).unwrap();
    assert!(try_lock(&open, 10, 10));
    // CLOSE and close release what is left.
    nfs.mount.unlock(&mut file, 25, 5).unwrap();
    assert!(try_lock(&open, 25, 5));
    drop(open);
    wait_for("the mount's locks to end", || nfs.mount.lock(&mut file, 0, 100).unwrap());
}

#[test]
fn a_mount_waits_for_a_lock_of_nfs_and_reads_what_was_written_under_it() {
    let Some(mixed) = Mixed::shared() else { return };
    let (open, mut nfs, mut file) = both_open(&mixed, "mount-waits");
    for turn in 1..5 {
        assert!(nfs.mount.lock(&mut file, 0, 10).unwrap());
        let locked = || lock(&open, Space::Open, Mode::Alone, true, 5, 10).unwrap();
        waits_for("fcntl", locked, |last_step| {
            nfs.write(&file, 5, &[turn]);
            last_step();
            nfs.mount.unlock(&mut file, 0, 10).unwrap();
        });
        let mut found = [0];
        std::os::unix::fs::FileExt::read_exact_at(&open, &mut found, 5).unwrap();
        assert_eq!(found, [turn]);
        unlock(&open, 5, 10);
    }
}

#[test]
fn nfs_is_notified_of_a_lock_that_a_mount_releases() {
    let Some(mixed) = Mixed::shared() else { return };
    let (open, mut nfs, mut file) = both_open(&mixed, "nfs-waits");
    let callbacks = NfsCallbacks::of(&nfs.mount).unwrap();
    for turn in 1..4 {
        assert!(try_lock(&open, 0, 10));
        assert!(!nfs.mount.lock_or_wait(&mut file, 5, 10).unwrap());
        std::os::unix::fs::FileExt::write_all_at(&open, &[turn], 5).unwrap();
        unlock(&open, 0, 10);
        // The server holds the lock for the client for 3 s, which may pass on a busy machine.
        loop {
            let callback = callbacks.next().unwrap();
            let CallbackArgOp::NotifyLock(notified) = callback else { panic!("{callback:?}") };
            assert_eq!(notified.handle, file.handle);
            if nfs.mount.lock_or_wait(&mut file, 5, 10).unwrap() {
                break;
            }
        }
        assert!(!try_lock(&open, 5, 1), "the client has the lock");
        assert_eq!(nfs.mount.read(&file, 5, 1).unwrap()[..], [turn]);
        nfs.mount.unlock(&mut file, 5, 10).unwrap();
    }
}

#[test]
fn a_library_program_a_mount_and_nfs_count_under_one_lock() {
    let Some(mixed) = Mixed::shared() else { return };
    let (open, mut nfs, mut file) = both_open(&mixed, "counter");
    let library = mixed.library();
    let options = braid_client::OpenOptions::new().read(true).write(true);
    let of_library = library.open("/counter/f", &options).unwrap();
    const TURNS: u32 = 40;
    let next =
        |bytes: &[u8]| (u32::from_be_bytes(bytes.try_into().expect("4 bytes")) + 1).to_be_bytes();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..TURNS {
                lock(&open, Space::Open, Mode::Alone, true, 0, 4).unwrap();
                let mut bytes = [0; 4];
                std::os::unix::fs::FileExt::read_exact_at(&open, &mut bytes, 0).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&open, &next(&bytes), 0).unwrap();
                unlock(&open, 0, 4);
            }
        });
        scope.spawn(|| {
            use braid_client::{LockRange, LockRequest, LockSpace};
            let (index, space, owner) = (of_library.index(), LockSpace::Range, 1);
            let (pid, start, last, exclusive) = (1, 0, 3, true);
            let wanted = LockRequest { file: index, space, owner, pid, start, last, exclusive };
            for _ in 0..TURNS {
                while library.try_lock_range(&wanted).unwrap().is_some() {}
                let mut bytes = [0; 4];
                assert_eq!(of_library.read_at(&mut bytes, 0).unwrap(), 4);
                of_library.write_at(&next(&bytes), 0).unwrap();
                library
                    .unlock_range(&LockRange { file: index, space, owner, start, last })
                    .unwrap();
            }
        });
        for _ in 0..TURNS {
            while !nfs.mount.lock(&mut file, 0, 4).unwrap() {}
            let bytes = nfs.mount.read(&file, 0, 4).unwrap();
            nfs.write(&file, 0, &next(&bytes));
            nfs.mount.unlock(&mut file, 0, 4).unwrap();
        }
    });
    assert_eq!(nfs.mount.read(&file, 0, 4).unwrap()[..], (3 * TURNS).to_be_bytes());
}
