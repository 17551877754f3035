//! SEQUENCE: the session and slot of a compound. RFC 8881 18.46.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use braid_nfs_wire::nfs4::args::SequenceArgs;
use braid_nfs_wire::nfs4::results::SequenceResult;
use braid_nfs_wire::nfs4::{NfsStatus, SequenceStatus, SlotId};
use braid_share::Share;
use bytes::Bytes;

use crate::connection::Connection;
use crate::rpc::Caller;
use crate::server::{Client, NfsServer, ServerSession};
use crate::state::clients::Protection;
use crate::state::sessions::{Begun, CachedReply};

/// Bytes of a request that are hashed to recognise a retry: all of a usual compound, and the start
/// of a WRITE. RFC 8881 2.10.6.1.3.1 leaves the extent of the check to the server.
const FINGERPRINT_BYTES: usize = 512;

/// A slot on which a compound runs. It is released when this is dropped.
#[derive(Debug)]
pub struct SlotGuard<S: Share> {
    session: Arc<ServerSession<S>>,
    slot: u32,
    finished: bool,
}

impl<S: Share> SlotGuard<S> {
    /// The session.
    pub fn session(&self) -> &Arc<ServerSession<S>> {
        &self.session
    }

    /// The number of the slot.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Ends the compound and keeps its reply.
    pub(super) fn finish(mut self, reply: CachedReply) {
        self.finished = true;
        self.session.with_slots(|slots| slots.finish(self.slot, reply));
    }
}

impl<S: Share> Drop for SlotGuard<S> {
    fn drop(&mut self) {
        if !self.finished {
            self.session.with_slots(|slots| slots.finish(self.slot, CachedReply::NotCached));
        }
    }
}

/// A request whose SEQUENCE is correct.
pub(super) enum Started<S: Share> {
    /// A new request, which runs.
    New(SlotGuard<S>, SequenceResult),
    /// A retry.
    Retry(CachedReply, SequenceResult),
}

/// What SEQUENCE needs of the rest of the request.
pub(super) struct RequestFacts<'a> {
    /// Bytes of the RPC message.
    pub bytes: usize,
    /// Operations of the compound.
    pub operations: u32,
    /// Minor version of the compound.
    pub minor_version: u32,
    /// The operations after SEQUENCE.
    pub rest: &'a Bytes,
    /// Bytes of the reply if SEQUENCE is alone, RPC header included.
    pub shortest_reply: usize,
}

/// Executes SEQUENCE.
pub(super) fn start<S: Share>(
    server: &Arc<NfsServer<S>>,
    connection: &Arc<Connection>,
    caller: &Caller,
    args: &SequenceArgs,
    request: &RequestFacts<'_>,
) -> Result<Started<S>, NfsStatus> {
    let session = server.session(&args.session_id).ok_or(NfsStatus::BadSession)?;
    bind_connection(&session, connection)?;
    let fore = session.fore();
    if request.operations > fore.operations {
        return Err(NfsStatus::TooManyOps);
    }
    if request.bytes > fore.request_bytes as usize {
        return Err(NfsStatus::ReqTooBig);
    }
    if request.shortest_reply > fore.reply_bytes as usize {
        return Err(NfsStatus::RepTooBig);
    }
    if args.cache_this && request.shortest_reply > fore.cached_reply_bytes as usize {
        return Err(NfsStatus::RepTooBigToCache);
    }
    let fingerprint = fingerprint(server, caller, request);
    let (begun, highest) = session.with_slots(|slots| {
        let slot = (args.slot_id.0, args.sequence_id.0);
        let begun = slots.begin(slot.0, slot.1, args.highest_slot_id.0, fingerprint);
        begun.map(|begun| (begun, slots.highest()))
    })?;
    // RFC 8881 8.3: SEQUENCE renews the lease.
    session.client().renew(server.now());
    let result = SequenceResult {
        session_id: args.session_id,
        sequence_id: args.sequence_id,
        slot_id: args.slot_id,
        highest_slot_id: SlotId(highest),
        target_highest_slot_id: SlotId(highest),
        status_flags: revoked(session.client()) | session.back().status(),
    };
    Ok(match begun {
        Begun::New => {
            let guard = SlotGuard { session, slot: args.slot_id.0, finished: false };
            Started::New(guard, result)
        }
        Begun::Retry(reply) => Started::Retry(reply, result),
    })
}

/// RFC 8881 18.46.3: what SEQUENCE reports while revoked delegations were not freed.
fn revoked<S: Share>(client: &Client<S>) -> SequenceStatus {
    match client.data().is_some_and(|data| data.states.has_revoked()) {
        true => SequenceStatus::RECALLABLE_STATE_REVOKED,
        false => SequenceStatus::default(),
    }
}

/// RFC 8881 2.10.3.1: a connection that sends SEQUENCE is associated with the session's fore
/// channel, unless state protection requires BIND_CONN_TO_SESSION.
fn bind_connection<S: Share>(
    session: &Arc<ServerSession<S>>,
    connection: &Arc<Connection>,
) -> Result<(), NfsStatus> {
    if connection.is_bound(session.id()) {
        return Ok(());
    }
    match session.client().protection() {
        Protection::None => connection.bind(session.id()),
        Protection::MachineCredential { .. } => return Err(NfsStatus::ConnNotBoundToSession),
    }
    Ok(())
}

fn fingerprint<S: Share>(
    server: &Arc<NfsServer<S>>,
    caller: &Caller,
    request: &RequestFacts<'_>,
) -> u64 {
    let mut hasher = server.hasher.build_hasher();
    // RFC 8881 2.10.6.1.3.1: a retry by another principal is a false one.
    caller.principal.hash(&mut hasher);
    (request.minor_version, request.operations, request.rest.len()).hash(&mut hasher);
    hasher.write(&request.rest[..request.rest.len().min(FINGERPRINT_BYTES)]);
    hasher.finish()
}
