//! The `braid` command from a user's view: an embedded cluster, right and wrong arguments, output
//! and exit codes.
#![cfg(unix)]

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use crate::harness::{Cluster, Mounted, Processes, braid, daemon, noise, text};
use braid_meta::{Batch, Engine, EngineOptions, Identity, MetaStore, Namespace, Options};
use braid_types::FileIndex;

#[test]
fn a_tree_is_put_and_got_back_with_modes_times_links_and_holes() {
    let cluster = Cluster::up(4);
    let tree = cluster.dir.path().join("tree");
    fs::create_dir_all(tree.join("sub/empty")).unwrap();
    fs::write(tree.join("big"), noise(5_000_000)).unwrap();
    fs::write(tree.join("sub/small"), b"x").unwrap();
    fs::hard_link(tree.join("sub/small"), tree.join("again")).unwrap();
    std::os::unix::fs::symlink("sub/small", tree.join("link")).unwrap();
    fs::File::create(tree.join("hole")).unwrap().set_len(3 << 20).unwrap();
    fs::set_permissions(tree.join("sub/small"), fs::Permissions::from_mode(0o4750)).unwrap();
    let tree_text = tree.to_str().unwrap();
    cluster.ok(&["put", "-r", tree_text, "/"]);
    let back = cluster.dir.path().join("back");
    cluster.ok(&["get", "-r", "/tree", back.to_str().unwrap()]);
    let diff = Command::new("diff")
        .args(["-r", "--no-dereference", tree_text])
        .arg(&back)
        .output()
        .unwrap();
    assert!(diff.status.success(), "{}", text(&diff));
    let (was, is) = (
        fs::metadata(tree.join("sub/small")).unwrap(),
        fs::metadata(back.join("sub/small")).unwrap(),
    );
    assert_eq!(
        (was.permissions(), was.modified().unwrap()),
        (is.permissions(), is.modified().unwrap())
    );
    assert!(cluster.ok(&["stat", "/tree/again"]).contains("links 2"));
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"));
}

#[test]
fn resume_skips_what_is_there_and_goes_on_in_what_is_partly_there() {
    let cluster = Cluster::up(2);
    let content = noise(3_000_000);
    let file = cluster.file("file", &content);
    cluster.ok(&["put", &file, "/whole"]);
    cluster.file("file", &content[..1_000_000]);
    cluster.ok(&["put", &file, "/part"]);
    let file = cluster.file("file", &content);
    let json = cluster.ok(&["--json", "put", "--resume", &file, "/part"]);
    let facts: serde_json::Value = serde_json::from_str(&json).unwrap();
    let copied = facts["bytes"].as_u64().unwrap();
    assert!(copied > 0 && copied < 2_100_000, "{json}");
    cluster.ok(&["put", &file, "/part"]);
    let again: serde_json::Value =
        serde_json::from_str(&cluster.ok(&["--json", "put", "--resume", &file, "/part"])).unwrap();
    assert_eq!((again["already_there"].as_u64(), again["bytes"].as_u64()), (Some(1), Some(0)));
    assert_eq!(cluster.run(&["cat", "/part"]).stdout, content);
}

#[test]
fn resume_fills_the_holes_that_a_lost_daemon_left_before_the_end() {
    let cluster = Cluster::up(2);
    let content = noise(3_000_000);
    let mut torn = content[..2_900_000].to_vec();
    torn[1_000_000..1_200_000].fill(0);
    let file = cluster.file("file", &torn);
    cluster.ok(&["put", &file, "/f"]);
    let file = cluster.file("file", &content);
    cluster.ok(&["put", "--resume", &file, "/f"]);
    assert!(cluster.run(&["cat", "/f"]).stdout == content, "every byte is there");
}

#[test]
fn names_are_made_moved_linked_and_removed() {
    let cluster = Cluster::up(1);
    cluster.ok(&["mkdir", "-p", "/a/b/c"]);
    let file = cluster.file("f", b"content");
    cluster.ok(&["put", &file, "/a/f"]);
    cluster.ok(&["cp", "/a/f", "/a/b"]);
    cluster.ok(&["ln", "/a/f", "/a/hard"]);
    cluster.ok(&["ln", "-s", "f", "/a/soft"]);
    cluster.ok(&["mv", "/a/b", "/a/moved"]);
    assert_eq!(cluster.ok(&["cat", "/a/moved/f", "/a/soft", "/a/hard"]), "contentcontentcontent");
    assert_eq!(cluster.ok(&["ls", "/a"]), "f\nhard\nmoved\nsoft\n");
    cluster.fails(&["mv", "-n", "/a/f", "/a/hard"], 1, "already exists");
    cluster.fails(&["rm", "/a"], 2, "try: braid rm -r");
    cluster.ok(&["rm", "-r", "/a"]);
    cluster.fails(&["stat", "/a"], 3, "no such file");
    cluster.ok(&["rm", "-f", "/a"]);
    cluster.fails(&["rm", "-r", "/"], 4, "whole file system");
}

