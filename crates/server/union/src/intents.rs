//! Renames and moves that take several steps: each is written here before its first step, and
//! removed after its last. A process that opens the pool finishes those that it finds.
//!
//! 1. The file of an intent is on disk before the first step (I7).
//! 2. A step names the inode that it moves or removes. A step that was done does nothing when it is
//!    done again.
//! 3. Somebody may change the branches directly between a kill and the next start. A step replaces
//!    and removes only what was there when it was written. If a rename cannot be done, nothing is
//!    removed.
//! 4. The names are on the disks before the intent ends, and its end is on disk before the call
//!    returns: otherwise a loss of power could leave half of a rename without its intent, or do a
//!    rename again after a later one.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    PoolError, Result, Union,
    error::During,
    moves::{Move, split},
    node::lock,
    place::{Place, rename},
    private_files,
};

/// No valid intent is longer: a step for each branch, with two paths.
const BYTES_MAX: u64 = 16 << 20;

/// The names of intents that wait for a disk begin like this.
const WAITING: &[u8] = b"waiting-";

/// One step, on one branch. Paths are relative to its root.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    /// `from` becomes `to`.
    Rename {
        branch: u8,
        inode: InodeThen,
        from: Vec<u8>,
        to: Vec<u8>,
        #[serde(default)]
        replaced: Replaced,
    },
    /// The two change places.
    Exchange { branch: u8, inode: InodeThen, from: Vec<u8>, to: Vec<u8> },
    /// What was replaced is removed.
    Unlink { branch: u8, inode: InodeThen, path: Vec<u8> },
    /// The same for an empty directory.
    RemoveDirectory { branch: u8, inode: InodeThen, path: Vec<u8> },
    /// A file is moved to another branch.
    Move(Move),
}

/// An inode when a step was written: its number, and when it was created (seconds, nanoseconds). A
/// file system gives the number of a removed file to the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum InodeThen {
    Created(u64, i64, u32),
    /// Of an earlier version.
    Number(u64),
}

/// What a rename replaces on its branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Replaced {
    /// Of an earlier version: not known.
    #[default]
    Anything,
    Nothing,
    Inode(InodeThen),
}

/// How a step ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StepEnd {
    /// Now or earlier.
    Done,
    /// The names were changed by somebody else since.
    Outdated,
}

impl Step {
    /// The names that it changes: number of the branch, and path.
    fn places(&self) -> Vec<(u8, &[u8])> {
        match self {
            Self::Rename { branch, from, to, .. } | Self::Exchange { branch, from, to, .. } => {
                vec![(*branch, from), (*branch, to)]
            }
            Self::Unlink { branch, path, .. } | Self::RemoveDirectory { branch, path, .. } => {
                vec![(*branch, path)]
            }
            Self::Move(step) => step.places(),
        }
    }
}

impl InodeThen {
    pub(crate) fn of(stat: &Statx) -> Self {
        Self::Created(stat.stx_ino, stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)
    }

    pub(crate) fn number(self) -> u64 {
        let (Self::Created(number, ..) | Self::Number(number)) = self;
        number
    }

    pub(crate) fn is(self, stat: &Statx) -> bool {
        match self {
            Self::Created(..) => self == Self::of(stat),
            Self::Number(number) => number == stat.stx_ino,
        }
    }
}

impl Replaced {
    pub(crate) fn of(stat: &Statx) -> Self {
        Self::Inode(InodeThen::of(stat))
    }

