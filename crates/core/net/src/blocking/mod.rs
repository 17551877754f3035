//! The blocking driver: the calling thread itself sends, and receives into the caller's buffers.
//!
//! Its futures do all their work when they are first polled, and are ready then. [`block_on`]
//! suffices to run them.

mod call_deadline;
mod clock;
pub(crate) mod connect;
mod exchange;
mod exchange_queue;
mod idle_time;
mod resolve;
mod shared_connection;
#[cfg(test)]
mod silent_tests;
mod splice_exchange;

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use braid_types::ConnectionId;
pub use call_deadline::{CallDeadline, CallDeadlineHandle};
pub use exchange_queue::Connection;
pub use shared_connection::SharedConnection;

use crate::{
    driver::{Answer, CallTimeLimit, Driver, Endpoint, Exchange, NetError},
    incast::ReceiveLimiter,
    pipe::Pipe,
};

/// The blocking driver; see the module.
#[derive(Clone, Debug)]
pub struct Blocking {
    /// On the clock of [`clock::since_boot`].
    start: Duration,
    /// Incast control of all connections of this driver.
    intake: Arc<ReceiveLimiter>,
}

impl Blocking {
    /// A driver whose clock starts now.
    pub fn new() -> Self {
        Self { start: clock::since_boot(), intake: Arc::new(ReceiveLimiter::new()) }
    }

    fn instant(&self, deadline: Duration) -> Instant {
        end_of(Instant::now(), deadline.saturating_sub(self.now()))
    }
}

/// The end of a wait of `time` that begins at `begin`.
fn end_of(begin: Instant, time: Duration) -> Instant {
    begin.checked_add(time).unwrap_or_else(|| begin + FAR_AWAY)
}

/// Replaces deadlines beyond the range of the system's clock.
const FAR_AWAY: Duration = Duration::from_secs(365 * 24 * 3600);

impl Default for Blocking {
    fn default() -> Self {
        Self::new()
    }
}

impl Driver for Blocking {
    type Connection = Connection;
    type Shared = SharedConnection;

    async fn connect(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> Result<Connection, NetError> {
        connect::connect(endpoint, self.instant(deadline)).map(Connection::new)
    }

    async fn connect_shared(
        &self,
        endpoint: &Endpoint,
        deadline: Duration,
    ) -> Result<SharedConnection, NetError> {
        connect::connect(endpoint, self.instant(deadline)).map(SharedConnection::new)
    }

    fn connection_id(connection: &Connection) -> ConnectionId {
        connection.id
    }

    async fn exchange(
        &self,
        connections: &mut [Connection],
        batch: &mut [Exchange<'_>],
        silence_max: Duration,
    ) {
        exchange::exchange(&self.intake, connections, batch, silence_max);
    }

    async fn exchange_into_pipe(
        &self,
        connection: &mut Connection,
        (op, body): (u16, &[u8]),
        (pipe, buffer): (&mut Pipe, &mut [u8]),
        silence_max: Duration,
    ) -> Option<Result<Answer, NetError>> {
        splice_exchange::exchange(&self.intake, connection, (op, body), (pipe, buffer), silence_max)
    }

    async fn call(
        &self,
        connection: &SharedConnection,
        op: u16,
        body: &[u8],
        deadline: Duration,
    ) -> Result<Answer, NetError> {
        connection.call(op, body, self.instant(deadline))
    }

    fn now(&self) -> Duration {
        clock::since_boot().saturating_sub(self.start)
    }

    fn call_deadline(&self) -> Option<CallTimeLimit> {
        let of_driver = |limit: CallTimeLimit| CallTimeLimit {
            until: limit.until.saturating_sub(self.start),
            ..limit
        };
        call_deadline::current().map(of_driver)
    }

    fn extend_call_deadline(&self, until: Duration) {
        call_deadline::extend(self.start.saturating_add(until));
    }

    fn blame(&self, server: &str) {
        CallDeadline::blame(server);
    }

    fn blamed(&self) -> Option<String> {
        call_deadline::blamed()
    }

    async fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// Runs a future that is ready when first polled, as every future that awaits only [`Blocking`].
///
/// # Panics
/// When the future is not ready.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => {
            panic!("a future of the blocking driver waits for something that is not of the driver")
        }
    }
}
