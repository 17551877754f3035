//! `cmd: cargo xtask bench NAME ROWS…` as evidence: the results stored in `docs/NAME.json` have
//! these rows, which reach their targets.
//!
//! A row that misses a target, or has no stored result, belongs to an open requirement. `--no-tls`
//! leaves out the measures over TLS.

use crate::context::Context;
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The file: rows by name.
type StoredResults = BTreeMap<String, Row>;

#[derive(Deserialize)]
struct Row {
    /// Curves (`growth`) have no measures.
    #[serde(default)]
    measures: Vec<Measure>,
}

#[derive(Deserialize)]
struct Measure {
    name: String,
    /// `None` for a measure without a target.
    holds: Option<bool>,
}

/// What is wrong with this evidence; `words` follow `cargo xtask bench`.
pub fn problem(context: &Context, words: &[&str]) -> Option<String> {
    let Some((name, words)) = words.split_first() else {
        return Some("`bench` without a name".to_owned());
    };
    match load(context, name) {
        Ok(kept) => problem_in(&kept, name, words),
        Err(error) => Some(format!("bench {name}: {error:#}")),
    }
}

fn load(context: &Context, name: &str) -> Result<StoredResults> {
    let file = format!("docs/{name}.json");
    let text = std::fs::read_to_string(context.root.join(&file))
        .with_context(|| format!("no results stored in {file}"))?;
    serde_json::from_str(&text).context(file)
}

fn problem_in(kept: &StoredResults, name: &str, words: &[&str]) -> Option<String> {
    let (flags, rows): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| word.starts_with("--"));
    let file = format!("docs/{name}.json");
    if let Some(missing) = rows.iter().find(|row| !kept.contains_key(**row)) {
        return Some(format!("{file} has no row `{missing}`"));
    }
    let asked = kept.iter().filter(|(row, _)| rows.is_empty() || rows.contains(&row.as_str()));
    let mut measures = asked.flat_map(|(_, row)| &row.measures);
    let left_out = |name: &str| flags.contains(&"--no-tls") && name.ends_with(".tls");
    let missed =
        measures.find(|measure| measure.holds == Some(false) && !left_out(&measure.name))?;
    Some(format!("in {file} `{}` misses its target", missed.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: &str = r#"{
        "read": {"measures": [
            {"name": "read.cpu", "holds": true}, {"name": "read.cpu.tls", "holds": false}]},
        "stat": {"measures": [
            {"name": "stat.p50", "holds": true}, {"name": "stat.p99", "holds": null}], "notes": []},
        "directory": {"series": []}
    }"#;

    fn found(words: &[&str]) -> Option<String> {
        problem_in(&serde_json::from_str(KEPT).unwrap(), "core", words)
    }

    #[test]
    fn rows_that_were_kept_and_hold_show_what_they_measure() {
        assert_eq!(found(&["stat", "directory", "--check"]), None);
        assert_eq!(found(&["read", "--no-tls", "--check"]), None);
    }

    #[test]
    fn a_row_that_nobody_kept_is_named() {
        assert_eq!(
            found(&["stat", "no_such_row", "--check"]).unwrap(),
            "docs/core.json has no row `no_such_row`"
        );
    }

    #[test]
    fn a_bar_that_does_not_hold_is_named_also_when_all_rows_are_meant() {
        let missed = "in docs/core.json `read.cpu.tls` misses its target";
        assert_eq!(found(&["stat", "read"]).unwrap(), missed);
        assert_eq!(found(&["--check"]).unwrap(), missed);
    }
}
