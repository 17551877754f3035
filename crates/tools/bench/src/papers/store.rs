//! Results stored in a file: each row once, with the machine that it was measured on.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value as Json, json};

use crate::{measure::Measure, report};

/// Stores a row in the file, in place of an older one of that name. Results of `--quick` are not
/// stored.
pub fn store_row(
    file: &Path,
    row: &str,
    machine: &str,
    quick: bool,
    measures: &[Measure],
) -> Result<()> {
    put(file, row, serde_json::from_str(&report::json::render(machine, &[], measures))?, quick)
}

/// The same for any report.
pub fn put(file: &Path, row: &str, report: Json, quick: bool) -> Result<()> {
    if quick {
        bail!("results of --quick are not stored; try: without --json or without --quick");
    }
    let mut rows = read(file)?;
    rows.insert(row.to_owned(), report);
    fs::write(file, format!("{:#}\n", json!(rows)))
        .with_context(|| format!("writing {}", file.display()))
}

/// All rows of a file; none if it does not exist.
pub fn read(file: &Path) -> Result<Map<String, Json>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        text => text.with_context(|| format!("reading {}", file.display()))?,
    };
    serde_json::from_str(&text)
        .with_context(|| format!("{} is no result file of --json", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_testbed::stats::Summary;

    #[test]
    fn a_row_takes_the_place_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kept.json");
        let measure = |value| [Measure::new("a.b", "MB/s", Summary::once(value))];
        store_row(&file, "a", "a machine", false, &measure(1.0)).unwrap();
        store_row(&file, "b", "a machine", false, &measure(2.0)).unwrap();
        store_row(&file, "a", "another", false, &measure(3.0)).unwrap();
        let rows = read(&file).unwrap();
        assert_eq!((rows.len(), &rows["a"]["measures"][0]["value"]), (2, &json!(3.0)));
        assert_eq!(rows["a"]["machine"], "another");
        assert!(store_row(&file, "a", "", true, &[]).is_err());
    }
}
