//! A mount, as its gateway uses it.

use std::sync::Arc;

use braid_client::{Attributes, CallDeadline, Client, FileIndex};

use crate::{
    consistency::Consistency,
    data::throughput::SlowRates,
    error::Result,
    mount_caches::Holder,
    names::{
        cached_attributes::{Keep, Known},
        change_marks::ChangeMark,
        names_lease::Promise,
        pending_changes::ChangeGuard,
        removed_dirs::RemovedDirectories,
    },
    open::{
        handles::{FileHandle, Handles},
        open_file::OpenFile,
        shared_file::Files,
    },
    ops::{directory::OpenDirectory, is_open_question},
    users::Users,
};

/// The state before entries of a directory are changed.
#[derive(Debug)]
pub(crate) struct Before<'a> {
    /// The directory's names lease, if it was held.
    pub(crate) lease: Option<Arc<Promise>>,
    pub(crate) mark: ChangeMark,
    /// No listing is served from the cache meanwhile.
    changing: ChangeGuard<'a>,
}

/// A mounted file system. Its operations are in `ops`, one in each file.
///
/// ```no_run
/// use braid_client::{Client, Config, Credential};
/// use braid_vfs::{Access, FileIndex, Looked, Vfs};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let credential = Credential::from_key_file("/etc/braid/client.key")?;
/// let client = Client::connect(Config::new(["mds:7000"], credential))?;
/// let vfs = Vfs::new(client)?;
/// if let Looked::Found(known) = vfs.look_up(FileIndex::ROOT, b"results")? {
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
    pub(crate) holder: Arc<Holder>,
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
            holder: Holder::new(&client, consistency, slow, !flush_on_close),
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
    pub(crate) fn is_in_doubt(&self, file: FileIndex, buffered: bool, mark: ChangeMark) -> bool {
        self.holder.has_gathered(file) || buffered && !self.holder.cache.is_unchanged(file, mark)
    }

    /// Sends the buffered bytes of a file and returns the position in this mount's changes.
    /// Attributes that are asked for afterwards and cached are not older than a write that has
    /// returned. The handle that wrote the bytes reports an error.
    pub(crate) fn settled_mark(&self, file: FileIndex) -> ChangeMark {
        let _ = self.holder.settle_file(file);
        let mark = self.holder.cache.mark();
        // Bytes that were buffered before the mark are sent now, which counts as a change after it.
        let _ = self.holder.settle_file(file);
        mark
    }

    /// Sends all buffered bytes of this mount, for a gateway that ends. When this returns they are
    /// at the I/O daemons, or their loss is recorded.
    pub fn settle(&self) {
        // A close reports an error, if there still is one.
        let _ = self.holder.settle_all();
    }

    /// Ends the session and its leases, for a gateway that has ended. No call may follow.
    pub fn leave(&self) {
        self.client().end_session();
    }

    /// Attributes of a reply that are not cacheable.
    pub(crate) fn seen(&self, attributes: Attributes) -> Known {
        Known::now(attributes)
    }

    /// Attributes of a reply to a question that was sent under a lease: they are cached.
    pub(crate) fn kept_under(
        &self,
        attributes: Attributes,
        lease: &Arc<Promise>,
        mark: ChangeMark,
    ) -> Known {
        let keep = self
            .holder
            .cache
            .keep_attributes(lease, mark, &attributes, |lease| self.holder.holds(lease));
        Known { attributes, keep }
    }

    /// The names lease under which the attributes of a file would be cached, if it is held: that of
    /// the directory of its only name, or a directory's own.
    pub(crate) fn promise_of(&self, file: FileIndex) -> Option<Arc<Promise>> {
        match self.holder.cache.parent(file) {
            Some(above) => self.holder.promise(above),
            None => self.holder.held_promise(file),
        }
    }

    /// This mount has changed the bytes or attributes of a file.
    pub(crate) fn changed(&self, file: FileIndex) {
        self.holder.cache.change(&[file]);
    }

    /// This mount created something under a name, or tried to. Name and attributes are cached,
    /// unless another change came between. `after`: the directory's attributes afterwards, if the
    /// reply had them.
    pub(crate) fn made(
        &self,
        (directory, name): (FileIndex, &[u8]),
        made: braid_client::Result<Attributes>,
        Before { lease, mark, changing: _until_cached }: Before<'_>,
        after: Option<Attributes>,
    ) -> Result<Known> {
        let (cache, is_valid) = (&self.holder.cache, |lease: &Promise| self.holder.holds(lease));
        let keep = match (&made, lease) {
            (Ok(found), Some(lease)) => cache.keep_found(&lease, mark, name, found, is_valid),
            _ => Keep::default(),
        };
        match &keep.name {
            Some(lease) => cache.change_entries(directory, lease, mark, after, is_valid),
            // What is cached of the name is too old, or the outcome is unknown.
            None => cache.change_name(directory, name),
        }
        let attributes = made.inspect_err(|error| self.gave_up(directory, error))?;
        Ok(Known { attributes, keep })
    }

    /// A change of a directory's entries has failed.
    pub(crate) fn gave_up(&self, directory: FileIndex, error: &braid_client::Error) {
        if is_open_question(error) {
            self.holder.doubt(directory);
        }
    }

    /// As [`Vfs::before_change`], before something is created under a name.
    pub(crate) fn before_making(&self, (directory, name): (FileIndex, &[u8])) -> Before<'_> {
        let before = self.before(directory);
        Before { changing: before.changing.making(directory, name), ..before }
    }

    /// The state before entries of a directory are changed.
    pub(crate) fn before(&self, directory: FileIndex) -> Before<'_> {
        let changing = self.holder.cache.changing([directory; 2]);
        Before {
            lease: self.holder.held_promise(directory),
            mark: self.holder.cache.mark(),
            changing,
        }
    }
}
