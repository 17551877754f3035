//! Shared by tests of the C library: a cluster in this process, the library installed with
//! install.sh, and C programs compiled with the system's compiler.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{OnceLock, atomic::Ordering::Relaxed},
    thread::JoinHandle,
};

use braid_client::{
    Client,
    agent::{Agent, Stopper},
    message::mds::KeyRights,
};
use braid_testbed::{in_process::InProcessCluster, programs::is_root};
use tempfile::TempDir;

pub use braid_testbed::braid::output_text as text;

/// `nobody` on Debian and most systems.
pub const NOBODY: &str = "65534";

/// A running cluster with a client key, and an agent that has the key.
pub struct Cluster {
    agent: Option<(Stopper, JoinHandle<()>)>,
    servers: InProcessCluster,
    pub client: Client,
    pub dir: TempDir,
}

impl Cluster {
    pub fn start(iods: usize) -> Self {
        let dir = open_directory();
        let servers = InProcessCluster::start(dir.path(), iods).unwrap();
        let key = servers.add_key("programs", KeyRights::full()).unwrap();
        key.save(&dir.path().join("client.key")).unwrap();
        let mds = &servers.addresses()[0];
        let text = format!("[cluster]\nmds = [{mds:?}]\n[client]\nkey = \"client.key\"\n");
        fs::write(dir.path().join("braid.toml"), text).unwrap();
        let config = servers.config(key.into_credential());
        let client = Client::connect(config.clone()).unwrap();
        let agent = Agent::bind(&dir.path().join("agent.sock"), config).unwrap();
        let stopper = agent.stopper();
        let runs = std::thread::spawn(move || drop(agent.run()));
        Self { agent: Some((stopper, runs)), servers, client, dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Removes the last I/O daemon from the cluster for good.
    pub fn lose_an_iod(&mut self) {
        self.servers.iods_mut().pop().unwrap().stop();
        let admin = self.servers.admin().unwrap();
        let id = admin.cluster_map().unwrap().iods.iter().map(|iod| iod.id).max().unwrap();
        admin.remove_iod(id, true).unwrap();
    }

    /// Number of calls that each I/O daemon has answered.
    pub fn calls(&self) -> Vec<u64> {
        let each = self.servers.iods().iter().map(|iod| iod.core().counters());
        each.map(|counters| counters.calls.load(Relaxed)).collect()
    }

    /// Number of calls that the metadata server has received.
    pub fn calls_of_mds(&self) -> u64 {
        let page = self.servers.mds().core().prometheus();
        let line = page.lines().find_map(|line| line.strip_prefix("braid_mds_calls_total "));
        line.unwrap_or_else(|| panic!("no count of calls: {page}")).trim().parse().unwrap()
    }

    /// Number of collective requests that the I/O daemons started, and of tasks that joined them.
    pub fn collectives(&self) -> (u64, u64) {
        let each = self.servers.iods().iter().map(|iod| iod.core().counters());
        each.map(|counters| (counters.collectives.load(Relaxed), counters.joins.load(Relaxed)))
            .fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
    }

    /// A program without the environment of the test. It finds the cluster by its braid.toml, and
    /// the library where it is installed.
    pub fn program(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        self.at_home(&mut command).env("BRAID_CONFIG", self.path("braid.toml"));
        command
    }

    /// The same as another user without a key: the agent identifies the user.
    pub fn program_of_a_user(&self, program: &Path) -> Command {
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command
                    .args([
                        "--reuid",
                        NOBODY,
                        "--regid",
                        NOBODY,
                        "--clear-groups",
                        "--no-new-privs",
                    ])
                    .arg(program);
                command
            }
            false => Command::new(program),
        };
        let mds = &self.servers.addresses()[0];
        self.at_home(&mut command)
            .env("BRAID_MDS", mds)
            .env("BRAID_AGENT", self.path("agent.sock"));
        command
    }

    fn at_home<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let gone = [
            "BRAID_CONFIG",
            "BRAID_MDS",
            "BRAID_KEY",
            "BRAID_AGENT",
            "BRAID_TLS",
            "BRAID_TIMEOUT",
            "HOME",
        ];
        for variable in gone {
            command.env_remove(variable);
        }
        command.current_dir(self.dir.path()).env("LD_LIBRARY_PATH", installed().join("lib"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some((stopper, runs)) = self.agent.take() {
            stopper.stop();
            let _ = runs.join();
        }
    }
}

/// A scratch directory that other users may read.
fn open_directory() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// The directory of this crate.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library as install.sh installs it, once per test binary, from the archive that cargo built
/// beside it.
pub fn installed() -> &'static Path {
    static PREFIX: OnceLock<TempDir> = OnceLock::new();
    let prefix = PREFIX.get_or_init(|| {
        let dir = open_directory();
        let archive = std::env::current_exe().unwrap().with_file_name("libbraid.a");
        let library = here().join("../capi/install.sh"); // also from the tests of MPI-IO
        let install = Command::new(library).arg(&archive).arg(dir.path()).output().unwrap();
        assert!(install.status.success(), "{}", text(&install));
        dir
    });
    prefix.path()
}

/// How a program is linked with the library.
#[derive(Clone, Copy)]
pub enum Link {
    Shared,
    Static,
}

/// Compiles a C program with the flags from pkg-config.
pub fn compile(source: &Path, link: Link) -> PathBuf {
    static COMPILED: OnceLock<TempDir> = OnceLock::new();
    let dir = COMPILED.get_or_init(open_directory).path();
    let name = source.file_stem().unwrap().to_str().unwrap();
    let program = tempfile::Builder::new()
        .prefix(name)
        .tempfile_in(dir)
        .unwrap()
        .into_temp_path()
        .keep()
        .unwrap();
    let mut config = Command::new("pkg-config");
    config
        .env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"))
        .args(["--cflags", "--libs", "braid"]);
    if matches!(link, Link::Static) {
        config.arg("--static");
    }
    let flags = config.output().unwrap();
    assert!(flags.status.success(), "{}", text(&flags));
    let flags = String::from_utf8(flags.stdout).unwrap();
    let flags = match link {
        Link::Shared => flags,
        Link::Static => flags.replace("-lbraid", "-l:libbraid.a"),
    };
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-pthread", "-o"])
        .arg(&program)
        .arg(source);
    let output = cc.args(flags.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Runs a program, which must succeed, and returns its output.
pub fn ok(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {:?}\n{}", output.status, text(&output));
    String::from_utf8(output.stdout).unwrap()
}
