//! A pool: which directories are its branches. Kept in `pool.toml` of the metadata directory, and
//! in a `.braid-branch` of each branch, so that a wrong or missing disk is noticed.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::Access;
use serde::{Deserialize, Serialize};

use crate::{
    BranchIdentity, BranchMode, BranchStatus, Placement, PoolError, PoolUuid,
    branch::Branch,
    control,
    error::During,
    identity::{BRANCH_FILE, BRANCH_FILE_BYTES_MAX},
    label::{LABELS_MAX, Label},
    private_files,
};

/// The file in the metadata directory.
const POOL_FILE: &str = "pool.toml";
/// No valid file is longer: 64 branches with paths of 4,096 bytes.
const POOL_FILE_BYTES_MAX: u64 = 1 << 20;
/// Branches at most: more disks than a machine has. Each costs a system call for a name that does
/// not exist.
pub(crate) const BRANCHES_MAX: usize = 64;
/// Free space at which new files go elsewhere, unless the pool says another: as in mergerfs.
pub(crate) const MIN_FREE: u64 = 4 << 30;

/// How long a process that was unmounted may take to write its disks and to end.
const ENDING: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

/// The content of `pool.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolConfig {
    format: u32,
    /// The pool.
    pub pool: PoolUuid,
    /// Its name, for messages and as the source of the mount.
    pub name: String,
    /// Where new files are created.
    #[serde(default)]
    pub placement: Placement,
    /// The number of the next branch; numbers are never used again.
    next_number: u8,
    /// In the order in which names are searched.
    #[serde(default, rename = "branch")]
    pub branches: Vec<BranchConfig>,
}

/// A branch in `pool.toml`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchConfig {
    /// Its number.
    pub number: u8,
    /// Its directory, absolute.
    pub path: PathBuf,
    /// What it is used for.
    #[serde(default)]
    pub mode: BranchMode,
    /// New files go elsewhere when less than this is free, bytes.
    pub min_free: u64,
    /// What it is good for: see [`Placement::label`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
}

impl PoolConfig {
    /// Whether a branch has the label.
    pub(crate) fn has_label(&self, label: &Label) -> bool {
        self.branches.iter().any(|branch| branch.labels.contains(label))
    }
}

/// A pool that this process has in use.
#[derive(Debug)]
pub(crate) struct PoolLock(File);

impl Drop for PoolLock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that another thread has just started has
        // it open until it executes its program.
        let _ = rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock);
    }
}

/// A pool on disk.
#[derive(Clone, Debug)]
pub struct Pool {
    meta: PathBuf,
    /// Its configuration.
    pub config: PoolConfig,
}

impl Pool {
    /// Creates a pool of existing directories. `meta` may lie on a disk of its own; it is created.
    /// Nothing in the directories is changed, except that each gets a `.braid-branch`.
    ///
    /// # Errors
    /// A directory cannot be a branch. Then nothing was changed.
    pub fn create(
        meta: &Path,
        name: &str,
        branches: &[(PathBuf, BranchMode)],
        min_free: Option<u64>,
    ) -> Result<Self, PoolError> {
        if fs::exists(meta.join(POOL_FILE)).unwrap_or(true) {
            return Err(PoolError::Exists { path: meta.to_owned() });
        }
        if branches.is_empty() {
            return Err(PoolError::None);
        }
        let pool = PoolUuid::random().during(|| "creating the pool's identity".to_owned())?;
        let (name, placement) = (name.to_owned(), Placement::default());
        let config =
            PoolConfig { format: 1, pool, name, placement, next_number: 0, branches: Vec::new() };
        let mut created = Self { meta: meta.to_owned(), config };
        created.add_unsaved(branches, min_free)?;
        created.check_apart_from_meta()?;
        fs::create_dir_all(meta).during(|| format!("creating {}", meta.display()))?;
        created.mark_and_save()?;
        Ok(created)
    }

