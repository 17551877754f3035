//! Each tool detects its kind of failure: two different directories stand for mounts that do not
//! see each other's changes.

use std::process::Command;

fn run(arguments: &[&str], dirs: &[&std::path::Path]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_braid-mount-test"))
        .args(arguments)
        .args(dirs)
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The cases that failed.
fn failed(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.strip_prefix("FAILED ")?.split(' ').next()).collect()
}

#[test]
fn locks_appends_and_mappings_hold_on_a_local_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let (good, said) = run(&["shared"], &[dir.path(), dir.path()]);
    assert!(good && said.ends_with("20 passed, 0 failed, 0 skipped\n"), "{said}");
}

#[test]
fn every_case_that_needs_one_file_system_fails_on_two() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (good, said) = run(&["shared"], &[one.path(), other.path()]);
    assert!(!good && said.ends_with("1 passed, 19 failed, 0 skipped\n"), "{said}");
    assert!(failed(&said).contains(&"locks::fcntl_counter_loses_no_update"), "{said}");
    // The only case that passes with two file systems too.
    assert!(said.contains("ok locks::flock_and_record_locks_do_not_conflict"), "{said}");
}
