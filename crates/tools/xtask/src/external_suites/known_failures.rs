//! Lists of cases that may fail, each with its reason: `CASE: REASON`, one a line; comments begin
//! with `#`.
//!
//! 1. A listed case that does not pass counts as skipped, with its reason.
//! 2. A listed case that passes counts as failed: the list must be corrected.
//! 3. A case that is not listed must pass.

use crate::report::SuiteResult;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeMap;

/// The list of one suite.
pub struct KnownFailures(BTreeMap<String, String>);

impl KnownFailures {
    /// Parses the text of a list. A line without a reason and a case listed twice are errors.
    pub fn parse(text: &str) -> Result<Self> {
        let mut cases = BTreeMap::new();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (case, reason) =
                line.split_once(": ").with_context(|| format!("no reason: {line}"))?;
            let before = cases.insert(case.to_owned(), reason.trim().to_owned());
            ensure!(before.is_none(), "listed twice: {case}");
        }
        Ok(Self(cases))
    }

    /// The result of a case. `failure` is what the suite printed for a case that did not pass.
    pub fn judge(&self, case: &str, failure: Option<&str>) -> SuiteResult {
        match (failure, self.0.get(case)) {
            (None, None) => SuiteResult { passed: 1, ..SuiteResult::default() },
            (None, Some(_)) => SuiteResult::fail(case, "it passes, but is listed as a failure"),
            (Some(_), Some(reason)) => SuiteResult::skip(case, reason.as_str()),
            (Some(why), None) => SuiteResult::fail(case, why),
        }
    }

    /// Listed cases that the suite does not have; their lines are out of date.
    pub fn unknown(&self, has: impl Fn(&str) -> bool) -> Vec<&str> {
        self.0.keys().map(String::as_str).filter(|case| !has(case)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> KnownFailures {
        KnownFailures::parse("# comment\n\nEID9: no reason is long\nDELEG3: see a::b: c\n").unwrap()
    }

    #[test]
    fn only_a_listed_case_may_fail_and_it_must() {
        let list = list();
        assert_eq!(list.judge("SEQ1", None).passed, 1);
        assert_eq!(list.judge("SEQ1", Some("why")).failed.len(), 1);
        assert_eq!(list.judge("EID9", None).failed.len(), 1);
        assert_eq!(list.judge("DELEG3", Some("why")).skipped[0].1, "see a::b: c");
    }

    #[test]
    fn a_line_without_a_reason_or_a_case_listed_twice_is_an_error() {
        assert!(KnownFailures::parse("EID9\n").is_err());
        assert!(KnownFailures::parse("EID9: a\nEID9: b\n").is_err());
    }

    #[test]
    fn listed_cases_that_no_longer_exist_are_found() {
        assert_eq!(list().unknown(|case| case == "EID9"), ["DELEG3"]);
    }
}
