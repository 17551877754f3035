//! `braid mds`, `braid iod`, `braid agent`: the daemons. Each runs until SIGINT or SIGTERM.

use std::{path::PathBuf, sync::mpsc, time::Duration};

use braid_iod::{Iod, IodConfig};
use braid_mds::{Mds, MdsConfig};
use braid_types::ClusterUuid;
use braid_wire::Secret;

use crate::{
    args::{AgentArgs, IodArgs, MdsArgs},
    commands,
    config::Settings,
    connect,
    output::{Exit, Fault, Printer, quoted},
};

/// Where an I/O daemon listens by default.
const IOD_LISTEN_DEFAULT: &str = "127.0.0.1:7701";

/// How often a daemon checks whether it was refused for good. The user waits for the result.
const REFUSAL_POLL: Duration = Duration::from_millis(200);

/// Runs the metadata server.
pub fn mds(args: &MdsArgs, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let section = &settings.file.mds;
    let dir = required_path(
        &args.dir,
        &section.dir,
        "the metadata server's directory",
        "--dir, or --config FILE",
    )?;
    if let Some(command) = &args.command {
        return commands::mds::run(command, &dir, settings, out);
    }
    let stop = stop_signal()?;
    let listen = listen(&args.listen, &section.listen, &settings.mds.value.join(","));
    let mut config =
        MdsConfig::new(dir, listen, server_key(&args.server_key, &section.server_key)?);
    config.advertise = section.advertise.clone();
    config.tls = connect::tls(settings.tls.value);
    config.prometheus = args.metrics.clone().or_else(|| section.metrics.clone());
    let mut mds = start_mds(config)?;
    out.line(format!("metadata server listens on {}", addresses(mds.local_addrs())));
    out.next(format!(
        "braid iod{} --dir DISK --init --listen {}    (one for each disk; later starts without \
         --init)",
        config_flag(settings),
        listen_hint(mds.local_addrs().iter().any(|address| !address.ip().is_loopback())),
    ));
    let _ = stop.recv();
    mds.stop();
    Ok(())
}

/// Runs an I/O daemon.
pub fn iod(args: &IodArgs, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let section = &settings.file.iod;
    let stop = stop_signal()?;
    let dir = required_path(
        &args.dir,
        &section.dir,
        "the I/O daemon's directory",
        "--dir DIR --init, on a disk of its own",
    )?;
    let cluster = cluster(settings)?;
    if args.init {
        init_iod(&dir, cluster)?;
    }
    let pick = |given: &[String], configured: &[String]| {
        if given.is_empty() { configured.to_vec() } else { given.to_vec() }
    };
    let config = IodConfig {
        dir,
        cluster,
        listen: listen(&args.listen, &section.listen, IOD_LISTEN_DEFAULT),
        advertise: pick(&args.advertise, &section.advertise),
        nfs_listen: pick(&args.nfs_listen, &section.nfs_listen),
        nfs_advertise: pick(&args.nfs_advertise, &section.nfs_advertise),
        mds: settings.mds.value.clone(),
        server_key: server_key(&args.server_key, &section.server_key)?,
        labels: pick(&args.label, &section.labels),
        tls: connect::tls(settings.tls.value),
        prometheus: args.metrics.clone().or_else(|| section.metrics.clone()),
    };
    let mut iod = start_iod(config)?;
    out.line(format!("I/O daemon listens on {}", addresses(iod.addresses())));
    out.next(format!(
        "braid status{}    (shows it as up when it has registered)",
        config_flag(settings)
    ));
    let refused = wait_for_end(&iod, &stop);
    iod.stop();
    refused.map_or(Ok(()), |refused| Err(registration_refused(&refused)))
}

/// The address that an I/O daemon should listen on: one that clients can reach.
fn listen_hint(is_reached_from_elsewhere: bool) -> &'static str {
    match is_reached_from_elsewhere {
        true => "ADDR:7701",
        false => IOD_LISTEN_DEFAULT,
    }
}

/// Waits for a signal, or for a refusal of the metadata server that is final. Returns that refusal.
fn wait_for_end(iod: &Iod, stop: &mpsc::Receiver<()>) -> Option<String> {
    while let Err(mpsc::RecvTimeoutError::Timeout) = stop.recv_timeout(REFUSAL_POLL) {
        if let Some(refused) = iod.refusal() {
            return Some(refused);
        }
    }
    None
}

/// The error of a daemon that the cluster refuses for good.
pub fn registration_refused(refused: &str) -> Fault {
    let (why, hint) = refused.split_once("; try: ").unwrap_or((refused, "braid status"));
    Fault::new(Exit::Refused, "joining the cluster", why).hint(hint)
}

/// On other systems a socket does not identify the user at its other end.
#[cfg(not(target_os = "linux"))]
pub fn agent(_: &AgentArgs, _: &Settings, _: Printer) -> Result<(), Fault> {
    let why = "the agent needs Unix sockets that identify their peer, which this system lacks";
    Err(Fault::usage("starting the agent", why).hint("a client key file: --key FILE"))
}

