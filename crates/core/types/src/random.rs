//! Random numbers from a seed, for faults, loads and simulations that must be repeatable. Never for
//! keys.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): small, good for every seed, and the same on
/// every machine.
///
/// ```
/// let mut numbers = braid_types::Random::new(0);
/// assert_eq!(numbers.next_u64(), 0xe220_a839_7b1d_cdaf);
/// ```
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..end`; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next_u64() % end }
    }

    /// One of the elements; `None` if there are none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        let mut numbers = Random::new(1_234_567);
        // Vigna's reference program, seed 1234567.
        let expected =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| numbers.next_u64()), expected);
        assert_eq!((numbers.below(0), numbers.pick::<u8>(&[])), (0, None));
        assert!((0..1000).all(|_| numbers.below(7) < 7));
    }
}
