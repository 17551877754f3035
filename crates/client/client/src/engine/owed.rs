//! Connections to one daemon that were given up with a call on them that changes objects, and that has no answer.
//!
//! ```text
//!   write ── connection A, no answer ──> A is owed      what was sent on A may still lie in a socket
//!   write (repeated, or the program's next) ── connection B: Abandon(A), answered ── then the write
//! ```
//!
//! Invariants: (1) a connection is owed before its call ends or is repeated; (2) while one is owed, no call that
//! changes objects goes to its daemon, over whichever connection and address: the daemon abandons what is owed
//! first, so that no earlier write lands on a later one; (3) it is as long as there are connections to the daemon at
//! the most, since each of them carries one batch; (4) those of a session that ended are not owed: its fence
//! refuses what is left of them.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering},
};

use braid_types::{ConnectionId, SessionId, limits::ABANDONED_CONNECTIONS_MAX};

use super::gate::lock;

#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// Whether there are any.
    some: AtomicBool,
    connections: Mutex<Vec<(SessionId, ConnectionId)>>,
}

impl Owed {
    /// The connection was given up.
    pub(crate) fn add(&self, session: SessionId, connection: ConnectionId) {
        let mut connections = lock(&self.connections);
        connections.push((session, connection));
        self.some.store(true, Ordering::Release);
    }

    /// Whether nothing is owed: without a lock, so that a write that owes nothing pays nothing.
    pub(crate) fn is_empty(&self) -> bool {
        !self.some.load(Ordering::Acquire)
    }

    /// What is owed in this session, as much as one message takes.
    pub(crate) fn of(&self, session: SessionId) -> Vec<ConnectionId> {
        let mut connections = lock(&self.connections);
        connections.retain(|(of, _)| *of == session);
        self.some.store(!connections.is_empty(), Ordering::Release);
        connections
            .iter()
            .map(|(_, connection)| *connection)
            .take(ABANDONED_CONNECTIONS_MAX)
            .collect()
    }

    /// The daemon has abandoned these.
    pub(crate) fn settle(&self, abandoned: &[ConnectionId]) {
        let mut connections = lock(&self.connections);
        connections.retain(|(_, connection)| !abandoned.contains(connection));
        self.some.store(!connections.is_empty(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn id(number: u8) -> ConnectionId {
        ConnectionId([number; 16])
    }

    #[test]
    fn what_is_owed_stays_owed_until_the_daemon_has_abandoned_it() {
        let owed = Owed::default();
        assert_eq!(owed.of(SessionId(1)), []);
        owed.add(SessionId(1), id(1));
        owed.add(SessionId(1), id(2));
        assert_eq!(
            owed.of(SessionId(1)),
            [id(1), id(2)],
            "asked for, not taken: the answer may not come"
        );
        owed.settle(&[id(1)]);
        assert_eq!(owed.of(SessionId(1)), [id(2)]);
        owed.settle(&[id(2)]);
        assert_eq!(owed.of(SessionId(1)), []);
    }

    #[test]
    fn connections_of_an_ended_session_are_left_to_its_fence() {
        let owed = Owed::default();
        owed.add(SessionId(1), id(1));
        owed.add(SessionId(2), id(2));
        assert_eq!(owed.of(SessionId(2)), [id(2)]);
    }

    #[test]
    fn more_than_a_message_takes_is_owed_in_turns() {
        let owed = Owed::default();
        let number = |n: usize| ConnectionId(std::array::from_fn(|at| (n >> (8 * (at % 2))) as u8));
        (0..=ABANDONED_CONNECTIONS_MAX).for_each(|n| owed.add(SessionId(1), number(n)));
        let first = owed.of(SessionId(1));
        assert_eq!(first.len(), ABANDONED_CONNECTIONS_MAX);
        owed.settle(&first);
        assert_eq!(owed.of(SessionId(1)).len(), 1);
    }
}
