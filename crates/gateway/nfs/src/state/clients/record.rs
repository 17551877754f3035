//! One client.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use braid_nfs_wire::nfs4::{Bitmap, ClientId, Verifier};
use bytes::Bytes;

use crate::state::{Moment, Principal};

/// What the server keeps with a confirmed client.
pub trait ClientData: Send + Sync + 'static {
    /// Whether the client has opens, locks, delegations or layouts.
    fn has_state(&self) -> bool;
}

/// State protection that the client asked for. RFC 8881 2.10.8.3.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Protection {
    /// `SP4_NONE`.
    #[default]
    None,
    /// `SP4_MACH_CRED`.
    MachineCredential {
        /// Operations that only the principal of EXCHANGE_ID may send.
        enforced: Bitmap,
        /// Operations that it may send for other principals.
        allowed: Bitmap,
    },
}

/// A client: one instance of an owner. It is shared by its sessions and the requests that run.
#[derive(Debug)]
pub struct Client<D> {
    id: ClientId,
    owner: Bytes,
    verifier: Verifier,
    principal: Principal,
    protection: Protection,
    /// The last moment at which a request renewed the lease.
    renewed: AtomicU64,
    /// Bits of [`SequenceStatus`] that concern the client.
    reclaim_complete: AtomicBool,
    /// Set by confirmation.
    data: OnceLock<D>,
}

impl<D> Client<D> {
    pub(super) fn new(
        id: ClientId,
        owner: Bytes,
        verifier: Verifier,
        principal: Principal,
        protection: Protection,
        now: Moment,
    ) -> Self {
        Self {
            id,
            owner,
            verifier,
            principal,
            protection,
            renewed: AtomicU64::new(now.0),
            reclaim_complete: AtomicBool::new(false),
            data: OnceLock::new(),
        }
    }

    /// The number of the client.
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// The owner that the client named, `co_ownerid`.
    pub fn owner(&self) -> &Bytes {
        &self.owner
    }

    /// The instance of the owner, `co_verifier`.
    pub fn verifier(&self) -> Verifier {
        self.verifier
    }

    /// The principal of the EXCHANGE_ID that made the record.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// State protection.
    pub fn protection(&self) -> &Protection {
        &self.protection
    }

    /// What the server keeps with the client; `None` until it is confirmed.
    pub fn data(&self) -> Option<&D> {
        self.data.get()
    }

    /// Confirms the client. Fails with `data` if it was confirmed before.
    pub(super) fn set_data(&self, data: D) -> Result<(), D> {
        self.data.set(data)
    }

    /// Renews the lease.
    pub fn renew(&self, now: Moment) {
        self.renewed.fetch_max(now.0, Ordering::Relaxed);
    }

    /// The last renewal.
    pub fn renewed(&self) -> Moment {
        Moment(self.renewed.load(Ordering::Relaxed))
    }

    /// Whether the lease has passed.
    pub fn is_expired(&self, now: Moment, lease: Duration) -> bool {
        now.since(self.renewed()) > lease
    }

    /// Whether the client has sent RECLAIM_COMPLETE.
    pub fn has_reclaimed(&self) -> bool {
        self.reclaim_complete.load(Ordering::Acquire)
    }

    /// Notes RECLAIM_COMPLETE; `false` if it was noted before.
    pub fn complete_reclaim(&self) -> bool {
        !self.reclaim_complete.swap(true, Ordering::AcqRel)
    }
}
