//! The end of sessions, each behind a fence (I4): a client may keep its capabilities after it has
//! closed its session. [`super::SessionTable`] decides; here daemons, the store and leases follow.
//!
//! ```text
//!   silence, revoked key ─> no calls ─> fence pushed ─> it holds ─> closed, sizes collected
//!   CloseSession ─> no calls, locks and leases free ─> the same; never wrote: closed immediately
//!   not reclaimed ─> fence 0, which refuses older epochs ─> it holds ─> closed, orphans deleted
//! ```

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use braid_types::SessionId;

use super::table::FencedSessions;
use crate::{
    call::Call,
    core::{MdsCore, MdsState, report},
    iod_queries::Replies,
};

impl MdsCore {
    /// Ends a session that its client closes. Its locks and leases are free immediately, as the
    /// client asked. What it had open for writing ends behind its fence. The fence of a session
    /// that could write is pushed to the daemons immediately; they receive any other with their
    /// next heartbeat.
    pub(crate) fn close_session_now(self: &Arc<Self>, id: SessionId) {
        let (wrote, answers) = {
            let mut state = self.state();
            let Some(wrote) = state.sessions.end_closed(id) else { return };
            (wrote, state.locks.end_session(id))
        };
        self.free_leases(id);
        self.answer_locks(answers);
        if wrote { self.push_fences() } else { self.close_sessions(&[id], false) }
    }

    /// Fences a session whose id was given to nobody, or that was never begun here.
    pub(crate) fn fence_unused(&self, id: SessionId) {
        self.state().sessions.fence_unused(id);
    }

    /// Answers a call when every present fence holds on every daemon, and pushes the fences.
    pub(crate) fn answer_when_fenced(self: &Arc<Self>, call: Call) {
        self.state().sessions.answer_when_fenced(call);
        self.push_fences();
        self.finish_session_ends();
    }

    /// Ends sessions whose clients may still act as if they were live.
    pub(crate) fn end_and_fence(self: &Arc<Self>, ids: &[SessionId]) {
        let now = self.now();
        let leases = ids.iter().any(|id| self.is_lease_holder(*id));
        let ended = self.state().sessions.end_fenced(ids, now, leases);
        let Some(FencedSessions { fence, count, last_active }) = ended else { return };
        last_active
            .into_iter()
            .for_each(|(session, last_active)| self.break_leases(session, last_active));
        self.counters.fenced.fetch_add(count as u64, Ordering::Relaxed);
        tracing::warn!(count, fence, "sessions end and are fenced");
        self.push_fences();
    }

    /// Ends sessions that were silent for too long.
    pub(crate) fn end_silent(self: &Arc<Self>, now: Duration) {
        let silent = self.state().sessions.silent(now);
        self.end_and_fence(&silent);
    }

    /// Ends the grace period when its time has come, and the sessions that were not reclaimed.
    pub(crate) fn end_grace(self: &Arc<Self>, now: Duration) {
        let Some(count) = self.state().sessions.end_grace(now) else { return };
        tracing::info!(count, "the grace period is over; sessions that were not reclaimed end");
    }

    /// Pushes to each daemon the fences that it lacks.
    fn push_fences(self: &Arc<Self>) {
        let calls = {
            let MdsState { sessions, cluster, .. } = &mut *self.state();
            sessions.fences_to_push(cluster)
        };
        for (iod, call) in calls {
            let fence = call.fence;
            self.query_iods(vec![(iod, call)], move |core, replies: Replies<()>| {
                let reply = replies.into_iter().next().map_or(Ok(()), |(_, reply)| reply);
                let confirmed = reply.is_ok();
                let again = {
                    let MdsState { sessions, cluster, .. } = &mut *core.state();
                    if confirmed {
                        cluster.confirm_fence(iod, fence);
                    }
                    sessions.push_ended(iod, fence, confirmed)
                };
                if let Err(failure) = reply {
                    report("pushing a fence", &failure);
                }
                if again {
                    core.push_fences();
                }
                core.finish_session_ends();
            });
        }
    }

    /// Closes what sessions had open whose fence holds now.
    pub(crate) fn finish_session_ends(self: &Arc<Self>) {
        let now = self.now();
        let (finished, fenced) = {
            let MdsState { sessions, cluster, .. } = &mut *self.state();
            sessions.take_finished(cluster, now)
        };
        fenced.into_iter().for_each(|call| self.finish(call, Ok(())));
        for end in finished {
            self.leases_fenced(&end.sessions);
            {
                let sizes = &mut self.state().sizes;
                end.unfenced_closes.iter().for_each(|file| sizes.end_unfenced_close(*file));
            }
            self.close_sessions(&end.sessions, end.is_after_grace());
        }
    }

    fn close_sessions(self: &Arc<Self>, sessions: &[SessionId], after_grace: bool) {
        for session in sessions {
            self.state().sizes.session_ended(*session);
            self.end_in_store(*session);
        }
        for session in sessions {
            let answers = self.state().locks.end_session(*session);
            self.answer_locks(answers);
        }
        if after_grace {
            self.end_uncertainty();
            self.namespace.keep_orphans(false);
            self.reap_orphans();
        }
        self.state().deletions.note_queued();
        self.collect();
        self.delete_queued(false);
    }
}
