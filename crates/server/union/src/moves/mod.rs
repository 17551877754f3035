//! Moves of files from one branch to another, while programs use the union
//! (docs/adr/0046).
//!
//! ```text
//!   copy      the file is copied under a temporary name; programs go on reading and writing
//!   switch    if nothing changed: the copy gets the names, the old file a hidden one (no name is
//!             looked up meanwhile); the copy is synced to its disk before, its names after
//!   remove    the old file
//! ```
//!
//! 1. A file that a program has open is not moved, unless its disk is full ([`full`]): bytes that
//!    the kernel reads and writes by itself belong to one file on one disk.
//! 2. A copy that differs from the old file never gets a name: the change time of the old file is
//!    compared at the switch, and a file that changed a moment ago is left for later.
//! 3. All names of a file are moved together, so links stay on one branch.
//! 4. An [intent](crate::intents) is on disk before the switch. After a kill or a loss of power the
//!    move is finished if the copy has all of its names, and undone otherwise.

mod copy;
mod drain;
mod full;
mod links;
mod mover;
mod paths;
mod switch;

pub use mover::{MoveReport, Progress};
pub use paths::MoveTarget;
use rustix::io::Errno;
use thiserror::Error;

use crate::{NodeId, Result, Union, node::Copy};

pub use links::join;
pub(crate) use switch::Move;

/// Why a file stays on its branch.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // the texts say it
pub enum NotMoved {
    #[error("a program has it open")]
    Open,
    #[error("it was changed a moment ago")]
    Changed,
    #[error("{branch} has another file of this name")]
    NameTaken { branch: String },
    #[error("another branch has a file of this name, which would be shown or hidden by the move")]
    Order,
    #[error("it has a link outside of the branch, or a new one")]
    Links,
    #[error("it is a striped file")]
    Striped,
    #[error("the new disk cannot keep its xattr {0}")]
    Xattr(String),
    #[error("no other disk has space for it")]
    NoSpace,
    #[error("it is on this disk already")]
    There,
    #[error("{0}")]
    Failed(Errno),
}

impl From<Errno> for NotMoved {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace,
            error => Self::Failed(error),
        }
    }
}

/// The nodes of a path, which are given back when this ends.
#[derive(Debug)]
pub(crate) struct Walked<'u> {
    union: &'u Union,
    nodes: Vec<NodeId>,
}

impl Drop for Walked<'_> {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|node| self.union.forget(*node, 1));
    }
}

impl Walked<'_> {
    pub(crate) fn last(&self) -> NodeId {
        self.nodes.last().copied().unwrap_or(NodeId::ROOT)
    }
}

impl Union {
    /// Looks up each part of a path, relative to the root.
    ///
    /// # Errors
    /// As for [`Union::look_up`].
    pub(crate) fn walk(&self, path: &[u8]) -> Result<Walked<'_>> {
        let mut walked = Walked { union: self, nodes: Vec::new() };
        for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            let found = self.look_up(walked.last(), part)?;
            walked.nodes.push(found.node);
        }
        Ok(walked)
    }

    /// Whether a program has the file open through the union.
    pub(crate) fn is_open(&self, copy: Copy) -> bool {
        self.nodes.of_inode(copy).is_some_and(|node| !node.state().open.is_empty())
    }
}

/// A path as the directory and the last name.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}
