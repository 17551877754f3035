//! The mount as its gateway sees it.

use std::sync::Arc;

use braid_client::{Attributes, Bound, Client, FileIndex};

use crate::{
    consistency::Consistency,
    data::pace::SlowRates,
    error::Result,
    files::{Files, OpenFile},
    handles::{FileHandle, Handles},
    kept::{Changing, Mark},
    known::{Keep, Known},
    ops::{directory::OpenDirectory, is_open_question},
    promise::{Holder, Promise},
    removed::RemovedDirectories,
    users::Users,
};

/// What was so before the entries of a directory were changed.
#[derive(Debug)]
pub(crate) struct Before<'a> {
    /// The directory's promise, if it was held.
    pub(crate) promise: Option<Arc<Promise>>,
    pub(crate) mark: Mark,
    /// Nobody is given a listing meanwhile.
    changing: Changing<'a>,
}

/// A mounted file system. Its operations are in `ops`, one a file.
///
/// ```no_run
/// use braid_client::{Client, Config, Credential};
/// use braid_vfs::{Access, FileIndex, Looked, Vfs};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect(Config::new(["mds:7000"], Credential::from_key_file("/etc/braid/client.key")?))?;
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

/// How a mount behaves.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// What its reads see of what is written elsewhere.
    pub consistency: Consistency,
    /// When its large writes are gathered.
    pub slow: SlowRates,
    /// Each close sends what its process has written and waits for it, as NFS does it (ADR 0034).
    pub flush_on_close: bool,
}

impl Vfs {
    /// A mount over a client. One that may vouch for users (a host's key) makes files in their names; any other does
    /// everything in its own.
    ///
    /// # Errors
    /// The metadata server is not reached.
    pub fn new(client: Client) -> Result<Self> {
        Self::with(client, Options::default())
    }

    /// The same, with options.
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

    /// What this mount's reads see of what is written elsewhere.
    pub fn consistency(&self) -> Consistency {
        self.consistency
    }

    /// The time of one call of a program: everything that this thread does on the mount until the result is dropped ends within
    /// the time bound of its client (I8), whatever servers are away. To be taken by a gateway for each request, but for one that
    /// may wait as long as it takes (a lock), and one by which nobody's call waits (pages that a kernel writes back).
    pub fn bound(&self) -> Bound {
        self.client().bound()
    }

    pub(crate) fn client(&self) -> &Client {
        self.users.root()
    }

    pub(crate) fn file(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        self.open_files.find(handle.0)
    }

    /// Whether what was told of a file by a name, since `mark`, may be of before bytes that were written on this mount and
    /// gathered: they are still, or, `gathered` having been at the time of the question, were sent meanwhile. What is written by others
    /// meanwhile, or by this mount after the question, is of no matter: whoever asked knows when it asked.
    pub(crate) fn is_in_doubt(&self, file: FileIndex, gathered: bool, mark: Mark) -> bool {
        self.holder.has_gathered(file) || gathered && !self.holder.cache.is_unchanged(file, mark)
    }

    /// What was written to a file on this mount is at the daemons, before the moment that this returns or after it: what is kept
    /// of an answer is not of before a write that returned. What cannot be written is told to whoever wrote it.
    pub(crate) fn settled_mark(&self, file: FileIndex) -> Mark {
        let _ = self.holder.settle_file(file);
        let mark = self.holder.cache.mark();
        // What was gathered between the two is a change of after the mark now.
        let _ = self.holder.settle_file(file);
        mark
    }

    /// Everything that was written on this mount is at the I/O daemons when this returns, or is known to be lost. For a gateway that
    /// ends.
    pub fn settle(&self) {
        // Who wrote is told at close, if it still can be.
        let _ = self.holder.settle_all();
    }

    /// Ends the session: what was promised to this mount is free for others when this returns. For a gateway that ends, and that
    /// nobody asks anything any more.
    pub fn leave(&self) {
        self.client().leave();
    }

    /// Attributes that came from the metadata server just now.
    pub(crate) fn seen(&self, attributes: Attributes) -> Known {
        Known::now(attributes)
    }

    /// Attributes that came just now, asked for under a promise.
    pub(crate) fn kept_under(
        &self,
        attributes: Attributes,
        promise: &Arc<Promise>,
        mark: Mark,
    ) -> Known {
        let keep = self
            .holder
            .cache
            .keep_attributes(promise, mark, &attributes, |promise| self.holder.holds(promise));
        Known { attributes, keep }
    }

    /// The promise that the attributes of a file would be kept under, if it is held: that of the directory of its one
    /// name, or a directory's own.
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

    /// This mount made something under a name, or tried to: it and its attributes are kept, if nothing came between. Told as
    /// well may be how the directory is `after` it.
    pub(crate) fn made(
        &self,
        (directory, name): (FileIndex, &[u8]),
        made: braid_client::Result<Attributes>,
        Before { promise, mark, changing: _until_it_is_kept }: Before<'_>,
        after: Option<Attributes>,
    ) -> Result<Known> {
        let (cache, holds) = (&self.holder.cache, |promise: &Promise| self.holder.holds(promise));
        let keep = match (&made, promise) {
            (Ok(found), Some(promise)) => cache.keep_found(&promise, mark, name, found, holds),
            _ => Keep::default(),
        };
        match &keep.name {
            Some(promise) => cache.change_entries(directory, promise, mark, after, holds),
            // What is remembered of the name is of before, or whether it was made is not known.
            None => cache.change_name(directory, name),
        }
        let attributes = made.inspect_err(|error| self.gave_up(directory, error))?;
        Ok(Known { attributes, keep })
    }

    /// Entries of a directory were to be changed, and this came of it.
    pub(crate) fn gave_up(&self, directory: FileIndex, error: &braid_client::Error) {
        if is_open_question(error) {
            self.holder.doubt(directory);
        }
    }

    /// The same, before something is made under a name.
    pub(crate) fn before_making(&self, (directory, name): (FileIndex, &[u8])) -> Before<'_> {
        let before = self.before(directory);
        Before { changing: before.changing.making(directory, name), ..before }
    }

    /// Before the entries of a directory are changed: its promise, if it is held, and the moment.
    pub(crate) fn before(&self, directory: FileIndex) -> Before<'_> {
        let changing = self.holder.cache.changing([directory; 2]);
        Before {
            promise: self.holder.held_promise(directory),
            mark: self.holder.cache.mark(),
            changing,
        }
    }
}
