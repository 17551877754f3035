//! Syncs of the log: calls that wait for one share it (I6).

use std::sync::{Arc, atomic::Ordering};

use braid_types::Failure;

use crate::core::MdsCore;

type SyncWaiter = Box<dyn FnOnce(&Arc<MdsCore>, Result<(), Failure>) + Send>;

/// Continuations that wait for a sync of the log.
#[derive(Default)]
pub(crate) struct LogSync {
    waiting: Vec<SyncWaiter>,
    running: bool,
}

impl MdsCore {
    /// Calls `then` once everything committed so far survives the loss of power.
    pub(crate) fn sync_log_then(
        self: &Arc<Self>,
        then: impl FnOnce(&Arc<Self>, Result<(), Failure>) + Send + 'static,
    ) {
        let mut state = self.state();
        state.log_sync.waiting.push(Box::new(then));
        if !std::mem::replace(&mut state.log_sync.running, true) {
            drop(state);
            self.spawn_sync();
        }
    }

    fn spawn_sync(self: &Arc<Self>) {
        let me = self.clone();
        self.env.spawner.spawn(Box::new(move || {
            let waiting = std::mem::take(&mut me.state().log_sync.waiting);
            me.counters.log_syncs.fetch_add(1, Ordering::Relaxed);
            let outcome = me.namespace.sync();
            waiting.into_iter().for_each(|waiter| waiter(&me, outcome.clone()));
            let mut state = me.state();
            state.log_sync.running = !state.log_sync.waiting.is_empty();
            if state.log_sync.running {
                drop(state);
                me.spawn_sync();
            }
        }));
    }
}
