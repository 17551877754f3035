//! A walk over the directories of all branches at the same time.

use std::{collections::BTreeMap, ops::ControlFlow, os::fd::OwnedFd};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use crate::{
    Result, Union,
    moves::join,
    place::{open_directory, stat_path},
    remove::RESERVED_PREFIX,
};

/// A name in a directory, on each of the branches that have it, in their order.
pub(super) type OnEach = Vec<(usize, FileType)>;

/// What a walk comes across.
pub(super) enum Visit<'v> {
    /// A directory that several branches have, open on each.
    Directory { path: &'v [u8], copies: &'v [(usize, OwnedFd)] },
    /// A name that several branches have, and that is not a directory on all of them.
    Name { path: &'v [u8], on: &'v OnEach },
    /// What could not be read.
    Unread { path: &'v [u8], branch: usize, error: Errno },
}

impl Union {
    /// Walks from `top`, a path from the root. Ends early if `visit` breaks.
    ///
    /// # Errors
    /// `ENOENT`: no branch has `top`.
    pub(super) fn walk_together(
        &self,
        top: &[u8],
        visit: &mut dyn FnMut(Visit<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let usable = (0..self.branches.len()).filter(|at| self.branches[*at].is_open());
        let usable: Vec<usize> = usable.collect();
        if !top.is_empty() {
            let on = self.kinds(top, &usable)?;
            if on.iter().any(|(_, kind)| *kind != FileType::Directory) {
                return Ok(if on.len() > 1 {
                    visit(Visit::Name { path: top, on: &on })
                } else {
                    ControlFlow::Continue(())
                });
            }
        }
        let mut left = vec![(top.to_vec(), usable)];
        while let Some((directory, branches)) = left.pop() {
            let mut copies = Vec::new();
            let mut names: BTreeMap<Vec<u8>, OnEach> = BTreeMap::new();
            for branch in branches {
                match self.read_together(branch, &directory, &mut names) {
                    Ok(fd) => copies.push((branch, fd)),
                    // It was removed meanwhile, or is not on this branch.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(error) => {
                        if visit(Visit::Unread { path: &directory, branch, error }).is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                }
            }
            let shared = copies.len() > 1;
            if shared && visit(Visit::Directory { path: &directory, copies: &copies }).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            for (name, on) in names {
                let path = join(&directory, &name);
                let is_directory = on.iter().all(|(_, kind)| *kind == FileType::Directory);
                if on.len() > 1
                    && !is_directory
                    && visit(Visit::Name { path: &path, on: &on }).is_break()
                {
                    return Ok(ControlFlow::Break(()));
                }
                let below = on.iter().filter(|(_, kind)| *kind == FileType::Directory);
                let below: Vec<usize> = below.map(|(branch, _)| *branch).collect();
                if !below.is_empty() {
                    left.push((path, below));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// What each branch has at a path.
    fn kinds(&self, path: &[u8], branches: &[usize]) -> Result<OnEach> {
        let mut on = OnEach::new();
        for &branch in branches {
            match stat_path(&*self.branches[branch].root()?, path) {
                Ok(stat) => on.push((branch, FileType::from_raw_mode(stat.stx_mode.into()))),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(error) => return Err(error),
            }
        }
        if on.is_empty() { Err(Errno::NOENT) } else { Ok(on) }
    }

    /// Adds the names of a directory on a branch, and returns the open directory.
    fn read_together(
        &self,
        branch: usize,
        directory: &[u8],
        names: &mut BTreeMap<Vec<u8>, OnEach>,
    ) -> Result<OwnedFd> {
        let fd = open_directory(&*self.branches[branch].root()?, directory)?;
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let hidden = directory.is_empty() && name.starts_with(RESERVED_PREFIX);
            if name == b"." || name == b".." || hidden {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match crate::attributes::stat_at(&fd, name) {
                    Ok(stat) => FileType::from_raw_mode(stat.stx_mode.into()),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(error),
                },
                kind => kind,
            };
            names.entry(name.to_vec()).or_default().push((branch, kind));
        }
        Ok(fd)
    }
}
