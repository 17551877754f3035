//! Configuration of the server: exports and limits. Everything is checked when the server starts.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::names::UserDatabase;

mod transport;

pub use transport::Transport;

/// Lease time by default. RFC 8881 8.3 leaves it to the server; Linux servers use 90 s. A client
/// renews it three times in this period. A dead client's locks are held for this time where a
/// client of the same gateway wants them, else about [`crate::server::SILENT_LEASES_MAX`] times it.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(60);
/// Whether clients get delegations by default. They save a client that opens a file again the calls
/// to the server; they cost the others a recall when they change it, and up to 20 s where the
/// client does not answer.
pub const DELEGATIONS_DEFAULT: bool = false;
/// Longest and shortest lease time that makes sense: Linux renews every third of it.
pub const LEASE_RANGE: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(3)..=Duration::from_secs(3600);
/// Most exports. Each request may compare a file with the roots of all of them.
pub const EXPORTS_MAX: usize = 1024;
/// Most address ranges of an export; each request may compare with all of them.
pub const RANGES_MAX: usize = 256;
/// Longest path of an export.
pub const EXPORT_PATH_BYTES_MAX: usize = 1024;
/// Longest domain of names: that of DNS (RFC 1035 2.3.4).
pub const DOMAIN_BYTES_MAX: usize = 253;
/// User and group of squashed callers by default, as in exports(5).
pub const ANONYMOUS_ID: u32 = 65534;
/// Most connections by default: a client has one, or with `nconnect` up to 16.
pub const CONNECTIONS_MAX_DEFAULT: usize = 8192;
/// Most connections from one address by default. Hosts behind one NAT share an address.
pub const CONNECTIONS_PER_ADDRESS_MAX_DEFAULT: usize = 1024;

/// Files that are smaller are read and written through the gateway by default. A layout costs a
/// round trip to the gateway and a call of the metadata server, and one to write also waits for its
/// disk. The gateway sends 64 KiB on in less time (50 us at 10 Gbit/s).
pub const PNFS_THRESHOLD_DEFAULT: u64 = 64 << 10;

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct NfsConfig {
    /// What is exported. Nothing by default.
    pub exports: Vec<ExportConfig>,
    /// Identifies this server among all of the file system, `so_major_id`: clients use several
    /// addresses of one server together only if it is equal (RFC 8881 2.10.5). Usually the host's
    /// name and the port.
    pub server_owner: String,
    /// Secret for file handles; the same at all gateways of a file system, and after restarts.
    pub handle_key: [u8; 32],
    /// Lease time, in [`LEASE_RANGE`].
    pub lease: Duration,
    /// Whether clients get delegations.
    pub delegations: bool,
    /// The domain of names of users and groups, such as `example.org`. Clients get numbers without
    /// one.
    pub domain: Option<String>,
    /// The database of these names; without one only numbers and `root` are known.
    pub users: Option<Arc<dyn UserDatabase>>,
    /// Limits of clients and connections.
    pub limits: Limits,
}

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most confirmed clients.
    pub clients: usize,
    /// Most connections.
    pub connections: usize,
    /// Most connections from one address.
    pub connections_per_address: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: crate::state::clients::CLIENTS_MAX,
            connections: CONNECTIONS_MAX_DEFAULT,
            connections_per_address: CONNECTIONS_PER_ADDRESS_MAX_DEFAULT,
        }
    }
}

impl NfsConfig {
    /// A configuration with the defaults. Without exports, clients see an empty directory.
    pub fn new(server_owner: impl Into<String>, handle_key: [u8; 32]) -> Self {
        Self {
            exports: Vec::new(),
            server_owner: server_owner.into(),
            handle_key,
            lease: LEASE_DEFAULT,
            delegations: DELEGATIONS_DEFAULT,
            domain: None,
            users: None,
            limits: Limits::default(),
        }
    }

