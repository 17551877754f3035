//! `docs/requirements.toml`: every requirement of an issue, and the evidence that it is met.
//!
//! ```toml
//! [[requirement]]
//! issue = 2
//! id = "layout-identity"
//! text = "file -> object -> file is the identity"
//! shown_by = ["braid-layout::stripe::tests::identity", "cmd: cargo xtask sim 42"]
//! ```
//!
//! 1. An entry has `shown_by` or `open` (why it is not met yet), never both.
//! 2. A test named there exists and is not ignored. A test that skips itself must print a reason;
//!    the suite that runs it checks that.
//! 3. `cmd: cargo xtask …` names a command, a suite or a check that exists; `doc: FILE` or `doc:
//!    FILE#words of a heading` a document that has it.
//! 4. `cmd: cargo xtask bench NAME ROWS…`: `docs/NAME.json` has these rows, and they reach all
//!    their targets.

mod stored_results;

use crate::checks;
use crate::commands::COMMANDS;
use crate::context::Context;
use crate::suites;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

const FILE: &str = "docs/requirements.toml";

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    requirement: Vec<Requirement>,
}

/// One requirement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    issue: u32,
    /// Stable and unique.
    pub id: String,
    /// The requirement's text.
    pub text: String,
    #[serde(default)]
    shown_by: Vec<String>,
    open: Option<String>,
}

/// The existing tests: those that can run, and the ignored ones.
#[derive(Default)]
struct Tests {
    runnable: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

impl Requirements {
    /// Reads the file.
    pub fn load(context: &Context) -> Result<Self> {
        let text = std::fs::read_to_string(context.root.join(FILE)).context(FILE)?;
        toml::from_str(&text).context(FILE)
    }

    /// Requirements without evidence yet.
    pub fn open(&self) -> impl Iterator<Item = &Requirement> {
        self.requirement.iter().filter(|requirement| requirement.open.is_some())
    }

    /// (issue, shown, open) for each issue.
    pub fn counts(&self) -> Vec<(u32, usize, usize)> {
        let mut counts = BTreeMap::<u32, (usize, usize)>::new();
        for requirement in &self.requirement {
            let (shown, open) = counts.entry(requirement.issue).or_default();
            *if requirement.open.is_some() { open } else { shown } += 1;
        }
        counts.into_iter().map(|(issue, (shown, open))| (issue, shown, open)).collect()
    }
}

/// The errors in the file, one a line.
pub fn check(context: &Context) -> Result<Vec<String>> {
    let requirements = Requirements::load(context)?;
    let tests = if requirements.names_tests() { Tests::list(context)? } else { Tests::default() };
    let exists = |evidence: &str| problem_with(context, &tests, evidence);
    Ok(requirements.problems(&exists))
}

impl Requirements {
    fn names_tests(&self) -> bool {
        self.requirement
            .iter()
            .flat_map(|requirement| &requirement.shown_by)
            .any(|evidence| !evidence.contains(": "))
    }

