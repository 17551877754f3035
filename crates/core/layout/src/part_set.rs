//! A set of parts of one file: 512 bytes, no allocation.

use std::fmt;

use braid_types::{PartIndex, limits::PARTS_MAX};

const WORDS: usize = PARTS_MAX / 64;

/// A set of part indices below [`PARTS_MAX`].
///
/// ```
/// use braid_layout::PartSet;
/// use braid_types::PartIndex;
/// let set: PartSet = [PartIndex(3), PartIndex(1)].into_iter().collect();
/// assert_eq!(set.iter().collect::<Vec<_>>(), [PartIndex(1), PartIndex(3)]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PartSet {
    words: [u64; WORDS],
}

impl PartSet {
    /// The set without parts.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    /// Parts `0..count`; `count` is at most [`PARTS_MAX`].
    pub fn first(count: usize) -> Self {
        let mut set = Self::EMPTY;
        for (at, word) in set.words.iter_mut().enumerate() {
            *word = match count.saturating_sub(at * 64) {
                0 => 0,
                n if n < 64 => (1 << n) - 1,
                _ => u64::MAX,
            };
        }
        set
    }

    /// The set of one part; empty when the index is not below [`PARTS_MAX`].
    pub fn one(part: PartIndex) -> Self {
        let mut set = Self::EMPTY;
        set.insert(part);
        set
    }

    /// Adds a part. Returns `false`, and adds nothing, when the index is not below [`PARTS_MAX`].
    pub fn insert(&mut self, part: PartIndex) -> bool {
        match self.words.get_mut(usize::from(part.0) / 64) {
            Some(word) => *word |= 1 << (part.0 % 64),
            None => return false,
        }
        true
    }

    /// Whether the part is in the set.
    pub fn contains(&self, part: PartIndex) -> bool {
        self.words.get(usize::from(part.0) / 64).is_some_and(|word| word >> (part.0 % 64) & 1 == 1)
    }

    /// How many parts there are.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The parts, ascending.
    pub fn iter(&self) -> impl Iterator<Item = PartIndex> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                (bit < 64).then(|| {
                    rest &= rest - 1;
                    PartIndex((at as u32 * 64 + bit) as u16)
                })
            })
        })
    }
}

impl FromIterator<PartIndex> for PartSet {
    /// Ignores indices that are not below [`PARTS_MAX`]: no layout has such parts.
    fn from_iter<I: IntoIterator<Item = PartIndex>>(parts: I) -> Self {
        let mut set = Self::EMPTY;
        for part in parts {
            set.insert(part);
        }
        set
    }
}

impl fmt::Debug for PartSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|part| part.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_holds_what_was_put_in() {
        let mut set = PartSet::one(PartIndex(63));
        assert!(set.insert(PartIndex(64)) && set.insert(PartIndex(4095)));
        assert!(!set.insert(PartIndex(4096)), "past PARTS_MAX");
        assert_eq!(set.iter().map(|p| p.0).collect::<Vec<_>>(), [63, 64, 4095]);
        assert_eq!((set.len(), set.is_empty()), (3, false));
        assert!(
            set.contains(PartIndex(64))
                && !set.contains(PartIndex(65))
                && !set.contains(PartIndex(u16::MAX))
        );
    }

    #[test]
    fn first_parts_on_both_sides_of_a_word() {
        for count in [0, 1, 63, 64, 65, 4095, 4096, 5000] {
            let set = PartSet::first(count);
            assert_eq!(set.len(), count.min(PARTS_MAX));
            assert!(set.iter().enumerate().all(|(i, p)| i == usize::from(p.0)));
        }
    }
}
