//! The rule that chooses the method of collective calls, without MPI. Each test is a function of
//! `c/rule.c`.
#![cfg(unix)]

use std::{path::Path, process::Command};

fn run(test: &str) {
    let (here, scratch) = (Path::new(env!("CARGO_MANIFEST_DIR")), tempfile::tempdir().unwrap());
    let program = scratch.path().join("rule");
    let mut compile = Command::new("cc");
    compile
        .args([
            "-std=gnu11",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fsanitize=undefined",
            "-o",
        ])
        .arg(&program);
    compile
        .args(["-fno-sanitize-recover=all"])
        .args(["tests/c/rule.c", "shim/rule.c"].map(|source| here.join(source)));
    assert!(compile.status().unwrap().success());
    let output = Command::new(program).arg(test).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, format!("{test} ok\n"), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn all_ranks_come_to_the_same() {
    run("same");
}

#[test]
fn the_faster_way_is_found_and_finding_it_costs_little() {
    run("faster");
}

#[test]
fn both_ways_are_tried_again_and_what_that_costs_is_bounded() {
    run("probes");
}

#[test]
fn calls_of_other_sizes_are_learned_for_themselves() {
    run("sizes");
}

#[test]
fn what_was_slower_and_is_faster_now_is_found() {
    run("changes");
}

#[test]
fn a_stall_now_and_then_changes_nothing() {
    run("busy");
}

#[test]
fn the_delay_of_a_late_rank_is_not_a_cost_of_collective_calls() {
    run("waiting");
}

#[test]
fn who_knows_nothing_meets_first_and_guesses_by_the_size() {
    run("first");
}
