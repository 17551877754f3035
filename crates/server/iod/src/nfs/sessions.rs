//! Clients, sessions and slots of a data server, without sockets and clock.
//!
//! A data server keeps no state of files, so a client that it has forgotten loses nothing: it makes
//! a new session. So nothing here is on disk, and clients that are idle longest make place for new
//! ones.
//!
//! Invariants:
//! 1. A request of a slot runs once. Its reply is cached, except that of a READ, which is repeated
//!    instead: a WRITE that arrives late on a connection that broke must not overwrite newer bytes
//!    (RFC 8881 2.10.6).
//! 2. Clients, their sessions, slots and cached replies are bounded (I9).
//! 3. Nobody guesses the session of another client: a request on a slot of it would be answered
//!    for the client's own next request, which would then not run.

use std::{collections::HashMap, sync::Arc};

use braid_nfs_wire::nfs4::{
    ClientId, CreateSessionFlags, NfsResult, NfsStatus, SequenceId, SequenceStatus, SessionId,
    SlotId, Verifier,
    args::{ChannelAttributes, CreateSessionArgs, SequenceArgs},
    results::{CreateSessionResult, SequenceResult},
};
use bytes::Bytes;

use super::random;

/// Clients that a data server knows; each takes about 1 KiB.
pub(super) const CLIENTS_MAX: usize = 4096;
/// Sessions of one client. Linux has one for each data server.
const CLIENT_SESSIONS_MAX: usize = 8;
/// Slots of a session. Linux asks for 64.
const SLOTS_MAX: u32 = 64;
/// Operations of a compound. Linux sends SEQUENCE, PUTFH and one more.
const OPERATIONS_MAX: u32 = 16;
/// Bytes of a request or reply: 1 MiB of data, and what is around it.
pub(super) const MESSAGE_BYTES_MAX: u32 = (1 << 20) + (4 << 10);
/// Bytes of a cached reply. Every reply but that of READ is shorter.
pub(super) const CACHED_BYTES_MAX: usize = 4096;
/// Bytes of all cached replies. Replies of correct clients have some 200 bytes, so this is enough
/// for all slots of [`CLIENTS_MAX`] clients with one session.
const CACHED_BYTES_TOTAL_MAX: usize = 64 << 20;

/// All clients and sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    /// Differs between two starts, so that ids of an earlier one are not found.
    boot: u64,
    clients: HashMap<Bytes, Client>,
    owners: HashMap<ClientId, Bytes>,
    sessions: HashMap<SessionId, ClientId>,
    next: u64,
    /// Rises with each use of a client.
    uses: u64,
    /// Bytes of all cached replies.
    cached_bytes: usize,
}

#[derive(Debug)]
struct Client {
    id: ClientId,
    verifier: Verifier,
    confirmed: bool,
    sequence: u32,
    last_created: Option<CreateSessionResult>,
    sessions: HashMap<SessionId, Vec<Slot>>,
    used: u64,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    sequence: u32,
    state: SlotState,
}

#[derive(Clone, Debug, Default)]
enum SlotState {
    #[default]
    Unused,
    Running,
    /// The results after the RPC header.
    Done(Option<Arc<[u8]>>),
}

/// What EXCHANGE_ID answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KnownClient {
    pub(super) id: ClientId,
    pub(super) sequence: SequenceId,
    pub(super) confirmed: bool,
}

/// What to do with a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum SlotAnswer {
    /// Run it, then call [`Sessions::finish`].
    Run(SequenceResult),
    /// It is a retry: send this again.
    Cached(Arc<[u8]>),
}

impl Sessions {
    pub(super) fn new(boot: [u8; 8]) -> Self {
        Self {
            boot: u64::from_be_bytes(boot),
            clients: HashMap::new(),
            owners: HashMap::new(),
            sessions: HashMap::new(),
            next: 1,
            uses: 0,
            cached_bytes: 0,
        }
    }

    /// RFC 8881 18.35.4, without principals: a client of a data server has nothing to protect.
    pub(super) fn exchange_id(&mut self, owner: &Bytes, verifier: Verifier) -> KnownClient {
        let uses = self.next_use();
        if let Some(known) = self.clients.get_mut(owner)
            && known.verifier == verifier
        {
            known.used = uses;
            return known.known();
        }
        // A new client, or one that has restarted.
        self.remove_owner(owner);
        if self.clients.len() >= CLIENTS_MAX {
            self.remove_idlest();
        }
        let id = ClientId(self.boot.wrapping_add(self.next_number()));
        let client = Client {
            id,
            verifier,
            confirmed: false,
            sequence: 0,
            last_created: None,
            sessions: HashMap::new(),
            used: uses,
        };
        let known = client.known();
        // The message's memory is not kept for the sake of some bytes.
        let owner = Bytes::copy_from_slice(owner);
        self.owners.insert(id, owner.clone());
        self.clients.insert(owner, client);
        known
    }

