//! Incast control: limits what a host receives on one link from all its peers together.
//!
//! [`in_flight_limit`] adapts the number of bytes that may be in flight. [`receive_permits`]
//! decides which connections receive now. The peers of a client are the servers that it calls; the
//! peers of a server are the clients that write to it.
//!
//! A permit counts *connections*: each is one connection in one call. Payloads below
//! [`BOUNDED_BYTES_MIN`], and connections on loopback, need no permit.

mod bound;
mod nearest;
mod turns;

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
    bound::{Bound, Mark, Way},
    nearest::Nearest,
    turns::{Asked, Turns},
};

/// Smaller payloads fit any queue; to account for them would cost more than it gains.
pub(crate) const BOUNDED_BYTES_MIN: u64 = 16 * 1024;

/// The receive permits and the limit of one link; see the module.
#[derive(Debug)]
pub(crate) struct Intake {
    start: Instant,
    /// Total bytes received under permits.
    received: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bound: Bound,
    nearest: Nearest,
    turns: Turns,
    calls: Calls,
    /// How many connections receive from each server. New calls begin with the least used servers.
    asked: HashMap<SocketAddr, usize>,
}

/// The side of the connections that this host has.
#[derive(Debug)]
enum Calls {
    /// A client: the recent maximum of connections in one call, and when it was reached.
    Own(usize, Duration),
    /// A server that receives from clients.
    OfClients,
}

/// The maximum number of connections in a call counts for this long.
const LATE: Duration = Duration::from_secs(1);

/// Interval at which a waiting call checks the link and does its other work. It is short enough for
/// a server whose answer fills a socket buffer in the meantime: that server gives up after
/// [`server::ServerConfig::stall_timeout`](crate::server::ServerConfig).
const MEANWHILE: Duration = Duration::from_millis(100);
/// Minimum interval between polls.
const LOOK_LEAST: Duration = Duration::from_millis(1);

/// The right of one call's connections to receive now. Dropping it releases them.
#[derive(Debug)]
pub(crate) struct Turn {
    intake: Arc<Intake>,
    id: u64,
    /// Connections that still hold the permit.
    lanes: usize,
    begun: Mark,
    /// Receive window of each connection; `None`: no limit.
    share: Option<u32>,
    received: Arc<AtomicU64>,
    /// The servers of the connections that were chosen to receive.
    asked: Vec<SocketAddr>,
}

/// A call that waits for a permit.
#[derive(Debug)]
pub(crate) struct Waiting<'i> {
    intake: &'i Arc<Intake>,
    wanted: usize,
    ticket: Option<u64>,
}

/// How long no connection of this host has received anything. A call that waits for a permit while
/// others receive does not wait for a server (I8).
struct LineSilence<'i> {
    intake: &'i Intake,
    max: Duration,
    seen: u64,
    since: Instant,
}

/// What a permit's connections observed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Received {
    /// Segments that arrived out of order.
    pub(crate) out_of_order: u32,
    /// The minimum RTT that each connection saw, with its host.
    pub(crate) round_trips: Vec<(IpAddr, Duration)>,
}

/// Reports received bytes to a permit.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    of_turn: Arc<AtomicU64>,
    intake: Arc<Intake>,
}

