//! Test support for the command: an embedded cluster, a cluster of separate processes, and the
//! command itself without the environment of the test.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use braid_client::{Client, Config, Credential};
use braid_testbed::{
    braid::{Braid, READY},
    embedded_cluster::EmbeddedCluster,
    ports::free_address,
};
use tempfile::TempDir;

pub use braid_testbed::braid::{Daemon, output_text as text};

/// A cluster in a process of its own, stopped when the test ends.
pub struct Cluster {
    servers: EmbeddedCluster,
    pub dir: TempDir,
}

impl Cluster {
    pub fn up(iods: u16) -> Self {
        Self::up_in(tempfile::tempdir().unwrap(), iods)
    }

    /// A cluster in the directory `cluster` of `dir`, which may be a mount of its own.
    pub fn up_in(dir: tempfile::TempDir, iods: u16) -> Self {
        let home = dir.path().join("cluster");
        Self { servers: EmbeddedCluster::start(&binary(), &home, iods, &[]).unwrap(), dir }
    }

    pub fn path(&self) -> PathBuf {
        self.servers.home().to_owned()
    }

    /// The configuration of a client with the cluster's own key.
    pub fn client_config(&self) -> Config {
        let settings: serde_json::Value =
            serde_json::from_str(&self.ok(&["--json", "config", "explain"])).unwrap();
        let mut settings = settings.as_array().unwrap().iter();
        let mds = settings.find(|setting| setting["setting"] == "cluster.mds").unwrap();
        let key = Credential::from_key_file(self.path().join("keys/client.key")).unwrap();
        Config::new([mds["value"].as_str().unwrap()], key)
    }

    /// A client of the library with the cluster's own key.
    pub fn client(&self) -> Client {
        Client::connect(self.client_config()).unwrap()
    }

    /// `braid ARGS` as the cluster's own client.
    pub fn run(&self, args: &[&str]) -> Output {
        self.servers.run(args).unwrap()
    }

    /// The same; it must succeed. Returns its standard output.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "braid {args:?}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Stops the daemons, and starts them again after `between`.
    pub fn restart_after(&self, between: impl FnOnce()) {
        self.servers.restart_after(between).unwrap();
    }

    /// Runs `braid ARGS`; it must fail with this exit code and print this text.
    pub fn fails(&self, args: &[&str], code: i32, says: &str) {
        let output = self.run(args);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(code), "braid {args:?}: {text}");
        assert!(text.contains(says), "braid {args:?}: {text}");
    }

    pub fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// The binary under test.
pub fn binary() -> Braid {
    Braid::at(env!("CARGO_BIN_EXE_braid").into())
}

/// The command without the environment of the test.
pub fn braid() -> Command {
    binary().command()
}

/// Bytes without repetitions.
pub fn noise(bytes: usize) -> Vec<u8> {
    braid_testbed::random::noise(bytes, 1)
}

/// Starts `braid ARGS` as a daemon, which ends with the test, and waits until it serves.
pub fn daemon(args: &[&str]) -> Daemon {
    daemon_logging(braid().args(args), Path::new("/dev/null"))
}

/// The same, with the log in a file.
pub fn daemon_logging(command: &mut Command, log: &Path) -> Daemon {
    Daemon::start(command, READY, log).unwrap()
}

/// A cluster of separate processes: a metadata server, and I/O daemons on directories that the test
/// chooses.
pub struct Processes {
    pub dir: TempDir,
    pub config: String,
    pub mds: Daemon,
    pub iods: Vec<Daemon>,
}

impl Processes {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("c");
        let address = free_address().unwrap();
        let init = braid().arg("init").arg(&home).args(["--listen", &address]).output().unwrap();
        assert!(init.status.success(), "{}", text(&init));
        let config = home.join("braid.toml").to_str().unwrap().to_owned();
        let mds = daemon(&["--config", &config, "mds"]);
        let cluster = Self { dir, config, mds, iods: Vec::new() };
        let key = home.join("keys/client.key");
        cluster.ok(&["key", "add", "me", "--out", key.to_str().unwrap()]);
        cluster
    }

    pub fn add_iod(&mut self, disk: &Path) {
        let disk = disk.to_str().unwrap();
        let args =
            ["--config", &self.config, "iod", "--dir", disk, "--init", "--listen", "127.0.0.1:0"];
        self.iods.push(daemon(&args));
        // It listens before it has registered: the cluster map shows when it has.
        while self.up() < self.iods.len() {}
    }

    pub fn up(&self) -> usize {
        let status: serde_json::Value =
            serde_json::from_str(&self.ok(&["--json", "status"])).unwrap();
        status["iods"].as_array().unwrap().iter().filter(|iod| iod["state"] == "up").count()
    }

    pub fn run(&self, args: &[&str]) -> Output {
        braid().args(["--config", &self.config]).args(args).output().unwrap()
    }

    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "braid {args:?}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// A mount of the test's own, which is unmounted with it.
pub struct Mounted(PathBuf);

impl Mounted {
    /// A tmpfs of `size` on a directory; `None`, with a printed reason, where it cannot be mounted.
    pub fn tmpfs(directory: &Path, size: &str) -> Option<Self> {
        if rustix::process::getuid().as_raw() != 0 {
            println!("skipped: only root can mount a small disk");
            return None;
        }
        let size = format!("mode=755,size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(directory);
        let mount = mount.output().unwrap();
        if !mount.status.success() {
            println!("skipped: a small tmpfs cannot be mounted here: {}", text(&mount));
            return None;
        }
        Some(Self(directory.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}
