//! A map from ranges of 64-bit numbers to values: the locks of one owner on one file, as in POSIX.
//!
//! Invariants:
//! 1. Ranges do not overlap.
//! 2. Adjacent ranges have different values; equal ones are merged.
//! 3. A range does not end before it begins.
//!
//! `set` asserts 1 and 2, and `clear` asserts 3.

use std::collections::BTreeMap;

/// Ranges (first and last number inclusive), each with a value. Setting a range replaces what was
/// there: ranges are split and merged as POSIX `fcntl()` does with locks.
///
/// ```
/// use braid_types::RangeMap;
/// let mut locks = RangeMap::default();
/// locks.set(0, 99, 'r');
/// locks.set(40, 59, 'w');
/// assert_eq!(locks.iter().collect::<Vec<_>>(), [(0, 39, 'r'), (40, 59, 'w'), (60, 99, 'r')]);
/// locks.set(40, 59, 'r');
/// assert_eq!(locks.iter().collect::<Vec<_>>(), [(0, 99, 'r')]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeMap<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy + PartialEq> RangeMap<T> {
    /// Sets the value of every number of a range.
    ///
    /// # Panics
    /// When `last` is below `start`.
    pub fn set(&mut self, start: u64, last: u64, value: T) {
        self.clear(start, last);
        debug_assert!(
            self.overlapping(start, last).next().is_none(),
            "invariant 1: ranges do not overlap"
        );
        let (mut from, mut to) = (start, last);
        if let Some(before) = start.checked_sub(1)
            && let Some((first, _, same)) = self.at(before)
            && same == value
        {
            self.0.remove(&first);
            from = first;
        }
        if let Some(after) = last.checked_add(1)
            && let Some((first, end, same)) = self.at(after)
            && same == value
        {
            self.0.remove(&first);
            to = end;
        }
        self.0.insert(from, (to, value));
        debug_assert!(
            from.checked_sub(1).and_then(|n| self.at(n)).is_none_or(|(.., other)| other != value)
                && to
                    .checked_add(1)
                    .and_then(|n| self.at(n))
                    .is_none_or(|(.., other)| other != value),
            "invariant 2: adjacent ranges have the same value"
        );
    }

    /// Removes the value of every number of a range.
    ///
    /// # Panics
    /// When `last` is below `start`.
    pub fn clear(&mut self, start: u64, last: u64) {
        assert!(start <= last, "invariant 3: a range ends before it begins");
        let cut: Vec<_> = self.overlapping(start, last).collect();
        for (first, end, value) in cut {
            self.0.remove(&first);
            if first < start {
                self.0.insert(first, (start - 1, value));
            }
            if end > last {
                self.0.insert(last + 1, (end, value));
            }
        }
    }

    /// The ranges that overlap this one, each whole, ascending.
    pub fn overlapping(&self, start: u64, last: u64) -> impl Iterator<Item = (u64, u64, T)> + '_ {
        let from = self.at(start).map_or(start, |(first, ..)| first);
        self.0.range(from..=last).map(|(first, (end, value))| (*first, *end, *value))
    }

    /// Whether every number of a range has this value.
    pub fn covers(&self, start: u64, last: u64, value: T) -> bool {
        let mut next = Some(start);
        for (first, end, found) in self.overlapping(start, last) {
            match next {
                Some(at) if first <= at && found == value => next = end.checked_add(1),
                _ => return false,
            }
        }
        next.is_none_or(|next| next > last)
    }

    /// Every range, ascending: first number, last number, value.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, T)> + '_ {
        self.0.iter().map(|(first, (end, value))| (*first, *end, *value))
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no number has a value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The range that contains a number.
    fn at(&self, number: u64) -> Option<(u64, u64, T)> {
        let (first, (end, value)) = self.0.range(..=number).next_back()?;
        (*end >= number).then_some((*first, *end, *value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model with one value per number, for 12 numbers at one end of the 64-bit line.
    fn check(map: &RangeMap<u8>, model: &[Option<u8>; 12], base: u64) {
        let seen: Vec<_> = (0..12).map(|at| map.at(base + at).map(|(_, _, value)| value)).collect();
        assert_eq!(seen, model);
        let ranges: Vec<_> = map.iter().collect();
        for pair in ranges.windows(2) {
            let ((_, end, value), (first, _, next)) = (pair[0], pair[1]);
            assert!(end < first && (end + 1 < first || value != next), "{ranges:?}");
        }
    }

    #[test]
    fn every_pair_of_ranges_is_split_and_merged_like_single_bytes() {
        let ranges = |from: u64| {
            (from..12).flat_map(move |start| (start..12).map(move |last| (start, last)))
        };
        for base in [0, u64::MAX - 11] {
            for (a, b) in ranges(0).step_by(3).flat_map(|a| ranges(0).map(move |b| (a, b))) {
                for second in [Some(1), Some(2), None] {
                    let (mut map, mut model) = (RangeMap::default(), [None; 12]);
                    map.set(base + 5, base + 6, 2);
                    model[5..=6].fill(Some(2));
                    map.set(base + a.0, base + a.1, 1);
                    model[a.0 as usize..=a.1 as usize].fill(Some(1));
                    match second {
                        Some(value) => map.set(base + b.0, base + b.1, value),
                        None => map.clear(base + b.0, base + b.1),
                    }
                    model[b.0 as usize..=b.1 as usize].fill(second);
                    check(&map, &model, base);
                    let all_one =
                        model[b.0 as usize..=b.1 as usize].iter().all(|value| *value == Some(1));
                    assert_eq!(map.covers(base + b.0, base + b.1, 1), all_one);
                }
            }
        }
    }
}
