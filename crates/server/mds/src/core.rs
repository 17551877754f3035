//! The metadata server without threads: every call is answered on the thread that brought it, or kept
//! until an I/O daemon or the log has answered. ADR 0004 has the whole picture.
//!
//! ```text
//!   net ──handle──> service ──admit──> ops/* ──> Namespace (one batch per change)
//!                                        ├────> IodLink, then on in the answer's closure
//!                                        └────> Spawner: force the log
//!   ticker ──tick──> ages, ends, repeats, collects, deletes
//! ```
//!
//! Invariants: (1) no lock is held while an I/O daemon, the log or a waiter is called; (2) lock order:
//! `state`, then the namespace's own: what the namespace calls back under its lock never takes `state`; the leases' own last; (3) everything that waits is in a bounded queue and has an end (I8, I9).

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use braid_meta::Namespace;
use braid_types::{ClusterUuid, Failure, IodId, MdsEpoch};
use braid_wire::Secret;

use crate::{
    authorize::KeyTable, call::Call, census::Census, cluster::Cluster, collect::Collector,
    deletion::Deleter, environment::Environment, fan_out::Asked, force::Forcer, gate::Gates,
    intents::Intents, lease::Leases, lock::Locks, looks::Looks, metrics::Counters, ops::NameSearch,
    session::SessionTable,
};

/// The metadata server.
pub struct MdsCore {
    pub(crate) env: Environment,
    pub(crate) key: Secret,
    pub(crate) uuid: ClusterUuid,
    pub(crate) epoch: MdsEpoch,
    pub(crate) names: Namespace,
    pub(crate) counters: Counters,
    pub(crate) started: Duration,
    /// Closed gates: lets the calls of every other file pass without the lock.
    pub(crate) gated: AtomicUsize,
    /// See `reclaim.rs`.
    pub(crate) in_doubt: AtomicBool,
    /// Whether any I/O daemon was removed for good: lets every other cluster's opens pass without the lock.
    pub(crate) any_removed: AtomicBool,
    /// See `fan_out.rs`; taken after `state`, and nothing is called under it.
    pub(crate) asked: Mutex<Asked>,
    /// See `lease.rs`.
    pub(crate) leases: Leases,
    /// Where fsck's searches for names ended; nothing is called under it.
    pub(crate) name_search: Mutex<NameSearch>,
    /// Held while an I/O daemon registers; taken before `state`.
    pub(crate) registering: Mutex<()>,
    /// Whether file indexes are being reserved.
    pub(crate) reserving: AtomicBool,
    turn: AtomicU64,
    state: Mutex<State>,
    me: Weak<Self>,
}

/// Everything that changes, under one lock.
pub(crate) struct State {
    /// Sessions, their ends and their fences.
    pub(crate) sessions: SessionTable,
    pub(crate) cluster: Cluster,
    /// Client keys, and the connections that proved one.
    pub(crate) keys: KeyTable,
    pub(crate) gates: Gates,
    pub(crate) intents: Intents,
    pub(crate) locks: Locks<Call>,
    pub(crate) collector: Collector,
    pub(crate) looks: Looks,
    pub(crate) deleter: Deleter,
    pub(crate) forcer: Forcer,
    pub(crate) census: Census,
    pub(crate) ticks: u64,
    /// A daemon came back since the last tick: what it held up is tried at once.
    pub(crate) daemon_back: bool,
    /// I/O daemons that are being taken out of the cluster.
    pub(crate) removing: BTreeSet<IodId>,
}

impl MdsCore {
    pub(crate) fn new(
        env: Environment,
        key: Secret,
        uuid: ClusterUuid,
        names: Namespace,
        in_doubt: bool,
        leases: Leases,
        state: State,
    ) -> Arc<Self> {
        let epoch = names.epoch();
        let started = env.clock.monotonic();
        let any_removed = AtomicBool::new(!state.cluster.removed().is_empty());
        Arc::new_cyclic(|me| Self {
            env,
            key,
            uuid,
            epoch,
            names,
            counters: Counters::default(),
            started,
            gated: AtomicUsize::new(0),
            in_doubt: AtomicBool::new(in_doubt),
            any_removed,
            asked: Mutex::default(),
            leases,
            name_search: Mutex::default(),
            registering: Mutex::default(),
            reserving: AtomicBool::default(),
            turn: AtomicU64::new(epoch.0),
            state: Mutex::new(state),
            me: me.clone(),
        })
    }

    /// The server's epoch: rises with every start.
    pub fn epoch(&self) -> MdsEpoch {
        self.epoch
    }

    /// Which cluster it serves.
    pub fn cluster(&self) -> ClusterUuid {
        self.uuid
    }

    /// Forces the log: everything answered so far survives the loss of power (I6). Blocks.
    ///
    /// # Errors
    /// What the store says.
    pub fn sync(&self) -> Result<(), Failure> {
        self.names.sync()
    }

    pub(crate) fn now(&self) -> Duration {
        self.env.clock.monotonic()
    }

    /// The next turn of the round robin.
    pub(crate) fn turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn weak(&self) -> Weak<Self> {
        self.me.clone()
    }

    /// Itself, to be kept by what goes on later; `None` while it is being dropped.
    pub(crate) fn arc(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }
}

impl std::fmt::Debug for MdsCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MdsCore(epoch {})", self.epoch)
    }
}

/// A failure of what the server does on its own, for the log.
pub(crate) fn report(what: &str, failure: &Failure) {
    tracing::warn!(%failure, "{what}");
}
