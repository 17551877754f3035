//! The server: what all connections share, the listener, and the end.
//!
//! Invariants:
//! 1. The mutexes of the tables are held for short, without an await, and never two at a time.
//! 2. A client that was removed from the table is ended after the mutex is released: its sessions
//!    first, so that no further request of it begins.

use std::collections::hash_map::RandomState;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_nfs_wire::nfs4::callback::{CallbackArgOp, CallbackResOp, ReferringCalls};
use braid_nfs_wire::nfs4::results::CreateSessionResult;
use braid_nfs_wire::nfs4::{ClientId, SessionId};
use braid_share::Share;
use bytes::Bytes;
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::backchannel::{BackChannel, CallbackError};
use crate::config::{ConfigError, ExportConfig, NfsConfig, Security, Transport};
use crate::connection::{SERVER_REPLY_BYTES_MAX, SERVER_REQUEST_BYTES_MAX};
use crate::export::Exports;
use crate::handle::HandleKey;
use crate::names::Names;
use crate::ops::layout::Devices;
use crate::ops::lock_wait::WAITS_SERVER_MAX;
use crate::ops::stateid::FileOf;
use crate::recovery::Recovery;
use crate::rpc::kerberos::Kerberos;
use crate::state::client_state::ClientState;
use crate::state::clients::{ClientTable, Removed};
use crate::state::opens::{GrantingCall, WriteDelegations};
use crate::state::sessions::{Session, SessionTable};
use crate::state::{Moment, clients};
use crate::tls::Tls;

pub mod listener;

/// Lease times after which a silent client is ended also without a conflict. Until then it keeps
/// its opens and locks through a failure of the network (RFC 8881 8.4.2.4, courtesy locks).
pub const SILENT_LEASES_MAX: u32 = 2;

/// A client of the server.
pub type Client<S> = clients::Client<ClientState<S>>;
/// A session of the server.
pub type ServerSession<S> = Session<ClientState<S>, BackChannel>;
/// The clients of the server.
pub type Clients<S> = ClientTable<ClientState<S>, CreateSessionResult>;
/// The sessions of the server.
pub type Sessions<S> = SessionTable<ClientState<S>, BackChannel>;
/// Sessions of the earlier start that no client has come for.
pub(crate) type AwaitedClients<S> = Recovery<<S as Share>::Client>;

/// Why a server did not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// A mistake in the configuration.
    #[error("NFS configuration: {0}")]
    Config(#[from] ConfigError),
    /// The address cannot be listened on.
    #[error("listen on {address}: {error}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        error: io::Error,
    },
}

/// A server of one file system. A [`listener::Listener`] accepts its connections.
#[derive(Debug)]
pub struct NfsServer<S: Share> {
    /// The file system.
    pub share: S,
    /// The configuration.
    pub config: NfsConfig,
    /// Exports and the pseudo file system.
    pub exports: Exports,
    /// Makes and checks file handles.
    pub handles: HandleKey,
    /// What layouts name.
    pub devices: Devices,
    /// Names this start of this gateway; in state ids and verifiers.
    pub epoch: u32,
    /// `eir_server_scope`: the file system, whose gateways all understand each other's handles.
    pub scope: Bytes,
    /// Names of users and groups.
    pub(crate) names: Names,
    kerberos: Option<Kerberos>,
    tls: Option<Tls>,
    /// Hashes requests, to recognise retries.
    pub(crate) hasher: RandomState,
    clients: Mutex<Clients<S>>,
    sessions: Mutex<Sessions<S>>,
    recovery: AwaitedClients<S>,
    /// The holders that are asked for the attributes of their files.
    write_delegations: Arc<WriteDelegations<FileOf<S>>>,
    /// Waits for locks that all clients may have.
    pub(crate) lock_waits: Arc<Semaphore>,
    /// Bytes of requests that may run at the same time, on all connections.
    request_bytes: Arc<Semaphore>,
    /// Bytes of results that may wait to be sent, on all connections.
    reply_bytes: Arc<Semaphore>,
    start: Instant,
}

/// What a server can offer its clients besides AUTH_SYS over plain connections.
#[derive(Debug, Default)]
pub struct Protection {
    /// RPCSEC_GSS.
    pub kerberos: Option<Kerberos>,
    /// RPC-over-TLS.
    pub tls: Option<Tls>,
}

