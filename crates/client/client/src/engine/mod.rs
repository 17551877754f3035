//! The engine: everything that the library does, written once for any [`Driver`].
//!
//! ```text
//!   blocking API ──┐                            ┌── blocking driver: the caller does the I/O
//!   async API ─────┼──> Caller / OpenFile ─────>┼── tokio driver
//!   simulation ────┘    (async fn over Driver)  └── simulated driver
//! ```
//!
//! Invariants:
//! 1. The engine uses no thread, no wall clock and no runtime: time is [`Driver::now`] and
//!    [`Driver::sleep`].
//! 2. No mutex is held over an `.await`. What must be done one at a time uses a semaphore
//!    (`semaphore.rs`).
//! 3. After an open, reads and writes send requests to I/O daemons only (I1). The metadata server
//!    is called only when a daemon refuses the capability or cannot be connected to.
//! 4. Every call ends in bounded time when a server is gone (I8).
//!
//! No assertion checks these here. The [`Driver`] is the only source of time (1); Clippy refuses a
//! guard that is held over an `.await` (2); tests count the calls that a read or write makes (3)
//! and let servers fall silent (4).
//!
//! On invariant 4: the deadline is set when the call starts. It is extended only when every I/O
//! daemon that the call waits for has answered something (`transfer.rs`). Within an attempt, a
//! daemon is waited for while it sends or receives bytes. Calls that belong to one call of a
//! program share one deadline ([`Driver::call_deadline`]). After a call has waited for a server
//! without success, queries of the next seconds wait for it only briefly
//! (`unresponsive_servers.rs`).

mod abandoned_writes;
mod admin;
mod allocate;
mod attributes;
mod backoff;
mod capability;
mod close;
mod collective;
mod copy;
mod cursor;
mod directory;
mod down_daemons;
mod gateway_session;
mod identities;
mod iod_batch;
mod iod_body;
mod iod_error;
mod lease_client;
mod list;
mod lock;
mod lock_table;
mod mds_call;
mod mds_connection;
mod mds_retry;
mod measure;
mod modes;
mod names;
mod open;
mod open_file;
mod open_table;
mod pool;
mod quota;
mod read;
mod read_cache;
mod read_strip;
mod recall_channel;
mod reclaim;
mod removed_daemons;
mod reservation;
pub(crate) mod semaphore;
mod service;
mod session;
mod size_report;
mod slots;
mod sync;
mod sync_all;
mod transfer;
mod unflushed_writes;
mod unresponsive_servers;
mod view;
mod write;
mod xattr;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use braid_net::Driver;
use braid_types::{FileIndex, IodId, Status};
use braid_wire::message::types::{Identity, PathRef};

pub use collective::{Collective, CollectiveMode, CollectiveOptions, Next, Overlap};
pub(crate) use collective::{announce_part, announce_refusal, first_refusal, parts_overlap};
pub use directory::Listing;
pub use list::{ReadPiece, WritePiece};
pub use lock::LockCancelHandle;
pub use names::NewEntry;
pub use open::OpenOptions;
pub use open_file::OpenFile;
pub use open_table::ServerEpoch;
pub use recall_channel::RecallNotice;
pub use reservation::Reservation;
pub use service::TICK;
pub use view::FileView;

use crate::{
    config::Config,
    error::{Error, Result},
    fork,
};
use down_daemons::DownDaemons;
use identities::{Identities, IdentityNumber};
use lease_client::LeaseClient;
use lock_table::LockTable;
use mds_connection::MdsConnection;
use open_table::OpenTable;
use pool::Pool;
pub(crate) use read_cache::ReadCache;
use semaphore::{Semaphore, lock};
use session::Session;
use unflushed_writes::UnflushedFiles;
use unresponsive_servers::ServerStatus;

/// A client of one cluster, over one driver.
pub struct Engine<D: Driver> {
    driver: D,
    config: Config,
    /// The process that made this engine. A child after `fork` must not use its connections.
    process: u64,
    /// The connection to the metadata server.
    mds_connection: Mutex<Option<Arc<MdsConnection<D>>>>,
    /// Allows one task at a time to connect to it.
    connecting: Semaphore,
    /// The last known session. I/O daemons accept it also while the metadata server is away (I1).
    session: Mutex<Option<Arc<Session>>>,
    /// Whether the session was left to the next start of a gateway: nothing connects any more.
    left: AtomicBool,
    /// Whether the server has accepted the record of a gateway once.
    record_accepted: AtomicBool,
    pools: Mutex<HashMap<IodId, Arc<Pool<D>>>>,
    identities: Mutex<Identities>,
    open_table: OpenTable,
    unflushed_files: UnflushedFiles,
    locks: LockTable,
    unlock_queues: lock::UnlockQueues,
    /// Numbers lock waits. Never reused in a session.
    next_ticket: AtomicU64,
    /// The number of lock waits now.
    lock_waits: AtomicU64,
    lease_client: LeaseClient<D>,
    /// [`Config::read_cache_bytes`].
    read_cache: Option<Arc<ReadCache>>,
    next_handle: AtomicU32,
    service: Mutex<service::Schedule>,
    down_daemons: DownDaemons,
    /// Whether the metadata server is unresponsive.
    mds_status: ServerStatus,
}

