//! Operations: a daemon that is lost for good, full disks, and files that other users planted.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use braid_client::{Client, Config, Credential, OpenOptions};
use serde_json::Value;

use crate::harness::{Cluster, Mounted, Processes, braid, daemon_logging, noise, text};

/// Much less than the 30 s that a call waits for a server, and much more than an error takes.
const AT_ONCE: Duration = Duration::from_secs(10);

fn facts(cluster: &Processes, args: &[&str]) -> Value {
    serde_json::from_str(&cluster.ok(&[&["--json"], args].concat())).unwrap()
}

/// Three daemons, and the directories of their objects.
fn three() -> (Processes, Vec<PathBuf>) {
    let mut cluster = Processes::start();
    let disks: Vec<PathBuf> =
        (1..=3).map(|id| cluster.dir.path().join(format!("disk{id}"))).collect();
    disks.iter().for_each(|disk| cluster.add_iod(disk));
    (cluster, disks)
}

/// Kills the second daemon, and waits until the cluster map shows it down.
fn kill_second(cluster: &mut Processes) {
    drop(cluster.iods.remove(1));
    while facts(cluster, &["status"])["iods"][1]["state"] != "down" {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Whether a file has data on the second daemon.
fn is_on_second(cluster: &Processes, path: &str) -> bool {
    let layout = &facts(cluster, &["layout", "show", path])[0];
    let parts = layout["components"][0]["iods_of_parts"].as_array().unwrap();
    parts[0][0] == 2
}

#[test]
fn losing_a_daemon_for_ever_is_an_ordinary_day() {
    let (mut cluster, disks) = three();
    let data = noise(3_000_000);
    let file = cluster.file("f", &data);
    cluster.ok(&["put", "--stripe-size", "64K", &file, "/wide"]);
    let small = cluster.file("small", b"a few bytes");
    let all: Vec<String> = (0..6).map(|n| format!("/s{n}")).collect();
    all.iter().for_each(|path| drop(cluster.ok(&["put", &small, path])));
    let (gone, kept): (Vec<&String>, Vec<&String>) =
        all.iter().partition(|path| is_on_second(&cluster, path));
    assert!(!gone.is_empty() && !kept.is_empty(), "files are spread");
    kill_second(&mut cluster);

    let refused = cluster.run(&["iod", "remove", "2"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("has a part of /"), "{}", text(&refused));
    assert!(
        text(&refused).contains("if it does not come back: braid iod remove 2 --lost"),
        "{}",
        text(&refused)
    );
    cluster.ok(&["iod", "remove", "2", "--lost"]);
    assert_eq!(facts(&cluster, &["status"])["iods"][1]["state"], "removed");
    assert!(cluster.ok(&["status"]).contains("removed"));

    let mut affected: Vec<String> =
        cluster.ok(&["fsck", "--affected-by", "2"]).lines().map(str::to_owned).collect();
    affected.sort();
    let mut lost: Vec<String> = gone.iter().map(|path| path.to_string()).collect();
    lost.push("/wide".into());
    assert_eq!(affected, lost);
    let begun = Instant::now();
    for path in &lost {
        let read = cluster.run(&["cat", path]);
        assert_ne!(read.status.code(), Some(0), "{path}");
        let said = text_of_error(&read.stderr);
        assert!(
            said.contains("I/O daemon 2 at")
                && said.contains("was removed")
                && said.contains("object "),
            "{said}"
        );
        assert!(said.contains("try: braid fsck --affected-by 2"), "{said}");
    }
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());

    assert!(cluster.ok(&["ls", "-l", "/"]).contains(" 3000000 "));
    assert!(cluster.ok(&["stat", "/wide"]).contains("3000000 bytes"));
    cluster.ok(&["mv", "/wide", "/moved"]);
    let written = cluster.run(&["put", &file, "/moved"]);
    assert!(
        !written.status.success() && text(&written).contains("I/O daemon 2"),
        "{}",
        text(&written)
    );
    for path in &kept {
        assert_eq!(cluster.ok(&["cat", path]), "a few bytes", "{path}");
        cluster.ok(&["put", &small, path]);
        assert_eq!(cluster.ok(&["cat", path]), "a few bytes", "{path}, written again");
    }
    cluster.ok(&["put", "--stripe-size", "64K", &file, "/new"]);
    assert_eq!(cluster.run(&["cat", "/new"]).stdout, data);
    cluster.ok(&["sync"]);

    let found = cluster.run(&["fsck"]);
    assert_eq!(found.status.code(), Some(7), "{}", text(&found));
    assert!(text(&found).contains("part lost: /moved"), "{}", text(&found));
    cluster.ok(&["rm", "/moved"]);
    gone.iter().for_each(|path| drop(cluster.ok(&["rm", path])));
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"));
    while facts(&cluster, &["status"])["mds"]["deletions_pending"] != 0 {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }

    let disk = disks[1].to_str().unwrap();
    let back = cluster.run(&["iod", "--dir", disk, "--listen", "127.0.0.1:0"]);
    assert_eq!(back.status.code(), Some(4), "{}", text(&back));
    assert!(
        text(&back).contains("was removed from the cluster") && text(&back).contains("; try: "),
        "{}",
        text(&back)
    );
}

fn text_of_error(stderr: &[u8]) -> String {
    String::from_utf8_lossy(stderr).into_owned()
}

#[test]
fn a_file_of_a_dead_daemon_hides_no_other_and_is_removed() {
    let (mut cluster, _) = three();
    let small = cluster.file("small", b"a few bytes");
    cluster.ok(&["put", &small, "/other"]);
    // A client writes the file: its size is in its objects.
    let key = cluster.dir.path().join("c/keys/client.key");
    let mds = facts(&cluster, &["config", "explain"]).as_array().unwrap().iter().find_map(|row| {
        (row["setting"] == "cluster.mds").then(|| row["value"].as_str().unwrap().to_owned())
    });
    let client =
        Client::connect(Config::new(vec![mds.unwrap()], Credential::from_key_file(&key).unwrap()))
            .unwrap();
    let options = OpenOptions::new().write(true).create(true).stripe_size(4096);
    let file = client.open("/written", &options).unwrap();
    assert_eq!(file.write_at(&noise(40_000), 0).unwrap(), 40_000);
    kill_second(&mut cluster);
    let listed = cluster.run(&["--timeout", "2s", "ls", "-l", "/"]);
    let lines = String::from_utf8(listed.stdout.clone()).unwrap();
    assert!(lines.lines().any(|line| line.starts_with('-') && line.ends_with(" other")), "{lines}");
    let bad = lines.lines().find(|line| line.ends_with(" written")).expect("it is listed");
    assert!(bad.contains('?'), "{bad}");
    assert_eq!(listed.status.code(), Some(5), "{}", text(&listed));
    assert!(
        text(&listed).contains("reading the attributes of 1 file")
            && text(&listed).contains("I/O daemon 2"),
        "{}",
        text(&listed)
    );
    assert_eq!(cluster.ok(&["ls", "/"]), "other\nwritten\n");
    cluster.ok(&["mv", "/written", "/moved"]);
    cluster.ok(&["rm", "/moved"]);
    assert_eq!(cluster.ok(&["ls", "/"]), "other\n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_mount_goes_on_without_a_daemon_that_was_removed() {
    if !crate::mount::can_mount() {
        return;
    }
    let (mut cluster, _) = three();
    let file = cluster.file("f", &noise(3_000_000));
    cluster.ok(&["put", "--stripe-size", "64K", &file, "/wide"]);
    let point = cluster.dir.path().join("mnt");
    fs::create_dir(&point).unwrap();
    let _mount = crate::mount::Foreground::start(&cluster.config, &point);
    let _unmount = Unmount(point.clone());
    let wide = point.join("wide");
    assert_eq!(fs::read(&wide).unwrap().len(), 3_000_000);
    fs::write(point.join("cached"), "read before").unwrap();
    rustix::fs::syncfs(fs::File::open(&point).unwrap()).unwrap();
    kill_second(&mut cluster);
    cluster.ok(&["iod", "remove", "2", "--lost"]);
    let begun = Instant::now();
    drop_caches(&wide);
    assert_eq!(fs::read(&wide).unwrap_err().raw_os_error(), Some(5), "EIO");
    assert_eq!(fs::metadata(&wide).unwrap().len(), 3_000_000);
    assert_eq!(fs::read_dir(&point).unwrap().count(), 2);
    fs::rename(&wide, point.join("moved")).unwrap();
    fs::write(point.join("new"), noise(500_000)).unwrap();
    assert_eq!(fs::read(point.join("new")).unwrap(), noise(500_000));
    fs::remove_file(point.join("moved")).unwrap();
    rustix::fs::syncfs(fs::File::open(&point).unwrap()).unwrap();
    assert!(begun.elapsed() < 2 * AT_ONCE, "{:?}", begun.elapsed());
}

/// Unmounts, and so ends the mount process, when the test ends.
#[cfg(target_os = "linux")]
struct Unmount(PathBuf);

#[cfg(target_os = "linux")]
impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = braid().args(["umount", "--lazy"]).arg(&self.0).output();
    }
}

/// Drops the kernel's cache of a file: cached data needs no daemon.
#[cfg(target_os = "linux")]
fn drop_caches(path: &Path) {
    let file = fs::File::open(path).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn the_fullest_disk_is_named_and_what_root_keeps_is_not_used() {
    let cluster = Cluster::up(2);
    for command in ["df", "status"] {
        assert!(cluster.ok(&[command]).contains("fullest: I/O daemon "), "{command}");
    }
    let room: Value = serde_json::from_str(&cluster.ok(&["--json", "df"])).unwrap();
    let number = |name: &str| room[name].as_u64().unwrap();
    assert!(number("free") >= number("available") && number("total") > number("free"), "{room}");
    assert_eq!(room["disks"][0]["state"], "up", "the word of status");
}

#[test]
fn up_follows_no_link_to_write_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let (victim, cluster) = (dir.path().join("victim"), dir.path().join("c"));
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, dir.path().join("c.log")).unwrap();
    let up = braid()
        .arg("up")
        .arg(&cluster)
        .args(["--detach", "--no-mount", "--port", "0"])
        .output()
        .unwrap();
    assert_eq!(up.status.code(), Some(1), "{}", text(&up));
    assert!(text(&up).contains("it is a symbolic link"), "{}", text(&up));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    fs::remove_file(dir.path().join("c.log")).unwrap();
    fs::hard_link(&victim, dir.path().join("c.log")).unwrap();
    let up = braid()
        .arg("up")
        .arg(&cluster)
        .args(["--detach", "--no-mount", "--port", "0"])
        .output()
        .unwrap();
    assert!(text(&up).contains("it has other hard links"), "{}", text(&up));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn up_refuses_a_directory_that_others_own_or_may_write() {
    let dir = tempfile::tempdir().unwrap();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = |dir: &Path, why: &str| {
        let up = braid()
            .arg("up")
            .arg(dir)
            .args(["--detach", "--no-mount", "--port", "0"])
            .output()
            .unwrap();
        assert_eq!(up.status.code(), Some(4), "{}", text(&up));
        assert!(text(&up).contains(why), "{}", text(&up));
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "nothing is made there");
    };
    refused(&open, "all users may write to it (mode 0777); try: chmod o-w");
    let foreign = dir.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    if std::os::unix::fs::chown(&foreign, Some(12_345), None).is_ok() {
        refused(&foreign, "it belongs to user 12345");
    } else {
        eprintln!("skipped: only root gives directories away");
    }
}

