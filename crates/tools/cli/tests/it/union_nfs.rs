//! A union that is mounted and served over NFS by one process.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::BufReader,
    net::SocketAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use braid_nfs_wire::nfs4::StableHow;
use braid_testbed::nfs::NfsMount;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{
    harness::{braid, text},
    mount::can_mount,
};

/// Longer than a busy machine needs to drop a name.
const WAIT: Duration = Duration::from_secs(20);
const EXPORT: &str = "--nfs-export=/=127.0.0.1,sec=sys,squash=none";

/// A union of two directories.
struct Served {
    dir: tempfile::TempDir,
    process: Child,
    address: SocketAddr,
}

impl Served {
    /// `mounted`: on `mnt`, too.
    fn start(mounted: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["disk1", "disk2", "mnt"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let made = braid()
            .current_dir(dir.path())
            .args(["union", "create", "media", "--meta", "meta", "--min-free", "0"])
            .args(["--placement", "round-robin", "disk1", "disk2"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", text(&made));
        let (process, address) = up(dir.path(), mounted);
        Self { dir, process, address }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn restart(&mut self, mounted: bool) {
        self.end(Signal::KILL);
        (self.process, self.address) = up(self.dir.path(), mounted);
    }

    fn end(&mut self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.process), signal);
        let _ = self.process.wait();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end(Signal::TERM);
    }
}

fn up(dir: &Path, mounted: bool) -> (Child, SocketAddr) {
    let mut command = braid();
    command.current_dir(dir).args(["--json", "union", "up", "--foreground", "meta"]);
    command.args(mounted.then_some("mnt")).args(["--nfs=127.0.0.1:0", EXPORT]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let printed = BufReader::new(child.stdout.as_mut().unwrap());
    let mut printed = serde_json::Deserializer::from_reader(printed).into_iter::<Value>();
    let printed = printed.next().unwrap().unwrap();
    (child, printed["nfs"].as_str().unwrap().parse().unwrap())
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("not run: it needs root");
    }
    root
}

fn comes_true(condition: impl Fn() -> bool) -> bool {
    let end = Instant::now() + WAIT;
    while !condition() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    condition()
}

#[test]
fn nfs_clients_and_the_mount_see_each_other() {
    if !is_root() || !can_mount() {
        return;
    }
    let served = Served::start(true);
    let mut client = NfsMount::new(served.address, "client").unwrap();
    let root = client.root.clone();
    fs::create_dir(served.at("mnt/d")).unwrap();
    fs::write(served.at("mnt/d/f"), b"on the mount").unwrap();
    let dir = client.look_up(&root, "d").unwrap();
    let file = client.open(&dir, "f", false).unwrap();
    assert_eq!(client.read(&file, 0, 99).unwrap(), &b"on the mount"[..]);
    // The kernel has just cached the attributes: the write drops them before its reply.
    let path = served.at("mnt/d/f");
    for round in 1..20_u64 {
        assert_eq!(fs::metadata(&path).unwrap().size(), 11 + round);
        client.write(&file, 11 + round, b"!"[..].into(), StableHow::Unstable).unwrap();
    }
    client.set_mode(&file.handle, 0o640).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    client.rename(&dir, "f", "g").unwrap();
    assert!(comes_true(|| !path.exists()));
    assert_eq!(fs::read(served.at("mnt/d/g")).unwrap().len(), 31);
    client.open(&dir, "new", true).unwrap();
    assert!(served.at("mnt/d/new").exists());
    let before = client.change(&dir).unwrap();
    fs::remove_file(served.at("mnt/d/new")).unwrap();
    assert!(client.change(&dir).unwrap() > before);
    assert_eq!(client.list(&dir).unwrap(), ["g"]);
}

#[test]
fn a_union_is_served_without_a_mount_and_handles_outlive_a_kill() {
    if !is_root() {
        return;
    }
    let mut served = Served::start(false);
    let mut client = NfsMount::new(served.address, "client").unwrap();
    let root = client.root.clone();
    let dir = client.make_directory(&root, "d").unwrap();
    let file = client.open(&dir, "f", true).unwrap();
    client.write(&file, 0, b"bytes"[..].into(), StableHow::FileSync).unwrap();
    served.restart(false);
    let mut client = NfsMount::new(served.address, "client").unwrap();
    assert_eq!(client.root, root);
    assert_eq!(client.size(&file.handle).unwrap(), 5);
    assert_eq!(client.open(&dir, "f", false).unwrap().handle, file.handle);
    assert!(fs::read_dir(served.at("mnt")).unwrap().next().is_none());
}
