//! Unfolding a request into accesses: the 1996 paper's job (2.3), lazy and bounded.
//!
//! ```text
//!   request (view)     ##  ##  ##  ##  ##  ##       stream_offset: counts all bytes of the request
//!   parts in the set   ....    ....    ....         packed_offset: counts only those on the parts
//!   accesses           ##      ##      ##
//! ```
//!
//! Invariants:
//! 1. Accesses come in request order, which is file order, and cover each byte of the request that
//!    lies on the parts exactly once.
//! 2. A call spends about the steps it was given, and exceeds them by at most one search (I9).
//!    Everything that loops counts: levels entered and left, extents examined, congruences solved.
//! 3. No allocation per access. One small allocation for each component that is entered, and two
//!    where accesses repeat often (`period_cache.rs`).
//!
//! `next_within` asserts the order in 1; the tests compare the accesses with every byte of small
//! requests. The callers' budgets (2) and allocations (3) are counted by tests and benches.
//!
//! Skipped bytes cost O(log) for each regular level, whatever the number of repetitions. A list
//! costs O(log entries) for each entry examined. Two nested regular levels without a hit cost one
//! search if strides and stripes are commensurable (the usual case: the periodic pattern of the
//! inner level proves it). At worst they cost one search for each repetition of the *outer* level,
//! and `grouped` one for each visit to a group's band. Both are limited by the budget, and end
//! after a common period of view and parts (`empty_periods.rs`).

mod empty_periods;
mod period_cache;
mod view_walk;

use braid_types::{FileOffset, ObjectOffset, PartIndex};

use period_cache::PeriodCache;
pub(crate) use view_walk::{Seek, ViewExtent, ViewWalk};

use crate::{Layout, LayoutError, LayoutMap, PartSet, Request, ViewMap};

/// A contiguous extent of one object; the 1996 paper's job is a list of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The part of the object.
    pub part: PartIndex,
    /// Offset in the object.
    pub object_offset: ObjectOffset,
    /// Number of bytes, at least 1.
    pub bytes: u64,
    /// Position of the first byte in the request, from 0.
    pub stream_offset: u64,
    /// Position of the first byte among the request's bytes on the wanted parts, from 0: its
    /// position in what one I/O daemon sends or receives.
    pub packed_offset: u64,
    /// Position of the first byte in the file. The other bytes follow it in the object and in the
    /// stream, but not always in the file: a view may skip exactly what lies on other parts.
    pub file_offset: FileOffset,
}

/// The result of [`Unfold::next_within`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfolded {
    /// The next access.
    Access(Access),
    /// The steps were used up. Nothing is lost: call again.
    Paused,
    /// There are no more accesses.
    End,
}

/// The condition for merging neighbours into one access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Merge {
    /// Adjacent in the object and in the request's stream.
    Stream,
    /// Adjacent in the object and in the packed stream.
    Packed,
    /// Adjacent in the object, in the request's stream and in the file.
    File,
}

/// The accesses of a request that lie on a set of parts, in request order.
///
/// The iterator searches without limit. A daemon uses [`Unfold::next_within`] with a budget of
/// steps, since a client can send a view that takes long to search.
#[derive(Clone, Debug)]
pub struct Unfold {
    walk: ViewWalk,
    merge: Merge,
    pending: Option<Access>,
    packed: u64,
    period_cache: PeriodCache,
}

/// Unfolds a request over the parts in the set. If the layout is used again, call
/// [`LayoutMap::unfold`].
///
/// ```
/// use braid_layout::{Distribution, Layout, PartSet, Request, unfold};
/// use braid_types::{FileOffset, IodId, ObjectOffset, PartIndex};
/// let layout = Layout::one(Distribution::SimpleStripe { stripe_size: 4096 }, (1..=2).map(IodId));
/// let request = Request::contiguous(FileOffset(4000), 10_000);
/// let mut job = unfold(&request, &layout, &PartSet::one(PartIndex(1)))?;
/// let access = job.next().unwrap();
/// assert_eq!((access.object_offset, access.bytes), (ObjectOffset(0), 4096));
/// assert_eq!(access.stream_offset, 96);
/// let access = job.next().unwrap();
/// assert_eq!((access.object_offset, access.bytes), (ObjectOffset(4096), 1712));
/// assert_eq!(access.stream_offset, 8288);
/// assert_eq!(job.next(), None);
/// # Ok::<(), braid_layout::LayoutError>(())
/// ```
///
/// # Errors
/// The request or the layout is malformed. Parts that the layout lacks hold no byte.
pub fn unfold(request: &Request, layout: &Layout, parts: &PartSet) -> Result<Unfold, LayoutError> {
    layout.map()?.unfold(request, parts)
}

