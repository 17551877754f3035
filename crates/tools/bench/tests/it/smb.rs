//! `bench smb` from end to end: the rows on loopback, quickly, on servers of their own.

use std::process::Command;

use braid_testbed::braid::Braid;
use serde_json::Value as Json;

/// Measures that are there with and without Samba.
const MEASURES: [&str; 9] = [
    "data.read.plain.braid.cpu",
    "data.write.plain.braid.rate",
    "data.read.encrypted.braid.rate",
    "data.write.encrypted.braid.cpu",
    "small.create.1.braid",
    "small.open_read_close.16.braid",
    "small.stat.16.braid.cpu",
    "memory.0_clients_0_opens",
    "memory.100_clients_1000_opens",
];
/// With Samba, which needs root.
const BESIDE_SAMBA: [&str; 4] = [
    "data.read.plain.to_samba_mount",
    "data.write.encrypted.to_samba_local",
    "small.create.1.to_samba_mount",
    "small.stat.16.to_samba_local",
];

fn bench(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-bench"));
    command.arg("smb").args(words);
    command
}

#[test]
fn rows_on_loopback_are_measured_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let braid = Braid::find().unwrap();
    let output = bench(&["data", "small", "memory"])
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
    for name in BESIDE_SAMBA {
        let left_out = notes.contains("rows without Samba");
        assert!(value(name).is_some() != left_out, "{name}: {notes}");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
