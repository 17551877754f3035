//! The guarantees of a store while nothing fails.

use crate::conformance::harness::{Harness, bytes, id, new, object};
use braid_store::{LAYOUT_BYTES_MAX, NewObject, SizeChange, StoreError, listing_order};
use braid_types::{IodId, ObjectId, ObjectOffset, SizeGeneration, Status, limits};

const AT: fn(u64) -> ObjectOffset = ObjectOffset;
const GEN: fn(u64) -> SizeGeneration = SizeGeneration;

pub fn an_absent_object_is_an_error_not_zeros(h: &mut Harness) {
    let error = h.store().open(id(1, 0)).unwrap_err();
    assert!(error.is_no_object());
    assert_eq!(error.status(), Status::ObjectLost, "I11");
}

pub fn an_object_is_made_once(h: &mut Harness) {
    let made = h.store().create_if_absent(&new(id(1, 0))).unwrap().expect("it was not there");
    made.write_at(b"first", AT(0), GEN(1)).unwrap();
    assert!(h.store().create_if_absent(&new(id(1, 0))).unwrap().is_none(), "it is there, and open");
    drop(made);
    h.store().flush_all().unwrap();
    h.restart();
    assert!(
        h.store().create_if_absent(&new(id(1, 0))).unwrap().is_none(),
        "it is there, and not open"
    );
    assert_eq!(bytes(&*h.store().open(id(1, 0)).unwrap()), b"first");
}

pub fn what_is_written_is_read_back_with_zeros_between(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"head");
    o.write_at(b"tail", AT(10_000), GEN(1)).unwrap();
    let mut want = b"head".to_vec();
    want.resize(10_000, 0);
    want.extend_from_slice(b"tail");
    assert_eq!(bytes(&*o), want);
    let mut buf = [9; 8];
    assert_eq!(o.read_at(&mut buf, AT(10_002)).unwrap(), 2, "short only at the end");
    assert_eq!(o.read_at(&mut buf, AT(20_000)).unwrap(), 0);
    assert_eq!(o.stat().unwrap().size, 10_004);
}

pub fn a_created_object_keeps_its_first_record(h: &mut Harness) {
    object(h.store(), id(1, 0), b"first");
    let other = NewObject { uid: 99, size_generation: GEN(9), ..new(id(1, 0)) };
    let again = h.store().create(&other).unwrap();
    assert_eq!((again.record().uid, again.record().size_generation), (10, GEN(1)));
    assert_eq!(bytes(&*again), b"first");
}

pub fn a_layout_too_long_for_the_record_is_refused(h: &mut Harness) {
    let with = |bytes| NewObject { layout: vec![7; bytes].into(), ..new(id(bytes as u64, 0)) };
    let longest = h.store().create(&with(LAYOUT_BYTES_MAX)).unwrap();
    assert_eq!(longest.record().layout.len(), LAYOUT_BYTES_MAX);
    let error = h.store().create(&with(LAYOUT_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error.status(), Status::LimitExceeded);
    assert!(h.store().open(id(LAYOUT_BYTES_MAX as u64 + 1, 0)).unwrap_err().is_no_object());
}

pub fn records_and_data_survive_a_restart(h: &mut Harness) {
    let record = object(h.store(), id(0xabc, 3), b"data").record();
    let verifier = h.store().write_verifier();
    h.restart();
    let o = h.store().open(id(0xabc, 3)).unwrap();
    assert_eq!(o.record(), record);
    assert_eq!((record.uid, record.gid, &record.layout[..]), (10, 20, &b"layout"[..]));
    assert_eq!(bytes(&*o), b"data", "I6: acknowledged data survives the death of the process");
    // On other systems each start counts as a boot.
    assert!(
        h.store().write_verifier() == verifier || !h.knows_its_host(),
        "and so the verifier stays"
    );
}

pub fn an_older_size_generation_is_refused(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"12345678");
    o.change_size(SizeChange::Truncate { length: 4 }, GEN(5)).unwrap();
    let late = o.write_at(b"late", AT(4), GEN(4)).unwrap_err();
    let named = matches!(
        late,
        StoreError::StaleGeneration { asked: SizeGeneration(4), current: SizeGeneration(5), .. }
    );
    assert!(named, "{late}");
    assert_eq!(late.status(), Status::StaleGeneration);
    let older = o.change_size(SizeChange::Truncate { length: 0 }, GEN(4)).unwrap_err();
    assert_eq!(older.status(), Status::StaleGeneration);
    assert_eq!(o.allocate(AT(0), 1, GEN(4)).unwrap_err().status(), Status::StaleGeneration);
    o.write_at(b"new!", AT(4), GEN(6)).unwrap();
    assert_eq!(bytes(&*o), b"1234new!");
    drop(o);
    h.restart();
    let o = h.store().open(id(1, 0)).unwrap();
    assert_eq!(o.write_at(b"late", AT(4), GEN(4)).unwrap_err().status(), Status::StaleGeneration);
    assert_eq!(bytes(&*o), b"1234new!");
}

