//! The payload exchange of a collective write: tasks offer payloads, and the thread with the writer
//! receives them. It is a part of [`Progress`].
//!
//! ```text
//!   task's thread: offer ──> [ offers, by rank ] ── take ────> thread with the writer:
//!                  reply <── [ received        ] <── return ── receives
//!                            [ writer          ] ── take, park ─> any task's thread, one at a time
//! ```

use std::sync::Arc;

use braid_types::Failure;

use super::{progress::Progress, source::Source, writer::Writer};
use crate::{callers::Caller, grant::Grant};

/// Payloads, the writer, and how far it is.
#[derive(Debug, Default)]
pub(super) struct Desk {
    loans: Vec<Option<Loan>>,
    /// The task whose payload the writer's thread has taken.
    borrowed: Option<usize>,
    /// `None` while a thread has it.
    writer: Option<Box<Writer>>,
    /// The task whose bytes the writer needs next; `None` when it can continue without them.
    at: Option<usize>,
    /// By rank: the number after the last chunk with bytes of the task.
    put_until: Vec<u64>,
    /// Chunks that were begun, and of them those that are written.
    made: u64,
    landed: u64,
}

/// The payload of one call, which its thread has offered.
#[derive(Debug)]
pub(super) struct Loan {
    pub(super) source: Arc<dyn Source>,
    pub(super) capability: Arc<Grant>,
    pub(super) caller: Arc<Caller>,
    /// Payload bytes that were received.
    pub(super) had: u64,
    /// The part of it that is counted as progress.
    counted: u64,
    /// It is received completely.
    returned: bool,
}

impl Loan {
    pub(super) fn new(
        source: Arc<dyn Source>,
        capability: &Arc<Grant>,
        caller: &Arc<Caller>,
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
pub(super) enum Lent {
    /// It is being received.
    Wanted,
    /// All of it was received, this many bytes: the call may be answered.
    Taken(u64),
    /// All of it was received. It is the task's last, and is not written yet.
    Landing,
}

impl Desk {
    pub(super) fn new(writer: Writer) -> Self {
        let tasks = writer.tasks();
        let loans = std::iter::repeat_with(|| None).take(tasks).collect();
        Self { loans, put_until: vec![0; tasks], writer: Some(Box::new(writer)), ..Self::default() }
    }

    /// Whether received bytes may be unwritten.
    pub(super) fn is_filling(&self) -> bool {
        self.landed < self.made
    }

    /// The task whose bytes the writer needs next.
    pub(super) fn at(&self) -> Option<usize> {
        self.at
    }

    /// Nothing more is received.
    pub(super) fn fail(&mut self) {
        self.writer = None;
    }

    fn has(&self, rank: usize) -> bool {
        self.loans[rank].as_ref().is_some_and(|loan| !loan.returned)
    }
}

impl Progress {
    /// A task's thread offers its payload.
    pub(super) fn lend(&mut self, rank: usize, loan: Loan) {
        self.desk.loans[rank] = Some(loan);
        self.moves += 1;
    }

    /// The writer for this thread, if it is free and can continue.
    pub(super) fn take_writer(&mut self) -> Option<Box<Writer>> {
        let waits = self.desk.at.is_some_and(|rank| !self.desk.has(rank));
        if waits { None } else { self.desk.writer.take() }
    }

    /// The thread gives the writer up, since it must answer or the writer cannot continue.
    pub(super) fn park_writer(&mut self, writer: Box<Writer>) {
        if self.failed.is_some() {
            return;
        }
        self.desk.writer = Some(writer);
        if self.desk.at.is_none_or(|rank| self.desk.has(rank)) {
            self.version += 1;
        }
    }

    /// For the thread with the writer: takes the task's offered payload.
    pub(super) fn borrow(&mut self, rank: usize) -> Option<Loan> {
        self.desk.at = Some(rank);
        if self.failed.is_some() || !self.desk.has(rank) {
            return None;
        }
        self.desk.borrowed = Some(rank);
        self.desk.loans[rank].take()
    }

    /// The thread with the writer returns the payload.
    pub(super) fn put_back(&mut self, rank: usize, mut loan: Loan) {
        self.desk.borrowed = None;
        if std::mem::replace(&mut loan.counted, loan.had) != loan.had {
            self.moves += 1;
        }
        // Not if the task's thread has ended: the payload would keep its connection open.
        if self.tasks[rank].busy {
            self.desk.loans[rank] = Some(loan);
        }
        if self.failed.is_some() {
            self.wake();
        }
    }

    /// The payload is received completely: its thread continues.
    pub(super) fn give_back(&mut self, rank: usize, mut loan: Loan) {
        loan.returned = true;
        self.put_back(rank, loan);
        // A task's last call continues when its bytes are written.
        if !self.tasks[rank].finished {
            self.version += 1;
        }
    }

    /// A chunk is begun.
    pub(super) fn began(&mut self) {
        self.desk.made += 1;
    }

    /// The task has bytes in the current chunk.
    pub(super) fn put(&mut self, rank: usize) {
        self.desk.put_until[rank] = self.desk.made;
    }

    /// The writer has what it needs of a task. The next thread with the writer does not wait for
    /// that task.
    pub(super) fn went_on(&mut self) {
        self.desk.at = None;
    }

    /// The chunk is written.
    pub(super) fn landed(&mut self) {
        self.desk.landed = self.desk.made;
        self.moves += 1;
        if self
            .desk
            .put_until
            .iter()
            .zip(&self.tasks)
            .any(|(until, task)| *until == self.desk.made && task.finished)
        {
            self.version += 1;
        }
    }

    /// The state of the task's payload.
    ///
    /// # Errors
    /// The failure of the collective request.
    pub(super) fn lent(&self, rank: usize) -> Result<Lent, Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        match &self.desk.loans[rank] {
            Some(Loan { returned: true, had, .. }) if !self.tasks[rank].finished => {
                Ok(Lent::Taken(*had))
            }
            Some(Loan { returned: true, had, .. })
                if self.desk.landed >= self.desk.put_until[rank] =>
            {
                Ok(Lent::Taken(*had))
            }
            Some(Loan { returned: true, .. }) => Ok(Lent::Landing),
            _ => Ok(Lent::Wanted),
        }
    }

    /// A thread takes its payload back. Returns false while the thread with the writer may be
    /// receiving from it.
    pub(super) fn take_back(&mut self, rank: usize) -> bool {
        if self.desk.borrowed == Some(rank) {
            return false;
        }
        self.withdraw(rank);
        true
    }

    /// A thread has ended, or no longer needs its offer.
    pub(super) fn withdraw(&mut self, rank: usize) {
        self.tasks[rank].busy = false;
        if let Some(loan) = self.desk.loans.get_mut(rank) {
            *loan = None;
        }
    }
}
