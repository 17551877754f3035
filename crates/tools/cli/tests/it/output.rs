//! The output of the command: the progress bar, hints for the next command, exit codes, the log.
#![cfg(unix)]

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Read,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    process::{Output, Stdio},
};

use crate::harness::{Cluster, Processes, braid, daemon_logging, noise, text};
use braid_testbed::ports::free_address;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

/// Both ends of a terminal of 80 columns: the first one reads what a program prints on the second.
pub fn terminal() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let user = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    tcsetwinsize(&user, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (File::from(master), user)
}

/// Runs `braid ARGS` with its standard error on a terminal, and returns what the terminal shows.
fn on_a_terminal(cluster: &Cluster, args: &[&str]) -> String {
    let (mut master, user) = terminal();
    let mut child = {
        let mut command = braid();
        command.env("BRAID_CONFIG", cluster.path().join("braid.toml")).args(args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(user).spawn().unwrap()
    };
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    // After the last writer has closed, Linux returns EIO.
    while let Ok(bytes @ 1..) = master.read(&mut buffer) {
        shown.extend_from_slice(&buffer[..bytes]);
    }
    assert!(child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&shown));
    String::from_utf8(shown).unwrap()
}

/// Whether the terminal showed a bar with a number of bytes.
fn has_bar(shown: &str) -> bool {
    shown.contains(['█', '░']) && shown.contains("B/")
}

#[test]
fn a_progress_bar_is_drawn_on_a_terminal_and_goes_away_at_the_end() {
    let cluster = Cluster::up(2);
    let file = cluster.file("f", &noise(20_000_000));
    let back = cluster.dir.path().join("back");
    for args in
        [&["put", &file, "/f"][..], &["cp", "/f", "/g"], &["get", "/f", back.to_str().unwrap()]]
    {
        let shown = on_a_terminal(&cluster, args);
        assert!(has_bar(&shown), "braid {args:?}: {shown:?}");
        let end = shown.split("\x1b[2K").last().unwrap();
        assert!(
            !has_bar(end) && end.contains("1 file"),
            "braid {args:?} ends with its summary: {shown:?}"
        );
        let quiet = on_a_terminal(&cluster, &[&["--quiet"], args].concat());
        assert_eq!(quiet, "", "braid --quiet {args:?}");
        assert_eq!(
            on_a_terminal(&cluster, &[&["--json"], args].concat()),
            "",
            "braid --json {args:?}"
        );
    }
}