impl Protection {
    /// Whether an export can be used: clients must not be offered what is then refused.
    fn check(&self, export: &ExportConfig) -> Result<(), ConfigError> {
        let path = || export.path.clone();
        let sys = |security: &Security| *security == Security::Sys;
        if self.kerberos.is_none() && !export.security.iter().all(sys) {
            return Err(ConfigError::NoKerberos(path()));
        }
        let modes = &export.transports;
        let tls = self.tls.as_ref();
        if tls.is_none() && modes.iter().any(|mode| *mode != Transport::Plain) {
            return Err(ConfigError::NoTls(path()));
        }
        let knows_clients = tls.is_some_and(Tls::has_client_authorities);
        if !knows_clients && modes.contains(&Transport::MutualTls) {
            return Err(ConfigError::NoClientAuthority(path()));
        }
        Ok(())
    }
}

impl<S: Share> NfsServer<S> {
    /// A server that does not listen yet, without Kerberos and TLS.
    ///
    /// # Errors
    /// [`StartError::Config`].
    pub fn new(share: S, config: NfsConfig) -> Result<Arc<Self>, StartError> {
        Self::with_security(share, config, Protection::default())
    }

    /// A server that does not listen yet. Exports with Kerberos flavours and those that require
    /// TLS need `protection`.
    ///
    /// # Errors
    /// [`StartError::Config`].
    pub fn with_security(
        share: S,
        config: NfsConfig,
        protection: Protection,
    ) -> Result<Arc<Self>, StartError> {
        let file_system = share.file_system();
        let exports = Exports::new(&config, file_system)?;
        for export in exports.all() {
            protection.check(export.config())?;
        }
        let Protection { kerberos, tls } = protection;
        let handles = HandleKey::new(&config.handle_key, file_system);
        // A gateway's number is unique among all that run or ran, so its lower half separates the
        // client ids and state ids of different gateways and starts.
        let epoch = share.gateway_id() as u32;
        let clients = ClientTable::new(epoch, config.lease, config.limits.clients);
        Ok(Arc::new(Self {
            exports,
            handles,
            devices: Devices::default(),
            epoch,
            scope: Bytes::copy_from_slice(&file_system.0),
            hasher: RandomState::new(),
            clients: Mutex::new(clients),
            sessions: Mutex::new(SessionTable::default()),
            recovery: Recovery::default(),
            write_delegations: Arc::default(),
            lock_waits: Arc::new(Semaphore::new(WAITS_SERVER_MAX)),
            request_bytes: Arc::new(Semaphore::new(SERVER_REQUEST_BYTES_MAX)),
            reply_bytes: Arc::new(Semaphore::new(SERVER_REPLY_BYTES_MAX)),
            start: Instant::now(),
            names: Names::new(config.domain.clone(), config.users.clone()),
            kerberos,
            tls,
            share,
            config,
        }))
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        Moment::now(self.start)
    }

    /// Authenticates with Kerberos, if the server has it.
    pub(crate) fn kerberos(&self) -> Option<&Kerberos> {
        self.kerberos.as_ref()
    }

    /// RPC-over-TLS, if the server has it.
    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Bytes of requests that may run at the same time, on all connections.
    pub(crate) fn request_bytes(&self) -> &Arc<Semaphore> {
        &self.request_bytes
    }

    /// Bytes of results that may wait to be sent, on all connections.
    pub(crate) fn reply_bytes(&self) -> &Arc<Semaphore> {
        &self.reply_bytes
    }

    /// The table of clients (invariant 1).
    pub fn clients(&self) -> MutexGuard<'_, Clients<S>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table of sessions (invariant 1).
    pub fn sessions(&self) -> MutexGuard<'_, Sessions<S>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sessions of the earlier start that no client has come for.
    pub(crate) fn recovery(&self) -> &AwaitedClients<S> {
        &self.recovery
    }

    /// Write delegations whose holders are asked for attributes.
    pub fn write_delegations(&self) -> &Arc<WriteDelegations<FileOf<S>>> {
        &self.write_delegations
    }

    /// The session with this name.
    pub fn session(&self, id: &SessionId) -> Option<Arc<ServerSession<S>>> {
        self.sessions().session(id).cloned()
    }

    /// Ends a client that was removed from the table (invariant 2).
    pub async fn end_client(&self, removed: Removed<ClientState<S>>) {
        for session in &removed.sessions {
            self.remove_session(session);
        }
        if let Some(state) = removed.client.data() {
            let id = removed.client.id();
            tracing::debug!(client = id.0, "client ends");
            state.end().await;
        }
    }