    /// Reads the pool in `meta`.
    ///
    /// # Errors
    /// There is none, or its file is damaged.
    pub fn open(meta: &Path) -> Result<Self, PoolError> {
        let path = meta.join(POOL_FILE);
        let config = |why: String| PoolError::Config { path: path.clone(), why };
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(PoolError::NoPool { path: meta.to_owned() });
            }
            file => file.during(|| format!("opening {}", path.display()))?,
        };
        let mut text = String::new();
        file.take(POOL_FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .during(|| format!("reading {}", path.display()))?;
        let read: PoolConfig =
            toml::from_str(&text).map_err(|error| config(error.message().to_owned()))?;
        if read.format != 1 {
            return Err(config(format!("its format is {}; this version knows 1", read.format)));
        }
        if read.branches.is_empty() || read.branches.len() > BRANCHES_MAX {
            return Err(config(format!("it has {} branches", read.branches.len())));
        }
        for (at, branch) in read.branches.iter().enumerate() {
            let twice = read.branches[..at].iter().any(|other| other.number == branch.number);
            if twice || branch.number >= read.next_number {
                return Err(config(format!("branch number {} is wrong", branch.number)));
            }
        }
        // Absolute, since a mount in the background leaves the working directory.
        let meta = fs::canonicalize(meta).during(|| format!("finding {}", meta.display()))?;
        Ok(Self { meta, config: read })
    }

    /// The metadata directory.
    pub fn meta(&self) -> &Path {
        &self.meta
    }

    /// Takes the pool for this process, until the lock is dropped.
    ///
    /// # Errors
    /// Another process has it.
    pub(crate) fn lock(&self) -> Result<PoolLock, PoolError> {
        let path = self.meta.join("lock");
        let file = private_files::options()
            .truncate(false)
            .write(true)
            .open(&path)
            .during(|| format!("opening {}", path.display()))?;
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        let end = Instant::now() + ENDING;
        loop {
            match rustix::fs::flock(&file, lock) {
                Ok(()) => return Ok(PoolLock(file)),
                Err(rustix::io::Errno::AGAIN)
                    if control::is_served(&self.meta) || Instant::now() > end =>
                {
                    return Err(PoolError::InUse { path: self.meta.clone() });
                }
                // A process that serves no commands any more ends.
                Err(rustix::io::Errno::AGAIN) => std::thread::sleep(POLL),
                Err(error) => return Err(error).during(|| format!("locking {}", path.display())),
            }
        }
    }

    /// The branches and their space, also of those that cannot be used now.
    pub fn status(&self) -> Vec<BranchStatus> {
        let branches = self.config.branches.iter().map(|config| {
            let opened = self.check_identity(config).and_then(|()| {
                let what = || format!("opening {}", config.path.display());
                Branch::open(&self.meta, config).during(what)
            });
            let missing = |why: PoolError| {
                let branch = Branch::new(&self.meta, config);
                branch.set_failure(Some(why.to_string()));
                branch
            };
            opened.unwrap_or_else(missing).status()
        });
        branches.collect()
    }

    /// Adds directories at the end.
    ///
    /// # Errors
    /// As for [`Pool::create`].
    pub fn add(
        &mut self,
        branches: &[(PathBuf, BranchMode)],
        min_free: Option<u64>,
    ) -> Result<(), PoolError> {
        let mut changed = self.clone();
        changed.add_unsaved(branches, min_free)?;
        changed.check_apart_from_meta()?;
        changed.mark_and_save()?;
        *self = changed;
        Ok(())
    }

    /// Changes what a branch is used for.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_mode(&mut self, number: u8, mode: BranchMode) -> Result<(), PoolError> {
        self.change(|config| {
            let mut branches = config.branches.iter_mut();
            branches.find(|branch| branch.number == number).into_iter().for_each(|branch| {
                branch.mode = mode;
            });
        })
    }

    /// Takes a branch out of the pool. Its files stay as they are, and its `.braid-branch` is
    /// removed if it can be.
    ///
    /// # Errors
    /// It is the only one; the file cannot be written.
    pub fn remove(&mut self, number: u8) -> Result<(), PoolError> {
        if self.config.branches.len() == 1 {
            return Err(PoolError::None);
        }
        let removed = self.config.branches.iter().find(|branch| branch.number == number).cloned();
        let mut changed = self.clone();
        changed.config.branches.retain(|branch| branch.number != number);
        changed.check_label_of_placement()?;
        changed.save()?;
        *self = changed;
        if let Some(branch) = removed
            && self.check_identity(&branch).is_ok()
        {
            let _ = fs::remove_file(branch.path.join(BRANCH_FILE));
        }
        Ok(())
    }

    /// The branch that a user names: by its directory or its number.
    ///
    /// # Errors
    /// There is none.
    pub fn branch(&self, named: &Path) -> Result<&BranchConfig, PoolError> {
        let path = fs::canonicalize(named).or_else(|_| std::path::absolute(named));
        let path = path.unwrap_or_else(|_| named.to_owned());
        let number = named.to_str().and_then(|text| text.parse().ok());
        let branches = || self.config.branches.iter();
        branches()
            .find(|branch| branch.path == path)
            .or_else(|| branches().find(|branch| Some(branch.number) == number))
            .ok_or_else(|| PoolError::NoBranch { path: named.to_owned(), meta: self.meta.clone() })
    }

    fn change(&mut self, change: impl FnOnce(&mut PoolConfig)) -> Result<(), PoolError> {
        let mut changed = self.clone();
        change(&mut changed.config);
        changed.save()?;
        *self = changed;
        Ok(())
    }

    /// Changes where new files are created.
    ///
    /// # Errors
    /// No branch has its label; the file cannot be written.
    pub fn set_placement(&mut self, placement: Placement) -> Result<(), PoolError> {
        if let Some(label) = &placement.label
            && !self.config.has_label(label)
        {
            let (label, meta) = (label.to_string(), self.meta.clone());
            return Err(PoolError::NoLabel { label, meta });
        }
        self.change(|config| config.placement = placement)
    }

    /// Changes what a branch is good for.
    ///
    /// # Errors
    /// There are too many labels; new files need a label that no branch would have; the file cannot
    /// be written.
    pub fn set_labels(&mut self, number: u8, mut labels: Vec<Label>) -> Result<(), PoolError> {
        labels.sort();
        labels.dedup();
        if labels.len() > LABELS_MAX {
            return Err(PoolError::TooManyLabels { max: LABELS_MAX });
        }
        let mut changed = self.clone();
        let mut branches = changed.config.branches.iter_mut();
        branches.find(|branch| branch.number == number).into_iter().for_each(|branch| {
            branch.labels = labels.clone();
        });
        changed.check_label_of_placement()?;
        changed.save()?;
        *self = changed;
        Ok(())
    }

    /// New files of the pool may be placed by a label: a branch must have it.
    fn check_label_of_placement(&self) -> Result<(), PoolError> {
        match &self.config.placement.label {
            Some(label) if !self.config.has_label(label) => {
                let (label, meta) = (label.to_string(), self.meta.clone());
                Err(PoolError::LabelInUse { label, meta })
            }
            _ => Ok(()),
        }
    }

    fn add_unsaved(
        &mut self,
        branches: &[(PathBuf, BranchMode)],
        min_free: Option<u64>,
    ) -> Result<(), PoolError> {
        for (path, mode) in branches {
            let wrong = || PoolError::NotADirectory { path: path.clone() };
            let path = fs::canonicalize(path).map_err(|_| wrong())?;
            if !path.is_dir() {
                return Err(wrong());
            }
            for other in &self.config.branches {
                check_apart(&path, &other.path)?;
            }
            if *mode != BranchMode::Ro && rustix::fs::access(&path, Access::WRITE_OK).is_err() {
                return Err(PoolError::ReadOnly { path });
            }
            if let Some(identity) = read_identity(&path)? {
                return Err(PoolError::OtherPool { path, pool: identity.pool.to_string() });
            }
            let full = PoolError::TooMany { max: BRANCHES_MAX };
            if self.config.branches.len() >= BRANCHES_MAX {
                return Err(full);
            }
            let number = self.config.next_number;
            self.config.next_number = number.checked_add(1).ok_or(full)?;
            let min_free = min_free.unwrap_or_else(|| default_min_free(&path));
            let (mode, labels) = (*mode, Vec::new());
            self.config.branches.push(BranchConfig { number, path, mode, min_free, labels });
        }
        Ok(())
    }

    /// Files of the pool itself must not be shown in it, and no branch may fill its disk.
    fn check_apart_from_meta(&self) -> Result<(), PoolError> {
        let what = || format!("finding {}", self.meta.display());
        let absolute = std::path::absolute(&self.meta).during(what)?;
        // It may not exist yet: the nearest directory above it does.
        let existing = absolute.ancestors().find(|above| above.exists());
        let existing = existing.unwrap_or(Path::new("/"));
        let below = absolute.strip_prefix(existing).unwrap_or(Path::new(""));
        let meta = fs::canonicalize(existing).during(what)?.join(below);
        self.config.branches.iter().try_for_each(|branch| check_apart(&meta, &branch.path))
    }

    /// Marks the branches and writes the pool. If that fails, for example on a full disk, no new
    /// mark is left: it would make the directory a branch of a pool that does not exist.
    fn mark_and_save(&self) -> Result<(), PoolError> {
        let mut marked = Vec::new();
        let done = self.mark_branches(&mut marked).and_then(|()| self.save());
        if done.is_err() {
            marked.iter().for_each(|path| _ = fs::remove_file(path));
        }
        done
    }

    fn mark_branches(&self, marked: &mut Vec<PathBuf>) -> Result<(), PoolError> {
        for branch in &self.config.branches {
            let path = branch.path.join(BRANCH_FILE);
            // A read-only branch cannot be marked: its path is trusted.
            if branch.mode == BranchMode::Ro || fs::exists(&path).unwrap_or(false) {
                continue;
            }
            let text = BranchIdentity::new(self.config.pool, branch.number).to_text();
            marked.push(path.clone());
            write_durably(&path, &text)?;
        }
        Ok(())
    }

    fn save(&self) -> Result<(), PoolError> {
        let path = self.meta.join(POOL_FILE);
        let text = toml::to_string(&self.config)
            .map_err(|error| PoolError::Config { path: path.clone(), why: error.to_string() })?;
        write_durably(&path, &text)
    }

    /// Checks that the directory of a branch is that branch: an unmounted disk leaves an empty
    /// directory, and disks change places.
    pub(crate) fn check_identity(&self, branch: &BranchConfig) -> Result<(), PoolError> {
        let path = branch.path.clone();
        match read_identity(&path)? {
            Some(found) if found == BranchIdentity::new(self.config.pool, branch.number) => Ok(()),
            Some(found) if found.pool == self.config.pool => Err(PoolError::WrongBranch { path }),
            Some(found) => Err(PoolError::OtherPool { path, pool: found.pool.to_string() }),
            None if branch.mode == BranchMode::Ro && path.is_dir() => Ok(()),
            None => Err(PoolError::Missing { path }),
        }
    }
}

