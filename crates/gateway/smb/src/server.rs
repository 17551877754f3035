//! The server: what all connections share, and the end.
//!
//! Invariants:
//! 1. The mutexes of the tables are held for short, without an await, and never two at a time.
//! 2. A session that was removed from the table is ended after the mutex is released: no further
//!    request of it begins, then its opens are closed.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_share::Share;
use braid_smb_wire::smb2::FileId;
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::client::Machines;
use crate::config::{ConfigError, SmbConfig};
use crate::connection::budget::SharedBudget;
use crate::durable::DisconnectedOpens;
use crate::durable::app_instance::AppInstances;
use crate::durable::replay::Creates;
use crate::file_state::FileStates;
use crate::gateways::Gateways;
use crate::leases::Leases;
use crate::ops::close::close_open;
use crate::range_locks::RangeLocks;
use crate::session::Session;
use crate::throttle::Throttle;
use crate::tree::Shares;
use crate::watch::Watches;

pub mod listener;

/// Most look-ups of users that run at the same time, each on a thread of its own. Further logons
/// wait, so that strangers do not take all threads when the database of users is slow.
const LOOKUPS_MAX: usize = 16;

/// Why a server did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// A mistake in the configuration.
    #[error("SMB configuration: {0}")]
    Config(#[from] ConfigError),
    /// The address cannot be listened on.
    #[error("listen on {address}: {error}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The system has no random numbers.
    #[error("random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

/// A server of one file system. A [`listener::Listener`] accepts its connections.
#[derive(Debug)]
pub struct SmbServer<S: Share> {
    /// The file system.
    pub share: S,
    /// The configuration.
    pub config: SmbConfig,
    /// The shares.
    pub shares: Shares,
    /// ServerGuid, MS-SMB2 3.3.1.5.
    pub guid: [u8; 16],
    /// The gateways with the same shares.
    pub(crate) gateways: Gateways,
    /// Sessions of the metadata server.
    pub machines: Machines<S>,
    /// Opens by file, for share modes and removals that wait.
    pub(crate) files: FileStates,
    /// What clients may cache.
    pub(crate) leases: Arc<Leases<S>>,
    /// Durable opens whose client is disconnected.
    pub(crate) disconnected: DisconnectedOpens<S>,
    /// CREATE requests that can be repeated.
    pub(crate) creates: Arc<Creates<S>>,
    /// Opens that belong to applications.
    pub(crate) apps: Arc<AppInstances<S>>,
    /// Byte-range locks of all opens.
    pub(crate) range_locks: RangeLocks,
    /// Directories that opens watch.
    pub(crate) watches: Watches,
    /// Slows down logons that fail.
    pub(crate) throttle: Throttle,
    sessions: Mutex<HashMap<u64, Arc<Session<S>>>>,
    next_file: AtomicU64,
    budget: SharedBudget,
    /// Look-ups of users that run at the same time.
    pub(crate) lookups: Semaphore,
}

impl<S: Share> SmbServer<S> {
    /// A server that does not listen yet.
    ///
    /// # Errors
    /// [`StartError::Config`], [`StartError::Random`].
    pub fn new(share: S, config: SmbConfig) -> Result<Arc<Self>, StartError> {
        config.check()?;
        let mut guid = [0; 16];
        getrandom::fill(&mut guid)?;
        Ok(Arc::new(Self {
            shares: Shares::new(&config.shares),
            gateways: Gateways::new(&config.gateways),
            guid,
            machines: Machines::default(),
            files: FileStates::default(),
            leases: Arc::default(),
            disconnected: DisconnectedOpens::default(),
            creates: Arc::default(),
            apps: Arc::default(),
            range_locks: RangeLocks::default(),
            watches: Watches::default(),
            throttle: Throttle::default(),
            sessions: Mutex::default(),
            next_file: AtomicU64::new(1),
            budget: SharedBudget::default(),
            lookups: Semaphore::new(LOOKUPS_MAX),
            share,
            config,
        }))
    }

    /// The memory that frames of all connections may take.
    pub(crate) fn budget(&self) -> &SharedBudget {
        &self.budget
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<u64, Arc<Session<S>>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a new session, which a stranger does not guess.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new_session_id(&self) -> Result<u64, getrandom::Error> {
        loop {
            let id = getrandom::u64()?;
            // 0 begins a session, and all ones mean that of the request before.
            if id != 0 && id != u64::MAX && !self.sessions().contains_key(&id) {
                return Ok(id);
            }
        }
    }

    /// A number for a new open.
    pub fn new_file_id(&self) -> FileId {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        FileId { persistent: number, volatile: number }
    }

    /// Adds a session.
    pub fn add_session(&self, session: Arc<Session<S>>) {
        self.sessions().insert(session.id, session);
    }

    /// The session with this number.
    pub fn session(&self, id: u64) -> Option<Arc<Session<S>>> {
        self.sessions().get(&id).cloned()
    }

    /// Removes a session, which the caller ends.
    pub(crate) fn remove_session(&self, id: u64) -> Option<Arc<Session<S>>> {
        self.sessions().remove(&id)
    }

    /// Ends a session, and closes its opens (invariant 2), also durable ones.
    pub async fn end_session(&self, id: u64) {
        let Some(session) = self.remove_session(id) else { return };
        for open in session.end() {
            close_open(self, &session, &open).await;
        }
    }

    /// Ends a session whose session of the metadata server has ended, so that the client's next
    /// logon begins both again.
    pub(crate) async fn end_lost_session(&self, session: &Session<S>) {
        tracing::info!(session = session.id, "its session of the metadata server has ended");
        self.machines.forget(session.machine());
        self.end_session(session.id).await;
    }

    /// Ends all sessions, and closes opens whose client is disconnected. Called at the end, after
    /// all listeners have ended.
    pub async fn end_all_sessions(&self) {
        let ids: Vec<_> = self.sessions().keys().copied().collect();
        for id in ids {
            self.end_session(id).await;
        }
        for one in self.disconnected.take_all() {
            close_open(self, &one.session, &one.open).await;
        }
    }
}
