//! The table of clients.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use braid_nfs_wire::nfs4::{ClientId, NfsStatus, SessionId, Verifier};
use bytes::Bytes;

use super::record::{Client, ClientData, Protection};
use crate::state::{Moment, Principal};

/// Most confirmed clients: 16384 times 64 KiB is 1 GiB, the most that one gateway should need.
pub const CLIENTS_MAX: usize = 16384;
/// Most unconfirmed clients. The oldest one is replaced, so a flood of EXCHANGE_ID costs only
/// memory for this many.
pub const UNCONFIRMED_CLIENTS_MAX: usize = 1024;
/// Most sessions of a client. Linux has one for each server; trunked mounts of others a few.
pub const SESSIONS_PER_CLIENT_MAX: usize = 16;

/// Arguments of EXCHANGE_ID that select a record.
#[derive(Clone, Debug)]
pub struct ExchangeRequest {
    /// `co_ownerid`.
    pub owner: Bytes,
    /// `co_verifier`.
    pub verifier: Verifier,
    /// Whether `EXCHGID4_FLAG_UPD_CONFIRMED_REC_A` is set.
    pub update: bool,
    /// State protection.
    pub protection: Protection,
}

/// The record that EXCHANGE_ID returned.
#[derive(Debug)]
pub struct Exchanged<D> {
    /// The client.
    pub client: Arc<Client<D>>,
    /// Sequence number of the next CREATE_SESSION.
    pub sequence: u32,
    /// Whether the record is confirmed.
    pub confirmed: bool,
    /// The record of another principal that was removed (case 3).
    pub removed: Option<Removed<D>>,
}

/// A client that is no longer in the table. Its sessions are to be removed, and its data ended.
#[derive(Debug)]
pub struct Removed<D> {
    /// The client.
    pub client: Arc<Client<D>>,
    /// Its sessions.
    pub sessions: Vec<SessionId>,
}

/// What CREATE_SESSION does next.
#[derive(Debug)]
pub enum BeginSession<D, R> {
    /// Nothing: this is the reply of the same call.
    Replay(R),
    /// The session is made. [`ClientTable::finish_session`] or [`ClientTable::abandon_session`]
    /// follows, after [`ClientTable::confirm`] if the client has no data.
    Create(Arc<Client<D>>),
}

#[derive(Debug)]
struct Entry<D, R> {
    client: Arc<Client<D>>,
    confirmed: bool,
    /// Sequence number of the last CREATE_SESSION that was executed.
    sequence: u32,
    /// Its reply. RFC 8881 18.36.4: a slot of its own, with one reply.
    reply: Option<R>,
    /// Whether a CREATE_SESSION with the next number runs now.
    creating: bool,
    sessions: Vec<SessionId>,
}

#[derive(Clone, Copy, Default, Debug)]
struct OwnerRecords {
    confirmed: Option<ClientId>,
    unconfirmed: Option<ClientId>,
}

/// All clients. `D` is kept with a confirmed client, `R` is a reply of CREATE_SESSION.
#[derive(Debug)]
pub struct ClientTable<D, R> {
    entries: HashMap<ClientId, Entry<D, R>>,
    owners: HashMap<Bytes, OwnerRecords>,
    unconfirmed: usize,
    /// Upper half of all client numbers.
    gateway: u32,
    /// Lower half of the last client number.
    counter: u32,
    lease: Duration,
    clients_max: usize,
}

