//! A view made ready for use: what one handle sees of a file.

use std::sync::Arc;

use braid_layout::{Extents, LayoutError, Request, View, ViewMap};
use braid_types::{FileOffset, limits::FILE_BYTES_MAX};

use crate::error::Result;

/// What one handle sees of a file, and where: from the view's stream to the file, back, and to another view's. Cheap to clone.
///
/// ```
/// use braid_client::{Extent, FileView, View};
/// // Two tasks of four: 4 KiB in every 16 KiB.
/// let task = |rank: u64| FileView::new(View::strided(rank * 4096, 4096, 16_384));
/// let (first, third) = (task(0)?, task(2)?);
/// assert_eq!(first.file_offset(5000)?, 16_384 + 904);
/// assert_eq!(first.position(16_384 + 904), Some(5000));
/// assert_eq!(third.position(16_384 + 904), None, "the third task does not see it");
/// assert_eq!(third.next_seen(16_384 + 904), Some((4096, 16_384 + 8192)), "but what comes later");
/// assert_eq!(first.position_in(5000, &FileView::whole()?)?, Some(17_288));
/// let extents: Vec<Extent> = first.extents(5000, 4000)?.collect();
/// assert_eq!(extents, [Extent { offset: 17_288, bytes: 3192 }, Extent { offset: 32_768, bytes: 808 }]);
/// # Ok::<(), braid_client::Error>(())
/// ```
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

    /// Where in the file the byte at a position of the stream is.
    ///
    /// # Errors
    /// [`crate::Status::TooLarge`] for a position past what a file can have.
    pub fn file_offset(&self, position: u64) -> Result<u64> {
        let offset = self.0.map.file_offset(position)?.0;
        if offset < FILE_BYTES_MAX {
            Ok(offset)
        } else {
            Err(LayoutError::PastLargestFile { max: FILE_BYTES_MAX }.into())
        }
    }

    /// Where in the stream a byte of the file is; `None` when the view does not show it.
    pub fn position(&self, offset: u64) -> Option<u64> {
        self.0.map.position(FileOffset(offset)).filter(|position| *position < self.0.bytes)
    }

    /// The first byte that the view shows at or after an offset of the file: its position in the stream, and its offset.
    /// `None` when it shows none that a file can have.
    pub fn next_seen(&self, offset: u64) -> Option<(u64, u64)> {
        let (position, seen) = self.0.map.next_seen(FileOffset(offset))?;
        (position < self.0.bytes).then_some((position, seen.0))
    }

    /// Where another view's stream has the byte that this one has at `position`; `None` when the other does not show it.
    ///
    /// # Errors
    /// As [`FileView::file_offset`].
    pub fn position_in(&self, position: u64, other: &Self) -> Result<Option<u64>> {
        Ok(other.position(self.file_offset(position)?))
    }

    /// The extents of the file that `bytes` bytes of the stream from `start` are, ascending: fewer bytes past what a file can have.
    ///
    /// # Errors
    /// As [`FileView::file_offset`].
    pub fn extents(&self, start: u64, bytes: u64) -> Result<Extents> {
        Ok(self.request(start, bytes).extents()?)
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
