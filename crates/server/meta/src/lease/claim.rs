//! Claims: what needs others to let go.

use std::{
    collections::{HashMap, HashSet},
    hash::{Hash, Hasher},
    time::Duration,
};

use braid_types::SessionId;

use super::{LeaseMode, LeaseOf, Table, Wait};

/// A claim, as whoever made it knows it. Never used twice by one server; the lower ones came first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClaimId(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Claim {
    pub(super) id: ClaimId,
    pub(super) session: SessionId,
    pub(super) mode: LeaseMode,
    /// It becomes a lease: claims that came later wait for it.
    pub(super) asks: bool,
}

/// The claims that stand, by what they are of.
#[derive(Clone, Default, Debug)]
pub(super) struct Claims(pub(super) HashMap<LeaseOf, Vec<Claim>>);

impl Hash for Claims {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut claims: Vec<_> = self.0.iter().collect();
        claims.sort_unstable();
        claims.hash(state);
    }
}

impl Claims {
    pub(super) fn of(&self, of: LeaseOf) -> &[Claim] {
        self.0.get(&of).map(Vec::as_slice).unwrap_or_default()
    }

    pub(super) fn put(&mut self, of: LeaseOf, claim: Claim) {
        let claims = self.0.entry(of).or_default();
        match claims.iter_mut().find(|known| known.id == claim.id) {
            Some(known) => *known = claim,
            None => claims.push(claim),
        }
    }

    pub(super) fn remove(&mut self, of: LeaseOf, id: ClaimId) -> bool {
        let Some(claims) = self.0.get_mut(&of) else { return false };
        let before = claims.len();
        claims.retain(|claim| claim.id != id);
        let removed = claims.len() < before;
        if claims.is_empty() {
            self.0.remove(&of);
        }
        removed
    }
}

impl Table {
    /// Claims things for a session, or looks at its claims again. `None` when nobody else holds what conflicts: what the
    /// claim is for may be done. Else something that is waited for.
    pub fn claim(
        &mut self,
        id: ClaimId,
        session: SessionId,
        needs: &[(LeaseOf, LeaseMode)],
        now: Duration,
    ) -> Option<Wait> {
        let mut waits = self.is_unsure(session).then_some(Wait::Restart);
        for (of, mode) in needs {
            self.claims.put(*of, Claim { id, session, mode: *mode, asks: false });
            if self.recall_for(*of, session, *mode, now) {
                waits = waits.or(Some(Wait::For(*of)));
            }
        }
        waits
    }

    /// Drops claims, done or not.
    pub fn unclaim(&mut self, id: ClaimId, of: &[LeaseOf]) {
        let removed: HashSet<LeaseOf> = of.iter().copied().filter(|of| self.claims.remove(*of, id)).collect();
        // Asks may have waited for it.
        let asked = |of: &LeaseOf| self.claims.of(*of).iter().any(|claim| claim.asks);
        let mut freed: Vec<LeaseOf> = removed.into_iter().filter(asked).collect();
        freed.sort_unstable();
        self.freed.extend(freed.into_iter().map(Wait::For));
    }

    /// How many things are claimed.
    pub fn claimed(&self) -> usize {
        self.claims.0.len()
    }

    /// Whether a claim of another session than this stands that conflicts, and came before `id`.
    pub(super) fn is_claimed(&self, of: LeaseOf, session: SessionId, mode: LeaseMode, before: Option<ClaimId>) -> bool {
        let in_the_way = |claim: &Claim| {
            let earlier = !claim.asks || before.is_none_or(|id| claim.id < id);
            earlier && claim.session != session && claim.mode.conflicts(mode)
        };
        self.claims.of(of).iter().any(in_the_way)
    }
}
