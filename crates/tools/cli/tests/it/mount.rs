//! `braid mount` and `braid umount` from a user's view, also when servers or the mount itself are
//! killed.
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::{net::UnixDatagram, process::CommandExt},
    path::Path,
    process::{Child, ExitStatus, Stdio},
    sync::mpsc,
    time::Duration,
};

use crate::harness::{Cluster, Daemon, Processes, braid, noise, text};
use braid_testbed::mounts::mount_entry;
use rustix::process::{Pid, Signal, kill_process};

/// Longer than any step of these tests: a test that would hang fails instead.
const LONG: Duration = Duration::from_secs(60);

/// Whether this machine can mount; prints the reason if not.
pub(crate) fn can_mount() -> bool {
    let able = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !able {
        println!("skipped: mounting needs root and /dev/fuse");
    }
    able
}

/// Type and source of the mount at a path.
fn mounted(point: &Path) -> Option<(String, String)> {
    mount_entry(point).unwrap().map(|entry| (entry.kind, entry.source))
}

/// A mount in the foreground, so that the test has its process.
pub(crate) struct Foreground(Child);

impl Foreground {
    pub(crate) fn start(config: &str, point: &Path) -> Self {
        Self::start_with(config, point, &[])
    }

    fn start_with(config: &str, point: &Path, arguments: &[&str]) -> Self {
        let mut command = braid();
        command.args(["--json", "--config", config, "--timeout", "3s", "mount", "--foreground"]);
        command.args(arguments).arg(point);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.as_mut().unwrap()),
            &mut line,
        )
        .unwrap();
        assert!(line.starts_with('{'), "{line}");
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn ended(mut self) -> Option<ExitStatus> {
        let (done, waiting) = mpsc::channel();
        std::thread::spawn(move || done.send(self.0.wait().unwrap()));
        waiting.recv_timeout(LONG).ok()
    }
}

fn unmount(point: &Path, lazy: bool) -> std::process::Output {
    braid().arg("umount").args(lazy.then_some("--lazy")).arg(point).output().unwrap()
}

#[test]
fn up_mounts_by_itself_and_down_unmounts() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(2);
    let point = cluster.path().join("mnt");
    assert_eq!(mounted(&point).map(|(kind, _)| kind).as_deref(), Some("fuse.braid"));
    let content = noise(3_000_000);
    fs::create_dir(point.join("dir")).unwrap();
    fs::write(point.join("dir/file"), &content).unwrap();
    assert_eq!(fs::read(point.join("dir/file")).unwrap(), content);
    let back = cluster.dir.path().join("back");
    cluster.ok(&["get", "/dir/file", back.to_str().unwrap()]);
    assert_eq!(fs::read(back).unwrap(), content, "the library sees the same");
    cluster.restart_after(|| assert_eq!(mounted(&point), None));
    assert_eq!(fs::read(point.join("dir/file")).unwrap(), content);
}

#[test]
fn no_mount_means_none() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = dir.path().join("cluster");
    let up = braid()
        .arg("up")
        .arg(&cluster)
        .args(["--port", "0", "--iods", "1", "--detach", "--no-mount"])
        .output();
    let (up, down) = (up.unwrap(), || braid().arg("down").arg(&cluster).output().unwrap());
    assert_eq!((up.status.success(), mounted(&cluster.join("mnt"))), (true, None), "{}", text(&up));
    assert!(down().status.success());
}

