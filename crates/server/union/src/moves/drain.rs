//! `drain` and `balance`.

use std::{ops::ControlFlow, sync::PoisonError};

use rustix::fs::{AtFlags, Statx};
use rustix::io::Errno;

use super::{
    MoveReport, Progress,
    mover::{Mover, REASONS_MAX},
    split,
};
use crate::{NodeId, Result, Union, lookup::is_directory, place::unlink_path};

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
