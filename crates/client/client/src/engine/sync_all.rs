//! Forcing everything to disk, as `syncfs(2)` does on a local file system (I6).
//!
//! ```text
//!   cluster map ──> metadata log synced ──> FlushAll to all daemons ──> compare their verifiers
//!                                              │             with those of the unflushed writes
//!                                              └ unresponsive: retried until the deadline
//! ```
//!
//! Invariants:
//! 1. When the call succeeds, everything is durable that was acknowledged to any client before the
//!    call.
//! 2. A failing daemon does not prevent the flush of another one.
//! 3. Losses are reported only by a call in which every daemon has answered. A call that fails
//!    earlier leaves them for the next one.
//!
//! `sync_all` asserts 3. What is durable is known to the daemons alone (1), and each daemon's
//! outcome is an entry of its own (2).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use braid_net::{Answer, Driver, Exchange, NetError};
use braid_types::{FileIndex, IodId, Status, WriteVerifier};
use braid_wire::{
    Call, Wire, decode_outcome,
    message::{
        iod::{FlushAll, FlushReply},
        mds::{FsyncDirectory, GetClusterMap},
    },
};

use super::{
    Caller, Engine,
    backoff::Backoff,
    close::unsynced_data_lost,
    iod_error::RetryAction,
    pool::{ConnectionMeta, Pool, PoolPermit, PooledConnection},
};
use crate::error::{Error, Result};

/// How long to wait for the cluster map when a daemon is not reached.
const MAP_WAIT: Duration = Duration::from_millis(500);
/// The shortest time for connecting to a daemon, however many others must be flushed in the same
/// call.
const CONNECT_MIN: Duration = Duration::from_secs(1);

/// The state of the flush at each daemon.
struct FlushAllState<D: Driver> {
    done: BTreeMap<IodId, WriteVerifier>,
    /// Daemons still to be flushed, and why the last attempt failed.
    left: BTreeMap<IodId, (Arc<Pool<D>>, Option<RetryAction>)>,
    failed: Option<Error>,
}

impl<D: Driver> Caller<D> {
    /// Makes everything durable that was acknowledged before to any client.
    ///
    /// # Errors
    /// With the server that failed; [`Status::UnsyncedDataLost`], once, if a daemon lost writes of
    /// this client.
    pub async fn sync_all(&self) -> Result<()> {
        self.engine.check_process()?;
        self.engine
            .sync_all(self.identity.number())
            .await
            .map_err(|error| error.during("sync", "everything"))
    }
}

impl<D: Driver> Engine<D> {
    async fn sync_all(self: &Arc<Self>, identity: u32) -> Result<()> {
        let deadline = self.deadline();
        let map = self.repeatable(GetClusterMap {}).until(deadline).send().await?;
        self.apply_map(&map);
        let (running, files) = self.unflushed_files.begin_sync();
        let files: Vec<_> = files.into_iter().map(|file| (file.pending(), file)).collect();
        // The log first: an unresponsive daemon would leave it no time.
        let log = self
            .repeatable(FsyncDirectory { dir: FileIndex::ROOT })
            .identity(identity)
            .until(deadline)
            .send()
            .await;
        let written = files.iter().flat_map(|(pending, _)| pending.iter().map(|(iod, _)| *iod));
        let daemons =
            map.iods.iter().map(|iod| iod.id).chain(written).map(|iod| (iod, self.pool(iod)));
        let mut flushes =
            FlushAllState { done: BTreeMap::new(), left: BTreeMap::new(), failed: None };
        for (iod, pool) in daemons {
            if pool.is_removed() {
                // It has lost everything, and will not report that.
                flushes.done.insert(iod, WriteVerifier(0));
            } else {
                flushes.left.insert(iod, (pool, None));
            }
        }
        self.flush_all(&mut flushes, deadline).await;
        for (pending, file) in files {
            for (iod, before) in pending {
                if let Some(verifier) = flushes.done.get(&iod) {
                    file.record_flush(iod, before, *verifier, || self.pool(iod).server_name());
                }
            }
        }
        if let Some(error) = flushes.failed {
            return Err(error);
        }
        log?;
        debug_assert!(flushes.left.is_empty(), "3: a daemon has not answered");
        running.end().map_or(Ok(()), |server| Err(unsynced_data_lost(&server)))
    }

