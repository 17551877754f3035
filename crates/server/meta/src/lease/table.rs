//! The lease table: the holders of each item and the pending recalls.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{Hash, Hasher},
    time::Duration,
};

use braid_types::{IdHashBuilder, MdsEpoch, SessionId, limits::LEASES_MAX};

use super::{
    LeaseMode, LeaseOf, PendingRecall, Wait,
    claim::Claims,
    expiry::{EndedSession, UnreclaimedSessions},
};

/// If there are too many leases, this fraction of them is recalled, those that were granted first.
const EVICTION_DIVISOR: usize = 64;

/// The leases of one server: 64 bytes for each item and its first holder, plus the free space of
/// the hash table.
#[derive(Clone, Debug)]
pub struct LeaseTable {
    pub(super) last_number: u64,
    pub(super) leases: HashMap<LeaseOf, LeaseEntry, IdHashBuilder>,
    pub(super) claims: Claims,
    sessions: BTreeMap<SessionId, HolderIndex>,
    count: usize,
    count_max: usize,
    /// How many of them are write leases.
    write_count: usize,
    /// Sessions with new recalls that were not sent yet.
    recalled_sessions: Vec<SessionId>,
    /// Items of which some session holds less than before.
    pub(super) freed: Vec<Wait>,
    pub(super) ended_sessions: Vec<EndedSession>,
    pub(super) unreclaimed: UnreclaimedSessions,
}

/// One item. Most have one holder.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct LeaseEntry {
    first: LeaseHolder,
    more: Vec<LeaseHolder>,
}

/// One session's lease of an item.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct LeaseHolder {
    pub(super) session: SessionId,
    /// The number of the newest grant.
    pub(super) number: u64,
    pub(super) mode: LeaseMode,
    /// How often the mode was recalled for other sessions.
    pub(super) recalls: u8,
    /// Whether a recall is pending.
    pub(super) recalled: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
struct HolderIndex {
    count: usize,
    recalls: BTreeMap<u64, PendingRecall>,
}

impl Hash for LeaseTable {
    /// Covers the state that decides the table's behaviour, but not the order in which it was
    /// built.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut leases: Vec<_> =
            self.leases.iter().map(|(of, lease)| (of, lease.sorted())).collect();
        leases.sort_unstable();
        (self.last_number, leases, &self.sessions, &self.ended_sessions, &self.unreclaimed)
            .hash(state);
        self.claims.hash(state);
    }
}

impl HolderIndex {
    fn recall_of(&self, of: LeaseOf) -> Option<(u64, PendingRecall)> {
        self.recalls
            .iter()
            .find(|(_, recall)| recall.of == of)
            .map(|(number, recall)| (*number, *recall))
    }
}

impl LeaseEntry {
    pub(super) fn holders(&self) -> impl Iterator<Item = &LeaseHolder> {
        std::iter::once(&self.first).chain(&self.more)
    }

    fn sorted(&self) -> Vec<LeaseHolder> {
        let mut holders: Vec<LeaseHolder> = self.holders().copied().collect();
        holders.sort_unstable();
        holders
    }

    fn holders_mut(&mut self) -> impl Iterator<Item = &mut LeaseHolder> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }
}

impl LeaseTable {
    /// An empty table for an epoch of the server.
    pub fn new(epoch: MdsEpoch) -> Self {
        Self::with_limit(epoch, LEASES_MAX)
    }

    /// A table with another limit.
    pub fn with_limit(epoch: MdsEpoch, count_max: usize) -> Self {
        Self {
            last_number: epoch.0 << 32,
            leases: HashMap::default(),
            claims: Claims::default(),
            sessions: BTreeMap::new(),
            count: 0,
            count_max,
            write_count: 0,
            recalled_sessions: Vec::new(),
            freed: Vec::new(),
            ended_sessions: Vec::new(),
            unreclaimed: UnreclaimedSessions::default(),
        }
    }

    /// How many leases are held.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of them are write leases.
    pub fn write_count(&self) -> usize {
        self.write_count
    }

    /// The mode in which a session holds an item.
    pub fn held(&self, of: LeaseOf, session: SessionId) -> LeaseMode {
        self.holder(of, session).map_or(LeaseMode::None, |holder| holder.mode)
    }

    /// The holders of an item and their modes.
    pub fn holders(&self, of: LeaseOf) -> impl Iterator<Item = (SessionId, LeaseMode)> {
        self.leases
            .get(&of)
            .into_iter()
            .flat_map(LeaseEntry::holders)
            .map(|holder| (holder.session, holder.mode))
    }

