//! Moves of many files: `drain` and `balance`, and the [`Mover`] that all of them use.

use std::{ops::ControlFlow, sync::PoisonError, time::Duration};

use rustix::fs::{AtFlags, Statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{
    NotMoved,
    links::Links,
    split,
    switch::{Prepared, Source},
};
use crate::{
    NodeId, Result, Union,
    lookup::is_directory,
    place::{stat_path, unlink_path},
};

/// Files that are moved together cost one sync of the disk: at most this many, and this many bytes.
const BATCH_FILES: usize = 64;
const BATCH_BYTES: u64 = 32 << 20;
/// Reasons that a report has.
const REASONS_MAX: usize = 100;
/// After this time a file that was changed a moment ago is tried again.
const AGAIN: Duration = Duration::from_millis(50);
const TRIES: usize = 3;

/// What was moved so far.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MoveReport {
    /// Files that were moved.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that stay.
    pub stayed: u64,
    /// The first of them, with the reasons.
    pub reasons: Vec<(String, String)>,
}

/// Is called after each group of files; the moves end early if it breaks.
pub type Progress<'p> = &'p mut dyn FnMut(&MoveReport) -> ControlFlow<()>;

/// Moves that are in progress.
pub(super) struct Mover<'u, 'p> {
    union: &'u Union,
    report: MoveReport,
    progress: Progress<'p>,
    pub(super) links: Links,
    batch: Vec<Prepared>,
    target: usize,
    /// Files that were in use or had just changed, with the reason.
    again: Vec<(usize, Vec<u8>, NotMoved)>,
}

/// Which branches take the file: best first.
pub(super) type Targets<'t> = &'t dyn Fn(&Union, &[u8], &Statx) -> Vec<usize>;

impl<'u, 'p> Mover<'u, 'p> {
    pub(super) fn new(union: &'u Union, progress: Progress<'p>) -> Self {
        Self {
            union,
            report: MoveReport::default(),
            progress,
            links: Links::default(),
            batch: Vec::new(),
            target: 0,
            again: Vec::new(),
        }
    }

    /// Copies a file to the first branch that can take it; the batch is switched when it is full.
    pub(super) fn add(
        &mut self,
        branch: usize,
        path: &[u8],
        stat: &Statx,
        targets: Targets<'_>,
    ) -> ControlFlow<()> {
        if stat.stx_nlink > 1 && self.batch.iter().any(|one| one.is_inode(branch, stat.stx_ino)) {
            // Another name of a file of the batch.
            return ControlFlow::Continue(());
        }
        let names = match self.union.all_names(branch, path.to_vec(), stat, &self.links) {
            Ok(names) => names,
            Err(why) => return self.stays(branch, path, &why),
        };
        let mut why = NotMoved::NoSpace;
        for target in targets(self.union, path, stat) {
            let names = names.clone();
            let source = Source { branch, stat: *stat, names, with_open: false };
            if target != self.target {
                self.flush()?;
                self.target = target;
            }
            match self.union.prepare(source, target) {
                Ok(prepared) => {
                    self.batch.push(prepared);
                    let bytes: u64 = self.batch.iter().map(Prepared::bytes).sum();
                    if self.batch.len() >= BATCH_FILES || bytes >= BATCH_BYTES {
                        return self.flush();
                    }
                    return ControlFlow::Continue(());
                }
                Err(error) => why = error,
            }
            if matches!(why, NotMoved::Open | NotMoved::Changed | NotMoved::Striped) {
                break;
            }
        }
        self.stays(branch, path, &why)
    }

    pub(super) fn flush(&mut self) -> ControlFlow<()> {
        if self.batch.is_empty() {
            return ControlFlow::Continue(());
        }
        for (prepared, done) in self.union.switch(std::mem::take(&mut self.batch)) {
            match done {
                Ok(()) => {
                    self.report.files += 1;
                    self.report.bytes += prepared.bytes();
                }
                Err(why) => {
                    let (branch, name) = (prepared.branch(), prepared.name().to_vec());
                    self.stays(branch, &name, &why)?;
                }
            }
        }
        (self.progress)(&self.report)
    }

    pub(super) fn stays(&mut self, branch: usize, path: &[u8], why: &NotMoved) -> ControlFlow<()> {
        if matches!(why, NotMoved::Open | NotMoved::Changed) && self.again.len() < 1 << 20 {
            self.again.push((branch, path.to_vec(), why.clone()));
            return ControlFlow::Continue(());
        }
        self.report.stayed += 1;
        if self.report.reasons.len() < REASONS_MAX {
            let path = String::from_utf8_lossy(path).into_owned();
            self.report.reasons.push((path, why.to_string()));
        }
        ControlFlow::Continue(())
    }

