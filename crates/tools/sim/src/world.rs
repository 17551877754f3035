//! Virtual time and everything that happens in it: a heap of events, and the tasks that they wake.
//!
//! ```text
//!   at(time, event) ──> events, ordered by (time, sequence) ──> run: now = time, event()
//!   spawn(life, future) ──> polled by an event; its waker queues the next poll at `now`
//! ```
//!
//! Invariants:
//!
//! 1. One thread runs everything, one event after the other.
//! 2. Virtual time never goes back, and the order of events is a function of the calls made, never
//!    of addresses, hashes or the wall clock. The trace hash of a repeated seed checks it.
//! 3. No lock of the simulation is held while an event, a poll or the drop of a future runs, so
//!    each may call back. (A violation deadlocks: the locks are not reentrant.)
//!
//! `step` asserts 2. The locks and the single thread (1, 3) follow from where `event()` is called.

use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use crate::trace::Trace;

type Event = Box<dyn FnOnce() + Send>;
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Locks, also after a panic elsewhere: a run that panicked still needs its report.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The simulation. Clones share its state.
#[derive(Clone)]
pub struct Simulation(Arc<Inner>);

struct Inner {
    schedule: Mutex<Schedule>,
    trace: Mutex<Trace>,
}

#[derive(Default)]
struct Schedule {
    now: Duration,
    sequence: u64,
    events: BTreeMap<(Duration, u64), Event>,
}

impl Simulation {
    /// A simulation at time zero; with `trace_all`, its trace keeps every event.
    pub fn new(trace_all: bool) -> Self {
        Self(Arc::new(Inner {
            schedule: Mutex::default(),
            trace: Mutex::new(Trace::new(trace_all)),
        }))
    }

    /// Virtual time.
    pub fn now(&self) -> Duration {
        lock(&self.0.schedule).now
    }

    /// Runs `event` at `time`, or as soon as possible when `time` has passed.
    pub fn at(&self, time: Duration, event: impl FnOnce() + Send + 'static) {
        let mut schedule = lock(&self.0.schedule);
        let key = (time.max(schedule.now), schedule.sequence);
        schedule.sequence += 1;
        schedule.events.insert(key, Box::new(event));
    }

    /// Runs `event` after `delay`.
    pub fn after(&self, delay: Duration, event: impl FnOnce() + Send + 'static) {
        self.at(self.now() + delay, event);
    }

    /// Adds an event to the trace.
    pub fn trace_event(&self, event: fmt::Arguments<'_>) {
        let now = self.now();
        lock(&self.0.trace).note(now, event);
    }

    /// The events so far.
    pub fn trace(&self) -> MutexGuard<'_, Trace> {
        lock(&self.0.trace)
    }

    /// Runs the next event; `false` when there is none, or none before `end`.
    pub fn step(&self, end: Duration) -> bool {
        let event = {
            let mut schedule = lock(&self.0.schedule);
            let due = schedule.events.first_key_value().is_some_and(|((time, _), _)| *time <= end);
            if !due {
                return false;
            }
            let Some(((time, _), event)) = schedule.events.pop_first() else { return false };
            debug_assert!(time >= schedule.now, "invariant 2: virtual time never goes back");
            schedule.now = time;
            event
        };
        event();
        true
    }

    /// Runs until `time`.
    pub fn run_until(&self, time: Duration) {
        while self.step(time) {}
        let mut schedule = lock(&self.0.schedule);
        schedule.now = schedule.now.max(time);
    }

    /// Runs `future` as a task of `life` until it ends and returns its value; `None` when it has
    /// not ended by `limit` of virtual time, or when its process ended.
    pub fn run<T: Send + 'static>(
        &self,
        life: &ProcessLife,
        limit: Duration,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let value = Arc::new(Mutex::new(None));
        let sink = Arc::clone(&value);
        self.spawn(life, async move {
            let output = future.await;
            *lock(&sink) = Some(output);
        });
        let end = self.now() + limit;
        while lock(&value).is_none() && self.step(end) {}
        lock(&value).take()
    }

    /// Starts a task; it ends with its process at the latest.
    pub fn spawn(&self, life: &ProcessLife, future: impl Future<Output = ()> + Send + 'static) {
        let task = {
            let mut tasks = lock(&life.0.tasks);
            if !life.is_alive() {
                return;
            }
            let number = tasks.next;
            tasks.next += 1;
            let task = Arc::new(Task {
                future: Mutex::new(Some(Box::pin(future))),
                queued: AtomicBool::new(false),
                world: self.clone(),
                life: life.clone(),
                number,
            });
            tasks.running.insert(number, Arc::clone(&task));
            task
        };
        task.wake();
    }

    /// Waits for a time.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.sleep_until(self.now() + time)
    }

    /// Waits until a moment.
    pub fn sleep_until(&self, until: Duration) -> Sleep {
        Sleep { world: self.clone(), until, waits: None }
    }
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World(at {:?})", self.now())
    }
}

