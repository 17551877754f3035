//! stress-ng's class `filesystem`, each stressor alone, with verification.

use super::{Options, cluster::Cluster, reader::Reader};
use crate::context::Context;
use crate::process::Process;
use crate::report::SuiteResult;
use crate::tools;
use anyhow::{Result, ensure};
use std::path::Path;
use std::time::Duration;

/// Run time of each stressor, with two workers.
const SECONDS: &str = "10";
/// stress-ng's exit codes for what a machine lacks or a user may not do.
const NOT_POSSIBLE: [i32; 3] = [3, 4, 77];
/// Printed when it starts no worker, since the stressor may hang the machine.
const NOT_STARTED: &str = "No stress workers invoked";

pub fn run(context: &Context, options: &Options) -> Result<SuiteResult> {
    tools::need("stress-ng", "stress-ng")?;
    let cases = if options.cases.is_empty() { stressors()? } else { options.cases.clone() };
    if let Some(dir) = &options.on {
        return run_in(dir, options.limit_case(), &cases);
    }
    let cluster = Cluster::start(context, "stress")?;
    let home = context.root.join("target/suite/stress-ng");
    let mount = cluster.mount(&home.join("mount"), "suid,dev")?;
    let _reader =
        options.second_mount.then(|| Reader::start(&cluster, &home.join("second"))).transpose()?;
    run_in(&mount.point, options.limit_case(), &cases)
}

/// Parses `class 'filesystem' stressors: access acl …`.
fn stressors() -> Result<Vec<String>> {
    let listed = Process::new("stress-ng").args(["--class", "filesystem?"]).finish()?.output();
    let names: Vec<String> = of_class(&listed);
    ensure!(
        !names.is_empty(),
        "suite stress-ng: it names no stressor of its class filesystem: {listed}"
    );
    Ok(names)
}

fn of_class(listed: &str) -> Vec<String> {
    let names = listed
        .lines()
        .filter_map(|line| line.split_once("stressors:"))
        .flat_map(|(_, names)| names.split_whitespace());
    names.map(str::to_owned).collect()
}

fn run_in(dir: &Path, limit: Duration, cases: &[String]) -> Result<SuiteResult> {
    let mut result = SuiteResult::default();
    for case in cases {
        let run = Process::new("stress-ng").args([
            &format!("--{case}"),
            "2",
            "--timeout",
            SECONDS,
            "--verify",
        ]);
        let run = run.args(["--temp-path".as_ref(), dir.as_os_str()]).limit(limit);
        let finished = run.finish()?;
        let output = finished.output();
        let one = judge(case, finished.status.code(), &output);
        println!("       {:<7} {case}", one.status());
        result.merge(one);
    }
    Ok(result)
}

fn judge(case: &str, code: Option<i32>, output: &str) -> SuiteResult {
    match code {
        Some(0) => SuiteResult { passed: 1, ..SuiteResult::default() },
        Some(code) if NOT_POSSIBLE.contains(&code) || output.contains(NOT_STARTED) => {
            let reason =
                output.lines().find(|line| line.contains("skipping") || line.contains("disabled"));
            SuiteResult::skip(case, reason.or(output.lines().last()).unwrap_or("not possible here"))
        }
        _ => SuiteResult::fail(case, output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stressors_are_read_from_the_list_of_their_class() {
        assert_eq!(
            of_class("class 'filesystem' stressors: access acl chattr\n"),
            ["access", "acl", "chattr"]
        );
        assert_eq!(of_class("unknown class"), [""; 0]);
    }

    #[test]
    fn what_cannot_run_here_is_skipped_and_a_signal_is_a_failure() {
        assert_eq!(judge("acl", Some(4), "no ACLs here").skipped[0].1, "no ACLs here");
        let disabled =
            "info: disabled 'bind-mount' as it may hang\nerror: No stress workers invoked\n";
        let reason = "info: disabled 'bind-mount' as it may hang";
        assert_eq!(judge("bind-mount", Some(1), disabled).skipped[0].1, reason);
        assert_eq!(judge("acl", Some(2), "").failed.len(), 1);
        assert_eq!(judge("acl", None, "").failed.len(), 1);
    }
}