impl<D: ClientData, R: Clone> ClientTable<D, R> {
    /// An empty table. `gateway` differs between gateways and between two starts of one;
    /// `clients_max` is at most [`CLIENTS_MAX`].
    pub fn new(gateway: u32, lease: Duration, clients_max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            owners: HashMap::new(),
            unconfirmed: 0,
            gateway,
            counter: 0,
            lease,
            clients_max: clients_max.min(CLIENTS_MAX),
        }
    }

    /// Number of confirmed clients.
    pub fn confirmed(&self) -> usize {
        self.entries.len() - self.unconfirmed
    }

    /// The client with this number, confirmed or not.
    pub fn client(&self, id: ClientId) -> Option<&Arc<Client<D>>> {
        self.entries.get(&id).map(|entry| &entry.client)
    }

    /// All confirmed clients.
    pub fn all_confirmed(&self) -> impl Iterator<Item = &Arc<Client<D>>> {
        self.entries.values().filter(|entry| entry.confirmed).map(|entry| &entry.client)
    }

    /// EXCHANGE_ID. The numbers of the cases are those of RFC 8881 18.35.4.
    ///
    /// # Errors
    /// `CLID_INUSE`, `NOENT`, `NOT_SAME`, `PERM`.
    pub fn exchange_id(
        &mut self,
        request: &ExchangeRequest,
        principal: &Principal,
        now: Moment,
    ) -> Result<Exchanged<D>, NfsStatus> {
        let records = self.owners.get(&request.owner).copied().unwrap_or_default();
        let confirmed = records.confirmed.map(|id| &self.entries[&id]);
        if request.update {
            return match confirmed {
                None => Err(NfsStatus::NoEnt), // case 7
                Some(entry) if entry.client.principal() != principal => Err(NfsStatus::Perm), // 9
                Some(entry) if entry.client.verifier() != request.verifier => {
                    Err(NfsStatus::NotSame) // case 8
                }
                Some(entry) => {
                    // Case 6: nothing of a record can be changed but the implementation's name.
                    entry.client.renew(now);
                    Ok(entry.exchanged(None))
                }
            };
        }
        let mut removed = None;
        if let Some(entry) = confirmed {
            if entry.client.principal() != principal {
                // Case 3: the owner belongs to another principal, unless nothing is left of it.
                if entry.has_state() && !entry.client.is_expired(now, self.lease) {
                    return Err(NfsStatus::ClidInUse);
                }
                let id = entry.client.id();
                removed = self.remove(id);
            } else if entry.client.verifier() == request.verifier {
                // Case 2: a retry, or another connection of the same instance.
                entry.client.renew(now);
                return Ok(entry.exchanged(None));
            }
            // Case 5: a new instance. The record of the former one remains until CREATE_SESSION.
        }
        if let Some(old) = records.unconfirmed {
            self.remove(old); // case 4
        }
        self.make_space_for_unconfirmed(now);
        // Case 1, and the rest of the cases 3, 4 and 5.
        let id = self.next_id();
        // A copy: the owner would keep the whole received record in memory.
        let owner = Bytes::copy_from_slice(&request.owner);
        let client = Client::new(
            id,
            owner.clone(),
            request.verifier,
            principal.clone(),
            request.protection.clone(),
            now,
        );
        let entry = Entry {
            client: Arc::new(client),
            confirmed: false,
            sequence: 0,
            reply: None,
            creating: false,
            sessions: Vec::new(),
        };
        let exchanged = entry.exchanged(removed);
        self.entries.insert(id, entry);
        self.owners.entry(owner).or_default().unconfirmed = Some(id);
        self.unconfirmed += 1;
        Ok(exchanged)
    }

    fn next_id(&mut self) -> ClientId {
        loop {
            self.counter = self.counter.wrapping_add(1);
            let id = ClientId(u64::from(self.gateway) << 32 | u64::from(self.counter));
            // Invariant 3 until 2^32 clients were seen; then numbers in use are skipped.
            if self.counter != 0 && !self.entries.contains_key(&id) {
                return id;
            }
        }
    }

    /// RFC 8881 18.35.4: an unconfirmed record that is not confirmed within a lease period is
    /// removed. If there are too many of younger ones, the oldest is removed.
    fn make_space_for_unconfirmed(&mut self, now: Moment) {
        if self.unconfirmed < UNCONFIRMED_CLIENTS_MAX {
            return;
        }
        self.remove_unconfirmed_expired(now);
        if self.unconfirmed >= UNCONFIRMED_CLIENTS_MAX {
            let unconfirmed = self.entries.values().filter(|entry| !entry.confirmed);
            let oldest =
                unconfirmed.min_by_key(|entry| (entry.client.renewed(), entry.client.id()));
            if let Some(id) = oldest.map(|entry| entry.client.id()) {
                self.remove(id);
            }
        }
    }

    /// Removes unconfirmed clients whose lease has passed.
    pub fn remove_unconfirmed_expired(&mut self, now: Moment) {
        let expired: Vec<_> = self
            .entries
            .values()
            .filter(|entry| !entry.confirmed && entry.client.is_expired(now, self.lease))
            .map(|entry| entry.client.id())
            .collect();
        for id in expired {
            self.remove(id);
        }
    }

    /// The first steps of CREATE_SESSION. RFC 8881 18.36.4: client record lookup and processing of
    /// the sequence number.
    ///
    /// # Errors
    /// `STALE_CLIENTID`, `SEQ_MISORDERED`, `CLID_INUSE`; `DELAY` while the same call runs, and when
    /// the client has too many sessions.
    pub fn begin_session(
        &mut self,
        id: ClientId,
        sequence: u32,
        principal: &Principal,
        now: Moment,
    ) -> Result<BeginSession<D, R>, NfsStatus> {
        let lease = self.lease;
        let entry = self.entries.get_mut(&id).ok_or(NfsStatus::StaleClientId)?;
        if !entry.confirmed && entry.client.is_expired(now, lease) {
            self.remove(id);
            return Err(NfsStatus::StaleClientId);
        }
        if sequence == entry.sequence {
            // A retry. Before the first call there is no reply to repeat.
            let reply = entry.reply.clone().ok_or(NfsStatus::SeqMisordered)?;
            return Ok(BeginSession::Replay(reply));
        }
        if sequence != entry.sequence.wrapping_add(1) {
            return Err(NfsStatus::SeqMisordered);
        }
        // RFC 8881 18.36.4: only the principal that made an unconfirmed record confirms it.
        if !entry.confirmed && entry.client.principal() != principal {
            return Err(NfsStatus::ClidInUse);
        }
        if entry.creating || entry.sessions.len() >= SESSIONS_PER_CLIENT_MAX {
            return Err(NfsStatus::Delay);
        }
        entry.creating = true;
        entry.client.renew(now);
        Ok(BeginSession::Create(Arc::clone(&entry.client)))
    }

    /// Confirms a client with the data that was made for it. Returns the records that it replaces:
    /// the former instance of the owner (case 5), and an expired client if there was no space.
    ///
    /// # Errors
    /// `data` with `STALE_CLIENTID` if the record was replaced meanwhile, or with `DELAY` if there
    /// are too many clients.
    pub fn confirm(
        &mut self,
        id: ClientId,
        data: D,
        now: Moment,
    ) -> Result<Vec<Removed<D>>, (NfsStatus, D)> {
        let Some(entry) = self.entries.get(&id) else {
            return Err((NfsStatus::StaleClientId, data));
        };
        let client = Arc::clone(&entry.client);
        if entry.confirmed {
            return Err((NfsStatus::StaleClientId, data));
        }
        let records = self.owners.get(client.owner()).copied().unwrap_or_default();
        let mut removed = Vec::new();
        if let Some(old) = records.confirmed {
            removed.extend(self.remove(old));
        } else if self.confirmed() >= self.clients_max {
            match self.remove_longest_expired(now) {
                Some(expired) => removed.push(expired),
                None => return Err((NfsStatus::Delay, data)),
            }
        }
        client.set_data(data).map_err(|data| (NfsStatus::StaleClientId, data))?;
        client.renew(now);
        let entry = self.entries.get_mut(&id).expect("only other clients were removed");
        entry.confirmed = true;
        self.unconfirmed -= 1;
        let records = self.owners.entry(client.owner().clone()).or_default();
        *records = OwnerRecords { confirmed: Some(id), unconfirmed: None };
        Ok(removed)
    }

    /// Ends CREATE_SESSION without a session. The same sequence number is used again.
    pub fn abandon_session(&mut self, id: ClientId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.creating = false;
        }
    }

    /// Ends CREATE_SESSION with a session, and keeps the reply.
    ///
    /// # Errors
    /// `STALE_CLIENTID` if the client was removed meanwhile.
    pub fn finish_session(
        &mut self,
        id: ClientId,
        session: SessionId,
        reply: R,
    ) -> Result<(), NfsStatus> {
        let entry = self.entries.get_mut(&id).ok_or(NfsStatus::StaleClientId)?;
        assert!(entry.creating && entry.confirmed, "CREATE_SESSION ends in order");
        entry.creating = false;
        entry.sequence = entry.sequence.wrapping_add(1);
        entry.reply = Some(reply);
        entry.sessions.push(session);
        Ok(())
    }

    /// The sessions of a client.
    pub fn sessions_of(&self, id: ClientId) -> &[SessionId] {
        self.entries.get(&id).map_or(&[], |entry| &entry.sessions)
    }

    /// Notes that a session of a client no longer exists.
    pub fn forget_session(&mut self, id: ClientId, session: SessionId) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.sessions.retain(|other| *other != session);
        }
    }

    /// DESTROY_CLIENTID. RFC 8881 18.50.3.
    ///
    /// # Errors
    /// `STALE_CLIENTID`, `CLIENTID_BUSY`.
    pub fn destroy(&mut self, id: ClientId) -> Result<Removed<D>, NfsStatus> {
        let entry = self.entries.get(&id).ok_or(NfsStatus::StaleClientId)?;
        if entry.has_state() || entry.creating {
            return Err(NfsStatus::ClientIdBusy);
        }
        self.remove(id).ok_or(NfsStatus::StaleClientId)
    }

    /// Removes a confirmed client if its lease has passed: its state conflicts with another
    /// client's.
    pub fn remove_if_expired(&mut self, id: ClientId, now: Moment) -> Option<Removed<D>> {
        let entry = self.entries.get(&id)?;
        (entry.confirmed && entry.client.is_expired(now, self.lease))
            .then(|| self.remove(id))
            .flatten()
    }

    /// Removes the confirmed client whose lease passed first, if there is one.
    pub fn remove_longest_expired(&mut self, now: Moment) -> Option<Removed<D>> {
        let expired = self.entries.values().filter(|entry| {
            entry.confirmed && !entry.creating && entry.client.is_expired(now, self.lease)
        });
        let first = expired.min_by_key(|entry| (entry.client.renewed(), entry.client.id()))?;
        let id = first.client.id();
        self.remove(id)
    }

    /// Removes all clients, at the end of the gateway.
    pub fn remove_all(&mut self) -> Vec<Removed<D>> {
        let ids: Vec<_> = self.entries.keys().copied().collect();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    fn remove(&mut self, id: ClientId) -> Option<Removed<D>> {
        let entry = self.entries.remove(&id)?;
        let owner = entry.client.owner();
        if let Some(records) = self.owners.get_mut(owner) {
            records.confirmed = records.confirmed.filter(|other| *other != id);
            records.unconfirmed = records.unconfirmed.filter(|other| *other != id);
            if records.confirmed.is_none() && records.unconfirmed.is_none() {
                self.owners.remove(owner);
            }
        }
        self.unconfirmed -= usize::from(!entry.confirmed);
        Some(Removed { client: entry.client, sessions: entry.sessions })
    }
}

impl<D: ClientData, R> Entry<D, R> {
    fn has_state(&self) -> bool {
        !self.sessions.is_empty() || self.client.data().is_some_and(ClientData::has_state)
    }

    fn exchanged(&self, removed: Option<Removed<D>>) -> Exchanged<D> {
        Exchanged {
            client: Arc::clone(&self.client),
            sequence: self.sequence.wrapping_add(1),
            confirmed: self.confirmed,
            removed,
        }
    }
}
