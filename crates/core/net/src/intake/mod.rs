//! What a host receives on one line from all its peers together: a bound of what is on the way ([`bound`]), and whose turn it is
//! ([`turns`]). A client's peers are servers that it asks, a server's are clients that write.
//!
//! A lane is one connection in one call. Payloads of less than [`BOUNDED_BYTES_MIN`], and everything on loopback, know nothing of
//! this.

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

/// Smaller payloads fit any queue, and asking what was seen would cost more than it tells.
pub(crate) const BOUNDED_BYTES_MIN: u64 = 16 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Intake {
    start: Instant,
    /// Bytes in all turns, ever.
    received: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    bound: Bound,
    nearest: Nearest,
    turns: Turns,
    calls: Calls,
    /// Lanes that receive, of each server: which of a call's begin goes by it.
    asked: HashMap<SocketAddr, usize>,
}

/// Whose payloads are received.
#[derive(Debug)]
enum Calls {
    /// A client's own calls; the most lanes that one of late had, and when.
    Own(usize, Duration),
    /// Those of a server's clients.
    OfClients,
}

/// For so long the widest call is counted.
const LATE: Duration = Duration::from_secs(1);

/// Whoever waits for its turn looks so often whether the line works, and after what else it has to do: often enough for a server
/// whose answer fills a buffer meanwhile, and that is held up for [`server::ServerConfig::stall_timeout`](crate::server::ServerConfig).
const MEANWHILE: Duration = Duration::from_millis(100);
/// And no more often.
const LOOK_LEAST: Duration = Duration::from_millis(1);

/// Lanes of one call that receive now.
#[derive(Debug)]
pub(crate) struct Turn {
    intake: Arc<Intake>,
    id: u64,
    /// So many that have not left.
    lanes: usize,
    begun: Mark,
    /// What each of them may have on the way; `None`: no bound.
    share: Option<u32>,
    received: Arc<AtomicU64>,
    /// The servers of those that were chosen.
    asked: Vec<SocketAddr>,
}

/// A wait for a turn.
#[derive(Debug)]
pub(crate) struct Waiting<'i> {
    intake: &'i Arc<Intake>,
    wanted: usize,
    ticket: Option<u64>,
}

/// How long nobody has received anything. Whoever waits for its turn while others receive waits for no server (I8).
struct LineSilence<'i> {
    intake: &'i Intake,
    max: Duration,
    seen: u64,
    since: Instant,
}

/// What a turn was like.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Received {
    /// Segments that came out of their order.
    pub(crate) out_of_order: u32,
    /// The shortest that each connection has seen, and to which host.
    pub(crate) round_trips: Vec<(IpAddr, Duration)>,
}

/// Tells a turn that something came.
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
    /// A client's.
    pub(crate) fn new() -> Self {
        Self::of(Calls::Own(1, Duration::ZERO))
    }

    /// A server's.
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

    /// A turn for up to `wanted` lanes, one at least, which the calling thread waits for; `None` when nobody has received anything for
    /// `silence_max`. While the line works whoever waits keeps its place in the row, and does `meanwhile` every [`MEANWHILE`].
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

    /// The same for a task, which does nothing meanwhile.
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

    /// The same for a thread whose peer's patience counts, not the line's: until then, whatever others receive.
    pub(crate) fn wait_until(self: &Arc<Self>, wanted: usize, deadline: Instant) -> Option<Turn> {
        self.ask(wanted).until(deadline)
    }

    /// A call of so many lanes begins, each of which asks by itself.
    pub(crate) fn expect(&self, lanes: usize) {
        if lanes < 2 {
            return;
        }
        let (now, mut state) = (self.start.elapsed(), self.state());
        state.places(lanes, self.received.load(Ordering::Relaxed), now);
    }

    /// A turn for lanes whose answers come when others have come: they must not wait for them.
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
    /// Its clock stands still: nobody is ever late.
    pub(crate) fn timeless() -> Arc<Self> {
        Arc::new(Self { start: Instant::now() + Duration::from_secs(24 * 3600), ..Self::new() })
    }

    /// Bytes in all turns, ever.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// For how many lanes.
    pub(crate) fn places(&self) -> usize {
        self.state().places(1, 0, Duration::ZERO)
    }

    /// Whether nobody has a turn or waits for one.
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

    /// For a call of so many lanes, and by what has come so far, which was looked at under the lock.
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
    /// The turn, if it comes by then. The place in the row is kept.
    fn until(&mut self, deadline: Instant) -> Option<Turn> {
        let mut waker = Waker::noop().clone();
        let mut look = Duration::ZERO; // asked once more before the thread sleeps, with something that wakes it
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

    /// The turn, or in how long to ask again, where the waker is not all that it takes.
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

    /// When to look again; `None` when it has lasted too long.
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
    /// For how many lanes.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    /// What each lane may have on the way; `None`: no bound.
    pub(crate) fn share(&self) -> Option<u32> {
        self.share
    }

    /// One more than that of the turn before it.
    pub(crate) fn number(&self) -> usize {
        self.id as usize
    }

    /// Whoever receives counts here what came.
    pub(crate) fn progress(&self) -> Progress {
        Progress { of_turn: Arc::clone(&self.received), intake: Arc::clone(&self.intake) }
    }

    /// So many more lanes, up to `wanted`: what is free when nobody waits.
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

    /// Which of the lanes to these servers begin, up to so many: those whose servers are asked the least, in this order.
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

    /// A lane to this server, which was chosen, has ended.
    pub(crate) fn has_left(&mut self, server: SocketAddr) {
        if let Some(at) = self.asked.iter().position(|asked| *asked == server) {
            self.asked.swap_remove(at);
            self.intake.state().ask_less(server);
        }
    }

    /// So many lanes have ended.
    pub(crate) fn leave(&mut self, lanes: usize) {
        let now = self.intake.start.elapsed();
        let mut state = self.intake.state();
        self.lanes -= lanes;
        state.turns.leave(self.id, lanes);
        state.bound.leave(lanes, now);
    }

    /// All have received.
    pub(crate) fn end(mut self, seen: Received) {
        let lanes = self.lanes;
        self.leave(lanes);
        let now = self.intake.start.elapsed();
        let mut state = self.intake.state();
        // Under the lock: whoever ends later has seen no less.
        let ended = Mark { at: now, received: self.intake.received.load(Ordering::Relaxed) };
        let round_trip = state.nearest.farthest(&seen.round_trips, now);
        state.bound.end(self.begun, ended, Way { out_of_order: seen.out_of_order, round_trip });
    }
}

