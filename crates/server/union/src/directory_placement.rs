//! Where new files of a directory are created: its xattr `user.braid.placement`, or that of the
//! nearest directory above it that has one, or the placement of the pool.
//!
//! What was found is kept with the node of the directory for a second, as names without notices are
//! in the kernel, so a create reads no xattr.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use rustix::io::Errno;

use crate::{
    NAMES_VALID, NodeId, Placement, Result, Union,
    attributes::path_of,
    node::{Node, lock},
};

/// The xattr. Programs may read, set and remove it.
pub const PLACEMENT_XATTR: &str = "user.braid.placement";

/// The placement of a directory, when it was found, and after how many changes through the union.
#[derive(Clone, Debug)]
pub(crate) struct KnownPlacement {
    placement: Arc<Placement>,
    read: Instant,
    changes: u64,
}

impl Union {
    /// Where new files of the directory are created.
    ///
    /// # Errors
    /// The directory is not there any more.
    pub(crate) fn placement_of(&self, directory: &Node) -> Result<Arc<Placement>> {
        let changes = self.placement_changes.load(Ordering::Acquire);
        if let Some(known) = &directory.state().placement
            && known.changes == changes
            && known.read.elapsed() < NAMES_VALID
        {
            return Ok(Arc::clone(&known.placement));
        }
        let read = Instant::now();
        let placement = self.find_placement(directory)?;
        let known = KnownPlacement { placement: Arc::clone(&placement), read, changes };
        directory.state().placement = Some(known);
        Ok(placement)
    }

    /// Asks the directory, then those above it.
    fn find_placement(&self, directory: &Node) -> Result<Arc<Placement>> {
        let mut at = self.nodes.get(directory.id)?;
        for depth in 0.. {
            self.check_depth(depth)?;
            if let Some(placement) = self.own_placement(&at) {
                return Ok(Arc::new(placement));
            }
            if at.id == NodeId::ROOT {
                break;
            }
            at = self.nodes.get(at.first_name()?.directory)?;
        }
        Ok(Arc::new(lock(&self.placement).clone()))
    }

    /// A value that was damaged on the branch is none.
    fn own_placement(&self, directory: &Node) -> Option<Placement> {
        let copies = self.usable_copies(directory).ok()?;
        let fd = self.directory_fd(directory, copies[0].branch).ok()?;
        let value = crate::xattrs::value(&path_of(&*fd), PLACEMENT_XATTR.as_bytes()).ok()?;
        std::str::from_utf8(&value).ok()?.parse().ok()
    }

    /// Checks a value that a program sets.
    ///
    /// # Errors
    /// `EINVAL`: it is no placement, no branch has its label, or the node is no directory.
    pub(crate) fn check_placement(&self, node: &Node, value: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(value).map_err(|_| Errno::INVAL)?;
        let placement: Placement = text.parse().map_err(|_| Errno::INVAL)?;
        let known = |label| self.branches.iter().any(|branch| branch.has_label(label));
        let valid = node.is_directory && placement.label.as_ref().is_none_or(known);
        valid.then_some(()).ok_or(Errno::INVAL)
    }

    /// A placement has changed, or a directory has another one above it.
    pub(crate) fn placements_changed(&self) {
        self.placement_changes.fetch_add(1, Ordering::AcqRel);
    }
}
