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
//! 4. Names and attributes are valid for long where direct changes on the branches are noticed:
//!    see `validity`.
//! 5. If the kernel does not accept a reply with a node or a handle, it is undone.

mod attribute_demand;
mod backing;
mod convert;
mod directories;
mod dispatch;
mod handles;
mod kernel_listings;
mod known_attributes;
mod validity;

use std::{
    hash::RandomState,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use braid_union::{Found, NodeId, NoticedChanges, Union};

use self::{
    attribute_demand::AttributeDemand,
    backing::Backings,
    handles::Handles,
    kernel_listings::KernelListings,
    known_attributes::KnownAttributes,
    validity::{Answers, Asked, EntryValidity, SHORT},
};
use crate::kernel::{
    Call, Expiry, Features, Forget, Handler, KernelFeatures, Notifier, Reply, Request, Validity,
    Wanted,
};

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
    known_attributes: KnownAttributes,
    answers: Answers,
    /// Of the offsets in listings that the kernel keeps.
    hasher: RandomState,
    notifier: OnceLock<Notifier>,
    /// Whether the kernel can expire names, so that it looks them up again.
    expires_names: OnceLock<bool>,
    /// Whether passthrough is wanted at all.
    pass_through: bool,
    takes_notices: AtomicBool,
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
            known_attributes: KnownAttributes::default(),
            answers: Answers::default(),
            hasher: RandomState::new(),
            notifier: OnceLock::new(),
            expires_names: OnceLock::new(),
            pass_through,
            takes_notices: AtomicBool::new(false),
        }
    }

    /// From now on the kernel keeps names and attributes for long where the union notices direct
    /// changes ([`braid_union::NoticeKeeper`]).
    pub fn take_notices(self: &Arc<Self>) {
        let served = Arc::downgrade(self);
        self.union.set_on_notice(move |changes| {
            served.upgrade().is_some_and(|served| served.notice(changes))
        });
        self.takes_notices.store(true, Ordering::SeqCst);
    }

    /// Attributes of a node were changed by something else than this mount. It does not wait.
    pub fn attributes_changed(&self, node: NodeId) {
        let attributes = [node].into();
        self.changed_elsewhere(NoticedChanges { attributes, ..NoticedChanges::default() });
    }

    /// A name was changed by something else than this mount. It does not wait until the kernel
    /// has dropped it: a program may hold the directory's lock.
    pub fn name_changed(&self, directory: NodeId, name: &[u8]) {
        let names = [(directory, [name.into()].into())].into();
        self.changed_elsewhere(NoticedChanges { names, ..NoticedChanges::default() });
    }

    fn changed_elsewhere(&self, changes: NoticedChanges) {
        if self.notice(&changes) {
            self.union.tell_again(changes);
        }
    }

    /// Makes the kernel drop what was changed without it. It does not wait. Returns whether an
    /// answer from before the change may be on its way to the kernel: then it is to be called once
    /// more a second later.
    pub fn notice(&self, changes: &NoticedChanges) -> bool {
        let again = self.answers.changed(changes);
        let Some(notifier) = self.notifier.get() else { return false };
        for node in &changes.attributes {
            // The kernel may not know the node, and the mount may have ended.
            let _ = notifier.inval_attributes(node.0);
        }
        if self.expires_names.get() == Some(&true) {
            for (directory, names) in &changes.names {
                let (directory, names) = (directory.0, names.iter().cloned().collect());
                let expiry = Expiry { directory, names, files: Vec::new(), not_before: None };
                drop(notifier.expire(expiry));
            }
        }
        again
    }

    /// Whether the kernel can drop all that it keeps.
    fn can_notice(&self) -> bool {
        self.takes_notices.load(Ordering::Relaxed) && self.expires_names.get() == Some(&true)
    }

    /// For how long the kernel may use what was found in a directory.
    fn entry_validity(
        &self,
        asked: Asked,
        directory: NodeId,
        found: &Found,
        short: Duration,
    ) -> EntryValidity {
        let names = self.can_notice() && self.union.notices_names(directory);
        let attributes = names && self.union.notices_attributes(found.node);
        // A directory may have copies elsewhere.
        let names = names && (attributes || !found.attributes.is_directory());
        let name = self.answers.valid(asked, names, short);
        EntryValidity { name, attributes: self.answers.valid(asked, attributes, short) }
    }

    fn absent_validity(
        &self,
        asked: Asked,
        directory: NodeId,
        name: &[u8],
        short: Duration,
    ) -> Validity {
        let noticed = self.can_notice()
            && self.union.notices_names(directory)
            && self.union.note_absent_in_kernel(directory, name);
        self.answers.valid(asked, noticed, short)
    }

    fn attributes_validity(&self, asked: Asked, node: NodeId) -> Validity {
        let noticed = self.can_notice() && self.union.notices_attributes(node);
        self.answers.valid(asked, noticed, SHORT)
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
        if !self.known_attributes.is_empty() {
            let nodes = || forgotten.iter().map(|one| NodeId(one.node));
            let above = nodes().flat_map(|node| self.union.directories_of(node));
            self.known_attributes.forget(nodes().chain(above));
        }
        forgotten.iter().for_each(|one| self.union.forget(NodeId(one.node), one.lookups));
    }
}
