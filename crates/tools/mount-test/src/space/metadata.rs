//! The metadata server's disk fills up: calls that need a record fail with ENOSPC, others succeed.
//! Every acknowledged name is there when there is space again, also after a restart of the server.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, ensure};
use braid_testbed::{cluster::Victim, wait::until};

use super::full::{FREED_MAX, REFUSED_MIN, Refused, bytes, in_time};
use crate::{cases::Outcome, scratch_cluster::ScratchCluster};

/// Files that exist before, and the size of each.
const BEFORE: u64 = 16;
const BYTES: usize = 100_000;
/// More than fits into the last block of the log.
const MADE_MAX: u32 = 10_000;

pub(super) fn full(yard: &ScratchCluster) -> Result<Outcome> {
    let mut stage = match yard.on_disks(2)? {
        Ok(stage) => stage,
        Err(skipped) => return Ok(skipped),
    };
    let mut names = Names { dirs: stage.dirs("metadata")?, made: BTreeSet::new(), refused: vec![] };
    for number in 0..BEFORE {
        let mut file = File::create_new(names.path(number, &format!("before{number}")))?;
        file.write_all(&bytes(number, BYTES)).and_then(|()| file.sync_all())?;
        names.made.insert(format!("before{number}"));
    }
    let held = OpenOptions::new().write(true).open(names.dirs[0].join("before0"))?;

    let ballast = stage.disks[0].point().join("ballast");
    fill(&ballast)?;
    names.make_until_refused()?;
    names.changes_say_so()?;
    names.judge()?;
    held.write_all_at(&bytes(0, BYTES), 0).context("overwrite existing bytes")?;

    fs::remove_file(ballast)?;
    let freed = until("there is space again", FREED_MAX, || Ok(!names.make("again")?))?;
    names.judge()?;
    held.sync_all().context("sync what was written while the disk was full")?;
    drop(held);
    stage.cluster.kill(Victim::Mds);
    stage.cluster.restart(Victim::Mds)?;
    names.judge().context("after a restart of the metadata server")?;
    stage.check()?;
    let (made, refused) = (names.made.len() as u64 - BEFORE, names.refused.len());
    Ok(Outcome::Passed(format!(
        "{made} made, {refused} refused; space again after {:.1} s",
        freed.as_secs_f64()
    )))
}

/// Acknowledged names and refused ones.
struct Names {
    dirs: Vec<PathBuf>,
    made: BTreeSet<String>,
    refused: Vec<String>,
}

impl Names {
    /// Through alternating mounts.
    fn path(&self, number: u64, name: &str) -> PathBuf {
        self.dirs[number as usize % self.dirs.len()].join(name)
    }

    fn make_until_refused(&mut self) -> Result<()> {
        let (mut in_a_row, mut number) = (0, 0);
        while in_a_row < REFUSED_MIN {
            ensure!(
                number < MADE_MAX,
                "{number} files, but the metadata server's disk is not full"
            );
            in_a_row = if self.make(&format!("new{number}"))? { in_a_row + 1 } else { 0 };
            number += 1;
        }
        Ok(())
    }

    /// Creates an empty file of this name and the next number; true when there was no space for it.
    fn make(&mut self, name: &str) -> Result<bool> {
        let number = self.made.len() + self.refused.len();
        let name = format!("{name}-{number}");
        let path = self.path(number as u64, &name);
        let refused = is_refused(in_time("create", || File::create_new(path)).map(drop))?;
        match refused {
            true => self.refused.push(name),
            false => drop(self.made.insert(name)),
        }
        Ok(refused)
    }

    /// Other changes succeed, or are refused with the same error and not done.
    fn changes_say_so(&mut self) -> Result<()> {
        let dir = self.dirs[0].clone();
        self.keep(
            "directory",
            is_refused(in_time("mkdir", || fs::create_dir(dir.join("directory"))))?,
        );
        let link = || std::os::unix::fs::symlink("before1", dir.join("link"));
        self.keep("link", is_refused(in_time("symlink", link))?);
        let (old, new) = ("before2", "moved");
        let refused = is_refused(in_time("rename", || fs::rename(dir.join(old), dir.join(new))))?;
        self.keep(new, refused);
        if !refused {
            self.made.remove(old);
            self.refused.push(old.to_owned());
        }
        Ok(())
    }

    fn keep(&mut self, name: &str, refused: bool) {
        match refused {
            true => self.refused.push(name.to_owned()),
            false => drop(self.made.insert(name.to_owned())),
        }
    }

    /// Exactly the acknowledged names exist through every mount, with their contents.
    fn judge(&self) -> Result<()> {
        for dir in &self.dirs {
            let listed: BTreeSet<String> = listed(dir)?;
            let lost: Vec<&String> = self.made.difference(&listed).collect();
            ensure!(lost.is_empty(), "{}: acknowledged, but missing: {lost:?}", dir.display());
            let half: Vec<&String> =
                self.refused.iter().filter(|name| listed.contains(*name)).collect();
            ensure!(half.is_empty(), "{}: refused, but there: {half:?}", dir.display());
            for number in
                (0..BEFORE).filter(|number| self.made.contains(&format!("before{number}")))
            {
                let path = dir.join(format!("before{number}"));
                let found = in_time("read", || fs::read(&path));
                let found = found
                    .map_err(|(call, error)| anyhow!("{call} of {}: {error}", path.display()))?;
                ensure!(
                    found == bytes(number, BYTES),
                    "{} differs from what was written",
                    path.display()
                );
            }
        }
        Ok(())
    }
}

fn listed(dir: &Path) -> Result<BTreeSet<String>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Whether the disk was full; any other error is a failure.
fn is_refused(outcome: Result<(), Refused>) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(false),
        Err((call, error)) => {
            ensure!(
                error.kind() == ErrorKind::StorageFull,
                "{call}: {error}, where no record fits on the disk"
            );
            Ok(true)
        }
    }
}

/// Uses all the space of the disk.
fn fill(path: &Path) -> Result<()> {
    let mut file = File::create_new(path)?;
    for block in [vec![1; 1 << 20], vec![1; 4096]] {
        let full = loop {
            if let Err(error) = file.write_all(&block) {
                break error;
            }
        };
        ensure!(full.kind() == ErrorKind::StorageFull, "{}: {full}", path.display());
    }
    Ok(file.sync_all()?)
}