    /// Ends a client with its opens, locks and sessions, if its lease has passed. Callers are
    /// requests that conflict with its state, and [`NfsServer::end_silent_clients`]. `false` if
    /// its lease has not passed, or it is gone: nothing is changed.
    pub async fn end_expired_client(&self, id: ClientId) -> bool {
        let now = self.now();
        let removed = self.clients().remove_if_expired(id, now);
        match removed {
            Some(removed) => {
                self.end_client(removed).await;
                true
            }
            None => false,
        }
    }

    /// Ends the clients that were silent for [`SILENT_LEASES_MAX`] lease times. Conflicts of their
    /// opens and locks with mounts and with clients of other gateways are not seen here, so without
    /// this they would last without a time limit.
    pub async fn end_silent_clients(&self) {
        let (now, silence) = (self.now(), self.config.lease * SILENT_LEASES_MAX);
        let silent: Vec<_> = {
            let clients = self.clients();
            let silent = clients.all_confirmed().filter(|client| client.is_expired(now, silence));
            silent.map(|client| client.id()).collect()
        };
        for id in silent {
            let sessions = self.clients().sessions_of(id).to_vec();
            let mut sessions = sessions.iter().filter_map(|id| self.session(id));
            // A call that waits for the metadata server is no silence.
            if sessions.any(|session| session.with_slots(|slots| slots.is_busy(None))) {
                continue;
            }
            // A client that has called meanwhile is not expired.
            if self.end_expired_client(id).await {
                tracing::info!(
                    client = id.0,
                    "a client was silent for {silence:?}: its opens and locks have ended"
                );
            }
        }
    }

    /// Calls a client, over any of its sessions that has a connection for callbacks, else over the
    /// first one as soon as it has one.
    ///
    /// # Errors
    /// [`CallbackError`]; `SessionEnded` also if the client has no session. A recall is then
    /// repeated over the client's next session, or given up when its lease passes.
    pub async fn call_client(
        &self,
        id: ClientId,
        op: &CallbackArgOp,
    ) -> Result<CallbackResOp, CallbackError> {
        self.call_client_after(id, None, op).await
    }

    /// As [`NfsServer::call_client`], about a delegation that `granted_by` has granted.
    ///
    /// # Errors
    /// As [`NfsServer::call_client`].
    pub async fn call_client_after(
        &self,
        id: ClientId,
        granted_by: Option<&GrantingCall>,
        op: &CallbackArgOp,
    ) -> Result<CallbackResOp, CallbackError> {
        let referring = granted_by.and_then(|call| self.referring(call));
        let ids = self.clients().sessions_of(id).to_vec();
        let sessions: Vec<_> = ids.iter().filter_map(|id| self.session(id)).collect();
        let best = sessions.iter().find(|session| session.back().is_up());
        let session = best.or(sessions.first()).ok_or(CallbackError::SessionEnded)?;
        session.back().call_after(op, referring.as_slice()).await
    }

    /// The request that a callback refers to, unless the client has received its reply: it has sent
    /// another request on the slot, or destroyed the session. RFC 8881 2.10.6.3.
    fn referring(&self, by: &GrantingCall) -> Option<ReferringCalls> {
        let session = self.session(&by.session_id)?;
        let newest = session.with_slots(|slots| slots.newest(by.call.slot_id.0));
        let is_newest = newest == Some(by.call.sequence_id.0);
        is_newest.then(|| ReferringCalls { session_id: by.session_id, calls: vec![by.call] })
    }

    /// Whether a session of the client has a connection for callbacks.
    pub fn can_call_client(&self, id: ClientId) -> bool {
        let ids = self.clients().sessions_of(id).to_vec();
        ids.iter().filter_map(|id| self.session(id)).any(|session| session.back().is_up())
    }

    /// Removes a session; requests that run on it end as they began.
    pub fn remove_session(&self, id: &SessionId) -> Option<Arc<ServerSession<S>>> {
        let session = self.sessions().remove(id)?;
        session.back().close();
        Some(session)
    }

    /// Leaves the sessions of all clients to the next start of the gateway. Called at its end,
    /// after all listeners have ended.
    pub async fn leave_all_clients(&self) {
        let mut leaving = JoinSet::new();
        for removed in self.clients().remove_all() {
            leaving.spawn(async move {
                if let Some(state) = removed.client.data() {
                    state.leave().await;
                }
            });
        }
        leaving.join_all().await;
        self.leave_awaited_clients().await;
    }
}
