//! Tasks that work on one file together: the processes of a parallel program, or threads of one
//! process.
//!
//! The only operation that a collective call needs from a program is an exchange of bytes among its
//! tasks. So any means of the program (MPI, threads, sockets) can implement a group. Two
//! implementations are here: [`ThreadGroup`] and [`TcpGroup`].

mod tcp;
mod threads;

use std::time::{Duration, Instant};

use braid_types::Status;

use crate::{Error, Result};

pub use tcp::{TcpGroup, fuzzing};
pub use threads::ThreadGroup;

/// The tasks of a parallel program, seen from one of them.
///
/// Every task calls the same methods in the same order. Ranks are `0..size`.
pub trait Group: Send + Sync {
    /// The rank of this task.
    fn rank(&self) -> u32;

    /// The number of tasks, at least 1.
    fn size(&self) -> u32;

    /// Passes `mine` to all tasks. Returns the bytes of each, in the order of ranks. Returns in no
    /// task before every task has called it.
    ///
    /// # Errors
    /// A task was lost, or did not come within `time_max`. After that, every later call fails, too.
    fn all_gather(&self, mine: &[u8], time_max: Duration) -> Result<Vec<Vec<u8>>>;
}

/// No group waits longer than this, whatever the caller passes (I8): longer than any program runs,
/// and far below the limit of the clock.
const WAIT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// The number of missing tasks that an error lists.
const NAMED_MAX: usize = 3;

/// The end of a wait of `time_max` that begins now.
fn deadline(time_max: Duration) -> Instant {
    Instant::now() + time_max.min(WAIT_MAX)
}

/// Names the operation, for all errors of a group.
fn group_error(error: Error) -> Error {
    error.during("meet", "the other tasks")
}

/// The error for a lost task.
fn task_lost(rank: u32, why: &str) -> Error {
    group_error(
        Error::new(Status::ConnectionLost, format!("task {rank} is lost: {why}"))
            .with_hint("start the program again"),
    )
}

/// The error for tasks that did not come in time.
fn tasks_late(missing: &[u32], time_max: Duration) -> Error {
    let named: Vec<String> =
        missing.iter().take(NAMED_MAX).map(|rank| format!("task {rank}")).collect();
    let more = match missing.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let why =
        format!("{}{more} did not come within {:.1} s", named.join(", "), time_max.as_secs_f64());
    group_error(
        Error::new(Status::Unreachable, why).with_hint("check whether that task still runs"),
    )
}

/// The error for two concurrent calls of one task: their order would differ between tasks.
fn concurrent_call() -> Error {
    group_error(
        Error::new(Status::Busy, "another thread of this task is in a call of the group")
            .with_hint("one call after the other"),
    )
}

/// The error in a child after `fork`, which is not a task.
fn used_after_fork() -> Error {
    let why = "the group was made before fork and this is the child: \
               its connections belong to the parent";
    group_error(Error::new(Status::NoSession, why).with_hint("join a new group after fork"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_some_of_the_missing_tasks() {
        let error = tasks_late(&[1, 2, 5, 7, 9], Duration::from_millis(1500));
        let shown = "meet the other tasks: task 1, task 2, task 5 and 2 more \
                     did not come within 1.5 s; \
                     try: check whether that task still runs";
        assert_eq!(error.to_string(), shown);
        assert_eq!(error.status(), Status::Unreachable);
    }

    #[test]
    fn a_wait_without_end_has_one() {
        assert!(deadline(Duration::MAX) > Instant::now());
    }
}
