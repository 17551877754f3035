//! `braid smb`: an SMB gateway, which runs until SIGINT or SIGTERM, and its users.

mod host_users;
mod shares;
#[cfg(target_os = "linux")]
pub mod union;
mod user;
mod users_file;

use std::{
    io::ErrorKind,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use braid_client::settings::SmbSection;
use braid_share::{Share, cluster::ClusterShare};
use braid_smb::{
    Listener, SmbConfig, SmbServer, StartError,
    config::{ConfigError, SERVER_NAME_BYTES_MAX},
};
use tokio::sync::watch;

use self::{host_users::FileUsers, users_file::WatchedFile};
use crate::{
    args::{SmbArgs, SmbCommand},
    config::Settings,
    connect, nfs,
    output::{Fault, Printer, quoted},
    servers,
};

/// Where a gateway listens by default: the port that clients assume.
const LISTEN_DEFAULT: &str = "0.0.0.0:445";
const PORT_DEFAULT: u16 = 445;
const STARTING: &str = "starting the SMB gateway";

/// Runs a gateway, or a command about its users.
pub fn run(
    args: &SmbArgs,
    settings: impl Fn() -> Result<Settings, Fault>,
    out: Printer,
) -> Result<(), Fault> {
    if let Some(SmbCommand::User(command)) = &args.command {
        return user::run(command, settings, out);
    }
    let stop = servers::stop_signal()?;
    let settings = settings()?;
    let mut section = settings.file.smb.clone();
    if !args.listen.is_empty() {
        section.listen.clone_from(&args.listen);
    }
    if !args.share.is_empty() {
        section.shares = shares::parse_all(&args.share)?;
    }
    if args.users.is_some() {
        section.users_file.clone_from(&args.users);
    }
    section.require_signing |= args.require_signing;
    check_users_file(&section)?;
    let gateway = Gateway::start(&settings, &section)?;
    gateway.check_shares()?;
    for address in &gateway.addresses {
        out.line(format!("SMB gateway listens on {address}"));
    }
    gateway.print_next(out);
    let _ = stop.recv();
    drop(gateway);
    Ok(())
}

/// Refuses a users file that is named and does not exist: mostly a mistake in its name. Those of
/// `braid up`, and the default one, may come later.
fn check_users_file(section: &SmbSection) -> Result<(), Fault> {
    let Some(path) = &section.users_file else { return Ok(()) };
    let is_missing = path.metadata().is_err_and(|why| why.kind() == ErrorKind::NotFound);
    if !is_missing {
        return Ok(());
    }
    let path = quoted(&path.display().to_string());
    let fault = Fault::usage(users_file::READING, format!("{path} does not exist"));
    Err(fault.hint(format!("braid smb user add NAME --users {path}")))
}

/// The users file that a section names, or the default one.
fn users_path(section: &SmbSection) -> PathBuf {
    section.users_file.clone().unwrap_or_else(|| users_file::DEFAULT.into())
}

/// The users file of `braid up DIR` and `braid union up DIR`: one in the directory, unless only the
/// host has one.
pub fn users_path_in(dir: &Path) -> PathBuf {
    let own = dir.join("smb-users");
    let host = Path::new(users_file::DEFAULT);
    if !own.exists() && host.exists() {
        return host.to_owned();
    }
    // A process in the background changes its directory.
    std::path::absolute(&own).unwrap_or(own)
}

/// A section for one address. Without shares, everything is shared under a name.
///
/// # Errors
/// A share is wrong.
pub fn section_for(
    mut section: SmbSection,
    listen: &str,
    given: &[String],
    name: &str,
) -> Result<SmbSection, Fault> {
    section.listen = vec![listen.to_owned()];
    if !given.is_empty() {
        section.shares = shares::parse_all(given)?;
    }
    if section.shares.is_empty() {
        section.shares = vec![shares::everything(name)];
    }
    Ok(section)
}

/// A running gateway. Dropping it closes its clients' files and stops it.
pub struct Gateway {
    addresses: Vec<SocketAddr>,
    users: Arc<FileUsers>,
    /// The name of the first share.
    share: Option<String>,
    share_count: usize,
    /// Whether each share is for users of the users file only.
    needs_user: bool,
    /// Shares whose directories do not exist now, as (name, path).
    missing: Vec<(String, String)>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Connects to the cluster and listens.
    ///
    /// # Errors
    /// The section is wrong, the users file cannot be used, the cluster is not reached, or an
    /// address cannot be listened on.
    pub fn start(settings: &Settings, section: &SmbSection) -> Result<Self, Fault> {
        let (mut gateway, smb) = Self::prepare(section)?;
        let mut config = connect::client_config(settings)?;
        config.client_name = format!("{} (SMB gateway)", connect::host());
        let client = connect::client(settings)?;
        config.cluster = Some(client.gateway_secret()?.cluster);
        let paths = section.shares.iter().filter(|share| nfs::is_missing(&client, &share.path));
        gateway.missing = paths.map(|share| (share.name.clone(), share.path.clone())).collect();
        drop(client);
        gateway.serve(section, smb, async move || Ok(ClusterShare::connect(config).await?))
    }

    /// Checks everything that needs no file system.
    fn prepare(section: &SmbSection) -> Result<(Self, SmbConfig), Fault> {
        let path = users_path(section);
        let users = Arc::new(FileUsers(WatchedFile::open(path)?));
        let name = section.server_name.clone().unwrap_or_else(|| server_name(&connect::host()));
        let mut smb = SmbConfig::new(name, Arc::clone(&users) as _);
        if let Some(workgroup) = &section.workgroup {
            smb.workgroup.clone_from(workgroup);
        }
        smb.shares = section.shares.iter().map(shares::config).collect();
        smb.require_signing = section.require_signing;
        smb.gateways.clone_from(&section.gateways);
        smb.check().map_err(|why| wrong_config(&why))?;
        let gateway = Self {
            addresses: Vec::new(),
            users,
            share: section.shares.first().map(|share| share.name.clone()),
            share_count: section.shares.len(),
            needs_user: !section.shares.iter().any(|share| share.guest),
            missing: Vec::new(),
            stop: watch::channel(false).0,
            thread: None,
        };
        Ok((gateway, smb))
    }

    /// Serves on threads of its own, after the addresses are bound.
    fn serve<S: Share>(
        mut self,
        section: &SmbSection,
        smb: SmbConfig,
        connect: impl AsyncFnOnce() -> Result<S, Fault> + Send + 'static,
    ) -> Result<Self, Fault> {
        let fail = |why: std::io::Error| Fault::failed(STARTING, why);
        let listen = nfs::addresses(&section.listen, LISTEN_DEFAULT)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("smb")
            .thread_stack_size(nfs::GATEWAY_STACK_BYTES)
            .build()
            .map_err(fail)?;
        let stopped = self.stop.subscribe();
        let (ready, started) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("smb-gateway".into()).spawn(move || {
            runtime.block_on(async {
                match begin(connect, smb, &listen).await {
                    Ok((server, listeners)) => {
                        let _ = ready.send(Ok(listeners.iter().map(Listener::address).collect()));
                        serve(server, listeners, stopped).await;
                    }
                    Err(fault) => {
                        let _ = ready.send(Err(fault));
                    }
                }
            });
        });
        self.thread = Some(thread.map_err(fail)?);
        self.addresses = started.recv().map_err(|why| Fault::failed(STARTING, why))??;
        Ok(self)
    }

    /// Refuses a gateway that has shares, and the directory of none of them.
    fn check_shares(&self) -> Result<(), Fault> {
        match self.missing.first() {
            Some((name, path)) if self.missing.len() == self.share_count => {
                let why = format!("share {name} cannot be used: {path} does not exist");
                Err(Fault::failed(STARTING, why).hint(format!("braid mkdir -p {}", quoted(path))))
            }
            _ => Ok(()),
        }
    }

    /// The first address that it listens on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.addresses.first().copied()
    }

    /// Prints how a client uses the first share, and what is missing for that.
    pub fn print_next(&self, out: Printer) {
        let Some(address) = self.addresses.first() else { return };
        let Some(share) = &self.share else {
            out.hint("nothing is shared; try: braid smb --share projects=/projects");
            return;
        };
        for (name, path) in &self.missing {
            let path = quoted(path);
            out.hint(format!(
                "share {name} cannot be used: {path} does not exist; try: braid mkdir -p {path}"
            ));
        }
        let user = self.users.0.first_name();
        if user.is_none() && self.needs_user {
            let path = quoted(&self.users.0.path().display().to_string());
            out.hint(format!(
                "nobody may log on: {path} has no user; try: braid smb user add NAME \
                 --users {path}"
            ));
        }
        let host = match address.ip() {
            ip if ip.is_unspecified() => connect::host(),
            ip => ip.to_string(),
        };
        let user = quoted(user.as_deref().unwrap_or("USER"));
        let place = quoted(&format!("//{host}/{share}"));
        if address.port() == PORT_DEFAULT {
            out.next(format!("smbclient {place} -U {user}"));
            out.next(format!(r"net use * \\{host}\{share} /user:{user}    (on Windows)"));
        } else {
            // Windows before 11 24H2 knows port 445 only.
            out.next(format!("smbclient {place} -p {} -U {user}", address.port()));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

type Server<S> = Arc<SmbServer<S>>;

async fn begin<S: Share>(
    connect: impl AsyncFnOnce() -> Result<S, Fault>,
    smb: SmbConfig,
    listen: &[SocketAddr],
) -> Result<(Server<S>, Vec<Listener>), Fault> {
    let mut listeners = Vec::new();
    for address in listen {
        listeners.push(Listener::bind(*address).await.map_err(|why| not_started(&why))?);
    }
    let server = SmbServer::new(connect().await?, smb).map_err(|why| not_started(&why))?;
    Ok((server, listeners))
}

async fn serve<S: Share>(
    server: Server<S>,
    listeners: Vec<Listener>,
    stopped: watch::Receiver<bool>,
) {
    let serving = listeners
        .into_iter()
        .map(|listener| tokio::spawn(listener.serve(server.clone(), stopped.clone())))
        .collect::<Vec<_>>();
    for task in serving {
        let _ = task.await;
    }
}

fn not_started(why: &StartError) -> Fault {
    match why {
        StartError::Listen { error, .. } => {
            Fault::failed(STARTING, why.to_string()).hint(match error.kind() {
                ErrorKind::AddrInUse => "another port with --listen, or stop Samba on this port",
                kind => nfs::listen_hint(kind),
            })
        }
        StartError::Config(why) => wrong_config(why),
        _ => Fault::failed(STARTING, why.to_string()),
    }
}

fn wrong_config(why: &ConfigError) -> Fault {
    let hint = match why {
        ConfigError::ServerName(_) => "another smb.server-name or smb.workgroup in braid.toml",
        ConfigError::TooManyShares => "fewer [[smb.share]] in braid.toml",
        ConfigError::Gateway(_) | ConfigError::SameGateway(_) | ConfigError::TooManyGateways => {
            "smb.gateways = [\"gw1.example.org\", \"gw2.example.org\"] in braid.toml"
        }
        _ => "--share projects=/projects",
    };
    Fault::usage("reading the SMB shares", why.to_string()).hint(hint)
}

/// The name of the server for clients, from that of the host: its first label, as far as it fits
/// into a NetBIOS name.
fn server_name(host: &str) -> String {
    let label = host.split('.').next().unwrap_or_default();
    let kept = label.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '-');
    let name: String = kept.take(SERVER_NAME_BYTES_MAX).collect();
    if name.is_empty() { "BRAID".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_server_fits_into_a_netbios_name() {
        for (host, name) in [
            ("files.example.org", "files"),
            ("a-very-long-name-of-a-host", "a-very-long-nam"),
            ("with_underscore", "withunderscore"),
            ("...", "BRAID"),
        ] {
            assert_eq!(server_name(host), name);
        }
    }

    #[test]
    fn an_address_that_cannot_be_used_gets_its_own_advice() {
        let address = "192.0.2.1:445".parse().unwrap();
        let said = |kind: ErrorKind| {
            not_started(&StartError::Listen { address, error: kind.into() }).to_string()
        };
        assert!(said(ErrorKind::AddrNotAvailable).contains("an address of this host"));
        assert!(said(ErrorKind::PermissionDenied).contains("above 1023"));
        assert!(said(ErrorKind::AddrInUse).contains("stop Samba"));
    }

    #[test]
    fn a_cluster_and_a_union_have_a_users_file_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("smb-users");
        std::fs::write(&own, "").unwrap();
        assert_eq!(users_path_in(dir.path()), own);
    }

    #[test]
    fn without_shares_everything_is_shared() {
        let section = section_for(SmbSection::default(), "127.0.0.1:1", &[], "braid").unwrap();
        assert_eq!(
            (section.shares[0].name.as_str(), section.shares[0].path.as_str()),
            ("braid", "/")
        );
        let given = ["a=/a".to_owned()];
        let given = section_for(section, "127.0.0.1:1", &given, "braid").unwrap();
        assert_eq!((given.shares.len(), given.shares[0].name.as_str()), (1, "a"));
    }
}
