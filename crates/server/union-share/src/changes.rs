//! Change counters (RFC 8881 5.8.1.4), which local file systems do not show to programs.
//!
//! ```text
//!   counter = ctime in nanoseconds, and at least 1 more than before if
//!             the file was changed through this share, or its ctime went back
//! ```
//!
//! The ctime alone is not enough: two changes within one tick of the kernel's clock (up to 4 ms)
//! have the same one. From Linux 6.13 on, local file systems give a new ctime to each change that
//! follows a look, so changes by other programs are seen, too. Before, such a change is seen with
//! the next one, unless more than a tick lies between it and the look.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use braid_share::FileIndex;
use braid_union::Time;

/// Files whose counters are remembered. When there are more, all are dropped: the counter of an
/// unchanged file may then be a few nanoseconds lower than before, until its next change.
const FILES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Changes {
    files: Mutex<HashMap<FileIndex, Counter>>,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    ctime: i128,
    counter: u64,
    /// Changed through this share since the last look.
    changed: bool,
}

impl Changes {
    /// The counter of a file with this ctime.
    pub(crate) fn counter(&self, file: FileIndex, ctime: Time) -> u64 {
        let ctime = i128::from(ctime.seconds) * 1_000_000_000 + i128::from(ctime.nanoseconds);
        let of_time = u64::try_from(ctime).unwrap_or(0);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= FILES_MAX && !files.contains_key(&file) {
            files.clear();
        }
        let new = Counter { ctime, counter: of_time, changed: false };
        let known = files.entry(file).or_insert(new);
        if known.changed || known.ctime != ctime {
            let counter = (known.counter + 1).max(of_time);
            *known = Counter { ctime, counter, changed: false };
        }
        known.counter
    }

    /// A file was changed through this share: its counter rises, whatever its ctime is.
    pub(crate) fn changed(&self, file: FileIndex) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = files.get_mut(&file) {
            known.changed = true;
        }
    }

    /// A file is gone, unless it is still open.
    pub(crate) fn forget_unless(&self, file: FileIndex, open: bool) {
        if open {
            return;
        }
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileIndex = FileIndex(5);

    fn at(nanoseconds: u32) -> Time {
        Time { seconds: 1_700_000_000, nanoseconds }
    }

    #[test]
    fn the_counter_rises_with_each_change_also_within_one_tick() {
        let changes = Changes::default();
        let first = changes.counter(FILE, at(10));
        assert_eq!(first, 1_700_000_000_000_000_010);
        assert_eq!(changes.counter(FILE, at(10)), first, "nothing was changed");
        changes.changed(FILE);
        let second = changes.counter(FILE, at(10));
        assert!(second > first);
        assert_eq!(changes.counter(FILE, at(10)), second);
        // A direct change, and one after the clock was set back.
        let third = changes.counter(FILE, at(11));
        assert!(third > second);
        let fourth = changes.counter(FILE, at(5));
        assert!(fourth > third);
        assert!(changes.counter(FILE, at(500)) > fourth);
    }

    #[test]
    fn times_before_1970_are_no_error() {
        let changes = Changes::default();
        let before = changes.counter(FILE, Time { seconds: -5, nanoseconds: 0 });
        assert!(changes.counter(FILE, Time { seconds: -4, nanoseconds: 0 }) > before);
    }
}
