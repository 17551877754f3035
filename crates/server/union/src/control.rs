//! Administration of a pool that is in use: a socket in the metadata directory, which its owner can
//! open. One request and its replies for each connection, each a line of JSON.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    ops::ControlFlow,
    os::{
        fd::AsRawFd,
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use crate::{
    BranchMode, BranchStatus, CheckReport, DuplicateReport, ErrorKind, Label, MoveReport,
    MoveTarget, Placement, Pool, PoolError, QuotaLimits, QuotaOwner, QuotaRow, Union,
    error::During,
};

const SOCKET: &str = "control";
/// No valid request is longer: paths of all branches.
const REQUEST_BYTES_MAX: u64 = 1 << 20;
/// For how long a client may think about its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Clients at the same time.
const CLIENTS_MAX: usize = 16;
/// A client learns of progress this often.
const PROGRESS: Duration = Duration::from_millis(200);

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs)] // see the methods of `Union`
pub enum Request {
    Status,
    Add { disks: Vec<(PathBuf, BranchMode)>, min_free: Option<u64> },
    SetMode { branch: PathBuf, mode: BranchMode },
    SetPlacement { placement: Placement },
    SetLabels { branch: PathBuf, labels: Vec<Label> },
    Drain { branch: PathBuf, to: Option<PathBuf> },
    Remove { branch: PathBuf, with_files: bool },
    Move { path: Vec<u8>, to: MoveTo, unused_for: Option<Duration> },
    Enforce { path: Vec<u8> },
    Check { repair: bool },
    SetQuota { owner: QuotaOwner, limits: QuotaLimits },
    Quotas,
    Deduplicate { path: Vec<u8>, remove: bool },
    Balance { percent: u8 },
}

/// Where files are to be moved to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveTo {
    /// A branch as a user names it: its directory or its number.
    Branch(PathBuf),
    /// Any branch that has the label.
    Label(Label),
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Reply {
    Done,
    Status {
        branches: Vec<BranchStatus>,
        placement: Placement,
        mounted: bool,
    },
    /// Another reply follows.
    Progress(MoveReport),
    Moved(MoveReport),
    Checked(CheckReport),
    Quotas {
        rows: Vec<QuotaRow>,
    },
    Deduplicated(DuplicateReport),
    Failed {
        kind: ErrorKind,
        text: String,
    },
}

