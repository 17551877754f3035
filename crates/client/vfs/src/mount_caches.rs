//! What a mount caches and buffers under leases, and how it carries out recalls.

use std::{
    fmt,
    sync::{
        Arc, OnceLock, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use braid_client::{Client, FileIndex, LeaseHolder, LeaseMode, Leases, lease::LeaseOf};

use crate::{
    consistency::Consistency,
    data::{
        FileData, FileDataTable, UseGuard, server_clock::ServerClock, throughput::SlowRates,
        write_coalescing::WriteBuffers,
    },
    error::Result,
    names::{
        cached_attributes::{Cacheable, CachingLeases},
        name_cache::NameCache,
        names_lease::NamesLease,
        pending_changes::AttributeChangeGuard,
    },
    open::lazy_open::LazyOpens,
    vfs::Vfs,
};

/// What a gateway caches outside of this crate: the kernel's dentries, attributes and pages. Called
/// by threads that serve no request, unless said otherwise. A slow call delays another client's
/// change.
pub trait CacheInvalidator: Send + Sync {
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
pub(crate) struct MountCaches {
    leases: Leases,
    /// Names and attributes.
    pub(crate) names: NameCache,
    /// Held shared while a cacheable reply is written; exclusively by a recall, for a moment.
    reply_order: RwLock<()>,
    /// What the gateway caches. Not set: nothing, and no lease is taken.
    invalidator: OnceLock<Arc<dyn CacheInvalidator>>,
    /// Files whose bytes are in use or cached.
    pub(crate) data: FileDataTable,
    /// Buffered writes of these files.
    pub(crate) buffers: Arc<WriteBuffers>,
    /// Gives buffered bytes their modification time.
    pub(crate) clock: ServerClock,
    pub(crate) lazy_opens: Arc<LazyOpens>,
    /// A thread gives up unused files.
    tidying: AtomicBool,
}

impl fmt::Debug for MountCaches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MountCaches").finish_non_exhaustive()
    }
}

impl MountCaches {
    pub(crate) fn new(
        client: &Client,
        consistency: Consistency,
        slow: SlowRates,
        write_behind: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            leases: client.leases(),
            names: NameCache::default(),
            reply_order: RwLock::default(),
            invalidator: OnceLock::new(),
            data: FileDataTable::new(consistency),
            buffers: Arc::new(WriteBuffers::new(slow, write_behind)),
            clock: ServerClock::default(),
            lazy_opens: Arc::default(),
            tidying: AtomicBool::new(false),
        })
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Whether this mount takes leases.
    pub(crate) fn is_serving(&self) -> bool {
        self.invalidator.get().is_some()
    }

    /// The last use of a file's bytes by one handle has ended.
    pub(crate) fn end_use(self: &Arc<Self>, file: FileIndex) {
        self.data.forget_unused(file, |data| self.stays_in_table(data));
        if !self.data.is_full() || self.tidying.swap(true, Ordering::AcqRel) {
            return;
        }
        let caches = Arc::clone(self);
        let gives_up = move || {
            caches.data.oldest_unused().into_iter().for_each(|data| caches.give_up(data));
            caches.tidying.store(false, Ordering::Release);
        };
        if thread::Builder::new().name("vfs-tidy".into()).spawn(gives_up).is_err() {
            self.tidying.store(false, Ordering::Release);
        }
    }

    fn give_up(&self, data: Arc<FileData>) {
        // A thread that opens the file meanwhile begins under a lease that is asked for afterwards.
        self.drain_and(&data, || {
            // If this call fails, the server recalls the lease when it needs it.
            let _ = self.leases.return_lease(LeaseOf::Data(data.file()));
        });
        self.data.forget(data, |_| false);
    }

    /// Before this mount asks the server to change attributes of a file. Other clients may see the
    /// change before its reply arrives here, and this mount's cached attributes must not be older
    /// than what they see. So the attributes are dropped, here and at the gateway, and nothing
    /// caches them until the guard is dropped.
    ///
    /// A reply that is being written now may have the old attributes. Its question is older than
    /// this drop, and a kernel does not cache such a reply.
    pub(crate) fn begin_attribute_change(&self, file: FileIndex) -> AttributeChangeGuard<'_> {
        self.note_attribute_change(file);
        let changing = self.names.begin_attribute_change(file);
        self.drop_attributes(file);
        changing
    }

    /// As [`MountCaches::begin_attribute_change`], before this mount writes to a file at the
    /// daemons. The gateway is called only if it may have attributes of the file, so most writes do
    /// not call it.
    ///
    /// `None`: no other client sees the write before this mount's lease is recalled, and the recall
    /// waits for the write and drops the attributes ([`MountCaches::drain`]).
    pub(crate) fn begin_write_change(
        &self,
        under: Option<&UseGuard>,
    ) -> Option<AttributeChangeGuard<'_>> {
        let data = under.filter(|under| !under.is_alone())?.data();
        let changing = self.names.begin_attribute_change(data.file());
        self.drop_given_attributes(data);
        Some(changing)
    }

    /// Drops the attributes of a file at the gateway, unless it has none.
    pub(crate) fn drop_given_attributes(&self, data: &FileData) {
        if let Some(now) = self.names.take_given_out(data.file(), data.attributes_dropped()) {
            self.drop_attributes(data.file());
            data.note_attributes_dropped(now);
        }
    }

    /// This mount changed the size of a file otherwise than by writing.
    pub(crate) fn note_resize(&self, file: FileIndex) {
        self.note_attribute_change(file);
        if let Some(data) = self.data.get(file) {
            data.set_end(None);
        }
    }

    /// The end of a file, by its cached attributes.
    pub(crate) fn cached_end(&self, file: FileIndex) -> Option<u64> {
        let known = self.names.attributes(file, |lease| self.is_valid(lease))?;
        Some(known.attributes.bytes.0)
    }

    /// Drops what the gateway caches of a directory, and removes the directory from the name cache
    /// unless its lease is valid.
    pub(crate) fn forget_directory(&self, directory: FileIndex) {
        self.forget_directories(vec![directory]);
    }

    /// As [`MountCaches::forget_directory`], of several directories together.
    pub(crate) fn forget_directories(&self, directories: Vec<FileIndex>) {
        let taken = |directory| {
            (directory, self.names.take_directory(directory, |lease| self.is_valid(lease)))
        };
        let taken: Vec<_> = directories.into_iter().map(taken).collect();
        self.wait_for_replies();
        if let Some(invalidator) = self.invalidator.get() {
            invalidator.drop_names(&taken);
        }
    }

    /// Drops attributes of a file that were given out under the lease of another directory.
    pub(crate) fn drop_attributes(&self, file: FileIndex) {
        if let Some(invalidator) = self.invalidator.get() {
            self.wait_for_replies();
            invalidator.drop_attributes(file);
        }
    }

    /// Drops pages that the gateway caches.
    pub(crate) fn drop_pages(&self, file: FileIndex, offset: u64, bytes: u64) {
        if let Some(invalidator) = self.invalidator.get() {
            invalidator.drop_data(file, offset, bytes);
        }
    }

    /// Waits until all cacheable replies that are being written now are written.
    fn wait_for_replies(&self) {
        drop(self.reply_order.write().unwrap_or_else(braid_types::poisoned));
    }
}

