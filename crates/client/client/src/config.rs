//! The address of a cluster and the identity of the program.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use braid_net::TlsPolicy;
use braid_types::{ClusterUuid, KeyId, SessionId, limits::TIMEOUT_SECONDS_DEFAULT};
use braid_wire::{Role, Secret, Ticket};

use crate::{error::Result, keyfile::KeyFile};

/// The address of a cluster and the identity of the program.
///
/// ```
/// use braid_client::{Config, Credential};
/// let agent = Credential::Agent("/run/braid/agent.sock".into());
/// let config = Config::new(["mds.example:7000"], agent);
/// assert_eq!(config.timeout.as_secs(), 30);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses of the metadata server, `host:port`, tried in order. May be empty with
    /// [`Credential::Agent`], since the agent knows them.
    pub mds: Vec<String>,
    /// The identity of the program.
    pub credential: Credential,
    /// When connections are encrypted.
    pub tls: TlsPolicy,
    /// The longest time of a call when a server is gone (I8).
    pub timeout: Duration,
    /// The name of this client in `braid status`.
    pub client_name: String,
    /// The expected cluster; `None` accepts the cluster that knows the key.
    pub cluster: Option<ClusterUuid>,
    /// What a gateway keeps with the session, for its next start; `None` for everything else.
    pub gateway: Option<GatewaySession>,
    /// Memory for bytes of files that are open for reading only, which answers small reads; 0 for
    /// none, the default. It is used while no other client writes the file, so a read sees the same
    /// bytes as without it. A client with a read cache cannot hold other leases.
    pub read_cache_bytes: u64,
}

/// The session of a gateway, or of one of its clients. ADR 0040.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewaySession {
    /// The name of the gateway, the same after a restart. Two gateways that are connected at the
    /// same time have different names.
    pub gateway: String,
    /// What the next start needs to know of the client, at most 4096 bytes; empty for the session
    /// of the gateway itself.
    pub record: Vec<u8>,
    /// The session of the earlier start that is continued, if it is no new one.
    pub adopted: Option<AdoptedSession>,
}

/// A session that an earlier start of the gateway began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdoptedSession {
    /// The session.
    pub session: SessionId,
    /// The session of the gateway itself that continues it.
    pub holder: SessionId,
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
            gateway: None,
            read_cache_bytes: 0,
        }
    }
}

/// `program[pid]`, so that a line of `braid status` can be found with `ps`.
fn default_name() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    let name = program
        .as_deref()
        .and_then(|path| path.file_name())
        .map(|name| name.to_string_lossy().into_owned());
    format!("{}[{}]", name.as_deref().unwrap_or("braid"), std::process::id())
}

/// The identity of a program, and the key that proves it.
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
    /// A program of an ordinary user. The host's agent, at this Unix socket, confirms its identity.
    Agent(PathBuf),
    /// A ticket that an agent issued before.
    Ticket {
        /// The ticket.
        ticket: Ticket,
        /// Its key.
        secret: Secret,
    },
    /// Any other source of a proof, called for every new session.
    Source(SharedCredentialSource),
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

/// What a connection to the metadata server must prove.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The requested role.
    pub role: Role,
    /// The key to prove.
    pub credential: braid_wire::Credential,
    /// The secret of that key.
    pub secret: Secret,
    /// Addresses of the metadata server, if the source knows better ones; otherwise empty.
    pub mds: Vec<String>,
    /// The cluster, if the source knows it.
    pub cluster: Option<ClusterUuid>,
}

/// Supplies the identity of the program, each time a session is opened.
pub trait CredentialSource: Send + Sync {
    /// The proof for a new connection to the metadata server.
    ///
    /// # Errors
    /// The reason why there is none.
    fn proof(&self) -> Result<Proof>;
}

/// A [`CredentialSource`] that can be cloned and printed.
#[derive(Clone)]
pub struct SharedCredentialSource(pub Arc<dyn CredentialSource>);

impl fmt::Debug for SharedCredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source(..)")
    }
}

impl CredentialSource for Credential {
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
