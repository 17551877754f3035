//! The one service thread of a process: renews sessions and sends closes for every client in it.
//!
//! Invariants: (1) at most one thread; (2) it holds no client alive; (3) it ends when there are no clients, and
//! after `fork` the child starts its own when it makes a client.

use std::{
    sync::{Arc, Mutex, Weak},
    thread,
};

use braid_net::Blocking;

use super::block_on;
use crate::engine::{Engine, TICK, gate::lock};

static SERVICE: Mutex<Service> = Mutex::new(Service { process: 0, clients: Vec::new() });

struct Service {
    /// Whose thread runs; 0 when none does.
    process: u32,
    clients: Vec<Weak<Engine<Blocking>>>,
}

/// Takes care of a client as long as it lives.
pub(super) fn watch(engine: &Arc<Engine<Blocking>>) {
    let mut service = lock(&SERVICE);
    let process = std::process::id();
    if service.process != process {
        // Either no thread runs, or it is the parent's and the clients are too.
        service.clients.clear();
        let started = thread::Builder::new().name("braid-service".into()).spawn(serve);
        // Without a thread the session lasts as long as calls are made; that is no reason to refuse service.
        service.process = if started.is_ok() { process } else { 0 };
    }
    service.clients.push(Arc::downgrade(engine));
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
    let mut service = lock(&SERVICE);
    service.clients.retain(|client| client.strong_count() > 0);
    if service.clients.is_empty() {
        service.process = 0;
        return None;
    }
    Some(service.clients.clone())
}