    /// What a walk over a branch could not read stays.
    pub(super) fn walked(
        &mut self,
        branch: usize,
        walked: Result<ControlFlow<()>>,
    ) -> ControlFlow<()> {
        let Err(error) = walked else { return walked.unwrap_or(ControlFlow::Continue(())) };
        self.report.stayed += 1;
        if self.report.reasons.len() < REASONS_MAX {
            let disk = self.union.branches[branch].path.display();
            let why = format!("some of it cannot be read: {error}");
            self.report.reasons.push((disk.to_string(), why));
        }
        ControlFlow::Continue(())
    }

    /// Tries again what was in use, and returns the report.
    pub(super) fn finish(mut self, targets: Targets<'_>) -> MoveReport {
        let _ = self.flush();
        for attempt in 1..=TRIES {
            if self.again.is_empty() {
                break;
            }
            std::thread::sleep(AGAIN);
            for (branch, path, _) in std::mem::take(&mut self.again) {
                let found =
                    self.union.branches[branch].root().and_then(|root| stat_path(&root, &path));
                // It may have been removed meanwhile.
                let Ok(stat) = found else { continue };
                if self.add(branch, &path, &stat, targets).is_break() {
                    return self.report;
                }
            }
            if self.flush().is_break() {
                break;
            }
            if attempt == TRIES {
                for (_, path, why) in std::mem::take(&mut self.again) {
                    self.report.stayed += 1;
                    let path = String::from_utf8_lossy(&path).into_owned();
                    if self.report.reasons.len() < REASONS_MAX {
                        self.report.reasons.push((path, why.to_string()));
                    }
                }
            }
        }
        self.report
    }
}

impl Union {
    /// Moves all files of a branch to the others, by the placement of the pool, or to the one that
    /// is named. The branch gets no new files meanwhile, if that is its mode
    /// ([`BranchMode::Nc`](crate::BranchMode)).
    ///
    /// # Errors
    /// The branch cannot be read. Files that stay are in the report.
    pub fn drain(&self, number: u8, to: Option<u8>, progress: Progress<'_>) -> Result<MoveReport> {
        let position = |number| self.branches.with_number(number).ok_or(Errno::NODEV);
        let (branch, to) = (position(number)?, to.map(position).transpose()?);
        let targets = |union: &Union, path: &[u8], stat: &Statx| {
            let mut targets = union.targets(Some(branch), path, stat, 0);
            targets.retain(|at| to.is_none_or(|to| *at == to));
            targets
        };
        let mut mover = Mover::new(self, progress);
        let mut directories = Vec::new();
        let walked = self.walk_branch(branch, b"", &mut |path, stat| {
            if is_directory(stat) {
                directories.push(path.to_vec());
                return ControlFlow::Continue(());
            }
            mover.add(branch, path, stat, &targets)
        });
        let _ = mover.walked(branch, walked);
        let mut report = mover.finish(&targets);
        for path in directories.iter().rev() {
            if let Err(why) = self.retire_directory(branch, path)
                && why != Errno::NOTEMPTY
            {
                report.stayed += 1;
                let path = String::from_utf8_lossy(path).into_owned();
                if report.reasons.len() < REASONS_MAX {
                    report.reasons.push((path, why.to_string()));
                }
            }
        }
        Ok(report)
    }

