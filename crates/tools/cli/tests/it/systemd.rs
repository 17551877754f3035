//! The units of `dist/systemd`, started as systemd would, as far as possible without it: command
//! lines, environment, umask, user, no privileges, and a file system that is read-only except for
//! the named directories.
#![cfg(target_os = "linux")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::harness::{Daemon, braid, daemon_logging, noise, text};
use braid_testbed::{ports::free_address, programs::is_root};
use tempfile::TempDir;

const UNITS: [&str; 5] = [
    "braid-mds.service",
    "braid-iod@.service",
    "braid-agent.service",
    "braid-nfs.service",
    "braid-smb.service",
];
/// The disk of the one I/O daemon: its instance name.
const INSTANCE: &str = "disk1";
/// The user of the daemons in these tests, instead of the user `braid`.
const USER: u32 = 65534;

fn dist() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../dist/systemd")
}

/// `[Service]` of a unit: keys in order, with `%i` replaced.
struct Unit(Vec<(String, String)>);

impl Unit {
    fn read(name: &str) -> Self {
        let text = fs::read_to_string(dist().join(name)).unwrap().replace("%i", INSTANCE);
        let service =
            text.split("\n[Service]\n").nth(1).unwrap().split("\n[Install]\n").next().unwrap();
        let lines = service.lines().filter(|line| !line.starts_with('#'));
        Self(
            lines
                .filter_map(|line| line.split_once('='))
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
    }

    fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| found == key).map(|(_, value)| value.as_str())
    }

    fn one<'a>(&'a self, key: &'a str) -> &'a str {
        self.all(key).last().unwrap_or_else(|| panic!("the unit has no {key}="))
    }
}

/// A machine of its own: the directories `/etc/braid`, `/var/lib/braid`, `/srv/braid` and
/// `/run/braid` of the units are below it.
struct Machine {
    root: TempDir,
    mds: String,
}

impl Machine {
    /// The steps from the comments of the units, "once, before the first start".
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let machine = Self { root, mds: free_address().unwrap() };
        for dir in ["etc", "usr/bin", "run/braid", "var/lib/braid", "srv/braid/disk1"] {
            fs::create_dir_all(machine.path(dir)).unwrap();
        }
        fs::copy(env!("CARGO_BIN_EXE_braid"), machine.path("usr/bin/braid")).unwrap();
        let init = braid()
            .arg("init")
            .arg(machine.path("var/lib/braid"))
            .args(["--listen", &machine.mds])
            .output();
        assert!(init.as_ref().unwrap().status.success(), "{}", text(&init.unwrap()));
        let (from, to) = (machine.path("var/lib/braid"), machine.path("etc/braid"));
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
        let options = format!("BRAID_IOD_OPTIONS=--init --listen {}\n", free_address().unwrap());
        fs::write(machine.path("etc/braid/iod-disk1.env"), options).unwrap();
        machine.own();
        machine
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below.trim_start_matches('/'))
    }

    /// Gives everything to the daemons' user. Before they run, since they rename and remove their
    /// files.
    fn own(&self) {
        if is_root() {
            give(self.root.path());
            chown(self.root.path(), Some(0), Some(0)).unwrap();
        }
    }

    /// Maps absolute paths of a unit to this machine.
    fn here(&self, text: &str) -> String {
        let root = self.root.path().to_str().unwrap();
        ["/usr/bin/braid", "/etc/braid", "/var/lib/braid", "/srv/braid", "/run/braid"]
            .into_iter()
            .fold(text.to_owned(), |text, path| text.replace(path, &format!("{root}{path}")))
    }

    /// Directories that the unit may write; systemd creates those of `StateDirectory=` and
    /// `RuntimeDirectory=`.
    fn writable(&self, unit: &Unit) -> Vec<PathBuf> {
        let state = unit.all("StateDirectory").map(|name| self.path(&format!("var/lib/{name}")));
        let runtime = unit.all("RuntimeDirectory").map(|name| self.path(&format!("run/{name}")));
        let named = unit.all("ReadWritePaths").map(|path| PathBuf::from(self.here(path)));
        state.chain(runtime).chain(named).collect()
    }

    /// `Environment=`, then `EnvironmentFile=`; from the environment of the test only PATH.
    fn environment(&self, unit: &Unit) -> BTreeMap<String, String> {
        let files = unit.all("EnvironmentFile").map(|path| self.here(path.trim_start_matches('-')));
        let lines = files.flat_map(|path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        });
        let set = unit.all("Environment").map(|line| self.here(line)).chain(lines);
        set.filter_map(|line| {
            line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        })
        .collect()
    }

    /// `ExecStart=` as words: `$NAME` alone is split at blanks, `${NAME}` is not.
    fn words(&self, unit: &Unit) -> Vec<String> {
        let environment = self.environment(unit);
        let value = |name: &str| environment.get(name).cloned().unwrap_or_default();
        let line = self.here(unit.one("ExecStart"));
        line.split_whitespace()
            .flat_map(|word| match word.strip_prefix('$') {
                Some(name) if !name.starts_with('{') => {
                    value(name).split_whitespace().map(str::to_owned).collect()
                }
                Some(name) => vec![value(name.trim_matches(['{', '}']))],
                None => vec![word.to_owned()],
            })
            .collect()
    }

    /// The command of a unit, with its umask and limits. As root also without privileges, and with
    /// a file system that is read-only except for what the unit names. `trace` gets its system
    /// calls if `strace` is installed.
    fn command(&self, unit: &Unit, trace: &Path) -> Command {
        let mut script = format!(
            "umask {}; ulimit -n {} 2>/dev/null || :; cd /; ",
            unit.one("UMask"),
            unit.one("LimitNOFILE")
        );
        let mut wrapped = Vec::new();
        if is_root() {
            assert_eq!((unit.one("ProtectSystem"), unit.one("NoNewPrivileges")), ("strict", "yes"));
            let root = self.root.path().display();
            script += &format!("mount --bind {root} {root} && mount -o remount,bind,ro {root} && ");
            for path in self.writable(unit) {
                let path = path.display();
                script +=
                    &format!("mount --bind {path} {path} && mount -o remount,bind,rw {path} && ");
            }
            wrapped.extend(
                ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
                    .map(str::to_owned),
            );
            wrapped.extend(
                ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"].map(str::to_owned),
            );
        }
        if has("strace") {
            // Outside of `setpriv`, so that the trace itself can be written.
            let strace =
                ["strace", "-f", "-qq", "-e", "signal=none", "-o", trace.to_str().unwrap()];
            wrapped.splice(0..0, strace.map(str::to_owned));
        }
        script += "exec \"$@\"";
        let mut command = match is_root() {
            true => Command::new("unshare"),
            false => Command::new("sh"),
        };
        if is_root() {
            command.args(["--mount", "--propagation", "private", "sh"]);
        }
        command.args(["-c", &script, "sh"]).args(wrapped).args(self.words(unit));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs(self.environment(unit));
        command
    }

    /// Running programs of this machine, with their command lines.
    fn running(&self) -> Vec<(rustix::process::Pid, Vec<String>)> {
        let program = self.path("usr/bin/braid");
        let processes = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let found = processes.filter_map(|name| {
            let pid = rustix::process::Pid::from_raw(name.parse().ok()?)?;
            let command = fs::read(format!("/proc/{name}/cmdline")).ok()?;
            let words =
                command.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned());
            Some((pid, words.collect::<Vec<_>>()))
        });
        found
            .filter(|(_, command)| command.first().is_some_and(|first| Path::new(first) == program))
            .collect()
    }

    fn braid(&self, args: &[&str]) -> Output {
        braid().arg("--config").arg(self.path("etc/braid/braid.toml")).args(args).output().unwrap()
    }
}

