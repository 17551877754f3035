//! A branch: a directory of a local file system.

use std::{
    ops::Index,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rustix::fs::{Mode, OFlags, StatVfs, Statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{
    BranchConfig, Result, failed_disks::Failure, label::Label, node::lock, pool::BRANCHES_MAX,
    saved_names::SavedNames, striped::store::Store,
};

/// For how long the free space of a branch is used without reading it again. A file system that
/// fills faster than this gives ENOSPC to a create, which then takes another branch.
const SPACE_VALID: Duration = Duration::from_secs(1);

/// No device: the number has 64 bits of two of 32.
const NOT_NOTICED: u64 = u64::MAX;

/// What a branch is used for. The words are those of mergerfs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BranchMode {
    /// Everything.
    #[default]
    Rw,
    /// Reads only.
    Ro,
    /// No new files: existing ones can be changed and removed.
    Nc,
}

/// The branches of a pool, in the order in which names are searched. A branch keeps its position
/// while the union runs: one that is removed stays as a branch without a directory.
#[derive(Debug)]
pub(crate) struct Branches {
    /// On the heap: a union is moved when it is opened, also by threads with small stacks.
    list: Box<[OnceLock<Branch>]>,
    len: AtomicUsize,
}

impl Default for Branches {
    fn default() -> Self {
        let list = std::iter::repeat_with(OnceLock::new).take(BRANCHES_MAX).collect();
        Self { list, len: AtomicUsize::new(0) }
    }
}

impl Branches {
    /// Adds a branch at the end. The caller lets nobody else add one at the same time.
    ///
    /// # Errors
    /// `ENFILE`: there are 64, removed ones included.
    pub(crate) fn push(&self, branch: Branch) -> Result<usize> {
        let at = self.len.load(Ordering::Acquire);
        self.list.get(at).ok_or(Errno::NFILE)?.set(branch).map_err(|_| Errno::NFILE)?;
        self.len.store(at + 1, Ordering::Release);
        Ok(at)
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Branch> {
        self.list[..self.len()].iter().filter_map(OnceLock::get)
    }

    /// The position of the branch with a number of the pool.
    pub(crate) fn with_number(&self, number: u8) -> Option<usize> {
        self.iter().position(|branch| branch.number == number)
    }
}

impl Index<usize> for Branches {
    type Output = Branch;
    fn index(&self, at: usize) -> &Branch {
        self.list[at].get().expect("positions come from this list")
    }
}

/// An open branch.
#[derive(Debug)]
pub(crate) struct Branch {
    /// Its number in the pool.
    pub(crate) number: u8,
    pub(crate) path: PathBuf,
    mode: Mutex<BranchMode>,
    labels: Mutex<Vec<Label>>,
    /// New files go elsewhere when less than this is free, bytes.
    pub(crate) min_free: u64,
    /// `None`: the branch was removed from the pool, or its disk is missing.
    root: Mutex<Option<Arc<OwnedFd>>>,
    removed: AtomicBool,
    /// Why it cannot be used now.
    failure: Mutex<Option<Failure>>,
    failed: AtomicBool,
    /// Whether the failure was noted by [`Branch::is_newly_failed`].
    failure_seen: AtomicBool,
    /// When the disk was last looked at after an error.
    pub(crate) probed: Mutex<Option<Instant>>,
    pub(crate) saved: SavedNames,
    /// Objects of striped files; opened with the first of them.
    pub(crate) striped: Mutex<Option<Arc<Store>>>,
    /// The device whose changes are noticed (`NOT_NOTICED`: none), and why none.
    noticed: AtomicU64,
    not_noticed: Mutex<Option<String>>,
    free: AtomicU64,
    /// When `free` was read.
    read: Mutex<Option<Instant>>,
}

/// A branch as `braid union status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchStatus {
    /// Its number in the pool.
    pub number: u8,
    /// Its directory.
    pub path: PathBuf,
    /// What it is used for.
    pub mode: BranchMode,
    /// Size of its file system, bytes; 0 if it cannot be read.
    pub bytes: u64,
    /// Free space for users, bytes.
    pub free: u64,
    /// New files go elsewhere when less than this is free, bytes.
    pub min_free: u64,
    /// What it is good for.
    #[serde(default)]
    pub labels: Vec<Label>,
    /// Why it cannot be used.
    pub error: Option<String>,
    /// Why direct changes on it are seen after a second only. `None`: they are noticed, or it is
    /// not in use.
    #[serde(default)]
    pub not_noticed: Option<String>,
}

impl Branch {
    /// Opens the directory. `meta`: the metadata directory of the pool.
    ///
    /// # Errors
    /// That of open(2).
    pub(crate) fn open(meta: &Path, config: &BranchConfig) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&config.path, flags, Mode::empty())?;
        let branch = Self::new(meta, config);
        branch.reopen(root);
        Ok(branch)
    }

    /// A branch whose disk is missing, and why.
    pub(crate) fn missing(meta: &Path, config: &BranchConfig, why: Failure) -> Self {
        let branch = Self::new(meta, config);
        branch.saved.load();
        branch.set_failure(Some(why));
        branch
    }

    /// Without its directory.
    pub(crate) fn new(meta: &Path, config: &BranchConfig) -> Self {
        Self {
            number: config.number,
            path: config.path.clone(),
            mode: Mutex::new(config.mode),
            labels: Mutex::new(config.labels.clone()),
            min_free: config.min_free,
            root: Mutex::default(),
            removed: AtomicBool::new(false),
            failure: Mutex::default(),
            failed: AtomicBool::new(false),
            failure_seen: AtomicBool::new(false),
            probed: Mutex::default(),
            saved: SavedNames::new(meta, config.number),
            striped: Mutex::default(),
            noticed: AtomicU64::new(NOT_NOTICED),
            not_noticed: Mutex::default(),
            free: AtomicU64::new(0),
            read: Mutex::default(),
        }
    }

    /// Its directory.
    ///
    /// # Errors
    /// `ENODEV`: the branch was removed. `EIO`: its disk has failed.
    pub(crate) fn root(&self) -> Result<Arc<OwnedFd>> {
        self.check_usable()?;
        lock(&self.root).clone().ok_or(Errno::NODEV)
    }

    /// The disk is there, possibly again.
    pub(crate) fn reopen(&self, root: OwnedFd) {
        *lock(&self.striped) = None;
        self.noticed.store(NOT_NOTICED, Ordering::Release);
        *lock(&self.not_noticed) = None;
        *lock(&self.root) = Some(Arc::new(root));
        self.space_changed();
    }

    /// The branch is not in the pool any more: its disk can be unmounted.
    pub(crate) fn close(&self) {
        self.removed.store(true, Ordering::Release);
        self.set_failure(None);
        *lock(&self.root) = None;
        *lock(&self.striped) = None;
        self.saved.remove();
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// Whether it can be used.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_removed() && !self.has_failed()
    }

    /// Whether its disk is missing or gives errors.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether it has failed since the last call.
    pub(crate) fn is_newly_failed(&self) -> bool {
        let failed = self.has_failed();
        failed && !self.failure_seen.swap(failed, Ordering::AcqRel)
    }

    /// # Errors
    /// `EIO`: its disk is missing or gives errors.
    pub(crate) fn check_usable(&self) -> Result<()> {
        if self.has_failed() { Err(Errno::IO) } else { Ok(()) }
    }

    /// `None`: the disk can be used.
    pub(crate) fn set_failure(&self, failure: Option<Failure>) {
        let mut known = lock(&self.failure);
        self.failed.store(failure.is_some(), Ordering::Release);
        self.failure_seen.fetch_and(failure.is_some(), Ordering::AcqRel);
        *known = failure;
    }

    /// Whether direct changes on its device come as events.
    pub(crate) fn is_noticed(&self) -> bool {
        self.noticed.load(Ordering::Acquire) != NOT_NOTICED && self.is_open()
    }

    /// Whether it is not known yet if they can.
    pub(crate) fn wants_notices(&self) -> bool {
        self.noticed.load(Ordering::Acquire) == NOT_NOTICED && lock(&self.not_noticed).is_none()
    }

    pub(crate) fn set_noticed(&self, (major, minor): (u32, u32)) {
        self.noticed.store(device_number(major, minor), Ordering::Release);
    }

    pub(crate) fn set_not_noticed(&self, why: String) {
        self.noticed.store(NOT_NOTICED, Ordering::Release);
        *lock(&self.not_noticed) = Some(why);
    }

    /// Whether a file is on the device whose changes are noticed.
    pub(crate) fn has_noticed(&self, stat: &Statx) -> bool {
        let device = device_number(stat.stx_dev_major, stat.stx_dev_minor);
        self.noticed.load(Ordering::Acquire) == device
    }

    pub(crate) fn mode(&self) -> BranchMode {
        *lock(&self.mode)
    }

    pub(crate) fn set_mode(&self, mode: BranchMode) {
        *lock(&self.mode) = mode;
    }

    pub(crate) fn has_label(&self, label: &Label) -> bool {
        lock(&self.labels).contains(label)
    }

    pub(crate) fn set_labels(&self, labels: Vec<Label>) {
        *lock(&self.labels) = labels;
    }

    /// Free bytes for users, at most [`SPACE_VALID`] old.
    pub(crate) fn free(&self) -> u64 {
        let mut read = lock(&self.read);
        if read.is_none_or(|then| then.elapsed() > SPACE_VALID) {
            let free = self.space().map_or(0, |space| space.f_bavail * space.f_frsize);
            self.free.store(free, Ordering::Relaxed);
            *read = Some(Instant::now());
        }
        self.free.load(Ordering::Relaxed)
    }

    /// Free bytes for users, now.
    pub(crate) fn free_now(&self) -> u64 {
        self.space_changed();
        self.free()
    }

    /// A call found less space than expected: reads it again next time.
    pub(crate) fn space_changed(&self) {
        *lock(&self.read) = None;
    }

    /// Whether files may be created here or moved to here, space or not.
    pub(crate) fn may_grow(&self) -> bool {
        self.mode() == BranchMode::Rw && self.is_open()
    }

    /// Whether new files may be placed here.
    pub(crate) fn takes_new_files(&self) -> bool {
        self.may_grow() && self.free() > self.min_free
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.mode() != BranchMode::Ro
    }

    pub(crate) fn space(&self) -> Result<StatVfs> {
        rustix::fs::fstatvfs(&*self.root()?)
    }

    pub(crate) fn status(&self) -> BranchStatus {
        let space = self.space();
        let (bytes, free) = space.as_ref().map_or((0, 0), |space| {
            (space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize)
        });
        BranchStatus {
            number: self.number,
            path: self.path.clone(),
            mode: self.mode(),
            bytes,
            free,
            min_free: self.min_free,
            labels: lock(&self.labels).clone(),
            error: lock(&self.failure).clone().or(space.err().map(|error| error.to_string())),
            not_noticed: lock(&self.not_noticed).clone(),
        }
    }
}

fn device_number(major: u32, minor: u32) -> u64 {
    u64::from(major) << 32 | u64::from(minor)
}
