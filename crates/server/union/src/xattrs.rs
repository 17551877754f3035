//! Extended attributes: those of the branch, and some that say where a file is.
//!
//! `user.mergerfs.basepath`, `relpath`, `fullpath` and `allpaths` are readable as in mergerfs,
//! whose users have scripts that read them.

use std::{os::fd::OwnedFd, os::unix::ffi::OsStrExt, sync::Arc};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::{
    NodeId, PLACEMENT_XATTR, Result, Union,
    attributes::path_of,
    node::{Name, Node},
    striped::STRIPE_XATTR,
};

/// Linux's limit for a value and for a list.
const BYTES_MAX: usize = 64 << 10;
/// Xattrs of the union itself, which programs do not see.
pub(crate) const OWN: &[u8] = b"trusted.braid.";
const MERGERFS: &[u8] = b"user.mergerfs.";
/// Of a striped file, which branches it is on. It cannot be set.
const STRIPES: &[u8] = b"user.braid.stripes";

/// Whether the xattr may exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetXattr {
    /// Created or replaced.
    Any,
    /// `XATTR_CREATE`.
    Create,
    /// `XATTR_REPLACE`.
    Replace,
}

/// The value of an xattr of the file at a path, which is followed.
///
/// # Errors
/// Those of getxattr(2).
pub fn value(path: &str, name: &[u8]) -> Result<Vec<u8>> {
    let mut value = vec![0; 256];
    loop {
        match rustix::fs::getxattr(path, name, &mut value[..]) {
            Ok(bytes) => {
                value.truncate(bytes);
                return Ok(value);
            }
            Err(Errno::RANGE) if value.len() < BYTES_MAX => value.resize(BYTES_MAX, 0),
            Err(error) => return Err(error),
        }
    }
}

/// The names of the xattrs of the file at a path, which is followed; not those of the union.
pub(crate) fn names(path: &str) -> Result<Vec<Vec<u8>>> {
    let all = all_names(path)?;
    Ok(all.into_iter().filter(|name| !name.starts_with(OWN)).collect())
}

