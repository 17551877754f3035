//! Replay slots (I7): a mutating call holds one, with a sequence number that is its own.
//!
//! Invariants: (1) a slot has one call in flight; (2) its sequence rises by one per call, when the call starts:
//! a retry of the call carries the same number, the next call another; (3) a call that was given up keeps its
//! number for ever, so that a late execution of it can never be taken for the call after it.

use std::{sync::Mutex, time::Duration};

use braid_net::Driver;

use super::gate::{Gate, Permit, Refused, lock};

/// More are not used, whatever the server grants: a table that arrives from the network is bounded (I9).
const SLOTS_MAX: u32 = 1024;

#[derive(Debug)]
pub(crate) struct Slots {
    gate: Gate,
    free: Mutex<Vec<Slot>>,
}

#[derive(Debug)]
struct Slot {
    number: u32,
    sequence: u64,
}

/// A slot that a call holds.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    slots: &'a Slots,
    pub(crate) number: u32,
    pub(crate) sequence: u64,
    answered: bool,
    _permit: Permit<'a>,
}

impl Slots {
    pub(crate) fn new(count: u32) -> Self {
        let count = count.clamp(1, SLOTS_MAX);
        // Popped from the end: low numbers are used first, so that the server's table stays small.
        let free = (0..count).rev().map(|number| Slot { number, sequence: 0 }).collect();
        Self { gate: Gate::new(count as usize), free: Mutex::new(free) }
    }

    /// Waits for a slot and takes its next sequence number.
    pub(crate) async fn take<D: Driver>(
        &self,
        driver: &D,
        deadline: Duration,
    ) -> Result<Held<'_>, Refused> {
        let permit = self.gate.acquire(driver, deadline).await?;
        let slot = lock(&self.free).pop();
        // The gate has as many permits as there are slots, and a slot is put back before its permit.
        let slot = slot.expect("a permit without a slot");
        Ok(Held {
            slots: self,
            number: slot.number,
            sequence: slot.sequence + 1,
            answered: false,
            _permit: permit,
        })
    }

    pub(crate) fn nudge(&self) {
        self.gate.nudge();
    }
}

impl Held<'_> {
    /// The server is done with the call.
    pub(crate) fn answered(&mut self) {
        self.answered = true;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let slot = Slot { number: self.number, sequence: self.sequence };
        let mut free = lock(&self.slots.free);
        // The server may still be busy with a call that was given up: its slot is used again last.
        if self.answered { free.push(slot) } else { free.insert(0, slot) }
    }
}
