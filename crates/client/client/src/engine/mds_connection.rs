//! The connection to the metadata server, and the session, which outlives it.
//!
//! ```text
//!   no connection ──connect, OpenSession(known session)──> Reclaim, in a new epoch ──> connected
//!      ^                 | NoSession: OpenSession(None), a new session                    |
//!      `── connection lost, timed out, NoSession ─────────────────────────────────────────'
//! ```
//!
//! Invariants:
//! 1. One task connects at a time; the others wait for it.
//! 2. A known session is reclaimed before a new one is requested, so that replay records stay valid
//!    (I7).
//! 3. A new connection carries no other call before the server has been sent the open files and
//!    locks on it.
//!
//! `mds_connection` asserts 1. Invariants 2 and 3 are the order of the steps in `try_link`: other
//! tasks see a connection only when it returns.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use braid_net::{Driver, Endpoint, NetError};
use braid_types::{SessionId, Status, limits};
use braid_wire::{
    Call, NodeKind, Wire, decode_outcome,
    message::{
        mds::{DefineIdentity, Envelope, OpenSession, OpenSessionReply},
        types::{ClusterMap, IodState},
    },
};

use super::{
    Engine,
    backoff::Backoff,
    gateway_session::first_sequence,
    identities::NumberVersion,
    open_table::ServerEpoch,
    semaphore::{WaitRefused, lock},
    session::Session,
};
use crate::{
    config::CredentialSource,
    error::{Error, Result},
};

/// Initial capacity for the body of a typical call, so that it is not reallocated field by field.
const BODY_BYTES: usize = 256;
/// How long a new program retries an agent that does not listen: an agent that restarts is back
/// within milliseconds. A program with a session waits as for any server, since the agent was there
/// before.
const AGENT_ABSENT_MS_MAX: u64 = 2_000;

pub(crate) struct MdsConnection<D: Driver> {
    pub(crate) shared: D::Shared,
    pub(crate) session: Arc<Session>,
    pub(crate) server: String,
    /// The server epoch at the other end.
    pub(crate) epoch: ServerEpoch,
    /// The identity numbers that the server knows on this connection.
    identities: Mutex<HashMap<u32, NumberVersion>>,
}

impl<D: Driver> Engine<D> {
    /// The connection to the metadata server. Makes one if necessary.
    pub(crate) async fn mds_connection(
        self: &Arc<Self>,
        deadline: Duration,
    ) -> Result<Arc<MdsConnection<D>>> {
        if let Some(link) = lock(&self.mds_connection).clone() {
            return Ok(link);
        }
        let _one = self
            .connecting
            .acquire(&self.driver, deadline)
            .await
            .map_err(|refused| self.wait_error(refused))?;
        if let Some(link) = lock(&self.mds_connection).clone() {
            return Ok(link);
        }
        self.check_time(deadline, || self.mds_name())?;
        let link = Arc::new(self.connect_link(deadline).await?);
        self.mds_status.set_responsive();
        let before = lock(&self.mds_connection).replace(Arc::clone(&link));
        debug_assert!(before.is_none(), "1: another task has connected at the same time");
        Ok(link)
    }

    /// The number of the last known session; `None` before the first call. Sends nothing.
    pub fn session_id(&self) -> Option<SessionId> {
        lock(&self.session).as_ref().map(|session| session.id)
    }

    /// The session for I/O daemons. Calls the metadata server only if there is no session yet.
    pub(crate) async fn session(self: &Arc<Self>, deadline: Duration) -> Result<Arc<Session>> {
        let known = lock(&self.session).clone();
        match known {
            Some(session) => Ok(session),
            None => self.mds_connection(deadline).await.map(|link| Arc::clone(&link.session)),
        }
    }