pub fn truncate_cuts_and_grows_with_zeros(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), &[7; 9000]);
    o.change_size(SizeChange::Truncate { length: 5000 }, GEN(2)).unwrap();
    o.change_size(SizeChange::Truncate { length: 9000 }, GEN(3)).unwrap();
    let mut want = vec![7; 5000];
    want.resize(9000, 0);
    assert_eq!(bytes(&*o), want, "truncated bytes do not come back");
    assert_eq!(o.stat().unwrap().size_generation, GEN(3));
    assert_eq!(o.record().pending, None);
}

pub fn a_size_change_done_twice_is_done_once(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"12345678");
    let cut = SizeChange::Truncate { length: 2 };
    o.change_size(cut, GEN(2)).unwrap();
    o.write_at(b"345", AT(2), GEN(2)).unwrap();
    o.change_size(cut, GEN(2)).unwrap();
    assert_eq!(bytes(&*o), b"12345", "the metadata server's second try destroys nothing");
}

pub fn punch_reads_as_zeros_and_keeps_the_size(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), &[7; 100_000]);
    o.change_size(SizeChange::Punch { offset: AT(1000), length: 90_000 }, GEN(2)).unwrap();
    let mut want = vec![7; 100_000];
    want[1000..91_000].fill(0);
    assert_eq!(bytes(&*o), want);
    assert_eq!(o.write_at(b"x", AT(0), GEN(1)).unwrap_err().status(), Status::StaleGeneration);
    o.change_size(SizeChange::Punch { offset: AT(99_999), length: 50_000 }, GEN(3)).unwrap();
    o.change_size(SizeChange::Punch { offset: AT(5), length: 0 }, GEN(4)).unwrap();
    assert_eq!(o.stat().unwrap().size, 100_000, "also when the hole reaches past the end");
}

pub fn a_size_change_of_an_absent_object_refuses_late_writers(h: &mut Harness) {
    let at = NewObject { size_generation: GEN(5), ..new(id(1, 0)) };
    h.store().change_size(&at, SizeChange::Truncate { length: 10 }, GEN(5)).unwrap();
    let o = h.store().create(&new(id(1, 0))).unwrap();
    assert_eq!(o.write_at(b"late", AT(0), GEN(4)).unwrap_err().status(), Status::StaleGeneration);
    assert_eq!(bytes(&*o), [0; 10]);
}

pub fn holes_and_data_are_found(h: &mut Harness) {
    const BLOCK: u64 = 64 * 1024; // larger than any file system's block
    let o = object(h.store(), id(1, 0), &[]);
    o.write_at(&[1; BLOCK as usize], AT(4 * BLOCK), GEN(1)).unwrap();
    o.change_size(SizeChange::Truncate { length: 8 * BLOCK }, GEN(2)).unwrap();
    assert_eq!(o.next_data(AT(9 * BLOCK)).unwrap(), None);
    assert_eq!(o.next_hole(AT(8 * BLOCK)).unwrap(), None);
    assert_eq!(o.next_hole(AT(u64::MAX)).unwrap(), None);
    if !h.knows_its_host() {
        return assert_eq!(o.next_data(AT(0)).unwrap(), Some(AT(0)), "all counts as data");
    }
    assert_eq!(o.next_data(AT(0)).unwrap(), Some(AT(4 * BLOCK)));
    assert_eq!(o.next_data(AT(4 * BLOCK + 5)).unwrap(), Some(AT(4 * BLOCK + 5)));
    assert_eq!(o.next_hole(AT(0)).unwrap(), Some(AT(0)));
    assert_eq!(o.next_hole(AT(4 * BLOCK)).unwrap(), Some(AT(5 * BLOCK)));
    assert_eq!(o.next_data(AT(5 * BLOCK)).unwrap(), None);
}

