//! Renames and moves that take several steps: each is written here before its first step, and
//! removed after its last. A process that opens the pool finishes those that it finds.
//!
//! 1. The file of an intent is on disk before the first step (I7).
//! 2. A step names the inode that it moves or removes. A step that was done does nothing when it is
//!    done again.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::{
        PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    PoolError, Result, Union, attributes::stat_at, error::During, moves::Move, node::lock,
    private_files,
};

/// No valid intent is longer: a step for each branch, with two paths.
const BYTES_MAX: u64 = 16 << 20;

/// The names of intents that wait for a disk begin like this.
const WAITING: &[u8] = b"waiting-";

/// One step, on one branch. Paths are relative to its root.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    /// `from` becomes `to`, which is replaced.
    Rename { branch: u8, inode: u64, from: Vec<u8>, to: Vec<u8> },
    /// The two change places.
    Exchange { branch: u8, inode: u64, from: Vec<u8>, to: Vec<u8> },
    /// What was replaced is removed.
    Unlink { branch: u8, inode: u64, path: Vec<u8> },
    /// The same for an empty directory.
    RemoveDirectory { branch: u8, inode: u64, path: Vec<u8> },
    /// A file is moved to another branch.
    Move(Move),
}

/// The directory of intents.
#[derive(Debug)]
pub(crate) struct IntentLog {
    directory: PathBuf,
    next: AtomicU64,
}

/// A written intent. It stays on disk until it is ended.
#[derive(Debug)]
pub(crate) struct Intent(PathBuf);

impl IntentLog {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory, next: AtomicU64::new(0) }
    }

    /// Writes the steps, durably.
    pub(crate) fn begin(&self, steps: &[Step]) -> Result<Intent> {
        let io = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("{}-{number}", std::process::id()));
        let new = path.with_extension("new");
        let text = serde_json::to_vec(steps).map_err(|_| Errno::IO)?;
        let mut file = private_files::create(&new).map_err(io)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(io)?;
        fs::rename(&new, &path).map_err(io)?;
        File::open(&self.directory).and_then(|dir| dir.sync_all()).map_err(io)?;
        Ok(Intent(path))
    }

    /// The intents of earlier processes.
    fn found(&self) -> std::result::Result<Vec<(Intent, Vec<Step>)>, PoolError> {
        let mut found = Vec::new();
        let what = || format!("reading {}", self.directory.display());
        for entry in fs::read_dir(&self.directory).during(what)? {
            let path = entry.during(what)?.path();
            if path.extension().is_some() {
                // It was not written completely, so no step was done.
                let _ = fs::remove_file(&path);
                continue;
            }
            let mut text = Vec::new();
            File::open(&path)
                .and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text))
                .during(what)?;
            let steps = serde_json::from_slice(&text).map_err(|error| PoolError::Config {
                path: path.clone(),
                why: error.to_string(),
            })?;
            found.push((Intent(path), steps));
        }
        Ok(found)
    }
}

impl Step {
    /// The numbers of the branches that it needs.
    fn branches(&self) -> Vec<u8> {
        match self {
            Self::Rename { branch, .. }
            | Self::Exchange { branch, .. }
            | Self::Unlink { branch, .. }
            | Self::RemoveDirectory { branch, .. } => vec![*branch],
            Self::Move(step) => step.branches().to_vec(),
        }
    }
}

impl Intent {
    /// The names of new intents begin with the number of the process, which may be that of the
    /// earlier one: an intent that stays gets another name.
    fn with_name_of_its_own(self) -> std::result::Result<Self, PoolError> {
        let what = || format!("keeping {}", self.0.display());
        let directory = self.0.parent().unwrap_or(Path::new("/"));
        if self.0.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(WAITING)) {
            return Ok(self);
        }
        for number in 0.. {
            let path = directory.join(format!("waiting-{number}"));
            if !fs::exists(&path).during(what)? {
                fs::rename(&self.0, &path).during(what)?;
                return Ok(Self(path));
            }
        }
        Ok(self)
    }

    /// All steps are done.
    pub(crate) fn end(self) {
        if let Err(error) = fs::remove_file(&self.0) {
            // Doing the steps again does nothing.
            tracing::warn!(path = %self.0.display(), %error, "removing a finished intent failed");
        }
    }
}

impl Union {
    /// Does the steps that an earlier process wrote down and possibly did not do. What needs a disk
    /// that is missing waits for it.
    pub(crate) fn finish_intents(&self) -> std::result::Result<(), PoolError> {
        for (intent, steps) in self.intents.found()? {
            if self.waits_for_a_disk(&steps) {
                tracing::warn!(path = %intent.0.display(), "a rename or move waits for its disk");
                let intent = intent.with_name_of_its_own()?;
                lock(&self.waiting_intents).push((intent, steps));
                continue;
            }
            tracing::info!(path = %intent.0.display(), "finishing what an earlier process began");
            for step in &steps {
                self.carry_out(step).during(|| format!("finishing {}", intent.0.display()))?;
            }
            intent.end();
        }
        Ok(())
    }

    fn waits_for_a_disk(&self, steps: &[Step]) -> bool {
        let mut numbers = steps.iter().flat_map(Step::branches);
        let has_failed = |at: usize| self.branches[at].has_failed();
        numbers.any(|number| self.branches.with_number(number).is_some_and(has_failed))
    }

    /// As [`Union::finish_intents`], of those that waited for a disk which is back.
    pub(crate) fn finish_waiting_intents(&self) {
        let _alone = self.renames.write().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut *lock(&self.waiting_intents));
        for (intent, steps) in waiting {
            let done = match self.waits_for_a_disk(&steps) {
                true => Err(Errno::IO),
                false => steps.iter().try_for_each(|step| self.carry_out(step)),
            };
            match done {
                Ok(()) => intent.end(),
                Err(error) => {
                    tracing::warn!(path = %intent.0.display(), %error, "a rename or move waits");
                    lock(&self.waiting_intents).push((intent, steps));
                }
            }
        }
    }

    /// Does one step, unless it is done.
    pub(crate) fn carry_out(&self, step: &Step) -> Result<()> {
        let (number, inode, path) = match step {
            Step::Rename { branch, inode, from, .. }
            | Step::Exchange { branch, inode, from, .. } => (branch, inode, from),
            Step::Unlink { branch, inode, path }
            | Step::RemoveDirectory { branch, inode, path } => (branch, inode, path),
            Step::Move(step) => return self.finish_move(step),
        };
        let branch = self.branches.with_number(*number).ok_or(Errno::NODEV)?;
        let root = &*self.branches[branch].root()?;
        match stat_at(root, path) {
            Ok(stat) if stat.stx_ino == *inode => {}
            // Done before.
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            Err(error) => return Err(error),
        }
        match step {
            Step::Rename { from, to, .. } => rustix::fs::renameat(root, &**from, root, &**to),
            Step::Exchange { from, to, .. } => {
                rustix::fs::renameat_with(root, &**from, root, &**to, RenameFlags::EXCHANGE)
            }
            Step::Unlink { path, .. } => rustix::fs::unlinkat(root, &**path, AtFlags::empty()),
            Step::RemoveDirectory { path, .. } => {
                rustix::fs::unlinkat(root, &**path, AtFlags::REMOVEDIR)
            }
            Step::Move(_) => Ok(()),
        }
    }
}
