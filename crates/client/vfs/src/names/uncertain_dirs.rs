//! Directories of which nothing is cached for a while: a change of an entry by this mount was given
//! up, and the server may still make it. A change by this session recalls no lease from it, so
//! nothing would invalidate the cache.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use braid_client::FileIndex;
use braid_types::limits::TIMEOUT_SECONDS_DEFAULT;

/// How long after the failure. The server holds a call back for less than a call may take (I8).
const DOUBT: Duration = Duration::from_secs(TIMEOUT_SECONDS_DEFAULT);
/// Uncertain directories at most (I9). Where there are more, nothing is cached of any directory.
const DOUBTS_MAX: usize = 4096;

/// The uncertain directories.
#[derive(Debug, Default)]
pub(crate) struct UncertainDirs {
    until: HashMap<FileIndex, Instant>,
    all_until: Option<Instant>,
}

impl UncertainDirs {
    /// A change of a directory was given up now.
    pub(crate) fn add(&mut self, directory: FileIndex, now: Instant) {
        let until = now + DOUBT;
        self.until.retain(|_, until| now < *until);
        if self.until.len() < DOUBTS_MAX {
            self.until.insert(directory, until);
        } else {
            self.all_until = Some(until);
        }
    }

    /// Whether nothing of a directory is to be cached. `now` is called only where the time matters.
    pub(crate) fn contains(&self, directory: FileIndex, now: impl Fn() -> Instant) -> bool {
        self.all_until.iter().chain(self.until.get(&directory)).any(|until| now() < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_uncertain_for_the_time_of_a_call() {
        let (mut doubts, now) = (UncertainDirs::default(), Instant::now());
        let has =
            |doubts: &UncertainDirs, directory, at| doubts.contains(FileIndex(directory), || at);
        assert!(!has(&doubts, 7, now));
        doubts.add(FileIndex(7), now);
        assert!(has(&doubts, 7, now) && !has(&doubts, 8, now));
        assert!(!has(&doubts, 7, now + DOUBT));
        doubts.add(FileIndex(7), now + DOUBT / 2);
        assert!(has(&doubts, 7, now + DOUBT), "the last failure counts");
    }

    #[test]
    fn where_too_many_are_uncertain_all_are() {
        let (mut doubts, now) = (UncertainDirs::default(), Instant::now());
        (0..=DOUBTS_MAX as u64).for_each(|directory| doubts.add(FileIndex(directory), now));
        assert!(doubts.contains(FileIndex(u64::MAX), || now) && doubts.until.len() == DOUBTS_MAX);
        doubts.add(FileIndex(7), now + DOUBT);
        assert!(!doubts.contains(FileIndex(u64::MAX), || now + DOUBT) && doubts.until.len() == 1);
    }
}
