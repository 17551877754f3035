//! Disks that fail or are missing (docs/adr/0048).
//!
//! 1. A disk has failed when a call on a directory gives an error of the device, and a look at the
//!    root of the branch gives one too. From then on it is not asked: a dying disk takes minutes to
//!    answer.
//! 2. While it is failed, its saved names ([`crate::saved_names`]) say which names are on it: they
//!    are listed, and calls on them give `EIO`. Other names of the same directories are used as if
//!    the disk had none: files are created on other disks.
//! 3. It is used again, without a restart, when the directory of the branch has its identity and
//!    can be read and written.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::{
    BRANCH_FILE, NodeId, PoolError, Result, Union,
    attributes::{copy_of, stat_at, stat_fd},
    branch::Branch,
    error::During,
    node::{Copy, Node, lock},
    place::open_directory,
    remove::{RESERVED_PREFIX, TEMPORARY_PREFIX},
    saved_names::{Change, Inode, Saved, SavedFile},
};

/// How often a failed disk is looked at.
const LOOK: Duration = Duration::from_secs(2);
/// How often the names of all branches are saved again: direct changes are in them after this time.
const SAVE: Duration = Duration::from_secs(24 * 60 * 60);
/// The same after an error.
const TRY_AGAIN: Duration = Duration::from_secs(10 * 60);
/// A disk that answers, but not for some directories, is looked at this often.
const PROBE: Duration = Duration::from_secs(1);
/// Directories may be renamed while they are read: then they are read again, so often.
const WALKS: usize = 3;

/// Why a branch cannot be used.
pub(crate) type Failure = String;

/// Whether an error says that the device is at fault, and not the call.
pub(crate) fn is_disk_error(error: Errno) -> bool {
    matches!(
        error,
        Errno::IO
            | Errno::NODEV
            | Errno::NXIO
            | Errno::SHUTDOWN
            | Errno::UCLEAN
            | Errno::NOMEDIUM
            | Errno::NOTCONN
            | Errno::HOSTDOWN
            | Errno::TIMEDOUT
    )
}

/// A branch that can be used answers without an error of its device.
fn probe(root: &OwnedFd, writable: bool) -> Result<()> {
    let faults = |error: &Errno| is_disk_error(*error);
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Dir::read_from(rustix::fs::openat(root, c".", directory, Mode::empty())?)?
        .next()
        .transpose()?;
    // Without the kernel's cache: the device must answer.
    let direct = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::openat(root, BRANCH_FILE, direct, Mode::empty()) {
        let mut bytes = vec![0_u8; 2 * 4096];
        let aligned = bytes.as_ptr().align_offset(4096);
        let read = rustix::io::pread(&file, &mut bytes[aligned..aligned + 4096], 0);
        if let Some(error) = read.err().filter(faults) {
            return Err(error);
        }
    }
    if writable {
        let name = format!("{TEMPORARY_PREFIX}probe-{}", std::process::id());
        let made = rustix::fs::mkdirat(root, &name, Mode::RWXU);
        let _ = rustix::fs::unlinkat(root, &name, AtFlags::REMOVEDIR);
        // A full or read-only disk still has its files.
        if let Some(error) = made.err().filter(faults) {
            return Err(error);
        }
    }
    Ok(())
}

impl Branch {
    /// An error of a call on a directory. Whether the disk is not used from now on.
    pub(crate) fn note_error(&self, error: Errno) -> bool {
        if !is_disk_error(error) {
            return false;
        }
        let mut probed = lock(&self.probed);
        if self.has_failed() {
            return true;
        }
        if probed.is_some_and(|when| when.elapsed() < PROBE) {
            return false;
        }
        *probed = Some(Instant::now());
        let found = self.root().and_then(|root| probe(&root, self.is_writable()));
        let disk = self.path.display();
        match found {
            Err(Errno::NODEV) if self.is_removed() => false,
            Ok(()) => {
                tracing::warn!(%disk, %error, "a call gave an error; the disk answers otherwise");
                false
            }
            Err(error) => {
                let known = self.saved.load().is_complete();
                tracing::error!(
                    %disk, %error, names_are_known = known,
                    "a disk has failed: its files give errors, all others go on"
                );
                self.set_failure(Some(error.to_string()));
                true
            }
        }
    }
}

