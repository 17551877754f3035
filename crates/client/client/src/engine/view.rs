//! A view made ready for use: what one handle sees of a file.

use std::sync::Arc;

use braid_layout::{Request, View, ViewMap};
use braid_types::{FileOffset, limits::FILE_BYTES_MAX};

use crate::error::Result;

/// What one handle sees of a file. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FileView(Arc<Ready>);

#[derive(Debug)]
struct Ready {
    view: View,
    map: ViewMap,
    /// Bytes of the stream below the largest file offset.
    bytes: u64,
}

impl FileView {
    /// Makes a view ready.
    ///
    /// # Errors
    /// [`crate::Status::Invalid`] for one that makes no sense, with the reason.
    pub fn new(view: View) -> Result<Self> {
        let map = view.map()?;
        let bytes = map.bytes_before(FileOffset(FILE_BYTES_MAX));
        Ok(Self(Arc::new(Ready { view, map, bytes })))
    }

    /// The whole file.
    pub fn whole() -> Result<Self> {
        Self::new(View::whole())
    }

    /// The view.
    pub fn view(&self) -> &View {
        &self.0.view
    }

    /// The request for as many of `bytes` bytes from `start` as the view can have.
    pub(crate) fn request(&self, start: u64, bytes: u64) -> Request {
        let bytes = bytes.min(self.0.bytes.saturating_sub(start));
        Request { view: self.0.view.clone(), start, bytes }
    }

    /// How many bytes of the stream a file of `file_bytes` bytes has.
    pub(crate) fn bytes_below(&self, file_bytes: u64) -> u64 {
        self.0.map.bytes_before(FileOffset(file_bytes))
    }

    /// The file offset of a request's first byte.
    pub(crate) fn file_start(&self, request: &Request) -> Result<u64> {
        Ok(self.0.map.file_offset(request.start)?.0)
    }

    /// The file offset just past a request's last byte.
    pub(crate) fn file_end(&self, request: &Request) -> Result<u64> {
        match request.bytes.checked_sub(1) {
            Some(rest) => Ok(self.0.map.file_offset(request.start + rest)?.0 + 1),
            None => Ok(0),
        }
    }
}
