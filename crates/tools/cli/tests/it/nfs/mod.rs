//! NFS gateways and data servers as processes that are killed while NFS clients work.
#![cfg(target_os = "linux")]

mod full_disk;
mod gateway_restarts;
mod history;
mod history_mounts;
mod restarts;
mod silent;
mod versions;
mod writer;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use braid_client::{Config, Credential};
use braid_testbed::{braid::Daemon, nfs::NfsMount, ports::Ports};

use crate::harness::{Mounted, Processes, braid, daemon, daemon_logging};

/// A metadata server, I/O daemons with data servers, and gateways.
pub struct NfsProcesses {
    pub cluster: Processes,
    pub gateways: Vec<Gateway>,
    ports: Ports,
    used: usize,
    iods: Vec<Vec<String>>,
}

/// A gateway, its address, and its log.
pub struct Gateway {
    pub process: Daemon,
    pub address: SocketAddr,
    pub log: PathBuf,
    options: Vec<String>,
    /// How many starts there were at this address before.
    start: usize,
}

impl NfsProcesses {
    /// A cluster with I/O daemons on new directories. Leases are as long as by default.
    pub fn start(iods: usize, gateways: usize) -> Self {
        Self::start_with(iods, gateways, "60s")
    }

    /// The same with another lease time of the gateways.
    pub fn start_with(iods: usize, gateways: usize, lease: &str) -> Self {
        let mut started = Self::without_daemons();
        // A file of its own, since the lease is no option of the command.
        let lease = format!("\n[nfs]\nlease = \"{lease}\"\n");
        let config = fs::read_to_string(&started.cluster.config).unwrap() + &lease;
        fs::write(started.gateway_config(), config).unwrap();
        for iod in 0..iods {
            let disk = started.cluster.dir.path().join(format!("iod{iod}"));
            started.add_iod(&disk);
        }
        (0..gateways).for_each(|_| started.add_gateway());
        started
    }

    fn without_daemons() -> Self {
        let (cluster, ports) = (Processes::start(), Ports::take(12).unwrap());
        Self { cluster, gateways: Vec::new(), ports, used: 0, iods: Vec::new() }
    }

    fn gateway_config(&self) -> PathBuf {
        Path::new(&self.cluster.config).with_file_name("gateway.toml")
    }

    fn free_address(&mut self) -> String {
        self.used += 1;
        format!("127.0.0.1:{}", self.ports.all()[self.used - 1])
    }

    pub fn add_iod(&mut self, disk: &Path) {
        let (listen, nfs) = (self.free_address(), self.free_address());
        let disk = disk.to_str().unwrap();
        let words = ["--config", &self.cluster.config, "iod", "--dir", disk];
        let words = [&words[..], &["--listen", &listen, "--nfs-listen", &nfs]].concat();
        self.iods.push(words.into_iter().map(str::to_owned).collect());
        let number = self.iods.len() - 1;
        let first: Vec<_> = self.iods[number].iter().map(String::as_str).collect();
        self.cluster.iods.push(daemon(&[&first[..], &["--init"]].concat()));
        while self.cluster.up() < self.iods.len() {}
    }

    pub fn kill_iod(&mut self, iod: usize) {
        self.cluster.iods[iod].kill();
    }

    pub fn restart_iod(&mut self, iod: usize) {
        let words: Vec<_> = self.iods[iod].iter().map(String::as_str).collect();
        self.cluster.iods[iod] = daemon(&words);
    }

    pub fn kill_mds(&mut self) {
        self.cluster.mds.kill();
    }

    pub fn restart_mds(&mut self) {
        let log = self.cluster.dir.path().join("mds.log");
        let mut command = braid();
        command.args(["--config", &self.cluster.config, "mds"]);
        self.cluster.mds = daemon_logging(&mut command, &log);
    }

    pub fn add_gateway(&mut self) {
        self.add_gateway_with(&[]);
    }

    /// The same with options of `braid nfs`.
    pub fn add_gateway_with(&mut self, options: &[&str]) {
        let address = self.free_address();
        let options = options.iter().map(|&option| option.to_owned()).collect();
        let gateway = self.start_gateway(&address, options, 0);
        self.gateways.push(gateway);
    }

    /// Starts a gateway that has ended again, at the same address.
    pub fn restart_gateway(&mut self, gateway: usize) {
        let before = &self.gateways[gateway];
        let (address, options) = (before.address.to_string(), before.options.clone());
        self.gateways[gateway] = self.start_gateway(&address, options, before.start + 1);
    }

    fn start_gateway(&self, address: &str, options: Vec<String>, start: usize) -> Gateway {
        let port = address.rsplit_once(':').unwrap().1;
        let log = self.cluster.dir.path().join(format!("gateway{port}.{start}.log"));
        let mut command = braid();
        command.arg("--config").arg(self.gateway_config());
        command.args(["nfs", "--listen", address]);
        command.args(["--export", "/=127.0.0.1,sec=sys,squash=none"]).args(&options);
        let process = daemon_logging(&mut command, &log);
        Gateway { process, address: address.parse().unwrap(), log, options, start }
    }

    /// The address of the metadata server, and the file of a client's key.
    pub fn contact(&self) -> (String, PathBuf) {
        let shown = self.cluster.ok(&["--json", "config", "explain"]);
        let settings: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let mut settings = settings.as_array().unwrap().iter();
        let mds = settings.find(|setting| setting["setting"] == "cluster.mds").unwrap();
        let key = Path::new(&self.cluster.config).with_file_name("keys/client.key");
        (mds["value"].as_str().unwrap().to_owned(), key)
    }

    /// The configuration of clients of the library.
    pub fn library(&self) -> Config {
        let (mds, key) = self.contact();
        let mut config = Config::new([mds], Credential::from_key_file(key).unwrap());
        config.timeout = Duration::from_secs(60);
        config
    }

    /// A client of a gateway.
    pub fn mount(&self, gateway: usize, owner: &str) -> NfsMount {
        NfsMount::new(self.gateways[gateway].address, owner).unwrap()
    }
}

/// A cluster whose only I/O daemon has a disk of this size; `None`, with the reason printed, where
/// a small disk cannot be mounted.
pub fn with_small_disk(size: &str) -> Option<(Mounted, NfsProcesses)> {
    let mut processes = NfsProcesses::start(0, 0);
    let disk = processes.cluster.dir.path().join("small");
    fs::create_dir(&disk).unwrap();
    let mounted = Mounted::tmpfs(&disk, size)?;
    processes.add_iod(&disk.join("objects"));
    processes.add_gateway();
    Some((mounted, processes))
}
