//! The one service thread of a process: renews sessions and sends closes for every client in it.
//!
//! ```text
//!   first process [clients, thread] ──> its child [clients, thread] ──> the child's child …
//! ```
//!
//! Invariants: (1) at most one thread in a process; (2) it holds no client alive; (3) it ends when there are no
//! clients; (4) after `fork` the child starts its own when it makes a client, and never touches its parent's lock,
//! which another thread may have held at that moment.

use std::{
    sync::{Arc, Mutex, OnceLock, Weak},
    thread,
};

use braid_net::Blocking;

use super::block_on;
use crate::{
    engine::{Engine, TICK, gate::lock},
    fork,
};

/// One for each process of a line of forks; a child finds its parents' before its own.
struct Service {
    /// Whose it is.
    mark: u64,
    state: Mutex<State>,
    childs: OnceLock<Box<Service>>,
}

#[derive(Default)]
struct State {
    runs: bool,
    clients: Vec<Weak<Engine<Blocking>>>,
}

/// This process's.
fn service() -> &'static Service {
    static FIRST: OnceLock<Box<Service>> = OnceLock::new();
    let mark = fork::mark();
    let mut place = &FIRST;
    loop {
        let found = place.get_or_init(|| Box::new(Service { mark, state: Mutex::default(), childs: OnceLock::new() }));
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
    state.clients.push(Arc::downgrade(engine));
}

fn serve() {
    loop {
        thread::sleep(TICK);
        let Some(clients) = living() else { return };
        for engine in clients.iter().filter_map(Weak::upgrade) {
            // A server that is away is tried again at the next tick; calls report it to those who wait for it.
            let _ = block_on(engine.tick());
        }
    }
}

/// The clients that live; `None`, and the thread's place is free, when there are none.
fn living() -> Option<Vec<Weak<Engine<Blocking>>>> {
    let mut state = lock(&service().state);
    state.clients.retain(|client| client.strong_count() > 0);
    if state.clients.is_empty() {
        state.runs = false;
        return None;
    }
    Some(state.clients.clone())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::{Config, Credential, fork::tests::holds_in_child};

    fn engine() -> Arc<Engine<Blocking>> {
        Engine::new(Blocking::new(), Config::new(["127.0.0.1:1"], Credential::Agent("/nowhere".into())))
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
            state.runs && state.clients.len() == 1 && state.clients[0].ptr_eq(&Arc::downgrade(&mine))
        });
        drop(held);
        assert!(child_serves);
    }
}
