//! Files that are open here and that the metadata server does not know to be open: what it would answer is known, and
//! their bytes may be in a kernel's memory, so that open, read and close ask nobody.
//!
//! ```text
//!   open: attributes known under the names lease of the directory, bytes under read ──> late: no call
//!   first byte that is not in memory, a lock ──> opened now
//!   the names lease is recalled; this mount removes or moves a name of the directory ──> opened before it is given back, done
//!   this mount changes who may open it ──> opened before
//! ```
//!
//! Invariants: (1) nobody removes the last name of a file that is open here without the server knowing that it is open. Others need
//! the names lease of its directory for that, which is returned only when the file was opened; this mount opens it before it
//! sends the call, and opens nothing late while one is under way; (2) a file stays noted until it is open: where the
//! metadata server is away it is tried again until it answers; (3) the files of a directory are opened side by side and within one
//! time: [`OPEN_TIME`] at a recall, which costs the session when it takes longer, else that of the program's call (I8).

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use braid_client::{Bound, Client, File, FileIndex, OpenOptions};
use braid_types::limits::RECALL_MS;

use crate::{
    error::{Error, Result},
    files::{OpenFile, lock},
};

/// Files that are opened at a time: their calls share one connection, which so many keep busy.
const OPENERS_MAX: usize = 16;
/// So many files are worth one more thread: fewer are opened sooner than it begins.
const FILES_FOR_OPENER: usize = 8;
/// How long the files of a directory may take at a recall of its names; what is left is for the return.
const OPEN_TIME: Duration = Duration::from_millis(RECALL_MS / 4 * 3);
/// How often what could not be opened is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// An open file, or one that is opened when it is needed.
#[derive(Debug)]
pub(crate) struct Late {
    index: FileIndex,
    file: OnceLock<File>,
    /// Who opens it; held while it does.
    client: Mutex<Option<Client>>,
}

impl Late {
    /// One that is open.
    pub(crate) fn open(file: File) -> Self {
        Self { index: file.index(), file: OnceLock::from(file), client: Mutex::new(None) }
    }

    /// One that `client` opens for reading when it is needed.
    pub(crate) fn later(client: &Client, index: FileIndex) -> Self {
        Self { index, file: OnceLock::new(), client: Mutex::new(Some(client.clone())) }
    }

    pub(crate) fn index(&self) -> FileIndex {
        self.index
    }

    /// The file; opened now if it was not.
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
        self.file.get().ok_or(crate::error::Error::BadHandle)
    }

    /// What was never opened needs no closing.
    pub(crate) fn close(self) -> Result<()> {
        self.file.into_inner().map_or(Ok(()), |file| Ok(file.close()?))
    }

    /// Whether writes were lost.
    pub(crate) fn check_loss(&self) -> Result<()> {
        self.file.get().map_or(Ok(()), |file| Ok(file.check_loss()?))
    }
}

/// A late file.
#[derive(Clone, Debug)]
struct Noted {
    file: FileIndex,
    open: Weak<OpenFile>,
}

/// The late files, by the directory of their one name.
#[derive(Debug, Default)]
pub(crate) struct LateFiles {
    by_directory: Mutex<HashMap<FileIndex, HashMap<u64, Noted>>>,
    /// Calls of this mount under way that take names away, or somebody's right to open a file.
    removing: AtomicUsize,
    owed: Mutex<Owed>,
}

/// Directories whose lease is gone and whose late files are still to be opened.
#[derive(Debug, Default)]
struct Owed {
    directories: HashSet<FileIndex>,
    /// A thread opens them.
    served: bool,
}

/// A call that takes names or rights away.
pub(crate) struct Removing<'l>(&'l LateFiles);

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        self.0.removing.fetch_sub(1, Ordering::SeqCst);
    }
}

impl LateFiles {
    /// Notes a late file. Whether it may stay one: the caller looks after this whether the lease is still held, too.
    pub(crate) fn note(&self, directory: FileIndex, handle: u64, open: &Arc<OpenFile>) -> bool {
        let late = Noted { file: open.file.index(), open: Arc::downgrade(open) };
        lock(&self.by_directory).entry(directory).or_default().insert(handle, late);
        self.removing.load(Ordering::SeqCst) == 0
    }

    /// A handle is released.
    pub(crate) fn forget(&self, directory: FileIndex, handle: u64) {
        let mut files = lock(&self.by_directory);
        if let Some(of_it) = files.get_mut(&directory) {
            of_it.remove(&handle);
            if of_it.is_empty() {
                files.remove(&directory);
            }
        }
    }

