//! Skipping by arithmetic: counts the steps, even where nothing is hit over 2^50 groups (issue 2,
//! I9).

use crate::model;
use braid_layout::{
    Distribution, Layout, PartSet, Pattern, Request, Strip, Unfold, Unfolded, View, unfold,
};
use braid_types::PartIndex;

const KIB: u64 = 1024;
/// Steps of a job without a hit: its levels, and a few congruences for each.
const STEPS_FOR_NOTHING: u64 = 40;

fn job(view: View, bytes: u64, layout: &Layout, part: u16) -> Unfold {
    let request = Request { view, start: 0, bytes };
    unfold(&request, layout, &PartSet::one(PartIndex(part))).unwrap()
}

fn assert_finds_nothing_at_once(mut job: Unfold) {
    let mut steps = STEPS_FOR_NOTHING as usize;
    assert_eq!(job.next_within(&mut steps), Unfolded::End, "after {} steps", job.steps_taken());
}

fn stripe() -> Layout {
    model::over(4, Distribution::SimpleStripe { stripe_size: 4 * KIB })
}

fn varstrip() -> Layout {
    let strips =
        [(0, 3), (1, 5), (0, 1), (2, 7)].map(|(part, kib)| Strip { part, bytes: kib * KIB });
    model::over(3, Distribution::VarStrip { strips: strips.into() })
}

fn grouped(group_depth: u32) -> Layout {
    model::over(8, Distribution::Grouped { stripe_size: 4 * KIB, group_width: 2, group_depth })
}

#[test]
fn simple_stripe_no_hit_over_2_to_the_50_groups() {
    // Every group lies on part 0: the stride is the round.
    assert_finds_nothing_at_once(job(
        View::strided(0, 1, 16 * KIB - 4 * KIB * 2),
        1 << 49,
        &stripe(),
        1,
    ));
    // 3 KiB + 4 KiB * odd: alternates between parts 0 and 2, reaches neither 1 nor 3.
    for part in [1, 3] {
        assert_finds_nothing_at_once(job(
            View::strided(3 * KIB, KIB, 8 * KIB),
            1 << 60,
            &stripe(),
            part,
        ));
    }
}

#[test]
fn single_no_hit_over_2_to_the_50_groups() {
    let layout = model::over(1, Distribution::Single);
    assert_finds_nothing_at_once(job(View::strided(0, 1, 8), 1 << 50, &layout, 1));
}

#[test]
fn varstrip_no_hit_over_2_to_the_50_groups() {
    // Offset 8 KiB of each 16 KiB cycle: part 0's second strip. Parts 1 and 2 have no byte of it.
    for part in [1, 2] {
        assert_finds_nothing_at_once(job(
            View::strided(8 * KIB, 7, 16 * KIB * 2),
            7 << 45,
            &varstrip(),
            part,
        ));
    }
}

#[test]
fn grouped_no_hit_over_2_to_the_50_groups() {
    // Always column 0 of a group: the stride is the row.
    assert_finds_nothing_at_once(job(View::strided(0, 1, 8 * KIB), 1 << 49, &grouped(1 << 20), 1));
    // Always group 0: the stride is the round.
    let round = 4 * 16 * 8 * KIB;
    assert_finds_nothing_at_once(job(View::strided(0, 1, round), 1 << 43, &grouped(16), 2));
    // Strips 0 2 4 of each round of 6: column 1 is reached in group 1, group 0 in columns 0 and 2,
    // never both.
    let shape = Distribution::Grouped { stripe_size: 4 * KIB, group_width: 3, group_depth: 1 };
    assert_finds_nothing_at_once(job(
        View::strided(0, 1, 8 * KIB),
        1 << 49,
        &model::over(6, shape),
        1,
    ));
}

#[test]
fn two_nested_levels_of_2_to_the_25_with_no_hit() {
    // 2^25 copies of 2^25 groups, strips of 64 bytes: all on parts 0 and 2.
    let nested = |inner: u64, outer: u64| View {
        displacement: 0,
        extent: outer,
        pattern: Pattern::Vector {
            count: 1 << 25,
            stride: inner,
            child: Box::new(Pattern::Bytes(1)),
        },
    };
    let striped = model::over(4, Distribution::SimpleStripe { stripe_size: 64 });
    let grouped =
        |depth| Distribution::Grouped { stripe_size: 64, group_width: 2, group_depth: depth };
    assert_finds_nothing_at_once(job(nested(128, (128 << 25) + 256), 1 << 50, &striped, 1));
    for depth in [1, 1 << 10, 1 << 20] {
        let layout = model::over(8, grouped(depth));
        assert_finds_nothing_at_once(job(nested(128, (128 << 25) + 256), 1 << 50, &layout, 1));
    }
    // Strides that share no factor with the stripes, but too few copies to cover all residues: at
    // worst one search for each outer copy, limited by the budget.
    let mut job = job(nested(256, (256 << 25) + 1), 1 << 50, &striped, 3);
    let mut steps = 1000;
    let first = job.next_within(&mut steps);
    assert!(matches!(first, Unfolded::Paused | Unfolded::Access(_)), "{first:?}");
    assert!(job.steps_taken() < 1000 + STEPS_FOR_NOTHING, "{} steps", job.steps_taken());
}

#[test]
fn a_rare_hit_far_away_is_found_at_once() {
    // Strides of 16 KiB + 1 move one byte per group: part 1 begins 4096 groups later, part 3 12288.
    for (part, groups) in [(1, 4096), (2, 8192), (3, 12288)] {
        let mut job = job(View::strided(0, 1, 16 * KIB + 1), 1 << 40, &stripe(), part);
        let access = job.next().unwrap();
        assert_eq!(access.stream_offset, groups);
        assert!(job.steps_taken() < STEPS_FOR_NOTHING, "{} steps", job.steps_taken());
    }
}

