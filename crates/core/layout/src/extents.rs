//! The bytes that a request asks for, as extents of the file.

use braid_types::{IodId, PartIndex};

use crate::{Distribution, Extent, Layout, LayoutError, PartSet, Request, Unfold};

/// The extents of a request, ascending, none adjacent to the next. Computed lazily: each costs
/// O(depth * log entries) of the view.
#[derive(Clone, Debug)]
pub struct Extents(Unfold);

impl Request {
    /// The extents of the file that the request asks for, in order.
    ///
    /// ```
    /// use braid_layout::{Extent, Request, View};
    /// let request = Request { view: View::strided(100, 10, 50), start: 5, bytes: 12 };
    /// let extents: Vec<_> = request.extents()?.collect();
    /// assert_eq!(extents, [Extent { offset: 105, bytes: 5 }, Extent { offset: 150, bytes: 7 }]);
    /// # Ok::<(), braid_layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The request is malformed.
    pub fn extents(&self) -> Result<Extents, LayoutError> {
        // One object that equals the file: its accesses are the extents.
        let file = Layout::one(Distribution::Single, [IodId(1)]).map()?;
        file.unfold(self, &PartSet::one(PartIndex(0))).map(Extents)
    }
}

impl Iterator for Extents {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let access = self.0.next()?;
        Some(Extent { offset: access.file_offset.0, bytes: access.bytes })
    }
}

impl std::iter::FusedIterator for Extents {}