    /// Flushes all daemons, with retries until the deadline.
    async fn flush_all(self: &Arc<Self>, flushes: &mut FlushAllState<D>, deadline: Duration) {
        let (started, mut backoff) = (self.driver.now(), Backoff::new(deadline));
        loop {
            self.flush_once(flushes, deadline).await;
            flushes.drop_failed();
            let Some(action) = flushes.most_severe() else { return };
            if !backoff.wait(&self.driver).await {
                let error = action.into_error().given_up(self.driver.now().saturating_sub(started));
                flushes.failed.get_or_insert(error);
                return;
            }
            match action {
                RetryAction::Reclaim(_) => _ = self.reconnect_mds(deadline).await,
                // The daemon may have moved. Without a map, the old address is tried again.
                RetryAction::Wait(error) if error.status() == Status::Unreachable => {
                    _ = self
                        .refresh_map(deadline.min(self.driver.now().saturating_add(MAP_WAIT)))
                        .await;
                }
                _ => {}
            }
        }
    }

    /// One attempt at all daemons at the same time.
    async fn flush_once(self: &Arc<Self>, flushes: &mut FlushAllState<D>, deadline: Duration) {
        let pools: Vec<(IodId, Arc<Pool<D>>)> =
            flushes.left.iter().map(|(iod, (pool, _))| (*iod, Arc::clone(pool))).collect();
        let (mut pool_permits, mut connections) =
            (Vec::with_capacity(pools.len()), Vec::with_capacity(pools.len()));
        // In the order of the daemons, like every call that needs several connections: otherwise
        // two calls could wait for each other.
        for (at, (iod, pool)) in pools.iter().enumerate() {
            let left = deadline.saturating_sub(self.driver.now()) / (2 * (pools.len() - at) as u32);
            let connected_by = self.driver.now().saturating_add(left.max(CONNECT_MIN));
            match pool.checkout(self, self.attempt_deadline(deadline).min(connected_by)).await {
                Ok((pool_permit, pooled)) => {
                    let PooledConnection { connection, meta } = *pooled;
                    pool_permits.push((*iod, pool_permit, meta));
                    connections.push(connection);
                }
                Err(error) => flushes.note(*iod, RetryAction::of_connect(error)),
            }
        }
        let exchange = |connection| {
            let (op, body) = (FlushAll::OP, FlushAll {}.to_bytes());
            Exchange { connection, op, body, send: Vec::new(), recv: Vec::new(), outcome: None }
        };
        let mut batch: Vec<Exchange<'_>> = (0..connections.len()).map(exchange).collect();
        if !batch.is_empty() {
            self.driver
                .exchange(&mut connections, &mut batch, self.attempt_timeout(deadline))
                .await;
        }
        for ((exchange, connection), (iod, pool_permit, meta)) in
            batch.into_iter().zip(connections).zip(pool_permits)
        {
            flushes.take(iod, exchange.outcome, pool_permit, connection, meta);
        }
    }
}

impl<D: Driver> FlushAllState<D> {
    /// Records a daemon's outcome. Puts its connection back, unless it broke.
    fn take(
        &mut self,
        iod: IodId,
        outcome: Option<Result<Answer, NetError>>,
        pool_permit: PoolPermit<'_, D>,
        connection: D::Connection,
        meta: ConnectionMeta,
    ) {
        let server = pool_permit.pool().server_name();
        let answer = match outcome {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => {
                self.note(iod, RetryAction::of_loss(Error::from(error).at(server)));
                return pool_permit.drop_connection(connection, &meta);
            }
            None => {
                let error =
                    Error::new(Status::ConnectionLost, "the exchange was not made").at(server);
                self.note(iod, RetryAction::Wait(error));
                return pool_permit.drop_connection(connection, &meta);
            }
        };
        match decode_outcome::<FlushReply>(&answer.body) {
            Ok(Ok(FlushReply { verifier })) => {
                pool_permit.pool().set_verifier(verifier);
                self.done.insert(iod, verifier);
                self.left.remove(&iod);
            }
            Ok(Err(failure)) => self.note(iod, RetryAction::of_refusal(&server, failure)),
            Err(error) => self.note(iod, RetryAction::Fail(Error::malformed_reply(server, error))),
        }
        pool_permit.put_back(Box::new(PooledConnection { connection, meta }));
    }

    fn note(&mut self, iod: IodId, action: RetryAction) {
        if let Some((_, why)) = self.left.get_mut(&iod) {
            *why = Some(action);
        }
    }

    /// Failures that a retry cannot repair are reported at the end, and not retried.
    fn drop_failed(&mut self) {
        let Self { left, failed, .. } = self;
        left.retain(|_, (_, action)| match action {
            Some(RetryAction::Fail(error)) => {
                failed.get_or_insert_with(|| error.clone());
                false
            }
            _ => true,
        });
    }

    /// The action for the remaining daemons; `None` if none is left.
    fn most_severe(&self) -> Option<RetryAction> {
        let actions = self.left.values().filter_map(|(_, action)| action.clone());
        actions.fold(None, |worst, action| Some(action.more_severe(worst)))
    }
}
