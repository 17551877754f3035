//! A mount, as its gateway uses it.

use std::sync::Arc;

use braid_client::{Attributes, CallDeadline, Client, FileIndex};

use crate::{
    consistency::Consistency,
    data::throughput::SlowRates,
    error::Result,
    mount_caches::MountCaches,
    names::{
        cached_attributes::{CachedAttributes, CachingLeases},
        change_marks::ChangeMark,
        names_lease::NamesLease,
        pending_changes::ChangeGuard,
        removed_dirs::RemovedDirectories,
    },
    open::{
        handles::{FileHandle, Handles},
        open_file::OpenFile,
        shared_file::Files,
    },
    ops::{directory::OpenDirectory, is_outcome_unknown},
    users::Users,
};

/// The state before entries of a directory are changed.
#[derive(Debug)]
pub(crate) struct BeforeChange<'a> {
    /// The directory's names lease, if it was held.
    pub(crate) lease: Option<Arc<NamesLease>>,
    pub(crate) mark: ChangeMark,
    /// No listing is served from the cache meanwhile.
    changing: ChangeGuard<'a>,
}

/// A mounted file system. Its operations are in `ops`, one in each file.
///
/// ```no_run
/// use braid_client::{Client, Config, Credential};
/// use braid_vfs::{Access, FileIndex, LookupResult, Vfs};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let credential = Credential::from_key_file("/etc/braid/client.key")?;
/// let client = Client::connect(Config::new(["mds:7000"], credential))?;
/// let vfs = Vfs::new(client)?;
/// if let LookupResult::Found(known) = vfs.look_up(FileIndex::ROOT, b"results")? {
///     let opened = vfs.open(known.attributes.file, Access::READ)?;
///     let mut buffer = vec![0; 4096];
///     let bytes = vfs.read(opened.handle, 0, &mut buffer)?;
///     vfs.release(opened.handle, None)?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Vfs {
    pub(crate) users: Users,
    pub(crate) open_files: Handles<OpenFile>,
    pub(crate) open_directories: Handles<OpenDirectory>,
    pub(crate) files: Arc<Files>,
    pub(crate) caches: Arc<MountCaches>,
    pub(crate) removed: RemovedDirectories,
    consistency: Consistency,
}

/// Options of a mount.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// What its reads see of other clients' writes.
    pub consistency: Consistency,
    /// When its large writes are buffered.
    pub slow: SlowRates,
    /// Each close sends what its process has written and waits for it, as with NFS (ADR 0034).
    pub flush_on_close: bool,
}

impl Vfs {
    /// A mount over a client. A client with a host's key creates files in the names of their users;
    /// any other client does everything in its own name.
    ///
    /// # Errors
    /// The metadata server is not reached.
    pub fn new(client: Client) -> Result<Self> {
        Self::with(client, Options::default())
    }

    /// As [`Vfs::new`], with options.
    ///
    /// # Errors
    /// As [`Vfs::new`].
    pub fn with(client: Client, options: Options) -> Result<Self> {
        let Options { consistency, slow, flush_on_close } = options;
        Ok(Self {
            caches: MountCaches::new(&client, consistency, slow, !flush_on_close),
            consistency,
            users: Users::new(client)?,
            open_files: Handles::default(),
            open_directories: Handles::default(),
            files: Arc::default(),
            removed: RemovedDirectories::default(),
        })
    }

    /// What this mount's reads see of other clients' writes.
    pub fn consistency(&self) -> Consistency {
        self.consistency
    }

    /// Sets the deadline of one call of a program (I8): until the result is dropped, everything
    /// that this thread does on the mount ends within the client's time limit, however many servers
    /// are unresponsive. A gateway sets it for each request, except those that may wait without
    /// limit (a lock) and those that no program waits for (write-back of pages).
    pub fn bound(&self) -> CallDeadline {
        self.client().begin_deadline()
    }

    pub(crate) fn client(&self) -> &Client {
        self.users.root()
    }

    pub(crate) fn file(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        self.open_files.find(handle.0)
    }

    /// Whether attributes from a lookup or listing since `mark` may be older than bytes that this
    /// mount had buffered: they still are buffered, or something was (`buffered`) when the question
    /// was sent, and the file was changed since. Writes after the question do not matter: the
    /// caller knows when it asked.
    pub(crate) fn may_be_stale(&self, file: FileIndex, buffered: bool, mark: ChangeMark) -> bool {
        self.caches.has_buffered(file) || buffered && !self.caches.names.is_unchanged(file, mark)
    }

