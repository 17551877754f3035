//! Changes of a pool while it is in use.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::PoisonError,
};

use crate::{
    BranchMode, Label, NodeId, Placement, PoolError, Union,
    attributes::{copy_of, stat_fd},
    branch::Branch,
    error::During,
    lookup::is_directory,
    node::lock,
    place::stat_path,
};

type Done<T = ()> = Result<T, PoolError>;

impl Union {
    /// Adds directories at the end of the pool.
    ///
    /// # Errors
    /// As for [`crate::Pool::create`]. Then nothing was changed.
    pub fn add_branches(
        &self,
        disks: &[(PathBuf, BranchMode)],
        min_free: Option<u64>,
    ) -> Done<usize> {
        let mut pool = lock(&self.config);
        let known = pool.config.branches.len();
        pool.add(disks, min_free)?;
        for config in &pool.config.branches[known..] {
            let what = || format!("opening {}", config.path.display());
            let branch = Branch::open(pool.meta(), config).during(what)?;
            let stat = branch.root().and_then(stat_fd).during(what)?;
            let _alone = self.renames.write().unwrap_or_else(PoisonError::into_inner);
            self.striped.may_have(&branch);
            let at = self.branches.push(branch).during(what)?;
            let root = self.nodes.get(NodeId::ROOT).during(what)?;
            self.nodes.add_copy(&root, copy_of(at, &stat));
        }
        self.notices.everything_changed();
        Ok(pool.config.branches.len())
    }

    /// The number of a branch that a user names.
    ///
    /// # Errors
    /// The pool has none.
    pub fn branch_number(&self, named: &Path) -> Done<u8> {
        lock(&self.config).branch(named).map(|branch| branch.number)
    }

    /// # Errors
    /// No branch of the pool has the label.
    pub(crate) fn known_label(&self, label: &Label) -> Done<Label> {
        let pool = lock(&self.config);
        if pool.config.has_label(label) {
            return Ok(label.clone());
        }
        Err(PoolError::NoLabel { label: label.to_string(), meta: pool.meta().to_owned() })
    }

    /// The same of a branch that can be read and written now.
    ///
    /// # Errors
    /// The pool has none; its disk is missing or gives errors.
    pub(crate) fn usable_branch(&self, named: &Path) -> Done<u8> {
        let number = self.branch_number(named)?;
        let at = self.branches.with_number(number);
        match at.map(|at| &self.branches[at]).filter(|branch| branch.has_failed()) {
            None => Ok(number),
            Some(branch) => Err(PoolError::DiskFailed {
                path: branch.path.clone(),
                meta: lock(&self.config).meta().to_owned(),
            }),
        }
    }

    /// Changes what a branch is used for.
    ///
    /// # Errors
    /// The pool cannot be written.
    pub fn set_mode(&self, number: u8, mode: BranchMode) -> Done {
        lock(&self.config).set_mode(number, mode)?;
        if let Some(at) = self.branches.with_number(number) {
            self.branches[at].set_mode(mode);
        }
        Ok(())
    }

    /// The pool's present placement.
    pub fn placement(&self) -> Placement {
        lock(&self.placement).clone()
    }

    /// Changes where new files are created.
    ///
    /// # Errors
    /// The pool cannot be written.
    pub fn set_placement(&self, placement: Placement) -> Done {
        lock(&self.config).set_placement(placement.clone())?;
        *lock(&self.placement) = placement;
        self.placements_changed();
        Ok(())
    }

    /// Changes what a branch is good for.
    ///
    /// # Errors
    /// As for [`Pool::set_labels`](crate::Pool::set_labels).
    pub fn set_labels(&self, number: u8, labels: Vec<Label>) -> Done {
        let mut pool = lock(&self.config);
        pool.set_labels(number, labels)?;
        let of_branch = pool.config.branches.iter().find(|branch| branch.number == number);
        if let (Some(at), Some(config)) = (self.branches.with_number(number), of_branch) {
            self.branches[at].set_labels(config.labels.clone());
        }
        Ok(())
    }

    /// Takes a branch out of the pool. `with_files`: the files on it leave the union and stay on
    /// their disk, which may be lost.
    ///
    /// # Errors
    /// It has files; it is the only one; the pool cannot be written.
    pub fn remove_branch(&self, number: u8, with_files: bool) -> Done {
        let mut pool = lock(&self.config);
        let Some(at) = self.branches.with_number(number) else {
            return pool.remove(number);
        };
        // Nobody creates a file meanwhile.
        let _alone = self.renames.write().unwrap_or_else(PoisonError::into_inner);
        if !with_files {
            self.check_has_no_file(at, pool.meta())?;
        }
        pool.remove(number)?;
        self.nodes.remove_branch(at);
        self.fds.remove_branch(at);
        self.branches[at].close();
        self.notices.everything_changed();
        Ok(())
    }

    fn check_has_no_file(&self, at: usize, meta: &Path) -> Done {
        let mut example = None;
        let path = &self.branches[at].path;
        let others = || self.branches.iter().enumerate().filter(|(other, _)| *other != at);
        let is_elsewhere = |name: &[u8]| {
            let stats =
                others().filter_map(|(_, other)| stat_path(&*other.root().ok()?, name).ok());
            stats.into_iter().any(|stat| is_directory(&stat))
        };
        let walked = self.walk_branch(at, b"", &mut |name, stat| {
            if is_directory(stat) && is_elsewhere(name) {
                return ControlFlow::Continue(());
            }
            example = Some(String::from_utf8_lossy(name).into_owned());
            ControlFlow::Break(())
        });
        let _ = walked.during(|| format!("reading {}", path.display()))?;
        let in_store = || self.branches[at].first_of_store();
        let example = match example {
            None => in_store().during(|| format!("reading {}", path.display()))?,
            found => found,
        };
        match example {
            None => Ok(()),
            Some(example) => {
                Err(PoolError::HasFiles { path: path.clone(), meta: meta.to_owned(), example })
            }
        }
    }
}
