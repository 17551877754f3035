//! Random numbers that are the same on every machine: one stream for each purpose, all drawn from
//! the seed.
//!
//! A separate stream for each purpose keeps a run stable: a new draw in the network does not change
//! what the workload does.

use std::{
    ops::Range,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// A stream. Draws through `&self`, so that several owners can share one.
#[derive(Debug)]
pub struct Random(Mutex<braid_types::Random>);

impl Random {
    /// The stream of `seed` for `purpose`.
    pub fn new(seed: u64, purpose: &str) -> Self {
        // FNV-1a of the purpose, so that streams of one seed have nothing in common.
        let hash = purpose.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let random = Self(Mutex::new(braid_types::Random::new(seed ^ hash.rotate_left(17))));
        random.next();
        random
    }

    /// The next 64 bits.
    pub fn next(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// A number in `0..end`; 0 when `end` is 0.
    pub fn below(&self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number in `range`, which must not be empty.
    pub fn within(&self, range: Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// A time in `range`.
    pub fn time(&self, range: Range<Duration>) -> Duration {
        let span = range.end.saturating_sub(range.start).as_nanos() as u64;
        range.start + Duration::from_nanos(self.below(span.max(1)))
    }

    /// True in `per_million` of a million draws.
    pub fn chance(&self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Fills `out`.
    pub fn fill(&self, out: &mut [u8]) {
        out.chunks_mut(8)
            .for_each(|chunk| chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_purpose() {
        let draw =
            |seed, purpose| (0..4).map(|_| Random::new(seed, purpose).next()).collect::<Vec<_>>();
        assert_eq!(draw(7, "network"), draw(7, "network"));
        assert_ne!(draw(7, "network"), draw(7, "disk"));
        assert_ne!(draw(7, "network"), draw(8, "network"));
    }

    #[test]
    fn draws_stay_in_their_range() {
        let random = Random::new(1, "test");
        assert!((0..1000).all(|_| (3..9).contains(&random.within(3..9))));
        assert_eq!(random.below(0), 0);
        assert!(!random.chance(0) && random.chance(1_000_000));
    }
}
