//! Every malformed input is a typed error with a clear text, never a panic or a wrap (I3, I10).

use crate::model;
use braid_layout::{
    Distribution, Extent, Layout, LayoutError, PartSet, Pattern, Request, Strip, View, unfold,
};
use braid_types::limits::{
    COMPONENTS_MAX, FILE_BYTES_MAX, LIST_EXTENTS_MAX, PARTS_MAX, STRIPE_BYTES_MAX,
    STRIPE_BYTES_MIN, STRIPS_MAX, VIEW_DEPTH_MAX, VIEW_NODES_MAX,
};
use braid_types::{FileOffset, IodId, ObjectOffset, PartIndex};
use proptest::prelude::*;

fn stripe(stripe_size: u64) -> Layout {
    model::over(4, Distribution::SimpleStripe { stripe_size })
}

fn changed(change: impl FnOnce(&mut Layout)) -> LayoutError {
    let mut layout = stripe(65536);
    layout.validate().unwrap();
    change(&mut layout);
    layout.validate().unwrap_err()
}

fn view_error(extent: u64, pattern: Pattern) -> LayoutError {
    View { displacement: 0, extent, pattern }.validate().unwrap_err()
}

fn vector(count: u64, stride: u64, child: Pattern) -> Pattern {
    Pattern::Vector { count, stride, child: Box::new(child) }
}

#[test]
fn stripe_size_on_both_sides_of_its_limits() {
    for good in [STRIPE_BYTES_MIN, STRIPE_BYTES_MAX] {
        assert_eq!(stripe(good).validate(), Ok(()));
    }
    for bad in [0, STRIPE_BYTES_MIN - 1, STRIPE_BYTES_MAX + 1, u64::MAX] {
        let error = stripe(bad).validate().unwrap_err();
        assert!(matches!(error, LayoutError::StripeSize { bytes, .. } if bytes == bad), "{error}");
    }
}

#[test]
fn parts_and_first_part_are_checked() {
    assert_eq!(changed(|l| l.components[0].parts.clear()), LayoutError::NoParts { component: 0 });
    assert_eq!(
        changed(|l| l.components[0].first_part = 4),
        LayoutError::FirstPart { component: 0, first_part: 4, parts: 4 }
    );
    assert_eq!(
        changed(|l| l.components[0].parts[2].iods.clear()),
        LayoutError::NoIod { part: PartIndex(2) }
    );
    assert_eq!(
        changed(|l| l.components[0].parts[3].iods[0] = IodId(0)),
        LayoutError::NoIod { part: PartIndex(3) }
    );
    let parts = |count: usize| {
        let mut layout = stripe(65536);
        let part = layout.components[0].parts[0].clone();
        layout.components[0].parts = vec![part; count];
        layout.validate()
    };
    assert_eq!(parts(PARTS_MAX), Ok(()));
    assert_eq!(
        parts(PARTS_MAX + 1),
        Err(LayoutError::TooManyParts { count: PARTS_MAX + 1, max: PARTS_MAX })
    );
}

#[test]
fn components_must_tile_the_file() {
    assert_eq!(changed(|l| l.components.clear()), LayoutError::NoComponents);
    assert_eq!(
        changed(|l| l.components[0].start = FileOffset(1)),
        LayoutError::ComponentGap { component: 0, start: 0 }
    );
    assert_eq!(
        changed(|l| l.components[0].end = FileOffset(9)),
        LayoutError::LastComponentEnds { end: 9 }
    );
    assert_eq!(
        changed(|l| l.components[0].end = FileOffset(0)),
        LayoutError::ComponentGap { component: 0, start: 0 }
    );
    let second_from = |start| {
        move |l: &mut Layout| {
            l.components.push(l.components[0].clone());
            l.components[0].end = FileOffset(100);
            l.components[1].start = FileOffset(start);
        }
    };
    for gap_or_overlap in [99, 101] {
        assert_eq!(
            changed(second_from(gap_or_overlap)),
            LayoutError::ComponentGap { component: 1, start: 100 }
        );
    }
    let mut layout = stripe(65536);
    second_from(100)(&mut layout);
    assert_eq!(layout.validate(), Ok(()));
    let many = changed(|l| l.components = vec![l.components[0].clone(); COMPONENTS_MAX + 1]);
    assert_eq!(
        many,
        LayoutError::TooManyComponents { count: COMPONENTS_MAX + 1, max: COMPONENTS_MAX }
    );
}