    /// RFC 8881 18.36.4.
    pub(super) fn create_session(
        &mut self,
        args: &CreateSessionArgs,
    ) -> NfsResult<CreateSessionResult> {
        let uses = self.next_use();
        // Invariant 3.
        let id = SessionId(random().map_err(|_| NfsStatus::Delay)?);
        let client = self.client(args.client_id)?;
        client.used = uses;
        match (args.sequence.0, client.last_created) {
            (sequence, Some(last)) if sequence == client.sequence => return Ok(last),
            (sequence, _) if sequence == client.sequence.wrapping_add(1) => {}
            _ => return Err(NfsStatus::SeqMisordered),
        }
        let fore = granted(&args.fore_channel)?;
        if client.sessions.len() >= CLIENT_SESSIONS_MAX {
            return Err(NfsStatus::NoSpc);
        }
        client.sequence = args.sequence.0;
        client.confirmed = true;
        client.sessions.insert(id, vec![Slot::default(); fore.max_requests as usize]);
        // RFC 8881 18.36.3: no back channel, since a data server recalls nothing, and no
        // persistence.
        let result = CreateSessionResult {
            session_id: id,
            sequence: args.sequence,
            flags: CreateSessionFlags::default(),
            fore_channel: fore,
            back_channel: args.back_channel,
        };
        client.last_created = Some(result);
        self.sessions.insert(id, args.client_id);
        Ok(result)
    }

    /// RFC 8881 18.46.3.
    pub(super) fn begin(&mut self, args: &SequenceArgs) -> NfsResult<SlotAnswer> {
        let uses = self.next_use();
        let slots = self.slots(&args.session_id, uses)?;
        let highest = SlotId(slots.len() as u32 - 1);
        let slot = slots.get_mut(args.slot_id.0 as usize).ok_or(NfsStatus::BadSlot)?;
        if args.sequence_id.0 == slot.sequence {
            match &slot.state {
                SlotState::Running => return Err(NfsStatus::Delay),
                SlotState::Done(Some(reply)) => return Ok(SlotAnswer::Cached(reply.clone())),
                // The reply of a READ was too long to be cached.
                SlotState::Done(None) => {}
                SlotState::Unused => return Err(NfsStatus::SeqMisordered),
            }
        } else if args.sequence_id.0 != slot.sequence.wrapping_add(1) {
            return Err(NfsStatus::SeqMisordered);
        } else if matches!(slot.state, SlotState::Running) {
            return Err(NfsStatus::Delay);
        }
        let before = slot.cached_bytes();
        *slot = Slot { sequence: args.sequence_id.0, state: SlotState::Running };
        self.cached_bytes -= before;
        Ok(SlotAnswer::Run(SequenceResult {
            session_id: args.session_id,
            sequence_id: args.sequence_id,
            slot_id: args.slot_id,
            highest_slot_id: highest,
            target_highest_slot_id: highest,
            status_flags: SequenceStatus::default(),
        }))
    }

    /// Ends the request of a slot. `reply` is cached; `None` for that of a READ.
    pub(super) fn finish(&mut self, args: &SequenceArgs, reply: Option<Arc<[u8]>>) {
        let uses = self.uses;
        let Ok(slots) = self.slots(&args.session_id, uses) else { return };
        if let Some(slot) = slots.get_mut(args.slot_id.0 as usize)
            && slot.sequence == args.sequence_id.0
        {
            debug_assert!(matches!(slot.state, SlotState::Running), "1: it runs once");
            slot.state = SlotState::Done(reply.filter(|reply| reply.len() <= CACHED_BYTES_MAX));
            let after = slot.cached_bytes();
            self.cached_bytes += after;
        }
        // Invariant 2.
        while self.cached_bytes > CACHED_BYTES_TOTAL_MAX {
            self.remove_idlest();
        }
    }

    /// Whether the session exists.
    pub(super) fn has_session(&self, session: &SessionId) -> bool {
        self.sessions.contains_key(session)
    }

    /// RFC 8881 18.37.3.
    pub(super) fn destroy_session(&mut self, session: &SessionId) -> NfsResult<()> {
        let id = self.sessions.remove(session).ok_or(NfsStatus::BadSession)?;
        let slots = self.client(id)?.sessions.remove(session).unwrap_or_default();
        self.cached_bytes -= slots.iter().map(Slot::cached_bytes).sum::<usize>();
        Ok(())
    }

