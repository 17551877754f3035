//! The metadata server's disk fills up: what needs a record there says that there is no room, what needs none goes on, and every
//! name that was acknowledged is there when there is room again, also for a server that starts anew.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, ensure};
use braid_crash_tests::cluster::Victim;

use super::full::{FREED_MAX, REFUSED_MIN, Refused, bytes, in_time};
use crate::{cases::Outcome, stage::until, yard::Yard};

/// Files that are there before, and what each has.
const BEFORE: u64 = 16;
const BYTES: usize = 100_000;
/// More than what is left of the last block of the log has room for.
const MADE_MAX: u32 = 10_000;

pub(super) fn full(yard: &Yard) -> Result<Outcome> {
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
    held.write_all_at(&bytes(0, BYTES), 0).context("writing over what is there")?;

    fs::remove_file(ballast)?;
    let freed = until("there is room again", FREED_MAX, || Ok(!names.make("again")?))?;
    names.judge()?;
    held.sync_all().context("syncing what was written while there was no room")?;
    drop(held);
    stage.cluster.kill(Victim::Mds);
    stage.cluster.restart(Victim::Mds)?;
    names.judge().context("after a restart of the metadata server")?;
    stage.check()?;
    let (made, refused) = (names.made.len() as u64 - BEFORE, names.refused.len());
    Ok(Outcome::Passed(format!(
        "{made} made, {refused} refused; room again after {:.1} s",
        freed.as_secs_f64()
    )))
}

/// Names that were acknowledged, and those that were not.
struct Names {
    dirs: Vec<PathBuf>,
    made: BTreeSet<String>,
    refused: Vec<String>,
}

impl Names {
    /// By one mount and the other.
    fn path(&self, number: u64, name: &str) -> PathBuf {
        self.dirs[number as usize % self.dirs.len()].join(name)
    }

    fn make_until_refused(&mut self) -> Result<()> {
        let (mut in_a_row, mut number) = (0, 0);
        while in_a_row < REFUSED_MIN {
            ensure!(
                number < MADE_MAX,
                "{number} files, and the disk of the metadata server is not full"
            );
            in_a_row = if self.make(&format!("new{number}"))? { in_a_row + 1 } else { 0 };
            number += 1;
        }
        Ok(())
    }

    /// An empty file of this name and a number more; true when there was no room for it.
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

    /// Other changes are done, or refused with the same error and not done.
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

    /// Exactly what was acknowledged is there, by every mount, and files have what they had.
    fn judge(&self) -> Result<()> {
        for dir in &self.dirs {
            let listed: BTreeSet<String> = listed(dir)?;
            let lost: Vec<&String> = self.made.difference(&listed).collect();
            ensure!(lost.is_empty(), "{}: acknowledged, and not there: {lost:?}", dir.display());
            let half: Vec<&String> =
                self.refused.iter().filter(|name| listed.contains(*name)).collect();
            ensure!(half.is_empty(), "{}: refused, and there: {half:?}", dir.display());
            for number in
                (0..BEFORE).filter(|number| self.made.contains(&format!("before{number}")))
            {
                let path = dir.join(format!("before{number}"));
                let found = in_time("read", || fs::read(&path));
                let found = found
                    .map_err(|(call, error)| anyhow!("{call} of {}: {error}", path.display()))?;
                ensure!(
                    found == bytes(number, BYTES),
                    "{} is not what was written",
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

/// Whether there was no room for it; any other error is one.
fn is_refused(outcome: Result<(), Refused>) -> Result<bool> {
    match outcome {
        Ok(()) => Ok(false),
        Err((call, error)) => {
            ensure!(
                error.kind() == ErrorKind::StorageFull,
                "{call}: {error}, where there is no room for a record"
            );
            Ok(true)
        }
    }
}

/// Takes all the room that its disk has.
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
