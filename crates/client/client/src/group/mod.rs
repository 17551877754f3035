//! Tasks that work on one file together: a parallel program's processes, or the threads of one.
//!
//! All that a collective call needs of a program is one exchange of bytes among its tasks, so that any means that a program has
//! (MPI, threads, sockets) makes a group.

use std::time::Duration;

use crate::Result;

/// The tasks of a parallel program, seen from one of them.
///
/// Every task calls the same methods in the same order. Ranks are `0..size`.
pub trait Group: Send + Sync {
    /// Which task this is.
    fn rank(&self) -> u32;

    /// How many there are; at least 1.
    fn size(&self) -> u32;

    /// Gives `mine` to all tasks; returns what each gave, in the order of ranks. Returns nowhere before every task has called it.
    ///
    /// # Errors
    /// A task was lost, or did not come within `time_max`: then no later call succeeds either.
    fn all_gather(&self, mine: &[u8], time_max: Duration) -> Result<Vec<Vec<u8>>>;
}
