//! Replays accesses of a repeated extent, recorded in the first common period of view and layout.
//!
//! ```text
//!   file      |--cut--|-- recorded --|-- again --|-- again --|-- again --|--rest--|
//!   walked      ##  ##  ##  ##  ##  ## #                                   ##  ##
//!             begin   first          first + bytes                        end
//! ```
//!
//! A walk finds each access by divisions; a replay adds to a recorded one. View and layout are the
//! same in each period. So a recording is valid up to the end of the repetition, of the component,
//! or of the request.
//!
//! Invariants:
//! 1. Accesses are recorded as they are returned, after merging neighbours: what is merged in one
//!    period is merged in each.
//! 2. Nothing is replayed before the walk has found the first access of the next period, and this
//!    access is the recorded one moved by a period.
//!
//! `Unfold::record_returned` is the only caller that records (1). `played` compares the two
//! accesses of 2 and names it.

use super::{Access, ViewWalk};

/// Maximum number of recorded accesses of a period. With more, the walk is not the main cost.
const RECORDED_MAX: usize = 64;
/// Minimum number of periods: two are walked, and the rest must be worth the recording.
const PERIODS_MIN: u64 = 4;

/// The source of the accesses.
#[derive(Clone, Debug)]
pub(super) enum PeriodCache {
    /// The walk. At an access at or after this file offset, check whether accesses repeat.
    Walking { ask_from: u64 },
    /// The walk, whose accesses are recorded.
    Recording(RecordedPeriod),
    /// The recording.
    Replaying(ReplayedPeriod),
}

/// A period of a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    /// Length in file bytes.
    pub(super) bytes: u64,
    /// Length in bytes of the view's stream.
    pub(super) stream: u64,
    /// File offset up to which it repeats.
    pub(super) end: u64,
}

#[derive(Clone, Debug)]
pub(super) struct RecordedPeriod {
    period: Period,
    accesses: Vec<Access>,
}

#[derive(Clone, Debug)]
pub(super) struct ReplayedPeriod {
    /// Each access with the distance in its object to the same access a period later. They are not
    /// updated in place: to copy a value as a whole just after writing it in parts stalls the
    /// processor.
    accesses: Vec<(Access, u64)>,
    period: Period,
    /// Bytes of the packed stream per period.
    packed: u64,
    /// How many periods were replayed, and the next access of the present one.
    times: u64,
    next: usize,
    /// Total number of periods.
    periods: u64,
}

impl Default for PeriodCache {
    fn default() -> Self {
        Self::Walking { ask_from: 0 }
    }
}

impl PeriodCache {
    /// Takes an access that the walk found and the caller gets. The walk has already moved to the
    /// next one.
    pub(super) fn record(&mut self, access: &Access, walk: &ViewWalk) {
        let at = access.file_offset.0;
        match self {
            Self::Walking { ask_from } if at < *ask_from => {}
            // The first access begins where the request does. The second one is recorded.
            Self::Walking { ask_from: from @ 0 } => *from = at + 1,
            Self::Walking { .. } => *self = Self::try_recording(access, walk),
            Self::Recording(recorded)
                if at < recorded.accesses[0].file_offset.0 + recorded.period.bytes =>
            {
                if recorded.accesses.len() == RECORDED_MAX {
                    *self = Self::Walking { ask_from: recorded.period.end };
                } else {
                    recorded.accesses.push(*access);
                }
            }
            Self::Recording(recorded) => *self = recorded.checked(access, walk),
            Self::Replaying(_) => {}
        }
    }

    fn try_recording(access: &Access, walk: &ViewWalk) -> Self {
        let at = access.file_offset.0;
        match walk.repetition(at, PERIODS_MIN) {
            Ok(period) => Self::Recording(RecordedPeriod { period, accesses: vec![*access] }),
            Err(ask_from) => Self::Walking { ask_from },
        }
    }
}

impl RecordedPeriod {
    /// Starts to replay, if this is the first access moved by a period.
    fn checked(&self, access: &Access, walk: &ViewWalk) -> PeriodCache {
        self.played(access, walk)
            .map_or(PeriodCache::Walking { ask_from: self.period.end }, PeriodCache::Replaying)
    }

    fn played(&self, access: &Access, walk: &ViewWalk) -> Option<ReplayedPeriod> {
        let Period { bytes, end, .. } = self.period;
        let first = self.accesses[0];
        if access.file_offset.0 != first.file_offset.0 + bytes {
            return None;
        }
        let with_move = |own: &Access| {
            let location = walk.locate(own.file_offset.0 + bytes);
            (location.part == own.part)
                .then(|| (*own, location.object_offset.0 - own.object_offset.0))
        };
        let accesses = self.accesses.iter().map(with_move).collect::<Option<_>>()?;
        let packed = access.packed_offset - first.packed_offset;
        let periods = (end - first.file_offset.0) / bytes;
        // The first period was walked, and the first access of the second.
        let mut played =
            ReplayedPeriod { accesses, period: self.period, packed, times: 1, next: 0, periods };
        // Invariant 2: the walked access is the recorded one, moved by a period.
        (played.replay_next()? == *access).then_some(played)
    }
}

impl ReplayedPeriod {
    /// The next access; `None` when the walk must continue, from [`ReplayedPeriod::end`] on.
    #[inline]
    pub(super) fn replay_next(&mut self) -> Option<Access> {
        if self.times == self.periods {
            return None;
        }
        let (mut access, bytes) = *self.accesses.get(self.next)?;
        access.object_offset.0 += self.times * bytes;
        access.stream_offset += self.times * self.period.stream;
        access.packed_offset += self.times * self.packed;
        access.file_offset.0 += self.times * self.period.bytes;
        self.next += 1;
        if self.next == self.accesses.len() {
            (self.next, self.times) = (0, self.times + 1);
        }
        Some(access)
    }

    /// The end of the last period: a file offset, and the position in the packed stream.
    pub(super) fn end(&self) -> (u64, u64) {
        let (first, _) = self.accesses[0];
        (
            first.file_offset.0 + self.periods * self.period.bytes,
            first.packed_offset + self.periods * self.packed,
        )
    }
}
