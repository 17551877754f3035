//! The table of sessions, their ends and their fences: every change of state, and no call.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use braid_net::server::Responder;
use braid_types::{
    FileIndex, IodId, MdsEpoch, SessionId,
    limits::{LEASE_EXPIRES_MS, SESSION_SILENT_MS},
};
use braid_wire::message::iod::Fence;

use super::{
    ClientSession, OpenFile, Owner, Sessions,
    cleanup_retry::CleanupRetry,
    fence::{Fences, MissingFences},
};
use crate::{call::Call, cluster::Cluster};

/// Sessions, and what their ends still need. The module `session` has the invariants.
pub(crate) struct SessionTable {
    /// Live sessions, and recorded ones that may be reclaimed. Only this module adds and removes.
    pub(crate) live: Sessions<Responder>,
    fences: Fences,
    ends: Vec<SessionEnd>,
    /// Calls that are answered when a fence holds on every daemon: the fence, and the call.
    fence_waits: Vec<(u64, Call)>,
    /// Daemons with a push of fences in flight.
    pushing: BTreeSet<IodId>,
    pub(super) cleanup: CleanupRetry,
    /// The end of the grace period, while it lasts.
    grace_until: Option<Duration>,
}

/// Sessions that have ended and whose fence does not hold on every daemon yet.
#[derive(Debug)]
pub(super) struct SessionEnd {
    fence: u64,
    pub(super) sessions: Vec<SessionId>,
    /// Files that they closed and may still write.
    pub(super) unfenced_closes: Vec<FileIndex>,
    /// The names of their clients, where known.
    clients: Vec<(SessionId, String)>,
    /// Sessions that held leases may rely on them until then. They stay on record until then, so
    /// that a restarted server knows them.
    not_before: Duration,
    /// Set for the end of the grace period, which also deletes orphans that nobody reclaimed.
    /// Sessions that are reclaiming are waited for until then.
    after_grace: Option<Duration>,
}

impl SessionEnd {
    pub(super) fn is_after_grace(&self) -> bool {
        self.after_grace.is_some()
    }
}

/// What [`SessionTable::end_fenced`] did.
pub(super) struct FencedSessions {
    /// The fence that refuses all of them.
    pub(super) fence: u64,
    pub(super) count: usize,
    /// When the last message of each arrived.
    pub(super) last_active: Vec<(SessionId, Duration)>,
}

impl SessionTable {
    /// The sessions of a server that has just started. `next` is the first id that is free;
    /// `recorded` are the sessions of before that may be reclaimed until `grace_until`.
    pub(crate) fn new(
        epoch: MdsEpoch,
        next: SessionId,
        recorded: HashMap<SessionId, Owner>,
        grace_until: Option<Duration>,
    ) -> Self {
        Self {
            fences: Fences::new(epoch, next, recorded.keys().copied()),
            live: Sessions::new(recorded),
            ends: Vec::new(),
            fence_waits: Vec::new(),
            pushing: BTreeSet::new(),
            cleanup: CleanupRetry::default(),
            grace_until,
        }
    }

    /// Adds a session that begins or is reclaimed.
    pub(crate) fn begin(&mut self, session: ClientSession<Responder>) {
        self.live.insert(session);
    }

    /// Whether the grace period lasts.
    pub(crate) fn is_in_grace(&self) -> bool {
        self.grace_until.is_some()
    }

    /// Whether a session of before the restart may still reclaim, or may still write unnoticed.
    pub(crate) fn awaits_reclaims(&self) -> bool {
        self.live.awaits_reclaims() || self.ends.iter().any(SessionEnd::is_after_grace)
    }

    /// The client of a session that has ended and is not finished.
    pub(crate) fn ended_client(&self, session: SessionId) -> Option<&str> {
        let mut clients = self.ends.iter().flat_map(|end| &end.clients);
        clients.find(|(ended, _)| *ended == session).map(|(_, name)| name.as_str())
    }

    /// Sessions that were silent for too long.
    pub(super) fn silent(&self, now: Duration) -> Vec<SessionId> {
        self.live.select(|session| session.activity.idle_ms(now) > SESSION_SILENT_MS)
    }

    /// Fences a session that was never live here.
    pub(super) fn fence_unused(&mut self, id: SessionId) {
        self.fences.add(id);
    }

    /// Ends a session that its client closes. Whether it ever had a write handle, so that it must
    /// be closed behind its fence; `None` when it is not live.
    pub(super) fn end_closed(&mut self, id: SessionId) -> Option<bool> {
        let wrote = self.live.get(id).is_some_and(ClientSession::had_write_handle);
        let withheld = self.remove_live(id)?;
        let fence = self.fences.add(id);
        if wrote {
            let (sessions, clients, until) = (vec![id], Vec::new(), Duration::ZERO);
            let after_grace = None;
            self.ends.push(SessionEnd {
                fence,
                sessions,
                unfenced_closes: withheld,
                clients,
                not_before: until,
                after_grace,
            });
        }
        Some(wrote)
    }

