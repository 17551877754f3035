//! Checks a view, simplifies it, and prepares it for use.

use std::sync::Arc;

use braid_types::limits::{LIST_EXTENTS_MAX, VIEW_DEPTH_MAX, VIEW_NODES_MAX};

use super::map::{Item, NO_CHILD, Node, Shape, Tree, ViewMap};
use super::{Extent, Pattern, View};
use crate::LayoutError;
use crate::distribution::PeriodicPattern;
use crate::modular_search::gcd;

impl View {
    /// Prepares the view for use. A contiguous or simply strided view needs no list; an extent list
    /// costs O(entries).
    ///
    /// # Errors
    /// The view is malformed: see [`View::validate`].
    pub fn map(&self) -> Result<ViewMap, LayoutError> {
        if let Pattern::Bytes(bytes @ 1..) = self.pattern
            && bytes == self.extent
        {
            // A plain file, in every read and write: nothing to simplify, nothing to allocate.
            return Ok(ViewMap {
                displacement: self.displacement,
                root: Node::contiguous_from(self.displacement),
                tree: None,
            });
        }
        let mut builder = Builder::default();
        let pattern = builder.pattern(&self.pattern, 1)?;
        if self.extent < pattern.span {
            return Err(LayoutError::ExtentTooSmall { extent: self.extent, span: pattern.span });
        }
        let root = builder.root(pattern, self.extent, self.displacement)?;
        Ok(builder.finish(root, self.displacement))
    }
}

impl Node {
    /// The root of a view that shows every byte from its displacement on.
    pub(super) fn contiguous_from(displacement: u64) -> Self {
        let span = u64::MAX - displacement;
        Self { bytes: span, span, shape: Shape::Run, periodic_patterns: 0..0 }
    }
}

/// Maximum number of periodic patterns of one view. Beyond it, a repeated pattern has only its
/// hull. That costs searches but stays correct.
const VIEW_PERIODIC_PATTERNS_MAX: usize = 2 * VIEW_NODES_MAX;

#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    items: Vec<Item>,
    periodic_patterns: Vec<PeriodicPattern>,
    /// List entries seen, including merged ones.
    entries: usize,
}

impl Builder {
    fn finish(self, root: Node, displacement: u64) -> ViewMap {
        let Self { mut nodes, mut items, periodic_patterns: mut patterns, .. } = self;
        shrink_if_large(&mut nodes);
        shrink_if_large(&mut items);
        shrink_if_large(&mut patterns);
        let is_empty = matches!(root.shape, Shape::Run);
        ViewMap {
            displacement,
            root,
            tree: (!is_empty).then(|| Arc::new(Tree { nodes, items, periodic_patterns: patterns })),
        }
    }

    fn pattern(&mut self, pattern: &Pattern, depth: usize) -> Result<Node, LayoutError> {
        if depth > VIEW_DEPTH_MAX {
            return Err(LayoutError::TooDeep { max: VIEW_DEPTH_MAX });
        }
        match pattern {
            Pattern::Bytes(bytes) => self.run(*bytes),
            Pattern::Vector { count, stride, child } => {
                let child = self.pattern(child, depth + 1)?;
                self.vector(*count, *stride, child)
            }
            Pattern::Struct(entries) => self.structure(entries, depth),
            Pattern::Extents(extents) => self.extents(extents),
        }
    }

    fn run(&mut self, bytes: u64) -> Result<Node, LayoutError> {
        if bytes == 0 {
            return Err(LayoutError::EmptyPattern);
        }
        let patterns = self.hull(bytes);
        Ok(Node { bytes, span: bytes, shape: Shape::Run, periodic_patterns: patterns })
    }

    fn vector(&mut self, count: u64, stride: u64, child: Node) -> Result<Node, LayoutError> {
        if count == 0 {
            return Err(LayoutError::EmptyPattern);
        }
        if count == 1 {
            return Ok(child);
        }
        if stride < child.span {
            return Err(LayoutError::StrideTooSmall { stride, span: child.span });
        }
        let last = (count - 1).checked_mul(stride).ok_or(LayoutError::Overflow)?;
        let span = last.checked_add(child.span).ok_or(LayoutError::Overflow)?;
        match child.shape {
            Shape::Run if stride == child.span => self.run(span),
            // Copies that continue the child's own stride are more copies of the grandchild.
            Shape::Repeat { count: inner, stride: step, child: grandchild }
                if inner.checked_mul(step) == Some(stride) =>
            {
                let shape = Shape::Repeat { count: count * inner, stride: step, child: grandchild };
                let patterns = self.periodic_patterns_of_repeat(span, step, grandchild);
                Ok(Node { bytes: child.bytes * count, span, shape, periodic_patterns: patterns })
            }
            _ => {
                let bytes = child.bytes * count;
                let child = self.add_node(child)?;
                let patterns = self.periodic_patterns_of_repeat(span, stride, child);
                Ok(Node {
                    bytes,
                    span,
                    shape: Shape::Repeat { count, stride, child },
                    periodic_patterns: patterns,
                })
            }
        }
    }

