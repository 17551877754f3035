//! Flushes of the whole store, one at a time. Callers that arrive while one runs share the next.
//!
//! ```text
//!   caller ── ticket = begun ── lock ──┬── a flush began after the ticket: its outcome
//!                                      └── none did: begun + 1, flush
//! ```
//!
//! Invariants:
//! 1. A caller gets the outcome of a flush that began after its ticket. So this flush covers every
//!    write that was acknowledged before the ticket was taken.
//! 2. Of the callers that wait at one moment, only one does the work (I9).
//!
//! `run` asserts 1. The lock of the last outcome lets one caller work at a time (2).

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use braid_types::{Failure, WriteVerifier};

type Outcome = Result<WriteVerifier, Failure>;

/// The flushes of one daemon.
#[derive(Debug, Default)]
pub(crate) struct FlushAll {
    begun: AtomicU64,
    /// Number and outcome of the last flush; locked while one runs.
    last: Mutex<Option<(u64, Outcome)>>,
}

/// The number of flushes that had begun when a request arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket(u64);

impl FlushAll {
    /// Taken when a request arrives.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket(self.begun.load(SeqCst))
    }

    /// The outcome of a flush that began after the ticket: of `flush`, unless another caller's
    /// flush did.
    pub(crate) fn run(&self, ticket: Ticket, flush: impl FnOnce() -> Outcome) -> Outcome {
        let mut last = self.last.lock().unwrap_or_else(braid_types::poisoned);
        if let Some((number, outcome)) = &*last
            && *number > ticket.0
        {
            return outcome.clone();
        }
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        debug_assert!(number > ticket.0, "1: the flush begins after the ticket");
        let outcome = flush();
        *last = Some((number, outcome.clone()));
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_types::Status;
    use std::{cell::Cell, sync::mpsc::channel, thread};

    const DONE: Outcome = Ok(WriteVerifier(7));

    #[test]
    fn tickets_of_before_a_flush_share_it_and_later_ones_do_not() {
        let (all, flushes) = (FlushAll::default(), Cell::new(0));
        let flush = || {
            flushes.set(flushes.get() + 1);
            DONE
        };
        let before: Vec<Ticket> = (0..3).map(|_| all.ticket()).collect();
        before.into_iter().for_each(|ticket| assert_eq!(all.run(ticket, flush), DONE));
        assert_eq!(flushes.get(), 1);
        assert_eq!(all.run(all.ticket(), flush), DONE);
        assert_eq!(flushes.get(), 2);
    }

    #[test]
    fn a_caller_during_a_flush_waits_for_the_next_one() {
        let all = &FlushAll::default();
        let (began, has_begun) = channel();
        let (end, may_end) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                all.run(all.ticket(), || {
                    began.send(()).unwrap();
                    may_end.recv().unwrap();
                    DONE
                })
            });
            has_begun.recv().unwrap();
            let during = all.ticket();
            end.send(()).unwrap();
            let mut ran = false;
            let outcome = all.run(during, || {
                ran = true;
                DONE
            });
            assert_eq!((outcome, ran), (DONE, true));
        });
    }

    #[test]
    fn a_failure_is_returned_to_all_that_share_the_flush() {
        let all = FlushAll::default();
        let (first, second) = (all.ticket(), all.ticket());
        let failed = || Err(Failure::from(Status::DiskError));
        assert!(all.run(first, failed).is_err());
        assert!(all.run(second, || DONE).is_err());
        assert_eq!(all.run(all.ticket(), || DONE), DONE);
    }
}
