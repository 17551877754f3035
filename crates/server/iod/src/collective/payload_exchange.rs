//! The payload exchange of a collective write: tasks offer payloads, and the thread with the writer
//! receives them. It is a part of [`CollectiveProgress`].
//!
//! ```text
//!   task's thread: offer ──> [ offers, by rank ] ── take ────> thread with the writer:
//!                  reply <── [ received        ] <── return ── receives
//!                            [ writer          ] ── take, park ─> any task's thread, one at a time
//! ```

use std::sync::Arc;

use braid_types::Failure;

use super::{progress::CollectiveProgress, source::PayloadSource, writer::Writer};
use crate::{connections::ConnectionEntry, verified_capability::VerifiedCapability};

/// Payloads, the writer, and how far it is.
#[derive(Debug, Default)]
pub(super) struct PayloadExchange {
    offers: Vec<Option<OfferedPayload>>,
    /// The task whose payload the writer's thread has taken.
    taken: Option<usize>,
    /// `None` while a thread has it.
    writer: Option<Box<Writer>>,
    /// The task whose bytes the writer needs next; `None` when it can continue without them.
    at: Option<usize>,
    /// By rank: the number after the last chunk with bytes of the task.
    put_until: Vec<u64>,
    /// Chunks that were begun, and of them those that are written.
    made: u64,
    written_until: u64,
}

/// The payload of one call, which its thread has offered.
#[derive(Debug)]
pub(super) struct OfferedPayload {
    pub(super) source: Arc<dyn PayloadSource>,
    pub(super) capability: Arc<VerifiedCapability>,
    pub(super) caller: Arc<ConnectionEntry>,
    /// Payload bytes that were received.
    pub(super) had: u64,
    /// The part of it that is counted as progress.
    counted: u64,
    /// It is received completely.
    returned: bool,
}

impl OfferedPayload {
    pub(super) fn new(
        source: Arc<dyn PayloadSource>,
        capability: &Arc<VerifiedCapability>,
        caller: &Arc<ConnectionEntry>,
    ) -> Self {
        Self {
            source,
            capability: capability.clone(),
            caller: caller.clone(),
            had: 0,
            counted: 0,
            returned: false,
        }
    }
}

/// The state of an offered payload.
#[derive(Debug)]
pub(super) enum OfferState {
    /// It is being received.
    Receiving,
    /// All of it was received, this many bytes: the call may be answered.
    Received(u64),
    /// All of it was received. It is the task's last, and is not written yet.
    Writing,
}

impl PayloadExchange {
    pub(super) fn new(writer: Writer) -> Self {
        let tasks = writer.tasks();
        let offers = std::iter::repeat_with(|| None).take(tasks).collect();
        Self {
            offers,
            put_until: vec![0; tasks],
            writer: Some(Box::new(writer)),
            ..Self::default()
        }
    }

    /// Whether received bytes may be unwritten.
    pub(super) fn is_filling(&self) -> bool {
        self.written_until < self.made
    }

    /// The task whose bytes the writer needs next.
    pub(super) fn awaited_rank(&self) -> Option<usize> {
        self.at
    }

    /// Nothing more is received.
    pub(super) fn fail(&mut self) {
        self.writer = None;
    }

    fn has(&self, rank: usize) -> bool {
        self.offers[rank].as_ref().is_some_and(|offer| !offer.returned)
    }
}

impl CollectiveProgress {
    /// A task's thread offers its payload.
    pub(super) fn offer(&mut self, rank: usize, offer: OfferedPayload) {
        self.exchange.offers[rank] = Some(offer);
        self.moves += 1;
    }

    /// The writer for this thread, if it is free and can continue.
    pub(super) fn take_writer(&mut self) -> Option<Box<Writer>> {
        let waits = self.exchange.at.is_some_and(|rank| !self.exchange.has(rank));
        if waits { None } else { self.exchange.writer.take() }
    }

    /// The thread gives the writer up, since it must answer or the writer cannot continue.
    pub(super) fn park_writer(&mut self, writer: Box<Writer>) {
        if self.failed.is_some() {
            return;
        }
        self.exchange.writer = Some(writer);
        if self.exchange.at.is_none_or(|rank| self.exchange.has(rank)) {
            self.version += 1;
        }
    }

    /// For the thread with the writer: takes the task's offered payload.
    pub(super) fn take_offer(&mut self, rank: usize) -> Option<OfferedPayload> {
        self.exchange.at = Some(rank);
        if self.failed.is_some() || !self.exchange.has(rank) {
            return None;
        }
        self.exchange.taken = Some(rank);
        self.exchange.offers[rank].take()
    }

    /// The thread with the writer returns the payload.
    pub(super) fn return_offer(&mut self, rank: usize, mut offer: OfferedPayload) {
        self.exchange.taken = None;
        if std::mem::replace(&mut offer.counted, offer.had) != offer.had {
            self.moves += 1;
        }
        // Not if the task's thread has ended: the payload would keep its connection open.
        if self.tasks[rank].busy {
            self.exchange.offers[rank] = Some(offer);
        }
        if self.failed.is_some() {
            self.wake();
        }
    }

    /// The payload is received completely: its thread continues.
    pub(super) fn complete_offer(&mut self, rank: usize, mut offer: OfferedPayload) {
        offer.returned = true;
        self.return_offer(rank, offer);
        // A task's last call continues when its bytes are written.
        if !self.tasks[rank].finished {
            self.version += 1;
        }
    }

    /// A chunk is begun.
    pub(super) fn chunk_begun(&mut self) {
        self.exchange.made += 1;
    }

    /// The task has bytes in the current chunk.
    pub(super) fn has_bytes_in_chunk(&mut self, rank: usize) {
        self.exchange.put_until[rank] = self.exchange.made;
    }

    /// The writer has what it needs of a task. The next thread with the writer does not wait for
    /// that task.
    pub(super) fn task_received(&mut self) {
        self.exchange.at = None;
    }

    /// The chunk is written.
    pub(super) fn chunk_written(&mut self) {
        self.exchange.written_until = self.exchange.made;
        self.moves += 1;
        if self
            .exchange
            .put_until
            .iter()
            .zip(&self.tasks)
            .any(|(until, task)| *until == self.exchange.made && task.finished)
        {
            self.version += 1;
        }
    }

    /// The state of the task's payload.
    ///
    /// # Errors
    /// The failure of the collective request.
    pub(super) fn offer_state(&self, rank: usize) -> Result<OfferState, Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        match &self.exchange.offers[rank] {
            Some(OfferedPayload { returned: true, had, .. }) if !self.tasks[rank].finished => {
                Ok(OfferState::Received(*had))
            }
            Some(OfferedPayload { returned: true, had, .. })
                if self.exchange.written_until >= self.exchange.put_until[rank] =>
            {
                Ok(OfferState::Received(*had))
            }
            Some(OfferedPayload { returned: true, .. }) => Ok(OfferState::Writing),
            _ => Ok(OfferState::Receiving),
        }
    }

    /// A thread takes its payload back. Returns false while the thread with the writer may be
    /// receiving from it.
    pub(super) fn reclaim_offer(&mut self, rank: usize) -> bool {
        if self.exchange.taken == Some(rank) {
            return false;
        }
        self.withdraw(rank);
        true
    }

    /// A thread has ended, or no longer needs its offer.
    pub(super) fn withdraw(&mut self, rank: usize) {
        self.tasks[rank].busy = false;
        if let Some(offer) = self.exchange.offers.get_mut(rank) {
            *offer = None;
        }
    }
}
