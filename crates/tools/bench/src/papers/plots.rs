//! Plots of rows with more than two points.

use braid_bench_user::{
    report::chart::{Bar, Chart, Group},
    stats::Summary,
};
use serde_json::Value as Json;

use super::{
    labels, other_systems,
    tables::{companion, lines},
};
use crate::{
    page::{Plot, StoredResults},
    report::short,
};

/// Fewer points make no curve.
const POINTS_MIN: usize = 3;
/// MB/s of TCP payload.
const GIGABIT_CARRIES: f64 = 117.7;

/// The plots of all rows that have one.
pub fn all(rows: &StoredResults) -> Vec<Plot> {
    let of_rivals = rows.get("rivals").map(other_systems::plots::all).unwrap_or_default();
    let curves = rows.iter().filter_map(|(name, row)| Some((name.clone(), of(name, row)?)));
    curves.chain(of_rivals).collect()
}

/// The names and titles of a row's plots.
pub fn shown(name: &str, row: &Json) -> Vec<(&'static str, &'static str)> {
    if name == "rivals" {
        return other_systems::plots::TITLES.to_vec();
    }
    let curve = super::ROWS.iter().find(|known| known.name == name).zip(labels::title(name));
    curve
        .filter(|_| of(name, row).is_some())
        .map(|(known, title)| (known.name, title))
        .into_iter()
        .collect()
}

/// The plot of a stored row; `None` when it has too few rates.
pub fn of(name: &str, row: &Json) -> Option<String> {
    let title = labels::title(name)?;
    let mut groups: Vec<Group> = Vec::new();
    let mut slowed = false;
    for (full, measure) in lines(row).filter(|(_, measure)| measure["unit"] == "MB/s") {
        let Some(words) =
            full.strip_prefix(&format!("{name}.")).and_then(|rest| labels::of(name, rest))
        else {
            continue;
        };
        let Some(bar) = bar(words.label, words.owner, full, measure, row) else { continue };
        slowed |= measure["bar"]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains(" of the rates"));
        match groups.iter_mut().find(|group| group.title == words.group) {
            Some(group) => group.bars.push(bar),
            None => groups.push(Group { title: words.group, bars: vec![bar] }),
        }
    }
    let points: usize = groups.iter().map(|group| group.bars.len()).sum();
    let about =
        format!("MB/s, more is better.{}", if slowed || divided(row) { SLOWED } else { "" });
    let chart = Chart {
        title: title.to_owned(),
        about,
        limit: labels::limit(name).to_owned(),
        columns: 2,
        one_scale: true,
        groups,
    };
    (points >= POINTS_MIN).then(|| chart.draw())
}

const SLOWED: &str = " Links run at a part of these rates where the processors would be the \
    limit; the red stroke is \
                      the limit then.";

/// Whether some lab of the row ran at a part of its rates: by the needs of its traffic, or, where
/// the user requested a part, by the rate of one link of 1 Gbit/s.
fn divided(row: &Json) -> bool {
    let one_link =
        companion(row, "streams.1x1.write", "limit").and_then(|limit| limit["value"].as_f64());
    if one_link.is_some_and(|carried| carried < 0.9 * GIGABIT_CARRIES) {
        return true;
    }
    let mut last: Vec<(&str, &str)> = Vec::new();
    for (name, _) in crate::page::measures(row) {
        let Some((lab, divide)) =
            name.rsplit_once(".at").filter(|(lab, _)| lab.contains(".needs."))
        else {
            continue;
        };
        match last.iter_mut().find(|(other, _)| *other == lab) {
            Some(known) => known.1 = divide,
            None => last.push((lab, divide)),
        }
    }
    last.iter().any(|(_, divide)| *divide != "1")
}

/// A rate with its limit.
fn bar(
    label: String,
    owner: braid_bench_user::report::chart::Owner,
    name: &str,
    measure: &Json,
    row: &Json,
) -> Option<Bar> {
    let summary = summary(measure)?;
    let limit = companion(row, name, "limit").and_then(|limit| limit["value"].as_f64());
    Some(Bar { label, owner, summary, limit, number: short(summary.median) })
}

/// Median and spread of a stored measure.
pub fn summary(measure: &Json) -> Option<Summary> {
    let (spread, median) = (&measure["spread"], measure["value"].as_f64()?);
    Some(Summary { median, low: spread[0].as_f64()?, high: spread[1].as_f64()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::{Sample, beside as with_limit};

    #[test]
    fn three_rates_are_a_plot_with_their_limits_and_two_are_none() {
        let row = |points: u32| {
            let sample = |point| {
                [Sample {
                    mb_per_second: f64::from(point),
                    cpu_per_gib: 1.0,
                    retransmits: 0.0,
                    timeouts: 0.0,
                }]
            };
            let measures = (1..=points).flat_map(|point| {
                with_limit(&format!("streams.{point}x1.read"), &sample(point), 4.0)
            });
            let report =
                crate::report::json::render("a machine", &[], &measures.collect::<Vec<_>>());
            serde_json::from_str::<Json>(&report).unwrap()
        };
        assert_eq!(of("streams", &row(2)), None);
        let text = of("streams", &row(3)).unwrap();
        assert_eq!(
            (text.matches("class=\"bar ours\"").count(), text.matches("class=\"limit\"").count()),
            (3, 3)
        );
        assert!(
            text.contains(">2 hosts<") && text.contains(">3.00<") && text.contains("MB/s"),
            "{text}"
        );
        assert!(text.contains(">1 task on each host, read<"), "{text}");
    }

    #[test]
    fn links_at_a_part_of_their_rates_are_mentioned() {
        let needs = |last: &str| {
            let measure = |at: &str| {
                let name = format!("streams.needs.lab1.at{at}");
                serde_json::json!({ "name": name, "value": 0.5 })
            };
            serde_json::json!({ "measures": [measure("1"), measure(last)] })
        };
        assert_eq!((divided(&needs("1")), divided(&needs("10"))), (false, true));
        let asked_for = serde_json::json!({
            "measures": [{ "name": "streams.1x1.write.limit", "value": 11.8 }] });
        assert!(divided(&asked_for));
    }
}