impl LayoutMap {
    /// Unfolds a request over the parts in the set: see [`unfold()`].
    ///
    /// # Errors
    /// The request is malformed.
    pub fn unfold(&self, request: &Request, parts: &PartSet) -> Result<Unfold, LayoutError> {
        Ok(Unfold::new(ViewWalk::new(request, self, parts)?))
    }

    /// Unfolds bytes of a view's stream, like [`LayoutMap::unfold`]. For many requests of one view,
    /// which then share its memory.
    ///
    /// # Errors
    /// The bytes lie past the largest file.
    pub fn unfold_view(
        &self,
        view: ViewMap,
        start: u64,
        bytes: u64,
        parts: &PartSet,
    ) -> Result<Unfold, LayoutError> {
        Ok(Unfold::new(ViewWalk::of_stream(view, self, parts, start, bytes)?))
    }
}

impl Unfold {
    fn new(walk: ViewWalk) -> Self {
        Self {
            walk,
            merge: Merge::Stream,
            pending: None,
            packed: 0,
            period_cache: PeriodCache::default(),
        }
    }

    /// Memory that it owns, in bytes. That of the view may be [shared](ViewMap::moved_to). The
    /// recordings of `period_cache.rs` (4 KiB) are not counted.
    pub fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.walk.size_bytes()
    }

    /// Also merges accesses that are adjacent in the object and in the packed stream, but not in
    /// the request. An I/O daemon uses this, since it sends only its own bytes: a contiguous
    /// request of 4 MiB on one part of four is one access, not one for each strip. `stream_offset`
    /// and `file_offset` are those of the first byte.
    #[must_use]
    pub fn packed(mut self) -> Self {
        self.merge = Merge::Packed;
        self
    }

    /// Merges only accesses that are also adjacent in the file. Then an access is an extent of the
    /// file and can be split at a file offset.
    #[must_use]
    pub fn by_file(mut self) -> Self {
        self.merge = Merge::File;
        self
    }

    /// The next access. Spends about `steps`, and decrements them.
    pub fn next_within(&mut self, steps: &mut usize) -> Unfolded {
        loop {
            if let PeriodCache::Replaying(played) = &mut self.period_cache {
                if *steps == 0 {
                    return Unfolded::Paused;
                }
                if let Some(access) = played.replay_next() {
                    *steps -= 1;
                    return Unfolded::Access(access);
                }
                let (end, packed) = played.end();
                self.walk.resume_at(end);
                self.packed = packed;
                self.period_cache = PeriodCache::Walking { ask_from: end };
            }
            let next = match self.walk.seek(steps) {
                Seek::Hit(hit) => self.take(hit),
                Seek::Paused => return Unfolded::Paused,
                Seek::End => return self.pending.take().map_or(Unfolded::End, Unfolded::Access),
            };
            debug_assert!(
                self.pending.is_none_or(|last| {
                    last.file_offset.0 + last.bytes <= next.file_offset.0
                        && last.stream_offset + last.bytes <= next.stream_offset
                }),
                "1: accesses come in the order of the request and of the file"
            );
            match &mut self.pending {
                Some(last) if self.merge.follows(last, &next) => last.bytes += next.bytes,
                pending => {
                    if let Some(last) = pending.replace(next) {
                        return Unfolded::Access(self.record_returned(last));
                    }
                }
            }
        }
    }

    fn record_returned(&mut self, access: Access) -> Access {
        self.period_cache.record(&access, &self.walk);
        if matches!(self.period_cache, PeriodCache::Replaying(_)) {
            // The walk's pending access is part of the replay.
            self.pending = None;
        }
        access
    }

    /// Steps spent so far.
    pub fn steps_taken(&self) -> u64 {
        self.walk.steps_taken()
    }

    /// The access at the start of the hit.
    fn take(&mut self, hit: ViewExtent) -> Access {
        let location = self.walk.locate(hit.start);
        let bytes = location.contiguous.min(hit.end - hit.start);
        let access = Access {
            part: location.part,
            object_offset: location.object_offset,
            bytes,
            stream_offset: hit.stream_offset,
            packed_offset: self.packed,
            file_offset: FileOffset(hit.start),
        };
        self.walk.consume(bytes);
        self.packed += bytes;
        access
    }
}

impl Merge {
    fn follows(self, last: &Access, next: &Access) -> bool {
        last.part == next.part
            && last.object_offset.0 + last.bytes == next.object_offset.0
            && (self == Self::Packed || last.stream_offset + last.bytes == next.stream_offset)
            && (self != Self::File || last.file_offset.0 + last.bytes == next.file_offset.0)
    }
}

impl Iterator for Unfold {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        loop {
            match self.next_within(&mut usize::MAX.clone()) {
                Unfolded::Access(access) => return Some(access),
                Unfolded::Paused => {}
                Unfolded::End => return None,
            }
        }
    }
}

impl std::iter::FusedIterator for Unfold {}