#[test]
fn distributions_that_make_no_sense() {
    let error = |distribution| model::over(4, distribution).validate().unwrap_err();
    let grouped = |group_width, group_depth, stripe_size| Distribution::Grouped {
        stripe_size,
        group_width,
        group_depth,
    };
    assert_eq!(error(Distribution::Single), LayoutError::SingleParts { parts: 4 });
    assert_eq!(error(grouped(3, 1, 4096)), LayoutError::GroupWidth { width: 3, parts: 4 });
    assert_eq!(error(grouped(0, 1, 4096)), LayoutError::GroupWidth { width: 0, parts: 4 });
    assert_eq!(error(grouped(2, 0, 4096)), LayoutError::GroupDepth);
    assert_eq!(error(grouped(2, u32::MAX, STRIPE_BYTES_MAX)), LayoutError::Overflow);
    let strips =
        |count, bytes| Distribution::VarStrip { strips: vec![Strip { part: 0, bytes }; count] };
    assert_eq!(error(strips(0, 1)), LayoutError::StripCount { count: 0, max: STRIPS_MAX });
    assert_eq!(
        error(strips(STRIPS_MAX + 1, 1)),
        LayoutError::StripCount { count: STRIPS_MAX + 1, max: STRIPS_MAX }
    );
    assert!(matches!(error(strips(2, 0)), LayoutError::StripeSize { bytes: 0, .. }));
    assert!(matches!(error(strips(2, u64::MAX)), LayoutError::StripeSize { .. }));
    assert_eq!(model::over(4, strips(STRIPS_MAX, STRIPE_BYTES_MAX)).validate(), Ok(()));
}

#[test]
fn views_that_make_no_sense() {
    use Pattern::{Bytes, Extents, Struct};
    let runs = |runs: &[(u64, u64)]| {
        Extents(
            runs.iter().map(|(offset, bytes)| Extent { offset: *offset, bytes: *bytes }).collect(),
        )
    };
    for empty in [
        Bytes(0),
        vector(0, 9, Bytes(1)),
        vector(2, 9, Bytes(0)),
        Struct(vec![]),
        runs(&[]),
        runs(&[(4, 0)]),
    ] {
        assert_eq!(view_error(100, empty), LayoutError::EmptyPattern);
    }
    assert_eq!(view_error(0, Bytes(1)), LayoutError::ExtentTooSmall { extent: 0, span: 1 });
    assert_eq!(
        view_error(29, vector(3, 10, Bytes(10))),
        LayoutError::ExtentTooSmall { extent: 29, span: 30 }
    );
    assert_eq!(
        view_error(99, vector(2, 9, Bytes(10))),
        LayoutError::StrideTooSmall { stride: 9, span: 10 }
    );
    assert_eq!(view_error(99, runs(&[(0, 5), (4, 5)])), LayoutError::Unordered { offset: 4 });
    assert_eq!(
        view_error(99, Struct(vec![(9, Bytes(1)), (3, Bytes(1))])),
        LayoutError::Unordered { offset: 3 }
    );
    assert_eq!(view_error(u64::MAX, vector(u64::MAX, u64::MAX, Bytes(1))), LayoutError::Overflow);
    assert_eq!(view_error(u64::MAX, runs(&[(u64::MAX, 2)])), LayoutError::Overflow);
    assert_eq!(
        view_error(u64::MAX, Struct(vec![(u64::MAX, vector(2, 9, Bytes(1)))])),
        LayoutError::Overflow
    );
}

