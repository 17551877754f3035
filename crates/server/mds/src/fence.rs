//! Fences: which sessions I/O daemons must refuse from now on (I4).
//!
//! Each has a number, `server epoch << 32 | counter`, so that numbers rise over restarts without being
//! stored. Fence 0 of an epoch is the epoch itself: a daemon that confirmed it refuses capabilities of older ones.
//!
//! A restart forgets the list, and may: no size mark of a session that was not reclaimed ends before fence 0 holds on
//! every daemon, and that shuts out what any session of before the restart could still write.

use braid_types::{MdsEpoch, SessionId};

/// Fences of one epoch that are told to a daemon that registers. At this many the list no longer fits a
/// message; the oldest, which every daemon confirmed long ago, is forgotten.
pub const FENCES_MAX: usize = 32_768;

/// The fences of this epoch.
#[derive(Debug)]
pub struct Fences {
    newest: u64,
    epoch_min: MdsEpoch,
    list: std::collections::VecDeque<(u64, SessionId)>,
}

impl Fences {
    /// Those of a server that has just started.
    pub fn new(epoch: MdsEpoch) -> Self {
        Self { newest: epoch.0 << 32, epoch_min: epoch, list: std::collections::VecDeque::new() }
    }

    /// Number of the newest fence.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Capabilities of older epochs are refused.
    pub fn epoch_min(&self) -> MdsEpoch {
        self.epoch_min
    }

    /// Fences a session; the fence's number.
    pub fn add(&mut self, session: SessionId) -> u64 {
        self.newest += 1;
        if self.list.len() == FENCES_MAX {
            self.list.pop_front();
        }
        self.list.push_back((self.newest, session));
        self.newest
    }

    /// The sessions that a daemon has not confirmed.
    pub fn after(&self, applied: u64) -> Vec<SessionId> {
        let from = self.list.partition_point(|(number, _)| *number <= applied);
        self.list.range(from..).map(|(_, session)| *session).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_told_what_it_has_not_confirmed() {
        let mut fences = Fences::new(MdsEpoch(2));
        let first = fences.add(SessionId(7));
        let second = fences.add(SessionId(8));
        assert!(first > 2 << 32 && second > first);
        assert_eq!(fences.after(0), [SessionId(7), SessionId(8)]);
        assert_eq!(fences.after(first), [SessionId(8)]);
        assert_eq!(fences.after(second), []);
    }

    #[test]
    fn older_epochs_are_shut_out_from_the_start() {
        let fences = Fences::new(MdsEpoch(2));
        assert_eq!((fences.newest(), fences.epoch_min()), (2 << 32, MdsEpoch(2)));
    }
}
