//! The start of the server: the state is made from what the store has on record.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use braid_meta::{MetaStore, Namespace, Options};
use braid_types::{Failure, SessionId, limits::GRACE_MS};
use braid_wire::Secret;

use crate::{
    authorize::KeyTable,
    cluster::Cluster,
    core::{MdsCore, MdsState},
    deletion::DeletionQueue,
    environment::Environment,
    file_count::FileCount,
    lease::Leases,
    lock::LockTable,
    log_sync::LogSync,
    session::{Owner, SessionTable},
    size::SizeTable,
};

/// Configuration of a core.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// The key that signs capabilities and from which client keys are derived.
    pub server_key: Secret,
    /// The addresses at which clients reach the server, `host:port`; see
    /// [`MdsCore::set_addresses`].
    pub addresses: Vec<String>,
    /// Memory limits of the namespace.
    pub namespace: Options,
}

impl CoreConfig {
    /// The defaults.
    pub fn new(server_key: Secret) -> Self {
        Self { server_key, addresses: Vec::new(), namespace: Options::default() }
    }
}

impl MdsCore {
    /// Opens the namespace in `store`: the epoch rises, unfinished truncates are resumed, and when
    /// sessions are on record a grace period begins.
    ///
    /// # Errors
    /// Those of the store.
    pub fn open(
        store: Arc<dyn MetaStore>,
        config: CoreConfig,
        env: Environment,
    ) -> Result<Arc<Self>, Failure> {
        let names = Namespace::open(store, config.namespace)?;
        let identity = names.cluster();
        let now = env.clock.monotonic();
        let sessions = names.sessions()?;
        let leasing =
            sessions.iter().filter(|record| record.leases).map(|record| record.session).collect();
        let recorded: HashMap<_, _> = sessions
            .into_iter()
            .map(|record| (record.session, Owner { key: record.key, user: record.user }))
            .collect();
        let waits = !recorded.is_empty() || !names.orphans()?.is_empty();
        let epoch = names.epoch();
        let in_doubt = !recorded.is_empty();
        names.keep_orphans(in_doubt);
        let cluster = Cluster::new(identity.uuid, epoch, config.addresses, names.iods()?, now);
        cluster.iods().for_each(|iod| env.link.locate(iod.info.id, &iod.info.addresses));
        let state = MdsState {
            sessions: SessionTable::new(
                epoch,
                SessionId(identity.next_session),
                recorded,
                waits.then(|| now + Duration::from_millis(GRACE_MS)),
            ),
            cluster,
            keys: KeyTable::new(names.client_keys()?),
            locks: LockTable::new(!in_doubt),
            sizes: SizeTable::default(),
            deletions: DeletionQueue::default(),
            log_sync: LogSync::default(),
            file_count: FileCount::default(),
            ticks: 0,
            iod_returned: false,
            removing: BTreeSet::new(),
        };
        let leases = Leases::new(epoch, leasing, now);
        let core = Self::new(env, config.server_key, identity.uuid, names, in_doubt, leases, state);
        core.recover_intents()?;
        core.state().deletions.note_queued();
        Ok(core)
    }

    /// Sets the addresses at which clients reach the server, once its listener has its ports.
    pub fn set_addresses(&self, addresses: Vec<String>) {
        self.state().cluster.set_addresses(addresses);
    }
}