    /// Ends sessions whose clients may not know it. `leases`: some of them held leases. `None` when
    /// none of them is live.
    pub(super) fn end_fenced(
        &mut self,
        ids: &[SessionId],
        now: Duration,
        leases: bool,
    ) -> Option<FencedSessions> {
        let last_active: Vec<_> = ids
            .iter()
            .filter_map(|id| Some((*id, self.live.get(*id)?.activity.last_active(now))))
            .collect();
        let named = |id: &SessionId| Some((*id, self.live.get(*id)?.client.clone()));
        let clients = ids.iter().filter_map(named).collect();
        let (mut sessions, mut withheld) = (Vec::new(), Vec::new());
        for id in ids {
            if let Some(files) = self.remove_live(*id) {
                sessions.push(*id);
                withheld.extend(files);
            }
        }
        if sessions.is_empty() {
            return None;
        }
        let fence = sessions.iter().map(|id| self.fences.add(*id)).max().unwrap_or_default();
        let newest_activity =
            last_active.iter().map(|(_, last_active)| *last_active).max().unwrap_or_default();
        let until = if leases {
            newest_activity + Duration::from_millis(LEASE_EXPIRES_MS)
        } else {
            Duration::ZERO
        };
        let (count, after_grace) = (sessions.len(), None);
        self.ends.push(SessionEnd {
            fence,
            sessions,
            unfenced_closes: withheld,
            clients,
            not_before: until,
            after_grace,
        });
        Some(FencedSessions { fence, count, last_active })
    }

    /// Ends the grace period when its time has come, and every session that was not reclaimed: how
    /// many. A daemon that registered with this server refuses their capabilities, which are of an
    /// older epoch; what they had open is closed when that is true of all daemons.
    pub(super) fn end_grace(&mut self, now: Duration) -> Option<usize> {
        if self.grace_until.is_none_or(|until| now < until) {
            return None;
        }
        self.grace_until = None;
        let sessions = self.live.take_unreclaimed();
        // Calls without a capability, such as a flush, are refused by session.
        for id in &sessions {
            self.fences.add(*id);
        }
        let (fence, count) = (self.fences.epoch_min().0 << 32, sessions.len());
        self.ends.push(SessionEnd {
            fence,
            sessions,
            unfenced_closes: Vec::new(),
            clients: Vec::new(),
            not_before: Duration::ZERO,
            after_grace: Some(now + Duration::from_millis(SESSION_SILENT_MS)),
        });
        Some(count)
    }

    /// Removes a live session, of which no call is served any more. The files that it closed and
    /// may still write; `None` when it is not live. The caller fences it: invariant 1.
    fn remove_live(&mut self, id: SessionId) -> Option<Vec<FileIndex>> {
        let session = self.live.remove(id)?;
        session.activity.end();
        Some(session.into_unfenced_closes())
    }

    /// The newest fence.
    pub(crate) fn newest_fence(&self) -> u64 {
        self.fences.newest()
    }

    /// Capabilities of older epochs are refused.
    pub(crate) fn epoch_min(&self) -> MdsEpoch {
        self.fences.epoch_min()
    }

    /// The fences that a daemon lacks which has confirmed all up to `applied`.
    pub(crate) fn fences_after(&self, applied: u64) -> MissingFences {
        self.fences.missing_after(applied)
    }

    /// Answers a call, with [`SessionTable::take_finished`], when the newest fence holds on every
    /// daemon.
    pub(super) fn answer_when_fenced(&mut self, call: Call) {
        self.fence_waits.push((self.fences.newest(), call));
    }

    /// The fences to push now, by daemon. Daemons that are down, lack more than a message holds, or
    /// have a push in flight are left out: they learn of them with their next heartbeat, or with
    /// the next push.
    pub(super) fn fences_to_push(&mut self, cluster: &Cluster) -> Vec<(IodId, Fence)> {
        let mut calls = Vec::new();
        for iod in cluster.iods().filter(|iod| !cluster.is_removed(iod.info.id)) {
            let id = iod.info.id;
            let missing = self.fences.pushable_after(iod.fence_applied);
            let missing = missing.filter(|sessions| !sessions.is_empty());
            if let Some(sessions) =
                missing.filter(|_| cluster.is_reachable(id) && self.pushing.insert(id))
            {
                let (fence, epoch_min) = (self.fences.newest(), self.fences.epoch_min());
                calls.push((id, Fence { sessions, fence, epoch_min }));
            }
        }
        calls
    }

    /// A daemon was sent every fence up to `fence`. Whether it lacks newer ones and can be asked.
    pub(super) fn push_ended(&mut self, iod: IodId, fence: u64, confirmed: bool) -> bool {
        let was_pushing = self.pushing.remove(&iod);
        debug_assert!(was_pushing, "4: a push to I/O daemon {iod} ended that was not in flight");
        confirmed && self.fences.newest() > fence
    }

    /// Takes the ends of sessions that can be finished now, and the calls that waited for a fence
    /// that holds now.
    pub(super) fn take_finished(
        &mut self,
        cluster: &Cluster,
        now: Duration,
    ) -> (Vec<SessionEnd>, Vec<Call>) {
        if self.ends.is_empty() && self.fence_waits.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let reclaiming = self.live.iter().any(|session| session.reclaiming);
        let holds =
            |fence: u64| cluster.iods().all(|iod| cluster.fence_holds(iod.info.id, fence, now));
        let reclaimed =
            |end: &SessionEnd| !reclaiming || end.after_grace.is_none_or(|until| now >= until);
        let is_finished =
            |end: &SessionEnd| now >= end.not_before && reclaimed(end) && holds(end.fence);
        let (finished, waiting) = std::mem::take(&mut self.ends).into_iter().partition(is_finished);
        self.ends = waiting;
        let (fenced, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.fence_waits).into_iter().partition(|(fence, _)| holds(*fence));
        self.fence_waits = waiting;
        (finished, fenced.into_iter().map(|(_, call)| call).collect())
    }

    /// Closes an open that the store counts and that its session was not given: with a later tick.
    pub(crate) fn close_handle_later(&mut self, session: SessionId, open: OpenFile) {
        match self.live.get_mut(session) {
            Some(live) => self.cleanup.add_handle(session, live.open_unclaimed(open)),
            // The end of the session closes it, behind its fence. A finished end is done again.
            None if self.ends.iter().any(|end| end.sessions.contains(&session)) => {}
            None => self.cleanup.add_session(session),
        }
    }
}