    /// Opens the late files of a directory.
    ///
    /// # Errors
    /// The metadata server is away: those that are not open stay noted.
    pub(crate) fn open(&self, directory: FileIndex) -> Result<()> {
        let noted = |files: &HashMap<FileIndex, HashMap<u64, Noted>>| {
            let of_it = files.get(&directory)?;
            Some(of_it.iter().map(|(handle, late)| (*handle, late.clone())).collect())
        };
        let late: Vec<(u64, Noted)> = match noted(&lock(&self.by_directory)) {
            Some(late) => late,
            None => return Ok(()),
        };
        let (done, failed) = open_each(late.iter().map(|(_, late)| late).collect());
        let mut files = lock(&self.by_directory);
        if let Some(of_it) = files.get_mut(&directory) {
            for ((handle, late), _) in late.iter().zip(done).filter(|(_, done)| *done) {
                if of_it.get(handle).is_some_and(|noted| noted.open.ptr_eq(&late.open)) {
                    of_it.remove(handle);
                }
            }
            if of_it.is_empty() {
                files.remove(&directory);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The names lease of a directory is recalled: its late files are opened, in a time that the recall has. What cannot be
    /// opened in it is opened later.
    pub(crate) fn recalled(self: &Arc<Self>, directory: FileIndex) {
        let opened = {
            let _bound = Bound::begin(OPEN_TIME);
            self.open(directory)
        };
        if opened.is_err() {
            self.open_later(vec![directory]);
        }
    }

    /// All leases are lost: the late files are opened by another thread when there is a session again.
    pub(crate) fn lost_all(self: &Arc<Self>) {
        let directories: Vec<FileIndex> = lock(&self.by_directory).keys().copied().collect();
        if !directories.is_empty() {
            self.open_later(directories);
        }
    }

    fn open_later(self: &Arc<Self>, directories: Vec<FileIndex>) {
        let mut owed = lock(&self.owed);
        owed.directories.extend(directories);
        if !owed.served {
            let late = Arc::downgrade(self);
            let serves = move || {
                while late.upgrade().is_some_and(|late| late.open_owed()) {
                    thread::sleep(RETRY);
                }
            };
            // Without a thread they are opened with the next ones that are owed, or when they are used.
            owed.served = thread::Builder::new().name("vfs-late".into()).spawn(serves).is_ok();
        }
    }

    /// Opens what is owed, as far as it can be; whether something is left.
    fn open_owed(&self) -> bool {
        let directories: Vec<FileIndex> = lock(&self.owed).directories.iter().copied().collect();
        for directory in directories {
            let _bound = Bound::begin(OPEN_TIME);
            match self.open(directory) {
                Ok(()) => _ = lock(&self.owed).directories.remove(&directory),
                // Nor would the others be.
                Err(_) => break,
            }
        }
        let mut owed = lock(&self.owed);
        owed.served = !owed.directories.is_empty();
        owed.served
    }

    /// Opens a file, wherever it is late; it stays noted.
    fn open_file(&self, file: FileIndex) -> Result<()> {
        let late: Vec<_> = {
            let files = lock(&self.by_directory);
            files
                .values()
                .flat_map(HashMap::values)
                .filter(|late| late.file == file)
                .cloned()
                .collect()
        };
        open_each(late.iter().collect()).1.map_or(Ok(()), Err)
    }

    /// This mount is about to take names in these directories away: their late files are opened, and none is late until the
    /// result is dropped.
    ///
    /// # Errors
    /// The metadata server is away, and the names are not to be taken away.
    pub(crate) fn removing(&self, directories: &[FileIndex]) -> Result<Removing<'_>> {
        self.removing.fetch_add(1, Ordering::SeqCst);
        let removing = Removing(self);
        directories.iter().try_for_each(|directory| self.open(*directory))?;
        Ok(removing)
    }

    /// This mount is about to change who may open a file: who has it open keeps what it may. None is late until the result is dropped.
    ///
    /// # Errors
    /// The metadata server is away, and the rights are not to be changed.
    pub(crate) fn changing_rights(&self, file: FileIndex) -> Result<Removing<'_>> {
        self.removing.fetch_add(1, Ordering::SeqCst);
        let removing = Removing(self);
        self.open_file(file)?;
        Ok(removing)
    }
}

/// Opens them side by side. Which need not be tried again: those that are open, or closed, or that the server refuses, which whoever
/// uses them learns; and why the others could not be, if the server is away: none is begun after that.
fn open_each(late: Vec<&Noted>) -> (Vec<bool>, Option<Error>) {
    let done: Vec<AtomicBool> = late.iter().map(|_| AtomicBool::new(false)).collect();
    let (next, failed) = (AtomicUsize::new(0), OnceLock::new());
    let work = || {
        while failed.get().is_none() {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = late.get(at) else { return };
            match one.open.upgrade().map_or(Ok(()), |open| open.file.get().map(drop)) {
                Err(error) if error.is_of_server_away() => _ = failed.set(error),
                _ => done[at].store(true, Ordering::Relaxed),
            }
        }
    };
    let bound = Bound::current();
    thread::scope(|scope| {
        for _ in 1..late.len().div_ceil(FILES_FOR_OPENER).min(OPENERS_MAX) {
            let work_too = || {
                let _bound = Bound::enter(bound);
                work();
            };
            // Where there are no more threads it takes longer.
            let _ = thread::Builder::new().name("vfs-open".into()).spawn_scoped(scope, work_too);
        }
        work();
    });
    (done.into_iter().map(AtomicBool::into_inner).collect(), failed.into_inner())
}
