//! The targets of the issue, as ratios within this run.

use super::{
    Samples, data,
    subject::{
        MOOSEFS, OTHER_SYSTEMS, OURS, OURS_URING, PASSTHROUGH, PASSTHROUGH_LL, PASSTHROUGH_URING,
    },
};
use crate::{bench::Bench, measure::Measure};

/// Which of our mounts must reach a target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mount {
    /// Over `/dev/fuse`, the default.
    Device,
    /// Over io_uring; where the kernel does not offer it, the other one with a note.
    Uring,
    /// Over io_uring alone: it is compared with the other one.
    UringOnly,
}

enum Rule {
    /// At least this factor times the best of these; more is better.
    BestTimes(f64, &'static [&'static str]),
    /// At most this factor times the best of these; less is better.
    BestWithin(f64, &'static [&'static str]),
    /// At least this.
    Reached(f64),
    /// At most this factor times the sum of a raw TCP stream and libfuse's passthrough.
    WireAndFuseWithin(f64),
}

struct MountTarget {
    name: &'static str,
    mount: Mount,
    /// All rules apply: the strictest one is the limit. They have the same direction.
    rules: &'static [Rule],
}

use Mount::{Device, Uring, UringOnly};
use Rule::{BestTimes, BestWithin, Reached, WireAndFuseWithin};

const EXAMPLES: &[&str] = &[PASSTHROUGH, PASSTHROUGH_LL, PASSTHROUGH_URING];

const BARS: &[MountTarget] = &[
    bar("sequential.read", Device, &[BestTimes(1.5, OTHER_SYSTEMS)]),
    bar("sequential.read_cpu", Device, &[WireAndFuseWithin(1.2)]),
    bar("sequential.rewrite", Device, &[BestTimes(1.5, OTHER_SYSTEMS)]),
    bar("sequential.write", Device, &[BestTimes(1.0, OTHER_SYSTEMS)]),
    bar("parallel.write", Device, &[BestTimes(1.2, OTHER_SYSTEMS)]),
    bar("parallel.read", Device, &[BestTimes(1.3, OTHER_SYSTEMS)]),
    bar("random.latency", Device, &[BestWithin(0.6, OTHER_SYSTEMS)]),
    bar("random.latency", UringOnly, &[BestWithin(0.6, &[OURS])]),
    bar("names.create", Uring, &[BestTimes(1.3, &[MOOSEFS]), BestTimes(0.6, &[PASSTHROUGH_URING])]),
    bar("names.stat", Uring, &[Reached(100_000.0)]),
    bar("names.unlink", Uring, &[Reached(8_000.0)]),
    bar("tree.copy", Uring, &[BestWithin(0.3, &[MOOSEFS])]),
    bar("tree.tar", Uring, &[BestWithin(0.7, EXAMPLES)]),
    bar("clone.time", Uring, &[BestWithin(0.3, &[MOOSEFS])]),
    bar("ior_hard.write", Uring, &[BestTimes(1.5, OTHER_SYSTEMS)]),
    bar("ior_hard.read", Uring, &[BestTimes(1.5, OTHER_SYSTEMS)]),
    bar("mdtest_hard.create", Uring, &[BestTimes(1.5, OTHER_SYSTEMS)]),
    bar("mdtest_hard.stat", Uring, &[BestTimes(1.5, OTHER_SYSTEMS)]),
    bar("mdtest_hard.read", Uring, &[BestTimes(1.5, OTHER_SYSTEMS)]),
    bar("mdtest_hard.remove", Uring, &[BestTimes(1.5, OTHER_SYSTEMS)]),
];

const fn bar(name: &'static str, mount: Mount, rules: &'static [Rule]) -> MountTarget {
    MountTarget { name, mount, rules }
}

