//! The space of one device: counted down from what it last said, so that it is not asked at each write.
//!
//! ```text
//!   |<─────────────── free, when it was measured ───────────────>|
//!   | counted since, or in flight then |  spare  | margin | kept  |
//! ```
//!
//! Invariants: (1) a write is counted before it is done, and is in flight until it is: a measurement takes all that is in
//! flight for unwritten, so that `free - since` is never above the truth but for what others write; (2) whoever is not in
//! room leaves `kept` and the margin alone, but for who writes on blocks that are there; (3) where nothing is kept everybody is admitted.

use std::time::Duration;

use braid_store::StoreSpace;
use braid_types::limits::{ROOM_BLOCK_BYTES, ROOM_EXPIRES_MS, ROOM_PART_OF_FREE};

use super::Claim;

/// When a term ends of which nothing is heard.
pub(super) const EXPIRES: Duration = Duration::from_millis(ROOM_EXPIRES_MS);
/// The margin is for what is not counted: maps of large files, directories, what other programs write between two
/// measurements. A part of the disk, in these bounds.
const MARGIN_PART_OF_DISK: u64 = 256;
const MARGIN_BYTES_MIN: u64 = 1 << 20;
const MARGIN_BYTES_MAX: u64 = 16 << 20;
/// A disk that has no room is not asked again before, unless something was counted since.
const MEASURED_AGAIN: Duration = Duration::from_millis(10);
/// Where something is kept, no write and no grant goes by a measurement that is older: what others wrote since is not counted.
const BELIEVED: Duration = Duration::from_secs(1);

/// What is known of one device's space, in bytes.
#[derive(Debug, Default)]
pub(super) struct Space {
    free: u64,
    /// Counted since it was measured, with what was in flight then.
    since: u64,
    in_flight: u64,
    in_flight_when_measured: u64,
    kept: u64,
    margin: u64,
    measured: Option<Duration>,
}

impl Space {
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Whether a write may be done now; then it is in flight.
    pub(super) fn admit(
        &mut self,
        cost: u64,
        claim: Claim,
        now: Duration,
        measure: impl FnOnce() -> Option<StoreSpace>,
    ) -> bool {
        if claim != Claim::InRoom && self.kept > 0 {
            let is_needed = self.spare() < cost && self.may_measure(now);
            if is_needed || self.is_older(now, BELIEVED) {
                self.measure(now, measure);
            }
            if self.spare() < cost {
                return false;
            }
        }
        self.count(cost);
        true
    }

    /// A write is done now, whatever is left: it is in flight.
    pub(super) fn count(&mut self, cost: u64) {
        self.since = self.since.saturating_add(cost);
        self.in_flight = self.in_flight.saturating_add(cost);
    }

    /// The disk has what was in flight.
    pub(super) fn done(&mut self, cost: u64) {
        self.in_flight = self.in_flight.saturating_sub(cost);
    }

    /// Keeps up to `wanted` bytes more; how many.
    pub(super) fn grant(
        &mut self,
        wanted: u64,
        now: Duration,
        measure: impl FnOnce() -> Option<StoreSpace>,
    ) -> u64 {
        if wanted == 0 {
            return 0;
        }
        // Where nothing was kept the count has run down unseen.
        if (self.is_older(now, BELIEVED) || self.kept == 0) && !self.measure(now, measure) {
            return 0;
        }
        let granted = (self.left().saturating_sub(self.margin) / ROOM_PART_OF_FREE)
            .saturating_sub(self.kept)
            .min(wanted);
        self.kept += granted;
        granted
    }

    /// Keeps so much less.
    pub(super) fn let_go(&mut self, bytes: u64) {
        self.kept = self.kept.saturating_sub(bytes);
    }

    /// What is free at least.
    fn left(&self) -> u64 {
        self.free.saturating_sub(self.since)
    }

    fn spare(&self) -> u64 {
        self.left().saturating_sub(self.kept).saturating_sub(self.margin)
    }

    fn may_measure(&self, now: Duration) -> bool {
        self.since > self.in_flight_when_measured || self.is_older(now, MEASURED_AGAIN)
    }

    fn is_older(&self, now: Duration, age: Duration) -> bool {
        self.measured.is_none_or(|measured| now >= measured.saturating_add(age))
    }

    /// Whether the disk said how much is free.
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
    let first = offset / ROOM_BLOCK_BYTES;
    let last = offset.saturating_add(bytes - 1) / ROOM_BLOCK_BYTES;
    (last - first + 1).saturating_mul(ROOM_BLOCK_BYTES)
}