impl Union {
    /// What is known of a name on a branch that gave an error.
    pub(crate) fn saved(&self, directory: Copy, name: &[u8]) -> Saved {
        let branch = &self.branches[directory.branch];
        let loaded = if branch.has_failed() { branch.saved.loaded() } else { None };
        loaded.map_or(Saved::Unknown, |names| names.get(directory.into(), name))
    }

    /// The branch has a name from now on. `directory` is on it.
    pub(crate) fn save_added(&self, directory: &Node, name: &[u8], branch: usize, file: SavedFile) {
        directory.names.note_changed();
        if let Some(copy) = directory.copy_on(branch) {
            self.branches[branch].saved.note(Change::Added(copy.into(), name, file));
        }
    }

    /// The branch has a name no more.
    pub(crate) fn save_removed(&self, directory: &Node, name: &[u8], branch: usize) {
        directory.names.note_changed();
        if let Some(copy) = directory.copy_on(branch) {
            self.branches[branch].saved.note(Change::Removed(copy.into(), name));
        }
    }

    /// As [`Union::save_added`] and, without a file, [`Union::save_removed`], by a path relative to
    /// the root of the branch.
    pub(crate) fn save_path(&self, branch: usize, path: &[u8], file: Option<SavedFile>) {
        let (directory, name) = crate::moves::split(path);
        let directory = if directory.is_empty() { b"." } else { directory };
        let saved = &self.branches[branch].saved;
        let found = self.branches[branch].root().and_then(|root| stat_at(&*root, directory));
        if let Ok(stat) = found {
            if let Some(node) = self.nodes.at_inode(branch, stat.stx_ino) {
                node.names.note_changed();
            }
            let directory = Inode::from(&stat);
            saved.note(match file {
                Some(file) => Change::Added(directory, name, file),
                None => Change::Removed(directory, name),
            });
        }
    }

    /// Saves the names of all branches. Ends early when `stopped`.
    ///
    /// # Errors
    /// The metadata directory cannot be written: the names that were saved earlier stay.
    pub fn save_names(&self, stopped: &dyn Fn() -> bool) -> std::result::Result<(), PoolError> {
        self.branches.iter().for_each(|branch| branch.saved.set_due(Duration::ZERO));
        self.save_due_names(stopped)
    }

    /// As [`Union::save_names`], of the branches that are new, or back, or whose names were saved a
    /// day ago.
    fn save_due_names(&self, stopped: &dyn Fn() -> bool) -> std::result::Result<(), PoolError> {
        let mut saved = Ok(());
        for branch in self.branches.iter() {
            if !branch.is_open() || !branch.saved.is_due() || stopped() {
                continue;
            }
            let done = save_branch(branch, stopped);
            branch.saved.set_due(if done.is_ok() { SAVE } else { TRY_AGAIN });
            if done.is_err() {
                branch.saved.give_up();
            }
            saved = saved.and(done);
        }
        saved
    }

    /// Uses the disks again that are back.
    pub fn look_at_failed_disks(&self) {
        if self.branches.iter().any(Branch::is_newly_failed) {
            // The kernel must not answer for a disk that gives errors.
            self.notices.everything_changed();
        }
        for at in (0..self.branches.len()).filter(|at| self.branches[*at].has_failed()) {
            let disk = self.branches[at].path.display();
            match self.use_again(at) {
                Ok(()) => tracing::info!(%disk, "a disk is back"),
                Err(why) => self.branches[at].set_failure(Some(why)),
            }
        }
    }

    fn use_again(&self, at: usize) -> std::result::Result<(), Failure> {
        let branch = &self.branches[at];
        {
            let pool = lock(&self.config);
            let config = pool.config.branches.iter().find(|one| one.number == branch.number);
            pool.check_identity(config.ok_or("it was removed")?).map_err(|why| why.to_string())?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&branch.path, flags, Mode::empty()).and_then(|root| {
            probe(&root, branch.is_writable())?;
            Ok((copy_of(at, &stat_fd(&root)?), root))
        });
        let (copy, root) = opened.map_err(|error| error.to_string())?;
        {
            let _alone = self.renames.write().unwrap_or_else(PoisonError::into_inner);
            self.fds.remove_branch(at);
            let node = self.nodes.get(NodeId::ROOT).map_err(|error| error.to_string())?;
            if node.copy_on(at) != Some(copy) {
                // Not the file system that it was: none of the inodes is known.
                self.nodes.remove_branch(at);
                self.nodes.add_copy(&node, copy);
            }
            branch.reopen(root);
            self.striped.may_have(branch);
            branch.set_failure(None);
            branch.saved.set_due(Duration::ZERO);
            node.names.note_added();
        }
        self.notices.everything_changed();
        self.finish_waiting_intents();
        branch.saved.unload();
        Ok(())
    }
}

