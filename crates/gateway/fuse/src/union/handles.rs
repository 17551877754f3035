//! Open files and directories of the kernel.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use braid_union::OpenFile;
use rustix::io::Errno;

use super::directories::OpenDirectory;
use crate::kernel::BackingFile;

/// What a handle of the kernel stands for.
#[derive(Clone, Debug)]
pub(super) enum Open {
    File(Arc<OpenFile>, Option<Arc<BackingFile>>),
    Directory(Arc<OpenDirectory>),
}

#[derive(Debug, Default)]
pub(super) struct Handles {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    open: HashMap<u64, Open>,
    last: u64,
}

impl Handles {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Each change is one call of the map.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, open: Open) -> u64 {
        let mut table = self.table();
        table.last += 1;
        let handle = table.last;
        table.open.insert(handle, open);
        handle
    }

    pub(super) fn remove(&self, handle: u64) -> Option<Open> {
        self.table().open.remove(&handle)
    }

    pub(super) fn file(&self, handle: u64) -> Result<Arc<OpenFile>, Errno> {
        match self.table().open.get(&handle) {
            Some(Open::File(file, _)) => Ok(Arc::clone(file)),
            _ => Err(Errno::BADF),
        }
    }

    pub(super) fn directory(&self, handle: u64) -> Result<Arc<OpenDirectory>, Errno> {
        match self.table().open.get(&handle) {
            Some(Open::Directory(directory)) => Ok(Arc::clone(directory)),
            _ => Err(Errno::BADF),
        }
    }
}
