//! Identical placement of two ranges, against every single byte.

use braid_layout::{Distribution, Layout, Strip};
use braid_types::{FileOffset, IodId, PartIndex};
use proptest::prelude::*;

fn distribution() -> impl Strategy<Value = Distribution> {
    let strip = |(part, bytes)| Strip { part, bytes };
    prop_oneof![
        4 => prop::sample::select(vec![4_u64, 8])
            .prop_map(|stripe_size| Distribution::SimpleStripe { stripe_size }),
        1 => Just(Distribution::Single),
        1 => Just(Distribution::VarStrip { strips: [(0, 3), (1, 5)].map(strip).to_vec() }),
        1 => Just(Distribution::Grouped { stripe_size: 4, group_width: 1, group_depth: 2 }),
    ]
}

fn layout() -> impl Strategy<Value = Layout> {
    (distribution(), prop::collection::vec(1..4_u32, 2..4), 0..2_u16).prop_map(
        |(distribution, iods, first_part)| {
            let mut layout = Layout::one(distribution, iods.into_iter().map(IodId));
            layout.components[0].first_part = first_part;
            layout
        },
    )
}

/// The location of each byte of a range.
fn bytes(layout: &Layout, from: u64) -> Vec<(IodId, PartIndex, u64)> {
    let map = layout.map().unwrap();
    let at = |offset| {
        let found = map.locate(FileOffset(offset)).unwrap();
        (layout.placement(found.part).unwrap().iods[0], found.part, found.object_offset.0)
    };
    (from..from + 100).map(at).collect()
}

proptest! {
    #[test]
    fn identical_placement_means_the_same_daemons_and_matching_objects(
        mine in layout(),
        theirs in layout(),
        same in any::<bool>(),
        from in 0..40_u64,
        to in 0..40_u64,
    ) {
        let theirs = if same { mine.clone() } else { theirs };
        prop_assume!(mine.map().is_ok() && theirs.map().is_ok());
        if mine.has_identical_placement(from, &theirs, to) {
            let mut delta = std::collections::BTreeMap::new();
            for (a, b) in bytes(&mine, from).into_iter().zip(bytes(&theirs, to)) {
                prop_assert_eq!(a.0, b.0);
                let shift = (b.1, b.2 as i64 - a.2 as i64);
                prop_assert_eq!(*delta.entry(a.1).or_insert(shift), shift, "of part {:?}", a.1);
            }
        } else {
            prop_assert!(!(same && from == to), "a range lies as itself");
        }
    }
}
