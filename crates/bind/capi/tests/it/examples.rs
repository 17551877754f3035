//! The examples: compiled with the system's compiler, linked statically and dynamically, and run on
//! a cluster.
#![cfg(target_os = "linux")]

use std::fs;

use crate::support::{self, Cluster, Link, compile, here, installed, ok};

const EXAMPLES: [(&str, &str); 4] = [
    ("read_write", "13 bytes: hello from C\n"),
    ("tasks", "1048576 bytes of 4 tasks, 0 wrong\n"),
    ("collective", "4 tasks wrote and read 262144 bytes together, 0 wrong\n"),
    ("asynchronous", "sum 37748736 of 37748736, list right\n"),
];

#[test]
fn every_example_is_compiled_and_run() {
    let dir = fs::read_dir(here().join("examples")).unwrap();
    let mut there: Vec<String> =
        dir.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    there.sort();
    let mut run: Vec<String> = EXAMPLES.iter().map(|(name, _)| format!("{name}.c")).collect();
    run.sort();
    assert_eq!(there, run);
}

#[test]
fn examples_run_with_the_shared_library() {
    let cluster = Cluster::start(3);
    for (name, says) in EXAMPLES {
        let program = compile(&here().join("examples").join(format!("{name}.c")), Link::Shared);
        assert_eq!(ok(cluster.program(&program).arg(format!("/{name}"))), says, "{name}");
    }
    let bytes = fs::read(installed().join("include/braid.h")).unwrap();
    assert!(!bytes.is_empty());
}

#[test]
fn examples_run_with_the_archive() {
    let cluster = Cluster::start(2);
    for (name, says) in EXAMPLES {
        let program = compile(&here().join("examples").join(format!("{name}.c")), Link::Static);
        // A statically linked program needs no library at run time.
        assert_eq!(
            ok(cluster.program(&program).env_remove("LD_LIBRARY_PATH").arg(format!("/{name}"))),
            says,
            "{name}"
        );
    }
}

#[test]
fn an_ordinary_user_runs_them_through_the_agent_and_owns_what_it_makes() {
    let cluster = Cluster::start(2);
    cluster.client.mkdir("/scratch", 0o1777).unwrap();
    for (name, says) in EXAMPLES {
        let program = compile(&here().join("examples").join(format!("{name}.c")), Link::Shared);
        let path = format!("/scratch/{name}");
        assert_eq!(ok(cluster.program_of_a_user(&program).arg(&path)), says, "{name}");
        let me = std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap());
        let user = if me == 0 { support::NOBODY.parse().unwrap() } else { u64::from(me) };
        assert_eq!(cluster.client.stat(&path).unwrap().uid, user, "{name}");
    }
    // The root directory belongs to another user.
    let program = compile(&here().join("examples/read_write.c"), Link::Shared);
    let refused = cluster.program_of_a_user(&program).arg("/not-mine").output().unwrap();
    assert!(
        !refused.status.success() && support::text(&refused).contains("permission denied"),
        "{}",
        support::text(&refused)
    );
}
