//! The table of the comparison: a column for each file system, and where ours loses.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::{NAMES, OURS, plots::DISPLAY_NAMES};
use crate::{page, report::short};

/// A measure of several file systems.
struct Comparison<'a> {
    /// `one_client.read`.
    name: &'a str,
    unit: &'a str,
    limit: Option<f64>,
    /// In the order of [`NAMES`].
    values: Vec<(&'static str, f64)>,
}

impl Comparison<'_> {
    fn of(&self, subject: &str) -> Option<f64> {
        self.values.iter().find(|(name, _)| *name == subject).map(|(_, value)| *value)
    }

    /// The best other system.
    fn best(&self) -> Option<(&'static str, f64)> {
        let rivals = self.values.iter().filter(|(name, _)| *name != OURS).copied();
        let least = |a: &(&str, f64), b: &(&str, f64)| a.1.total_cmp(&b.1);
        if self.unit == "us" { rivals.min_by(least) } else { rivals.max_by(least) }
    }

    /// How many times better the best other system is, where ours is worse.
    fn lost(&self) -> Option<(&'static str, f64)> {
        let (ours, (name, best)) = (self.of(OURS)?, self.best()?);
        let times = if self.unit == "us" { ours / best } else { best / ours };
        (times > 1.0).then_some((name, times))
    }
}

/// `bench: loses: one_client.read: braid 58.0 MB/s, moosefs 110 MB/s (1.9 x)`, for each.
pub fn losses(row: &Json) -> Vec<String> {
    let sentence = |what: &Comparison<'_>| {
        let (name, times) = what.lost()?;
        let (ours, best) = (short(what.of(OURS)?), short(what.of(name)?));
        Some(format!(
            "{}: {OURS} {ours} {unit}, {name} {best} {unit} ({times:.1} x)",
            what.name,
            unit = what.unit
        ))
    };
    whats(row).iter().filter_map(sentence).collect()
}

/// The table of medians.
pub fn render(row: &Json) -> String {
    let heads: String = DISPLAY_NAMES.iter().map(|name| format!(" {name} |")).collect();
    let mut text = format!(
        "| measure | unit | links |{heads} BraidFS loses to |\n|---|---|---|{}---|\n",
        "---|".repeat(NAMES.len())
    );
    for what in whats(row) {
        let cells: String = NAMES
            .iter()
            .map(|name| format!(" {} |", what.of(name).map(short).unwrap_or_default()))
            .collect();
        let lost = what
            .lost()
            .map(|(name, times)| format!("{}, {times:.2} x", said(name)))
            .unwrap_or_default();
        let limit = what.limit.map(short).unwrap_or_default();
        let _ = writeln!(text, "| {} | {} | {limit} |{cells} {lost} |", what.name, what.unit);
    }
    text
}

/// The label of a file system.
fn said(subject: &str) -> &str {
    NAMES
        .iter()
        .zip(DISPLAY_NAMES)
        .find(|(name, _)| **name == subject)
        .map_or(subject, |(_, said)| said)
}

fn whats(row: &Json) -> Vec<Comparison<'_>> {
    let mut all: Vec<Comparison<'_>> = Vec::new();
    for (full, measure) in page::measures(row) {
        let (rest, is_limit) =
            full.strip_suffix(".limit").map_or((full, false), |rest| (rest, true));
        let Some((name, subject)) =
            rest.strip_prefix("rivals.").and_then(|rest| rest.rsplit_once('.'))
        else {
            continue;
        };
        let Some(subject) = NAMES.into_iter().find(|known| *known == subject) else { continue };
        let Some(value) = measure["value"].as_f64() else { continue };
        let unit = measure["unit"].as_str().unwrap_or_default();
        let at = all.iter().position(|what| what.name == name).unwrap_or_else(|| {
            all.push(Comparison { name, unit, limit: None, values: Vec::new() });
            all.len() - 1
        });
        if is_limit { all[at].limit = Some(value) } else { all[at].values.push((subject, value)) }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Measure;
    use braid_testbed::stats::Summary;

    #[test]
    fn where_ours_loses_is_said_with_the_best_rival_and_how_much() {
        let once = |name: &str, unit, value| {
            Measure::new(format!("rivals.{name}"), unit, Summary::once(value))
        };
        let all = [
            once("one_client.read.braid", "MB/s", 58.0),
            once("one_client.read.braid.limit", "MB/s", 117.7),
            once("one_client.read.gluster_shard", "MB/s", 100.0),
            once("one_client.read.moosefs", "MB/s", 116.0),
            once("random.mean.braid", "us", 20.0),
            once("random.mean.moosefs", "us", 80.0),
            once("names_far.stat.braid", "per s", 900.0),
            once("rivals_without_dots", "of the machine", 1.0),
            once("needs.lab1.at1", "of the machine", 0.2),
        ];
        let row: Json = serde_json::from_str(&crate::report::json::render("", &[], &all)).unwrap();
        assert_eq!(losses(&row), ["one_client.read: braid 58.0 MB/s, moosefs 116 MB/s (2.0 x)"]);
        let text = render(&row);
        let wanted = "| measure | unit | links | BraidFS | GlusterFS | GlusterFS, sharded | \
            GlusterFS, dispersed | MooseFS | BraidFS loses to |\n\
                      |---|---|---|---|---|---|---|---|---|\n\
                      | one_client.read | MB/s | 118 | 58.0 |  | 100 |  | 116 | MooseFS, 2.00 x |\n\
                      | random.mean | us |  | 20.0 |  |  |  | 80.0 |  |\n\
                      | names_far.stat | per s |  | 900 |  |  |  |  |  |\n";
        assert_eq!(text, wanted);
    }
}
