//! Client keys: add, list, revoke.

use braid_types::{Failure, KeyId, Status};
use braid_wire::{
    Credential,
    message::mds::{KeyAdd, KeyAddReply, KeyInfo, KeyRevoke},
};

use crate::{
    authorize::{stored_rights, wire_rights},
    call::{Call, CallOutcome},
    core::MdsCore,
};

/// Keys of one cluster (I9).
const KEYS_MAX: usize = 4096;
/// Bytes of a key's name.
const NAME_BYTES_MAX: usize = 256;

impl MdsCore {
    pub(super) fn key_add(&self, call: Call, r: &KeyAdd) -> CallOutcome {
        let added = self.add_key(r);
        CallOutcome::from(call, added)
    }

    fn add_key(&self, r: &KeyAdd) -> Result<KeyAddReply, Failure> {
        if r.name.len() > NAME_BYTES_MAX || self.state().keys.len() >= KEYS_MAX {
            let detail = format!("at most {KEYS_MAX} keys with names of {NAME_BYTES_MAX} bytes");
            return Err(Failure::new(Status::LimitExceeded, detail));
        }
        if !r.rights.subtree.is_empty() {
            let root = braid_meta::Identity::root();
            let top = self.namespace.resolve(
                &root,
                braid_types::FileIndex::ROOT,
                &r.rights.subtree,
                true,
            )?;
            if !top.is_directory() {
                return Err(Failure::new(
                    Status::NotDirectory,
                    "the subtree of a key must be a directory",
                ));
            }
        }
        // The secret is derived from the server key and the id: nothing secret is stored.
        let key = self.namespace.add_client_key(
            &r.name,
            &[],
            stored_rights(&r.rights),
            self.env.clock.wall(),
        )?;
        self.namespace.sync()?;
        let (id, secret) = (key.id, Credential::Client(key.id).secret(&self.key).to_bytes());
        self.state().keys.add(key);
        Ok(KeyAddReply { key: id, secret })
    }

    pub(super) fn key_list(&self, call: Call) -> CallOutcome {
        let keys = self.list_keys();
        CallOutcome::from(call, Ok(keys))
    }

    fn list_keys(&self) -> Vec<KeyInfo> {
        let state = self.state();
        let sessions = |key: KeyId| {
            state.sessions.live.iter().filter(|session| session.owner.key == key).count() as u32
        };
        let mut keys: Vec<KeyInfo> = state
            .keys
            .iter()
            .map(|key| KeyInfo {
                key: key.id,
                name: key.name.clone(),
                rights: wire_rights(&key.rights),
                revoked: key.revoked,
                sessions: sessions(key.id),
            })
            .collect();
        keys.sort_by_key(|key| key.key);
        keys
    }

    pub(super) fn key_revoke(&self, call: Call, r: &KeyRevoke) -> CallOutcome {
        match (self.revoke_key(r.key), self.arc()) {
            (Ok(()), Some(me)) => {
                me.answer_when_fenced(call);
                CallOutcome::Pending
            }
            (revoked, _) => CallOutcome::from(call, revoked),
        }
    }

    /// Revokes a key and ends its sessions. Once the newest fence holds on every daemon, they
    /// refuse every session that the key ever had: those that closed before are fenced already.
    fn revoke_key(&self, key: KeyId) -> Result<(), Failure> {
        if !self.state().keys.contains(key) {
            return Err(Failure::new(Status::NotFound, format!("key {key}; try: braid key list")));
        }
        self.namespace.revoke_client_key(key)?;
        self.namespace.sync()?;
        let sessions = {
            let mut state = self.state();
            state.keys.revoke(key);
            state.sessions.live.select(|session| session.owner.key == key)
        };
        if let Some(me) = self.arc() {
            me.end_and_fence(&sessions);
        }
        Ok(())
    }
}
