//! Handles of open files and directories, as a caller of this crate holds them. A number is never
//! used twice, so a released handle never names another file.

use std::{
    collections::HashMap,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use braid_client::Status;

use crate::error::{Error, Result};

/// Files and directories that one mount may have open (I9): the largest default limit of one Linux
/// process.
const HANDLES_MAX: usize = 1 << 20;

/// An open file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileHandle(pub u64);

/// An open directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DirectoryHandle(pub u64);

/// The open files or directories behind handles.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    next: AtomicU64,
    open: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { next: AtomicU64::new(1), open: RwLock::default() }
    }
}

impl<T> Handles<T> {
    pub(crate) fn insert(&self, opened: T) -> Result<u64> {
        self.insert_shared(Arc::new(opened))
    }

    /// As [`Handles::insert`], for a file to which another reference exists.
    pub(crate) fn insert_shared(&self, opened: Arc<T>) -> Result<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.write().unwrap_or_else(braid_types::poisoned);
        if open.len() >= HANDLES_MAX {
            return Err(Error::of(Status::TooManyOpen));
        }
        open.insert(number, opened);
        Ok(number)
    }

    pub(crate) fn find(&self, number: u64) -> Result<Arc<T>> {
        let open = self.open.read().unwrap_or_else(braid_types::poisoned);
        open.get(&number).cloned().ok_or(Error::BadHandle)
    }

    pub(crate) fn remove(&self, number: u64) -> Result<Arc<T>> {
        let removed = self.open.write().unwrap_or_else(braid_types::poisoned).remove(&number);
        removed.ok_or(Error::BadHandle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_handle_never_names_another_file() {
        let handles = Handles::default();
        let first = handles.insert('a').unwrap();
        assert_eq!(*handles.remove(first).unwrap(), 'a');
        let second = handles.insert('b').unwrap();
        assert!(matches!(handles.find(first), Err(Error::BadHandle)));
        assert_eq!(*handles.find(second).unwrap(), 'b');
    }
}
