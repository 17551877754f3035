//! A cluster of separate processes on loopback that can be killed one by one.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use braid_client::{Client, Config, Credential};

use crate::{
    braid::{Braid, Daemon, PreparedDaemon, READY, output_summary, tail},
    ports::Ports,
};

/// How long a call of the load may wait for a killed server (I8): a restart takes far less.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A process of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Victim {
    /// The metadata server.
    Mds,
    /// An I/O daemon.
    Iod(usize),
}

/// The data directories of all processes.
#[derive(Clone, Debug)]
pub struct DataDirectories {
    /// The metadata server's directory.
    pub meta: PathBuf,
    /// The directory of each I/O daemon.
    pub iods: Vec<PathBuf>,
}

impl DataDirectories {
    /// All in one directory.
    pub fn below(dir: &Path, iods: usize) -> Self {
        Self {
            meta: dir.join("meta"),
            iods: (0..iods).map(|iod| dir.join(format!("iod{iod}"))).collect(),
        }
    }
}

/// A metadata server and I/O daemons.
pub struct Cluster {
    braid: Braid,
    dir: PathBuf,
    places: DataDirectories,
    mds_address: String,
    iod_addresses: Vec<String>,
    _ports: Ports,
    mds: Option<Daemon>,
    iods: Vec<Option<Daemon>>,
    /// A daemon that waits for its restart.
    prepared: Option<(Victim, PreparedDaemon)>,
}

impl Cluster {
    /// Starts a new cluster in a new directory.
    pub fn start(braid: &Braid, dir: &Path, iods: usize) -> Result<Self> {
        Self::start_at(braid, dir, DataDirectories::below(dir, iods))
    }

    /// The same with given data directories; logs and the client's key lie in `dir`.
    pub fn start_at(braid: &Braid, dir: &Path, places: DataDirectories) -> Result<Self> {
        let iods = places.iods.len();
        let ports = Ports::take(iods + 1)?;
        let mut addresses = ports.all().iter().map(|port| format!("127.0.0.1:{port}"));
        let mds_address = addresses.next().context("no port")?;
        let mut cluster = Self {
            braid: braid.clone(),
            dir: dir.to_owned(),
            places,
            mds_address: mds_address.clone(),
            iod_addresses: addresses.collect(),
            _ports: ports,
            mds: None,
            iods: (0..iods).map(|_| None).collect(),
            prepared: None,
        };
        let meta = cluster.places.meta.as_os_str();
        braid.run_successfully([
            "init".as_ref(),
            meta,
            "--listen".as_ref(),
            mds_address.as_ref(),
        ])?;
        cluster.restart(Victim::Mds)?;
        (0..iods).try_for_each(|iod| cluster.restart(Victim::Iod(iod)))?;
        let add = ["key", "add", "crash", "-o"].map(str::to_owned);
        let add = add.into_iter().chain([cluster.show("client.key")]).chain(cluster.as_admin());
        braid.run_successfully(add).context("making a client key")?;
        Ok(cluster)
    }

    /// The number of I/O daemons.
    pub fn iods(&self) -> usize {
        self.iods.len()
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self, victim: Victim) {
        match victim {
            Victim::Mds => drop(self.mds.take()),
            Victim::Iod(iod) => drop(self.iods[iod].take()),
        }
    }

    /// Its process id, if it runs.
    pub fn pid(&self, victim: Victim) -> Option<u32> {
        match victim {
            Victim::Mds => self.mds.as_ref().map(Daemon::pid),
            Victim::Iod(iod) => self.iods[iod].as_ref().map(Daemon::pid),
        }
    }

    /// Starts a killed process again with the same command, and waits until it listens.
    pub fn restart(&mut self, victim: Victim) -> Result<()> {
        let daemon = match self.prepared.take() {
            Some((prepared, daemon)) if prepared == victim => daemon.start(READY)?,
            _ => self.braid.daemon(self.arguments(victim), READY, &self.log(victim))?,
        };
        match victim {
            Victim::Mds => self.mds = Some(daemon),
            Victim::Iod(iod) => self.iods[iod] = Some(daemon),
        }
        Ok(())
    }