#[test]
fn a_default_layout_is_inherited_and_shown() {
    let cluster = Cluster::up(4);
    cluster.ok(&["mkdir", "/d"]);
    cluster.ok(&["layout", "set", "/d", "--stripe-size", "64K", "--iod-count", "2"]);
    cluster.ok(&["mkdir", "/d/e"]);
    let file = cluster.file("f", &noise(300_000));
    cluster.ok(&["put", &file, "/d/e/f"]);
    let shown = cluster.ok(&["layout", "show", "/d/e/f"]);
    assert!(shown.contains("stripes of 64.0 KiB, 2 parts"), "{shown}");
    cluster.ok(&["put", "--distribution", "single", &file, "/single"]);
    assert!(cluster.ok(&["layout", "show", "/single"]).contains("one part"));
    cluster.fails(&["layout", "set", "/d", "--stripe-size", "1000"], 2, "4096");
    cluster.fails(&["put", "--stripe-size", "1X", &file, "/x"], 2, "not a size");
}

#[test]
fn a_file_may_have_many_more_parts_than_there_are_daemons() {
    let cluster = Cluster::up(3);
    let data = noise(2_000_000);
    let file = cluster.file("f", &data);
    cluster.fails(
        &["put", "--iod-count", "400", &file, "/wide"],
        2,
        "the cluster has 3 I/O daemons; try: --iod-count 3",
    );
    cluster.ok(&["put", "--parts", "400", "--stripe-size", "4K", &file, "/wide"]);
    assert_eq!(cluster.run(&["cat", "/wide"]).stdout, data);
    assert!(cluster.ok(&["layout", "show", "/wide"]).contains("400 parts"));
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"));
}

#[test]
fn bad_names_and_paths_get_clear_errors() {
    let cluster = Cluster::up(1);
    cluster.fails(&["mkdir", &format!("/{}", "x".repeat(256))], 2, "name too long");
    cluster.fails(&["mkdir", &format!("/{}", "x/".repeat(3000))], 2, "name too long");
    cluster.fails(&["ls", "/nothing"], 3, "no such file");
    cluster.fails(&["cat", "/"], 1, "is a directory");
    cluster.fails(&["put", "/does/not/exist", "/"], 3, "no such file");
    cluster.fails(&["frobnicate"], 2, "unrecognized subcommand");
}

#[test]
fn a_directory_that_is_not_empty_is_refused_and_untouched() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("precious"), b"mine").unwrap();
    for args in [&["up"][..], &["init"]] {
        let output = braid().args(args).arg(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("not empty"), "{}", text(&output));
    }
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["precious"]);
}

#[test]
fn a_port_in_use_is_named_with_what_to_try() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let dir = tempfile::tempdir().unwrap();
    let output =
        braid().arg("up").arg(dir.path().join("c")).args(["--port", &port]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains(&port) && text(&output).contains("try:"), "{}", text(&output));
    assert!(!dir.path().join("c").exists(), "nothing is made with a port that is not to be had");
}

#[test]
fn a_cluster_gets_another_port_and_more_daemons_when_it_is_started_so() {
    let cluster = Cluster::up(1);
    let file = cluster.file("local", b"kept");
    cluster.ok(&["put", "--sync", &file, "/f"]);
    let (path, config) = (cluster.path(), cluster.path().join("braid.toml"));
    let address = || {
        fs::read_to_string(&config)
            .unwrap()
            .lines()
            .find(|line| line.starts_with("mds = "))
            .map(str::to_owned)
    };
    let before = address().unwrap();
    cluster.ok(&["down", path.to_str().unwrap()]);
    let port = before.rsplit_once(':').unwrap().1.trim_end_matches(['"', ']']);
    // If another program was faster, the port is in use as well.
    let taken = TcpListener::bind(format!("127.0.0.1:{port}"));
    let up = braid()
        .arg("up")
        .arg(&path)
        .args(["--port", "0", "--iods", "3", "--detach", "--no-mount"])
        .output()
        .unwrap();
    assert!(up.status.success(), "{}", text(&up));
    assert_ne!(address().unwrap(), before);
    drop(taken);
    assert_eq!(cluster.ok(&["cat", "/f"]), "kept");
    let status: serde_json::Value =
        serde_json::from_str(&cluster.ok(&["--json", "status"])).unwrap();
    assert_eq!(status["iods"].as_array().unwrap().len(), 3);
    cluster.ok(&["down", path.to_str().unwrap()]);
    let up = braid().arg("up").arg(&path).args(["--iods", "2", "--detach"]).output().unwrap();
    assert!(!up.status.success() && text(&up).contains("it has 3 I/O daemons"), "{}", text(&up));
    let up = braid()
        .arg("up")
        .arg(&path)
        .args(["--port", "0", "--detach", "--no-mount"])
        .output()
        .unwrap();
    assert!(up.status.success(), "{}", text(&up));
}

