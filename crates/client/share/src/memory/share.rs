//! The file system as a whole, and what a test can do to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_types::{FileIndex, SessionId, Status, Timestamp};
use tokio::sync::oneshot;

use super::{
    CallKind, MemoryClient,
    state::{Outcome, State},
};
use crate::{
    AdoptedClient, CLIENT_RECORD_BYTES_MAX, ClientRecord, DataServer, DirectAccess, Error,
    FileSystemId, Result, Share,
};

const FILE_SYSTEM: FileSystemId = FileSystemId(*b"braid-memory-fs\0");

/// A gateway's view of a file system in memory. Clones are the same gateway.
#[derive(Clone, Debug)]
pub struct MemoryShare {
    state: SharedState,
    gateway: u64,
    own: SessionId,
    /// The earlier start, whose clients this one continues.
    earlier: Option<u64>,
}

/// The state, which sessions and opens share.
#[derive(Clone, Debug)]
pub(super) struct SharedState(Arc<Mutex<State>>);

impl SharedState {
    /// The state. A test that failed while it changed the state fails others as it may.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call of a session.
    pub(super) fn call<T>(
        &self,
        session: SessionId,
        call: CallKind,
        run: impl FnOnce(&mut State) -> Outcome<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let done = state.enter(session, call).and_then(|()| run(&mut state));
        done.map_err(|status| failed(call, status))
    }
}

/// The error of a call.
pub(super) fn failed(call: CallKind, status: Status) -> Error {
    Error::new(status, format!("{call:?}: {}", status.text()))
}

impl Default for MemoryShare {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryShare {
    /// A file system with an empty root directory, which belongs to root and has mode 0755.
    pub fn new() -> Self {
        Self::gateway(SharedState(Arc::new(Mutex::new(State::new()))))
    }

    fn gateway(state: SharedState) -> Self {
        let record = ClientRecord { name: "gateway".into(), record: Vec::new() };
        let own = state.lock().begin_session(record, None);
        Self { state, gateway: own.0, own, earlier: None }
    }

    /// Another gateway of the same file system, such as one after a restart.
    pub fn another_gateway(&self) -> Self {
        Self::gateway(self.state.clone())
    }

    /// The next start of this gateway, which continues the sessions of its clients. Open files of
    /// the earlier start are stale then.
    pub fn next_start(&self) -> Self {
        Self { earlier: Some(self.gateway), ..Self::gateway(self.state.clone()) }
    }

    /// Lets the next call of this kind fail, in any session, before it does anything. Several wait
    /// in the order in which they were added.
    pub fn fail_next(&self, call: CallKind, status: Status) {
        self.state.lock().faults.push((call, status));
    }

    /// Lets the reply of the next [`crate::ShareClient::lock`], of any session, come only when the
    /// result is used or dropped. The lock is granted or denied before.
    pub fn delay_next_lock(&self) -> oneshot::Sender<()> {
        let (send, receive) = oneshot::channel();
        self.state.lock().slow_lock = Some(receive);
        send
    }

    /// Loses all bytes that were not committed, as a loss of power does: the verifier changes.
    pub fn lose_unflushed(&self) {
        self.state.lock().lose_unflushed();
    }

    /// Sets the time of the file system, which stands still from now on.
    pub fn set_time(&self, now: Timestamp) {
        self.state.lock().time = Some(now);
    }

    /// What [`crate::ShareFile::direct_access`] returns for a file.
    pub fn set_direct_access(&self, file: FileIndex, access: DirectAccess) {
        self.state.lock().direct.insert(file, access);
    }

    /// What [`Share::data_servers`] returns.
    pub fn set_data_servers(&self, servers: Vec<DataServer>) {
        self.state.lock().data_servers = servers;
    }

    /// Ends a session, as the metadata server does with a client that was silent for too long.
    pub fn expire_session(&self, session: SessionId) {
        self.state.lock().end_session(session);
    }

    /// Records of all live sessions, with those of the gateways themselves.
    pub fn client_records(&self) -> Vec<(SessionId, ClientRecord)> {
        let state = self.state.lock();
        state.sessions.iter().map(|(session, record)| (*session, record.clone())).collect()
    }

    /// The number of opens of all sessions.
    pub fn open_count(&self) -> usize {
        self.state.lock().opens.count()
    }

    /// The number of delegations of all sessions.
    pub fn delegation_count(&self) -> usize {
        self.state.lock().delegations.count()
    }

    /// Loses the delegations of a session, as one that does not reach the metadata server.
    pub fn lose_delegations(&self, session: SessionId) {
        self.state.lock().delegations.lose(session);
    }

    /// The number of locked ranges of all sessions.
    pub fn lock_count(&self) -> usize {
        self.state.lock().locks.count()
    }

    /// The number of lock requests that wait now.
    pub fn lock_wait_count(&self) -> usize {
        self.state.lock().locks.waiting()
    }
}

impl Share for MemoryShare {
    type Client = MemoryClient;

    fn file_system(&self) -> FileSystemId {
        FILE_SYSTEM
    }

    fn gateway_id(&self) -> u64 {
        self.gateway
    }

    fn own_client(&self) -> MemoryClient {
        MemoryClient::new(self.state.clone(), self.own)
    }

    async fn data_servers(&self) -> Result<Vec<DataServer>> {
        Ok(self.state.lock().data_servers.clone())
    }

    async fn begin_client(&self, record: ClientRecord) -> Result<MemoryClient> {
        let session = self.state.call(self.own, CallKind::BeginClient, |state| {
            if record.record.len() > CLIENT_RECORD_BYTES_MAX {
                return Err(Status::LimitExceeded);
            }
            Ok(state.begin_session(record, Some(self.gateway)))
        })?;
        Ok(MemoryClient::new(self.state.clone(), session))
    }

    async fn adopt_clients(&self) -> Result<Vec<AdoptedClient<MemoryClient>>> {
        let Some(earlier) = self.earlier else { return Ok(Vec::new()) };
        let mut state = self.state.lock();
        let sessions = state.adopt(earlier, self.gateway);
        let adopted = sessions.into_iter().map(|session| {
            let client = MemoryClient::new(self.state.clone(), session);
            let record = state.sessions.get(&session).map(|known| known.record.clone());
            let opens = state.opens.renumber(session);
            let locks = state.locks.of_session(session);
            AdoptedClient { client, record: record.unwrap_or_default(), opens, locks }
        });
        Ok(adopted.collect())
    }
}
