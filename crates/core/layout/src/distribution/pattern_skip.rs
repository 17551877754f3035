//! Skips by arithmetic: finds the next repetition of a pattern that can touch a byte of a
//! [`Cover`].
//!
//! Repetition `i` lies at `base + i * stride`. Whether its bytes meet an interval of the cover is a
//! condition on its position modulo the cover's period. The first `i` that meets such a condition
//! is found in O(log) (`modular_search.rs`). Two cases have several conditions, each of them
//! *necessary*:
//!
//! - `grouped` has a period for its bands and one for the columns within them.
//! - A pattern that is itself regular lies inside its hull, and also inside a finer periodic
//!   pattern (a comb): its bytes lie at `position + spacing * k + [0, bytes)`. So the condition
//!   also holds modulo `gcd(spacing, period)`.
//!
//! The search applies the conditions in turn, for at most [`ROUNDS_MAX`] rounds, and returns what
//! it reached: a lower bound, which is exact when there is one condition. The caller looks there
//! and asks again.

use super::cover::{Band, Bands, Cover, CoverKind, Interval};
use crate::modular_search::{first_multiple_in, gcd};

/// Rounds over the conditions before the search returns to the caller, which counts its steps.
const ROUNDS_MAX: u32 = 8;

/// Copies at `base + i * stride`, as file offsets; `origin` is the start of the component.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progression {
    pub(crate) base: u64,
    pub(crate) stride: u64,
    pub(crate) origin: u64,
}

/// Every byte of a pattern laid at 0 lies in `spacing * k + [0, bytes)` for some integer `k`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PeriodicPattern {
    pub(crate) spacing: u64,
    pub(crate) bytes: u64,
}

/// `(position - low) mod modulus < bytes`.
struct Condition {
    modulus: u64,
    low: u64,
    bytes: u64,
}

impl Progression {
    /// Position of copy `i` relative to the component, modulo `modulus`. The copy's file offset is
    /// below 2^64; it may lie before the component.
    fn residue(&self, i: u64, modulus: u64) -> u64 {
        let at = self.base + i * self.stride;
        match at.checked_sub(self.origin) {
            Some(relative) => relative % modulus,
            None => (modulus - (self.origin - at) % modulus) % modulus,
        }
    }
}

impl Condition {
    /// The condition on the position of a comb that touches `interval` modulo `period`. `None` when
    /// it always holds.
    fn new(pattern: PeriodicPattern, period: u64, interval: Interval) -> Option<Self> {
        let modulus = gcd(pattern.spacing, period);
        let bytes = (interval.high - interval.low).checked_add(pattern.bytes - 1)?;
        if bytes >= modulus {
            return None;
        }
        let low = (interval.low % modulus + modulus - (pattern.bytes - 1)) % modulus;
        Some(Self { modulus, low, bytes })
    }

    /// The first copy from `i` on that meets the condition.
    fn first(&self, copies: &Progression, i: u64) -> Option<u64> {
        let past = (copies.residue(i, self.modulus) + (self.modulus - self.low)) % self.modulus;
        if past < self.bytes {
            return Some(i);
        }
        let back = self.modulus - past;
        i.checked_add(first_multiple_in(copies.stride, self.modulus, back, back + self.bytes - 1)?)
    }
}

impl Cover {
    /// The first copy in `range` that can touch a covered byte, or a lower bound for it (see the
    /// module). `patterns` describe one copy. Adds to `steps` one for each congruence solved.
    pub(crate) fn first_touch(
        &self,
        copies: &Progression,
        patterns: &[PeriodicPattern],
        range: std::ops::Range<u64>,
        steps: &mut u64,
    ) -> Option<u64> {
        let bands = match &self.0 {
            _ if range.is_empty() => return None,
            CoverKind::Nothing => return None,
            CoverKind::Everything => return Some(range.start),
            CoverKind::Bands(bands) => bands,
        };
        let mut best = None;
        let mut end = range.end;
        for (band, column) in bands.iter() {
            if let Some(found) =
                bands.first_touch_of(band, column, copies, patterns, range.start..end, steps)
            {
                (best, end) = (Some(found), found);
            }
            if end <= range.start {
                break;
            }
        }
        best
    }
}

impl Bands {
    fn first_touch_of(
        &self,
        band: &Band,
        column: Interval,
        copies: &Progression,
        patterns: &[PeriodicPattern],
        range: std::ops::Range<u64>,
        steps: &mut u64,
    ) -> Option<u64> {
        let mut i = range.start;
        for _ in 0..ROUNDS_MAX {
            let before = i;
            for pattern in patterns {
                for (period, interval) in [(self.row, column), (self.period, band.interval)] {
                    *steps += 1;
                    if let Some(condition) = Condition::new(*pattern, period, interval) {
                        i = condition.first(copies, i)?;
                    }
                    if i >= range.end {
                        return None;
                    }
                }
            }
            if i == before {
                return Some(i);
            }
        }
        self.can_touch(band, column, copies, patterns, i, steps).then_some(i)
    }

