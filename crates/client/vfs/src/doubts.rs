//! Directories of which nothing is remembered for a while: this mount gave up changing an entry of theirs, and the server may yet
//! do it. A change of its own takes no lease from a session, so that nobody would tell.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use braid_client::FileIndex;
use braid_types::limits::TIMEOUT_SECONDS_DEFAULT;

/// How long after that: the server keeps an attempt waiting for less than a call may take (I8).
const DOUBT: Duration = Duration::from_secs(TIMEOUT_SECONDS_DEFAULT);
/// Directories at most (I9); where there are more, nothing is remembered of any.
const DOUBTS_MAX: usize = 4096;

/// Those directories.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    until: HashMap<FileIndex, Instant>,
    all_until: Option<Instant>,
}

impl Doubts {
    /// A change of a directory was given up now.
    pub(crate) fn begin(&mut self, directory: FileIndex, now: Instant) {
        let until = now + DOUBT;
        self.until.retain(|_, until| now < *until);
        if self.until.len() < DOUBTS_MAX {
            self.until.insert(directory, until);
        } else {
            self.all_until = Some(until);
        }
    }

    /// Whether nothing of a directory is to be remembered; `now` is asked for where that is not plain.
    pub(crate) fn has(&self, directory: FileIndex, now: impl Fn() -> Instant) -> bool {
        self.all_until.iter().chain(self.until.get(&directory)).any(|until| now() < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_in_doubt_for_the_time_of_a_call() {
        let (mut doubts, now) = (Doubts::default(), Instant::now());
        let has = |doubts: &Doubts, directory, at| doubts.has(FileIndex(directory), || at);
        assert!(!has(&doubts, 7, now));
        doubts.begin(FileIndex(7), now);
        assert!(has(&doubts, 7, now) && !has(&doubts, 8, now));
        assert!(!has(&doubts, 7, now + DOUBT));
        doubts.begin(FileIndex(7), now + DOUBT / 2);
        assert!(has(&doubts, 7, now + DOUBT), "the last of them counts");
    }

    #[test]
    fn where_too_many_are_in_doubt_all_are() {
        let (mut doubts, now) = (Doubts::default(), Instant::now());
        (0..=DOUBTS_MAX as u64).for_each(|directory| doubts.begin(FileIndex(directory), now));
        assert!(doubts.has(FileIndex(u64::MAX), || now) && doubts.until.len() == DOUBTS_MAX);
        doubts.begin(FileIndex(7), now + DOUBT);
        assert!(!doubts.has(FileIndex(u64::MAX), || now + DOUBT) && doubts.until.len() == 1);
    }
}
