//! How cost grows with size: exponents, and which of them are reported.
//!
//! The exponent of some points is the slope of the line through their logarithms (least squares): 0
//! for constant cost, 1 for a cost that doubles with the size. One exponent of two neighbours may
//! be chance. A step is therefore reported only when it is steep and the samples of both points do
//! not overlap.

use braid_testbed::stats::Summary;

/// Tolerance of the exponent for a whole curve, and for its rise from the cheapest point on: a
/// factor of 1.6 over two decades of size.
pub const WHOLE_ROOM: f64 = 0.1;
/// The same between two neighbours: a factor of 1.5 where the size is four times as large.
pub const STEP_ROOM: f64 = 0.3;

/// Cost at a size.
pub type Cost = (u64, Summary);

/// The slope of `ln cost` against `ln size`; `None` for fewer than two sizes, or where a value is
/// not above zero.
pub fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    if points.iter().any(|(size, cost)| *size <= 0.0 || *cost <= 0.0) {
        return None;
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|(size, cost)| (size.ln(), cost.ln())).collect();
    let count = logs.len() as f64;
    let (x, y) = logs.iter().fold((0.0, 0.0), |(x, y), log| (x + log.0 / count, y + log.1 / count));
    let across = logs.iter().map(|log| (log.0 - x).powi(2)).sum::<f64>();
    let along = logs.iter().map(|log| (log.0 - x) * (log.1 - y)).sum::<f64>();
    (across > 0.0).then(|| along / across)
}

/// The exponent of the medians.
pub fn of(points: &[Cost]) -> Option<f64> {
    exponent(&points.iter().map(|(size, cost)| (*size as f64, cost.median)).collect::<Vec<_>>())
}

/// A range of sizes in which the cost grows faster than allowed.
#[derive(Clone, PartialEq, Debug)]
pub struct NonLinearStep {
    /// Its first and last size.
    pub sizes: (u64, u64),
    /// Its exponent.
    pub exponent: f64,
    /// The allowed exponent.
    pub limit: f64,
}

/// The reported ranges of a curve whose exponent may be `natural`: the whole, its rise from the
/// cheapest point on, each step.
pub fn steep(points: &[Cost], natural: f64) -> Vec<NonLinearStep> {
    let mut named = Vec::new();
    let cheapest = points
        .iter()
        .enumerate()
        .min_by(|a, b| a.1.1.median.total_cmp(&b.1.1.median))
        .map_or(0, |(at, _)| at);
    named.extend(over(points, natural + WHOLE_ROOM));
    if cheapest > 0 && points.len() - cheapest > 2 {
        named.extend(over(&points[cheapest..], natural + WHOLE_ROOM));
    }
    let steps = points.windows(2).filter(|step| apart(&step[0], &step[1], natural));
    named.extend(steps.filter_map(|step| over(step, natural + STEP_ROOM)));
    named
}

fn over(points: &[Cost], limit: f64) -> Option<NonLinearStep> {
    let exponent = of(points).filter(|exponent| *exponent > limit)?;
    Some(NonLinearStep { sizes: (points.first()?.0, points.last()?.0), exponent, limit })
}

/// Whether even the dearest sample of the one and the cheapest of the other differ by more than
/// allowed.
fn apart(small: &Cost, large: &Cost, natural: f64) -> bool {
    let extremes = [(small.0 as f64, small.1.max), (large.0 as f64, large.1.min)];
    exponent(&extremes).is_some_and(|exponent| exponent > natural)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(cost: impl Fn(f64) -> f64) -> Vec<Cost> {
        [1_u64, 4, 16, 64, 256]
            .into_iter()
            .map(|size| (size, Summary::once(cost(size as f64))))
            .collect()
    }

    fn close(exponent: Option<f64>, wanted: f64) -> bool {
        exponent.is_some_and(|exponent| (exponent - wanted).abs() < 1e-9)
    }

    #[test]
    fn a_power_has_its_own_exponent() {
        for power in [-1.0, 0.0, 0.5, 1.0, 2.0] {
            assert!(close(of(&points(|size| 7.0 * size.powf(power))), power), "{power}");
        }
    }

    #[test]
    fn one_point_or_a_cost_of_nothing_has_no_exponent() {
        assert_eq!(of(&points(|_| 1.0)[..1]), None);
        assert_eq!(of(&points(|size| size - 1.0)), None);
        assert_eq!(exponent(&[(2.0, 1.0), (2.0, 3.0)]), None);
    }

    #[test]
    fn what_stays_is_not_named_and_what_falls_neither() {
        assert_eq!(steep(&points(|_| 3.0), 0.0), []);
        assert_eq!(steep(&points(|size| 1.0 + 100.0 / size), 0.0), []);
    }

    #[test]
    fn what_grows_with_its_size_is_named_unless_it_may() {
        let grows = points(|size| 5.0 * size);
        let named = steep(&grows, 0.0);
        assert_eq!(named[0].sizes, (1, 256));
        assert_eq!(named.len(), 1 + 4, "the whole and each step");
        assert_eq!(steep(&grows, 1.0), []);
    }

    #[test]
    fn a_square_is_named_also_where_linear_is_natural() {
        let named = steep(&points(|size| size * size), 1.0);
        assert!(named.iter().all(|steep| (steep.exponent - 2.0).abs() < 1e-9));
        assert_eq!(named.len(), 5);
    }

    #[test]
    fn a_step_is_named_with_its_sizes() {
        let named = steep(&points(|size| if size > 16.0 { 8.0 } else { 1.0 }), 0.0);
        assert!(
            named.iter().any(|steep| steep.sizes == (16, 64) && close(Some(steep.exponent), 1.5)),
            "{named:?}"
        );
        assert!(named.iter().all(|steep| steep.sizes != (1, 4)));
    }

    #[test]
    fn a_rise_behind_a_fall_is_named_though_the_whole_falls() {
        let cost = |size: f64| if size < 10.0 { 1000.0 / size.powi(3) } else { size.powf(0.25) };
        let named = steep(&points(cost), 0.0);
        assert!(of(&points(cost)).unwrap() < 0.0);
        assert_eq!(named.len(), 1, "{named:?}");
        assert_eq!(named[0].sizes, (16, 256));
    }

    #[test]
    fn a_step_whose_samples_meet_is_not_named() {
        let spread = |low, high| Summary { median: f64::midpoint(low, high), min: low, max: high };
        let step = |large| [(1, spread(1.0, 3.0)), (4, large)];
        let whole = |points: &[Cost]| steep(points, 0.0).len();
        assert_eq!(whole(&step(spread(2.5, 9.5))), 1, "the whole alone");
        assert_eq!(whole(&step(spread(5.5, 6.5))), 2);
    }
}