#[test]
fn no_progress_bar_is_drawn_where_there_is_no_terminal() {
    let cluster = Cluster::up(2);
    let file = cluster.file("f", &noise(20_000_000));
    let put = cluster.run(&["put", &file, "/f"]);
    let shown = text(&put);
    assert!(put.status.success() && shown.contains("1 file"), "{shown}");
    assert!(!has_bar(&shown) && !shown.contains(['\r', '\x1b']), "{shown:?}");
    // Another terminal must not matter: the bar would go into the file that standard error is.
    let (_master, user) = terminal();
    let log = cluster.dir.path().join("log");
    let mut command = braid();
    command.env("BRAID_CONFIG", cluster.path().join("braid.toml")).args(["put", &file, "/g"]);
    let status = command
        .stdin(user.try_clone().unwrap())
        .stdout(user)
        .stderr(File::create(&log).unwrap())
        .status();
    assert!(status.unwrap().success());
    let shown = fs::read_to_string(log).unwrap();
    assert!(
        shown.contains("1 file") && !has_bar(&shown) && !shown.contains(['\r', '\x1b']),
        "{shown:?}"
    );
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Only where this machine can mount.
fn mount_and_umount_say_what_to_type_next(cluster: &Cluster) {
    let point = cluster.dir.path().join("point");
    fs::create_dir(&point).unwrap();
    let point = point.to_str().unwrap();
    let mount = cluster.run(&["mount", point]);
    if mount.status.success() {
        assert!(
            stderr(&mount).contains("next: df ") && stderr(&mount).contains("; braid umount "),
            "{}",
            text(&mount)
        );
        let umount = cluster.run(&["umount", point]);
        assert!(stderr(&umount).contains("next: braid mount "), "{}", text(&umount));
    }
}

/// All commands of `braid help`.
fn commands() -> BTreeSet<String> {
    let help = String::from_utf8(braid().arg("help").output().unwrap().stdout).unwrap();
    let list = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    // Names are indented by two columns; the lines between them continue a description.
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// Commands whose standard output is data or help.
const WITHOUT_NEXT: [&str; 3] = ["cat", "completions", "help"];

#[test]
fn every_command_says_what_to_type_next_and_only_to_people() {
    let cluster = Cluster::up(2);
    let (file, dir) =
        (cluster.file("f", b"content"), cluster.dir.path().to_str().unwrap().to_owned());
    let (key, man) = (format!("{dir}/host.key"), format!("{dir}/man"));
    let new = format!("{dir}/new");
    let (disk, pool) = (format!("{dir}/disk"), format!("{dir}/pool"));
    let users = format!("{dir}/users");
    fs::create_dir(&disk).unwrap();
    let steps: Vec<(Vec<&str>, &str)> = vec![
        (vec!["init", &new], "next: braid mds --config"),
        (vec!["config", "explain"], "next: braid status"),
        (vec!["ls"], "next: braid put -r SOMETHING /"),
        (vec!["mkdir", "/d", "/with space"], "next: braid put -r SOMETHING '/with space'"),
        (vec!["layout", "set", "/d", "--iod-count", "1"], "next: braid layout show /d"),
        (vec!["layout", "show", "/d"], "next: braid layout set /d"),
        (vec!["put", &file, "/d"], "next: braid layout show /d/f"),
        (vec!["put", "-r", &new, "/"], "next: braid ls -l /"),
        (vec!["layout", "show", "/d/f"], "next: braid cp --stripe-size 64K /d/f NEW"),
        (vec!["ls", "/d"], "next: braid ls -l /d"),
        (vec!["ls", "-l", "/d"], "next: braid layout show /d/f"),
        (vec!["stat", "/d"], "next: braid ls -l /d"),
        (vec!["stat", "/d/f"], "next: braid layout show /d/f"),
        (vec!["cp", "/d/f", "/d/g"], "next: braid layout show /d/g"),
        (vec!["mv", "/d/g", "/d/h"], "next: braid ls -l /d"),
        (vec!["ln", "/d/h", "/d/i"], "next: braid ls -l /d/i"),
        (vec!["get", "/d/f", &man], "next: ls -l "),
        (vec!["du"], "next: braid df"),
        (vec!["df"], "next: braid status"),
        (vec!["sync"], "next: braid sync POINT"),
        (vec!["status"], "next: braid fsck"),
        (vec!["bench", "rows"], "next: braid bench --only"),
        (vec!["rm", "/d/h"], "next: braid df"),
        (vec!["key", "add", "host", "--out", &key], "braid agent --key"),
        (vec!["key", "list"], "next: braid key revoke ID"),
        (vec!["key", "revoke", "2"], "next: braid key list"),
        (vec!["quota", "list"], "next: braid quota set --user NAME"),
        (
            vec!["quota", "set", "--user", "1000", "--bytes", "10G"],
            "next: braid quota get --user 1000",
        ),
        (vec!["quota", "get", "--user", "1000"], "next: braid quota list"),
        (vec!["quota", "remove", "--user", "1000"], "next: braid quota list"),
        (vec!["union", "create", "p", "--meta", &pool, &disk], "next: braid union up"),
        (vec!["union", "placement", &pool, "mfs"], "next: braid union status"),
        (vec!["union", "placement", &pool], "next: braid union status"),
        (vec!["union", "label", &pool, "0", "ssd"], "next: braid union placement DIR on=ssd"),
        (vec!["union", "enforce", &pool], "next: braid union status"),
        (vec!["union", "fsck", &pool], "next: braid union status"),
        (vec!["union", "dedup", &pool], "next: braid union fsck"),
        (
            vec!["union", "quota", "set", &pool, "--user", "1000", "--bytes", "10G"],
            "next: braid union status",
        ),
        (vec!["union", "quota", "list", &pool], "next: braid union status"),
        (vec!["union", "quota", "remove", &pool, "--user", "1000"], "next: braid union quota list"),
        (vec!["union", "status", &pool], "next: braid union up"),
        (vec!["union", "sweep", &pool], "next: braid union up"),
        (vec!["smb", "user", "list", "--users", &users], "next: braid smb user add NAME --users "),
    ];
    fs::remove_file(&man).unwrap_or_default();
    let mut seen: BTreeSet<String> = WITHOUT_NEXT.iter().map(|name| (*name).to_owned()).collect();
    for (args, next) in &steps {
        let output = cluster.run(args);
        assert_eq!(output.status.code(), Some(0), "braid {args:?}: {}", text(&output));
        assert!(stderr(&output).contains(next), "braid {args:?}: {}", stderr(&output));
        assert!(
            !String::from_utf8_lossy(&output.stdout).contains("next:"),
            "facts alone on standard output: {args:?}"
        );
        seen.insert(args[0].to_owned());
    }
    for args in [
        &["ls", "/"][..],
        &["stat", "/d"],
        &["df"],
        &["status"],
        &["du"],
        &["key", "list"],
        &["fsck"],
    ] {
        for flag in ["--quiet", "--json"] {
            let output = cluster.run(&[&[flag], args].concat());
            assert_eq!(
                (output.status.code(), stderr(&output).as_str()),
                (Some(0), ""),
                "braid {flag} {args:?}"
            );
        }
    }
    let cat = cluster.run(&["cat", "/d/f"]);
    assert_eq!((cat.stdout.as_slice(), stderr(&cat).as_str()), (&b"content"[..], ""));
    assert_eq!(stderr(&cluster.run(&["completions", "bash"])), "");

    let pages = cluster.run(&["man", "--dir", &format!("{dir}/pages")]);
    assert!(stderr(&pages).contains("next: man -l "), "{}", stderr(&pages));
    fs::write(cluster.path().join("iod0/objects/000/stranger"), b"?")
        .or_else(|_| plant_foreign_file(&cluster))
        .unwrap();
    let found = cluster.run(&["fsck"]);
    assert_eq!(found.status.code(), Some(7), "{}", text(&found));
    assert!(stderr(&found).contains("try: check what it is"), "{}", text(&found));
    let down = braid().arg("down").arg(cluster.path()).output().unwrap();
    assert!(stderr(&down).contains("--detach"), "{}", text(&down));
    let up = braid().arg("up").arg(cluster.path()).arg("--detach").output().unwrap();
    assert!(
        stderr(&up).contains("next:  ") && stderr(&up).contains(" export BRAID_CONFIG="),
        "{}",
        text(&up)
    );
    mount_and_umount_say_what_to_type_next(&cluster);
    seen.extend(["mount", "umount"].map(str::to_owned));
    seen.extend(["man", "fsck", "down", "up"].map(str::to_owned));
    // The daemons have a test of their own, since they do not end.
    seen.extend(["mds", "iod", "agent", "nfs"].map(str::to_owned));
    assert_eq!(commands(), seen, "a new command needs a next step, and a line here");
}

/// Puts a file that is not an object among the objects.
fn plant_foreign_file(cluster: &Cluster) -> std::io::Result<()> {
    let mut dirs = fs::read_dir(cluster.path().join("iod0/objects"))?;
    fs::write(dirs.next().expect("a directory of objects")?.path().join("stranger"), b"?")
}

/// Waits until the log has a line with all of `words`, and returns the log.
pub fn log_with(path: &Path, words: &[&str]) -> String {
    loop {
        let log = fs::read_to_string(path).unwrap();
        if log.lines().any(|line| words.iter().all(|word| line.contains(word))) {
            return log;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// A metadata server, an I/O daemon, an agent, an NFS and an SMB gateway, each with a log file.
#[test]
fn a_daemon_says_what_to_type_next_in_its_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let listen = free_address().unwrap();
    assert!(
        braid().args(["init", &path("c"), "--listen", &listen]).output().unwrap().status.success()
    );
    let config = path("c/braid.toml");
    let start = |args: &[&str], log: &str| {
        daemon_logging(braid().args(["--config", &config]).args(args), Path::new(&path(log)))
    };
    let _mds = start(&["mds"], "mds.log");
    log_with(Path::new(&path("mds.log")), &["next: braid iod --config", "--dir DISK --init"]);
    let _iod =
        start(&["iod", "--dir", &path("disk"), "--init", "--listen", "127.0.0.1:0"], "iod.log");
    log_with(Path::new(&path("iod.log")), &["next: braid status --config"]);
    let key = path("c/keys/client.key");
    assert!(
        braid()
            .args(["--config", &config, "key", "add", "h", "--out", &key])
            .output()
            .unwrap()
            .status
            .success()
    );
    let _agent = start(&["agent", "--socket", &path("agent.sock")], "agent.log");
    log_with(Path::new(&path("agent.log")), &["export BRAID_MDS=", "BRAID_AGENT="]);
    let export = "/=127.0.0.1,sec=sys";
    let missing = "/nosuch=127.0.0.1,sec=sys";
    let gateway = ["nfs", "--key", &key, "--listen", "127.0.0.1:0", "--export", export];
    let _nfs = start(&[&gateway[..], &["--export", missing]].concat(), "nfs.log");
    let advice = "export /nosuch: no such directory; try: braid mkdir -p /nosuch";
    log_with(Path::new(&path("nfs.log")), &[advice]);
    log_with(Path::new(&path("nfs.log")), &["next: mount -t nfs4 -o vers=4.2,port="]);
    let users = path("smb-users");
    // One that is missing is refused.
    File::options().write(true).create_new(true).mode(0o600).open(&users).unwrap();
    let gateway = ["smb", "--key", &key, "--listen", "127.0.0.1:0", "--users", &users];
    let _smb =
        start(&[&gateway[..], &["--share", "a=/", "--share", "b=/nosuch"]].concat(), "smb.log");
    let advice = "share b cannot be used: /nosuch does not exist; try: braid mkdir -p /nosuch";
    log_with(Path::new(&path("smb.log")), &[advice]);
    let advice = format!("{users} has no user; try: braid smb user add NAME --users {users}");
    log_with(Path::new(&path("smb.log")), &[&advice]);
    log_with(Path::new(&path("smb.log")), &["next: smbclient //127.0.0.1/a -p ", " -U USER"]);
    let nothing = start(&gateway, "nothing.log");
    log_with(Path::new(&path("nothing.log")), &["nothing is shared; try: braid smb --share"]);
    drop(nothing);
}

#[test]
fn the_log_of_a_daemon_has_levels_and_fields() {
    let cluster = Processes::start();
    let start = |name: &str, more: &[&str], filter: Option<&str>| {
        let disk = cluster.dir.path().join(name);
        let log = cluster.dir.path().join(format!("{name}.log"));
        let mut command = braid();
        command.args(["--config", &cluster.config]).args(more);
        command.args(["iod", "--init", "--listen", "127.0.0.1:0", "--dir"]).arg(&disk);
        filter.map(|filter| command.env("BRAID_LOG", filter));
        (daemon_logging(&mut command, &log), log)
    };
    let (_info, info) = start("info", &[], None);
    let (_debug, debug) = start("debug", &["-vv"], None);
    let (_silent, silent) = start("silent", &[], Some("error"));
    while cluster.up() < 3 {}
    // `status` connects to each daemon; one of the two logs shows it.
    let log = log_with(&debug, &["DEBUG", "connected", "role=Admin", "address=\"127.0.0.1:"]);
    assert!(log.contains(" INFO registered iod="), "each level holds those above it: {log}");
    let log = log_with(&info, &[" INFO ", "registered", "iod=", "mds="]);
    assert!(log.contains("I/O daemon started") && !log.contains("DEBUG"), "{log}");
    assert!(!log.contains('\x1b'), "no colours in a file: {log:?}");
    let log = fs::read_to_string(silent).unwrap();
    assert!(!log.contains("INFO") && !log.contains("DEBUG"), "BRAID_LOG wins: {log}");
}

/// Commands that call a cluster, each on something that does not exist.
const ON_NOTHING: [&[&str]; 11] = [
    &["ls", "/nothing"],
    &["stat", "/nothing"],
    &["cat", "/nothing"],
    &["get", "/nothing", "/tmp"],
    &["mkdir", "/nothing/d"],
    &["rm", "/nothing"],
    &["mv", "/nothing", "/d"],
    &["ln", "/nothing", "/d"],
    &["cp", "/nothing", "/d"],
    &["du", "/nothing"],
    &["layout", "show", "/nothing"],
];

#[test]
fn what_is_not_there_is_exit_code_3_of_every_command() {
    let cluster = Cluster::up(1);
    for args in ON_NOTHING {
        cluster.fails(args, 3, "try: ");
    }
    cluster.fails(&["layout", "set", "/nothing", "--iod-count", "1"], 3, "try: ");
    cluster.fails(&["put", "/nothing/here", "/"], 3, "no such file");
    let none = cluster.dir.path().join("none");
    cluster.fails(&["down", none.to_str().unwrap()], 3, "try: braid up");
}

#[test]
fn a_server_that_is_not_reached_is_exit_code_5_of_every_command() {
    let cluster = Cluster::up(1);
    let (config, file) = (cluster.path().join("braid.toml"), cluster.file("f", b"x"));
    assert!(braid().arg("down").arg(cluster.path()).output().unwrap().status.success());
    let put: &[&str] = &["put", &file, "/"];
    let others: [&[&str]; 7] = [
        &["status"],
        &["df"],
        &["sync"],
        &["fsck"],
        &["key", "list"],
        &["key", "revoke", "1"],
        put,
    ];
    for args in ON_NOTHING.into_iter().chain(others) {
        let output = braid()
            .arg("--config")
            .arg(&config)
            .args(["--timeout", "50ms"])
            .args(args)
            .output()
            .unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(5), "braid {args:?}: {said}");
        assert!(
            said.contains("metadata server at 127.0.0.1:") && said.contains("; try: "),
            "braid {args:?}: {said}"
        );
    }
}

#[test]
fn each_exit_code_is_what_the_help_says() {
    let cluster = Cluster::up(1);
    let file = cluster.file("f", b"x");
    cluster.ok(&["put", &file, "/f"]);
    cluster.ok(&["put", &file, "/g"]);
    cluster.fails(&["mv", "-n", "/f", "/g"], 1, "already exists");
    cluster.fails(&["get", "/f", "/dev/null/x"], 1, "try: ");
    for wrong in [
        &["ls", "--wrong"][..],
        &["put", "/only-one"],
        &["mkdir", "-m", "9", "/d"],
        &["--timeout", "soon", "ls"],
        &["--config", "/nothing/braid.toml", "ls"],
        &["key", "revoke", "x"],
        &["layout", "set", "/", "--stripe-size", "1"],
    ] {
        cluster.fails(wrong, 2, "");
    }
    cluster.fails(&["rm", "-r", "/"], 4, "whole file system");
    let empty = Processes::start();
    let no_room = empty.run(&["put", &file, "/"]);
    assert_eq!(
        no_room.status.code(),
        Some(6),
        "without an I/O daemon there is no room: {}",
        text(&no_room)
    );
    assert!(text(&no_room).contains("try: "), "{}", text(&no_room));
    assert!(text(&empty.run(&["status"])).contains("next: braid iod"));
    let help = text(&braid().arg("--help").output().unwrap());
    let page = text(&braid().arg("man").output().unwrap());
    for words in [
        "0 done",
        "1 failed",
        "2 wrong usage",
        "3 no such file",
        "4 refused",
        "5 server",
        "6 no space",
        "7 fsck",
    ] {
        assert!(help.contains(words) && page.replace('\n', " ").contains(words), "{words}");
    }
}

/// Checks the error of a wrong command: one reason and one advice, in this order.
fn wrong(output: &Output, code: i32, why: &str, advice: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let line =
        said.lines().find(|line| line.starts_with("braid: ")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(line.matches("try:").count(), 1, "{line}");
    let (reason, tried) = line.split_once("; try: ").unwrap();
    assert!(reason.contains(why), "{line}");
    assert_eq!(tried, advice, "{line}");
}

#[test]
fn names_that_cannot_be_say_what_would_do() {
    let cluster = Cluster::up(1);
    let file = cluster.file("f", b"x");
    cluster.ok(&["mkdir", "/a"]);
    cluster.ok(&["put", &file, "/a"]);
    let run = |args: &[&str]| cluster.run(args);
    wrong(
        &run(&["mv", "/a", "/a/b"]),
        1,
        "moving /a to /a/b: ",
        "a destination that is not below it",
    );
    wrong(&run(&["mv", "/a/f", "/b/f"]), 3, "directory /b does not exist", "braid mkdir -p /b");
    wrong(&run(&["mv", "--exchange", "/a/f", "/g"]), 3, "/g does not exist", "braid mv /a/f /g");
    wrong(&run(&["mkdir", "/b/c"]), 3, "directory /b does not exist", "braid mkdir -p /b");
    wrong(
        &run(&["ln", "/a", "/b"]),
        4,
        "a directory cannot have a second name",
        "braid ln -s /a /b",
    );
    wrong(&run(&["rm", "/a"]), 2, "it is a directory", "braid rm -r /a");
    wrong(&run(&["cp", "/a/f", "/a/f"]), 2, "the same file", "another destination");
    wrong(
        &run(&["cp", "-r", "/a", "/a/b"]),
        2,
        "would contain itself",
        "a destination that is not below it",
    );
    wrong(
        &run(&["cp", "-r", "/", "/a"]),
        2,
        "would contain itself",
        "a destination that is not below it",
    );
    assert_eq!(cluster.ok(&["ls", "/a"]), "f\n", "nothing was copied");
    wrong(&run(&["get", "/a/f", "/dev/null/x"]), 1, "writing /dev/null/x", "another destination");
    // Enough time for a name lookup, also on a busy machine.
    wrong(&run(&["ls", "--mds", "here", "--timeout", "2s"]), 5, "here", ADDRESS);
    let agent = "braid agent, as the owner of the client key";
    wrong(
        &run(&["ls", "--agent", "/nope.sock", "--timeout", "50ms"]),
        5,
        "(agent at /nope.sock)",
        agent,
    );
    let dir = cluster.dir.path().join("not-made");
    let init = run(&["init", dir.to_str().unwrap(), "--listen", "foo"]);
    wrong(&init, 2, "'foo' is not an address", "HOST:PORT, such as 127.0.0.1:7700 or [::1]:7700");
    assert!(!dir.exists(), "nothing was made");
    let binary = cluster.file("binary", &[0xff]);
    wrong(&run(&["ls", "--config", &binary]), 2, "reading", CONFIG);
}

const ADDRESS: &str = "an address HOST:PORT; braid config explain shows its source";
const CONFIG: &str = "--config with the braid.toml that braid init or braid up wrote";

#[test]
fn keys_that_cannot_be_made_or_revoked_leave_nothing_behind() {
    let cluster = Cluster::up(1);
    wrong(&cluster.run(&["key", "revoke", "99"]), 3, "revoking key 99: ", "braid key list");
    for name in ["", "a/b"] {
        wrong(
            &cluster.run(&["key", "add", name]),
            2,
            "creating key",
            "braid key add NAME --out FILE",
        );
    }
    let missing = cluster.dir.path().join("none/h.key");
    let lost = cluster.run(&["key", "add", "lost", "--out", missing.to_str().unwrap()]);
    wrong(&lost, 3, "none/h.key", "--out FILE in a directory that exists");
    let subtree = cluster.run(&["key", "add", "h", "--subtree", "/none", "--out", "/dev/null/k"]);
    wrong(
        &subtree,
        3,
        "creating key h for everything below /none",
        "braid ls on the directory above it",
    );
    let keys: serde_json::Value =
        serde_json::from_str(&cluster.ok(&["--json", "key", "list"])).unwrap();
    let valid: Vec<_> =
        keys.as_array().unwrap().iter().filter(|key| key["revoked"] == false).collect();
    assert_eq!(valid.len(), 1, "the cluster's own: {keys}");
}

#[test]
fn a_daemon_on_a_wrong_directory_leaves_it_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    assert!(
        braid()
            .args(["init", &path("c"), "--listen", "127.0.0.1:0"])
            .output()
            .unwrap()
            .status
            .success()
    );
    let config = path("c/braid.toml");
    let run = |args: &[&str]| braid().args(["--config", &config]).args(args).output().unwrap();
    let (none, full) = (path("none"), path("full"));
    wrong(
        &run(&["mds", "--dir", &none]),
        1,
        "is its disk mounted?",
        &format!("mount | grep {none}"),
    );
    wrong(
        &run(&["iod", "--dir", &none]),
        1,
        "is the disk mounted?",
        &format!("mount | grep {none}"),
    );
    assert!(!Path::new(&none).exists(), "nothing was made");
    fs::create_dir(&full).unwrap();
    fs::write(path("full/mine"), b"x").unwrap();
    wrong(
        &run(&["mds", "--dir", &full]),
        1,
        "is its disk mounted?",
        &format!("mount | grep {full}"),
    );
    wrong(&run(&["iod", "--init", "--dir", &full]), 1, "not empty", "an empty directory");
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1, "nothing was made");
}