#[test]
fn usage_says_which_path_is_the_destination_and_no_flag_that_nobody_typed() {
    let output = braid().arg("put").env("BRAID_CONFIG", "/nowhere/braid.toml").output().unwrap();
    assert!(
        text(&output).contains("braid put [OPTIONS] <SOURCE>... <DESTINATION>"),
        "{}",
        text(&output)
    );
    let output = braid().arg("mkdir").env("BRAID_CONFIG", "/nowhere/braid.toml").output().unwrap();
    assert!(
        text(&output).contains("Usage: braid mkdir") && !text(&output).contains("--config <"),
        "{}",
        text(&output)
    );
}

#[test]
fn a_key_that_nobody_made_yet_is_named_with_what_makes_it() {
    let dir = tempfile::tempdir().unwrap();
    let made = braid().arg("init").arg(dir.path()).output().unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let output = braid()
        .arg("--config")
        .arg(dir.path().join("braid.toml"))
        .args(["ls", "/"])
        .output()
        .unwrap();
    let wanted = format!(
        "try: braid key add client --config {0}/braid.toml --out {0}/keys/client.key",
        dir.path().display()
    );
    assert!(text(&output).contains(&wanted), "{}", text(&output));
}

#[test]
fn a_misspelt_key_of_the_configuration_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("braid.toml");
    fs::write(&config, "[cluster]\nmsd = ['127.0.0.1:1']\n").unwrap();
    let output = braid().arg("--config").arg(&config).args(["config", "explain"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("msd") && text(&output).contains("mds"), "{}", text(&output));
}

#[test]
fn a_server_that_is_not_there_is_named_within_the_bound() {
    let cluster = Cluster::up(1);
    let config = cluster.path().join("braid.toml");
    assert!(braid().arg("down").arg(cluster.path()).output().unwrap().status.success());
    let output =
        braid().arg("--config").arg(&config).args(["--timeout", "1s", "ls"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output));
    assert!(text(&output).contains("metadata server at 127.0.0.1:"), "{}", text(&output));
}

#[test]
fn keys_are_made_listed_and_revoked_and_others_keys_refused() {
    let cluster = Cluster::up(1);
    let key = cluster.dir.path().join("host.key");
    let key_text = key.to_str().unwrap();
    cluster.ok(&["key", "add", "host", "--out", key_text, "--read-only"]);
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    cluster.ok(&["--key", key_text, "ls", "/"]);
    cluster.fails(&["--key", key_text, "mkdir", "/x"], 1, "read-only");
    let id = cluster.ok(&["--json", "key", "list"]);
    let keys: serde_json::Value = serde_json::from_str(&id).unwrap();
    let id =
        keys.as_array().unwrap().iter().find(|k| k["name"] == "host").unwrap()["key"].to_string();
    cluster.ok(&["key", "revoke", &id]);
    cluster.fails(&["--key", key_text, "ls", "/"], 4, "try:");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    cluster.fails(&["--key", key_text, "ls", "/"], 4, "others may read it");
    cluster.fails(&["--key", "/etc/hostname", "ls", "/"], 4, "others may read it");
}

#[test]
fn an_io_daemon_without_its_directory_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("c");
    assert!(braid().arg("init").arg(&home).output().unwrap().status.success());
    let config = home.join("braid.toml");
    let empty = dir.path().join("unmounted");
    fs::create_dir(&empty).unwrap();
    let output =
        braid().arg("--config").arg(&config).arg("iod").arg("--dir").arg(&empty).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("is the disk mounted?"), "{}", text(&output));
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0, "nothing was made in it");
}

