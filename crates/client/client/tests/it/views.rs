//! Many overlapping views on open files, compared with a model in one vector of bytes; and the size
//! of their requests.

use std::io::IoSliceMut;

use crate::fake::Fake;
use braid_client::{
    BlockCyclicDimension, Extent, FileView, OpenOptions, Pattern, Status, View, asynchronous::File,
};
use braid_net::block_on;
use braid_types::IodId;
use braid_wire::{Call, message::iod};
use proptest::prelude::*;

fn open(fake: &Fake) -> File<Fake> {
    let options = OpenOptions::new().read(true).write(true).create(true);
    block_on(fake.client().open("/f", &options)).unwrap()
}

/// The file offsets of the first `bytes` bytes of a view.
fn stream(view: &View, bytes: usize) -> Vec<u64> {
    let pattern = expand(&view.pattern);
    let copies = (0..).map(|copy| view.displacement + copy * view.extent);
    copies.flat_map(|at| pattern.iter().map(move |offset| at + offset)).take(bytes).collect()
}

fn expand(pattern: &Pattern) -> Vec<u64> {
    match pattern {
        Pattern::Bytes(bytes) => (0..*bytes.min(&(1 << 18))).collect(),
        Pattern::Vector { count, stride, child } => {
            let child = expand(child);
            (0..*count)
                .flat_map(|copy| child.iter().map(move |at| copy * stride + at).collect::<Vec<_>>())
                .collect()
        }
        Pattern::Struct(entries) => entries
            .iter()
            .flat_map(|(offset, child)| expand(child).into_iter().map(move |at| offset + at))
            .collect(),
        Pattern::Extents(extents) => {
            extents.iter().flat_map(|extent| extent.offset..extent.offset + extent.bytes).collect()
        }
        other => panic!("no model for {other:?}"),
    }
}

fn views() -> impl Strategy<Value = View> {
    let list = prop::collection::vec((0u64..3000, 1u64..3000), 1..8).prop_map(|gaps| {
        let mut end = 0;
        let extents = gaps.into_iter().map(|(gap, bytes)| {
            let offset = end + gap;
            end = offset + bytes;
            Extent { offset, bytes }
        });
        let extents: Vec<Extent> = extents.collect();
        View { displacement: 7, extent: end + 100, pattern: Pattern::Extents(extents) }
    });
    let dealt = (1u64..9, 1u64..4, 1u64..4).prop_map(|(size, block, tasks)| BlockCyclicDimension {
        size,
        block,
        tasks,
        task: 0,
    });
    prop_oneof![
        Just(View::whole()),
        (0u64..9000, 1u64..5000, 0u64..9000).prop_map(|(offset, group, gap)| View::strided(
            offset,
            group,
            group + gap
        )),
        (0u64..9000, 1u64..5, 1u64..2000, 0u64..2000).prop_map(
            |(displacement, count, block, gap)| {
                View::vector(displacement, count, block, block + gap, count * (block + gap) + 5000)
            }
        ),
        (0u64..4, 0u64..4, 1u64..600).prop_map(|(row, column, element)| {
            View::subarray(100, &[6, 6], &[6 - row, 2], &[row, column], element).unwrap()
        }),
        (prop::collection::vec(dealt, 1..4), 1u64..200)
            .prop_map(|(dims, element)| View::block_cyclic(9, &dims, element).unwrap()),
        list,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn overlapping_views_of_one_file_behave_like_a_plain_file(
        views in prop::collection::vec(views(), 1..7),
        steps in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<bool>(), 0u64..20_000, 0usize..20_000), 1..20
        ),
    ) {
        let file = open(&Fake::striped());
        let handles: Vec<File<Fake>> =
            views.iter().map(|view| file.with_view(view.clone()).unwrap()).collect();
        let mut model: Vec<u8> = Vec::new();
        for (turn, (which, is_write, start, bytes)) in steps.into_iter().enumerate() {
            let (view, handle) = (which.get(&views), which.get(&handles));
            let offsets = stream(view, start as usize + bytes).split_off(start as usize);
            if is_write {
                let data: Vec<u8> = (0..bytes).map(|at| (at * 7 + turn * 31) as u8 | 1).collect();
                prop_assert_eq!(block_on(handle.write_at(&data, start)).unwrap(), bytes);
                let end = offsets.last().map_or(0, |last| *last as usize + 1);
                model.resize(model.len().max(end), 0);
                for (offset, byte) in offsets.iter().zip(&data) {
                    model[*offset as usize] = *byte;
                }
            } else {
                let mut buffer = vec![0xee; bytes];
                let got = block_on(handle.read_at(&mut buffer, start)).unwrap();
                let expected: Vec<u8> =
                    offsets.iter().map_while(|at| model.get(*at as usize)).copied().collect();
                let shown = format!("{bytes} bytes of {view:?} from {start}");
                prop_assert!(buffer[..got] == expected, "{}", shown);
            }
        }
        let mut whole = vec![0xee; model.len() + 1];
        let got = block_on(file.read_at(&mut whole, 0)).unwrap();
        prop_assert!(whole[..got] == model);
    }

    #[test]
    fn positions_lead_to_the_file_and_back_and_to_other_views(
        one in views(), other in views(), start in 0u64..5000
    ) {
        let from = FileView::new(one.clone()).unwrap();
        let to = FileView::new(other.clone()).unwrap();
        // As far as the model goes for a view of the whole file.
        let others: Vec<u64> =
            stream(&other, 300_000).into_iter().take_while(|offset| *offset < 1 << 32).collect();
        let places = (0u64..).zip(stream(&one, start as usize + 200));
        for (position, offset) in places.skip(start as usize) {
            prop_assert_eq!(from.file_offset(position).unwrap(), offset);
            prop_assert_eq!(from.position(offset), Some(position));
            if offset < *others.last().unwrap() {
                let next = others.partition_point(|seen| *seen < offset);
                prop_assert_eq!(to.next_visible(offset), Some((next as u64, others[next])));
                let expected = (others[next] == offset).then_some(next as u64);
                prop_assert_eq!(from.position_in(position, &to).unwrap(), expected);
            }
        }
        let extents = from.extents(start, 1000).unwrap();
        let bytes: Vec<u64> =
            extents.flat_map(|extent| extent.offset..extent.offset + extent.bytes).collect();
        prop_assert_eq!(bytes, stream(&one, start as usize + 1000).split_off(start as usize));
    }
}

