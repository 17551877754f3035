//! Reads and writes on an in-memory cluster, compared with a model in one vector of bytes.

use std::io::{IoSlice, IoSliceMut};

use crate::fake::{Fake, Fault};
use braid_client::{Distribution, Extent, Layout, OpenOptions, Status, View, asynchronous::File};
use braid_net::block_on;
use braid_types::{IodId, limits::WINDOW_BYTES};
use braid_wire::{
    Call,
    message::{iod, mds},
};
use proptest::prelude::*;

fn open(fake: &Fake) -> File<Fake> {
    let options = OpenOptions::new().read(true).write(true).create(true);
    block_on(fake.client().open("/f", &options)).unwrap()
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 256) as u8 | 1).collect()
}

fn read(file: &File<Fake>, position: u64, bytes_max: usize) -> Vec<u8> {
    // Filled, so that a byte that was not written is noticed.
    let mut buffer = vec![0xee; bytes_max];
    let bytes = block_on(file.read_at(&mut buffer, position)).unwrap();
    buffer.truncate(bytes);
    buffer
}

/// As [`read`], and into a vector of the library, which must be the same.
fn read_both(file: &File<Fake>, position: u64, bytes_max: usize) -> Vec<u8> {
    let bytes = read(file, position, bytes_max);
    assert_eq!(block_on(file.read_to_vec(position, bytes_max)).unwrap(), bytes);
    bytes
}

#[test]
fn written_bytes_are_read_back_at_any_position() {
    let fake = Fake::striped();
    let (file, data) = (open(&fake), pattern(50_000));
    assert_eq!(block_on(file.write_at(&data, 0)).unwrap(), data.len());
    for (position, bytes_max) in [
        (0, 50_000),
        (1, 4095),
        (4096, 4096),
        (4095, 2),
        (49_999, 10),
        (50_000, 5),
        (12_345, 30_000),
    ] {
        let end = data.len().min(position + bytes_max);
        assert_eq!(
            read_both(&file, position as u64, bytes_max),
            data[position..end],
            "{bytes_max} bytes from {position}"
        );
    }
}

#[test]
fn a_hole_reads_as_zeros_and_the_end_is_where_the_farthest_object_ends() {
    for pad in [false, true] {
        let fake = Fake::striped();
        fake.cluster().pad_reads = pad;
        let file = open(&fake);
        // One byte in the fifth strip: only daemon 2 has an object.
        block_on(file.write_at(&[9], 4 * 4096)).unwrap();
        let mut expected = vec![0; 4 * 4096];
        expected.push(9);
        assert_eq!(read_both(&file, 0, 100_000), expected, "pad {pad}");
        assert_eq!(read_both(&file, 100, 50), [0; 50], "daemon 1's strip: it has no object");
        assert_eq!(read_both(&file, 4 * 4096 - 9, 100), expected[4 * 4096 - 9..]);
        assert_eq!(read_both(&file, 4 * 4096, 100), [9], "the end within a strip");
        assert_eq!(read_both(&file, 4 * 4096 + 1, 10), [], "at the end");
        assert_eq!(read_both(&file, 1 << 40, 10), [], "far past the end");
        assert_eq!(block_on(file.size()).unwrap(), 4 * 4096 + 1);
    }
}

#[test]
fn a_read_inside_the_file_asks_one_daemon_once() {
    let fake = Fake::striped();
    let file = open(&fake);
    block_on(file.write_at(&pattern(50_000), 0)).unwrap();
    fake.cluster().exchanges.clear();
    fake.cluster().mds_calls.clear();
    assert_eq!(read(&file, 4096 + 10, 100).len(), 100);
    assert_eq!(fake.cluster().exchanges, [(IodId(2), iod::Read::OP, 100)]);
    fake.cluster().exchanges.clear();
    assert_eq!(block_on(file.read_to_vec(4096 + 10, 100)).unwrap().len(), 100);
    assert_eq!(fake.cluster().exchanges, [(IodId(2), iod::Read::OP, 100)]);
    assert_eq!(fake.cluster().mds_calls, [0u16; 0], "I1");
}

