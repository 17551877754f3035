//! Compares two reports: real changes, and differences within noise.

use serde::Serialize;

use super::{Report, Unit, amount, text};
use crate::stats::{self, SAMPLES_TO_COMPARE, Summary, Verdict};

/// The comparison of one row or limit.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The row's or limit's name.
    pub name: String,
    /// Whether it is a limit.
    pub is_limit: bool,
    /// The first report's median; `None` when it lacks it.
    pub first: Option<f64>,
    /// The first report's least and greatest sample.
    pub first_spread: Option<[f64; 2]>,
    /// The second report's median; `None` when it lacks it.
    pub second: Option<f64>,
    /// The second report's least and greatest sample.
    pub second_spread: Option<[f64; 2]>,
    /// The second median divided by the first, when they differ beyond noise.
    pub ratio: Option<f64>,
    /// Whether the second is better, when they differ beyond noise.
    pub is_better: Option<bool>,
    /// The verdict as text.
    pub verdict: String,
    #[serde(skip)]
    unit: Unit,
}

impl Comparison {
    /// Name, first, its spread, second, its spread, verdict.
    #[must_use]
    pub fn cells(&self) -> Vec<String> {
        let absent = || "-".to_owned();
        let median =
            |median: Option<f64>| median.map_or_else(absent, |median| amount(median, self.unit));
        let spread =
            |ends: Option<[f64; 2]>| ends.map_or_else(absent, |ends| text::spread(ends, self.unit));
        let (first, second) = (median(self.first), median(self.second));
        let (first_spread, second_spread) = (spread(self.first_spread), spread(self.second_spread));
        vec![self.name.clone(), first, first_spread, second, second_spread, self.verdict.clone()]
    }
}

/// An entry of a report: name, unit, samples, and how it was measured.
struct Entry<'r> {
    name: &'r str,
    unit: Unit,
    samples: &'r [f64],
    asked: String,
}

/// All limits, then all rows, of either report.
#[must_use]
pub fn compare(first: &Report, second: &Report) -> Vec<Comparison> {
    let limits = pairs(&limits(first), &limits(second), true);
    limits.into_iter().chain(pairs(&rows(first), &rows(second), false)).collect()
}

fn limits(report: &Report) -> Vec<Entry<'_>> {
    let entry = |limit: &'_ super::Limit| (limit.unit, limit.how.clone());
    report
        .limits
        .iter()
        .map(|limit| {
            let (unit, asked) = entry(limit);
            Entry { name: &limit.name, unit, samples: &limit.samples, asked }
        })
        .collect()
}

fn rows(report: &Report) -> Vec<Entry<'_>> {
    let entry = |row: &'_ super::Row| {
        format!("{} ({} tasks, files of {} bytes)", row.what, row.tasks, report.asked.bytes)
    };
    report
        .rows
        .iter()
        .map(|row| Entry {
            name: &row.name,
            unit: row.unit,
            samples: &row.samples,
            asked: entry(row),
        })
        .collect()
}

fn pairs(first: &[Entry<'_>], second: &[Entry<'_>], is_limit: bool) -> Vec<Comparison> {
    let in_both_or_first =
        first.iter().map(|a| (Some(a), second.iter().find(|b| b.name == a.name)));
    let in_second =
        second.iter().filter(|b| first.iter().all(|a| a.name != b.name)).map(|b| (None, Some(b)));
    in_both_or_first.chain(in_second).filter_map(|(a, b)| pair(a, b, is_limit)).collect()
}

fn pair(a: Option<&Entry<'_>>, b: Option<&Entry<'_>>, is_limit: bool) -> Option<Comparison> {
    let any = a.or(b)?;
    let summary = |entry: Option<&Entry<'_>>| entry.and_then(|entry| Summary::of(entry.samples));
    let (first, second) = (summary(a), summary(b));
    let ends = |summary: Summary| [summary.low, summary.high];
    let mut comparison = Comparison {
        name: any.name.to_owned(),
        is_limit,
        first: first.map(|summary| summary.median),
        first_spread: first.map(ends),
        second: second.map(|summary| summary.median),
        second_spread: second.map(ends),
        ratio: None,
        is_better: None,
        verdict: String::new(),
        unit: any.unit,
    };
    comparison.verdict = match (a, b) {
        (Some(a), Some(b)) if a.unit != b.unit || a.asked != b.asked => {
            "measured differently, not comparable".to_owned()
        }
        (Some(a), Some(b)) => match stats::compare(a.samples, b.samples) {
            Verdict::Noise => "no difference beyond noise".to_owned(),
            Verdict::TooFew => format!("fewer than {SAMPLES_TO_COMPARE} samples prove nothing"),
            Verdict::Higher(ratio) => differs(&mut comparison, ratio, !a.unit.is_time()),
            Verdict::Lower(ratio) => differs(&mut comparison, ratio, a.unit.is_time()),
        },
        (Some(_), None) => "only in the first".to_owned(),
        _ => "only in the second".to_owned(),
    };
    Some(comparison)
}

