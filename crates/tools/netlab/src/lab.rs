//! A cluster in a lab: a metadata server, I/O daemons and clients, each on its own host.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use braid_client::{Client, Config, Credential, TlsPolicy};
use braid_testbed::{
    braid::{Braid, Daemon, READY, output_summary, tail},
    registration,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{counters::Counters, host::Host, relay::Relay, spec::Spec, switch::Network};

/// Time-out until the cluster map shows all daemons, on a busy machine.
const READY_MAX: Duration = Duration::from_secs(120);
/// Port of each daemon: it is alone on its host.
const PORT: u16 = 7700;
/// Port of NFS data servers and of the gateway. RFC 8881 2.9.1.
const NFS_PORT: u16 = 2049;
const SMB_PORT: u16 = 445;
/// Port of an I/O daemon behind a relay.
const PORT_BEHIND_RELAY: u16 = 7701;

/// How a client connects to the cluster.
#[derive(Clone, Debug)]
pub struct ClusterAccess {
    /// Address of the metadata server.
    pub mds: String,
    /// Path of the client key.
    pub key: PathBuf,
    /// When connections are encrypted.
    pub tls: TlsPolicy,
    /// The same, as a value of `BRAID_TLS`.
    pub tls_word: &'static str,
}

/// A running cluster. Dropping it stops and removes everything.
pub struct Lab {
    contact: ClusterAccess,
    spec: Spec,
    braid: Braid,
    /// `None` for a dead host.
    mds: Option<Daemon>,
    iods: Vec<Option<Daemon>>,
    _relays: Vec<Relay>,
    // Dropped after the daemons, which run on it; it removes the directory too.
    network: Network,
    dir: TempDir,
}

impl Lab {
    /// Port of each daemon: it is alone on its host.
    pub const PORT: u16 = PORT;

    /// Creates the hosts and the cluster, and waits until every I/O daemon is up.
    pub fn start(braid: &Braid, spec: &Spec) -> Result<Self> {
        let parent = spec.dir.clone().unwrap_or_else(std::env::temp_dir);
        let dir = tempfile::Builder::new().prefix("braid-netlab-").tempdir_in(&parent);
        let dir = dir.with_context(|| format!("creating a directory in {}", parent.display()))?;
        let network = Network::new(spec, &dir.path().display().to_string())?;
        let mds = format!("{}:{PORT}", network.host("mds")?.address());
        let (tls, tls_word) =
            if spec.tls { (TlsPolicy::Always, "always") } else { (TlsPolicy::Never, "never") };
        let contact = ClusterAccess { mds, key: dir.path().join("client.key"), tls, tls_word };
        let iods = (0..spec.iods).map(|_| None).collect();
        let (spec, braid) = (spec.clone(), braid.clone());
        let mut lab =
            Self { contact, spec, braid, mds: None, iods, _relays: Vec::new(), network, dir };
        lab.populate()?;
        Ok(lab)
    }

    fn populate(&mut self) -> Result<()> {
        let meta = self.path("meta");
        self.braid.run_successfully([
            "init".as_ref(),
            meta.as_os_str(),
            "--listen".as_ref(),
            self.contact.mds.as_ref(),
        ])?;
        self.restart("mds")?;
        for iod in 0..self.spec.iods {
            self.restart(&format!("iod{iod}"))?;
        }
        let relays = self.spec.delays.iter().map(|delay| {
            let host = self.network.host(&format!("iod{}", delay.iod))?;
            let [near, far] =
                [PORT, PORT_BEHIND_RELAY].map(|port| format!("{}:{port}", host.address()));
            Relay::start(host, &near, &far, delay.each_way)
        });
        self._relays = relays.collect::<Result<_>>()?;
        self.succeed(
            "mds",
            &["key", "add", "netlab", "-o", &self.contact.key.display().to_string()],
        )?;
        self.wait_until_up()
    }

    /// How a client connects to it.
    pub fn cluster_access(&self) -> &ClusterAccess {
        &self.contact
    }

    /// The hosts and the switch.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The specification of the lab.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// A directory of the lab, removed with it; mounts below it are unmounted first.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A client host.
    pub fn client_host(&self, client: usize) -> Result<&Host> {
        self.network.host(&format!("client{client}"))
    }

    /// A client of the library on a client host. Call it from a thread on that host
    /// ([`Host::inside`]): the calling threads open its connections.
    pub fn connect(&self, timeout: Duration) -> Result<Client> {
        let mut config =
            Config::new([self.contact.mds.clone()], Credential::from_key_file(&self.contact.key)?);
        (config.tls, config.timeout) = (self.contact.tls, timeout);
        Ok(Client::connect(config)?)
    }

    /// The environment variables with which every `braid` command finds the cluster.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        let contact = &self.contact;
        [
            ("BRAID_MDS", contact.mds.clone()),
            ("BRAID_KEY", contact.key.display().to_string()),
            ("BRAID_TLS", contact.tls_word.to_owned()),
            ("BRAID_CONFIG", self.config().display().to_string()),
        ]
    }

    /// Runs `braid ARGUMENTS` on a host as an administrator.
    pub fn succeed(&self, host: &str, arguments: &[&str]) -> Result<String> {
        let config = self.config().display().to_string();
        let key = self.path("meta/keys/server.key").display().to_string();
        let admin = ["--config", &config, "--key", &key, "--tls", self.contact.tls_word];
        let output = self.on(host)?.run(arguments.iter().chain(&admin))?;
        ensure!(output.status.success(), "on {host}: {}", output_summary(&output));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Kills the daemon of a host with SIGKILL, as if the host were dead. [`Lab::restart`] starts
    /// it again.
    pub fn kill(&mut self, host: &str) -> Result<()> {
        drop(self.daemon(host)?.take());
        Ok(())
    }

    /// Stops the daemon of a host with SIGSTOP, as if the host hung. Its connections stay open.
    /// [`Lab::resume`] continues it.
    pub fn stop(&mut self, host: &str) -> Result<()> {
        self.signal(host, Signal::STOP)
    }

    /// Continues a stopped host.
    pub fn resume(&mut self, host: &str) -> Result<()> {
        self.signal(host, Signal::CONT)
    }

    /// Starts the daemon of a host, and waits until it listens.
    pub fn restart(&mut self, host: &str) -> Result<()> {
        let daemon = self.on(host)?.daemon(self.arguments(host)?, READY, &self.log(host))?;
        *self.daemon(host)? = Some(daemon);
        Ok(())
    }

    /// Starts an NFS gateway on the host of the metadata server, that exports the whole file system
    /// to every address, and waits until it listens. Its address, and the daemon, which ends when
    /// it is dropped.
    pub fn start_nfs_gateway(&self) -> Result<(String, Daemon)> {
        let address = format!("{}:{NFS_PORT}", self.network.host("mds")?.address());
        let key = self.contact.key.display().to_string();
        let arguments = ["nfs", "--listen", &address, "--export", "/=*,sec=sys,squash=none"];
        let cluster = ["--mds", &self.contact.mds, "--key", &key, "--tls", self.contact.tls_word];
        let arguments = arguments.into_iter().chain(cluster);
        let daemon = self.on("mds")?.daemon(arguments, READY, &self.log("gateway"))?;
        Ok((address, daemon))
    }

    /// Starts an SMB gateway on the host of an I/O daemon, on each of its interfaces, that shares
    /// the whole file system as `share` with the users of a users file; and waits until it listens.
    /// Its addresses, and the daemon, which ends when it is dropped.
    pub fn start_smb_gateway(
        &self,
        iod: usize,
        share: &str,
        users: &Path,
    ) -> Result<(Vec<String>, Daemon)> {
        let name = format!("iod{iod}");
        let host = self.network.host(&name)?;
        let addresses: Vec<String> =
            host.addresses.iter().map(|address| format!("{address}:{SMB_PORT}")).collect();
        let (users, key) = (users.display().to_string(), self.contact.key.display().to_string());
        let (listen, share) = (addresses.join(","), format!("{share}=/"));
        let arguments = ["smb", "--listen", &listen, "--share", &share, "--users", &users];
        let cluster = ["--mds", &self.contact.mds, "--key", &key, "--tls", self.contact.tls_word];
        let arguments = arguments.into_iter().chain(cluster);
        let daemon = self.on(&name)?.daemon(arguments, READY, &self.log(&format!("smb{iod}")))?;
        Ok((addresses, daemon))
    }

    /// Fails if a daemon has ended that was not killed; the error has the end of its log.
    pub fn check_alive(&mut self) -> Result<()> {
        let named =
            self.iods.iter_mut().enumerate().map(|(iod, daemon)| (format!("iod{iod}"), daemon));
        let ended = named.chain([("mds".to_owned(), &mut self.mds)]).find_map(|(name, daemon)| {
            let status = daemon.as_mut()?.ended()?;
            Some((name, status))
        });
        match ended {
            Some((name, status)) => {
                bail!("{name} ended by itself: {status}: {}", tail(&self.log(&name)))
            }
            None => Ok(()),
        }
    }

    /// The TCP counters of all hosts.
    pub fn counters(&self) -> Result<Counters> {
        self.network.hosts().iter().map(Host::counters).sum()
    }

    /// Waits until the cluster map shows every running I/O daemon as up.
    pub fn wait_until_up(&self) -> Result<()> {
        let wanted = self.iods.iter().flatten().count();
        self.client_host(0)?
            .inside(|| registration::wait_until_up(&self.connect(READY_MAX)?, wanted, READY_MAX))
    }

    fn daemon(&mut self, host: &str) -> Result<&mut Option<Daemon>> {
        if host == "mds" {
            return Ok(&mut self.mds);
        }
        let iod = host.strip_prefix("iod").and_then(|number| number.parse::<usize>().ok());
        iod.and_then(|iod| self.iods.get_mut(iod))
            .with_context(|| format!("host {host} has no daemon"))
    }

    fn signal(&mut self, host: &str, signal: Signal) -> Result<()> {
        let daemon = self.daemon(host)?.as_ref().with_context(|| format!("{host} is dead"))?;
        let pid =
            i32::try_from(daemon.pid()).ok().and_then(Pid::from_raw).context("a process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// `braid` on a host.
    fn on(&self, host: &str) -> Result<Braid> {
        Ok(self.braid.with_wrapper(self.network.host(host)?.prefix()))
    }

    fn arguments(&self, name: &str) -> Result<Vec<String>> {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let config = self.config().display().to_string();
        let tls = self.contact.tls_word;
        if name == "mds" {
            return Ok(words(&["mds", "--config", &config, "--tls", tls]));
        }
        let dir = self.path(name);
        let first = if dir.exists() { &[][..] } else { &["--init"][..] };
        let mut all =
            words(&["iod", "--config", &config, "--tls", tls, "--dir", &dir.display().to_string()]);
        all.extend(words(first));
        let host = self.network.host(name)?;
        let delayed = (0..self.spec.iods)
            .any(|iod| name == format!("iod{iod}") && self.spec.delay_of(iod).is_some());
        for address in &host.addresses {
            let port = if delayed { PORT_BEHIND_RELAY } else { PORT };
            all.extend(words(&["--listen", &format!("{address}:{port}")]));
            if delayed {
                all.extend(words(&["--advertise", &format!("{address}:{PORT}")]));
            }
            if self.spec.nfs {
                all.extend(words(&["--nfs-listen", &format!("{address}:{NFS_PORT}")]));
            }
        }
        Ok(all)
    }

    fn config(&self) -> PathBuf {
        self.path("meta/braid.toml")
    }

    fn log(&self, host: &str) -> PathBuf {
        self.path(&format!("{host}.log"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for host in self.network.hosts() {
                let log = fs::read_to_string(self.log(&host.name)).unwrap_or_default();
                eprint!(
                    "{}",
                    if log.is_empty() { log } else { format!("log of {}:\n{log}", host.name) }
                );
            }
        }
    }
}