/// The identity and umask of calls: every call of the namespace is made through a `Caller`. Cheap
/// to clone.
pub struct Caller<D: Driver> {
    engine: Arc<Engine<D>>,
    identity: IdentityNumber,
    /// Bits that are cleared from the mode of new files.
    umask: u32,
}

impl<D: Driver> Clone for Caller<D> {
    fn clone(&self) -> Self {
        Self {
            engine: Arc::clone(&self.engine),
            identity: self.identity.clone(),
            umask: self.umask,
        }
    }
}

impl<D: Driver> std::fmt::Debug for Caller<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller")
            .field("mds", &self.engine.config.mds)
            .field("identity", &self.identity.number())
            .finish()
    }
}

impl<D: Driver> Engine<D> {
    /// An engine without a connection; the first call connects.
    pub fn new(driver: D, config: Config) -> Arc<Self> {
        let read_cache = (config.read_cache_bytes > 0)
            .then(|| Arc::new(ReadCache::new(config.read_cache_bytes)));
        Arc::new(Self {
            driver,
            config,
            process: fork::mark(),
            mds_connection: Mutex::new(None),
            connecting: Semaphore::new(1),
            session: Mutex::new(None),
            left: AtomicBool::new(false),
            record_accepted: AtomicBool::new(false),
            pools: Mutex::new(HashMap::new()),
            identities: Mutex::default(),
            open_table: OpenTable::default(),
            unflushed_files: UnflushedFiles::default(),
            locks: LockTable::default(),
            unlock_queues: lock::UnlockQueues::default(),
            next_ticket: AtomicU64::new(1),
            lock_waits: AtomicU64::new(0),
            lease_client: LeaseClient::default(),
            read_cache,
            next_handle: AtomicU32::new(1),
            service: Mutex::new(service::Schedule::default()),
            down_daemons: DownDaemons::default(),
            mds_status: ServerStatus::default(),
        })
    }

    /// A caller with the connection's own identity.
    pub fn caller(self: &Arc<Self>) -> Caller<D> {
        Caller { engine: Arc::clone(self), identity: IdentityNumber::default(), umask: 0 }
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// The read cache, if the configuration has one.
    pub(crate) fn read_cache(&self) -> Option<&Arc<ReadCache>> {
        self.read_cache.as_ref()
    }

    /// The longest time of a call when a server is gone (I8).
    pub fn timeout(&self) -> Duration {
        self.config.timeout
    }

    /// The deadline of a call that begins now: at most that of the program's call that it belongs
    /// to.
    fn deadline(&self) -> Duration {
        let own = self.driver.now().saturating_add(self.config.timeout);
        self.driver.call_deadline().map_or(own, |limit| limit.until.min(own))
    }

    /// A new deadline for a transfer after every server that it waited for has answered. Extends
    /// the deadline of the program's call, too.
    fn renewed_deadline(&self) -> Duration {
        let until = self.driver.now().saturating_add(self.config.timeout);
        self.driver.extend_call_deadline(until);
        until
    }

    fn handle_number(&self) -> u32 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// Fails in a child after `fork`, which shares the parent's sockets: whatever it sent would
    /// corrupt the parent's calls. Costs one load (`fork.rs`). Checked before every call, and
    /// before taking any lock that another thread may have held at the fork.
    fn check_process(&self) -> Result<()> {
        if self.is_ours() { Ok(()) } else { Err(forked()) }
    }

    fn is_ours(&self) -> bool {
        self.process == fork::mark()
    }

    fn pool(self: &Arc<Self>, iod: IodId) -> Arc<Pool<D>> {
        Arc::clone(lock(&self.pools).entry(iod).or_insert_with(|| Arc::new(Pool::new(iod))))
    }
}

impl<D: Driver> Caller<D> {
    /// The engine of this caller.
    pub fn engine(&self) -> &Arc<Engine<D>> {
        &self.engine
    }

    /// A caller with another identity. Only the holder of a client key may act as others; for
    /// anyone else the metadata server refuses the first call.
    ///
    /// # Errors
    /// [`Status::NotPermitted`], and as any call.
    pub async fn with_identity(&self, identity: Identity) -> Result<Self> {
        let identity = lock(&self.engine.identities).number_for(identity)?;
        Ok(Self { engine: Arc::clone(&self.engine), identity, umask: self.umask })
    }

    /// A caller that clears these bits from the mode of new files. A default access control list of
    /// the directory takes precedence. The umask of a new client is 0: modes are used unchanged.
    #[must_use]
    pub fn with_umask(&self, umask: u32) -> Self {
        Self { umask: umask & 0o777, ..self.clone() }
    }
}

fn forked() -> Error {
    let why = "the client was made before fork and this is the child: \
               its connections belong to the parent";
    Error::new(Status::NoSession, why).with_hint("make a new client after fork")
}

/// Formats a path reference for errors.
pub(crate) fn shown_path(at: &PathRef) -> String {
    let path = String::from_utf8_lossy(&at.path);
    match (at.dir, at.path.is_empty()) {
        (FileIndex::ROOT, _) => format!("/{}", path.trim_start_matches('/')),
        (dir, true) => format!("file {dir}"),
        (dir, false) => format!("{path} in directory {dir}"),
    }
}
