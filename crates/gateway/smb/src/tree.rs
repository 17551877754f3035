//! Shares, and the trees of a session: its connections to shares. MS-SMB2 3.3.1.6, 3.3.1.9.

use std::sync::Arc;

use braid_share::FileIndex;

use crate::config::{ShareConfig, same_name};

/// A connection of a session to a share.
#[derive(Debug)]
pub struct Tree {
    /// Its number in the session.
    pub id: u32,
    /// What it is connected to.
    pub target: Target,
    /// The most that an open of it may be granted, an access mask.
    pub maximal_access: u32,
}

/// What a tree is connected to.
#[derive(Debug)]
pub enum Target {
    /// A share of files, with its root directory.
    Files {
        /// The share.
        share: Arc<ShareConfig>,
        /// The directory that it begins at.
        root: FileIndex,
    },
    /// `IPC$`, which has the named pipes.
    Pipes,
}

impl Tree {
    /// The root directory; `None` for pipes.
    pub fn root(&self) -> Option<FileIndex> {
        match self.target {
            Target::Files { root, .. } => Some(root),
            Target::Pipes => None,
        }
    }

    /// Whether requests for it must be encrypted.
    pub fn requires_encryption(&self) -> bool {
        matches!(&self.target, Target::Files { share, .. } if share.encrypt)
    }

    /// Whether nothing may be changed through it.
    pub fn is_read_only(&self) -> bool {
        matches!(&self.target, Target::Files { share, .. } if share.read_only)
    }
}

/// The shares of a server.
#[derive(Debug)]
pub struct Shares(Vec<Arc<ShareConfig>>);

impl Shares {
    /// The shares of a checked configuration.
    pub fn new(shares: &[ShareConfig]) -> Self {
        Self(shares.iter().cloned().map(Arc::new).collect())
    }

    /// The share with this name.
    pub fn find(&self, name: &str) -> Option<&Arc<ShareConfig>> {
        self.0.iter().find(|share| same_name(&share.name, name))
    }

    /// Those that lists show.
    pub fn listed(&self) -> impl Iterator<Item = &ShareConfig> {
        self.0.iter().map(|share| &**share).filter(|share| !share.hidden)
    }
}