    /// Whether any copy from `i` on can touch the column in the band, if copies continued without
    /// end. All positions of a comb form one residue class, so this asks whether a row of the band
    /// has it. It is exact, where the rounds could find two conditions that hold separately but
    /// never together.
    fn can_touch(
        &self,
        band: &Band,
        column: Interval,
        copies: &Progression,
        patterns: &[PeriodicPattern],
        i: u64,
        steps: &mut u64,
    ) -> bool {
        let rows = (band.interval.high - band.interval.low) / self.row;
        let first_row =
            Interval { low: band.interval.low + column.low, high: band.interval.low + column.high };
        patterns.iter().all(|pattern| {
            *steps += 1;
            let spacing = gcd(pattern.spacing, copies.stride);
            let Some(condition) =
                Condition::new(PeriodicPattern { spacing, ..*pattern }, self.period, first_row)
            else {
                return true;
            };
            let m = condition.modulus;
            let past = (copies.residue(i, m) + (m - condition.low)) % m;
            // Row r lies `r * row` further on, so the copy lies that much further back.
            past < condition.bytes
                || first_multiple_in(m - self.row % m, m, m - past, m - past + condition.bytes - 1)
                    .is_some_and(|row| row < rows)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// No copy before the answer touches a covered byte, whatever the combs are.
        #[test]
        fn first_touch_never_skips_a_hit(
            row in 2u64..20,
            rows in 1u64..4,
            bands in 1u64..4,
            low in 0u64..20,
            bytes in 1u64..20,
            pick in 0u64..4,
            base in 0u64..100,
            stride in 1u64..100,
            child in 1u64..30,
            origin in 0u64..50,
        ) {
            let column = Interval { low: low % row, high: (low % row + bytes).min(row) };
            let (band, period) = (row * rows, row * rows * bands);
            let cover = Cover::banded(period, band, row, std::iter::once((pick % bands, column)));
            let copies = Progression { base, stride, origin };
            let touches = |i: u64| {
                let at = base + i * stride;
                (at..at + child).any(|x| x >= origin && cover.next(x - origin) == Some(x - origin))
            };
            let pattern = PeriodicPattern { spacing: 0, bytes: child };
            let found = cover.first_touch(&copies, &[pattern], 0..200, &mut 0);
            for i in 0..found.unwrap_or(200) {
                prop_assert!(!touches(i), "copy {} touches, skipped to {:?}", i, found);
            }
        }

        /// Exact for one extent and copies without end: they repeat after at most one period.
        #[test]
        fn can_touch_agrees_with_a_whole_round(
            row in 1u64..12,
            rows in 1u64..6,
            bands in 1u64..5,
            low in 0u64..12,
            bytes in 1u64..12,
            pick in 0u64..5,
            base in 0u64..100,
            stride in 1u64..100,
            child in 1u64..6,
        ) {
            let column = Interval { low: low % row, high: (low % row + bytes).min(row) };
            let (band, period) = (row * rows, row * rows * bands);
            let cover = Cover::banded(period, band, row, std::iter::once((pick % bands, column)));
            let CoverKind::Bands(bands) = &cover.0 else { return Ok(()) };
            let copies = Progression { base, stride, origin: 0 };
            let patterns = [PeriodicPattern { spacing: 0, bytes: child }];
            let touches = (0..period).any(|i| {
                let at = base + i * stride;
                (at..at + child).any(|x| cover.next(x) == Some(x))
            });
            let (found, column) = bands.iter().next().unwrap();
            prop_assert_eq!(bands.can_touch(found, column, &copies, &patterns, 0, &mut 0), touches);
        }

        #[test]
        fn next_covered_byte_agrees_with_scanning(
            row in 1u64..12,
            rows in 1u64..4,
            bands in 1u64..4,
            picks in proptest::collection::btree_set((0u64..4, 0u64..12), 0..8),
            from in 0u64..300,
        ) {
            let (band, period) = (row * rows, row * rows * bands);
            let cells: std::collections::BTreeSet<_> =
                picks.into_iter().map(|(b, c)| (b % bands, c % row)).collect();
            let cover = Cover::banded(
                period,
                band,
                row,
                cells.iter().map(|(b, c)| (*b, Interval { low: *c, high: c + 1 })),
            );
            let covered = |x: u64| cells.contains(&(x % period / band, x % period % band % row));
            prop_assert_eq!(cover.next(from), (from..from + 2 * period).find(|x| covered(*x)));
        }
    }
}
