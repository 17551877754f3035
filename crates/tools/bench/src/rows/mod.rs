//! The rows, by name.

mod create_million;
mod create_parallel;
pub mod latency;
mod memory;
mod metadata;
mod random_read;
mod reference;
mod restart;
mod sequential;
mod strided;
pub mod target;

use anyhow::{Result, bail};

use crate::{bench::Bench, measure::Measure};

/// Something that can be measured by name.
pub struct Row {
    /// Its name on the command line; its measures begin with it.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// Measures it.
    pub run: fn(&Bench) -> Result<Vec<Measure>>,
}

/// In the order of a whole run. Memory is late, since the daemons have then done all other rows.
/// The row that creates a million files follows.
pub const ROWS: &[Row] = &[
    Row {
        name: "reference",
        about: "this machine: raw stream, local file, round trip",
        run: reference::run,
    },
    Row { name: "read", about: "sequential read, 1 MiB calls", run: sequential::read },
    Row {
        name: "rewrite",
        about: "sequential rewrite and new file, 1 MiB calls",
        run: sequential::rewrite,
    },
    Row { name: "random_read", about: "4 KiB random read, one at a time", run: random_read::run },
    Row { name: "stat", about: "stat by path, one at a time, new names", run: metadata::stat },
    Row { name: "create", about: "create by path, one at a time", run: metadata::create },
    Row {
        name: "create_parallel",
        about: "create with 16 threads, and with 16 processes; kill -9; count",
        run: create_parallel::run,
    },
    Row {
        name: "create_million",
        about: "create in a directory of a million entries",
        run: create_million::run,
    },
    Row {
        name: "strided",
        about: "4 KiB of every 64 KiB, in one call and in one for each group",
        run: strided::run,
    },
    Row { name: "memory", about: "resident memory of the daemons", run: memory::run },
    Row {
        name: "restart",
        about: "kill -9 of the metadata server: until 2,000 clients have 1,000,000 opens back",
        run: restart::run,
    },
];

/// The rows with these names; all rows without names.
pub fn chosen(rows: &'static [Row], names: &[String]) -> Result<Vec<&'static Row>> {
    if names.is_empty() {
        return Ok(rows.iter().collect());
    }
    if let Some(unknown) =
        names.iter().find(|name| rows.iter().all(|row| row.name != name.as_str()))
    {
        let known: Vec<&str> = rows.iter().map(|row| row.name).collect();
        bail!("there is no row {unknown}; try: {}", known.join(", "));
    }
    Ok(rows.iter().filter(|row| names.iter().any(|name| name == row.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_chosen_by_name_and_measured_in_their_own_order() {
        let names = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            chosen(ROWS, &wanted).map(|rows| rows.iter().map(|row| row.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["stat", "read"]).unwrap(), ["read", "stat"]);
        assert_eq!(names(&[]).unwrap().len(), ROWS.len());
        assert!(
            names(&["raed"])
                .unwrap_err()
                .to_string()
                .contains("there is no row raed; try: reference, read")
        );
    }
}
