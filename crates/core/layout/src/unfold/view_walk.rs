//! Walks over a view's extents, and skips those that hold no byte of the wanted parts.
//!
//! View and parts are both sets of file bytes in ascending order; the walk joins them. It keeps a
//! path into the view's tree (`frames`), the present extent, and `floor`: every byte of the request
//! before `floor` is done. Where an extent has no byte of the parts, the next repetition that can
//! have one is found by arithmetic, level by level from the innermost.

use std::ops::Range;

use braid_types::FileOffset;
use braid_types::limits::VIEW_DEPTH_MAX;

use super::period_cache::Period;
use crate::distribution::{Cover, Progression};
use crate::modular_search::gcd;
use crate::view::{NO_CHILD, Node, Shape};
use crate::{LayoutError, LayoutMap, Location, PartSet, Request, ViewMap};

/// The root, and each level below it that is not an extent.
const FRAMES_MAX: usize = VIEW_DEPTH_MAX + 1;
/// In [`TreeFrame::node`]: the root.
const ROOT: u32 = NO_CHILD;

/// Bytes of the request that are contiguous in the file and in one component. The first is on the
/// parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewExtent {
    /// File offset of the first byte.
    pub(crate) start: u64,
    /// File offset just past the last.
    pub(crate) end: u64,
    /// Position of the first byte in the request.
    pub(crate) stream_offset: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Seek {
    Hit(ViewExtent),
    Paused,
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct ViewWalk {
    view: ViewMap,
    layout: LayoutMap,
    parts: PartSet,
    pub(super) component: ComponentCursor,
    /// The request's first byte, as a position in the view's stream.
    start: u64,
    /// File offset just past the request's last byte.
    limit: u64,
    pub(super) floor: u64,
    /// No byte from here to the present position was on the parts, within this component.
    pub(super) no_hit_since: u64,
    /// From the root down; empty for a contiguous view.
    frames: Vec<TreeFrame>,
    extent: Option<RemainingExtent>,
    pub(super) steps_taken: u64,
}

/// The component that the walk is in.
#[derive(Clone, Debug)]
pub(super) struct ComponentCursor {
    slice: usize,
    start: u64,
    pub(super) end: u64,
    pub(super) cover: Cover,
}

/// A node on the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeFrame {
    node: u32,
    /// File offset of its beginning.
    pub(super) base: u64,
    /// Position of its first byte in the view's stream.
    position: u64,
    /// First child that was not examined.
    next: u64,
}

/// The rest of an extent; `start < end`.
#[derive(Clone, Copy, Debug)]
struct RemainingExtent {
    start: u64,
    end: u64,
    /// Position of `start` in the view's stream.
    position: u64,
}

impl ComponentCursor {
    fn at(layout: &LayoutMap, parts: &PartSet, offset: u64) -> Self {
        let slice = layout.component_at(offset);
        let own = &layout.components()[slice];
        Self { slice, start: own.start, end: own.end, cover: own.cover(parts) }
    }

    /// The first byte at or after `offset` that is on the parts, or the end of the component.
    fn next(&self, offset: u64) -> u64 {
        let next =
            self.cover.next(offset - self.start).and_then(|next| next.checked_add(self.start));
        next.map_or(self.end, |next| next.min(self.end))
    }
}

impl ViewWalk {
    pub(crate) fn new(
        request: &Request,
        layout: &LayoutMap,
        parts: &PartSet,
    ) -> Result<Self, LayoutError> {
        Self::of_stream(request.view.map()?, layout, parts, request.start, request.bytes)
    }

    /// A walk over these bytes of the view's stream.
    pub(crate) fn of_stream(
        view: ViewMap,
        layout: &LayoutMap,
        parts: &PartSet,
        start: u64,
        bytes: u64,
    ) -> Result<Self, LayoutError> {
        let range = view.file_range(start, bytes)?.unwrap_or(0..0);
        Ok(Self::over(view, layout.clone(), parts, start, range))
    }

    /// A walk over the view's bytes in a file range below the largest file; `start` is the stream
    /// position of the first of them.
    pub(crate) fn over(
        view: ViewMap,
        layout: LayoutMap,
        parts: &PartSet,
        start: u64,
        range: Range<u64>,
    ) -> Self {
        let cursor = ComponentCursor::at(&layout, parts, range.start);
        let mut frames = Vec::new();
        let mut run = None;
        if view.is_contiguous() && !range.is_empty() {
            run = Some(RemainingExtent { start: range.start, end: range.end, position: start });
        } else if !range.is_empty() {
            frames = Vec::with_capacity(FRAMES_MAX);
            frames.push(TreeFrame { node: ROOT, base: view.displacement(), position: 0, next: 0 });
        }
        let (floor, limit) = (range.start, range.end);
        Self {
            view,
            layout,
            parts: *parts,
            component: cursor,
            start,
            limit,
            floor,
            no_hit_since: floor,
            frames,
            extent: run,
            steps_taken: 0,
        }
    }

