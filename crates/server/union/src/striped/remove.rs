//! Removal of striped files.
//!
//! A stub gets a link in `pending` before a name of it is removed or replaced (S2). Afterwards its
//! link count says what happened: with another link the file is still there; without one, its
//! objects are removed, then the pending link. A process that is killed in between leaves the
//! pending link, and the next start does the same.

use std::{
    os::fd::OwnedFd,
    sync::{Arc, MutexGuard},
};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{layout::Layout, stub::Stub};
use crate::{
    Result, Union,
    attributes::{copy_of, path_of, stat_fd},
    lookup::{OnBranches, is_directory},
    node::{Copy, Node, lock},
};

/// The objects of a stub without a name.
#[derive(Debug)]
pub(crate) struct Removal {
    /// The position of the stub's branch in the pool.
    pub(crate) branch: usize,
    pub(crate) layout: Arc<Layout>,
    /// Whether the stub has a link in `pending`.
    pub(crate) pending: bool,
}

/// Stubs that are about to lose a name.
#[derive(Debug)]
#[must_use = "the stubs have a pending link, which must be settled"]
pub(crate) struct Removals<'u> {
    stubs: Vec<(OwnedFd, Removal)>,
    /// No other name of these stubs comes or goes meanwhile.
    _links: Option<MutexGuard<'u, ()>>,
}

impl Union {
    /// Call it before a name is removed or replaced, and [`Union::settle`] afterwards, also if the
    /// removal failed.
    pub(crate) fn before_removal(
        &self,
        parent: &Node,
        name: &[u8],
        found: &OnBranches,
    ) -> Result<Removals<'_>> {
        let mut removals = Removals { stubs: Vec::new(), _links: None };
        if !self.striped.exist() {
            return Ok(removals);
        }
        for (branch, stat) in found.stats.iter().filter(|(_, stat)| !is_directory(stat)) {
            let node = self.nodes.of_inode(copy_of(*branch, stat));
            if node.is_some_and(|node| self.known_stub(&node) == Some(Stub::Plain)) {
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let directory = self.directory_fd(parent, *branch)?;
            let stub = rustix::fs::openat(&*directory, name, flags, Mode::empty())?;
            // A damaged stub has no objects that are known, and those of a copy are not its own.
            if let Stub::Striped(layout) = self.stub(&stub)? {
                if removals._links.is_none() {
                    removals._links = Some(lock(&self.striped.links));
                }
                let linked = self.branches[*branch]
                    .store()
                    .and_then(|store| store.link_pending(&stub, layout.id));
                // Without the link, for example on a full disk, only a kill leaves the objects.
                let pending = matches!(linked, Ok(()) | Err(Errno::EXIST));
                removals.stubs.push((stub, Removal { branch: *branch, layout, pending }));
            }
        }
        Ok(removals)
    }

    /// The names of the stubs are gone, or not. Returns the removals that are due, for
    /// [`Union::remove_objects`].
    #[must_use]
    pub(crate) fn settle(&self, removals: Removals<'_>) -> Vec<Removal> {
        let mut ready = Vec::new();
        for (stub, removal) in removals.stubs {
            let Ok(stat) = stat_fd(&stub) else { continue };
            if stat.stx_nlink > u32::from(removal.pending) {
                self.unlink_pending(&removal);
                continue;
            }
            ready.extend(self.removed_while_open(copy_of(removal.branch, &stat), removal));
        }
        ready
    }

    /// A name is about to be added to a file: it must not be one whose last name is gone.
    pub(crate) fn hold_links(&self, copy: Copy) -> Result<Option<MutexGuard<'_, ()>>> {
        if !self.striped.exist() {
            return Ok(None);
        }
        let held = lock(&self.striped.links);
        if self.is_removed(copy) { Err(Errno::NOENT) } else { Ok(Some(held)) }
    }

    /// Removes the objects of a stub without a name, then the stub. What cannot be removed now is
    /// removed at a later start: the stub stays in `pending`.
    pub(crate) fn remove_objects(&self, removal: &Removal) {
        let removed = self.sync_removal(removal).and_then(|()| self.remove_each_object(removal));
        match removed {
            Ok(()) => self.unlink_pending(removal),
            Err(error) => {
                let id = removal.layout.id;
                tracing::warn!(%id, %error, "removing a striped file left some of its objects");
            }
        }
    }

    fn remove_each_object(&self, removal: &Removal) -> Result<()> {
        let mut removed = Ok(());
        for (position, number) in removal.layout.branches.iter().enumerate() {
            let done = match self.branch_numbered(*number) {
                None => Err(Errno::NODEV),
                Some(branch) if !branch.is_writable() => Err(Errno::ROFS),
                Some(branch) => match branch.store() {
                    Err(Errno::NOENT) => Ok(()),
                    store => {
                        store.and_then(|store| store.remove_object(removal.layout.id, position))
                    }
                },
            };
            removed = removed.and(done);
        }
        removed
    }

    /// The name must be gone from its disk before the objects are gone from theirs: no journal
    /// keeps two disks in order. The link count of the stub changed together with the name.
    fn sync_removal(&self, removal: &Removal) -> Result<()> {
        if !removal.pending {
            return Ok(());
        }
        let stub = self.branches[removal.branch].store()?.open_pending(removal.layout.id)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::fsync(rustix::fs::open(path_of(&stub), flags, Mode::empty())?)
    }

    pub(crate) fn unlink_pending(&self, removal: &Removal) {
        if !removal.pending {
            return;
        }
        let store = self.branches[removal.branch].store();
        if let Err(error) = store.and_then(|store| store.unlink_pending(removal.layout.id)) {
            // The next start sees from the link count what to do.
            tracing::warn!(id = %removal.layout.id, %error, "removing a pending link failed");
        }
    }

    /// Ends what a killed process left in `pending`.
    pub(crate) fn settle_pending(&self) {
        for branch in (0..self.branches.len()).filter(|at| self.branches[*at].is_writable()) {
            let Ok(store) = self.branches[branch].store() else { continue };
            for id in store.pending().unwrap_or_default() {
                let Ok(stub) = store.open_pending(id) else { continue };
                match (stat_fd(&stub), self.stub(&stub)) {
                    (Ok(stat), _) if stat.stx_nlink > 1 => _ = store.unlink_pending(id),
                    (Ok(_), Ok(Stub::Striped(layout))) if layout.id == id => {
                        self.remove_objects(&Removal { branch, layout, pending: true });
                    }
                    // Somebody copied or changed it. Nothing is known for sure, so nothing is
                    // removed.
                    _ => tracing::warn!(%id, "a pending stub of a striped file is left"),
                }
            }
        }
    }
}