impl Drop for Machine {
    /// A killed `strace` leaves its program running.
    fn drop(&mut self) {
        for (pid, _) in self.running() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn the_units_are_what_systemd_understands() {
    if !has("systemd-analyze") {
        println!("skipped: systemd-analyze is not on this machine");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let verify = |name: &str, text: &str| {
        // systemd checks that the program exists; ours has another path.
        let text = text.replace("/usr/bin/braid", env!("CARGO_BIN_EXE_braid"));
        let file = dir.path().join(name.replace('@', "@disk1"));
        fs::write(&file, text).unwrap();
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&file)
            .output()
            .unwrap();
        (output.status.success() && !self::text(&output).contains("braid-"), self::text(&output))
    };
    for name in UNITS {
        let unit = fs::read_to_string(dist().join(name)).unwrap();
        let (fine, said) = verify(name, &unit);
        assert!(fine, "{name}: {said}");
        let (fine, said) = verify(name, &unit.replace("UMask=", "Umask="));
        assert!(!fine, "{name}: a misspelt key is reported: {said}");
    }
}

#[test]
fn the_units_start_daemons_that_are_a_cluster_and_end_when_told() {
    let machine = Machine::new();
    let traces = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        let unit = Unit::read(name);
        let trace = traces.path().join(name);
        (
            daemon_logging(&mut machine.command(&unit, &trace), &trace.with_extension("log")),
            unit,
            trace,
        )
    };
    let mds = start("braid-mds.service");
    let iod = start("braid-iod@.service");
    let key = machine.path("etc/braid/keys/client.key");
    let added = machine.braid(&["key", "add", "host", "--out", key.to_str().unwrap()]);
    assert!(added.status.success(), "{}", text(&added));
    if is_root() {
        give(&key);
    }
    let agent = start("braid-agent.service");
    let socket = machine.path("run/braid/agent.sock");
    assert_eq!(
        fs::metadata(&socket).unwrap().permissions().mode() & 0o666,
        0o666,
        "every user may connect"
    );

    while !text(&machine.braid(&["status"])).contains(" up ") {}
    let data = noise(3_000_000);
    let local = machine.path("run/data");
    fs::write(&local, &data).unwrap();
    let by_key = |args: &[&str]| machine.braid(&[&["--key", key.to_str().unwrap()], args].concat());
    if is_root() {
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let made = by_key(&["mkdir", "-m", "1777", "/scratch"]);
    assert!(made.status.success(), "{}", text(&made));
    let as_user = |args: &[&str]| {
        braid()
            .args(["--mds", &machine.mds, "--agent", socket.to_str().unwrap()])
            .args(args)
            .output()
            .unwrap()
    };
    while !as_user(&["put", local.to_str().unwrap(), "/scratch/f"]).status.success() {}
    assert_eq!(as_user(&["cat", "/scratch/f"]).stdout, data);

    for (mut daemon, unit, trace) in [agent, iod, mds] {
        end(&mut daemon, &machine, &unit);
        if trace.exists() {
            judge(&unit, &fs::read_to_string(&trace).unwrap());
        } else {
            println!("system calls are not looked at: strace is not on this machine");
        }
    }
}

/// Sends SIGTERM to the daemon itself, as systemd does; it must end with success.
fn end(daemon: &mut Daemon, machine: &Machine, unit: &Unit) {
    let words = machine.words(unit);
    let (pid, _) = machine
        .running()
        .into_iter()
        .find(|(_, command)| command.get(1) == words.get(1))
        .expect("it runs");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success(), "{} ends well", words[1]);
}

/// Compares the daemon's system calls with what its unit allows.
fn judge(unit: &Unit, trace: &str) {
    let calls =
        trace.lines().filter_map(|line| line.split_once(' ').map(|(_, call)| call.trim_start()));
    let calls: Vec<&str> = calls.filter(|call| call.contains('(')).collect();
    assert!(calls.len() > 50, "a trace of {} calls", calls.len());
    let families: BTreeSet<&str> = unit.one("RestrictAddressFamilies").split_whitespace().collect();
    for call in calls.iter().filter(|call| call.starts_with("socket(")) {
        let family = call["socket(".len()..].split(',').next().unwrap();
        assert!(families.contains(family), "{call} under RestrictAddressFamilies={families:?}");
    }
    assert_eq!(unit.one("MemoryDenyWriteExecute"), "yes");
    let both = calls.iter().find(|call| call.contains("PROT_WRITE|PROT_EXEC"));
    assert_eq!(both, None, "memory that is written and run");
    let Some(allowed) = allowed_calls(unit) else {
        println!("names of system calls are not looked at: systemd-analyze is not on this machine");
        return;
    };
    // The calls of the wrappers before the daemon itself starts.
    let start = calls
        .iter()
        .rposition(|call| call.starts_with("execve(") && call.contains("usr/bin/braid"))
        .unwrap();
    let used: BTreeSet<&str> =
        calls[start + 1..].iter().map(|call| call.split('(').next().unwrap()).collect();
    let refused: Vec<_> = used
        .iter()
        .filter(|name| !allowed.contains(**name) && !name.contains([' ', '<']))
        .collect();
    assert!(refused.is_empty(), "{refused:?} under SystemCallFilter=");
}

/// `SystemCallFilter=` as a set of names: each line adds names, or with `~` removes them.
fn allowed_calls(unit: &Unit) -> Option<BTreeSet<String>> {
    let mut allowed = BTreeSet::new();
    for line in unit.all("SystemCallFilter") {
        let (names, removes) = line.strip_prefix('~').map_or((line, false), |names| (names, true));
        for name in names.split_whitespace() {
            let set = calls_of(name)?;
            match removes {
                true => allowed.retain(|call| !set.contains(call)),
                false => allowed.extend(set),
            }
        }
    }
    // systemd adds this group to every filter.
    allowed.extend(calls_of("@default")?);
    Some(allowed)
}

/// The names of a group, including those of nested groups.
fn calls_of(group: &str) -> Option<BTreeSet<String>> {
    let output = Command::new("systemd-analyze").args(["syscall-filter", group]).output().ok()?;
    let mut calls = BTreeSet::new();
    for word in String::from_utf8_lossy(&output.stdout).lines().skip(1).map(str::trim) {
        match word.chars().next() {
            Some('@') => calls.extend(calls_of(word)?),
            Some('#') | None => {}
            Some(_) => drop(calls.insert(word.to_owned())),
        }
    }
    (!calls.is_empty()).then_some(calls)
}

/// Gives the tree at `path` to the daemons' user.
fn give(path: &Path) {
    let given = Command::new("chown").args(["-R", &format!("{USER}:{USER}")]).arg(path).status();
    assert!(given.unwrap().success());
}
