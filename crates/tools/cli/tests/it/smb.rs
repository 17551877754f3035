//! `braid smb`: its users, what it says about mistakes, and Samba's `smbclient` on clusters and
//! unions. Without `smbclient` those tests are skipped.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use braid_testbed::{embedded_cluster::EmbeddedCluster, ports::free_address, programs};
use tempfile::TempDir;

use crate::harness::{Cluster, Daemon, binary, braid, daemon_logging, noise, text};
use crate::output::log_with;

const PASSWORD: &str = "correct horse";

/// The user of this process: users of the file must be users of the host.
fn me() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// `braid smb user ARGS --users FILE`, with `input` on standard input.
fn user(file: &Path, args: &[&str], input: &str) -> Output {
    let mut command = braid();
    command.args(["smb", "user"]).args(args).arg("--users").arg(file);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that reads no input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn add(file: &Path, name: &str, password: &str) {
    let added = user(file, &["add", name, "--password-stdin"], &format!("{password}\n"));
    assert!(added.status.success(), "{}", text(&added));
}

/// `smbclient` on a gateway.
struct Samba {
    program: PathBuf,
    address: String,
    directory: TempDir,
}

impl Samba {
    /// `None`, with the reason printed, where it is not installed.
    fn on(address: &str) -> Option<Self> {
        match programs::need("smbclient", &["smbclient"]) {
            Ok(program) => {
                let directory = tempfile::tempdir().unwrap();
                Some(Self { program, address: address.to_owned(), directory })
            }
            Err(reason) => {
                println!("skipped: {reason:#}");
                None
            }
        }
    }

    fn command(&self, user: &str, password: &str) -> Command {
        let port = self.address.rsplit_once(':').unwrap().1;
        let mut command = Command::new(&self.program);
        // Without the settings of this host.
        command.args(["-s", "/dev/null", "-m", "SMB3_11", "-p", port]);
        command.arg("-U").arg(format!("{user}%{password}"));
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// Commands of smbclient on a share.
    fn run(&self, share: &str, user: &str, password: &str, commands: &str) -> Output {
        let mut command = self.command(user, password);
        command.arg(format!("//127.0.0.1/{share}")).args(["-c", commands]).output().unwrap()
    }

    /// The same as this process's user; all must succeed.
    fn ok(&self, share: &str, commands: &str) -> String {
        let output = self.run(share, &me(), PASSWORD, commands);
        assert!(output.status.success(), "{commands}: {}", text(&output));
        text(&output)
    }

    fn logs_on(&self, user: &str, password: &str) -> bool {
        let output = self.run("data", user, password, "ls");
        let refused = text(&output).contains("NT_STATUS_LOGON_FAILURE");
        assert_ne!(output.status.success(), refused, "{}", text(&output));
        !refused
    }
}

/// A gateway of a cluster, with this process's user.
struct Gateway {
    cluster: Cluster,
    users: PathBuf,
    address: String,
    log: PathBuf,
    _process: Daemon,
}

impl Gateway {
    fn start() -> Self {
        let cluster = Cluster::up(2);
        let users = cluster.dir.path().join("users");
        add(&users, &me(), PASSWORD);
        let (address, log) = (free_address().unwrap(), cluster.dir.path().join("smb.log"));
        let mut command = braid();
        command.arg("--config").arg(cluster.path().join("braid.toml"));
        command.args(["smb", "--listen", &address, "--share", "data=/,comment=all of it"]);
        command.args(["--share", "secret=/,hidden,users=nobody-else", "--users"]).arg(&users);
        let process = daemon_logging(command.stdin(Stdio::null()), &log);
        Self { cluster, users, address, log, _process: process }
    }
}

#[test]
fn smbclient_lists_shares_and_stores_and_fetches_files() {
    let gateway = Gateway::start();
    let Some(samba) = Samba::on(&gateway.address) else { return };
    let listed = samba.command(&me(), PASSWORD).args(["-L", "127.0.0.1"]).output().unwrap();
    let listed = text(&listed);
    assert!(listed.contains("data") && listed.contains("all of it"), "{listed}");
    assert!(!listed.contains("secret"), "a hidden share is in no list: {listed}");
    let bytes = noise(3_000_000);
    fs::write(samba.directory.path().join("f"), &bytes).unwrap();
    samba.ok("data", "mkdir d; put f d/f");
    gateway.cluster.ok(&["get", "/d/f", samba.directory.path().join("g").to_str().unwrap()]);
    assert_eq!(fs::read(samba.directory.path().join("g")).unwrap(), bytes);
    samba.ok("data", "get d/f h");
    assert_eq!(fs::read(samba.directory.path().join("h")).unwrap(), bytes);
    let shown = samba.ok("data", "rename d/f d/renamed; ls d/*");
    assert!(shown.contains("renamed") && shown.contains("3000000"), "{shown}");
    samba.ok("data", "rm d/renamed; rmdir d");
    assert_eq!(gateway.cluster.ok(&["ls", "/"]), "");
}

#[test]
fn wrong_passwords_and_users_of_other_shares_are_refused() {
    let gateway = Gateway::start();
    let Some(samba) = Samba::on(&gateway.address) else { return };
    assert!(samba.logs_on(&me(), PASSWORD));
    assert!(samba.logs_on(&me().to_uppercase(), PASSWORD), "case does not matter");
    assert!(!samba.logs_on(&me(), "wrong"));
    assert!(!samba.logs_on("stranger", PASSWORD));
    let refused = samba.run("secret", &me(), PASSWORD, "ls");
    assert!(text(&refused).contains("NT_STATUS_ACCESS_DENIED"), "{}", text(&refused));
    let none = samba.run("nosuch", &me(), PASSWORD, "ls");
    assert!(text(&none).contains("NT_STATUS_BAD_NETWORK_NAME"), "{}", text(&none));
    let log = fs::read_to_string(&gateway.log).unwrap();
    assert!(log.contains("share \"nosuch\": no share has this name; try: "), "{log}");
}

#[test]
fn a_gateway_whose_shares_have_no_directory_does_not_start() {
    let gateway = Gateway::start();
    let start = |shares: &[&str]| {
        let mut command = braid();
        command.arg("--config").arg(gateway.cluster.path().join("braid.toml"));
        command.args(["smb", "--listen", &free_address().unwrap(), "--users"]);
        command.arg(&gateway.users).args(shares).stdin(Stdio::null());
        command
    };
    let lost = ["--share", "lost=/no/such"];
    let refused = start(&lost).output().unwrap();
    let says = "share lost cannot be used: /no/such does not exist; try: braid mkdir -p /no/such";
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains(says), "{}", text(&refused));
    // Beside another share it is only named.
    let log = gateway.cluster.dir.path().join("lost.log");
    let mut beside = start(&[&lost[..], &["--share", "data=/"]].concat());
    let _process = daemon_logging(&mut beside, &log);
    log_with(&log, &[says]);
}

#[test]
fn users_are_added_and_removed_while_the_gateway_runs() {
    let gateway = Gateway::start();
    let Some(samba) = Samba::on(&gateway.address) else { return };
    assert!(user(&gateway.users, &["remove", &me()], "").status.success());
    assert!(!samba.logs_on(&me(), PASSWORD), "a removed user");
    add(&gateway.users, &me(), "another one");
    assert!(samba.logs_on(&me(), "another one"), "an added user");
    assert!(!samba.logs_on(&me(), PASSWORD), "the old password");
    add(&gateway.users, "no-such-user", PASSWORD);
    assert!(!samba.logs_on("no-such-user", PASSWORD), "no user of this host");
    let log = fs::read_to_string(&gateway.log).unwrap();
    assert!(log.contains("no-such-user cannot log on: no user of this host"), "{log}");
    fs::set_permissions(&gateway.users, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(!samba.logs_on(&me(), "another one"), "a file that others can read");
    let log = fs::read_to_string(&gateway.log).unwrap();
    let last = log.lines().last().unwrap();
    assert!(last.contains("its mode is 0644") && last.contains("try: chmod 600 "), "{log}");
}

#[test]
fn an_embedded_cluster_has_an_smb_gateway_with_its_own_users() {
    if Path::new("/etc/braid/smb-users").exists() {
        return println!("skipped: this host has SMB users of its own");
    }
    let dir = tempfile::tempdir().unwrap();
    let (home, address) = (dir.path().join("c"), free_address().unwrap());
    let options = [&format!("--smb={address}"), "--no-mount"];
    let _cluster = EmbeddedCluster::start(&binary(), &home, 1, &options).unwrap();
    let log = fs::read_to_string(home.with_extension("log")).unwrap();
    let hint = "has no user; try: braid smb user add NAME --users ";
    assert!(log.contains(hint) && log.contains("next: smbclient //127.0.0.1/braid -p "), "{log}");
    let Some(samba) = Samba::on(&address) else { return };
    add(&home.join("smb-users"), &me(), PASSWORD);
    assert!(samba.ok("braid", "mkdir d; ls").contains(" d "));
}

#[test]
fn a_union_is_served_to_smbclient() {
    if !programs::is_root() {
        return println!("skipped: the gateway of a union needs root");
    }
    let (dir, address) = (tempfile::tempdir().unwrap(), free_address().unwrap());
    let Some(samba) = Samba::on(&address) else { return };
    fs::create_dir(dir.path().join("disk")).unwrap();
    let made = braid()
        .current_dir(dir.path())
        .args(["union", "create", "media", "--meta", "meta", "--min-free", "0", "disk"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    add(&dir.path().join("meta/smb-users"), &me(), PASSWORD);
    let mut command = braid();
    command.current_dir(dir.path()).args(["--json", "union", "up", "--foreground", "meta"]);
    command.arg(format!("--smb={address}")).stdin(Stdio::null());
    let _union = Daemon::start(&mut command, "\"smb\"", &dir.path().join("log")).unwrap();
    fs::write(samba.directory.path().join("f"), b"bytes").unwrap();
    samba.ok("union", "mkdir d; put f d/f; rename d/f d/g");
    assert_eq!(fs::read(dir.path().join("disk/d/g")).unwrap(), b"bytes");
    samba.ok("union", "rm d/g");
    assert!(!dir.path().join("disk/d/g").exists());
}

#[test]
fn users_are_added_listed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users");
    add(&file, "root", PASSWORD);
    let added = user(&file, &["add", "no-such-user", "--password-stdin"], "a third");
    let said = text(&added);
    assert!(added.status.success() && said.contains("try: useradd no-such-user"), "{said}");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    let listed = text(&user(&file, &["list"], ""));
    assert!(listed.contains("root") && listed.contains("no user of this host"), "{listed}");
    let content = fs::read_to_string(&file).unwrap();
    let hash = content.lines().next().unwrap().split_once(':').unwrap().1;
    assert!(!listed.contains(hash) && hash.len() == 32, "{listed}");
    add(&file, "ROOT", "another one");
    let content = fs::read_to_string(&file).unwrap();
    assert!(content.lines().count() == 2 && !content.contains(hash), "{content}");
    assert!(user(&file, &["remove", "Root"], "").status.success());
    let missing = user(&file, &["remove", "root"], "");
    assert_eq!(missing.status.code(), Some(3), "{}", text(&missing));
    assert!(text(&missing).contains("try: braid smb user list --users "), "{}", text(&missing));
    let json = braid().args(["--json", "smb", "user", "list", "--users"]).arg(&file).output();
    let json: serde_json::Value = serde_json::from_slice(&json.unwrap().stdout).unwrap();
    assert_eq!(json["users"][0]["name"], "no-such-user");
    assert!(json["users"][0]["uid"].is_null() && json["users"].as_array().unwrap().len() == 1);
}

#[test]
fn names_and_passwords_that_cannot_be_used_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users");
    for (name, input, says) in [
        ("a:b", "x\n", "a name has no \":\""),
        ("", "x\n", "a name has 1 to 64 characters"),
        ("alice", "\n", "the password is empty"),
        ("alice", "a\tb\n", "the password has control characters"),
    ] {
        let output = user(&file, &["add", name, "--password-stdin"], input);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(says), "{says}: {}", text(&output));
    }
    let output = user(&file, &["add", "alice"], "x\n");
    assert!(text(&output).contains("no terminal") && text(&output).contains("--password-stdin"));
    assert!(!file.exists(), "nothing was written");
}

/// Types `lines` at the questions of `braid smb user add`, and returns its exit code and what the
/// terminal showed.
fn typed(file: &Path, lines: [&str; 2]) -> (Option<i32>, String) {
    let (mut master, user) = crate::output::terminal();
    let mut command = braid();
    command.args(["smb", "user", "add", "root", "--users"]).arg(file);
    command.stdin(user.try_clone().unwrap()).stdout(user.try_clone().unwrap()).stderr(user);
    let mut child = command.spawn().unwrap();
    // It holds the ends of the terminal too.
    drop(command);
    let mut shown = String::new();
    for (question, line) in [("Password of root: ", lines[0]), ("Again: ", lines[1])] {
        if !read_until(&mut master, &mut shown, question) {
            break;
        }
        master.write_all(line.as_bytes()).unwrap();
    }
    while read_until(&mut master, &mut shown, "\0") {}
    (child.wait().unwrap().code(), shown)
}

/// Reads until the terminal shows `text`; `false`: the program has ended before.
fn read_until(master: &mut File, shown: &mut String, text: &str) -> bool {
    let mut byte = [0];
    while !shown.ends_with(text) {
        match master.read(&mut byte) {
            Ok(1..) => shown.push(char::from(byte[0])),
            _ => return false,
        }
    }
    true
}

#[test]
fn a_password_is_asked_twice_and_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users");
    let (code, shown) = typed(&file, ["secret\n", "secert\n"]);
    assert!(code == Some(2) && shown.contains("the two passwords differ"), "{shown}");
    let (code, shown) = typed(&file, ["sec\x03", ""]);
    assert!(code == Some(1) && shown.contains("interrupted"), "{shown}");
    assert!(!file.exists(), "nothing was written");
    let (code, shown) = typed(&file, ["secret\n", "secret\n"]);
    assert!(code == Some(0) && !shown.contains("secret"), "{shown}");
    assert!(fs::read_to_string(&file).unwrap().starts_with("root:"));
}