    /// RFC 8881 18.50.3, but a client that is not known or has sessions is no error: Linux waits
    /// 10 s for each data server that answers so.
    pub(super) fn destroy_client(&mut self, id: ClientId) {
        if let Some(owner) = self.owners.get(&id).cloned() {
            self.remove_owner(&owner);
        }
    }

    fn client(&mut self, id: ClientId) -> NfsResult<&mut Client> {
        let owner = self.owners.get(&id).ok_or(NfsStatus::StaleClientId)?;
        self.clients.get_mut(owner).ok_or(NfsStatus::StaleClientId)
    }

    fn slots(&mut self, session: &SessionId, uses: u64) -> NfsResult<&mut Vec<Slot>> {
        let id = *self.sessions.get(session).ok_or(NfsStatus::BadSession)?;
        let client = self.client(id)?;
        client.used = uses;
        client.sessions.get_mut(session).ok_or(NfsStatus::BadSession)
    }

    fn remove_owner(&mut self, owner: &Bytes) {
        let Some(client) = self.clients.remove(owner) else { return };
        self.owners.remove(&client.id);
        for (session, slots) in &client.sessions {
            self.sessions.remove(session);
            self.cached_bytes -= slots.iter().map(Slot::cached_bytes).sum::<usize>();
        }
    }

