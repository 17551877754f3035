//! Incast control: limits what a host receives on one link from all its peers together.
//!
//! [`in_flight_limit`] adapts the number of bytes that may be in flight. [`receive_permits`]
//! decides which connections receive now. The peers of a client are the servers that it calls; the
//! peers of a server are the clients that write to it.
//!
//! A permit counts *connections*: each is one connection in one call. Payloads below
//! [`BOUNDED_BYTES_MIN`], and connections on loopback, need no permit.

mod in_flight_limit;
mod min_rtt;
mod receive_permits;

use std::{
    collections::{HashMap, hash_map::Entry},
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

use self::{
    in_flight_limit::{InFlightLimit, PathSample, ReceiveMark},
    min_rtt::MinRtt,
    receive_permits::{PermitReply, ReceivePermits},
};

/// Smaller payloads fit any queue; to account for them would cost more than it gains.
pub(crate) const BOUNDED_BYTES_MIN: u64 = 16 * 1024;

/// The receive permits and the limit of one link; see the module.
#[derive(Debug)]
pub(crate) struct ReceiveLimiter {
    start: Instant,
    /// Total bytes received under permits.
    received: AtomicU64,
    state: Mutex<LimiterState>,
}

#[derive(Debug)]
struct LimiterState {
    limit: InFlightLimit,
    min_rtt: MinRtt,
    permits: ReceivePermits,
    role: LimiterRole,
    /// How many connections receive from each server. New calls begin with the least used servers.
    receiving_from: HashMap<SocketAddr, usize>,
}

/// The side of the connections that this host has.
#[derive(Debug)]
enum LimiterRole {
    /// A client: the recent maximum of connections in one call, and when it was reached.
    Client(usize, Duration),
    /// A server that receives from clients.
    Server,
}

/// The maximum number of connections in a call counts for this long.
const RECENT: Duration = Duration::from_secs(1);

/// Interval at which a waiting call checks the link and does its other work. It is short enough for
/// a server whose answer fills a socket buffer in the meantime: that server gives up after
/// [`server::ServerConfig::stall_timeout`](crate::server::ServerConfig).
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum interval between polls.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// The right of one call's connections to receive now. Dropping it releases them.
#[derive(Debug)]
pub(crate) struct ReceivePermit {
    intake: Arc<ReceiveLimiter>,
    id: u64,
    /// Connections that still hold the permit.
    connections: usize,
    begun: ReceiveMark,
    /// Receive window of each connection; `None`: no limit.
    share: Option<u32>,
    received: Arc<AtomicU64>,
    /// The servers of the connections that were chosen to receive.
    servers: Vec<SocketAddr>,
}

/// A call that waits for a permit.
#[derive(Debug)]
pub(crate) struct PermitWait<'i> {
    intake: &'i Arc<ReceiveLimiter>,
    wanted: usize,
    ticket: Option<u64>,
}

/// How long no connection of this host has received anything. A call that waits for a permit while
/// others receive does not wait for a server (I8).
struct LinkIdleTime<'i> {
    intake: &'i ReceiveLimiter,
    max: Duration,
    seen: u64,
    since: Instant,
}

/// What a permit's connections observed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ReceiveStats {
    /// Segments that arrived out of order.
    pub(crate) out_of_order: u32,
    /// The minimum RTT that each connection saw, with its host.
    pub(crate) round_trips: Vec<(IpAddr, Duration)>,
}

/// Reports received bytes to a permit.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveProgress {
    of_permit: Arc<AtomicU64>,
    intake: Arc<ReceiveLimiter>,
}