#[test]
fn depth_and_length_on_both_sides_of_their_limits() {
    let nested = |depth| {
        (1..depth).fold(Pattern::Bytes(1), |child, level| vector(2, 3 << (2 * level), child))
    };
    let view = |pattern| View { displacement: 0, extent: 1 << 60, pattern }.validate();
    assert_eq!(view(nested(VIEW_DEPTH_MAX)), Ok(()));
    assert_eq!(view(nested(VIEW_DEPTH_MAX + 1)), Err(LayoutError::TooDeep { max: VIEW_DEPTH_MAX }));
    let list = |count: usize| {
        (0..count as u64).map(|i| Extent { offset: 2 * i, bytes: 1 }).collect::<Vec<_>>()
    };
    let too_long = Err(LayoutError::ListTooLong { max: LIST_EXTENTS_MAX });
    assert_eq!(view(Pattern::Extents(list(LIST_EXTENTS_MAX))), Ok(()));
    assert_eq!(view(Pattern::Extents(list(LIST_EXTENTS_MAX + 1))), too_long);
    let halves = (0..3).map(|i| (i << 20, Pattern::Extents(list(LIST_EXTENTS_MAX / 2)))).collect();
    assert_eq!(view(Pattern::Struct(halves)), too_long, "all lists of a view count together");
}

#[test]
fn requests_at_the_largest_file_and_at_the_64_bit_edge() {
    let at = |offset, bytes| Request::contiguous(FileOffset(offset), bytes).validate();
    let past = Err(LayoutError::PastLargestFile { max: FILE_BYTES_MAX });
    assert_eq!(at(FILE_BYTES_MAX - 1, 1), Ok(()));
    assert_eq!(at(FILE_BYTES_MAX - 1, 2), past);
    assert_eq!(at(1 << 63, 1), past);
    assert_eq!(at(u64::MAX - 1, 1), past);
    assert_eq!(at(u64::MAX, 1), Err(LayoutError::Overflow));
    assert_eq!(at(u64::MAX, 0), Ok(()), "no bytes are nowhere");
    let strided =
        |start, bytes| Request { view: View::strided(0, 1, 1 << 40), start, bytes }.validate();
    assert_eq!(strided(1 << 22, 1 << 22), Ok(()));
    assert_eq!(strided(1 << 23, 1), past);
    assert_eq!(strided(1 << 24, 1), Err(LayoutError::Overflow));
    assert_eq!(strided(0, u64::MAX), Err(LayoutError::Overflow));
    let far = Request { view: View::strided(u64::MAX, 1, 1), start: 1, bytes: 1 };
    assert_eq!(far.validate(), Err(LayoutError::Overflow));
    assert!(unfold(&far, &stripe(4096), &PartSet::first(4)).is_err());
}

#[test]
fn the_last_byte_of_the_largest_file_is_served() {
    let layout = stripe(65536);
    let request = Request::contiguous(FileOffset(FILE_BYTES_MAX - 10), 10);
    let accesses: Vec<_> = unfold(&request, &layout, &PartSet::first(4)).unwrap().collect();
    assert_eq!(accesses.iter().map(|access| access.bytes).sum::<u64>(), 10);
    assert_eq!(layout.object_bytes(FILE_BYTES_MAX, PartIndex(3)), Ok((1 << 61) - 1));
}

#[test]
fn object_lengths_past_the_edge_are_errors() {
    let layout = stripe(65536);
    let outside = |part, object_offset| {
        Err(LayoutError::OutsidePart { part: PartIndex(part), object_offset })
    };
    assert_eq!(
        layout.file_size_from_objects(&[(PartIndex(1), u64::MAX)]),
        outside(1, u64::MAX - 1)
    );
    assert_eq!(
        layout.file_size_from_objects(&[(PartIndex(4), 1)]),
        Err(LayoutError::UnknownPart { part: PartIndex(4) })
    );
    assert_eq!(
        layout.file_size_from_objects(&[(PartIndex(9), 0)]),
        Err(LayoutError::UnknownPart { part: PartIndex(9) })
    );
    assert_eq!(
        layout.file_offset(PartIndex(0), ObjectOffset(1 << 63)).map(|at| at.0),
        outside(0, 1 << 63)
    );
    assert_eq!(layout.locate(FileOffset(u64::MAX)), Err(LayoutError::Overflow));
    assert_eq!(layout.file_size_from_objects(&[]), Ok(0));
}

