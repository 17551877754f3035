//! The 1996 paper's own words for a request (2.2.3): first partial block, group size, stride, count, last
//! partial block.

use braid_types::FileOffset;

use crate::{LayoutError, Pattern, Request};

/// The parameters that the 1996 paper's library sent to each I/O daemon, all in bytes but `count`.
///
/// ```
/// use braid_layout::{Request, View};
/// // 100 bytes from position 7 of a partition of 10 bytes in every 50.
/// let request = Request { view: View::strided(0, 10, 50), start: 7, bytes: 100 };
/// let p = request.paper_parameters()?.unwrap();
/// assert_eq!((p.offset.0, p.first_partial, p.count, p.last_partial), (7, 3, 9, 7));
/// # Ok::<(), braid_layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PaperParameters {
    /// File location of the request's first byte.
    pub offset: FileOffset,
    /// Bytes before the first whole block; 0 when the request begins on a block boundary.
    pub first_partial: u64,
    /// Bytes in one block.
    pub group_size: u64,
    /// Distance between the starts of blocks.
    pub stride: u64,
    /// Whole blocks.
    pub count: u64,
    /// Bytes after the last whole block.
    pub last_partial: u64,
}

impl Request {
    /// The paper's parameters, when the view is the paper's simple form (one group in every stride).
    ///
    /// # Errors
    /// The request is malformed: see [`Request::validate`].
    pub fn paper_parameters(&self) -> Result<Option<PaperParameters>, LayoutError> {
        self.validate()?;
        let Pattern::Bytes(group_size) = self.view.pattern else { return Ok(None) };
        let offset = self.view.map()?.file_offset(self.start)?;
        let first_partial = match self.start % group_size {
            0 => 0,
            past => (group_size - past).min(self.bytes),
        };
        let rest = self.bytes - first_partial;
        let (count, last_partial) = (rest / group_size, rest % group_size);
        Ok(Some(PaperParameters {
            offset,
            first_partial,
            group_size,
            stride: self.view.extent,
            count,
            last_partial,
        }))
    }
}