    fn structure(&mut self, entries: &[(u64, Pattern)], depth: usize) -> Result<Node, LayoutError> {
        self.count_entries(entries.len())?;
        if let [(0, only)] = entries {
            return self.pattern(only, depth + 1);
        }
        // Children come before their own items: the items of one list are adjacent.
        let mut items = ListBuilder::default();
        for (offset, pattern) in entries {
            let node = self.pattern(pattern, depth + 1)?;
            let run = matches!(node.shape, Shape::Run);
            let (bytes, span) = (node.bytes, node.span);
            let child = if run { NO_CHILD } else { self.add_node(node)? };
            items.push(*offset, bytes, span, child)?;
        }
        self.list(items)
    }

    fn extents(&mut self, extents: &[Extent]) -> Result<Node, LayoutError> {
        self.count_entries(extents.len())?;
        let mut items = ListBuilder::default();
        for Extent { offset, bytes } in extents {
            if *bytes == 0 {
                return Err(LayoutError::EmptyPattern);
            }
            items.push(*offset, *bytes, *bytes, NO_CHILD)?;
        }
        self.list(items)
    }

    fn list(&mut self, list: ListBuilder) -> Result<Node, LayoutError> {
        match list.items.as_slice() {
            [] => Err(LayoutError::EmptyPattern),
            [Item { offset: 0, child: NO_CHILD, span, .. }] => self.run(*span),
            _ => {
                let items = self.items.len()..self.items.len() + list.items.len();
                self.items.extend(list.items);
                let patterns = self.hull(list.end);
                Ok(Node {
                    bytes: list.bytes,
                    span: list.end,
                    shape: Shape::List(items),
                    periodic_patterns: patterns,
                })
            }
        }
    }

    /// Repeats the pattern every `extent` bytes without end.
    fn root(&mut self, pattern: Node, extent: u64, displacement: u64) -> Result<Node, LayoutError> {
        let endless =
            |shape| Node { bytes: u64::MAX, span: u64::MAX, shape, periodic_patterns: 0..0 };
        Ok(match pattern.shape {
            Shape::Run if pattern.span == extent => Node::contiguous_from(displacement),
            Shape::Repeat { count, stride, child } if count.checked_mul(stride) == Some(extent) => {
                endless(Shape::Repeat { count: u64::MAX, stride, child })
            }
            _ => {
                let child = self.add_node(pattern)?;
                endless(Shape::Repeat { count: u64::MAX, stride: extent, child })
            }
        })
    }

    fn count_entries(&mut self, entries: usize) -> Result<(), LayoutError> {
        self.entries = self.entries.saturating_add(entries);
        if self.entries > LIST_EXTENTS_MAX {
            Err(LayoutError::ListTooLong { max: LIST_EXTENTS_MAX })
        } else {
            Ok(())
        }
    }

    fn add_node(&mut self, node: Node) -> Result<u32, LayoutError> {
        if self.nodes.len() >= VIEW_NODES_MAX {
            return Err(LayoutError::TooManyPatterns { max: VIEW_NODES_MAX });
        }
        debug_assert!(
            1 <= node.bytes && node.bytes <= node.span,
            "invariant 1: a node covers no byte, or more than its span"
        );
        self.nodes.push(node);
        Ok((self.nodes.len() - 1) as u32)
    }

    fn hull(&mut self, span: u64) -> std::ops::Range<usize> {
        self.periodic_patterns.push(PeriodicPattern { spacing: 0, bytes: span });
        self.periodic_patterns.len() - 1..self.periodic_patterns.len()
    }

    /// The hull, and every periodic pattern of the child refined by the stride.
    fn periodic_patterns_of_repeat(
        &mut self,
        span: u64,
        stride: u64,
        child: u32,
    ) -> std::ops::Range<usize> {
        let first = self.hull(span).start;
        let of_child = self.nodes[child as usize].periodic_patterns.clone();
        if self.periodic_patterns.len() + of_child.len() > VIEW_PERIODIC_PATTERNS_MAX {
            return first..self.periodic_patterns.len();
        }
        for at in of_child {
            let PeriodicPattern { spacing, bytes } = self.periodic_patterns[at];
            self.periodic_patterns.push(PeriodicPattern { spacing: gcd(spacing, stride), bytes });
        }
        first..self.periodic_patterns.len()
    }
}

/// Releases unused capacity of a large list. For a small one, the call of the allocator costs more.
fn shrink_if_large<T>(list: &mut Vec<T>) {
    if list.capacity() - list.len() > 256 {
        list.shrink_to_fit();
    }
}

/// Checks the items of one list: they must ascend. Merges adjacent extents.
#[derive(Default)]
struct ListBuilder {
    items: Vec<Item>,
    bytes: u64,
    end: u64,
}

impl ListBuilder {
    fn push(&mut self, offset: u64, bytes: u64, span: u64, child: u32) -> Result<(), LayoutError> {
        if offset < self.end {
            return Err(LayoutError::Unordered { offset });
        }
        let end = offset.checked_add(span).ok_or(LayoutError::Overflow)?;
        match self.items.last_mut() {
            Some(last) if last.child == NO_CHILD && child == NO_CHILD && offset == self.end => {
                last.span += span
            }
            _ => self.items.push(Item { offset, position: self.bytes, span, child }),
        }
        (self.bytes, self.end) = (self.bytes + bytes, end);
        Ok(())
    }
}
