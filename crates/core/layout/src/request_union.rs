//! The union of several requests: the bytes that they want of a set of parts, in file order, each
//! byte once. The 1996 paper's collective request (2.3.1) becomes this job.
//!
//! ```text
//!   request 0   ####....####....####        an extent of the union never covers a byte twice;
//!   request 1   ..####....####......        all bytes before `position` are done, for all requests
//!   union       ######..######..####
//! ```
//!
//! Invariants:
//! 1. Extents ascend in the file and do not overlap; each is contiguous in the file and in one
//!    object.
//! 2. After each extent, every byte before [`RequestUnion::position`] that any request wants was in
//!    an extent. So a caller may stop after an extent and continue later, without missing or
//!    repeating a byte.
//! 3. A call spends about the steps it was given (I9). Memory is that of the unfolded requests,
//!    whatever their length.
//!
//! `next_within` asserts that extents ascend (1). To assert 2 would be to unfold all requests a
//! second time: the tests do it. The steps are counted down in the unfolding (3).

use std::{cmp::Reverse, collections::BinaryHeap};

use braid_types::{FileOffset, ObjectOffset, PartIndex};

use crate::{Access, LayoutError, LayoutMap, PartSet, Request, Unfold, Unfolded};

/// An extent of the file that is also contiguous in one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectExtent {
    /// The part of the object.
    pub part: PartIndex,
    /// Offset in the object.
    pub object_offset: ObjectOffset,
    /// Offset in the file.
    pub file_offset: FileOffset,
    /// Number of bytes, at least 1.
    pub bytes: u64,
}

/// The result of [`RequestUnion::next_within`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextExtent {
    /// The next extent.
    Extent(ObjectExtent),
    /// The steps were used up. Nothing is lost: call again.
    Paused,
    /// There are no more extents.
    End,
}

/// The union of requests on a set of parts.
#[derive(Clone, Debug)]
pub struct RequestUnion {
    requests: Vec<RequestCursor>,
    /// The next access of each request that has one; the one with the lowest offset is on top.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    /// Requests whose next access is not known yet.
    unknown: Vec<u32>,
    /// No byte at or after this offset is wanted.
    end: u64,
    position: u64,
    overlaps: bool,
}

#[derive(Clone, Debug)]
struct RequestCursor {
    unfold: Unfold,
    access: Option<Access>,
}

impl LayoutMap {
    /// The union of these requests on the parts, below file offset `end`.
    ///
    /// ```
    /// use braid_layout::{Distribution, Layout, NextExtent, PartSet, Request, View};
    /// use braid_types::IodId;
    /// // Two tasks share a file of one part, 4 bytes in every 8 each: together they want all.
    /// let map = Layout::one(Distribution::Single, [IodId(1)]).map()?;
    /// let task = |n: u64| Request { view: View::strided(n * 4, 4, 8), start: 0, bytes: 12 };
    /// let mut union = map.union_of(&[task(0), task(1)], &PartSet::first(1), u64::MAX)?;
    /// let mut bytes = 0;
    /// while let NextExtent::Extent(extent) = union.next_within(u64::MAX, &mut 1000) {
    ///     assert_eq!(extent.file_offset.0, bytes);
    ///     bytes += extent.bytes;
    /// }
    /// assert_eq!(bytes, 24);
    /// # Ok::<(), braid_layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// A request is malformed.
    pub fn union_of(
        &self,
        requests: &[Request],
        parts: &PartSet,
        end: u64,
    ) -> Result<RequestUnion, LayoutError> {
        let unfolds: Result<Vec<_>, LayoutError> =
            requests.iter().map(|request| self.unfold(request, parts)).collect();
        Ok(RequestUnion::from_unfolds(unfolds?, end))
    }
}

impl RequestUnion {
    /// The union of these jobs, below file offset `end`. All must be over the same parts of one
    /// layout.
    pub fn from_unfolds(unfolds: impl IntoIterator<Item = Unfold>, end: u64) -> Self {
        let requests: Vec<_> = unfolds
            .into_iter()
            .map(|unfold| RequestCursor { unfold: unfold.by_file(), access: None })
            .collect();
        let unknown = (0..requests.len() as u32).collect();
        let next = BinaryHeap::with_capacity(requests.len());
        Self { requests, next, unknown, end, position: 0, overlaps: false }
    }

    /// The next extent of the union, of at most `bytes_max` bytes. Spends about `steps`, and
    /// decrements them.
    pub fn next_within(&mut self, bytes_max: u64, steps: &mut usize) -> NextExtent {
        loop {
            if !self.find_next_accesses(steps) {
                return NextExtent::Paused;
            }
            let Some(Reverse((_, request))) = self.next.pop() else { return NextExtent::End };
            let Some(access) = self.requests[request as usize].access else { continue };
            let known = self.position.saturating_sub(access.file_offset.0).min(access.bytes);
            self.overlaps |= known > 0;
            let fresh = after(access, known);
            let bytes = fresh.bytes.min(bytes_max);
            self.put_back(request, after(fresh, bytes));
            if bytes == 0 {
                if fresh.bytes > 0 {
                    return NextExtent::Paused; // `bytes_max` is 0
                }
                continue;
            }
            let Access { part, object_offset, file_offset, .. } = fresh;
            debug_assert!(file_offset.0 >= self.position, "invariant 1: extents ascend");
            self.position = file_offset.0 + bytes;
            self.overlaps |=
                self.next.peek().is_some_and(|Reverse((offset, _))| *offset < self.position);
            return NextExtent::Extent(ObjectExtent { part, object_offset, file_offset, bytes });
        }
    }

    /// Finds the next access of every request. Returns `false` when the steps ran out; then call
    /// again.
    pub fn find_next_accesses(&mut self, steps: &mut usize) -> bool {
        while let Some(request) = self.unknown.last().copied() {
            let cursor = &mut self.requests[request as usize];
            match cursor.unfold.next_within(steps) {
                Unfolded::Paused => return false,
                Unfolded::Access(access) => {
                    self.unknown.pop();
                    self.put_back(request, access);
                }
                Unfolded::End => {
                    self.unknown.pop();
                    cursor.access = None;
                }
            }
        }
        true
    }

    /// The end of the last extent: every wanted byte before it was in an extent.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Whether the request wants more bytes, as far as [known](RequestUnion::find_next_accesses).
    pub fn has_more(&self, request: usize) -> bool {
        self.requests[request].access.is_some() || self.unknown.contains(&(request as u32))
    }

    /// Whether several requests may want a byte of the extents since the last call of this. Never
    /// `false` when they do.
    pub fn take_overlaps(&mut self) -> bool {
        std::mem::take(&mut self.overlaps)
    }

    /// Stores the rest of a request's access. If nothing is left, its next access must be found.
    fn put_back(&mut self, request: u32, mut access: Access) {
        access.bytes = access.bytes.min(self.end.saturating_sub(access.file_offset.0));
        let at_end = access.file_offset.0 >= self.end;
        let cursor = &mut self.requests[request as usize];
        cursor.access = (access.bytes > 0).then_some(access);
        if cursor.access.is_some() {
            self.next.push(Reverse((access.file_offset.0, request)));
        } else if !at_end {
            self.unknown.push(request);
        }
    }
}

/// The access without its first `bytes` bytes.
fn after(access: Access, bytes: u64) -> Access {
    Access {
        object_offset: ObjectOffset(access.object_offset.0 + bytes),
        file_offset: FileOffset(access.file_offset.0 + bytes),
        stream_offset: access.stream_offset + bytes,
        packed_offset: access.packed_offset + bytes,
        bytes: access.bytes - bytes,
        ..access
    }
}