#[test]
fn a_program_with_an_agent_and_no_key_is_who_the_kernel_says() {
    let cluster = Cluster::up(1);
    let socket = cluster.dir.path().join("agent.sock");
    let socket = socket.to_str().unwrap();
    let (config, key) = (cluster.path().join("braid.toml"), cluster.path().join("keys/client.key"));
    let _agent = daemon(&[
        "--config",
        config.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
        "agent",
        "--socket",
        socket,
    ]);
    let address: serde_json::Value =
        serde_json::from_str(&cluster.ok(&["--json", "config", "explain"])).unwrap();
    let mut settings = address.as_array().unwrap().iter();
    let mds = settings.find(|s| s["setting"] == "cluster.mds").unwrap();
    let mds = mds["value"].as_str().unwrap().to_owned();
    let run = |args: &[&str]| {
        let output = braid().args(["--mds", &mds, "--agent", socket]).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output));
        output.stdout
    };
    // The root directory belongs to the user who started the cluster: this one.
    run(&["mkdir", "/mine"]);
    let stat: serde_json::Value =
        serde_json::from_slice(&run(&["--json", "stat", "/mine"])).unwrap();
    assert_eq!(stat[0]["uid"], rustix::process::getuid().as_raw(), "{stat}");
    run(&["ls", "/"]);
}

#[test]
fn completions_and_man_pages_come_from_the_tree() {
    let completions = braid().args(["completions", "bash"]).output().unwrap();
    assert!(text(&completions).contains("fsck"));
    let dir = tempfile::tempdir().unwrap();
    assert!(braid().args(["man", "--dir"]).arg(dir.path()).output().unwrap().status.success());
    assert!(Path::new(&dir.path().join("braid-put.1")).is_file());
}

#[test]
fn separate_daemons_are_the_same_system_as_up() {
    let mut cluster = Processes::start();
    for i in 0..2 {
        cluster.add_iod(&cluster.dir.path().join(format!("disk{i}")));
    }
    let data = noise(2_500_000);
    let file = cluster.file("data", &data);
    cluster.ok(&["put", &file, "/data"]);
    assert_eq!(cluster.run(&["cat", "/data"]).stdout, data);
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"));
}

#[test]
fn new_files_use_a_joined_io_daemon_and_not_a_stopped_one() {
    let mut cluster = Processes::start();
    cluster.add_iod(&cluster.dir.path().join("disk0"));
    let file = cluster.file("data", &noise(3_000_000));
    cluster.ok(&["put", &file, "/before"]);
    assert_eq!(cluster.ok(&["layout", "show", "/before"]).matches("I/O daemon").count(), 1);
    cluster.add_iod(&cluster.dir.path().join("disk1"));
    cluster.ok(&["put", &file, "/after"]);
    assert_eq!(cluster.ok(&["layout", "show", "/after"]).matches("I/O daemon").count(), 2);
    drop(cluster.iods.pop());
    while cluster.up() > 1 {}
    cluster.ok(&["put", &file, "/later"]);
    assert_eq!(cluster.ok(&["layout", "show", "/later"]).matches("I/O daemon").count(), 1);
    assert!(cluster.ok(&["status"]).contains("down, last heartbeat"));
}

#[test]
fn a_disk_that_fills_during_a_put_is_reported_and_loses_no_other_file() {
    let mut cluster = Processes::start();
    let disk = cluster.dir.path().join("small");
    fs::create_dir(&disk).unwrap();
    let Some(_mounted) = Mounted::tmpfs(&disk, "24m") else { return };
    cluster.add_iod(&disk);
    let small = noise(1_000_000);
    let (small_file, big_file) =
        (cluster.file("small-file", &small), cluster.file("big", &noise(40_000_000)));
    cluster.ok(&["put", "--sync", &small_file, "/small"]);
    let full = cluster.run(&["put", &big_file, "/big"]);
    assert_eq!(full.status.code(), Some(6), "{}", text(&full));
    assert!(
        text(&full).contains("no space left") && text(&full).contains("try:"),
        "{}",
        text(&full)
    );
    assert_eq!(cluster.run(&["cat", "/small"]).stdout, small, "what was there before is whole");
    assert_eq!(cluster.run(&["stat", "/big"]).status.code(), Some(3), "a part of it is not left");
    // Space is freed when the objects are deleted, in the background.
    while !cluster.run(&["put", &small_file, "/again"]).status.success() {}
    assert_eq!(cluster.run(&["cat", "/again"]).stdout, small);
    cluster.iods.clear();
}