#[test]
fn a_read_at_the_end_asks_the_other_daemons_and_never_the_metadata_server() {
    let fake = Fake::striped();
    let file = open(&fake);
    block_on(file.write_at(&pattern(100), 0)).unwrap();
    fake.cluster().exchanges.clear();
    fake.cluster().mds_calls.clear();
    assert_eq!(read(&file, 50, 100).len(), 50);
    let cluster = fake.cluster();
    let asked: Vec<_> = cluster.exchanges.iter().map(|(iod, op, _)| (iod.0, *op)).collect();
    assert_eq!(asked, [(1, iod::Read::OP), (2, iod::ObjectSizes::OP), (3, iod::ObjectSizes::OP)]);
    assert!(cluster.mds_calls.is_empty(), "I1");
}

#[test]
fn a_strided_read_of_64_mib_sends_each_daemon_its_windows_and_no_more() {
    let layout =
        Layout::one(Distribution::SimpleStripe { stripe_size: 65_536 }, (1..=4).map(IodId));
    let fake = Fake::new(layout);
    // Shifted by 20 KiB in every 1 MiB, so that all four daemons have groups.
    let view = View::vector(0, 16, 4096, 65_536, (1 << 20) + 5 * 4096);
    let (file, wanted) = (open(&fake).with_view(view).unwrap(), 64usize << 20);
    assert_eq!(block_on(file.write_at(&pattern(wanted), 0)).unwrap(), wanted);
    fake.cluster().exchanges.clear();
    let mut buffer = vec![0; wanted];
    assert_eq!(block_on(file.read_at(&mut buffer, 0)).unwrap(), wanted);
    assert!(buffer == pattern(wanted));
    let cluster = fake.cluster();
    for iod in (1..=4).map(IodId) {
        let payload: u64 =
            cluster.exchanges.iter().filter(|(to, ..)| *to == iod).map(|(.., bytes)| bytes).sum();
        assert!(payload > 0);
        assert_eq!(
            cluster.requests_to(iod, iod::Read::OP) as u64,
            payload.div_ceil(WINDOW_BYTES),
            "I2, daemon {iod}"
        );
    }
}

#[test]
fn a_huge_call_goes_in_rounds_of_bounded_memory() {
    let layout =
        Layout::one(Distribution::SimpleStripe { stripe_size: 1 << 20 }, (1..=2).map(IodId));
    let fake = Fake::new(layout);
    let (file, bytes) = (open(&fake), 160usize << 20);
    block_on(file.write_at(&vec![3; bytes], 0)).unwrap();
    fake.cluster().exchanges.clear();
    let mut buffer = vec![0; bytes];
    assert_eq!(block_on(file.read_at(&mut buffer, 0)).unwrap(), bytes);
    assert!(buffer.iter().all(|byte| *byte == 3));
    let cluster = fake.cluster();
    assert_eq!(cluster.largest_round, braid_client::plan::ROUND_BYTES_MAX);
    assert_eq!(
        cluster.requests_to(IodId(1), iod::Read::OP) as u64,
        (bytes as u64 / 2).div_ceil(WINDOW_BYTES),
        "I2"
    );
}

#[test]
fn a_read_of_several_rounds_has_no_gap_when_the_file_grows() {
    // The 16 windows of a round cannot be divided evenly by three daemons: one has one more window
    // in the first round.
    let layout =
        Layout::one(Distribution::SimpleStripe { stripe_size: 1 << 20 }, (1..=3).map(IodId));
    for reads in [1, 9, 16, 17, 18] {
        let fake = Fake::new(layout.clone());
        let file = open(&fake);
        let bytes = 66usize << 20;
        block_on(file.write_at(&vec![1; bytes], 0)).unwrap();
        fake.cluster().grows_after = Some((reads, 24 << 20));
        let got = read(&file, 0, 96 << 20);
        assert!(
            got.len() >= bytes && got.iter().all(|byte| *byte == 1),
            "grown after {reads} reads: {}",
            got.len()
        );
    }
}

