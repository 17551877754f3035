//! Renames. A file stays on its branch, and the new directory is created there if needed, so no
//! rename is `EXDEV`.
//!
//! Most renames are one renameat(2). Several steps are needed where a directory is on several
//! branches, and where the replaced file is on another branch than the new one. They are written
//! down first ([`crate::intents`]), and nobody sees the state between them: other calls that use
//! names wait. What is replaced is removed last, after the new name is on disk.

use std::sync::{Arc, PoisonError};

use rustix::fs::{RenameFlags, Statx};
use rustix::io::Errno;

use crate::{
    NodeId, Result, Union,
    attributes::copy_of,
    intents::{InodeThen, Replaced, Step, StepEnd},
    lookup::{OnBranches, is_directory},
    node::{Name, Node},
};

/// What happens if the new name exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameMode {
    /// It is replaced.
    Replace,
    /// The rename fails (`RENAME_NOREPLACE`).
    NoReplace,
    /// The two change places (`RENAME_EXCHANGE`).
    Exchange,
}

/// A name and what the branches have under it.
struct Side<'a> {
    directory: Arc<Node>,
    name: &'a [u8],
    found: Option<OnBranches>,
}

impl Side<'_> {
    /// Whatever the branches have under the name, in their order.
    fn all(&self) -> Vec<(usize, Statx)> {
        self.found.as_ref().map_or_else(Vec::new, OnBranches::all)
    }
}

