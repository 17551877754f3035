//! A view prepared for use: converts stream positions to file offsets and back, in O(depth * log
//! entries).
//!
//! For the simple form, this gives the 1996 paper's formulas (2.2.2), with partition offset `o`,
//! group size `g` and stride `s`:
//!
//! ```text
//!   fl = o + (pl / g) * s + pl mod g              pl = ((fl - o) / s) * g + (fl - o) mod s
//! ```
//!
//! A view is stored as a tree in one vector, simplified: contiguous bytes are one extent, a regular
//! pattern is one level. Invariants (established in `build.rs`, used everywhere):
//! 1. Every node covers at least 1 byte; `bytes <= span`, and `span` does not exceed 2^64.
//! 2. Children of a node ascend and do not overlap. So stream order is file order.
//! 3. The root lies at `displacement`; a root that repeats does so without end.
//!
//! `Builder::add_node` asserts 1, and `ListBuilder::push` refuses a list that breaks 2.
//! `Builder::root` makes every root (3).

use std::{ops::Range, sync::Arc};

use braid_types::FileOffset;
use braid_types::limits::FILE_BYTES_MAX;

use crate::LayoutError;
use crate::distribution::PeriodicPattern;

/// In [`Item::child`]: the item is a contiguous extent.
pub(crate) const NO_CHILD: u32 = u32::MAX;

/// A [`crate::View`] prepared for use.
///
/// ```
/// use braid_layout::View;
/// use braid_types::FileOffset;
/// let map = View::strided(100, 10, 50).map()?;
/// assert_eq!(map.file_offset(25)?, FileOffset(100 + 2 * 50 + 5));
/// assert_eq!(map.position(FileOffset(205)), Some(25));
/// assert_eq!(map.position(FileOffset(215)), None); // not seen
/// assert_eq!(map.bytes_before(FileOffset(215)), 30);
/// # Ok::<(), braid_layout::LayoutError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ViewMap {
    pub(super) displacement: u64,
    pub(super) root: Node,
    /// Shared by clones; `None` for a contiguous view, which has nothing below its root.
    pub(super) tree: Option<Arc<Tree>>,
}

/// The nodes below the root.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) items: Vec<Item>,
    pub(super) periodic_patterns: Vec<PeriodicPattern>,
}

static NO_TREE: Tree = Tree { nodes: Vec::new(), items: Vec::new(), periodic_patterns: Vec::new() };

/// One pattern of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Visible bytes of one copy.
    pub(crate) bytes: u64,
    /// From its beginning to just past its last visible byte.
    pub(crate) span: u64,
    pub(crate) shape: Shape,
    /// The periodic patterns that contain one copy, the hull first.
    pub(crate) periodic_patterns: Range<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// All bytes of the span.
    Run,
    /// `count` children, `stride` apart.
    Repeat { count: u64, stride: u64, child: u32 },
    /// Items at offsets of their own.
    List(Range<usize>),
}

/// One entry of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// Offset from the start of the list.
    pub(crate) offset: u64,
    /// Visible bytes of the items before it.
    pub(crate) position: u64,
    /// From `offset` to just past its last byte.
    pub(crate) span: u64,
    /// Index of its node, or [`NO_CHILD`].
    pub(crate) child: u32,
}

impl ViewMap {
    /// The same pattern at another displacement. Shares the memory of this one.
    #[must_use]
    pub fn moved_to(&self, displacement: u64) -> Self {
        let root = if self.is_contiguous() {
            Node::contiguous_from(displacement)
        } else {
            self.root.clone()
        };
        Self { displacement, root, tree: self.tree.clone() }
    }

    /// Memory that it uses, in bytes; clones share it.
    pub fn size_bytes(&self) -> usize {
        let Tree { nodes, items, periodic_patterns: patterns } = self.tree();
        nodes.capacity() * size_of::<Node>()
            + items.capacity() * size_of::<Item>()
            + patterns.capacity() * size_of::<PeriodicPattern>()
    }

    /// The file offset of a byte of the stream.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`] when the offset exceeds 2^64.
    pub fn file_offset(&self, position: u64) -> Result<FileOffset, LayoutError> {
        self.offset_of(position)
            .filter(|offset| *offset < u64::MAX)
            .map(FileOffset)
            .ok_or(LayoutError::Overflow)
    }

