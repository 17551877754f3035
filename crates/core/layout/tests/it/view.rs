//! Stream positions and file offsets, in both directions, against the model; the 1996 paper's
//! formulas and examples.

use crate::model;
use braid_layout::{Extent, Pattern, Request, View};
use braid_types::FileOffset;
use proptest::prelude::*;

/// The parameters that the 1996 paper's library sends to each I/O node (2.2.3, figure 5). All are
/// in bytes, except `count`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PaperParameters {
    /// File location of the request's first byte.
    offset: FileOffset,
    /// Bytes before the first whole block; 0 when the request begins on a block boundary.
    first_partial: u64,
    /// Bytes in one block.
    group_size: u64,
    /// Distance between the starts of blocks.
    stride: u64,
    /// Whole blocks.
    count: u64,
    /// Bytes after the last whole block.
    last_partial: u64,
}

impl PaperParameters {
    /// `None` unless the view has the paper's simple form: one group in each stride.
    fn of(request: &Request) -> Option<Self> {
        let Pattern::Bytes(group_size) = request.view.pattern else { return None };
        let offset = request.view.map().unwrap().file_offset(request.start).unwrap();
        let first_partial = match request.start % group_size {
            0 => 0,
            past => (group_size - past).min(request.bytes),
        };
        let rest = request.bytes - first_partial;
        let (count, last_partial) = (rest / group_size, rest % group_size);
        let stride = request.view.extent;
        Some(Self { offset, first_partial, group_size, stride, count, last_partial })
    }
}

proptest! {
    #![proptest_config(model::cases(1000))]

    #[test]
    fn stream_to_file_to_stream_is_the_identity(view in model::view()) {
        let map = view.map().unwrap();
        for (position, offset) in model::stream(&view, 300).into_iter().enumerate() {
            prop_assert_eq!(map.file_offset(position as u64), Ok(FileOffset(offset)));
            prop_assert_eq!(map.position(FileOffset(offset)), Some(position as u64));
        }
    }

    #[test]
    fn every_offset_knows_how_much_of_the_stream_is_before_it(view in model::view()) {
        let map = view.map().unwrap();
        let stream = model::stream(&view, 300);
        for offset in 0..*stream.last().unwrap() {
            let before = stream.partition_point(|seen| *seen < offset);
            prop_assert_eq!(map.bytes_before(FileOffset(offset)), before as u64);
            prop_assert_eq!(map.position(FileOffset(offset)).is_some(), stream[before] == offset);
        }
    }

    #[test]
    fn the_next_byte_seen_is_the_first_of_the_stream_at_or_after_an_offset(view in model::view()) {
        let map = view.map().unwrap();
        let stream = model::stream(&view, 300);
        for offset in 0..*stream.last().unwrap() {
            let next = stream.partition_point(|seen| *seen < offset);
            prop_assert_eq!(
                map.next_visible(FileOffset(offset)),
                Some((next as u64, FileOffset(stream[next])))
            );
        }
    }

    #[test]
    fn a_byte_of_one_view_is_found_in_another_if_that_shows_it(
        one in model::view(),
        other in model::view(),
    ) {
        let (from, to) = (one.map().unwrap(), other.map().unwrap());
        let (stream, others) = (model::stream(&one, 200), model::stream(&other, 1500));
        for (position, offset) in
            stream.into_iter().enumerate().filter(|(_, offset)| offset < others.last().unwrap())
        {
            let expected = others.binary_search(&offset).ok().map(|at| at as u64);
            prop_assert_eq!(from.position_in(position as u64, &to), Ok(expected));
        }
    }

    #[test]
    fn the_extents_of_a_request_are_its_bytes_in_the_longest_runs(request in model::request()) {
        let extents: Vec<Extent> = request.extents().unwrap().collect();
        let bytes: Vec<u64> =
            extents.iter().flat_map(|extent| extent.offset..extent.offset + extent.bytes).collect();
        let stream = model::stream(&request.view, (request.start + request.bytes) as usize);
        prop_assert_eq!(&bytes[..], &stream[request.start as usize..]);
        prop_assert!(
            extents.windows(2).all(|pair| pair[0].offset + pair[0].bytes < pair[1].offset)
        );
    }

    /// 1996 paper, 2.2.2: fl = o + (pl / g) * s + pl mod g, and the inverse.
    #[test]
    fn strided_view_obeys_the_formulas_of_the_paper(
        o in 0u64..1 << 40,
        g in 1u64..1 << 20,
        gap in 0u64..1 << 20,
        pl in 0u64..1 << 40,
    ) {
        let s = g + gap;
        let map = View::strided(o, g, s).map().unwrap();
        let fl = o + pl / g * s + pl % g;
        prop_assert_eq!(map.file_offset(pl), Ok(FileOffset(fl)));
        prop_assert_eq!((fl - o) / s * g + (fl - o) % s, pl);
        prop_assert_eq!(map.position(FileOffset(fl)), Some(pl));
    }

    /// 1996 paper, 2.2.3: first partial block, count whole blocks, last partial block.
    #[test]
    fn paper_parameters_add_up_and_lie_where_the_stream_does(
        g in 1u64..50,
        gap in 0u64..50,
        o in 0u64..100,
        start in 0u64..500,
        bytes in 0u64..500,
    ) {
        let request = Request { view: View::strided(o, g, g + gap), start, bytes };
        let p = PaperParameters::of(&request).unwrap();
        prop_assert_eq!(p.first_partial + p.count * p.group_size + p.last_partial, bytes);
        prop_assert!(p.first_partial < g && p.last_partial < g);
        let mut blocks = Vec::new();
        let mut at = p.offset.0;
        if p.first_partial > 0 {
            blocks.extend(at..at + p.first_partial);
            at = o + (start / g + 1) * p.stride;
        }
        for _ in 0..p.count {
            blocks.extend(at..at + p.group_size);
            at += p.stride;
        }
        blocks.extend(at..at + p.last_partial);
        let stream = model::stream(&request.view, (start + bytes) as usize);
        prop_assert_eq!(&blocks[..], &stream[start as usize..]);
    }
}