#[test]
fn a_configuration_that_everybody_may_write_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("braid.toml");
    fs::write(&path, "[cluster]\nmds = ['evil:1']\n").unwrap();
    let explain = || {
        braid()
            .env("HOME", dir.path())
            .current_dir(dir.path())
            .args(["config", "explain"])
            .output()
            .unwrap()
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(text(&explain()).contains("evil:1"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let said = text(&explain());
    assert!(
        !said.contains("evil:1") && said.contains("is not used: everybody may write it"),
        "{said}"
    );
}

#[test]
fn a_closed_pipe_ends_completions_and_man_pages_quietly() {
    for args in [&["completions", "bash"][..], &["man"]] {
        let mut child =
            braid().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {}", text(&output));
    }
}

#[test]
fn an_address_without_a_port_has_the_default_one() {
    let explain = |mds: &str| {
        let dir = tempfile::tempdir().unwrap();
        text(
            &braid()
                .current_dir(dir.path())
                .args(["--mds", mds, "config", "explain"])
                .output()
                .unwrap(),
        )
    };
    assert!(explain("127.0.0.1").contains(" 127.0.0.1:7700 "));
    assert!(explain("::1").contains(" [::1]:7700 "));
    assert!(explain("h:1").contains(" h:1 "));
    assert!(explain("h:1").contains("unless-loopback"), "as it is typed");
}

#[test]
fn a_layout_is_told_in_words_that_can_be_typed() {
    let cluster = Cluster::up(3);
    let small = cluster.file("small", b"a few bytes");
    cluster.ok(&["mkdir", "/d"]);
    cluster.ok(&[
        "layout",
        "set",
        "/d",
        "--distribution",
        "simple-stripe",
        "--placement",
        "free-space",
    ]);
    assert!(cluster.ok(&["layout", "show", "/d"]).contains("simple-stripe, placed by free-space"));
    cluster.ok(&["put", &small, "/d/f"]);
    let shown = cluster.ok(&["layout", "show", "/d/f"]);
    assert_eq!(shown.matches("empty: past the end of the file").count(), 2, "{shown}");
    let json = cluster.ok(&["--json", "layout", "show", "/d/f"]);
    assert!(json.contains("\"kind\": \"simple-stripe\""), "{json}");
    cluster.fails(
        &["layout", "set", "/d", "--iod-count", "9"],
        2,
        "the cluster has 3 I/O daemons; try: --iod-count 3",
    );
}

#[test]
fn sizes_owners_and_help_are_as_elsewhere() {
    let cluster = Cluster::up(1);
    let file = cluster.file("f", &noise(1_500_000));
    cluster.ok(&["put", &file, "/f"]);
    for args in [&["du", "-h"][..], &["df", "-h"], &["du", "-h", "/f"]] {
        assert!(!cluster.ok(args).contains("Usage"), "{args:?}");
    }
    assert!(cluster.ok(&["ls", "-lh", "/"]).contains(" 1.4 MiB "));
    // Without --owner, files of the holder of a key belong to root.
    assert!(cluster.ok(&["ls", "-l", "/"]).contains(" root "));
    assert!(cluster.ok(&["ls", "-ln", "/"]).contains(" 0 "));
    let (short, long) = (
        text(&braid().args(["put", "-h"]).output().unwrap()),
        text(&braid().args(["put", "--help"]).output().unwrap()),
    );
    assert!(
        short.contains("--mds") && short.contains("--config") && !short.contains("--tls"),
        "{short}"
    );
    assert!(long.contains("--tls") && long.contains("Examples:\n  braid put -r data /"), "{long}");
}

#[test]
fn init_says_how_to_make_the_key_that_its_configuration_names() {
    let dir = tempfile::tempdir().unwrap();
    let init = braid()
        .arg("init")
        .arg(dir.path().join("c"))
        .args(["--listen", "10.0.0.1:7700"])
        .output()
        .unwrap();
    let said = text(&init);
    let key = dir.path().join("c/keys/client.key");
    assert!(
        said.contains(&format!(
            "braid key add client --config {}",
            dir.path().join("c/braid.toml").display()
        )),
        "{said}"
    );
    assert!(said.contains(&format!("--out {}", key.display())), "{said}");
    assert!(said.contains("--init --listen ADDR:7701"), "{said}");
    assert!(fs::read_to_string(dir.path().join("c/braid.toml")).unwrap().contains("client.key"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_metadata_server_whose_log_is_full_serves() {
    let mut cluster = Processes::start();
    cluster.mds.kill();
    let mut again = braid();
    again.env("BRAID_LOG", "trace").args(["--config", &cluster.config, "mds"]);
    cluster.mds = daemon_logging(&mut again, Path::new("/dev/full"));
    cluster.ok(&["key", "list"]);
    cluster.ok(&["mkdir", "/a"]);
    assert!(cluster.mds.ended().is_none(), "it ended");
}

#[test]
#[cfg(target_os = "linux")]
fn files_are_removed_from_a_disk_that_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("cluster");
    fs::create_dir(&disk).unwrap();
    let Some(_mounted) = Mounted::tmpfs(&disk, "64m") else { return };
    let cluster = Cluster::up_in(dir, 2);
    let file = cluster.file("file", &noise(1_000_000));
    for name in ["/a", "/b"] {
        cluster.ok(&["put", "--sync", &file, name]);
    }
    // The metadata log and the objects share this disk with a stranger's file, which fills it.
    let filler = disk.join("filler");
    let mut stranger = fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut stranger, &[1; 65536]).is_ok() {}
    while std::io::Write::write_all(&mut stranger, &[1; 1]).is_ok() {}
    // Some directories fit into what the log has allocated; then all but removals are refused.
    let names: Vec<String> = (0..9000).map(|number| format!("/d{number}")).collect();
    let make: Vec<&str> =
        std::iter::once("mkdir").chain(names.iter().map(String::as_str)).collect();
    cluster.fails(&make, 6, "no space left");
    cluster.ok(&["rm", "/a"]);
    assert!(!cluster.ok(&["ls", "/"]).lines().any(|name| name == "a"));
    fs::remove_file(&filler).unwrap();
    cluster.ok(&["mkdir", "/c"]);
    assert_eq!(cluster.run(&["cat", "/b"]).stdout, fs::read(&file).unwrap());
}