    fn remove_idlest(&mut self) {
        let idlest = self.clients.iter().min_by_key(|(_, client)| client.used);
        if let Some(idlest) = idlest.map(|(owner, _)| owner.clone()) {
            self.remove_owner(&idlest);
        }
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Slot {
    fn cached_bytes(&self) -> usize {
        match &self.state {
            SlotState::Done(Some(reply)) => reply.len(),
            _ => 0,
        }
    }
}

impl Client {
    fn known(&self) -> KnownClient {
        let sequence = SequenceId(self.sequence.wrapping_add(1));
        KnownClient { id: self.id, sequence, confirmed: self.confirmed }
    }
}

/// The limits of a session that a client asked for these. RFC 8881 18.36.3.
fn granted(asked: &ChannelAttributes) -> NfsResult<ChannelAttributes> {
    // Room for SEQUENCE, PUTFH and a READ or WRITE of one byte.
    if asked.max_request_size < 512 || asked.max_response_size < 512 || asked.max_operations < 3 {
        return Err(NfsStatus::TooSmall);
    }
    Ok(ChannelAttributes {
        header_pad_size: 0,
        max_request_size: asked.max_request_size.min(MESSAGE_BYTES_MAX),
        max_response_size: asked.max_response_size.min(MESSAGE_BYTES_MAX),
        max_response_size_cached: asked.max_response_size_cached.min(CACHED_BYTES_MAX as u32),
        max_operations: asked.max_operations.min(OPERATIONS_MAX),
        max_requests: asked.max_requests.clamp(1, SLOTS_MAX),
        rdma_ird: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: ChannelAttributes = ChannelAttributes {
        header_pad_size: 0,
        max_request_size: 2 << 20,
        max_response_size: 2 << 20,
        max_response_size_cached: 8192,
        max_operations: 8,
        max_requests: 4,
        rdma_ird: None,
    };

    fn sessions() -> Sessions {
        Sessions::new([7; 8])
    }

    fn creation(known: KnownClient) -> CreateSessionArgs {
        CreateSessionArgs {
            client_id: known.id,
            sequence: known.sequence,
            flags: CreateSessionFlags::default(),
            fore_channel: CHANNEL,
            back_channel: CHANNEL,
            callback_program: 0,
            callback_security: Vec::new(),
        }
    }

    fn with_session(all: &mut Sessions) -> (ClientId, SessionId) {
        let known = all.exchange_id(&Bytes::from_static(b"client"), Verifier([1; 8]));
        let created = all.create_session(&creation(known)).unwrap();
        (known.id, created.session_id)
    }

    fn request(session: SessionId, slot: u32, sequence: u32) -> SequenceArgs {
        SequenceArgs {
            session_id: session,
            sequence_id: SequenceId(sequence),
            slot_id: SlotId(slot),
            highest_slot_id: SlotId(slot),
            cache_this: false,
        }
    }

    fn reply(bytes: usize) -> Option<Arc<[u8]>> {
        Some(vec![9; bytes].into())
    }

    #[test]
    fn a_retry_gets_the_cached_reply_and_does_not_run_again() {
        let mut all = sessions();
        let (_, session) = with_session(&mut all);
        let first = request(session, 0, 1);
        assert!(matches!(all.begin(&first), Ok(SlotAnswer::Run(_))));
        assert_eq!(all.begin(&first), Err(NfsStatus::Delay), "it runs");
        all.finish(&first, reply(100));
        assert_eq!(all.begin(&first), Ok(SlotAnswer::Cached(vec![9; 100].into())));
        assert!(matches!(all.begin(&request(session, 0, 2)), Ok(SlotAnswer::Run(_))));
    }

    #[test]
    fn only_a_reply_without_cache_is_repeated_and_only_while_it_is_the_newest() {
        let mut all = sessions();
        let (_, session) = with_session(&mut all);
        let read = request(session, 0, 1);
        all.begin(&read).unwrap();
        all.finish(&read, None);
        assert!(matches!(all.begin(&read), Ok(SlotAnswer::Run(_))));
        all.finish(&read, None);
        let next = request(session, 0, 2);
        all.begin(&next).unwrap();
        all.finish(&next, reply(1));
        assert_eq!(all.begin(&read), Err(NfsStatus::SeqMisordered));
        assert_eq!(all.begin(&request(session, 0, 4)), Err(NfsStatus::SeqMisordered));
    }

    #[test]
    fn slots_are_those_that_were_granted() {
        let mut all = sessions();
        let (_, session) = with_session(&mut all);
        assert!(all.begin(&request(session, 3, 1)).is_ok());
        assert_eq!(all.begin(&request(session, 4, 1)), Err(NfsStatus::BadSlot));
        assert_eq!(all.begin(&request(session, u32::MAX, 1)), Err(NfsStatus::BadSlot));
        let unknown = request(SessionId([3; 16]), 0, 1);
        assert_eq!(all.begin(&unknown), Err(NfsStatus::BadSession));
    }

    #[test]
    fn a_session_is_created_once_for_each_sequence() {
        let mut all = sessions();
        let known = all.exchange_id(&Bytes::from_static(b"client"), Verifier([1; 8]));
        assert!(!known.confirmed);
        let first = all.create_session(&creation(known)).unwrap();
        assert_eq!(all.create_session(&creation(known)).unwrap(), first, "a retry");
        let later = KnownClient { sequence: SequenceId(known.sequence.0 + 2), ..known };
        assert_eq!(all.create_session(&creation(later)), Err(NfsStatus::SeqMisordered));
        let again = all.exchange_id(&Bytes::from_static(b"client"), Verifier([1; 8]));
        assert!(again.confirmed && again.id == known.id);
    }

    #[test]
    fn a_session_does_not_show_the_name_of_the_next_one() {
        let mut all = sessions();
        let (client, first) = with_session(&mut all);
        let next = KnownClient { id: client, sequence: SequenceId(2), confirmed: true };
        let second = all.create_session(&creation(next)).unwrap().session_id;
        let equal = first.0.iter().zip(second.0).filter(|(one, other)| **one == *other).count();
        assert!(equal < 8, "{first:?} {second:?}");
    }

    #[test]
    fn cached_replies_of_all_clients_together_are_bounded() {
        let mut all = sessions();
        let (mut first, mut cached) = (None, 0);
        while cached <= CACHED_BYTES_TOTAL_MAX {
            let owner = Bytes::from(format!("client {cached}"));
            let known = all.exchange_id(&owner, Verifier([1; 8]));
            let session = all.create_session(&creation(known)).unwrap().session_id;
            first.get_or_insert(session);
            for slot in 0..4 {
                let request = request(session, slot, 1);
                all.begin(&request).unwrap();
                all.finish(&request, reply(CACHED_BYTES_MAX));
                cached += CACHED_BYTES_MAX;
            }
        }
        assert!(all.cached_bytes <= CACHED_BYTES_TOTAL_MAX);
        assert!(!all.has_session(&first.unwrap()), "the idlest client was removed");
        for owner in all.clients.keys().cloned().collect::<Vec<_>>() {
            all.remove_owner(&owner);
        }
        assert_eq!(all.cached_bytes, 0);
    }

    #[test]
    fn a_client_that_restarts_loses_its_sessions() {
        let mut all = sessions();
        let (id, session) = with_session(&mut all);
        let again = all.exchange_id(&Bytes::from_static(b"client"), Verifier([2; 8]));
        assert_ne!(again.id, id);
        assert!(!all.has_session(&session));
    }

    #[test]
    fn the_idlest_client_makes_place_when_there_are_too_many() {
        let mut all = sessions();
        let (_, session) = with_session(&mut all);
        for number in 0..CLIENTS_MAX {
            let owner = Bytes::from(format!("client {number}"));
            all.exchange_id(&owner, Verifier([1; 8]));
        }
        assert_eq!(all.clients.len(), CLIENTS_MAX);
        assert!(!all.has_session(&session));
        assert_eq!((all.owners.len(), all.sessions.len()), (CLIENTS_MAX, 0));
    }
}
