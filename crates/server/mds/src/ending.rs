//! The end of sessions, each behind a fence (I4): a client that says goodbye may keep its capabilities.
//!
//! ```text
//!   silence, revoked key ─> no more calls ─> fence to every daemon ─> it holds ─> closed, sizes collected
//!   CloseSession ─> no more calls, locks and leases free ─> the same; who never could write: closed at once
//!   not reclaimed ─> fence 0 of the epoch: older ones are refused ──> it holds ─> closed, orphans reaped
//! ```
//!
//! Invariants: (1) what a session had open for writing stays open in the store until its fence holds on every
//! daemon: so no size is collected, and no orphan deleted, that it might still write; (2) one push of fences is
//! under way to a daemon at a time: sessions that end meanwhile go together with the next (I9).

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use braid_types::{
    FileIndex, SessionId,
    limits::{LEASE_BROKEN_MS, SESSION_SILENT_MS},
};
use braid_wire::message::iod::Fence;

use crate::{
    call::Call,
    core::{MdsCore, State, report},
    fan_out::Replies,
    session::Session,
};

/// Sessions whose fence is on its way.
#[derive(Debug)]
pub(crate) struct Ending {
    fence: u64,
    sessions: Vec<SessionId>,
    /// Files that they closed and may write all the same.
    withheld: Vec<FileIndex>,
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
    /// Ends a session that says so itself. Its locks and leases are free at once, for that is what it asked for; what it
    /// had open for writing ends behind its fence. The daemons hear at once of a session that could write, with their
    /// next heartbeat of any other.
    pub(crate) fn end_at_once(self: &Arc<Self>, id: SessionId) {
        let (wrote, answers) = {
            let mut state = self.state();
            let wrote = state.sessions.live(id).is_some_and(Session::had_write_handle);
            let Some(withheld) = state.cut_off(id) else { return };
            let fence = state.fences.add(id);
            if wrote {
                let (sessions, clients, until) = (vec![id], Vec::new(), Duration::ZERO);
                state.endings.push(Ending {
                    fence,
                    sessions,
                    withheld,
                    clients,
                    until,
                    after_grace: None,
                });
            }
            (wrote, state.locks.end_session(id))
        };
        self.free_leases(id);
        self.answer_locks(answers);
        if wrote { self.push_fences() } else { self.close_all(&[id], false) }
    }

    /// Fences a session whose id was given to nobody, or that was never begun here.
    pub(crate) fn fence_unused(&self, id: SessionId) {
        self.state().fences.add(id);
    }

    /// Answers a call when every fence of now holds on every daemon, and tells the daemons of them.
    pub(crate) fn when_fenced(self: &Arc<Self>, call: Call) {
        {
            let mut state = self.state();
            let fence = state.fences.newest();
            state.revocations.push((fence, call));
        }
        self.push_fences();
        self.finish_endings();
    }

    /// Ends sessions that can no more be trusted to have stopped.
    pub(crate) fn end_fenced(self: &Arc<Self>, ids: &[SessionId]) {
        let now = self.now();
        let leases = ids.iter().any(|id| self.uses_leases(*id));
        let (fence, count, heard) = {
            let mut state = self.state();
            let heard: Vec<_> = ids
                .iter()
                .filter_map(|id| Some((*id, state.sessions.live(*id)?.pulse.heard(now))))
                .collect();
            let called = |id: &SessionId| Some((*id, state.sessions.live(*id)?.client.clone()));
            let clients = ids.iter().filter_map(called).collect();
            let (mut sessions, mut withheld) = (Vec::new(), Vec::new());
            for id in ids {
                if let Some(files) = state.cut_off(*id) {
                    sessions.push(*id);
                    withheld.extend(files);
                }
            }
            if sessions.is_empty() {
                return;
            }
            let fence = sessions.iter().map(|id| state.fences.add(*id)).max().unwrap_or_default();
            let heard_last = heard.iter().map(|(_, heard)| *heard).max().unwrap_or_default();
            let until = if leases {
                heard_last + Duration::from_millis(LEASE_BROKEN_MS)
            } else {
                Duration::ZERO
            };
            let count = sessions.len();
            state.endings.push(Ending {
                fence,
                sessions,
                withheld,
                clients,
                until,
                after_grace: None,
            });
            (fence, count, heard)
        };
        heard.into_iter().for_each(|(session, heard)| self.break_leases(session, heard));
        self.counters.fenced.fetch_add(count as u64, Ordering::Relaxed);
        tracing::warn!(count, fence, "sessions end and are fenced");
        self.push_fences();
    }

