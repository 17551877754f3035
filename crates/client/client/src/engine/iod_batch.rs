//! One attempt: a batch of exchanges with the I/O daemons of a file, all at the same time. Before a
//! call that changes objects, the daemon abandons the writes of dropped connections.

use std::{
    io::{IoSlice, IoSliceMut},
    sync::Arc,
    time::Duration,
};

use braid_net::{Answer, Driver, Exchange, NetError};
use braid_types::{ConnectionId, Failure, Status};
use braid_wire::{Call, Decoder, Wire, WireError, decode_outcome, message::iod::Abandon};

use super::{
    Engine, OpenFile,
    iod_body::Body,
    iod_error::RetryAction,
    open_file::FileState,
    pool::{ConnectionMeta, PoolPermit, PooledConnection},
};
use crate::error::Error;

/// One exchange.
pub(crate) struct IodCall<'a> {
    /// Index of the daemon in the file's targets.
    pub(crate) target: usize,
    pub(crate) body: Body<'a>,
    pub(crate) send: Vec<IoSlice<'a>>,
    pub(crate) recv: Vec<IoSliceMut<'a>>,
}

impl<'a> IodCall<'a> {
    /// A call without payload.
    pub(crate) fn without_payload(target: usize, body: Body<'a>) -> Self {
        Self { target, body, send: Vec::new(), recv: Vec::new() }
    }
}

/// The connections of one batch, in the order of their daemons, which is the same for all tasks of
/// a collective request. A task may receive replies from one daemon after the other. A daemon that
/// waits for a window of this task delays the other tasks of the round ([`Driver::exchange`]). With
/// the common order, a task that waits at a daemon waits only for tasks at an earlier or the same
/// round and daemon. So no cycle of waits is possible.
struct Connections<'p, D: Driver> {
    targets: Vec<usize>,
    permits: Vec<PoolPermit<'p, D>>,
    connections: Vec<D::Connection>,
    metas: Vec<ConnectionMeta>,
}

impl<D: Driver> OpenFile<D> {
    /// Makes the exchanges. Returns one outcome for each, in order, and how long daemons were
    /// active ([`Engine::moved`]). Fails if a connection could not be made.
    pub(crate) async fn batch(
        &self,
        grant: &Arc<FileState<D>>,
        calls: Vec<IodCall<'_>>,
        deadline: Duration,
    ) -> Result<(Vec<Result<Answer, RetryAction>>, Duration), RetryAction> {
        if grant.has_removed() {
            return self.batch_with_removed(grant, calls, deadline).await;
        }
        self.exchange_batch(grant, calls, deadline).await
    }

    /// As [`OpenFile::batch`], if no daemon is known to be removed.
    pub(crate) async fn exchange_batch(
        &self,
        grant: &Arc<FileState<D>>,
        calls: Vec<IodCall<'_>>,
        deadline: Duration,
    ) -> Result<(Vec<Result<Answer, RetryAction>>, Duration), RetryAction> {
        let mut used = self.connections(grant, &calls, deadline).await?;
        used.make_ready(self.engine(), grant, &calls, deadline).await?;
        let targets: Vec<usize> = calls.iter().map(|call| call.target).collect();
        let mut batch = used.exchanges(grant, calls);
        let (begun, silence_max) =
            (self.engine().driver().now(), self.engine().attempt_timeout(deadline));
        debug_assert!(
            used.targets.is_sorted_by(|one, next| one < next),
            "one order of the daemons for all tasks"
        );
        self.engine().driver().exchange(&mut used.connections, &mut batch, silence_max).await;
        let moved = self.engine().active_time(begun, silence_max);
        let mut broken = vec![false; used.connections.len()];
        let outcomes = batch.into_iter().zip(targets).map(|(exchange, target)| {
            let at = exchange.connection;
            let outcome = outcome_of(exchange, grant, target);
            if matches!(outcome, Err((_, ConnectionBroken(true)))) {
                broken[at] = true;
            } else if outcome.is_err() {
                used.metas[at].presented.remove(&grant.handle);
            }
            outcome.map_err(|(action, _)| action)
        });
        let outcomes = outcomes.collect();
        used.end(|at| broken[at]);
        Ok((outcomes, moved))
    }

