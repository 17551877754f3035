//! Whether the tree is written in plain English: `cargo xtask ci words`.
//!
//! ```text
//!   git ls-files ──┬── phrases   phrases of docs/words.toml in comments, strings and documents
//!                  ├── lines     lines over 100 columns
//!                  └── tests     names of test functions over 70 characters
//!   git log ────────── subjects  commit subjects over 72 characters
//! ```
//!
//! The check prints at most 50 findings and their total. `cargo xtask ci words --summary` prints
//! the number of findings in each directory as well.

mod lines;
mod phrases;
mod prose;
mod subjects;
mod test_names;

use crate::context::Context;
use anyhow::{Context as _, Result, ensure};
use braid_testbed::process::Process;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Findings that are printed; the total is always printed.
const SHOWN_MAX: usize = 50;

/// One place that breaks a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Finding {
    /// A path relative to the repository root, or `commit HASH`.
    place: String,
    /// Counted from 1; 0 for a commit.
    line: usize,
    /// The rule, and what to write instead.
    problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.place, self.problem),
            line => write!(f, "{}:{line}: {}", self.place, self.problem),
        }
    }
}

pub fn check(context: &Context) -> Result<()> {
    let mut findings = of_files(&context.root)?;
    match subjects::findings(&context.root)? {
        Ok(found) => findings.extend(found),
        Err(reason) => println!("     skipped words::subjects: {reason}"),
    }
    if context.summary {
        for (directory, count) in by_directory(&findings) {
            println!("{count:>7}  {directory}");
        }
    }
    ensure!(findings.is_empty(), "{}", report(&findings));
    Ok(())
}

fn of_files(root: &Path) -> Result<Vec<Finding>> {
    let phrases = phrases::Phrases::load(root)?;
    let listed = Process::new("git").dir(root).args(["ls-files", "-z"]).run();
    let listed = listed.context("list the files under version control; try: git status")?.stdout;
    let mut findings = Vec::new();
    for path in listed.split('\0').filter(|path| is_checked(path)) {
        // A file that git still lists may be deleted in the working tree.
        let Ok(text) = std::fs::read_to_string(root.join(path)) else { continue };
        findings.extend(phrases.findings(path, &text));
        findings.extend(lines::findings(path, &text));
        findings.extend(test_names::findings(path, &text));
    }
    Ok(findings)
}

fn is_checked(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("rs" | "md" | "py" | "c" | "h" | "toml"))
}

/// The first findings, one a line, and the total.
fn report(findings: &[Finding]) -> String {
    let shown = findings.iter().take(SHOWN_MAX).map(|finding| format!("{finding}\n"));
    let count = findings.len();
    let noun = if count == 1 { "finding" } else { "findings" };
    let all =
        if count > SHOWN_MAX { format!(", the first {SHOWN_MAX} above") } else { String::new() };
    format!("{}{count} {noun}{all}; try: cargo xtask ci words --summary", shown.collect::<String>())
}

/// How many findings each crate or top-level directory has.
fn by_directory(findings: &[Finding]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for finding in findings {
        *counts.entry(directory(&finding.place)).or_default() += 1;
    }
    counts
}

/// `crates/SHELF/CRATE`, else the first component of the path; `commits` for a commit.
fn directory(place: &str) -> String {
    if place.starts_with("commit ") {
        return "commits".to_owned();
    }
    let depth = if place.starts_with("crates/") { 3 } else { 1 };
    place.split('/').take(depth).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(place: &str, line: usize) -> Finding {
        Finding { place: place.to_owned(), line, problem: "bad".to_owned() }
    }

    #[test]
    fn a_finding_prints_its_file_and_line() {
        assert_eq!(finding("docs/a.md", 7).to_string(), "docs/a.md:7: bad");
        assert_eq!(finding("commit abc", 0).to_string(), "commit abc: bad");
    }

    #[test]
    fn the_report_shows_fifty_findings_and_the_total() {
        let all: Vec<Finding> = (1..=60).map(|line| finding("a.rs", line)).collect();
        let text = report(&all);
        assert!(text.contains("a.rs:50: bad") && !text.contains("a.rs:51"), "{text}");
        assert!(text.contains("60 findings, the first 50 above"), "{text}");
        assert!(report(&all[..1]).contains("1 finding;"));
    }

    #[test]
    fn the_summary_counts_by_crate_and_directory() {
        let all = [
            finding("crates/tools/sim/src/a.rs", 1),
            finding("crates/tools/sim/tests/b.rs", 2),
            finding("docs/a.md", 3),
            finding("README.md", 4),
            finding("commit abc", 0),
        ];
        let counts: Vec<(String, usize)> = by_directory(&all).into_iter().collect();
        let expected = [("README.md", 1), ("commits", 1), ("crates/tools/sim", 2), ("docs", 1)];
        assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn sources_and_documents_are_checked_and_other_files_are_not() {
        assert!(is_checked("crates/a.rs") && is_checked("docs/a.md") && is_checked("Cargo.toml"));
        assert!(!is_checked("docs/core.json") && !is_checked("Cargo.lock"));
    }
}
