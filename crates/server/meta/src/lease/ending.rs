//! Sessions that may still assume leases valid: ended ones, and those from before a restart.

use std::{collections::BTreeSet, time::Duration};

use braid_types::SessionId;

use super::{Table, Wait};

/// A session that has ended and may still assume its leases valid.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Broken {
    session: SessionId,
    until: Duration,
    fenced: bool,
}

/// Sessions from before a restart that held leases and have not reported yet that they released
/// them.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct Unknown {
    sessions: BTreeSet<SessionId>,
    until: Duration,
}

impl Table {
    /// The server has restarted: until then, these sessions may assume leases valid, unless they
    /// report earlier that they released them.
    pub fn restarted(&mut self, sessions: BTreeSet<SessionId>, until: Duration) {
        self.unknown = Unknown { sessions, until };
    }

    /// Sessions from before a restart that may still assume leases valid.
    pub fn unknown(&self) -> impl Iterator<Item = SessionId> {
        self.unknown.sessions.iter().copied()
    }

    /// Whether other sessions may assume leases valid that nobody remembers.
    pub fn is_unsure(&self, session: SessionId) -> bool {
        self.unknown.sessions.iter().any(|unknown| *unknown != session)
    }

    /// A session from before a restart has released everything.
    pub fn let_go(&mut self, session: SessionId) {
        if self.unknown.sessions.remove(&session) {
            self.freed.push(Wait::Restart);
        }
    }

    /// A session has ended: its leases stand until then, and until it is fenced.
    pub fn break_session(&mut self, session: SessionId, until: Duration) {
        self.broken.push(Broken { session, until, fenced: false });
    }

    /// The fences of these sessions hold.
    pub fn fenced(&mut self, sessions: &[SessionId]) {
        let of = |broken: &&mut Broken| sessions.contains(&broken.session);
        self.broken.iter_mut().filter(of).for_each(|broken| broken.fenced = true);
    }

    /// Removes leases that no session can assume valid any more.
    pub fn age(&mut self, now: Duration) {
        let over = |broken: &Broken| broken.fenced && now >= broken.until;
        let (expired, remaining): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.broken).into_iter().partition(over);
        self.broken = remaining;
        expired.iter().for_each(|broken| self.end_session(broken.session));
        if !self.unknown.sessions.is_empty() && now >= self.unknown.until {
            self.unknown.sessions.clear();
            self.freed.push(Wait::Restart);
        }
    }
}
