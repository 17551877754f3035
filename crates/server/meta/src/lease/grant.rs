//! Grants of leases.

use std::time::Duration;

use braid_types::SessionId;

use super::{
    AskOutcome, LeaseMode, LeaseOf, LeaseTable, Wait,
    claim::{Claim, ClaimId},
    table::LeaseHolder,
};

/// After a file's lease was recalled this often for other sessions, all its users read and write at
/// the daemons: a lease that changes hands with every call costs more than it saves.
const CONTENDED_RECALLS: u8 = 4;

impl LeaseTable {
    /// Grants a lease that any number of sessions may hold: the names of a directory, the layout of
    /// a file. Returns its number; `None` if another session changes that now or waits to.
    pub fn grant_shared(&mut self, of: LeaseOf, session: SessionId, now: Duration) -> Option<u64> {
        let held = self.holder(of, session).copied();
        let refused = self.conflicts_with_claim(of, session, LeaseMode::Read, None)
            || held.is_some_and(|held| held.recalled);
        if refused || held.is_none() && !self.has_space_or_evicts(now) {
            return None;
        }
        Some(self.grant(of, session, LeaseMode::Read))
    }

    /// Requests a data lease, or checks a pending request again. While it waits, `id` is a claim.
    /// Drop it with [`LeaseTable::unclaim`] if nobody waits for the answer any more.
    pub fn request_data(
        &mut self,
        id: ClaimId,
        session: SessionId,
        of: LeaseOf,
        wish: (LeaseMode, bool),
        now: Duration,
    ) -> AskOutcome {
        if self.must_wait_for_reclaim(session) {
            return AskOutcome::Waits(Wait::Restart);
        }
        let mode = self.mode_to_grant(of, session, wish);
        let held = self.holder(of, session).copied();
        if held.is_none() && !self.has_space_or_evicts(now) {
            return AskOutcome::Full;
        }
        let conflicts = self.recall_conflicting(of, session, mode, now);
        let recalled = held.is_some_and(|held| held.recalled);
        if conflicts || recalled || self.conflicts_with_claim(of, session, mode, Some(id)) {
            self.claims.put(of, Claim { id, session, mode, is_request: true });
            return AskOutcome::Waits(Wait::For(of));
        }
        let number = self.grant(of, session, mode);
        self.unclaim(id, &[of]);
        AskOutcome::Granted(mode, number)
    }

    /// Grants a data lease if nothing conflicts, and recalls nothing: for a file that is being
    /// opened.
    pub fn try_grant_data(
        &mut self,
        session: SessionId,
        of: LeaseOf,
        wish: LeaseMode,
        now: Duration,
    ) -> Option<(LeaseMode, u64)> {
        if self.must_wait_for_reclaim(session) {
            return None;
        }
        // A session that only reads gains nothing by sharing.
        let mode = self.mode_to_grant(of, session, (wish, wish == LeaseMode::Read));
        let held = self.holder(of, session).copied();
        let conflicts =
            self.holders(of).any(|(holder, held)| holder != session && held.conflicts(mode));
        let conflicts = conflicts || held.is_some_and(|held| held.recalled);
        if conflicts
            || self.conflicts_with_claim(of, session, mode, None)
            || held.is_none() && !self.has_space_or_evicts(now)
        {
            return None;
        }
        Some((mode, self.grant(of, session, mode)))
    }

    /// Grants a delegation if nothing conflicts, and recalls nothing. Returns its number. A session
    /// that has one gets no other mode: if that had to be taken back, the first would be lost.
    pub fn try_grant_delegation(
        &mut self,
        session: SessionId,
        of: LeaseOf,
        mode: LeaseMode,
        now: Duration,
    ) -> Option<u64> {
        if self.must_wait_for_reclaim(session) {
            return None;
        }
        let held = self.holder(of, session).copied();
        let conflicts =
            self.holders(of).any(|(holder, held)| holder != session && held.conflicts(mode));
        if conflicts
            || held.is_some_and(|held| held.recalled || held.mode != mode)
            || self.conflicts_with_claim(of, session, mode, None)
            || held.is_none() && !self.has_space_or_evicts(now)
        {
            return None;
        }
        Some(self.grant(of, session, mode))
    }

    /// Immediately reduces a grant that was not sent yet: the session gets `mode`.
    pub fn reduce_grant(&mut self, of: LeaseOf, session: SessionId, mode: LeaseMode) {
        if let Some(holder) = self.holder(of, session).copied() {
            self.set(of, LeaseHolder { mode, ..holder });
            self.freed.push(Wait::For(of));
        }
    }

    /// The mode granted for a wish. A session that does not insist on being alone shares with
    /// others that write.
    fn mode_to_grant(
        &self,
        of: LeaseOf,
        session: SessionId,
        (wish, alone): (LeaseMode, bool),
    ) -> LeaseMode {
        let all = || self.leases.get(&of).into_iter().flat_map(|lease| lease.holders());
        let others = |mode| all().any(|holder| holder.session != session && holder.mode == mode);
        let contended = || all().any(|holder| holder.recalls >= CONTENDED_RECALLS);
        let (shared, exclusive) = (others(LeaseMode::Shared), others(LeaseMode::Write));
        match wish {
            LeaseMode::Write if !alone && (shared || exclusive) => LeaseMode::Shared,
            LeaseMode::Write if !alone && others(LeaseMode::Read) && contended() => {
                LeaseMode::Shared
            }
            LeaseMode::Read if !alone && (shared || exclusive && contended()) => LeaseMode::Shared,
            // A smaller wish does not take away what the session holds already.
            LeaseMode::Read | LeaseMode::Shared if self.held(of, session) == LeaseMode::Write => {
                LeaseMode::Write
            }
            wish => wish,
        }
    }

    fn grant(&mut self, of: LeaseOf, session: SessionId, mode: LeaseMode) -> u64 {
        debug_assert!(
            !self.conflicts_with_claim(of, session, mode, Some(ClaimId(0))),
            "2: a grant conflicts with no claim but a later request"
        );
        debug_assert!(
            !matches!(of, LeaseOf::Data(_) | LeaseOf::Delegation(_))
                || !self.must_wait_for_reclaim(session),
            "7: no data lease or delegation while another session may assume one valid"
        );
        let held = self.holder(of, session).copied();
        debug_assert!(held.is_none_or(|held| held.number <= self.last_number), "3: numbers rise");
        self.last_number += 1;
        let recalls = held.map_or(0, |holder| holder.recalls);
        self.set(
            of,
            LeaseHolder { session, number: self.last_number, mode, recalls, recalled: false },
        );
        self.last_number
    }
}
