//! The loss of power, on the store in memory: flushed data is there, other data may be lost, torn
//! or out of order, and a size change is done completely or not at all.

use braid_store::{DiskOp, Fault, MemStore, NewObject, Object, ObjectStore, SizeChange};
use braid_types::{
    ClusterUuid, FileIndex, ObjectGeneration, ObjectId, ObjectOffset, PartIndex, SizeGeneration,
};
use std::collections::BTreeSet;
use std::sync::Arc;

const SEEDS: u64 = 200;
const ID: ObjectId =
    ObjectId { file: FileIndex(1), part: PartIndex(0), generation: ObjectGeneration(0) };
const NEW: SizeGeneration = SizeGeneration(1);

fn store(seed: u64) -> MemStore {
    MemStore::new(ClusterUuid([1; 16]), None, seed)
}

fn flushed(store: &MemStore, data: &[u8]) -> Arc<dyn Object> {
    let new = NewObject {
        id: ID,
        size_generation: SizeGeneration(0),
        uid: 0,
        gid: 0,
        layout: Arc::from([]),
    };
    let object = store.create(&new).unwrap();
    object.write_at(data, ObjectOffset(0), SizeGeneration(0)).unwrap();
    object.flush().unwrap();
    object
}

fn bytes(store: &MemStore) -> Vec<u8> {
    let object = store.open(ID).unwrap();
    let mut buf = vec![0; object.stat().unwrap().size as usize];
    object.read_at(&mut buf, ObjectOffset(0)).unwrap();
    buf
}

#[test]
fn flushed_data_is_there_after_every_crash() {
    for seed in 0..SEEDS {
        let store = store(seed);
        let object = flushed(&store, &[1; 9000]);
        object.write_at(&[2; 3000], ObjectOffset(9000), SizeGeneration(0)).unwrap();
        store.crash();
        assert_eq!(&bytes(&store)[..9000], &[1; 9000], "seed {seed}");
    }
}

#[test]
fn unflushed_data_is_lost_torn_and_reordered_by_some_seed() {
    let mut seen = BTreeSet::new();
    for seed in 0..SEEDS {
        let store = store(seed);
        let object = flushed(&store, &[0; 2048]);
        object.write_at(&[1; 2048], ObjectOffset(0), SizeGeneration(0)).unwrap();
        object.write_at(&[2; 2048], ObjectOffset(0), SizeGeneration(0)).unwrap();
        let before = store.write_verifier();
        store.crash();
        assert_ne!(store.write_verifier(), before, "I6: the client sees it");
        let sectors: Vec<u8> = bytes(&store).chunks(512).map(|sector| sector[0]).collect();
        assert!(
            bytes(&store).chunks(512).all(|sector| sector.iter().all(|b| *b == sector[0])),
            "sectors are whole"
        );
        seen.insert(sectors);
    }
    assert!(seen.contains(&vec![0; 4]), "lost");
    assert!(seen.contains(&vec![2; 4]), "not lost");
    assert!(seen.contains(&vec![1; 4]), "out of order, or the second lost");
    assert!(seen.iter().any(|sectors| sectors.iter().any(|s| *s != sectors[0])), "torn");
}

#[test]
fn a_name_that_was_never_flushed_may_be_gone() {
    let survived = |seed| {
        let store = store(seed);
        let new = NewObject { id: ID, size_generation: NEW, uid: 0, gid: 0, layout: Arc::from([]) };
        store.create(&new).unwrap();
        store.crash();
        store.open(ID).is_ok()
    };
    let count = (0..SEEDS).filter(|seed| survived(*seed)).count();
    assert!((1..SEEDS as usize).contains(&count), "some and some not: {count}");
}

#[test]
fn a_deletion_that_was_never_flushed_may_come_back_whole() {
    let back = |seed| {
        let store = store(seed);
        flushed(&store, b"deleted");
        store.delete(ID).unwrap();
        store.crash();
        store.open(ID).is_ok().then(|| bytes(&store))
    };
    let outcomes: BTreeSet<_> = (0..SEEDS).map(back).collect();
    assert_eq!(outcomes, BTreeSet::from([None, Some(b"deleted".to_vec())]));
}

