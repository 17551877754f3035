//! Fences: the sessions that I/O daemons must refuse (I4).
//!
//! Each fence has a number, `server epoch << 32 | counter`, so that numbers rise over restarts
//! without being stored. Fence 0 of an epoch is the epoch itself: a daemon that confirmed it
//! refuses capabilities of older epochs.
//!
//! ```text
//!   session:   1   2   3   4   5   6   7   8   9
//!              ended──────╯  live ended──╯ live live       ranges: 1-3, 5-7
//! ```
//!
//! Invariants:
//! 1. Every session id that was assigned, and is neither live nor to be reclaimed, is in a range:
//!    it is refused for as long as the cluster exists. No fence is forgotten, so a daemon that
//!    restarts learns all of them before it serves.
//! 2. Ranges neither overlap nor touch. Between two of them is a session that is live or may come
//!    back, so there is at most one range more than sessions (I9).
//! 3. A range has the number of its newest fence: a daemon that confirmed that number has all of
//!    it.
//!
//! `insert` asserts 2. It puts each range under the newest number (3). Which sessions are live is
//! known to the table of sessions, which adds a fence where it removes one (1).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use braid_types::{MdsEpoch, SessionId};
use braid_wire::message::mds::SessionRange;

/// Ranges in one message: 128 KiB of the 512 KiB of a frame.
pub const FENCE_RANGES_MAX: usize = 8192;
/// Fences that are pushed in one message. A daemon that lacks more gets them with its heartbeat.
pub const FENCES_PUSHED_MAX: usize = 1024;

/// The fences that a daemon lacks, as one message holds them.
#[derive(PartialEq, Eq, Debug)]
pub struct MissingFences {
    /// The sessions.
    pub ranges: Vec<SessionRange>,
    /// When the daemon has applied the ranges, it has every fence up to this one.
    pub fence: u64,
    /// Whether there are newer ones.
    pub more: bool,
}

/// The fences of the cluster, with the numbers of this epoch.
#[derive(Debug)]
pub struct Fences {
    newest: u64,
    epoch_min: MdsEpoch,
    /// Last session and number of each range, by its first session.
    ranges: BTreeMap<SessionId, (SessionId, u64)>,
    /// Number and first session of each range.
    by_number: BTreeSet<(u64, SessionId)>,
    /// The newest fences one by one, for daemons that lack only these.
    recent: VecDeque<(u64, SessionId)>,
}

impl Fences {
    /// The fences of a server that has just started: every session below `next` that is not on
    /// record has ended.
    pub fn new(
        epoch: MdsEpoch,
        next: SessionId,
        recorded: impl IntoIterator<Item = SessionId>,
    ) -> Self {
        let (ranges, by_number, recent) = (BTreeMap::new(), BTreeSet::new(), VecDeque::new());
        let mut fences =
            Self { newest: epoch.0 << 32, epoch_min: epoch, ranges, by_number, recent };
        let mut recorded: Vec<SessionId> = recorded.into_iter().collect();
        recorded.sort_unstable();
        recorded.push(next);
        let mut first = SessionId(1);
        for id in recorded {
            if first < id {
                fences.newest += 1;
                fences.insert(first, SessionId(id.0 - 1));
            }
            first = first.max(SessionId(id.0.saturating_add(1)));
        }
        fences
    }

    /// Number of the newest fence.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Capabilities of older epochs are refused.
    pub fn epoch_min(&self) -> MdsEpoch {
        self.epoch_min
    }

    /// Fences a session: the fence's number.
    pub fn add(&mut self, session: SessionId) -> u64 {
        self.newest += 1;
        self.insert(session, session);
        if self.recent.len() == FENCES_PUSHED_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((self.newest, session));
        self.newest
    }

    /// Whether a session is refused.
    #[cfg(test)]
    pub fn refuses(&self, session: SessionId) -> bool {
        self.ranges.range(..=session).next_back().is_some_and(|(_, (last, _))| *last >= session)
    }

    /// What a daemon lacks that has confirmed every fence up to `applied`: at most one message of
    /// it.
    pub fn missing_after(&self, applied: u64) -> MissingFences {
        let from = (applied.saturating_add(1), SessionId(0));
        let mut missing = self.by_number.range(from..);
        let mut fence = self.newest;
        let ranges = missing.by_ref().take(FENCE_RANGES_MAX).map(|(number, first)| {
            fence = *number;
            SessionRange { first: *first, last: self.ranges[first].0 }
        });
        let ranges = ranges.collect();
        let more = missing.next().is_some();
        MissingFences { ranges, fence: if more { fence } else { self.newest }, more }
    }