#[test]
fn steps_are_a_few_for_each_access_for_each_distribution() {
    let layouts = [stripe(), model::over(1, Distribution::Single), varstrip(), grouped(16)];
    for layout in layouts {
        for stride in [KIB + 1, 64 * KIB + 8, 1000 * KIB + 1, 16 * KIB - 1] {
            let mut job = job(View::strided(17, 512, stride), 1 << 50, &layout, 0);
            let accesses = job.by_ref().take(2000).count() as u64;
            assert_eq!(accesses, 2000);
            let steps = job.steps_taken();
            assert!(
                steps <= 8 * accesses + STEPS_FOR_NOTHING,
                "{steps} steps, stride {stride}, {:?}",
                layout.components
            );
        }
    }
}

#[test]
fn a_list_costs_no_more_than_its_entries() {
    let extents: Vec<_> =
        (0..16_384).map(|i| braid_layout::Extent { offset: i * 16 * KIB, bytes: 512 }).collect();
    let bytes = 16_384 * 512;
    for part in 0..4 {
        let mut job = job(View::extents(extents.clone()), bytes, &stripe(), part);
        let accesses = job.by_ref().count();
        assert_eq!(accesses, if part == 0 { 16_384 } else { 0 });
        assert!(job.steps_taken() <= 2 * 16_384 + STEPS_FOR_NOTHING, "{} steps", job.steps_taken());
    }
}

#[test]
fn payload_is_counted_without_unfolding() {
    let map = stripe().map().unwrap();
    let one = PartSet::one(PartIndex(1));
    // A contiguous request of 2^60 bytes costs one subtraction.
    let request = Request::contiguous(braid_types::FileOffset(0), 1 << 60);
    assert_eq!(map.payload_bytes(&request, &one, &mut 4), Ok(Some(1 << 58)));
    // 2^50 groups are counted over one period of view and layout.
    let request = Request { view: View::strided(0, 1, 3 * KIB), start: 0, bytes: 3 << 48 };
    assert_eq!(map.payload_bytes(&request, &one, &mut 200), Ok(Some(3 << 46)));
    // Without a common period the steps run out, and the result is `None`.
    let request =
        Request { view: View::strided(0, 1, (16 * KIB + 1) * 1_000_003), start: 0, bytes: 1 << 28 };
    assert_eq!(map.payload_bytes(&request, &one, &mut 1000), Ok(None));
}

/// A list whose hull touches every part, and whose entries never do.
fn beside(offset: u64, extent: u64) -> View {
    let entries =
        [offset, offset + 8 * KIB].map(|offset| braid_layout::Extent { offset, bytes: 1 });
    View { displacement: 0, extent, pattern: Pattern::Extents(entries.into()) }
}

#[test]
fn a_list_that_lies_beside_the_parts_is_searched_for_one_common_period() {
    let two = model::over(2, Distribution::SimpleStripe { stripe_size: 4 * KIB });
    assert_finds_nothing_at_once(job(beside(0, 16 * KIB), 1 << 48, &two, 1));
    // The last byte of a strip, and an extent of three rounds.
    assert_finds_nothing_at_once(job(beside(4 * KIB - 1, 24 * KIB), 1 << 48, &two, 1));
    // The same list, repeated between other bytes: the inner level is searched once for each outer
    // copy.
    let inner = Pattern::Vector {
        count: 1 << 40,
        stride: 16 * KIB,
        child: Box::new(beside(0, 16 * KIB).pattern),
    };
    let nested = View { displacement: 0, extent: 1 << 60, pattern: inner };
    assert_finds_nothing_at_once(job(nested, 1 << 42, &two, 1));
}

proptest::proptest! {
    #![proptest_config(model::cases(2000))]

    /// Extents and rounds with many common periods, in components that end somewhere.
    #[test]
    fn what_is_left_out_after_a_common_period_has_no_hit(
        stripe in 1u64..5, parts in 1u32..5, part in 0u16..5, second in 0u64..300,
        displacement in 0u64..20, entries in proptest::collection::btree_set(0u64..12, 1..4),
        extent in 1u64..5, start in 0u64..20, bytes in 1u64..150,
    ) {
        use braid_types::FileOffset;
        let mut layout = model::over(parts, Distribution::SimpleStripe { stripe_size: stripe });
        if second > 0 {
            let mut further = layout.components[0].clone();
            (layout.components[0].end, further.start) = (FileOffset(second), FileOffset(second));
            further.distribution = Distribution::SimpleStripe { stripe_size: stripe + 1 };
            layout.components.push(further);
        }
        let extent_at = |offset| braid_layout::Extent { offset, bytes: 1 };
        let list = entries.into_iter().map(extent_at).collect();
        let view = View { displacement, extent: extent * 12, pattern: Pattern::Extents(list) };
        let stream = model::stream(&view, (start + bytes) as usize);
        let dealt = model::deal(&layout, stream.last().unwrap() + 1);
        let expected: Vec<_> = (start..start + bytes)
            .map(|at| (at - start, dealt[stream[at as usize] as usize]))
            .filter(|(_, (on, _))| *on == PartIndex(part))
            .map(|(at, (_, offset))| (at, offset))
            .collect();
        let request = Request { view, start, bytes };
        let bytes_of = |access: braid_layout::Access| {
            let (stream, object) = (access.stream_offset, access.object_offset.0);
            (0..access.bytes).map(move |i| (stream + i, object + i))
        };
        let found: Vec<_> = unfold(&request, &layout, &PartSet::one(PartIndex(part)))
            .unwrap()
            .flat_map(bytes_of)
            .collect();
        proptest::prop_assert_eq!(found, expected);
    }
}