impl Union {
    /// Carries out a request. `progress` is called during moves; they end early if it breaks.
    ///
    /// # Errors
    /// Those of the method that the request stands for.
    pub fn carry_out_request(
        &self,
        request: &Request,
        progress: &mut dyn FnMut(&MoveReport) -> ControlFlow<()>,
    ) -> Result<Reply, PoolError> {
        match request {
            Request::Status => Ok(Reply::Status {
                branches: self.branches(),
                placement: self.placement(),
                mounted: true,
            }),
            Request::Add { disks, min_free } => {
                self.add_branches(disks, *min_free).map(|_| Reply::Done)
            }
            Request::SetMode { branch, mode } => {
                self.set_mode(self.branch_number(branch)?, *mode).map(|()| Reply::Done)
            }
            Request::SetPlacement { placement } => {
                self.set_placement(placement.clone()).map(|()| Reply::Done)
            }
            Request::SetLabels { branch, labels } => {
                self.set_labels(self.branch_number(branch)?, labels.clone()).map(|()| Reply::Done)
            }
            Request::Drain { branch, to } => {
                let number = self.usable_branch(branch)?;
                let to = to.as_ref().map(|to| self.usable_branch(to)).transpose()?;
                // New files would never end it.
                self.set_mode(number, BranchMode::Nc)?;
                let report = self.drain(number, to, progress);
                report.map(Reply::Moved).during(|| format!("draining {}", branch.display()))
            }
            Request::Remove { branch, with_files } => {
                let number = match with_files {
                    true => self.branch_number(branch)?,
                    false => self.usable_branch(branch)?,
                };
                self.remove_branch(number, *with_files).map(|()| Reply::Done)
            }
            Request::Move { path, to, unused_for } => {
                let target = match to {
                    MoveTo::Branch(branch) => MoveTarget::Branch(self.usable_branch(branch)?),
                    MoveTo::Label(label) => MoveTarget::Label(self.known_label(label)?),
                };
                let what = || format!("moving {}", String::from_utf8_lossy(path));
                let moved = self.move_files(path, &target, *unused_for, progress);
                moved.map(Reply::Moved).during(what)
            }
            Request::Enforce { path } => {
                let what = || format!("moving files below {}", String::from_utf8_lossy(path));
                self.enforce(path, progress).map(Reply::Moved).during(what)
            }
            Request::SetQuota { owner, limits } => {
                self.set_quota(*owner, *limits).map(|()| Reply::Done)
            }
            Request::Quotas => self
                .quotas()
                .map(|rows| Reply::Quotas { rows })
                .during(|| "counting files".to_owned()),
            Request::Check { repair } => {
                let report = self.check(*repair, progress);
                // The kernel does not know what was repaired.
                self.notices.everything_changed();
                report.map(Reply::Checked).during(|| "comparing the branches".to_owned())
            }
            Request::Deduplicate { path, remove } => {
                let what = || format!("comparing files below {}", String::from_utf8_lossy(path));
                let report = self.deduplicate(path, *remove, progress);
                self.notices.everything_changed();
                report.map(Reply::Deduplicated).during(what)
            }
            Request::Balance { percent } => {
                let report = self.balance(*percent, progress);
                report.map(Reply::Moved).during(|| "balancing".to_owned())
            }
        }
    }
}

/// Serves requests until it is dropped.
#[derive(Debug)]
pub struct ControlServer {
    path: PathBuf,
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl ControlServer {
    /// Listens in the metadata directory. The union ends when its other owners have dropped it.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn start(union: &Arc<Union>, meta: &Path) -> Result<Self, PoolError> {
        let path = meta.join(SOCKET);
        // What a killed process left: this one has the lock of the pool.
        let _ = std::fs::remove_file(&path);
        let listener = listen(meta).during(|| format!("listening at {}", path.display()))?;
        let union = Arc::downgrade(union);
        let what = || "starting a thread".to_owned();
        std::thread::Builder::new()
            .name("union-control".to_owned())
            .spawn(move || accept(&listener, &union))
            .during(what)?;
        Ok(Self { path })
    }
}

/// A socket that only its owner can open, from its first moment. The path of a directory may be
/// longer than the address of a socket, so it is reached through its descriptor.
fn listen(meta: &Path) -> std::io::Result<UnixListener> {
    let directory = File::open(meta)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Linux gives the file of a socket the mode of the socket (unix(7)).
    rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(address(&directory))?)?;
    rustix::net::listen(&socket, 16)?;
    Ok(socket.into())
}

fn address(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(SOCKET)
}

/// Whether a process that has the pool in use takes commands.
pub(crate) fn is_served(meta: &Path) -> bool {
    File::open(meta).is_ok_and(|directory| UnixStream::connect(address(&directory)).is_ok())
}