    pub(crate) fn steps_taken(&self) -> u64 {
        self.steps_taken
    }

    /// Moves to the next byte of the request that is on the parts. Stays there until
    /// [`ViewWalk::consume`].
    pub(crate) fn seek(&mut self, steps: &mut usize) -> Seek {
        loop {
            if self.extent.is_none() && (self.frames.is_empty() || self.floor >= self.limit) {
                return Seek::End;
            }
            if *steps == 0 {
                return Seek::Paused;
            }
            let before = self.steps_taken;
            self.steps_taken += 1;
            let hit = match self.extent.take() {
                Some(run) => self.look_in(run),
                None => {
                    self.enter_component(self.floor);
                    self.next_child();
                    None
                }
            };
            *steps = steps.saturating_sub((self.steps_taken - before) as usize);
            if let Some(hit) = hit {
                return Seek::Hit(hit);
            }
        }
    }

    /// Location of a byte of the last hit.
    pub(crate) fn locate(&self, offset: u64) -> Location {
        self.layout.components()[self.component.slice].locate(offset)
    }

    /// How many bytes of the wanted parts lie in a range of the last hit.
    pub(crate) fn bytes_in(&self, hit: &ViewExtent) -> u64 {
        let before = |offset: u64| self.component.cover.bytes_before(offset - self.component.start);
        before(hit.end) - before(hit.start)
    }

    /// Finishes the first `bytes` bytes of the last hit.
    pub(crate) fn consume(&mut self, bytes: u64) {
        let Some(run) = &mut self.extent else { return };
        run.start += bytes;
        run.position += bytes;
        (self.floor, self.no_hit_since) = (run.start, run.start);
        if run.start >= run.end {
            self.extent = None;
        }
    }

    /// The first byte of the extent that is on the parts. An extent without such a byte is
    /// finished.
    fn look_in(&mut self, run: RemainingExtent) -> Option<ViewExtent> {
        self.enter_component(run.start);
        let next = self.component.next(run.start);
        let end = run.end.min(self.component.end);
        let at = next.min(end);
        let rest = RemainingExtent { start: at, position: run.position + (at - run.start), ..run };
        if at < end {
            self.extent = Some(rest);
            return Some(ViewExtent { start: at, end, stream_offset: rest.position - self.start });
        }
        if end < run.end {
            self.extent = Some(rest); // it continues in the next component
        } else {
            self.floor = next.max(run.end);
        }
        None
    }

    fn enter_component(&mut self, offset: u64) {
        if offset >= self.component.end && offset < self.limit {
            self.component = ComponentCursor::at(&self.layout, &self.parts, offset);
            self.no_hit_since = offset;
        }
    }

    /// Enters the next child of the innermost node that can have a byte of the parts, or leaves the
    /// node.
    fn next_child(&mut self) {
        let Some(&frame) = self.frames.last() else { return };
        let node = if frame.node == ROOT { self.view.root() } else { self.view.node(frame.node) };
        match node.shape.clone() {
            Shape::Repeat { count, stride, child } => {
                let copy = self.view.node(child);
                let (bytes, span, run) = (copy.bytes, copy.span, matches!(copy.shape, Shape::Run));
                match self.next_copy(&frame, count, stride, child) {
                    Some(i) if self.is_empty_from(&frame, stride, frame.base + i * stride) => {
                        let last = (count - 1).saturating_mul(stride).saturating_add(span);
                        self.skip_empty_copies(frame.base.saturating_add(last));
                    }
                    Some(i) => {
                        self.looked_at(i);
                        let (base, position) =
                            (frame.base + i * stride, frame.position + i * bytes);
                        self.descend(if run { NO_CHILD } else { child }, base, span, position);
                    }
                    None => self.leave(),
                }
            }
            Shape::List(items) => match self.next_item(&frame, items.clone()) {
                Some((at, base)) => {
                    self.looked_at(at as u64);
                    let item = self.view.items(items)[at];
                    self.descend(item.child, base, item.span, frame.position + item.position);
                }
                None => self.leave(),
            },
            // Extents are never walked as nodes.
            Shape::Run => self.leave(),
        }
    }

    fn descend(&mut self, child: u32, base: u64, span: u64, position: u64) {
        if child == NO_CHILD {
            let (start, end) = (base.max(self.floor), base.saturating_add(span).min(self.limit));
            if start < end {
                self.extent =
                    Some(RemainingExtent { start, end, position: position + (start - base) });
            }
        } else {
            self.frames.push(TreeFrame { node: child, base, position, next: 0 });
        }
    }

    fn looked_at(&mut self, child: u64) {
        if let Some(frame) = self.frames.last_mut() {
            frame.next = child + 1;
        }
    }

    pub(super) fn leave(&mut self) {
        self.frames.pop();
    }

