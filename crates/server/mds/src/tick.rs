//! What happens on its own: ages, ends, and whatever could not be done before.

use std::sync::{Arc, atomic::Ordering};

use crate::core::{MdsCore, report};

/// How often [`MdsCore::tick`] wants to be called, in milliseconds: a fraction of the heartbeat, so that silence
/// is seen in time.
pub const TICK_MS: u64 = 250;
/// Ticks between looks at the whole queue of deletions: what a daemon that was down held up.
const DELETIONS_TICKS: u64 = 20;
/// Ticks between repetitions of what a daemon held up: once a heartbeat.
const RETRY_TICKS: u64 = 4;

impl MdsCore {
    /// Looks at the clock. Called every [`TICK_MS`] by the daemon, by the scheduler in the simulation.
    pub fn tick(&self) {
        let Some(me) = self.arc() else { return };
        let now = me.now();
        let (tick, back) = {
            let mut state = me.state();
            state.ticks += 1;
            state.cluster.age(now);
            let back = std::mem::take(&mut state.daemon_back);
            if back {
                state.deleter.let_go();
            }
            (state.ticks, back)
        };
        me.free_unanswered_slots();
        me.give_up_asked(now);
        me.end_silent(now);
        me.look_at_doubt();
        me.end_grace(now);
        me.finish_endings();
        me.end_again();
        if back || tick.is_multiple_of(RETRY_TICKS) {
            me.retry_intents();
            me.collect_again();
        } else {
            me.collect();
        }
        me.settle_sizes();
        me.settle_deletions();
        me.delete_queued(back || tick.is_multiple_of(DELETIONS_TICKS));
        me.expire_waiting(now);
        me.expire_lock_waits(now);
        me.age_leases(now);
        me.count_files(now);
        me.reserve_indexes();
    }

    /// Reserves file indexes before they are needed, where waiting for the disk holds up nobody.
    fn reserve_indexes(self: &Arc<Self>) {
        if !self.names.is_low_on_indexes() || self.reserving.swap(true, Ordering::AcqRel) {
            return;
        }
        let me = self.clone();
        self.env.spawner.spawn(Box::new(move || {
            if let Err(failure) = me.names.reserve_ahead() {
                report("reserving file indexes", &failure);
            }
            me.reserving.store(false, Ordering::Release);
        }));
    }

    fn expire_waiting(self: &Arc<Self>, now: std::time::Duration) {
        let expired = self.state().gates.expire(now);
        expired.into_iter().for_each(|((call, _), failure)| self.fail(call, &failure));
    }
}