    /// Moves files from the fullest branch to the emptiest one, until the shares of space in use
    /// differ by at most `percent`.
    ///
    /// # Errors
    /// A branch cannot be read. Files that stay are in the report.
    pub fn balance(&self, percent: u8, progress: Progress<'_>) -> Result<MoveReport> {
        let mut sum = MoveReport::default();
        let mut done: Vec<usize> = Vec::new();
        while let Some((full, empty)) = self.most_different(percent, &done)? {
            let before = sum.clone();
            let mut stopped = false;
            let mut shown = |report: &MoveReport| {
                let mut so_far = before.clone();
                so_far.add(report);
                let goes_on = progress(&so_far);
                stopped |= goes_on.is_break();
                let (from, to) = (self.share_used(full), self.share_used(empty));
                if goes_on.is_break() || from - to <= f64::from(percent) {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            };
            let targets = |union: &Union, path: &[u8], stat: &Statx| {
                let target = &union.branches[empty];
                let fits = target.free() > target.min_free.saturating_add(stat.stx_blocks * 512);
                if fits && union.is_placed(empty, path) { vec![empty] } else { Vec::new() }
            };
            let mut mover = Mover::new(self, &mut shown);
            let walked = self.walk_branch(full, b"", &mut |path, stat| {
                if is_directory(stat) || stat.stx_blocks == 0 {
                    return ControlFlow::Continue(());
                }
                mover.add(full, path, stat, &targets)
            });
            let walked = mover.walked(full, walked);
            let report = mover.finish(&targets);
            sum.add(&report);
            if stopped {
                break;
            }
            if walked.is_continue() {
                // All of its files were tried: no other walk would move more.
                done.push(full);
            }
        }
        Ok(sum)
    }

    /// The fullest and the emptiest of the branches that take files, if they differ by more.
    fn most_different(&self, percent: u8, done: &[usize]) -> Result<Option<(usize, usize)>> {
        let takes: Vec<usize> =
            (0..self.branches.len()).filter(|at| self.branches[*at].may_grow()).collect();
        let order =
            |one: &usize, other: &usize| self.share_used(*one).total_cmp(&self.share_used(*other));
        let fullest = takes.iter().filter(|at| !done.contains(at)).max_by(|a, b| order(a, b));
        let emptiest = takes.iter().min_by(|a, b| order(a, b));
        let (Some(&full), Some(&empty)) = (fullest, emptiest) else { return Ok(None) };
        let device = |at: usize| -> Result<(u32, u32)> {
            let stat = crate::attributes::stat_fd(self.branches[at].root()?)?;
            Ok((stat.stx_dev_major, stat.stx_dev_minor))
        };
        let differ = self.share_used(full) - self.share_used(empty) > f64::from(percent);
        // Two branches on one file system have the same space.
        let found = full != empty && differ && device(full)? != device(empty)?;
        Ok(found.then_some((full, empty)))
    }

    /// Percent of a branch's space that is in use.
    fn share_used(&self, branch: usize) -> f64 {
        self.branches[branch].space().map_or(0.0, |space| {
            let (blocks, free) = (space.f_blocks as f64, space.f_bavail as f64);
            if blocks == 0.0 { 0.0 } else { 100.0 * (blocks - free) / blocks }
        })
    }

    /// The branches for a file that leaves its own (`from`), and will have `more` bytes.
    pub(super) fn targets(
        &self,
        from: Option<usize>,
        path: &[u8],
        stat: &Statx,
        more: u64,
    ) -> Vec<usize> {
        let walked = self.walk(split(path).0).ok();
        let parent = walked.as_ref().and_then(|parent| self.nodes.get(parent.last()).ok());
        let has = |at| parent.as_ref().is_some_and(|parent| parent.copy_on(at).is_some());
        let placement = parent.as_ref().and_then(|parent| self.placement_of(parent).ok());
        let Some(placement) = placement else { return Vec::new() };
        let mut order = self.placer.order(&placement, &self.branches, stat.stx_uid, has);
        order.retain(|at| {
            let branch = &self.branches[*at];
            let needed = branch.min_free.saturating_add(stat.stx_blocks * 512).saturating_add(more);
            Some(*at) != from && branch.free() > needed
        });
        order
    }

    /// Takes an empty directory from a branch that is drained; it stays on the others.
    fn retire_directory(&self, branch: usize, path: &[u8]) -> Result<()> {
        let walked = self.walk(path)?;
        let node = self.nodes.get(walked.last())?;
        if node.id == NodeId::ROOT || !self.is_empty_on(node.id, branch)? {
            return Err(Errno::NOTEMPTY);
        }
        let elsewhere = |node: &crate::node::Node| node.copies().iter().any(|c| c.branch != branch);
        if !elsewhere(&node) {
            let stat = crate::attributes::stat_fd(self.directory_fd(&node, branch)?)?;
            let targets = self.targets(Some(branch), path, &stat, 0);
            let target = *targets.first().ok_or(Errno::NOSPC)?;
            let _shared = self.shared();
            self.ensure_directory(&node, target)?;
        }
        let _alone = self.renames.write().unwrap_or_else(PoisonError::into_inner);
        if !elsewhere(&node) {
            return Err(Errno::NOTEMPTY);
        }
        let root = self.branches[branch].root()?;
        unlink_path(&root, path, AtFlags::REMOVEDIR)?;
        self.save_path(branch, path, None);
        self.nodes.remove_copy(&node, branch);
        self.fds.remove(node.id, branch);
        Ok(())
    }
}

impl MoveReport {
    fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.stayed += other.stayed;
        let room = REASONS_MAX.saturating_sub(self.reasons.len());
        self.reasons.extend(other.reasons.iter().take(room).cloned());
    }
}