#[test]
fn a_window_of_very_many_pieces_goes_through_a_bounce_buffer() {
    let layout = Layout::one(Distribution::SimpleStripe { stripe_size: 4096 }, (1..=2).map(IodId));
    let fake = Fake::new(layout);
    // One byte of every strip: the daemon changes with every byte.
    let file = open(&fake).with_view(View::strided(0, 1, 4096)).unwrap();
    let data = pattern(3 * braid_client::plan::PIECES_MAX);
    block_on(file.write_at(&data, 0)).unwrap();
    fake.cluster().exchanges.clear();
    fake.fault(iod::Read::OP, Fault::ReplyLost);
    assert!(read(&file, 0, data.len() + 10) == data);
    assert_eq!(fake.cluster().requests_to(IodId(1), iod::Read::OP), 2, "one, and its repetition");
}

#[test]
fn vectored_buffers_and_extent_lists_meet_in_the_middle() {
    let fake = Fake::striped();
    let file = open(&fake);
    let (a, b) = (pattern(5000), pattern(3000));
    let list = [Extent { offset: 10, bytes: 4090 }, Extent { offset: 9000, bytes: 3910 }];
    let written =
        block_on(file.write_list(&list, &[IoSlice::new(&a), IoSlice::new(&[]), IoSlice::new(&b)]))
            .unwrap();
    assert_eq!(written, 8000);
    let flat = [a, b].concat();
    assert_eq!(read(&file, 10, 4090), flat[..4090]);
    assert_eq!(read(&file, 9000, 4000), flat[4090..]);
    let (mut x, mut y) = (vec![0; 7000], vec![0; 1500]);
    let got =
        block_on(file.read_list(&list, &mut [IoSliceMut::new(&mut x), IoSliceMut::new(&mut y)]))
            .unwrap();
    assert_eq!(([x, y].concat()[..8000].to_vec(), got), (flat, 8000));
}

#[test]
fn past_the_largest_file_writes_are_refused_and_reads_are_empty() {
    let fake = Fake::striped();
    let file = open(&fake);
    let error = block_on(file.write_at(&[1, 2], i64::MAX as u64 - 1)).unwrap_err();
    assert_eq!(error.status(), Status::TooLarge);
    assert_eq!(read_both(&file, u64::MAX, 3), []);
    assert_eq!(read_both(&file, i64::MAX as u64 - 1, 3), []);
    let list = [Extent { offset: i64::MAX as u64 - 1, bytes: 2 }, Extent { offset: 8, bytes: 1 }];
    let error = block_on(file.write_list(&list, &[IoSlice::new(&[1; 3])])).unwrap_err();
    assert_eq!(error.status(), Status::TooLarge);
    assert!(
        fake.cluster().exchanges.iter().all(|(_, op, _)| *op != iod::Write::OP),
        "nothing of it was written"
    );
    assert_eq!(block_on(file.read_list(&list, &mut [IoSliceMut::new(&mut [0; 3])])).unwrap(), 0);
}

