//! What all handles of one file share.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard},
};

use braid_client::FileIndex;

use crate::mutex::lock;

/// Shared by all handles of one file.
#[derive(Debug, Default)]
pub(crate) struct SharedFile {
    /// Held by the handle that appends.
    appending: Mutex<()>,
}

impl SharedFile {
    pub(crate) fn append_lock(&self) -> MutexGuard<'_, ()> {
        lock(&self.appending)
    }
}

/// The files that are open.
#[derive(Debug, Default)]
pub(crate) struct Files(Mutex<HashMap<FileIndex, Arc<SharedFile>>>);

impl Files {
    /// The reference of a new handle to what the handles of a file share.
    pub(crate) fn share(self: &Arc<Self>, file: FileIndex) -> Share {
        let shared = Arc::clone(lock(&self.0).entry(file).or_default());
        Share { file, shared, files: Arc::clone(self) }
    }
}

/// A handle's reference to a [`SharedFile`]. The last one removes it from the table.
#[derive(Debug)]
pub(crate) struct Share {
    file: FileIndex,
    shared: Arc<SharedFile>,
    files: Arc<Files>,
}

impl Deref for Share {
    type Target = SharedFile;

    fn deref(&self) -> &SharedFile {
        &self.shared
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut files = lock(&self.files.0);
        // References are made and dropped under this lock. Two are the table's and this one.
        if Arc::strong_count(&self.shared) == 2 {
            files.remove(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_handle_of_a_file_removes_its_shared_state() {
        let files = Arc::new(Files::default());
        let (first, second) = (files.share(FileIndex(7)), files.share(FileIndex(7)));
        drop(first);
        assert_eq!(lock(&files.0).len(), 1);
        drop(second);
        assert_eq!(lock(&files.0).len(), 0);
    }
}
