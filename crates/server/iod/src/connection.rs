//! The state of one connection: the rights of its peer, and its capability handles.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use braid_types::{
    ConnectionId, Failure, IodId, KeyId, SessionId, Status, limits::CAPABILITY_HANDLES_MAX,
};
use braid_wire::{Credential, Role, Secret};

use crate::{
    collective::Participation,
    connections::{ConnectionEntry, ConnectionTable},
    verified_capability::VerifiedCapability,
};

/// Memory for the capabilities of one connection, in bytes: part of the 2 MiB that a connection may
/// cost.
pub const CAPABILITY_MEMORY_BYTES_MAX: usize = 1 << 20;

/// The authenticated peer of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The role that it asked for.
    pub role: Role,
    /// The key that it proved.
    pub credential: Credential,
    /// The connection's id, which the peer knows too.
    pub id: ConnectionId,
}

/// What a peer may send, by role and key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PeerRights {
    /// A client: data calls, with capabilities of this session.
    Client(SessionId),
    /// The metadata server: everything.
    Mds,
    /// An administrator: calls that change nothing, and fsck.
    Admin,
    /// No rights.
    Nobody,
}

/// A user for whom a host vouched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct User {
    /// The host's key.
    pub(crate) key: KeyId,
    pub(crate) uid: u64,
}

/// State of one connection: its capability handles.
///
/// The table is limited in number and memory. The least recently used handles are evicted; the
/// client then gets [`Status::UnknownHandle`] and presents the capability again.
#[derive(Debug)]
pub struct ConnectionState {
    rights: PeerRights,
    /// The user whose ticket started the session.
    user: Option<User>,
    caller: Arc<ConnectionEntry>,
    handles: HashMap<u32, HandleEntry>,
    memory_bytes: usize,
    uses: u64,
    /// Collective requests in which its tasks take part.
    memberships: Arc<Mutex<Vec<Participation>>>,
}

#[derive(Debug)]
struct HandleEntry {
    capability: Arc<VerifiedCapability>,
    used: u64,
}

impl ConnectionState {
    /// A connection without handles, added to `callers`.
    pub(crate) fn new(peer: &Peer, callers: &ConnectionTable) -> Self {
        // Only the server key proves a metadata server: a client key that claims the role has no
        // rights.
        let rights = match (peer.role, &peer.credential) {
            (Role::Client, Credential::Session { session, .. }) => PeerRights::Client(*session),
            (Role::Mds, Credential::Server) => PeerRights::Mds,
            (Role::Admin, Credential::Server) => PeerRights::Admin,
            _ => PeerRights::Nobody,
        };
        let session = if let PeerRights::Client(session) = rights { Some(session) } else { None };
        let caller = callers.add(peer.id, session);
        let user = match peer.credential {
            Credential::Session { key, user, .. } => user.map(|uid| User { key, uid }),
            _ => None,
        };
        let (handles, memberships) = (HashMap::new(), Arc::default());
        Self { rights, user, caller, handles, memory_bytes: 0, uses: 0, memberships }
    }

    pub(crate) fn rights(&self) -> PeerRights {
        self.rights
    }

    /// The user whose ticket started its session; `None` for the holder of a key.
    pub(crate) fn user(&self) -> Option<User> {
        self.user
    }

    /// This connection in the table of connections.
    pub(crate) fn caller(&self) -> &ConnectionEntry {
        &self.caller
    }

    /// The same, for data calls.
    pub(crate) fn data_caller(&self) -> Result<&Arc<ConnectionEntry>, Failure> {
        match self.rights {
            PeerRights::Client(_) | PeerRights::Mds => Ok(&self.caller),
            PeerRights::Admin | PeerRights::Nobody => Err(Status::WrongRole.into()),
        }
    }

    /// Collective requests in which its tasks take part.
    pub(crate) fn participations(&self) -> &Arc<Mutex<Vec<Participation>>> {
        &self.memberships
    }

    /// Whether its client has abandoned it: nothing that arrives on it is carried out.
    pub fn is_abandoned(&self) -> bool {
        self.caller.is_abandoned()
    }

    /// The verified capability behind a handle. A capability that the call presents is verified
    /// first.
    ///
    /// # Errors
    /// [`Status::WrongRole`], [`Status::BadCapability`], [`Status::UnknownHandle`].
    pub(crate) fn capability(
        &mut self,
        handle: u32,
        present: &[u8],
        server_key: &Secret,
        iod: IodId,
    ) -> Result<Arc<VerifiedCapability>, Failure> {
        let session = self.data_caller()?.session();
        self.uses += 1;
        if present.is_empty() {
            let held = self.handles.get_mut(&handle).ok_or(Status::UnknownHandle)?;
            held.used = self.uses;
            return Ok(held.capability.clone());
        }
        let capability = VerifiedCapability::verify(present, server_key, iod)?;
        match session {
            Some(session) if session != capability.session => Err(Failure::new(
                Status::BadCapability,
                "the capability belongs to another session",
            )),
            _ => Ok(self.insert(handle, capability)),
        }
    }

    /// Removes a handle.
    pub(crate) fn release(&mut self, handle: u32) {
        if let Some(held) = self.handles.remove(&handle) {
            self.memory_bytes -= held.capability.memory_bytes();
        }
    }

    /// Number of handles.
    pub fn handles(&self) -> usize {
        self.handles.len()
    }

    fn insert(&mut self, handle: u32, capability: VerifiedCapability) -> Arc<VerifiedCapability> {
        self.release(handle);
        if self.handles.len() >= CAPABILITY_HANDLES_MAX
            || self.memory_bytes >= CAPABILITY_MEMORY_BYTES_MAX
        {
            self.evict_a_quarter();
        }
        self.memory_bytes += capability.memory_bytes();
        let capability = Arc::new(capability);
        self.handles
            .insert(handle, HandleEntry { capability: capability.clone(), used: self.uses });
        capability
    }

    /// Evicts a quarter, so that many calls share the cost of the search for the oldest.
    fn evict_a_quarter(&mut self) {
        let mut uses: Vec<u64> = self.handles.values().map(|held| held.used).collect();
        let quarter = uses.len() / 4;
        let (_, newest_to_go, _) = uses.select_nth_unstable(quarter);
        let newest_to_go = *newest_to_go;
        let old: Vec<u32> = self
            .handles
            .iter()
            .filter(|(_, held)| held.used <= newest_to_go)
            .map(|(handle, _)| *handle)
            .collect();
        old.into_iter().for_each(|handle| self.release(handle));
    }
}
