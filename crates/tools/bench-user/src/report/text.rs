//! Numbers and rows for a terminal.

use super::{Bottleneck, Limit, Row, Unit};
use crate::stats::Summary;

/// A number with its unit: `1.23 GB/s`, `8210 /s`, `85 us`.
#[must_use]
pub fn amount(value: f64, unit: Unit) -> String {
    match unit {
        Unit::BytesPerSecond => {
            scaled(value, &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")])
        }
        Unit::PerSecond => scaled(value, &[(1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")]),
        Unit::Seconds => scaled(value, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")]),
    }
}

/// Three significant digits, in the largest unit that leaves at least one before the point.
fn scaled(value: f64, units: &[(f64, &'static str)]) -> String {
    let found = units.iter().find(|(scale, _)| value >= *scale).or(units.last());
    let Some((scale, unit)) = found else { return value.to_string() };
    let value = value / scale;
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// `87 % of the network to I/O daemon 2 (127.0.0.1:7001)`.
#[must_use]
pub fn bottleneck_text(bound: &Bottleneck) -> String {
    format!("{:.0} % of {}", bound.percent, bound.limit)
}

/// From the least to the greatest sample.
pub(super) fn spread([low, high]: [f64; 2], unit: Unit) -> String {
    format!("{} – {}", amount(low, unit), amount(high, unit))
}

fn spread_of(samples: &[f64], unit: Unit) -> String {
    Summary::of(samples)
        .map_or_else(String::new, |Summary { low, high, .. }| spread([low, high], unit))
}

/// Name, median, spread, percentage, limit.
#[must_use]
pub fn row_cells(row: &Row) -> Vec<String> {
    let (percent, limit) = match &row.bound {
        Some(bound) => (format!("{:.0} %", bound.percent), format!("of {}", bound.limit)),
        None => ("-".to_owned(), "no limit was measured".to_owned()),
    };
    vec![
        row.name.clone(),
        amount(row.summary.median, row.unit),
        spread_of(&row.samples, row.unit),
        percent,
        limit,
    ]
}

/// Name, median, spread.
#[must_use]
pub fn limit_cells(limit: &Limit) -> Vec<String> {
    vec![
        limit.name.clone(),
        amount(limit.median(), limit.unit),
        spread_of(&limit.samples, limit.unit),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(amount(1_234_567_890.0, Unit::BytesPerSecond), "1.23 GB/s");
        assert_eq!(amount(117_400_000.0, Unit::BytesPerSecond), "117 MB/s");
        assert_eq!(amount(12_340.0, Unit::BytesPerSecond), "12.3 kB/s");
        assert_eq!(amount(8210.4, Unit::PerSecond), "8.21 k/s");
        assert_eq!(amount(82.1, Unit::PerSecond), "82.1 /s");
        assert_eq!(amount(0.000_085, Unit::Seconds), "85.0 us");
        assert_eq!(amount(0.0, Unit::Seconds), "0.00 ns");
    }

    #[test]
    fn a_bound_is_a_percentage_of_something_named() {
        let bound = Bottleneck {
            limit: "the network to I/O daemon 2 (127.0.0.1:7001)".into(),
            ceiling: 100.0,
            percent: 86.7,
        };
        assert_eq!(bottleneck_text(&bound), "87 % of the network to I/O daemon 2 (127.0.0.1:7001)");
    }
}
