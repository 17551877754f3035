//! The printed report: one line for each check or suite, then a table, the failures with reasons,
//! and the closing line. The end of the output is enough to see what failed.

use std::time::Duration;

/// Limits of a failure's reason after the table; the whole reason was printed earlier.
const REASON_LINES_MAX: usize = 4;
const REASON_CHARS_MAX: usize = 500;
/// Number of failures with their reasons there; the others have only names.
const REASONS_MAX: usize = 8;
/// Where a panic's message begins; a test may have printed much before.
const PANIC: &str = "panicked at";

/// The result of a suite. A case counts once: passed, failed or skipped.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct SuiteResult {
    /// Cases that passed.
    pub passed: u64,
    /// Cases that failed: name and what was seen.
    pub failed: Vec<(String, String)>,
    /// Cases that could not run: name and reason.
    pub skipped: Vec<(String, String)>,
}

impl SuiteResult {
    /// A suite of one case that could not run.
    pub fn skip(name: &str, reason: impl Into<String>) -> Self {
        Self { skipped: vec![(name.to_owned(), reason.into())], ..Self::default() }
    }

    /// A suite of one case that failed.
    pub fn fail(name: &str, why: impl Into<String>) -> Self {
        Self { failed: vec![(name.to_owned(), why.into())], ..Self::default() }
    }

    /// One word for a suite of one case.
    pub fn status(&self) -> &'static str {
        match (self.failed.is_empty(), self.passed) {
            (false, _) => "not ok",
            (true, 0) => "skipped",
            (true, _) => "ok",
        }
    }

    /// Adds another result's cases.
    pub fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }

    /// A suite in which nothing ran and nothing was skipped has lost its test subject.
    pub fn is_empty(&self) -> bool {
        self.passed == 0 && self.failed.is_empty() && self.skipped.is_empty()
    }
}

/// All suites of one run.
#[derive(Default)]
pub struct Totals {
    rows: Vec<Row>,
}

struct Row {
    name: String,
    took: Duration,
    result: SuiteResult,
}

impl Totals {
    /// Adds one suite and prints its skips and failures immediately.
    pub fn add(&mut self, name: &str, took: Duration, result: SuiteResult) {
        for (case, why) in &result.skipped {
            println!("     skipped {name}::{case}: {why}");
        }
        for (case, why) in &result.failed {
            println!("     FAILED {name}::{case}\n{}", indent(why));
        }
        self.rows.push(Row { name: name.to_owned(), took, result });
    }

    /// Prints the table and the closing line; true when nothing failed and something ran.
    pub fn print_and_judge(self) -> bool {
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        println!(
            "\n{:<14} {:>8} {:>8} {:>8} {:>9}",
            "suite", "passed", "failed", "skipped", "time"
        );
        for Row { name, took, result } in &self.rows {
            let (bad, not_run) = (result.failed.len() as u64, result.skipped.len() as u64);
            println!(
                "{name:<14} {:>8} {bad:>8} {not_run:>8} {:>7.1} s",
                result.passed,
                took.as_secs_f64()
            );
            (passed, failed, skipped) = (passed + result.passed, failed + bad, skipped + not_run);
        }
        self.failures().for_each(|line| println!("{line}"));
        println!("\n{}", closing_line(passed, failed, skipped));
        failed == 0 && passed > 0
    }
}

impl Totals {
    /// `FAILED suite::case: reason` for each failure.
    fn failures(&self) -> impl Iterator<Item = String> {
        let cases =
            self.rows.iter().flat_map(|row| row.result.failed.iter().map(|case| (&row.name, case)));
        cases.enumerate().map(|(at, (suite, (case, why)))| match first_lines(why) {
            why if at < REASONS_MAX && !why.is_empty() => format!("FAILED {suite}::{case}: {why}"),
            _ => format!("FAILED {suite}::{case}"),
        })
    }
}