pub fn allocate_grows_and_reads_as_zeros(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"data");
    match o.allocate(AT(0), 50_000, GEN(1)) {
        Ok(()) => {
            let stat = o.stat().unwrap();
            assert_eq!(stat.size, 50_000);
            assert!(stat.allocated_bytes >= 50_000);
            assert_eq!(&bytes(&*o)[..6], b"data\0\0");
        }
        Err(error) => assert_eq!(error.status(), Status::Unsupported, "{error}"),
    }
    o.allocate(AT(7), 0, GEN(1)).unwrap();
}

pub fn offsets_past_the_largest_file_are_refused(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"data");
    for offset in [limits::FILE_BYTES_MAX, u64::MAX - 1, u64::MAX] {
        assert_eq!(o.write_at(b"xx", AT(offset), GEN(1)).unwrap_err().status(), Status::TooLarge);
        assert_eq!(o.allocate(AT(offset), 2, GEN(1)).unwrap_err().status(), Status::TooLarge);
        let punch = SizeChange::Punch { offset: AT(offset), length: 2 };
        assert_eq!(o.change_size(punch, GEN(2)).unwrap_err().status(), Status::TooLarge);
        assert_eq!(o.read_at(&mut [0; 4], AT(offset)).unwrap(), 0);
    }
    let grow = SizeChange::Truncate { length: limits::FILE_BYTES_MAX + 1 };
    assert_eq!(o.change_size(grow, GEN(2)).unwrap_err().status(), Status::TooLarge);
    assert_eq!((bytes(&*o).as_slice(), o.record().size_generation), (&b"data"[..], GEN(1)));
}

pub fn delete_is_idempotent(h: &mut Harness) {
    drop(object(h.store(), id(1, 0), b"old"));
    assert!(h.store().delete(id(1, 0)).unwrap());
    assert!(!h.store().delete(id(1, 0)).unwrap());
    assert!(h.store().open(id(1, 0)).unwrap_err().is_no_object());
    assert_eq!(bytes(&*object(h.store(), id(1, 0), b"n")), b"n", "a new one begins empty");
}

pub fn listing_resumes_at_every_page_size(h: &mut Harness) {
    let files = [1, 2, 1025, 1026, 2049, 0xffff_0000_0000_0001u64];
    let mut want: Vec<ObjectId> =
        files.iter().flat_map(|file| (0..3).map(|part| id(*file, part))).collect();
    for id in &want {
        h.store().create(&new(*id)).unwrap();
    }
    want.sort_by_key(|id| listing_order(*id));
    for limit in [0, 1, 2, 3, 17, 18, 19, 1000] {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = h.store().list(cursor, limit).unwrap();
            assert!(page.objects.len() <= limit.max(1));
            assert!(page.foreign_files.is_empty());
            found.extend(page.objects);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, want, "in pages of {limit}");
    }
}

pub fn lost_and_found_keeps_the_object_out_of_the_way(h: &mut Harness) {
    drop(object(h.store(), id(1, 0), b"lost"));
    let first = h.store().move_to_lost_and_found(id(1, 0)).unwrap();
    assert!(h.store().open(id(1, 0)).unwrap_err().is_no_object());
    assert!(h.store().move_to_lost_and_found(id(1, 0)).unwrap_err().is_no_object());
    drop(object(h.store(), id(1, 0), b"again"));
    let second = h.store().move_to_lost_and_found(id(1, 0)).unwrap();
    assert_ne!(first, second, "nothing is overwritten");
    assert_eq!(h.store().list(None, 10).unwrap().objects, []);
}

