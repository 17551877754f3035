//! `bench mount`: the mount as users use it, by dd, fio, cp, tar and git, compared with the local
//! file system and, with `--rivals`, with other networked ones, all on this machine and in this
//! run.
//!
//! ```text
//!   repetitions ─► groups ─► subjects in turn (A B C A B C): ext4, braid, braid_uring, others
//!                               │         (and passthrough: the cost of FUSE itself)
//!                               ├── cold: mounted again; the servers' caches stay warm
//!                               └── samples ─► medians ─► targets: ratios to another system
//! ```
//!
//! Invariants, in addition to the program's:
//!
//! 4. Every subject has four data servers on loopback, each a process, and runs the same commands
//!    at the same priority.
//! 5. A target that needs a missing system is neither reached nor missed, and a note reports it.
//! 6. However this program ends, also by a signal, all its processes are stopped and its files
//!    removed.
//!
//! No assertion checks these: they are the steps of a run (4), the report (5) and guards that are
//! dropped (6; `cleanup.rs`).

pub mod data;
mod gluster;
mod hard;
mod moosefs;
mod names;
pub mod passthrough;
pub mod subject;
mod targets;
pub mod trees;
mod uring;

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::{Result, bail};
use braid_testbed::stats::Summary;

use self::subject::Subject;
use crate::{
    args::{CoreArgs, MountArgs},
    bench::Bench,
    free_memory::touch_free_memory,
    machine,
    measure::Measure,
    papers::store,
    report,
};

/// One measured value.
pub struct Sample {
    /// Stable: `group.what`.
    pub name: &'static str,
    /// Of the value.
    pub unit: &'static str,
    /// What was measured.
    pub value: f64,
}

/// Values measured one after the other on the same files.
pub struct Group {
    pub name: &'static str,
    pub about: &'static str,
    run: fn(&Bench, &MountArgs, &Subject) -> Result<Vec<Sample>>,
}

pub const GROUPS: &[Group] = &[
    Group {
        name: "sequential",
        about: "dd, 1 MiB: new file, rewritten, read with the client cold",
        run: |bench, _, subject| data::sequential(bench, subject),
    },
    Group {
        name: "parallel",
        about: "4 dd, a file each: written, read with the client cold",
        run: |bench, _, subject| data::parallel(bench, subject),
    },
    Group {
        name: "random",
        about: "fio, 4 KiB random read, O_DIRECT, one job",
        run: |bench, _, subject| data::random(bench, subject),
    },
    Group {
        name: "names",
        about: "5,000 empty files: create+close, stat, unlink",
        run: |bench, _, subject| names::run(bench, subject),
    },
    Group {
        name: "tree",
        about: "cp -r /usr/include in, tar of it, warm, again",
        run: |bench, _, subject| trees::tree(bench, subject),
    },
    Group {
        name: "clone",
        about: "git clone of a repository of 20,000 files",
        run: |bench, _, subject| trees::clone(bench, subject),
    },
    Group {
        name: "ior_hard",
        about: "2 tasks, records of 47,008 bytes in turn in one file: written and synced, read \
            with the client cold",
        run: hard::ior,
    },
    Group {
        name: "mdtest_hard",
        about: "2 tasks, files of 3,901 bytes in one directory: created; with the client cold \
            stat, read, removed",
        run: hard::mdtest,
    },
];

