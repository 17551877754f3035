//! Medians and spreads.

/// The summary of several samples of one measure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// The middle sample; for an even count the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of at least one sample; `None` for none, or when one is not a number.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.into_iter().collect();
        if sorted.is_empty() || sorted.iter().any(|sample| sample.is_nan()) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self {
            median: f64::midpoint(low, high),
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        })
    }

    /// One value that was measured once.
    pub fn once(value: f64) -> Self {
        Self { median: value, min: value, max: value }
    }
}

/// The value that `percent` of the samples do not exceed (nearest rank). Sorts them.
pub fn percentile(samples: &mut [f64], percent: f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * samples.len() as f64).ceil() as usize;
    samples[rank.clamp(1, samples.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_count_is_the_middle_one() {
        let summary = Summary::of([5.0, 1.0, 3.0]).unwrap();
        assert_eq!(summary, Summary { median: 3.0, min: 1.0, max: 5.0 });
    }

    #[test]
    fn the_median_of_an_even_count_is_between_the_two_in_the_middle() {
        assert_eq!(Summary::of([4.0, 1.0, 2.0, 100.0]).unwrap().median, 3.0);
    }

    #[test]
    fn one_outlier_moves_the_spread_and_not_the_median() {
        let summary = Summary::of([1.0, 1.0, 1.0, 1.0, 900.0]).unwrap();
        assert_eq!((summary.median, summary.max), (1.0, 900.0));
    }

    #[test]
    fn nothing_has_no_summary_and_neither_has_not_a_number() {
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([1.0, f64::NAN]), None);
    }

    #[test]
    fn percentiles_are_samples() {
        let mut samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut samples, 50.0), 50.0);
        assert_eq!(percentile(&mut samples, 99.0), 99.0);
        assert_eq!(percentile(&mut samples, 100.0), 100.0);
        assert_eq!(percentile(&mut [7.0], 1.0), 7.0);
    }
}
