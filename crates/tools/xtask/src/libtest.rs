//! Parses the output of libtest binaries.
//!
//! A test that cannot run on this machine (no second user, no kernel feature) prints a line
//! `skipped: REASON` and returns; it counts as skipped, not as passed. `#[ignore]` counts as
//! skipped with its own reason. Without a reason both are failures.

use crate::report::SuiteResult;

const SKIP_MARK: &str = "skipped:";

/// Parses a run made with `--show-output`. Only the summary lines count: a child process that
/// writes to the inherited stream can spoil the line of a case, and a test that ends the process
/// with code 0 leaves no summary.
pub fn parse_run(stdout: &str, succeeded: bool) -> SuiteResult {
    let mut result = SuiteResult::default();
    for line in stdout.lines() {
        let Some((name, outcome)) =
            line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... "))
        else {
            continue;
        };
        note(&mut result, stdout, name, outcome);
    }
    match summary(stdout) {
        Some(passed) => result.passed = passed.saturating_sub(skipped_themselves(&result, stdout)),
        None => result
            .failed
            .push(("the run itself".to_owned(), format!("ended without a summary\n{stdout}"))),
    }
    if !succeeded && result.failed.is_empty() {
        result.failed.push(("the run itself".to_owned(), stdout.to_owned()));
    }
    result
}

/// How many tests passed, by all summary lines together (documentation tests print several).
fn summary(stdout: &str) -> Option<u64> {
    let lines = stdout.lines().filter_map(|line| line.trim_start().strip_prefix("test result: "));
    let counts = lines
        .filter_map(|line| line.split_once(". ")?.1.split_once(" passed;")?.0.parse::<u64>().ok());
    counts.reduce(|sum, count| sum + count)
}

/// libtest prints `ok` for a test that printed a skip mark; it is already counted as skipped.
fn skipped_themselves(result: &SuiteResult, stdout: &str) -> u64 {
    let noted = result.skipped.iter().chain(&result.failed);
    noted
        .filter(|(name, _)| stdout.lines().any(|line| line == format!("test {name} ... ok")))
        .count() as u64
}

fn note(result: &mut SuiteResult, stdout: &str, name: &str, outcome: &str) {
    let printed = printed_by(stdout, name);
    match outcome
        .split_once(',')
        .map_or((outcome.trim(), ""), |(word, reason)| (word.trim(), reason.trim()))
    {
        ("ok", _) => match printed.lines().find_map(|line| line.trim().strip_prefix(SKIP_MARK)) {
            Some(reason) => skip(result, name, reason.trim()),
            None => result.passed += 1,
        },
        ("ignored", reason) => skip(result, name, reason),
        (_, _) => result.failed.push((name.to_owned(), printed)),
    }
}

fn skip(result: &mut SuiteResult, name: &str, reason: &str) {
    match reason.is_empty() {
        true => result.failed.push((name.to_owned(), "skipped without a reason".to_owned())),
        false => result.skipped.push((name.to_owned(), reason.to_owned())),
    }
}

/// The block `---- NAME stdout ----` of the report, up to the next block or headline.
fn printed_by(stdout: &str, name: &str) -> String {
    let headline = format!("---- {name} stdout ----");
    let block = stdout.lines().skip_while(|line| *line != headline).skip(1);
    let ends =
        |line: &&str| line.starts_with("---- ") || matches!(*line, "successes:" | "failures:");
    block.take_while(|line| !ends(line)).collect::<Vec<_>>().join("\n")
}

/// The names in the output of `--list`.
pub fn parse_list(stdout: &str) -> Vec<String> {
    stdout.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "\nrunning 5 tests\ntest a::good ... ok\ntest a::bad ... FAILED\n\
        test b::later ... ignored, needs a disk\n\
test b::bare ... ignored\ntest c::elsewhere ... ok\ntest c::throws - should panic ... ok\n\n\
        successes:\n\n---- c::elsewhere stdout ----\nskipped: not root\n\n\
successes:\n    a::good\n\nfailures:\n\n---- a::bad stdout ----\npanicked: left != right\n\n\
        failures:\n    a::bad\n\ntest result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured\n";

    #[test]
    fn each_case_counts_once() {
        let result = parse_run(RUN, false);
        assert_eq!(result.passed, 2);
        let names = |cases: &[(String, String)]| {
            cases.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&result.failed), ["a::bad", "b::bare"]);
        assert_eq!(names(&result.skipped), ["b::later", "c::elsewhere"]);
    }

    #[test]
    fn a_failure_keeps_what_the_test_printed_and_a_skip_its_reason() {
        let result = parse_run(RUN, false);
        assert_eq!(result.failed[0].1.trim(), "panicked: left != right");
        assert_eq!(result.skipped[1].1, "not root");
    }

    #[test]
    fn a_binary_that_dies_is_a_failure_also_when_no_test_of_it_failed() {
        assert_eq!(parse_run("running 1 test\n", false).failed.len(), 1);
        assert_eq!(parse_run("test result: ok. 0 passed; 0 failed;\n", false).failed.len(), 1);
        assert_eq!(
            parse_run("test result: ok. 0 passed; 0 failed;\n", true),
            SuiteResult::default()
        );
    }

    #[test]
    fn a_test_that_ends_the_process_with_success_is_a_failure() {
        assert_eq!(parse_run("running 2 tests\ntest a ... ok\n", true).failed.len(), 1);
    }

    #[test]
    fn a_case_whose_line_was_spoilt_still_counts() {
        let run =
            "running 1 test\nnoise of a childtest a ... ok\ntest result: ok. 1 passed; 0 failed;\n";
        assert_eq!(parse_run(run, true).passed, 1);
    }

    #[test]
    fn only_tests_are_listed() {
        assert_eq!(parse_list("a::b: test\nc: benchmark\n\n1 test, 1 benchmark\n"), ["a::b"]);
    }
}
