//! The loads of programs, one row each.

mod data;
mod files;
pub(crate) mod mixed;
pub(crate) mod oltp;
pub(crate) mod postmark;
mod random;
mod small;
mod tree;

pub(crate) use data::{Data, PLAIN};
pub(crate) use random::Random;

use crate::{
    bench::{Bench, Progress},
    bottleneck::{Limits, RowLimit, find_bottleneck},
    error::{BenchError, Result},
    options::Options,
    preset,
    report::{Row, Unit},
    stats::Summary,
};
pub(crate) use files::Files;

/// A row that can be measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RowSpec {
    pub(crate) name: String,
    pub(crate) what: String,
    pub(crate) kind: RowKind,
    /// Whether a quick run includes it.
    pub(crate) quick: bool,
}

/// The load of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RowKind {
    Data(Data),
    Small(small::Phase),
    /// Names created, looked up, renamed and removed, all tasks in one directory.
    Storm,
    Tree,
    Oltp,
    Postmark(postmark::Sizes),
    Mixed,
}

/// The result of a row.
pub(crate) struct Measured {
    pub(crate) unit: Unit,
    pub(crate) tasks: u32,
    pub(crate) sample: f64,
    pub(crate) ceilings: Vec<RowLimit>,
}

/// The default set.
fn all(tasks: u32) -> Vec<RowSpec> {
    let data = data::default_rows(tasks);
    let names = [small::rows(), vec![tree::storm()]].concat();
    let patterns =
        [data::patterns(tasks), vec![tree::mdtest(), postmark::row(), oltp::row(), mixed::row()]]
            .concat();
    [data, names, patterns].concat()
}

/// Names for `--only`.
#[must_use]
pub fn row_names() -> Vec<String> {
    all(1).into_iter().map(|spec| spec.name).collect()
}

/// The rows of a run.
pub(crate) fn wanted(options: &Options, iods: usize) -> Result<Vec<RowSpec>> {
    let mut rows = match &options.preset {
        Some(name) => preset::rows(name, options.tasks(), iods)?,
        None => all(options.tasks()),
    };
    if let Some(unknown) =
        options.only.iter().find(|name| rows.iter().all(|row| row.name != **name))
    {
        let names: Vec<_> = rows.into_iter().map(|row| row.name).collect();
        return Err(BenchError::Usage(format!(
            "there is no row '{unknown}'; the rows are {}",
            names.join(", ")
        )));
    }
    if !options.only.is_empty() {
        rows.retain(|row| options.only.contains(&row.name));
    } else if options.quick {
        rows.retain(|row| row.quick);
    }
    Ok(rows)
}

/// Refuses rows whose requests do not fit into files of this size, before anything is created.
pub(crate) fn check(wanted: &[RowSpec], bytes: u64) -> Result<()> {
    match wanted.iter().find(|spec| needs(spec) > bytes) {
        Some(spec) => Err(BenchError::Usage(format!(
            "row '{}' needs files of {} KiB, and --size and the free space allow {} KiB",
            spec.name,
            needs(spec) >> 10,
            bytes >> 10
        ))),
        None => Ok(()),
    }
}

/// Minimum size of files for all these rows.
pub(crate) fn bytes_min(wanted: &[RowSpec]) -> u64 {
    wanted.iter().map(needs).max().unwrap_or(0)
}

fn needs(spec: &RowSpec) -> u64 {
    match spec.kind {
        RowKind::Data(data) => data.bytes_min(),
        _ => 0,
    }
}

/// Measures each row once, and adds the sample. Its bottleneck is computed again from all samples
/// of the limits so far.
pub(crate) fn measure(
    bench: &Bench<'_>,
    limits: &Limits,
    files: &mut Files<'_>,
    wanted: &[RowSpec],
    rows: &mut Vec<Row>,
) -> Result<()> {
    for (at, spec) in wanted.iter().enumerate() {
        (bench.tell)(Progress::Now(&spec.name));
        let measured = match &spec.kind {
            RowKind::Data(data) => data::measure(bench, limits, files, *data),
            RowKind::Small(phase) => small::measure(bench, limits, *phase),
            RowKind::Storm => tree::measure_storm(bench, limits),
            RowKind::Tree => tree::measure_mdtest(bench, limits),
            RowKind::Oltp => oltp::measure(bench, limits, files),
            RowKind::Postmark(sizes) => postmark::measure(bench, limits, *sizes),
            RowKind::Mixed => mixed::measure(bench, limits, files),
        }?;
        let mut samples = rows.get(at).map(|row| row.samples.clone()).unwrap_or_default();
        samples.push(measured.sample);
        let row = row(spec, &measured, samples);
        (bench.tell)(Progress::Row(&row));
        rows.splice(at..rows.len().min(at + 1), [row]);
    }
    Ok(())
}

fn row(spec: &RowSpec, measured: &Measured, samples: Vec<f64>) -> Row {
    let summary = Summary::of(&samples).unwrap_or(Summary { median: 0.0, low: 0.0, high: 0.0 });
    let bound = find_bottleneck(summary.median, &measured.ceilings);
    let (unit, tasks) = (measured.unit, measured.tasks);
    Row { name: spec.name.clone(), what: spec.what.clone(), unit, tasks, samples, summary, bound }
}
