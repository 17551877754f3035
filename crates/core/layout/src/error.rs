//! Errors of layouts, views and requests. Every malformed input returns one of these and never
//! panics (I3, I10).

use braid_types::PartIndex;

/// Why a layout, view or request is refused, or an offset is not part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A layout without components.
    #[error("layout refused: it has no component")]
    NoComponents,
    /// More than [`braid_types::limits::COMPONENTS_MAX`] components.
    #[error("layout refused: {count} components, at most {max} are allowed")]
    TooManyComponents {
        /// The number of components.
        count: usize,
        /// The maximum.
        max: usize,
    },
    /// A component that does not start at the end of the one before, is empty, or ends before it
    /// starts.
    #[error(
        "layout refused: component {component} leaves a gap, overlaps or is empty: \
         it must start at byte {start}"
    )]
    ComponentGap {
        /// Ordinal of the component.
        component: usize,
        /// Where it must start.
        start: u64,
    },
    /// The last component has an end, so bytes past it would have no part.
    #[error("layout refused: the last component ends at byte {end}, it must be without end")]
    LastComponentEnds {
        /// Its end.
        end: u64,
    },
    /// A component without parts.
    #[error("layout refused: component {component} has no part")]
    NoParts {
        /// Ordinal of the component.
        component: usize,
    },
    /// More than [`braid_types::limits::PARTS_MAX`] parts in the file.
    #[error("layout refused: {count} parts, at most {max} are allowed")]
    TooManyParts {
        /// The number of parts.
        count: usize,
        /// The maximum.
        max: usize,
    },
    /// `first_part` is not an index into the parts.
    #[error(
        "layout refused: first part {first_part} of component {component}, which has {parts} parts"
    )]
    FirstPart {
        /// Ordinal of the component.
        component: usize,
        /// The requested value.
        first_part: u16,
        /// The number of parts.
        parts: usize,
    },
    /// A part without an I/O daemon, or on daemon 0, which does not exist.
    #[error("layout refused: part {part} names no I/O daemon")]
    NoIod {
        /// The part.
        part: PartIndex,
    },
    /// A stripe or strip that is empty, too small or too large.
    #[error("layout refused: stripe size {bytes} bytes, it must be {min} to {max}")]
    StripeSize {
        /// The requested size.
        bytes: u64,
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
    /// `single` over several parts.
    #[error("layout refused: distribution single with {parts} parts, it has exactly one")]
    SingleParts {
        /// The number of parts.
        parts: usize,
    },
    /// A `varstrip` cycle with no strips or too many.
    #[error("layout refused: {count} strips in the cycle, it must be 1 to {max}")]
    StripCount {
        /// The number of strips.
        count: usize,
        /// The maximum.
        max: usize,
    },
    /// A group width of 0, or one that does not divide the part count.
    #[error("layout refused: group width {width} does not divide {parts} parts")]
    GroupWidth {
        /// The group width.
        width: u16,
        /// The number of parts.
        parts: usize,
    },
    /// A group depth of 0.
    #[error("layout refused: group depth is 0")]
    GroupDepth,
    /// An extent of 0 bytes, or smaller than the pattern's span: repetitions would overlap.
    #[error("view refused: extent {extent} is smaller than the pattern's span of {span} bytes")]
    ExtentTooSmall {
        /// The view's extent, in bytes.
        extent: u64,
        /// The pattern's span, in bytes.
        span: u64,
    },
    /// A stride smaller than what is repeated: copies would overlap.
    #[error("view refused: stride {stride} is smaller than the {span} bytes that it repeats")]
    StrideTooSmall {
        /// The stride, in bytes.
        stride: u64,
        /// The span of the child, in bytes.
        span: u64,
    },
    /// A pattern that covers nothing: no bytes, no copies, no entries.
    #[error("view refused: a pattern in it covers no byte")]
    EmptyPattern,
    /// Entries that overlap or are not in ascending order.
    #[error("view refused: entry at offset {offset} overlaps the one before or is out of order")]
    Unordered {
        /// Offset of the entry, in bytes.
        offset: u64,
    },
    /// Nested deeper than [`braid_types::limits::VIEW_DEPTH_MAX`].
    #[error("view refused: nested deeper than {max} levels")]
    TooDeep {
        /// The maximum depth.
        max: usize,
    },
    /// More than [`braid_types::limits::LIST_EXTENTS_MAX`] list entries in one view.
    #[error("view refused: more than {max} list entries")]
    ListTooLong {
        /// The maximum.
        max: usize,
    },
    /// More than [`braid_types::limits::VIEW_NODES_MAX`] patterns in one view.
    #[error("view refused: more than {max} patterns in it")]
    TooManyPatterns {
        /// The maximum.
        max: usize,
    },
    /// A subarray that does not lie inside its array, or has another number of dimensions.
    #[error("view refused: the subarray does not lie inside the array")]
    Subarray,
    /// A dimension without indices, an empty block, or a task number that is not below the task
    /// count.
    #[error(
        "view refused: every dimension and every block needs indices, \
         and the task number must be below the task count"
    )]
    BlockCyclic,
    /// An offset exceeds 2^64.
    #[error("refused: offsets pass the 64-bit edge")]
    Overflow,
    /// The request ends past the largest file.
    #[error("request refused: it ends past byte {max}, the largest file")]
    PastLargestFile {
        /// [`braid_types::limits::FILE_BYTES_MAX`].
        max: u64,
    },
    /// The layout has no such part.
    #[error("refused: the layout has no part {part}")]
    UnknownPart {
        /// The part.
        part: PartIndex,
    },
    /// An object offset at which the part holds no byte of the file.
    #[error("refused: part {part} holds no byte of the file at object offset {object_offset}")]
    OutsidePart {
        /// The part.
        part: PartIndex,
        /// The offset in its object, in bytes.
        object_offset: u64,
    },
    /// A window of 0 bytes.
    #[error("request refused: a window of 0 bytes")]
    EmptyWindow,
}
