//! Files that are open on this mount and whose open the metadata server has not been sent. The
//! reply is known from the cached attributes, and the bytes may be in the kernel's page cache. So
//! open, read and close need no server.
//!
//! ```text
//!   open: attributes under the directory's names lease, pages under a read lease ──> lazy: no call
//!   first byte that is not cached, a lock ──> opened now
//!   the names lease is recalled ──> opened before it is returned
//!   this mount removes or moves a name of the directory ──> opened before the call is sent
//!   this mount changes the rights to open the file ──> opened before the call is sent
//! ```
//!
//! Invariants:
//! 1. The server knows that a file is open here before its last name is removed. Another client
//!    needs the names lease of its directory for that, which is returned only after the file was
//!    opened. This mount opens it before it sends the call, and opens no file lazily while such a
//!    call runs.
//! 2. A file stays pending until it is open. Where the metadata server does not answer, the open is
//!    retried until it does.
//! 3. The files of a directory are opened in parallel and within one deadline. At a recall it is
//!    [`OPEN_TIME`], since a recall that takes longer costs the session. Otherwise it is the
//!    deadline of the program's call (I8).
//!
//! `LazyOpenPause` asserts the count of removals in 1; what the server knows cannot be seen here.
//! `open` removes a file from the list only after it is open (2), and callers set the deadline (3).

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use braid_client::{CallDeadline, Client, File, FileIndex, OpenOptions};
use braid_types::limits::RECALL_MS;

use crate::{
    error::{Error, Result},
    mutex::lock,
    open::open_file::OpenFile,
};

/// Files that are opened at a time. Their calls share one connection, which this number uses fully.
const OPENERS_MAX: usize = 16;
/// Files that are worth one more thread. Fewer are opened before the thread has started.
const FILES_FOR_OPENER: usize = 8;
/// How long the opens of a directory's files may take at a recall. The rest of the recall's time is
/// for the return of the lease.
const OPEN_TIME: Duration = Duration::from_millis(RECALL_MS / 4 * 3);
/// How often a failed open is retried.
const RETRY: Duration = Duration::from_secs(1);

/// A file at the servers: open, or opened when it is needed.
#[derive(Debug)]
pub(crate) struct LazyOpen {
    index: FileIndex,
    file: OnceLock<File>,
    /// The client that opens it. Locked while it does.
    client: Mutex<Option<Client>>,
}

impl LazyOpen {
    /// A file that is open.
    pub(crate) fn open(file: File) -> Self {
        Self { index: file.index(), file: OnceLock::from(file), client: Mutex::new(None) }
    }

    /// A file that `client` opens for reading when it is needed.
    pub(crate) fn on_demand(client: &Client, index: FileIndex) -> Self {
        Self { index, file: OnceLock::new(), client: Mutex::new(Some(client.clone())) }
    }

    pub(crate) fn index(&self) -> FileIndex {
        self.index
    }

    /// The open file. Opens it now if it is not open.
    pub(crate) fn get(&self) -> Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let mut client = lock(&self.client);
        if let Some(opens) = &*client {
            let file = opens.open(self.index, &OpenOptions::new().read(true))?;
            let _ = self.file.set(file);
            *client = None;
        }
        drop(client);
        self.file.get().ok_or(Error::BadHandle)
    }

    /// Closes the file, if it was ever opened.
    pub(crate) fn close(self) -> Result<()> {
        self.file.into_inner().map_or(Ok(()), |file| Ok(file.close()?))
    }

    /// Fails if the daemons have lost writes.
    pub(crate) fn check_loss(&self) -> Result<()> {
        self.file.get().map_or(Ok(()), |file| Ok(file.check_loss()?))
    }
}

/// A file that is opened lazily.
#[derive(Clone, Debug)]
struct LazyFile {
    file: FileIndex,
    open: Weak<OpenFile>,
}

/// The lazy opens of a mount, by the directory of the file's only name.
#[derive(Debug, Default)]
pub(crate) struct LazyOpens {
    by_directory: Mutex<HashMap<FileIndex, HashMap<u64, LazyFile>>>,
    /// Running calls of this mount that remove names or rights to open a file.
    removing: AtomicUsize,
    pending: Mutex<PendingOpens>,
}

/// Directories whose lease is gone and whose lazy opens are still to be sent.
#[derive(Debug, Default)]
struct PendingOpens {
    directories: HashSet<FileIndex>,
    /// A thread sends them.
    has_thread: bool,
}

/// While this exists no file is opened lazily: a call removes names or rights.
pub(crate) struct LazyOpenPause<'l>(&'l LazyOpens);

impl Drop for LazyOpenPause<'_> {
    fn drop(&mut self) {
        let before = self.0.removing.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "1: a removal ends once");
    }
}

impl LazyOpens {
    /// Notes a lazily opened file. Whether it may stay so. The caller checks afterwards that the
    /// lease is still valid, too.
    pub(crate) fn add(&self, directory: FileIndex, handle: u64, open: &Arc<OpenFile>) -> bool {
        let lazy = LazyFile { file: open.file.index(), open: Arc::downgrade(open) };
        lock(&self.by_directory).entry(directory).or_default().insert(handle, lazy);
        self.removing.load(Ordering::SeqCst) == 0
    }

    /// A handle was released.
    pub(crate) fn forget(&self, directory: FileIndex, handle: u64) {
        let mut files = lock(&self.by_directory);
        if let Some(handles) = files.get_mut(&directory) {
            handles.remove(&handle);
            if handles.is_empty() {
                files.remove(&directory);
            }
        }
    }