/// Runs it.
pub fn run(args: &MountArgs) -> Result<ExitCode> {
    if args.list {
        GROUPS.iter().for_each(|group| println!("{:12} {}", group.name, group.about));
        return Ok(ExitCode::SUCCESS);
    }
    let groups = chosen(&args.groups)?;
    let core = CoreArgs {
        quick: args.quick,
        repetitions: Some(args.repetitions.unwrap_or(if args.quick { 1 } else { 3 })),
        braid: args.braid.clone(),
        dir: args.dir.clone(),
        no_tls: true,
        ..CoreArgs::default()
    };
    // Before the mounts: the switch is restored after they have ended.
    let _switch = if args.io_uring { uring::switch_on()? } else { None };
    let bench = Bench::new(&core)?;
    let subjects = subject::start(&bench, args)?;
    let load = machine::load();
    let samples = measure(&bench, args, &groups, &subjects)?;
    let measures = judge(args, &bench, &samples);
    let machine = machine::describe(&bench.scratch);
    let when = machine::when(&machine, load, &bench.steal);
    if let Some(file) = &args.keep {
        for group in &groups {
            let of = |measure: &&Measure| measure.name.split('.').next() == Some(group.name);
            let own: Vec<Measure> = measures.iter().filter(of).cloned().collect();
            store::store_row(file, group.name, &when, args.quick, &own)?;
        }
    }
    if args.json {
        println!("{}", report::json::render(&machine, &bench.notes(), &measures));
    } else {
        print!("{}", report::table::render(&machine, &bench.notes(), &measures));
    }
    Ok(report::verdict(args.check, &measures))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Group>> {
    if let Some(unknown) =
        names.iter().find(|name| GROUPS.iter().all(|group| group.name != name.as_str()))
    {
        let known: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
        bail!("there is no group {unknown}; try: {}", known.join(", "));
    }
    Ok(GROUPS
        .iter()
        .filter(|group| names.is_empty() || names.iter().any(|name| name == group.name))
        .collect())
}

/// Values by name and subject, in the order in which they were first seen.
#[derive(Default)]
pub struct Samples {
    order: Vec<(&'static str, &'static str)>,
    values: BTreeMap<(&'static str, &'static str), Vec<f64>>,
}

impl Samples {
    fn add(&mut self, subject: &'static str, sample: &Sample) {
        if !self.order.contains(&(sample.name, sample.unit)) {
            self.order.push((sample.name, sample.unit));
        }
        self.values.entry((sample.name, subject)).or_default().push(sample.value);
    }

    /// The summary of this value of this subject.
    pub fn summary(&self, name: &'static str, subject: &'static str) -> Option<Summary> {
        Summary::of(self.values.get(&(name, subject))?.iter().copied())
    }
}

fn measure(
    bench: &Bench,
    args: &MountArgs,
    groups: &[&Group],
    subjects: &[Subject],
) -> Result<Samples> {
    let mut samples = Samples::default();
    let (mut loads, mut failed) = (Vec::new(), Vec::new());
    for repetition in 1..=bench.repetitions {
        for group in groups {
            for subject in subjects.iter().filter(|subject| subject.is_measured_in(group.name)) {
                // A failed measurement is not repeated.
                if failed.contains(&(group.name, subject.name())) {
                    continue;
                }
                loads.extend(machine::load());
                eprintln!(
                    "bench: {repetition}/{} {} on {}",
                    bench.repetitions,
                    group.name,
                    subject.name()
                );
                let mut sample = || {
                    touch_free_memory();
                    (group.run)(bench, args, subject)
                };
                match bench.steal.undisturbed(&mut sample) {
                    Ok(taken) => {
                        taken.iter().for_each(|sample| samples.add(subject.name(), sample))
                    }
                    Err(error) if !subject.is_ours() => {
                        bench.note(format!(
                            "{} on {} failed: {error:#}",
                            group.name,
                            subject.name()
                        ));
                        failed.push((group.name, subject.name()));
                    }
                    Err(error) => {
                        return Err(error.context(format!("{} on {}", group.name, subject.name())));
                    }
                }
            }
        }
    }
    if let Some(load) = Summary::of(loads) {
        let Summary { median, min, max } = load;
        bench.note(format!(
            "load average (1 minute) before each sample: {median:.1} [{min:.1} – {max:.1}]"
        ));
    }
    Ok(samples)
}

/// A line for each value of each subject; ours with their targets.
fn judge(args: &MountArgs, bench: &Bench, samples: &Samples) -> Vec<Measure> {
    let mut measures = Vec::new();
    for (name, unit) in &samples.order {
        for subject in subject::NAMES {
            let Some(summary) = samples.summary(name, subject) else { continue };
            let group = name.split('.').next().unwrap_or(name);
            let measure = Measure::new(format!("{name}.{subject}"), unit, summary)
                .made_by(&args.command_of(group));
            measures.push(targets::set_targets(bench, samples, name, subject, measure));
        }
    }
    measures
}
