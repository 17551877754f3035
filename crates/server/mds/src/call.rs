//! A call in progress: its client, its slot, and what its answer waits for.
//!
//! An operation either answers immediately; or it takes the call and continues when an I/O daemon
//! or the log has answered; or the call waits at a file's gate, or for a lease, and runs again from
//! its beginning.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use braid_meta::{Identity, Replay};
use braid_net::server::Responder;
use braid_types::{Failure, FileIndex, SessionId};
use braid_wire::{Wire, encode_success, message::mds::Envelope};

use crate::{
    connection::Connection,
    lease::{ClaimGuard, LeaseWait},
};

/// A call that was admitted.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) connection: Arc<Connection>,
    pub(crate) envelope: Envelope,
    /// The session, if the call needs one.
    pub(crate) session: Option<SessionId>,
    /// The user of the call.
    pub(crate) who: Arc<Identity>,
    /// [`Replay::request`]; 0 for a call without a sequence.
    pub(crate) request: u64,
    /// When it was received, on the server's monotonic clock.
    pub(crate) received_at: Duration,
    pub(crate) responder: Responder,
    /// Its claims of leases, until it is answered.
    pub(crate) claims: Option<ClaimGuard>,
    /// Frees the call's replay slot if the call is dropped without a reply.
    pub(crate) slot: SlotGuard,
}

/// Replay slots of calls that were dropped without a reply, to be freed by the next tick.
#[derive(Debug, Default)]
pub(crate) struct UnansweredSlots(Mutex<Vec<(SessionId, u32, u64)>>);

impl UnansweredSlots {
    /// The slots noted since the last time: session, slot and sequence.
    pub(crate) fn take(&self) -> Vec<(SessionId, u32, u64)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(braid_types::poisoned))
    }
}

/// Holds a replay slot busy until its call is answered.
///
/// A call is dropped without a reply when its thread panics, or when what it waited for is dropped.
/// Its slot must not stay busy then: the client got an error and uses the slot for its next call.
/// The guard only notes the slot, because the thread that drops it may hold the state's lock.
#[derive(Debug, Default)]
pub(crate) struct SlotGuard(Option<(Arc<UnansweredSlots>, (SessionId, u32, u64))>);

impl SlotGuard {
    /// A guard of `slot` with `sequence`; one without a session or a sequence guards nothing.
    pub(crate) fn new(
        unanswered: &Arc<UnansweredSlots>,
        session: Option<SessionId>,
        slot: u32,
        sequence: u64,
    ) -> Self {
        let session = session.filter(|_| sequence != 0);
        Self(session.map(|session| (unanswered.clone(), (session, slot, sequence))))
    }

    /// The call is answered.
    pub(crate) fn release(&mut self) {
        self.0 = None;
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        if let Some((unanswered, slot)) = self.0.take() {
            unanswered.0.lock().unwrap_or_else(braid_types::poisoned).push(slot);
        }
    }
}

impl Call {
    /// The session of the caller, also where the call needs none; 0, which is no session, on a
    /// connection without one.
    pub(crate) fn caller_session(&self) -> SessionId {
        self.session.or_else(|| self.connection.session_id()).unwrap_or_default()
    }

    /// By what the store recognizes a retry.
    pub(crate) fn replay(&self) -> Option<Replay> {
        let Envelope { slot, sequence, .. } = self.envelope;
        let session = self.session.filter(|_| sequence != 0)?;
        Some(Replay { session, slot, sequence, request: self.request })
    }
}

/// The outcome of an operation. The call comes back unless the operation took it.
pub(crate) enum CallOutcome {
    /// The body of the final frame.
    Answer(Call, Vec<u8>),
    /// The operation took the call and answers it later.
    Pending,
    /// It waits until the file's gate opens, then runs again.
    Gate(Call, FileIndex),
    /// It waits until a lease is returned, then runs again.
    Lease(Call, LeaseWait),
    /// It failed.
    Fail(Call, Failure),
}

impl CallOutcome {
    /// The outcome of an operation that is complete.
    pub(crate) fn from<R: Wire>(call: Call, outcome: Result<R, Failure>) -> Self {
        match outcome {
            Ok(reply) => Self::Answer(call, encode_success(&reply)),
            Err(failure) => Self::Fail(call, failure),
        }
    }
}
