//! The guarantees of a store when the disk fails or the process dies.

use crate::conformance::harness::{Harness, bytes, id, new, object};
use braid_store::{DiskOp, Fault, Object, ObjectStore, Result, SizeChange};
use braid_types::{ObjectOffset, SizeGeneration, Status};

const AT: fn(u64) -> ObjectOffset = ObjectOffset;
const GEN: fn(u64) -> SizeGeneration = SizeGeneration;
/// More operations than any script here does.
const STEPS_MAX: u64 = 100;

/// The life of an object. Returns the number of acknowledged steps.
fn script(store: &dyn ObjectStore, done: &mut Vec<&'static str>) -> Result<()> {
    let o = store.create(&new(id(2, 0)))?;
    o.write_at(&[2; 6000], AT(0), GEN(1))?;
    done.push("written");
    o.flush()?;
    done.push("flushed");
    o.change_size(SizeChange::Truncate { length: 5000 }, GEN(2))?;
    done.push("truncated");
    o.change_size(SizeChange::Punch { offset: AT(0), length: 4096 }, GEN(3))?;
    done.push("punched");
    store.delete(id(3, 0))?;
    store.flush_names(&[id(3, 0)])?;
    done.push("deleted");
    store.flush_all()?;
    Ok(())
}

pub fn every_failed_operation_is_reported_and_nothing_flushed_is_lost(h: &mut Harness) {
    for n in 1..STEPS_MAX {
        for fault in [Fault::Eio, Fault::NoSpace] {
            object(h.store(), id(1, 0), b"precious").flush().unwrap();
            object(h.store(), id(3, 0), b"doomed").flush().unwrap();
            h.faults().fail_nth(None, n, fault);
            let mut done = Vec::new();
            let outcome = script(h.store(), &mut done);
            if outcome.is_ok() {
                assert!(n > 10, "the script makes at least ten operations, made {n}");
                return;
            }
            let status = outcome.unwrap_err().status();
            assert!(matches!(status, Status::DiskError | Status::NoSpace), "{status:?} at {n}");
            h.faults().clear();
            h.restart();
            assert_eq!(bytes(&*h.store().open(id(1, 0)).unwrap()), b"precious");
            assert_whole(h.store(), &done, n);
            h.store().delete(id(2, 0)).unwrap();
        }
    }
    panic!("the script never came to its end");
}

/// Each acknowledged step of the script is there, and the next one is complete or absent.
fn assert_whole(store: &dyn ObjectStore, done: &[&str], n: u64) {
    let o = match store.open(id(2, 0)) {
        Err(error) if error.is_no_object() => return assert!(done.is_empty(), "{done:?} at {n}"),
        outcome => outcome.unwrap(),
    };
    let (record, size) = (o.record(), o.stat().unwrap().size);
    let sizes = match record.size_generation.0 {
        1 if done.contains(&"written") => 6000..=6000,
        1 => 0..=6000,
        _ => 5000..=5000,
    };
    assert!(sizes.contains(&size), "{size} after {done:?} at {n}");
    assert_eq!(record.pending, None);
    assert!(
        record.size_generation
            >= GEN(1 + done.contains(&"truncated") as u64 + done.contains(&"punched") as u64)
    );
    let punched = record.size_generation == GEN(3);
    assert!(bytes(&*o).iter().take(4096).all(|b| *b == if punched { 0 } else { 2 }));
    assert!(store.open(id(3, 0)).is_err() || !done.contains(&"deleted"), "{done:?} at {n}");
}

pub fn short_reads_and_writes_are_not_seen(h: &mut Harness) {
    h.faults().fail_nth(DiskOp::Write, 1, Fault::Short);
    h.faults().fail_nth(DiskOp::Write, 2, Fault::Short);
    let data: Vec<u8> = (0..10_001u32).map(|i| i as u8).collect();
    let o = object(h.store(), id(1, 0), &data);
    h.faults().fail_nth(DiskOp::Read, 1, Fault::Short);
    h.faults().fail_nth(DiskOp::Read, 2, Fault::Short);
    assert_eq!(bytes(&*o), data);
}

