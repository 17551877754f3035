//! The table of sessions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use braid_nfs_wire::nfs4::SessionId;

use super::channel::{ChannelLimits, SLOTS_MAX, SLOTS_MIN};
use super::slots::SlotTable;
use crate::state::clients::Client;

/// Most bytes of cached replies that all sessions may use together: 64 KiB for each of 4096
/// clients. When the promised bytes reach it, new sessions get [`SLOTS_MIN`] slots.
pub const CACHED_REPLY_BYTES_TOTAL_MAX: u64 = 256 << 20;

/// A session. `B` is its back channel.
#[derive(Debug)]
pub struct Session<D, B> {
    id: SessionId,
    client: Arc<Client<D>>,
    fore: ChannelLimits,
    back: B,
    slots: Mutex<SlotTable>,
    destroyed: AtomicBool,
}

impl<D, B> Session<D, B> {
    /// A session of `client`.
    pub fn new(id: SessionId, client: Arc<Client<D>>, fore: ChannelLimits, back: B) -> Self {
        let slots = Mutex::new(SlotTable::new(fore.slots));
        Self { id, client, fore, back, slots, destroyed: AtomicBool::new(false) }
    }

    /// Its name.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Its client.
    pub fn client(&self) -> &Arc<Client<D>> {
        &self.client
    }

    /// Limits of the fore channel.
    pub fn fore(&self) -> &ChannelLimits {
        &self.fore
    }

    /// The back channel.
    pub fn back(&self) -> &B {
        &self.back
    }

    /// Calls `with` with the slots. Never across an await.
    pub fn with_slots<T>(&self, with: impl FnOnce(&mut SlotTable) -> T) -> T {
        with(&mut self.slots.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the session was destroyed. A compound that runs then ends as it began.
    pub fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    /// Bytes of cached replies that the session may use.
    fn cached_bytes_promised(&self) -> u64 {
        u64::from(self.fore.slots) * u64::from(self.fore.cached_reply_bytes)
    }
}

/// All sessions.
#[derive(Debug)]
pub struct SessionTable<D, B> {
    sessions: HashMap<SessionId, Arc<Session<D, B>>>,
    /// Bytes of cached replies that all sessions may use.
    promised: u64,
}

impl<D, B> Default for SessionTable<D, B> {
    fn default() -> Self {
        Self { sessions: HashMap::new(), promised: 0 }
    }
}

impl<D, B> SessionTable<D, B> {
    /// The session with this name.
    pub fn session(&self, id: &SessionId) -> Option<&Arc<Session<D, B>>> {
        self.sessions.get(id)
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there is no session.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Slots that the next session may have.
    pub fn slots_max(&self) -> u32 {
        if self.promised < CACHED_REPLY_BYTES_TOTAL_MAX { SLOTS_MAX } else { SLOTS_MIN }
    }

    /// Adds a session, whose name must be new.
    pub fn insert(&mut self, session: Arc<Session<D, B>>) {
        self.promised += session.cached_bytes_promised();
        let before = self.sessions.insert(session.id, session);
        assert!(before.is_none(), "names of sessions are 128 random bits");
    }

    /// Removes a session.
    pub fn remove(&mut self, id: &SessionId) -> Option<Arc<Session<D, B>>> {
        let session = self.sessions.remove(id)?;
        session.destroyed.store(true, Ordering::Release);
        self.promised -= session.cached_bytes_promised();
        Some(session)
    }
}