#[test]
fn a_deletion_that_was_flushed_never_comes_back() {
    for seed in 0..SEEDS {
        let store = store(seed);
        flushed(&store, b"deleted");
        store.delete(ID).unwrap();
        store.flush_names(&[ID]).unwrap();
        store.crash();
        assert!(store.open(ID).is_err(), "seed {seed}");
    }
}

#[test]
fn power_lost_at_each_step_of_a_truncate() {
    for seed in 0..SEEDS {
        let mut step = 1;
        while !truncate_until(&store(seed * 100 + step), step, seed) {
            step += 1;
        }
        assert!(step > 5, "at least five steps: {step}");
    }
}

/// Loses power before a step of a truncate. Returns whether the truncate had ended before.
fn truncate_until(store: &MemStore, step: u64, seed: u64) -> bool {
    let object = flushed(store, &[7; 8192]);
    let change = SizeChange::Truncate { length: 100 };
    store.faults().fail_nth(None, step, Fault::Killed);
    let outcome = object.change_size(change, NEW);
    store.crash();
    store.faults().clear();
    let object = store.open(ID).unwrap();
    if object.record().size_generation < NEW {
        assert!(outcome.is_err(), "seed {seed}: an acknowledged truncate is durable");
        assert_eq!(
            bytes(store),
            [7; 8192],
            "seed {seed} step {step}: not begun, nothing of it is seen"
        );
    } else {
        assert_eq!(bytes(store), [7; 100], "seed {seed} step {step}: begun, it is whole");
    }
    object.change_size(change, NEW).unwrap();
    assert_eq!(bytes(store), [7; 100], "the intent does it again");
    outcome.is_ok()
}

#[test]
fn power_lost_in_the_second_try_of_a_truncate_whose_first_sync_failed() {
    for seed in 0..SEEDS {
        for step in 1..8 {
            let store = store(seed * 10 + step);
            let object = flushed(&store, &[7; 8192]);
            let change = SizeChange::Truncate { length: 100 };
            store.faults().fail_nth(DiskOp::Sync, 1, Fault::Eio);
            object.change_size(change, NEW).unwrap_err();
            store.faults().fail_nth(None, step, Fault::Killed);
            let outcome = object.change_size(change, NEW);
            store.crash();
            store.faults().clear();
            let begun = store.open(ID).unwrap().record().size_generation == NEW;
            assert!(begun || outcome.is_err());
            assert_eq!(
                bytes(&store),
                vec![7; if begun { 100 } else { 8192 }],
                "seed {seed} step {step}"
            );
        }
    }
}

#[test]
fn a_write_flushed_after_a_truncate_is_not_truncated_again() {
    for seed in 0..SEEDS {
        let store = store(seed);
        let object = flushed(&store, &[7; 8192]);
        object.change_size(SizeChange::Truncate { length: 1 }, NEW).unwrap();
        object.write_at(b"flushed", ObjectOffset(1), NEW).unwrap();
        object.flush().unwrap();
        store.crash();
        assert_eq!(bytes(&store), b"\x07flushed", "seed {seed}");
    }
}

#[test]
fn what_a_failed_flush_forgot_is_not_durable_after_the_next() {
    let store = store(1);
    let object = flushed(&store, b"old");
    object.write_at(b"new", ObjectOffset(0), SizeGeneration(0)).unwrap();
    let written_under = store.write_verifier();
    store.faults().fail_nth(DiskOp::Sync, 1, Fault::Eio);
    object.flush().unwrap_err();
    assert_eq!(bytes(&store), b"new", "everyone still sees it");
    assert_ne!(
        object.flush().unwrap(),
        written_under,
        "the next flush succeeds, under another verifier"
    );
    store.crash();
    assert_eq!(
        bytes(&store),
        b"old",
        "and did not bring it to the disk: the client had to send it again"
    );
}

