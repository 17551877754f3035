//! One attempt: a batch of exchanges with the I/O daemons of a file, all at the same time. Where it changes objects, what
//! is owed to the daemon is abandoned before.

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
    iod_error::Remedy,
    open_file::Grant,
    pool::{Lease, Meta, Pooled},
};
use crate::error::Error;

/// One exchange to be made.
pub(crate) struct IodCall<'a> {
    /// Ordinal of the daemon in the file's targets.
    pub(crate) target: usize,
    pub(crate) body: Body<'a>,
    pub(crate) send: Vec<IoSlice<'a>>,
    pub(crate) recv: Vec<IoSliceMut<'a>>,
}

impl<'a> IodCall<'a> {
    /// Without payload.
    pub(crate) fn plain(target: usize, body: Body<'a>) -> Self {
        Self { target, body, send: Vec::new(), recv: Vec::new() }
    }
}

/// The connections of one batch, in the order of their daemons, which is the same for all tasks of a collective request. A task may
/// await its answers one daemon after the other, and a daemon that waits for that task's window keeps the others of the round waiting
/// ([`Driver::exchange`]). So whoever waits at a daemon waits for tasks that are at an earlier round or daemon, or at the same: never
/// in a circle.
struct Connections<'p, D: Driver> {
    targets: Vec<usize>,
    leases: Vec<Lease<'p, D>>,
    connections: Vec<D::Connection>,
    metas: Vec<Meta>,
}

impl<D: Driver> OpenFile<D> {
    /// Makes the exchanges. One outcome for each, in order, and how much of the time was no daemon's silence ([`Engine::moved`]); an
    /// error when a connection did not come about.
    pub(crate) async fn batch(
        &self,
        grant: &Arc<Grant<D>>,
        calls: Vec<IodCall<'_>>,
        deadline: Duration,
    ) -> Result<(Vec<Result<Answer, Remedy>>, Duration), Remedy> {
        if grant.has_removed() {
            return self.batch_of_rest(grant, calls, deadline).await;
        }
        self.exchange_batch(grant, calls, deadline).await
    }

    /// As [`OpenFile::batch`], with daemons of which none is known to be out of the cluster.
    pub(crate) async fn exchange_batch(
        &self,
        grant: &Arc<Grant<D>>,
        calls: Vec<IodCall<'_>>,
        deadline: Duration,
    ) -> Result<(Vec<Result<Answer, Remedy>>, Duration), Remedy> {
        let mut used = self.connections(grant, &calls, deadline).await?;
        used.make_ready(self.engine(), grant, &calls, deadline).await?;
        let targets: Vec<usize> = calls.iter().map(|call| call.target).collect();
        let mut batch = used.exchanges(grant, calls);
        let (begun, silence_max) = (self.engine().driver().now(), self.engine().silence(deadline));
        debug_assert!(
            used.targets.is_sorted_by(|one, next| one < next),
            "one order of the daemons for all tasks"
        );
        self.engine().driver().exchange(&mut used.connections, &mut batch, silence_max).await;
        let moved = self.engine().moved(begun, silence_max);
        let mut broken = vec![false; used.connections.len()];
        let outcomes = batch.into_iter().zip(targets).map(|(exchange, target)| {
            let at = exchange.connection;
            let outcome = outcome_of(exchange, grant, target);
            if matches!(outcome, Err((_, Lost(true)))) {
                broken[at] = true;
            } else if outcome.is_err() {
                used.metas[at].presented.remove(&grant.handle);
            }
            outcome.map_err(|(remedy, _)| remedy)
        });
        let outcomes = outcomes.collect();
        used.end(|at| broken[at]);
        Ok((outcomes, moved))
    }

    /// Takes one connection for each daemon of the calls: in the order of the daemons, so that two calls that
    /// want the same ones never wait for each other.
    async fn connections<'p>(
        &'p self,
        grant: &'p Arc<Grant<D>>,
        calls: &[IodCall<'_>],
        deadline: Duration,
    ) -> Result<Connections<'p, D>, Remedy> {
        let mut targets: Vec<usize> = calls.iter().map(|call| call.target).collect();
        targets.sort_unstable();
        targets.dedup();
        let count = targets.len();
        let mut used = Connections {
            leases: Vec::with_capacity(count),
            connections: Vec::with_capacity(count),
            metas: Vec::with_capacity(count),
            targets,
        };
        let apart = calls.iter().any(|call| call.body.is_collective());
        for at in 0..count {
            let pool = &grant.pools[used.targets[at]];
            let taken = match apart {
                true => pool.checkout_apart(self.engine(), deadline).await,
                false => pool.checkout(self.engine(), deadline).await,
            };
            match taken {
                Ok((lease, pooled)) => {
                    let Pooled { connection, meta } = *pooled;
                    used.leases.push(lease);
                    used.connections.push(connection);
                    used.metas.push(meta);
                }
                Err(error) => {
                    used.end(|_| false);
                    return Err(Remedy::of_connect(error));
                }
            }
        }
        Ok(used)
    }
}