/// The names of all xattrs of the file at a path, which is followed.
///
/// # Errors
/// Those of listxattr(2).
pub fn all_names(path: &str) -> Result<Vec<Vec<u8>>> {
    let mut list = vec![0_u8; 1024];
    let bytes = loop {
        match rustix::fs::listxattr(path, &mut list[..]) {
            Ok(bytes) => break bytes,
            Err(Errno::RANGE) if list.len() < BYTES_MAX => list.resize(BYTES_MAX, 0),
            Err(Errno::OPNOTSUPP) => break 0,
            Err(error) => return Err(error),
        }
    };
    list.truncate(bytes);
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// Xattrs that the union makes up, or hides.
fn is_computed(name: &[u8]) -> bool {
    name.starts_with(OWN) || name.starts_with(MERGERFS) || name == STRIPES
}

impl Union {
    /// The value of an xattr.
    ///
    /// # Errors
    /// `ENODATA`: it has none of this name.
    pub fn xattr(&self, id: NodeId, name: &[u8]) -> Result<Vec<u8>> {
        let _shared = self.shared();
        let node = self.nodes.get(id)?;
        if let Some(word) = name.strip_prefix(MERGERFS) {
            return self.where_is(&node, word);
        }
        if name.starts_with(OWN) {
            return Err(Errno::NODATA);
        }
        if name == STRIPES {
            return self.stripes_of(&node);
        }
        let reference = self.first_reference(&node)?;
        value(&path_of(&*reference), name)
    }

    /// The names of the xattrs.
    ///
    /// # Errors
    /// Those of listxattr(2).
    pub fn xattrs(&self, id: NodeId) -> Result<Vec<Vec<u8>>> {
        let _shared = self.shared();
        let node = self.nodes.get(id)?;
        let reference = self.first_reference(&node)?;
        names(&path_of(&*reference))
    }

    /// Sets an xattr, on every copy of a directory.
    ///
    /// # Errors
    /// Those of setxattr(2).
    pub fn set_xattr(&self, id: NodeId, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        if is_computed(name) {
            return Err(Errno::PERM);
        }
        let node = self.nodes.get(id)?;
        if name == STRIPE_XATTR.as_bytes() {
            self.check_choice(&node, value)?;
        }
        if name == PLACEMENT_XATTR.as_bytes() {
            self.check_placement(&node, value)?;
        }
        let _changes = node.changes();
        let _shared = self.shared();
        for (at, reference) in self.writable_references(&node)?.iter().enumerate() {
            let path = path_of(reference);
            let how = match how {
                // What the first copy has or lacks decides.
                _ if at > 0 => XattrFlags::empty(),
                SetXattr::Any => XattrFlags::empty(),
                SetXattr::Create => XattrFlags::CREATE,
                SetXattr::Replace => XattrFlags::REPLACE,
            };
            rustix::fs::setxattr(path, name, value, how)?;
            node.names.note_acl();
        }
        self.choices_changed(&node, name);
        Ok(())
    }

    /// Removes an xattr, on every copy of a directory.
    ///
    /// # Errors
    /// `ENODATA`: there is none of this name.
    pub fn remove_xattr(&self, id: NodeId, name: &[u8]) -> Result<()> {
        if is_computed(name) {
            return Err(Errno::NODATA);
        }
        let node = self.nodes.get(id)?;
        let _changes = node.changes();
        let _shared = self.shared();
        for (at, reference) in self.writable_references(&node)?.iter().enumerate() {
            let path = path_of(reference);
            match rustix::fs::removexattr(path, name) {
                Err(Errno::NODATA) if at > 0 => {}
                done => done?,
            }
        }
        self.choices_changed(&node, name);
        Ok(())
    }

    /// An xattr of a directory may say where its new files are, and how.
    fn choices_changed(&self, node: &Node, name: &[u8]) {
        self.forget_choice(node);
        if name == PLACEMENT_XATTR.as_bytes() {
            self.placements_changed();
        }
    }

    fn first_reference(&self, node: &Node) -> Result<Arc<OwnedFd>> {
        if node.is_directory {
            return Ok(self.present_copies(node)?.swap_remove(0).1);
        }
        self.reference(node, self.usable_copies(node)?[0].branch)
    }

    /// A descriptor of each copy, all of which are writable.
    pub(crate) fn writable_references(&self, node: &Node) -> Result<Vec<Arc<OwnedFd>>> {
        let copies = match node.is_directory {
            true => self.present_copies(node)?,
            false => {
                let copy = *node.state().copies.first().ok_or(Errno::STALE)?;
                vec![(copy, self.reference(node, copy.branch)?)]
            }
        };
        copies.iter().try_for_each(|(copy, _)| self.check_writable(copy.branch))?;
        Ok(copies.into_iter().map(|(_, fd)| fd).collect())
    }

    fn where_is(&self, node: &Node, word: &[u8]) -> Result<Vec<u8>> {
        let relative = self.relative_path(node)?;
        let path = |branch: usize| self.branches[branch].path.as_os_str().as_bytes();
        let whole = |branch: usize| [path(branch), &relative].concat();
        let first = node.state().copies.first().ok_or(Errno::STALE)?.branch;
        match word {
            b"basepath" => Ok(path(first).to_vec()),
            b"relpath" => Ok(relative),
            b"fullpath" => Ok(whole(first)),
            b"allpaths" => {
                // Of a file too: copies on other branches are hidden, and this shows them.
                let paths: Vec<Vec<u8>> = self.all_branches(node).into_iter().map(whole).collect();
                Ok(paths.join(&0))
            }
            _ => Err(Errno::NODATA),
        }
    }

    /// The branches that have the node's name.
    fn all_branches(&self, node: &Node) -> Vec<usize> {
        let of_node = || node.copies().iter().map(|copy| copy.branch).collect();
        let Some(Name { directory, name }) = node.state().names.first().cloned() else {
            return of_node();
        };
        let found = self
            .nodes
            .get(directory)
            .and_then(|parent| self.on_branches(&parent, &name))
            .map(|found| found.all().iter().map(|(branch, _)| *branch).collect());
        found.unwrap_or_else(|_| of_node())
    }

    /// The path from the root of the union, with a slash before it.
    pub(crate) fn relative_path(&self, node: &Node) -> Result<Vec<u8>> {
        let mut parts: Vec<Box<[u8]>> = Vec::new();
        let mut at = self.nodes.get(node.id)?;
        while at.id != NodeId::ROOT {
            self.check_depth(parts.len())?;
            let Name { directory, name } = at.first_name()?;
            parts.push(name);
            at = self.nodes.get(directory)?;
        }
        let mut path = Vec::new();
        for part in parts.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(part);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Ok(path)
    }
}