pub fn a_failed_flush_changes_the_verifier(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"data");
    let before = h.store().write_verifier();
    h.faults().fail_nth(DiskOp::Sync, 1, Fault::Eio);
    assert_eq!(o.flush().unwrap_err().status(), Status::DiskError);
    let after = h.store().write_verifier();
    assert_ne!(before, after, "I6: the client must send again");
    o.write_at(b"data", AT(0), GEN(1)).unwrap();
    assert_eq!(
        o.flush().unwrap(),
        after,
        "the same data sent again is durable under the new verifier"
    );
    drop(o);
    h.restart();
    let restarted = h.store().write_verifier();
    assert!(
        restarted == after || (restarted != before && !h.knows_its_host()),
        "the old one does not come back"
    );
    h.faults().fail_nth(DiskOp::Sync, 1, Fault::Eio);
    h.store().flush_all().unwrap_err();
    assert_ne!(h.store().write_verifier(), restarted, "also a write-back that flush_all found");
}

pub fn a_failed_directory_sync_changes_the_verifier(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"data");
    let before = h.store().write_verifier();
    h.faults().fail_nth(DiskOp::SyncDirectory, 1, Fault::Eio);
    o.flush().unwrap_err();
    assert_ne!(h.store().write_verifier(), before);
    let syncs = |h: &Harness| {
        h.faults().fail_always(DiskOp::SyncDirectory, Fault::Eio);
        let outcome = o.flush();
        h.faults().clear();
        outcome.is_err()
    };
    assert!(syncs(h), "the name is still not durable: the next flush syncs it");
    o.flush().unwrap();
    assert!(!syncs(h), "and once it is durable no more");
}

pub fn a_full_disk_says_so_and_the_store_lives_on(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"data");
    for op in [DiskOp::Write, DiskOp::Create, DiskOp::SetRecord] {
        h.faults().fail_always(op, Fault::NoSpace);
    }
    assert_eq!(o.write_at(b"more", AT(4), GEN(1)).unwrap_err().status(), Status::NoSpace);
    let error = h.store().create(&new(id(2, 0))).unwrap_err();
    assert_eq!(error.status(), Status::NoSpace);
    assert!(error.to_string().contains("2.0.0"), "names the path: {error}");
    assert_eq!(bytes(&*o), b"data");
    h.store().delete(id(1, 0)).unwrap();
    h.faults().clear();
    assert_eq!(bytes(&*object(h.store(), id(2, 0), b"fits")), b"fits");
}

pub fn a_read_only_disk_says_so_and_reads_go_on(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"data");
    h.faults().fail_always(DiskOp::Write, Fault::ReadOnly);
    h.faults().fail_always(DiskOp::Create, Fault::ReadOnly);
    assert_eq!(o.write_at(b"more", AT(4), GEN(1)).unwrap_err().status(), Status::ReadOnly);
    assert_eq!(h.store().create(&new(id(2, 0))).unwrap_err().status(), Status::ReadOnly);
    assert_eq!(bytes(&*o), b"data");
}

pub fn killed_at_each_step_of_a_truncate(h: &mut Harness) {
    killed_at_each_step(h, SizeChange::Truncate { length: 100 }, |o| {
        assert_eq!(bytes(o), [7; 100]);
    });
}

pub fn killed_at_each_step_of_a_punch(h: &mut Harness) {
    killed_at_each_step(h, SizeChange::Punch { offset: AT(0), length: 8000 }, |o| {
        assert_eq!((&bytes(o)[..8000], &bytes(o)[8000..]), (&[0; 8000][..], &[7; 192][..]));
    });
}

