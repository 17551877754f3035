//! Locks and appends between two mounts of one cluster.

use std::{thread, time::Duration};

use crate::support::{Cluster, create, read, wait_for};
use braid_client::{Config, OpenOptions};
use braid_vfs::{
    Access, Error, FileHandle, Lock, LockSpace, LockWait, OpenAs, Status, Vfs, WriteAs,
};

fn lock(owner: u64, start: u64, last: u64) -> Lock {
    Lock { owner, pid: owner as u32, start, last, exclusive: true }
}

fn free(vfs: &Vfs, handle: FileHandle, wanted: &Lock) -> bool {
    vfs.test_lock(handle, LockSpace::Range, wanted).unwrap().is_none()
}

#[test]
fn a_range_has_one_owner_until_it_is_unlocked_or_its_process_closes() {
    let cluster = Cluster::start(1);
    let (one, two) = (cluster.mount(), cluster.mount());
    let (file, mine) = create(&one, b"f");
    let theirs = two.open(file, Access::READ_WRITE).unwrap().handle;
    assert_eq!(one.try_lock(mine, LockSpace::Range, &lock(1, 0, 9)).unwrap(), None);
    let found = two.try_lock(theirs, LockSpace::Range, &lock(1, 5, 5)).unwrap().unwrap();
    assert_eq!(
        (found.pid, found.start, found.last),
        (1, 0, 9),
        "the same number on another mount is another owner"
    );
    assert!(free(&two, theirs, &lock(1, 10, 20)));
    assert_eq!(
        two.try_lock(theirs, LockSpace::Whole, &lock(1, 0, u64::MAX)).unwrap(),
        None,
        "another kind"
    );
    one.unlock(mine, LockSpace::Range, 1, 0, 4).unwrap();
    assert!(free(&two, theirs, &lock(1, 0, 4)) && !free(&two, theirs, &lock(1, 5, 5)));
    // The process has the file open twice: closing either descriptor unlocks all its ranges.
    let again = one.open(file, Access::READ).unwrap().handle;
    one.flush(again, Some(1)).unwrap();
    assert!(free(&two, theirs, &lock(1, 0, 9)));
    // The locks of an open file end with it.
    assert_eq!(one.try_lock(again, LockSpace::Range, &lock(99, 0, 9)).unwrap(), None);
    assert_eq!(
        one.try_lock(again, LockSpace::Whole, &lock(98, 0, u64::MAX)).unwrap().unwrap().owner,
        1
    );
    one.flush(again, Some(1)).unwrap();
    assert!(!free(&two, theirs, &lock(1, 0, 9)));
    one.release(again, Some(98)).unwrap();
    assert!(free(&two, theirs, &lock(1, 0, 9)));
}

#[test]
fn a_wait_ends_with_the_lock_or_with_a_signal() {
    let cluster = Cluster::start(1);
    let (one, two) = (cluster.mount(), cluster.mount());
    let (file, mine) = create(&one, b"f");
    let theirs = two.open(file, Access::READ_WRITE).unwrap().handle;
    one.try_lock(mine, LockSpace::Range, &lock(1, 0, 9)).unwrap();
    let (got, given_up) = (LockWait::new(), LockWait::new());
    thread::scope(|scope| {
        let waits = scope.spawn(|| two.lock(theirs, LockSpace::Range, &lock(2, 0, 9), &got));
        let stops = scope.spawn(|| two.lock(theirs, LockSpace::Range, &lock(3, 0, 9), &given_up));
        two.cancel(&given_up).unwrap();
        assert!(matches!(stops.join().unwrap(), Err(Error::Interrupted)));
        one.unlock(mine, LockSpace::Range, 1, 0, 9).unwrap();
        waits.join().unwrap().unwrap();
    });
    assert!(!free(&one, mine, &lock(1, 0, 9)));
}

