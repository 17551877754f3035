//! Connections to one I/O daemon. Each is used by one call at a time, and then kept for the next
//! call.
//!
//! Invariants:
//! 1. At most [`CONNECTIONS_MAX`] are open, plus one for each task in a collective request. (Those
//!    tasks wait for each other, so they must not wait for each other's connections.) More calls
//!    wait in a bounded queue.
//! 2. Connections are distributed over all addresses of the daemon (one for each network
//!    interface), round robin.
//! 3. A connection is used only in the session in which it was made.
//! 4. A connection that failed is dropped, never put back.
//! 5. `presented` contains the capability handles that the daemon knows on the connection.
//! 6. A connection dropped while `has_unanswered_change` is added to the abandoned writes: see
//!    `abandoned_writes.rs`.
//!
//! Assertions check 3, and 6 where a connection is put back. The semaphore gives 1, and
//! `next_address` 2. Callers alone know whether a connection failed (4) and what the daemon knows
//! (5).

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use braid_net::{Driver, Endpoint, TlsPolicy};
use braid_types::{IodId, ObjectId, SessionId, Status, WriteVerifier};
use braid_wire::{NodeKind, Role};

use super::{
    Engine,
    abandoned_writes::AbandonedWrites,
    reservation::DaemonReservation,
    semaphore::{Permit, Semaphore, WaitRefused, lock},
    session::Session,
    unresponsive_servers::ServerStatus,
};
use crate::error::{Error, Result};

/// Connections of one program to one I/O daemon. Sixteen calls at a time keep a disk and a network
/// interface busy; each connection costs the daemon up to 2 MiB.
const CONNECTIONS_MAX: usize = 16;
/// A connection on which this many handles were presented is replaced. Far below the limit of the
/// daemons.
const HANDLES_MAX: usize = 4096;

pub(crate) struct Pool<D: Driver> {
    iod: IodId,
    semaphore: Semaphore,
    idle: Mutex<Vec<Box<PooledConnection<D>>>>,
    addresses: Mutex<Arc<[String]>>,
    next_address: AtomicUsize,
    pub(crate) abandoned: AbandonedWrites,
    pub(crate) reservation: Arc<DaemonReservation>,
    pub(crate) status: ServerStatus,
    /// A recent write verifier of the daemon. If two replies arrive at the same time, either may be
    /// stored. A caller that finds an unexpected value queries the daemon.
    verifier: AtomicU64,
    /// The daemon was removed from the cluster for good.
    removed: AtomicBool,
}

/// A connection with its state. Boxed between calls, since its TLS state has some KiB, which would
/// be copied at every move.
pub(crate) struct PooledConnection<D: Driver> {
    pub(crate) connection: D::Connection,
    pub(crate) meta: ConnectionMeta,
}

pub(crate) struct ConnectionMeta {
    pub(crate) session: SessionId,
    pub(crate) presented: HashSet<u32>,
    /// A call that changes objects was sent on it, or is about to be, and has no reply.
    pub(crate) has_unanswered_change: bool,
}

/// The right to use one connection of a pool.
pub(crate) struct PoolPermit<'p, D: Driver> {
    pool: &'p Pool<D>,
    /// `None`: not counted against the limit of the pool.
    permit: Option<Permit<'p>>,
}

impl<D: Driver> Pool<D> {
    pub(crate) fn new(iod: IodId) -> Self {
        Self {
            iod,
            semaphore: Semaphore::new(CONNECTIONS_MAX),
            idle: Mutex::new(Vec::new()),
            addresses: Mutex::new(Arc::new([])),
            next_address: AtomicUsize::new(0),
            abandoned: AbandonedWrites::default(),
            reservation: Arc::default(),
            status: ServerStatus::default(),
            verifier: AtomicU64::new(0),
            removed: AtomicBool::new(false),
        }
    }