fn accept(listener: &UnixListener, union: &Weak<Union>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, for example.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let Some(union) = union.upgrade() else { return };
        if clients.fetch_add(1, Ordering::AcqRel) >= CLIENTS_MAX {
            clients.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let counted = Arc::clone(&clients);
        let served = std::thread::Builder::new().name("union-call".to_owned()).spawn(move || {
            serve(&union, stream);
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if served.is_err() {
            clients.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

fn serve(union: &Union, mut stream: UnixStream) {
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let mut line = Vec::new();
    let read = BufReader::new((&stream).take(REQUEST_BYTES_MAX)).read_until(b'\n', &mut line);
    let reply = match (read, serde_json::from_slice::<Request>(&line)) {
        (Ok(_), Ok(request)) => {
            tracing::info!(?request, "a request of an administrator");
            let mut last = Instant::now();
            let mut progress = |report: &MoveReport| {
                if last.elapsed() < PROGRESS {
                    return ControlFlow::Continue(());
                }
                last = Instant::now();
                // A client that has gone away wants no more moves.
                match send(&mut stream, &Reply::Progress(report.clone())) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            };
            union.carry_out_request(&request, &mut progress)
        }
        (Ok(_), Err(error)) => {
            let text = format!("reading the request failed: {error}; try: the same version");
            Err(PoolError::Remote { exit: ErrorKind::Usage, text })
        }
        (Err(_), _) => return,
    };
    let reply =
        reply.unwrap_or_else(|error| Reply::Failed { kind: error.kind(), text: error.to_string() });
    let _ = send(&mut stream, &reply);
}

fn send(stream: &mut UnixStream, reply: &Reply) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Has a request carried out by the process that has the pool in use, or if there is none, by this
/// one.
///
/// # Errors
/// Those of the request; the process ended before it replied.
pub fn request(
    meta: &Path,
    request: &Request,
    progress: &mut dyn FnMut(&MoveReport) -> ControlFlow<()>,
) -> Result<Reply, PoolError> {
    if let Some(reply) = call(meta, request, progress)? {
        return Ok(reply);
    }
    let mut pool = Pool::open(meta)?;
    if matches!(request, Request::Status) {
        let (branches, placement) = (pool.status(), pool.config.placement.clone());
        return Ok(Reply::Status { branches, placement, mounted: false });
    }
    pool.expect_no_join()?;
    let lock = pool.lock()?;
    // These need no disk: one of them may be missing.
    match request {
        Request::Add { disks, min_free } => pool.add(disks, *min_free)?,
        Request::SetMode { branch, mode } => {
            let number = pool.branch(branch)?.number;
            pool.set_mode(number, *mode)?;
        }
        Request::SetPlacement { placement } => pool.set_placement(placement.clone())?,
        Request::SetLabels { branch, labels } => {
            let number = pool.branch(branch)?.number;
            pool.set_labels(number, labels.clone())?;
        }
        Request::Remove { branch, with_files: true } => {
            let number = pool.branch(branch)?.number;
            pool.remove(number)?;
        }
        _ => {
            drop(lock);
            return Union::open(&pool)?.carry_out_request(request, progress);
        }
    }
    Ok(Reply::Done)
}

/// As [`request`], but `None` if no process has the pool in use.
fn call(
    meta: &Path,
    request: &Request,
    progress: &mut dyn FnMut(&MoveReport) -> ControlFlow<()>,
) -> Result<Option<Reply>, PoolError> {
    let what = || format!("asking the process that serves {}", meta.display());
    let Ok(directory) = File::open(meta) else { return Ok(None) };
    let Ok(mut stream) = UnixStream::connect(address(&directory)) else { return Ok(None) };
    let mut line = serde_json::to_vec(request).map_err(std::io::Error::from).during(what)?;
    line.push(b'\n');
    stream.write_all(&line).during(what)?;
    let mut replies = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        replies.read_until(b'\n', &mut line).during(what)?;
        if line.is_empty() {
            return Err(PoolError::Remote {
                exit: ErrorKind::Failed,
                text: format!("{} failed: it ended; try: braid union status", what()),
            });
        }
        match serde_json::from_slice(&line).map_err(std::io::Error::from).during(what)? {
            Reply::Progress(report) => {
                if progress(&report).is_break() {
                    return Ok(Some(Reply::Moved(report)));
                }
            }
            Reply::Failed { kind, text } => {
                return Err(PoolError::Remote { exit: kind, text });
            }
            reply => return Ok(Some(reply)),
        }
    }
}
