//! The metadata server without threads and sockets: each call is answered on the thread that
//! received it, or suspended until an I/O daemon or the log has answered. ADR 0004 has the whole
//! picture.
//!
//! ```text
//!   net ──handle──> service ──admit──> ops/* ──> Namespace (one batch per change)
//!                                        ├────> IodLink, then on in the answer's closure
//!                                        └────> Spawner: sync the log
//!   ticker ──tick──> expires, ends, retries, collects, deletes
//!
//!   MdsCore ── state: sessions (session/) · sizes (size/) · keys · cluster · locks · queues
//!           ├─ leases (lease/), with a lock of their own
//!           └─ names: the namespace, with locks of its own
//! ```
//!
//! Invariants:
//! 1. No lock is held while an I/O daemon, the log or a waiting call is called.
//! 2. Lock order: `state`, then the locks of the namespace, then that of the leases. What the
//!    namespace calls back under its locks never takes `state`.
//! 3. Everything that waits is in a bounded queue, and its wait ends (I8, I9).
//!
//! No assertion checks these: the locks do not record their owner (1, 2), and each queue checks its
//! own limit (3).

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use braid_meta::Namespace;
use braid_types::{ClusterUuid, Failure, IodId, MdsEpoch, poisoned};
use braid_wire::Secret;

use crate::{
    authorize::KeyTable,
    call::{Call, UnansweredSlots},
    cluster::Cluster,
    deletion::DeletionQueue,
    environment::Environment,
    file_count::FileCount,
    iod_queries::PendingQueries,
    lease::Leases,
    lock::LockTable,
    log_sync::LogSync,
    metrics::Counters,
    ops::NameSearch,
    session::SessionTable,
    size::SizeTable,
};

/// The metadata server.
pub struct MdsCore {
    pub(crate) env: Environment,
    pub(crate) key: Secret,
    pub(crate) uuid: ClusterUuid,
    pub(crate) epoch: MdsEpoch,
    pub(crate) namespace: Namespace,
    pub(crate) counters: Counters,
    pub(crate) started: Duration,
    /// How many gates are closed: with none, the calls of a file need no lock.
    pub(crate) closed_gates: Arc<AtomicUsize>,
    /// Recorded sizes are uncertain: see `size/uncertain.rs`.
    pub(crate) in_doubt: AtomicBool,
    /// Whether any I/O daemon was removed for good: with none, opens need no lock for that.
    pub(crate) any_iod_removed: AtomicBool,
    /// See `iod_queries.rs`. Taken after `state`; nothing is called under it.
    pub(crate) iod_queries: Mutex<PendingQueries>,
    /// See `lease/`.
    pub(crate) leases: Leases,
    /// Where fsck's searches for names ended. Nothing is called under it.
    pub(crate) name_search: Mutex<NameSearch>,
    /// Held while an I/O daemon registers; taken before `state`.
    pub(crate) registration_lock: Mutex<()>,
    /// Whether a thread is reserving file indexes.
    pub(crate) reserving_indexes: AtomicBool,
    round_robin: AtomicU64,
    /// Replay slots to free: of calls that were dropped without a reply.
    pub(crate) unanswered: Arc<UnansweredSlots>,
    state: Mutex<MdsState>,
    self_ref: Weak<Self>,
}

/// The state under the server's lock.
pub(crate) struct MdsState {
    /// Sessions, their ends and their fences.
    pub(crate) sessions: SessionTable,
    pub(crate) cluster: Cluster,
    /// Client keys, and the connections that proved one.
    pub(crate) keys: KeyTable,
    /// Sizes that are not recorded, and changes of sizes that are not finished.
    pub(crate) sizes: SizeTable,
    pub(crate) locks: LockTable<Call>,
    pub(crate) deletions: DeletionQueue,
    pub(crate) log_sync: LogSync,
    pub(crate) file_count: FileCount,
    pub(crate) ticks: u64,
    /// A daemon came back since the last tick: what waited for it is tried in the next tick.
    pub(crate) iod_returned: bool,
    /// I/O daemons that are being removed from the cluster.
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
        state: MdsState,
    ) -> Arc<Self> {
        let epoch = names.epoch();
        let started = env.clock.monotonic();
        let closed_gates = state.sizes.closed_gates();
        let any_removed = AtomicBool::new(!state.cluster.removed().is_empty());
        Arc::new_cyclic(|me| Self {
            env,
            key,
            uuid,
            epoch,
            namespace: names,
            counters: Counters::default(),
            started,
            closed_gates,
            in_doubt: AtomicBool::new(in_doubt),
            any_iod_removed: any_removed,
            iod_queries: Mutex::default(),
            leases,
            name_search: Mutex::default(),
            registration_lock: Mutex::default(),
            reserving_indexes: AtomicBool::default(),
            round_robin: AtomicU64::new(epoch.0),
            unanswered: Arc::default(),
            state: Mutex::new(state),
            self_ref: me.clone(),
        })
    }

    /// The server's epoch: rises with every start.
    pub fn epoch(&self) -> MdsEpoch {
        self.epoch
    }

    /// The cluster that it serves.
    pub fn cluster(&self) -> ClusterUuid {
        self.uuid
    }

    /// Syncs the log: everything answered so far survives the loss of power (I6). Blocks.
    ///
    /// # Errors
    /// Those of the store.
    pub fn sync(&self) -> Result<(), Failure> {
        self.namespace.sync()
    }

    pub(crate) fn now(&self) -> Duration {
        self.env.clock.monotonic()
    }

    /// The next number of the round robin of placement.
    pub(crate) fn next_round_robin(&self) -> u64 {
        self.round_robin.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, MdsState> {
        self.state.lock().unwrap_or_else(poisoned)
    }

    pub(crate) fn weak(&self) -> Weak<Self> {
        self.self_ref.clone()
    }

    /// A reference for work that continues later; `None` while the core is being dropped.
    pub(crate) fn arc(&self) -> Option<Arc<Self>> {
        self.self_ref.upgrade()
    }
}

impl std::fmt::Debug for MdsCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MdsCore(epoch {})", self.epoch)
    }
}

/// Logs a failure of work that the server does without a call.
pub(crate) fn report(what: &str, failure: &Failure) {
    tracing::warn!(%failure, "{what}");
}