    /// Takes one connection for each daemon of the calls. Always in the order of the daemons, so
    /// that two calls never wait for each other.
    async fn connections<'p>(
        &'p self,
        grant: &'p Arc<FileState<D>>,
        calls: &[IodCall<'_>],
        deadline: Duration,
    ) -> Result<Connections<'p, D>, RetryAction> {
        let mut targets: Vec<usize> = calls.iter().map(|call| call.target).collect();
        targets.sort_unstable();
        targets.dedup();
        let count = targets.len();
        let mut used = Connections {
            permits: Vec::with_capacity(count),
            connections: Vec::with_capacity(count),
            metas: Vec::with_capacity(count),
            targets,
        };
        let apart = calls.iter().any(|call| call.body.is_collective());
        for at in 0..count {
            let pool = &grant.pools[used.targets[at]];
            let taken = match apart {
                true => pool.checkout_extra(self.engine(), deadline).await,
                false => pool.checkout(self.engine(), deadline).await,
            };
            match taken {
                Ok((pool_permit, pooled)) => {
                    let PooledConnection { connection, meta } = *pooled;
                    used.permits.push(pool_permit);
                    used.connections.push(connection);
                    used.metas.push(meta);
                }
                Err(error) => {
                    used.end(|_| false);
                    return Err(RetryAction::of_connect(error));
                }
            }
        }
        Ok(used)
    }
}