/// The beginning of a reason.
fn first_lines(why: &str) -> String {
    let lines: Vec<&str> = why.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.iter().position(|line| line.contains(PANIC)).unwrap_or(0);
    let shown =
        lines[from..].iter().take(REASON_LINES_MAX).copied().collect::<Vec<_>>().join("\n  ");
    let short: String = shown.chars().take(REASON_CHARS_MAX).collect();
    if short.len() < shown.len() { format!("{short}…") } else { short }
}

/// The closing line, which programs that read the log look for.
pub fn closing_line(passed: u64, failed: u64, skipped: u64) -> String {
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

/// Parses the last closing line of a tool's output: `N passed, N failed`, and optionally `, N
/// skipped`.
pub fn parse_closing_line(output: &str) -> Option<(u64, u64, u64)> {
    output.lines().rev().find_map(parse_closing)
}

fn parse_closing(line: &str) -> Option<(u64, u64, u64)> {
    let mut parts = line.trim().split(", ");
    let mut next = |word: &str| parts.next()?.strip_suffix(word)?.trim_end().parse().ok();
    let (passed, failed) = (next("passed")?, next("failed")?);
    Some((passed, failed, next("skipped").unwrap_or(0)))
}

/// Indents output below a headline.
pub fn indent(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("     | {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closing_line_is_read_back_as_it_was_written() {
        let output = format!("noise 7 passed, 1 failed\n{}\ntrailing\n", closing_line(3, 2, 1));
        assert_eq!(parse_closing_line(&output), Some((3, 2, 1)));
        assert_eq!(parse_closing_line("4 passed, 0 failed"), Some((4, 0, 0)));
    }

    #[test]
    fn what_is_not_a_closing_line_is_not_read_as_one() {
        assert_eq!(parse_closing_line("4 passed"), None);
        assert_eq!(parse_closing_line("all passed, none failed"), None);
        assert_eq!(parse_closing_line(""), None);
    }

    #[test]
    fn a_run_in_which_nothing_passed_is_not_a_success() {
        assert!(!Totals::default().print_and_judge());
        let mut totals = Totals::default();
        totals.add("one", Duration::ZERO, SuiteResult { passed: 1, ..SuiteResult::default() });
        assert!(totals.print_and_judge());
    }

    #[test]
    fn one_failure_fails_the_run() {
        let mut totals = Totals::default();
        totals.add("good", Duration::ZERO, SuiteResult { passed: 9, ..SuiteResult::default() });
        totals.add("bad", Duration::ZERO, SuiteResult::fail("case", "why"));
        assert!(!totals.print_and_judge());
    }

    #[test]
    fn after_the_table_each_failure_stands_with_the_beginning_of_its_reason() {
        let mut totals = Totals::default();
        totals.add("mount", Duration::ZERO, SuiteResult::fail("locks::a", "EIO\n1\n2\n3\n4"));
        totals.add(
            "unit",
            Duration::ZERO,
            SuiteResult::fail("b", "noise\nthread 'b' panicked at c.rs:1:\nleft"),
        );
        totals.add("sim", Duration::ZERO, SuiteResult::fail("c", "x".repeat(10_000)));
        totals.add("doc", Duration::ZERO, SuiteResult::fail("d", ""));
        let said: Vec<String> = totals.failures().collect();
        assert_eq!(said[0], "FAILED mount::locks::a: EIO\n  1\n  2\n  3");
        assert_eq!(said[1], "FAILED unit::b: thread 'b' panicked at c.rs:1:\n  left");
        assert_eq!(said[2].chars().count(), "FAILED sim::c: ".len() + REASON_CHARS_MAX + 1);
        assert_eq!(said[3], "FAILED doc::d");
    }

    #[test]
    fn of_very_many_failures_all_names_are_said() {
        let mut totals = Totals::default();
        let failed = (0..100).map(|at| (format!("case {at}"), "why".to_owned())).collect();
        totals.add("sim", Duration::ZERO, SuiteResult { failed, ..SuiteResult::default() });
        let said: Vec<String> = totals.failures().collect();
        assert_eq!((said.len(), said[99].as_str()), (100, "FAILED sim::case 99"));
    }
}
