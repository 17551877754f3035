//! Tasks that are threads of one process.
//!
//! ```text
//!   round r     given [ a | . | c ]       two of three came; the last to come closes the round
//!   closed      (r, [a, b, c])            each task takes it before it comes to round r + 1
//! ```
//!
//! Invariants:
//! 1. A round is closed by the last task that comes to it, or never. So its outcome is the same for
//!    all tasks, whenever they wake up.
//! 2. No task comes to round r + 1 before it has left r. So the result of r still exists for a task
//!    that wakes up late.
//! 3. Once `failed` is set, no round is closed.
//!
//! `close` asserts 1 and 3, and `leave` asserts 2.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use super::{Group, concurrent_call, deadline, task_lost, tasks_late};
use crate::{Error, Result, engine::semaphore::lock};

/// A task that is a thread. When it is dropped, it is lost for the others: so a thread that panics
/// does not leave the others waiting.
///
/// ```
/// use std::{thread, time::Duration};
/// use braid_client::{Group, ThreadGroup};
/// let tasks = ThreadGroup::of(3).into_iter().map(|task| {
///     thread::spawn(move || task.all_gather(&[task.rank() as u8], Duration::from_secs(30)))
/// });
/// for task in tasks.collect::<Vec<_>>() {
///     assert_eq!(task.join().unwrap()?, [[0], [1], [2]]);
/// }
/// # Ok::<(), braid_client::Error>(())
/// ```
pub struct ThreadGroup {
    rank: u32,
    barrier: Arc<ThreadBarrier>,
}

struct ThreadBarrier {
    size: u32,
    state: Mutex<RoundState>,
    changed: Condvar,
}

struct RoundState {
    /// The current round.
    round: u64,
    payloads: Vec<Option<Vec<u8>>>,
    arrived: u32,
    /// The result of the previous round.
    closed: Arc<[Vec<u8>]>,
    /// Tasks that have not left their round.
    inside: Vec<bool>,
    failed: Option<Error>,
}

impl ThreadGroup {
    /// The tasks of a group of `size`, in the order of ranks: one for each thread.
    pub fn of(size: u32) -> Vec<Self> {
        let state = RoundState {
            round: 0,
            payloads: vec![None; size as usize],
            arrived: 0,
            closed: Arc::new([]),
            inside: vec![false; size as usize],
            failed: None,
        };
        let barrier =
            Arc::new(ThreadBarrier { size, state: Mutex::new(state), changed: Condvar::new() });
        (0..size).map(|rank| Self { rank, barrier: Arc::clone(&barrier) }).collect()
    }

    /// Comes to the current round. Returns its number.
    fn arrive(&self, state: &mut RoundState, mine: &[u8]) -> Result<u64> {
        let at = self.rank as usize;
        if state.inside[at] {
            return Err(concurrent_call());
        }
        if let Some(failed) = &state.failed {
            return Err(failed.clone());
        }
        let round = state.round;
        state.inside[at] = true;
        state.payloads[at] = Some(mine.to_vec());
        state.arrived += 1;
        if state.arrived == self.barrier.size {
            state.close();
            self.barrier.changed.notify_all();
        }
        Ok(round)
    }

    /// Waits until `round` is closed or the group has failed.
    fn leave<'s>(
        &'s self,
        mut state: MutexGuard<'s, RoundState>,
        round: u64,
        time_max: Duration,
    ) -> Result<Arc<[Vec<u8>]>> {
        let deadline = deadline(time_max);
        loop {
            debug_assert!(state.round <= round + 1, "2: this task has not left its round");
            let left = deadline.saturating_duration_since(Instant::now());
            if state.round == round && state.failed.is_none() && left.is_zero() {
                state.failed = Some(tasks_late(&state.missing(), time_max));
                self.barrier.changed.notify_all();
            }
            // Invariant 1: a closed round counts before a failure.
            let outcome = match &state.failed {
                _ if state.round > round => Some(Ok(Arc::clone(&state.closed))),
                Some(failed) => Some(Err(failed.clone())),
                None => None,
            };
            if let Some(outcome) = outcome {
                state.inside[self.rank as usize] = false;
                return outcome;
            }
            let woken = self.barrier.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }
}

impl RoundState {
    fn close(&mut self) {
        debug_assert!(self.payloads.iter().all(Option::is_some), "1: a task has not come");
        debug_assert!(self.failed.is_none(), "3: a round of a failed group is closed");
        self.closed =
            self.payloads.iter_mut().map(|given| given.take().unwrap_or_default()).collect();
        (self.arrived, self.round) = (0, self.round + 1);
    }

    fn missing(&self) -> Vec<u32> {
        (0..)
            .zip(&self.payloads)
            .filter(|(_, given)| given.is_none())
            .map(|(rank, _)| rank)
            .collect()
    }
}

impl Group for ThreadGroup {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.barrier.size
    }

    fn all_gather(&self, mine: &[u8], time_max: Duration) -> Result<Vec<Vec<u8>>> {
        let mut state = lock(&self.barrier.state);
        let round = self.arrive(&mut state, mine)?;
        Ok(self.leave(state, round, time_max)?.to_vec())
    }
}

impl Drop for ThreadGroup {
    fn drop(&mut self) {
        let mut state = lock(&self.barrier.state);
        state.failed.get_or_insert_with(|| task_lost(self.rank, "its thread dropped the group"));
        self.barrier.changed.notify_all();
    }
}

impl fmt::Debug for ThreadGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadGroup")
            .field("rank", &self.rank)
            .field("size", &self.barrier.size)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use braid_types::Status;

    use super::*;

    #[test]
    fn a_second_thread_of_a_task_is_refused_without_harm() {
        const LONG: Duration = Duration::from_secs(60);
        let tasks = ThreadGroup::of(2);
        thread::scope(|scope| {
            let first = scope.spawn(|| tasks[0].all_gather(b"a", LONG));
            while !lock(&tasks[0].barrier.state).inside[0] {
                thread::yield_now();
            }
            assert_eq!(tasks[0].all_gather(b"x", LONG).unwrap_err().status(), Status::Busy);
            assert_eq!(tasks[1].all_gather(b"b", LONG).unwrap(), [b"a", b"b"]);
            assert_eq!(first.join().unwrap().unwrap(), [b"a", b"b"]);
        });
    }
}
