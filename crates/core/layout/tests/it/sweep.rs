//! The union of requests against the byte-by-byte model.

use crate::model;
use std::collections::BTreeMap;

use braid_layout::{Layout, NextExtent, ObjectExtent, PartSet, Request, RequestUnion};
use braid_types::PartIndex;
use proptest::prelude::*;

/// File offset -> (part, object offset, how many requests want it), of the parts and below `end`.
fn wanted(
    requests: &[Request],
    layout: &Layout,
    parts: &PartSet,
    end: u64,
) -> BTreeMap<u64, (PartIndex, u64, usize)> {
    let mut wanted = BTreeMap::new();
    for request in requests {
        let stream = model::stream(&request.view, (request.start + request.bytes) as usize);
        let dealt = model::deal(layout, stream.last().map_or(0, |last| last + 1));
        for file in &stream[request.start as usize..] {
            let (part, object) = dealt[*file as usize];
            if parts.contains(part) && *file < end {
                wanted.entry(*file).or_insert((part, object, 0)).2 += 1;
            }
        }
    }
    wanted
}

/// All extents, computed a few steps at a time, each with the known overlaps after it.
fn extents_of(
    union: &mut RequestUnion,
    bytes_max: u64,
    steps: usize,
) -> Vec<(ObjectExtent, u64, bool)> {
    let mut runs = Vec::new();
    loop {
        match union.next_within(bytes_max, &mut steps.clone()) {
            NextExtent::Extent(run) => runs.push((run, union.position(), union.take_overlaps())),
            NextExtent::Paused => {}
            NextExtent::End => return runs,
        }
    }
}

proptest! {
    #![proptest_config(model::cases(1000))]

    #[test]
    fn a_union_has_each_byte_once_in_file_order_and_knows_every_overlap(
        layout in model::layout(),
        requests in proptest::collection::vec(model::request(), 0..5),
        bits: u64,
        bytes_max in 1u64..40,
        steps in 1usize..9,
        end in prop_oneof![Just(u64::MAX), 0u64..300],
    ) {
        let parts: PartSet = (0..64).filter(|bit| bits >> bit & 1 == 1).map(PartIndex).collect();
        let wanted = wanted(&requests, &layout, &parts, end);
        let mut union = layout.map().unwrap().union_of(&requests, &parts, end).unwrap();
        let runs = extents_of(&mut union, bytes_max, steps);
        let bytes = runs.iter().flat_map(|(run, ..)| {
            let run = *run;
            (0..run.bytes)
                .map(move |at| (run.file_offset.0 + at, (run.part, run.object_offset.0 + at)))
        });
        let bytes: Vec<_> = bytes.collect();
        let model: Vec<_> =
            wanted.iter().map(|(file, (part, object, _))| (*file, (*part, *object))).collect();
        prop_assert_eq!(bytes, model);
        for (run, position, overlaps) in &runs {
            prop_assert!(run.bytes <= bytes_max);
            prop_assert_eq!(*position, run.file_offset.0 + run.bytes);
            let several =
                wanted.range(run.file_offset.0..*position).any(|(_, (_, _, times))| *times > 1);
            prop_assert!(*overlaps || !several, "an overlap in {run:?} was not reported");
        }
        for request in 0..requests.len() {
            prop_assert!(!union.has_more(request));
        }
    }

    #[test]
    fn requests_that_share_no_byte_are_not_said_to_overlap(
        layout in model::layout(),
        groups in proptest::collection::vec(1u64..9, 1..5),
        rounds in 1u64..9,
        bytes_max in 1u64..40,
    ) {
        let stride: u64 = groups.iter().sum();
        let mut offset = 0;
        let requests: Vec<Request> = groups
            .iter()
            .map(|group| {
                offset += group;
                Request {
                    view: braid_layout::View::strided(offset - group, *group, stride),
                    start: 0,
                    bytes: group * rounds,
                }
            })
            .collect();
        let mut union =
            layout.map().unwrap().union_of(&requests, &PartSet::first(64), u64::MAX).unwrap();
        prop_assert!(extents_of(&mut union, bytes_max, 100).iter().all(|(.., overlaps)| !overlaps));
    }
}
