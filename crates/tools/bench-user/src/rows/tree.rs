//! Names only: all tasks in one directory, and trees as in mdtest.

use super::{Measured, RowKind, RowSpec};
use crate::{
    bench::Bench,
    bottleneck::{Calls, Limits},
    error::Result,
    report::Unit,
    sample::{Step, rate},
};

/// Files in each directory of a tree.
const TREE_FILES: u64 = 8;

pub(super) fn storm() -> RowSpec {
    RowSpec {
        name: "metadata-storm".into(),
        what: "all tasks in one directory: create, look up, rename, look up, remove; each counts"
            .into(),
        kind: RowKind::Storm,
        quick: true,
    }
}

pub(super) fn mdtest() -> RowSpec {
    RowSpec {
        name: "mdtest".into(),
        what: "as mdtest: a directory with 8 empty files: create, look up, remove; each counts"
            .into(),
        kind: RowKind::Tree,
        quick: false,
    }
}

pub(super) fn measure_storm(bench: &Bench<'_>, limits: &Limits) -> Result<Measured> {
    let directory = bench.scratch.subdirectory("storm")?;
    let client = bench.client;
    let task = |rank: u32| {
        let directory = &directory;
        let mut number = 0_u64;
        Step(move || {
            number += 1;
            let (name, renamed) = (
                format!("{directory}/{rank}-{number}"),
                format!("{directory}/{rank}-{number}-renamed"),
            );
            client.touch(&name)?;
            client.lstat(&name)?;
            client.rename(&name, &renamed)?;
            client.lstat(&renamed)?;
            client.unlink(&renamed)?;
            Ok(5)
        })
    };
    let calls = Calls { looks: 2, changes: 3, iod: 0 };
    names(bench, limits, calls, &mut (0..bench.options.tasks()).map(task).collect::<Vec<_>>())
}

pub(super) fn measure_mdtest(bench: &Bench<'_>, limits: &Limits) -> Result<Measured> {
    let top = bench.scratch.subdirectory("tree")?;
    let client = bench.client;
    let task = |rank: u32| {
        let top = &top;
        let mut number = 0_u64;
        Step(move || {
            number += 1;
            let directory = format!("{top}/{rank}-{number}");
            client.mkdir(&directory)?;
            let file = |at: u64| format!("{directory}/{at}");
            (0..TREE_FILES).try_for_each(|at| client.touch(&file(at)))?;
            (0..TREE_FILES).try_for_each(|at| client.lstat(&file(at)).map(drop))?;
            client.lstat(&directory)?;
            (0..TREE_FILES).try_for_each(|at| client.unlink(&file(at)))?;
            client.rmdir(&directory)?;
            Ok(3 * (TREE_FILES + 1))
        })
    };
    let calls = Calls { looks: 1, changes: 2, iod: 0 };
    names(bench, limits, calls, &mut (0..bench.options.tasks()).map(task).collect::<Vec<_>>())
}

/// Rates of names. `calls`: ceilings of an operation with these calls.
fn names<F: FnMut() -> Result<u64> + Send>(
    bench: &Bench<'_>,
    limits: &Limits,
    calls: Calls,
    tasks: &mut [Step<F>],
) -> Result<Measured> {
    let sample = rate(bench, bench.sample, tasks)?;
    let tasks = bench.options.tasks();
    let mut ceilings = limits.calls(tasks, calls, &[]);
    ceilings.iter_mut().for_each(|ceiling| ceiling.rate *= f64::from(calls.looks + calls.changes));
    Ok(Measured { unit: Unit::PerSecond, tasks, sample, ceilings })
}
