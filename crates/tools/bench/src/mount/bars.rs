//! The bars of the issue, as ratios within this run.

use super::{Samples, data, subject};
use crate::{bench::Bench, measure::Measure};

enum Rule {
    /// At least so many times the best networked one; more is better.
    BestTimes(f64),
    /// At most so many times the best networked one; less is better.
    BestWithin(f64),
    /// At least this.
    Reached(f64),
    /// At most so many times the local file system.
    LocalWithin(f64),
    /// At most so many times what a raw TCP stream and libfuse's passthrough take together.
    WireAndFuseWithin(f64),
}

const BARS: &[(&str, Rule)] = &[
    ("sequential.read", Rule::BestTimes(1.5)),
    ("sequential.read_cpu", Rule::WireAndFuseWithin(1.2)),
    ("sequential.rewrite", Rule::BestTimes(1.5)),
    ("sequential.write", Rule::BestTimes(1.0)),
    ("parallel.write", Rule::BestTimes(1.2)),
    ("parallel.read", Rule::BestTimes(1.3)),
    ("random.latency", Rule::BestWithin(0.6)),
    ("names.create", Rule::Reached(8_000.0)),
    ("names.stat", Rule::Reached(100_000.0)),
    ("names.unlink", Rule::Reached(8_000.0)),
    ("tree.copy", Rule::BestWithin(0.4)),
    ("tree.tar", Rule::LocalWithin(3.0)),
    ("clone.time", Rule::LocalWithin(3.0)),
];

/// The measure with the bar of its name, if it has one that can be held here.
pub fn hold(bench: &Bench, samples: &Samples, name: &'static str, measure: Measure) -> Measure {
    let Some((_, rule)) = BARS.iter().find(|(of, _)| *of == name) else { return measure };
    let against = |subject| samples.summary(name, subject).map(|summary| (summary.median, subject));
    let rivals = || subject::RIVALS.iter().filter_map(|rival| against(rival));
    let best = match rule {
        Rule::BestTimes(_) => rivals().max_by(|a, b| a.0.total_cmp(&b.0)),
        Rule::BestWithin(_) => rivals().min_by(|a, b| a.0.total_cmp(&b.0)),
        Rule::Reached(bar) => return measure.at_least(*bar, "by itself"),
        Rule::LocalWithin(_) => against(subject::LOCAL),
        Rule::WireAndFuseWithin(_) => samples
            .summary(data::STREAM_CPU, subject::LOCAL)
            .zip(samples.summary(name, subject::PASSTHROUGH))
            .map(|(stream, fuse)| (stream.median + fuse.median, "(raw stream + passthrough)")),
    };
    let Some((value, of)) = best else {
        bench.note(format!("{name}: its bar needs a rival in the same run; try: --rivals"));
        return measure;
    };
    match rule {
        Rule::BestTimes(factor) => measure.at_least(factor * value, format!("{factor} x {of}")),
        Rule::BestWithin(factor) | Rule::LocalWithin(factor) | Rule::WireAndFuseWithin(factor) => {
            measure.at_most(factor * value, format!("{factor} x {of}"))
        }
        Rule::Reached(_) => measure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::CoreArgs, mount::Sample, stats::Summary};

    fn held(name: &'static str, values: &[(&'static str, f64)], ours: f64) -> Option<bool> {
        let mut samples = Samples::default();
        values.iter().for_each(|(subject, value)| samples.add(subject, &Sample { name, unit: "x", value: *value }));
        let bench = Bench::new(&CoreArgs { quick: true, ..CoreArgs::default() }).unwrap();
        hold(&bench, &samples, name, Measure::new(name, "x", Summary::once(ours))).plain.holds()
    }

    #[test]
    fn a_rate_is_held_against_the_fastest_rival_and_not_against_the_local_disk() {
        let others = [("ext4", 9000.0), ("gluster", 700.0), ("moosefs", 600.0)];
        assert_eq!(held("sequential.read", &others, 1050.0), Some(true));
        assert_eq!(held("sequential.read", &others, 1049.0), Some(false));
    }

    #[test]
    fn a_time_is_held_against_the_quickest_rival_or_the_local_disk() {
        let others = [("ext4", 1.0), ("gluster", 12.0), ("moosefs", 8.0)];
        assert_eq!(held("tree.copy", &others, 3.2), Some(true));
        assert_eq!(held("tree.copy", &others, 3.3), Some(false));
        assert_eq!(held("tree.tar", &others, 3.0), Some(true));
        assert_eq!(held("tree.tar", &others, 3.1), Some(false));
    }

    #[test]
    fn the_cost_of_a_byte_read_is_held_against_the_wire_and_fuse_together() {
        let mut samples = Samples::default();
        let mut add = |subject, name, value| samples.add(subject, &Sample { name, unit: "x", value });
        add(subject::LOCAL, data::STREAM_CPU, 0.4);
        add(subject::PASSTHROUGH, "sequential.read_cpu", 0.6);
        let bench = Bench::new(&CoreArgs { quick: true, ..CoreArgs::default() }).unwrap();
        let holds = |ours| {
            let measure = Measure::new("sequential.read_cpu", "x", Summary::once(ours));
            hold(&bench, &samples, "sequential.read_cpu", measure).plain.holds()
        };
        assert_eq!((holds(1.19), holds(1.21)), (Some(true), Some(false)));
    }

    #[test]
    fn without_a_rival_nothing_is_held_that_needs_one() {
        assert_eq!(held("sequential.read", &[("ext4", 1.0)], 5.0), None);
        assert_eq!(held("names.create", &[], 8_000.0), Some(true));
    }
}