    /// The fences that a daemon lacks, one by one; `None` when they are more than one message
    /// holds.
    pub fn pushable_after(&self, applied: u64) -> Option<Vec<SessionId>> {
        let whole =
            self.recent.front().is_some_and(|(oldest, _)| *oldest <= applied.saturating_add(1));
        let from = self.recent.partition_point(|(number, _)| *number <= applied);
        whole.then(|| self.recent.range(from..).map(|(_, session)| *session).collect())
    }

    /// Adds sessions under the newest number, merged with the ranges that they touch.
    fn insert(&mut self, mut first: SessionId, mut last: SessionId) {
        let touching = SessionId(last.0.saturating_add(1));
        while let Some((from, (to, number))) = self.ranges.range(..=touching).next_back() {
            let (from, to, number) = (*from, *to, *number);
            if to.0.saturating_add(1) < first.0 {
                break;
            }
            (first, last) = (first.min(from), last.max(to));
            self.ranges.remove(&from);
            self.by_number.remove(&(number, from));
        }
        self.ranges.insert(first, (last, self.newest));
        self.by_number.insert((self.newest, first));
        debug_assert_eq!(self.ranges.len(), self.by_number.len(), "2: ranges do not overlap");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, last: u64) -> SessionRange {
        SessionRange { first: SessionId(first), last: SessionId(last) }
    }

    fn fresh() -> Fences {
        Fences::new(MdsEpoch(2), SessionId(1), [])
    }

    #[test]
    fn a_daemon_gets_the_fences_that_it_has_not_confirmed() {
        let mut fences = fresh();
        let first = fences.add(SessionId(7));
        let second = fences.add(SessionId(9));
        assert!(first > 2 << 32 && second > first);
        assert_eq!(fences.missing_after(0).ranges, [range(7, 7), range(9, 9)]);
        assert_eq!(fences.missing_after(first).ranges, [range(9, 9)]);
        assert_eq!(
            fences.missing_after(second),
            MissingFences { ranges: Vec::new(), fence: second, more: false }
        );
        assert_eq!(fences.pushable_after(first), Some(vec![SessionId(9)]));
    }

    #[test]
    fn older_epochs_are_shut_out_from_the_start() {
        assert_eq!((fresh().newest(), fresh().epoch_min()), (2 << 32, MdsEpoch(2)));
    }

    #[test]
    fn a_start_fences_every_session_that_is_not_on_record() {
        let fences =
            Fences::new(MdsEpoch(2), SessionId(9), [SessionId(4), SessionId(8), SessionId(5)]);
        let refused: Vec<u64> = (0..12).filter(|id| fences.refuses(SessionId(*id))).collect();
        assert_eq!(refused, [1, 2, 3, 6, 7]);
        assert_eq!(fences.missing_after(0).ranges, [range(1, 3), range(6, 7)]);
    }

    #[test]
    fn no_fence_is_forgotten_and_neighbours_take_one_place() {
        let mut fences = fresh();
        // Session 1 lives on; a hundred thousand come and go.
        for id in 2..100_002 {
            fences.add(SessionId(id));
        }
        assert_eq!(fences.missing_after(0).ranges, [range(2, 100_001)]);
        assert!(!fences.refuses(SessionId(1)) && fences.refuses(SessionId(2)));
        assert_eq!(fences.pushable_after(2 << 32), None, "too many to be pushed");
        assert_eq!(fences.pushable_after(fences.newest() - 1).unwrap(), [SessionId(100_001)]);
    }

    #[test]
    fn more_ranges_than_a_message_holds_come_in_turn_and_all_come() {
        let mut fences = fresh();
        let ended = 3 * FENCE_RANGES_MAX as u64;
        // Every second session lives.
        for at in 0..ended {
            fences.add(SessionId(2 * at + 2));
        }
        let (mut applied, mut sent) = (0, Vec::new());
        loop {
            let MissingFences { ranges, fence, more } = fences.missing_after(applied);
            assert!(ranges.len() <= FENCE_RANGES_MAX && fence > applied);
            sent.extend(ranges);
            applied = fence;
            if !more {
                break;
            }
        }
        assert_eq!((applied, sent.len() as u64), (fences.newest(), ended));
    }
}