/// The life of one process: its tasks end with it.
#[derive(Clone)]
pub struct ProcessLife(Arc<LifeInner>);

struct LifeInner {
    alive: AtomicBool,
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    next: u64,
    running: BTreeMap<u64, Arc<Task>>,
}

impl ProcessLife {
    /// A process that has just started.
    pub fn new() -> Self {
        Self(Arc::new(LifeInner { alive: AtomicBool::new(true), tasks: Mutex::default() }))
    }

    /// Whether the process still runs.
    pub fn is_alive(&self) -> bool {
        self.0.alive.load(Ordering::Relaxed)
    }

    /// Ends the process: every task is dropped at its current state.
    pub fn end(&self) {
        self.0.alive.store(false, Ordering::Relaxed);
        let tasks = std::mem::take(&mut lock(&self.0.tasks).running);
        for task in tasks.into_values() {
            let future = lock(&task.future).take();
            drop(future);
        }
    }
}

impl Default for ProcessLife {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ProcessLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_alive() { "Life(on)" } else { "Life(over)" })
    }
}

struct Task {
    future: Mutex<Option<Work>>,
    queued: AtomicBool,
    world: Simulation,
    life: ProcessLife,
    number: u64,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            let task = Arc::clone(&self);
            self.world.after(Duration::ZERO, move || task.poll());
        }
    }
}

impl Task {
    fn poll(self: &Arc<Self>) {
        self.queued.store(false, Ordering::Relaxed);
        let Some(mut future) = lock(&self.future).take() else { return };
        let waker = Waker::from(Arc::clone(self));
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() && self.life.is_alive() {
            *lock(&self.future) = Some(future);
            return;
        }
        drop(future);
        lock(&self.life.0.tasks).running.remove(&self.number);
    }
}

/// See [`Simulation::sleep`].
#[derive(Debug)]
pub struct Sleep {
    world: Simulation,
    until: Duration,
    waits: Option<Arc<Mutex<Option<Waker>>>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.world.now() >= self.until {
            return Poll::Ready(());
        }
        let waker = Some(context.waker().clone());
        match &self.waits {
            Some(slot) => *lock(slot) = waker,
            None => {
                let slot = Arc::new(Mutex::new(waker));
                let fired = Arc::clone(&slot);
                self.world.at(self.until, move || {
                    let waker = lock(&fired).take();
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                });
                self.waits = Some(slot);
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(slot) = &self.waits {
            lock(slot).take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_in_the_order_of_their_time_then_of_their_making() {
        let world = Simulation::new(false);
        let seen = Arc::new(Mutex::new(Vec::new()));
        for (ms, name) in [(5, "c"), (1, "a"), (5, "d"), (2, "b")] {
            let seen = Arc::clone(&seen);
            world.at(Duration::from_millis(ms), move || lock(&seen).push(name));
        }
        world.run_until(Duration::from_millis(5));
        assert_eq!(*lock(&seen), ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_task_sleeps_in_virtual_time_and_ends_with_its_life() {
        let world = Simulation::new(false);
        let (life, doomed) = (ProcessLife::new(), ProcessLife::new());
        let dropped = Arc::new(());
        let (held, sleeper) = (Arc::clone(&dropped), world.clone());
        world.spawn(&doomed, async move {
            sleeper.sleep(Duration::from_secs(3600)).await;
            drop(held);
        });
        let sleeper = world.clone();
        let hour = world.run(&life, Duration::from_secs(7200), async move {
            sleeper.sleep(Duration::from_secs(1800)).await;
            sleeper.now()
        });
        assert_eq!(hour, Some(Duration::from_secs(1800)));
        assert_eq!(Arc::strong_count(&dropped), 2);
        doomed.end();
        assert_eq!(Arc::strong_count(&dropped), 1, "what the task held is dropped with it");
    }

    #[test]
    fn a_run_that_does_not_end_is_given_up() {
        let world = Simulation::new(false);
        assert_eq!(
            world.run(&ProcessLife::new(), Duration::from_secs(1), std::future::pending::<()>()),
            None
        );
    }
}
