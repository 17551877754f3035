//! A hash for tables whose keys are ids that a server assigned in sequence. Such keys need no
//! protection against deliberate collisions.

use std::hash::{BuildHasherDefault, Hasher};

/// Replaces [`std::hash::RandomState`].
pub type IdHashBuilder = BuildHasherDefault<IdHasher>;

/// A counter already spreads the ids, so one multiplication is enough.
#[derive(Clone, Copy, Default, Debug)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64); // the discriminant of an enum
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, hash::BuildHasher};

    use super::*;
    use crate::FileIndex;

    #[test]
    fn counted_ids_fall_into_different_slots_of_a_table() {
        let low_bits: HashSet<u64> =
            (0..1024).map(|n| IdHashBuilder::default().hash_one(FileIndex(n)) % 1024).collect();
        assert!(low_bits.len() > 512, "{}", low_bits.len());
    }
}
