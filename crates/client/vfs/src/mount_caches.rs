//! What a mount caches and buffers under leases, and how it carries out recalls.

use std::{
    fmt,
    sync::{
        Arc, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use braid_client::{Client, FileIndex, LeaseHolder, LeaseMode, Leases, lease::LeaseOf};

use crate::{
    consistency::Consistency,
    data::{Data, Table, server_clock::ServerClock, throughput::SlowRates, write_coalescing::Runs},
    error::Result,
    names::{
        cached_attributes::{Keep, Kept},
        name_cache::Cache,
        names_lease::Promise,
    },
    open::lazy_open::LateFiles,
    vfs::Vfs,
};

/// What a gateway caches outside of this crate: the kernel's dentries, attributes and pages. Called
/// by threads that serve no request, unless said otherwise. A slow call delays another client's
/// change.
pub trait Keeper: Send + Sync {
    /// For each directory: drops its names, its attributes, and the attributes of these files.
    fn drop_names(&self, directories: &[(FileIndex, Vec<FileIndex>)]);

    /// Drops the attributes of a file. Threads that serve requests call it, too.
    fn drop_attributes(&self, file: FileIndex);

    /// Drops the pages from byte `offset` for `bytes` bytes (0: to the end). Dirty pages are
    /// written before it returns. It may wait for pages that are being read and for those writes,
    /// which other threads serve meanwhile. Threads that serve requests call it, too.
    fn drop_data(&self, file: FileIndex, offset: u64, bytes: u64);
}

/// Everything that this mount has under leases: names and attributes, file data, buffered writes,
/// lazy opens.
pub(crate) struct Holder {
    leases: Leases,
    /// Names and attributes.
    pub(crate) cache: Cache,
    /// Held shared while a cacheable reply is written; exclusively by a recall, for a moment.
    order: RwLock<()>,
    /// What the gateway caches. Not set: nothing, and no lease is taken.
    keeper: OnceLock<Arc<dyn Keeper>>,
    /// Files whose bytes are in use or cached.
    pub(crate) data: Table,
    /// Buffered writes of these files.
    pub(crate) runs: Arc<Runs>,
    /// Gives buffered bytes their modification time.
    pub(crate) clock: ServerClock,
    pub(crate) late: Arc<LateFiles>,
    /// A thread gives up unused files.
    tidying: AtomicBool,
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountCaches").finish_non_exhaustive()
    }
}

impl Holder {
    pub(crate) fn new(
        client: &Client,
        consistency: Consistency,
        slow: SlowRates,
        write_behind: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            leases: client.leases(),
            cache: Cache::default(),
            order: RwLock::default(),
            keeper: OnceLock::new(),
            data: Table::new(consistency),
            runs: Arc::new(Runs::new(slow, write_behind)),
            clock: ServerClock::default(),
            late: Arc::default(),
            tidying: AtomicBool::new(false),
        })
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Whether this mount takes leases.
    pub(crate) fn is_serving(&self) -> bool {
        self.keeper.get().is_some()
    }

    /// The last use of a file's bytes by one handle has ended.
    pub(crate) fn closed(self: &Arc<Self>, file: FileIndex) {
        self.data.forget_unused(file, |data| self.is_worth_keeping(data));
        if !self.data.is_full() || self.tidying.swap(true, Ordering::AcqRel) {
            return;
        }
        let caches = Arc::clone(self);
        let gives_up = move || {
            caches.data.oldest().into_iter().for_each(|data| caches.give_up(data));
            caches.tidying.store(false, Ordering::Release);
        };
        if thread::Builder::new().name("vfs-tidy".into()).spawn(gives_up).is_err() {
            self.tidying.store(false, Ordering::Release);
        }
    }

    fn give_up(&self, data: Arc<Data>) {
        // A thread that opens the file meanwhile begins under a lease that is asked for afterwards.
        self.drain_and(&data, || {
            // If this call fails, the server recalls the lease when it needs it.
            let _ = self.leases.return_lease(LeaseOf::Data(data.file()));
        });
        self.data.forget(data, |_| false);
    }

    /// This mount changed the size of a file otherwise than by writing.
    pub(crate) fn resized(&self, file: FileIndex) {
        self.attributes_change(file);
        if let Some(data) = self.data.known(file) {
            data.ends_at(None);
        }
    }

    /// The end of a file, by its cached attributes.
    pub(crate) fn end_known(&self, file: FileIndex) -> Option<u64> {
        let known = self.cache.attributes(file, |lease| self.holds(lease))?;
        Some(known.attributes.bytes.0)
    }

    /// Drops what the gateway caches of a directory, and removes the directory from the name cache
    /// unless its lease is valid.
    pub(crate) fn forget(&self, directory: FileIndex) {
        self.forget_all(vec![directory]);
    }

    /// As [`MountCaches::forget_directory`], of several directories together.
    pub(crate) fn forget_all(&self, directories: Vec<FileIndex>) {
        let taken = |directory| (directory, self.cache.take(directory, |lease| self.holds(lease)));
        let taken: Vec<_> = directories.into_iter().map(taken).collect();
        self.wait_for_replies();
        if let Some(keeper) = self.keeper.get() {
            keeper.drop_names(&taken);
        }
    }

    /// Drops attributes of a file that were given out under the lease of another directory.
    pub(crate) fn drop_attributes(&self, file: FileIndex) {
        if let Some(keeper) = self.keeper.get() {
            self.wait_for_replies();
            keeper.drop_attributes(file);
        }
    }

    /// Drops pages that the gateway caches.
    pub(crate) fn keeper_drops(&self, file: FileIndex, offset: u64, bytes: u64) {
        if let Some(keeper) = self.keeper.get() {
            keeper.drop_data(file, offset, bytes);
        }
    }

    /// Waits until all cacheable replies that are being written now are written.
    fn wait_for_replies(&self) {
        drop(self.order.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl LeaseHolder for Holder {
    fn recall_names(&self, directory: FileIndex) {
        self.cache.recalled(directory);
        self.forget(directory);
        self.late.recalled(directory);
    }

    fn recall_data(&self, file: FileIndex, keep: LeaseMode) -> LeaseMode {
        let Some(data) = self.data.known(file) else { return LeaseMode::None };
        self.drain(&data);
        let kept = data.may_keep(keep);
        self.data.forget(data, |_| kept != LeaseMode::None);
        kept
    }

    fn lost_all(&self) {
        // Another thread sends the lazy opens once there is a session again: this one restores it.
        self.late.lost_all();
        self.lose_all();
    }
}

impl Vfs {
    /// From now on this mount takes leases, and `keeper` drops what it caches when they are
    /// recalled. Without this call nothing is cacheable.
    ///
    /// # Errors
    /// It was called before; there are too many threads.
    pub fn serve(&self, keeper: Arc<dyn Keeper>) -> Result<()> {
        let caches = Arc::downgrade(&self.holder);
        self.holder.leases.serve(caches as Weak<dyn LeaseHolder>)?;
        let _ = self.holder.keeper.set(keeper);
        Ok(())
    }

    /// The lease under which a name may be cached in this directory after a rename. For a gateway
    /// whose cache follows renames by itself: it takes this lease before the rename, and checks it
    /// afterwards with [`Vfs::reply_cacheable`].
    pub fn keep_names(&self, directory: FileIndex) -> Keep {
        let name = self
            .holder
            .held_promise(directory)
            .filter(|_| !self.holder.cache.is_in_doubt(directory));
        Keep { name, attributes: None }
    }

    /// Writes a reply: `give` gets what of it may be cached, and must have written it when it
    /// returns.
    pub fn hand_out<R>(&self, keep: &Keep, give: impl FnOnce(Kept) -> R) -> R {
        if keep.name.is_none() && keep.attributes.is_none() {
            return give(Kept { name: false, attributes: false });
        }
        let _order = self.holder.order.read().unwrap_or_else(PoisonError::into_inner);
        let is_valid =
            |lease: &Option<Arc<Promise>>| lease.as_ref().is_some_and(|one| self.holder.holds(one));
        give(Kept { name: is_valid(&keep.name), attributes: is_valid(&keep.attributes) })
    }
}