#[test]
fn a_mount_returns_when_it_can_be_used_and_two_see_the_same() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(2);
    let points = ["a", "b"].map(|name| cluster.dir.path().join(name));
    for point in &points {
        fs::create_dir(point).unwrap();
        let output = cluster.run(&["mount", point.to_str().unwrap()]);
        assert!(output.status.success(), "{}", text(&output));
        let listens = UnixDatagram::unbound().and_then(|socket| socket.connect("/dev/log")).is_ok();
        let name =
            point.to_str().unwrap().trim_start_matches('/').replace('-', "\\x2d").replace('/', "-");
        let log = format!("its log: /var/log/braid-mount-{name}.log");
        assert_eq!(text(&output).contains(&log), !listens, "{}", text(&output));
    }
    fs::write(points[0].join("file"), "from a").unwrap();
    assert_eq!(fs::read(points[1].join("file")).unwrap(), b"from a");
    let again = cluster.run(&["mount", points[0].to_str().unwrap()]);
    assert!(
        text(&again).contains("mounted already") && text(&again).contains("try: braid umount"),
        "{}",
        text(&again)
    );
    for point in &points {
        let output = unmount(point, false);
        assert!(output.status.success(), "{}", text(&output));
        assert_eq!(mounted(point), None);
    }
    assert_eq!(unmount(&points[0], false).status.code(), Some(3), "there is nothing to unmount");
}

#[test]
fn a_mount_and_the_status_say_how_requests_come() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(1);
    let point = cluster.dir.path().join("point");
    fs::create_dir(&point).unwrap();
    let mount = |how: &str| {
        cluster.run(&["mount", "-o", &format!("io_uring={how}"), point.to_str().unwrap()])
    };
    let off = mount("off");
    assert!(text(&off).contains("requests by /dev/fuse (io_uring=off)"), "{}", text(&off));
    let shown =
        format!("mount {} of this host: requests by /dev/fuse (io_uring=off)", point.display());
    let status = text(&cluster.run(&["status"]));
    assert!(status.contains(&shown), "{status}");
    assert!(unmount(&point, false).status.success());
    let status = text(&cluster.run(&["status"]));
    assert!(!status.contains(point.to_str().unwrap()), "{status}");

    let on = mount("on");
    let offered = fs::read_to_string("/sys/module/fuse/parameters/enable_uring")
        .is_ok_and(|word| word.trim() == "Y");
    if offered && on.status.success() {
        assert!(text(&on).contains("requests by io_uring, "), "{}", text(&on));
        assert!(text(&cluster.run(&["status"])).contains("requests by io_uring, "));
        fs::write(point.join("file"), "over a ring").unwrap();
        assert_eq!(fs::read(point.join("file")).unwrap(), b"over a ring");
        assert!(unmount(&point, false).status.success());
    } else {
        let said = text(&on);
        println!("skipped, with io_uring=on: {said}");
        assert!(said.contains("FUSE over io_uring") && said.contains("try: "), "{said}");
        assert_eq!(mounted(&point), None);
    }
}

#[test]
fn a_mount_that_fails_says_so_on_the_terminal_and_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(1);
    let point = cluster.dir.path().join("point");
    cluster.fails(&["mount", point.to_str().unwrap()], 3, "try: mkdir -p");
    cluster.fails(&["mount", "/etc/passwd"], 2, "try: another directory");
    fs::create_dir(&point).unwrap();
    cluster.fails(
        &["--mds", "127.0.0.1:1", "--timeout", "1s", "mount", point.to_str().unwrap()],
        5,
        "127.0.0.1:1",
    );
    cluster.fails(
        &["mount", "-o", "writeback", point.to_str().unwrap()],
        2,
        "no such option; try: ro",
    );
    assert_eq!(mounted(&point), None);
}

#[test]
fn a_read_only_mount_changes_nothing() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(1);
    let point = cluster.dir.path().join("point");
    fs::create_dir(&point).unwrap();
    fs::write(cluster.path().join("mnt/file"), "content").unwrap();
    cluster.ok(&["mount", "-o", "ro,noatime,_netdev", point.to_str().unwrap()]);
    assert_eq!(fs::read(point.join("file")).unwrap(), b"content");
    let write = || fs::write(point.join("new"), "x").map_err(|error| error.kind());
    assert_eq!(write(), Err(std::io::ErrorKind::ReadOnlyFilesystem));
    cluster.ok(&["mount", "-o", "remount,rw", point.to_str().unwrap()]);
    assert_eq!(write(), Ok(()));
    // The call of libfuse's mount(8) helper, with the source that the mount table shows.
    cluster.ok(&[
        "host:7700",
        point.to_str().unwrap(),
        "-o",
        "ro,nosuid,user_id=0,allow_other,remount",
    ]);
    assert_eq!(write(), Err(std::io::ErrorKind::ReadOnlyFilesystem));
    assert!(unmount(&point, false).status.success());
}