/// The measure of this subject with the target of its name, if that can be checked in this run.
pub fn set_targets(
    bench: &Bench,
    samples: &Samples,
    name: &'static str,
    subject: &'static str,
    mut measure: Measure,
) -> Measure {
    let by_uring = samples.summary(name, OURS_URING).is_some();
    let keeper = |bar: &MountTarget| match bar.mount {
        Mount::Device => OURS,
        Mount::Uring if !by_uring => OURS,
        Mount::Uring | Mount::UringOnly => OURS_URING,
    };
    for bar in BARS.iter().filter(|bar| bar.name == name && keeper(bar) == subject) {
        if bar.mount == Mount::Uring && !by_uring {
            bench.note(format!(
                "{name}: its target is for io_uring=on, and is checked on the mount without it"
            ));
        }
        for rule in bar.rules {
            measure = rule.hold(bench, samples, name, measure);
        }
    }
    measure
}

impl Rule {
    fn hold(
        &self,
        bench: &Bench,
        samples: &Samples,
        name: &'static str,
        measure: Measure,
    ) -> Measure {
        let value =
            |of: &'static str| samples.summary(name, of).map(|summary| (summary.median, of));
        let found = match self {
            Self::Reached(least) => return measure.at_least(*least, "by itself"),
            Self::BestTimes(_, of) => {
                of.iter().filter_map(|of| value(of)).max_by(|a, b| a.0.total_cmp(&b.0))
            }
            Self::BestWithin(_, of) => {
                of.iter().filter_map(|of| value(of)).min_by(|a, b| a.0.total_cmp(&b.0))
            }
            Self::WireAndFuseWithin(_) => samples
                .summary(data::STREAM_CPU, super::subject::LOCAL)
                .zip(samples.summary(name, PASSTHROUGH))
                .map(|(stream, fuse)| (stream.median + fuse.median, "(raw stream + passthrough)")),
        };
        let Some((value, of)) = found else {
            bench.note(format!("{name}: its target needs {} in the same run", self.needs()));
            return measure;
        };
        match self {
            Self::BestTimes(factor, _) => {
                let limit = factor * value;
                // The other target of this value is stricter.
                match &measure.plain.target {
                    Some(other) if other.limit() >= limit => measure,
                    _ => measure.at_least(limit, format!("{factor} x {of}")),
                }
            }
            Self::BestWithin(factor, _) | Self::WireAndFuseWithin(factor) => {
                measure.at_most(factor * value, format!("{factor} x {of}"))
            }
            Self::Reached(_) => measure,
        }
    }

