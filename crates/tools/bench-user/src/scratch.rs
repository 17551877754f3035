//! The one directory that a run makes, and that is gone when it ends, however it ends.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use braid_client::{Client, FileKind, Status};

use crate::error::Result;

const PREFIX: &str = ".braid-bench-";

/// The directory. Dropped, it is removed with all that is in it.
pub(crate) struct Scratch<'c> {
    client: &'c Client,
    path: String,
    removed: bool,
}

impl<'c> Scratch<'c> {
    /// Makes it in the directory `at`.
    pub(crate) fn new(client: &'c Client, at: &str) -> Result<Self> {
        let at = at.trim_end_matches('/');
        let mut number = u64::from(std::process::id()) ^ nanoseconds();
        loop {
            let path = format!("{at}/{PREFIX}{:08x}", number & 0xffff_ffff);
            match client.mkdir(path.as_str(), 0o700) {
                Ok(_) => return Ok(Self { client, path, removed: false }),
                Err(error) if error.status() == Status::Exists => number = number.wrapping_add(1),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A path in it.
    pub(crate) fn path(&self, name: impl fmt::Display) -> String {
        format!("{}/{name}", self.path)
    }

    /// A directory in it, made unless an earlier round did; its path.
    pub(crate) fn subdirectory(&self, name: impl fmt::Display) -> Result<String> {
        let path = self.path(name);
        match self.client.mkdir(path.as_str(), 0o700) {
            Err(error) if error.status() != Status::Exists => Err(error.into()),
            _ => Ok(path),
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
            eprintln!("{} could not be removed; try: braid rm -r {}", self.path, self.path);
        }
    }
}

/// Removes a directory and what is in it. What others removed meanwhile is no error.
pub(crate) fn remove_tree(client: &Client, path: &str) -> Result<()> {
    for entry in client.read_dir(path, false)? {
        let entry = entry?;
        let below = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
        if entry.kind == FileKind::Directory {
            remove_tree(client, &below)?;
        } else {
            unless_gone(client.unlink(below.as_str()))?;
        }
    }
    Ok(unless_gone(client.rmdir(path))?)
}

fn unless_gone(outcome: braid_client::Result<()>) -> braid_client::Result<()> {
    match outcome {
        Err(error) if error.status() == Status::NotFound => Ok(()),
        other => other,
    }
}

/// Directories of runs that did not come to remove them, or that still run: their paths.
///
/// # Errors
/// The directory is not to be listed.
pub fn leftovers(client: &Client, at: &str) -> Result<Vec<String>> {
    let at = at.trim_end_matches('/');
    let listed = if at.is_empty() { "/" } else { at };
    let mut found = Vec::new();
    for entry in client.read_dir(listed, false)? {
        let entry = entry?;
        let name = String::from_utf8_lossy(&entry.name);
        if entry.kind == FileKind::Directory && name.starts_with(PREFIX) {
            found.push(format!("{at}/{name}"));
        }
    }
    Ok(found)
}

fn nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