    /// Sends the lazy opens of a directory.
    ///
    /// # Errors
    /// The metadata server is unresponsive: files that are not open stay pending.
    pub(crate) fn open(&self, directory: FileIndex) -> Result<()> {
        let noted = |files: &HashMap<FileIndex, HashMap<u64, LazyFile>>| {
            let handles = files.get(&directory)?;
            Some(handles.iter().map(|(handle, lazy)| (*handle, lazy.clone())).collect())
        };
        let lazy: Vec<(u64, LazyFile)> = match noted(&lock(&self.by_directory)) {
            Some(lazy) => lazy,
            None => return Ok(()),
        };
        let (done, failed) = open_each(lazy.iter().map(|(_, lazy)| lazy).collect());
        let mut files = lock(&self.by_directory);
        if let Some(handles) = files.get_mut(&directory) {
            for ((handle, lazy), _) in lazy.iter().zip(done).filter(|(_, done)| *done) {
                if handles.get(handle).is_some_and(|noted| noted.open.ptr_eq(&lazy.open)) {
                    handles.remove(handle);
                }
            }
            if handles.is_empty() {
                files.remove(&directory);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The names lease of a directory is recalled: sends its lazy opens within the time of a
    /// recall. Those that fail are retried later.
    pub(crate) fn recalled(self: &Arc<Self>, directory: FileIndex) {
        let opened = {
            let _deadline = CallDeadline::begin(OPEN_TIME);
            self.open(directory)
        };
        if opened.is_err() {
            self.retry_later(vec![directory]);
        }
    }

    /// All leases are lost: another thread sends the lazy opens once there is a session again.
    pub(crate) fn lost_all(self: &Arc<Self>) {
        let directories: Vec<FileIndex> = lock(&self.by_directory).keys().copied().collect();
        if !directories.is_empty() {
            self.retry_later(directories);
        }
    }

    fn retry_later(self: &Arc<Self>, directories: Vec<FileIndex>) {
        let mut pending = lock(&self.pending);
        pending.directories.extend(directories);
        if !pending.has_thread {
            let lazy = Arc::downgrade(self);
            let retries = move || {
                while lazy.upgrade().is_some_and(|lazy| lazy.send_pending()) {
                    thread::sleep(RETRY);
                }
            };
            // Without a thread they are sent with the next pending ones, or when the files are
            // used.
            pending.has_thread =
                thread::Builder::new().name("vfs-late".into()).spawn(retries).is_ok();
        }
    }

    /// Sends pending opens, as many as succeed. Whether some are left.
    fn send_pending(&self) -> bool {
        let directories: Vec<FileIndex> = lock(&self.pending).directories.iter().copied().collect();
        for directory in directories {
            let _deadline = CallDeadline::begin(OPEN_TIME);
            match self.open(directory) {
                Ok(()) => _ = lock(&self.pending).directories.remove(&directory),
                // The others would fail, too.
                Err(_) => break,
            }
        }
        let mut pending = lock(&self.pending);
        pending.has_thread = !pending.directories.is_empty();
        pending.has_thread
    }

    /// Sends all lazy opens of one file. They stay noted.
    fn open_file(&self, file: FileIndex) -> Result<()> {
        let lazy: Vec<_> = {
            let files = lock(&self.by_directory);
            files
                .values()
                .flat_map(HashMap::values)
                .filter(|lazy| lazy.file == file)
                .cloned()
                .collect()
        };
        open_each(lazy.iter().collect()).1.map_or(Ok(()), Err)
    }

    /// This mount is about to remove names in these directories: sends their lazy opens. No file is
    /// opened lazily until the result is dropped.
    ///
    /// # Errors
    /// The metadata server is unresponsive, and the names must not be removed.
    pub(crate) fn begin_removal(&self, directories: &[FileIndex]) -> Result<LazyOpenPause<'_>> {
        self.removing.fetch_add(1, Ordering::SeqCst);
        let removing = LazyOpenPause(self);
        directories.iter().try_for_each(|directory| self.open(*directory))?;
        Ok(removing)
    }

    /// This mount is about to change the rights to open a file: sends its lazy opens, which keep
    /// their rights. No file is opened lazily until the result is dropped.
    ///
    /// # Errors
    /// The metadata server is unresponsive, and the rights must not be changed.
    pub(crate) fn begin_rights_change(&self, file: FileIndex) -> Result<LazyOpenPause<'_>> {
        self.removing.fetch_add(1, Ordering::SeqCst);
        let removing = LazyOpenPause(self);
        self.open_file(file)?;
        Ok(removing)
    }
}

/// Opens files in parallel. Returns which of them need no further attempt: they are open, or
/// closed, or refused by the server, which their next use reports. Returns also why the others
/// failed, if the server is unresponsive: no open begins after that.
fn open_each(lazy: Vec<&LazyFile>) -> (Vec<bool>, Option<Error>) {
    let done: Vec<AtomicBool> = lazy.iter().map(|_| AtomicBool::new(false)).collect();
    let (next, failed) = (AtomicUsize::new(0), OnceLock::new());
    let work = || {
        while failed.get().is_none() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = lazy.get(at) else { return };
            match one.open.upgrade().map_or(Ok(()), |open| open.file.get().map(drop)) {
                Err(error) if error.is_server_unresponsive() => _ = failed.set(error),
                _ => done[at].store(true, Ordering::Relaxed),
            }
        }
    };
    let deadline = CallDeadline::current();
    thread::scope(|scope| {
        for _ in 1..lazy.len().div_ceil(FILES_FOR_OPENER).min(OPENERS_MAX) {
            let work_too = || {
                let _deadline = CallDeadline::enter(deadline);
                work();
            };
            // Without further threads it takes longer.
            let _ = thread::Builder::new().name("vfs-open".into()).spawn_scoped(scope, work_too);
        }
        work();
    });
    (done.into_iter().map(AtomicBool::into_inner).collect(), failed.into_inner())
}
