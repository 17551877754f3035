//! Stubs: which files are striped, and how.

use std::{os::fd::AsFd, sync::Arc};

use rustix::io::Errno;

use super::{
    choice::KnownChoice,
    layout::{Layout, TEXT_BYTES_MAX},
};
use crate::{
    Result, Union,
    attributes::{path_of, stat_fd},
    node::Node,
};

/// The xattr of a stub. Only root can set it, so no user can point at another user's objects.
pub(crate) const STUB_XATTR: &str = "trusted.braid.striped";

/// What a regular file on a branch is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stub {
    /// No stub: a plain file.
    Plain,
    /// The stub of a striped file.
    Striped(Arc<Layout>),
    /// A copy of a stub (S5).
    Copy(Arc<Layout>),
    /// A stub that cannot be read.
    Damaged,
}

impl Stub {
    /// The layout to read the file with.
    pub(crate) fn layout(&self) -> Option<&Arc<Layout>> {
        match self {
            Self::Striped(layout) | Self::Copy(layout) => Some(layout),
            Self::Plain | Self::Damaged => None,
        }
    }
}

/// What is known of a node: of a directory its choice, of a file its stub, which never changes.
#[derive(Debug, Default)]
pub(crate) struct NodeStriping {
    pub(crate) choice: KnownChoice,
    stub: Option<Stub>,
}

impl Union {
    /// What the file of a descriptor is.
    ///
    /// # Errors
    /// Those of getxattr(2).
    pub(crate) fn stub(&self, file: impl AsFd) -> Result<Stub> {
        if !self.striped.exist() {
            return Ok(Stub::Plain);
        }
        let mut value = [0; TEXT_BYTES_MAX];
        let bytes = match rustix::fs::getxattr(path_of(&file), STUB_XATTR, &mut value[..]) {
            Ok(bytes) => bytes,
            Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(Stub::Plain),
            Err(Errno::RANGE) => return Ok(Stub::Damaged),
            Err(error) => return Err(error),
        };
        let Some((layout, inode)) = Layout::from_text(&value[..bytes], self.pool) else {
            return Ok(Stub::Damaged);
        };
        let layout = Arc::new(layout);
        let original = inode == stat_fd(file)?.stx_ino;
        Ok(if original { Stub::Striped(layout) } else { Stub::Copy(layout) })
    }

    /// What a node is, by a descriptor of its file.
    pub(crate) fn stub_of(&self, node: &Node, file: impl AsFd) -> Result<Stub> {
        if let Some(known) = self.known_stub(node) {
            return Ok(known);
        }
        let stub = self.stub(file)?;
        if stub == Stub::Damaged {
            tracing::warn!(index = node.index, "the stub of a striped file is damaged");
        }
        self.stub_is(node, &stub);
        Ok(stub)
    }

    pub(crate) fn known_stub(&self, node: &Node) -> Option<Stub> {
        node.state().striping.stub.clone()
    }

    /// Whether the file of a node was found to be no striped one.
    pub(crate) fn is_known_plain(&self, node: &Node) -> bool {
        self.known_stub(node) == Some(Stub::Plain)
    }

    pub(crate) fn stub_is(&self, node: &Node, stub: &Stub) {
        node.state().striping.stub = Some(stub.clone());
    }
}