#[test]
fn no_view_leads_past_the_largest_file() {
    let view = FileView::new(View::strided(10, 4, 1 << 62)).unwrap();
    assert_eq!(view.file_offset(7).unwrap(), (1 << 62) + 13);
    assert_eq!(view.file_offset(8).unwrap_err().status(), Status::TooLarge);
    assert_eq!(view.next_visible((1 << 62) + 14), None);
    assert_eq!(view.position(u64::MAX), None);
    assert_eq!(
        view.extents(6, 100).unwrap().collect::<Vec<_>>(),
        [Extent { offset: (1 << 62) + 12, bytes: 2 }]
    );
}

/// The size of the longest request of a read and a write through a view, when the capability is
/// known already.
fn longest_request(view: View, bytes: usize) -> usize {
    let fake = Fake::striped();
    let file = open(&fake).with_view(view).unwrap();
    let data: Vec<u8> = (0..bytes).map(|at| (at / 3) as u8 | 1).collect();
    block_on(file.write_at(&data, 0)).unwrap();
    fake.cluster().request_bytes.clear();
    block_on(file.write_at(&data, 0)).unwrap();
    let mut buffer = vec![0; bytes];
    assert_eq!(block_on(file.read_at(&mut buffer, 0)).unwrap(), bytes);
    assert!(buffer == data);
    let cluster = fake.cluster();
    for op in [iod::Read::OP, iod::Write::OP] {
        assert!(cluster.request_bytes.iter().any(|(of, _)| *of == op));
        for iod in (1..=3).map(IodId) {
            assert!(cluster.requests_to(iod, op) <= 2, "I2: one for each call at most");
        }
    }
    cluster.request_bytes.iter().map(|(_, bytes)| *bytes).max().unwrap()
}

/// The largest request for a view without explicit lists.
const FORMULA_BYTES_MAX: usize = 250;

/// The request of `count` blocks, for 1, 100 and 10,000 of them.
fn does_not_grow(shape: &str, view: impl Fn(u64) -> View) {
    let bytes = |count: u64| view(count).pattern.bytes().unwrap() as usize;
    let [one, hundred, many] =
        [1, 100, 10_000].map(|count| longest_request(view(count), bytes(count)));
    assert_eq!(hundred, many, "{shape}");
    assert!(
        one <= many && many <= FORMULA_BYTES_MAX,
        "{shape}: {one} bytes for one block, {many} for many"
    );
}

#[test]
fn a_vector_travels_as_its_formula() {
    does_not_grow("vector", |count| View::vector(100, count, 64, 200, count * 200 + 50));
}

#[test]
fn a_nested_subarray_travels_as_its_formula() {
    does_not_grow("rows of a matrix", |count| {
        View::subarray(0, &[count, 40], &[count, 10], &[0, 7], 8).unwrap()
    });
    does_not_grow("a box of 4 dimensions", |count| {
        View::subarray(64, &[count, 4, 6, 8], &[count, 2, 3, 4], &[0, 1, 2, 3], 3).unwrap()
    });
}

#[test]
fn a_block_cyclic_array_travels_as_its_formula() {
    does_not_grow("rows", |count| {
        let rows = BlockCyclicDimension { size: 6 * count, block: 2, tasks: 3, task: 1 };
        View::block_cyclic(0, &[rows, BlockCyclicDimension::whole(16)], 4).unwrap()
    });
    does_not_grow("rows and columns, the last blocks uneven", |count| {
        let rows = BlockCyclicDimension { size: 6 * count + 1, block: 2, tasks: 3, task: 0 };
        View::block_cyclic(
            0,
            &[rows, BlockCyclicDimension { size: 17, block: 3, tasks: 2, task: 1 }],
            4,
        )
        .unwrap()
    });
}

#[test]
fn a_regular_list_travels_as_its_formula() {
    let longest = |count: u64| {
        let fake = Fake::striped();
        let file = open(&fake);
        let bytes = 40 * count as usize - 3;
        let list: Vec<Extent> = (0..count)
            .map(|at| Extent { offset: 500 + at * 130, bytes: 40 - 3 * (at / (count - 1)) })
            .collect();
        block_on(file.write_at(&vec![5; 130 * count as usize + 500], 0)).unwrap();
        let mut buffer = vec![0; bytes];
        block_on(file.read_at(&mut buffer[..10], 0)).unwrap();
        fake.cluster().exchanges.clear();
        fake.cluster().request_bytes.clear();
        assert_eq!(
            block_on(file.read_list(&list, &mut [IoSliceMut::new(&mut buffer)])).unwrap(),
            bytes
        );
        assert!(buffer.iter().all(|byte| *byte == 5));
        let cluster = fake.cluster();
        for iod in (1..=3).map(IodId) {
            assert_eq!(
                cluster.requests_to(iod, iod::Read::OP),
                1,
                "also past what one message holds"
            );
        }
        cluster.request_bytes.iter().map(|(_, bytes)| *bytes).max().unwrap()
    };
    assert_eq!(longest(100), longest(40_000));
    assert!(longest(100) <= FORMULA_BYTES_MAX);
}
