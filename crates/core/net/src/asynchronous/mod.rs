//! The tokio driver: a task for each connection moves the bytes; callers wait for their answers.
//!
//! ```text
//!   caller --Command (bounded channel)--> task: socket, TLS, calls in flight --oneshot--> caller
//! ```
//!
//! Payload is copied once in each direction, between the caller's buffers and the task's, unless
//! the caller takes the task's buffer ([`Driver::exchange_to_vec`]). That makes every future
//! cancel-safe: a dropped call leaves no borrowed memory behind, its reply is received and
//! discarded, and the connection stays usable.

mod connection_handle;
mod task;

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    net::TcpStream,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use braid_types::ConnectionId;
use braid_wire::{Call, message::iod::JoinRead};
use tokio::time::{Instant, sleep, timeout_at};

use self::connection_handle::{ConnectionHandle, Reply};
use crate::{
    blocking::connect::{self, Connected},
    driver::{Answer, Driver, Endpoint, Exchange, NetError},
    incast::{BOUNDED_BYTES_MIN, ReceiveLimiter, ReceiveProgress, ReceiveStats},
    tcp::ReceiveWindow,
};

/// The tokio driver; see the module. Call its methods within a tokio runtime that has time and I/O
/// enabled.
#[derive(Clone, Debug)]
pub struct Tokio {
    start: Instant,
    /// Incast control of all connections of this driver.
    intake: Arc<ReceiveLimiter>,
}

/// The end of a wait of `time` that begins at `begin`.
fn end_of(begin: Instant, time: Duration) -> Instant {
    begin.checked_add(time).unwrap_or_else(|| Instant::now() + Duration::from_secs(365 * 24 * 3600))
}

/// A connection that one batch uses at a time.
#[derive(Debug)]
pub struct TokioConnection {
    link: ConnectionHandle,
    id: ConnectionId,
    /// The receive window set for the peer, with the socket; `None`: the system manages it.
    window: Option<(TcpStream, ReceiveWindow)>,
    /// Why the connection must not be used again.
    broken: Option<NetError>,
}

/// A connection that many callers share.
#[derive(Debug)]
pub struct TokioSharedConnection {
    link: ConnectionHandle,
}

impl Tokio {
    /// A driver whose clock starts now.
    pub fn new() -> Self {
        Self { start: Instant::now(), intake: Arc::new(ReceiveLimiter::new()) }
    }

    fn instant(&self, deadline: Duration) -> Instant {
        end_of(self.start, deadline)
    }

    /// Connects on a thread for blocking work. Connecting is rare and bounded by the deadline, and
    /// this shares the code of the blocking driver.
    async fn open_connection(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> Result<TokioConnection, NetError> {
        let (name, endpoint, begin) = (endpoint.name(), endpoint.clone(), Instant::now());
        let by =
            std::time::Instant::now() + self.instant(deadline).saturating_duration_since(begin);
        let connected = tokio::task::spawn_blocking(move || connect::connect(&endpoint, by)).await;
        let lost = |why: String| NetError::ConnectionLost { server: name.clone(), why };
        let Connected { server, transport, established } =
            connected.map_err(|error| lost(error.to_string()))??;
        let window = ReceiveWindow::for_connection(&transport)
            .and_then(|window| Some((transport.socket().try_clone().ok()?, window)));
        let link = ConnectionHandle::new(server, transport, established.credits)
            .map_err(|error| lost(error.to_string()))?;
        Ok(TokioConnection { link, id: established.connection, window, broken: None })
    }
}

impl TokioConnection {
    fn is_limited(&self, answer_bytes: u64) -> bool {
        self.window.is_some() && answer_bytes >= BOUNDED_BYTES_MIN
    }
}

impl Default for Tokio {
    fn default() -> Self {
        Self::new()
    }
}

impl Driver for Tokio {
    type Connection = TokioConnection;
    type Shared = TokioSharedConnection;

