//! Removal of names.

use std::sync::PoisonError;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::{
    NodeId, Result, Union,
    attributes::copy_of,
    lookup::OnBranches,
    node::{Name, Node},
};

/// Names in the root of a branch that begin like this belong to the union, and are not shown.
pub const RESERVED_PREFIX: &[u8] = b".braid-";
/// Directories that are being created.
pub(crate) const TEMPORARY_PREFIX: &str = ".braid-new-";

impl Union {
    /// Removes the name of a file, from every branch that has it.
    ///
    /// # Errors
    /// `EISDIR`: it is a directory; others of unlink(2).
    pub fn unlink(&self, directory: NodeId, name: &[u8]) -> Result<()> {
        let _shared = self.shared();
        let _change = self.name_changes.begin();
        let (parent, found) = self.to_remove(directory, name)?;
        if found.is_directory() {
            return Err(Errno::ISDIR);
        }
        let stubs = self.before_removal(&parent, name, &found)?;
        let removed = self.remove_everywhere(&parent, name, &found, AtFlags::empty());
        let removals = self.settle(stubs);
        removals.iter().for_each(|removal| self.remove_objects(removal));
        removed?;
        self.name_removed(&parent, name, &found);
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOTEMPTY`: a branch has a name in it; others of rmdir(2).
    pub fn remove_directory(&self, directory: NodeId, name: &[u8]) -> Result<()> {
        // Alone: nobody may create a file on one branch while the other branches are emptied.
        let _alone = self.renames.write().unwrap_or_else(PoisonError::into_inner);
        let _change = self.name_changes.begin();
        let (parent, found) = self.to_remove(directory, name)?;
        if !found.is_directory() {
            return Err(Errno::NOTDIR);
        }
        let node = self.enter(directory, name, &found).node;
        let removed = self
            .check_empty(node, &found)
            .and_then(|()| self.remove_everywhere(&parent, name, &found, AtFlags::REMOVEDIR));
        if removed.is_ok() {
            self.name_removed(&parent, name, &found);
            self.fds.remove_all(node, self.branches.len());
        }
        self.forget(node, 1);
        removed
    }

    fn to_remove(
        &self,
        directory: NodeId,
        name: &[u8],
    ) -> Result<(std::sync::Arc<Node>, OnBranches)> {
        self.check_name(directory, name)?;
        let parent = self.nodes.get(directory)?;
        let found = self.on_branches(&parent, name)?;
        found.check_whole()?;
        found.stats.iter().try_for_each(|(branch, _)| self.check_writable(*branch))?;
        Ok((parent, found))
    }

    pub(crate) fn check_empty(&self, node: NodeId, found: &OnBranches) -> Result<()> {
        for (branch, _) in &found.stats {
            if !self.is_empty_on(node, *branch)? {
                return Err(Errno::NOTEMPTY);
            }
        }
        Ok(())
    }

    /// Removes a name from the branches. The first one is the last: until then the file that is
    /// shown stays the same.
    fn remove_everywhere(
        &self,
        parent: &Node,
        name: &[u8],
        found: &OnBranches,
        flags: AtFlags,
    ) -> Result<()> {
        for (branch, _) in found.stats.iter().rev() {
            match rustix::fs::unlinkat(&*self.directory_fd(parent, *branch)?, name, flags) {
                Err(Errno::NOENT) if *branch != found.stats[0].0 => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// The node of a removed name has one name less. Its open files stay.
    pub(crate) fn name_removed(&self, parent: &Node, name: &[u8], found: &OnBranches) {
        for (branch, stat) in &found.stats {
            self.save_removed(parent, name, *branch);
            self.count_removed(*branch, stat);
            if let Some(node) = self.nodes.of_inode(copy_of(*branch, stat)) {
                let gone = Name { directory: parent.id, name: name.into() };
                node.state().names.retain(|known| *known != gone);
            }
        }
    }
}