    /// The cluster map says that the daemon was removed for good: its connections are useless.
    pub(crate) fn set_removed(&self) {
        if !self.removed.swap(true, Ordering::AcqRel) {
            lock(&self.idle).clear();
        }
    }

    /// Whether the daemon was removed from the cluster for good.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    /// The error of a call that needs the daemon; names the lost object, if any.
    pub(crate) fn removed_error(&self, object: Option<ObjectId>) -> Error {
        let why = match object {
            Some(object) => {
                format!("it was removed from the cluster, and object {object} of the file with it")
            }
            None => "it was removed from the cluster".to_owned(),
        };
        let hint = format!("braid fsck --affected-by {}", self.iod);
        Error::new(Status::ObjectLost, why).at(self.server_name()).with_hint(hint)
    }

    /// A reply had this write verifier.
    pub(crate) fn set_verifier(&self, verifier: WriteVerifier) {
        self.verifier.store(verifier.0, Ordering::Relaxed);
    }

    /// The write verifier of the last reply, through any file.
    pub(crate) fn last_verifier(&self) -> WriteVerifier {
        WriteVerifier(self.verifier.load(Ordering::Relaxed))
    }

    /// The name of the daemon in errors.
    pub(crate) fn server_name(&self) -> String {
        let addresses = lock(&self.addresses);
        format!(
            "I/O daemon {} at {}",
            self.iod,
            addresses.first().map_or("no address", String::as_str)
        )
    }

    /// Whether none of its connections is encrypted, whatever the address.
    pub(crate) fn is_unencrypted(&self, tls: TlsPolicy) -> bool {
        let is_loopback = |address: &String| {
            address
                .parse()
                .is_ok_and(|address: SocketAddr| address.ip().to_canonical().is_loopback())
        };
        match tls {
            TlsPolicy::Never => true,
            TlsPolicy::Always => false,
            TlsPolicy::UnlessLoopback => lock(&self.addresses).iter().all(is_loopback),
        }
    }

    pub(crate) fn set_addresses(&self, addresses: &[String]) {
        let mut known = lock(&self.addresses);
        if **known != *addresses {
            *known = addresses.into();
        }
    }

    pub(crate) fn wake_expired(&self) {
        self.semaphore.wake_expired();
    }