#[test]
fn errors_say_what_is_wrong_in_one_line() {
    assert_eq!(
        changed(|l| l.components.clear()).to_string(),
        "layout refused: it has no component"
    );
    let error = view_error(29, vector(3, 10, Pattern::Bytes(10)));
    assert_eq!(
        error.to_string(),
        "view refused: extent 29 is smaller than the pattern's span of 30 bytes"
    );
}

/// No file has a byte at 2^64-1: a view that would show it ends before it.
#[test]
fn a_view_ends_before_the_offset_that_no_file_has() {
    let dense =
        |displacement, bytes| View { displacement, extent: bytes, pattern: Pattern::Bytes(bytes) };
    for (view, last) in [
        (dense(0, u64::MAX), u64::MAX - 1),
        (dense(0, 1), u64::MAX - 1),
        (dense(5, 3), u64::MAX - 6),
    ] {
        let map = view.map().unwrap();
        let edge = FileOffset(u64::MAX);
        assert_eq!(map.file_offset(last), Ok(FileOffset(u64::MAX - 1)), "{view:?}");
        assert_eq!(map.position(FileOffset(u64::MAX - 1)), Some(last), "{view:?}");
        assert_eq!(map.file_offset(last + 1), Err(LayoutError::Overflow), "{view:?}");
        assert_eq!(
            (map.position(edge), map.bytes_before(edge), map.next_visible(edge)),
            (None, last + 1, None),
            "{view:?}"
        );
    }
}

/// Numbers that are often at a boundary.
fn edgy() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..5,
        (0u32..64, 0u64..3).prop_map(|(bit, less)| (1u64 << bit).wrapping_sub(less)),
        Just(u64::MAX),
        any::<u64>(),
    ]
}

fn wild_pattern() -> impl Strategy<Value = Pattern> {
    let extents = proptest::collection::vec((edgy(), edgy()), 0..4);
    let leaf = prop_oneof![
        edgy().prop_map(Pattern::Bytes),
        extents.prop_map(|list| {
            Pattern::Extents(
                list.into_iter().map(|(offset, bytes)| Extent { offset, bytes }).collect(),
            )
        }),
    ];
    leaf.prop_recursive(20, 30, 3, |child| {
        prop_oneof![
            (edgy(), edgy(), child.clone())
                .prop_map(|(count, stride, child)| vector(count, stride, child)),
            proptest::collection::vec((edgy(), child), 0..3).prop_map(Pattern::Struct),
        ]
    })
}

fn wild_layout() -> impl Strategy<Value = Layout> {
    let small = || prop_oneof![any::<u16>(), 0u16..9];
    let strips = proptest::collection::vec((small(), edgy()), 0..4);
    let distribution = prop_oneof![
        edgy().prop_map(|stripe_size| Distribution::SimpleStripe { stripe_size }),
        Just(Distribution::Single),
        strips.prop_map(|strips| {
            Distribution::VarStrip {
                strips: strips.into_iter().map(|(part, bytes)| Strip { part, bytes }).collect(),
            }
        }),
        (edgy(), small(), any::<u32>()).prop_map(|(stripe_size, group_width, group_depth)| {
            Distribution::Grouped { stripe_size, group_width, group_depth }
        }),
    ];
    (distribution, 0u32..9, edgy(), any::<bool>(), 0u16..9).prop_map(
        |(distribution, parts, split, two, first_part)| {
            let mut layout = model::over(parts, distribution);
            layout.components[0].first_part = first_part;
            if two {
                layout.components.push(layout.components[0].clone());
                layout.components[0].end = FileOffset(split);
                layout.components[1].start = FileOffset(split);
            }
            layout
        },
    )
}

