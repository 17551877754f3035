//! Suites that are a binary of the workspace. It prints `FAILED NAME: REASON` for each case that
//! fails (following lines may continue the reason), `skipped: NAME: REASON` for each case that
//! cannot run, and then `N passed, N failed`, optionally with `, N skipped`. It exits with 0 only
//! if no case failed.

use crate::context::Context;
use crate::report::{SuiteResult, parse_closing_line};
use anyhow::Result;
use braid_testbed::process::Finished;
use std::time::Duration;

/// Number of last lines that the report of a failed run has.
const TAIL_LINES_MAX: usize = 60;
/// Lines of the reason of one case.
const REASON_LINES_MAX: usize = 40;
const FAILED: &str = "FAILED ";
const SKIPPED: &str = "skipped: ";
/// How a line begins that does not continue the reason before it.
const OTHER_LINES: &[&str] = &[FAILED, SKIPPED, "ok ", "kept in "];

pub fn subject(context: &Context, binary: &str) -> Result<()> {
    context.package_of_binary(binary).map(drop)
}

/// Runs the binary and returns its counts.
pub fn run(context: &Context, binary: &str, args: &[&str], limit: Duration) -> Result<SuiteResult> {
    Ok(counts(&context.program(binary)?.args(args).limit(limit).finish()?))
}

/// The counts of a run that prints as described above.
pub fn counts(finished: &Finished) -> SuiteResult {
    let why = || format!("{}\n{}", finished.status, tail(&finished.output()));
    match (parse_closing_line(&finished.stdout), finished.status.success()) {
        (Some((_, _, skipped)), _) if skipped != reasons(finished).len() as u64 => {
            SuiteResult::fail("skips", format!("not one reason for each of {skipped}; {}", why()))
        }
        (Some((passed, 0, _)), true) => {
            SuiteResult { passed, failed: vec![], skipped: reasons(finished) }
        }
        (Some((passed, count, _)), false) => SuiteResult {
            passed,
            failed: failed(finished, count.max(1) as usize),
            skipped: reasons(finished),
        },
        (Some(_), true) => SuiteResult::fail("exit code", format!("0 despite failures; {}", why())),
        (None, _) => SuiteResult::fail("closing line", format!("not printed; {}", why())),
    }
}

/// As many as the tool counted: those that it named, and the others by number. The last lines of
/// the tool follow the first of them.
fn failed(finished: &Finished, count: usize) -> Vec<(String, String)> {
    let mut failed = named(&finished.stdout);
    (failed.len()..count)
        .for_each(|index| failed.push((format!("case {}", index + 1), String::new())));
    if let Some((_, why)) = failed.first_mut() {
        *why = format!("{why}\n{}\n{}", finished.status, tail(&finished.output()))
            .trim_start()
            .to_owned();
    }
    failed
}

/// The cases of the lines `FAILED NAME (TIME): REASON`, each with the lines that continue its
/// reason.
fn named(stdout: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = stdout.lines().collect();
    let begins =
        lines.iter().enumerate().filter_map(|(at, line)| Some((at, line.strip_prefix(FAILED)?)));
    let case = |(at, line): (usize, &str)| {
        let (name, first) = line.split_once(": ").unwrap_or((line, ""));
        let ends = |line: &&&str| {
            OTHER_LINES.iter().any(|word| line.starts_with(word))
                || parse_closing_line(line).is_some()
        };
        let more =
            lines[at + 1..].iter().take_while(|line| !ends(line)).take(REASON_LINES_MAX).copied();
        let reason: Vec<&str> = std::iter::once(first).chain(more).collect();
        (without_time(name).to_owned(), reason.join("\n"))
    };
    begins.map(case).collect()
}

fn without_time(name: &str) -> &str {
    name.rsplit_once(" (").filter(|(_, time)| time.ends_with(" s)")).map_or(name, |(name, _)| name)
}

fn reasons(finished: &Finished) -> Vec<(String, String)> {
    let reasons = finished.stdout.lines().filter_map(|line| line.strip_prefix(SKIPPED));
    let named = |(index, reason): (usize, &str)| match reason.split_once(": ") {
        Some((name, reason)) => (name.to_owned(), reason.to_owned()),
        None => (format!("case {}", index + 1), reason.to_owned()),
    };
    reasons.enumerate().map(named).collect()
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
        Finished {
            status: ExitStatus::from_raw(code << 8),
            stdout: stdout.to_owned(),
            stderr: String::new(),
        }
    }

    #[test]
    fn counts_are_taken_from_the_closing_line() {
        assert_eq!(counts(&finished(0, "5 passed, 0 failed")).passed, 5);
        let result = counts(&finished(
            1,
            "seed 3: lost a byte\nskipped: no disk\n5 passed, 2 failed, 1 skipped",
        ));
        assert_eq!((result.passed, result.failed.len(), result.skipped.len()), (5, 2, 1));
        assert!(result.failed[0].1.contains("seed 3: lost a byte"));
    }

    #[test]
    fn a_case_that_failed_has_its_name_and_its_reason() {
        let stdout = "FAILED locks::a (1.2 s): EIO\nok locks::b (0.1 s) 7 calls\n\
            FAILED history (3.0 s): 1 violations:\n\
                      words 3: no order\nkept in /tmp/x\nFAILED one more\nskipped: git: not there\n\
                      1 passed, 4 failed, 1 skipped\n";
        let result = counts(&finished(1, stdout));
        let names: Vec<&str> = result.failed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["locks::a", "history", "one more", "case 4"]);
        assert!(result.failed[0].1.starts_with("EIO\n"), "{}", result.failed[0].1);
        assert_eq!(result.failed[1].1, "1 violations:\nwords 3: no order");
        assert_eq!(result.skipped, [("git".to_owned(), "not there".to_owned())]);
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
