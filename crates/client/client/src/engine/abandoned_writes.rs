//! Connections to one daemon that were dropped while a call that changes objects had no reply.
//!
//! ```text
//!   write ── connection A, no reply ──> A is listed here     its bytes may still wait in a socket
//!   retry or next write ── connection B: Abandon(A), answered ── then the write
//! ```
//!
//! Invariants:
//! 1. A connection is added before its call ends or is retried.
//! 2. While a connection is listed, no call that changes objects is sent to its daemon, on any
//!    connection or address. The daemon first abandons the listed ones, so that no earlier write
//!    overwrites a later one.
//! 3. The list is at most as long as the number of connections to the daemon, since each carries
//!    one batch.
//! 4. Connections of an ended session are removed: the session's fence refuses what is left of
//!    them.
//!
//! `add` asserts that a connection is listed once (3), and `in_session` removes those of other
//! sessions (4). Invariants 1 and 2 are rules for callers: the list does not see calls.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use braid_types::{ConnectionId, SessionId, limits::ABANDONED_CONNECTIONS_MAX};

use super::semaphore::lock;

#[derive(Debug, Default)]
pub(crate) struct AbandonedWrites {
    /// Whether the list is not empty.
    has_any: AtomicBool,
    connections: Mutex<Vec<(SessionId, ConnectionId)>>,
}

impl AbandonedWrites {
    /// The connection was dropped.
    pub(crate) fn add(&self, session: SessionId, connection: ConnectionId) {
        let mut connections = lock(&self.connections);
        debug_assert!(
            !connections.contains(&(session, connection)),
            "3: a connection is listed once, since it is dropped when it is added"
        );
        connections.push((session, connection));
        self.has_any.store(true, Ordering::Release);
    }

    /// Whether the list is empty. Takes no lock, so that the usual write pays nothing.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_any.load(Ordering::Acquire)
    }

    /// The listed connections of this session, at most as many as fit one message.
    pub(crate) fn in_session(&self, session: SessionId) -> Vec<ConnectionId> {
        let mut connections = lock(&self.connections);
        connections.retain(|(of, _)| *of == session);
        self.has_any.store(!connections.is_empty(), Ordering::Release);
        connections
            .iter()
            .map(|(_, connection)| *connection)
            .take(ABANDONED_CONNECTIONS_MAX)
            .collect()
    }

    /// The daemon has abandoned these.
    pub(crate) fn remove(&self, abandoned: &[ConnectionId]) {
        let mut connections = lock(&self.connections);
        connections.retain(|(_, connection)| !abandoned.contains(connection));
        self.has_any.store(!connections.is_empty(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(number: u8) -> ConnectionId {
        ConnectionId([number; 16])
    }

    #[test]
    fn a_connection_is_listed_until_the_daemon_has_abandoned_it() {
        let abandoned = AbandonedWrites::default();
        assert_eq!(abandoned.in_session(SessionId(1)), []);
        abandoned.add(SessionId(1), id(1));
        abandoned.add(SessionId(1), id(2));
        assert_eq!(
            abandoned.in_session(SessionId(1)),
            [id(1), id(2)],
            "asked for, not taken: the answer may not come"
        );
        abandoned.remove(&[id(1)]);
        assert_eq!(abandoned.in_session(SessionId(1)), [id(2)]);
        abandoned.remove(&[id(2)]);
        assert_eq!(abandoned.in_session(SessionId(1)), []);
    }

    #[test]
    fn connections_of_an_ended_session_are_left_to_its_fence() {
        let abandoned = AbandonedWrites::default();
        abandoned.add(SessionId(1), id(1));
        abandoned.add(SessionId(2), id(2));
        assert_eq!(abandoned.in_session(SessionId(2)), [id(2)]);
    }

    #[test]
    fn more_connections_than_fit_one_message_are_abandoned_in_parts() {
        let abandoned = AbandonedWrites::default();
        let number = |n: usize| ConnectionId(std::array::from_fn(|at| (n >> (8 * (at % 2))) as u8));
        (0..=ABANDONED_CONNECTIONS_MAX).for_each(|n| abandoned.add(SessionId(1), number(n)));
        let first = abandoned.in_session(SessionId(1));
        assert_eq!(first.len(), ABANDONED_CONNECTIONS_MAX);
        abandoned.remove(&first);
        assert_eq!(abandoned.in_session(SessionId(1)).len(), 1);
    }
}
