//! Configuration of the server: shares, users and limits. Everything is checked when the server
//! starts.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::gateways::{self, GATEWAYS_MAX};
use crate::users::Users;

/// Most shares.
pub const SHARES_MAX: usize = 1024;
/// Longest name of a share in UTF-16 units: that of Windows (MS-SRVS 2.2.4.23).
pub const SHARE_NAME_UNITS_MAX: usize = 80;
/// Longest path of a share.
pub const SHARE_PATH_BYTES_MAX: usize = 1024;
/// Longest name of a server: that of NetBIOS, for clients that still use it.
pub const SERVER_NAME_BYTES_MAX: usize = 15;

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct SmbConfig {
    /// The name that the server calls itself.
    pub server_name: String,
    /// The workgroup or domain.
    pub workgroup: String,
    /// What is shared. Nothing by default.
    pub shares: Vec<ShareConfig>,
    /// The gateways that serve the same shares, this one among them, as clients name them: `HOST`
    /// or `HOST:PORT`. The port is for the gateways, which probe each other; clients know only 445.
    /// With a list, the shares are in DFS. None by default.
    pub gateways: Vec<String>,
    /// The users that may log on.
    pub users: Arc<dyn Users>,
    /// Whether clients must sign.
    pub require_signing: bool,
    /// Whether clients may cache: leases and oplocks.
    pub leases: bool,
    /// Limits of clients and connections.
    pub limits: Limits,
}

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most connections.
    pub connections: usize,
    /// Most connections from one address.
    pub connections_per_address: usize,
    /// Most sessions of a connection.
    pub sessions_per_connection: usize,
    /// Most trees of a session.
    pub trees_per_session: usize,
    /// Most opens of a session.
    pub opens_per_session: usize,
    /// Most opens whose client is disconnected, and most sessions of the metadata server that they
    /// keep.
    pub durable: (usize, usize),
    /// The same of one user.
    pub durable_of_user: (usize, usize),
    /// Time from the end of a probe of another gateway to the next one.
    pub probe_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8192,
            connections_per_address: 1024,
            sessions_per_connection: 64,
            trees_per_session: 256,
            opens_per_session: 65_536,
            durable: (16_384, 1024),
            durable_of_user: (4096, 256),
            probe_interval: Duration::from_secs(5),
        }
    }
}

/// One share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareConfig {
    /// Its name. Names are equal without regard to case.
    pub name: String,
    /// Absolute path of a directory of the file system.
    pub path: String,
    /// A remark that clients show.
    pub comment: String,
    /// The users that may use it; all that can log on if it is empty. `@group` is a group of the
    /// host.
    pub users: Vec<String>,
    /// Whether nothing may be changed through it.
    pub read_only: bool,
    /// Whether users without a password may use it, as the anonymous user.
    pub guests: bool,
    /// Whether it is left out of lists of shares.
    pub hidden: bool,
    /// Whether requests for it must be encrypted.
    pub encrypt: bool,
}

impl ShareConfig {
    /// A share of `path` to all users.
    pub fn new(name: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            comment: String::new(),
            users: Vec::new(),
            read_only: false,
            guests: false,
            hidden: false,
            encrypt: false,
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let name = || self.name.clone();
        // The characters that MS-FSCC 2.1.6 excludes from names of shares.
        let is_bad = |char: char| char < ' ' || "\"\\/[]:|<>+=;,*?".contains(char);
        let units = self.name.encode_utf16().count();
        if units == 0 || units > SHARE_NAME_UNITS_MAX || self.name.contains(is_bad) {
            return Err(ConfigError::Name(name()));
        }
        if same_name(&self.name, "IPC$") {
            return Err(ConfigError::Reserved(name()));
        }
        let normal = self.path == "/"
            || self.path.strip_prefix('/').is_some_and(|rest| {
                rest.split('/').all(|name| !matches!(name, "" | "." | "..") && name.len() <= 255)
            });
        if !normal || self.path.len() > SHARE_PATH_BYTES_MAX || self.path.contains('\0') {
            return Err(ConfigError::Path(self.path.clone()));
        }
        Ok(())
    }
}