/// `braid smb ARGS` must not start, and print these texts. None of this needs a cluster: the
/// gateway checks its own files first.
fn refused(args: &[&str], says: &[&str]) {
    let output = braid().arg("smb").args(args).output().unwrap();
    let text = text(&output);
    // systemd starts a daemon with this status no more.
    assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
    for part in says {
        assert!(text.contains(part), "{args:?}: {part:?} is not in {text}");
    }
}

#[test]
fn mistakes_are_named_with_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str, mode| {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let open = file("open", "", 0o644);
    refused(&["--users", &open], &["its mode is 0644", &format!("try: chmod 600 {open}")]);
    let missing = dir.path().join("tpyo");
    let missing = missing.to_str().unwrap();
    refused(
        &["--users", missing],
        &["does not exist", &format!("try: braid smb user add NAME --users {missing}")],
    );
    let wrong = file("wrong", "alice\n", 0o600);
    refused(&["--users", &wrong], &["line 1: it is not NAME:HASH", "try: "]);
    let fine = file("fine", "", 0o600);
    let share = |share: &str, says: &[&str]| refused(&["--users", &fine, "--share", share], says);
    share("/a", &["it is not NAME=PATH", "try: --share projects=/projects"]);
    share("a=/,rw", &["unknown option \"rw\""]);
    share("a=b", &["\"b\" is no path of a share", "try: "]);
    share("IPC$=/", &["IPC$ is not free for a share"]);
    share("a/b=/", &["\"a/b\" is no name of a share"]);
    let both = ["--users", &fine, "--share", "a=/", "--share", "A=/"];
    refused(&both, &["two shares are named A"]);
    let config = file("braid.toml", "[smb]\nserver-name = 'more-than-fifteen'\n", 0o600);
    refused(&["--config", &config, "--users", &fine], &["is no name", "smb.server-name"]);
    for (gateways, says) in [
        ("'fe80::1'", "\"fe80::1\" is no gateway"),
        ("'gw1', 'GW1:4450'", "two gateways are named GW1"),
    ] {
        let config = file("braid.toml", &format!("[smb]\ngateways = [{gateways}]\n"), 0o600);
        refused(&["--config", &config, "--users", &fine], &[says, "try: smb.gateways = "]);
    }
    let config =
        file("braid.toml", "[[smb.share]]\nname = 'a'\npath = '/'\nguests = true\n", 0o600);
    refused(&["--config", &config], &["line 4: unknown field `guests`"]);
}
