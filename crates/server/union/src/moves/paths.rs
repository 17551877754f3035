//! Moves of a file, or of all files below a directory: `move` and `enforce`.

use std::{
    ops::ControlFlow,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::fs::Statx;
use rustix::io::Errno;

use super::{
    MoveReport, NotMoved, Progress,
    links::Links,
    mover::{Mover, Targets},
    split,
};
use crate::{Label, Result, Union, lookup::is_directory};

/// Where files are moved to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MoveTarget {
    /// To the branch with this number.
    Branch(u8),
    /// To the branches with this label, the one with the most free space first. Files on one of
    /// them stay.
    Label(Label),
}

/// Which files are moved: by position of the branch, path and attributes.
type Select<'s> = &'s dyn Fn(usize, &[u8], &Statx) -> bool;

impl Union {
    /// Moves a file, or all files below a directory. The path is relative to the root.
    /// `unused_for`: only files that were neither read nor changed for this time.
    ///
    /// # Errors
    /// `ENOENT`: there is no such path. `ENODEV`: no branch has the number or the label. Files that
    /// stay are in the report.
    pub fn move_files(
        &self,
        path: &[u8],
        to: &MoveTarget,
        unused_for: Option<Duration>,
        progress: Progress<'_>,
    ) -> Result<MoveReport> {
        let mut order: Vec<usize> = (0..self.branches.len())
            .filter(|at| !self.branches[*at].is_removed())
            .filter(|at| match to {
                MoveTarget::Branch(number) => self.branches[*at].number == *number,
                MoveTarget::Label(label) => self.branches[*at].has_label(label),
            })
            .collect();
        if order.is_empty() {
            return Err(Errno::NODEV);
        }
        order.sort_by_key(|at| std::cmp::Reverse(self.branches[*at].free()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let select = |branch: usize, _: &[u8], stat: &Statx| {
            !order.contains(&branch) && unused_for.is_none_or(|time| unused(stat, now) >= time)
        };
        let by_name = matches!(to, MoveTarget::Branch(_));
        let targets = |union: &Union, _: &[u8], stat: &Statx| {
            if by_name {
                return order.clone();
            }
            let fits = |at: &usize| {
                let branch = &union.branches[*at];
                let needed = branch.min_free.saturating_add(stat.stx_blocks * 512);
                branch.may_grow() && branch.free() > needed
            };
            order.iter().copied().filter(fits).collect()
        };
        self.move_below(path, &select, &targets, progress)
    }

    /// As [`Union::move_files`], to the branch with a number.
    ///
    /// # Errors
    /// As there.
    pub fn move_to(&self, path: &[u8], number: u8, progress: Progress<'_>) -> Result<MoveReport> {
        self.move_files(path, &MoveTarget::Branch(number), None, progress)
    }

    /// Moves files that are on a branch without the label of their directory's placement to one
    /// that has it.
    ///
    /// # Errors
    /// `ENOENT`: there is no such path. Files that stay are in the report.
    pub fn enforce(&self, path: &[u8], progress: Progress<'_>) -> Result<MoveReport> {
        let select = |branch: usize, path: &[u8], _: &Statx| !self.is_placed(branch, path);
        let targets = |union: &Union, path: &[u8], stat: &Statx| union.targets(None, path, stat, 0);
        self.move_below(path, &select, &targets, progress)
    }

    /// Whether the branch has the label that the file's directory wants, if it wants one.
    pub(super) fn is_placed(&self, branch: usize, path: &[u8]) -> bool {
        let walked = self.walk(split(path).0);
        let directory = walked.and_then(|directory| self.nodes.get(directory.last()));
        let placement = directory.and_then(|directory| self.placement_of(&directory));
        // What cannot be read wants nothing.
        let label = placement.ok().and_then(|placement| placement.label.clone());
        label.is_none_or(|label| self.branches[branch].has_label(&label))
    }

    fn move_below(
        &self,
        path: &[u8],
        select: Select<'_>,
        targets: Targets<'_>,
        progress: Progress<'_>,
    ) -> Result<MoveReport> {
        let (directory, name) = split(path);
        let parent = self.walk(directory)?;
        let parent = self.nodes.get(parent.last())?;
        let found = if path.is_empty() { None } else { Some(self.on_branches(&parent, name)?) };
        let mut mover = Mover::new(self, progress);
        if let Some(found) = found.as_ref().filter(|found| !found.is_directory()) {
            let (branch, stat) = found.stats[0];
            let _ = match select(branch, path, &stat) {
                true => mover.add(branch, path, &stat, targets),
                false => mover.stays(branch, path, &NotMoved::There),
            };
            return Ok(mover.finish(targets));
        }
        for branch in 0..self.branches.len() {
            let on_it = found.as_ref().is_none_or(|found| found.on(branch).is_some());
            if !on_it || !self.branches[branch].is_open() {
                continue;
            }
            mover.links = Links::default();
            let walked = self.walk_branch(branch, path, &mut |path, stat| {
                if is_directory(stat) || !select(branch, path, stat) {
                    return ControlFlow::Continue(());
                }
                mover.add(branch, path, stat, targets)
            });
            if mover.walked(branch, walked).is_break() || mover.flush().is_break() {
                break;
            }
        }
        Ok(mover.finish(targets))
    }
}

/// For how long a file was neither read nor changed.
fn unused(stat: &Statx, now: Duration) -> Duration {
    let times = [stat.stx_atime, stat.stx_mtime, stat.stx_ctime];
    let last = times.iter().map(|time| u64::try_from(time.tv_sec).unwrap_or(0)).max();
    now.saturating_sub(Duration::from_secs(last.unwrap_or(0)))
}
