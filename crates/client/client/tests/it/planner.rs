//! Properties of the planner: the request to each daemon, and the bytes of the caller's buffers
//! that it gets.

use std::collections::BTreeMap;

use braid_client::{
    Distribution, Extent, Layout, Pattern, View,
    plan::{
        FileMap, PIECES_MAX, Piece, Planned, Planner, ROUND_BYTES_MAX, ROUND_PIECES_MAX,
        WindowMemory,
    },
};
use braid_layout::Request;
use braid_types::{IodId, limits::WINDOW_BYTES};
use proptest::prelude::*;

fn layouts() -> impl Strategy<Value = Layout> {
    let iods = || (1..=4).map(IodId);
    prop::sample::select(vec![
        Layout::one(Distribution::SimpleStripe { stripe_size: 4096 }, iods()),
        Layout::one(Distribution::SimpleStripe { stripe_size: 1 << 20 }, iods()),
        Layout::one(Distribution::Single, [IodId(2)]),
        Layout::one(
            Distribution::Grouped { stripe_size: 65_536, group_width: 2, group_depth: 3 },
            iods(),
        ),
        Layout::one(
            Distribution::SimpleStripe { stripe_size: 8192 },
            [IodId(3), IodId(1), IodId(3)],
        ),
    ])
}

fn views() -> impl Strategy<Value = View> {
    prop_oneof![
        Just(View::whole()),
        (0u64..100_000, 512u64..200_000, 0u64..2_000_000)
            .prop_map(|(at, group, gap)| View::strided(at, group, group + gap)),
        (1u64..20, 512u64..5000, 0u64..70_000).prop_map(|(count, block, gap)| {
            let child = Box::new(Pattern::Bytes(block));
            let pattern = Pattern::Vector { count, stride: block + gap, child };
            View { displacement: 7, extent: count * (block + gap), pattern }
        }),
        lists(),
    ]
}

/// A repeated list.
fn lists() -> impl Strategy<Value = View> {
    let extent = (0u64..100_000, prop_oneof![9 => 512u64..20_000, 1 => 512u64..4 << 20]);
    (prop::collection::vec(extent, 1..400), 0u64..50_000).prop_map(|(extents, displacement)| {
        let mut end = 0;
        let laid = extents.into_iter().map(|(gap, bytes)| {
            let offset = end + gap;
            end = offset + bytes;
            Extent { offset, bytes }
        });
        let pattern = Pattern::Extents(laid.collect());
        View { displacement, extent: end + 5, pattern }
    })
}

