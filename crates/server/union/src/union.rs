//! The union of a pool's branches.

use std::{
    collections::VecDeque,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, atomic::AtomicU64},
};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::{
    BranchStatus, NodeId, Placement, Pool, PoolError, PoolUuid, Result,
    attributes::{copy_of, stat_fd},
    branch::{Branch, Branches},
    by_inode::MoveListener,
    directory_fds::DirectoryFds,
    error::During,
    intents::{Intent, IntentLog, Step},
    kept_listings::KeptListings,
    name_changes::{NameChangeCount, NameChanges},
    node::{Copy, Node, NodeTable},
    notices::Notices,
    numbers::Numbers,
    placement::Placer,
    pool::PoolLock,
    private_files,
    quota::Quotas,
    striped::StripedFiles,
};

/// A pool that is in use. One method for each system call; any number of threads.
#[derive(Debug)]
pub struct Union {
    pub(crate) pool: PoolUuid,
    /// As it is on disk.
    pub(crate) config: Mutex<Pool>,
    pub(crate) branches: Branches,
    pub(crate) placement: Mutex<Placement>,
    /// How many times a placement changed, or a directory was renamed.
    pub(crate) placement_changes: AtomicU64,
    pub(crate) placer: Placer,
    pub(crate) nodes: NodeTable,
    pub(crate) fds: DirectoryFds,
    pub(crate) intents: IntentLog,
    /// Intents of earlier processes that need a disk which is missing.
    pub(crate) waiting_intents: Mutex<Vec<(Intent, Vec<Step>)>>,
    pub(crate) numbers: Numbers,
    pub(crate) quotas: Quotas,
    pub(crate) striped: StripedFiles,
    /// Calls that use a name, open a file or change one hold it shared. Renames and moves hold it
    /// exclusive: they may take several steps, and nobody sees half of one.
    pub(crate) renames: RwLock<()>,
    /// Directories that got an index, the oldest first.
    pub(crate) indexed: Mutex<VecDeque<NodeId>>,
    pub(crate) kept_listings: Mutex<KeptListings>,
    /// How many times a branch was asked for a name.
    pub(crate) names_asked: AtomicU64,
    /// How many times a directory's names were read.
    pub(crate) listings_read: AtomicU64,
    pub(crate) name_changes: NameChanges,
    pub(crate) notices: Notices,
    pub(crate) move_listener: MoveListener,
    /// Held while this process has the pool in use.
    lock: Option<PoolLock>,
}

/// Whether a pool is opened without some of its disks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MissingDisks {
    Refused,
    Allowed,
}

/// The space of all branches, bytes; each file system counts once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct Space {
    pub bytes: u64,
    pub free: u64,
    pub available: u64,
    pub files: u64,
    pub files_free: u64,
    pub name_len_max: u32,
}

impl Union {
    /// Opens the branches of a pool, and finishes renames that an earlier process did not.
    ///
    /// # Errors
    /// A branch is missing or another one. Nothing was changed.
    pub fn open(pool: &Pool) -> std::result::Result<Self, PoolError> {
        pool.expect_no_join()?;
        let union = Self::open_whole(pool)?;
        // A join may have begun and ended before this process had the lock.
        pool.expect_no_join()?;
        Ok(union)
    }

    pub(crate) fn open_whole(pool: &Pool) -> std::result::Result<Self, PoolError> {
        Self::open_with(pool, MissingDisks::Refused)
    }

    /// As [`Union::open`]; disks may be missing, but not all.
    ///
    /// # Errors
    /// All branches are missing, or the metadata directory cannot be read.
    pub fn open_degraded(pool: &Pool) -> std::result::Result<Self, PoolError> {
        pool.expect_no_join()?;
        Self::open_with(pool, MissingDisks::Allowed)
    }

    fn open_with(pool: &Pool, missing: MissingDisks) -> std::result::Result<Self, PoolError> {
        let mut union = Self::open_branches(pool, missing)?;
        union.striped.check_allowed()?;
        union.lock = Some(pool.lock()?);
        union.branches.iter().for_each(|branch| branch.saved.open());
        union.remove_temporary_directories();
        union.finish_intents()?;
        // After the renames: they decide which stubs have a name.
        union.settle_pending();
        union.remove_unused_copies();
        union.numbers.compact()?;
        Ok(union)
    }

    /// Opens the branches only to look at them: another process may have the pool in use.
    ///
    /// # Errors
    /// As for [`Union::open`].
    pub fn open_read_only(pool: &Pool) -> std::result::Result<Self, PoolError> {
        Self::open_branches(pool, MissingDisks::Refused)
    }

