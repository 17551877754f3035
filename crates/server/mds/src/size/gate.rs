//! Gates: while a truncate or punch of a file is in progress, calls that read or change its size,
//! and calls that return a capability, wait (I5: no observer sees half of it).
//!
//! Invariants:
//! 1. A gate is closed exactly while the file has an intent in the store, or one is about to be put
//!    there. (The store is not looked at here, so this is not asserted.)
//! 2. Its queue is bounded. A call that waits longer than [`GATE_WAIT_MS_MAX`], or
//!    [`GATE_WAIT_KNOWN_REASON_MS_MAX`] once the reason is known, fails and names the server (I8).
//! 3. Calls that waited run again from their beginning, in the order of their arrival.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use braid_types::{
    Failure, FileIndex, Status,
    limits::{HEARTBEAT_MS, TIMEOUT_SECONDS_DEFAULT},
};
use braid_wire::message::mds::MdsRequest;

use crate::call::Call;

/// Calls that wait at one gate (I9).
pub(crate) const GATE_QUEUE_MAX: usize = 1024;
/// How long a call waits at a gate before it fails with the reason: less than one attempt of a
/// client, which is a third of its 30 s. Otherwise the client would report the metadata server as
/// the one that does not answer.
pub(crate) const GATE_WAIT_MS_MAX: u64 = TIMEOUT_SECONDS_DEFAULT * 1000 / 3 - 2 * HEARTBEAT_MS;
/// The same where a daemon is known to keep the gate closed. It is asked again with every
/// heartbeat, so that it gets one more chance.
pub(crate) const GATE_WAIT_KNOWN_REASON_MS_MAX: u64 = HEARTBEAT_MS;

/// A call with its request, to run again from the beginning.
pub(crate) type SuspendedCall = (Call, MdsRequest);

/// A call that comes back from a gate: with no failure the gate is open.
pub(crate) type NotWaiting = (SuspendedCall, Option<Failure>);

/// The closed gates. Ordered, so that nothing depends on a hash.
#[derive(Debug, Default)]
pub(super) struct SizeChangeGates {
    closed: BTreeMap<FileIndex, SizeChangeGate>,
    /// Their number: calls of all other files pass without the server's lock.
    count: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct SizeChangeGate {
    waiting: VecDeque<SuspendedCall>,
    /// Names the daemon that could not be asked, once there is one.
    blocked_by: Option<Failure>,
}

impl SizeChangeGates {
    /// Closes a file's gate; false when it is closed already.
    pub(crate) fn close(&mut self, file: FileIndex) -> bool {
        let was_open = !self.is_closed(file);
        self.closed.entry(file).or_default();
        self.count.store(self.closed.len(), Ordering::Release);
        was_open
    }

    /// The number of closed gates, to be read without the server's lock.
    pub(crate) fn closed(&self) -> Arc<AtomicUsize> {
        self.count.clone()
    }

    pub(crate) fn is_closed(&self, file: FileIndex) -> bool {
        self.closed.contains_key(&file)
    }

    /// Puts a call into the queue. It comes back when the gate is open or, with a failure, when the
    /// queue is full.
    pub(crate) fn wait(
        &mut self,
        file: FileIndex,
        waiting: SuspendedCall,
    ) -> Result<(), Box<NotWaiting>> {
        match self.closed.get_mut(&file) {
            None => Err(Box::new((waiting, None))),
            Some(gate) if gate.waiting.len() >= GATE_QUEUE_MAX => {
                let full = Failure::new(
                    Status::TryAgain,
                    "too many calls wait for a truncate of the file",
                );
                Err(Box::new((waiting, Some(full))))
            }
            Some(gate) => {
                gate.waiting.push_back(waiting);
                Ok(())
            }
        }
    }

    /// Opens a gate: the calls that waited.
    pub(crate) fn open(&mut self, file: FileIndex) -> VecDeque<SuspendedCall> {
        let gate = self.closed.remove(&file);
        self.count.store(self.closed.len(), Ordering::Release);
        gate.map(|gate| gate.waiting).unwrap_or_default()
    }

    /// Records why a gate stays closed.
    pub(crate) fn note_reason(&mut self, file: FileIndex, because: Failure) {
        if let Some(gate) = self.closed.get_mut(&file) {
            gate.blocked_by = Some(because);
        }
    }

    /// Removes the calls that waited too long, each with its failure.
    pub(crate) fn expire(&mut self, now: Duration) -> Vec<(SuspendedCall, Failure)> {
        let mut expired = Vec::new();
        for gate in self.closed.values_mut() {
            let limit = if gate.blocked_by.is_some() {
                GATE_WAIT_KNOWN_REASON_MS_MAX
            } else {
                GATE_WAIT_MS_MAX
            };
            let limit = Duration::from_millis(limit);
            while gate
                .waiting
                .front()
                .is_some_and(|(call, _)| now.saturating_sub(call.received_at) > limit)
            {
                let why = gate.blocked_by.clone();
                let why = why.unwrap_or_else(|| {
                    Failure::new(Status::TryAgain, "a truncate of the file is in progress")
                });
                expired.extend(gate.waiting.pop_front().map(|waiting| (waiting, why)));
            }
        }
        expired
    }
}
