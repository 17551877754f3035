//! An operation that runs in the background while the thread that started it does something else.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::workers::{Work, Workers};
use crate::{engine::semaphore::lock, fork};

/// An operation that was started; see [`crate::File::start`]. When this is dropped, the operation
/// continues and its result is discarded. After `fork` the operation belongs to the parent: a child
/// that waits for it panics.
#[must_use = "the result is lost when this is dropped"]
pub struct PendingOperation<T>(Arc<OutcomeCell<T>>);

/// The panic of the operation, if it panicked.
type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Holds the result.
struct OutcomeCell<T> {
    process: u64,
    outcome: Mutex<Option<Outcome<T>>>,
    put: Condvar,
}

impl<T: Send + 'static> PendingOperation<T> {
    pub(super) fn new(workers: &Arc<Workers>, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (state, work) = Self::of(work);
        workers.run(work);
        state
    }

    /// Runs an operation on its own thread: for operations that wait for other operations, such as
    /// [`crate::refuse_all`]. The sixteen threads of [`crate::Client::start`] could wait for each
    /// other forever. If no thread can be started, the calling thread runs the operation.
    pub fn on_own_thread(work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (state, work) = Self::of(work);
        let once = Arc::new(Mutex::new(Some(work)));
        let theirs = Arc::clone(&once);
        let run = move |once: &Mutex<Option<Work>>| {
            let work = lock(once).take();
            work.into_iter().for_each(|work| work());
        };
        if thread::Builder::new().name("braid-started".into()).spawn(move || run(&theirs)).is_err()
        {
            run(&once);
        }
        state
    }

    fn of(work: impl FnOnce() -> T + Send + 'static) -> (Self, Work) {
        let state = Arc::new(OutcomeCell {
            process: fork::mark(),
            outcome: Mutex::new(None),
            put: Condvar::new(),
        });
        let there = Arc::clone(&state);
        let work = Box::new(move || {
            // A panic is passed to the waiting thread, as if it had made the call itself.
            let outcome = catch_unwind(AssertUnwindSafe(work));
            *lock(&there.outcome) = Some(outcome);
            there.put.notify_all();
        });
        (Self(state), work)
    }
}

impl<T> PendingOperation<T> {
    /// Whether the operation has ended, so that [`PendingOperation::wait`] returns immediately.
    pub fn is_done(&self) -> bool {
        self.outcome().is_some()
    }

    /// Waits until the operation has ended. Returns its result.
    pub fn wait(self) -> T {
        let mut outcome = self.outcome();
        loop {
            match outcome.take() {
                Some(taken) => {
                    drop(outcome);
                    return taken.unwrap_or_else(|panic| resume_unwind(panic));
                }
                None => outcome = self.0.put.wait(outcome).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// As [`PendingOperation::wait`], for `time` at most. Returns the operation itself if it still
    /// runs.
    ///
    /// # Errors
    /// It still runs.
    pub fn wait_for(self, time: Duration) -> Result<T, Self> {
        let started = Instant::now();
        let mut outcome = self.outcome();
        while outcome.is_none() {
            let left = time.saturating_sub(started.elapsed());
            if left.is_zero() {
                drop(outcome);
                return Err(self);
            }
            outcome =
                self.0.put.wait_timeout(outcome, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(outcome);
        Ok(self.wait())
    }

    fn outcome(&self) -> MutexGuard<'_, Option<Outcome<T>>> {
        assert_eq!(
            self.0.process,
            fork::mark(),
            "the parent of this process started the operation"
        );
        lock(&self.0.outcome)
    }

    /// The result if the operation has ended, else the operation itself.
    ///
    /// # Errors
    /// It still runs.
    pub fn test(self) -> Result<T, Self> {
        self.wait_for(Duration::ZERO)
    }
}

impl<T> fmt::Debug for PendingOperation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").finish_non_exhaustive()
    }
}
