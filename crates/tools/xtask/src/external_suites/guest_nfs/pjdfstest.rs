//! pjdfstest on the guest's mount: each of its cases counts. `nfs/pjdfstest.txt` lists the cases
//! that may fail, with reasons.

use crate::external_suites::known_failures::KnownFailures;
use crate::report::SuiteResult;
use anyhow::{Context as _, Result, ensure};

/// Its configuration: the same as on the FUSE mount.
pub const CONFIG: &str = include_str!("../../../../mount-test/pjdfstest/config.toml");
const KNOWN: &str = include_str!("../../../nfs/pjdfstest.txt");
/// It has about 400 cases; a run that ended early is no result.
const CASES_MIN: usize = 300;

/// The result of a run, by its output. On a local file system no failure is expected.
pub fn judge(output: &str, is_local: bool) -> Result<SuiteResult> {
    let known = match is_local {
        true => KnownFailures::parse("")?,
        false => KnownFailures::parse(KNOWN).context("nfs/pjdfstest.txt")?,
    };
    let cases = cases(output);
    ensure!(cases.len() > CASES_MIN, "pjdfstest ran {} cases\n{output}", cases.len());
    let mut result = SuiteResult::default();
    for case in &cases {
        result.merge(match case.outcome.as_str() {
            "ok" => known.judge(&case.name, None),
            "skipped" => SuiteResult::skip(&case.name, case.text.as_str()),
            _ => known.judge(&case.name, Some(&case.text)),
        });
    }
    let unknown = known.unknown(|name| cases.iter().any(|case| case.name == name));
    unknown.iter().for_each(|name| {
        result.merge(SuiteResult::fail(name, "listed in nfs/pjdfstest.txt, but it did not run"))
    });
    Ok(result)
}

struct PjdCase {
    name: String,
    outcome: String,
    text: String,
}

/// A line is `group::name    outcome`; its reason follows, indented.
fn cases(output: &str) -> Vec<PjdCase> {
    let mut cases: Vec<PjdCase> = Vec::new();
    for line in output.lines().take_while(|line| !line.starts_with("Summary: ")) {
        match (line.split_once(' '), line.starts_with(char::is_whitespace), cases.last_mut()) {
            (Some((name, outcome)), false, _) if name.contains("::") => cases.push(PjdCase {
                name: name.to_owned(),
                outcome: outcome.trim().to_owned(),
                text: String::new(),
            }),
            (_, _, Some(case)) => {
                let space = if case.text.is_empty() { "" } else { " " };
                case.text += &format!("{space}{}", line.trim());
            }
            _ => {}
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "server:/ on /mnt/nfs type nfs4 (rw)\nchmod::a       ok\n\
        link::b         skipped\n\tallow_remount is not set\nrename::c    FAILED\n\t\
        assertion: left\n\tright\n\nSummary: 1 failed\nlate::d ok\n";

    #[test]
    fn each_case_is_read_with_its_reason() {
        let cases = cases(RUN);
        let read: Vec<_> =
            cases.iter().map(|case| (case.name.as_str(), case.outcome.as_str())).collect();
        assert_eq!(read, [("chmod::a", "ok"), ("link::b", "skipped"), ("rename::c", "FAILED")]);
        assert_eq!(cases[2].text.trim(), "assertion: left right");
    }

    #[test]
    fn a_run_that_ended_early_is_no_result() {
        assert!(judge(RUN, false).is_err());
    }

    #[test]
    fn a_failure_that_is_not_listed_fails_and_a_skip_keeps_its_reason() {
        let many: String = (0..400).map(|at| format!("many::case{at} ok\n")).collect();
        let result = judge(&format!("{many}{RUN}"), true).unwrap();
        assert_eq!(result.failed.len(), 1);
        assert_eq!(result.skipped[0].1, "allow_remount is not set");
    }
}
