//! A view prepared for use: the bytes of a file that one handle sees.

use std::sync::Arc;

use braid_layout::{Extents, LayoutError, Request, View, ViewMap};
use braid_types::{FileOffset, limits::FILE_BYTES_MAX};

use crate::error::Result;

/// The bytes of a file that one handle sees, and conversions between positions in the view's
/// stream, offsets in the file, and positions in another view's stream. Cheap to clone.
///
/// ```
/// use braid_client::{Extent, FileView, View};
/// // Two tasks of four: 4 KiB in every 16 KiB.
/// let task = |rank: u64| FileView::new(View::strided(rank * 4096, 4096, 16_384));
/// let (first, third) = (task(0)?, task(2)?);
/// assert_eq!(first.file_offset(5000)?, 16_384 + 904);
/// assert_eq!(first.position(16_384 + 904), Some(5000));
/// assert_eq!(third.position(16_384 + 904), None, "not visible to the third task");
/// assert_eq!(third.next_visible(16_384 + 904), Some((4096, 16_384 + 8192)), "its next byte");
/// assert_eq!(first.position_in(5000, &FileView::whole()?)?, Some(17_288));
/// let extents: Vec<Extent> = first.extents(5000, 4000)?.collect();
/// let extent = |offset, bytes| Extent { offset, bytes };
/// assert_eq!(extents, [extent(17_288, 3192), extent(32_768, 808)]);
/// # Ok::<(), braid_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FileView(Arc<PreparedView>);

#[derive(Debug)]
struct PreparedView {
    view: View,
    map: ViewMap,
    /// The length of the stream, up to the largest file offset.
    bytes: u64,
}

impl FileView {
    /// Prepares a view.
    ///
    /// # Errors
    /// [`crate::Status::Invalid`] for an invalid view, with the reason.
    pub fn new(view: View) -> Result<Self> {
        let map = view.map()?;
        let bytes = map.bytes_before(FileOffset(FILE_BYTES_MAX));
        Ok(Self(Arc::new(PreparedView { view, map, bytes })))
    }

    /// A view of the whole file.
    pub fn whole() -> Result<Self> {
        Self::new(View::whole())
    }

    /// The view.
    pub fn view(&self) -> &View {
        &self.0.view
    }

    /// The file offset of the byte at a position of the stream.
    ///
    /// # Errors
    /// [`crate::Status::TooLarge`] for a position past the largest file.
    pub fn file_offset(&self, position: u64) -> Result<u64> {
        let offset = self.0.map.file_offset(position)?.0;
        if offset < FILE_BYTES_MAX {
            Ok(offset)
        } else {
            Err(LayoutError::PastLargestFile { max: FILE_BYTES_MAX }.into())
        }
    }

    /// The stream position of a byte of the file; `None` if the view does not contain it.
    pub fn position(&self, offset: u64) -> Option<u64> {
        self.0.map.position(FileOffset(offset)).filter(|position| *position < self.0.bytes)
    }

    /// The first byte of the view at or after an offset of the file: its position in the stream,
    /// and its offset. `None` if there is none below the largest file offset.
    pub fn next_visible(&self, offset: u64) -> Option<(u64, u64)> {
        let (position, seen) = self.0.map.next_visible(FileOffset(offset))?;
        (position < self.0.bytes).then_some((position, seen.0))
    }

    /// The position in another view's stream of the byte at `position` in this one; `None` if the
    /// other view does not contain it.
    ///
    /// # Errors
    /// As [`FileView::file_offset`].
    pub fn position_in(&self, position: u64, other: &Self) -> Result<Option<u64>> {
        Ok(other.position(self.file_offset(position)?))
    }

    /// The extents of the file that make up `bytes` bytes of the stream from `start`, ascending.
    /// Fewer bytes if the stream passes the largest file offset.
    ///
    /// # Errors
    /// As [`FileView::file_offset`].
    pub fn extents(&self, start: u64, bytes: u64) -> Result<Extents> {
        Ok(self.request(start, bytes).extents()?)
    }

    /// The request for `bytes` bytes from `start`, or as many as the view has.
    pub(crate) fn request(&self, start: u64, bytes: u64) -> Request {
        let bytes = bytes.min(self.0.bytes.saturating_sub(start));
        Request { view: self.0.view.clone(), start, bytes }
    }

    /// The number of stream bytes in a file of `file_bytes` bytes.
    pub(crate) fn bytes_below(&self, file_bytes: u64) -> u64 {
        self.0.map.bytes_before(FileOffset(file_bytes))
    }

    /// The file offset of a request's first byte.
    pub(crate) fn file_start(&self, request: &Request) -> Result<u64> {
        Ok(self.0.map.file_offset(request.start)?.0)
    }

    /// The file offset after a request's last byte.
    pub(crate) fn file_end(&self, request: &Request) -> Result<u64> {
        match request.bytes.checked_sub(1) {
            Some(rest) => Ok(self.0.map.file_offset(request.start + rest)?.0 + 1),
            None => Ok(0),
        }
    }
}