#[test]
fn paper_parameters_of_a_request_inside_one_block() {
    let request = Request { view: View::strided(0, 100, 1000), start: 130, bytes: 20 };
    let p = PaperParameters::of(&request).unwrap();
    assert_eq!((p.offset.0, p.first_partial, p.count, p.last_partial), (1030, 20, 0, 0));
}

#[test]
fn a_nested_view_has_no_paper_parameters() {
    let request = Request { view: View::vector(0, 2, 4, 10, 30), start: 0, bytes: 8 };
    assert_eq!(PaperParameters::of(&request), None);
}

/// The paper's figure 4 in numbers: three tasks that share rows of a matrix see all of it, once.
#[test]
fn interleaved_partitions_of_all_tasks_are_the_file() {
    let (tasks, group) = (3, 16);
    let mut seen: Vec<_> = (0..tasks)
        .flat_map(|task| model::stream(&View::strided(task * group, group, tasks * group), 160))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..480).collect::<Vec<_>>());
}

#[test]
fn whole_view_is_the_file_up_to_the_largest() {
    let map = View::whole().map().unwrap();
    assert!(map.is_contiguous());
    for offset in [0, 1, 1 << 40, i64::MAX as u64] {
        assert_eq!(map.file_offset(offset), Ok(FileOffset(offset)));
        assert_eq!(map.position(FileOffset(offset)), Some(offset));
    }
}

#[test]
fn what_is_contiguous_is_known_as_contiguous() {
    let rows = Pattern::Vector { count: 4, stride: 10, child: Box::new(Pattern::Bytes(10)) };
    let list =
        Pattern::Extents([0, 10, 30].map(|offset| Extent { offset, bytes: offset.max(10) }).into());
    assert!(View { displacement: 7, extent: 40, pattern: rows }.map().unwrap().is_contiguous());
    assert!(!View { displacement: 0, extent: 60, pattern: list }.map().unwrap().is_contiguous());
    let full = View::subarray(0, &[8, 4, 6], &[8, 4, 6], &[0, 0, 0], 8).unwrap();
    assert!(full.map().unwrap().is_contiguous(), "the whole array is the file");
}

#[test]
fn subarray_is_the_block_of_the_array() {
    let (sizes, block, starts, element) = ([3u64, 4, 5], [2u64, 2, 3], [1u64, 0, 2], 2);
    let view = View::subarray(100, &sizes, &block, &starts, element).unwrap();
    let mut expected = Vec::new();
    for (x, y) in (1..3).flat_map(|x| (0..2).map(move |y| (x, y))) {
        let first = 100 + ((x * sizes[1] + y) * sizes[2] + starts[2]) * element;
        expected.extend(first..first + block[2] * element);
    }
    assert_eq!(model::stream(&view, expected.len()), expected);
    let again: Vec<_> = expected.iter().map(|at| at + 3 * 4 * 5 * element).collect();
    assert_eq!(
        model::stream(&view, 2 * again.len())[again.len()..],
        again,
        "and again in the next array"
    );
}

#[test]
fn list_request_wants_all_its_bytes() {
    let request = Request::list([Extent { offset: 5, bytes: 3 }, Extent { offset: 100, bytes: 7 }]);
    assert_eq!(request.bytes, 10);
    assert_eq!(model::stream(&request.view, 10), [5, 6, 7, 100, 101, 102, 103, 104, 105, 106]);
}

#[test]
fn past_the_64_bit_edge_no_byte_is_seen() {
    let map = View::strided(10, 4, 1 << 62).map().unwrap();
    assert_eq!(map.next_visible(FileOffset(0)), Some((0, FileOffset(10))));
    assert_eq!(map.next_visible(FileOffset(14)), Some((4, FileOffset((1 << 62) + 10))));
    assert_eq!(map.next_visible(FileOffset(u64::MAX)), None);
    assert!(map.position_in(u64::MAX, &map).is_err());
}
