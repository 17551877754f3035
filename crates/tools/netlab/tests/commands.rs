//! Events of hosts, by commands that run in the lab.
#![cfg(target_os = "linux")]

mod harness;

use std::process::{Command, Output};

fn netlab(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid-netlab"));
    command.args(arguments).env("BRAID_BIN", harness::braid().path()).env_remove("BRAID_LAB");
    command.output().unwrap()
}

/// A file that can be read while the hosts are healthy, and not during an event.
const SCRIPT: &str = r#"
set -eu
cd "$(mktemp -d -p "$(dirname "$BRAID_LAB")")"
echo content > file
braid put file /file
# Slow replies of a busy machine count; a missing reply does not.
reads() {
    for try in $(seq 20); do
        braid --timeout 60s cat /file | cmp - file && return
        sleep 0.5
    done
    return 1
}
reads_not() {
    if braid --timeout 3s cat /file >/dev/null 2>&1; then echo "read during: $1"; exit 9; fi
}
reads
braid-netlab partition iod0; reads_not partition
braid-netlab heal iod0; reads
braid-netlab kill iod0; reads_not kill
braid-netlab restart iod0; reads
braid-netlab stop iod0; reads_not stop
braid-netlab resume iod0; reads
braid-netlab partition client0; reads_not cut-off
braid-netlab heal client0; reads
if braid-netlab kill client0 2>why; then exit 8; fi
grep -q "host client0 has no daemon" why
if braid-netlab partition nobody 2>why; then exit 7; fi
grep -q "no host nobody; there are mds, iod0, client0" why
echo "all of it"
"#;

#[test]
fn one_command_starts_and_ends_a_partition_or_a_dead_host() {
    if harness::unable() {
        return;
    }
    let output = netlab(&["--iods", "1", "run", "sh", "-c", SCRIPT]);
    let [said, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(
        output.status.success() && said.ends_with("all of it\n"),
        "{}: {said}{errors}",
        output.status
    );
}

#[test]
fn outside_of_a_lab_nothing_happens_and_it_is_said_how_to_get_one() {
    let output = netlab(&["kill", "iod0"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("kill iod0: not in a lab; try: cargo xtask netlab shell"), "{said}");
}
