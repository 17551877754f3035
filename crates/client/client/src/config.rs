//! How a program reaches a cluster and who it is.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use braid_net::TlsPolicy;
use braid_types::{ClusterUuid, KeyId, limits::TIMEOUT_SECONDS_DEFAULT};
use braid_wire::{Role, Secret, Ticket};

use crate::{error::Result, keyfile::KeyFile};

/// How a program reaches a cluster and who it is.
///
/// ```
/// use braid_client::{Config, Credential};
/// let config = Config::new(["mds.example:7000"], Credential::Agent("/run/braid/agent.sock".into()));
/// assert_eq!(config.timeout.as_secs(), 30);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses of the metadata server, `host:port`, tried in order. May be empty with
    /// [`Credential::Agent`]: the agent knows them.
    pub mds: Vec<String>,
    /// Who the program is.
    pub credential: Credential,
    /// When connections are encrypted.
    pub tls: TlsPolicy,
    /// How long one call may take when a server is gone (I8).
    pub timeout: Duration,
    /// What the server shows for this client, for `braid status`.
    pub client_name: String,
    /// The cluster that is expected; `None` accepts the one that knows the key.
    pub cluster: Option<ClusterUuid>,
}

impl Config {
    /// A configuration with the defaults for everything else.
    pub fn new<A: Into<String>>(mds: impl IntoIterator<Item = A>, credential: Credential) -> Self {
        Self {
            mds: mds.into_iter().map(Into::into).collect(),
            credential,
            tls: TlsPolicy::default(),
            timeout: Duration::from_secs(TIMEOUT_SECONDS_DEFAULT),
            client_name: default_name(),
            cluster: None,
        }
    }
}

/// `program[pid]`, so that a row of `braid status` can be found with `ps`.
fn default_name() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    let name = program
        .as_deref()
        .and_then(|path| path.file_name())
        .map(|name| name.to_string_lossy().into_owned());
    format!("{}[{}]", name.as_deref().unwrap_or("braid"), std::process::id())
}

/// Who a program is, and the key that proves it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Credential {
    /// The holder of a client key.
    Key {
        /// Which key.
        id: KeyId,
        /// The key.
        secret: Secret,
    },
    /// The holder of the server key: an administrator on a server's own host.
    ServerKey(Secret),
    /// A client key that may act as administrator (`braid key add --admin`).
    AdminKey {
        /// Which key.
        id: KeyId,
        /// The key.
        secret: Secret,
    },
    /// A program of an ordinary user: the host's agent, at this Unix socket, says who it is.
    Agent(PathBuf),
    /// A ticket that an agent gave before.
    Ticket {
        /// The ticket.
        ticket: Ticket,
        /// Its key.
        secret: Secret,
    },
    /// Something else that vouches, asked at every new session.
    Source(SourceBox),
}

impl Credential {
    /// The credential in a key file.
    ///
    /// # Errors
    /// As [`KeyFile::load`].
    pub fn from_key_file(path: impl AsRef<std::path::Path>) -> Result<Self> {
        KeyFile::load(path.as_ref()).map(KeyFile::into_credential)
    }
}

/// What a connection to the metadata server is to prove.
#[derive(Clone, Debug)]
pub struct Proof {
    /// What the caller wants to be.
    pub role: Role,
    /// Which key it proves.
    pub credential: braid_wire::Credential,
    /// That key.
    pub secret: Secret,
    /// Addresses of the metadata server, when the source knows them better; else empty.
    pub mds: Vec<String>,
    /// The cluster, when the source knows it.
    pub cluster: Option<ClusterUuid>,
}

/// Says who the program is, each time a session is made.
pub trait Source: Send + Sync {
    /// The proof for a new connection to the metadata server.
    ///
    /// # Errors
    /// Whatever keeps it from being had.
    fn proof(&self) -> Result<Proof>;
}

/// A [`Source`] that can be cloned and printed.
#[derive(Clone)]
pub struct SourceBox(pub Arc<dyn Source>);

impl fmt::Debug for SourceBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source(..)")
    }
}

impl Source for Credential {
    fn proof(&self) -> Result<Proof> {
        let proof = |role, credential, secret: &Secret| {
            Ok(Proof { role, credential, secret: secret.clone(), mds: Vec::new(), cluster: None })
        };
        match self {
            Self::Key { id, secret } => {
                proof(Role::Client, braid_wire::Credential::Client(*id), secret)
            }
            Self::AdminKey { id, secret } => {
                proof(Role::Admin, braid_wire::Credential::Client(*id), secret)
            }
            Self::ServerKey(secret) => proof(Role::Admin, braid_wire::Credential::Server, secret),
            Self::Ticket { ticket, secret } => {
                proof(Role::Client, braid_wire::Credential::Ticket(ticket.clone()), secret)
            }
            Self::Agent(path) => crate::agent::ask(path),
            Self::Source(source) => source.0.proof(),
        }
    }
}
