//! A union grows into a cluster (docs/adr/0050): the plain files of its disks become objects of the
//! I/O daemons on these disks, by one more name of the same inode. No byte is copied.
//!
//! ```text
//!   plain file          objects/…            metadata server      what a reader finds
//!   DISK/a/b            -                    -                    the file, at DISK/a/b
//!   DISK/a/b, record    -                    index reserved       the same
//!   DISK/a/b            DISK/…/objects/F     index reserved       the same
//!      ── the disk is synced ──
//!   DISK/a/b            DISK/…/objects/F     a/b is file F        the same, and a/b in the cluster
//!      ── the log of the metadata server is synced ──
//!   -                   DISK/…/objects/F     a/b is file F        a/b in the cluster
//! ```
//!
//! 1. At every moment, a file is at its path on its disk, or in the cluster, or both: then both are
//!    one inode.
//! 2. The name in the cluster is made after its object is durable, and the name on the disk is
//!    removed after the name in the cluster is.
//! 3. What was begun is recognised by the record of the file and the inode of the object: a file
//!    whose record names an object that is another inode was not begun. So a user who writes a
//!    record does not get at the object of another.
//! 4. What cannot join stays on its disk as it is, and is reported.
//!
//! `step` is called before each change: tests stop there, which leaves what a kill leaves.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod batch;
mod disk;
mod error;
mod links;
mod metadata;
mod report;
mod seal;
mod tree;

use std::{collections::HashSet, ops::ControlFlow};

use braid_types::FileIndex;
use braid_union::{JoinState, Pool, Union, on_branch};
use braid_wire::message::import::{ImportEntry, ImportedEntry};

pub use disk::{Disk, OBJECTS_DIRECTORY};
pub use error::JoinError;
pub use report::{JoinReport, Left};

use batch::Batch;
use links::LinkedFiles;
use tree::{Directory, Listing, Shown};

/// Directories that are imported by one call.
const DIRECTORIES_MAX: usize = 256;

/// The metadata server, as far as a join needs it. Errors are texts, as a user reads them.
pub trait Cluster {
    /// Reserves indexes of files: this many, from the returned one on.
    ///
    /// # Errors
    /// The server is not reached.
    fn reserve_files(&self, count: u32) -> Result<FileIndex, String>;

    /// Makes files of the cluster. Returns the outcome of each entry, in order.
    ///
    /// # Errors
    /// The server is not reached, or refuses the call as a whole.
    fn import(&self, entries: Vec<ImportEntry>) -> Result<Vec<ImportedEntry>, String>;

    /// Whether there is a file with this index.
    ///
    /// # Errors
    /// The server is not reached.
    fn exists(&self, file: FileIndex) -> Result<bool, String>;

    /// Gives a directory of the cluster the attributes of the union's root.
    ///
    /// # Errors
    /// As for [`Cluster::import`].
    fn set_attributes(&self, directory: FileIndex, like: &ImportEntry) -> Result<(), String>;
}

/// What a join does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinOptions {
    /// The cluster, as the pool records it.
    pub cluster: String,
    /// The path of the directory that gets the files.
    pub to: String,
    /// Its index.
    pub directory: FileIndex,
    /// Change nothing; find what would join, and what not.
    pub dry_run: bool,
    /// End the union although something was left.
    pub leave: bool,
}

/// A join in progress. The pool is locked as long as it exists.
pub struct Join<'j> {
    disks: &'j [Disk],
    cluster: &'j dyn Cluster,
    options: JoinOptions,
    /// Called before each change. A break stops as a kill does.
    step: &'j mut dyn FnMut(&JoinReport) -> ControlFlow<()>,
    report: JoinReport,
    linked: Option<LinkedFiles>,
    /// Files that a dry run has counted.
    counted: HashSet<(usize, u64)>,
    reserved: std::ops::Range<u64>,
    batch: Batch,
    /// Directories that were imported, each after the one that it is in.
    visited: Vec<Directory>,
}

/// Joins a pool to a cluster, or goes on with that. `step` is called often; a break stops it.
///
/// # Errors
/// See [`JoinError`]. The same call goes on.
pub fn join(
    pool: &Pool,
    disks: &[Disk],
    cluster: &dyn Cluster,
    options: JoinOptions,
    step: &mut dyn FnMut(&JoinReport) -> ControlFlow<()>,
) -> Result<JoinReport, JoinError> {
    let begun = pool.join_state()?;
    if let Some(state) = &begun {
        expect_same(state, &options, pool)?;
        if state.finished {
            pool.end_join()?;
            return Ok(JoinReport { finished: true, ..JoinReport::default() });
        }
    }
    // Locks the pool, and finishes renames and moves.
    let _locked = Union::open_to_join(pool)?;
    let mut join = Join {
        disks,
        cluster,
        options,
        step,
        report: JoinReport::default(),
        linked: None,
        counted: HashSet::new(),
        reserved: 0..0,
        batch: Batch::new(),
        visited: Vec::new(),
    };
    if !join.options.dry_run {
        join.begin(pool, begun.is_some())?;
    }
    join.run()?;
    if !join.options.dry_run {
        join.end(pool)?;
    }
    Ok(join.report)
}

