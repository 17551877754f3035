//! Copying ranges from file to file on an in-memory cluster.

use crate::fake::{Fake, Fault};
use braid_client::{OpenOptions, Status, asynchronous::Client, asynchronous::File};
use braid_net::block_on;
use braid_types::IodId;
use braid_wire::{Call, message::iod};
use proptest::prelude::*;

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 256) as u8 | 1).collect()
}

fn open(client: &Client<Fake>, path: &str) -> File<Fake> {
    block_on(client.open(path, &OpenOptions::new().read(true).write(true).create(true))).unwrap()
}

fn two(fake: &Fake) -> (File<Fake>, File<Fake>) {
    let client = fake.client();
    (open(&client, "/source"), open(&client, "/target"))
}

fn all(file: &File<Fake>) -> Vec<u8> {
    let mut buffer = vec![0xee; 100_000];
    let bytes = block_on(file.read_at(&mut buffer, 0)).unwrap();
    buffer.truncate(bytes);
    buffer
}

/// The requests of a kind at the daemons, and their payload in both directions.
fn counted(fake: &Fake, op: u16) -> (usize, u64) {
    let cluster = fake.cluster();
    let of_op = cluster.exchanges.iter().filter(|(_, of, _)| *of == op);
    of_op.fold((0, 0), |(count, bytes), (_, _, payload)| (count + 1, bytes + payload))
}

#[test]
fn a_range_with_identical_placement_is_copied_by_the_daemons() {
    let fake = Fake::striped();
    let (source, target) = two(&fake);
    let data = pattern(50_000);
    block_on(source.write_at(&data, 0)).unwrap();
    fake.cluster().exchanges.clear();
    assert_eq!(
        block_on(target.copy_range_from(&source, 100, 3 * 4096 + 100, 40_000)).unwrap(),
        40_000
    );
    assert_eq!(counted(&fake, iod::CopyRange::OP), (3, 0));
    assert_eq!((counted(&fake, iod::Read::OP).0, counted(&fake, iod::Write::OP).0), (0, 0));
    let mut want = vec![0; 3 * 4096 + 100];
    want.extend_from_slice(&data[100..40_100]);
    assert_eq!(all(&target), want);
    fake.cluster().exchanges.clear();
    assert_eq!(block_on(target.copy_range_from(&source, 0, 0, 10)).unwrap(), 10);
    assert_eq!(
        counted(&fake, iod::CopyRange::OP),
        (1, 0),
        "only the daemon that has the bytes is asked"
    );
}

#[test]
fn a_range_that_does_not_lie_alike_is_read_and_written() {
    let fake = Fake::striped();
    let (source, target) = two(&fake);
    let data = pattern(20_000);
    block_on(source.write_at(&data, 0)).unwrap();
    assert_eq!(
        block_on(target.copy_range_from(&source, 0, 5, u64::MAX >> 2)).unwrap(),
        20_000,
        "to its end"
    );
    assert_eq!(counted(&fake, iod::CopyRange::OP).0, 0);
    assert_eq!(all(&target)[5..], data);
    assert_eq!(block_on(target.copy_range_from(&source, 20_000, 0, 10)).unwrap(), 0, "at the end");
}

#[test]
fn a_copy_that_the_daemons_refuse_is_done_over_the_client() {
    let fake = Fake::striped();
    let (source, target) = two(&fake);
    let data = pattern(20_000);
    block_on(source.write_at(&data, 0)).unwrap();
    fake.fault(iod::CopyRange::OP, Fault::Refused(Status::Invalid));
    assert_eq!(block_on(target.copy_range_from(&source, 0, 0, 20_000)).unwrap(), 20_000);
    assert_eq!(all(&target), data);
    assert!(counted(&fake, iod::Write::OP).1 >= 20_000);
}

#[test]
fn ranges_of_one_file_that_overlap_and_handles_that_may_not_are_refused() {
    let fake = Fake::striped();
    let (source, target) = two(&fake);
    block_on(source.write_at(&pattern(100), 0)).unwrap();
    let status = |outcome: braid_client::Result<u64>| outcome.unwrap_err().status();
    assert_eq!(status(block_on(source.copy_range_from(&source, 0, 50, 51))), Status::Invalid);
    assert_eq!(block_on(source.copy_range_from(&source, 0, 50, 50)).unwrap(), 50);
    assert_eq!(
        block_on(source.copy_range_from(&source, 90, 100, 1000)).unwrap(),
        10,
        "to where it ends"
    );
    assert_eq!(
        status(block_on(target.copy_range_from(&source, 0, u64::MAX - 5, 10))),
        Status::TooLarge
    );
    let reader = block_on(fake.client().open("/source", &OpenOptions::new().read(true))).unwrap();
    assert_eq!(status(block_on(reader.copy_range_from(&source, 0, 0, 10))), Status::NotPermitted);
}

#[test]
fn an_unresponsive_daemon_fails_the_copy_with_its_name() {
    let fake = Fake::striped();
    let (source, target) = two(&fake);
    block_on(source.write_at(&pattern(20_000), 0)).unwrap();
    fake.cluster().down.insert(IodId(2));
    let error = block_on(target.copy_range_from(&source, 4096, 4096, 100)).unwrap_err();
    assert!(error.to_string().contains("daemon 2"), "{error}");
}

proptest! {
    #[test]
    fn a_copy_equals_a_read_followed_by_a_write(
        length in 0..30_000_usize,
        from in 0..30_000_u64,
        to in prop_oneof![0..30_000_u64, (0..3_u64).prop_map(|cycles| cycles * 12_288)],
        aligned in any::<bool>(),
        bytes in 0..40_000_u64,
    ) {
        let fake = Fake::striped();
        let (source, target) = two(&fake);
        let (data, before) = (pattern(length), vec![0xaa; 10_000]);
        block_on(source.write_at(&data, 0)).unwrap();
        block_on(target.write_at(&before, 0)).unwrap();
        let to = if aligned { from + to / 12_288 * 12_288 } else { to };
        let want_bytes = (length as u64).saturating_sub(from).min(bytes);
        let copied = block_on(target.copy_range_from(&source, from, to, bytes)).unwrap();
        prop_assert_eq!(copied, want_bytes);
        let mut want = before;
        if want_bytes > 0 {
            let (start, end) = (to as usize, (to + want_bytes) as usize);
            want.resize(want.len().max(end), 0);
            want[start..end].copy_from_slice(&data[from as usize..(from + want_bytes) as usize]);
        }
        prop_assert_eq!(all(&target), want);
    }
}