fn killed_at_each_step(h: &mut Harness, change: SizeChange, assert_done: fn(&dyn Object)) {
    for n in 1..STEPS_MAX {
        object(h.store(), id(1, 0), &[7; 8192]).flush().unwrap();
        let o = h.store().open(id(1, 0)).unwrap();
        h.faults().fail_nth(None, n, Fault::Killed);
        let outcome = o.change_size(change, GEN(2));
        drop(o);
        h.faults().clear();
        h.restart();
        let o = h.store().open(id(1, 0)).unwrap();
        match o.record().size_generation {
            SizeGeneration(1) => {
                assert_eq!(bytes(&*o), [7; 8192], "not begun: nothing of it is seen")
            }
            _ => assert_done(&*o),
        }
        o.change_size(change, GEN(2)).expect("the metadata server's intent does it again");
        assert_done(&*o);
        assert_eq!(
            o.write_at(b"late", AT(0), GEN(1)).unwrap_err().status(),
            Status::StaleGeneration
        );
        drop(o);
        h.store().delete(id(1, 0)).unwrap();
        if outcome.is_ok() {
            assert!(n > 5, "record, sync, change, sync, record: at least five steps, not {n}");
            return;
        }
    }
    panic!("the change never came to its end");
}

pub fn killed_at_each_step_of_a_creation(h: &mut Harness) {
    for n in 1..STEPS_MAX {
        h.faults().fail_nth(None, n, Fault::Killed);
        let outcome = h.store().create(&new(id(1, 0))).map(drop);
        h.faults().clear();
        h.restart();
        match h.store().open(id(1, 0)) {
            Ok(o) => assert_eq!(o.record().uid, 10, "there with its record"),
            Err(error) => {
                assert!(error.is_no_object() && outcome.is_err(), "or not there: {error}")
            }
        }
        h.store().delete(id(1, 0)).unwrap();
        if outcome.is_ok() {
            return assert!(n > 3);
        }
    }
    panic!("the creation never came to its end");
}

pub fn a_size_change_that_failed_is_finished_before_the_next_write(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"12345678");
    h.faults().fail_nth(DiskOp::Truncate, 1, Fault::Eio);
    o.change_size(SizeChange::Truncate { length: 2 }, GEN(2)).unwrap_err();
    assert_eq!(o.write_at(b"late", AT(4), GEN(1)).unwrap_err().status(), Status::StaleGeneration);
    o.write_at(b"3", AT(2), GEN(2)).unwrap();
    assert_eq!(bytes(&*o), b"123");
    drop(o);
    h.restart();
    assert_eq!(
        bytes(&*h.store().open(id(1, 0)).unwrap()),
        b"123",
        "and is not done again over the write"
    );
}

pub fn a_refused_size_change_leaves_the_object_as_it_was(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"12345678");
    o.flush().unwrap();
    for (op, change) in [
        (DiskOp::Truncate, SizeChange::Truncate { length: 1 << 40 }),
        (DiskOp::Punch, SizeChange::Punch { offset: AT(0), length: 4 }),
    ] {
        for fault in [Fault::TooLarge, Fault::NoSpace] {
            h.faults().fail_always(op, fault);
            let refused = o.change_size(change, GEN(2)).unwrap_err();
            assert!(refused.is_refusal(), "{refused}");
            assert!(
                o.change_size(change, GEN(2)).unwrap_err().is_refusal(),
                "again: tried again, not done already"
            );
            assert_eq!((bytes(&*o).as_slice(), o.record().pending), (&b"12345678"[..], None));
            o.write_at(b"8", AT(7), GEN(1)).unwrap();
            h.faults().clear();
        }
    }
    o.change_size(SizeChange::Truncate { length: 2 }, GEN(2)).unwrap();
    drop(o);
    h.restart();
    assert_eq!(bytes(&*h.store().open(id(1, 0)).unwrap()), b"12", "what can be done is done");
}

pub fn a_change_left_pending_by_a_kill_that_is_refused_is_taken_back(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"12345678");
    o.flush().unwrap();
    h.faults().fail_nth(DiskOp::Truncate, 1, Fault::Killed);
    o.change_size(SizeChange::Truncate { length: 1 << 40 }, GEN(2)).unwrap_err();
    drop(o);
    h.restart();
    h.faults().fail_always(DiskOp::Truncate, Fault::TooLarge);
    let o = h
        .store()
        .open(id(1, 0))
        .expect("an object with a change that its disk refuses is still an object");
    assert_eq!((bytes(&*o).as_slice(), o.record().pending), (&b"12345678"[..], None));
    assert_eq!(o.record().size_generation, GEN(1));
}
