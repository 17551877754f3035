//! Replay slots (I7). A call that changes something holds a slot with its own sequence number.
//!
//! Invariants:
//! 1. A slot has one call in flight.
//! 2. Its sequence rises by one for each call, when the call starts. Retries of the call carry the
//!    same number, the next call another one.
//! 3. The number of an abandoned call is never reused. So a late execution of it can never be taken
//!    for the next call.
//!
//! Dropping a slot asserts 1. `take` adds one to the sequence, and the drop stores it, whether the
//! call was answered or not (2, 3).

use std::{sync::Mutex, time::Duration};

use braid_net::Driver;

use super::semaphore::{Permit, Semaphore, WaitRefused, lock};

/// More slots are not used, whatever the server grants: a size from the network is bounded (I9).
const SLOTS_MAX: u32 = 1024;

#[derive(Debug)]
pub(crate) struct Slots {
    semaphore: Semaphore,
    free: Mutex<Vec<FreeSlot>>,
}

#[derive(Debug)]
struct FreeSlot {
    number: u32,
    sequence: u64,
}

/// A slot that a call holds.
#[derive(Debug)]
pub(crate) struct HeldSlot<'a> {
    slots: &'a Slots,
    pub(crate) number: u32,
    pub(crate) sequence: u64,
    answered: bool,
    _permit: Permit<'a>,
}

impl Slots {
    /// `sequence` is the last number that another holder of the session may have used, 0 for a new
    /// session (invariant 3).
    pub(crate) fn new(count: u32, sequence: u64) -> Self {
        let count = count.clamp(1, SLOTS_MAX);
        // Taken from the end: low numbers are used first, so that the server's table stays small.
        let free = (0..count).rev().map(|number| FreeSlot { number, sequence }).collect();
        Self { semaphore: Semaphore::new(count as usize), free: Mutex::new(free) }
    }

    /// Waits for a slot and takes its next sequence number.
    pub(crate) async fn take<D: Driver>(
        &self,
        driver: &D,
        deadline: Duration,
    ) -> Result<HeldSlot<'_>, WaitRefused> {
        let permit = self.semaphore.acquire(driver, deadline).await?;
        let slot = lock(&self.free).pop();
        // There are as many permits as slots, and a slot is put back before its permit.
        let slot = slot.expect("a permit without a slot");
        Ok(HeldSlot {
            slots: self,
            number: slot.number,
            sequence: slot.sequence + 1,
            answered: false,
            _permit: permit,
        })
    }

    pub(crate) fn wake_expired(&self) {
        self.semaphore.wake_expired();
    }
}

impl HeldSlot<'_> {
    /// The server has finished the call.
    pub(crate) fn answered(&mut self) {
        self.answered = true;
    }
}

impl Drop for HeldSlot<'_> {
    fn drop(&mut self) {
        let slot = FreeSlot { number: self.number, sequence: self.sequence };
        let mut free = lock(&self.slots.free);
        debug_assert!(
            free.iter().all(|free| free.number != self.number),
            "1: a slot has one call in flight"
        );
        // The server may still execute an abandoned call: its slot is reused last.
        if self.answered { free.push(slot) } else { free.insert(0, slot) }
    }
}
