//! The engine: everything the library does, once, over any [`Driver`].
//!
//! ```text
//!   blocking face ──┐                             ┌── blocking driver: the calling thread sends and receives
//!   async face ─────┼──> Caller / OpenFile ──────>┼── tokio driver
//!   simulation ─────┘    (async fn over Driver)   └── simulated driver
//! ```
//!
//! Invariants:
//! 1. No thread, no wall clock and no runtime in here: time is [`Driver::now`] and [`Driver::sleep`].
//! 2. No lock is held over an `.await`; what must be done one at a time waits at a gate (`gate.rs`).
//! 3. After open, reads and writes talk to I/O daemons only (I1). The metadata server is asked again only when
//!    a daemon refuses the capability or a connection to it cannot be made.
//! 4. Every call ends in bounded time when a server is gone (I8): its deadline is taken when it starts, and anew only when every I/O
//!    daemon that it waits for has answered something (`transfer.rs`); within an attempt a daemon is waited for while its bytes move.
//!    Calls that are parts of one program's call have one deadline ([`Driver::bound`]), and a server that was waited for in vain
//!    is not waited for again a moment later (`away.rs`).

mod admin;
mod allocate;
mod attributes;
mod away;
mod backoff;
mod capability;
mod close;
mod collective;
mod copy;
mod cursor;
mod directory;
pub(crate) mod gate;
mod given_up;
mod handles;
mod held_locks;
mod identities;
mod iod_batch;
mod iod_body;
mod iod_error;
mod leases;
mod link;
mod list;
mod lock;
mod mds_call;
mod mds_retry;
mod measure;
mod modes;
mod names;
mod open;
mod open_file;
mod owed;
mod pool;
mod quota;
mod read;
mod read_strip;
mod recalls;
mod reclaim;
mod removed;
mod room;
mod service;
mod session;
mod slots;
mod sync;
mod sync_all;
mod told;
mod transfer;
mod unsynced;
mod view;
mod write;
mod xattr;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use braid_net::Driver;
use braid_types::{FileIndex, IodId, Status};
use braid_wire::message::types::{At, Identity};

pub use collective::{Collective, CollectiveMode, CollectiveOptions, Next, Overlap};
pub(crate) use collective::{announce_part, announce_refusal, parts_overlap, refused_by};
pub use directory::Listing;
pub use handles::Run;
pub use list::{ReadPiece, WritePiece};
pub use lock::LockCancelHandle;
pub use open::OpenOptions;
pub use open_file::OpenFile;
pub use recalls::Notice;
pub use room::HeldRoom;
pub use service::TICK;
pub use view::FileView;

use crate::{
    config::Config,
    error::{Error, Result},
    fork,
};
use away::Away;
use gate::{Gate, lock};
use given_up::GivenUp;
use handles::Handles;
use held_locks::HeldLocks;
use identities::{Identities, Named};
use leases::Leasing;
use link::Link;
use pool::Pool;
use session::Session;
use unsynced::Ledger;

/// A client of one cluster, over one driver.
pub struct Engine<D: Driver> {
    driver: D,
    config: Config,
    /// The process that made it; a child after `fork` must not touch its connections.
    process: u64,
    /// The connection to the metadata server.
    link: Mutex<Option<Arc<Link<D>>>>,
    /// One at a time connects to it.
    linking: Gate,
    /// The last known session; I/O daemons are shown it also while the metadata server is away (I1).
    session: Mutex<Option<Arc<Session>>>,
    pools: Mutex<HashMap<IodId, Arc<Pool<D>>>>,
    identities: Mutex<Identities>,
    handles: Handles,
    unsynced: Ledger,
    locks: HeldLocks,
    unlocking: lock::Unlocking,
    /// Numbers of waits for locks; never used twice in a session.
    next_ticket: AtomicU64,
    /// How many wait for a lock now.
    lock_waits: AtomicU64,
    leasing: Leasing<D>,
    next_handle: AtomicU32,
    service: Mutex<service::Schedule>,
    given_up: GivenUp,
    /// Whether the metadata server was waited for in vain a moment ago.
    mds_away: Away,
}

/// Who asks: every call of the namespace is made through one. Cheap to clone.
pub struct Caller<D: Driver> {
    engine: Arc<Engine<D>>,
    identity: Named,
    /// What is masked out of the mode of what it makes.
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
    /// An engine that is not connected yet: the first call connects.
    pub fn new(driver: D, config: Config) -> Arc<Self> {
        Arc::new(Self {
            driver,
            config,
            process: fork::mark(),
            link: Mutex::new(None),
            linking: Gate::new(1),
            session: Mutex::new(None),
            pools: Mutex::new(HashMap::new()),
            identities: Mutex::default(),
            handles: Handles::default(),
            unsynced: Ledger::default(),
            locks: HeldLocks::default(),
            unlocking: lock::Unlocking::default(),
            next_ticket: AtomicU64::new(1),
            lock_waits: AtomicU64::new(0),
            leasing: Leasing::default(),
            next_handle: AtomicU32::new(1),
            service: Mutex::new(service::Schedule::default()),
            given_up: GivenUp::default(),
            mds_away: Away::default(),
        })
    }

    /// A caller with the connection's own identity.
    pub fn caller(self: &Arc<Self>) -> Caller<D> {
        Caller { engine: Arc::clone(self), identity: Named::default(), umask: 0 }
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// How long one call may take when a server is gone (I8).
    pub fn timeout(&self) -> Duration {
        self.config.timeout
    }

    /// Until when a call that begins now may take, and no longer than the program's call that it is a part of.
    fn deadline(&self) -> Duration {
        let own = self.driver.now().saturating_add(self.config.timeout);
        self.driver.bound().map_or(own, |bound| bound.until.min(own))
    }

    /// The same of a transfer for which every server that it waited for has answered: its time begins anew, and with it that
    /// of the program's call.
    fn renewed_deadline(&self) -> Duration {
        let until = self.driver.now().saturating_add(self.config.timeout);
        self.driver.extend_bound(until);
        until
    }

    fn handle_number(&self) -> u32 {
        self.next_handle.fetch_add(1, Ordering::Relaxed)
    }

    /// A child after `fork` shares the parent's sockets: whatever it sent would tear the parent's calls.
    /// Costs a load (`fork.rs`): asked before every call, and before any lock that another thread may have held at
    /// the fork.
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
    /// The engine behind.
    pub fn engine(&self) -> &Arc<Engine<D>> {
        &self.engine
    }

    /// A caller with another identity. Only the holder of a client key may vouch for others; the
    /// metadata server refuses the first call of anybody else.
    ///
    /// # Errors
    /// [`Status::NotPermitted`], and as any call.
    pub async fn with_identity(&self, identity: Identity) -> Result<Self> {
        let identity = lock(&self.engine.identities).name(identity)?;
        Ok(Self { engine: Arc::clone(&self.engine), identity, umask: self.umask })
    }

    /// A caller that masks bits out of the mode of what it makes, unless the directory's default access control list takes
    /// their place. That of a new client is 0: modes are taken as they are.
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

/// How a place is printed in errors.
pub(crate) fn show(at: &At) -> String {
    let path = String::from_utf8_lossy(&at.path);
    match (at.dir, at.path.is_empty()) {
        (FileIndex::ROOT, _) => format!("/{}", path.trim_start_matches('/')),
        (dir, true) => format!("file {dir}"),
        (dir, false) => format!("{path} in directory {dir}"),
    }
}
