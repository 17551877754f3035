//! `braid sync`: on the cluster, and on a mount.

use crate::harness::{Processes, braid, text};

fn with_daemons(count: usize) -> Processes {
    let mut servers = Processes::start();
    for number in 0..count {
        let disk = servers.dir.path().join(format!("disk{number}"));
        servers.add_iod(&disk);
    }
    servers
}

#[test]
fn sync_covers_all_servers_and_names_an_unreachable_daemon_in_time() {
    let mut servers = with_daemons(2);
    let file = servers.file("f", &[7; 100_000]);
    servers.ok(&["put", &file, "/"]);
    servers.ok(&["sync"]);
    let facts: serde_json::Value = serde_json::from_str(&servers.ok(&["--json", "sync"])).unwrap();
    assert_eq!(facts["synced"], serde_json::json!([]));
    servers.iods[1].kill();
    let away = servers.run(&["--timeout", "2s", "sync"]);
    assert_eq!(away.status.code(), Some(5), "{}", text(&away));
    let said = text(&away);
    assert!(
        said.contains("sync everything: ") && said.contains("I/O daemon 2 at 127.0.0.1:"),
        "{said}"
    );
    assert!(said.contains("; try: "), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_path_outside_mounts_is_refused_and_a_missing_one_is_exit_code_3() {
    let dir = tempfile::tempdir().unwrap();
    let other = braid().arg("sync").arg(dir.path()).output().unwrap();
    assert_eq!(other.status.code(), Some(2), "{}", text(&other));
    assert!(
        text(&other).contains("not on a mount of BraidFS; try: findmnt -t fuse.braid"),
        "{}",
        text(&other)
    );
    let missing = braid().arg("sync").arg(dir.path().join("none")).output().unwrap();
    assert_eq!(missing.status.code(), Some(3), "{}", text(&missing));
}

#[test]
#[cfg(target_os = "linux")]
fn a_path_on_a_mount_stands_for_the_mount() {
    if !rustix::process::geteuid().is_root() || !std::path::Path::new("/dev/fuse").exists() {
        println!("skipped: mounting needs root and /dev/fuse");
        return;
    }
    let mut servers = with_daemons(2);
    let point = servers.dir.path().join("point");
    std::fs::create_dir(&point).unwrap();
    servers.ok(&["--timeout", "3s", "mount", point.to_str().unwrap()]);
    std::fs::create_dir(point.join("dir")).unwrap();
    std::fs::write(point.join("dir/file"), [7; 100_000]).unwrap();
    let sync = |path: &std::path::Path| braid().arg("sync").arg(path).output().unwrap();
    for path in [point.clone(), point.join("dir"), point.join("dir/file")] {
        let output = sync(&path);
        assert!(output.status.success(), "{}", text(&output));
        assert!(
            text(&output).contains(&format!("everything written through {}", point.display())),
            "{}",
            text(&output)
        );
    }
    servers.iods[0].kill();
    let away = sync(&point);
    assert_eq!(away.status.code(), Some(1), "{}", text(&away));
    assert!(text(&away).contains("try: braid sync without a path"), "{}", text(&away));
    let output = braid().arg("umount").arg(&point).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}