impl LeaseHolder for MountCaches {
    fn recall_names(&self, directory: FileIndex) {
        self.names.note_recall(directory);
        self.forget_directory(directory);
        self.lazy_opens.recalled(directory);
    }

    fn recall_data(&self, file: FileIndex, keep: LeaseMode) -> LeaseMode {
        let Some(data) = self.data.get(file) else { return LeaseMode::None };
        self.drain(&data);
        let kept_mode = data.mode_after_recall(keep);
        self.data.forget(data, |_| kept_mode != LeaseMode::None);
        kept_mode
    }

    fn lost_all(&self) {
        // Another thread sends the lazy opens once there is a session again: this one restores it.
        self.lazy_opens.lost_all();
        self.drop_all_caches();
    }
}

impl Vfs {
    /// From now on this mount takes leases, and `invalidator` drops what it caches when they are
    /// recalled. Without this call nothing is cacheable.
    ///
    /// # Errors
    /// It was called before; there are too many threads.
    pub fn serve(&self, invalidator: Arc<dyn CacheInvalidator>) -> Result<()> {
        let caches = Arc::downgrade(&self.caches);
        self.caches.leases.serve(caches as Weak<dyn LeaseHolder>)?;
        let _ = self.caches.invalidator.set(invalidator);
        Ok(())
    }

    /// The lease under which a name may be cached in this directory after a rename. For a gateway
    /// whose cache follows renames by itself: it takes this lease before the rename, and checks it
    /// afterwards with [`Vfs::reply_cacheable`].
    pub fn lease_for_renamed(&self, directory: FileIndex) -> CachingLeases {
        let name = self
            .caches
            .held_names_lease(directory)
            .filter(|_| !self.caches.names.is_uncertain(directory));
        CachingLeases { name, attributes: None }
    }

    /// Writes a reply: `give` gets what of it may be cached, and must have written it when it
    /// returns.
    pub fn reply_cacheable<R>(&self, keep: &CachingLeases, give: impl FnOnce(Cacheable) -> R) -> R {
        if keep.name.is_none() && keep.attributes.is_none() {
            return give(Cacheable { name: false, attributes: false });
        }
        let _order = self.caches.reply_order.read().unwrap_or_else(braid_types::poisoned);
        let is_valid = |lease: &Option<Arc<NamesLease>>| {
            lease.as_ref().is_some_and(|one| self.caches.is_valid(one))
        };
        give(Cacheable { name: is_valid(&keep.name), attributes: is_valid(&keep.attributes) })
    }
}