    fn problems(&self, problem_with: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let twice = self.requirement.iter().filter(|requirement| !seen.insert(&requirement.id));
        let twice = twice.map(|requirement| format!("{}: this id is used twice", requirement.id));
        twice
            .chain(
                self.requirement.iter().flat_map(|requirement| requirement.problems(problem_with)),
            )
            .collect()
    }
}

impl Requirement {
    fn problems(&self, problem_with: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let shape = match (&self.open, self.shown_by.is_empty()) {
            (Some(_), false) => Some("has both `open` and `shown_by`"),
            (None, true) => Some("has neither `open` nor `shown_by`"),
            (Some(why), true) if why.trim().is_empty() => Some("is open without a reason"),
            _ => None,
        };
        let evidence = self.shown_by.iter().filter_map(|evidence| problem_with(evidence));
        let problems = shape.map(str::to_owned).into_iter().chain(evidence);
        problems.map(|problem| format!("{}: {problem}", self.id)).collect()
    }
}

fn problem_with(context: &Context, tests: &Tests, evidence: &str) -> Option<String> {
    match evidence.split_once(": ") {
        Some(("cmd", command)) => command_problem(context, command),
        Some(("doc", place)) => document_problem(context, place),
        _ => tests.problem_with(evidence),
    }
}

fn command_problem(context: &Context, command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let known = match words.as_slice() {
        ["cargo", "xtask", "test", "--only", suite, ..] => {
            return suites::by_name(suite)
                .and_then(|suite| suite.check_available(context))
                .err()
                .map(|error| error.to_string());
        }
        ["cargo", "xtask", "bench", words @ ..] => return stored_results::problem(context, words),
        ["cargo", "xtask", "ci", check] => checks::exists(check),
        ["cargo", "xtask", name, ..] => COMMANDS.iter().any(|command| command.name == *name),
        _ => false,
    };
    (!known).then(|| format!("`{command}` is not a command of cargo xtask"))
}

fn document_problem(context: &Context, place: &str) -> Option<String> {
    let (file, heading) =
        place.split_once('#').map_or((place, None), |(file, heading)| (file, Some(heading)));
    let Ok(text) = std::fs::read_to_string(context.root.join(file)) else {
        return Some(format!("no document `{file}`"));
    };
    let has = |heading: &str| {
        text.lines()
            .any(|line| line.trim_start_matches('#').trim() == heading && line.starts_with('#'))
    };
    heading
        .filter(|heading| !has(heading))
        .map(|heading| format!("`{file}` has no heading `{heading}`"))
}

impl Tests {
    fn list(context: &Context) -> Result<Self> {
        let mut tests = Self::default();
        for binary in context.test_binaries()? {
            let names = |ignored| {
                Ok::<_, anyhow::Error>(
                    binary.list(ignored)?.into_iter().map(|name| binary.full_name(&name)),
                )
            };
            tests.ignored.extend(names(true)?);
            tests.runnable.extend(names(false)?);
        }
        Ok(tests)
    }

    fn problem_with(&self, name: &str) -> Option<String> {
        match (self.runnable.contains(name), self.ignored.contains(name)) {
            (_, true) => Some(format!("test `{name}` is ignored")),
            (false, false) => Some(format!("no test `{name}`")),
            (true, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_rows_and_documents_that_the_project_names_are_there() {
        let context = Context::new(false).unwrap();
        // Tests and suites must be built first; the check builds them.
        let kept_or_written = |evidence: &str| {
            let asked =
                evidence.starts_with("cmd: cargo xtask bench ") || evidence.starts_with("doc: ");
            asked.then(|| problem_with(&context, &Tests::default(), evidence)).flatten()
        };
        assert_eq!(Requirements::load(&context).unwrap().problems(&kept_or_written), [""; 0]);
    }

    fn problems(file: &str) -> Vec<String> {
        let known = |name: &str| {
            Tests {
                runnable: ["c::t::runs".to_owned(), "c::t::sleeps".to_owned()].into(),
                ignored: ["c::t::sleeps".to_owned()].into(),
            }
            .problem_with(name)
        };
        toml::from_str::<Requirements>(file).unwrap().problems(&known)
    }

    fn entry(id: &str, rest: &str) -> String {
        format!("[[requirement]]\nissue = 2\nid = \"{id}\"\ntext = \"t\"\n{rest}\n")
    }

    #[test]
    fn an_open_entry_with_a_reason_and_one_shown_by_a_test_are_fine() {
        let file = entry("a", "open = \"later\"") + &entry("b", "shown_by = [\"c::t::runs\"]");
        assert_eq!(problems(&file), [""; 0]);
        assert_eq!(toml::from_str::<Requirements>(&file).unwrap().counts(), [(2, 1, 1)]);
    }

    #[test]
    fn a_test_that_is_missing_or_ignored_is_named() {
        let file = entry("a", "shown_by = [\"c::t::gone\", \"c::t::sleeps\"]");
        assert_eq!(
            problems(&file),
            ["a: no test `c::t::gone`", "a: test `c::t::sleeps` is ignored"]
        );
    }

    #[test]
    fn an_entry_says_open_or_shown_and_an_id_is_used_once() {
        let file = entry("a", "")
            + &entry("a", "open = \"\"")
            + &entry("b", "open = \"x\"\nshown_by = [\"c::t::runs\"]");
        let found = problems(&file);
        assert_eq!(found[0], "a: this id is used twice");
        assert_eq!(found[1..].len(), 3);
    }

    #[test]
    fn a_misspelt_key_is_refused() {
        assert!(toml::from_str::<Requirements>(&entry("a", "shown = [\"c::t::runs\"]")).is_err());
    }
}