    /// Waits for a permit, and takes an idle connection or makes one.
    pub(crate) async fn checkout<'p>(
        &'p self,
        engine: &'p Arc<Engine<D>>,
        deadline: Duration,
    ) -> Result<(PoolPermit<'p, D>, Box<PooledConnection<D>>)> {
        engine.check_process()?;
        let permit = self
            .semaphore
            .acquire(&engine.driver, deadline)
            .await
            .map_err(|refused| self.crowded(refused))?;
        self.take(engine, Some(permit), deadline).await
    }

    /// As [`Pool::checkout`], but without waiting for other calls.
    pub(crate) async fn checkout_extra<'p>(
        &'p self,
        engine: &'p Arc<Engine<D>>,
        deadline: Duration,
    ) -> Result<(PoolPermit<'p, D>, Box<PooledConnection<D>>)> {
        engine.check_process()?;
        self.take(engine, None, deadline).await
    }

    async fn take<'p>(
        &'p self,
        engine: &'p Arc<Engine<D>>,
        permit: Option<Permit<'p>>,
        deadline: Duration,
    ) -> Result<(PoolPermit<'p, D>, Box<PooledConnection<D>>)> {
        if self.is_removed() {
            return Err(self.removed_error(None));
        }
        let session = engine.session(deadline).await?;
        let pool_permit = PoolPermit { pool: self, permit };
        match self.take_idle(session.id) {
            Some(pooled) => {
                debug_assert!(pooled.meta.session == session.id, "3: of another session");
                Ok((pool_permit, pooled))
            }
            None => Ok((pool_permit, self.connect(engine, &session, deadline).await?)),
        }
    }

    /// Takes the connection that was used last: its buffers and TCP windows are warm.
    fn take_idle(&self, session: SessionId) -> Option<Box<PooledConnection<D>>> {
        let mut idle = lock(&self.idle);
        loop {
            let pooled = idle.pop()?;
            if pooled.meta.session == session && pooled.meta.presented.len() < HANDLES_MAX {
                return Some(pooled);
            }
        }
    }

    async fn connect(
        &self,
        engine: &Arc<Engine<D>>,
        session: &Session,
        deadline: Duration,
    ) -> Result<Box<PooledConnection<D>>> {
        let (credential, secret) = session.credential();
        let endpoint = Endpoint {
            node: NodeKind::Iod,
            node_id: self.iod.0,
            cluster: session.cluster,
            addresses: self.rotated_addresses(session.id)?,
            role: Role::Client,
            credential,
            secret,
            tls: engine.config.tls,
        };
        let connection =
            engine.driver.connect(&endpoint, engine.attempt_deadline(deadline)).await?;
        let meta = ConnectionMeta {
            session: session.id,
            presented: HashSet::new(),
            has_unanswered_change: false,
        };
        Ok(Box::new(PooledConnection { connection, meta }))
    }

    /// All addresses, rotated so that the next one in turn is first.
    fn rotated_addresses(&self, session: SessionId) -> Result<Vec<String>> {
        let known = Arc::clone(&lock(&self.addresses));
        if known.is_empty() {
            let why = "the cluster map has no address of it";
            return Err(Error::new(Status::Unreachable, why).at(self.server_name()));
        }
        let first = first_address(
            session,
            self.iod,
            self.next_address.fetch_add(1, Ordering::Relaxed),
            known.len(),
        );
        Ok(known[first..].iter().chain(&known[..first]).cloned().collect())
    }

    fn crowded(&self, refused: WaitRefused) -> Error {
        let why = match refused {
            WaitRefused::Late => "its connections were all busy with other calls of this program",
            WaitRefused::Crowded => "too many calls of this program wait for it already",
        };
        Error::new(Status::Unreachable, why).at(self.server_name())
    }
}

/// The address that the connection of this number tries first. Most clients have one connection to
/// a daemon. So clients begin with different addresses of a daemon, and each client with different
/// ones at different daemons.
fn first_address(session: SessionId, iod: IodId, connection: usize, addresses: usize) -> usize {
    let number = session.0.wrapping_add(u64::from(iod.0)).wrapping_add(connection as u64);
    (number % addresses.max(1) as u64) as usize
}

impl<D: Driver> PoolPermit<'_, D> {
    pub(crate) fn pool(&self) -> &Pool<D> {
        self.pool
    }

    /// Drops a connection that must not be used again.
    pub(crate) fn drop_connection(self, connection: D::Connection, meta: &ConnectionMeta) {
        if meta.has_unanswered_change {
            self.pool.abandoned.add(meta.session, D::connection_id(&connection));
        }
    }

    /// Puts a working connection back before the next waiter gets the permit.
    pub(crate) fn put_back(self, pooled: Box<PooledConnection<D>>) {
        debug_assert!(!pooled.meta.has_unanswered_change, "6: a write in it was not answered");
        let mut idle = lock(&self.pool.idle);
        if self.permit.is_some() || idle.len() < CONNECTIONS_MAX {
            idle.push(pooled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_distributed_over_all_addresses() {
        let count = |of: &dyn Fn(u64) -> usize| (1..=60).filter(|number| of(*number) == 0).count();
        assert_eq!(count(&|client| first_address(SessionId(client), IodId(3), 0, 2)), 30);
        assert_eq!(count(&|daemon| first_address(SessionId(7), IodId(daemon as u32), 0, 2)), 30);
        let addresses: Vec<usize> =
            (0..4).map(|connection| first_address(SessionId(9), IodId(1), connection, 3)).collect();
        assert_eq!(addresses, [1, 2, 0, 1]);
        assert_eq!(first_address(SessionId(u64::MAX), IodId(u32::MAX), usize::MAX, 1), 0);
    }
}