fn save_branch(branch: &Branch, stopped: &dyn Fn() -> bool) -> std::result::Result<(), PoolError> {
    let what = || format!("saving the names of {}", branch.path.display());
    for _ in 0..WALKS {
        branch.saved.begin().during(what)?;
        let gone = walk(branch, stopped).inspect_err(|error| _ = branch.note_error(*error));
        if !gone.during(what)? {
            break;
        }
        // Directories were renamed meanwhile, or removed: the last time, the latter is assumed.
    }
    if stopped() {
        branch.saved.give_up();
        return Ok(());
    }
    branch.saved.end().during(what)
}

/// Writes all names of a branch. Returns whether a directory was gone when it was to be read.
fn walk(branch: &Branch, stopped: &dyn Fn() -> bool) -> Result<bool> {
    let root = branch.root()?;
    let mut left: Vec<Vec<u8>> = vec![Vec::new()];
    let mut gone = false;
    while let Some(path) = left.pop() {
        if stopped() {
            break;
        }
        let begun = Instant::now();
        let fd = match open_directory(&root, &path) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !path.is_empty() => {
                gone = true;
                continue;
            }
            fd => fd?,
        };
        let directory = Inode::from(&stat_fd(&fd)?);
        let names = read_names(&fd, path.is_empty())?;
        let mut found = Vec::with_capacity(names.len() + 1);
        if path.is_empty() {
            found.push(Change::Root(directory));
        }
        found.extend(names.iter().map(|(name, file)| Change::Added(directory, name, *file)));
        if !branch.saved.found(&found) {
            return Err(Errno::NOSPC);
        }
        for (name, _) in names.iter().filter(|(_, file)| file.is_directory()) {
            let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
            left.push([&path, slash, name].concat());
        }
        // Programs that wait for the disk come first.
        std::thread::sleep(begun.elapsed());
    }
    Ok(gone)
}

fn read_names(fd: &OwnedFd, is_root: bool) -> Result<Vec<(Vec<u8>, SavedFile)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." || is_root && name.starts_with(RESERVED_PREFIX) {
            continue;
        }
        let file = match entry.file_type() {
            FileType::Directory | FileType::Unknown => match stat_at(fd, name) {
                Ok(stat) => SavedFile::from(&stat),
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error),
            },
            kind => {
                let inode = Inode { number: entry.ino(), ..Inode::default() };
                SavedFile { inode, kind: crate::listing::kind(kind) }
            }
        };
        names.push((name.to_vec(), file));
    }
    Ok(names)
}

/// Looks after the disks of a union in the background, until it is dropped.
#[derive(Debug)]
pub struct DiskKeeper {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn is_set(&self) -> bool {
        *lock(&self.stopped)
    }

    /// Waits, and says whether to go on.
    fn wait(&self, time: Duration) -> bool {
        let stopped = lock(&self.stopped);
        let waited = self.changed.wait_timeout_while(stopped, time, |stopped| !*stopped);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl DiskKeeper {
    /// Saves the names of the branches now and once a day, counts files for quotas as often, and
    /// uses disks again that are back.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(union: Arc<Union>) -> std::io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let ends = Arc::clone(&stop);
        let thread =
            std::thread::Builder::new().name("union-disks".to_owned()).spawn(move || {
                loop {
                    if let Err(error) = union.save_due_names(&|| ends.is_set()) {
                        tracing::warn!(%error, "the names of a disk will not be known without it");
                    }
                    match union.count_if_due(&|| ends.is_set()) {
                        Ok(()) | Err(Errno::CANCELED) => {}
                        Err(error) => tracing::warn!(%error, "files could not be counted"),
                    }
                    if !ends.wait(LOOK) {
                        return;
                    }
                    union.look_at_failed_disks();
                }
            })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for DiskKeeper {
    fn drop(&mut self) {
        *lock(&self.stop.stopped) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
