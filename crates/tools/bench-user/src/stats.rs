//! Median and spread of samples, and whether two sets of samples differ.
//!
//! The spread is the interval from the least to the greatest sample. It contains the true median
//! with a probability of `1 - 2^(1 - n)` for n samples of any distribution. Two sets of n samples
//! of one distribution are completely apart with a probability of `2 / C(2n, n)`: 0.8 % for 5 and
//! 5, 2.9 % for 4 and 4.

use serde::{Deserialize, Serialize};

/// Fewer samples do not separate noise from a change: 3 and 3 are apart by chance once in ten
/// times.
pub const SAMPLES_TO_COMPARE: usize = 4;

/// Median and spread.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The least sample.
    pub low: f64,
    /// The greatest sample.
    pub high: f64,
}

impl Summary {
    /// Of these samples; `None` when there are none, or one is not a number.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.iter().any(|sample| !sample.is_finite()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { median, low, high })
    }

    /// Whether the intervals have a value in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// The verdict on two sets of samples of the same thing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    /// Their spreads overlap: no difference beyond noise.
    Noise,
    /// All samples of the second are above all of the first; the ratio of the medians.
    Higher(f64),
    /// All samples of the second are below all of the first; the ratio of the medians.
    Lower(f64),
    /// There are fewer than [`SAMPLES_TO_COMPARE`] samples on a side, or none that are numbers.
    TooFew,
}

/// Compares the samples of a second run with those of a first.
#[must_use]
pub fn compare(first: &[f64], second: &[f64]) -> Verdict {
    let (Some(a), Some(b)) = (Summary::of(first), Summary::of(second)) else {
        return Verdict::TooFew;
    };
    if first.len().min(second.len()) < SAMPLES_TO_COMPARE {
        Verdict::TooFew
    } else if a.overlaps(&b) {
        Verdict::Noise
    } else if b.median > a.median {
        Verdict::Higher(b.median / a.median)
    } else {
        Verdict::Lower(b.median / a.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_one_or_between_the_two_in_the_middle() {
        assert_eq!(
            Summary::of(&[3.0, 1.0, 2.0]),
            Some(Summary { median: 2.0, low: 1.0, high: 3.0 })
        );
        assert_eq!(Summary::of(&[4.0, 1.0, 2.0, 100.0]).map(|s| s.median), Some(3.0));
        assert_eq!(Summary::of(&[7.0]), Some(Summary { median: 7.0, low: 7.0, high: 7.0 }));
    }

    #[test]
    fn nothing_and_what_is_no_number_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of(&[1.0, f64::INFINITY]), None);
    }

    #[test]
    fn overlapping_spreads_are_noise_also_when_the_medians_differ_much() {
        assert_eq!(compare(&[1.0, 2.0, 3.0, 10.0], &[9.9, 20.0, 30.0, 40.0]), Verdict::Noise);
        assert_eq!(
            compare(&[1.0, 2.0, 3.0, 4.0], &[4.0, 5.0, 6.0, 7.0]),
            Verdict::Noise,
            "they touch"
        );
    }

    #[test]
    fn spreads_that_lie_apart_are_a_change_also_when_it_is_small() {
        assert_eq!(
            compare(&[100.0, 100.1, 100.2, 100.3], &[101.0, 101.1, 101.2, 101.3]),
            Verdict::Higher(101.15 / 100.15)
        );
        assert_eq!(compare(&[4.0, 4.0, 4.0, 4.0], &[1.0, 1.0, 1.0, 1.0]), Verdict::Lower(0.25));
    }

    #[test]
    fn few_samples_tell_nothing() {
        assert_eq!(compare(&[1.0, 1.0, 1.0], &[9.0, 9.0, 9.0, 9.0]), Verdict::TooFew);
        assert_eq!(compare(&[1.0; 4], &[f64::NAN; 4]), Verdict::TooFew);
    }

    /// For one distribution, the share of pairs of runs that seem to differ is as in the module
    /// head.
    #[test]
    fn noise_is_taken_for_change_as_rarely_as_said() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64
        };
        let trials = 20_000;
        let mut run = || -> Vec<f64> { (0..5).map(|_| next()).collect() };
        let wrong = (0..trials).filter(|_| compare(&run(), &run()) != Verdict::Noise).count();
        let share = wrong as f64 / f64::from(trials);
        assert!((share - 2.0 / 252.0).abs() < 0.003, "{share}");
    }
}