    /// A session's recalls with higher numbers than `seen`, the lowest first.
    pub fn recalls(
        &self,
        session: SessionId,
        seen: u64,
        count_max: usize,
    ) -> Vec<(u64, PendingRecall)> {
        let pending = self
            .sessions
            .get(&session)
            .into_iter()
            .flat_map(|holdings| holdings.recalls.range(seen + 1..));
        pending.take(count_max).map(|(number, recall)| (*number, *recall)).collect()
    }

    /// Sessions that got a recall since the last call.
    pub fn take_recalled_sessions(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.recalled_sessions)
    }

    /// Items of which some session holds less since the last call: calls that wait for them are
    /// checked again.
    pub fn take_freed(&mut self) -> Vec<Wait> {
        std::mem::take(&mut self.freed)
    }

    /// Sessions whose oldest recall is from `since` or earlier.
    pub fn overdue(&self, since: Duration) -> Vec<SessionId> {
        self.sessions_with_overdue(|recall| recall.since <= since)
    }

    /// The same for responsive sessions. They may have to write buffered bytes of a file first: for
    /// recalls of data leases `data_since` applies; `None`: none of them is overdue.
    pub fn overdue_but_responsive(
        &self,
        since: Duration,
        data_since: Option<Duration>,
    ) -> Vec<SessionId> {
        self.sessions_with_overdue(|recall| match recall.of {
            LeaseOf::Data(_) | LeaseOf::Delegation(_) => {
                data_since.is_some_and(|since| recall.since <= since)
            }
            _ => recall.since <= since,
        })
    }

    fn sessions_with_overdue(&self, is_late: impl Fn(&PendingRecall) -> bool) -> Vec<SessionId> {
        let has_late = |holdings: &HolderIndex| holdings.recalls.values().any(&is_late);
        self.sessions
            .iter()
            .filter(|(_, holdings)| has_late(holdings))
            .map(|(session, _)| *session)
            .collect()
    }

    /// Whether a recall was not returned yet.
    pub fn has_recalls(&self) -> bool {
        self.sessions.values().any(|holdings| !holdings.recalls.is_empty())
    }

    /// A session returns a lease, or retains `keep` of it. This covers all grants with numbers up
    /// to `number`.
    pub fn return_lease(&mut self, session: SessionId, of: LeaseOf, number: u64, keep: LeaseMode) {
        let answered = self.answer_recall(session, of, number);
        // A later grant is not meant.
        let Some(holder) =
            self.holder(of, session).copied().filter(|holder| holder.number <= number)
        else {
            return;
        };
        let mode = holder.mode.reduced_to(keep);
        self.set(of, LeaseHolder { mode, recalled: holder.recalled && !answered, ..holder });
        self.freed.push(Wait::For(of));
    }

    /// A session holds nothing any more.
    pub fn end_session(&mut self, session: SessionId) {
        let Some(holdings) = self.sessions.remove(&session) else { return };
        if holdings.count == 0 {
            return;
        }
        let of_it = |(of, lease): (&LeaseOf, &LeaseEntry)| {
            lease.holders().any(|h| h.session == session).then_some(*of)
        };
        let mut held: Vec<LeaseOf> = self.leases.iter().filter_map(of_it).collect();
        // The order of events must not depend on a hash.
        held.sort_unstable();
        for of in held {
            if let Some(holder) = self.holder(of, session).copied() {
                self.set(of, LeaseHolder { mode: LeaseMode::None, ..holder });
                self.freed.push(Wait::For(of));
            }
        }
    }

    pub(super) fn holder(&self, of: LeaseOf, session: SessionId) -> Option<&LeaseHolder> {
        self.leases.get(&of)?.holders().find(|holder| holder.session == session)
    }

    /// Recalls what other sessions hold and what conflicts with `need`. Returns whether there is
    /// any.
    pub(super) fn recall_conflicting(
        &mut self,
        of: LeaseOf,
        session: SessionId,
        need: LeaseMode,
        now: Duration,
    ) -> bool {
        let Some(lease) = self.leases.get(&of) else { return false };
        let conflicting =
            |holder: &&LeaseHolder| holder.session != session && holder.mode.conflicts(need);
        let conflicting: Vec<LeaseHolder> = lease.holders().filter(conflicting).copied().collect();
        for holder in &conflicting {
            self.recall(of, holder, holder.mode.strongest_beside(need), now);
        }
        !conflicting.is_empty()
    }

    fn recall(&mut self, of: LeaseOf, holder: &LeaseHolder, keep: LeaseMode, now: Duration) {
        let holdings = self.sessions.entry(holder.session).or_default();
        let pending = if holder.recalled { holdings.recall_of(of) } else { None };
        let since = match pending {
            // It was recalled already, and what may remain suits both calls.
            Some((_, recall)) if recall.keep == keep || recall.keep == LeaseMode::None => return,
            // Two calls with different needs leave nothing. The time of the recall counts from the
            // first.
            Some((number, recall)) => {
                holdings.recalls.remove(&number);
                recall.since
            }
            None => now,
        };
        let keep = if pending.is_some() { LeaseMode::None } else { keep };
        self.last_number += 1;
        debug_assert!(holder.number < self.last_number, "3: a recall is newer than the grant");
        holdings.recalls.insert(self.last_number, PendingRecall { of, keep, since });
        self.recalled_sessions.push(holder.session);
        self.set(
            of,
            LeaseHolder { recalled: true, recalls: holder.recalls.saturating_add(1), ..*holder },
        );
    }

    /// A return answers its own recall and every earlier one. Returns whether there was one.
    fn answer_recall(&mut self, session: SessionId, of: LeaseOf, number: u64) -> bool {
        let Some(holdings) = self.sessions.get_mut(&session) else { return false };
        if holdings.recalls.get(&number).is_some_and(|recall| recall.of == of) {
            return holdings.recalls.remove(&number).is_some();
        }
        match holdings.recall_of(of) {
            Some((recall, _)) if recall <= number => holdings.recalls.remove(&recall).is_some(),
            _ => false,
        }
    }

    /// Recalls the leases that were granted first if the table is full; those of a session that
    /// holds more than half, if there is one. Returns whether there is space now.
    pub(super) fn has_space_or_evicts(&mut self, now: Duration) -> bool {
        if self.count < self.count_max {
            return true;
        }
        if self.has_recalls() {
            return false;
        }
        let most = self
            .sessions
            .iter()
            .find(|(_, holdings)| holdings.count > self.count_max / 2)
            .map(|(most, _)| *most);
        let is_candidate = |holder: &&LeaseHolder| most.is_none_or(|most| holder.session == most);
        let held = self.leases.values().flat_map(LeaseEntry::holders).filter(is_candidate);
        let mut numbers: Vec<u64> = held.map(|holder| holder.number).collect();
        let (_, limit, _) = numbers.select_nth_unstable(self.count / EVICTION_DIVISOR);
        let limit = *limit;
        let old = |(of, lease): (&LeaseOf, &LeaseEntry)| {
            let old = lease.holders().filter(is_candidate).filter(|holder| holder.number <= limit);
            old.map(|holder| (*of, *holder)).collect::<Vec<_>>()
        };
        let mut evicted: Vec<(LeaseOf, LeaseHolder)> = self.leases.iter().flat_map(old).collect();
        evicted.sort_unstable_by_key(|(_, holder)| holder.number);
        evicted.iter().for_each(|(of, holder)| self.recall(*of, holder, LeaseMode::None, now));
        false
    }

    /// Sets what a session holds; a mode of `None` removes it.
    pub(super) fn set(&mut self, of: LeaseOf, holder: LeaseHolder) {
        debug_assert!(
            self.holders(of).all(|(session, mode)| {
                session == holder.session || !mode.conflicts(holder.mode)
            }),
            "1: two sessions never hold conflicting modes"
        );
        let before = self.held(of, holder.session);
        self.write_count -= usize::from(before == LeaseMode::Write);
        self.write_count += usize::from(holder.mode == LeaseMode::Write);
        if holder.mode == LeaseMode::None {
            return self.remove(of, holder.session);
        }
        match self.leases.get_mut(&of) {
            Some(lease) => {
                if let Some(known) =
                    lease.holders_mut().find(|known| known.session == holder.session)
                {
                    *known = holder;
                    return;
                }
                lease.more.push(holder);
            }
            None => drop(self.leases.insert(of, LeaseEntry { first: holder, more: Vec::new() })),
        }
        self.count += 1;
        self.sessions.entry(holder.session).or_default().count += 1;
    }

    fn remove(&mut self, of: LeaseOf, session: SessionId) {
        let Some(lease) = self.leases.get_mut(&of) else { return };
        if lease.first.session == session {
            match lease.more.pop() {
                Some(last) => lease.first = last,
                None => drop(self.leases.remove(&of)),
            }
        } else {
            let before = lease.more.len();
            lease.more.retain(|holder| holder.session != session);
            if lease.more.len() == before {
                return;
            }
        }
        self.count -= 1;
        if let Some(holdings) = self.sessions.get_mut(&session) {
            holdings.count -= 1;
            if holdings.count == 0 && holdings.recalls.is_empty() {
                self.sessions.remove(&session);
            }
        }
    }
}
