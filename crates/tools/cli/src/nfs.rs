//! `braid nfs`: an NFS gateway. It runs until SIGINT or SIGTERM.

mod protection;
#[cfg(target_os = "linux")]
pub mod union;

#[cfg(target_os = "linux")]
pub use protection::users::found;

use std::{
    io::ErrorKind,
    net::{SocketAddr, ToSocketAddrs},
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

use braid_client::{
    Client,
    settings::{self, NfsExport, NfsSection},
};
use braid_nfs::{
    Listener, NfsConfig, NfsServer, Protection, StartError,
    config::{AddressRange, ConfigError, ExportConfig, Security, Squash, Transport},
};
use braid_share::{Share, cluster::ClusterShare};
use braid_types::Status;
use tokio::sync::watch;

use crate::{
    args::NfsArgs,
    config::Settings,
    connect,
    output::{Exit, Fault, Printer},
    servers,
};

/// Where a gateway listens by default: the port that clients assume.
const LISTEN_DEFAULT: &str = "0.0.0.0:2049";
/// Stack of each thread of a gateway, whatever RUST_MIN_STACK is.
pub const GATEWAY_STACK_BYTES: usize = 2 << 20;

/// Runs a gateway.
pub fn run(args: &NfsArgs, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let stop = servers::stop_signal()?;
    let mut section = settings.file.nfs.clone();
    if !args.listen.is_empty() {
        section.listen.clone_from(&args.listen);
    }
    if !args.export.is_empty() {
        section.exports = parse_exports(&args.export)?;
    }
    for (given, setting) in [
        (&args.keytab, &mut section.keytab),
        (&args.tls_cert, &mut section.tls_cert),
        (&args.tls_key, &mut section.tls_key),
        (&args.tls_client_ca, &mut section.tls_client_ca),
    ] {
        if given.is_some() {
            setting.clone_from(given);
        }
    }
    if args.principal.is_some() {
        section.principal.clone_from(&args.principal);
    }
    if args.delegations || args.no_delegations {
        section.delegations = Some(args.delegations);
    }
    let gateway = Gateway::start(settings, &section, NextStart::ContinuesClients)?;
    for address in &gateway.addresses {
        out.line(format!("NFS gateway listens on {address}"));
    }
    gateway.print_next(out);
    let _ = stop.recv();
    drop(gateway);
    Ok(())
}

/// A running gateway. Dropping it ends its clients' sessions and stops it.
pub struct Gateway {
    addresses: Vec<SocketAddr>,
    exports: Vec<String>,
    /// Exports that clients cannot mount now.
    missing: Vec<String>,
    /// The host name that clients must use, if a keytab has only one.
    host: Option<String>,
    /// Mount options that the first export needs.
    options: String,
    /// Facts about keytab and certificate for the operator.
    notes: Vec<String>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// What the next start of a gateway does with the clients of this one. ADR 0040.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextStart {
    /// It continues them.
    ContinuesClients,
    /// It cannot continue them, since the metadata server ends with the gateway. So they end, too.
    BeginsAgain,
}

impl Gateway {
    /// Connects to the cluster and listens.
    pub fn start(
        settings: &Settings,
        section: &NfsSection,
        next: NextStart,
    ) -> Result<Self, Fault> {
        let configs = section.exports.iter().map(export).collect::<Result<Vec<_>, _>>()?;
        let protected = protection::start(section, &configs)?;
        let mut config = connect::client_config(settings)?;
        config.client_name = format!("{} (NFS gateway)", connect::host());
        let client = connect::client(settings)?;
        let shared = client.gateway_secret()?;
        config.cluster = Some(shared.cluster);
        let listen = addresses(&section.listen, LISTEN_DEFAULT)?;
        let name = section.name.clone().unwrap_or_else(connect::host);
        let owner = format!("{name} {}", listen[0]);
        let mut nfs = NfsConfig::new(owner, shared.secret);
        if let Some(lease) = &section.lease {
            nfs.lease = settings::duration(lease)
                .map_err(|why| Fault::usage("reading nfs.lease", why).hint("60s"))?;
        }
        let options = configs.first().map(mount_options).unwrap_or_default();
        nfs.exports = configs;
        if let Some(delegations) = section.delegations {
            nfs.delegations = delegations;
        }
        nfs.domain.clone_from(&section.domain);
        nfs.users = protection::user_database();
        nfs.check().map_err(|why| Fault::usage("reading the NFS exports", why.to_string()))?;
        let exports: Vec<_> = section.exports.iter().map(|export| export.path.clone()).collect();
        let missing = exports.iter().filter(|path| is_missing(&client, path)).cloned().collect();
        drop(client);
        let gateway = Self {
            addresses: Vec::new(),
            exports,
            missing,
            host: protected.host,
            options,
            notes: protected.notes,
            stop: watch::channel(false).0,
            thread: None,
        };
        gateway.serve(async move || {
            let share = connect_share(config, &nfs, &listen, next).await?;
            begin(share, nfs, protected.protection, &listen).await
        })
    }

    /// Serves on threads of its own, after `begin` has bound the addresses.
    fn serve<S: Share>(
        mut self,
        begin: impl AsyncFnOnce() -> Result<(Server<S>, Vec<Listener>), Fault> + Send + 'static,
    ) -> Result<Self, Fault> {
        let doing = || "starting the NFS gateway".to_owned();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("nfs")
            .thread_stack_size(GATEWAY_STACK_BYTES)
            .build()
            .map_err(|why| Fault::failed(doing(), why))?;
        let stopped = self.stop.subscribe();
        let (ready, started) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("nfs-gateway".into()).spawn(move || {
            runtime.block_on(async {
                match begin().await {
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
        self.thread = Some(thread.map_err(|why| Fault::failed(doing(), why))?);
        self.addresses = started.recv().map_err(|why| Fault::failed(doing(), why))??;
        Ok(self)
    }

    /// The first address that it listens on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.addresses.first().copied()
    }

    /// Prints how a client mounts the exports.
    pub fn print_next(&self, out: Printer) {
        let Some(address) = self.addresses.first() else { return };
        for note in &self.notes {
            out.hint(note);
        }
        if self.exports.is_empty() {
            out.hint("nothing is exported; try: braid nfs --export '/=10.0.0.0/24,sec=sys'");
            return;
        }
        for path in &self.missing {
            out.hint(format!("export {path}: no such directory; try: braid mkdir -p {path}"));
        }
        let host = match address.ip() {
            _ if self.host.is_some() => self.host.clone().unwrap_or_default(),
            ip if ip.is_unspecified() => connect::host(),
            ip => ip.to_string(),
        };
        let path = &self.exports[0];
        let port = match address.port() {
            2049 => String::new(),
            port => format!(",port={port}"),
        };
        out.next(format!(
            "mount -t nfs4 -o vers=4.2{port}{} {host}:{path} /mnt    (as root of a client)",
            self.options
        ));
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

type Server<S> = Arc<NfsServer<S>>;

async fn connect_share(
    config: braid_client::Config,
    nfs: &NfsConfig,
    listen: &[SocketAddr],
    next: NextStart,
) -> Result<ClusterShare, Fault> {
    // Without a fixed port no client comes back after a restart.
    match listen.first() {
        Some(address) if address.port() != 0 && next == NextStart::ContinuesClients => {
            ClusterShare::connect_as(config, &nfs.server_owner)
                .await
                .map_err(|error| name_taken(&error).unwrap_or_else(|| error.into()))
        }
        _ => Ok(ClusterShare::connect(config).await?),
    }
}

async fn begin<S: Share>(
    share: S,
    nfs: NfsConfig,
    protection: Protection,
    listen: &[SocketAddr],
) -> Result<(Server<S>, Vec<Listener>), Fault> {
    let mut listeners = Vec::new();
    for address in listen {
        listeners.push(Listener::bind(*address).await.map_err(|why| not_started(&why))?);
    }
    let server = NfsServer::with_security(share, nfs, protection).map_err(|why| {
        let fault = Fault::usage("starting the NFS gateway", why.to_string());
        match why {
            StartError::Config(ConfigError::NoTls(_)) => {
                fault.hint("--tls-cert FILE --tls-key FILE")
            }
            StartError::Config(ConfigError::NoClientAuthority(_)) => {
                fault.hint("--tls-client-ca FILE")
            }
            _ => fault,
        }
    })?;
    // Clients may connect already; they are served after this.
    if let Err(error) = server.recover().await {
        tracing::warn!(%error, "the clients of the earlier start cannot reclaim");
    }
    Ok((server, listeners))
}

/// The fault of a gateway whose name another one has.
fn name_taken(error: &braid_client::Error) -> Option<Fault> {
    let hint = "stop the other gateway, or set another nfs.name in braid.toml";
    (error.status() == Status::Busy)
        .then(|| Fault::failed("starting the NFS gateway", error.to_string()).hint(hint))
}

fn not_started(why: &StartError) -> Fault {
    let kind = match why {
        StartError::Listen { error, .. } => error.kind(),
        _ => ErrorKind::InvalidInput,
    };
    Fault::failed("starting the NFS gateway", why.to_string()).hint(listen_hint(kind))
}

/// What to try when an address cannot be listened on.
pub fn listen_hint(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AddrNotAvailable => "--listen with an address of this host, or 0.0.0.0 for all",
        ErrorKind::PermissionDenied => "--listen with a port above 1023, or as root",
        _ => "another port with --listen, or stop the process on this port",
    }
}

/// Options with which a client mounts an export, beside those that every mount has.
fn mount_options(export: &ExportConfig) -> String {
    let mut options = String::new();
    if let Some(flavour) = export.security.first().filter(|flavour| **flavour != Security::Sys) {
        options.push_str(&format!(",sec={}", flavour.keyword()));
    }
    let modes = &export.transports;
    if let Some(mode) = modes.iter().min().filter(|mode| **mode != Transport::Plain) {
        options.push_str(&format!(",xprtsec={}", mode.keyword()));
    }
    options
}

/// Whether an exported directory does not exist. The gateway runs all the same, since it can be
/// made later.
pub fn is_missing(client: &Client, path: &str) -> bool {
    client.stat(path).is_err_and(|error| error.status() == Status::NotFound)
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
    server.leave_all_clients().await;
}

/// The addresses for a gateway to listen on.
pub fn addresses(listen: &[String], default: &str) -> Result<Vec<SocketAddr>, Fault> {
    let texts = match listen {
        [] => vec![default.to_owned()],
        given => given.to_vec(),
    };
    let mut found = Vec::new();
    for text in texts {
        let resolved = text.to_socket_addrs().map(|mut all| all.next());
        match resolved {
            Ok(Some(address)) => found.push(address),
            _ => {
                return Err(Fault::usage(
                    format!("listening on {text}"),
                    "it is no address of this host with a port",
                )
                .hint(format!("--listen {default}")));
            }
        }
    }
    Ok(found)
}

/// The host part of an address, at which the I/O daemons of an embedded cluster serve NFS clients.
pub fn data_server_host(listen: &str) -> Result<String, Fault> {
    let wrong = |why: &str| {
        Fault::usage(format!("reading --nfs {listen}"), why).hint("--nfs 127.0.0.1:2049")
    };
    let (host, _) = listen.rsplit_once(':').ok_or_else(|| wrong("it is not HOST:PORT"))?;
    match host {
        "0.0.0.0" | "[::]" => {
            Err(wrong("clients need an address at which they reach the I/O daemons"))
        }
        host => Ok(host.to_owned()),
    }
}

/// The whole file system, for this host only.
pub fn own_host_export() -> NfsExport {
    NfsExport {
        path: "/".into(),
        clients: vec!["127.0.0.0/8".into(), "::1".into()],
        security: vec!["sys".into()],
        ..NfsExport::default()
    }
}

/// An export of the configuration.
fn export(from: &NfsExport) -> Result<ExportConfig, Fault> {
    let wrong = |why: braid_nfs::config::ConfigError| {
        Fault::usage(format!("reading the export {}", from.path), why.to_string())
    };
    let mut export = ExportConfig::new(from.path.clone());
    export.clients = from
        .clients
        .iter()
        .map(|range| range.parse::<AddressRange>())
        .collect::<Result<_, _>>()
        .map_err(wrong)?;
    export.security = from
        .security
        .iter()
        .map(|flavour| flavour.parse::<Security>())
        .collect::<Result<_, _>>()
        .map_err(wrong)?;
    if let Some(squash) = &from.squash {
        export.squash = squash.parse::<Squash>().map_err(wrong)?;
    }
    export.read_only = from.read_only;
    export.anonymous_uid = from.anonymous_uid.unwrap_or(export.anonymous_uid);
    export.anonymous_gid = from.anonymous_gid.unwrap_or(export.anonymous_gid);
    export.transports = from
        .xprtsec
        .iter()
        .map(|mode| mode.parse::<Transport>())
        .collect::<Result<_, _>>()
        .map_err(wrong)?;
    export.pnfs = from.pnfs.unwrap_or(true);
    export.pnfs_plain = from.pnfs == Some(true);
    export.pnfs_threshold = from.pnfs_threshold.unwrap_or(export.pnfs_threshold);
    Ok(export)
}

/// Reads several `--export`.
pub fn parse_exports(texts: &[String]) -> Result<Vec<NfsExport>, Fault> {
    texts.iter().map(|text| parse_export(text)).collect()
}

/// Reads `--export PATH=ADDRESSES[:ADDRESSES...][,OPTION...]`.
fn parse_export(text: &str) -> Result<NfsExport, Fault> {
    let wrong = |why: String| {
        Fault::new(Exit::Usage, format!("reading --export {text}"), why)
            .hint("--export '/=10.0.0.0/24,sec=sys'")
    };
    let (path, rest) =
        text.split_once('=').ok_or_else(|| wrong("it names no addresses".to_owned()))?;
    let mut options = rest.split(',');
    let clients = options.next().unwrap_or_default();
    let mut export = NfsExport { path: path.to_owned(), ..NfsExport::default() };
    // A colon separates addresses, except within an IPv6 address.
    export.clients = match clients.parse::<AddressRange>() {
        Ok(_) => vec![clients.to_owned()],
        Err(_) => clients.split(':').map(str::to_owned).collect(),
    };
    for option in options {
        let number = |value: &str| {
            value.parse::<u32>().map_err(|_| wrong(format!("{value:?} is no user or group number")))
        };
        match option.split_once('=').unwrap_or((option, "")) {
            ("sec", flavours) => {
                export.security = flavours.split(':').map(str::to_owned).collect();
            }
            ("ro", "") => export.read_only = true,
            ("xprtsec", modes) => export.xprtsec = modes.split(':').map(str::to_owned).collect(),
            ("pnfs", "") => export.pnfs = Some(true),
            ("nopnfs", "") => export.pnfs = Some(false),
            ("pnfsmin", bytes) => {
                let bytes = bytes.parse::<u64>();
                let bytes = bytes.map_err(|_| wrong("pnfsmin is a number of bytes".to_owned()))?;
                export.pnfs_threshold = Some(bytes);
            }
            ("squash", which) => export.squash = Some(which.to_owned()),
            ("anonuid", value) => export.anonymous_uid = Some(number(value)?),
            ("anongid", value) => export.anonymous_gid = Some(number(value)?),
            _ => return Err(wrong(format!("unknown option {option:?}"))),
        }
    }
    Ok(export)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_is_read_with_its_options() {
        let read = parse_export("/a=10.0.0.0/8:192.168.1.2,sec=krb5p:sys,ro,squash=none,anonuid=7");
        let read = export(&read.unwrap()).unwrap();
        assert_eq!((read.path.as_str(), read.clients.len()), ("/a", 2));
        assert_eq!(read.security, [Security::Krb5p, Security::Sys]);
        assert!(read.read_only && read.squash == Squash::None && read.pnfs);
        assert_eq!(read.anonymous_uid, 7);
        let six = export(&parse_export("/=fd00::/8,sec=sys,nopnfs").unwrap()).unwrap();
        assert!(six.clients.len() == 1 && !six.pnfs);
        let all = export(&parse_export("/=*,sec=sys,pnfsmin=0").unwrap()).unwrap();
        assert_eq!((read.pnfs_threshold, all.pnfs_threshold), (65_536, 0));
        assert!(parse_export("/=*,sec=sys,pnfsmin=1M").is_err());
        let tls = export(&parse_export("/=*,sec=sys,xprtsec=mtls:tls,pnfs").unwrap()).unwrap();
        assert_eq!(tls.transports, [Transport::MutualTls, Transport::Tls]);
        assert!(tls.pnfs_plain && !read.pnfs_plain, "plain data only where it is written");
        assert_eq!(mount_options(&tls), ",xprtsec=tls");
        assert_eq!(mount_options(&read), ",sec=krb5p");
    }

    #[test]
    fn an_address_that_cannot_be_used_gets_its_own_advice() {
        let address = "192.0.2.1:2049".parse().unwrap();
        let said = |kind: ErrorKind| {
            not_started(&StartError::Listen { address, error: kind.into() }).to_string()
        };
        assert!(said(ErrorKind::AddrNotAvailable).contains("an address of this host"));
        assert!(said(ErrorKind::PermissionDenied).contains("above 1023"));
        assert!(said(ErrorKind::AddrInUse).contains("another port"));
    }

    #[test]
    fn a_wrong_export_is_refused_with_what_is_wrong() {
        for (text, why) in [
            ("/a", "no addresses"),
            ("/a=*,sec=sys,rw", "unknown option"),
            ("/a=*,sec=sys,anonuid=me", "no user"),
            ("/a=10.0.0.0/99,sec=sys", "no address range"),
            ("/a=*,sec=none", "unknown security flavour"),
            ("/a=*,sec=sys,squash=some", "unknown squash mode"),
            ("/a=*,sec=sys,xprtsec=always", "unknown xprtsec mode"),
        ] {
            let fault = parse_export(text).and_then(|read| export(&read).map(drop)).unwrap_err();
            assert!(fault.to_string().contains(why), "{text}: {fault}");
        }
    }
}