    /// The subjects that must be in the run, and the options that add them.
    fn needs(&self) -> String {
        match self {
            Self::BestTimes(_, of) | Self::BestWithin(_, of)
                if of.contains(&PASSTHROUGH_URING) && of.len() == 1 =>
            {
                format!("{PASSTHROUGH_URING}; try: --passthrough-uring FILE")
            }
            Self::BestTimes(_, of) | Self::BestWithin(_, of) => {
                format!("{}; try: --rivals", of.join(" or "))
            }
            Self::Reached(_) | Self::WireAndFuseWithin(_) => {
                format!("{PASSTHROUGH}; try: --passthrough")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::CoreArgs, mount::Sample};
    use braid_testbed::stats::Summary;

    /// Whether this subject's value of `name` reaches its target with these others.
    fn held_on(
        subject: &'static str,
        name: &'static str,
        values: &[(&'static str, f64)],
        ours: f64,
    ) -> (Option<bool>, String) {
        let mut samples = Samples::default();
        let mut add = |subject, value| samples.add(subject, &Sample { name, unit: "x", value });
        values.iter().for_each(|(subject, value)| add(subject, *value));
        add(subject, ours);
        let bench = Bench::new(&CoreArgs { quick: true, ..CoreArgs::default() }).unwrap();
        let measure = set_targets(
            &bench,
            &samples,
            name,
            subject,
            Measure::new(name, "x", Summary::once(ours)),
        );
        (measure.plain.holds(), bench.notes().join("\n"))
    }

    fn held(name: &'static str, values: &[(&'static str, f64)], ours: f64) -> Option<bool> {
        held_on(OURS, name, values, ours).0
    }

    #[test]
    fn a_rate_is_compared_with_the_fastest_networked_system() {
        let others = [("ext4", 9000.0), ("gluster", 700.0), ("moosefs", 600.0)];
        assert_eq!(held("sequential.read", &others, 1050.0), Some(true));
        assert_eq!(held("sequential.read", &others, 1049.0), Some(false));
    }

    #[test]
    fn a_tree_is_compared_with_moosefs_and_a_warm_tar_with_libfuse() {
        let others = [("ext4", 1.0), ("gluster", 2.0), ("moosefs", 10.0)];
        assert_eq!(
            (held("tree.copy", &others, 3.0), held("tree.copy", &others, 3.1)),
            (Some(true), Some(false))
        );
        let examples = [
            ("ext4", 0.1),
            ("passthrough", 1.4),
            ("passthrough_ll", 1.0),
            ("passthrough_uring", 1.2),
        ];
        assert_eq!(
            (held("tree.tar", &examples, 0.7), held("tree.tar", &examples, 0.71)),
            (Some(true), Some(false))
        );
    }

    #[test]
    fn creates_have_the_stricter_of_the_targets_that_the_run_can_check() {
        let both = [("moosefs", 10_000.0), ("passthrough_uring", 30_000.0)];
        let holds = |values: &[(&'static str, f64)], ours| {
            held_on(OURS_URING, "names.create", values, ours)
        };
        assert_eq!((holds(&both, 18_000.0).0, holds(&both, 17_999.0).0), (Some(true), Some(false)));
        let moosefs_is_more = [("moosefs", 20_000.0), ("passthrough_uring", 30_000.0)];
        let more = |ours| holds(&moosefs_is_more, ours).0;
        assert_eq!((more(26_000.0), more(25_999.0)), (Some(true), Some(false)));
        let (alone, notes) = holds(&both[..1], 13_000.0);
        assert_eq!(alone, Some(true));
        assert!(notes.contains("names.create: its target needs passthrough_uring"), "{notes}");
    }

    #[test]
    fn where_both_our_mounts_are_measured_names_are_held_on_io_uring_alone() {
        let others = [("moosefs", 10_000.0), (OURS_URING, 14_000.0)];
        assert_eq!(held("names.create", &others, 1.0), None);
        let (alone, notes) = held_on(OURS, "names.create", &others[..1], 1.0);
        assert_eq!(alone, Some(false));
        assert!(notes.contains("checked on the mount without it"), "{notes}");
        assert_eq!(
            held_on(OURS_URING, "sequential.read", &others, 1.0).0,
            None,
            "as a mount comes"
        );
    }

    #[test]
    fn a_random_read_by_io_uring_is_held_against_the_device_of_the_same_run() {
        let uring = |ours| {
            held_on(OURS_URING, "random.latency", &[(OURS, 30.0), ("moosefs", 100.0)], ours).0
        };
        assert_eq!((uring(18.0), uring(18.1)), (Some(true), Some(false)));
        let device = |ours| held("random.latency", &[(OURS_URING, 18.0), ("moosefs", 100.0)], ours);
        assert_eq!((device(60.0), device(60.1)), (Some(true), Some(false)));
    }

    #[test]
    fn the_cost_of_a_byte_read_is_held_against_the_wire_and_fuse_together() {
        let mut samples = Samples::default();
        let mut add =
            |subject, name, value| samples.add(subject, &Sample { name, unit: "x", value });
        add(super::super::subject::LOCAL, data::STREAM_CPU, 0.4);
        add(PASSTHROUGH, "sequential.read_cpu", 0.6);
        let bench = Bench::new(&CoreArgs { quick: true, ..CoreArgs::default() }).unwrap();
        let holds = |ours| {
            let measure = Measure::new("sequential.read_cpu", "x", Summary::once(ours));
            set_targets(&bench, &samples, "sequential.read_cpu", OURS, measure).plain.holds()
        };
        assert_eq!((holds(1.19), holds(1.21)), (Some(true), Some(false)));
    }

    #[test]
    fn without_a_rival_nothing_is_held_that_needs_one() {
        assert_eq!(held("sequential.read", &[("ext4", 1.0)], 5.0), None);
        assert_eq!(held("names.unlink", &[], 8_000.0), Some(true));
    }
}
