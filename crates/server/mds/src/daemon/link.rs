//! Calls to the I/O daemons over sockets: a bounded queue and two threads for each daemon. So a
//! daemon that hangs delays no other, and a long collection does not delay a `stat`.
//!
//! Invariants:
//! 1. Every call ends, with an answer or an error that names the daemon, at most
//!    [`CONNECT_TIMEOUT`] + [`CALL_TIMEOUT`] after it left the queue (I8).
//! 2. A queue that is full refuses immediately (I9).
//!
//! No assertion checks these: each call gets a deadline from the two constants (1), and the channel
//! has [`QUEUE_MAX`] places (2).

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard,
        mpsc::{self, Receiver, SyncSender, TrySendError},
    },
    thread,
    time::Duration,
};

use braid_net::{
    Answer, Blocking, Driver, Endpoint, NetError, SharedConnection, TlsPolicy, block_on,
};
use braid_types::{ClusterUuid, EndProcessOnPanic, IodId};
use braid_wire::{Credential, NodeKind, Role, Secret};

use crate::{IodLink, LinkDone};

/// How long a connection may take: a daemon that runs answers immediately.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long an answer may take: a daemon may have to flush a full disk queue first. Less than the
/// client's 30 s, so that the reason reaches it.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Calls that wait for one daemon.
const QUEUE_MAX: usize = 4096;
/// Threads for each daemon.
const THREADS: usize = 2;

struct IodCall {
    op: u16,
    body: Vec<u8>,
    done: LinkDone,
}

/// One daemon: its queue and its connection.
struct IodQueue {
    jobs: SyncSender<IodCall>,
    connection: Arc<Mutex<IodConnection>>,
}

struct IodConnection {
    endpoint: Endpoint,
    /// The connection that both threads share; `None` until it is needed, and after it failed.
    connection: Option<Arc<SharedConnection>>,
}

pub(super) struct SocketLink {
    key: Secret,
    tls: TlsPolicy,
    driver: Blocking,
    state: Mutex<LinkState>,
}

#[derive(Default)]
struct LinkState {
    cluster: Option<ClusterUuid>,
    queues: HashMap<IodId, IodQueue>,
    stopped: bool,
}

impl SocketLink {
    pub(super) fn new(key: Secret, tls: TlsPolicy) -> Self {
        Self { key, tls, driver: Blocking::new(), state: Mutex::default() }
    }

    pub(super) fn set_cluster(&self, cluster: ClusterUuid) {
        let mut state = lock(&self.state);
        state.cluster = Some(cluster);
        state
            .queues
            .values()
            .for_each(|queue| lock(&queue.connection).endpoint.cluster = Some(cluster));
    }

    /// Accepts no more calls. Calls in flight end with their own time-outs.
    pub(super) fn stop(&self) {
        let mut state = lock(&self.state);
        state.stopped = true;
        state.queues.clear();
    }

    fn endpoint(&self, iod: IodId, addresses: &[String], cluster: Option<ClusterUuid>) -> Endpoint {
        Endpoint {
            node: NodeKind::Iod,
            node_id: iod.0,
            cluster,
            addresses: addresses.to_vec(),
            role: Role::Mds,
            credential: Credential::Server,
            secret: self.key.clone(),
            tls: self.tls,
        }
    }

    fn start_queue(&self, iod: IodId, endpoint: Endpoint) -> std::io::Result<IodQueue> {
        let (jobs, queue) = mpsc::sync_channel(QUEUE_MAX);
        let (queue, link) = (
            Arc::new(Mutex::new(queue)),
            Arc::new(Mutex::new(IodConnection { endpoint, connection: None })),
        );
        for _ in 0..THREADS {
            let (driver, queue, link) = (self.driver.clone(), queue.clone(), link.clone());
            thread::Builder::new().name(format!("mds-iod-{iod}")).spawn(move || {
                let _guard = EndProcessOnPanic;
                run_queue(&driver, &queue, &link);
            })?;
        }
        Ok(IodQueue { jobs, connection: link })
    }
}

