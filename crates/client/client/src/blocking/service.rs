//! The one service thread of a process: renews sessions and sends closes for every client in it.
//!
//! ```text
//!   first process [clients, thread] ──> its child [clients, thread] ──> the child's child …
//! ```
//!
//! The thread itself talks to no server. It hands each client's tick to a lane and waits [`PATIENCE`] for it: then the
//! next client has its turn, while the lane stays with the one whose servers do not answer.
//!
//! Invariants: (1) at most one service thread in a process, and lanes as [`Workers`] bounds them; (2) neither holds a
//! client alive but for a tick under way; (3) the thread ends when there are no clients, lanes when they are idle for
//! a while; (4) after `fork` the child starts its own when it makes a client, and never touches its parent's lock,
//! which another thread may have held at that moment; (5) a client has one tick at a time.

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
    engine::{Engine, TICK, gate::lock},
    fork,
};

/// How long a client's tick holds up those of the others: longer than servers take that answer.
const PATIENCE: Duration = Duration::from_millis(100);

/// One for each process of a line of forks; a child finds its parents' before its own.
struct Service {
    /// Whose it is.
    mark: u64,
    state: Mutex<State>,
    lanes: Arc<Workers>,
    childs: OnceLock<Box<Service>>,
}

#[derive(Default)]
struct State {
    runs: bool,
    clients: Vec<Watched>,
}

#[derive(Clone)]
struct Watched {
    engine: Weak<Engine<Blocking>>,
    /// Whether a lane is with it (invariant 5).
    is_ticking: Arc<AtomicBool>,
}

/// What is done for a client at its turn.
type Tick = fn(&Arc<Engine<Blocking>>);

/// This process's.
fn service() -> &'static Service {
    static FIRST: OnceLock<Box<Service>> = OnceLock::new();
    let mark = fork::mark();
    let mut place = &FIRST;
    loop {
        let new = || Service {
            mark,
            state: Mutex::default(),
            lanes: Workers::new(),
            childs: OnceLock::new(),
        };
        let found = place.get_or_init(|| Box::new(new()));
        if found.mark == mark {
            return found;
        }
        place = &found.childs;
    }
}

/// Takes care of a client as long as it lives.
pub(super) fn watch(engine: &Arc<Engine<Blocking>>) {
    let mut state = lock(&service().state);
    if !state.runs {
        // Without a thread the session lasts as long as calls are made; that is no reason to refuse service.
        state.runs = thread::Builder::new().name("braid-service".into()).spawn(serve).is_ok();
    }
    state.clients.push(Watched::new(engine));
}

fn serve() {
    let lanes = &service().lanes;
    loop {
        thread::sleep(TICK);
        let Some(clients) = living() else { return };
        // A server that is away is tried again at the next tick; calls report it to those who wait for it.
        clients
            .iter()
            .for_each(|client| client.tick(lanes, |engine| drop(block_on(engine.tick()))));
    }
}

impl Watched {
    fn new(engine: &Arc<Engine<Blocking>>) -> Self {
        Self { engine: Arc::downgrade(engine), is_ticking: Arc::default() }
    }

    /// Has a lane do it, unless one is at it, and waits for that as long as the other clients can.
    fn tick(&self, lanes: &Arc<Workers>, tick: Tick) {
        if self.is_ticking.swap(true, Ordering::AcqRel) {
            return;
        }
        let (client, (done, ended)) = (self.clone(), mpsc::channel::<()>());
        lanes.run(Box::new(move || {
            if let Some(engine) = client.engine.upgrade() {
                tick(&engine);
            }
            client.is_ticking.store(false, Ordering::Release);
            drop(done);
        }));
        // It is over when the sender is gone.
        let _ = ended.recv_timeout(PATIENCE);
    }
}

/// The clients that live; `None`, and the thread's place is free, when there are none.
fn living() -> Option<Vec<Watched>> {
    let mut state = lock(&service().state);
    state.clients.retain(|client| client.engine.strong_count() > 0);
    if state.clients.is_empty() {
        state.runs = false;
        return None;
    }
    Some(state.clients.clone())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::{Config, Credential, fork::tests::holds_in_child};

    fn engine() -> Arc<Engine<Blocking>> {
        Engine::new(
            Blocking::new(),
            Config::new(["127.0.0.1:1"], Credential::Agent("/nowhere".into())),
        )
    }

    #[test]
    fn clients_whose_servers_never_answer_hold_up_no_other_and_have_one_tick_at_a_time() {
        /// Ends when the test says so.
        static HELD: Mutex<()> = Mutex::new(());
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        static TICKS: AtomicUsize = AtomicUsize::new(0);
        let lanes = Workers::new();
        let engines: Vec<_> = (0..5).map(|_| engine()).collect();
        let clients: Vec<_> = engines.iter().map(Watched::new).collect();
        let (last, silent) = clients.split_last().unwrap();
        let held = lock(&HELD);
        for round in 1..=3 {
            for client in silent {
                client.tick(&lanes, |_| {
                    BEGUN.fetch_add(1, Ordering::Relaxed);
                    drop(lock(&HELD));
                });
            }
            last.tick(&lanes, |_| _ = TICKS.fetch_add(1, Ordering::Relaxed));
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
            state.runs
                && state.clients.len() == 1
                && state.clients[0].engine.ptr_eq(&Arc::downgrade(&mine))
        });
        drop(held);
        assert!(child_serves);
    }
}