impl<D: Driver> Connections<'_, D> {
    fn exchanges<'a>(
        &mut self,
        grant: &FileState<D>,
        calls: Vec<IodCall<'a>>,
    ) -> Vec<Exchange<'a>> {
        let exchange = |call: IodCall<'a>| {
            let connection = self.targets.binary_search(&call.target).unwrap_or_default();
            // The first exchange on a connection presents the capability; the daemon executes them
            // in order.
            let is_new = self.metas[connection].presented.insert(grant.handle);
            let present = if is_new { &grant.capability[..] } else { &[] };
            let body = call.body.encode(grant.handle, present);
            Exchange {
                connection,
                op: call.body.op(),
                body,
                send: call.send,
                recv: call.recv,
                outcome: None,
            }
        };
        calls.into_iter().map(exchange).collect()
    }

    /// Prepares the connections for these calls. Where a call changes objects, its daemon first
    /// abandons the writes of dropped connections. After a failure all connections have been put
    /// back.
    async fn make_ready(
        &mut self,
        engine: &Arc<Engine<D>>,
        grant: &FileState<D>,
        calls: &[IodCall<'_>],
        deadline: Duration,
    ) -> Result<(), RetryAction> {
        while self.changing(calls).any(|at| !self.permits[at].pool().abandoned.is_empty()) {
            self.send_abandons(engine, grant, calls, engine.attempt_timeout(deadline)).await?;
        }
        for at in 0..self.metas.len() {
            self.metas[at].has_unanswered_change = changes(calls, self.targets[at]);
        }
        Ok(())
    }

    /// The connections that carry a call that changes objects.
    fn changing(&self, calls: &[IodCall<'_>]) -> impl Iterator<Item = usize> {
        let targets = self.targets.iter().enumerate();
        targets.filter(|(_, target)| changes(calls, **target)).map(|(at, _)| at)
    }

    async fn send_abandons(
        &mut self,
        engine: &Arc<Engine<D>>,
        grant: &FileState<D>,
        calls: &[IodCall<'_>],
        silence_max: Duration,
    ) -> Result<(), RetryAction> {
        let abandoned =
            |at: usize| (at, self.permits[at].pool().abandoned.in_session(self.metas[at].session));
        let abandoned: Vec<_> =
            self.changing(calls).map(abandoned).filter(|(_, ids)| !ids.is_empty()).collect();
        let exchange = |(connection, connections): &(usize, Vec<ConnectionId>)| {
            let body = Abandon { connections: connections.clone() }.to_bytes();
            let (connection, op) = (*connection, Abandon::OP);
            Exchange { connection, op, body, send: Vec::new(), recv: Vec::new(), outcome: None }
        };
        let mut batch: Vec<Exchange<'_>> = abandoned.iter().map(exchange).collect();
        engine.driver().exchange(&mut self.connections, &mut batch, silence_max).await;
        let (mut broken, mut failed) = (vec![false; self.connections.len()], None);
        for (exchange, (at, ids)) in batch.into_iter().zip(abandoned) {
            match outcome_of(exchange, grant, self.targets[at]) {
                Ok(_) => self.permits[at].pool().abandoned.remove(&ids),
                Err((action, ConnectionBroken(lost))) => {
                    broken[at] = lost;
                    failed = Some(action.more_severe(failed));
                }
            }
        }
        match failed {
            Some(action) => {
                self.put_back_all(|at| broken[at]);
                Err(action)
            }
            None => Ok(()),
        }
    }

    /// Puts the connections back into their pools, except the broken ones.
    fn end(mut self, broken: impl Fn(usize) -> bool) {
        self.put_back_all(broken);
    }

    fn put_back_all(&mut self, broken: impl Fn(usize) -> bool) {
        let pooled = self.connections.drain(..).zip(self.metas.drain(..));
        for (at, (pool_permit, (connection, meta))) in
            self.permits.drain(..).zip(pooled).enumerate()
        {
            if broken(at) {
                pool_permit.drop_connection(connection, &meta);
            } else {
                pool_permit.put_back(Box::new(PooledConnection {
                    connection,
                    meta: ConnectionMeta { has_unanswered_change: false, ..meta },
                }));
            }
        }
    }
}

impl<D: Driver> Drop for Connections<'_, D> {
    /// A future dropped in the middle leaves connections with calls in an unknown state.
    fn drop(&mut self) {
        self.put_back_all(|_| true);
    }
}

/// Whether one of the calls changes objects of this daemon.
fn changes(calls: &[IodCall<'_>], target: usize) -> bool {
    calls.iter().any(|call| call.target == target && call.body.changes_objects())
}

/// Whether the connection must not be used again.
struct ConnectionBroken(bool);

fn outcome_of<D: Driver>(
    exchange: Exchange<'_>,
    grant: &FileState<D>,
    target: usize,
) -> Result<Answer, (RetryAction, ConnectionBroken)> {
    let server = || grant.pools[target].server_name();
    match exchange.outcome {
        Some(Ok(answer)) => match failure_of(&answer.body) {
            Ok(None) => Ok(answer),
            Ok(Some(failure)) => {
                Err((RetryAction::of_refusal(&server(), failure), ConnectionBroken(false)))
            }
            Err(error) => Err((
                RetryAction::Fail(Error::malformed_reply(server(), error)),
                ConnectionBroken(true),
            )),
        },
        Some(Err(error)) => {
            let lost = ConnectionBroken(!matches!(error, NetError::NotSent { .. }));
            Err((RetryAction::of_loss(Error::from(error).at(server())), lost))
        }
        None => {
            let error =
                Error::new(Status::ConnectionLost, "the exchange was not made").at(server());
            Err((RetryAction::Wait(error), ConnectionBroken(true)))
        }
    }
}

/// The failure in the body of a final frame; `None` for success.
fn failure_of(body: &[u8]) -> Result<Option<Failure>, WireError> {
    match Status::decode(&mut Decoder::new(body))? {
        Status::Ok => Ok(None),
        _ => decode_outcome::<()>(body).map(Result::err),
    }
}
