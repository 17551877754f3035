//! `bench union`: a union of local file systems beside mergerfs and the plain file system, on
//! branches that are loop-mounted ext4 and XFS images.
//!
//! ```text
//!   row ─► stage: 1 or 8 images, mounted ─► subjects on them, in turn (A B C A B C)
//!             plain                     a directory of the first image
//!             union                     with passthrough
//!             union_no_passthrough
//!             mergerfs                  as installed
//!             mergerfs_passthrough      passthrough.io=rw
//!             mergerfs_long_caches      the same, and the kernel's caches last for 2 minutes
//! ```
//!
//! 1. All subjects use directories of the same images, place new files in the same way (at random
//!    by free space, the default of mergerfs), and have their files cached by the branches.
//! 2. A target is the ratio to another subject, whose sample was taken in the same turn.
//! 3. Without mergerfs its targets are left out, and a note reports it.

mod adopt;
mod bars;
mod data;
mod names;
mod stage;
mod subject;
mod trees;

use anyhow::Result;

use self::{
    stage::{DiskKind, Stage},
    subject::Subject,
};
use crate::{bench::Bench, measure::Measure, rows::Row};

/// In the order of a whole run.
pub const ROWS: &[Row] = &[
    Row {
        name: "data",
        about: "1 MiB in order and 4 KiB at random, read and overwritten, cached; CPU",
        run: |bench| on_stages(bench, "data", &[1, 8], subject::OF_DATA, data::run),
    },
    Row {
        name: "create",
        about: "new empty files in one directory of 8 branches",
        run: |bench| on_stages(bench, "create", &[1, 8], subject::ALL, names::create),
    },
    Row {
        name: "clone",
        about: "git clone of a repository of 20,000 files",
        run: |bench| on_stages(bench, "clone", &[1, 8], subject::ALL, trees::clone),
    },
    Row {
        name: "tree",
        about: "find, and find with sizes, of 20,000 files on 8 branches, after a pause",
        run: |bench| on_stages(bench, "tree", &[8], subject::ALL, trees::walk),
    },
    Row {
        name: "adopt",
        about: "8 disks with 1,000,000 files together: created, mounted and listed",
        run: adopt::run,
    },
];

/// One measured value: what, and its unit.
pub struct Sample {
    pub what: &'static str,
    pub unit: &'static str,
    pub value: f64,
}

type Take = fn(&Bench, &Subject) -> Result<Vec<Sample>>;

/// Takes samples of all subjects in turn, on each kind of file system and each number of branches.
fn on_stages(
    bench: &Bench,
    row: &str,
    counts: &[usize],
    wanted: &[&'static str],
    take: Take,
) -> Result<Vec<Measure>> {
    let mut all = Vec::new();
    for kind in DiskKind::ALL {
        for count in counts {
            let stage = Stage::mount(&bench.scratch, kind, *count)?;
            let subjects = subject::start(bench, &stage, wanted)?;
            let samples = in_turn(bench, row, &stage, &subjects, take)?;
            all.extend(bars::measures(&format!("{row}.{}", stage.name()), *count, &samples)?);
        }
    }
    Ok(all)
}

/// The samples of one subject, one list a turn.
struct Taken {
    subject: &'static str,
    turns: Vec<Vec<Sample>>,
}

fn in_turn(
    bench: &Bench,
    row: &str,
    stage: &Stage,
    subjects: &[Subject],
    take: Take,
) -> Result<Vec<Taken>> {
    let mut all: Vec<Taken> = subjects
        .iter()
        .map(|subject| Taken { subject: subject.name(), turns: Vec::new() })
        .collect();
    for turn in 1..=bench.repetitions {
        for (subject, taken) in subjects.iter().zip(&mut all) {
            let name = subject.name();
            eprintln!("bench: {turn}/{} {row} of {} on {name}", bench.repetitions, stage.name());
            let sample = bench.steal.undisturbed(&mut || take(bench, subject));
            taken.turns.push(sample.map_err(|error| error.context(name))?);
        }
    }
    Ok(all)
}
