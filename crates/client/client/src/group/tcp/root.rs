//! The first task: it receives the payload of each task, sends all payloads to each, and decides
//! which tasks are lost or late.
//!
//! ```text
//!   reader of task r   ──give──►  given[r]   } wakes the thread in `all_gather`
//!                      ──end───►  failed     } and notifies every task, once
//! ```
//!
//! Invariants:
//! 1. A reader takes the next frame of its task after the previous one was used: at most one is
//!    kept for each (I9).
//! 2. A thread that waits for `connections` holds no lock that the owner of `connections` waits
//!    for.
//! 3. A task that gave up takes part in no round. Each payload says how long its task waits; the
//!    root replies within that time, or fails the round.
//!
//! No assertion checks these. The slot of a task holds one payload, and `put` waits until it is
//! empty (1); locks do not record who waits (2); `gather` fails the round of a task that gave up
//! (3).

use std::{
    mem,
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use braid_types::Status;
use braid_wire::Secret;

use super::{
    ALL_PAYLOADS_BYTES_MAX, PAYLOAD_BYTES_MAX, ROOT_REPLY_TIMEOUT, check_payload,
    frame::{Direction, FrameKind},
    join::{JoinPhase, Joined},
    member::{WAIT_TIME_BYTES, decode_payload, encode_all, encode_failure},
    why,
};
use crate::{
    Error, Result,
    engine::semaphore::lock,
    fork,
    group::{concurrent_call, deadline, group_error, task_lost, tasks_late, used_after_fork},
};

/// How long, after the last task came, sending all payloads to a task may take. Shorter than the
/// time that tasks wait for the root's reply.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
/// The shortest time for it, if other tasks have used up the above.
const SEND_TIMEOUT_MIN: Duration = Duration::from_millis(50);
/// How long notifying all remaining tasks that the group has failed may take.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);
/// Stack size of a reader, which calls a socket and a hash.
const STACK_BYTES: usize = 256 << 10;

/// The first task.
pub(super) struct Root {
    shared: Arc<RootShared>,
    readers: Vec<JoinHandle<()>>,
    process: u64,
}

struct RootShared {
    /// Connections to the tasks, from task 1. Locked during a round.
    connections: Mutex<Vec<TaskConnection>>,
    state: Mutex<RoundState>,
    changed: Condvar,
}

struct TaskConnection {
    stream: TcpStream,
    to_member: Direction,
}

struct RoundState {
    /// From task 1.
    payloads: Vec<Option<TaskPayload>>,
    failed: Option<Error>,
    /// The tasks have been notified.
    notified: bool,
    /// The first task is being dropped.
    closing: bool,
}

/// The payload of a task.
struct TaskPayload {
    bytes: Vec<u8>,
    /// After this time, the task may have stopped waiting for the payloads of all.
    until: Instant,
}

impl Root {
    /// Returns when all tasks are there.
    pub(super) fn listen(
        listener: TcpListener,
        size: u32,
        secret: &Secret,
        time_max: Duration,
    ) -> Result<Self> {
        let mut joining = JoinPhase::new(size, secret);
        let joined = joining.run(&listener, deadline(time_max), time_max);
        let tasks: Vec<Option<Joined>> = joining.tasks.into_iter().skip(1).collect();
        let mut readers = Vec::new();
        let mut connections = Vec::new();
        for task in tasks.into_iter().flatten() {
            readers.push((task.stream.try_clone(), Direction::new(task.keys.to_root)));
            connections.push(TaskConnection {
                stream: task.stream,
                to_member: Direction::new(task.keys.to_member),
            });
        }
        let state = RoundState {
            payloads: connections.iter().map(|_| None).collect(),
            failed: None,
            notified: false,
            closing: false,
        };
        let (connections, state) = (Mutex::new(connections), Mutex::new(state));
        let shared = Arc::new(RootShared { connections, state, changed: Condvar::new() });
        let mut root = Self { shared, readers: Vec::new(), process: fork::mark() };
        let started = joined.and_then(|()| root.start(readers));
        started.map_err(|error| root.shared.fail(&mut lock(&root.shared.connections), error))?;
        Ok(root)
    }

    /// Starts the readers and notifies all tasks that all are there.
    fn start(&mut self, readers: Vec<(std::io::Result<TcpStream>, Direction)>) -> Result<()> {
        for (rank, (stream, from_member)) in (1..).zip(readers) {
            let failed = |error| {
                group_error(Error::new(
                    Status::Internal,
                    format!("task 0 cannot receive from task {rank}: {error}"),
                ))
            };
            let (stream, shared) = (stream.map_err(failed)?, Arc::clone(&self.shared));
            let named =
                thread::Builder::new().name(format!("braid-group-{rank}")).stack_size(STACK_BYTES);
            let reader =
                named.spawn(move || read(&shared, rank, &stream, from_member)).map_err(failed)?;
            self.readers.push(reader);
        }
        self.shared.send_all(
            &mut lock(&self.shared.connections),
            FrameKind::Joined,
            &[],
            Instant::now() + SEND_TIMEOUT,
        )
    }

    pub(super) fn all_gather(&self, mine: &[u8], time_max: Duration) -> Result<Vec<Vec<u8>>> {
        if fork::mark() != self.process {
            return Err(used_after_fork());
        }
        let mut connections = match self.shared.connections.try_lock() {
            Ok(connections) => connections,
            Err(TryLockError::Poisoned(connections)) => connections.into_inner(),
            // A reader that notifies the tasks of a loss holds it, too.
            Err(TryLockError::WouldBlock) => {
                return Err(lock(&self.shared.state)
                    .failed
                    .clone()
                    .unwrap_or_else(concurrent_call));
            }
        };
        self.shared
            .round(&mut connections, mine, time_max)
            .map_err(|error| self.shared.fail(&mut connections, error))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if fork::mark() != self.process {
            // Invariant 5 of the group. Dropping a handle would detach a thread that does not exist
            // here.
            mem::forget(mem::take(&mut self.readers));
            return;
        }
        lock(&self.shared.state).closing = true;
        self.shared.changed.notify_all();
        for connection in lock(&self.shared.connections).iter() {
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
        for reader in self.readers.drain(..) {
            // A panic of a reader has no consequence here.
            let _ = reader.join();
        }
    }
}

/// Receives the payloads of one task until the group ends.
fn read(shared: &RootShared, rank: u32, stream: &TcpStream, mut from_member: Direction) {
    let why = loop {
        match from_member.receive(stream, WAIT_TIME_BYTES + PAYLOAD_BYTES_MAX, None) {
            Ok((FrameKind::Give, body)) => match decode_payload(body) {
                Some((wait_time, bytes)) => {
                    let until = deadline(wait_time) + ROOT_REPLY_TIMEOUT - SEND_TIMEOUT;
                    if !shared.put(rank, TaskPayload { bytes, until }) {
                        return;
                    }
                }
                None => break "it sent an invalid payload".to_owned(),
            },
            Ok(_) => break "it sent an unexpected frame".to_owned(),
            Err(error) => break why(&error),
        }
    };
    {
        let mut state = lock(&shared.state);
        if state.closing || state.failed.is_some() {
            return;
        }
        state.failed = Some(task_lost(rank, &why));
        shared.changed.notify_all();
    }
    // Invariant 2: a round that holds the lock has been woken above.
    let mut connections = lock(&shared.connections);
    shared.fail(&mut connections, task_lost(rank, &why));
}

impl RootShared {
    /// Stores the payload of a task, after its previous one was used. Returns whether the group
    /// continues.
    fn put(&self, rank: u32, given: TaskPayload) -> bool {
        let (at, mut state) = (rank as usize - 1, lock(&self.state));
        loop {
            if state.closing || state.failed.is_some() {
                return false;
            }
            if state.payloads[at].is_none() {
                state.payloads[at] = Some(given);
                self.changed.notify_all();
                return true;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn round(
        &self,
        connections: &mut [TaskConnection],
        mine: &[u8],
        time_max: Duration,
    ) -> Result<Vec<Vec<u8>>> {
        check_payload(mine)?;
        let mut all = vec![mine.to_vec()];
        all.extend(self.gather(time_max)?);
        let bytes: usize = all.iter().map(Vec::len).sum();
        if bytes > ALL_PAYLOADS_BYTES_MAX {
            let why = format!(
                "all tasks together send {bytes} bytes; the limit is {ALL_PAYLOADS_BYTES_MAX}"
            );
            return Err(
                group_error(Error::new(Status::TooLarge, why)).with_hint("less in one round")
            );
        }
        let given = self.send_all(
            connections,
            FrameKind::All,
            &encode_all(&all),
            Instant::now() + SEND_TIMEOUT,
        );
        if let Err(lost) = given {
            // All other tasks have completed the round, and so has this one. The next round fails,
            // for all of them.
            self.fail(connections, lost);
        }
        Ok(all)
    }

    /// Waits for the payloads of the other tasks.
    fn gather(&self, time_max: Duration) -> Result<Vec<Vec<u8>>> {
        let (deadline, mut state) = (deadline(time_max), lock(&self.state));
        loop {
            if let Some(failed) = &state.failed {
                return Err(failed.clone());
            }
            if let Some(rank) = state.task_past_deadline() {
                return Err(task_lost(rank, "it stopped waiting for the others"));
            }
            if state.payloads.iter().all(Option::is_some) {
                let given = state
                    .payloads
                    .iter_mut()
                    .filter_map(Option::take)
                    .map(|given| given.bytes)
                    .collect();
                self.changed.notify_all();
                return Ok(given);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(tasks_late(&state.missing(), time_max));
            }
            state = self.wait(state, left);
        }
    }

    fn wait<'s>(
        &self,
        state: MutexGuard<'s, RoundState>,
        left: Duration,
    ) -> MutexGuard<'s, RoundState> {
        self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Sends to all tasks, even if some are lost meanwhile: no task receives less than another.
    /// Returns the first failure.
    fn send_all(
        &self,
        connections: &mut [TaskConnection],
        kind: FrameKind,
        body: &[u8],
        deadline: Instant,
    ) -> Result<()> {
        let mut outcome = Ok(());
        for (rank, connection) in (1..).zip(connections) {
            let by = deadline.max(Instant::now() + SEND_TIMEOUT_MIN);
            if let Err(error) = connection.to_member.send(&connection.stream, kind, body, Some(by))
            {
                outcome = outcome.and(Err(task_lost(rank, &why(&error))));
            }
        }
        outcome
    }

    /// The group has failed: notifies every task once. Returns the reason; the first one counts for
    /// all.
    fn fail(&self, connections: &mut [TaskConnection], error: Error) -> Error {
        let (first, was_notified) = {
            let mut state = lock(&self.state);
            let first = state.failed.get_or_insert(error).clone();
            (first, mem::replace(&mut state.notified, true))
        };
        self.changed.notify_all();
        if !was_notified {
            let (body, deadline) = (encode_failure(&first), Instant::now() + NOTIFY_TIMEOUT);
            for connection in connections {
                // A lost task need not be notified.
                let _ = connection.to_member.send(
                    &connection.stream,
                    FrameKind::Failed,
                    &body,
                    Some(deadline),
                );
                let _ = connection.stream.shutdown(Shutdown::Both);
            }
        }
        first
    }
}

impl RoundState {
    /// A task that has stopped waiting.
    fn task_past_deadline(&self) -> Option<u32> {
        let now = Instant::now();
        let has_gone =
            |given: &Option<TaskPayload>| given.as_ref().is_some_and(|given| given.until < now);
        (1..).zip(&self.payloads).find(|(_, given)| has_gone(given)).map(|(rank, _)| rank)
    }

    fn missing(&self) -> Vec<u32> {
        (1..)
            .zip(&self.payloads)
            .filter(|(_, given)| given.is_none())
            .map(|(rank, _)| rank)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A connection, and the task's end of it.
    fn connection(key: u8) -> (TaskConnection, TcpStream, Direction) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let key = Secret::from_bytes([key; 32]);
        let connection = TaskConnection { stream, to_member: Direction::new(key.clone()) };
        (connection, listener.accept().unwrap().0, Direction::new(key))
    }

    fn given(rank: u8, until: Instant) -> TaskPayload {
        TaskPayload { bytes: vec![rank], until }
    }

    fn shared(given: impl Iterator<Item = TaskPayload>) -> RootShared {
        let state = RoundState {
            payloads: given.map(Some).collect(),
            failed: None,
            notified: false,
            closing: false,
        };
        RootShared {
            connections: Mutex::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    #[test]
    fn a_task_that_gave_up_takes_part_in_no_round() {
        let shared =
            shared([given(1, Instant::now() + LONG), given(2, Instant::now())].into_iter());
        let error = shared.round(&mut [], &[0], LONG).unwrap_err();
        assert!(
            error.to_string().contains("task 2 is lost: it stopped waiting for the others"),
            "{error}"
        );
    }

    #[test]
    fn a_task_lost_while_payloads_are_sent_fails_only_the_next_round() {
        let (mut connections, mut ends) = (Vec::new(), Vec::new());
        for rank in 1..=3 {
            let (connection, stream, from_root) = connection(rank);
            connections.push(connection);
            ends.push((stream, from_root));
        }
        connections[0].stream.shutdown(Shutdown::Write).unwrap();
        let shared = shared((1..=3).map(|rank| given(rank, Instant::now() + LONG)));
        let all = shared.round(&mut connections, &[0], LONG).unwrap();
        assert_eq!(all, [[0], [1], [2], [3]]);
        for (stream, from_root) in &mut ends[1..] {
            let mut receive = || {
                from_root
                    .receive(stream, ALL_PAYLOADS_BYTES_MAX, Some(Instant::now() + LONG))
                    .unwrap()
            };
            assert_eq!(receive(), (FrameKind::All, encode_all(&all)));
            let (kind, why) = receive();
            assert!(
                kind == FrameKind::Failed
                    && String::from_utf8_lossy(&why).contains("task 1 is lost"),
                "{why:?}"
            );
        }
        let next = shared.round(&mut connections, &[0], LONG).unwrap_err();
        assert!(next.to_string().contains("task 1 is lost"), "{next}");
    }
}
