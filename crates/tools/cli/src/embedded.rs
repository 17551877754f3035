//! A whole cluster in one process: a metadata server and I/O daemons, over loopback.

mod port;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use braid_client::{Client, Config, Credential, KeyFile};
use braid_iod::{Iod, IodConfig};
use braid_mds::{Mds, MdsConfig};
use braid_net::TlsPolicy;
use braid_types::ClusterUuid;
use braid_wire::{
    Secret,
    message::{mds::KeyRights, types::IodState},
};

use crate::{
    args::UpArgs,
    commands::init,
    config::{self, Settings},
    connect,
    output::{Exit, Fault},
    servers,
};

/// Port of a new cluster's metadata server.
const PORT: u16 = 7700;
/// Number of I/O daemons of a new cluster.
const IODS: u16 = 4;
/// How long the daemons may take to register.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// Part of the reply that a removed daemon gets.
const REMOVED: &str = "was removed from the cluster";
/// Interval between two checks.
const READY_POLL: Duration = Duration::from_millis(20);

/// A running embedded cluster. Dropping it stops it, the metadata server first.
pub struct Embedded {
    iods: Vec<Iod>,
    mds: Mds,
    /// Where the metadata server listens.
    pub address: String,
}

impl Embedded {
    /// Creates the cluster if `args.dir` is new or empty, and starts it.
    pub fn start(args: &UpArgs) -> Result<Self, Fault> {
        let dir = &args.dir;
        let path = dir.join("braid.toml");
        if !path.is_file() {
            make(args)?;
        }
        let file = config::read(&path)?;
        let uuid: ClusterUuid = file
            .cluster
            .uuid
            .as_deref()
            .unwrap_or_default()
            .parse()
            .map_err(|why: &str| Fault::usage("reading cluster.uuid", why))?;
        let secret = connect::key_file(&dir.join("keys/server.key"))?.secret;
        let tls = file.cluster.tls.map(TlsPolicy::from).unwrap_or_default();
        let listen = port::listen_addresses(&path, &file.mds.listen, args.port)?;
        let (had, next) =
            (iod_dirs(dir).len(), iod_dirs(dir).last().map_or(0, |(number, _)| number + 1));
        let missing = args.iods.map_or(0, |wanted| usize::from(wanted).saturating_sub(had));
        if args.iods.is_some_and(|wanted| usize::from(wanted) < had) {
            let (what, why) = (
                format!("starting the cluster of {}", dir.display()),
                format!("it has {had} I/O daemons"),
            );
            return Err(Fault::usage(what, format!("{why}, and they hold files"))
                .hint("the same command without --iods"));
        }
        let nfs_host = args.nfs.as_deref().map(crate::nfs::data_server_host).transpose()?;
        let mut config = MdsConfig::new(dir.join("mds"), listen.clone(), secret.clone());
        config.tls = tls;
        config.prometheus = file.mds.metrics.clone();
        let mds = servers::start_mds(config)?;
        let address = mds.local_addrs().iter().map(ToString::to_string).collect::<Vec<_>>();
        port::record_port(&path, &file.mds.listen, &listen, &address)?;
        (next..next + missing)
            .try_for_each(|i| servers::init_iod(&dir.join(format!("iod{i}")), uuid))?;
        let iods = start_iods(dir, uuid, &address, &secret, tls, nfs_host.as_deref())?;
        let mut cluster = Self { iods, mds, address: address.join(",") };
        cluster.finish_start(dir, uuid, address, &secret)?;
        Ok(cluster)
    }

    /// Waits until every I/O daemon is in the cluster map. For a new cluster, creates the client
    /// key and writes the address to braid.toml.
    fn finish_start(
        &mut self,
        dir: &Path,
        uuid: ClusterUuid,
        address: Vec<String>,
        secret: &Secret,
    ) -> Result<(), Fault> {
        let admin =
            Client::connect(Config::new(address.clone(), Credential::ServerKey(secret.clone())))?;
        let deadline = Instant::now() + READY_WITHIN;
        while admin.cluster_map()?.iods.iter().filter(|iod| iod.state == IodState::Up).count()
            < self.iods.len()
        {
            self.stop_removed()?;
            if Instant::now() > deadline {
                return Err(Fault::new(
                    Exit::Unreachable,
                    "starting the cluster",
                    "the I/O daemons did not all join in 30 s",
                )
                .hint("braid up with -v, to see their log"));
            }
            std::thread::sleep(READY_POLL);
        }
        let key = dir.join("keys/client.key");
        if !key.exists() {
            own_root(&admin)?;
            let made = admin.key_add("local", KeyRights::full())?;
            let file = KeyFile {
                id: made.key,
                name: "local".into(),
                admin: false,
                secret: Secret::from_bytes(made.secret),
            };
            file.save(&key)?;
            durable(&dir.join("keys"))?;
            init::write_config(dir, &uuid, &address)?;
        }
        Ok(())
    }

