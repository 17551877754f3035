//! What the server keeps with a confirmed client.

use std::fmt;
use std::sync::atomic::AtomicBool;

use braid_share::{AdoptedClient, Share, ShareClient};
use tokio::sync::Mutex;

use super::clients::ClientData;
use super::lock_waits::LockWaits;
use super::opens::States;
use super::reclaims::Reclaims;

/// A confirmed client's BraidFS session and protocol state. It ends with the client: the session's
/// end closes opens, removes locks, returns delegations and fences the handles of layouts.
pub struct ClientState<S: Share> {
    /// The session at the metadata server.
    pub share: S::Client,
    /// Opens, locks, layouts and delegations.
    pub states: States<<S::Client as ShareClient>::File>,
    /// What the client may reclaim after a restart of the gateway; `None` if nothing.
    pub(crate) reclaims: Mutex<Option<Reclaims>>,
    /// Waits for locks that were denied.
    pub lock_waits: LockWaits,
    /// Whether a task receives recalls of delegations.
    pub receives_recalls: AtomicBool,
    /// Whether the client is being asked to return some delegations.
    pub recalls_any: AtomicBool,
}

impl<S: Share> ClientState<S> {
    /// The state of a new client.
    pub fn new(share: S::Client, epoch: u32) -> Self {
        Self {
            share,
            states: States::new(epoch),
            reclaims: Mutex::new(None),
            lock_waits: LockWaits::default(),
            receives_recalls: AtomicBool::new(false),
            recalls_any: AtomicBool::new(false),
        }
    }

    /// The state of a client of the earlier start, which may reclaim what its session has.
    pub fn adopted(adopted: AdoptedClient<S::Client>, epoch: u32) -> Self {
        let AdoptedClient { client, opens, locks, .. } = adopted;
        let reclaims = Mutex::new(Some(Reclaims::new(opens, locks)));
        Self { reclaims, ..Self::new(client, epoch) }
    }

    /// Ends the client: its waits for locks, and with its session all its opens, locks, layouts and
    /// delegations.
    pub async fn end(&self) {
        self.lock_waits.close();
        self.share.clone().end().await;
    }

    /// The gateway stops: its next start continues the session.
    pub async fn leave(&self) {
        self.lock_waits.close();
        self.share.clone().leave().await;
    }
}

impl<S: Share> fmt::Debug for ClientState<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let session = self.share.session();
        f.debug_struct("ClientState").field("session", &session).finish_non_exhaustive()
    }
}

impl<S: Share> ClientData for ClientState<S> {
    fn has_state(&self) -> bool {
        !self.states.is_empty()
    }
}
