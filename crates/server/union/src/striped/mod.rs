//! Striped files: the bytes of a file cut into units over several branches, for speed above one
//! disk (docs/adr/0045; the second kind of file of the paper United-FS).
//!
//! ```text
//!   disk1/films/one            the stub: name, attributes, size, and the layout in an xattr
//!   disk1/.braid-striped/…-0   the object of position 0: units 0, 2, 4 …
//!   disk2/.braid-striped/…-1   the object of position 1: units 1, 3, 5 …
//! ```
//!
//! The stub is a plain file without data, of the file's size. So names, links, modes, owners and
//! times need no code here.
//!
//! 1. The stub has the xattr before it has a name, and the layout never changes (S1).
//! 2. A visible stub has all its objects: they are created before it gets its name, and removed
//!    after its last name is gone. In between the stub has a link in `pending`, so that a process
//!    that was killed leaves nothing that is not found at the next start (S2).
//! 3. Bytes of an object that are beyond the size of the stub are not part of the file. They are
//!    cut before the file grows, so that they never appear (S3).
//! 4. An object that is shorter than the size of the stub says is filled up with zeros: a hole. One
//!    that is missing is an error, `EIO` (S4).
//! 5. A stub whose xattr names another inode is a copy. It can be read, but neither it nor its
//!    removal changes an object: the original may be there (S5).

pub(crate) mod attributes;
pub(crate) mod choice;
mod create;
mod extent;
mod files;
pub(crate) mod layout;
mod read;
mod remove;
pub(crate) mod store;
mod stub;
mod sweep;
mod write;

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use rustix::thread::CapabilitySet;

use crate::{
    PoolError,
    branch::{Branch, Branches},
};

pub use choice::{STRIPE_XATTR, StripeChoice};
pub(crate) use create::NewFile;
pub(crate) use files::{StripedFile, StripedOpen};
pub(crate) use stub::{NodeStriping, Stub};
pub use sweep::Sweep;

/// What a union keeps of striped files.
#[derive(Debug, Default)]
pub(crate) struct StripedFiles {
    /// Whether this process may read and write the xattr of stubs.
    pub(crate) allowed: bool,
    /// Whether a branch has a store. Without one no file is striped, and nothing is asked.
    exist: AtomicBool,
    open: Mutex<files::OpenTable>,
    /// Held while a link of a stub comes or goes.
    links: Mutex<()>,
}

impl StripedFiles {
    pub(crate) fn new(branches: &Branches) -> Self {
        let sets = rustix::thread::capabilities(None);
        let allowed = sets.is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
        let exist = AtomicBool::new(branches.iter().any(Branch::has_store));
        Self { allowed, exist, ..Self::default() }
    }

    /// # Errors
    /// There are striped files, and this process may not read their xattrs: it would take them for
    /// plain files of zeros.
    pub(crate) fn check_allowed(&self) -> Result<(), PoolError> {
        if self.exist() && !self.allowed { Err(PoolError::StripedNeedRoot) } else { Ok(()) }
    }

    /// A branch is added.
    pub(crate) fn may_have(&self, branch: &Branch) {
        if branch.has_store() {
            self.exist.store(true, Ordering::Relaxed);
        }
    }

    /// Whether any file may be striped.
    pub(crate) fn exist(&self) -> bool {
        self.exist.load(Ordering::Relaxed)
    }
}