    /// Sessions that were silent too long.
    pub(crate) fn end_silent(self: &Arc<Self>, now: Duration) {
        let silent = self
            .state()
            .sessions
            .select(|session| session.pulse.silent_ms(now) > SESSION_SILENT_MS);
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
            // They have no capability of this epoch; what asks for none, a flush or a measurement, is refused by name.
            for id in &sessions {
                state.fences.add(*id);
            }
            let (fence, count) = (self.epoch.0 << 32, sessions.len());
            state.endings.push(Ending {
                fence,
                sessions,
                withheld: Vec::new(),
                clients: Vec::new(),
                until: Duration::ZERO,
                after_grace: Some(now + Duration::from_millis(SESSION_SILENT_MS)),
            });
            count
        };
        tracing::info!(count, "the grace period is over; sessions that were not reclaimed end");
    }

    /// Tells every daemon of its missing fences now; those that cannot be asked, lack more than a message holds, or are being
    /// told already hear of them with their next heartbeat, or right after.
    fn push_fences(self: &Arc<Self>) {
        let mut calls = Vec::new();
        {
            let mut state = self.state();
            let State { fences, cluster, pushing, .. } = &mut *state;
            for iod in cluster.iods().filter(|iod| !cluster.is_removed(iod.info.id)) {
                let id = iod.info.id;
                let sessions =
                    fences.recent(iod.fence_applied).filter(|sessions| !sessions.is_empty());
                if let Some(sessions) =
                    sessions.filter(|_| cluster.is_heard(id) && pushing.insert(id))
                {
                    calls.push((
                        id,
                        Fence { sessions, fence: fences.newest(), epoch_min: fences.epoch_min() },
                    ));
                }
            }
        }
        for (iod, call) in calls {
            let fence = call.fence;
            self.ask_all(vec![(iod, call)], move |core, replies: Replies<()>| {
                let reply = replies.into_iter().next().map_or(Ok(()), |(_, reply)| reply);
                let pushed = reply.is_ok();
                let again = {
                    let mut state = core.state();
                    state.pushing.remove(&iod);
                    if pushed {
                        state.cluster.confirm_fence(iod, fence);
                    }
                    pushed && state.fences.newest() > fence
                };
                if let Err(failure) = reply {
                    report("pushing a fence", &failure);
                }
                if again {
                    core.push_fences();
                }
                core.finish_endings();
            });
        }
    }

    /// Closes what sessions had open whose fence holds by now.
    pub(crate) fn finish_endings(self: &Arc<Self>) {
        let now = self.now();
        let (holding, revoked) = {
            let mut state = self.state();
            let State { endings, revocations, cluster, sessions, .. } = &mut *state;
            if endings.is_empty() && revocations.is_empty() {
                return;
            }
            let reclaiming = sessions.iter().any(|session| session.reclaiming);
            let fenced = |ending: &Ending| {
                cluster.iods().all(|iod| cluster.fence_holds(iod.info.id, ending.fence, now))
            };
            let told = |ending: &Ending| {
                !reclaiming || ending.after_grace.is_none_or(|until| now >= until)
            };
            let holds = |ending: &Ending| now >= ending.until && told(ending) && fenced(ending);
            let (holding, waiting) =
                std::mem::take(endings).into_iter().partition::<Vec<_>, _>(holds);
            *endings = waiting;
            let known =
                |fence: u64| cluster.iods().all(|iod| cluster.fence_holds(iod.info.id, fence, now));
            let (revoked, waiting) =
                std::mem::take(revocations).into_iter().partition::<Vec<_>, _>(|(f, _)| known(*f));
            *revocations = waiting;
            (holding, revoked)
        };
        revoked.into_iter().for_each(|(_, call)| self.finish(call, Ok(())));
        for ending in holding {
            self.leases_fenced(&ending.sessions);
            {
                let collector = &mut self.state().collector;
                ending.withheld.iter().for_each(|file| collector.release(*file));
            }
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
    /// Takes a session out of the living: none of its calls is served any more. The files that it may write all the same; `None`
    /// when it is not there.
    fn cut_off(&mut self, id: SessionId) -> Option<Vec<FileIndex>> {
        let session = self.sessions.remove(id)?;
        session.pulse.end();
        Some(session.into_withheld())
    }
}