impl<D: Driver> Connections<'_, D> {
    fn exchanges<'a>(&mut self, grant: &Grant<D>, calls: Vec<IodCall<'a>>) -> Vec<Exchange<'a>> {
        let exchange = |call: IodCall<'a>| {
            let connection = self.targets.binary_search(&call.target).unwrap_or_default();
            // The first exchange of a connection presents the capability; the daemon takes them in order.
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

    /// Makes the connections ready for these calls: where one changes objects, its daemon has abandoned what is owed to
    /// it. After a failure all have gone back.
    async fn make_ready(
        &mut self,
        engine: &Arc<Engine<D>>,
        grant: &Grant<D>,
        calls: &[IodCall<'_>],
        deadline: Duration,
    ) -> Result<(), Remedy> {
        while self.changing(calls).any(|at| !self.leases[at].pool().owed.is_empty()) {
            self.abandon_owed(engine, grant, calls, engine.silence(deadline)).await?;
        }
        for at in 0..self.metas.len() {
            self.metas[at].unsettled = changes(calls, self.targets[at]);
        }
        Ok(())
    }

    /// The connections that carry a call which changes objects.
    fn changing(&self, calls: &[IodCall<'_>]) -> impl Iterator<Item = usize> {
        let targets = self.targets.iter().enumerate();
        targets.filter(|(_, target)| changes(calls, **target)).map(|(at, _)| at)
    }

    async fn abandon_owed(
        &mut self,
        engine: &Arc<Engine<D>>,
        grant: &Grant<D>,
        calls: &[IodCall<'_>],
        silence_max: Duration,
    ) -> Result<(), Remedy> {
        let owed = |at: usize| (at, self.leases[at].pool().owed.of(self.metas[at].session));
        let owed: Vec<_> =
            self.changing(calls).map(owed).filter(|(_, ids)| !ids.is_empty()).collect();
        let exchange = |(connection, connections): &(usize, Vec<ConnectionId>)| {
            let body = Abandon { connections: connections.clone() }.to_bytes();
            let (connection, op) = (*connection, Abandon::OP);
            Exchange { connection, op, body, send: Vec::new(), recv: Vec::new(), outcome: None }
        };
        let mut batch: Vec<Exchange<'_>> = owed.iter().map(exchange).collect();
        engine.driver().exchange(&mut self.connections, &mut batch, silence_max).await;
        let (mut broken, mut failed) = (vec![false; self.connections.len()], None);
        for (exchange, (at, ids)) in batch.into_iter().zip(owed) {
            match outcome_of(exchange, grant, self.targets[at]) {
                Ok(_) => self.leases[at].pool().owed.settle(&ids),
                Err((remedy, Lost(lost))) => {
                    broken[at] = lost;
                    failed = Some(remedy.graver(failed));
                }
            }
        }
        match failed {
            Some(remedy) => {
                self.part(|at| broken[at]);
                Err(remedy)
            }
            None => Ok(()),
        }
    }

    /// The connections go back into their pools, but for those that are broken.
    fn end(mut self, broken: impl Fn(usize) -> bool) {
        self.part(broken);
    }

    fn part(&mut self, broken: impl Fn(usize) -> bool) {
        let pooled = self.connections.drain(..).zip(self.metas.drain(..));
        for (at, (lease, (connection, meta))) in self.leases.drain(..).zip(pooled).enumerate() {
            if broken(at) {
                lease.give_up(connection, &meta);
            } else {
                lease.give_back(Box::new(Pooled {
                    connection,
                    meta: Meta { unsettled: false, ..meta },
                }));
            }
        }
    }
}

impl<D: Driver> Drop for Connections<'_, D> {
    /// A caller that goes away in the middle leaves connections whose calls it knows nothing about.
    fn drop(&mut self) {
        self.part(|_| true);
    }
}

/// Whether one of the calls changes objects of the daemon.
fn changes(calls: &[IodCall<'_>], target: usize) -> bool {
    calls.iter().any(|call| call.target == target && call.body.changes())
}

/// Whether the connection is not to be used again.
struct Lost(bool);

fn outcome_of<D: Driver>(
    exchange: Exchange<'_>,
    grant: &Grant<D>,
    target: usize,
) -> Result<Answer, (Remedy, Lost)> {
    let server = || grant.pools[target].server();
    match exchange.outcome {
        Some(Ok(answer)) => match failure_of(&answer.body) {
            Ok(None) => Ok(answer),
            Ok(Some(failure)) => Err((Remedy::of_refusal(&server(), failure), Lost(false))),
            Err(error) => Err((Remedy::Fail(Error::broken(server(), error)), Lost(true))),
        },
        Some(Err(error)) => {
            let lost = Lost(!matches!(error, NetError::NotAsked { .. }));
            Err((Remedy::of_loss(Error::from(error).at(server())), lost))
        }
        None => {
            let error =
                Error::new(Status::ConnectionLost, "the exchange was not made").at(server());
            Err((Remedy::Wait(error), Lost(true)))
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
