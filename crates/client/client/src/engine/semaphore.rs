//! A semaphore without a runtime: for replay slots, connections, and critical sections that contain
//! an `.await`.
//!
//! Invariants:
//! 1. Free and held permits together are always `size`.
//! 2. Dropping a permit wakes one waiter.
//! 3. At most [`WAITERS_MAX`] tasks wait (I9).
//! 4. A waiter whose deadline has passed gives up when it wakes up next: by a permit, or by
//!    [`Semaphore::wake_expired`], which the service thread calls at every tick (I8).
//!
//! `release` asserts 1 and wakes a waiter (2); `poll` asserts 3. 4 is not asserted: the clock goes
//! on while a waiter sleeps.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use braid_net::Driver;

/// Calls of one process that may wait for one semaphore: more than the threads that a process can
/// have.
const WAITERS_MAX: usize = 65_536;

/// Locks a mutex, also after a panic elsewhere: every state behind our mutexes is consistent
/// between two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reason why no permit was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitRefused {
    /// The deadline passed.
    Late,
    /// Too many tasks wait already.
    Crowded,
}

#[derive(Debug)]
pub(crate) struct Semaphore {
    size: usize,
    state: Mutex<WaitQueue>,
}

#[derive(Debug)]
struct WaitQueue {
    free: usize,
    next_ticket: u64,
    waiters: VecDeque<(u64, Waker)>,
}

/// One permit. Dropping it frees it.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a Semaphore);

impl Semaphore {
    pub(crate) fn new(size: usize) -> Self {
        Self {
            size,
            state: Mutex::new(WaitQueue { free: size, next_ticket: 0, waiters: VecDeque::new() }),
        }
    }

    /// Waits for a permit until `deadline`, a time of the driver.
    pub(crate) fn acquire<'g, 'd, D: Driver>(
        &'g self,
        driver: &'d D,
        deadline: Duration,
    ) -> Acquire<'g, 'd, D> {
        Acquire { semaphore: self, driver, deadline, ticket: None }
    }

    /// Wakes all waiters, so that those whose deadline has passed give up.
    pub(crate) fn wake_expired(&self) {
        let waiters = std::mem::take(&mut lock(&self.state).waiters);
        waiters.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn release(&self) {
        let mut state = lock(&self.state);
        state.free += 1;
        debug_assert!(state.free <= self.size, "1: more permits than the semaphore has");
        let next = state.waiters.pop_front();
        drop(state);
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A future that waits for a permit.
#[derive(Debug)]
pub(crate) struct Acquire<'g, 'd, D> {
    semaphore: &'g Semaphore,
    driver: &'d D,
    deadline: Duration,
    ticket: Option<u64>,
}

impl<'g, D: Driver> Future for Acquire<'g, '_, D> {
    type Output = Result<Permit<'g>, WaitRefused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let semaphore = self.semaphore;
        let mut state = lock(&semaphore.state);
        if let Some(ticket) = self.ticket.take() {
            state.waiters.retain(|(waiting, _)| *waiting != ticket);
        }
        if state.free > 0 {
            state.free -= 1;
            return Poll::Ready(Ok(Permit(semaphore)));
        }
        if self.driver.now() >= self.deadline {
            return Poll::Ready(Err(WaitRefused::Late));
        }
        if state.waiters.len() >= WAITERS_MAX {
            return Poll::Ready(Err(WaitRefused::Crowded));
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiters.push_back((ticket, context.waker().clone()));
        self.ticket = Some(ticket);
        debug_assert!(state.waiters.len() <= WAITERS_MAX, "3: bounded");
        Poll::Pending
    }
}

impl<D> Drop for Acquire<'_, '_, D> {
    /// A waiter that was woken but does not take its permit wakes the next one.
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = lock(&self.semaphore.state);
        let before = state.waiters.len();
        state.waiters.retain(|(waiting, _)| *waiting != ticket);
        let was_woken = state.waiters.len() == before;
        let next = if was_woken && state.free > 0 { state.waiters.pop_front() } else { None };
        drop(state);
        if let Some((_, waker)) = next {
            waker.wake();
        }
    }
}
