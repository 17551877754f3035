//! The threads that run started operations. They start on demand, and end when they were idle for a
//! while.
//!
//! Invariants:
//! 1. At most [`THREADS_MAX`] threads exist, and at most [`QUEUE_MAX`] operations wait for one
//!    (I9). Beyond that, the calling thread runs its operation itself.
//! 2. All other operations begin in the order in which they were started.
//! 3. A child after `fork` has none of these threads. It runs its operations itself, and takes no
//!    lock that its parent may have held.
//!
//! `enqueue` asserts 1. The queue is first in, first out (2). Each entry point checks 3 where it
//! begins.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::Duration,
};

use crate::{engine::semaphore::lock, fork};

/// Operations that run at a time: as many as a program has connections to one I/O daemon.
const THREADS_MAX: usize = 16;
/// Operations that wait for a thread, some hundred bytes each.
const QUEUE_MAX: usize = 4096;
/// An idle thread ends after this time.
const IDLE_TIME: Duration = Duration::from_secs(10);

pub(super) type Work = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(super) struct Workers {
    process: u64,
    state: Mutex<WorkQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct WorkQueue {
    queue: VecDeque<Work>,
    threads: usize,
    idle: usize,
    closing: bool,
}

impl std::fmt::Debug for WorkQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("queued", &self.queue.len())
            .field("threads", &self.threads)
            .finish()
    }
}

impl Workers {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { process: fork::mark(), state: Mutex::default(), changed: Condvar::new() })
    }

    /// Lets a thread run the operation, or runs it immediately if no thread can.
    pub(super) fn run(self: &Arc<Self>, work: Work) {
        if let Some(mine) = self.enqueue(work) {
            mine();
        }
    }

    /// Lets idle threads end now.
    pub(super) fn close(&self) {
        // Invariant 3.
        if fork::mark() == self.process {
            lock(&self.state).closing = true;
            self.changed.notify_all();
        }
    }

    /// Queues the operation; returns it if no thread will run it.
    fn enqueue(self: &Arc<Self>, work: Work) -> Option<Work> {
        // Invariant 3.
        if fork::mark() != self.process {
            return Some(work);
        }
        let mut state = lock(&self.state);
        if state.queue.len() >= QUEUE_MAX {
            return Some(work);
        }
        state.queue.push_back(work);
        if state.idle >= state.queue.len() {
            self.changed.notify_one();
            return None;
        }
        if state.threads < THREADS_MAX {
            let workers = Arc::clone(self);
            match thread::Builder::new().name("braid-started".into()).spawn(move || workers.work())
            {
                Ok(_) => state.threads += 1,
                // No thread exists that would ever take it.
                Err(_) if state.threads == 0 => return state.queue.pop_back(),
                Err(_) => {}
            }
        }
        debug_assert!(state.threads <= THREADS_MAX && state.queue.len() <= QUEUE_MAX, "1: bounded");
        None
    }

    fn work(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(work) = state.queue.pop_front() {
                drop(state);
                work();
                state = lock(&self.state);
                continue;
            }
            if state.closing {
                break;
            }
            state.idle += 1;
            let (woken, waited) =
                self.changed.wait_timeout(state, IDLE_TIME).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if waited.timed_out() && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use super::*;
    use crate::blocking::PendingOperation;

    #[test]
    fn started_operations_run_at_the_same_time() {
        let workers = Workers::new();
        // No thread passes this barrier before all threads reach it.
        let barrier = Arc::new(Barrier::new(THREADS_MAX));
        let started: Vec<_> = (0..THREADS_MAX)
            .map(|at| {
                let barrier = Arc::clone(&barrier);
                PendingOperation::new(&workers, move || {
                    barrier.wait();
                    at
                })
            })
            .collect();
        assert_eq!(
            started.into_iter().map(PendingOperation::wait).collect::<Vec<_>>(),
            (0..THREADS_MAX).collect::<Vec<_>>()
        );
        assert_eq!(lock(&workers.state).threads, THREADS_MAX);
        workers.close();
        while lock(&workers.state).threads > 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn beyond_the_queue_the_caller_runs_the_operation() {
        let workers = Workers::new();
        let (open, opened) = mpsc::channel::<()>();
        let opened = Arc::new(Mutex::new(opened));
        let begun = Arc::new(AtomicUsize::new(0));
        let start = || {
            let (opened, begun) = (Arc::clone(&opened), Arc::clone(&begun));
            PendingOperation::new(&workers, move || {
                begun.fetch_add(1, Ordering::Relaxed);
                // Waits until the other end is dropped.
                let _ = lock(&opened).recv();
            })
        };
        // Every thread is busy, and the queue is full.
        let mut started = Vec::new();
        while begun.load(Ordering::Relaxed) < THREADS_MAX
            || lock(&workers.state).queue.len() < QUEUE_MAX
        {
            let is_full = lock(&workers.state).queue.len() == QUEUE_MAX;
            if is_full { thread::yield_now() } else { started.push(start()) }
        }
        let mine = PendingOperation::new(&workers, || thread::current().id());
        assert!(mine.is_done(), "it was done here");
        assert_eq!(mine.wait(), thread::current().id());
        assert_eq!(begun.load(Ordering::Relaxed), THREADS_MAX);
        drop(open);
        started.into_iter().for_each(PendingOperation::wait);
    }

    #[test]
    fn a_panic_is_the_waiters() {
        let workers = Workers::new();
        let started =
            PendingOperation::new(&workers, || std::panic::resume_unwind(Box::new("planted")));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| started.wait()));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"planted"));
        assert_eq!(PendingOperation::new(&workers, || 7).wait(), 7, "the thread goes on");
    }

    #[test]
    fn an_operation_in_progress_is_not_waited_for() {
        let workers = Workers::new();
        let (open, opened) = mpsc::channel::<()>();
        let started = PendingOperation::new(&workers, move || opened.recv().is_err());
        let started = started.test().unwrap_err();
        assert!(!started.is_done());
        drop(open);
        assert!(started.wait());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_does_its_own() {
        let workers = Workers::new();
        PendingOperation::new(&workers, || ()).wait();
        let held = lock(&workers.state);
        assert!(braid_testbed::fork::holds_in_child(|| PendingOperation::new(&workers, || 5)
            .test()
            .is_ok_and(|five| five == 5)));
        drop(held);
    }
}
