//! `bench nfs` from end to end: the rows on loopback, quickly, on servers of their own.

use std::process::Command;

use braid_testbed::braid::Braid;
use serde_json::Value as Json;

/// Measures that are there with and without nfs-ganesha.
const MEASURES: [&str; 10] = [
    "data_server.read.cpu",
    "data_server.write.cpu",
    "data_server.read.nfs.rate",
    "data_server.write.native.rate",
    "metadata.lookup_getattr.braid",
    "metadata.create_close.braid",
    "proxied.read.braid.cpu",
    "proxied.write.braid.cpu",
    "memory.0_clients_0_opens",
    "memory.100_clients_1000_opens",
];
/// With nfs-ganesha, which needs root.
const BESIDE_GANESHA: [&str; 3] = [
    "metadata.lookup_getattr.to_ganesha_local",
    "metadata.create_close.to_ganesha_mount",
    "proxied.read.to_ganesha",
];

fn bench(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-bench"));
    command.arg("nfs").args(words);
    command
}

#[test]
fn rows_on_loopback_are_measured_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let braid = Braid::find().unwrap();
    let rows = ["data_server", "metadata", "proxied", "memory"];
    let output = bench(&rows)
        .args(["--quick", "--repetitions", "1", "--json", "--dir"])
        .arg(dir.path())
        .arg("--braid")
        .arg(braid.path())
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    let value = |wanted: &str| {
        let measures = report["measures"].as_array().unwrap();
        let found = measures.iter().find(|measure| measure["name"] == wanted);
        found.and_then(|measure| measure["value"].as_f64())
    };
    for name in MEASURES {
        // CPU time has a resolution of 10 ms without control groups.
        assert!(value(name).is_some_and(|value| value >= 0.0), "no {name}: {complaints}");
    }
    let notes = report["notes"].to_string();
    for name in BESIDE_GANESHA {
        let left_out = notes.contains("rows without nfs-ganesha");
        assert!(value(name).is_some() != left_out, "{name}: {notes}");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_row_that_is_not_there_is_refused_with_those_that_are() {
    let output = bench(&["x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.contains("there is no row x; try: data_server, metadata"), "{complaint}");
}