    /// Checks everything that does not need the file system.
    ///
    /// # Errors
    /// [`ConfigError`] with the first mistake.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !LEASE_RANGE.contains(&self.lease) {
            return Err(ConfigError::Lease(self.lease));
        }
        if self.server_owner.is_empty() || self.server_owner.len() > 1024 {
            return Err(ConfigError::ServerOwner);
        }
        if let Some(domain) = &self.domain
            && !is_domain(domain)
        {
            return Err(ConfigError::Domain(domain.clone()));
        }
        if self.exports.len() > EXPORTS_MAX {
            return Err(ConfigError::TooManyExports);
        }
        for (index, export) in self.exports.iter().enumerate() {
            export.check()?;
            if self.exports[..index].iter().any(|other| other.path == export.path) {
                return Err(ConfigError::SamePath(export.path.clone()));
            }
        }
        Ok(())
    }
}

/// Whether a text may follow `@` in a name: that of a DNS domain (RFC 8881 5.9).
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    text.len() <= DOMAIN_BYTES_MAX && text.split('.').all(is_label)
}

/// One export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportConfig {
    /// Absolute path of a directory, in the file system and for clients.
    pub path: String,
    /// Addresses that may use it.
    pub clients: Vec<AddressRange>,
    /// Whether nothing may be changed through it.
    pub read_only: bool,
    /// Which callers act as the anonymous user.
    pub squash: Squash,
    /// User of squashed callers.
    pub anonymous_uid: u32,
    /// Group of squashed callers.
    pub anonymous_gid: u32,
    /// Security flavours that callers may use, best first.
    pub security: Vec<Security>,
    /// Transport layer security that clients may use; everything if it is empty.
    pub transports: Vec<Transport>,
    /// Whether clients get layouts.
    pub pnfs: bool,
    /// Clients are advised to read and write files of fewer bytes through the gateway; 0 for none.
    pub pnfs_threshold: u64,
    /// Whether clients get layouts too whose calls are protected by Kerberos or TLS. The data
    /// servers have neither, so these clients' data is then plain (ADR 0042).
    pub pnfs_plain: bool,
}

impl ExportConfig {
    /// An export of `path` to nobody, with root squashed and no security flavour.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            clients: Vec::new(),
            read_only: false,
            squash: Squash::Root,
            anonymous_uid: ANONYMOUS_ID,
            anonymous_gid: ANONYMOUS_ID,
            security: Vec::new(),
            transports: Vec::new(),
            pnfs: false,
            pnfs_threshold: PNFS_THRESHOLD_DEFAULT,
            pnfs_plain: false,
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let path = self.path.clone();
        let normal = self.path == "/"
            || self.path.strip_prefix('/').is_some_and(|rest| {
                rest.split('/').all(|name| !matches!(name, "" | "." | "..") && name.len() <= 255)
            });
        if !normal || self.path.len() > EXPORT_PATH_BYTES_MAX || self.path.contains('\0') {
            return Err(ConfigError::Path(path));
        }
        if self.clients.is_empty() {
            return Err(ConfigError::NoClients(path));
        }
        if self.clients.len() > RANGES_MAX {
            return Err(ConfigError::TooManyRanges(path));
        }
        if self.security.is_empty() {
            return Err(ConfigError::NoSecurity(path));
        }
        Ok(())
    }
}

/// Which callers act as the anonymous user. exports(5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Squash {
    /// `root_squash`: user 0 and group 0.
    Root,
    /// `all_squash`: all callers.
    All,
    /// `no_root_squash`.
    None,
}

/// A security flavour. RFC 8881 2.2.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Security {
    /// AUTH_SYS: the server trusts the client.
    Sys,
    /// RPCSEC_GSS with Kerberos: the header is protected.
    Krb5,
    /// With integrity.
    Krb5i,
    /// With privacy.
    Krb5p,
}

impl Security {
    /// The word of exports(5).
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Sys => "sys",
            Self::Krb5 => "krb5",
            Self::Krb5i => "krb5i",
            Self::Krb5p => "krb5p",
        }
    }
}

impl FromStr for Security {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Ok(match text {
            "sys" => Self::Sys,
            "krb5" => Self::Krb5,
            "krb5i" => Self::Krb5i,
            "krb5p" => Self::Krb5p,
            _ => return Err(ConfigError::Security(text.into())),
        })
    }
}