impl std::fmt::Debug for SocketLink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SocketLink")
    }
}

impl IodLink for SocketLink {
    fn call(&self, iod: IodId, op: u16, body: Vec<u8>, done: LinkDone) {
        let jobs = lock(&self.state).queues.get(&iod).map(|queue| queue.jobs.clone());
        let Some(jobs) = jobs else { return done(Err(refused(iod, "its address is not known"))) };
        match jobs.try_send(IodCall { op, body, done }) {
            Ok(()) => {}
            Err(TrySendError::Full(job)) => {
                (job.done)(Err(refused(iod, "too many calls wait for it")))
            }
            Err(TrySendError::Disconnected(job)) => {
                (job.done)(Err(refused(iod, "the server is stopping")))
            }
        }
    }

    fn locate(&self, iod: IodId, addresses: &[String]) {
        let mut state = lock(&self.state);
        if state.stopped {
            return;
        }
        let endpoint = self.endpoint(iod, addresses, state.cluster);
        if let Some(queue) = state.queues.get(&iod) {
            let mut link = lock(&queue.connection);
            if link.endpoint.addresses != endpoint.addresses {
                link.connection = None;
            }
            link.endpoint = endpoint;
            return;
        }
        match self.start_queue(iod, endpoint) {
            Ok(queue) => drop(state.queues.insert(iod, queue)),
            Err(error) => tracing::error!(%iod, %error, "no thread for an I/O daemon"),
        }
    }
}

fn run_queue(driver: &Blocking, queue: &Mutex<Receiver<IodCall>>, link: &Mutex<IodConnection>) {
    loop {
        let job = lock(queue).recv();
        let Ok(job) = job else { return };
        (job.done)(call_once(driver, link, job.op, &job.body));
    }
}

/// One call. A connection that failed may have been dead for long (the daemon restarted), so the
/// call is tried once more on a new one. Every call of the server may be repeated.
fn call_once(
    driver: &Blocking,
    link: &Mutex<IodConnection>,
    op: u16,
    body: &[u8],
) -> Result<Answer, NetError> {
    let existing = lock(link).connection.clone();
    if let Some(shared) = existing {
        match block_on(driver.call(&shared, op, body, driver.now() + CALL_TIMEOUT)) {
            Err(NetError::ConnectionLost { .. }) => drop_broken(link, &shared),
            Err(error) => {
                drop_broken(link, &shared);
                return Err(error);
            }
            answer => return answer,
        }
    }
    let shared = connect(driver, link)?;
    let answer = block_on(driver.call(&shared, op, body, driver.now() + CALL_TIMEOUT));
    if answer.is_err() {
        drop_broken(link, &shared);
    }
    answer
}

fn connect(
    driver: &Blocking,
    link: &Mutex<IodConnection>,
) -> Result<Arc<SharedConnection>, NetError> {
    let endpoint = {
        let link = lock(link);
        if let Some(shared) = &link.connection {
            return Ok(shared.clone());
        }
        link.endpoint.clone()
    };
    let shared =
        Arc::new(block_on(driver.connect_shared(&endpoint, driver.now() + CONNECT_TIMEOUT))?);
    lock(link).connection = Some(shared.clone());
    Ok(shared)
}

fn drop_broken(link: &Mutex<IodConnection>, broken: &Arc<SharedConnection>) {
    let mut link = lock(link);
    if link.connection.as_ref().is_some_and(|shared| Arc::ptr_eq(shared, broken)) {
        link.connection = None;
    }
}

fn refused(iod: IodId, why: &str) -> NetError {
    NetError::Unreachable {
        server: format!("I/O daemon {iod}"),
        waited: Duration::ZERO,
        why: why.to_owned(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(braid_types::poisoned)
}