/// 4 GiB, or a twentieth of a small file system.
fn default_min_free(path: &Path) -> u64 {
    let bytes = rustix::fs::statvfs(path)
        .map_or(u64::MAX, |space| space.f_blocks.saturating_mul(space.f_frsize));
    MIN_FREE.min(bytes / 20)
}

fn check_apart(path: &Path, other: &Path) -> Result<(), PoolError> {
    if path == other {
        return Err(PoolError::Twice { path: path.to_owned() });
    }
    let nested = |inner: &Path, outer: &Path| PoolError::Nested {
        inner: inner.to_owned(),
        outer: outer.to_owned(),
    };
    if path.starts_with(other) {
        return Err(nested(path, other));
    }
    if other.starts_with(path) {
        return Err(nested(other, path));
    }
    Ok(())
}

/// The identity file of a directory, if it has one.
fn read_identity(path: &Path) -> Result<Option<BranchIdentity>, PoolError> {
    let file = path.join(BRANCH_FILE);
    let opened = match File::open(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.during(|| format!("opening {}", file.display()))?,
    };
    let damaged = |why: String| PoolError::Identity { path: path.to_owned(), why };
    let mut text = String::new();
    // One byte more than is valid shows that it is too long.
    let read = opened.take(BRANCH_FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| damaged(error.to_string()))?;
    if text.len() > BRANCH_FILE_BYTES_MAX {
        return Err(damaged("it is too long".to_owned()));
    }
    BranchIdentity::from_text(&text).map(Some).map_err(damaged)
}

/// Replaces a file so that after a loss of power it is the old or the new one.
pub(crate) fn write_durably(path: &Path, text: &str) -> Result<(), PoolError> {
    let what = || format!("writing {}", path.display());
    let new = path.with_extension("new");
    let written = private_files::create_readable(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&new, path)).during(what)?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    File::open(directory).and_then(|directory| directory.sync_all()).during(what)
}
