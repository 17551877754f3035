//! The watchdog process of a mount: no process waits for a killed mount (I8), and no other mount is
//! affected.
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    time::Duration,
};

use crate::harness::{Cluster, braid, text};
use braid_testbed::{mounts::is_mounted, wait::wait_for};
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open,
};

/// Longer than any step of these tests: a test that would hang fails instead.
const LONG: Duration = Duration::from_secs(60);

/// A cluster and a mount point; `None`, with the reason printed, if this machine cannot mount.
fn stage() -> Option<(Cluster, PathBuf)> {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: mounting needs root and /dev/fuse");
        return None;
    }
    let cluster = Cluster::up(1);
    let point = cluster.dir.path().join("point");
    fs::create_dir(&point).unwrap();
    fs::write(cluster.path().join("mnt/file"), "content").unwrap();
    Some((cluster, point))
}

/// A mount in the foreground, and its watchdog.
struct Mount {
    process: Child,
    watchdog: Pid,
}

impl Mount {
    fn start(cluster: &Cluster, point: &Path, options: &[&str]) -> Self {
        let mut command = braid();
        command.arg("--config").arg(cluster.path().join("braid.toml"));
        command.args(["--json", "mount", "--foreground"]).args(options).arg(point);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(process.stdout.as_mut().unwrap()),
            &mut line,
        )
        .unwrap();
        assert!(line.starts_with('{'), "{line}");
        let watchdog = watchdog_of(point);
        Self { process, watchdog }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// The FUSE device of the mount, kept open as by a thread that waits in the kernel.
    fn device(&self) -> OwnedFd {
        let pid = self.process.id();
        let is_device = |number: &i32| {
            fs::read_link(format!("/proc/{pid}/fd/{number}"))
                .is_ok_and(|link| link == Path::new("/dev/fuse"))
        };
        let number = descriptors(pid).into_iter().find(is_device).unwrap();
        let process = pidfd_open(Pid::from_child(&self.process), PidfdFlags::empty()).unwrap();
        pidfd_getfd(process, number, PidfdGetfdFlags::empty()).unwrap()
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The watchdog of a new mount. The mount is usable before its watchdog is ready.
fn watchdog_of(point: &Path) -> Pid {
    wait_for("a mount has a watchdog", || !watchdogs(point).is_empty());
    watchdogs(point).pop().unwrap()
}

fn descriptors(pid: u32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Watchdogs of the mounts at a path, the newest last.
fn watchdogs(point: &Path) -> Vec<Pid> {
    let begin = format!("braid-watchdog\0{}\0", point.display());
    let mut found: Vec<i32> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|process| {
            fs::read(process.path().join("cmdline"))
                .is_ok_and(|line| line.starts_with(begin.as_bytes()))
        })
        // It sets its name last, after it has started to ignore signals.
        .filter(|process| {
            fs::read(process.path().join("comm")).is_ok_and(|name| name == b"braid-watchdog\n")
        })
        .filter_map(|process| process.file_name().to_str()?.parse().ok())
        .collect();
    found.sort_unstable();
    found.into_iter().filter_map(Pid::from_raw).collect()
}

fn until_no_watchdog(point: &Path) {
    wait_for("the watchdog's end", || watchdogs(point).is_empty());
}

/// Whether it ignores SIGTERM: the last step before it waits.
fn is_ready(watchdog: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", watchdog.as_raw_nonzero())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (Signal::TERM.as_raw() - 1) != 0
}

/// The exit status; `None` if the process still runs after a long time.
fn ended(mut child: Child) -> Option<ExitStatus> {
    let (done, waiting) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait().unwrap()));
    waiting.recv_timeout(LONG).ok()
}

/// Counter-test: if the watchdog is killed first, the reader waits as long as the device is open.
#[test]
fn a_reader_of_a_killed_mount_gets_an_error_with_its_device_open() {
    let Some((cluster, point)) = stage() else { return };
    let mount = Mount::start(&cluster, &point, &[]);
    let (_kept, watchdog) = (mount.device(), mount.watchdog);
    // The signals that a service manager or a terminal sends to all processes.
    wait_for("the watchdog", || is_ready(watchdog));
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        kill_process(watchdog, signal).unwrap();
    }
    // From here on the mount reads no request from the kernel.
    mount.signal(Signal::STOP);
    let mut reader = Command::new("cat");
    let reader =
        reader.arg(point.join("file")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    mount.kill();
    assert!(ended(reader).expect("the reader waits forever").code() == Some(1));
    until_no_watchdog(&point);
    assert!(
        is_mounted(&point).unwrap(),
        "a program that uses it gets errors, and not the directory underneath"
    );
}

#[test]
fn a_watchdog_holds_nothing_of_its_mount_and_ends_with_it() {
    let Some((cluster, point)) = stage() else { return };
    let mount = Mount::start(&cluster, &point, &[]);
    wait_for("the watchdog", || is_ready(mount.watchdog));
    let pid = mount.watchdog.as_raw_nonzero().get().cast_unsigned();
    for number in descriptors(pid) {
        let file = fs::read_link(format!("/proc/{pid}/fd/{number}")).unwrap();
        assert!(
            file != Path::new("/dev/fuse") && !file.starts_with(cluster.dir.path()),
            "{}",
            file.display()
        );
    }
    assert_eq!(fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), Path::new("/"));
    assert_eq!(rustix::process::getsid(Some(mount.watchdog)).unwrap(), mount.watchdog);
    mount.signal(Signal::TERM);
    assert!(ended(mount.process).is_some_and(|status| status.success()));
    until_no_watchdog(&point);

    // In the background, and unmounted by another process.
    cluster.ok(&["mount", point.to_str().unwrap()]);
    wait_for("the watchdog", || watchdogs(&point).len() == 1);
    let umount = braid().arg("umount").arg(&point).output().unwrap();
    assert!(umount.status.success(), "{}", text(&umount));
    until_no_watchdog(&point);
}

#[test]
fn a_dead_mount_is_taken_away_where_that_is_wanted() {
    let Some((cluster, point)) = stage() else { return };
    let log = cluster.dir.path().join("log");
    let options = format!("detach_dead,log={}", log.display());
    Mount::start(&cluster, &point, &["-o", &options]).kill();
    until_no_watchdog(&point);
    assert!(!is_mounted(&point).unwrap());
    let said = fs::read_to_string(log).unwrap();
    assert!(said.contains("the mount's process was killed"), "{said}");
}

#[test]
fn a_mount_in_the_place_of_a_dead_one_is_left_alone_by_its_watchdog() {
    let Some((cluster, point)) = stage() else { return };
    let first = Mount::start(&cluster, &point, &["-o", "detach_dead"]);
    let watchdog = first.watchdog;
    wait_for("the watchdog", || is_ready(watchdog));
    kill_process(watchdog, Signal::STOP).unwrap();
    first.kill();
    let umount = braid().arg("umount").arg(&point).output().unwrap();
    assert!(umount.status.success(), "{}", text(&umount));
    let second = Mount::start(&cluster, &point, &[]);
    kill_process(watchdog, Signal::CONT).unwrap();
    wait_for("the first watchdog's end", || !watchdogs(&point).contains(&watchdog));
    assert!(is_mounted(&point).unwrap());
    assert_eq!(fs::read(point.join("file")).unwrap(), b"content");
    second.signal(Signal::TERM);
    assert!(ended(second.process).is_some_and(|status| status.success()));
    until_no_watchdog(&point);
}
