//! Sessions of protocol clients, their opens and their locks. All end with this process.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use braid_share::{
    FileIndex, SessionId, Status, Verifier,
    tables::{LockTable, OpenTable, Outcome},
};
use braid_union::{OpenFile, Union};
use tokio::sync::Notify;

/// Sessions of one start at most, so that two starts never give the same number.
const SESSION_BITS: u32 = 24;

/// An open file on its branch. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct BranchFile {
    pub(crate) union: Arc<Union>,
    pub(crate) file: Arc<OpenFile>,
}

impl Drop for BranchFile {
    fn drop(&mut self) {
        self.union.close(&self.file);
    }
}

#[derive(Debug)]
pub(crate) struct Sessions {
    live: HashSet<SessionId>,
    next: u64,
    start: u64,
    pub(crate) opens: OpenTable,
    /// By the number of the open.
    pub(crate) branch_files: HashMap<u64, Arc<BranchFile>>,
    pub(crate) locks: LockTable,
    /// Notified when a session ends.
    pub(crate) ended: Arc<Notify>,
    /// Flushes that failed: bytes that were acknowledged may be lost.
    losses: u64,
}

impl Sessions {
    pub(crate) fn new(start: u64) -> Self {
        Self {
            live: HashSet::new(),
            next: start << SESSION_BITS,
            start,
            opens: OpenTable::default(),
            branch_files: HashMap::new(),
            locks: LockTable::default(),
            ended: Arc::default(),
            losses: 0,
        }
    }

    pub(crate) fn begin(&mut self) -> SessionId {
        self.next += 1;
        let session = SessionId(self.next);
        self.live.insert(session);
        session
    }

    /// # Errors
    /// `NoSession`: the session has ended.
    pub(crate) fn check(&self, session: SessionId) -> Outcome<()> {
        if self.live.contains(&session) { Ok(()) } else { Err(Status::NoSession) }
    }

    /// Ends a session. The caller closes its files, without the lock of the sessions.
    pub(crate) fn end(&mut self, session: SessionId) -> (Vec<FileIndex>, Vec<Arc<BranchFile>>) {
        if !self.live.remove(&session) {
            return Default::default();
        }
        self.locks.end_session(session);
        self.ended.notify_waiters();
        let files = self.opens.end_session(session);
        let closed: Vec<u64> =
            self.branch_files.keys().filter(|id| self.opens.get(**id).is_err()).copied().collect();
        let closed = closed.iter().filter_map(|id| self.branch_files.remove(id)).collect();
        (files, closed)
    }

    /// Bytes that were acknowledged may be lost.
    pub(crate) fn lost(&mut self) {
        self.losses += 1;
    }

    pub(crate) fn verifier(&self) -> Verifier {
        Verifier((self.start << SESSION_BITS | self.losses).to_be_bytes())
    }
}
