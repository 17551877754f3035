//! Jobs against the byte-by-byte model: every byte of the request exactly once, in order, at its
//! place.

use crate::model;
use braid_layout::{
    Access, Distribution, Layout, PartSet, Pattern, Request, Unfolded, View, unfold,
};
use braid_types::{ObjectOffset, PartIndex};
use proptest::prelude::*;

/// (stream position in the request, part, object offset) of each byte on the parts.
fn expected(request: &Request, layout: &Layout, parts: &PartSet) -> Vec<(u64, PartIndex, u64)> {
    let stream = model::stream(&request.view, (request.start + request.bytes) as usize);
    let wanted = &stream[request.start as usize..];
    let dealt = model::deal(layout, stream.last().map_or(0, |last| last + 1));
    let bytes = wanted.iter().enumerate().map(|(at, file)| {
        let (part, object) = dealt[*file as usize];
        (at as u64, part, object)
    });
    bytes.filter(|byte| parts.contains(byte.1)).collect()
}

fn bytes_of(access: &Access) -> impl Iterator<Item = (u64, PartIndex, u64)> + use<> {
    let access = *access;
    (0..access.bytes)
        .map(move |i| (access.stream_offset + i, access.part, access.object_offset.0 + i))
}

fn part_set(bits: u64) -> PartSet {
    (0..64).filter(|bit| bits >> bit & 1 == 1).map(PartIndex).collect()
}

