//! File to object and back, for every distribution, against the byte-by-byte model (I3).

mod model;

use braid_layout::LayoutError;
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
            prop_assert_eq!(map.file_offset(part, ObjectOffset(object)), Ok(FileOffset(file as u64)));
        }
    }

    #[test]
    fn contiguous_bytes_are_contiguous_on_both_sides(layout in model::layout(), offset in 0u64..300) {
        let map = layout.map().unwrap();
        let at = map.locate(FileOffset(offset)).unwrap();
        prop_assert!(at.contiguous >= 1);
        for i in 0..at.contiguous.min(100) {
            let next = map.locate(FileOffset(offset + i)).unwrap();
            prop_assert_eq!((next.part, next.object_offset.0), (at.part, at.object_offset.0 + i));
        }
    }

    #[test]
    fn file_to_object_to_file_is_the_identity_anywhere_in_64_bits(layout in model::layout(), offset in 0..u64::MAX) {
        let map = layout.map().unwrap();
        let at = map.locate(FileOffset(offset)).unwrap();
        prop_assert_eq!(map.file_offset(at.part, at.object_offset), Ok(FileOffset(offset)));
    }

    #[test]
    fn object_to_file_to_object_is_the_identity_or_an_error(layout in model::layout(), part in 0u16..20, object: u64) {
        let (part, object) = (PartIndex(part), ObjectOffset(object));
        match layout.file_offset(part, object) {
            Ok(offset) => {
                let at = layout.locate(offset).unwrap();
                prop_assert_eq!((at.part, at.object_offset), (part, object));
            }
            Err(LayoutError::UnknownPart { .. }) => prop_assert!(layout.placement(part).is_none()),
            Err(error) => prop_assert_eq!(error, LayoutError::OutsidePart { part, object_offset: object.0 }),
        }
    }

    #[test]
    fn object_sizes_and_file_size_agree_both_ways(layout in model::layout(), size in 0u64..400) {
        let map = layout.map().unwrap();
        let dealt = model::deal(&layout, size);
        let objects: Vec<_> =
            layout.placements().map(|(part, _)| (part, dealt.iter().filter(|byte| byte.0 == part).count() as u64)).collect();
        for (part, bytes) in &objects {
            prop_assert_eq!(map.object_bytes(size, *part), Ok(*bytes));
        }
        prop_assert_eq!(map.file_size_from_objects(&objects), Ok(size));
    }

    #[test]
    fn file_size_is_the_furthest_end_of_any_object(layout in model::layout(), lengths in proptest::collection::vec(0u64..40, 20)) {
        let map = layout.map().unwrap();
        let dealt = model::deal(&layout, 2000);
        let objects: Vec<_> = layout.placements().map(|(part, _)| part).zip(lengths).collect();
        let held = |part, bytes: u64| bytes == 0 || dealt.contains(&(part, bytes - 1));
        prop_assume!(objects.iter().all(|(part, bytes)| held(*part, *bytes)));
        let end = |(at, byte): (usize, &(PartIndex, u64))| {
            objects.iter().any(|(part, bytes)| *part == byte.0 && *bytes == byte.1 + 1).then_some(at as u64 + 1)
        };
        let size = dealt.iter().enumerate().filter_map(end).max().unwrap_or(0);
        prop_assert_eq!(map.file_size_from_objects(&objects), Ok(size));
    }
}