    /// Sends the buffered bytes of a file and returns the position in this mount's changes.
    /// Attributes that are asked for afterwards and cached are not older than a write that has
    /// returned. The handle that wrote the bytes reports an error.
    pub(crate) fn flush_and_mark(&self, file: FileIndex) -> ChangeMark {
        let _ = self.caches.flush_file(file);
        let mark = self.caches.names.mark();
        // Bytes that were buffered before the mark are sent now, which counts as a change after it.
        let _ = self.caches.flush_file(file);
        mark
    }

    /// Sends all buffered bytes of this mount, for a gateway that ends. When this returns they are
    /// at the I/O daemons, or their loss is recorded.
    pub fn flush_all(&self) {
        // A close reports an error, if there still is one.
        let _ = self.caches.flush_all();
    }

    /// Ends the session and its leases, for a gateway that has ended. No call may follow.
    pub fn end_session(&self) {
        self.client().end_session();
    }

    /// Attributes of a reply that are not cacheable.
    pub(crate) fn uncacheable(&self, attributes: Attributes) -> CachedAttributes {
        CachedAttributes::uncacheable(attributes)
    }

    /// Attributes of a reply to a question that was sent under a lease: they are cached.
    pub(crate) fn cache_under(
        &self,
        attributes: Attributes,
        lease: &Arc<NamesLease>,
        mark: ChangeMark,
    ) -> CachedAttributes {
        let keep = self
            .caches
            .names
            .cache_attributes(lease, mark, &attributes, |lease| self.caches.is_valid(lease));
        CachedAttributes { attributes, leases: keep }
    }

    /// The names lease under which the attributes of a file would be cached, if it is held: that of
    /// the directory of its only name, or a directory's own.
    pub(crate) fn names_lease_of(&self, file: FileIndex) -> Option<Arc<NamesLease>> {
        match self.caches.names.parent_of_file(file) {
            Some(above) => self.caches.names_lease(above),
            None => self.caches.held_names_lease(file),
        }
    }

    /// This mount has changed the bytes or attributes of a file.
    pub(crate) fn note_change(&self, file: FileIndex) {
        self.caches.names.invalidate(&[file]);
    }

    /// This mount created something under a name, or tried to. Name and attributes are cached,
    /// unless another change came between. `after`: the directory's attributes afterwards, if the
    /// reply had them.
    pub(crate) fn note_created(
        &self,
        (directory, name): (FileIndex, &[u8]),
        made: braid_client::Result<Attributes>,
        BeforeChange { lease, mark, changing: _until_cached }: BeforeChange<'_>,
        after: Option<Attributes>,
    ) -> Result<CachedAttributes> {
        let (cache, is_valid) =
            (&self.caches.names, |lease: &NamesLease| self.caches.is_valid(lease));
        let keep = match (&made, lease) {
            (Ok(found), Some(lease)) => cache.cache_found(&lease, mark, name, found, is_valid),
            _ => CachingLeases::default(),
        };
        match &keep.name {
            Some(lease) => cache.note_entry_change(directory, lease, mark, after, is_valid),
            // What is cached of the name is too old, or the outcome is unknown.
            None => cache.invalidate_name(directory, name),
        }
        let attributes = made.inspect_err(|error| self.note_failure(directory, error))?;
        Ok(CachedAttributes { attributes, leases: keep })
    }

    /// A change of a directory's entries has failed.
    pub(crate) fn note_failure(&self, directory: FileIndex, error: &braid_client::Error) {
        if is_outcome_unknown(error) {
            self.caches.mark_uncertain(directory);
        }
    }

    /// As [`Vfs::before_change`], before something is created under a name.
    pub(crate) fn before_create(&self, (directory, name): (FileIndex, &[u8])) -> BeforeChange<'_> {
        let before = self.before_change(directory);
        BeforeChange { changing: before.changing.with_creation_of(directory, name), ..before }
    }

    /// The state before entries of a directory are changed.
    pub(crate) fn before_change(&self, directory: FileIndex) -> BeforeChange<'_> {
        let changing = self.caches.names.begin_change([directory; 2]);
        BeforeChange {
            lease: self.caches.held_names_lease(directory),
            mark: self.caches.names.mark(),
            changing,
        }
    }
}