proptest! {
    #![proptest_config(model::cases(4000))]

    /// Unvalidated input gives an answer or an error, within the budget.
    #[test]
    fn no_input_panics_or_wraps(
        layout in wild_layout(),
        pattern in wild_pattern(),
        displacement in edgy(),
        extent in edgy(),
        start in edgy(),
        bytes in edgy(),
        probe in edgy(),
        part in 0u16..20,
    ) {
        let view = View { displacement, extent, pattern };
        let request = Request { view, start, bytes };
        let (part, probe) = (PartIndex(part), probe);
        let _ = (layout.validate(), request.validate(), request.view.validate());
        let _ = request.view.pattern.bytes();
        if let Ok(map) = request.view.map() {
            if let Ok(offset) = map.file_offset(probe) {
                prop_assert_eq!(map.position(offset), Some(probe));
            }
            prop_assert!(map.bytes_before(FileOffset(probe)) <= probe);
        }
        let Ok(map) = layout.map() else { return Ok(()) };
        let _ = (map.object_bytes(probe, part), map.file_size_from_objects(&[(part, probe)]));
        if let Ok(at) = map.locate(FileOffset(probe)) {
            prop_assert_eq!(map.file_offset(at.part, at.object_offset), Ok(FileOffset(probe)));
        }
        let set = PartSet::one(part);
        let _ = map.payload_bytes(&request, &set, &mut 500);
        let Ok(job) = map.unfold(&request, &set) else { return Ok(()) };
        let mut job = job;
        let mut steps = 500;
        let mut end = 0;
        while let braid_layout::Unfolded::Access(access) = job.next_within(&mut steps) {
            prop_assert!(access.stream_offset >= end && access.bytes > 0);
            end = access.stream_offset + access.bytes;
            prop_assert!(end <= bytes);
            let at = map.locate(access.file_offset).unwrap();
            prop_assert_eq!((at.part, at.object_offset), (part, access.object_offset));
            let position = request.view.map().unwrap().position(access.file_offset);
            prop_assert_eq!(position, Some(start + access.stream_offset));
        }
    }
}

/// Vectors of vectors that are not regular as a whole: each level is a pattern of its own.
fn chain(depth: u64) -> Pattern {
    (0..depth).fold(Pattern::Bytes(1), |child, level| vector(2, 3 << (2 * level), child))
}

#[test]
fn a_view_takes_no_more_memory_than_its_patterns_may() {
    let chains = |count: u64, depth| {
        Pattern::Struct((0..count).map(|at| (at << 40, chain(depth))).collect())
    };
    let of_one = 14 + 1;
    let most = VIEW_NODES_MAX as u64 / of_one;
    let view = |count| View { displacement: 0, extent: FILE_BYTES_MAX, pattern: chains(count, 14) };
    let bytes = view(most - 1).map().unwrap().size_bytes();
    assert!(bytes < 5 << 20, "{bytes} bytes");
    assert_eq!(
        view(most + 1).map().unwrap_err(),
        LayoutError::TooManyPatterns { max: VIEW_NODES_MAX }
    );
    // The result of an indexed type of vectors, with a list of the maximum length.
    let pattern = chains(LIST_EXTENTS_MAX as u64 - 1, 1);
    View { displacement: 0, extent: FILE_BYTES_MAX, pattern }.validate().unwrap();
}

#[test]
fn a_moved_view_is_the_one_that_is_built_there_and_shares_its_memory() {
    for pattern in [
        Pattern::Bytes(10),
        Pattern::Extents(vec![Extent { offset: 0, bytes: 2 }, Extent { offset: 5, bytes: 5 }]),
    ] {
        let at = |displacement| {
            View { displacement, extent: 10, pattern: pattern.clone() }.map().unwrap()
        };
        let (moved, built) = (at(3).moved_to(100), at(100));
        assert!(
            (0..100).all(|position| moved.file_offset(position) == built.file_offset(position))
        );
        assert!(
            (0..300)
                .all(|offset| moved.position(FileOffset(offset))
                    == built.position(FileOffset(offset)))
        );
        assert_eq!(moved.size_bytes(), built.size_bytes());
    }
}
