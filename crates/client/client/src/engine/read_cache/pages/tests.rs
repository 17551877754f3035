//! Pages against a plain model: what is found is what was inserted, in bounded memory.

use proptest::prelude::*;

use super::*;
use crate::lease::LeaseOf;

const FILE: FileIndex = FileIndex(7);
const MIB: u64 = 1 << 20;

fn ticket(file: FileIndex, since: u64) -> LeaseTicket {
    LeaseTicket::for_tests(LeaseOf::Data(file), since)
}

fn content(offset: u64, bytes: usize) -> Vec<u8> {
    content_of(0, offset, bytes)
}

/// What a file has after a number of changes.
fn content_of(version: u64, offset: u64, bytes: usize) -> Vec<u8> {
    (offset..offset + bytes as u64).map(|at| (version * 31 + at / 255 + at % 255) as u8).collect()
}

/// Reads as a file does, whose length is `file_bytes`. Returns the bytes, and whether the table had
/// them.
fn read(
    table: &mut PageTable,
    file: FileIndex,
    since: u64,
    wanted: (u64, usize),
    file_bytes: u64,
) -> (Vec<u8>, bool) {
    read_version(table, file, (since, 0), wanted, file_bytes)
}

/// The same of a file that was changed `version` times.
fn read_version(
    table: &mut PageTable,
    file: FileIndex,
    (since, version): (u64, u64),
    (offset, bytes): (u64, usize),
    file_bytes: u64,
) -> (Vec<u8>, bool) {
    let mut first = vec![0xee; bytes / 3];
    let mut second = vec![0xee; bytes - bytes / 3];
    let buffers = &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    let up_to = |offset: u64, bytes: usize| {
        let left = file_bytes.saturating_sub(offset);
        content_of(version, offset, (bytes as u64).min(left) as usize)
    };
    match table.look_up(file, ticket(file, since), offset, buffers) {
        Found::Bytes(found) => {
            first.extend(second);
            first.truncate(found);
            (first, true)
        }
        Found::Missing(range) => {
            let data = up_to(range.offset, range.bytes);
            table.insert(file, ticket(file, since), range, &data);
            (up_to(offset, bytes), false)
        }
        Found::Bypass => (up_to(offset, bytes), false),
    }
}

#[test]
fn a_second_read_of_a_page_is_found_and_the_end_of_the_file_too() {
    for file_bytes in [10, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1, 3 * PAGE_BYTES] {
        let mut table = PageTable::new(4 * MIB);
        table.opened(FILE, false);
        for offset in [0, file_bytes - 1, file_bytes, file_bytes + 5] {
            let wanted = (offset, 100);
            let expected = content(offset, 100.min(file_bytes.saturating_sub(offset) as usize));
            read(&mut table, FILE, 1, wanted, file_bytes);
            let again = read(&mut table, FILE, 1, wanted, file_bytes);
            assert_eq!(again, (expected, true), "{offset} of {file_bytes}");
        }
    }
}

#[test]
fn a_file_read_in_order_is_read_ahead_and_a_random_one_is_not() {
    let mut table = PageTable::new(64 * MIB);
    table.opened(FILE, false);
    let file_bytes = 8 * MIB;
    let calls = (0..file_bytes / 4096)
        .filter(|at| !read(&mut table, FILE, 1, (at * 4096, 4096), file_bytes).1)
        .count();
    assert!(calls <= 12, "{calls} calls for 128 pages");
    let mut table = PageTable::new(4 * MIB);
    table.opened(FILE, false);
    let mut bypassed = 0;
    for at in 0..2000_u64 {
        let offset = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 40) / 4096 * 4096;
        let mut bytes = [0; 4096];
        let buffers = &mut [IoSliceMut::new(&mut bytes)];
        bypassed +=
            usize::from(table.look_up(FILE, ticket(FILE, 1), offset, buffers) == Found::Bypass);
    }
    assert!(bypassed > 1500, "{bypassed} of 2000 reads moved their own bytes only");
}