impl FromStr for Squash {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        Ok(match text {
            "root" => Self::Root,
            "all" => Self::All,
            "none" => Self::None,
            _ => return Err(ConfigError::Squash(text.into())),
        })
    }
}

/// Addresses with a common prefix, such as `10.1.0.0/16`, `fd00::/8`, or `*` for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressRange {
    /// Every address.
    All,
    /// The addresses whose first `bits` bits are those of `address`.
    Prefix {
        /// Any address of the range.
        address: IpAddr,
        /// Number of common bits.
        bits: u8,
    },
}

impl AddressRange {
    /// Whether the range has this address. An IPv4 address that a dual-stack socket received is
    /// compared as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let Self::Prefix { address: prefix, bits } = *self else { return true };
        match (prefix.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(prefix), IpAddr::V4(address)) => {
                let differ = prefix.to_bits() ^ address.to_bits();
                differ.checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
            }
            (IpAddr::V6(prefix), IpAddr::V6(address)) => {
                let differ = prefix.to_bits() ^ address.to_bits();
                differ.checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for AddressRange {
    type Err = ConfigError;
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if text == "*" {
            return Ok(Self::All);
        }
        let wrong = || ConfigError::Range(text.into());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        // A mapped address is compared as IPv4, so its prefix must be written as IPv4.
        if bits > most || address.to_canonical() != address {
            return Err(wrong());
        }
        Ok(Self::Prefix { address, bits })
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Prefix { address, bits } => write!(f, "{address}/{bits}"),
        }
    }
}

/// A mistake in the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The lease time.
    #[error("lease time of {0:?}: it must be between 3 s and 3600 s")]
    Lease(Duration),
    /// The domain of names.
    #[error("domain {0:?}: it must be a DNS domain such as example.org")]
    Domain(String),
    /// The name of the server.
    #[error("the server owner must have between 1 and 1024 bytes")]
    ServerOwner,
    /// The number of exports.
    #[error("more than {EXPORTS_MAX} exports")]
    TooManyExports,
    /// A path is exported twice.
    #[error("{0} is exported twice")]
    SamePath(String),
    /// The file handles of two exports could not be distinguished.
    #[error("the exports {0} and {1} have the same number: rename one of the two directories")]
    SameNumber(String, String),
    /// A path that is not absolute, or not in its shortest form.
    #[error("export {0:?}: the path must be absolute, without empty names, `.` and `..`")]
    Path(String),
    /// An export without clients.
    #[error("export {0}: no client may use it; name address ranges, or * for all")]
    NoClients(String),
    /// An export with too many address ranges.
    #[error("export {0}: more than {RANGES_MAX} address ranges")]
    TooManyRanges(String),
    /// An export without security flavours.
    #[error("export {0}: no security flavour; name sys, krb5, krb5i or krb5p")]
    NoSecurity(String),
    /// An export for Kerberos at a server without a keytab.
    #[error("export {0}: its security flavours need Kerberos, which is not configured")]
    NoKerberos(String),
    /// An export for TLS at a server without a certificate.
    #[error("export {0}: xprtsec needs TLS, which is not configured")]
    NoTls(String),
    /// An export for clients with a certificate at a server that trusts none.
    #[error("export {0}: xprtsec=mtls needs the certificates of the CAs that clients are from")]
    NoClientAuthority(String),
    /// An unknown mode of transport layer security.
    #[error("unknown xprtsec mode {0:?}: use none, tls or mtls")]
    Transport(String),
    /// An unknown security flavour.
    #[error("unknown security flavour {0:?}: use sys, krb5, krb5i or krb5p")]
    Security(String),
    /// An unknown squash mode.
    #[error("unknown squash mode {0:?}: use root, all or none")]
    Squash(String),
    /// Not an address range.
    #[error("{0:?} is no address range such as 10.1.0.0/16, fd00::/8 or *")]
    Range(String),
}

#[cfg(test)]
mod tests;