fn differs(comparison: &mut Comparison, ratio: f64, is_better: bool) -> String {
    (comparison.ratio, comparison.is_better) = (Some(ratio), Some(is_better));
    format!("{} ({:+.1} %)", if is_better { "better" } else { "worse" }, (ratio - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::tests::report;

    fn with_row(samples: &[f64]) -> Report {
        let mut report = report();
        report.rows[0].samples = samples.to_vec();
        report
    }

    fn first_row(a: &Report, b: &Report) -> Comparison {
        compare(a, b).into_iter().find(|one| !one.is_limit).unwrap()
    }

    #[test]
    fn a_report_beside_itself_differs_nowhere() {
        let report = report();
        let compared = compare(&report, &report);
        assert_eq!(compared.len(), report.limits.len() + report.rows.len());
        assert!(
            compared.iter().all(|one| one.verdict == "no difference beyond noise"),
            "{compared:?}"
        );
    }

    #[test]
    fn noise_is_no_change_and_a_change_is_said_with_its_size() {
        let (a, noise) =
            (with_row(&[90.0, 100.0, 110.0, 120.0]), with_row(&[119.0, 130.0, 140.0, 150.0]));
        assert_eq!(first_row(&a, &noise).verdict, "no difference beyond noise");
        let worse = first_row(&a, &with_row(&[50.0, 51.0, 54.0, 55.0]));
        assert_eq!((worse.verdict.as_str(), worse.is_better), ("worse (-50.0 %)", Some(false)));
        let better = first_row(&a, &with_row(&[209.0, 210.0, 210.0, 211.0]));
        assert_eq!((better.verdict.as_str(), better.is_better), ("better (+100.0 %)", Some(true)));
    }

    #[test]
    fn a_longer_time_is_worse() {
        let (a, mut b) = (report(), report());
        let time = b.limits.iter_mut().find(|limit| limit.unit == Unit::Seconds).unwrap();
        time.samples.iter_mut().for_each(|sample| *sample *= 3.0);
        let name = time.name.clone();
        let compared = compare(&a, &b).into_iter().find(|one| one.name == name).unwrap();
        assert_eq!(compared.verdict, "worse (+200.0 %)");
    }

    #[test]
    fn rows_of_one_side_and_rows_measured_otherwise_are_said_to_be() {
        let (a, mut b) = (report(), report());
        b.rows[0].tasks += 1;
        b.rows[1].name = "new".into();
        let verdicts: Vec<_> = compare(&a, &b)
            .into_iter()
            .filter(|one| !one.is_limit)
            .map(|one| one.verdict)
            .collect();
        assert_eq!(
            verdicts,
            ["measured differently, not comparable", "only in the first", "only in the second"]
        );
    }

    #[test]
    fn the_spread_of_each_side_is_shown_beside_its_median() {
        let mut b = with_row(&[50.0e6, 51.0e6, 54.0e6, 55.0e6]);
        let shown = first_row(&report(), &b);
        assert_eq!(
            (shown.first_spread, shown.second_spread),
            (Some([90.0e6, 110.0e6]), Some([50.0e6, 55.0e6]))
        );
        let cells = [
            "sequential-write",
            "102 MB/s",
            "90.0 MB/s – 110 MB/s",
            "52.5 MB/s",
            "50.0 MB/s – 55.0 MB/s",
        ];
        assert_eq!(shown.cells(), [&cells[..], &["worse (-48.8 %)"]].concat());
        b.rows.remove(0);
        assert_eq!(first_row(&report(), &b).cells()[3..], ["-", "-", "only in the first"]);
    }

    /// A median outside the other side's spread is no change while one sample of its own is inside.
    #[test]
    fn a_change_is_only_what_lies_outside_of_both_spreads() {
        let a = with_row(&[90.0, 100.0, 110.0, 120.0]);
        for (samples, verdict) in [
            ([119.9, 200.0, 200.0, 200.0], "no difference beyond noise"),
            ([120.0, 200.0, 200.0, 200.0], "no difference beyond noise"),
            ([120.1, 200.0, 200.0, 200.0], "better (+90.5 %)"),
            ([10.0, 10.0, 10.0, 90.0], "no difference beyond noise"),
            ([10.0, 10.0, 10.0, 89.9], "worse (-90.5 %)"),
        ] {
            assert_eq!(first_row(&a, &with_row(&samples)).verdict, verdict, "{samples:?}");
        }
    }
}
