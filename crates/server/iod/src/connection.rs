//! One connection as the core sees it: who is on the other side, and which capabilities it has presented.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use braid_types::{
    ConnectionId, Failure, IodId, KeyId, SessionId, Status, limits::CAPABILITY_HANDLES_MAX,
};
use braid_wire::{Credential, Role, Secret};

use crate::{
    callers::{Caller, Callers},
    collective::Membership,
    grant::Grant,
};

/// Memory for the capabilities of one connection, in bytes: part of the 2 MiB that a connection may cost.
pub const CAPABILITY_MEMORY_BYTES_MAX: usize = 1 << 20;

/// Who the handshake proved the other side to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// What it wants to be.
    pub role: Role,
    /// Which key it proved.
    pub credential: Credential,
    /// The connection's id, which it knows too.
    pub id: ConnectionId,
}

/// What a peer may send, after role and key were weighed together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// A client: data calls, with capabilities of this session.
    Client(SessionId),
    /// The metadata server: everything.
    Mds,
    /// An administrator: what changes nothing, and fsck.
    Admin,
    /// Nobody who has business here.
    Nobody,
}

/// A user whom a host vouched for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct User {
    /// The host's key.
    pub(crate) key: KeyId,
    pub(crate) uid: u64,
}

/// State of one connection: its capability handles.
///
/// The table is bounded in number and memory. What is over goes, least recently used first: the client sees
/// [`Status::UnknownHandle`] and presents the capability again.
#[derive(Debug)]
pub struct ConnectionState {
    standing: Standing,
    /// Whose ticket started its session.
    user: Option<User>,
    caller: Arc<Caller>,
    handles: HashMap<u32, Held>,
    memory_bytes: usize,
    uses: u64,
    /// Collective requests that its tasks are in.
    memberships: Arc<Mutex<Vec<Membership>>>,
}

#[derive(Debug)]
struct Held {
    grant: Arc<Grant>,
    used: u64,
}

impl ConnectionState {
    /// A connection without handles, known to `callers` from now on.
    pub(crate) fn new(peer: &Peer, callers: &Callers) -> Self {
        // The server key alone makes a metadata server: a client key that claims the role is nobody.
        let standing = match (peer.role, &peer.credential) {
            (Role::Client, Credential::Session { session, .. }) => Standing::Client(*session),
            (Role::Mds, Credential::Server) => Standing::Mds,
            (Role::Admin, Credential::Server) => Standing::Admin,
            _ => Standing::Nobody,
        };
        let session = if let Standing::Client(session) = standing { Some(session) } else { None };
        let caller = callers.add(peer.id, session);
        let user = match peer.credential {
            Credential::Session { key, user, .. } => user.map(|uid| User { key, uid }),
            _ => None,
        };
        let (handles, memberships) = (HashMap::new(), Arc::default());
        Self { standing, user, caller, handles, memory_bytes: 0, uses: 0, memberships }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// The user whose ticket started its session; `None` for the holder of a key.
    pub(crate) fn user(&self) -> Option<User> {
        self.user
    }

    /// Who is at its other end.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Who makes its data calls.
    pub(crate) fn data_caller(&self) -> Result<&Arc<Caller>, Failure> {
        match self.standing {
            Standing::Client(_) | Standing::Mds => Ok(&self.caller),
            Standing::Admin | Standing::Nobody => Err(Status::WrongRole.into()),
        }
    }

    /// Collective requests that its tasks are in.
    pub(crate) fn memberships(&self) -> &Arc<Mutex<Vec<Membership>>> {
        &self.memberships
    }

    /// Whether its client has given it up: nothing that arrives on it will be done.
    pub fn is_abandoned(&self) -> bool {
        self.caller.is_abandoned()
    }

    /// The grant behind a handle, verified first when the call presents it.
    ///
    /// # Errors
    /// [`Status::WrongRole`], [`Status::BadCapability`], [`Status::UnknownHandle`].
    pub(crate) fn grant(
        &mut self,
        handle: u32,
        present: &[u8],
        server_key: &Secret,
        iod: IodId,
    ) -> Result<Arc<Grant>, Failure> {
        let session = self.data_caller()?.session();
        self.uses += 1;
        if present.is_empty() {
            let held = self.handles.get_mut(&handle).ok_or(Status::UnknownHandle)?;
            held.used = self.uses;
            return Ok(held.grant.clone());
        }
        let grant = Grant::verify(present, server_key, iod)?;
        match session {
            Some(session) if session != grant.session => {
                Err(Failure::new(Status::BadCapability, "it was made for another session"))
            }
            _ => Ok(self.keep(handle, grant)),
        }
    }

    /// Forgets a handle.
    pub(crate) fn release(&mut self, handle: u32) {
        if let Some(held) = self.handles.remove(&handle) {
            self.memory_bytes -= held.grant.memory_bytes();
        }
    }

    /// How many handles there are.
    pub fn handles(&self) -> usize {
        self.handles.len()
    }

    fn keep(&mut self, handle: u32, grant: Grant) -> Arc<Grant> {
        self.release(handle);
        if self.handles.len() >= CAPABILITY_HANDLES_MAX
            || self.memory_bytes >= CAPABILITY_MEMORY_BYTES_MAX
        {
            self.forget_a_quarter();
        }
        self.memory_bytes += grant.memory_bytes();
        let grant = Arc::new(grant);
        self.handles.insert(handle, Held { grant: grant.clone(), used: self.uses });
        grant
    }

    /// A quarter at a time, so that the search for the oldest is paid once in many calls.
    fn forget_a_quarter(&mut self) {
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
