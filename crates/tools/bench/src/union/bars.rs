//! The bars of issue 27: ratios of the union to mergerfs and to the plain file system.

use anyhow::{Result, ensure};

use super::{
    Taken,
    subject::{MERGERFS, MERGERFS_PASSTHROUGH, PLAIN, UNION},
};
use crate::measure::{Measure, ratio};

#[derive(Clone, Copy)]
enum Limit {
    AtLeast(f64),
    AtMost(f64),
    /// Only shown.
    Shown,
}
use Limit::{AtLeast, AtMost, Shown};

/// What is measured, and the limits of its ratios to mergerfs with passthrough, to mergerfs as
/// installed, and to the plain file system.
struct Bar {
    what: &'static str,
    limits: [Limit; 3],
    /// Of this number of branches; of all if it is `None`.
    branches: Option<usize>,
}

const RIVALS: [&str; 3] = [MERGERFS_PASSTHROUGH, MERGERFS, PLAIN];

const fn bar(what: &'static str, limits: [Limit; 3]) -> Bar {
    Bar { what, limits, branches: None }
}

const fn bar_of_8(what: &'static str, limits: [Limit; 3]) -> Bar {
    Bar { what, limits, branches: Some(8) }
}

const BARS: &[Bar] = &[
    bar("read", [AtLeast(1.0), AtLeast(1.5), AtLeast(0.95)]),
    bar("rewrite", [AtLeast(1.0), AtLeast(1.5), AtLeast(0.95)]),
    bar("random_read", [AtLeast(1.0), AtLeast(5.0), AtLeast(0.8)]),
    bar("random_write", [AtLeast(1.0), AtLeast(5.0), AtLeast(0.8)]),
    bar("read_cpu", [AtMost(1.05), AtMost(0.6), AtMost(1.1)]),
    bar("rewrite_cpu", [AtMost(1.05), AtMost(0.6), AtMost(1.1)]),
    bar_of_8("create", [AtLeast(1.2), AtLeast(1.2), Shown]),
    bar("clone", [AtMost(1.0), AtMost(0.9), AtMost(4.0)]),
    bar_of_8("find", [AtMost(0.5), AtMost(0.5), AtMost(3.0)]),
    bar_of_8("stat", [AtMost(0.5), AtMost(0.5), AtMost(3.0)]),
];

/// All values of all subjects, and the ratios of the union with their bars.
pub fn measures(name: &str, branches: usize, all: &[Taken]) -> Result<Vec<Measure>> {
    let mut measures = Vec::new();
    let Some(first) = all.first().and_then(|taken| taken.turns.first()) else {
        return Ok(measures);
    };
    for (at, sample) in first.iter().enumerate() {
        let what = sample.what;
        let values = |subject: &str| -> Option<Vec<f64>> {
            let taken = all.iter().find(|taken| taken.subject == subject)?;
            Some(taken.turns.iter().map(|turn| turn[at].value).collect())
        };
        let ours = values(UNION).unwrap_or_default();
        ensure!(!ours.is_empty(), "{name}.{what}: the union was not measured");
        for (which, rival) in RIVALS.into_iter().enumerate() {
            let Some(theirs) = values(rival) else { continue };
            let ratio = ratio::of_pairs(&ours, &theirs)?;
            let measure = Measure::new(format!("{name}.{what}.to_{rival}"), "x", ratio);
            measures.push(with_limit(measure, limit(what, branches, which), rival));
        }
        for taken in all {
            let values = values(taken.subject).unwrap_or_default();
            let summary = ratio::summary(values)?;
            measures.push(Measure::new(
                format!("{name}.{what}.{}", taken.subject),
                sample.unit,
                summary,
            ));
        }
    }
    Ok(measures)
}

fn limit(what: &str, branches: usize, rival: usize) -> Limit {
    let counts = |bar: &&Bar| bar.branches.is_none_or(|count| count == branches);
    let bar = BARS.iter().filter(counts).find(|bar| bar.what == what);
    bar.map_or(Shown, |bar| bar.limits[rival])
}

fn with_limit(measure: Measure, limit: Limit, rival: &str) -> Measure {
    let reason = format!("union / {}", rival.replace('_', " "));
    match limit {
        AtLeast(limit) => measure.at_least(limit, reason),
        AtMost(limit) => measure.at_most(limit, reason),
        Shown => measure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::union::Sample;

    fn taken(subject: &'static str, what: &'static str, values: &[f64]) -> Taken {
        let turn = |value: &f64| vec![Sample { what, unit: "per s", value: *value }];
        Taken { subject, turns: values.iter().map(turn).collect() }
    }

    #[test]
    fn ratios_are_of_the_same_turn_and_have_their_bars() {
        let all = [
            taken(PLAIN, "create", &[40.0, 80.0, 40.0]),
            taken(UNION, "create", &[20.0, 20.0, 22.0]),
            taken(MERGERFS, "create", &[10.0, 20.0, 10.0]),
        ];
        let of = |branches| measures("create.ext4x8", branches, &all).unwrap();
        let measure = |name: &str| of(8).into_iter().find(|measure| measure.name == name).unwrap();
        let beside = measure("create.ext4x8.create.to_mergerfs");
        assert_eq!((beside.plain.summary.median, beside.plain.holds()), (2.0, Some(true)));
        assert_eq!(measure("create.ext4x8.create.to_plain").plain.holds(), None, "only shown");
        assert_eq!(measure("create.ext4x8.create.union").plain.summary.median, 20.0);
        assert!(of(1).iter().all(|measure| measure.plain.target.is_none()), "a bar of 8 branches");
    }

    #[test]
    fn without_mergerfs_its_ratios_are_left_out() {
        let all = [taken(PLAIN, "read", &[1.0]), taken(UNION, "read", &[0.9])];
        let measures = measures("data.xfsx1", 1, &all).unwrap();
        assert_eq!(measures.len(), 3);
        assert_eq!(measures[0].plain.holds(), Some(false), "0.9 of the plain file system");
    }
}