    /// Like [`Self::file_offset`], including the offset that no file has.
    fn offset_of(&self, position: u64) -> Option<u64> {
        let (mut node, mut rest, mut offset) = (&self.root, position, self.displacement);
        loop {
            let (relative, child) = match &node.shape {
                Shape::Run => return offset.checked_add(rest),
                Shape::Repeat { stride, child, .. } => {
                    let child = self.node(*child);
                    let copy = rest / child.bytes;
                    rest %= child.bytes;
                    (copy.checked_mul(*stride)?, Some(child))
                }
                Shape::List(items) => {
                    let items = self.items(items.clone());
                    let item = &items[items.partition_point(|item| item.position <= rest) - 1];
                    rest -= item.position;
                    (item.offset, self.child_of(item))
                }
            };
            offset = offset.checked_add(relative)?;
            match child {
                Some(child) => node = child,
                None => return offset.checked_add(rest),
            }
        }
    }

    /// The stream position of a byte of the file; `None` when the byte is not visible.
    pub fn position(&self, offset: FileOffset) -> Option<u64> {
        let (position, seen) = self.rank(offset.0);
        seen.then_some(position)
    }

    /// How many bytes of the stream lie before this offset of the file: the position of the first
    /// visible byte at or after it.
    pub fn bytes_before(&self, offset: FileOffset) -> u64 {
        self.rank(offset.0).0
    }

    /// The first visible byte at or after this offset of the file: its stream position and its file
    /// offset. `None` when there is none below 2^64.
    pub fn next_visible(&self, offset: FileOffset) -> Option<(u64, FileOffset)> {
        let position = self.bytes_before(offset);
        self.file_offset(position).ok().filter(|seen| *seen >= offset).map(|seen| (position, seen))
    }

    /// The position, in another view's stream, of the byte that is at `position` here. `None` when
    /// it is not visible there.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`] when the byte's offset exceeds 2^64.
    pub fn position_in(&self, position: u64, other: &Self) -> Result<Option<u64>, LayoutError> {
        Ok(other.position(self.file_offset(position)?))
    }

    /// Whether every byte from the displacement on is visible: a plain file.
    pub fn is_contiguous(&self) -> bool {
        matches!(self.root.shape, Shape::Run)
    }

    /// Bytes of the stream before `offset`, and whether the byte at `offset` is visible.
    fn rank(&self, offset: u64) -> (u64, bool) {
        // No file has a byte at 2^64-1, and no root covers it.
        if offset == u64::MAX {
            let (position, seen) = self.rank(offset - 1);
            return (position + u64::from(seen), false);
        }
        let Some(mut rest) = offset.checked_sub(self.displacement) else { return (0, false) };
        let (mut node, mut position) = (&self.root, 0);
        loop {
            if rest >= node.span {
                return (position + node.bytes, false);
            }
            match &node.shape {
                Shape::Run => return (position + rest, true),
                Shape::Repeat { stride, child, .. } => {
                    node = self.node(*child);
                    position += rest / stride * node.bytes;
                    rest %= stride;
                }
                Shape::List(items) => {
                    let items = self.items(items.clone());
                    let Some(at) = items.partition_point(|item| item.offset <= rest).checked_sub(1)
                    else {
                        return (position, false);
                    };
                    position += items[at].position;
                    rest -= items[at].offset;
                    match self.child_of(&items[at]) {
                        Some(child) => node = child,
                        None => {
                            return (position + rest.min(items[at].span), rest < items[at].span);
                        }
                    }
                }
            }
        }
    }

    /// The file range `[first, end)` from the first of these bytes of the stream to just past the
    /// last. `None` for no bytes.
    pub(crate) fn file_range(
        &self,
        start: u64,
        bytes: u64,
    ) -> Result<Option<Range<u64>>, LayoutError> {
        let past = LayoutError::PastLargestFile { max: FILE_BYTES_MAX };
        let Some(bytes_after) = bytes.checked_sub(1) else { return Ok(None) };
        let last = start.checked_add(bytes_after).ok_or(LayoutError::Overflow)?;
        let (first, last) = (self.file_offset(start)?.0, self.file_offset(last)?.0);
        if last >= FILE_BYTES_MAX {
            return Err(past);
        }
        Ok(Some(first..last + 1))
    }

    fn tree(&self) -> &Tree {
        self.tree.as_deref().unwrap_or(&NO_TREE)
    }

    pub(crate) fn node(&self, index: u32) -> &Node {
        &self.tree().nodes[index as usize]
    }

    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    pub(crate) fn displacement(&self) -> u64 {
        self.displacement
    }

    pub(crate) fn items(&self, range: Range<usize>) -> &[Item] {
        &self.tree().items[range]
    }

    pub(crate) fn periodic_patterns_of(&self, node: &Node) -> &[PeriodicPattern] {
        &self.tree().periodic_patterns[node.periodic_patterns.clone()]
    }

    fn child_of(&self, item: &Item) -> Option<&Node> {
        (item.child != NO_CHILD).then(|| self.node(item.child))
    }
}