pub fn the_daemon_is_named_once(h: &mut Harness) {
    assert_eq!(h.store().identity().iod, None);
    h.store().assign_iod(IodId(3)).unwrap();
    h.store().assign_iod(IodId(3)).unwrap();
    h.restart();
    assert_eq!(h.store().identity().iod, Some(IodId(3)));
    let error = h.store().assign_iod(IodId(4)).unwrap_err();
    assert!(matches!(error, StoreError::ForeignIod { found: 3, wanted: 4, .. }));
    assert_eq!(error.status(), Status::NotServing);
}

pub fn space_is_counted_by_device(h: &mut Harness) {
    let (a, b) = (h.store().space().unwrap(), h.store().space().unwrap());
    assert_eq!(a.device, b.device);
    assert!(a.available_bytes <= a.free_bytes && a.free_bytes <= a.total_bytes);
}

pub fn a_flush_of_what_is_durable_costs_no_disk(h: &mut Harness) {
    let o = object(h.store(), id(1, 0), b"data");
    o.flush().unwrap();
    let spent = h.faults().operations();
    o.flush().unwrap();
    h.store().flush_objects(&[id(1, 0)]).unwrap();
    assert_eq!(h.faults().operations(), spent, "flushed already");
    h.store().flush_objects(&[id(2, 0)]).unwrap(); // absent: skipped
    o.write_at(b"more", AT(4), GEN(1)).unwrap();
    let written = h.faults().operations();
    h.store().flush_objects(&[id(1, 0)]).unwrap();
    assert!(h.faults().operations() > written);
}

pub fn many_objects_are_flushed_with_one_sync(h: &mut Harness) {
    let ids: Vec<_> = (0..100).map(|file| id(file, 0)).collect();
    let objects: Vec<_> = ids.iter().map(|id| object(h.store(), *id, b"data")).collect();
    let spent = h.faults().operations();
    h.store().flush_objects(&ids).unwrap();
    let one = h.faults().operations() - spent == 1;
    assert!(one || !h.knows_its_host(), "elsewhere the file system cannot be synced as a whole");
    let spent = h.faults().operations();
    for object in objects {
        object.flush().unwrap();
    }
    assert_eq!(h.faults().operations(), spent, "data and names of all were covered");
}

pub fn names_that_are_durable_cost_no_disk(h: &mut Harness) {
    let one = object(h.store(), id(1, 0), b"data");
    let spent = |h: &mut Harness, ids: &[ObjectId]| {
        let before = h.faults().operations();
        h.store().flush_names(ids).unwrap();
        h.faults().operations() - before
    };
    assert_eq!([spent(h, &[id(1, 0)]), spent(h, &[id(1, 0)])], [1, 0]);
    drop(one);
    assert!(h.store().delete(id(1, 0)).unwrap());
    let one_directory = [id(1, 0), id(1025, 0)];
    assert_eq!([spent(h, &one_directory), spent(h, &one_directory)], [1, 0]);
    let many: Vec<_> = (0..100).map(|file| id(file, 0)).collect();
    many.iter().for_each(|id| drop(object(h.store(), *id, b"data")));
    h.store().flush_objects(&many).unwrap();
    assert!(many.iter().all(|id| h.store().delete(*id).unwrap()));
    let all = spent(h, &many);
    assert!(all == 1 || !h.knows_its_host(), "{all} syncs");
    assert_eq!(spent(h, &many), 0);
}

pub fn a_copy_of_an_object_is_what_a_write_would_be(h: &mut Harness) {
    let (source, target) =
        (object(h.store(), id(1, 0), &[7; 20_000]), object(h.store(), id(2, 0), b"head"));
    match target.copy_from(&*source, AT(5), AT(10_000), 9_000, GEN(1)).unwrap() {
        Some(copied) => {
            assert!(copied > 0 && copied <= 9_000);
            let mut want = b"head".to_vec();
            want.resize(10_000, 0);
            want.resize(10_000 + copied as usize, 7);
            assert_eq!(bytes(&*target), want);
            assert!(target.stat().unwrap().mtime >= source.stat().unwrap().mtime);
        }
        None => assert_eq!(bytes(&*target), b"head", "nothing was done"),
    }
    let cut = SizeChange::Truncate { length: 4 };
    target.change_size(cut, GEN(2)).unwrap();
    let late = target.copy_from(&*source, AT(0), AT(0), 100, GEN(1));
    assert!(
        late.as_ref().is_ok_and(Option::is_none)
            || late.unwrap_err().status() == Status::StaleGeneration
    );
    assert_eq!(bytes(&*target), b"head", "I5: an older generation writes nothing");
}

