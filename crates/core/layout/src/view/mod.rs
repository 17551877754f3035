//! A view: the part of a file that one task sees (1996 paper, 2.2.2: logical partition). A request:
//! a range of a view's stream (1996 paper, 2.2.3).

mod block_cyclic;
mod build;
mod constructors;
mod map;

pub use block_cyclic::BlockCyclicDimension;
pub use map::ViewMap;
pub(crate) use map::{Item, NO_CHILD, Node, Shape};

/// The part of a file that one task sees. The pattern lies at `displacement` and repeats every
/// `extent` bytes without end. The bytes it covers, in pattern order, are the view's *stream*.
///
/// The 1996 paper's partition (offset, group size, stride) is
/// `View { displacement: offset, extent: stride, pattern: Pattern::Bytes(group_size) }`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// File offset of the first repetition, in bytes.
    pub displacement: u64,
    /// Distance between repetitions, in bytes; at least the pattern's span.
    pub extent: u64,
    /// The visible bytes of each repetition.
    pub pattern: Pattern,
}

/// A nested description of bytes. Each pattern is relative to its own beginning.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Pattern {
    /// This many contiguous bytes.
    Bytes(u64),
    /// `count` copies of `child`, each `stride` bytes after the one before.
    Vector {
        /// Copies, at least 1.
        count: u64,
        /// Distance between the starts of copies, in bytes; at least the child's span. Without
        /// meaning for one copy.
        stride: u64,
        /// The repeated pattern.
        child: Box<Pattern>,
    },
    /// Patterns at ascending displacements that do not overlap (an MPI struct).
    Struct(Vec<(u64, Pattern)>),
    /// An explicit list of extents, ascending, without overlap.
    Extents(Vec<Extent>),
}

/// A contiguous range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Offset, in bytes.
    pub offset: u64,
    /// Length in bytes, at least 1.
    pub bytes: u64,
}

/// `bytes` bytes of a view's stream from stream position `start`: what a client asks of an I/O
/// daemon, independent of the layout. It is sent as this formula, never expanded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The view.
    pub view: View,
    /// First wanted byte, as a position in the view's stream.
    pub start: u64,
    /// Number of wanted bytes.
    pub bytes: u64,
}
