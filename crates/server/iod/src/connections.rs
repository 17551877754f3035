//! The connections for which something may still be carried out, found by their jobs and by id.
//!
//! ```text
//!   connection.rs ── Arc<ConnectionEntry> ──┬── ReadJob, WriteJob, BlockingWork
//!                                           │      while one lives, slices may run
//!                                           └── ConnectionTable: id ─> Weak<ConnectionEntry>
//!                                                  Abandon finds it here
//! ```
//!
//! Invariants:
//! 1. A connection is in the table before its peer can know the connection's id, and until nothing
//!    of it is left that could run. An id that is not in the table is one of an ended connection.
//! 2. Reads and writes never touch the table: only the begin, end or abandonment of a connection
//!    does. It is as long as there are connections and unfinished works, both bounded (I9).
//!
//! The drop of an entry asserts that nothing of it runs (1), and `end_slice` the count. The
//! callers decide when the table is used (2).

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
};

use braid_types::{ConnectionId, Failure, SessionId, Status};

/// One connection, as its slices present it to the admission check
/// ([`SliceAdmission`](crate::slice_admission::SliceAdmission)).
#[derive(Debug)]
pub(crate) struct ConnectionEntry {
    id: ConnectionId,
    /// `None` for the metadata server and for peers that may not touch data.
    session: Option<SessionId>,
    /// See [`SliceAdmission::abandon`](crate::slice_admission::SliceAdmission::abandon).
    abandoned: AtomicBool,
    /// Slices that run for it.
    running_slices: AtomicU32,
    table: Arc<Table>,
}

type Table = Mutex<HashMap<ConnectionId, Weak<ConnectionEntry>>>;

/// The table of connections. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionTable(Arc<Table>);

impl ConnectionTable {
    /// Adds a new connection.
    pub(crate) fn add(&self, id: ConnectionId, session: Option<SessionId>) -> Arc<ConnectionEntry> {
        let caller = Arc::new(ConnectionEntry {
            id,
            session,
            abandoned: AtomicBool::new(false),
            running_slices: AtomicU32::new(0),
            table: self.0.clone(),
        });
        lock(&self.0).insert(id, Arc::downgrade(&caller));
        caller
    }

    /// Those of `ids` that have not ended, if all belong to this session.
    ///
    /// # Errors
    /// [`Status::NotPermitted`].
    pub(crate) fn find(
        &self,
        ids: &[ConnectionId],
        session: SessionId,
    ) -> Result<Vec<Arc<ConnectionEntry>>, Failure> {
        // Bound before any of them is dropped: the last reference takes the table's lock.
        let found: Vec<Arc<ConnectionEntry>> = {
            let table = lock(&self.0);
            ids.iter().filter_map(|id| table.get(id).and_then(Weak::upgrade)).collect()
        };
        match found.iter().find(|caller| caller.session != Some(session)) {
            Some(other) => Err(Failure::new(
                Status::NotPermitted,
                format!("connection {} is of another session", other.id),
            )),
            None => Ok(found),
        }
    }

    /// All connections that have not ended.
    pub(crate) fn all(&self) -> Vec<Arc<ConnectionEntry>> {
        lock(&self.0).values().filter_map(Weak::upgrade).collect()
    }

    /// How many connections have not ended.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).len()
    }
}

impl ConnectionEntry {
    pub(crate) fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Whether it was abandoned. Exact while a slice is counted as running; a hint otherwise.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(SeqCst)
    }

    /// For the admission check only, which then waits until no slice of it runs.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, SeqCst);
    }

    /// For the admission check only: counts a slice as running, before the rules are read.
    pub(crate) fn begin_slice(&self) {
        self.running_slices.fetch_add(1, SeqCst);
    }

    /// For the admission check only: the slice has ended.
    pub(crate) fn end_slice(&self) {
        let before = self.running_slices.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a slice ends once");
    }

    /// Whether a slice runs, or is about to.
    pub(crate) fn has_running_slice(&self) -> bool {
        self.running_slices.load(SeqCst) > 0
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        debug_assert_eq!(
            *self.running_slices.get_mut(),
            0,
            "1: a running slice holds its connection"
        );
        lock(&self.table).remove(&self.id);
    }
}

fn lock(table: &Table) -> MutexGuard<'_, HashMap<ConnectionId, Weak<ConnectionEntry>>> {
    table.lock().unwrap_or_else(braid_types::poisoned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_found_until_its_last_work_is_gone() {
        let callers = ConnectionTable::default();
        let connection = callers.add(ConnectionId([1; 16]), Some(SessionId(7)));
        let work = connection.clone();
        drop(connection);
        assert_eq!(
            callers.find(&[ConnectionId([1; 16])], SessionId(7)).unwrap().len(),
            1,
            "its work may still run"
        );
        drop(work);
        assert_eq!(callers.find(&[ConnectionId([1; 16])], SessionId(7)).unwrap().len(), 0);
        assert_eq!(callers.len(), 0, "ended connections are removed");
    }

    #[test]
    fn a_connection_of_another_session_is_not_given_out() {
        let callers = ConnectionTable::default();
        let _other = callers.add(ConnectionId([1; 16]), Some(SessionId(7)));
        let _mds = callers.add(ConnectionId([2; 16]), None);
        for id in [[1; 16], [2; 16]] {
            let refused = callers.find(&[ConnectionId(id)], SessionId(8)).unwrap_err();
            assert_eq!(refused.status, Status::NotPermitted);
        }
    }
}
