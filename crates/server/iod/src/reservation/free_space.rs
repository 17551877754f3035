//! The free space of one device. It is counted down from the last measurement, so that not every
//! write asks the device.
//!
//! ```text
//!   |<─────────────── free, when it was measured ──────────────────>|
//!   | charged since, or in flight then |  spare  | margin | reserved |
//! ```
//!
//! Invariants:
//! 1. A write is charged before it is done, and is in flight until it is done. A measurement counts
//!    all writes in flight as not written yet. So `free - since` exceeds the real free space only
//!    by what other programs write.
//! 2. A write outside a reservation leaves `reserved` and the margin alone, except on allocated
//!    blocks.
//! 3. While nothing is reserved, every write is admitted.
//!
//! `complete` asserts 1 for the writes in flight. `try_charge` looks at the free space only where
//! something is reserved (3), and refuses what would break 2.

use std::time::Duration;

use braid_store::StoreSpace;
use braid_types::limits::{
    RESERVATION_BLOCK_BYTES, RESERVATION_EXPIRES_MS, RESERVATION_FREE_SPACE_DIVISOR,
};

use super::ChargeKind;

/// A term ends this long after the last message about it.
pub(super) const TERM_LIFETIME: Duration = Duration::from_millis(RESERVATION_EXPIRES_MS);
/// The margin covers what is not counted: block maps of large files, directories, and what other
/// programs write between two measurements. It is a fraction of the disk within these limits.
const MARGIN_PART_OF_DISK: u64 = 256;
const MARGIN_BYTES_MIN: u64 = 1 << 20;
const MARGIN_BYTES_MAX: u64 = 16 << 20;
/// Minimum interval between measurements of a full disk, unless something was charged in between.
const MEASUREMENT_INTERVAL: Duration = Duration::from_millis(10);
/// While space is reserved, no write or grant relies on an older measurement: it does not include
/// what other programs wrote since.
const MEASUREMENT_VALID: Duration = Duration::from_secs(1);

/// What is known about one device's space, in bytes.
#[derive(Debug, Default)]
pub(super) struct FreeSpace {
    free: u64,
    /// Charged since the measurement, and in flight at the measurement.
    since: u64,
    in_flight: u64,
    in_flight_when_measured: u64,
    reserved: u64,
    margin: u64,
    measured: Option<Duration>,
}

impl FreeSpace {
    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Whether a write may be done now. If so, it is in flight.
    pub(super) fn try_charge(
        &mut self,
        cost: u64,
        claim: ChargeKind,
        now: Duration,
        measure: impl FnOnce() -> Option<StoreSpace>,
    ) -> bool {
        if claim != ChargeKind::Reserved && self.reserved > 0 {
            let is_needed = self.spare() < cost && self.may_measure(now);
            if is_needed || self.is_older(now, MEASUREMENT_VALID) {
                self.measure(now, measure);
            }
            if self.spare() < cost {
                return false;
            }
        }
        self.charge(cost);
        true
    }

    /// A write is done whatever is left: it is in flight.
    pub(super) fn charge(&mut self, cost: u64) {
        self.since = self.since.saturating_add(cost);
        self.in_flight = self.in_flight.saturating_add(cost);
    }

    /// The disk has a write that was in flight.
    pub(super) fn complete(&mut self, cost: u64) {
        debug_assert!(cost <= self.in_flight, "1: a write that ends was charged");
        self.in_flight = self.in_flight.saturating_sub(cost);
    }

    /// Reserves up to `wanted` bytes more. Returns how many.
    pub(super) fn reserve(
        &mut self,
        wanted: u64,
        now: Duration,
        measure: impl FnOnce() -> Option<StoreSpace>,
    ) -> u64 {
        if wanted == 0 {
            return 0;
        }
        // While nothing was reserved, the count was not watched.
        if (self.is_older(now, MEASUREMENT_VALID) || self.reserved == 0)
            && !self.measure(now, measure)
        {
            return 0;
        }
        let granted = (self.free_at_least().saturating_sub(self.margin)
            / RESERVATION_FREE_SPACE_DIVISOR)
            .saturating_sub(self.reserved)
            .min(wanted);
        self.reserved += granted;
        debug_assert!(
            granted == 0 || self.reserved <= self.free_at_least(),
            "mod 1: reserved space is free"
        );
        granted
    }

    /// Releases reserved bytes.
    pub(super) fn release(&mut self, bytes: u64) {
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    /// Free space, at least.
    fn free_at_least(&self) -> u64 {
        self.free.saturating_sub(self.since)
    }

    fn spare(&self) -> u64 {
        self.free_at_least().saturating_sub(self.reserved).saturating_sub(self.margin)
    }

    fn may_measure(&self, now: Duration) -> bool {
        self.since > self.in_flight_when_measured || self.is_older(now, MEASUREMENT_INTERVAL)
    }

    fn is_older(&self, now: Duration, age: Duration) -> bool {
        self.measured.is_none_or(|measured| now >= measured.saturating_add(age))
    }

    /// Whether the disk reported its free space.
    fn measure(&mut self, now: Duration, measure: impl FnOnce() -> Option<StoreSpace>) -> bool {
        let Some(space) = measure() else { return false };
        self.free = space.available_bytes;
        (self.since, self.in_flight_when_measured) = (self.in_flight, self.in_flight);
        self.margin =
            (space.total_bytes / MARGIN_PART_OF_DISK).clamp(MARGIN_BYTES_MIN, MARGIN_BYTES_MAX);
        self.measured = Some(now);
        true
    }
}

/// Bytes of the blocks that a range touches.
pub(super) fn blocks(offset: u64, bytes: u64) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let first = offset / RESERVATION_BLOCK_BYTES;
    let last = offset.saturating_add(bytes - 1) / RESERVATION_BLOCK_BYTES;
    (last - first + 1).saturating_mul(RESERVATION_BLOCK_BYTES)
}
