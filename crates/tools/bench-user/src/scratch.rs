//! The scratch directory of a run, removed however the run ends.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use braid_client::Status;

use crate::{
    error::{BenchError, Result},
    pace::Paced,
};

const PREFIX: &str = ".braid-bench-";

/// The directory. Drop removes it with its contents.
pub(crate) struct Scratch<'c> {
    client: &'c Paced<'c>,
    path: String,
    removed: bool,
}

impl<'c> Scratch<'c> {
    /// Creates it in the directory `at`.
    pub(crate) fn new(client: &'c Paced<'c>, at: &str) -> Result<Self> {
        let at = at.trim_end_matches('/');
        let mut number = u64::from(std::process::id()) ^ nanoseconds();
        loop {
            let path = format!("{at}/{PREFIX}{:08x}", number & 0xffff_ffff);
            match client.mkdir(&path) {
                Ok(()) => return Ok(Self { client, path, removed: false }),
                Err(BenchError::Call(error)) if error.status() == Status::Exists => {
                    number = number.wrapping_add(1)
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A path in it.
    pub(crate) fn path(&self, name: impl fmt::Display) -> String {
        format!("{}/{name}", self.path)
    }

    /// Creates a directory in it, unless an earlier round did; returns its path.
    pub(crate) fn subdirectory(&self, name: impl fmt::Display) -> Result<String> {
        let path = self.path(name);
        match self.client.mkdir(&path) {
            Err(BenchError::Call(error)) if error.status() == Status::Exists => Ok(path),
            made => made.map(|()| path),
        }
    }

    /// The directory itself.
    pub(crate) fn directory(&self) -> &str {
        &self.path
    }

    /// Removes it.
    pub(crate) fn remove(mut self) -> Result<()> {
        self.removed = true;
        remove_tree(self.client, &self.path)
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if !self.removed && remove_tree(self.client, &self.path).is_err() {
            eprintln!("removing {} failed; try: braid rm -r {}", self.path, self.path);
        }
    }
}

/// Removes a directory with its contents. It is no error when others removed some of it meanwhile.
fn remove_tree(client: &Paced<'_>, path: &str) -> Result<()> {
    for (name, is_directory) in client.list(path)? {
        let below = format!("{path}/{name}");
        if is_directory {
            remove_tree(client, &below)?;
        } else {
            unless_gone(client.unlink(&below))?;
        }
    }
    unless_gone(client.rmdir(path))
}

fn unless_gone(outcome: Result<()>) -> Result<()> {
    match outcome {
        Err(BenchError::Call(error)) if error.status() == Status::NotFound => Ok(()),
        other => other,
    }
}

/// Directories of runs that did not remove them, or that still run: their paths.
///
/// # Errors
/// The directory cannot be listed.
pub(crate) fn stale_directories(client: &Paced<'_>, at: &str) -> Result<Vec<String>> {
    let at = at.trim_end_matches('/');
    let listed = if at.is_empty() { "/" } else { at };
    let mut found = Vec::new();
    for (name, is_directory) in client.list(listed)? {
        if is_directory && name.starts_with(PREFIX) {
            found.push(format!("{at}/{name}"));
        }
    }
    Ok(found)
}

fn nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
