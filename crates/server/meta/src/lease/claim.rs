//! Claims: calls that need conflicting leases returned.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{Hash, Hasher},
    time::Duration,
};

use braid_types::{IdHashBuilder, SessionId};

use super::{LeaseMode, LeaseOf, LeaseTable, Wait};

/// The id of a claim, chosen by its caller. A server never uses one twice; lower ones came earlier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClaimId(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Claim {
    pub(super) id: ClaimId,
    pub(super) session: SessionId,
    pub(super) mode: LeaseMode,
    /// A request for a lease: later claims wait for it.
    pub(super) is_request: bool,
}

/// The claims that stand, by item.
#[derive(Clone, Default, Debug)]
pub(super) struct Claims(HashMap<LeaseOf, ItemClaims, IdHashBuilder>);

/// The claims of one item. There is mostly one, which needs no memory of its own.
#[derive(Clone, Debug)]
struct ItemClaims {
    first: Claim,
    more: Vec<Claim>,
}

impl Hash for Claims {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut claims: Vec<_> = self
            .0
            .iter()
            .flat_map(|(of, standing)| standing.claims().map(move |claim| (of, claim)))
            .collect();
        claims.sort_unstable();
        claims.hash(state);
    }
}

impl ItemClaims {
    fn claims(&self) -> impl Iterator<Item = &Claim> {
        std::iter::once(&self.first).chain(&self.more)
    }

    fn put(&mut self, claim: Claim) {
        match std::iter::once(&mut self.first)
            .chain(&mut self.more)
            .find(|known| known.id == claim.id)
        {
            Some(known) => *known = claim,
            None => self.more.push(claim),
        }
    }
}

impl Claims {
    fn of(&self, of: LeaseOf) -> impl Iterator<Item = &Claim> {
        self.0.get(&of).into_iter().flat_map(ItemClaims::claims)
    }

    pub(super) fn put(&mut self, of: LeaseOf, claim: Claim) {
        match self.0.entry(of) {
            Entry::Occupied(mut standing) => standing.get_mut().put(claim),
            Entry::Vacant(free) => drop(free.insert(ItemClaims { first: claim, more: Vec::new() })),
        }
    }

    fn remove(&mut self, of: LeaseOf, id: ClaimId) -> bool {
        let Entry::Occupied(mut entry) = self.0.entry(of) else { return false };
        let standing = entry.get_mut();
        if standing.first.id == id {
            match standing.more.pop() {
                Some(last) => standing.first = last,
                None => drop(entry.remove()),
            }
            return true;
        }
        let before = standing.more.len();
        standing.more.retain(|claim| claim.id != id);
        standing.more.len() < before
    }
}

impl LeaseTable {
    /// Claims items for a session, or checks its claims again. Returns `None` if no other session
    /// holds a conflicting lease: the call may proceed. Otherwise returns something to wait for.
    pub fn claim(
        &mut self,
        id: ClaimId,
        session: SessionId,
        needs: &[(LeaseOf, LeaseMode)],
        now: Duration,
    ) -> Option<Wait> {
        let mut waits = self.must_wait_for_reclaim(session).then_some(Wait::Restart);
        for (of, mode) in needs {
            self.claims.put(*of, Claim { id, session, mode: *mode, is_request: false });
            if self.recall_conflicting(*of, session, *mode, now) {
                waits = waits.or(Some(Wait::For(*of)));
            }
        }
        waits
    }

    /// Drops claims, carried out or not.
    pub fn unclaim(&mut self, id: ClaimId, of: &[LeaseOf]) {
        let mut freed = Vec::new();
        for of in of {
            // Requests may have waited for it.
            if self.claims.remove(*of, id) && self.claims.of(*of).any(|claim| claim.is_request) {
                freed.push(*of);
            }
        }
        freed.sort_unstable();
        self.freed.extend(freed.into_iter().map(Wait::For));
    }

    /// How many items are claimed.
    pub fn claimed_count(&self) -> usize {
        self.claims.0.len()
    }

    /// Whether a conflicting claim of another session stands that came before `id`.
    pub(super) fn conflicts_with_claim(
        &self,
        of: LeaseOf,
        session: SessionId,
        mode: LeaseMode,
        before: Option<ClaimId>,
    ) -> bool {
        let in_the_way = |claim: &Claim| {
            let earlier = !claim.is_request || before.is_none_or(|id| claim.id < id);
            earlier && claim.session != session && claim.mode.conflicts(mode)
        };
        self.claims.of(of).any(in_the_way)
    }
}
