//! An open file behind a handle.

use std::{
    collections::HashSet,
    sync::{Mutex, OnceLock},
};

use braid_client::FileIndex;

use super::{lazy_open::Late, shared_file::Share};
use crate::{
    data::{HandleData, flush_unit::Stretch, write_errors::Lost},
    ops::open::Access,
};

#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: Late,
    /// The directory of its name, if it is opened lazily.
    pub(crate) late_in: Option<FileIndex>,
    pub(crate) access: Access,
    pub(crate) shared: Share,
    /// Owners of ranges that were locked through this handle.
    pub(crate) lockers: Mutex<HashSet<u64>>,
    pub(crate) data: HandleData,
    /// The error of buffered bytes of this handle that could not be written.
    pub(crate) lost: Lost,
    stretch: OnceLock<Stretch>,
}

impl OpenFile {
    pub(crate) fn new(file: Late, access: Access, shared: Share, data: HandleData) -> Self {
        let (lockers, lost, stretch) = (Mutex::default(), Lost::default(), OnceLock::new());
        Self { file, late_in: None, access, shared, lockers, data, lost, stretch }
    }

    /// The same, opened lazily under the names lease of this directory.
    pub(crate) fn late_in(self, directory: FileIndex) -> Self {
        Self { late_in: Some(directory), ..self }
    }

    /// How many of its bytes are buffered before they are sent.
    pub(crate) fn stretch(&self) -> Stretch {
        *self.stretch.get_or_init(|| {
            self.file.get().map_or(Stretch::UNKNOWN, |file| Stretch::of(&file.layout()))
        })
    }
}
