//! Suites that are a binary of the workspace: it prints one line for each case that fails, a line
//! `skipped: REASON` for each that cannot run, then `N passed, N failed` (`, N skipped` may follow),
//! and exits with 0 only if none failed.

use crate::context::Context;
use crate::process::Finished;
use crate::report::{SuiteResult, parse_closing_line};
use anyhow::Result;
use std::time::Duration;

/// Lines of a failed run that are worth keeping.
const TAIL_LINES_MAX: usize = 60;

pub fn subject(context: &Context, binary: &str) -> Result<()> {
    context.package_of_binary(binary).map(drop)
}

/// Runs the binary and takes over its counts.
pub fn run(context: &Context, binary: &str, args: &[&str], limit: Duration) -> Result<SuiteResult> {
    let package = context.package_of_binary(binary)?;
    let run = context.cargo(["run", "--quiet", "--locked", "--package", &package, "--bin", binary, "--"]);
    Ok(counts(&run.args(args).limit(limit).finish()?))
}

fn counts(finished: &Finished) -> SuiteResult {
    let why = || format!("{}\n{}", finished.status, tail(&finished.output()));
    match (parse_closing_line(&finished.stdout), finished.status.success()) {
        (Some((_, _, skipped)), _) if skipped != reasons(finished).len() as u64 => {
            SuiteResult::fail("skips", format!("not one reason for each of {skipped}; {}", why()))
        }
        (Some((passed, 0, _)), true) => SuiteResult { passed, failed: vec![], skipped: reasons(finished) },
        (Some((passed, failed, _)), false) => {
            let failed = (0..failed.max(1))
                .map(|index| (format!("case {}", index + 1), if index == 0 { why() } else { String::new() }));
            SuiteResult { passed, failed: failed.collect(), skipped: reasons(finished) }
        }
        (Some(_), true) => SuiteResult::fail("exit code", format!("0 in spite of failures; {}", why())),
        (None, _) => SuiteResult::fail("closing line", format!("not printed; {}", why())),
    }
}

fn reasons(finished: &Finished) -> Vec<(String, String)> {
    let reasons = finished.stdout.lines().filter_map(|line| line.strip_prefix("skipped: "));
    reasons.enumerate().map(|(index, reason)| (format!("case {}", index + 1), reason.to_owned())).collect()
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES_MAX)..].join("\n")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn finished(code: i32, stdout: &str) -> Finished {
        Finished { status: ExitStatus::from_raw(code << 8), stdout: stdout.to_owned(), stderr: String::new() }
    }

    #[test]
    fn counts_are_taken_from_the_closing_line() {
        assert_eq!(counts(&finished(0, "5 passed, 0 failed")).passed, 5);
        let result = counts(&finished(1, "seed 3: lost a byte\nskipped: no disk\n5 passed, 2 failed, 1 skipped"));
        assert_eq!((result.passed, result.failed.len(), result.skipped.len()), (5, 2, 1));
        assert!(result.failed[0].1.contains("seed 3: lost a byte"));
    }

    #[test]
    fn a_tool_that_contradicts_itself_or_says_nothing_fails() {
        for (code, stdout) in [
            (0, "5 passed, 1 failed"),
            (1, "5 passed, 0 failed"),
            (0, "5 passed, 0 failed, 1 skipped"),
            (0, "fine"),
            (1, ""),
        ] {
            assert!(!counts(&finished(code, stdout)).failed.is_empty(), "{code} {stdout}");
        }
    }
}
