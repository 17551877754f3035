//! Gates: while a truncate or punch of a file is under way, calls that see or change its size, and calls
//! that hand out a capability, wait (I5: no observer sees half).
//!
//! Invariants: (1) a gate is closed exactly while the file has an intent in the store, or one is about to
//! be put there; (2) its queue is bounded, and who waits longer than [`GATE_WAIT_MS_MAX`], or
//! [`GATE_WAIT_BLAMED_MS_MAX`] once the reason is known, is told for which server (I8); (3) calls that waited begin again from their beginning, in the order that they came.

use std::{
    collections::{BTreeMap, VecDeque},
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
/// How long a call waits at a gate before it is told why: below one attempt of a client, which is a third of its 30 s,
/// so that the reason reaches it before it takes the metadata server for the one that does not answer.
pub(crate) const GATE_WAIT_MS_MAX: u64 = TIMEOUT_SECONDS_DEFAULT * 1000 / 3 - 2 * HEARTBEAT_MS;
/// The same where a daemon is known to hold the gate up: it is asked again with every heartbeat, so that this is one more
/// chance.
pub(crate) const GATE_WAIT_BLAMED_MS_MAX: u64 = HEARTBEAT_MS;

/// A call with its request, to begin again.
pub(crate) type Waiting = (Call, MdsRequest);

/// The closed gates. Ordered, so that nothing hangs on a hash.
#[derive(Debug, Default)]
pub(crate) struct Gates(BTreeMap<FileIndex, Gate>);

#[derive(Debug, Default)]
struct Gate {
    waiting: VecDeque<Waiting>,
    /// Which daemon is waited for, once one could not be asked.
    because: Option<Failure>,
}

impl Gates {
    /// Closes a file's gate; false when it is closed already.
    pub(crate) fn close(&mut self, file: FileIndex) -> bool {
        let free = !self.0.contains_key(&file);
        self.0.entry(file).or_default();
        free
    }

    pub(crate) fn is_closed(&self, file: FileIndex) -> bool {
        self.0.contains_key(&file)
    }

    /// Puts a call into the queue; gives it back with a reason when the gate is open or its queue is full.
    pub(crate) fn wait(
        &mut self,
        file: FileIndex,
        waiting: Waiting,
    ) -> Result<(), Box<(Waiting, Option<Failure>)>> {
        match self.0.get_mut(&file) {
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

    /// Opens a gate; who waited.
    pub(crate) fn open(&mut self, file: FileIndex) -> VecDeque<Waiting> {
        self.0.remove(&file).map(|gate| gate.waiting).unwrap_or_default()
    }

    /// Notes why a gate stays closed.
    pub(crate) fn blame(&mut self, file: FileIndex, because: Failure) {
        if let Some(gate) = self.0.get_mut(&file) {
            gate.because = Some(because);
        }
    }

    /// Who waited too long, each with what to tell.
    pub(crate) fn expire(&mut self, now: Duration) -> Vec<(Waiting, Failure)> {
        let mut expired = Vec::new();
        for gate in self.0.values_mut() {
            let limit =
                if gate.because.is_some() { GATE_WAIT_BLAMED_MS_MAX } else { GATE_WAIT_MS_MAX };
            let limit = Duration::from_millis(limit);
            while gate
                .waiting
                .front()
                .is_some_and(|(call, _)| now.saturating_sub(call.came) > limit)
            {
                let why = gate.because.clone();
                let why = why.unwrap_or_else(|| {
                    Failure::new(Status::TryAgain, "a truncate of the file is under way")
                });
                expired.extend(gate.waiting.pop_front().map(|waiting| (waiting, why)));
            }
        }
        expired
    }
}