#[test]
fn missing_rights_are_refused_before_anything_is_sent() {
    let fake = Fake::striped();
    drop(open(&fake));
    let file = block_on(fake.client().open("/f", &OpenOptions::new().read(true))).unwrap();
    let error = block_on(file.write_at(b"x", 0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "write /f: the file is not open for writing; try: OpenOptions::write(true)"
    );
    assert!(fake.cluster().exchanges.is_empty());
    let error = block_on(fake.client().open("/f", &OpenOptions::new())).unwrap_err();
    assert_eq!(error.status(), Status::Invalid);
}

#[test]
fn a_write_that_arrives_after_it_was_repeated_is_not_carried_out() {
    let fake = Fake::striped();
    let file = open(&fake);
    fake.fault(iod::Write::OP, Fault::RequestLate);
    block_on(file.write_at(&[1; 10_000], 0)).unwrap();
    block_on(file.write_at(&[2; 10_000], 0)).unwrap();
    assert_eq!(fake.cluster().late.len(), 1);
    assert_eq!(fake.cluster().arrive_late(), 0);
    assert_eq!(read(&file, 0, 10_000), [2; 10_000]);
}

#[test]
fn a_failed_write_is_abandoned_before_the_next_one_on_any_address() {
    let fake = Fake::striped();
    let file = open(&fake);
    fake.fault(iod::Write::OP, Fault::RequestLate);
    // Of another daemon: the call fails immediately.
    fake.fault(iod::Write::OP, Fault::Refused(Status::NoSpace));
    assert_eq!(block_on(file.write_at(&[1; 10_000], 0)).unwrap_err().status(), Status::NoSpace);
    assert_eq!(
        fake.cluster().requests_to(IodId(1), iod::Abandon::OP),
        0,
        "nothing came after it yet"
    );
    block_on(file.write_at(&[2; 10_000], 0)).unwrap();
    assert_eq!(fake.cluster().requests_to(IodId(1), iod::Abandon::OP), 1);
    assert_eq!(
        fake.cluster().addresses_used.iter().filter(|address| address.starts_with("iod1")).count(),
        2
    );
    assert_eq!(fake.cluster().late.len(), 1);
    assert_eq!(fake.cluster().arrive_late(), 0);
    assert_eq!(read(&file, 0, 10_000), [2; 10_000]);
}

#[test]
fn a_failed_write_is_abandoned_before_a_truncate_of_the_file() {
    let fake = Fake::striped();
    let file = open(&fake);
    fake.fault(iod::Write::OP, Fault::RequestLate);
    // Of another daemon: the call fails immediately.
    fake.fault(iod::Write::OP, Fault::Refused(Status::NoSpace));
    block_on(file.write_at(&[1; 10_000], 0)).unwrap_err();
    block_on(file.set_len(0)).unwrap();
    assert_eq!(fake.cluster().requests_to(IodId(1), iod::Abandon::OP), 1);
    assert_eq!(fake.cluster().late.len(), 1);
    assert_eq!(fake.cluster().arrive_late(), 0, "its bytes never come back");
    assert_eq!(read(&file, 0, 10_000), [0; 0]);
}

#[test]
fn nothing_is_written_before_the_first_attempt_is_abandoned() {
    for fault in
        [Fault::RequestLost, Fault::ReplyLost, Fault::ReplyLate, Fault::Refused(Status::TryAgain)]
    {
        let fake = Fake::striped();
        let file = open(&fake);
        fake.fault(iod::Write::OP, Fault::RequestLate);
        fake.fault(iod::Abandon::OP, fault);
        block_on(file.write_at(&[1; 4096], 0)).unwrap();
        let abandons = if matches!(fault, Fault::ReplyLost | Fault::ReplyLate) { 2 } else { 1 };
        let (iod, cluster) = (IodId(1), fake.cluster());
        assert_eq!(cluster.requests_to(iod, iod::Abandon::OP), abandons, "{fault:?}");
        assert_eq!(
            cluster.exchanges.last(),
            Some(&(iod, iod::Write::OP, 4096)),
            "and only then the write"
        );
        assert_eq!(cluster.requests_to(iod, iod::Write::OP), 1);
    }
}

#[test]
fn an_abandoned_read_needs_no_abandon() {
    let fake = Fake::striped();
    let file = open(&fake);
    block_on(file.write_at(&[1; 4096], 0)).unwrap();
    fake.fault(iod::Read::OP, Fault::ReplyLost);
    assert_eq!(read(&file, 0, 4096), [1; 4096]);
    block_on(file.write_at(&[2; 4096], 0)).unwrap();
    assert_eq!(fake.cluster().requests_to(IodId(1), iod::Abandon::OP), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Write { position: u64, bytes: usize },
    Read { position: u64, bytes: usize },
    Truncate { bytes: u64 },
}

fn steps() -> impl Strategy<Value = Vec<(Step, Option<Fault>)>> {
    let step = prop_oneof![
        (0u64..40_000, 0usize..20_000)
            .prop_map(|(position, bytes)| Step::Write { position, bytes }),
        (0u64..60_000, 0usize..30_000).prop_map(|(position, bytes)| Step::Read { position, bytes }),
        (0u64..50_000).prop_map(|bytes| Step::Truncate { bytes }),
    ];
    let fault = prop::option::weighted(
        0.4,
        prop::sample::select(vec![
            Fault::RequestLost,
            Fault::ReplyLost,
            Fault::ReplyLate,
            Fault::RequestLate,
            Fault::Refused(Status::UnknownHandle),
            Fault::Refused(Status::StaleGeneration),
            Fault::Refused(Status::StaleEpoch),
            Fault::Refused(Status::TryAgain),
        ]),
    );
    prop::collection::vec((step, fault), 1..25)
}

fn layouts() -> impl Strategy<Value = Layout> {
    let iods = || (1..=4).map(IodId);
    prop::sample::select(vec![
        Layout::one(Distribution::SimpleStripe { stripe_size: 4096 }, iods()),
        Layout::one(Distribution::Single, [IodId(2)]),
        Layout::one(
            Distribution::Grouped { stripe_size: 4096, group_width: 2, group_depth: 2 },
            iods(),
        ),
        // Two parts on one daemon.
        Layout::one(
            Distribution::SimpleStripe { stripe_size: 4096 },
            [IodId(3), IodId(1), IodId(3)],
        ),
    ])
}

/// The behaviour of a plain file.
fn model_write(model: &mut Vec<u8>, position: usize, data: &[u8]) {
    if !data.is_empty() {
        model.resize(model.len().max(position + data.len()), 0);
        model[position..position + data.len()].copy_from_slice(data);
    }
}

/// The number of requests for a larger growth grant.
fn extensions(fake: &Fake) -> usize {
    fake.cluster().mds_calls.iter().filter(|op| **op == mds::ExtendGrowthGrant::OP).count()
}

fn limited(quota: Option<u64>, ahead: u64) -> Fake {
    let fake = Fake::striped();
    (fake.cluster().quota, fake.cluster().ahead) = (quota, ahead);
    fake
}

#[test]
fn without_limits_no_write_calls_the_metadata_server() {
    let fake = limited(None, 0);
    let file = open(&fake);
    block_on(file.write_at(&pattern(50_000), 1 << 20)).unwrap();
    assert_eq!(extensions(&fake), 0);
}

#[test]
fn a_write_past_the_end_asks_once_and_those_below_it_do_not() {
    let fake = limited(Some(100_000), 10_000);
    let file = open(&fake);
    block_on(file.write_at(&pattern(10_000), 0)).unwrap();
    assert_eq!(extensions(&fake), 0, "at the end is not past it");
    block_on(file.write_at(&pattern(10_001), 0)).unwrap();
    block_on(file.write_at(&pattern(10_000), 10_001)).unwrap();
    assert_eq!(extensions(&fake), 1, "it got as much again");
    assert_eq!(read(&file, 0, 30_000).len(), 20_001);
}

#[test]
fn a_write_past_the_quota_is_refused_before_its_first_byte_is_sent() {
    let fake = limited(Some(20_000), 1_000);
    let file = open(&fake);
    let sent = |fake: &Fake| {
        fake.cluster().exchanges.iter().filter(|(_, op, _)| *op == iod::Write::OP).count()
    };
    let refused = block_on(file.write_at(&pattern(20_001), 0)).unwrap_err();
    assert_eq!((refused.status(), sent(&fake)), (Status::QuotaExceeded, 0), "{refused}");
    assert!(refused.to_string().contains("/f"), "{refused}");
    block_on(file.write_at(&pattern(20_000), 0)).unwrap();
    block_on(file.write_at(&pattern(100), 50)).unwrap();
    let file = file.with_view(View::strided(0, 1, 5_000)).unwrap();
    assert_eq!(
        block_on(file.write_at(&pattern(6), 0)).unwrap_err().status(),
        Status::QuotaExceeded,
        "its last byte counts"
    );
}

#[test]
fn allocation_obeys_the_quota_and_reserved_writes_need_no_call() {
    let fake = limited(Some(20_000), 0);
    let file = open(&fake);
    for keep_size in [false, true] {
        let refused = block_on(file.allocate(10_000, 10_001, keep_size)).unwrap_err();
        assert_eq!(refused.status(), Status::QuotaExceeded);
    }
    assert_eq!(block_on(file.reserve(20_001)).unwrap_err().status(), Status::QuotaExceeded);
    block_on(file.reserve(20_000)).unwrap();
    let asked = extensions(&fake);
    block_on(file.write_at(&pattern(20_000), 0)).unwrap();
    assert_eq!(extensions(&fake), asked);
}

#[test]
fn a_growth_grant_ends_with_its_capability() {
    let fake = limited(Some(20_000), 0);
    let file = open(&fake);
    block_on(file.write_at(&pattern(20_000), 0)).unwrap();
    fake.cluster().quota = Some(5_000);
    fake.cluster().truncate(b"f", 0);
    let refused = block_on(file.write_at(&pattern(6_000), 0)).unwrap_err();
    assert_eq!(
        refused.status(),
        Status::QuotaExceeded,
        "the daemons refused the old capability, the server the new end"
    );
    assert_eq!(read(&file, 0, 10), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_file_behaves_like_a_vector_of_bytes_despite_faults(
        layout in layouts(), steps in steps(), pad in any::<bool>(),
    ) {
        let fake = Fake::new(layout);
        fake.cluster().pad_reads = pad;
        let (file, mut model) = (open(&fake), Vec::new());
        for (at, (step, fault)) in steps.into_iter().enumerate() {
            if let Some(fault) = fault {
                for op in [iod::Read::OP, iod::Write::OP, mds::RenewCapability::OP] {
                    if !matches!((op, fault), (mds::RenewCapability::OP, Fault::Refused(_))) {
                        fake.fault(op, fault);
                    }
                }
            }
            match step {
                Step::Write { position, bytes } => {
                    let data = pattern(bytes);
                    prop_assert_eq!(block_on(file.write_at(&data, position)).unwrap(), bytes);
                    model_write(&mut model, position as usize, &data);
                }
                Step::Read { position, bytes } => {
                    let from = model.len().min(position as usize);
                    let to = model.len().min(position as usize + bytes);
                    prop_assert_eq!(read_both(&file, position, bytes), &model[from..to]);
                }
                Step::Truncate { bytes } => {
                    block_on(file.set_len(bytes)).unwrap();
                    model.resize(bytes as usize, 0);
                }
            }
            fake.cluster().faults.clear();
            if at % 3 == 2 {
                fake.cluster().arrive_late();
            }
            prop_assert_eq!(block_on(file.size()).unwrap(), model.len() as u64);
        }
    }

    #[test]
    fn a_view_is_the_bytes_that_it_shows(
        offset in 0u64..5000, group in 1u64..3000, gap in 0u64..9000, start in 0u64..5000,
        bytes in 1usize..30_000,
    ) {
        let fake = Fake::striped();
        let file = open(&fake);
        let base = pattern(60_000);
        block_on(file.write_at(&base, 0)).unwrap();
        let stride = group + gap;
        let shown =
            |position: u64| (offset + position / group * stride + position % group) as usize;
        let view = file.with_view(View::strided(offset, group, stride)).unwrap();
        let wanted: Vec<u8> =
            (start..start + bytes as u64).map_while(|p| base.get(shown(p)).copied()).collect();
        prop_assert_eq!(read(&view, start, bytes), wanted);
    }
}