#[test]
fn facts_come_as_json_where_asked_for() {
    let cluster = Cluster::up(2);
    let file = cluster.file("f", &noise(100_000));
    cluster.ok(&["put", &file, "/f"]);
    let json = |args: &[&str]| -> serde_json::Value {
        let text = cluster.ok(&[&["--json"], args].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("braid {args:?}: {e}: {text}"))
    };
    assert_eq!(json(&["stat", "/f"])[0]["bytes"], 100_000);
    assert_eq!(json(&["ls", "/"])[0]["path"], "/f");
    assert_eq!(json(&["du", "/"])[0]["files"], 1);
    assert_eq!(json(&["df"])["iods_up"], 2);
    assert_eq!(
        json(&["layout", "show", "/f"])[0]["components"][0]["iods_of_parts"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(json(&["status"])["iods"].as_array().unwrap().len(), 2);
    assert_eq!(json(&["fsck"])["problems"].as_array().unwrap().len(), 0);
    assert!(json(&["key", "list"]).is_array() && json(&["config", "explain"]).is_array());
    let error: serde_json::Value =
        serde_json::from_slice(&cluster.run(&["--json", "cat", "/none"]).stderr).unwrap();
    assert_eq!((&error["error"]["exit"], error["error"]["try"].is_string()), (&3.into(), true));
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("braid.toml");
    fs::write(&config, "[cluster]\nmds = ['file:1']\n").unwrap();
    let mds = |environment: Option<&str>, flag: Option<&str>| {
        let mut command = braid();
        command.arg("--config").arg(&config).args(["config", "explain"]);
        if let Some(value) = environment {
            command.env("BRAID_MDS", value);
        }
        if let Some(value) = flag {
            command.args(["--mds", value]);
        }
        let shown = text(&command.output().unwrap());
        shown.lines().find(|line| line.starts_with("cluster.mds ")).unwrap().to_owned()
    };
    assert!(mds(None, None).contains("file:1") && mds(None, None).contains("braid.toml"));
    assert!(mds(Some("env:1"), None).contains("env:1"));
    assert!(mds(Some("env:1"), Some("flag:1")).contains("flag:1"));
}

/// Objects of one I/O daemon, as files on its disk.
fn objects(cluster: &Cluster, iod: &str) -> Vec<PathBuf> {
    let dirs = fs::read_dir(cluster.path().join(iod).join("objects")).unwrap();
    dirs.flat_map(|dir| fs::read_dir(dir.unwrap().path()).unwrap().map(|e| e.unwrap().path()))
        .collect()
}

#[test]
fn an_object_that_is_gone_is_an_error_and_found_by_fsck() {
    let cluster = Cluster::up(2);
    let file = cluster.file("f", &noise(3_000_000));
    cluster.ok(&["put", &file, "/f"]);
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"), "a quiet file system is clean");
    // Stripes 0 and 2: the end of the file exists.
    let end = objects(&cluster, "iod0").into_iter().chain(objects(&cluster, "iod1"));
    fs::remove_file(end.max_by_key(|object| object.metadata().unwrap().len()).unwrap()).unwrap();
    cluster.restart_after(|| ());
    cluster.fails(&["fsck"], 7, "object missing: /f: part");
    cluster.fails(
        &["fsck"],
        7,
        "object missing cannot be mended; try: restore the disk of I/O daemon",
    );
    let stat = || cluster.ok(&["stat", "/f"]);
    let before = stat();
    assert!(before.contains("3000000"), "{before}");
    cluster.fails(&["fsck", "--mend"], 7, "1 problems left");
    assert_eq!(stat(), before, "it is neither cut nor said to be whole");
    let json: serde_json::Value =
        serde_json::from_slice(&cluster.run(&["--json", "fsck"]).stdout).unwrap();
    assert!(
        json["problems"][0]["try"]
            .as_str()
            .unwrap()
            .contains("braid rm /f, then braid put COPY /f"),
        "{json}"
    );
    cluster.fails(&["cat", "/f"], 1, "missing");
    // The advice helps.
    cluster.ok(&["rm", "/f"]);
    cluster.ok(&["put", &file, "/f"]);
    assert_eq!(cluster.run(&["cat", "/f"]).stdout, noise(3_000_000));
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"));
}

#[test]
fn a_truncated_object_is_a_read_error_and_found_by_fsck() {
    let cluster = Cluster::up(2);
    let file = cluster.file("f", &noise(8 << 20));
    cluster.ok(&["put", &file, "/f"]);
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"), "a quiet file system is clean");
    cluster.restart_after(|| ());
    let before = cluster.ok(&["stat", "/f"]);
    let cut = objects(&cluster, "iod0").pop().unwrap();
    let bytes = cut.metadata().unwrap().len();
    cluster.restart_after(|| {
        fs::File::options().write(true).open(&cut).unwrap().set_len(bytes / 2).unwrap()
    });
    cluster.fails(&["fsck"], 7, "object truncated: /f: part");
    cluster.fails(&["fsck", "--mend"], 7, "1 problems left");
    assert_eq!(cluster.ok(&["stat", "/f"]), before, "it is neither cut nor said to be whole");
    cluster.fails(&["cat", "/f"], 1, "are gone from the disk");
    let partly = cluster.run(&["get", "/f", &cluster.path().join("copy").display().to_string()]);
    assert!(!partly.status.success(), "7 of 8 MiB are no success");
    cluster.ok(&["rm", "/f"]);
    cluster.ok(&["put", &file, "/f"]);
    assert_eq!(cluster.run(&["cat", "/f"]).stdout, noise(8 << 20));
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"));
}

#[test]
fn an_object_without_a_file_is_found_by_fsck_and_moved_away_when_told() {
    let cluster = Cluster::up(1);
    let file = cluster.file("f", &noise(300_000));
    cluster.ok(&["put", &file, "/f"]);
    let object = objects(&cluster, "iod0").remove(0);
    let kept = cluster.path().join("kept");
    fs::hard_link(&object, &kept).unwrap();
    cluster.ok(&["rm", "/f"]);
    // Objects are deleted in the background: `status` shows when no deletion is pending.
    let waiting = || {
        let status: serde_json::Value =
            serde_json::from_str(&cluster.ok(&["--json", "status"])).unwrap();
        status["mds"]["deletions_pending"].as_u64().unwrap()
    };
    while waiting() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(!object.exists());
    fs::rename(&kept, &object).unwrap();
    cluster.fails(&["fsck"], 7, "object without a file");
    assert!(object.exists(), "fsck without --mend only reports");
    assert!(cluster.ok(&["fsck", "--mend"]).contains("mended"));
    assert!(!object.exists());
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"));
}

/// Damages the metadata of a stopped cluster: a wrong link count, and a directory without a name.
fn damage(metadata: &Path, counted: &[u8], nameless: &[u8]) {
    let store = Arc::new(Engine::open(metadata, EngineOptions::default()).unwrap());
    let names =
        Namespace::open(store.clone(), Options { cached_inodes_max: 256, ..Options::default() })
            .unwrap();
    let (root, top) = (Identity::root(), FileIndex::ROOT);
    let call = braid_meta::Call { who: &root, now: Default::default(), replay: None };
    let file = names.lookup(&root, top, counted).unwrap();
    names.mend_links(&call, file.file, 5, file.change).unwrap();
    let page = names.readdir(&root, top, 0, 65_536, false).unwrap();
    let entry = page.entries.iter().find(|listed| listed.name == nameless).unwrap().entry;
    // Both keys of the entry, as in docs/format-meta.md: shard, letter, directory, name or cookie.
    let key = |letter: u8, rest: &[u8]| {
        [&top.shard().0.to_be_bytes()[..], &[letter], &top.0.to_be_bytes(), rest].concat()
    };
    let mut batch = Batch::new();
    batch.remove(key(b'E', nameless));
    batch.remove(key(b'C', &entry.cookie.to_be_bytes()));
    let sequence = store.commit(batch, store.fence()).unwrap();
    store.sync(sequence).unwrap();
}

#[test]
fn fsck_finds_and_mends_link_counts_and_unreachable_directories() {
    let cluster = Cluster::up(1);
    let file = cluster.file("f", b"content");
    cluster.ok(&["mkdir", "-p", "/lost/sub"]);
    cluster.ok(&["put", &file, "/lost/sub/f"]);
    cluster.ok(&["put", &file, "/counted"]);
    cluster.restart_after(|| damage(&cluster.path().join("mds"), b"counted", b"lost"));
    cluster.fails(&["ls", "/lost"], 3, "no such file");
    for _ in 0..2 {
        let found = cluster.run(&["fsck"]);
        let text = text(&found);
        assert_eq!(found.status.code(), Some(7), "{text}");
        assert!(
            text.contains("link count: /counted (file ") && text.contains("records 5 links"),
            "{text}"
        );
        assert!(
            text.contains("unreachable: file ") && text.contains("a directory without a name"),
            "{text}"
        );
        assert!(text.contains("next: braid fsck --mend"), "{text}");
    }
    let mended = cluster.run(&["fsck", "--mend"]);
    assert_eq!(mended.status.code(), Some(0), "{}", text(&mended));
    assert!(text(&mended).contains("next: braid ls -l /lost+found"), "{}", text(&mended));
    assert!(cluster.ok(&["stat", "/counted"]).contains("links 1"));
    let back = cluster.ok(&["ls", "/lost+found"]);
    assert_eq!(cluster.ok(&["cat", &format!("/lost+found/{}/sub/f", back.trim())]), "content");
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"));
}

#[test]
fn a_directory_is_held_to_its_quota_and_everybody_else_is_not() {
    let cluster = Cluster::up(2);
    let (large, small) =
        (cluster.file("large", &noise(2 << 20)), cluster.file("small", &noise(1 << 19)));
    cluster.ok(&["mkdir", "-p", "/d/sub"]);
    cluster.ok(&["put", "--sync", &small, "/d/sub/before"]);
    cluster.ok(&["quota", "set", "--dir", "/d", "--bytes", "1M", "--inodes", "5"]);
    let report = |args: &[&str]| -> serde_json::Value {
        let all = [&["--json", "quota"], args].concat();
        serde_json::from_str(&cluster.ok(&all)).unwrap()
    };
    let got = &report(&["get", "--dir", "/d"])[0];
    assert_eq!((got["bytes"].as_u64(), got["inodes"].as_u64()), (Some(1 << 19), Some(3)), "{got}");
    assert_eq!((got["path"].as_str(), got["complete"].as_bool()), (Some("/d"), Some(true)));
    cluster.fails(&["put", &large, "/d/large"], 6, "quota exceeded");
    cluster.fails(&["put", &large, "/d/large"], 6, "try: braid quota get");
    cluster.fails(&["stat", "/d/large"], 3, "no such file");
    cluster.ok(&["put", &small, "/d/sub/fits"]);
    cluster.fails(&["put", &large, "/d/sub/fits"], 6, "quota exceeded");
    cluster.ok(&["stat", "/d/sub/fits"]);
    cluster.ok(&["put", &large, "/elsewhere"]);
    cluster.fails(&["mv", "/elsewhere", "/d/x"], 1, "not on the same file system");
    // Limits that are not named do not change, and 0 removes a limit.
    cluster.ok(&["quota", "set", "--dir", "/d", "--bytes", "0"]);
    let limits = report(&["list"])[0]["limits"].clone();
    assert_eq!(
        (limits["bytes"]["hard"].as_u64(), limits["inodes"]["hard"].as_u64()),
        (None, Some(5))
    );
    cluster.ok(&["quota", "remove", "--dir", "/d"]);
    cluster.fails(&["quota", "remove", "--dir", "/d"], 3, "it has none; try: braid quota list");
    cluster.fails(&["quota", "set", "--user", "0", "--bytes", "1G"], 2, "root");
    cluster.fails(
        &["quota", "set", "--user", "nobody-of-this-name", "--bytes", "1G"],
        3,
        "does not know the name",
    );
    cluster.fails(&["quota", "set", "--user", "7"], 2, "--bytes");
    cluster.fails(&["quota", "set", "--user", "7", "--grace", "3d"], 2, "try: --soft-bytes");
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"));
}

#[test]
fn a_wrong_usage_is_found_by_fsck_and_mended_when_told() {
    let cluster = Cluster::up(1);
    let file = cluster.file("f", b"content");
    cluster.ok(&["put", &file, "/f"]);
    cluster.restart_after(|| {
        let store = Engine::open(&cluster.path().join("mds"), EngineOptions::default()).unwrap();
        // Usage of user 4711, as in docs/format-meta.md: shard, letter, kind, number; version,
        // bytes, inodes.
        let key = [&FileIndex::ROOT.shard().0.to_be_bytes()[..], b"A\x01", &4711u64.to_be_bytes()]
            .concat();
        let mut batch = Batch::new();
        batch.put(key, [&[1][..], &99u128.to_le_bytes(), &7u64.to_le_bytes()].concat());
        let sequence = store.commit(batch, store.fence()).unwrap();
        store.sync(sequence).unwrap();
    });
    cluster.fails(
        &["fsck"],
        7,
        "usage: user 4711: 99 bytes and 7 inodes recorded, 0 and 0 counted",
    );
    assert!(cluster.ok(&["fsck", "--mend"]).contains("(mended)"));
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"));
}

fn segments(metadata: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(metadata).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log."))
        .collect();
    found.sort();
    found
}

#[test]
fn damaged_metadata_stops_the_start_is_salvaged_and_checked() {
    let cluster = Cluster::up(1);
    let names: Vec<String> = (0..60).map(|n| format!("/d{n}")).collect();
    let mkdir = ["mkdir"].into_iter().chain(names.iter().map(String::as_str)).collect::<Vec<_>>();
    cluster.ok(&mkdir);
    assert!(braid().arg("down").arg(cluster.path()).output().unwrap().status.success());
    let metadata = cluster.path().join("mds");
    let dir = metadata.to_str().unwrap();
    let segment = segments(&metadata).pop().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    let up =
        || braid().arg("up").arg(cluster.path()).args(["--detach", "--no-mount"]).output().unwrap();
    let refused = up();
    let said = text(&refused);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains(segment.to_str().unwrap()) && said.contains(" at byte "), "{said}");
    assert!(
        said.contains(&format!("try: braid mds salvage --dir {dir}"))
            && !said.contains("braid init"),
        "{said}"
    );
    assert!(fs::read(&segment).unwrap() == bytes, "nothing was changed");
    let salvaged = cluster.ok(&["mds", "salvage", "--dir", dir]);
    assert!(
        salvaged.contains("lost: batches ") && salvaged.contains("damaged-1, unchanged"),
        "{salvaged}"
    );
    let kept = metadata.join("damaged-1").join(segment.file_name().unwrap());
    assert!(fs::read(kept).unwrap() == bytes);
    let again = up();
    assert!(again.status.success(), "{}", text(&again));
    assert!(cluster.ok(&["ls", "/"]).lines().filter(|line| line.starts_with('d')).count() >= 59);
    let marked = || {
        let status: serde_json::Value =
            serde_json::from_str(&cluster.ok(&["--json", "status"])).unwrap();
        status["mds"]["must_be_checked"].is_string()
    };
    assert!(marked() && cluster.ok(&["status"]).contains("the file system needs a check"));
    while !cluster.run(&["fsck", "--mend"]).status.success() {}
    assert!(!marked(), "found clean");
    cluster.fails(&["mds", "salvage", "--dir", dir], 1, "is in use by another process");
}

#[test]
fn metadata_is_dumped_while_the_server_works_and_loaded() {
    let cluster = Cluster::up(1);
    let file = cluster.file("f", b"content");
    cluster.ok(&["put", &file, "/f"]);
    let metadata = cluster.path().join("mds");
    let to = |name: &str| cluster.dir.path().join(name).to_str().unwrap().to_owned();
    let dump =
        |name: &str| cluster.ok(&["mds", "dump", &to(name), "--dir", metadata.to_str().unwrap()]);
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            for round in 0..5 {
                let names: Vec<String> = (0..200).map(|n| format!("/d{round}-{n}")).collect();
                cluster.ok(&["mkdir"]
                    .into_iter()
                    .chain(names.iter().map(String::as_str))
                    .collect::<Vec<_>>());
            }
        });
        let mut dumps = 0;
        while !work.is_finished() {
            dump("beside");
            cluster.ok(&["mds", "load", &to("beside"), "--dir", &to(&format!("loaded-{dumps}"))]);
            dumps += 1;
        }
        assert!(dumps > 0);
    });
    assert!(dump("last").contains(" keys, "));
    let before = cluster.ok(&["ls", "/"]);
    let refused = cluster.run(&["mds", "load", &to("last"), "--dir", metadata.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "over a store: {}", text(&refused));
    cluster.restart_after(|| {
        fs::rename(&metadata, to("old")).unwrap();
        cluster.ok(&["mds", "load", &to("last"), "--dir", metadata.to_str().unwrap()]);
    });
    assert_eq!(cluster.ok(&["ls", "/"]), before);
    assert_eq!(cluster.ok(&["cat", "/f"]), "content");
    assert!(cluster.ok(&["fsck"]).contains("0 problems left"));
    let cut = fs::read(to("last")).unwrap();
    fs::write(to("cut"), &cut[..cut.len() - 40]).unwrap();
    cluster.fails(&["mds", "load", &to("cut"), "--dir", &to("none")], 1, "is truncated or damaged");
}
