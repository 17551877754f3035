//! How cost grows: CPU of each unit of work, memory and rates along a size, as curves. Growth
//! beyond the allowed exponent is reported.
//!
//! ```text
//!   one file a curve ── stage.rs (a cluster, samples) ── series.rs (points) ── fit.rs (exponents)
//!                                      └── JSON ── tables.rs, plots.rs (docs)
//! ```
//!
//! Cost is counted for a *unit*: a GiB, an operation, an entry, an extent. A unit with a constant
//! cost makes a whole that grows linearly with its size: an exponent of 0 here is linear there, and
//! anything above is worse than linear. Where a unit touches everything that grows (a stat that
//! queries every daemon) its exponent may be 1, as the series states.

mod clients;
mod daemons;
mod directory;
mod extents;
mod file_sizes;
mod fit;
mod memory;
mod plots;
pub mod process_group;
mod reasons;
mod series;
mod stage;
mod stripes;
pub mod tables;
mod transfer;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};

use crate::{
    args::{CoreArgs, GrowthArgs},
    bench::Bench,
    machine, page,
    papers::store,
    report,
};
use series::{Curve, Series};

/// A curve that can be measured by name.
pub struct Plan {
    /// Its name on the command line and in its measures.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// What its sizes count.
    pub size: &'static str,
    /// Sizes of a whole run, ascending; the first is the smallest meaningful one.
    pub sizes: &'static [u64],
    /// Those of `--quick`.
    pub quick: &'static [u64],
    /// Measures it.
    pub run: fn(&Growth, &[u64]) -> Result<Vec<Series>>,
}

/// In the order of a whole run.
pub const PLANS: &[Plan] = &[
    daemons::PLAN,
    stripes::PLAN,
    clients::PLAN,
    file_sizes::PLAN,
    directory::PLAN,
    extents::PLAN,
];

/// A test does one part in this many of a sample's work.
const SMALLEST_PART: u64 = 100;

impl Plan {
    /// The sizes of a run.
    fn chosen(&self, args: &GrowthArgs) -> &'static [u64] {
        match args {
            _ if args.smallest => &self.sizes[..1],
            _ if args.quick => self.quick,
            _ => self.sizes,
        }
    }
}

/// One run.
pub struct Growth {
    /// Options and the meter.
    pub bench: Bench,
    /// One part in this many of a sample's work is done.
    pub part: u64,
}

/// `cargo xtask bench growth`.
pub fn run(args: &GrowthArgs) -> Result<ExitCode> {
    if args.list {
        PLANS.iter().for_each(|plan| println!("{:16} {}", plan.name, plan.about));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &args.tables {
        page::write_section("growth", file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let plans = chosen(&args.curves)?;
    let growth = Growth::new(args)?;
    let machine = machine::describe(&growth.bench.scratch);
    let mut measures = Vec::new();
    let mut text = String::new();
    for plan in plans {
        eprintln!("bench: {} ({})", plan.name, plan.about);
        let load = machine::load();
        let sizes = plan.chosen(args);
        let curve = Curve { name: plan.name, series: (plan.run)(&growth, sizes)? };
        let report = curve.to_json(&machine::when(&machine, load, &growth.bench.steal));
        if let Some(file) = &args.json {
            store::put(file, curve.name, report.clone(), args.quick || args.smallest)?;
        }
        text += &tables::curve(plan, &report);
        measures.extend(curve.measures());
    }
    println!("{machine}");
    growth.bench.notes().iter().for_each(|note| println!("{note}"));
    print!("{text}");
    Ok(report::verdict(args.check, &measures))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Plan>> {
    if let Some(unknown) =
        names.iter().find(|name| PLANS.iter().all(|plan| plan.name != name.as_str()))
    {
        let known: Vec<&str> = PLANS.iter().map(|plan| plan.name).collect();
        bail!("there is no curve {unknown}; try: {}", known.join(", "));
    }
    Ok(PLANS
        .iter()
        .filter(|plan| names.is_empty() || names.iter().any(|name| name == plan.name))
        .collect())
}

impl Growth {
    fn new(args: &GrowthArgs) -> Result<Self> {
        let core = CoreArgs {
            quick: args.quick,
            repetitions: Some(args.repetitions.unwrap_or(if args.quick || args.smallest {
                2
            } else {
                3
            })),
            braid: args.braid.clone(),
            dir: Some(args.dir.clone().unwrap_or_else(|| PathBuf::from("/dev/shm"))),
            ..CoreArgs::default()
        };
        Ok(Self { bench: Bench::new(&core)?, part: if args.smallest { SMALLEST_PART } else { 1 } })
    }

    /// This run's part of an amount of work; at least one.
    pub fn amount(&self, whole: u64) -> u64 {
        (whole / self.part).max(1)
    }
}

#[cfg(test)]
mod tests;