#[test]
fn a_deadlock_of_two_owners_is_reported() {
    let cluster = Cluster::start(1);
    let (one, two) = (cluster.mount(), cluster.mount());
    let (file, mine) = create(&one, b"f");
    let theirs = two.open(file, Access::READ_WRITE).unwrap().handle;
    one.try_lock(mine, LockSpace::Range, &lock(1, 0, 0)).unwrap();
    two.try_lock(theirs, LockSpace::Range, &lock(2, 1, 1)).unwrap();
    // The last caller gets the error and unlocks its range, which the other one gets then.
    let ask = |vfs: &Vfs, handle, owner, byte, has| {
        let got = vfs.lock(handle, LockSpace::Range, &lock(owner, byte, byte), &LockWait::new());
        if got.is_err() {
            vfs.unlock(handle, LockSpace::Range, owner, has, has).unwrap();
        }
        got
    };
    let outcomes = thread::scope(|scope| {
        let first = scope.spawn(|| ask(&one, mine, 1, 1, 0));
        [ask(&two, theirs, 2, 0, 1), first.join().unwrap()]
    });
    let errors: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert_eq!(
        errors.iter().map(|error| error.status()).collect::<Vec<_>>(),
        [Some(Status::Deadlock)]
    );
}

#[test]
fn appends_of_two_mounts_never_land_on_the_same_bytes() {
    const RECORDS: usize = 100;
    let cluster = Cluster::start(2);
    let (one, two) = (cluster.serving_mount(), cluster.serving_mount());
    let (file, mine) = create(&one, b"f");
    let theirs = two.open(file, OpenAs::from(Access::WRITE)).unwrap().handle;
    let append = |vfs: &Vfs, handle, byte: u8| {
        let how = WriteAs { append: true, ..WriteAs::default() };
        for _ in 0..RECORDS {
            assert_eq!(vfs.write(handle, 0, &[byte; 3], how).unwrap(), 3);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| append(&one, mine, b'a'));
        scope.spawn(|| append(&one, mine, b'b'));
        scope.spawn(|| append(&two, theirs, b'c'));
    });
    let all = read(&one, mine, 0, 10_000);
    assert_eq!(all.len(), 9 * RECORDS);
    assert!(all.chunks(3).all(|record| record.iter().all(|byte| *byte == record[0])));
    for byte in b'a'..=b'c' {
        assert_eq!(all.iter().filter(|found| **found == byte).count(), 3 * RECORDS);
    }
}

#[test]
fn an_append_works_while_a_library_client_has_the_file_open() {
    let cluster = Cluster::start(1);
    let one = cluster.serving_mount();
    let (file, handle) = create(&one, b"f");
    let library = cluster.client();
    for options in [OpenOptions::new().read(true), OpenOptions::new().read(true).write(true)] {
        let theirs = library.open(file, &options).unwrap();
        let how = WriteAs { append: true, ..WriteAs::default() };
        assert_eq!(one.write(handle, 0, b"abc", how).unwrap(), 3);
        let mut bytes = [0; 3];
        assert_eq!(theirs.read_at(&mut bytes, 0).unwrap(), 3);
        assert_eq!(&bytes, b"abc");
    }
}

#[test]
fn locks_not_released_during_an_outage_are_released_after_it() {
    let mut cluster = Cluster::start(1);
    let one =
        cluster.serving_mount_of(Config { timeout: Duration::from_secs(2), ..cluster.config() });
    let two = cluster.mount();
    let (file, mine) = create(&one, b"f");
    let theirs = two.open(file, Access::READ_WRITE).unwrap().handle;
    let whole = |owner| lock(owner, 0, u64::MAX);
    for (space, owned) in [
        (LockSpace::Range, lock(1, 0, 9)),
        (LockSpace::Range, lock(99, 20, 29)),
        (LockSpace::Whole, whole(98)),
    ] {
        assert_eq!(one.try_lock(mine, space, &owned).unwrap(), None);
    }
    cluster.stop_mds();
    assert!(one.flush(mine, Some(1)).is_err(), "a process that ends");
    assert!(
        one.release(mine, Some(98)).is_err(),
        "its open file: 99 had bytes of it, 98 all of it"
    );
    cluster.start_mds();
    for (space, wanted) in [(LockSpace::Range, lock(1, 0, 29)), (LockSpace::Whole, whole(2))] {
        wait_for(|| matches!(two.try_lock(theirs, space, &wanted), Ok(None)));
    }
}