proptest! {
    #![proptest_config(model::cases(2000))]

    #[test]
    fn union_of_all_parts_is_the_request_exactly_once_and_in_order(
        layout in model::layout(),
        request in model::request(),
    ) {
        let all = PartSet::first(64);
        let accesses: Vec<_> = unfold(&request, &layout, &all).unwrap().collect();
        let found: Vec<_> = accesses.iter().flat_map(bytes_of).collect();
        prop_assert_eq!(found, expected(&request, &layout, &all));
        prop_assert!(accesses.iter().all(|access| access.packed_offset == access.stream_offset));
    }

    #[test]
    fn any_set_of_parts_gets_its_bytes_and_no_others(
        layout in model::layout(),
        request in model::request(),
        bits: u64,
    ) {
        let set = part_set(bits);
        let accesses: Vec<_> = unfold(&request, &layout, &set).unwrap().collect();
        let found: Vec<_> = accesses.iter().flat_map(bytes_of).collect();
        prop_assert_eq!(found, expected(&request, &layout, &set));
        let mut packed = 0;
        for access in &accesses {
            prop_assert_eq!(access.packed_offset, packed);
            packed += access.bytes;
            let map = layout.map().unwrap();
            let first = map.file_offset(access.part, access.object_offset).unwrap();
            prop_assert_eq!(access.file_offset, first);
        }
    }

    #[test]
    fn each_part_alone_gets_its_bytes_in_as_few_accesses_as_there_are_runs(
        layout in model::layout(),
        request in model::request(),
    ) {
        for (part, _) in layout.placements() {
            let set = PartSet::one(part);
            let expected = expected(&request, &layout, &set);
            let accesses: Vec<_> = unfold(&request, &layout, &set).unwrap().collect();
            let breaks = expected
                .windows(2)
                .filter(|w| w[0].0 + 1 != w[1].0 || w[0].1 != w[1].1 || w[0].2 + 1 != w[1].2)
                .count();
            prop_assert_eq!(accesses.len(), if expected.is_empty() { 0 } else { breaks + 1 });
            prop_assert_eq!(accesses.iter().flat_map(bytes_of).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn packed_accesses_are_the_same_bytes_of_the_objects_in_the_same_order(
        layout in model::layout(),
        request in model::request(),
        bits: u64,
    ) {
        let set = part_set(bits);
        let expected: Vec<_> =
            expected(&request, &layout, &set).iter().map(|byte| (byte.1, byte.2)).collect();
        let accesses: Vec<_> = unfold(&request, &layout, &set).unwrap().packed().collect();
        let breaks =
            expected.windows(2).filter(|w| w[0].0 != w[1].0 || w[0].1 + 1 != w[1].1).count();
        prop_assert_eq!(accesses.len(), if expected.is_empty() { 0 } else { breaks + 1 });
        let found: Vec<_> = accesses
            .iter()
            .flat_map(|access| {
                (0..access.bytes).map(move |i| (access.part, access.object_offset.0 + i))
            })
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_job_that_is_paused_at_any_step_goes_on_where_it_was(
        layout in model::layout(),
        request in model::request(),
        bits: u64,
        slice in 1usize..5,
    ) {
        let set = part_set(bits);
        let whole: Vec<_> = unfold(&request, &layout, &set).unwrap().collect();
        let mut job = unfold(&request, &layout, &set).unwrap();
        let mut found = Vec::new();
        loop {
            let mut steps = slice;
            match job.next_within(&mut steps) {
                Unfolded::Access(access) => found.push(access),
                Unfolded::Paused => prop_assert_eq!(steps, 0),
                Unfolded::End => break,
            }
        }
        prop_assert_eq!(found, whole);
    }

    #[test]
    fn payload_bytes_are_the_bytes_of_the_accesses(
        layout in model::layout(),
        request in model::request(),
        bits: u64,
    ) {
        let set = part_set(bits);
        let payload =
            layout.map().unwrap().payload_bytes(&request, &set, &mut usize::MAX.clone()).unwrap();
        prop_assert_eq!(payload, Some(expected(&request, &layout, &set).len() as u64));
    }

    /// I2: `ceil(payload / window)` requests, and together they are the request.
    #[test]
    fn windows_are_as_few_as_can_be_and_cover_the_payload(
        layout in model::layout(),
        request in model::request(),
        bits: u64,
        window in 1u64..50,
    ) {
        let set = part_set(bits);
        let expected = expected(&request, &layout, &set);
        let windows: Vec<_> =
            layout.map().unwrap().windows(&request, &set, window).unwrap().collect();
        prop_assert_eq!(windows.len(), expected.len().div_ceil(window as usize));
        let mut found = Vec::new();
        for window in &windows {
            let part = Request { start: window.start, bytes: window.bytes, ..request.clone() };
            let shift = window.start - request.start;
            let bytes = unfold(&part, &layout, &set).unwrap().collect::<Vec<_>>();
            prop_assert_eq!(bytes.iter().map(|access| access.bytes).sum::<u64>(), window.payload);
            found.extend(
                bytes.iter().flat_map(bytes_of).map(|byte| (byte.0 + shift, byte.1, byte.2)),
            );
        }
        prop_assert_eq!(found, expected);
    }

    /// Long enough that accesses are replayed from an earlier period, across the ends of
    /// repetitions and components, and split anywhere.
    #[test]
    fn what_comes_again_is_what_walking_finds(
        layout in model::layout(),
        run in 1u64..20,
        gap in 0u64..40,
        count in prop_oneof![1u64..6, 100u64..400],
        (displacement, behind) in (0u64..50, 0u64..30),
        start in 0u64..100,
        bytes in 0u64..6000,
        (bits, slice) in (any::<u64>(), 1usize..200),
    ) {
        let pattern =
            Pattern::Vector { count, stride: run + gap, child: Box::new(Pattern::Bytes(run)) };
        let extent = (count - 1) * (run + gap) + run + behind;
        let request = Request { view: View { displacement, extent, pattern }, start, bytes };
        let set = part_set(bits);
        let (expected, map) = (expected(&request, &layout, &set), layout.map().unwrap());
        let job = unfold(&request, &layout, &set).unwrap();
        for (kind, mut job) in
            [job.clone(), job.clone().packed(), job.by_file()].into_iter().enumerate()
        {
            let mut accesses = Vec::new();
            loop {
                match job.next_within(&mut slice.clone()) {
                    Unfolded::Access(access) => accesses.push(access),
                    Unfolded::Paused => {}
                    Unfolded::End => break,
                }
            }
            let mut packed = 0;
            for access in &accesses {
                prop_assert_eq!(access.packed_offset, packed);
                packed += access.bytes;
                prop_assert_eq!(
                    access.file_offset,
                    map.file_offset(access.part, access.object_offset).unwrap()
                );
            }
            let in_file = |at: usize| {
                map.file_offset(expected[at].1, ObjectOffset(expected[at].2)).unwrap().0
            };
            let is_break = |at: &usize| {
                let (last, next) = (expected[at - 1], expected[*at]);
                let in_object = last.1 == next.1 && last.2 + 1 == next.2;
                let in_stream = kind == 1 || last.0 + 1 == next.0;
                !(in_object && in_stream && (kind != 2 || in_file(at - 1) + 1 == in_file(*at)))
            };
            let breaks = (1..expected.len()).filter(is_break).count();
            prop_assert_eq!(
                accesses.len(),
                if expected.is_empty() { 0 } else { breaks + 1 },
                "{}",
                kind
            );
            let mut found: Vec<_> = accesses.iter().flat_map(bytes_of).collect();
            if kind == 1 {
                // Merged accesses are not contiguous in the stream.
                found.iter_mut().zip(&expected).for_each(|(found, expected)| found.0 = expected.0);
            }
            prop_assert_eq!(&found, &expected, "{}", kind);
        }
    }

    /// Numbers too large for the model: each part alone, with skipping, against all parts together,
    /// without.
    #[test]
    fn skipping_finds_what_walking_finds(
        (distribution, parts) in model::distribution(),
        scale in 1u64..200,
        group in 1u64..60,
        inner in (1u64..60, 0u64..3000),
        outer in (1u64..60, 0u64..30_000),
        displacement in 0u64..5000,
        bits: u64,
    ) {
        let layout = model::over(parts as u32, model::scaled(distribution, scale));
        let child = Pattern::Vector {
            count: inner.0,
            stride: group + inner.1,
            child: Box::new(Pattern::Bytes(group)),
        };
        let extent = inner.0 * (group + inner.1) + outer.1;
        let request = Request {
            view: View { displacement, extent, pattern: child },
            start: group / 2,
            bytes: outer.0 * inner.0 * group,
        };
        let set = part_set(bits);
        let pieces = |set: &PartSet| {
            let accesses = unfold(&request, &layout, set).unwrap();
            accesses.flat_map(|access| bytes_of(&access)).collect::<Vec<_>>()
        };
        let mut walked = pieces(&PartSet::first(64));
        prop_assert_eq!(walked.len() as u64, request.bytes);
        walked.retain(|byte| set.contains(byte.1));
        prop_assert_eq!(pieces(&set), walked);
        let payload =
            layout.map().unwrap().payload_bytes(&request, &set, &mut usize::MAX.clone()).unwrap();
        prop_assert_eq!(payload, Some(pieces(&set).len() as u64));
    }
}

/// Groups of a sixteenth of the stripe, and of a number without a common factor.
#[test]
fn accesses_that_come_again_are_not_walked_to() {
    let layout = model::over(4, Distribution::SimpleStripe { stripe_size: 65_536 });
    let steps = |group: u64, stride: u64| {
        let request =
            Request { view: View::strided(0, group, stride), start: 100, bytes: 64 << 20 };
        let mut job = unfold(&request, &layout, &PartSet::one(PartIndex(2))).unwrap();
        let accesses = job.by_ref().count() as u64;
        (accesses, job.steps_taken())
    };
    let (accesses, walked) = steps(4096, 16_384);
    assert!(accesses == 4096 && walked < 40, "{walked} steps for {accesses} accesses");
    let (accesses, walked) = steps(4099, 16_411);
    assert!(accesses > 4096 && walked > accesses, "{walked} steps for {accesses} accesses");
}