    async fn connect(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> Result<TokioConnection, NetError> {
        self.open_connection(endpoint, deadline).await
    }

    async fn connect_shared(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> Result<TokioSharedConnection, NetError> {
        Ok(TokioSharedConnection { link: self.open_connection(endpoint, deadline).await?.link })
    }

    fn connection_id(connection: &TokioConnection) -> ConnectionId {
        connection.id
    }

    async fn exchange(
        &self,
        connections: &mut [TokioConnection],
        batch: &mut [Exchange<'_>],
        silence_max: Duration,
    ) {
        let mut by_connection = vec![Vec::new(); connections.len()];
        for (index, exchange) in batch.iter_mut().enumerate() {
            exchange.outcome = None;
            by_connection[exchange.connection].push(index);
        }
        let reply_bytes_max = |exchanges_of_one: &Vec<usize>| {
            exchanges_of_one.iter().map(|index| batch[*index].reply_capacity()).sum()
        };
        let bounded =
            connections.iter().zip(&by_connection).filter(|(connection, exchanges_of_one)| {
                connection.is_limited(reply_bytes_max(exchanges_of_one))
            });
        self.intake.expect_call(bounded.count());
        let mut slots: Vec<_> =
            batch.iter_mut().map(|exchange| Some(Pending::new(exchange))).collect();
        let by_connection = connections
            .iter_mut()
            .zip(by_connection)
            .filter(|(_, exchanges_of_one)| !exchanges_of_one.is_empty());
        let by_connection = by_connection.map(|(connection, exchanges_of_one)| {
            let exchanges =
                exchanges_of_one.into_iter().filter_map(|index| slots[index].take()).collect();
            run_with_permit(&self.intake, connection, exchanges, silence_max)
        });
        all(by_connection.collect()).await;
    }

    async fn exchange_to_vec(
        &self,
        connection: &mut TokioConnection,
        (op, body): (u16, Vec<u8>),
        payload_bytes_max: usize,
        silence_max: Duration,
    ) -> Option<Result<(Answer, Vec<u8>), NetError>> {
        self.intake.expect_call(usize::from(connection.is_limited(payload_bytes_max as u64)));
        let (send, recv) = (Vec::new(), Vec::new());
        let mut exchange = Exchange { connection: 0, op, body, send, recv, outcome: None };
        let mut payload = Vec::new();
        let pending =
            Pending { exchange: &mut exchange, payload_bytes_max, taken: Some(&mut payload) };
        run_with_permit(&self.intake, connection, vec![pending], silence_max).await;
        exchange.outcome.map(|outcome| outcome.map(|answer| (answer, payload)))
    }

    async fn call(
        &self,
        connection: &TokioSharedConnection,
        op: u16,
        body: &[u8],
        deadline: Duration,
    ) -> Result<Answer, NetError> {
        let (begin, link) = (Instant::now(), &connection.link);
        let answer =
            async { link.begin(op, body).await?.await.unwrap_or_else(|_| Err(link.ended())) };
        match timeout_at(self.instant(deadline), answer).await {
            Ok(reply) => reply.map(|reply| reply.scatter(&mut [])),
            Err(_) => Err(link.timed_out(begin.elapsed(), Duration::ZERO)),
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, time: Duration) {
        sleep(time).await;
    }
}

/// An exchange, and where its payload goes.
struct Pending<'a, 'b> {
    exchange: &'a mut Exchange<'b>,
    payload_bytes_max: usize,
    /// Takes the payload as it was received; without it, it is copied to [`Exchange::recv`].
    taken: Option<&'a mut Vec<u8>>,
}

impl<'a, 'b> Pending<'a, 'b> {
    fn new(exchange: &'a mut Exchange<'b>) -> Self {
        let payload_bytes_max = exchange.recv.iter().map(|slice| slice.len()).sum();
        Self { exchange, payload_bytes_max, taken: None }
    }

    fn finish(&mut self, outcome: Result<Reply, NetError>) {
        self.exchange.outcome = Some(outcome.map(|reply| match &mut self.taken {
            Some(taken) => {
                let payload_bytes = reply.payload.len() as u64;
                **taken = reply.payload;
                if taken.capacity() > 2 * taken.len() {
                    // A short reply: the caller may keep it for long.
                    taken.shrink_to_fit();
                }
                Answer { body: reply.body, payload_bytes }
            }
            None => reply.scatter(&mut self.exchange.recv),
        }));
    }
}

/// Runs the exchanges of one connection, after waiting for a permit if it needs one.
async fn run_with_permit(
    intake: &Arc<ReceiveLimiter>,
    connection: &mut TokioConnection,
    mut exchanges: Vec<Pending<'_, '_>>,
    silence_max: Duration,
) {
    let begin = Instant::now();
    let reply_bytes_max = exchanges.iter().map(|pending| pending.payload_bytes_max as u64).sum();
    if !connection.is_limited(reply_bytes_max) {
        return run_exchanges(connection, &mut exchanges, None, (silence_max, Duration::ZERO))
            .await;
    }
    let permit = if exchanges.iter().any(|pending| pending.exchange.op == JoinRead::OP) {
        Some(intake.acquire_now(1))
    } else {
        intake.acquire_async(1, silence_max).await
    };
    let Some(permit) = permit else {
        let error =
            connection.broken.clone().unwrap_or_else(|| connection.link.not_sent(silence_max));
        return exchanges.iter_mut().for_each(|pending| pending.finish(Err(error.clone())));
    };
    if let Some((socket, window)) = &mut connection.window {
        window.begin(socket, permit.window_share());
    }
    run_exchanges(
        connection,
        &mut exchanges,
        Some(permit.progress()),
        (silence_max, begin.elapsed()),
    )
    .await;
    let mut received = ReceiveStats::default();
    if let Some((socket, window)) = &mut connection.window {
        window.end(socket, &mut received);
    }
    permit.finish(received);
}

/// Runs the exchanges of one connection. It sends them to the task in order as far as the window
/// allows, and takes the answers in order.
async fn run_exchanges(
    connection: &mut TokioConnection,
    exchanges: &mut [Pending<'_, '_>],
    progress: Option<ReceiveProgress>,
    (silence_max, unasked): (Duration, Duration),
) {
    let (begin, link) = (Instant::now(), &connection.link);
    let mut failed = connection.broken.clone();
    let mut waiting = VecDeque::new();
    let mut begun = 0;
    for done in 0..exchanges.len() {
        let outcome = match &failed {
            Some(error) => Err(error.clone()),
            None => {
                let ahead = async {
                    loop {
                        while begun < exchanges.len() {
                            let Pending { exchange, payload_bytes_max, .. } = &exchanges[begun];
                            let begin_next =
                                link.begin_exchange(exchange, *payload_bytes_max, progress.clone());
                            let Some(oldest) = waiting.front_mut() else {
                                waiting.push_back(begin_next.await?);
                                begun += 1;
                                continue;
                            };
                            tokio::select! {
                                biased;
                                next = begin_next => waiting.push_back(next?),
                                reply = oldest => {
                                    return reply.unwrap_or_else(|_| Err(link.ended()));
                                }
                            }
                            begun += 1;
                        }
                        if let Some(oldest) = waiting.front_mut() {
                            return oldest.await.unwrap_or_else(|_| Err(link.ended()));
                        }
                    }
                };
                let reply = in_time(link, begin, (silence_max, unasked), ahead).await;
                waiting.pop_front();
                reply
            }
        };
        failed = outcome.as_ref().err().cloned();
        exchanges[done].finish(outcome);
    }
    connection.broken = failed;
}

/// The result of `work`, unless the connection moves no byte for `silence_max`, counted from
/// `begin` at the earliest.
async fn in_time<T>(
    link: &ConnectionHandle,
    begin: Instant,
    (silence_max, unasked): (Duration, Duration),
    work: impl Future<Output = Result<T, NetError>>,
) -> Result<T, NetError> {
    let mut work = pin!(work);
    loop {
        let since = link.last_progress().max(begin);
        if let Ok(outcome) = timeout_at(end_of(since, silence_max), &mut work).await {
            return outcome;
        }
        if link.last_progress() <= since {
            return Err(link.timed_out(since.elapsed(), unasked));
        }
    }
}

/// Polls every future until all are done.
async fn all<F: Future<Output = ()>>(futures: Vec<F>) {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