impl ReceiveProgress {
    pub(crate) fn add(&self, bytes: usize) {
        for counter in [&*self.of_permit, &self.intake.received] {
            counter.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

impl ReceiveLimiter {
    /// For a client.
    pub(crate) fn new() -> Self {
        Self::with_role(LimiterRole::Client(1, Duration::ZERO))
    }

    /// For a server.
    pub(crate) fn for_server() -> Self {
        Self::with_role(LimiterRole::Server)
    }

    fn with_role(calls: LimiterRole) -> Self {
        let state = Mutex::new(LimiterState {
            limit: InFlightLimit::default(),
            min_rtt: MinRtt::default(),
            permits: ReceivePermits::default(),
            role: calls,
            receiving_from: HashMap::new(),
        });
        Self { start: Instant::now(), received: AtomicU64::new(0), state }
    }

    /// Waits for a permit for up to `wanted` connections, at least one. `None` when this host has
    /// received nothing for `silence_max`. While the link works, the call keeps its position in the
    /// queue and runs `meanwhile` every [`POLL_INTERVAL`].
    pub(crate) fn acquire(
        self: &Arc<Self>,
        wanted: usize,
        silence_max: Duration,
        mut meanwhile: impl FnMut(),
    ) -> Option<ReceivePermit> {
        let (mut waiting, mut line) = (self.request(wanted), LinkIdleTime::new(self, silence_max));
        loop {
            let left = line.left();
            if let Some(permit) = waiting.until(Instant::now() + left.unwrap_or_default()) {
                return Some(permit);
            }
            left?;
            meanwhile();
        }
    }

    /// The same for an async task, which does no other work meanwhile.
    pub(crate) async fn acquire_async(
        self: &Arc<Self>,
        wanted: usize,
        silence_max: Duration,
    ) -> Option<ReceivePermit> {
        use tokio::time::{Instant, sleep_until};
        let (mut waiting, mut line) = (self.request(wanted), LinkIdleTime::new(self, silence_max));
        let mut timer = pin!(sleep_until(Instant::now()));
        std::future::poll_fn(|context| {
            loop {
                let look = match waiting.poll(context.waker()) {
                    Ok(permit) => return Poll::Ready(Some(permit)),
                    Err(look) => look,
                };
                let Some(left) = line.left() else { return Poll::Ready(None) };
                timer.as_mut().reset(Instant::now() + look.map_or(left, |look| left.min(look)));
                if timer.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// The same for a thread whose peer gives up at `deadline`, whatever other connections receive.
    pub(crate) fn acquire_until(
        self: &Arc<Self>,
        wanted: usize,
        deadline: Instant,
    ) -> Option<ReceivePermit> {
        self.request(wanted).until(deadline)
    }

    /// Announces a call of this many connections, each of which requests its own permit.
    pub(crate) fn expect_call(&self, connections: usize) {
        if connections < 2 {
            return;
        }
        let (now, mut state) = (self.start.elapsed(), self.state());
        state.permit_count(connections, self.received.load(Ordering::Relaxed), now);
    }

    /// A permit without waiting, for connections whose answers depend on answers to other
    /// connections.
    pub(crate) fn acquire_now(self: &Arc<Self>, connections: usize) -> ReceivePermit {
        let now = self.start.elapsed();
        let mut state = self.state();
        let asked = state.permits.grant_now(connections, now);
        state.make_permit(self, asked, now).unwrap_or_else(|_| unreachable!("it was granted"))
    }

    fn request(self: &Arc<Self>, wanted: usize) -> PermitWait<'_> {
        PermitWait { intake: self, wanted, ticket: None }
    }

    fn state(&self) -> MutexGuard<'_, LimiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl ReceiveLimiter {
    /// A limiter whose clock stands still, so that no server counts as late.
    pub(crate) fn with_frozen_clock() -> Arc<Self> {
        Arc::new(Self { start: Instant::now() + Duration::from_secs(24 * 3600), ..Self::new() })
    }

    /// Total bytes received under permits.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// How many connections may receive now.
    pub(crate) fn permit_count(&self) -> usize {
        self.state().permit_count(1, 0, Duration::ZERO)
    }

    /// Whether no permit is held or waited for.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        state.permits.is_idle() && state.receiving_from.is_empty()
    }
}

impl LimiterState {
    fn release_server(&mut self, server: SocketAddr) {
        if let Entry::Occupied(mut connections) = self.receiving_from.entry(server) {
            *connections.get_mut() -= 1;
            if *connections.get() == 0 {
                connections.remove();
            }
        }
    }

    /// How many connections may receive, for a call of `wanted`. `received` was read under the
    /// lock.
    fn permit_count(&mut self, wanted: usize, received: u64, now: Duration) -> usize {
        self.permits.update_link(received, self.limit.in_flight(), now);
        match &mut self.role {
            LimiterRole::Server => self.limit.server_permits(),
            LimiterRole::Client(widest, seen) => {
                if wanted >= *widest || now.saturating_sub(*seen) > RECENT {
                    (*widest, *seen) = (wanted, now);
                }
                self.limit.client_permits(*widest)
            }
        }
    }

    fn make_permit(
        &mut self,
        intake: &Arc<ReceiveLimiter>,
        asked: PermitReply,
        now: Duration,
    ) -> Result<ReceivePermit, Option<Duration>> {
        match asked {
            PermitReply::Granted { id, connections, received } => {
                let share = self.limit.start_receiving(connections, now);
                let begun =
                    ReceiveMark { at: now, received: intake.received.load(Ordering::Relaxed) };
                Ok(ReceivePermit {
                    intake: Arc::clone(intake),
                    id,
                    connections,
                    begun,
                    share,
                    received,
                    servers: Vec::new(),
                })
            }
            PermitReply::NotYet(look) => Err(look),
        }
    }
}

impl PermitWait<'_> {
    /// The permit, if it is granted before `deadline`. The position in the queue is kept.
    fn until(&mut self, deadline: Instant) -> Option<ReceivePermit> {
        let mut waker = Waker::noop().clone();
        let mut look = Duration::ZERO; // polls once more with a real waker before the thread sleeps
        loop {
            match self.poll(&waker) {
                Ok(permit) => return Some(permit),
                Err(_) if waker.will_wake(Waker::noop()) => {
                    waker = Arc::new(ThreadWaker(thread::current())).into()
                }
                Err(next) => look = next.unwrap_or(Duration::MAX),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            if !look.is_zero() {
                thread::park_timeout(look.min(left));
            }
        }
    }

    /// The permit, or the time after which to poll again even if the waker is not woken.
    fn poll(&mut self, waker: &Waker) -> Result<ReceivePermit, Option<Duration>> {
        let (intake, now) = (self.intake, self.intake.start.elapsed());
        let mut state = intake.state();
        let connections_max =
            state.permit_count(self.wanted, intake.received.load(Ordering::Relaxed), now);
        let asked =
            state.permits.request((self.wanted, connections_max), &mut self.ticket, waker, now);
        state.make_permit(intake, asked, now)
    }
}

impl<'i> LinkIdleTime<'i> {
    fn new(intake: &'i ReceiveLimiter, max: Duration) -> Self {
        Self { intake, max, seen: intake.received.load(Ordering::Relaxed), since: Instant::now() }
    }

    /// When to check again; `None` when the link has been idle for too long.
    fn left(&mut self) -> Option<Duration> {
        let (received, now) = (self.intake.received.load(Ordering::Relaxed), Instant::now());
        if received != self.seen {
            (self.seen, self.since) = (received, now);
        }
        let left = self.max.saturating_sub(now - self.since);
        (!left.is_zero()).then(|| left.clamp(POLL_INTERVAL_MIN, POLL_INTERVAL))
    }
}

impl Drop for PermitWait<'_> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.intake.state().permits.leave_queue(&mut self.ticket);
        }
    }
}

impl ReceivePermit {
    /// How many connections it covers.
    pub(crate) fn connections(&self) -> usize {
        self.connections
    }

    /// Receive window of each connection; `None`: no limit.
    pub(crate) fn window_share(&self) -> Option<u32> {
        self.share
    }

    /// Consecutive number of the permit.
    pub(crate) fn number(&self) -> usize {
        self.id as usize
    }

    /// A handle for the receiving code to report bytes.
    pub(crate) fn progress(&self) -> ReceiveProgress {
        ReceiveProgress { of_permit: Arc::clone(&self.received), intake: Arc::clone(&self.intake) }
    }

    /// Extends the permit by up to `wanted` connections, if they are free and no call waits.
    /// Returns how many.
    pub(crate) fn extend(&mut self, wanted: usize) -> usize {
        let now = self.intake.start.elapsed();
        let mut state = self.intake.state();
        let received = self.intake.received.load(Ordering::Relaxed);
        let connections_max = state.permit_count(self.connections + wanted, received, now);
        let connections = state.permits.extend(self.id, (wanted, connections_max), now);
        if connections > 0 {
            self.share = state.limit.start_receiving(connections, now);
            self.connections += connections;
        }
        connections
    }

    /// Chooses up to `connections` of the connections to these servers: those whose servers are
    /// least used first, then in the given order.
    pub(crate) fn choose_servers(
        &mut self,
        servers: &[SocketAddr],
        connections: usize,
    ) -> Vec<usize> {
        let asked = &mut self.intake.state().receiving_from;
        let mut left: Vec<usize> = (0..servers.len()).collect();
        let mut chosen = Vec::with_capacity(connections);
        while chosen.len() < connections
            && let Some(at) =
                (0..left.len()).min_by_key(|at| asked.get(&servers[left[*at]]).copied())
        {
            let connection = left.remove(at);
            *asked.entry(servers[connection]).or_default() += 1;
            self.servers.push(servers[connection]);
            chosen.push(connection);
        }
        chosen
    }

    /// The connection to this server, which was chosen, is done.
    pub(crate) fn connection_done(&mut self, server: SocketAddr) {
        if let Some(at) = self.servers.iter().position(|asked| *asked == server) {
            self.servers.swap_remove(at);
            self.intake.state().release_server(server);
        }
    }

    /// Releases this many connections.
    pub(crate) fn release(&mut self, connections: usize) {
        let now = self.intake.start.elapsed();
        let mut state = self.intake.state();
        self.connections -= connections;
        state.permits.release(self.id, connections);
        state.limit.stop_receiving(connections, now);
    }

    /// All connections have received.
    pub(crate) fn finish(mut self, seen: ReceiveStats) {
        let connections = self.connections;
        self.release(connections);
        let now = self.intake.start.elapsed();
        let mut state = self.intake.state();
        // Read under the lock, so that the totals of successive permits never decrease.
        let ended = ReceiveMark { at: now, received: self.intake.received.load(Ordering::Relaxed) };
        let round_trip = state.min_rtt.update(&seen.round_trips, now);
        state.limit.permit_finished(
            self.begun,
            ended,
            PathSample { out_of_order: seen.out_of_order, round_trip },
        );
    }
}

impl Drop for ReceivePermit {
    /// A permit that is dropped unfinished gives no measurement.
    fn drop(&mut self) {
        for server in std::mem::take(&mut self.servers) {
            self.intake.state().release_server(server);
        }
        if self.connections > 0 {
            let connections = self.connections;
            self.release(connections);
        }
    }
}

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn wait(intake: &Arc<ReceiveLimiter>, wanted: usize) -> Option<ReceivePermit> {
        intake.acquire(wanted, LONG, || {})
    }

    #[test]
    fn a_permit_that_is_dropped_unfinished_is_released() {
        let intake = ReceiveLimiter::with_frozen_clock();
        drop(wait(&intake, 3));
        wait(&intake, 2).expect("a permit").finish(ReceiveStats::default());
        assert!(intake.is_idle());
    }

    #[test]
    fn a_call_without_time_gets_no_permit_and_leaves_the_queue() {
        let intake = ReceiveLimiter::with_frozen_clock();
        let permit = intake.acquire_now(intake.permit_count());
        assert!(intake.acquire_until(1, Instant::now()).is_none());
        drop(permit);
        let permit = intake
            .acquire_until(1, Instant::now())
            .expect("a permit is free, and no call is before it");
        drop(permit);
        assert!(intake.is_idle());
    }

    #[test]
    fn a_task_waits_for_a_permit_only_while_others_receive() {
        /// Longer than a runnable thread waits for a processor.
        const SILENCE: Duration = Duration::from_secs(2);
        let intake = ReceiveLimiter::with_frozen_clock();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let permit = intake.acquire_now(intake.permit_count());
        assert!(
            runtime.block_on(intake.acquire_async(1, SILENCE / 10)).is_none(),
            "nothing is received"
        );
        let held = Instant::now() + SILENCE + SILENCE / 2;
        thread::scope(|scope| {
            scope.spawn(move || {
                while Instant::now() < held {
                    permit.progress().add(1);
                    thread::sleep(Duration::from_millis(1));
                }
            });
            assert!(runtime.block_on(intake.acquire_async(1, SILENCE)).is_some());
        });
        assert!(intake.is_idle());
    }

    #[test]
    fn a_call_begins_with_the_least_used_servers() {
        let servers: Vec<SocketAddr> = (1..=4).map(|port| ([127, 0, 0, 1], port).into()).collect();
        let intake = ReceiveLimiter::with_frozen_clock();
        let mut first = wait(&intake, 3).expect("a permit");
        assert_eq!(first.choose_servers(&servers[..3], 3), [0, 1, 2]);
        first.connection_done(servers[1]);
        first.release(1);
        let mut second = wait(&intake, 4).expect("a permit");
        assert_eq!(second.choose_servers(&servers, 2), [1, 3]);
        assert_eq!(second.choose_servers(&servers, 1), [0]);
        drop(first);
        assert_eq!(wait(&intake, 1).expect("a permit").choose_servers(&servers, 2), [2, 0]);
        drop(second);
        assert!(intake.is_idle());
    }

    #[test]
    fn totals_never_decrease_when_many_threads_finish_permits() {
        const LOST_EVERY: usize = 3; // after a loss a new interval begins
        let intake = ReceiveLimiter::with_frozen_clock();
        thread::scope(|scope| {
            for _ in 0..8 {
                let intake = &intake;
                scope.spawn(move || {
                    for call in 0..50_000 {
                        let permit = intake.acquire_now(1);
                        permit.progress().add(1);
                        let out_of_order = if call % LOST_EVERY == 0 { 1000 } else { 0 };
                        permit.finish(ReceiveStats { out_of_order, ..ReceiveStats::default() });
                    }
                });
            }
        });
        assert!(intake.is_idle());
        assert_eq!(intake.received(), 8 * 50_000);
    }

    #[test]
    fn all_threads_and_tasks_get_a_permit() {
        let intake = Arc::new(ReceiveLimiter::new());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        thread::scope(|scope| {
            for thread in 0..8 {
                let intake = &intake;
                scope.spawn(move || {
                    for call in 0..100 {
                        let mut permit = wait(intake, 1 + (thread + call) % 6).expect("a permit");
                        permit.progress().add(1);
                        permit.extend(1);
                        if permit.connections() > 1 {
                            permit.release(1);
                        }
                        permit.finish(ReceiveStats::default());
                    }
                });
            }
            runtime.block_on(async {
                for _ in 0..100 {
                    let permit = intake.acquire_async(2, LONG).await.expect("a permit");
                    tokio::task::yield_now().await;
                    drop(permit);
                }
            });
        });
        assert!(intake.is_idle());
    }
}
