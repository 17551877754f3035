//! New names.

use std::{fs, fs::OpenOptions};

use anyhow::Result;
use braid_testbed::shell::sh;

use super::{Sample, subject::Subject};
use crate::bench::Bench;

const FILES: u64 = 5_000;

/// Empty files are created and closed in a directory that is on all branches, and removed.
pub fn create(bench: &Bench, subject: &Subject) -> Result<Vec<Sample>> {
    let dir = subject.dir().join("new");
    fs::create_dir(&dir)?;
    let path = |number: u64| dir.join(format!("file{number:06}"));
    let make = |number| OpenOptions::new().write(true).create_new(true).open(path(number));
    // The first files create the directory on each branch.
    (0..200).try_for_each(|number| make(FILES + number).map(drop))?;
    sh("sync", &[])?;
    let created = bench.take(|| Ok((0..FILES).try_for_each(|number| make(number).map(drop))?))?;
    let removed =
        bench.take(|| Ok((0..FILES).try_for_each(|number| fs::remove_file(path(number)))?))?;
    fs::remove_dir_all(&dir)?;
    let rate = |what, value| Sample { what, unit: "per s", value };
    Ok(vec![rate("create", created.per_second(FILES)), rate("unlink", removed.per_second(FILES))])
}