fn rounds(map: &FileMap, request: &Request) -> Vec<Vec<Planned>> {
    let mut planner = Planner::new(map, request.clone()).unwrap();
    std::iter::from_fn(|| planner.next_round()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_byte_of_the_callers_buffers_is_asked_of_one_daemon_once(
        layout in layouts(), view in views(), start in 0u64..1_000_000, bytes in 1u64..12 << 20,
    ) {
        let map = FileMap::new(layout).unwrap();
        let request = Request { view, start, bytes };
        let mut pieces = Vec::new();
        for planned in rounds(&map, &request).concat() {
            // Only a window with a bounce buffer does not list its pieces; these views have none.
            prop_assert!(matches!(planned.memory, WindowMemory::Pieces(_)));
            let sum: u64 = planned.pieces().iter().map(|piece| piece.bytes).sum();
            prop_assert_eq!(sum, planned.payload);
            prop_assert!(planned.payload <= WINDOW_BYTES);
            pieces.extend_from_slice(planned.pieces());
        }
        pieces.sort_unstable_by_key(|piece| piece.position);
        let end = pieces
            .iter()
            .try_fold(0, |end, piece| (piece.position == end).then_some(end + piece.bytes));
        prop_assert_eq!(end, Some(bytes), "no gap and no overlap");
    }

    #[test]
    fn each_daemon_is_sent_its_payload_in_the_fewest_windows(
        layout in layouts(), view in views(), start in 0u64..1_000_000, bytes in 1u64..24 << 20,
    ) {
        let map = FileMap::new(layout).unwrap();
        let request = Request { view, start, bytes };
        let mut daemons: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for planned in rounds(&map, &request).concat() {
            let (payload, count) = daemons.entry(planned.target).or_default();
            (*payload, *count) = (*payload + planned.payload, *count + 1);
        }
        for (target, (payload, count)) in daemons {
            prop_assert_eq!(count, payload.div_ceil(WINDOW_BYTES), "I2, daemon {}", target);
            let steps = &mut usize::MAX.clone();
            let parts = &map.targets()[target].parts;
            let own = map.layout_map().payload_bytes(&request, parts, steps).unwrap();
            prop_assert_eq!(Some(payload), own);
        }
    }

    #[test]
    fn each_window_matches_its_pieces(
        layout in layouts(), view in lists(), skip in 0u64..50_000,
    ) {
        let map = FileMap::new(layout).unwrap();
        let Pattern::Extents(extents) = &view.pattern else { unreachable!() };
        let bytes = extents.iter().map(|extent| extent.bytes).sum::<u64>().saturating_sub(skip);
        let request = Request { view, start: skip, bytes };
        for planned in rounds(&map, &request).concat() {
            // The file ranges of the payload, in its order.
            let runs = |request: &Request| {
                let unfolded = map.accesses(planned.target, request).unwrap().by_file();
                unfolded.map(|access| (access.file_offset.0, access.bytes)).collect::<Vec<_>>()
            };
            let own = |piece: &Piece| {
                let start = skip + piece.position;
                Request { start, bytes: piece.bytes, ..request.clone() }
            };
            let wanted = planned.pieces().iter().flat_map(|piece| runs(&own(piece)));
            prop_assert_eq!(joined(runs(&planned.request).into_iter()), joined(wanted));
        }
    }

    #[test]
    fn a_rounds_memory_is_bounded(layout in layouts(), view in views(), bytes in 1u64..80 << 20) {
        let map = FileMap::new(layout).unwrap();
        for round in rounds(&map, &Request { view, start: 0, bytes }) {
            let payload: u64 = round.iter().map(|planned| planned.payload).sum();
            let pieces: usize = round.iter().map(|planned| planned.pieces().len()).sum();
            prop_assert!(payload < ROUND_BYTES_MAX + WINDOW_BYTES, "{}", payload);
            prop_assert!(pieces < ROUND_PIECES_MAX + PIECES_MAX, "{}", pieces);
        }
    }
}

/// File ranges, with adjacent ones merged.
fn joined(runs: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (offset, bytes) in runs {
        match joined.last_mut() {
            Some((from, length)) if *from + *length == offset => *length += bytes,
            _ => joined.push((offset, bytes)),
        }
    }
    joined
}

#[test]
fn a_daemon_is_sent_the_extents_alone_that_touch_it() {
    let map = FileMap::new(Layout::one(
        Distribution::SimpleStripe { stripe_size: 65_536 },
        (1..=4).map(IodId),
    ))
    .unwrap();
    let extents: Vec<Extent> =
        (0..1000).map(|at| Extent { offset: at * 70_001, bytes: 4096 }).collect();
    let request = Request { view: View::extents(extents), start: 0, bytes: 4096 * 1000 };
    let sent = rounds(&map, &request)
        .concat()
        .iter()
        .map(|planned| match &planned.request.view.pattern {
            Pattern::Extents(extents) => extents.len(),
            other => panic!("{other:?} is no list"),
        })
        .sum::<usize>();
    // Each once; those that cross into the next strip, twice.
    assert!((1000..1100).contains(&sent), "{sent}");
}

#[test]
fn a_small_contiguous_call_is_one_window_of_one_piece() {
    let map = FileMap::new(Layout::one(
        Distribution::SimpleStripe { stripe_size: 65_536 },
        (1..=4).map(IodId),
    ))
    .unwrap();
    let request = Request { view: View::whole(), start: 65_536 + 10, bytes: 4096 };
    let rounds = rounds(&map, &request);
    assert_eq!((rounds.len(), rounds[0].len()), (1, 1));
    assert_eq!(
        (rounds[0][0].target, rounds[0][0].pieces().len(), rounds[0][0].payload),
        (1, 1, 4096)
    );
}

#[test]
fn a_malformed_request_is_refused() {
    let map = FileMap::new(Layout::one(Distribution::Single, [IodId(1)])).unwrap();
    for request in [
        Request { view: View::whole(), start: i64::MAX as u64, bytes: 1 },
        Request { view: View::strided(0, 2, 1), start: 0, bytes: 1 },
        Request { view: View::strided(u64::MAX, 1, 1), start: 0, bytes: 5 << 20 },
    ] {
        assert!(Planner::new(&map, request.clone()).is_err(), "{request:?}");
    }
}
