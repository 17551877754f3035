//! Both stores with the same random calls give the same results.

use crate::conformance::harness::{Harness, bytes, id, new};
use braid_store::{ObjectStore, SizeChange};
use braid_types::{ObjectOffset, SizeGeneration, Status};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Call {
    Write { file: u64, offset: u64, length: usize, fill: u8, generation: u64 },
    Truncate { file: u64, length: u64, generation: u64 },
    Punch { file: u64, offset: u64, length: u64, generation: u64 },
    Flush { file: u64 },
    Delete { file: u64 },
    Restart,
}

fn any_call() -> impl Strategy<Value = Call> {
    let (file, at, generation) = (1..4u64, 0..20_000u64, 0..6u64);
    prop_oneof![
        4 => (file.clone(), at.clone(), 0..9000usize, any::<u8>(), generation.clone())
            .prop_map(|(file, offset, length, fill, generation)| {
                Call::Write { file, offset, length, fill, generation }
            }),
        2 => (file.clone(), at.clone(), generation.clone())
            .prop_map(|(file, length, generation)| Call::Truncate { file, length, generation }),
        2 => (file.clone(), at.clone(), at, generation)
            .prop_map(|(file, offset, length, generation)| {
                Call::Punch { file, offset, length, generation }
            }),
        1 => file.clone().prop_map(|file| Call::Flush { file }),
        1 => file.prop_map(|file| Call::Delete { file }),
        1 => Just(Call::Restart),
    ]
}

fn call(h: &mut Harness, call: &Call) -> Result<bool, Status> {
    let on = |file: u64| h.store().open(id(file, 0));
    let outcome = match *call {
        Call::Write { file, offset, length, fill, generation } => {
            h.store().create(&new(id(file, 0))).and_then(|o| {
                o.write_at(&vec![fill; length], ObjectOffset(offset), SizeGeneration(generation))
                    .map(|()| true)
            })
        }
        Call::Truncate { file, length, generation } => on(file).and_then(|o| {
            o.change_size(SizeChange::Truncate { length }, SizeGeneration(generation))
                .map(|()| true)
        }),
        Call::Punch { file, offset, length, generation } => on(file).and_then(|o| {
            let punch = SizeChange::Punch { offset: ObjectOffset(offset), length };
            o.change_size(punch, SizeGeneration(generation)).map(|()| true)
        }),
        Call::Flush { file } => on(file).and_then(|o| o.flush().map(|_| true)),
        Call::Delete { file } => h.store().delete(id(file, 0)),
        Call::Restart => {
            h.restart();
            Ok(true)
        }
    };
    outcome.map_err(|error| error.status())
}

fn state(store: &dyn ObjectStore) -> Vec<(u64, SizeGeneration, Vec<u8>)> {
    let objects = store.list(None, 100).unwrap().objects;
    objects
        .iter()
        .map(|id| store.open(*id).unwrap())
        .map(|o| (o.id().file.0, o.record().size_generation, bytes(&*o)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn both_stores_answer_alike(calls in proptest::collection::vec(any_call(), 1..25)) {
        let (mut local, mut memory) = (Harness::local(), Harness::memory());
        for each in &calls {
            prop_assert_eq!(call(&mut local, each), call(&mut memory, each), "{:?}", each);
        }
        prop_assert_eq!(state(local.store()), state(memory.store()));
    }
}
