//! Test support for the command: an embedded cluster, a cluster of separate processes, and the
//! command itself without the environment of the test.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use tempfile::TempDir;

/// A cluster in a process of its own, stopped when the test ends.
pub struct Cluster {
    pub dir: TempDir,
}

impl Cluster {
    pub fn up(iods: u16) -> Self {
        Self::up_in(tempfile::tempdir().unwrap(), iods)
    }

    /// A cluster in the directory `cluster` of `dir`, which may be a mount of its own.
    pub fn up_in(dir: tempfile::TempDir, iods: u16) -> Self {
        let cluster = Self { dir };
        let iods = iods.to_string();
        let up = braid()
            .arg("up")
            .arg(cluster.path())
            .args(["--port", "0", "--iods", &iods, "--detach"])
            .output()
            .unwrap();
        assert!(up.status.success(), "{}", text(&up));
        cluster
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("cluster")
    }

    /// `braid ARGS` as the cluster's own client.
    pub fn run(&self, args: &[&str]) -> Output {
        braid().env("BRAID_CONFIG", self.path().join("braid.toml")).args(args).output().unwrap()
    }

    /// The same; it must succeed. Returns its standard output.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "braid {args:?}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Stops the daemons, and starts them again after `between`.
    pub fn restart_after(&self, between: impl FnOnce()) {
        let down = braid().arg("down").arg(self.path()).output().unwrap();
        assert!(down.status.success(), "{}", text(&down));
        between();
        let up = braid().arg("up").arg(self.path()).arg("--detach").output().unwrap();
        assert!(up.status.success(), "{}", text(&up));
    }

    /// The same; it must fail with this exit code and contain this text.
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

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = braid().arg("down").arg(self.path()).output();
    }
}

/// The command without the environment of the test.
pub fn braid() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braid"));
    for variable in [
        "BRAID_CONFIG",
        "BRAID_MDS",
        "BRAID_KEY",
        "BRAID_AGENT",
        "BRAID_TLS",
        "BRAID_TIMEOUT",
        "BRAID_LOG",
    ] {
        command.env_remove(variable);
    }
    command
}

pub fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

pub fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(bytes);
    out
}

/// A daemon that a test started. It ends with the test.
pub struct Daemon(pub Child);

impl Daemon {
    /// Starts `braid ARGS` and waits for the line that reports that it is ready.
    pub fn start(args: &[&str]) -> Self {
        Self::of(braid().args(args).stderr(Stdio::null()))
    }

    /// The same, with the log in a file.
    pub fn start_logging(command: &mut Command, log: &Path) -> Self {
        Self::of(command.stderr(File::create(log).unwrap()))
    }

    /// A command that becomes a daemon.
    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listens on"), "{command:?} said {line:?}");
        Self(child)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let init = braid()
            .arg("init")
            .arg(&home)
            .args(["--listen", &format!("127.0.0.1:{port}")])
            .output()
            .unwrap();
        assert!(init.status.success(), "{}", text(&init));
        let config = home.join("braid.toml").to_str().unwrap().to_owned();
        let mds = Daemon::start(&["--config", &config, "mds"]);
        let cluster = Self { dir, config, mds, iods: Vec::new() };
        let key = home.join("keys/client.key");
        cluster.ok(&["key", "add", "me", "--out", key.to_str().unwrap()]);
        cluster
    }

    pub fn add_iod(&mut self, disk: &Path) {
        let disk = disk.to_str().unwrap();
        let args =
            ["--config", &self.config, "iod", "--dir", disk, "--init", "--listen", "127.0.0.1:0"];
        self.iods.push(Daemon::start(&args));
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
