//! The calls, from C, on a cluster: each test is a function of `c/calls.c`, in a process of its
//! own.
#![cfg(target_os = "linux")]

use std::{path::PathBuf, sync::OnceLock};

use braid_client::LayoutHint;

use crate::support::{Cluster, Link, compile, here, ok};

fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile(&here().join("tests/c/calls.c"), Link::Shared))
}

fn run(test: &str, iods: usize) -> Cluster {
    let cluster = Cluster::start(iods);
    assert_eq!(ok(cluster.program(program()).arg(test)), format!("{test} ok\n"));
    cluster
}

#[test]
fn files_are_read_and_written_as_posix_has_it() {
    run("files", 3);
}

#[test]
fn a_mode_that_denies_its_maker_holds_from_the_next_open_on() {
    let cluster = Cluster::start(2);
    cluster.client.mkdir("/scratch", 0o1777).unwrap();
    assert_eq!(ok(cluster.program_of_a_user(program()).arg("modes")), "modes ok\n");
}

#[test]
fn names_are_made_listed_changed_and_removed() {
    run("names", 1);
}

#[test]
fn a_layout_is_set_at_open_for_a_directory_and_reported() {
    run("layouts", 4);
}

#[test]
fn views_nest_overlap_and_convert() {
    run("views", 3);
}

#[test]
fn lists_are_in_any_order() {
    run("lists", 3);
}

#[test]
fn tasks_read_and_write_together_and_share_every_failure() {
    let cluster = run("together", 3);
    let (collectives, joins) = cluster.collectives();
    assert!(collectives > 0 && joins > 0, "{collectives} collective requests, {joins} joins");
}

#[test]
fn a_started_collective_call_does_not_block_its_task() {
    let cluster = run("started", 3);
    let (collectives, joins) = cluster.collectives();
    assert!(collectives > 0 && joins > 0, "{collectives} collective requests, {joins} joins");
}

#[test]
fn tasks_find_each_other_over_tcp() {
    run("tcp", 2);
}

#[test]
fn calls_are_started_tested_and_waited_for() {
    run("asynchronous", 3);
}

#[test]
fn a_daemon_that_was_removed_is_not_counted_for_a_layout() {
    let mut cluster = Cluster::start(2);
    let over = |parts| LayoutHint { parts: Some(parts), ..LayoutHint::none() };
    cluster.client.check_iod_count(&over(2)).unwrap();
    cluster.lose_an_iod();
    let refused = cluster.client.check_iod_count(&over(2)).unwrap_err();
    assert!(refused.to_string().contains("over 2 I/O daemons: the cluster has 1"), "{refused}");
    cluster.client.check_iod_count(&over(1)).unwrap();
    cluster.client.check_iod_count(&LayoutHint::none()).unwrap();
}

#[test]
fn extended_attributes_are_those_of_the_kernels_calls() {
    run("xattrs", 1);
}

#[test]
fn ranges_are_copied_between_files_that_lie_alike_and_others() {
    run("copies", 3);
}

#[test]
fn fcntl_has_the_papers_requests() {
    run("fcntl", 4);
}

#[test]
fn a_null_a_wrong_number_and_a_wrong_descriptor_are_errors_and_no_crash() {
    run("misuse", 1);
}

#[test]
fn threads_share_a_descriptor_and_have_messages_of_their_own() {
    run("threads", 3);
}

#[test]
fn a_child_after_fork_gets_an_error_and_connects_anew() {
    run("fork", 2);
}

#[test]
fn locks_are_seen_by_other_descriptors_and_go_with_theirs() {
    run("locks", 1);
}

#[test]
fn a_cluster_that_is_not_there_is_an_error_in_the_time_that_was_set() {
    run("absent", 1);
}
