//! Which key a peer must prove, and what that key may do.

use std::collections::HashMap;

use braid_meta::ClientKey;
use braid_net::server::Authorizer;
use braid_types::{Failure, FileIndex, KeyId, SessionId, Status};
use braid_wire::{Credential, Role, Secret, Ticket, message::mds::KeyRights};

use crate::{
    connection::{Connection, RegisteredConnection},
    core::{MdsCore, MdsState},
};

impl Authorizer for MdsCore {
    fn secret(&self, role: Role, credential: &Credential) -> Result<Secret, Failure> {
        match (role, credential) {
            (Role::Iod | Role::Mds | Role::Admin, Credential::Server) => {}
            (Role::Client, Credential::Client(key)) => drop(self.state().keys.rights(*key)?),
            (Role::Admin, Credential::Client(key)) if self.state().keys.rights(*key)?.admin => {}
            (Role::Client, Credential::Ticket(ticket)) => {
                self.state().check_ticket(ticket, self.epoch.0)?
            }
            // The same answer for every wrong pair: a peer learns nothing about which keys exist.
            _ => return Err(refused("this key does not prove this role")),
        }
        Ok(credential.secret(&self.key))
    }
}

impl MdsCore {
    /// The rights of a proved credential, and the directory at which its paths start.
    pub(crate) fn rights_of(
        &self,
        credential: &Credential,
    ) -> Result<(KeyRights, FileIndex), Failure> {
        let Some(key) = client_key(credential) else {
            return Ok((KeyRights { admin: true, ..KeyRights::full() }, FileIndex::ROOT));
        };
        let rights = self.state().keys.rights(key)?;
        if rights.subtree.is_empty() {
            return Ok((rights, FileIndex::ROOT));
        }
        let top = self.namespace.resolve(
            &braid_meta::Identity::root(),
            FileIndex::ROOT,
            &rights.subtree,
            true,
        );
        let top = top.map_err(|failure| {
            Failure::new(failure.status, format!("the subtree of key {key}: {failure}"))
        })?;
        if !top.is_directory() {
            return Err(Failure::new(Status::NotDirectory, format!("the subtree of key {key}")));
        }
        Ok((rights, top.file))
    }
}

/// The client key of a credential, or the key that signed its ticket.
fn client_key(credential: &Credential) -> Option<KeyId> {
    match credential {
        Credential::Client(key) => Some(*key),
        Credential::Ticket(ticket) => Some(ticket.key),
        _ => None,
    }
}

/// Client keys, and the connections that proved one. Under the server's lock.
///
/// Invariant: each connection of a client key is in the table from the check of its key until it is
/// gone, so that a revocation finds it: what it asks afterwards is refused.
pub(crate) struct KeyTable {
    keys: HashMap<KeyId, ClientKey>,
    connections: HashMap<u64, RegisteredConnection>,
}

impl KeyTable {
    pub(crate) fn new(keys: Vec<ClientKey>) -> Self {
        let keys = keys.into_iter().map(|key| (key.id, key)).collect();
        Self { keys, connections: HashMap::new() }
    }

    /// Adds a key, or replaces it.
    pub(crate) fn add(&mut self, key: ClientKey) {
        self.keys.insert(key.id, key);
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn contains(&self, key: KeyId) -> bool {
        self.keys.contains_key(&key)
    }

    /// Every key, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ClientKey> {
        self.keys.values()
    }

    /// Revokes a key: nothing is served any more on the connections that proved it.
    pub(crate) fn revoke(&mut self, key: KeyId) {
        if let Some(known) = self.keys.get_mut(&key) {
            known.revoked = true;
        }
        self.connections.values().for_each(|connection| connection.revoke(key));
    }

    /// Checks the key of a connection and adds the connection, under one lock: a later revocation
    /// finds the connection, and an earlier one is found here.
    pub(crate) fn register(&mut self, connection: &Connection) -> Result<(), Failure> {
        if let Some(key) = client_key(&connection.peer.credential) {
            self.rights(key)?;
        }
        self.connections.insert(connection.peer.connection, connection.registered());
        Ok(())
    }

    /// Removes a connection that is gone.
    pub(crate) fn unregister(&mut self, connection: &Connection) {
        self.connections.remove(&connection.peer.connection);
    }

    fn rights(&self, key: KeyId) -> Result<KeyRights, Failure> {
        match self.keys.get(&key) {
            Some(known) if !known.revoked => Ok(wire_rights(&known.rights)),
            _ => Err(refused("the key is not known or was revoked; try: braid key list")),
        }
    }
}

impl MdsState {
    fn check_ticket(&self, ticket: &Ticket, epoch: u64) -> Result<(), Failure> {
        self.keys.rights(ticket.key)?;
        let SessionId(agent) = ticket.agent_session;
        let alive = self.sessions.live.get(ticket.agent_session);
        let vouched = alive
            .is_some_and(|session| session.owner.key == ticket.key && session.owner.user.is_none());
        if ticket.epoch.0 != epoch || !vouched {
            return Err(refused(&format!(
                "the agent of the ticket (session {agent}) has ended; try: get a new ticket"
            )));
        }
        Ok(())
    }
}

pub(crate) fn wire_rights(rights: &braid_meta::KeyRights) -> KeyRights {
    KeyRights {
        read_only: rights.read_only,
        squash: rights.squash,
        subtree: rights.subtree.clone(),
        admin: rights.admin,
    }
}

pub(crate) fn stored_rights(rights: &KeyRights) -> braid_meta::KeyRights {
    braid_meta::KeyRights {
        read_only: rights.read_only,
        squash: rights.squash,
        subtree: rights.subtree.clone(),
        admin: rights.admin,
    }
}

fn refused(why: &str) -> Failure {
    Failure::new(Status::AuthenticationFailed, why)
}