/// Runs the agent.
#[cfg(target_os = "linux")]
pub fn agent(args: &AgentArgs, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let stop = stop_signal()?;
    let key = settings.key.value.as_ref().ok_or_else(|| {
        Fault::usage("starting the agent", "it needs the host's client key")
            .hint("braid key add HOST, then braid agent --key HOST.key")
    })?;
    let socket = args.socket.clone().or_else(|| settings.file.client.agent.clone());
    let socket =
        socket.unwrap_or_else(|| PathBuf::from(braid_client::settings::AGENT_SOCKET_DEFAULT));
    let mut config = braid_client::Config::new(
        settings.mds.value.clone(),
        braid_client::Credential::from_key_file(key)?,
    );
    config.tls = connect::tls(settings.tls.value);
    config.timeout = settings.timeout.value;
    let agent = braid_client::agent::Agent::bind(&socket, config)?;
    let stopper = agent.stopper();
    std::thread::spawn(move || {
        let _ = stop.recv();
        stopper.stop();
    });
    out.line(format!("the agent listens on {}", socket.display()));
    let (mds, shown) = (settings.mds.value.join(","), quoted(&socket.display().to_string()));
    out.next(format!(
        "any user of this host: export BRAID_MDS={mds} BRAID_AGENT={shown}; braid ls -l /"
    ));
    Ok(agent.run()?)
}

/// Starts a metadata server. A failure gets advice.
pub fn start_mds(config: MdsConfig) -> Result<Mds, Fault> {
    let (dir, listen) = (config.directory.display().to_string(), config.listen.join(" "));
    Mds::start(config).map_err(|e| {
        let otherwise = "--dir, with the directory that braid init created";
        not_started(
            format!("starting the metadata server of {dir} on {listen}"),
            &e.to_string(),
            otherwise,
        )
    })
}

/// Starts an I/O daemon. A failure gets advice.
pub fn start_iod(config: IodConfig) -> Result<Iod, Fault> {
    let (dir, listen) = (config.dir.display().to_string(), config.listen.join(" "));
    Iod::start(config).map_err(|e| {
        let otherwise =
            "the same command when the disk is mounted; or, for an empty directory, with --init";
        let what = format!("starting the I/O daemon of {dir} on {listen}");
        not_started(what, &e.to_string(), otherwise)
    })
}

/// Uses the daemon's own advice, if it has any.
fn not_started(what: String, said: &str, otherwise: &str) -> Fault {
    if let Some((why, hint)) = said.split_once("; try: ") {
        return Fault::failed(what, why).hint(hint);
    }
    let taken = said.contains("in use") || said.contains("cannot listen");
    Fault::failed(what, said).hint(if taken {
        "another port with --listen, or stop the process on this port"
    } else {
        otherwise
    })
}

/// Prepares an empty directory for an I/O daemon.
pub fn init_iod(dir: &std::path::Path, cluster: ClusterUuid) -> Result<(), Fault> {
    let doing = || format!("preparing {} for an I/O daemon", dir.display());
    std::fs::create_dir_all(dir).map_err(|e| Fault::failed(doing(), e))?;
    braid_store::LocalStore::init(dir, cluster, None)
        .map_err(|e| {
            not_started(
                doing(),
                &e.to_string(),
                "an empty directory on a disk with extended attributes",
            )
        })
        .map(|_| ())
}

/// The cluster in this host's configuration.
pub fn cluster(settings: &Settings) -> Result<ClusterUuid, Fault> {
    let text = settings.file.cluster.uuid.as_deref().ok_or_else(|| {
        Fault::usage("starting a daemon", "no configuration file names its cluster (cluster.uuid)")
            .hint("--config FILE, with the braid.toml that braid init wrote")
    })?;
    text.parse().map_err(|why: &str| Fault::usage("reading cluster.uuid", why))
}

fn server_key(given: &Option<PathBuf>, configured: &Option<PathBuf>) -> Result<Secret, Fault> {
    let path = required_path(
        given,
        configured,
        "the server key",
        "--server-key FILE (braid init creates keys/server.key)",
    )?;
    let key = connect::key_file(&path)?;
    if key.id.0 != 0 {
        return Err(Fault::usage(
            format!("reading {}", path.display()),
            "it holds a client key, not the server key",
        )
        .hint("--server-key FILE, with keys/server.key of braid init"));
    }
    Ok(key.secret)
}

fn required_path(
    given: &Option<PathBuf>,
    configured: &Option<PathBuf>,
    what: &str,
    hint: &str,
) -> Result<PathBuf, Fault> {
    let found = given.clone().or_else(|| configured.clone());
    found.ok_or_else(|| {
        Fault::new(Exit::Usage, "starting", format!("no option or setting names {what}")).hint(hint)
    })
}

fn listen(given: &[String], configured: &[String], default: &str) -> Vec<String> {
    match (given.is_empty(), configured.is_empty()) {
        (false, _) => given.to_vec(),
        (true, false) => configured.to_vec(),
        (true, true) => default.split(',').map(str::to_owned).collect(),
    }
}

/// The option that names the configuration file, for commands in hints.
fn config_flag(settings: &Settings) -> String {
    settings.path.as_ref().map_or_else(String::new, |path| {
        format!(" --config {}", quoted(&path.display().to_string()))
    })
}

fn addresses(list: &[std::net::SocketAddr]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// A channel that gets a message at SIGINT or SIGTERM. A second signal ends the process
/// immediately.
pub fn stop_signal() -> Result<mpsc::Receiver<()>, Fault> {
    let (send, receive) = mpsc::sync_channel(1);
    let handler = move || {
        if send.try_send(()).is_err() {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|e| Fault::failed("waiting for signals", e))?;
    Ok(receive)
}