    /// Stops daemons that were removed from the cluster. Their directories may still exist and do
    /// not change.
    fn stop_removed(&mut self) -> Result<(), Fault> {
        let mut wanted = Vec::with_capacity(self.iods.len());
        for mut iod in self.iods.drain(..) {
            match iod.refusal() {
                Some(why) if why.contains(REMOVED) => {
                    tracing::warn!(why, "removed I/O daemon not started");
                    iod.stop();
                }
                Some(why) => return Err(servers::registration_refused(&why)),
                None => wanted.push(iod),
            }
        }
        self.iods = wanted;
        Ok(())
    }

    /// How many I/O daemons it has.
    pub fn iods(&self) -> usize {
        self.iods.len()
    }

    /// Stops everything, the metadata server first: it still needs the I/O daemons to flush and
    /// record sizes.
    pub fn stop(&mut self) {
        self.mds.stop();
        for iod in &mut self.iods {
            iod.stop();
        }
    }
}

/// The root directory of a new cluster belongs to the user that creates the cluster: otherwise
/// only root could create files in it through a gateway, which acts as the user that logged on.
#[cfg(unix)]
fn own_root(admin: &Client) -> Result<(), Fault> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if !user.is_root() {
        admin.chown("/", Some(user.as_raw().into()), Some(group.as_raw().into()), true)?;
    }
    Ok(())
}

/// Other systems have other users.
#[cfg(not(unix))]
fn own_root(_: &Client) -> Result<(), Fault> {
    Ok(())
}

/// Creates a new cluster: keys, metadata, one directory per I/O daemon. In production each
/// directory is on a disk of its own.
fn make(args: &UpArgs) -> Result<(), Fault> {
    let listen = format!("127.0.0.1:{}", args.port.unwrap_or(PORT));
    port::check_port_free(&listen)?;
    let new = init::create(&args.dir, &[listen])?;
    (0..args.iods.unwrap_or(IODS))
        .try_for_each(|i| servers::init_iod(&args.dir.join(format!("iod{i}")), new.uuid))?;
    durable(&args.dir)
}

fn durable(dir: &Path) -> Result<(), Fault> {
    init::sync_directory(dir)
        .map_err(|e| Fault::failed(format!("making {} durable", dir.display()), e))
}

/// The directories of the I/O daemons in the order of their numbers. A removed daemon may have left
/// a gap.
fn iod_dirs(dir: &Path) -> Vec<(usize, PathBuf)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("iod")?.parse().ok();
    let mut dirs: Vec<(usize, PathBuf)> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .filter_map(|path| Some((number(&path)?, path)))
        .collect();
    dirs.sort();
    dirs
}

/// Starts one daemon per `iodN` directory, with an NFS data server if `nfs_host` is given. Their
/// ports may change with each start: clients get them from the cluster map.
fn start_iods(
    dir: &Path,
    uuid: ClusterUuid,
    mds: &[String],
    secret: &Secret,
    tls: TlsPolicy,
    nfs_host: Option<&str>,
) -> Result<Vec<Iod>, Fault> {
    iod_dirs(dir)
        .into_iter()
        .map(|(_, dir)| {
            let mut config = IodConfig::on_loopback(dir, uuid, mds.to_vec(), secret.clone());
            config.tls = tls;
            config.nfs_listen = nfs_host.map(|host| format!("{host}:0")).into_iter().collect();
            servers::start_iod(config)
        })
        .collect()
}

/// Settings for a client of an embedded cluster, from its `braid.toml`.
pub fn settings(dir: &Path) -> Result<Settings, Fault> {
    Settings::load(&crate::args::Global {
        config: Some(dir.join("braid.toml")),
        ..Default::default()
    })
}
