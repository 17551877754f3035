//! A join that is killed at any step: each file is on its disk, or in the cluster, or both as one
//! inode; and the same command goes on.

use std::fs;

use braid_union::Union;
use braid_union_join::JoinError;

use crate::harness::{World, names};

/// Joins, and stops after `steps`. Whether it came to its end.
fn join_steps(world: &World, steps: usize) -> bool {
    let mut left = steps;
    let joined = world.join_until(World::options(), &mut || {
        left = left.saturating_sub(1);
        left == 0
    });
    match joined {
        Ok(report) => {
            assert!(report.finished, "{:?}", report.left);
            true
        }
        Err(JoinError::Stopped) => false,
        Err(error) => panic!("{error}"),
    }
}

fn expect_all(world: &World, files: &[(&str, Vec<u8>)], when: &str) {
    for (path, bytes) in files {
        assert_eq!(world.bytes(path).as_ref(), Some(bytes), "{path} {when}");
    }
    for name in ["b/linked", "b/only/again"] {
        assert_eq!(world.bytes(name).as_deref(), Some(&b"linked"[..]), "{name} {when}");
    }
}

#[test]
fn a_join_that_is_killed_at_any_step_loses_nothing_and_goes_on() {
    for steps in 1.. {
        let (world, files) = World::with_tree();
        let finished = join_steps(&world, steps);
        expect_all(&world, &files, &format!("after {steps} steps"));
        if finished {
            assert!(steps > 20, "the join has fewer steps than it has changes: {steps}");
            return;
        }
        assert!(world.join().unwrap().finished, "after {steps} steps");
        expect_all(&world, &files, &format!("after {steps} steps and the rest"));
        assert_eq!((names(&world.at("a")), names(&world.at("b"))), (vec![], vec![]));
        let (linked, again) = (world.cluster.find("linked"), world.cluster.find("only/again"));
        assert_eq!(linked.unwrap().0, again.unwrap().0, "after {steps} steps");
    }
}

#[test]
fn a_join_that_is_killed_again_and_again_comes_to_its_end() {
    for steps in 2..8 {
        let (world, files) = World::with_tree();
        let mut runs = 0;
        while !join_steps(&world, steps + runs / 4) {
            expect_all(&world, &files, &format!("after {runs} runs of {steps} steps"));
            runs += 1;
        }
        expect_all(&world, &files, "at the end");
    }
}

#[test]
fn objects_that_a_kill_left_unsealed_are_sealed_by_the_next_run() {
    let (world, _) = World::with_tree();
    // Stops between the removal of the first name and the seal of its object.
    let mut steps = 0;
    while !join_steps(&world, steps + 1) && names(&world.at("a")).contains(&"empty".to_owned()) {
        steps += 1;
    }
    assert!(world.join().unwrap().finished);
    let object = world.object("empty").unwrap();
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(object).unwrap().permissions());
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn a_pool_that_is_joining_is_not_mounted_and_joined_by_one_process() {
    let (world, _) = World::with_tree();
    let mut tried = false;
    let done = world.join_until(World::options(), &mut || {
        if !tried && world.pool().join_state().unwrap().is_some() {
            tried = true;
            let refused = world.join().err().unwrap().to_string();
            assert!(refused.contains("another process has it"), "{refused}");
            let refused = Union::open(&world.pool()).err().unwrap().to_string();
            assert!(refused.contains("is joining the cluster"), "{refused}");
        }
        false
    });
    assert!(tried && done.unwrap().finished);
}
