//! ATLAS's mix of writes, BTIO's rows, OLTP, PostMark: figure 8 of the Direct-pNFS paper, by `braid
//! bench` with that preset.
//!
//! Its tasks are threads of one process: eight clients are eight tasks on one host, whose interface
//! is as fast as eight.

use std::process::Stdio;

use anyhow::{Context, Result, anyhow, ensure};
use braid_bench_user::report::{Report, Row, Unit};
use braid_netlab::Spec;
use braid_testbed::stats::Summary;

use super::{Papers, one_client::GIGABIT};
use crate::measure::Measure;

const DAEMONS: usize = 6;
const TASKS: u64 = 8;
const ROWS: &str = "atlas,btio-write,btio-read,oltp,postmark";
/// Size of the files of a row.
const SIZE: &str = "256M";

/// `patterns`: each with the bottleneck that `braid bench` reports.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let pairs: Vec<(usize, usize)> = (0..DAEMONS).map(|daemon| (0, daemon)).collect();
    let spec = Spec {
        iods: DAEMONS,
        rate: GIGABIT,
        client_rate: Some(TASKS * GIGABIT),
        ..Spec::default()
    };
    let sized = papers.lab(&spec, &pairs)?;
    let mut command = sized.lab.client_host(0)?.command(papers.braid.path());
    command.args([
        "--json",
        "bench",
        "--quick",
        "--preset",
        "direct-pnfs-2007",
        "--only",
        ROWS,
        "--size",
        SIZE,
    ]);
    command.args(["--tasks", &TASKS.to_string(), "--samples", &papers.repetitions().to_string()]);
    let all_samples = papers.seconds * f64::from(papers.repetitions());
    command.args(["--seconds", &format!("{}ms", (all_samples * 1e3) as u64)]);
    let output = command
        .envs(sized.lab.environment())
        .stdin(Stdio::null())
        .output()
        .context("run braid bench")?;
    ensure!(
        output.status.success(),
        "braid bench: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let report = Report::from_json(&String::from_utf8_lossy(&output.stdout))
        .map_err(|error| anyhow!(error))?;
    report.rows.iter().map(measures).collect::<Result<Vec<_>>>().map(|all| all.concat())
}

/// A row in units of this bench, and its limit.
fn measures(row: &Row) -> Result<Vec<Measure>> {
    let (unit, scale) = match row.unit {
        Unit::BytesPerSecond => ("MB/s", 1e6),
        Unit::PerSecond => ("transactions/s", 1.0),
        Unit::Seconds => ("s", 1.0),
    };
    let name = format!("patterns.{}", row.name.replace('-', "."));
    let samples = Summary::of(row.samples.iter().map(|sample| sample / scale));
    let mut all = vec![Measure::new(
        name.as_str(),
        unit,
        samples.with_context(|| format!("{name} has no sample"))?,
    )];
    if let Some(bound) = &row.bound {
        all.push(Measure::new(format!("{name}.limit"), unit, Summary::once(bound.ceiling / scale)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_braid_bench_is_a_measure_beside_its_limit() {
        let row = |unit, samples: Vec<f64>| Row {
            name: "btio-write".to_owned(),
            what: String::new(),
            unit,
            tasks: 8,
            summary: braid_bench_user::stats::Summary::of(&samples).unwrap(),
            samples,
            bound: Some(braid_bench_user::report::Bottleneck {
                limit: String::new(),
                ceiling: 4e6,
                percent: 50.0,
            }),
        };
        let rate = measures(&row(Unit::BytesPerSecond, vec![1e6, 2e6, 3e6])).unwrap();
        assert_eq!((rate[0].name.as_str(), rate[0].unit), ("patterns.btio.write", "MB/s"));
        assert_eq!(rate[0].plain.summary, Summary { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(
            (rate[1].name.as_str(), rate[1].plain.summary.median),
            ("patterns.btio.write.limit", 4.0)
        );
        let count = measures(&row(Unit::PerSecond, vec![7.0])).unwrap();
        assert_eq!((count[0].unit, count[0].plain.summary.median), ("transactions/s", 7.0));
    }
}
