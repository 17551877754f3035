//! Attributes and xattrs of striped files, where they differ from those of the stub.

use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;

use super::layout::Layout;
use crate::{
    Attributes, Result, Union,
    node::{Copy, Node},
};

/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

impl Union {
    /// Adds the blocks of the objects: programs take a file without blocks for one hole.
    pub(crate) fn add_object_blocks(&self, node: &Node, copy: Copy, attributes: &mut Attributes) {
        if !self.striped.exist() || !attributes.is_regular() {
            return;
        }
        let known = self.known_stub(node);
        // A file with blocks for all its bytes has them itself.
        if known.is_none() && attributes.blocks * BLOCK_BYTES >= attributes.size {
            return;
        }
        let stub = known.map_or_else(
            || self.reference(node, copy.branch).and_then(|file| self.stub_of(node, &*file)),
            Ok,
        );
        let Ok(Some(layout)) = stub.as_ref().map(|stub| stub.layout()) else { return };
        attributes.blocks += self.object_blocks(layout);
        if self.is_removed(copy) {
            // The pending link is none of the file.
            attributes.links = 0;
        }
    }

    fn object_blocks(&self, layout: &Layout) -> u64 {
        let blocks = |(position, number): (usize, &u8)| {
            let store = self.branch_numbered(*number)?.store().ok()?;
            Some(store.stat_object(layout.id, position).ok()?.stx_blocks)
        };
        layout.branches.iter().enumerate().filter_map(blocks).sum()
    }

    /// The value of the xattr `user.braid.stripes`: the unit in bytes, then the directory of each
    /// branch in order, with zero bytes between them.
    ///
    /// # Errors
    /// `ENODATA`: it is a plain file.
    pub(crate) fn stripes_of(&self, node: &Node) -> Result<Vec<u8>> {
        if node.is_directory {
            return Err(Errno::NODATA);
        }
        let branch = node.state().copies.first().ok_or(Errno::STALE)?.branch;
        let stub = self.stub_of(node, &*self.reference(node, branch)?)?;
        let layout = stub.layout().ok_or(Errno::NODATA)?;
        let path = |number: &u8| match self.branch_numbered(*number) {
            Some(branch) => branch.path.as_os_str().as_bytes().to_vec(),
            None => format!("(branch {number}, not in the pool)").into_bytes(),
        };
        let unit = layout.unit().to_string().into_bytes();
        let parts: Vec<Vec<u8>> =
            std::iter::once(unit).chain(layout.branches.iter().map(path)).collect();
        Ok(parts.join(&0))
    }
}
