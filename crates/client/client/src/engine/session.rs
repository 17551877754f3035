//! The session: the state of this client at all servers of the cluster.

use std::sync::Mutex;

use braid_types::{ClusterUuid, KeyId, MdsEpoch, SessionId};
use braid_wire::{Credential, Secret, message::mds::OpenSessionReply, message::types::Identity};

use super::{semaphore::lock, slots::Slots};

/// One session of one client. Outlives connections and restarts of the metadata server.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// Replay slots (I7). They are valid for the whole session, on every connection.
    pub(crate) slots: Slots,
    pub(crate) silent_ms_max: u32,
    /// Whether it may act as other identities.
    pub(crate) vouches: bool,
    /// The identity of the caller, according to the server.
    pub(crate) identity: Identity,
    pub(crate) cluster: Option<ClusterUuid>,
    proof: Mutex<SessionProof>,
}

/// The proof for I/O daemons. New in every epoch of the metadata server.
#[derive(Clone, Debug)]
struct SessionProof {
    key: KeyId,
    user: Option<u64>,
    epoch: MdsEpoch,
    secret: Secret,
}

impl Session {
    /// `sequence` is the last number that another holder of the session may have used in a slot, 0
    /// for a new session.
    pub(crate) fn new(
        reply: &OpenSessionReply,
        cluster: Option<ClusterUuid>,
        sequence: u64,
    ) -> Self {
        Self {
            id: reply.session,
            slots: Slots::new(reply.slots, sequence),
            silent_ms_max: reply.silent_ms_max,
            vouches: reply.vouches,
            identity: reply.identity.clone(),
            cluster,
            proof: Mutex::new(SessionProof::new(reply)),
        }
    }

    /// Takes the proof of a reclaimed session from the reply.
    pub(crate) fn reclaimed(&self, reply: &OpenSessionReply) {
        *lock(&self.proof) = SessionProof::new(reply);
    }

    pub(crate) fn epoch(&self) -> MdsEpoch {
        lock(&self.proof).epoch
    }

    /// The proof of the session for I/O daemons.
    pub(crate) fn credential(&self) -> (Credential, Secret) {
        let proof = lock(&self.proof);
        (
            Credential::Session {
                session: self.id,
                key: proof.key,
                user: proof.user,
                epoch: proof.epoch,
            },
            proof.secret.clone(),
        )
    }
}

impl SessionProof {
    fn new(reply: &OpenSessionReply) -> Self {
        Self {
            key: reply.key,
            user: reply.user,
            epoch: reply.epoch,
            secret: Secret::from_bytes(reply.secret),
        }
    }
}
