//! Syncs of the log: calls that wait for one share it (I6).

use std::sync::{Arc, atomic::Ordering};

use braid_types::Failure;

use crate::core::MdsCore;

type Waiter = Box<dyn FnOnce(&Arc<MdsCore>, Result<(), Failure>) + Send>;

/// Continuations that wait for a sync of the log.
#[derive(Default)]
pub(crate) struct Forcer {
    waiting: Vec<Waiter>,
    running: bool,
}

impl MdsCore {
    /// Calls `then` once everything committed so far survives the loss of power.
    pub(crate) fn force(
        self: &Arc<Self>,
        then: impl FnOnce(&Arc<Self>, Result<(), Failure>) + Send + 'static,
    ) {
        let mut state = self.state();
        state.forcer.waiting.push(Box::new(then));
        if !std::mem::replace(&mut state.forcer.running, true) {
            drop(state);
            self.spawn_force();
        }
    }

    fn spawn_force(self: &Arc<Self>) {
        let me = self.clone();
        self.env.spawner.spawn(Box::new(move || {
            let waiting = std::mem::take(&mut me.state().forcer.waiting);
            me.counters.forces.fetch_add(1, Ordering::Relaxed);
            let outcome = me.names.sync();
            waiting.into_iter().for_each(|waiter| waiter(&me, outcome.clone()));
            let mut state = me.state();
            state.forcer.running = !state.forcer.waiting.is_empty();
            if state.forcer.running {
                drop(state);
                me.spawn_force();
            }
        }));
    }
}