#[test]
fn the_helper_of_mount_takes_a_line_of_fstab() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(1);
    let (helper, point) =
        (cluster.dir.path().join("mount.braid"), cluster.dir.path().join("point"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_braid"), &helper).unwrap();
    fs::create_dir(&point).unwrap();
    let config = cluster.path().join("braid.toml");
    // The call of mount(8) for the helper in /sbin, under its own name.
    let output = std::process::Command::new(&helper)
        .arg0("/sbin/mount.braid")
        .args([config.as_os_str(), point.as_os_str()])
        .args(["-o", "rw,_netdev,nodiratime,strictatime,lazytime,timeout=5s"])
        .output()
        .unwrap();
    assert!(
        output.status.success() && text(&output).is_empty(),
        "it has nothing to say: {}",
        text(&output)
    );
    let flags = rustix::fs::statvfs(&point).unwrap().f_flag;
    let refused = rustix::fs::StatVfsMountFlags::NOSUID | rustix::fs::StatVfsMountFlags::NODEV;
    assert!(!flags.intersects(refused), "mount(8) leaves suid and dev out: {flags:?}");
    assert_eq!(mounted(&point), Some(("fuse.braid".into(), config.to_str().unwrap().into())));
    assert!(unmount(&point, false).status.success());
}

#[test]
fn a_mount_whose_process_is_killed_is_cleaned_by_umount() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(1);
    let point = cluster.dir.path().join("point");
    fs::create_dir(&point).unwrap();
    let config = cluster.path().join("braid.toml");
    let mount = Foreground::start(config.to_str().unwrap(), &point);
    mount.signal(Signal::KILL);
    assert!(mount.ended().is_some());
    assert!(fs::read_dir(&point).is_err(), "nobody serves it");
    cluster.fails(&["mount", point.to_str().unwrap()], 1, "try: braid umount");
    let output = unmount(&point, false);
    assert!(output.status.success(), "{}", text(&output));
    cluster.ok(&["mount", point.to_str().unwrap()]);
    assert!(unmount(&point, false).status.success());
}

#[test]
fn a_mount_in_use_names_who_uses_it_and_goes_lazily() {
    if !can_mount() {
        return;
    }
    let cluster = Cluster::up(1);
    let point = cluster.path().join("mnt");
    let held = fs::File::create(point.join("held")).unwrap();
    let output = unmount(&point, false);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains(&format!("({})", std::process::id())), "{}", text(&output));
    assert!(text(&output).contains("try: braid umount --lazy"), "{}", text(&output));
    assert!(unmount(&point, true).status.success());
    assert_eq!(mounted(&point), None);
    drop(held);
}

/// Servers that exist before the mount.
fn servers() -> (Processes, std::path::PathBuf) {
    let mut servers = Processes::start();
    let (disk, point) = (servers.dir.path().join("disk"), servers.dir.path().join("point"));
    servers.add_iod(&disk);
    fs::create_dir(&point).unwrap();
    (servers, point)
}

#[test]
fn a_termination_ends_a_mount_while_servers_are_dead_and_files_open() {
    if !can_mount() {
        return;
    }
    let (mut servers, point) = servers();
    let mount = Foreground::start(&servers.config, &point);
    let held = fs::File::create(point.join("held")).unwrap();
    servers.mds.kill();
    servers.iods[0].kill();
    mount.signal(Signal::TERM);
    assert!(mount.ended().is_some_and(|status| status.success()));
    assert_eq!(mounted(&point), None);
    assert!(held.metadata().is_err());
}

