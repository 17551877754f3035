//! The agent's server: a socket to which every user of the host may connect.

use std::{
    fs, io,
    io::Write,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use braid_net::random_bytes;
use braid_types::{ClusterUuid, Failure, Status};
use braid_wire::{
    Secret, Ticket,
    message::{mds::AgentCheckReply, types::Identity},
};

use super::{peer, protocol};
use crate::{
    blocking::Client,
    config::{Config, Credential},
    error::{Error, Result},
};

/// Programs that are served at the same time; others must try again (I9).
const PROGRAMS_MAX: usize = 64;
/// How long the agent waits for the metadata server, so that programs get an error in time.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a program may take to receive its reply.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks that the agent's session is valid.
type Check = Box<dyn Fn() -> Result<AgentCheckReply> + Send + Sync>;

/// An agent that listens.
pub struct Agent {
    listener: UnixListener,
    socket: PathBuf,
    issuer: Arc<TicketIssuer>,
    stopping: Arc<AtomicBool>,
}

struct TicketIssuer {
    secret: Secret,
    mds: Vec<String>,
    cluster: Option<ClusterUuid>,
    check: Check,
    busy: AtomicUsize,
}

/// Ends an agent from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    socket: PathBuf,
    stopping: Arc<AtomicBool>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").field("socket", &self.socket).finish_non_exhaustive()
    }
}

/// Runs an agent until the process ends. See [`Agent::bind`].
///
/// # Errors
/// As [`Agent::bind`] and [`Agent::run`].
pub fn serve(socket: &Path, config: Config) -> Result<()> {
    Agent::bind(socket, config)?.run()
}

impl Agent {
    /// Connects to the cluster with the host's client key and listens at `socket`, which is open to
    /// every user.
    ///
    /// # Errors
    /// The credential is no client key; the cluster refuses it; an agent listens there already.
    pub fn bind(socket: &Path, config: Config) -> Result<Self> {
        let named = |error: Error| error.during("start the agent at", socket.display());
        let Credential::Key { secret, .. } = &config.credential else {
            let error = Error::new(Status::Invalid, "an agent needs a client key of its own");
            return Err(named(error.with_hint("braid key add NAME, then braid agent --key FILE")));
        };
        let (secret, mds, cluster) = (secret.clone(), config.mds.clone(), config.cluster);
        let client =
            Client::connect(Config { timeout: config.timeout.min(CHECK_TIMEOUT), ..config })
                .map_err(named)?;
        let check = Box::new(move || client.agent_check());
        Self::with_check(socket, secret, mds, cluster, check).map_err(named)
    }

    fn with_check(
        socket: &Path,
        secret: Secret,
        mds: Vec<String>,
        cluster: Option<ClusterUuid>,
        check: Check,
    ) -> Result<Self> {
        let listener = listen(socket).map_err(|error| {
            let status = if error.kind() == io::ErrorKind::AddrInUse {
                Status::Busy
            } else {
                Status::DiskError
            };
            Error::new(status, error.to_string())
                .with_hint("another --socket, in a directory that exists")
        })?;
        let issuer =
            Arc::new(TicketIssuer { secret, mds, cluster, check, busy: AtomicUsize::new(0) });
        Ok(Self { listener, socket: socket.to_owned(), issuer, stopping: Arc::default() })
    }

    /// A handle that ends [`Agent::run`].
    pub fn stopper(&self) -> Stopper {
        Stopper { socket: self.socket.clone(), stopping: Arc::clone(&self.stopping) }
    }

    /// Serves programs until it is stopped.
    ///
    /// # Errors
    /// The socket fails.
    pub fn run(&self) -> Result<()> {
        for stream in self.listener.incoming() {
            if self.stopping.load(Ordering::Acquire) {
                break;
            }
            match stream {
                Ok(stream) => self.answer(stream),
                // The program disconnected, or descriptors are temporarily exhausted: other
                // programs are still served.
                Err(error) if is_passing(&error) => thread::sleep(Duration::from_millis(10)),
                Err(error) => {
                    return Err(Error::new(Status::DiskError, error.to_string())
                        .during("accept at", self.socket.display()));
                }
            }
        }
        Ok(())
    }

    fn answer(&self, stream: UnixStream) {
        let issuer = Arc::clone(&self.issuer);
        if issuer.busy.fetch_add(1, Ordering::AcqRel) >= PROGRAMS_MAX {
            send(stream, &Err(Failure::new(Status::TryAgain, "the agent is busy")));
            issuer.busy.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let work = move || {
            let outcome = issuer.outcome(&stream);
            send(stream, &outcome);
            issuer.busy.fetch_sub(1, Ordering::AcqRel);
        };
        // Without a thread, the connection ends, and the program reports that no agent answers.
        if thread::Builder::new().name("braid-agent".into()).spawn(work).is_err() {
            self.issuer.busy.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = fs::remove_file(&self.socket);
    }
}

impl Stopper {
    /// Ends the agent. Replies in progress are completed.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the thread in `accept`.
        let _ = UnixStream::connect(&self.socket);
    }
}

impl TicketIssuer {
    fn outcome(&self, stream: &UnixStream) -> Result<protocol::TicketReply, Failure> {
        let identity = peer::identity(stream).map_err(|error| {
            Failure::new(Status::Internal, format!("the kernel does not report the user: {error}"))
        })?;
        let check = (self.check)().map_err(|error| Failure::new(error.status(), error.why()))?;
        let ticket = ticket(identity, &check, random_bytes());
        let secret = ticket.secret(&self.secret).to_bytes();
        Ok(((ticket, secret), (self.mds.clone(), self.cluster)))
    }
}

fn ticket(identity: Identity, check: &AgentCheckReply, nonce: [u8; 16]) -> Ticket {
    let Identity { uid, gid, groups, .. } = identity;
    Ticket {
        key: check.key,
        agent_session: check.session,
        epoch: check.epoch,
        uid,
        gid,
        groups,
        nonce,
    }
}

fn send(mut stream: UnixStream, outcome: &Result<protocol::TicketReply, Failure>) {
    // A program that has disconnected needs no reply.
    let _ = stream
        .set_write_timeout(Some(WRITE_TIMEOUT))
        .and_then(|()| stream.write_all(&protocol::message(outcome)));
}

/// Replaces a socket that nobody listens at any more.
fn listen(socket: &Path) -> io::Result<UnixListener> {
    if fs::symlink_metadata(socket).is_ok() {
        if UnixStream::connect(socket).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "an agent listens there already"));
        }
        fs::remove_file(socket)?;
    }
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, Interrupted};
    // EMFILE and ENFILE have no `ErrorKind`.
    matches!(error.kind(), ConnectionAborted | Interrupted)
        || matches!(error.raw_os_error(), Some(23 | 24))
}

#[cfg(test)]
mod tests;