#[test]
fn a_seed_gives_one_outcome() {
    let outcome = |seed| {
        let store = store(seed);
        let object = flushed(&store, &[0; 4096]);
        for i in 1..20 {
            object
                .write_at(&[i; 700], ObjectOffset(u64::from(i) * 150), SizeGeneration(0))
                .unwrap();
        }
        store.crash();
        (bytes(&store), store.write_verifier())
    };
    assert_eq!(outcome(5), outcome(5));
    assert_ne!(outcome(5), outcome(6));
}

#[test]
fn objects_that_are_flushed_together_are_there_after_every_crash() {
    for (seed, count) in (0..SEEDS).flat_map(|seed| [(seed, 2), (seed, 20)]) {
        let store = store(seed);
        let id = |file| ObjectId { file: FileIndex(file), ..ID };
        let ids: Vec<ObjectId> = (0..count).map(id).collect();
        for id in &ids {
            let new = NewObject {
                id: *id,
                size_generation: SizeGeneration(0),
                uid: 0,
                gid: 0,
                layout: Arc::from([]),
            };
            store
                .create(&new)
                .unwrap()
                .write_at(&[1; 3000], ObjectOffset(0), SizeGeneration(0))
                .unwrap();
        }
        store.flush_objects(&ids).unwrap();
        store.crash();
        assert!(
            ids.iter().all(|id| store.open(*id).unwrap().stat().unwrap().size == 3000),
            "seed {seed}"
        );
    }
}

#[test]
fn a_repeated_truncate_makes_the_name_durable() {
    for seed in 0..SEEDS {
        let store = store(seed);
        let new = NewObject {
            id: ID,
            size_generation: SizeGeneration(0),
            uid: 0,
            gid: 0,
            layout: Arc::from([]),
        };
        let grow = SizeChange::Truncate { length: 100 };
        store.faults().fail_nth(DiskOp::SyncDirectory, 1, Fault::Eio);
        store.change_size(&new, grow, NEW).unwrap_err();
        store.open(ID).unwrap().change_size(grow, NEW).unwrap();
        store.crash();
        assert_eq!(
            store.open(ID).unwrap().stat().unwrap().size,
            100,
            "seed {seed}: recorded as existing by then"
        );
    }
}

#[test]
fn power_loss_alone_never_makes_an_object_look_cut() {
    let mut lost_some = false;
    for seed in 0..4 * SEEDS {
        let store = store(seed);
        let new = NewObject {
            id: ID,
            size_generation: SizeGeneration(0),
            uid: 0,
            gid: 0,
            layout: Arc::from([]),
        };
        let object = store.create(&new).unwrap();
        let (mut end, mut generation, mut flushed) = (0, 0, 0);
        for step in 0..(4 + seed % 9) {
            match (seed + step * 7) % 5 {
                0 | 1 => {
                    object
                        .write_at(&[1; 700], ObjectOffset(end), SizeGeneration(generation))
                        .unwrap();
                    end += 700;
                }
                2 => {
                    object.flush().unwrap();
                    flushed = end;
                }
                3 => {
                    generation += 1;
                    end = end / 2 + 100;
                    object
                        .change_size(
                            SizeChange::Truncate { length: end },
                            SizeGeneration(generation),
                        )
                        .unwrap();
                    flushed = end;
                }
                _ => _ = store.flush_all().unwrap(),
            }
        }
        store.crash();
        // The object may be absent, when it was never flushed.
        let Ok(object) = store.open(ID) else { continue };
        let stat = object.stat().unwrap();
        assert_eq!(stat.lost_from, None, "seed {seed}: {stat:?}");
        assert!(stat.size >= flushed, "seed {seed}");
        lost_some |= stat.size < end;
    }
    assert!(lost_some, "some seed loses what was not flushed");
}