    /// How the rename is done, if what is there now may be replaced.
    fn flags(self, now: Option<&Statx>) -> Option<RenameFlags> {
        match (self, now) {
            (Self::Anything, _) => Some(RenameFlags::empty()),
            (_, None) => Some(RenameFlags::NOREPLACE),
            (Self::Inode(then), Some(now)) if then.is(now) => Some(RenameFlags::empty()),
            _ => None,
        }
    }
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
        let synced = || File::open(self.0.parent()?).and_then(|dir| dir.sync_all()).ok();
        if let Err(error) = fs::remove_file(&self.0).map(|()| synced()) {
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
            self.make_directories_of(&steps);
            self.finish(&steps).during(|| format!("finishing {}", intent.0.display()))?;
            intent.end();
        }
        Ok(())
    }

    /// Does the steps of an intent that was not finished, and ends it.
    fn finish(&self, steps: &[Step]) -> Result<()> {
        let mut outdated = false;
        for step in steps {
            let removes = matches!(step, Step::Unlink { .. } | Step::RemoveDirectory { .. });
            if removes && outdated {
                continue;
            }
            outdated |= self.carry_out(step)? == StepEnd::Outdated;
        }
        if outdated {
            tracing::warn!("names were changed directly: a rename is not finished");
        }
        self.sync_steps(steps)
    }

    fn waits_for_a_disk(&self, steps: &[Step]) -> bool {
        let mut places = steps.iter().flat_map(Step::places);
        let has_failed = |at: usize| self.branches[at].has_failed();
        places.any(|(number, _)| self.branches.with_number(number).is_some_and(has_failed))
    }

    /// As [`Union::finish_intents`], of those that waited for a disk which is back.
    pub(crate) fn finish_waiting_intents(&self) {
        let waiting = std::mem::take(&mut *lock(&self.waiting_intents));
        let ready = |steps: &[Step]| !self.waits_for_a_disk(steps);
        let steps = waiting.iter().filter(|(_, steps)| ready(steps));
        steps.for_each(|(_, steps)| self.make_directories_of(steps));
        let _alone = self.renames.write().unwrap_or_else(PoisonError::into_inner);
        for (intent, steps) in waiting {
            let done = if ready(&steps) { self.finish(&steps) } else { Err(Errno::IO) };
            match done {
                Ok(()) => intent.end(),
                Err(error) => {
                    tracing::warn!(path = %intent.0.display(), %error, "a rename or move waits");
                    lock(&self.waiting_intents).push((intent, steps));
                }
            }
        }
    }

    /// A loss of power may have taken the directories that a rename created on a branch.
    fn make_directories_of(&self, steps: &[Step]) {
        let renames = |step: &&Step| matches!(step, Step::Rename { .. } | Step::Exchange { .. });
        for (number, path) in steps.iter().filter(renames).flat_map(Step::places) {
            let Some(branch) = self.branches.with_number(number) else { continue };
            let Ok(walked) = self.walk(split(path).0) else { continue };
            let Ok(directory) = self.nodes.get(walked.last()) else { continue };
            if directory.is_directory
                && let Err(error) = self.ensure_directory(&directory, branch)
            {
                tracing::warn!(%error, "creating a directory for an unfinished rename failed");
            }
        }
    }

    /// Writes the names that the steps changed to the disks.
    pub(crate) fn sync_steps(&self, steps: &[Step]) -> Result<()> {
        self.sync_names(steps.iter().flat_map(Step::places))
    }

    /// Writes names to the disks: number of the branch, and path. The directories above may be new
    /// on their disk too.
    pub(crate) fn sync_names<'n>(&self, names: impl Iterator<Item = (u8, &'n [u8])>) -> Result<()> {
        let mut synced: Vec<(u8, &[u8])> = Vec::new();
        for (branch, mut path) in names {
            let at = self.branches.with_number(branch).ok_or(Errno::NODEV)?;
            let root = self.branches[at].root()?;
            while !path.is_empty() && !synced.contains(&(branch, split(path).0)) {
                sync_parent(&root, path)?;
                path = split(path).0;
                synced.push((branch, path));
            }
        }
        Ok(())
    }

    /// Does one step, unless it is done.
    pub(crate) fn carry_out(&self, step: &Step) -> Result<StepEnd> {
        let (number, inode, path) = match step {
            Step::Rename { branch, inode, from, .. }
            | Step::Exchange { branch, inode, from, .. } => (branch, *inode, from),
            Step::Unlink { branch, inode, path }
            | Step::RemoveDirectory { branch, inode, path } => (branch, *inode, path),
            Step::Move(step) => return self.finish_move(step).map(|()| StepEnd::Done),
        };
        let branch = self.branches.with_number(*number).ok_or(Errno::NODEV)?;
        let root = &*self.branches[branch].root()?;
        let old = Place::of(root, path)?;
        let ours = |place: &Option<Place<'_>>| {
            place.as_ref().and_then(Place::stat).is_some_and(|stat| inode.is(&stat))
        };
        match step {
            Step::Rename { to, .. } | Step::Exchange { to, .. } => {
                let new = Place::of(root, to)?;
                match (ours(&old), old, new) {
                    (true, Some(old), Some(new)) => rename_step(step, &old, &new),
                    (_, _, new) if ours(&new) => Ok(StepEnd::Done),
                    _ => Ok(StepEnd::Outdated),
                }
            }
            _ if !ours(&old) => Ok(StepEnd::Done),
            Step::Unlink { .. } => remove_step(old, AtFlags::empty()),
            _ => remove_step(old, AtFlags::REMOVEDIR),
        }
    }
}

/// Writes the names of the directory of a path to the disk, if it is there.
fn sync_parent(root: &OwnedFd, path: &[u8]) -> Result<()> {
    let Some(place) = Place::of(root, path)? else { return Ok(()) };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::fsync(rustix::fs::openat(&place.directory, c".", flags, Mode::empty())?)
}

fn rename_step(step: &Step, old: &Place<'_>, new: &Place<'_>) -> Result<StepEnd> {
    let flags = match step {
        Step::Rename { replaced, .. } => replaced.flags(new.stat().as_ref()),
        // What had the other name may be lost.
        _ if new.stat().is_none() => Some(RenameFlags::NOREPLACE),
        _ => Some(RenameFlags::EXCHANGE),
    };
    let Some(flags) = flags else { return Ok(StepEnd::Outdated) };
    match rename(old, new, flags) {
        // The file system of the branch has no such rename.
        Err(Errno::INVAL) if flags == RenameFlags::NOREPLACE => {
            rename(old, new, RenameFlags::empty())?;
        }
        done => return end_of(done),
    }
    Ok(StepEnd::Done)
}

fn remove_step(place: Option<Place<'_>>, flags: AtFlags) -> Result<StepEnd> {
    let Some(place) = place else { return Ok(StepEnd::Done) };
    end_of(rustix::fs::unlinkat(&place.directory, place.name, flags))
}

/// A conflicting file is not the one that was there: nothing was done, and a start must not fail
/// for it.
fn end_of(done: Result<()>) -> Result<StepEnd> {
    match done {
        Ok(()) => Ok(StepEnd::Done),
        Err(Errno::NOENT | Errno::EXIST | Errno::NOTEMPTY | Errno::ISDIR | Errno::NOTDIR) => {
            Ok(StepEnd::Outdated)
        }
        Err(error) => Err(error),
    }
}
