//! What comes again: accesses of a repeated run, taken from the first period that view and layout have in common.
//!
//! ```text
//!   file      |--cut--|-- recorded --|-- again --|-- again --|-- again --|--rest--|
//!   walked      ##  ##  ##  ##  ##  ## #                                   ##  ##
//!             begin   first          first + bytes                        end
//! ```
//!
//! A walk finds each access by divisions; here the next one is an addition to one that was found. View and layout are the same in
//! each period, so that what was recorded once holds up to the end of the repetition, of the component, or of the request.
//!
//! Invariants:
//! 1. Accesses are recorded as they are given out, after neighbours were merged: what is merged in one period is in each.
//! 2. Nothing is played before the first access of the next period was walked to, and was the recorded one moved by a period.

use super::{Access, Walk};

/// Accesses of a period that are kept; with more, walking is not what costs.
const RECORDED_MAX: usize = 64;
/// Periods that there must be: two are walked, and it is to be worth a list.
const PERIODS_MIN: u64 = 4;

/// Where the accesses come from.
#[derive(Clone, Debug)]
pub(super) enum Cycle {
    /// The walk; whether they come again is asked at an access at or after this file offset.
    Walked { ask_from: u64 },
    /// The walk, and they are kept.
    Recorded(Recorded),
    /// The list.
    Played(Played),
}

/// A period of a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    /// File bytes.
    pub(super) bytes: u64,
    /// Bytes of the view's stream.
    pub(super) stream: u64,
    /// File offset up to which it comes again.
    pub(super) end: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Recorded {
    period: Period,
    accesses: Vec<Access>,
}

#[derive(Clone, Debug)]
pub(super) struct Played {
    /// Each with the bytes of its object to itself a period later. They are not written to: what was just written in parts and is
    /// copied as a whole makes a processor wait.
    accesses: Vec<(Access, u64)>,
    period: Period,
    /// Bytes of the packed stream in a period.
    packed: u64,
    /// How often the recorded period was played, and the next access of this one.
    times: u64,
    next: usize,
    /// Periods that there are.
    periods: u64,
}

impl Default for Cycle {
    fn default() -> Self {
        Self::Walked { ask_from: 0 }
    }
}

impl Cycle {
    /// Looks at an access that was walked to and is given out; the walk has gone on to the next.
    pub(super) fn walked(&mut self, access: &Access, walk: &Walk) {
        let at = access.file_offset.0;
        match self {
            Self::Walked { ask_from } if at < *ask_from => {}
            // The first access of a request begins where the request does; the one after it is recorded.
            Self::Walked { ask_from: from @ 0 } => *from = at + 1,
            Self::Walked { .. } => *self = Self::asked(access, walk),
            Self::Recorded(recorded)
                if at < recorded.accesses[0].file_offset.0 + recorded.period.bytes =>
            {
                if recorded.accesses.len() == RECORDED_MAX {
                    *self = Self::Walked { ask_from: recorded.period.end };
                } else {
                    recorded.accesses.push(*access);
                }
            }
            Self::Recorded(recorded) => *self = recorded.checked(access, walk),
            Self::Played(_) => {}
        }
    }

    fn asked(access: &Access, walk: &Walk) -> Self {
        let at = access.file_offset.0;
        match walk.repetition(at, PERIODS_MIN) {
            Ok(period) => Self::Recorded(Recorded { period, accesses: vec![*access] }),
            Err(ask_from) => Self::Walked { ask_from },
        }
    }
}

impl Recorded {
    /// To be played, if this is the first access moved by a period.
    fn checked(&self, access: &Access, walk: &Walk) -> Cycle {
        self.played(access, walk).map_or(Cycle::Walked { ask_from: self.period.end }, Cycle::Played)
    }

    fn played(&self, access: &Access, walk: &Walk) -> Option<Played> {
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
        // The first period was walked, and of the second its first access.
        let mut played =
            Played { accesses, period: self.period, packed, times: 1, next: 0, periods };
        (played.play()? == *access).then_some(played)
    }
}

impl Played {
    /// The next access; none when it is to be walked again, from [`Played::end`] on.
    #[inline]
    pub(super) fn play(&mut self) -> Option<Access> {
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

    /// Where the last period ends: a file offset, and the position in the packed stream.
    pub(super) fn end(&self) -> (u64, u64) {
        let (first, _) = self.accesses[0];
        (
            first.file_offset.0 + self.periods * self.period.bytes,
            first.packed_offset + self.periods * self.packed,
        )
    }
}
