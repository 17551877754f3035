//! `braid bench` on an embedded cluster, with tiny sizes. The tests check its behaviour; the
//! measured values mean nothing.
#![cfg(unix)]

use std::{
    fs,
    process::{Child, Stdio},
};

use crate::harness::{Cluster, Processes, braid, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const TINY: [&str; 6] = ["--seconds", "20ms", "--size", "8M", "--tasks", "2"];

/// `braid --json bench ARGS`, which must succeed.
fn report(cluster: &Cluster, args: &[&str]) -> Value {
    serde_json::from_str(&cluster.ok(&[&["--json", "bench"], &TINY[..], args].concat())).unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

/// Existing directories of runs.
fn scratch(cluster: &Cluster) -> Vec<String> {
    let listed = cluster.ok(&["ls", "-a", "/"]);
    listed
        .split_whitespace()
        .filter(|name| name.contains(".braid-bench-"))
        .map(str::to_owned)
        .collect()
}

/// A run without end, returned when its directory exists.
fn endless(cluster: &Cluster) -> Child {
    let mut command = braid();
    command.env("BRAID_CONFIG", cluster.path().join("braid.toml")).args([
        "bench",
        "--seconds",
        "50m",
        "--size",
        "8M",
    ]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while scratch(cluster).is_empty() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
    }
    child
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn every_row_is_measured_beside_a_limit_and_nothing_is_left() {
    let cluster = Cluster::up(2);
    let (saved, page) = (cluster.dir.path().join("a.json"), cluster.dir.path().join("a.html"));
    let (saved, page) = (saved.to_str().unwrap(), page.to_str().unwrap());
    let report = report(&cluster, &["--samples", "4", "--save", saved, "--html", page]);

    let known: Value = serde_json::from_str(&cluster.ok(&["--json", "bench", "rows"])).unwrap();
    let known: Vec<&str> =
        known["rows"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names(&report["rows"]), known);
    for row in report["rows"].as_array().unwrap() {
        let samples: Vec<f64> =
            row["samples"].as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect();
        assert!(samples.len() == 4 && samples.iter().all(|sample| *sample > 0.0), "{row}");
        assert!(row["bound"]["percent"].as_f64().unwrap() > 0.0, "{row}");
        assert!(!row["bound"]["limit"].as_str().unwrap().is_empty(), "{row}");
    }
    // For each daemon: network in both directions, round trip, small read, fsync. For the disk that
    // they share: sequential and random access, reads and writes, and fsync.
    let of_iods: Vec<&Value> = report["limits"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|limit| !limit["iod"].is_null())
        .collect();
    assert_eq!(of_iods.len(), 2 * 5 + 5);
    let kinds: Vec<&str> = of_iods.iter().map(|limit| limit["kind"].as_str().unwrap()).collect();
    for kind in ["disk-write", "disk-read", "disk-random-write", "disk-random-read", "disk-sync"] {
        let of_kind: Vec<_> =
            of_iods.iter().zip(&kinds).filter(|(_, found)| **found == kind).collect();
        assert_eq!(of_kind.len(), 1, "two daemons on one device are one disk: {kinds:?}");
        let samples: Vec<f64> = of_kind[0].0["samples"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one.as_f64().unwrap())
            .collect();
        assert!(
            samples.len() == 4 && samples.iter().all(|sample| *sample > 0.0),
            "{kind}: {samples:?}"
        );
    }
    let page = fs::read_to_string(page).unwrap();
    assert!(
        known.iter().all(|name| page.contains(name))
            && page.contains("<svg")
            && !page.contains("http")
    );
    assert_eq!(scratch(&cluster), [""; 0]);
    assert_eq!(report["leftovers"], Value::Array(Vec::new()));

    let compared: Value =
        serde_json::from_str(&cluster.ok(&["--json", "bench", "compare", saved, saved])).unwrap();
    let verdicts = compared.as_array().unwrap().iter().map(|one| one["verdict"].as_str().unwrap());
    assert!(verdicts.clone().count() > known.len());
    assert!(verdicts.clone().all(|verdict| verdict == "no difference beyond noise"), "{compared}");
    let shown = cluster.ok(&["bench", "compare", saved, saved]);
    assert_eq!(shown.lines().next().unwrap().matches("SPREAD").count(), 2, "{shown}");
    let write = shown.lines().find(|line| line.starts_with("sequential-write ")).unwrap();
    assert_eq!(write.matches(" – ").count(), 2, "{shown}");
}

#[test]
fn each_preset_runs_with_the_papers_rows() {
    let cluster = Cluster::up(4);
    let known: Value = serde_json::from_str(&cluster.ok(&["--json", "bench", "rows"])).unwrap();
    let rows = |name: &str| match name {
        "pvfs-1996" => 6 * 4 + 4 + 3,
        "cifs-2007" | "united-fs-2007" => 4,
        "direct-pnfs-2007" => 8 + 1 + 2 + 2,
        "wpvfs-2008" => 4 * 6,
        other => panic!("{other} is new"),
    };
    for preset in known["presets"].as_array().unwrap() {
        let preset = preset.as_str().unwrap();
        let report = report(&cluster, &["--samples", "1", "--preset", preset]);
        assert_eq!(
            report["rows"].as_array().unwrap().len(),
            rows(preset),
            "{preset}: {:?}",
            names(&report["rows"])
        );
    }
    assert_eq!(scratch(&cluster), [""; 0]);
}

#[test]
fn an_interrupted_run_removes_what_it_made() {
    let cluster = Cluster::up(2);
    for how in [Signal::INT, Signal::TERM] {
        let child = endless(&cluster);
        signal(&child, how);
        let output = child.wait_with_output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("stopped by a signal") && said.contains("try: "), "{said}");
        assert_eq!(scratch(&cluster), [""; 0]);
    }
}

#[test]
fn what_a_killed_run_left_is_found_named_and_left_alone() {
    let cluster = Cluster::up(1);
    let mut killed = endless(&cluster);
    signal(&killed, Signal::KILL);
    killed.wait().unwrap();
    let left = scratch(&cluster);
    assert_eq!(left.len(), 1);
    let run = cluster.run(&[&["bench", "--only", "sequential-read"], &TINY[..]].concat());
    assert!(run.status.success(), "{}", text(&run));
    assert!(text(&run).contains(&format!("braid rm -r /{}", left[0])), "{}", text(&run));
    assert_eq!(scratch(&cluster), left, "it may be one that goes on");
}

#[test]
fn a_daemon_that_is_away_is_an_error_that_names_it_and_nothing_is_left() {
    let mut cluster = Processes::start();
    for name in ["a", "b"] {
        let disk = cluster.dir.path().join(name);
        cluster.add_iod(&disk);
    }
    drop(cluster.iods.remove(0));
    let run = cluster.run(&[&["--timeout", "20s", "bench"], &TINY[..]].concat());
    let said = text(&run);
    assert_eq!(run.status.code(), Some(5), "{said}");
    assert!(
        said.contains("I/O daemon 1 ") && said.contains("127.0.0.1:") && said.contains("; try: "),
        "{said}"
    );
    assert!(!cluster.ok(&["ls", "-a", "/"]).contains(".braid-bench-"));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let cluster = Cluster::up(1);
    for (args, says) in [
        (
            &["--only", "squential-read"][..],
            "there is no row 'squential-read'; the rows are sequential-write",
        ),
        (&["--preset", "pvfs"], "there is no preset 'pvfs'; the presets are pvfs-1996"),
        (&["--tasks", "0"], "tasks are 1 to 256"),
        (&["--size", "64K"], "less than 1 MiB"),
        (&["--size", "1M", "--tasks", "8"], "needs files of"),
    ] {
        cluster.fails(&[&["bench"], args].concat(), 2, says);
    }
    cluster.fails(&["bench", "--at", "/nothing"], 3, "try: ");
    cluster.fails(&["bench", "compare", "/nothing/a", "/nothing/b"], 3, "try: braid bench --save");
    let other = cluster.file("other.json", b"{}");
    cluster.fails(&["bench", "compare", &other, &other], 2, "not a report of braid bench");
    assert_eq!(scratch(&cluster), [""; 0]);
}