/// Truncates an object's file without the daemon, while it is down.
fn cut(h: &mut Harness, id: ObjectId, bytes: u64) {
    h.restart();
    h.cut_by_hand(id, bytes);
    h.restart();
}

pub fn a_flushed_object_that_is_cut_by_hand_has_lost_its_end(h: &mut Harness) {
    object(h.store(), id(1, 0), &[7; 9000]).flush().unwrap();
    cut(h, id(1, 0), 5000);
    let o = h.store().open(id(1, 0)).unwrap();
    let stat = o.stat().unwrap();
    assert_eq!((stat.size, stat.lost_from), (9000, Some(5000)));
    let mut buf = [0; 9000];
    assert_eq!(o.read_at(&mut buf, AT(0)).unwrap(), 5000, "what is left is read");
    // Nothing makes the loss look like zeros.
    assert_eq!(o.write_at(b"end", AT(9000), GEN(1)).unwrap_err().status(), Status::ObjectLost);
    assert_eq!(o.write_at(b"hole", AT(6000), GEN(1)).unwrap_err().status(), Status::ObjectLost);
    let allocated = o.allocate(AT(0), 20_000, GEN(1)).unwrap_err().status();
    assert!([Status::ObjectLost, Status::Unsupported].contains(&allocated));
    o.change_size(SizeChange::Truncate { length: 20_000 }, GEN(2)).unwrap();
    assert_eq!(o.stat().unwrap().lost_from, Some(5000));
    assert_eq!(o.next_data(AT(6000)).unwrap(), Some(AT(6000)), "it is not skipped as a hole");
    o.change_size(SizeChange::Truncate { length: 8000 }, GEN(3)).unwrap();
    assert_eq!((o.stat().unwrap().size, o.stat().unwrap().lost_from), (8000, Some(5000)));
    // Bytes that are written again are there again.
    o.write_at(&[8; 3000], AT(5000), GEN(3)).unwrap();
    assert_eq!((o.stat().unwrap().size, o.stat().unwrap().lost_from), (8000, None));
    o.write_at(&[9; 10], AT(9000), GEN(3)).unwrap();
    assert_eq!(o.stat().unwrap().size, 9010);
}

pub fn only_what_was_flushed_is_missed(h: &mut Harness) {
    // Written and never flushed.
    drop(object(h.store(), id(1, 0), &[7; 9000]));
    cut(h, id(1, 0), 5000);
    assert_eq!(h.store().open(id(1, 0)).unwrap().stat().unwrap().lost_from, None);
    // Flushed, then truncated by the metadata server; one of the two changes was done before the
    // flush.
    let o = object(h.store(), id(2, 0), &[7; 9000]);
    o.flush().unwrap();
    o.change_size(SizeChange::Truncate { length: 100 }, GEN(2)).unwrap();
    drop(o);
    h.restart();
    let stat = h.store().open(id(2, 0)).unwrap().stat().unwrap();
    assert_eq!((stat.size, stat.lost_from), (100, None));
    // A hole at the end counts like a hole in the middle.
    let o = object(h.store(), id(3, 0), b"x");
    o.change_size(SizeChange::Truncate { length: 1 << 20 }, GEN(2)).unwrap();
    drop(o);
    cut(h, id(3, 0), 4096);
    assert_eq!(h.store().open(id(3, 0)).unwrap().stat().unwrap().lost_from, Some(4096));
    // Many that are flushed together, as the metadata server does with closed files.
    let many: Vec<_> = (10..60).map(|file| id(file, 0)).collect();
    let seen: Vec<_> =
        many.iter().map(|id| (*id, object(h.store(), *id, &[1; 300]).stat().unwrap())).collect();
    h.store().flush_objects(&many).unwrap();
    h.store().remember_lengths(&seen);
    h.restart();
    many.iter().for_each(|id| h.cut_by_hand(*id, 0));
    h.restart();
    for file in many {
        assert_eq!(h.store().open(file).unwrap().stat().unwrap().lost_from, Some(0), "{file}");
    }
}
