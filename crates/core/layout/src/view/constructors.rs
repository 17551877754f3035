//! Constructors of the usual views: the whole file, strides, lists, vectors, blocks of an array.

use braid_types::FileOffset;
use braid_types::limits::{FILE_BYTES_MAX, VIEW_DEPTH_MAX};

use super::{Extent, Pattern, Request, View};
use crate::LayoutError;

impl View {
    /// Every byte of the file, in order.
    pub fn whole() -> Self {
        Self { displacement: 0, extent: FILE_BYTES_MAX, pattern: Pattern::Bytes(FILE_BYTES_MAX) }
    }

    /// The 1996 paper's partition (2.2.2): from `offset`, `group` bytes in every `stride`, all in
    /// bytes.
    pub fn strided(offset: u64, group: u64, stride: u64) -> Self {
        Self { displacement: offset, extent: stride, pattern: Pattern::Bytes(group) }
    }

    /// These extents of the file, in ascending order: a list request. The list does not repeat: its
    /// extent is as large as a file can be.
    pub fn extents(extents: impl Into<Vec<Extent>>) -> Self {
        Self { displacement: 0, extent: FILE_BYTES_MAX, pattern: Pattern::Extents(extents.into()) }
    }

    /// `count` blocks of `block` bytes, `stride` bytes apart, repeated every `extent` bytes from
    /// `displacement` (MPI-4.1 5.1.2: `MPI_Type_create_hvector`).
    pub fn vector(displacement: u64, count: u64, block: u64, stride: u64, extent: u64) -> Self {
        let child = Box::new(Pattern::Bytes(block));
        Self { displacement, extent, pattern: Pattern::Vector { count, stride, child } }
    }

    /// A block of an array in C order (last index fastest) of `element` bytes each, from
    /// `displacement`. The array repeats without end (MPI-4.1 5.1.3: `MPI_Type_create_subarray`).
    ///
    /// ```
    /// use braid_layout::View;
    /// use braid_types::FileOffset;
    /// // Rows 1..3, columns 2..5 of a 4 x 6 array of 8-byte numbers.
    /// let view = View::subarray(0, &[4, 6], &[2, 3], &[1, 2], 8)?.map()?;
    /// assert_eq!(view.file_offset(0)?, FileOffset((6 + 2) * 8));
    /// assert_eq!(view.file_offset(3 * 8)?, FileOffset((2 * 6 + 2) * 8));
    /// # Ok::<(), braid_layout::LayoutError>(())
    /// ```
    ///
    /// # Errors [`LayoutError::Subarray`] when the block does not lie inside the array or the
    /// slices differ in length; [`LayoutError::TooDeep`]; [`LayoutError::EmptyPattern`];
    /// [`LayoutError::Overflow`].
    pub fn subarray(
        displacement: u64,
        sizes: &[u64],
        block: &[u64],
        starts: &[u64],
        element: u64,
    ) -> Result<Self, LayoutError> {
        if sizes.len() != block.len() || sizes.len() != starts.len() {
            return Err(LayoutError::Subarray);
        }
        if sizes.len() >= VIEW_DEPTH_MAX {
            return Err(LayoutError::TooDeep { max: VIEW_DEPTH_MAX });
        }
        let (mut pattern, mut row, mut first) = (Pattern::Bytes(element), element, displacement);
        for ((size, count), start) in sizes.iter().zip(block).zip(starts).rev() {
            if start.checked_add(*count).is_none_or(|end| end > *size) {
                return Err(LayoutError::Subarray);
            }
            let skipped = start.checked_mul(row).ok_or(LayoutError::Overflow)?;
            first = first.checked_add(skipped).ok_or(LayoutError::Overflow)?;
            pattern = Pattern::Vector { count: *count, stride: row, child: Box::new(pattern) };
            row = row.checked_mul(*size).ok_or(LayoutError::Overflow)?;
        }
        let view = Self { displacement: first, extent: row, pattern };
        view.validate().map(|()| view)
    }
}

impl Pattern {
    /// Bytes in one copy; `None` above 2^64, or deeper than a view may be.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes_to(VIEW_DEPTH_MAX)
    }

    fn bytes_to(&self, depth: usize) -> Option<u64> {
        let depth = depth.checked_sub(1)?;
        match self {
            Self::Bytes(bytes) => Some(*bytes),
            Self::Vector { count, child, .. } => child.bytes_to(depth)?.checked_mul(*count),
            Self::Struct(entries) => entries
                .iter()
                .try_fold(0u64, |sum, (_, pattern)| sum.checked_add(pattern.bytes_to(depth)?)),
            Self::Extents(extents) => {
                extents.iter().try_fold(0u64, |sum, extent| sum.checked_add(extent.bytes))
            }
        }
    }
}

impl Request {
    /// `bytes` bytes of the file from `offset`, without a view.
    pub fn contiguous(offset: FileOffset, bytes: u64) -> Self {
        Self { view: View::whole(), start: offset.0, bytes }
    }

    /// All bytes of a list of extents, once.
    pub fn list(extents: impl Into<Vec<Extent>>) -> Self {
        let view = View::extents(extents);
        // On overflow the request is refused when it is used, like every malformed one.
        let bytes = view.pattern.bytes().unwrap_or(u64::MAX);
        Self { view, start: 0, bytes }
    }
}