#[test]
fn umount_works_while_servers_are_dead() {
    if !can_mount() {
        return;
    }
    let (mut servers, point) = servers();
    let mount = Foreground::start(&servers.config, &point);
    fs::write(point.join("file"), "content").unwrap();
    servers.mds.kill();
    servers.iods[0].kill();
    let output = unmount(&point, false);
    assert!(output.status.success(), "{}", text(&output));
    assert!(mount.ended().is_some_and(|status| status.success()));
}

#[test]
fn a_call_to_a_dead_daemon_fails_in_time_and_the_log_names_it() {
    if !can_mount() {
        return;
    }
    let (mut servers, point) = servers();
    let log = servers.dir.path().join("log");
    let mount = Foreground::start_with(&servers.config, &point, &["--log", log.to_str().unwrap()]);
    let mut file = fs::File::create(point.join("file")).unwrap();
    std::io::Write::write_all(&mut file, &noise(1 << 20)).unwrap();
    file.sync_all().unwrap();
    servers.iods[0].kill();
    let began = std::time::Instant::now();
    assert!(
        std::io::Write::write_all(&mut file, &noise(1 << 20))
            .and_then(|()| file.sync_all())
            .is_err()
    );
    // Two calls of 3 s each.
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("I/O daemon 1"), "{said}");
    drop(file);
    mount.signal(Signal::TERM);
    assert!(mount.ended().is_some_and(|status| status.success()));
}

#[test]
fn servers_that_hang_hold_up_no_call_for_ever_and_no_unmount() {
    if !can_mount() {
        return;
    }
    let (servers, point) = servers();
    let log = servers.dir.path().join("log");
    let mount = Foreground::start_with(&servers.config, &point, &["--log", log.to_str().unwrap()]);
    let (mut file, directory) =
        (fs::File::create(point.join("file")).unwrap(), point.join("directory"));
    std::io::Write::write_all(&mut file, &noise(1 << 20)).unwrap();
    file.sync_all().unwrap();
    let fails = |what: &str, call: Box<dyn FnOnce() -> std::io::Result<()> + Send>| {
        let (done, waiting) = mpsc::channel();
        std::thread::spawn(move || done.send(call()));
        let outcome =
            waiting.recv_timeout(LONG).unwrap_or_else(|_| panic!("{what} is not answered"));
        assert!(outcome.is_err(), "{what} is done by a server that hangs");
    };
    let stop = |server: &Daemon| {
        kill_process(Pid::from_raw(server.pid() as i32).unwrap(), Signal::STOP).unwrap();
        // The signal is sent to the process; its threads stop one after the other.
        let stands = |thread: fs::DirEntry| {
            fs::read_to_string(thread.path().join("status"))
                .is_ok_and(|status| status.contains("State:\tT"))
        };
        let threads = || fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
        while !threads().all(|thread| stands(thread.unwrap())) {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    };
    stop(&servers.iods[0]);
    let write = move || {
        std::io::Write::write_all(&mut file, &noise(1 << 20))?;
        file.sync_all()
    };
    fails("write", Box::new(write));
    stop(&servers.mds);
    fails("mkdir", Box::new(move || fs::create_dir(directory)));
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.contains("I/O daemon 1 at") && said.contains("metadata server at"), "{said}");
    let output = unmount(&point, false);
    assert!(output.status.success(), "{}", text(&output));
    assert!(mount.ended().is_some_and(|status| status.success()));
}

#[test]
fn a_process_that_waits_for_a_dead_server_can_be_killed() {
    if !can_mount() {
        return;
    }
    let (mut servers, point) = servers();
    let mount = Foreground::start(&servers.config, &point);
    servers.mds.kill();
    let waiting = std::process::Command::new("stat")
        .arg(point.join("file"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let waiting = Foreground(waiting);
    waiting.signal(Signal::KILL);
    assert!(waiting.ended().is_some());
    mount.signal(Signal::TERM);
    assert!(mount.ended().is_some_and(|status| status.success()));
    assert_eq!(mounted(&point), None);
}
