//! An open handle's use of its file's bytes.

use std::{ops::Deref, sync::Arc};

use braid_client::FileIndex;

use super::{Data, Writer};
use crate::{mount_caches::Holder, ops::open::Access};

/// A handle's use of its file's bytes: from before the open is sent until the handle is gone.
///
/// The fields are dropped in this order. The table may forget the file when it holds the only
/// reference, so the other references are dropped first.
#[derive(Debug)]
pub(crate) struct HandleData {
    _writer: Option<Writer>,
    data: Arc<Data>,
    _end: EndOfUse,
}

impl HandleData {
    /// For a file that is about to be opened.
    pub(crate) fn new(caches: &Arc<Holder>, file: FileIndex, access: Access) -> Self {
        let data = caches.data.of(file);
        let writer = access.write.then(|| caches.writer(&data));
        Self { _writer: writer, data, _end: EndOfUse { file, caches: Arc::clone(caches) } }
    }
}

impl Deref for HandleData {
    type Target = Arc<Data>;

    fn deref(&self) -> &Arc<Data> {
        &self.data
    }
}

#[derive(Debug)]
struct EndOfUse {
    file: FileIndex,
    caches: Arc<Holder>,
}

impl Drop for EndOfUse {
    fn drop(&mut self) {
        self.caches.closed(self.file);
    }
}
