//! Two reports side by side: what changed, and what only looks so.

use serde::Serialize;

use super::{Report, Unit, amount};
use crate::stats::{self, SAMPLES_TO_COMPARE, Summary, Verdict};

/// What two reports tell of one row or limit.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The row's or limit's name.
    pub name: String,
    /// Whether it is a limit.
    pub is_limit: bool,
    /// The first report's median; `None` when it lacks it.
    pub first: Option<f64>,
    /// The second report's median; `None` when it lacks it.
    pub second: Option<f64>,
    /// The second by the first, when they differ beyond noise.
    pub ratio: Option<f64>,
    /// Whether the second is better, when they differ beyond noise.
    pub is_better: Option<bool>,
    /// In words.
    pub verdict: String,
    #[serde(skip)]
    unit: Unit,
}

impl Comparison {
    /// Name, first, second, verdict.
    #[must_use]
    pub fn cells(&self) -> Vec<String> {
        let cell = |median: Option<f64>| median.map_or_else(|| "-".to_owned(), |median| amount(median, self.unit));
        vec![self.name.clone(), cell(self.first), cell(self.second), self.verdict.clone()]
    }
}

/// One of a report: name, what it counts, its samples, and what it was measured with.
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
    let entry =
        |row: &'_ super::Row| format!("{} ({} tasks, files of {} bytes)", row.what, row.tasks, report.asked.bytes);
    report
        .rows
        .iter()
        .map(|row| Entry { name: &row.name, unit: row.unit, samples: &row.samples, asked: entry(row) })
        .collect()
}

fn pairs(first: &[Entry<'_>], second: &[Entry<'_>], is_limit: bool) -> Vec<Comparison> {
    let in_both_or_first = first.iter().map(|a| (Some(a), second.iter().find(|b| b.name == a.name)));
    let in_second = second.iter().filter(|b| first.iter().all(|a| a.name != b.name)).map(|b| (None, Some(b)));
    in_both_or_first.chain(in_second).filter_map(|(a, b)| pair(a, b, is_limit)).collect()
}

fn pair(a: Option<&Entry<'_>>, b: Option<&Entry<'_>>, is_limit: bool) -> Option<Comparison> {
    let any = a.or(b)?;
    let median = |entry: &Entry<'_>| Summary::of(entry.samples).map(|summary| summary.median);
    let mut comparison = Comparison {
        name: any.name.to_owned(),
        is_limit,
        first: a.and_then(median),
        second: b.and_then(median),
        ratio: None,
        is_better: None,
        verdict: String::new(),
        unit: any.unit,
    };
    comparison.verdict = match (a, b) {
        (Some(a), Some(b)) if a.unit != b.unit || a.asked != b.asked => {
            "measured in other ways, not to be compared".to_owned()
        }
        (Some(a), Some(b)) => match stats::compare(a.samples, b.samples) {
            Verdict::Noise => "no difference beyond noise".to_owned(),
            Verdict::TooFew => format!("fewer than {SAMPLES_TO_COMPARE} samples tell nothing"),
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
        assert!(compared.iter().all(|one| one.verdict == "no difference beyond noise"), "{compared:?}");
    }

    #[test]
    fn noise_is_no_change_and_a_change_is_said_with_its_size() {
        let (a, noise) = (with_row(&[90.0, 100.0, 110.0, 120.0]), with_row(&[119.0, 130.0, 140.0, 150.0]));
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
        let verdicts: Vec<_> = compare(&a, &b).into_iter().filter(|one| !one.is_limit).map(|one| one.verdict).collect();
        assert_eq!(verdicts, ["measured in other ways, not to be compared", "only in the first", "only in the second"]);
    }
}
