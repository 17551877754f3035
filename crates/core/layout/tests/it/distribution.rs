//! File offset to object offset and back, for every distribution, against the byte-by-byte model
//! (I3).

use crate::model;
use braid_layout::{Distribution, Layout, LayoutError, Strip};
use braid_types::{FileOffset, ObjectOffset, PartIndex};
use proptest::prelude::*;

proptest! {
    #![proptest_config(model::cases(500))]

    #[test]
    fn every_byte_lies_where_dealing_them_out_puts_it(layout in model::layout()) {
        let map = layout.map().unwrap();
        for (file, (part, object)) in model::deal(&layout, 400).into_iter().enumerate() {
            let location = map.locate(FileOffset(file as u64)).unwrap();
            prop_assert_eq!((location.part, location.object_offset), (part, ObjectOffset(object)));
            prop_assert_eq!(
                map.file_offset(part, ObjectOffset(object)),
                Ok(FileOffset(file as u64))
            );
        }
    }

    #[test]
    fn contiguous_bytes_are_contiguous_on_both_sides(
        layout in model::layout(),
        offset in 0u64..300,
    ) {
        let map = layout.map().unwrap();
        let at = map.locate(FileOffset(offset)).unwrap();
        prop_assert!(at.contiguous >= 1);
        for i in 0..at.contiguous.min(100) {
            let next = map.locate(FileOffset(offset + i)).unwrap();
            prop_assert_eq!((next.part, next.object_offset.0), (at.part, at.object_offset.0 + i));
        }
    }

    #[test]
    fn file_to_object_to_file_is_the_identity_anywhere_in_64_bits(
        layout in model::layout(),
        offset in 0..u64::MAX,
    ) {
        let map = layout.map().unwrap();
        let at = map.locate(FileOffset(offset)).unwrap();
        prop_assert_eq!(map.file_offset(at.part, at.object_offset), Ok(FileOffset(offset)));
    }

    #[test]
    fn object_to_file_to_object_is_the_identity_or_an_error(
        layout in model::layout(),
        part in 0u16..20,
        object: u64,
    ) {
        let (part, object) = (PartIndex(part), ObjectOffset(object));
        match layout.file_offset(part, object) {
            Ok(offset) => {
                let at = layout.locate(offset).unwrap();
                prop_assert_eq!((at.part, at.object_offset), (part, object));
            }
            Err(LayoutError::UnknownPart { .. }) => prop_assert!(layout.placement(part).is_none()),
            Err(error) => {
                prop_assert_eq!(error, LayoutError::OutsidePart { part, object_offset: object.0 })
            }
        }
    }

    #[test]
    fn object_sizes_and_file_size_agree_both_ways(layout in model::layout(), size in 0u64..400) {
        let map = layout.map().unwrap();
        let dealt = model::deal(&layout, size);
        let objects: Vec<_> = layout
            .placements()
            .map(|(part, _)| (part, dealt.iter().filter(|byte| byte.0 == part).count() as u64))
            .collect();
        for (part, bytes) in &objects {
            prop_assert_eq!(map.object_bytes(size, *part), Ok(*bytes));
        }
        prop_assert_eq!(map.file_size_from_objects(&objects), Ok(size));
    }

    #[test]
    fn file_size_is_the_furthest_end_of_any_object(
        layout in model::layout(),
        lengths in proptest::collection::vec(0u64..40, 20),
    ) {
        let map = layout.map().unwrap();
        let dealt = model::deal(&layout, 2000);
        let objects: Vec<_> = layout.placements().map(|(part, _)| part).zip(lengths).collect();
        let held = |part, bytes: u64| bytes == 0 || dealt.contains(&(part, bytes - 1));
        prop_assume!(objects.iter().all(|(part, bytes)| held(*part, *bytes)));
        let end = |(at, byte): (usize, &(PartIndex, u64))| {
            objects
                .iter()
                .any(|(part, bytes)| *part == byte.0 && *bytes == byte.1 + 1)
                .then_some(at as u64 + 1)
        };
        let size = dealt.iter().enumerate().filter_map(end).max().unwrap_or(0);
        prop_assert_eq!(map.file_size_from_objects(&objects), Ok(size));
    }
}

