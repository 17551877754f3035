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
//! Invariant: nobody removes the last name of a file that is open here without the server knowing that it is open. Others need the names
//! lease of its directory for that, which is returned only when the file was opened; this mount opens it before it
//! sends the call, and opens nothing late while one is under way.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use braid_client::{Client, File, FileIndex, OpenOptions};

use crate::{
    error::Result,
    files::{OpenFile, lock},
};

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
    pub(crate) fn open(&self, directory: FileIndex) {
        let Some(files) = lock(&self.by_directory).remove(&directory) else { return };
        open_each(files.into_values());
    }

    /// Opens a file, wherever it is late; it stays noted.
    fn open_file(&self, file: FileIndex) {
        let late: Vec<_> = {
            let files = lock(&self.by_directory);
            files.values().flat_map(HashMap::values).filter(|late| late.file == file).cloned().collect()
        };
        open_each(late.into_iter());
    }

    /// This mount is about to take names in these directories away: their late files are opened, and none is late until the
    /// result is dropped.
    pub(crate) fn removing(&self, directories: &[FileIndex]) -> Removing<'_> {
        self.removing.fetch_add(1, Ordering::SeqCst);
        let removing = Removing(self);
        directories.iter().for_each(|directory| self.open(*directory));
        removing
    }

    /// This mount is about to change who may open a file: who has it open keeps what it may. None is late until the result is dropped.
    pub(crate) fn changing_rights(&self, file: FileIndex) -> Removing<'_> {
        self.removing.fetch_add(1, Ordering::SeqCst);
        let removing = Removing(self);
        self.open_file(file);
        removing
    }

    /// Directories that have late files.
    pub(crate) fn directories(&self) -> Vec<FileIndex> {
        lock(&self.by_directory).keys().copied().collect()
    }
}

fn open_each(late: impl Iterator<Item = Noted>) {
    for open in late.filter_map(|late| late.open.upgrade()) {
        // Whoever uses the file learns why not.
        let _ = open.file.get();
    }
}
