//! The session: who this client is to every server of the cluster.

use std::sync::Mutex;

use braid_types::{ClusterUuid, KeyId, MdsEpoch, SessionId};
use braid_wire::{Credential, Secret, message::mds::OpenSessionReply, message::types::Identity};

use super::{gate::lock, slots::Slots};

/// One session of one client. Outlives connections, and restarts of the metadata server.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// Replay slots (I7). They last as long as the session, over every connection.
    pub(crate) slots: Slots,
    pub(crate) silent_ms_max: u32,
    /// Whether it may name other identities.
    pub(crate) vouches: bool,
    /// Who the caller is, as the server sees it.
    pub(crate) identity: Identity,
    pub(crate) cluster: Option<ClusterUuid>,
    proof: Mutex<SessionProof>,
}

/// What I/O daemons are shown. New with every epoch of the metadata server.
#[derive(Clone, Debug)]
struct SessionProof {
    key: KeyId,
    user: Option<u64>,
    epoch: MdsEpoch,
    secret: Secret,
}

impl Session {
    pub(crate) fn new(reply: &OpenSessionReply, cluster: Option<ClusterUuid>) -> Self {
        Self {
            id: reply.session,
            slots: Slots::new(reply.slots),
            silent_ms_max: reply.silent_ms_max,
            vouches: reply.vouches,
            identity: reply.identity.clone(),
            cluster,
            proof: Mutex::new(SessionProof::new(reply)),
        }
    }

    /// Takes over the proof of a reclaimed session.
    pub(crate) fn reclaimed(&self, reply: &OpenSessionReply) {
        *lock(&self.proof) = SessionProof::new(reply);
    }

    pub(crate) fn epoch(&self) -> MdsEpoch {
        lock(&self.proof).epoch
    }

    /// What is proved to I/O daemons.
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
