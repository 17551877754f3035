//! Block-cyclic arrays against the definition: the owner of each element.

use crate::model;
use braid_layout::{BlockCyclicDimension, LayoutError, Pattern, View};
use proptest::prelude::*;

/// MPI-4.1 5.1.4: index `i` of a dimension is in block `i / block`, which belongs to task `i /
/// block mod tasks`.
fn owns(dealt: &BlockCyclicDimension, index: u64) -> bool {
    index / dealt.block % dealt.tasks == dealt.task
}

/// File offsets of a task's bytes of one array, in order.
fn expected(displacement: u64, dimensions: &[BlockCyclicDimension], element: u64) -> Vec<u64> {
    let elements: u64 = dimensions.iter().map(|dealt| dealt.size).product();
    let is_own = |at: &u64| {
        let mut rest = *at;
        dimensions.iter().rev().all(|dealt| {
            let index = rest % dealt.size;
            rest /= dealt.size;
            owns(dealt, index)
        })
    };
    (0..elements)
        .filter(is_own)
        .flat_map(|at| (0..element).map(move |byte| displacement + at * element + byte))
        .collect()
}

fn dealt() -> impl Strategy<Value = BlockCyclicDimension> {
    prop_oneof![
        (1u64..10, 1u64..6, 1u64..5)
            .prop_flat_map(|(size, block, tasks)| (Just((size, block, tasks)), 0..tasks))
            .prop_map(|((size, block, tasks), task)| BlockCyclicDimension {
                size,
                block,
                tasks,
                task
            }),
        (1u64..10, 1u64..5)
            .prop_flat_map(|(size, tasks)| (Just((size, tasks)), 0..tasks))
            .prop_map(|((size, tasks), task)| BlockCyclicDimension::block(size, tasks, task)),
        (1u64..10).prop_map(BlockCyclicDimension::whole),
    ]
}

proptest! {
    #![proptest_config(model::cases(1000))]

    #[test]
    fn a_task_sees_its_elements_and_no_others(
        dimensions in proptest::collection::vec(dealt(), 1..4),
        element in 1u64..5,
        displacement in 0u64..50,
    ) {
        let expected = expected(displacement, &dimensions, element);
        match View::block_cyclic(displacement, &dimensions, element) {
            Err(error) => {
                prop_assert_eq!(error, LayoutError::EmptyPattern);
                prop_assert_eq!(expected, [0u64; 0]);
            }
            Ok(view) => {
                prop_assert_eq!(view.pattern.bytes(), Some(expected.len() as u64));
                let array: u64 =
                    element * dimensions.iter().map(|dealt| dealt.size).product::<u64>();
                let again = expected.iter().map(|at| at + array);
                let both: Vec<u64> = expected.iter().copied().chain(again).collect();
                prop_assert_eq!(
                    model::stream(&view, both.len()),
                    both,
                    "and again in the next array"
                );
            }
        }
    }

    #[test]
    fn all_tasks_together_see_every_element_once(
        sizes in proptest::collection::vec((1u64..9, 1u64..4, 1u64..4), 1..3),
        element in 1u64..4,
    ) {
        let mut tasks = vec![vec![]];
        for (size, block, count) in &sizes {
            tasks = tasks
                .into_iter()
                .flat_map(|chosen: Vec<BlockCyclicDimension>| {
                    (0..*count).map(move |task| {
                        let (size, block, tasks) = (*size, *block, *count);
                        let dimension = BlockCyclicDimension { size, block, tasks, task };
                        [&chosen[..], &[dimension]].concat()
                    })
                })
                .collect();
        }
        let views =
            tasks.iter().filter_map(|dimensions| View::block_cyclic(0, dimensions, element).ok());
        let mut seen: Vec<u64> = views
            .flat_map(|view| {
                let bytes = view.pattern.bytes().unwrap();
                model::stream(&view, bytes as usize)
            })
            .collect();
        seen.sort_unstable();
        let bytes = element * sizes.iter().map(|(size, ..)| size).product::<u64>();
        prop_assert_eq!(seen, (0..bytes).collect::<Vec<_>>());
    }

    /// I3: every question gets an answer or an error.
    #[test]
    fn no_numbers_panic(
        numbers in proptest::collection::vec(any::<(u64, u64, u64, u64)>(), 0..6),
        element in any::<u64>(),
        displacement in any::<u64>(),
    ) {
        let dimensions: Vec<BlockCyclicDimension> = numbers
            .into_iter()
            .map(|(size, block, tasks, task)| BlockCyclicDimension { size, block, tasks, task })
            .collect();
        if let Ok(view) = View::block_cyclic(displacement, &dimensions, element) {
            prop_assert!(view.validate().is_ok());
        }
    }
}

#[test]
fn what_is_contiguous_is_one_run() {
    let view = View::block_cyclic(
        0,
        &[
            BlockCyclicDimension::block(100, 4, 2),
            BlockCyclicDimension::whole(50),
            BlockCyclicDimension::whole(3),
        ],
        8,
    )
    .unwrap();
    assert_eq!(
        view,
        View {
            displacement: 50 * 50 * 3 * 8,
            extent: 100 * 50 * 3 * 8,
            pattern: Pattern::Bytes(25 * 50 * 3 * 8)
        }
    );
}

#[test]
fn dimensions_that_make_no_sense_are_refused() {
    for (size, block, tasks, task) in [(0, 1, 1, 0), (1, 0, 1, 0), (1, 1, 0, 0), (9, 1, 3, 3)] {
        let dealt = BlockCyclicDimension { size, block, tasks, task };
        assert_eq!(View::block_cyclic(0, &[dealt], 1), Err(LayoutError::BlockCyclic), "{dealt:?}");
    }
    assert_eq!(
        View::block_cyclic(0, &[BlockCyclicDimension::whole(2); 16], 1),
        Err(LayoutError::TooDeep { max: 16 })
    );
}