#[test]
fn pages_of_another_ticket_or_of_before_a_change_are_not_found() {
    let mut table = PageTable::new(4 * MIB);
    table.opened(FILE, false);
    read(&mut table, FILE, 1, (0, 10), MIB);
    assert!(read(&mut table, FILE, 1, (0, 10), MIB).1);
    assert!(!read(&mut table, FILE, 2, (0, 10), MIB).1, "the lease was recalled meanwhile");
    table.changed(FILE);
    assert_eq!(table.bytes(), 0);
    assert!(!read(&mut table, FILE, 2, (0, 10), MIB).1);
    // A change while a page is being read.
    let mut bytes = [0; 10];
    let buffers = &mut [IoSliceMut::new(&mut bytes)];
    let Found::Missing(range) = table.look_up(FILE, ticket(FILE, 2), MIB / 2, buffers) else {
        panic!("it was never read")
    };
    table.changed(FileIndex(99));
    table.insert(FILE, ticket(FILE, 2), range, &content(range.offset, range.bytes));
    assert!(!read(&mut table, FILE, 2, (MIB / 2, 10), MIB).1);
}

#[test]
fn a_file_that_is_open_for_writing_too_is_not_cached() {
    let mut table = PageTable::new(4 * MIB);
    table.opened(FILE, false);
    read(&mut table, FILE, 1, (0, 10), MIB);
    table.opened(FILE, true);
    assert_eq!(table.bytes(), 0);
    for _ in 0..2 {
        assert!(!read(&mut table, FILE, 1, (0, 10), MIB).1);
    }
    assert!(!table.closed(FILE, true), "the reader is left");
    read(&mut table, FILE, 1, (0, 10), MIB);
    assert!(read(&mut table, FILE, 1, (0, 10), MIB).1);
    assert!(table.closed(FILE, false));
    assert_eq!(table.bytes(), 0);
}

#[test]
fn one_file_never_takes_more_than_half_and_used_pages_stay_longest() {
    let mut table = PageTable::new(2 * MIB);
    let other = FileIndex(8);
    table.opened(FILE, false);
    table.opened(other, false);
    for _ in 0..2 {
        read(&mut table, other, 1, (0, 10), MIB);
    }
    for page in 0..64 {
        read(&mut table, FILE, 1, (page * PAGE_BYTES, 10), 64 * PAGE_BYTES);
        assert!(table.bytes() <= MIB + PAGE_BYTES + 2 * PAGE_OVERHEAD_BYTES, "{}", table.bytes());
    }
    assert!(read(&mut table, other, 1, (0, 10), MIB).1, "the other file keeps its page");
}

proptest! {
    #[test]
    fn what_is_found_is_what_the_file_has(
        steps in prop::collection::vec(
            (0..3_u64, 0..40 * PAGE_BYTES, 1..PAGE_BYTES as usize, 0..12_u8), 1..80
        ),
    ) {
        let mut table = PageTable::new(MIB);
        let files = [FileIndex(1), FileIndex(2), FileIndex(3)];
        files.iter().for_each(|file| table.opened(*file, false));
        // The bytes change with each change of our own, and of others after a recall.
        let (mut since, mut versions) = ([1; 3], [0; 3]);
        for (which, offset, bytes, step) in steps {
            let (file, file_bytes) = (files[which as usize], (which + 1) * 9 * PAGE_BYTES + which);
            match step {
                0 => {
                    versions[which as usize] += 1;
                    table.changed(file);
                }
                1 => {
                    versions[which as usize] += 1;
                    since[which as usize] += 1;
                }
                2 => table.clear(),
                _ => {
                    let (at, wanted) = (which as usize, (offset, bytes));
                    let state = (since[at], versions[at]);
                    let (found, _) =
                        read_version(&mut table, file, state, wanted, file_bytes);
                    let left = file_bytes.saturating_sub(offset).min(bytes as u64);
                    prop_assert_eq!(found, content_of(versions[at], offset, left as usize));
                }
            }
            prop_assert!(table.bytes() <= MIB);
        }
    }
}