impl Union {
    /// Renames.
    ///
    /// # Errors
    /// Those of rename(2) and renameat2(2), but never `EXDEV`.
    pub fn rename(
        &self,
        (from_directory, from_name): (NodeId, &[u8]),
        (to_directory, to_name): (NodeId, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let alone = self.renames.write().unwrap_or_else(PoisonError::into_inner);
        let _change = self.name_changes.begin();
        let from = self.side(from_directory, from_name)?;
        let to = self.side(to_directory, to_name)?;
        let source = from.found.as_ref().ok_or(Errno::NOENT)?;
        match (&to.found, mode) {
            (Some(_), RenameMode::NoReplace) => return Err(Errno::EXIST),
            (None, RenameMode::Exchange) => return Err(Errno::NOENT),
            (Some(target), RenameMode::Replace) => {
                if source.copies()[0] == target.copies()[0] {
                    // Two links of one file: rename(2) does nothing.
                    return Ok(());
                }
                self.check_replaceable(source, target, &to)?;
            }
            _ => {}
        }
        let steps = match mode {
            RenameMode::Exchange => self.exchange_steps(&from, &to)?,
            _ => self.rename_steps(&from, &to)?,
        };
        let replaced = match (&to.found, mode) {
            (Some(target), RenameMode::Replace) => {
                Some(self.before_removal(&to.directory, to_name, target)?)
            }
            _ => None,
        };
        let done = self.carry_out_all(&steps, &from, &to);
        // Also after a failure: some steps may be done.
        for (side, other) in [(&from, &to), (&to, &from)] {
            side.directory.names.note_added();
            for (branch, _) in other.all() {
                self.index_added(&side.directory, side.name, branch);
            }
        }
        let removals = replaced.map_or_else(Vec::new, |stubs| self.settle(stubs));
        if done.is_ok() {
            self.renamed(&from, &to, mode);
            self.save_renamed(&from, &to, mode);
            if mode == RenameMode::Replace {
                let replaced = to.found.iter().flat_map(OnBranches::all);
                replaced.for_each(|(branch, stat)| self.count_removed(branch, &stat));
            }
        }
        if source.is_directory() || to.found.as_ref().is_some_and(OnBranches::is_directory) {
            // It may have another one above it.
            self.placements_changed();
        }
        // Other calls need not wait for the disks.
        drop(alone);
        removals.iter().for_each(|removal| self.remove_objects(removal));
        done
    }

    fn side<'a>(&self, directory: NodeId, name: &'a [u8]) -> Result<Side<'a>> {
        self.check_name(directory, name)?;
        let directory = self.nodes.get(directory)?;
        let found = match self.on_branches(&directory, name) {
            Ok(found) => Some(found),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(error),
        };
        found.iter().try_for_each(OnBranches::check_whole)?;
        let side = Side { directory, name, found };
        side.all().iter().try_for_each(|(branch, _)| self.check_writable(*branch))?;
        Ok(side)
    }

    fn check_replaceable(
        &self,
        source: &OnBranches,
        target: &OnBranches,
        to: &Side<'_>,
    ) -> Result<()> {
        // What is hidden under the name would be lost, or hide the new file.
        match target.is_directory() {
            true if !target.other.is_empty() => return Err(Errno::NOTEMPTY),
            false if !target.other.is_empty() => return Err(Errno::ISDIR),
            _ => {}
        }
        for (branch, hidden) in &source.other {
            match target.on(*branch).map(is_directory) {
                Some(true) if !is_directory(hidden) => return Err(Errno::ISDIR),
                Some(false) if is_directory(hidden) => return Err(Errno::NOTDIR),
                _ => {}
            }
        }
        match (source.is_directory(), target.is_directory()) {
            (true, false) => Err(Errno::NOTDIR),
            (false, true) => Err(Errno::ISDIR),
            (false, false) => Ok(()),
            (true, true) => {
                let node = self.enter(to.directory.id, to.name, target).node;
                let empty = self.check_empty(node, target);
                self.forget(node, 1);
                empty
            }
        }
    }

    /// Renames on each branch that has the old name, whatever it is there, then removals of the new
    /// name on each other branch that has it.
    fn rename_steps(&self, from: &Side<'_>, to: &Side<'_>) -> Result<Vec<Step>> {
        let (from_path, to_path) = (self.path(from)?, self.path(to)?);
        let (source, target) = (from.all(), to.all());
        let mut steps = Vec::new();
        for (at, stat) in &source {
            self.ensure_directory(&to.directory, *at)?;
            let (branch, inode) = (self.branches[*at].number, InodeThen::of(stat));
            let replaced = target.iter().find(|(other, _)| other == at).map(|(_, stat)| stat);
            steps.push(match replaced {
                // Two links of a hidden file: rename(2) would leave both.
                Some(replaced) if replaced.stx_ino == stat.stx_ino => {
                    Step::Unlink { branch, inode, path: from_path.clone() }
                }
                _ => Step::Rename {
                    branch,
                    inode,
                    from: from_path.clone(),
                    to: to_path.clone(),
                    replaced: replaced.map_or(Replaced::Nothing, Replaced::of),
                },
            });
        }
        for (at, stat) in target.iter().filter(|(at, _)| source.iter().all(|(on, _)| on != at)) {
            let (branch, inode) = (self.branches[*at].number, InodeThen::of(stat));
            let path = to_path.clone();
            steps.push(match is_directory(stat) {
                true => Step::RemoveDirectory { branch, inode, path },
                false => Step::Unlink { branch, inode, path },
            });
        }
        Ok(steps)
    }

    fn exchange_steps(&self, from: &Side<'_>, to: &Side<'_>) -> Result<Vec<Step>> {
        let (from_path, to_path) = (self.path(from)?, self.path(to)?);
        let (one, other) = (from.all(), to.all());
        let mut steps = Vec::new();
        for (at, branch) in self.branches.iter().enumerate() {
            let branch = branch.number;
            let (from, to) = (from_path.clone(), to_path.clone());
            let on = |side: &[(usize, Statx)]| {
                side.iter().find(|(on, _)| *on == at).map(|(_, stat)| InodeThen::of(stat))
            };
            let replaced = Replaced::Nothing;
            match (on(&one), on(&other)) {
                (None, None) => {}
                (Some(inode), Some(_)) => steps.push(Step::Exchange { branch, inode, from, to }),
                (Some(inode), None) => {
                    steps.push(Step::Rename { branch, inode, from, to, replaced });
                }
                (None, Some(inode)) => {
                    steps.push(Step::Rename { branch, inode, from: to, to: from, replaced });
                }
            }
        }
        for (side, found) in [(from, other), (to, one)] {
            for (branch, _) in &found {
                self.ensure_directory(&side.directory, *branch)?;
            }
        }
        Ok(steps)
    }

    fn carry_out_all(&self, steps: &[Step], from: &Side<'_>, to: &Side<'_>) -> Result<()> {
        if let [only @ (Step::Rename { .. } | Step::Exchange { .. })] = steps {
            return self.carry_out_at(only, from, to);
        }
        let intent = self.intents.begin(steps)?;
        let mut failed = Ok(());
        let mut synced = false;
        for step in steps {
            let removes = matches!(step, Step::Unlink { .. } | Step::RemoveDirectory { .. });
            if removes && !synced {
                // The new file must have its name before the old one is removed: they are on
                // different disks, which no journal keeps in order.
                failed = failed.and(self.sync_steps(steps));
                synced = true;
            }
            if failed.is_err() {
                break;
            }
            failed = match self.carry_out(step) {
                // Somebody has changed the names directly meanwhile. Nothing is removed then.
                Ok(StepEnd::Outdated) => Err(Errno::STALE),
                done => done.map(drop),
            };
        }
        if failed.is_ok() {
            failed = self.sync_steps(steps);
        }
        // Also after a failure, which the caller sees: a rename that failed must not be finished by
        // a later start, when these names may stand for other files.
        intent.end();
        failed
    }

    /// The usual case, without a walk of whole paths.
    fn carry_out_at(&self, step: &Step, from: &Side<'_>, to: &Side<'_>) -> Result<()> {
        let branch = from.all().first().ok_or(Errno::NOENT)?.0;
        let (old, new) = (
            self.directory_fd(&from.directory, branch)?,
            self.directory_fd(&to.directory, branch)?,
        );
        let flags = match step {
            Step::Exchange { .. } => RenameFlags::EXCHANGE,
            _ if to.found.is_none() => RenameFlags::NOREPLACE,
            _ => RenameFlags::empty(),
        };
        match rustix::fs::renameat_with(&*old, from.name, &*new, to.name, flags) {
            // The file system of the branch has no such rename. The name was absent.
            Err(Errno::INVAL) if flags == RenameFlags::NOREPLACE => {
                rustix::fs::renameat(&*old, from.name, &*new, to.name)
            }
            done => done,
        }
    }

    /// The path of a side relative to the root of a branch.
    fn path(&self, side: &Side<'_>) -> Result<Vec<u8>> {
        let mut path = self.relative_path(&side.directory)?;
        if path != b"/" {
            path.push(b'/');
        }
        path.extend_from_slice(side.name);
        path.remove(0);
        Ok(path)
    }

    /// Saves the new names of the branches.
    fn save_renamed(&self, from: &Side<'_>, to: &Side<'_>, mode: RenameMode) {
        for branch in 0..self.branches.len() {
            let on = |side: &Side<'_>| {
                side.all().into_iter().find(|(at, _)| *at == branch).map(|(_, stat)| stat)
            };
            let (old, replaced) = (on(from), on(to));
            if old.is_none() && replaced.is_none() {
                continue;
            }
            let exchanged = if mode == RenameMode::Exchange { replaced } else { None };
            for (side, now) in [(from, exchanged), (to, old)] {
                match now {
                    Some(stat) => {
                        self.save_added(&side.directory, side.name, branch, (&stat).into());
                    }
                    None => self.save_removed(&side.directory, side.name, branch),
                }
            }
        }
    }

    /// Moves the names of the nodes.
    fn renamed(&self, from: &Side<'_>, to: &Side<'_>, mode: RenameMode) {
        let name = |side: &Side<'_>| Name { directory: side.directory.id, name: side.name.into() };
        let nodes = |found: &Option<OnBranches>| -> Vec<Arc<Node>> {
            let stats = found.iter().flat_map(OnBranches::all);
            let mut nodes: Vec<_> = stats
                .filter_map(|(branch, stat)| self.nodes.of_inode(copy_of(branch, &stat)))
                .collect();
            nodes.dedup_by_key(|node| node.id);
            nodes
        };
        let (old, new) = (name(from), name(to));
        for node in nodes(&to.found) {
            let mut state = node.state();
            state.names.retain(|known| *known != new);
            if mode == RenameMode::Exchange {
                state.note_name(old.clone());
            }
        }
        for node in nodes(&from.found) {
            let mut state = node.state();
            state.names.retain(|known| *known != old);
            state.note_name(new.clone());
        }
    }
}
