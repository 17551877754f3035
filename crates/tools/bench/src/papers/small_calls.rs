//! Eight clients, six daemons, `dd` with calls of 8 KiB and of 2 MiB through mounts: figures 6 and
//! 7 (d, e, c, d) of the Direct-pNFS paper.

use std::{
    path::PathBuf,
    process::{Child, Stdio},
};

use anyhow::{Context, Result, ensure};
use braid_netlab::{Lab, Spec};
use braid_testbed::stats::Summary;

use super::{
    Papers, Sample, line, measures,
    mounted::{Mount, dd, fuse_cpu},
    one_client::GIGABIT,
    rates::between_all,
    sampling::Sampling,
    tasks::{DIRECTIONS, Direction, Task, fill},
    with_target,
};
use crate::{
    measure::Measure,
    mount::passthrough::{Example, Passthrough},
};

const CLIENTS: usize = 8;
const DAEMONS: usize = 6;
const SMALL_BYTES: u64 = 8 << 10;
const LARGE_BYTES: u64 = 2 << 20;
/// The part of the limit, and of the rate with large calls.
const PART: f64 = 0.9;

/// `small_calls`: a file for each client, then one for all.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let spec = Spec { iods: DAEMONS, clients: CLIENTS, rate: GIGABIT, ..Spec::default() };
    let sized = papers
        .lab_that_writes(&spec, &between_all(CLIENTS, DAEMONS), || fuse_cpu(papers, SMALL_BYTES))?;
    let lab = &sized.lab;
    let rate = lab.spec().rate;
    // As many bytes as at the whole rates: the kernel's read-ahead past the end of a client's part
    // is the same at a tenth.
    let bytes = papers.bytes(spec.rate * DAEMONS as u64 / CLIENTS as u64, LARGE_BYTES);
    let separate: Vec<Task> =
        (0..CLIENTS).map(|at| Task::new(at, format!("/own{at}"), 0, bytes)).collect();
    let shared: Vec<Task> =
        (0..CLIENTS).map(|at| Task::new(at, "/shared", at as u64 * bytes, bytes)).collect();
    let mounts: Vec<Mount> =
        (0..CLIENTS).map(|client| Mount::new(papers, lab, client)).collect::<Result<_>>()?;
    let dir = tempfile::tempdir_in(&papers.dir)?;
    let passthrough = Passthrough::start(dir.path(), Example::Passthrough)?;
    let mut all = Vec::new();
    for (kind, tasks) in [("separate", &separate), ("one_file", &shared)] {
        let tasks: Vec<Task> = tasks.iter().map(|task| task.in_calls_of(LARGE_BYTES)).collect();
        fill(papers, lab, &tasks, None)?;
        let through = |way, block| {
            mounts.iter().try_for_each(Mount::cold)?;
            let parts =
                mounts.iter().zip(&tasks).map(|(mount, task)| (mount.file(&task.path), task));
            together(papers, lab, &parts.collect::<Vec<_>>(), way, block)
        };
        let local = |way| {
            passthrough.remount()?;
            let parts = tasks
                .iter()
                .map(|task| (passthrough.point().join(task.path.trim_start_matches('/')), task));
            together(papers, lab, &parts.collect::<Vec<_>>(), way, SMALL_BYTES)
        };
        // Like the files of the cluster, those below are overwritten.
        local(Direction::Write)?;
        for way in DIRECTIONS {
            let (mut small, mut large, mut beside) =
                (|| through(way, SMALL_BYTES), || through(way, LARGE_BYTES), || local(way));
            let samples = papers.alternate::<Sample>(&mut [&mut small, &mut large, &mut beside])?;
            let name = format!("small_calls.{kind}.{}", way.word());
            all.extend(report(&name, &samples, DAEMONS as f64 * line(rate), &sized.rate_note()));
        }
    }
    Ok(all)
}

/// Samples with small calls, with large ones, and of libfuse's passthrough with small ones.
fn report(name: &str, samples: &[Vec<Sample>], lines: f64, said: &str) -> Vec<Measure> {
    let (passthrough, more) = measures(&format!("{name}.passthrough"), &samples[2]);
    let local = passthrough.plain.summary.median;
    let what = if local < lines { "libfuse's passthrough with 8 KiB, " } else { "6 lines" };
    let what = if local < lines { what.to_owned() } else { format!("{what}{said}, ") };
    let mut all = with_target(&format!("{name}.8KiB"), &samples[0], PART, local.min(lines), &what);
    let (large, of_large) = measures(&format!("{name}.2MiB"), &samples[1]);
    let ratios = samples[0]
        .iter()
        .zip(&samples[1])
        .map(|(small, large)| small.mb_per_second / large.mb_per_second);
    let ratio = Measure::new(
        format!("{name}.of_2MiB"),
        "of 2 MiB",
        Summary::of(ratios).expect("there is a sample"),
    );
    all.push(ratio.at_least(PART, format!("{PART} x the same with 2 MiB")));
    all.push(large);
    all.extend(of_large);
    all.push(passthrough);
    all.extend(more);
    all
}

/// A `dd` for each part of a file, all at the same time: from the start of the first to the end of
/// the last.
fn together(
    papers: &Papers,
    lab: &Lab,
    parts: &[(PathBuf, &Task)],
    way: Direction,
    block: u64,
) -> Result<Sample> {
    let bytes = parts.iter().map(|(_, task)| task.bytes).sum();
    let taking = Sampling::start(papers, lab)?;
    let start = |(file, task): &(PathBuf, &Task)| {
        let mut command = dd(file, way, block, task.start, task.bytes);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().context("starting dd")
    };
    let started: Vec<Result<Child>> = parts.iter().map(start).collect();
    // All end before the first failure is returned.
    let ended: Vec<Result<_>> = started
        .into_iter()
        .map(|child| child.and_then(|child| Ok(child.wait_with_output()?)))
        .collect();
    let sample = taking.end(papers, lab, bytes)?;
    for output in ended {
        let output = output?;
        ensure!(output.status.success(), "dd: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_calls_are_compared_with_links_or_passthrough_and_large_calls() {
        let sample = |mb_per_second| {
            vec![Sample { mb_per_second, cpu_per_gib: 1.0, retransmits: 0.0, timeouts: 0.0 }]
        };
        let find = |measures: &[Measure], name: &str| {
            let found = measures.iter().find(|measure| measure.name == name).unwrap().plain.clone();
            (found.holds(), found.target.unwrap().reason().to_owned())
        };
        let by_lines = report(
            "a",
            &[sample(640.0), sample(700.0), sample(2000.0)],
            706.0,
            ", at 1/4 of the rates",
        );
        assert_eq!(
            find(&by_lines, "a.8KiB"),
            (Some(true), "0.9 x 6 lines, at 1/4 of the rates, 706.0".to_owned())
        );
        assert_eq!(
            find(&by_lines, "a.of_2MiB"),
            (Some(true), "0.9 x the same with 2 MiB".to_owned())
        );
        let by_fuse = report("a", &[sample(340.0), sample(700.0), sample(400.0)], 706.0, "");
        let reason = "0.9 x libfuse's passthrough with 8 KiB, 400.0".to_owned();
        assert_eq!(find(&by_fuse, "a.8KiB"), (Some(false), reason));
        assert_eq!(find(&by_fuse, "a.of_2MiB").0, Some(false));
    }
}
