//! Lines over 100 columns, counted in characters.
//!
//! Exempt are rows of Markdown tables, fenced blocks of Markdown pages, generated files, results,
//! golden data, and lines with a piece that no line break can shorten (a link, a long literal).

use super::Finding;

const COLUMNS: usize = 100;

/// Generated or recorded files.
const EXEMPT: [&str; 3] = ["docs/results/", "crates/core/wire/tests/golden", "/golden/"];

/// Marks near the beginning of a generated file.
const GENERATED: [&str; 2] = ["Do not edit", "Made from the code by"];

/// Lines of a file that may hold such a mark.
const HEAD_LINES: usize = 5;

pub fn findings(path: &str, text: &str) -> Vec<Finding> {
    if EXEMPT.iter().any(|part| path.contains(part)) || is_generated(path, text) {
        return Vec::new();
    }
    let (is_page, mut fenced) = (path.ends_with(".md"), false);
    let mut findings = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let is_fence = is_page && line.trim_start().starts_with("```");
        fenced ^= is_fence;
        let exempt = fenced || (is_page && line.trim_start().starts_with('|'));
        let columns = line.chars().count();
        if columns > COLUMNS && !exempt && !is_unbreakable(line) {
            findings.push(Finding {
                place: path.to_owned(),
                line: at + 1,
                problem: format!("{columns} columns: end the line at column {COLUMNS}"),
            });
        }
    }
    findings
}

/// Only pages: in code the marks may be quoted.
fn is_generated(path: &str, text: &str) -> bool {
    let mut head = text.lines().take(HEAD_LINES);
    path.ends_with(".md") && head.any(|line| GENERATED.iter().any(|mark| line.contains(mark)))
}

/// Whether one piece of the line is too long for a line of its own with the same indentation.
fn is_unbreakable(line: &str) -> bool {
    let indentation = line.chars().take_while(|c| c.is_whitespace()).count();
    // The definition of a Markdown link cannot be broken after its name.
    let is_definition = line.starts_with('[') && line.contains("]: ");
    let longest = line.split_whitespace().map(|piece| piece.chars().count()).max().unwrap_or(0);
    is_definition || indentation + longest > COLUMNS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        findings(path, text).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_line_may_have_a_hundred_characters_and_no_more() {
        let text = format!("{}\n{} \u{e4}\n", "\u{e4} ".repeat(50), "x ".repeat(50));
        assert_eq!(lines("a.rs", &text), [2]);
        assert_eq!(
            findings("a.rs", &text)[0].to_string(),
            "a.rs:2: 102 columns: end the line at column 100"
        );
    }

    #[test]
    fn tables_and_fences_of_pages_are_exempt_and_those_of_code_are_not() {
        let long = "x ".repeat(60);
        let text = format!("| {long}\n```\n{long}\n```\n{long}\n");
        assert_eq!(lines("docs/a.md", &text), [5]);
        assert_eq!(lines("a.py", &text), [1, 3, 5]);
    }

    #[test]
    fn a_link_that_fits_on_no_line_is_exempt() {
        let link = format!("see [a page](https://example.org/{})", "x".repeat(90));
        assert_eq!(lines("docs/a.md", &link), [0; 0]);
        assert_eq!(lines("docs/a.md", &format!("{}https://example.org", "x ".repeat(50))), [1]);
    }

    #[test]
    fn results_golden_data_and_generated_pages_are_exempt() {
        let long = "x ".repeat(60);
        assert_eq!(lines("docs/results/core.md", &long), [0; 0]);
        assert_eq!(lines("docs/a.md", &format!("# A\n\nMade from the code by x\n{long}")), [0; 0]);
        assert_eq!(lines("docs/a.md", &format!("# A\n\nMade by hand\n{long}")), [4]);
    }
}