    /// Prepares the next restart of this process so that it starts no program: see
    /// [`Braid::prepared`].
    pub fn prepare(&mut self, victim: Victim) -> Result<()> {
        let daemon = self.braid.prepared(self.arguments(victim), &self.log(victim))?;
        self.prepared = Some((victim, daemon));
        Ok(())
    }

    fn arguments(&self, victim: Victim) -> Vec<String> {
        let config = ["--config".to_owned(), self.of_meta("braid.toml")].into_iter();
        match victim {
            Victim::Mds => ["mds".to_owned()].into_iter().chain(config).collect(),
            Victim::Iod(iod) => {
                let dir = &self.places.iods[iod];
                let first = (!dir.exists()).then(|| "--init".to_owned());
                let place = ["--dir".to_owned(), dir.display().to_string()];
                let listen = ["--listen".to_owned(), self.iod_addresses[iod].clone()];
                ["iod".to_owned()]
                    .into_iter()
                    .chain(config)
                    .chain(place)
                    .chain(listen)
                    .chain(first)
                    .collect()
            }
        }
    }

    /// Fails if a daemon ended on its own.
    pub fn check_alive(&mut self) -> Result<()> {
        let mut daemons = vec![(Victim::Mds, self.mds.as_mut())];
        daemons.extend(
            self.iods
                .iter_mut()
                .enumerate()
                .map(|(iod, daemon)| (Victim::Iod(iod), daemon.as_mut())),
        );
        let ended =
            daemons.into_iter().find_map(|(victim, daemon)| Some((victim, daemon?.ended()?)));
        match ended {
            Some((victim, status)) => {
                bail!("{victim:?} ended on its own: {status}: {}", tail(&self.log(victim)))
            }
            None => Ok(()),
        }
    }

    /// A new client.
    pub fn client(&self) -> Result<Client> {
        connect(&self.mds_address, &self.path("client.key"))
    }

    /// Address of the metadata server, and the file of the client key.
    pub fn contact(&self) -> (String, PathBuf) {
        (self.mds_address.clone(), self.path("client.key"))
    }

    /// Runs `braid fsck`. Unless it finds nothing, its output is the error.
    pub fn fsck(&self) -> Result<()> {
        let output = self.braid.run(["fsck".to_owned()].into_iter().chain(self.as_admin()))?;
        ensure!(output.status.success(), "fsck: {}", output_summary(&output));
        Ok(())
    }

    /// Runs `braid fsck --mend`, after which `braid fsck` must find nothing.
    pub fn fsck_mended(&self) -> Result<()> {
        self.braid
            .run(["fsck".to_owned(), "--mend".to_owned()].into_iter().chain(self.as_admin()))?;
        self.fsck()
    }

    /// Runs a command of `braid` as an administrator.
    pub fn administer<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let output =
            self.braid.run(arguments.into_iter().map(str::to_owned).chain(self.as_admin()))?;
        ensure!(output.status.success(), "{}", output_summary(&output));
        Ok(())
    }

    fn as_admin(&self) -> Vec<String> {
        vec![
            "--config".into(),
            self.of_meta("braid.toml"),
            "--key".into(),
            self.of_meta("keys/server.key"),
        ]
    }

    fn of_meta(&self, name: &str) -> String {
        self.places.meta.join(name).display().to_string()
    }

    fn log(&self, victim: Victim) -> PathBuf {
        match victim {
            Victim::Mds => self.path("mds.log"),
            Victim::Iod(iod) => self.path(&format!("iod{iod}.log")),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn show(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// A client with the key in a file.
pub fn connect(mds: &str, key: &Path) -> Result<Client> {
    let mut config = Config::new([mds], Credential::from_key_file(key)?);
    config.timeout = CALL_TIMEOUT;
    Ok(Client::connect(config)?)
}
