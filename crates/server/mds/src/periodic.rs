//! Periodic work: time-outs, ends of sessions, and retries of what could not be done before.

use std::sync::{Arc, atomic::Ordering};

use crate::core::{MdsCore, report};

/// The interval of [`MdsCore::tick`] in milliseconds: a fraction of the heartbeat, so that a
/// silent daemon or client is noticed in time.
pub const TICK_MS: u64 = 250;
/// Ticks between passes over the whole deletion queue, for deletions that a daemon held up.
const DELETIONS_TICKS: u64 = 20;
/// Ticks between retries of intents and collections that a daemon held up: once a heartbeat.
const RETRY_TICKS: u64 = 4;

impl MdsCore {
    /// Does the periodic work. Called every [`TICK_MS`] by the daemon, or by the scheduler of the
    /// simulation.
    pub fn tick(&self) {
        let Some(me) = self.arc() else { return };
        let now = me.now();
        let (tick, back) = {
            let mut state = me.state();
            state.ticks += 1;
            state.cluster.age(now);
            let back = std::mem::take(&mut state.iod_returned);
            if back {
                state.deletions.retry_blocked();
            }
            (state.ticks, back)
        };
        me.free_unanswered_slots();
        me.expire_queries(now);
        me.end_silent(now);
        me.end_uncertainty_if_reclaimed();
        me.end_grace(now);
        me.finish_session_ends();
        me.retry_cleanup();
        if back || tick.is_multiple_of(RETRY_TICKS) {
            me.retry_intents();
            me.collect_retries();
        } else {
            me.collect();
        }
        me.record_due_sizes();
        me.confirm_deletions();
        me.delete_queued(back || tick.is_multiple_of(DELETIONS_TICKS));
        me.expire_gate_waits(now);
        me.expire_lock_waits(now);
        me.age_leases(now);
        me.count_files_step(now);
        me.reserve_indexes();
    }

    /// Reserves file indexes before they are needed, on a thread where waiting for the disk delays
    /// no call.
    fn reserve_indexes(self: &Arc<Self>) {
        if !self.namespace.is_low_on_indexes()
            || self.reserving_indexes.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let me = self.clone();
        self.env.spawner.spawn(Box::new(move || {
            if let Err(failure) = me.namespace.reserve_ahead() {
                report("reserving file indexes", &failure);
            }
            me.reserving_indexes.store(false, Ordering::Release);
        }));
    }

    fn expire_gate_waits(self: &Arc<Self>, now: std::time::Duration) {
        let expired = self.state().sizes.expire_gates(now);
        expired.into_iter().for_each(|((call, _), failure)| self.fail(call, &failure));
    }
}
