//! The end of sessions: at once when the client says so, else behind a fence (I4).
//!
//! ```text
//!   silence, revoked key ─> no more calls ─> fence to every daemon ─> it holds ─> closed, sizes collected
//!   CloseSession ─────────────────────────────────────────────────────────────> closed, sizes collected
//!   not reclaimed ─> fence 0 of the epoch: older ones are refused ──> it holds ─> closed, orphans reaped
//! ```
//!
//! Invariant: what a session had open for writing stays open in the store until its fence holds on every
//! daemon: so no size is collected, and no orphan deleted, that it might still write.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use braid_types::{
    IodId, SessionId,
    limits::{LEASE_BROKEN_MS, SESSION_SILENT_MS},
};
use braid_wire::message::iod::Fence;

use crate::{
    core::{MdsCore, State, report},
    fan_out::Replies,
};

/// Sessions whose fence is on its way.
#[derive(Debug)]
pub(crate) struct Ending {
    fence: u64,
    sessions: Vec<SessionId>,
    /// What their clients are called, as far as that is known.
    clients: Vec<(SessionId, String)>,
    /// Those that held leases may believe until then: so long they stay on record, for a restart to know them.
    until: Duration,
    /// The end of the grace period: orphans that nobody took up go with it. Sessions that are telling what they have open
    /// are waited for until then.
    after_grace: Option<Duration>,
}

impl Ending {
    pub(crate) fn is_after_grace(&self) -> bool {
        self.after_grace.is_some()
    }

    /// Whether it ends this session.
    pub(crate) fn is_of(&self, session: SessionId) -> bool {
        self.sessions.contains(&session)
    }

    /// What the client of this session is called.
    pub(crate) fn client(&self, session: SessionId) -> Option<&str> {
        self.clients.iter().find(|(ended, _)| *ended == session).map(|(_, name)| name.as_str())
    }
}

impl MdsCore {
    /// Ends a session that says so itself.
    pub(crate) fn end_at_once(self: &Arc<Self>, id: SessionId) {
        if self.state().cut_off(id) {
            self.free_leases(id);
            self.close_all(&[id], false);
        }
    }

    /// Ends sessions that can no more be trusted to have stopped.
    pub(crate) fn end_fenced(self: &Arc<Self>, ids: &[SessionId]) {
        let now = self.now();
        let leases = ids.iter().any(|id| self.uses_leases(*id));
        let (fence, sessions, heard) = {
            let mut state = self.state();
            let heard: Vec<_> =
                ids.iter().filter_map(|id| Some((*id, state.sessions.live(*id)?.pulse.heard(now)))).collect();
            let called = |id: &SessionId| Some((*id, state.sessions.live(*id)?.client.clone()));
            let clients = ids.iter().filter_map(called).collect();
            let sessions: Vec<SessionId> = ids.iter().copied().filter(|id| state.cut_off(*id)).collect();
            if sessions.is_empty() {
                return;
            }
            let fence = sessions.iter().map(|id| state.fences.add(*id)).max().unwrap_or_default();
            let heard_last = heard.iter().map(|(_, heard)| *heard).max().unwrap_or_default();
            let until = if leases { heard_last + Duration::from_millis(LEASE_BROKEN_MS) } else { Duration::ZERO };
            state.endings.push(Ending { fence, sessions: sessions.clone(), clients, until, after_grace: None });
            (fence, sessions, heard)
        };
        heard.into_iter().for_each(|(session, heard)| self.break_leases(session, heard));
        self.counters.fenced.fetch_add(sessions.len() as u64, Ordering::Relaxed);
        tracing::warn!(count = sessions.len(), fence, "sessions end and are fenced");
        self.push_fence(fence, sessions);
    }

    /// Sessions that were silent too long.
    pub(crate) fn end_silent(self: &Arc<Self>, now: Duration) {
        let silent = self.state().sessions.select(|session| session.pulse.silent_ms(now) > SESSION_SILENT_MS);
        self.end_fenced(&silent);
    }

    /// The grace period is over: who did not come back is gone. A daemon that registered with this server refuses
    /// what they could write; what they had open is closed when that holds on all of them.
    pub(crate) fn end_grace(self: &Arc<Self>, now: Duration) {
        let count = {
            let mut state = self.state();
            if state.grace_until.is_none_or(|until| now < until) {
                return;
            }
            state.grace_until = None;
            let sessions = state.sessions.give_up_recorded();
            let (fence, count) = (self.epoch.0 << 32, sessions.len());
            state.endings.push(Ending {
                fence,
                sessions,
                clients: Vec::new(),
                until: Duration::ZERO,
                after_grace: Some(now + Duration::from_millis(SESSION_SILENT_MS)),
            });
            count
        };
        tracing::info!(count, "the grace period is over; sessions that were not reclaimed end");
    }

    /// Tells every daemon of a fence now; those that cannot be asked hear of it with their next heartbeat.
    fn push_fence(self: &Arc<Self>, fence: u64, sessions: Vec<SessionId>) {
        let calls = {
            let state = self.state();
            let epoch_min = state.fences.epoch_min();
            let call = |iod: IodId| (iod, Fence { sessions: sessions.clone(), fence, epoch_min });
            // A daemon that has not confirmed the fences before this one must hear of all: its heartbeat tells it.
            let up_to_date =
                |iod: &&crate::cluster::Iod| iod.fence_applied.saturating_add(sessions.len().max(1) as u64) >= fence;
            let asked = state.cluster.iods().filter(|iod| !state.cluster.is_removed(iod.info.id));
            asked.filter(up_to_date).map(|iod| call(iod.info.id)).collect::<Vec<_>>()
        };
        self.ask_all(calls, move |core, replies: Replies<()>| {
            for (iod, reply) in replies {
                match reply {
                    Ok(()) => core.state().cluster.confirm_fence(iod, fence),
                    Err(failure) => report("pushing a fence", &failure),
                }
            }
            core.finish_endings();
        });
    }

    /// Closes what sessions had open whose fence holds by now.
    pub(crate) fn finish_endings(self: &Arc<Self>) {
        let now = self.now();
        let holding = {
            let mut state = self.state();
            let State { endings, cluster, sessions, .. } = &mut *state;
            let reclaiming = sessions.iter().any(|session| session.reclaiming);
            let fenced =
                |ending: &Ending| cluster.iods().all(|iod| cluster.fence_holds(iod.info.id, ending.fence, now));
            let told = |ending: &Ending| !reclaiming || ending.after_grace.is_none_or(|until| now >= until);
            let holds = |ending: &Ending| now >= ending.until && told(ending) && fenced(ending);
            let (holding, waiting) = std::mem::take(endings).into_iter().partition::<Vec<_>, _>(holds);
            *endings = waiting;
            holding
        };
        for ending in holding {
            self.leases_fenced(&ending.sessions);
            self.close_all(&ending.sessions, ending.is_after_grace());
        }
    }

    fn close_all(self: &Arc<Self>, sessions: &[SessionId], after_grace: bool) {
        for session in sessions {
            self.state().collector.end_makers(*session);
            self.end_on_record(*session);
        }
        for session in sessions {
            let answers = self.state().locks.end_session(*session);
            self.answer_locks(answers);
        }
        if after_grace {
            self.end_doubt();
            self.names.keep_orphans(false);
            self.reap_orphans();
        }
        self.state().deleter.queued();
        self.collect();
        self.delete_queued(false);
    }
}

impl State {
    /// Takes a session out of the living: none of its calls is served any more.
    fn cut_off(&mut self, id: SessionId) -> bool {
        let Some(session) = self.sessions.remove(id) else { return false };
        session.pulse.end();
        true
    }
}
