//! `bench growth` from end to end: the smallest point of each curve, on daemons of its own.

use std::{path::Path, process::Command};

use braid_testbed::braid::Braid;

/// Each curve, and its series that need no mount.
const CURVES: &[(&str, &[&str])] = &[
    ("daemons", &["read", "rewrite", "small_file"]),
    ("stripes", &["read", "rewrite", "small_file", "wide_file", "stat"]),
    ("clients", &["connect", "read", "write", "stat"]),
    ("file_sizes", &["whole_file", "stat", "read_piece", "write_piece", "truncate", "remove"]),
    ("directory", &["create", "stat", "remove", "list"]),
    ("pieces", &["read_list", "write_list", "read_view"]),
];

/// The numbers of a series in the table of a curve: the CPU of a unit, which is never 0, and the
/// rate below it.
fn figures(text: &str, curve: &str, series: &str) -> Option<(f64, f64)> {
    let table = text.split_once(&format!("**{curve}**"))?.1;
    let mut rows = table.lines().skip_while(|line| !line.starts_with(&format!("| {series} |")));
    let last =
        |row: &str| row.trim_end_matches(" |").rsplit("| ").next()?.replace(',', "").parse().ok();
    let cost = last(rows.next()?)?;
    Some((cost, last(rows.nth(1)?)?))
}

#[test]
fn the_smallest_point_of_each_curve_is_measured_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let braid = Braid::find().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_braid-bench"))
        .args(["growth", "--smallest", "--repetitions", "1", "--dir"])
        .arg(dir.path())
        .arg("--braid")
        .arg(braid.path())
        .output()
        .unwrap();
    let (said, complaints) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{complaints}");
    for (curve, all) in CURVES {
        for series in *all {
            let (cost, rate) = figures(&said, curve, series)
                .unwrap_or_else(|| panic!("no {curve} {series} in\n{said}"));
            // On a slow machine a rate may be below the table's precision.
            assert!(cost >= 0.0 && rate >= 0.0, "{curve} {series}: {cost} {rate}");
        }
    }
    assert_eq!(left(dir.path()), [""; 0]);
}

fn left(dir: &Path) -> Vec<String> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_curve_that_is_not_there_is_refused_with_those_that_are() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_braid-bench")).args(["growth", "x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no curve x; try: daemons"));
}