    /// Drops a broken connection, unless another one has replaced it.
    pub(crate) fn drop_mds_connection(&self, link: &Arc<MdsConnection<D>>) {
        let mut current = lock(&self.mds_connection);
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            *current = None;
        }
    }

    /// The error of a call that got no connection or slot. It may have used its whole time while
    /// another task tried to connect.
    pub(crate) fn wait_error(&self, refused: WaitRefused) -> Error {
        let error = self.queue_error(refused);
        if refused == WaitRefused::Late {
            self.note_unresponsive(Some(&self.mds_status), &error);
        }
        error
    }

    pub(crate) fn queue_error(&self, refused: WaitRefused) -> Error {
        let why = match refused {
            WaitRefused::Late => {
                format!("waited {:?} for other calls of this program to end", self.config.timeout)
            }
            WaitRefused::Crowded => "too many calls of this program wait already".to_owned(),
        };
        Error::new(Status::Unreachable, why).at(self.mds_name())
    }

    /// The name of the metadata server in errors.
    pub(crate) fn mds_name(&self) -> String {
        format!(
            "metadata server at {}",
            self.config.mds.first().map_or("no address", String::as_str)
        )
    }

    async fn connect_link(self: &Arc<Self>, deadline: Duration) -> Result<MdsConnection<D>> {
        let started = self.driver.now();
        let mut backoff = Backoff::new(deadline);
        loop {
            let error = match self.try_link(deadline).await {
                Ok(link) => return Ok(link),
                Err(error) => error,
            };
            // The session ended while it was reclaimed: the next attempt notices that and opens a
            // new one.
            if !is_transient(error.status()) && error.status() != Status::NoSession {
                return Err(error);
            }
            let waited_for = self.driver.now().saturating_sub(started);
            if error.is_absent()
                && lock(&self.session).is_none()
                && waited_for.as_millis() >= AGENT_ABSENT_MS_MAX.into()
            {
                return Err(error.given_up(waited_for));
            }
            if !backoff.wait(&self.driver).await {
                let error = error.given_up(self.driver.now().saturating_sub(started));
                self.note_unresponsive(Some(&self.mds_status), &error);
                return Err(error);
            }
        }
    }

    async fn try_link(self: &Arc<Self>, deadline: Duration) -> Result<MdsConnection<D>> {
        let endpoint = self.mds_endpoint()?;
        let server = endpoint.name();
        let shared = self.driver.connect_shared(&endpoint, self.attempt_deadline(deadline)).await?;
        let known = lock(&self.session).clone();
        // After `known` was read: a session that was left is not replaced by another one.
        if self.left.load(Ordering::SeqCst) {
            let why = "the session was left to the next start of the gateway";
            return Err(Error::new(Status::StaleHandle, why));
        }
        let adopted = self.adopted_session(known.as_deref());
        let mut reply = self.join_session(&shared, &server, known.as_ref(), deadline).await;
        if reply.as_ref().is_err_and(|error| error.status() == Status::NoSession) && known.is_some()
        {
            reply = self.open_session(&shared, &server, None, deadline).await;
        }
        let reply = reply?;
        self.apply_map(&reply.map);
        let session = match known.filter(|known| known.id == reply.session) {
            Some(known) => {
                known.reclaimed(&reply);
                known
            }
            None => {
                let sequence = adopted.map_or(0, |adopted| first_sequence(adopted.holder));
                Arc::new(Session::new(&reply, endpoint.cluster, sequence))
            }
        };
        *lock(&self.session) = Some(Arc::clone(&session));
        let run = ServerEpoch { session: reply.session, epoch: reply.epoch };
        self.lease_client.set_epoch(run);
        let link =
            MdsConnection { shared, session, server, epoch: run, identities: Mutex::default() };
        self.reclaim(&link, deadline).await?;
        self.send_gateway_record(&link, deadline).await?;
        Ok(link)
    }

    /// Opens a session, or joins the one of this client. One that was adopted is joined as such:
    /// the server takes others who join it for the earlier start of the gateway.
    pub(super) async fn join_session(
        &self,
        shared: &D::Shared,
        server: &str,
        known: Option<&Arc<Session>>,
        deadline: Duration,
    ) -> Result<OpenSessionReply> {
        match self.adopted_session(known.map(Arc::as_ref)) {
            Some(adopted) => self.adopt_session(shared, server, adopted, deadline).await,
            None => self.open_session(shared, server, known, deadline).await,
        }
    }

    async fn open_session(
        &self,
        shared: &D::Shared,
        server: &str,
        known: Option<&Arc<Session>>,
        deadline: Duration,
    ) -> Result<OpenSessionReply> {
        let call = OpenSession {
            session: known.map(|known| known.id),
            client: self.config.client_name.clone(),
        };
        let deadline = self.attempt_deadline(deadline);
        let reply = self.exchange(shared, Some(&Envelope::PLAIN), &call, deadline).await;
        reply.map_err(|failure| failure.into_error(server))
    }

    /// One attempt of a call on a connection to the metadata server, without retries. `envelope` is
    /// `None` for calls that both kinds of server understand.
    pub(super) async fn exchange<C: Call + Sync>(
        &self,
        shared: &D::Shared,
        envelope: Option<&Envelope>,
        call: &C,
        deadline: Duration,
    ) -> Result<C::Reply, CallFailure>
    where
        C::Reply: Send,
    {
        let body = match envelope {
            Some(envelope) => with_envelope(envelope, call),
            None => call.to_bytes(),
        };
        let answer =
            self.driver.call(shared, C::OP, &body, deadline).await.map_err(CallFailure::Net)?;
        match decode_outcome::<C::Reply>(&answer.body) {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(failure)) => Err(CallFailure::Refused(failure)),
            Err(error) => Err(CallFailure::Malformed(error)),
        }
    }

    pub(super) fn mds_endpoint(&self) -> Result<Endpoint> {
        let proof = self.config.credential.proof()?;
        let addresses =
            if self.config.mds.is_empty() { proof.mds } else { self.config.mds.clone() };
        if addresses.is_empty() {
            let error =
                Error::new(Status::Invalid, "no address of a metadata server is configured");
            return Err(error.with_hint("set mds in the configuration, or BRAID_MDS"));
        }
        Ok(Endpoint {
            node: NodeKind::Mds,
            node_id: 0,
            cluster: self.config.cluster.or(proof.cluster),
            addresses,
            role: proof.role,
            credential: proof.credential,
            secret: proof.secret,
            tls: self.config.tls,
        })
    }

    /// The deadline of one attempt: a third of a call's time. If a connection loses a reply, time
    /// is left for two more attempts.
    pub(crate) fn attempt_deadline(&self, deadline: Duration) -> Duration {
        deadline.min(self.driver.now().saturating_add(self.config.timeout / 3))
    }

    /// How long an I/O daemon may move no byte in one attempt: for the same reason, but a transfer
    /// that makes progress is not interrupted.
    pub(crate) fn attempt_timeout(&self, deadline: Duration) -> Duration {
        self.attempt_deadline(deadline).saturating_sub(self.driver.now())
    }

    /// The part of an exchange since `begun` in which no daemon was idle, whatever its outcome:
    /// bytes moved, or the exchange waited for its turn.
    pub(crate) fn active_time(&self, begun: Duration, silence_max: Duration) -> Duration {
        self.driver.now().saturating_sub(begun).saturating_sub(silence_max)
    }

    pub(crate) fn apply_map(self: &Arc<Self>, map: &ClusterMap) {
        for iod in &map.iods {
            let pool = self.pool(iod.id);
            pool.set_addresses(&iod.addresses);
            if iod.state == IodState::Removed {
                pool.set_removed();
            }
        }
        lock(&self.service).map_epoch = Some(map.epoch);
        self.down_daemons.apply_map(map);
    }

    /// Defines the identity number on this connection, unless the server knows its current meaning.
    pub(crate) async fn define_identity(
        &self,
        link: &MdsConnection<D>,
        number: u32,
        deadline: Duration,
    ) -> Result<(), CallFailure> {
        // The caller holds the number, so its meaning cannot change before the reply.
        let Some((meaning, identity)) = lock(&self.identities).identity_of(number) else {
            return Ok(());
        };
        if lock(&link.identities).get(&number) == Some(&meaning) {
            return Ok(());
        }
        let call = DefineIdentity { number, identity };
        self.exchange(&link.shared, Some(&Envelope::PLAIN), &call, deadline).await?;
        lock(&link.identities).insert(number, meaning);
        Ok(())
    }
}

/// How one attempt of a call failed.
pub(crate) enum CallFailure {
    Net(NetError),
    Refused(braid_types::Failure),
    Malformed(braid_wire::WireError),
}

impl CallFailure {
    pub(crate) fn into_error(self, server: &str) -> Error {
        match self {
            Self::Net(error) => error.into(),
            Self::Refused(failure) => Error::refused(server, failure),
            Self::Malformed(error) => Error::malformed_reply(server, error),
        }
    }
}

fn with_envelope<C: Wire>(envelope: &Envelope, call: &C) -> Vec<u8> {
    let mut body = Vec::with_capacity(BODY_BYTES);
    envelope.encode(&mut body);
    call.encode(&mut body);
    body
}

/// Whether the same call may succeed a moment later.
pub(crate) fn is_transient(status: Status) -> bool {
    matches!(
        status,
        Status::Unreachable | Status::ConnectionLost | Status::TryAgain | Status::NotServing
    )
}

const _: () = assert!(
    limits::TIMEOUT_SECONDS_DEFAULT * 1000 > limits::GRACE_MS,
    "a call outlasts a grace period"
);
