//! An open file behind a handle.

use std::{
    collections::HashSet,
    sync::{Mutex, OnceLock},
};

use braid_client::FileIndex;

use super::{lazy_open::LazyOpen, shared_file::Share};
use crate::{
    data::{HandleData, flush_unit::FlushUnit, write_errors::HandleWriteError},
    ops::open::Access,
};

#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: LazyOpen,
    /// The directory of its name, if it is opened lazily.
    pub(crate) lazy_in: Option<FileIndex>,
    pub(crate) access: Access,
    pub(crate) shared: Share,
    /// Owners of ranges that were locked through this handle.
    pub(crate) lock_owners: Mutex<HashSet<u64>>,
    pub(crate) data: HandleData,
    /// The error of buffered bytes of this handle that could not be written.
    pub(crate) write_error: HandleWriteError,
    flush_unit: OnceLock<FlushUnit>,
}

impl OpenFile {
    pub(crate) fn new(file: LazyOpen, access: Access, shared: Share, data: HandleData) -> Self {
        let (lockers, lost, flush_unit) =
            (Mutex::default(), HandleWriteError::default(), OnceLock::new());
        Self {
            file,
            lazy_in: None,
            access,
            shared,
            lock_owners: lockers,
            data,
            write_error: lost,
            flush_unit,
        }
    }

    /// The same, opened lazily under the names lease of this directory.
    pub(crate) fn lazy_in(self, directory: FileIndex) -> Self {
        Self { lazy_in: Some(directory), ..self }
    }

    /// How many of its bytes are buffered before they are sent.
    pub(crate) fn flush_unit(&self) -> FlushUnit {
        *self.flush_unit.get_or_init(|| {
            self.file.get().map_or(FlushUnit::UNKNOWN, |file| FlushUnit::of(&file.layout()))
        })
    }
}
