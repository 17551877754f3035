//! Which key a peer must prove, and what that key may do.

use braid_net::server::Authorizer;
use braid_types::{Failure, FileIndex, KeyId, SessionId, Status};
use braid_wire::{Credential, Role, Secret, Ticket, message::mds::KeyRights};

use crate::{
    connection::Connection,
    core::{MdsCore, State},
};

impl Authorizer for MdsCore {
    fn secret(&self, role: Role, credential: &Credential) -> Result<Secret, Failure> {
        match (role, credential) {
            (Role::Iod | Role::Mds | Role::Admin, Credential::Server) => {}
            (Role::Client, Credential::Client(key)) => drop(self.state().rights(*key)?),
            (Role::Admin, Credential::Client(key)) if self.state().rights(*key)?.admin => {}
            (Role::Client, Credential::Ticket(ticket)) => {
                self.state().check_ticket(ticket, self.epoch.0)?
            }
            // One answer for every wrong pair: a peer learns nothing about which keys there are.
            _ => return Err(refused("this key does not prove this role")),
        }
        Ok(credential.secret(&self.key))
    }
}

impl MdsCore {
    /// Rights of a proved credential, and the directory that its paths start at.
    pub(crate) fn rights_of(
        &self,
        credential: &Credential,
    ) -> Result<(KeyRights, FileIndex), Failure> {
        let Some(key) = client_key(credential) else {
            return Ok((KeyRights { admin: true, ..KeyRights::full() }, FileIndex::ROOT));
        };
        let rights = self.state().rights(key)?;
        if rights.subtree.is_empty() {
            return Ok((rights, FileIndex::ROOT));
        }
        let top = self.names.resolve(
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

/// The client key that a credential is, or that vouches for it.
fn client_key(credential: &Credential) -> Option<KeyId> {
    match credential {
        Credential::Client(key) => Some(*key),
        Credential::Ticket(ticket) => Some(ticket.key),
        _ => None,
    }
}

impl State {
    /// From here on a revocation of its key finds a connection; one that came before is found here.
    pub(crate) fn register(&mut self, connection: &Connection) -> Result<(), Failure> {
        if let Some(key) = client_key(&connection.peer.credential) {
            self.rights(key)?;
        }
        self.connections.insert(connection.peer.connection, connection.standing());
        Ok(())
    }

    fn rights(&self, key: KeyId) -> Result<KeyRights, Failure> {
        match self.keys.get(&key) {
            Some(known) if !known.revoked => Ok(wire_rights(&known.rights)),
            _ => Err(refused("the key is not known or was revoked; try: braid key list")),
        }
    }

    fn check_ticket(&self, ticket: &Ticket, epoch: u64) -> Result<(), Failure> {
        self.rights(ticket.key)?;
        let SessionId(agent) = ticket.agent_session;
        let alive = self.sessions.live(ticket.agent_session);
        let vouched = alive
            .is_some_and(|session| session.owner.key == ticket.key && session.owner.user.is_none());
        if ticket.epoch.0 != epoch || !vouched {
            return Err(refused(&format!(
                "the ticket's agent (session {agent}) is gone; try: ask the agent for a new one"
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