    /// The next copy of a repeated child that can have a byte of the parts at or after `floor`.
    fn next_copy(&mut self, frame: &TreeFrame, count: u64, stride: u64, child: u32) -> Option<u64> {
        let copy = self.view.node(child);
        let within = self.limit.checked_sub(frame.base)?.checked_sub(1)?;
        let end = count.min(within / stride + 1);
        let first = frame.next.max(copies_ending_by(self.floor, frame.base, stride, copy.span));
        if first >= end {
            return None;
        }
        // Copies that reach past the component are always entered.
        let whole =
            copies_ending_by(self.component.end, frame.base, stride, copy.span).clamp(first, end);
        let found = self.first_touch(
            Progression { base: frame.base, stride, origin: self.component.start },
            copy,
            first..whole,
        );
        let (found, steps) = found;
        self.steps_taken += steps;
        found.or((whole < end).then_some(whole))
    }

    fn first_touch(
        &self,
        copies: Progression,
        copy: &Node,
        range: Range<u64>,
    ) -> (Option<u64>, u64) {
        let patterns = self.view.periodic_patterns_of(copy);
        if let ([hull], false) = (patterns, range.is_empty()) {
            // Usually it is the next copy, and one look is cheaper than a search over many columns.
            let at = copies.base + range.start * copies.stride;
            if at >= self.component.start && self.component.next(at) - at < hull.bytes {
                return (Some(range.start), 0);
            }
        }
        let mut steps = 0;
        let found = self.component.cover.first_touch(&copies, patterns, range, &mut steps);
        (found, steps)
    }

    /// The next entry of a list that ends after `floor`, and its file offset.
    fn next_item(&self, frame: &TreeFrame, items: Range<usize>) -> Option<(usize, u64)> {
        let items = self.view.items(items);
        let first = frame.next as usize;
        let past = self.floor.saturating_sub(frame.base);
        let ended = |item: &crate::view::Item| item.offset + item.span <= past;
        let at = match items.get(first)? {
            item if !ended(item) => first,
            _ => first + items[first..].partition_point(ended),
        };
        let base =
            frame.base.checked_add(items.get(at)?.offset).filter(|base| *base < self.limit)?;
        Some((at, base))
    }

    /// The distance in the file after which the parts repeat; `None` across components.
    pub(crate) fn period(&self) -> Option<u64> {
        (self.component.start <= self.floor && self.limit <= self.component.end)
            .then(|| self.component.cover.period())
    }

    /// The period of the accesses of the present repeated extent, which hold from the one at `at`
    /// on.
    ///
    /// # Errors They do not repeat, or not `times_min` times. The value is the file offset from
    /// which to ask again.
    pub(super) fn repetition(&self, at: u64, times_min: u64) -> Result<Period, u64> {
        let Some(frame) = self.frames.last() else { return Err(self.component.end) };
        let node = if frame.node == ROOT { self.view.root() } else { self.view.node(frame.node) };
        let Shape::Repeat { count, stride, child } = node.shape else { return Err(at + 1) };
        let copy = self.view.node(child);
        // The walk may have moved to another repetition.
        if !matches!(copy.shape, Shape::Run) || at < frame.base {
            return Err(at + 1);
        }
        // What follows the last copy may begin before a full stride.
        let last = count.saturating_sub(1).saturating_mul(stride).saturating_add(copy.span);
        let end = frame.base.saturating_add(last).min(self.limit).min(self.component.end);
        let period = self.component.cover.period();
        // If all parts are wanted, the cover does not show where strips end.
        if period == 1 || end.saturating_sub(at) / times_min < stride.max(period) {
            return Err(end);
        }
        match (stride / gcd(stride, period)).checked_mul(period) {
            Some(bytes) if (end - at) / bytes >= times_min => {
                Ok(Period { bytes, stream: bytes / stride * copy.bytes, end })
            }
            _ => Err(end),
        }
    }

    /// Marks everything before this file offset as done, within the present repeated extent.
    pub(super) fn resume_at(&mut self, offset: u64) {
        self.extent = None;
        (self.floor, self.no_hit_since) = (offset, offset);
    }

    /// Memory that it owns, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        self.view.size_bytes()
            + self.component.cover.size_bytes()
            + self.frames.capacity() * size_of::<TreeFrame>()
    }

    /// The view that is walked.
    pub(crate) fn view(&self) -> &ViewMap {
        &self.view
    }

    /// The file range that is left.
    pub(crate) fn rest(&self) -> Range<u64> {
        self.floor..self.limit
    }

    /// The same walk over another file range.
    pub(crate) fn restarted_over(&self, range: Range<u64>) -> Self {
        let start = self.view.bytes_before(FileOffset(range.start));
        Self::over(self.view.clone(), self.layout.clone(), &self.parts, start, range)
    }
}

/// How many copies of `span` bytes at `base + i * stride` end at or before `offset`.
fn copies_ending_by(offset: u64, base: u64, stride: u64, span: u64) -> u64 {
    match offset.checked_sub(base).and_then(|past| past.checked_sub(span)) {
        Some(past) => past / stride + 1,
        None => 0,
    }
}
