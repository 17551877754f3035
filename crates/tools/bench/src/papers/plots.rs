//! Plots of rows with more than two points, by the same code as those of `braid bench`'s pages.

use braid_bench_user::{
    report::{Bound, Row, Unit, plot},
    stats::Summary,
};
use serde_json::Value as Json;

use super::tables::{beside, lines};
use crate::page::{Kept, Plot};

/// Fewer points are no curve.
const POINTS_MIN: usize = 3;

/// The plot of each row that has one.
pub fn all(rows: &Kept) -> Vec<Plot> {
    rows.iter().filter_map(|(name, row)| Some((name.clone(), of(name, row)?))).collect()
}

/// The plot of a kept row; `None` where it has too few rates.
pub fn of(name: &str, row: &Json) -> Option<String> {
    let rates = lines(row).filter(|(_, measure)| measure["unit"] == "MB/s");
    let bars: Vec<Row> = rates.filter_map(|(full, measure)| bar(name, full, measure, row)).collect();
    (bars.len() >= POINTS_MIN).then(|| plot(&bars.iter().collect::<Vec<_>>()))
}

/// A rate and its limit, in bytes a second.
fn bar(row_name: &str, name: &str, measure: &Json, row: &Json) -> Option<Row> {
    let rate = |json: &Json| json.as_f64().map(|mb_per_second| mb_per_second * 1e6);
    let (median, low, high) = (rate(&measure["value"])?, rate(&measure["spread"][0])?, rate(&measure["spread"][1])?);
    let ceiling = beside(row, name, "limit").and_then(|limit| rate(&limit["value"]));
    let percent = |ceiling| 100.0 * median / ceiling;
    Some(Row {
        name: name.strip_prefix(&format!("{row_name}.")).unwrap_or(name).to_owned(),
        what: String::new(),
        unit: Unit::BytesPerSecond,
        tasks: 1,
        samples: Vec::new(),
        summary: Summary { median, low, high },
        bound: ceiling.map(|ceiling| Bound { limit: "the limit".to_owned(), ceiling, percent: percent(ceiling) }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::{Sample, beside as with_limit};

    #[test]
    fn three_rates_are_a_plot_with_their_limits_and_two_are_none() {
        let row = |points: u32| {
            let sample =
                |point| [Sample { mb_per_second: f64::from(point), cpu_per_gib: 1.0, retransmits: 0.0, timeouts: 0.0 }];
            let measures =
                (1..=points).flat_map(|point| with_limit(&format!("curve.{point}.read"), &sample(point), 4.0));
            let report = crate::report::json::render("a machine", &[], &measures.collect::<Vec<_>>());
            serde_json::from_str::<Json>(&report).unwrap()
        };
        assert_eq!(of("curve", &row(2)), None);
        let text = of("curve", &row(3)).unwrap();
        assert_eq!((text.matches("class=\"bar\"").count(), text.matches("class=\"limit\"").count()), (3, 3));
        assert!(text.contains(">2.read<") && text.contains(">3.00 MB/s<"), "{text}");
    }
}
