//! Sessions that may still assume leases valid: ended ones, and those from before a restart.

use std::{collections::BTreeSet, time::Duration};

use braid_types::SessionId;

use super::{LeaseTable, Wait};

/// A session that has ended and may still assume its leases valid.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct EndedSession {
    session: SessionId,
    until: Duration,
    fenced: bool,
}

/// Sessions from before a restart that held leases and have not reported yet that they released
/// them.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct UnreclaimedSessions {
    sessions: BTreeSet<SessionId>,
    until: Duration,
}

impl LeaseTable {
    /// The server has restarted: until then, these sessions may assume leases valid, unless they
    /// report earlier that they released them.
    pub fn set_unreclaimed(&mut self, sessions: BTreeSet<SessionId>, until: Duration) {
        self.unreclaimed = UnreclaimedSessions { sessions, until };
    }

    /// Sessions from before a restart that may still assume leases valid.
    pub fn unreclaimed_sessions(&self) -> impl Iterator<Item = SessionId> {
        self.unreclaimed.sessions.iter().copied()
    }

    /// Whether other sessions may assume leases valid that nobody remembers.
    pub fn must_wait_for_reclaim(&self, session: SessionId) -> bool {
        self.unreclaimed.sessions.iter().any(|unknown| *unknown != session)
    }

    /// A session from before a restart has released everything.
    pub fn session_released(&mut self, session: SessionId) {
        if self.unreclaimed.sessions.remove(&session) {
            self.freed.push(Wait::Restart);
        }
    }

    /// A session has ended: its leases stand until then, and until it is fenced.
    pub fn end_session_later(&mut self, session: SessionId, until: Duration) {
        self.ended_sessions.push(EndedSession { session, until, fenced: false });
    }

    /// The fences of these sessions hold.
    pub fn sessions_fenced(&mut self, sessions: &[SessionId]) {
        let of = |broken: &&mut EndedSession| sessions.contains(&broken.session);
        self.ended_sessions.iter_mut().filter(of).for_each(|broken| broken.fenced = true);
    }

    /// Removes leases that no session can assume valid any more.
    pub fn expire(&mut self, now: Duration) {
        let over = |broken: &EndedSession| broken.fenced && now >= broken.until;
        let (expired, remaining): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.ended_sessions).into_iter().partition(over);
        self.ended_sessions = remaining;
        expired.iter().for_each(|broken| self.end_session(broken.session));
        if !self.unreclaimed.sessions.is_empty() && now >= self.unreclaimed.until {
            self.unreclaimed.sessions.clear();
            self.freed.push(Wait::Restart);
        }
    }
}
