//! What is printed: one line a check or suite, then a table, then the closing line.

use std::time::Duration;

/// What a suite found. A case counts once: passed, failed or skipped.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct SuiteResult {
    /// Cases that ran and held.
    pub passed: u64,
    /// Cases that did not hold: name and what was seen.
    pub failed: Vec<(String, String)>,
    /// Cases that could not run: name and reason.
    pub skipped: Vec<(String, String)>,
}

impl SuiteResult {
    /// A suite of one case that could not run.
    pub fn skip(name: &str, reason: impl Into<String>) -> Self {
        Self { skipped: vec![(name.to_owned(), reason.into())], ..Self::default() }
    }

    /// A suite of one case that did not hold.
    pub fn fail(name: &str, why: impl Into<String>) -> Self {
        Self { failed: vec![(name.to_owned(), why.into())], ..Self::default() }
    }

    /// Takes in another result's cases.
    pub fn absorb(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }

    /// A suite in which nothing ran and nothing was skipped has lost its subject.
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
    /// Notes one suite and prints its skips and failures at once, for who is watching.
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
    pub fn close(self) -> bool {
        let (mut passed, mut failed, mut skipped) = (0, 0, 0);
        println!("\n{:<14} {:>8} {:>8} {:>8} {:>9}", "suite", "passed", "failed", "skipped", "time");
        for Row { name, took, result } in &self.rows {
            let (bad, not_run) = (result.failed.len() as u64, result.skipped.len() as u64);
            println!("{name:<14} {:>8} {bad:>8} {not_run:>8} {:>7.1} s", result.passed, took.as_secs_f64());
            (passed, failed, skipped) = (passed + result.passed, failed + bad, skipped + not_run);
        }
        self.rows.iter().for_each(Row::print_failed);
        println!("\n{}", closing_line(passed, failed, skipped));
        failed == 0 && passed > 0
    }
}

impl Row {
    fn print_failed(&self) {
        for (case, _) in &self.result.failed {
            println!("FAILED {}::{case}", self.name);
        }
    }
}

/// The line that whoever reads the log by machine looks for.
pub fn closing_line(passed: u64, failed: u64, skipped: u64) -> String {
    format!("{passed} passed, {failed} failed, {skipped} skipped")
}

/// Reads the last closing line in a tool's output: `N passed, N failed` with `, N skipped` or not.
pub fn parse_closing_line(output: &str) -> Option<(u64, u64, u64)> {
    output.lines().rev().find_map(parse_closing)
}

fn parse_closing(line: &str) -> Option<(u64, u64, u64)> {
    let mut parts = line.trim().split(", ");
    let mut next = |word: &str| parts.next()?.strip_suffix(word)?.trim_end().parse().ok();
    let (passed, failed) = (next("passed")?, next("failed")?);
    Some((passed, failed, next("skipped").unwrap_or(0)))
}

/// Output under a headline, kept apart from it.
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
        assert!(!Totals::default().close());
        let mut totals = Totals::default();
        totals.add("one", Duration::ZERO, SuiteResult { passed: 1, ..SuiteResult::default() });
        assert!(totals.close());
    }

    #[test]
    fn one_failure_fails_the_run() {
        let mut totals = Totals::default();
        totals.add("good", Duration::ZERO, SuiteResult { passed: 9, ..SuiteResult::default() });
        totals.add("bad", Duration::ZERO, SuiteResult::fail("case", "why"));
        assert!(!totals.close());
    }
}
