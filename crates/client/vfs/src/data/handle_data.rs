//! An open handle's use of its file's bytes.

use std::{ops::Deref, sync::Arc};

use braid_client::FileIndex;

use super::{FileData, Writer};
use crate::{mount_caches::MountCaches, ops::open::Access};

/// A handle's use of its file's bytes: from before the open is sent until the handle is gone.
///
/// The fields are dropped in this order. The table may forget the file when it holds the only
/// reference, so the other references are dropped first.
#[derive(Debug)]
pub(crate) struct HandleData {
    _writer: Option<Writer>,
    data: Arc<FileData>,
    _end: EndOfUse,
}

impl HandleData {
    /// For a file that is about to be opened.
    pub(crate) fn new(caches: &Arc<MountCaches>, file: FileIndex, access: Access) -> Self {
        let data = caches.data.get_or_add(file);
        let writer = access.write.then(|| caches.begin_writer(&data));
        Self { _writer: writer, data, _end: EndOfUse { file, caches: Arc::clone(caches) } }
    }
}

impl Deref for HandleData {
    type Target = Arc<FileData>;

    fn deref(&self) -> &Arc<FileData> {
        &self.data
    }
}

#[derive(Debug)]
struct EndOfUse {
    file: FileIndex,
    caches: Arc<MountCaches>,
}

impl Drop for EndOfUse {
    fn drop(&mut self) {
        self.caches.end_use(self.file);
    }
}
