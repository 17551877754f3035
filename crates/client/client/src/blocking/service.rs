//! The service thread of a process: renews the sessions and sends the closes of all clients in it.
//!
//! ```text
//!   first process [clients, thread] ──> its child [clients, thread] ──> the child's child …
//! ```
//!
//! The service thread itself sends nothing. It gives each client's tick to a worker and waits for
//! it, for [`PATIENCE`] at most. Then it continues with the next client, while the worker stays
//! with the client whose servers do not answer.
//!
//! Invariants:
//! 1. A process has at most one service thread, and as many workers as [`Workers`] allows.
//! 2. Neither keeps a client alive, except during its tick.
//! 3. The thread ends when there are no clients; workers end when they are idle for a while.
//! 4. After `fork` the child starts its own thread when it makes a client. It never takes its
//!    parent's lock, which another thread may have held at the fork.
//! 5. A client has one tick at a time.
//!
//! Assertions check 1 and 5. The weak references give 2. Invariants 3 and 4 are about the ends of
//! threads and about forks, which only the tests below can see.

use std::{
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use braid_net::Blocking;

use super::{block_on, workers::Workers};
use crate::{
    engine::{Engine, TICK, semaphore::lock},
    fork,
};

/// How long a client's tick may delay the next client: longer than a server that answers takes.
const TICK_WAIT: Duration = Duration::from_millis(100);

/// One for each process in a line of forks. A child finds those of its ancestors before its own.
struct Service {
    /// The process that it belongs to.
    process: u64,
    state: Mutex<WatchedClients>,
    workers: Arc<Workers>,
    child: OnceLock<Box<Service>>,
}

#[derive(Default)]
struct WatchedClients {
    is_running: bool,
    clients: Vec<WatchedClient>,
}

#[derive(Clone)]
struct WatchedClient {
    engine: Weak<Engine<Blocking>>,
    /// Whether a worker runs its tick (invariant 5).
    is_ticking: Arc<AtomicBool>,
}

/// What runs at each tick of a client.
type Tick = fn(&Arc<Engine<Blocking>>);

/// The service of this process.
fn service() -> &'static Service {
    static FIRST: OnceLock<Box<Service>> = OnceLock::new();
    let mark = fork::mark();
    let mut cell = &FIRST;
    loop {
        let new = || Service {
            process: mark,
            state: Mutex::default(),
            workers: Workers::new(),
            child: OnceLock::new(),
        };
        let found = cell.get_or_init(|| Box::new(new()));
        if found.process == mark {
            return found;
        }
        cell = &found.child;
    }
}

/// Renews the session and sends the closes of a client as long as it exists.
pub(super) fn watch(engine: &Arc<Engine<Blocking>>) {
    let mut state = lock(&service().state);
    if !state.is_running {
        // If no thread can be started, the session is valid as long as the program makes calls.
        // That is better than to fail here.
        state.is_running = thread::Builder::new().name("braid-service".into()).spawn(serve).is_ok();
    }
    state.clients.push(WatchedClient::new(engine));
}

fn serve() {
    let workers = &service().workers;
    loop {
        thread::sleep(TICK);
        let Some(clients) = live_clients() else { return };
        // The next tick tries an unresponsive server again. Calls that wait for it report the
        // error.
        clients
            .iter()
            .for_each(|client| client.tick(workers, |engine| drop(block_on(engine.tick()))));
    }
}

impl WatchedClient {
    fn new(engine: &Arc<Engine<Blocking>>) -> Self {
        Self { engine: Arc::downgrade(engine), is_ticking: Arc::default() }
    }

    /// Lets a worker run the tick, unless one still does, and waits for it, up to a limit.
    fn tick(&self, workers: &Arc<Workers>, tick: Tick) {
        if self.is_ticking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (client, (done, ended)) = (self.clone(), mpsc::channel::<()>());
        workers.run(Box::new(move || {
            if let Some(engine) = client.engine.upgrade() {
                tick(&engine);
            }
            let was_ticking = client.is_ticking.swap(false, Ordering::Release);
            debug_assert!(was_ticking, "5: a client has one tick at a time");
            drop(done);
        }));
        // The tick has ended when the sender is dropped.
        let _ = ended.recv_timeout(TICK_WAIT);
    }
}

/// The clients that still exist; `None` if there are none, and then the thread does not count any
/// more.
fn live_clients() -> Option<Vec<WatchedClient>> {
    let mut state = lock(&service().state);
    debug_assert!(state.is_running, "1: the service thread that calls this is the only one");
    state.clients.retain(|client| client.engine.strong_count() > 0);
    if state.clients.is_empty() {
        state.is_running = false;
        return None;
    }
    Some(state.clients.clone())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use braid_testbed::fork::holds_in_child;

    use crate::{Config, Credential};

    fn engine() -> Arc<Engine<Blocking>> {
        Engine::new(
            Blocking::new(),
            Config::new(["127.0.0.1:1"], Credential::Agent("/nowhere".into())),
        )
    }

    #[test]
    fn silent_servers_delay_no_other_client_and_each_client_has_one_tick() {
        /// Unlocked when the test ends.
        static HELD: Mutex<()> = Mutex::new(());
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        static TICKS: AtomicUsize = AtomicUsize::new(0);
        let workers = Workers::new();
        let engines: Vec<_> = (0..5).map(|_| engine()).collect();
        let clients: Vec<_> = engines.iter().map(WatchedClient::new).collect();
        let (last, silent) = clients.split_last().unwrap();
        let held = lock(&HELD);
        for round in 1..=3 {
            for client in silent {
                client.tick(&workers, |_| {
                    BEGUN.fetch_add(1, Ordering::Relaxed);
                    drop(lock(&HELD));
                });
            }
            last.tick(&workers, |_| _ = TICKS.fetch_add(1, Ordering::Relaxed));
            while TICKS.load(Ordering::Relaxed) < round {
                thread::yield_now();
            }
        }
        while BEGUN.load(Ordering::Relaxed) < silent.len() {
            thread::yield_now();
        }
        drop(held);
        while silent.iter().any(|client| client.is_ticking.load(Ordering::Acquire)) {
            thread::yield_now();
        }
        assert_eq!(BEGUN.load(Ordering::Relaxed), silent.len(), "once each");
    }

    #[test]
    fn a_child_starts_its_own_also_when_the_parents_lock_was_held_at_the_fork() {
        let parents = engine();
        watch(&parents);
        let held = lock(&service().state);
        let child_serves = holds_in_child(|| {
            let mine = engine();
            watch(&mine);
            let state = lock(&service().state);
            state.is_running
                && state.clients.len() == 1
                && state.clients[0].engine.ptr_eq(&Arc::downgrade(&mine))
        });
        drop(held);
        assert!(child_serves);
    }
}
