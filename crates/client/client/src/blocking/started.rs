//! An operation that goes on while the thread that started it does something else.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::workers::{Work, Workers};
use crate::{engine::gate::lock, fork};

/// An operation that was started; [`crate::File::start`] says how. Dropped, it goes on, and nobody learns what came of it. After `fork` it
/// is the parent's: a child that waits for it panics.
#[must_use = "nobody learns what came of it"]
pub struct Started<T>(Arc<Place<T>>);

/// The panic of the operation, if it panicked.
type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Where the outcome is put.
struct Place<T> {
    process: u64,
    outcome: Mutex<Option<Outcome<T>>>,
    put: Condvar,
}

impl<T: Send + 'static> Started<T> {
    pub(super) fn new(workers: &Arc<Workers>, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (place, work) = Self::of(work);
        workers.run(work);
        place
    }

    /// Starts work on a thread of its own: for work that waits for other work, such as [`crate::refuse_all`]. The sixteen threads of
    /// [`crate::Client::start`] might wait for each other for ever. Where no thread is to be had the calling one does it.
    pub fn apart(work: impl FnOnce() -> T + Send + 'static) -> Self {
        let (place, work) = Self::of(work);
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
        place
    }

    fn of(work: impl FnOnce() -> T + Send + 'static) -> (Self, Work) {
        let place = Arc::new(Place {
            process: fork::mark(),
            outcome: Mutex::new(None),
            put: Condvar::new(),
        });
        let there = Arc::clone(&place);
        let work = Box::new(move || {
            // A panic is the waiter's, as if it had made the call itself.
            let outcome = catch_unwind(AssertUnwindSafe(work));
            *lock(&there.outcome) = Some(outcome);
            there.put.notify_all();
        });
        (Self(place), work)
    }
}

impl<T> Started<T> {
    /// Whether it is over, so that [`Started::wait`] returns at once.
    pub fn is_done(&self) -> bool {
        self.outcome().is_some()
    }

    /// Waits until it is over; what came of it.
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

    /// As [`Started::wait`], for `time` at most. Gives itself back when it goes on longer.
    ///
    /// # Errors
    /// It goes on.
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
            "waits for what the parent of this process started"
        );
        lock(&self.0.outcome)
    }

    /// What came of it, when it is over; else itself.
    ///
    /// # Errors
    /// It goes on.
    pub fn test(self) -> Result<T, Self> {
        self.wait_for(Duration::ZERO)
    }
}

impl<T> fmt::Debug for Started<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").finish_non_exhaustive()
    }
}