    fn open_branches(pool: &Pool, missing: MissingDisks) -> std::result::Result<Self, PoolError> {
        let branches = Branches::default();
        let mut failed = None;
        for config in &pool.config.branches {
            let opened = pool.check_identity(config).and_then(|()| {
                let opened = Branch::open(pool.meta(), config);
                opened.during(|| format!("opening {}", config.path.display()))
            });
            let branch = match opened {
                Err(why) if missing == MissingDisks::Allowed => {
                    tracing::error!(disk = %config.path.display(), %why, "a disk is missing");
                    let branch = Branch::missing(pool.meta(), config, why.to_string());
                    failed = failed.or(Some(why));
                    branch
                }
                opened => opened?,
            };
            branches.push(branch).during(|| config.path.display().to_string())?;
        }
        if let Some(why) = failed
            && branches.iter().all(Branch::has_failed)
        {
            return Err(why);
        }
        let striped = StripedFiles::new(&branches);
        let mut root = Vec::new();
        for (at, branch) in branches.iter().enumerate() {
            if branch.has_failed() {
                let saved = branch.saved.loaded().and_then(|names| names.root);
                root.push(saved.map_or(Copy::unknown(at), |saved| Copy::of(at, saved)));
                continue;
            }
            let stat = branch.root().and_then(stat_fd);
            root.push(copy_of(at, &stat.during(|| branch.path.display().to_string())?));
        }
        let path = pool.meta().join("renames");
        private_files::create_directory(&path).during(|| format!("creating {}", path.display()))?;
        Ok(Self {
            pool: pool.config.pool,
            config: Mutex::new(pool.clone()),
            branches,
            placement: Mutex::new(pool.config.placement.clone()),
            placement_changes: AtomicU64::new(0),
            placer: Placer::default(),
            nodes: NodeTable::new(root, NodeId::ROOT.0),
            fds: DirectoryFds::new(),
            intents: IntentLog::new(path),
            waiting_intents: Mutex::default(),
            numbers: Numbers::open(pool.meta())?,
            quotas: Quotas::open(pool.meta())?,
            striped,
            renames: RwLock::default(),
            indexed: Mutex::default(),
            kept_listings: Mutex::default(),
            names_asked: AtomicU64::new(0),
            listings_read: AtomicU64::new(0),
            name_changes: NameChanges::default(),
            notices: Notices::default(),
            move_listener: MoveListener::default(),
            lock: None,
        })
    }

    /// The branches and their space.
    pub fn branches(&self) -> Vec<BranchStatus> {
        self.branches.iter().filter(|branch| !branch.is_removed()).map(Branch::status).collect()
    }

    /// How many changes of names were made.
    pub fn name_changes(&self) -> NameChangeCount {
        self.name_changes.count()
    }

    /// The identity of the pool.
    pub fn pool(&self) -> PoolUuid {
        self.pool
    }

    /// How many files the kernel knows.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The sum of the branches' space.
    ///
    /// # Errors
    /// Those of statvfs(2).
    pub fn space(&self) -> Result<Space> {
        let mut seen = Vec::new();
        let mut sum = Space { name_len_max: 255, ..Space::default() };
        for branch in self.branches.iter().filter(|branch| branch.is_open()) {
            let stat = match branch.root().and_then(stat_fd) {
                Err(error) if branch.note_error(error) => continue,
                stat => stat?,
            };
            let device = (stat.stx_dev_major, stat.stx_dev_minor);
            if seen.contains(&device) {
                continue;
            }
            seen.push(device);
            let space = branch.space()?;
            sum.bytes += space.f_blocks * space.f_frsize;
            sum.free += space.f_bfree * space.f_frsize;
            sum.available += space.f_bavail * space.f_frsize;
            sum.files += space.f_files;
            sum.files_free += space.f_ffree;
            let name = u32::try_from(space.f_namemax).unwrap_or(u32::MAX);
            sum.name_len_max = sum.name_len_max.min(name);
        }
        Ok(sum)
    }

    /// Writes what the kernel holds of every branch to the disks.
    ///
    /// # Errors
    /// That of syncfs(2) of the first branch that failed; the others are synced too.
    pub fn sync_all(&self) -> Result<()> {
        let open = self.branches.iter().filter_map(|branch| branch.root().ok());
        let done: Vec<Result<()>> = open.map(rustix::fs::syncfs).collect();
        done.into_iter().collect()
    }

    /// Held by a call that uses a name, opens a file or changes one.
    pub(crate) fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.renames.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel has dropped lookups of a node.
    pub fn forget(&self, id: NodeId, lookups: u64) {
        if self.nodes.forget(id, lookups) {
            self.fds.remove_all(id, self.branches.len());
        }
    }

    pub(crate) fn check_writable(&self, branch: usize) -> Result<()> {
        if self.branches[branch].is_writable() { Ok(()) } else { Err(Errno::ROFS) }
    }

    /// The copies of a file or a directory that are not on a disk that has failed.
    ///
    /// # Errors
    /// `EIO`: all are.
    pub(crate) fn usable_copies(&self, node: &Node) -> Result<Vec<Copy>> {
        let mut copies = node.copies();
        if copies.is_empty() {
            return Err(Errno::STALE);
        }
        copies.retain(|copy| !self.branches[copy.branch].has_failed());
        if copies.is_empty() { Err(Errno::IO) } else { Ok(copies) }
    }

    /// A descriptor of `O_PATH` of the node's inode on a branch, by any of its names, by its
    /// handle, or by an open file if it has no name any more.
    ///
    /// # Errors
    /// `ESTALE`: there is no way to the inode.
    pub(crate) fn reference(&self, node: &Node, branch: usize) -> Result<Arc<OwnedFd>> {
        if node.is_directory {
            return self.directory_fd(node, branch);
        }
        let copy = node.copy_on(branch).ok_or(Errno::STALE)?;
        self.branches[branch].check_usable()?;
        let (names, open) = {
            let state = node.state();
            (state.names.clone(), state.open.first().cloned())
        };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for name in names {
            let Ok(directory) = self.nodes.get(name.directory) else { continue };
            let Ok(directory) = self.directory_fd(&directory, branch) else { continue };
            let Ok(fd) = rustix::fs::openat(&*directory, &*name.name, flags, Mode::empty()) else {
                continue;
            };
            if copy_of(branch, &stat_fd(&fd)?) == copy {
                return Ok(Arc::new(fd));
            }
        }
        if let Ok(fd) = self.by_handle(node, copy) {
            return Ok(Arc::new(fd));
        }
        let open = open.ok_or(Errno::STALE)?;
        Ok(open.fd())
    }
}
