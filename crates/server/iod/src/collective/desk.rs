//! What the tasks of a collective write have lent to it, and who receives it: a part of
//! [`Progress`].
//!
//! ```text
//!   task's thread: lend ──> [ loans, by rank ] ──borrow──> whoever has the writer: receives, puts back ──> returned: the call is answered
//!                           [ writer         ] ──take, park──> any task's thread, one at a time
//! ```

use std::sync::Arc;

use braid_types::Failure;

use super::{progress::Progress, source::Source, writer::Writer};
use crate::{callers::Caller, grant::Grant};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Desk {
    loans: Vec<Option<Loan>>,
    /// Whose loan whoever has the writer holds.
    borrowed: Option<usize>,
    /// `None` while a thread has it.
    writer: Option<Box<Writer>>,
    /// Whose bytes are next; `None`: the writer can go on without them.
    at: Option<usize>,
    /// Just past the last chunk with bytes of each task, by rank.
    put_until: Vec<u64>,
    /// Chunks that were made, and of them those that are in the objects.
    made: u64,
    landed: u64,
}

/// The payload of one call, lent by its thread.
#[derive(Debug)]
pub(super) struct Loan {
    pub(super) source: Arc<dyn Source>,
    pub(super) grant: Arc<Grant>,
    pub(super) caller: Arc<Caller>,
    /// Payload bytes that were received.
    pub(super) had: u64,
    /// Of them, those that were counted as a move.
    counted: u64,
    /// Nothing is left of it.
    returned: bool,
}

impl Loan {
    pub(super) fn new(source: Arc<dyn Source>, grant: &Arc<Grant>, caller: &Arc<Caller>) -> Self {
        Self {
            source,
            grant: grant.clone(),
            caller: caller.clone(),
            had: 0,
            counted: 0,
            returned: false,
        }
    }
}

/// How a call stands whose payload is lent.
#[derive(Debug)]
pub(super) enum Lent {
    /// It is being received.
    Wanted,
    /// All of it was taken, so many bytes: the call may be answered.
    Taken(u64),
    /// And they are the task's last; they are not written yet.
    Landing,
}

impl Desk {
    pub(super) fn new(writer: Writer) -> Self {
        let tasks = writer.tasks();
        let loans = std::iter::repeat_with(|| None).take(tasks).collect();
        Self { loans, put_until: vec![0; tasks], writer: Some(Box::new(writer)), ..Self::default() }
    }

    /// Whether bytes were received, or may be, that are not written.
    pub(super) fn is_filling(&self) -> bool {
        self.landed < self.made
    }

    /// Whose bytes are next.
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
    /// A task's thread lends its payload.
    pub(super) fn lend(&mut self, rank: usize, loan: Loan) {
        self.desk.loans[rank] = Some(loan);
        self.moves += 1;
    }

    /// The writer, for a thread that has time, if it can go on.
    pub(super) fn take_writer(&mut self) -> Option<Box<Writer>> {
        let waits = self.desk.at.is_some_and(|rank| !self.desk.has(rank));
        if waits { None } else { self.desk.writer.take() }
    }

    /// The thread has no more time for it, or it cannot go on.
    pub(super) fn park_writer(&mut self, writer: Box<Writer>) {
        if self.failed.is_some() {
            return;
        }
        self.desk.writer = Some(writer);
        if self.desk.at.is_none_or(|rank| self.desk.has(rank)) {
            self.version += 1;
        }
    }

    /// For whoever has the writer: what the task has lent.
    pub(super) fn borrow(&mut self, rank: usize) -> Option<Loan> {
        self.desk.at = Some(rank);
        if self.failed.is_some() || !self.desk.has(rank) {
            return None;
        }
        self.desk.borrowed = Some(rank);
        self.desk.loans[rank].take()
    }

    /// It goes back to where it was.
    pub(super) fn put_back(&mut self, rank: usize, mut loan: Loan) {
        self.desk.borrowed = None;
        if std::mem::replace(&mut loan.counted, loan.had) != loan.had {
            self.moves += 1;
        }
        // Not if its thread is gone meanwhile: the connection would not end.
        if self.tasks[rank].busy {
            self.desk.loans[rank] = Some(loan);
        }
        if self.failed.is_some() {
            self.wake();
        }
    }

    /// Nothing is left of it: its thread goes on.
    pub(super) fn give_back(&mut self, rank: usize, mut loan: Loan) {
        loan.returned = true;
        self.put_back(rank, loan);
        // The last ones hear of it when their bytes are written.
        if !self.tasks[rank].finished {
            self.version += 1;
        }
    }

    /// A chunk is to be filled.
    pub(super) fn began(&mut self) {
        self.desk.made += 1;
    }

    /// The task has bytes in the chunk that is being filled.
    pub(super) fn put(&mut self, rank: usize) {
        self.desk.put_until[rank] = self.desk.made;
    }

    /// The writer has what it wants of a task. Whoever takes it up next does not wait for that one.
    pub(super) fn went_on(&mut self) {
        self.desk.at = None;
    }

    /// The chunk is in the objects.
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

    /// How the task's call stands.
    ///
    /// # Errors
    /// The failure of all.
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

    /// A thread takes back what it has lent; whether it has it: whoever has the writer may be
    /// receiving from it.
    pub(super) fn take_back(&mut self, rank: usize) -> bool {
        if self.desk.borrowed == Some(rank) {
            return false;
        }
        self.withdraw(rank);
        true
    }

    /// A thread is gone, or done with what it has lent.
    pub(super) fn withdraw(&mut self, rank: usize) {
        self.tasks[rank].busy = false;
        if let Some(loan) = self.desk.loans.get_mut(rank) {
            *loan = None;
        }
    }
}