impl Progress {
    pub(crate) fn add(&self, bytes: usize) {
        for counter in [&*self.of_turn, &self.intake.received] {
            counter.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

impl Intake {
    /// For a client.
    pub(crate) fn new() -> Self {
        Self::of(Calls::Own(1, Duration::ZERO))
    }

    /// For a server.
    pub(crate) fn of_server() -> Self {
        Self::of(Calls::OfClients)
    }

    fn of(calls: Calls) -> Self {
        let state = Mutex::new(State {
            bound: Bound::default(),
            nearest: Nearest::default(),
            turns: Turns::default(),
            calls,
            asked: HashMap::new(),
        });
        Self { start: Instant::now(), received: AtomicU64::new(0), state }
    }

    /// Waits for a permit for up to `wanted` connections, at least one. `None` when this host has
    /// received nothing for `silence_max`. While the link works, the call keeps its position in the
    /// queue and runs `meanwhile` every [`POLL_INTERVAL`].
    pub(crate) fn wait(
        self: &Arc<Self>,
        wanted: usize,
        silence_max: Duration,
        mut meanwhile: impl FnMut(),
    ) -> Option<Turn> {
        let (mut waiting, mut line) = (self.ask(wanted), LineSilence::new(self, silence_max));
        loop {
            let left = line.left();
            if let Some(turn) = waiting.until(Instant::now() + left.unwrap_or_default()) {
                return Some(turn);
            }
            left?;
            meanwhile();
        }
    }

    /// The same for an async task, which does no other work meanwhile.
    pub(crate) async fn wait_async(
        self: &Arc<Self>,
        wanted: usize,
        silence_max: Duration,
    ) -> Option<Turn> {
        use tokio::time::{Instant, sleep_until};
        let (mut waiting, mut line) = (self.ask(wanted), LineSilence::new(self, silence_max));
        let mut timer = pin!(sleep_until(Instant::now()));
        std::future::poll_fn(|context| {
            loop {
                let look = match waiting.poll(context.waker()) {
                    Ok(turn) => return Poll::Ready(Some(turn)),
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
    pub(crate) fn wait_until(self: &Arc<Self>, wanted: usize, deadline: Instant) -> Option<Turn> {
        self.ask(wanted).until(deadline)
    }

    /// Announces a call of this many connections, each of which requests its own permit.
    pub(crate) fn expect(&self, lanes: usize) {
        if lanes < 2 {
            return;
        }
        let (now, mut state) = (self.start.elapsed(), self.state());
        state.places(lanes, self.received.load(Ordering::Relaxed), now);
    }

    /// A permit without waiting, for connections whose answers depend on answers to other
    /// connections.
    pub(crate) fn begin(self: &Arc<Self>, lanes: usize) -> Turn {
        let now = self.start.elapsed();
        let mut state = self.state();
        let asked = state.turns.grant(lanes, now);
        state.turn(self, asked, now).unwrap_or_else(|_| unreachable!("it was granted"))
    }

    fn ask(self: &Arc<Self>, wanted: usize) -> Waiting<'_> {
        Waiting { intake: self, wanted, ticket: None }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Intake {
    /// A limiter whose clock stands still, so that no server counts as late.
    pub(crate) fn timeless() -> Arc<Self> {
        Arc::new(Self { start: Instant::now() + Duration::from_secs(24 * 3600), ..Self::new() })
    }

    /// Total bytes received under permits.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// How many connections may receive now.
    pub(crate) fn places(&self) -> usize {
        self.state().places(1, 0, Duration::ZERO)
    }

    /// Whether no permit is held or waited for.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        format!("{:?}", state.turns).contains("held: [], waiting: []") && state.asked.is_empty()
    }
}

impl State {
    fn ask_less(&mut self, server: SocketAddr) {
        if let Entry::Occupied(mut lanes) = self.asked.entry(server) {
            *lanes.get_mut() -= 1;
            if *lanes.get() == 0 {
                lanes.remove();
            }
        }
    }

    /// How many connections may receive, for a call of `wanted`. `received` was read under the
    /// lock.
    fn places(&mut self, wanted: usize, received: u64, now: Duration) -> usize {
        self.turns.see_line(received, self.bound.on_the_way(), now);
        match &mut self.calls {
            Calls::OfClients => self.bound.places_of_server(),
            Calls::Own(widest, seen) => {
                if wanted >= *widest || now.saturating_sub(*seen) > LATE {
                    (*widest, *seen) = (wanted, now);
                }
                self.bound.places(*widest)
            }
        }
    }

    fn turn(
        &mut self,
        intake: &Arc<Intake>,
        asked: Asked,
        now: Duration,
    ) -> Result<Turn, Option<Duration>> {
        match asked {
            Asked::Granted { id, lanes, received } => {
                let share = self.bound.begin(lanes, now);
                let begun = Mark { at: now, received: intake.received.load(Ordering::Relaxed) };
                Ok(Turn {
                    intake: Arc::clone(intake),
                    id,
                    lanes,
                    begun,
                    share,
                    received,
                    asked: Vec::new(),
                })
            }
            Asked::Later(look) => Err(look),
        }
    }
}

impl Waiting<'_> {
    /// The permit, if it is granted before `deadline`. The position in the queue is kept.
    fn until(&mut self, deadline: Instant) -> Option<Turn> {
        let mut waker = Waker::noop().clone();
        let mut look = Duration::ZERO; // polls once more with a real waker before the thread sleeps
        loop {
            match self.poll(&waker) {
                Ok(turn) => return Some(turn),
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
    fn poll(&mut self, waker: &Waker) -> Result<Turn, Option<Duration>> {
        let (intake, now) = (self.intake, self.intake.start.elapsed());
        let mut state = intake.state();
        let places = state.places(self.wanted, intake.received.load(Ordering::Relaxed), now);
        let asked = state.turns.ask((self.wanted, places), &mut self.ticket, waker, now);
        state.turn(intake, asked, now)
    }
}

impl<'i> LineSilence<'i> {
    fn new(intake: &'i Intake, max: Duration) -> Self {
        Self { intake, max, seen: intake.received.load(Ordering::Relaxed), since: Instant::now() }
    }

    /// When to check again; `None` when the link has been idle for too long.
    fn left(&mut self) -> Option<Duration> {
        let (received, now) = (self.intake.received.load(Ordering::Relaxed), Instant::now());
        if received != self.seen {
            (self.seen, self.since) = (received, now);
        }
        let left = self.max.saturating_sub(now - self.since);
        (!left.is_zero()).then(|| left.clamp(LOOK_LEAST, MEANWHILE))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.intake.state().turns.leave_row(&mut self.ticket);
        }
    }
}

impl Turn {
    /// How many connections it covers.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    /// Receive window of each connection; `None`: no limit.
    pub(crate) fn share(&self) -> Option<u32> {
        self.share
    }

    /// Consecutive number of the permit.
    pub(crate) fn number(&self) -> usize {
        self.id as usize
    }

    /// A handle for the receiving code to report bytes.
    pub(crate) fn progress(&self) -> Progress {
        Progress { of_turn: Arc::clone(&self.received), intake: Arc::clone(&self.intake) }
    }

    /// Extends the permit by up to `wanted` connections, if they are free and no call waits.
    /// Returns how many.
    pub(crate) fn more(&mut self, wanted: usize) -> usize {
        let now = self.intake.start.elapsed();
        let mut state = self.intake.state();
        let received = self.intake.received.load(Ordering::Relaxed);
        let places = state.places(self.lanes + wanted, received, now);
        let lanes = state.turns.more(self.id, (wanted, places), now);
        if lanes > 0 {
            self.share = state.bound.begin(lanes, now);
            self.lanes += lanes;
        }
        lanes
    }

    /// Chooses up to `lanes` of the connections to these servers: those whose servers are least
    /// used first, then in the given order.
    pub(crate) fn choose(&mut self, servers: &[SocketAddr], lanes: usize) -> Vec<usize> {
        let asked = &mut self.intake.state().asked;
        let mut left: Vec<usize> = (0..servers.len()).collect();
        let mut chosen = Vec::with_capacity(lanes);
        while chosen.len() < lanes
            && let Some(at) =
                (0..left.len()).min_by_key(|at| asked.get(&servers[left[*at]]).copied())
        {
            let lane = left.remove(at);
            *asked.entry(servers[lane]).or_default() += 1;
            self.asked.push(servers[lane]);
            chosen.push(lane);
        }
        chosen
    }

    /// The connection to this server, which was chosen, is done.
    pub(crate) fn has_left(&mut self, server: SocketAddr) {
        if let Some(at) = self.asked.iter().position(|asked| *asked == server) {
            self.asked.swap_remove(at);
            self.intake.state().ask_less(server);
        }
    }

    /// Releases this many connections.
    pub(crate) fn leave(&mut self, lanes: usize) {
        let now = self.intake.start.elapsed();
        let mut state = self.intake.state();
        self.lanes -= lanes;
        state.turns.leave(self.id, lanes);
        state.bound.leave(lanes, now);
    }

    /// All connections have received.
    pub(crate) fn end(mut self, seen: Received) {
        let lanes = self.lanes;
        self.leave(lanes);
        let now = self.intake.start.elapsed();
        let mut state = self.intake.state();
        // Read under the lock, so that the totals of successive permits never decrease.
        let ended = Mark { at: now, received: self.intake.received.load(Ordering::Relaxed) };
        let round_trip = state.nearest.farthest(&seen.round_trips, now);
        state.bound.end(self.begun, ended, Way { out_of_order: seen.out_of_order, round_trip });
    }
}

impl Drop for Turn {
    /// A permit that is dropped unfinished gives no measurement.
    fn drop(&mut self) {
        for server in std::mem::take(&mut self.asked) {
            self.intake.state().ask_less(server);
        }
        if self.lanes > 0 {
            let lanes = self.lanes;
            self.leave(lanes);
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

    fn wait(intake: &Arc<Intake>, wanted: usize) -> Option<Turn> {
        intake.wait(wanted, LONG, || {})
    }

    #[test]
    fn a_permit_that_is_dropped_unfinished_is_released() {
        let intake = Intake::timeless();
        drop(wait(&intake, 3));
        wait(&intake, 2).expect("a permit").end(Received::default());
        assert!(intake.is_idle());
    }

    #[test]
    fn a_call_without_time_gets_no_permit_and_leaves_the_queue() {
        let intake = Intake::timeless();
        let turn = intake.begin(intake.places());
        assert!(intake.wait_until(1, Instant::now()).is_none());
        drop(turn);
        let turn = intake
            .wait_until(1, Instant::now())
            .expect("a permit is free, and no call is before it");
        drop(turn);
        assert!(intake.is_idle());
    }

    #[test]
    fn a_task_waits_for_a_permit_only_while_others_receive() {
        /// Longer than a runnable thread waits for a processor.
        const SILENCE: Duration = Duration::from_secs(2);
        let intake = Intake::timeless();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let turn = intake.begin(intake.places());
        assert!(
            runtime.block_on(intake.wait_async(1, SILENCE / 10)).is_none(),
            "nothing is received"
        );
        let held = Instant::now() + SILENCE + SILENCE / 2;
        thread::scope(|scope| {
            scope.spawn(move || {
                while Instant::now() < held {
                    turn.progress().add(1);
                    thread::sleep(Duration::from_millis(1));
                }
            });
            assert!(runtime.block_on(intake.wait_async(1, SILENCE)).is_some());
        });
        assert!(intake.is_idle());
    }

    #[test]
    fn a_call_begins_with_the_least_used_servers() {
        let servers: Vec<SocketAddr> = (1..=4).map(|port| ([127, 0, 0, 1], port).into()).collect();
        let intake = Intake::timeless();
        let mut first = wait(&intake, 3).expect("a permit");
        assert_eq!(first.choose(&servers[..3], 3), [0, 1, 2]);
        first.has_left(servers[1]);
        first.leave(1);
        let mut second = wait(&intake, 4).expect("a permit");
        assert_eq!(second.choose(&servers, 2), [1, 3]);
        assert_eq!(second.choose(&servers, 1), [0]);
        drop(first);
        assert_eq!(wait(&intake, 1).expect("a permit").choose(&servers, 2), [2, 0]);
        drop(second);
        assert!(intake.is_idle());
    }

    #[test]
    fn totals_never_decrease_when_many_threads_finish_permits() {
        const LOST_EVERY: usize = 3; // after a loss a new interval begins
        let intake = Intake::timeless();
        thread::scope(|scope| {
            for _ in 0..8 {
                let intake = &intake;
                scope.spawn(move || {
                    for call in 0..50_000 {
                        let turn = intake.begin(1);
                        turn.progress().add(1);
                        let out_of_order = if call % LOST_EVERY == 0 { 1000 } else { 0 };
                        turn.end(Received { out_of_order, ..Received::default() });
                    }
                });
            }
        });
        assert!(intake.is_idle());
        assert_eq!(intake.received(), 8 * 50_000);
    }

    #[test]
    fn all_threads_and_tasks_get_a_permit() {
        let intake = Arc::new(Intake::new());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        thread::scope(|scope| {
            for thread in 0..8 {
                let intake = &intake;
                scope.spawn(move || {
                    for call in 0..100 {
                        let mut turn = wait(intake, 1 + (thread + call) % 6).expect("a permit");
                        turn.progress().add(1);
                        turn.more(1);
                        if turn.lanes() > 1 {
                            turn.leave(1);
                        }
                        turn.end(Received::default());
                    }
                });
            }
            runtime.block_on(async {
                for _ in 0..100 {
                    let turn = intake.wait_async(2, LONG).await.expect("a permit");
                    tokio::task::yield_now().await;
                    drop(turn);
                }
            });
        });
        assert!(intake.is_idle());
    }
}