impl Drop for Turn {
    /// One that was not ended received nothing that counts.
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
    fn a_turn_that_was_not_ended_receives_no_more() {
        let intake = Intake::timeless();
        drop(wait(&intake, 3));
        wait(&intake, 2).expect("a turn").end(Received::default());
        assert!(intake.is_idle());
    }

    #[test]
    fn whoever_has_no_time_left_goes_without_a_turn_and_leaves_the_row() {
        let intake = Intake::timeless();
        let turn = intake.begin(intake.places());
        assert!(intake.wait_until(1, Instant::now()).is_none());
        drop(turn);
        let turn = intake
            .wait_until(1, Instant::now())
            .expect("nobody is before it, and it need not wait");
        drop(turn);
        assert!(intake.is_idle());
    }

    #[test]
    fn a_task_waits_for_its_turn_as_long_as_others_receive_and_no_longer() {
        /// More than a thread that wants to run does not.
        const SILENCE: Duration = Duration::from_secs(2);
        let intake = Intake::timeless();
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let turn = intake.begin(intake.places());
        assert!(
            runtime.block_on(intake.wait_async(1, SILENCE / 10)).is_none(),
            "nobody receives anything"
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
    fn a_call_begins_with_servers_that_are_asked_the_least() {
        let servers: Vec<SocketAddr> = (1..=4).map(|port| ([127, 0, 0, 1], port).into()).collect();
        let intake = Intake::timeless();
        let mut first = wait(&intake, 3).expect("a turn");
        assert_eq!(first.choose(&servers[..3], 3), [0, 1, 2]);
        first.has_left(servers[1]);
        first.leave(1);
        let mut second = wait(&intake, 4).expect("a turn");
        assert_eq!(second.choose(&servers, 2), [1, 3]);
        assert_eq!(second.choose(&servers, 1), [0]);
        drop(first);
        assert_eq!(wait(&intake, 1).expect("a turn").choose(&servers, 2), [2, 0]);
        drop(second);
        assert!(intake.is_idle());
    }

    #[test]
    fn turns_of_many_threads_that_end_while_epochs_begin_have_never_received_less_than_before() {
        const LOST_EVERY: usize = 3; // after a loss an epoch begins
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
    fn threads_and_tasks_all_come_to_their_turn() {
        let intake = Arc::new(Intake::new());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        thread::scope(|scope| {
            for thread in 0..8 {
                let intake = &intake;
                scope.spawn(move || {
                    for call in 0..100 {
                        let mut turn = wait(intake, 1 + (thread + call) % 6).expect("a turn");
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
                    let turn = intake.wait_async(2, LONG).await.expect("a turn");
                    tokio::task::yield_now().await;
                    drop(turn);
                }
            });
        });
        assert!(intake.is_idle());
    }
}