fn expect_same(state: &JoinState, options: &JoinOptions, pool: &Pool) -> Result<(), JoinError> {
    let meta = pool.meta().to_owned();
    if state.cluster != options.cluster {
        return Err(JoinError::OtherCluster { meta, cluster: state.cluster.clone() });
    }
    if state.directory != options.directory.0 {
        return Err(JoinError::OtherTarget { meta, to: state.to.clone() });
    }
    Ok(())
}

impl Join<'_> {
    fn begin(&mut self, pool: &Pool, again: bool) -> Result<(), JoinError> {
        if again {
            return self.disks.iter().try_for_each(seal::seal_all);
        }
        self.step()?;
        let root = metadata::of_root(&self.disks[0]).map_err(JoinError::io("reading the root"))?;
        self.cluster.set_attributes(self.options.directory, &root).map_err(JoinError::Cluster)?;
        self.step()?;
        let JoinOptions { cluster, to, directory, .. } = self.options.clone();
        Ok(pool.set_join_state(&JoinState::new(cluster, to, directory.0))?)
    }

    /// Imports level by level: a directory before what is in it.
    fn run(&mut self) -> Result<(), JoinError> {
        let on = (0..self.disks.len()).collect();
        let mut level = vec![Directory { path: Vec::new(), file: self.options.directory, on }];
        while !level.is_empty() {
            let mut found = Vec::new();
            for directory in &level {
                self.add_directory(directory, &mut found)?;
            }
            self.visited.append(&mut level);
            level = self.import_directories(found)?;
        }
        self.flush()
    }

    /// Adds the files of a directory to the batch. Returns its directories.
    fn add_directory(
        &mut self,
        directory: &Directory,
        found: &mut Vec<(Directory, ImportEntry)>,
    ) -> Result<(), JoinError> {
        let Listing { shown, mut left } = tree::list(self.disks, directory);
        self.report.left.append(&mut left);
        for Shown { name, disk, stat, on } in shown {
            let path = on_branch::join(&directory.path, &name);
            if !self.disks[disk].is_here(&stat) {
                self.report.leave(&self.disks[disk], path, "another file system is mounted there");
            } else if on_branch::is_directory(&stat) {
                let below = Directory { path, file: FileIndex(0), on };
                match metadata::of_directory(&self.disks[disk], &below.path) {
                    Ok(mut entry) => {
                        (entry.dir, entry.name) = (directory.file, name);
                        found.push((below, entry));
                    }
                    Err(error) => self.report.leave(&self.disks[disk], below.path, error),
                }
            } else {
                self.add_file(directory, disk, name, path)?;
            }
        }
        Ok(())
    }

    /// Imports directories, and returns those of which the contents can be imported.
    fn import_directories(
        &mut self,
        found: Vec<(Directory, ImportEntry)>,
    ) -> Result<Vec<Directory>, JoinError> {
        let mut imported = Vec::with_capacity(found.len());
        if self.options.dry_run {
            self.report.directories += found.len() as u64;
            return Ok(found.into_iter().map(|(directory, _)| directory).collect());
        }
        for some in batch::split(found, DIRECTORIES_MAX, |(_, entry)| entry) {
            let (directories, entries): (Vec<_>, Vec<_>) = some.into_iter().unzip();
            self.step()?;
            let outcomes = self.cluster.import(entries).map_err(JoinError::Cluster)?;
            for (mut directory, outcome) in directories.into_iter().zip(outcomes) {
                match outcome.failure {
                    None => {
                        directory.file = outcome.file;
                        self.report.directories += 1;
                        imported.push(directory);
                    }
                    Some(why) => {
                        let disk = &self.disks[directory.on[0]];
                        self.report.leave(disk, directory.path, batch::reason(&why));
                    }
                }
            }
        }
        Ok(imported)
    }

    /// Removes the empty directories, and ends the union if nothing is left.
    fn end(&mut self, pool: &Pool) -> Result<(), JoinError> {
        for directory in self.visited.iter().skip(1).rev() {
            for disk in &directory.on {
                // What was left is in it, or somebody uses it.
                let _ = self.disks[*disk].remove_directory(&directory.path);
            }
        }
        for disk in self.disks {
            disk.sync()?;
        }
        if !self.report.left.is_empty() && !self.options.leave {
            return Ok(());
        }
        self.step()?;
        if let Some(mut state) = pool.join_state()? {
            state.finished = true;
            pool.set_join_state(&state)?;
        }
        self.step()?;
        pool.remove_marks()?;
        self.report.finished = true;
        Ok(())
    }

    fn step(&mut self) -> Result<(), JoinError> {
        match (self.step)(&self.report) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(JoinError::Stopped),
        }
    }

    /// An index that no file has.
    fn next_index(&mut self) -> Result<FileIndex, JoinError> {
        if self.reserved.is_empty() {
            let count = braid_types::limits::RESERVED_FILES_MAX;
            let first = self.cluster.reserve_files(count).map_err(JoinError::Cluster)?.0;
            self.reserved = first..first + u64::from(count);
        }
        self.reserved.next().map(FileIndex).ok_or(JoinError::Stopped)
    }
}
