//! Ratios of samples that were taken in turns: each is divided by its neighbour, which saw the same
//! machine, so that a busy machine disturbs both.

use anyhow::{Context, Result, ensure};
use braid_testbed::stats::Summary;

/// The summary of `ours[i] / theirs[i]`.
///
/// # Errors
/// Without samples; for different numbers of them; where the divisor is 0.
pub fn of_pairs(ours: &[f64], theirs: &[f64]) -> Result<Summary> {
    ensure!(ours.len() == theirs.len(), "samples without a neighbour");
    ensure!(theirs.iter().all(|value| *value > 0.0), "a sample of the rival is 0");
    summary(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs))
}

/// The summary of samples.
///
/// # Errors
/// Without samples, or when one is not a number.
pub fn summary(samples: impl IntoIterator<Item = f64>) -> Result<Summary> {
    Summary::of(samples).context("no sample, or one that is not a number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_is_divided_by_its_neighbour() {
        let ratio = of_pairs(&[2.0, 40.0, 3.0], &[1.0, 10.0, 1.0]).unwrap();
        assert_eq!((ratio.median, ratio.min, ratio.max), (3.0, 2.0, 4.0));
    }

    #[test]
    fn samples_without_a_neighbour_and_zeros_have_no_ratio() {
        assert!(of_pairs(&[], &[]).is_err());
        assert!(of_pairs(&[1.0], &[]).is_err());
        assert!(of_pairs(&[1.0], &[0.0]).is_err());
        assert!(of_pairs(&[1.0], &[f64::NAN]).is_err());
    }
}