/// (part, object offset) of the file's bytes at these offsets.
fn places(layout: &Layout, offsets: &[u64]) -> Vec<(u16, u64)> {
    let map = layout.map().unwrap();
    let place = |offset: &u64| {
        map.locate(FileOffset(*offset)).map(|at| (at.part.0, at.object_offset.0)).unwrap()
    };
    offsets.iter().map(place).collect()
}

/// 1996 paper, 2.2.1: strips are placed round robin on the I/O nodes, here from part 2.
#[test]
fn simple_stripe_goes_round_the_parts_from_the_first() {
    let mut layout = model::over(4, Distribution::SimpleStripe { stripe_size: 16 });
    layout.components[0].first_part = 2;
    assert_eq!(
        places(&layout, &[0, 15, 16, 32, 48, 64, 127]),
        [(2, 0), (2, 15), (3, 0), (0, 0), (1, 0), (2, 16), (1, 31)]
    );
    assert_eq!(layout.file_offset(PartIndex(0), ObjectOffset(20)), Ok(FileOffset(32 + 64 + 4)));
}

#[test]
fn single_object_is_the_file() {
    let layout = model::over(1, Distribution::Single);
    let everywhere = [0, 1, 1 << 40, i64::MAX as u64];
    assert_eq!(places(&layout, &everywhere), everywhere.map(|offset| (0, offset)));
    assert_eq!(layout.object_bytes(1 << 40, PartIndex(0)), Ok(1 << 40));
}

#[test]
fn varstrip_goes_round_a_cycle_of_strips_of_different_sizes() {
    let strips = [(0, 10), (1, 3), (0, 2)].map(|(part, bytes)| Strip { part, bytes }).to_vec();
    let layout = model::over(2, Distribution::VarStrip { strips });
    assert_eq!(
        places(&layout, &[0, 9, 10, 12, 13, 15, 25]),
        [(0, 0), (0, 9), (1, 0), (1, 2), (0, 10), (0, 12), (1, 3)]
    );
    assert_eq!(
        (layout.object_bytes(15, PartIndex(0)), layout.object_bytes(15, PartIndex(1))),
        (Ok(12), Ok(3))
    );
}

/// 4 parts in groups of 2, 3 rows deep: 6 strips on the first pair, then 6 on the second, then the
/// first again.
#[test]
fn grouped_fills_the_rows_of_one_group_before_the_next() {
    let grouped = Distribution::Grouped { stripe_size: 10, group_width: 2, group_depth: 3 };
    let layout = model::over(4, grouped);
    let strips = [0, 1, 2, 5, 6, 7, 8, 11, 12, 13].map(|strip| strip * 10);
    let expected =
        [(0, 0), (1, 0), (0, 10), (1, 20), (2, 0), (3, 0), (2, 10), (3, 20), (0, 30), (1, 30)];
    assert_eq!(places(&layout, &strips), expected);
    let request = braid_layout::Request::contiguous(FileOffset(0), 60);
    let accesses =
        braid_layout::unfold(&request, &layout, &braid_layout::PartSet::first(4)).unwrap();
    assert!(
        accesses.map(|access| access.part.0).all(|part| part < 2),
        "a request inside one group touches its parts only"
    );
}

#[test]
fn components_each_have_their_own_distribution_and_parts() {
    let mut layout = model::over(1, Distribution::Single);
    let second =
        model::over(2, Distribution::SimpleStripe { stripe_size: 10 }).components.remove(0);
    layout.components.push(second);
    layout.components[0].end = FileOffset(100);
    layout.components[1].start = FileOffset(100);
    assert_eq!(
        places(&layout, &[0, 99, 100, 110, 120]),
        [(0, 0), (0, 99), (1, 0), (2, 0), (1, 10)]
    );
    assert_eq!(layout.file_size_from_objects(&[(PartIndex(0), 100), (PartIndex(2), 5)]), Ok(115));
    let error = layout.file_size_from_objects(&[(PartIndex(0), 101)]);
    assert_eq!(error, Err(LayoutError::OutsidePart { part: PartIndex(0), object_offset: 100 }));
}