/// Whether two names of shares are the same.
pub fn same_name(one: &str, other: &str) -> bool {
    let upper = |name: &str| name.chars().flat_map(char::to_uppercase).collect::<String>();
    one.eq_ignore_ascii_case(other) || upper(one) == upper(other)
}

impl SmbConfig {
    /// A configuration with the defaults and no share.
    pub fn new(server_name: impl Into<String>, users: Arc<dyn Users>) -> Self {
        Self {
            server_name: server_name.into(),
            workgroup: "WORKGROUP".to_owned(),
            shares: Vec::new(),
            gateways: Vec::new(),
            users,
            require_signing: false,
            leases: true,
            limits: Limits::default(),
        }
    }

    /// Checks everything that does not need the file system.
    ///
    /// # Errors
    /// [`ConfigError`] with the first mistake.
    pub fn check(&self) -> Result<(), ConfigError> {
        let is_label = |name: &str| {
            !name.is_empty()
                && name.len() <= SERVER_NAME_BYTES_MAX
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        for name in [&self.server_name, &self.workgroup] {
            if !is_label(name) {
                return Err(ConfigError::ServerName(name.clone()));
            }
        }
        if self.shares.len() > SHARES_MAX {
            return Err(ConfigError::TooManyShares);
        }
        for (index, share) in self.shares.iter().enumerate() {
            share.check()?;
            if self.shares[..index].iter().any(|other| same_name(&other.name, &share.name)) {
                return Err(ConfigError::SameName(share.name.clone()));
            }
        }
        self.check_gateways()
    }

    fn check_gateways(&self) -> Result<(), ConfigError> {
        if self.gateways.len() > GATEWAYS_MAX {
            return Err(ConfigError::TooManyGateways);
        }
        let mut names: Vec<&str> = Vec::new();
        for entry in &self.gateways {
            let (name, _) =
                gateways::parse(entry).ok_or_else(|| ConfigError::Gateway(entry.clone()))?;
            if names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                return Err(ConfigError::SameGateway(name.to_owned()));
            }
            names.push(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::tests::Nobody;

    #[test]
    fn gateways_are_checked() {
        let check = |gateways: &[&str]| {
            let gateways = gateways.iter().map(|entry| (*entry).to_owned()).collect();
            SmbConfig { gateways, ..SmbConfig::new("s", Arc::new(Nobody)) }.check()
        };
        assert_eq!(check(&["gw1.example.org", "gw2", "10.0.0.3:4450"]), Ok(()));
        assert_eq!(check(&["gw1", "a b"]), Err(ConfigError::Gateway("a b".to_owned())));
        assert_eq!(check(&["gw1", "GW1:1"]), Err(ConfigError::SameGateway("GW1".to_owned())));
        let many: Vec<_> = (0..=GATEWAYS_MAX).map(|number| format!("gw{number}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(check(&many[1..]), Ok(()));
        assert_eq!(check(&many), Err(ConfigError::TooManyGateways));
    }
}

/// A mistake in the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The name of the server or workgroup.
    #[error("{0:?} is no name: 1 to {SERVER_NAME_BYTES_MAX} letters, digits and hyphens")]
    ServerName(String),
    /// A name of a share.
    #[error(
        "{0:?} is no name of a share: 1 to {SHARE_NAME_UNITS_MAX} characters without \
         \"\\/[]:|<>+=;,*?"
    )]
    Name(String),
    /// A name that the protocol uses itself.
    #[error("{0} is not free for a share")]
    Reserved(String),
    /// Two shares have one name.
    #[error("two shares are named {0}")]
    SameName(String),
    /// The path of a share.
    #[error("{0:?} is no path of a share: it begins with / and has no empty name, \".\" or \"..\"")]
    Path(String),
    /// A gateway.
    #[error("{0:?} is no gateway: a name of a host or an address of IPv4, with :PORT or without")]
    Gateway(String),
    /// Two gateways have one name. Clients do not know ports.
    #[error("two gateways are named {0}")]
    SameGateway(String),
    /// Too many gateways.
    #[error("over {GATEWAYS_MAX} gateways")]
    TooManyGateways,
    /// Too many shares.
    #[error("over {SHARES_MAX} shares")]
    TooManyShares,
}
