//! Serves the kernel's requests with a union of local file systems (`braid-union`).
//!
//! ```text
//!   kernel::Handler ──> UnionFileSystem::handle ──> one method of Union for each request
//!        |                                              |  system calls on a branch
//!        +── passthrough: the kernel reads and writes ──+──> the branch's page cache
//! ```
//!
//! 1. The kernel checks permissions (`default_permissions`, POSIX ACLs). What is created belongs to
//!    the calling user.
//! 2. Locks are the kernel's own: one machine has the union.
//! 3. All open files of a node are served in one way at a time, passed through or not: see
//!    `backing`.
//! 4. If the kernel does not accept a reply with a node or a handle, it is undone.

mod attribute_demand;
mod backing;
mod convert;
mod directories;
mod dispatch;
mod handles;
mod kernel_listings;

use std::{
    hash::RandomState,
    sync::{Arc, OnceLock},
};

use braid_union::{NAMES_VALID, NodeId, Union};

use self::{
    attribute_demand::AttributeDemand, backing::Backings, handles::Handles,
    kernel_listings::KernelListings,
};
use crate::kernel::{
    Call, Expiry, Features, Forget, Handler, KernelFeatures, Notifier, Reply, Request, Validity,
    Wanted,
};

/// How long the kernel uses names and attributes without asking: direct changes on a branch are
/// seen after this time.
const VALID: Validity = Validity::For(NAMES_VALID);
/// Passthrough: branches are on plain file systems, and another stacked file system may lie on this
/// mount.
const STACK_DEPTH: u32 = 1;

/// A union behind one mount.
#[derive(Debug)]
pub struct UnionFileSystem {
    union: Arc<Union>,
    handles: Handles,
    backings: OnceLock<Backings>,
    attribute_demand: AttributeDemand,
    kernel_listings: KernelListings,
    /// Of the offsets in listings that the kernel keeps.
    hasher: RandomState,
    notifier: OnceLock<Notifier>,
    /// Whether the kernel can expire names, so that it looks them up again.
    expires_names: OnceLock<bool>,
    /// Whether passthrough is wanted at all.
    pass_through: bool,
}

impl UnionFileSystem {
    /// The file system of one mount. `pass_through`: let the kernel read and write plain files by
    /// itself where it can.
    pub fn new(union: Arc<Union>, pass_through: bool) -> Self {
        Self {
            union,
            handles: Handles::default(),
            backings: OnceLock::new(),
            attribute_demand: AttributeDemand::default(),
            kernel_listings: KernelListings::default(),
            hasher: RandomState::new(),
            notifier: OnceLock::new(),
            expires_names: OnceLock::new(),
            pass_through,
        }
    }

    /// Attributes of a node were changed by something else than this mount. It does not wait.
    pub fn attributes_changed(&self, node: NodeId) {
        if let Some(notifier) = self.notifier.get() {
            // The kernel may not know the node, and the mount may have ended.
            let _ = notifier.inval_attributes(node.0);
        }
    }

    /// A name was changed by something else than this mount. It does not wait until the kernel
    /// has dropped it: a program may hold the directory's lock.
    pub fn name_changed(&self, directory: NodeId, name: &[u8]) {
        if let (Some(notifier), Some(true)) = (self.notifier.get(), self.expires_names.get()) {
            let (directory, names) = (directory.0, vec![name.into()]);
            let expiry = Expiry { directory, names, files: Vec::new(), not_before: None };
            drop(notifier.expire(expiry));
        }
    }

    /// Whether the kernel reads and writes files by itself, or why not.
    pub fn pass_through(&self) -> Result<(), String> {
        self.backings.get().map_or_else(|| Err("it is switched off".to_owned()), Backings::works)
    }
}

impl Handler for UnionFileSystem {
    fn init(&self, kernel: &KernelFeatures) -> Wanted {
        let _ = self.expires_names.set(kernel.expires_names());
        use Features as F;
        let mut wanted = Wanted::default();
        wanted.features |= F::POSIX_ACL | F::DONT_MASK | F::HANDLE_KILLPRIV_V2;
        wanted.features |= F::DO_READDIRPLUS | F::READDIRPLUS_AUTO;
        wanted.features |= F::CACHE_SYMLINKS | F::DIRECT_IO_ALLOW_MMAP;
        if self.pass_through {
            wanted.features |= F::PASSTHROUGH;
            wanted.stack_depth = STACK_DEPTH;
        }
        wanted
    }

    fn started(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier.clone());
        if self.pass_through {
            let _ = self.backings.set(Backings::new(notifier.backing_files().cloned()));
        }
    }

    fn handle(&self, request: Request<'_>, reply: Reply, call: &mut Call<'_>) {
        let mut reply = Some(reply);
        let done = self.dispatch(&request, &mut reply, call);
        if let (Err(error), Some(reply)) = (done, reply) {
            reply.error(error);
        }
    }

    fn forget(&self, forgotten: &[Forget]) {
        self.kernel_listings.forget(forgotten.iter().map(|one| NodeId(one.node)));
        forgotten.iter().for_each(|one| self.union.forget(NodeId(one.node), one.lookups));
    }
}
