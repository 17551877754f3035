//! Which branches have which names of a busy directory, so that only those are asked.
//!
//! A lookup of a name that is on no branch costs a system call for each branch, and a slow one: the
//! branch searches its directory. A program that creates many files makes such a lookup before each
//! create. After some of them the directory is listed once, and the listing is used for
//! [`INDEX_VALID`].
//!
//! 1. An index has at least all names that the covered branches had when it was begun, and all that
//!    this process added since: names are added to it after the branch has them and before the call
//!    returns. It may have names that are gone, and by equal hashes names that never were: then a
//!    branch is asked without success.
//! 2. Branches that are not covered are asked.
//! 3. Only lookups and creates use it. Removals and renames ask each branch.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use crate::{
    NodeId, Result, Union,
    node::{Node, lock},
};

/// For how long an index is used. What the kernel learns from it is valid for the rest of
/// [`crate::NAMES_VALID`].
const INDEX_VALID: Duration = Duration::from_millis(500);
/// Names that were asked for without success within [`INDEX_VALID`], before a directory is indexed.
/// Sixteen lookups on 8 branches take as long as listing a short directory on them.
const ABSENT_MIN: u64 = 16;
/// An index of many names takes longer: one absent name for each of that many.
const NAMES_EACH: u64 = 16;
/// Names of one index at most: 2 MiB.
const NAMES_MAX: usize = 1 << 16;
/// Directories with an index at most.
pub(crate) const INDEXES_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct NameIndex {
    begun: Instant,
    /// A bit for each branch.
    covered: u64,
    hasher: RandomState,
    /// The branches of each name, by its hash.
    names: Mutex<HashMap<u64, u64>>,
}

/// The branches to ask for a name, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Candidates {
    /// There is no index.
    All,
    /// These had the name. If they do not any more, all are asked.
    Known(u64),
    /// The name is new, except on these, which no index covers.
    NotCovered(u64),
}

/// The index of one directory, if it has any, and when to make the next one.
#[derive(Debug, Default)]
pub(crate) struct IndexState {
    /// Its names are being read: calls add theirs already.
    building: Option<Arc<NameIndex>>,
    ready: Option<Arc<NameIndex>>,
    /// Absent names since `counted`.
    absent: u64,
    counted: Option<Instant>,
    /// Of the last index.
    names: u64,
}

impl NameIndex {
    fn new(covered: u64) -> Self {
        let (hasher, names) = (RandomState::new(), Mutex::default());
        Self { begun: Instant::now(), covered, hasher, names }
    }

    fn add(&self, name: &[u8], branch: usize) {
        *lock(&self.names).entry(self.hasher.hash_one(name)).or_default() |= 1 << branch;
    }

    /// The branches that may have the name.
    fn branches(&self, name: &[u8]) -> Candidates {
        match lock(&self.names).get(&self.hasher.hash_one(name)) {
            Some(known) => Candidates::Known(known | !self.covered),
            None => Candidates::NotCovered(!self.covered),
        }
    }
}

impl IndexState {
    fn ready(&self) -> Option<&Arc<NameIndex>> {
        self.ready.as_ref().filter(|index| index.begun.elapsed() < INDEX_VALID)
    }

    /// Counts an absent name. Whether the directory is worth an index now.
    fn note_absent(&mut self) -> bool {
        if self.counted.is_none_or(|since| since.elapsed() > INDEX_VALID) {
            (self.counted, self.absent) = (Some(Instant::now()), 0);
        }
        self.absent += 1;
        self.absent >= ABSENT_MIN.max(self.names / NAMES_EACH) && self.building.is_none()
    }

    pub(crate) fn forget(&mut self) {
        *self = Self { names: self.names, ..Self::default() };
    }
}

impl Union {
    /// How long the kernel may use what a lookup in the directory finds next.
    pub fn names_valid(&self, directory: NodeId) -> Duration {
        let node = self.nodes.get(directory);
        let age = node
            .ok()
            .and_then(|node| lock(&node.names.index).ready().map(|index| index.begun.elapsed()));
        crate::NAMES_VALID.saturating_sub(age.unwrap_or_default())
    }

    /// The branches that may have a name.
    pub(crate) fn candidates(&self, directory: &Node, name: &[u8]) -> Candidates {
        let index = lock(&directory.names.index).ready().cloned();
        index.map_or(Candidates::All, |index| index.branches(name))
    }

    /// This process has added a name on a branch.
    pub(crate) fn index_added(&self, directory: &Node, name: &[u8], branch: usize) {
        let state = lock(&directory.names.index);
        for index in [&state.building, &state.ready].into_iter().flatten() {
            index.add(name, branch);
        }
    }

    /// A lookup asked the branches for a name without success.
    pub(crate) fn index_absent(&self, directory: &Node) {
        let mut copies = directory.copies();
        copies.retain(|copy| !self.branches[copy.branch].has_failed());
        // One branch is asked once in any case.
        if copies.len() < 2 {
            return;
        }
        let covered = copies.iter().fold(0, |bits, copy| bits | 1 << copy.branch);
        let index = Arc::new(NameIndex::new(covered));
        let noticed = directory.names.noticed();
        {
            let mut state = lock(&directory.names.index);
            if !state.note_absent() || state.ready().is_some() {
                return;
            }
            state.building = Some(Arc::clone(&index));
        }
        let read =
            copies.iter().try_for_each(|copy| self.index_copy(directory, copy.branch, &index));
        let mut state = lock(&directory.names.index);
        let names = lock(&index.names).len();
        state.forget();
        state.names = names as u64;
        let is_current = directory.names.noticed() == noticed;
        if read.is_ok() && names < NAMES_MAX && is_current {
            state.ready = Some(index);
            drop(state);
            self.bound_indexes(directory.id);
        }
    }

    fn index_copy(&self, directory: &Node, branch: usize, index: &NameIndex) -> Result<()> {
        let mut reader = self.reader(directory, branch)?;
        while let Some(entry) = reader.read() {
            index.add(entry?.file_name().to_bytes(), branch);
            if lock(&index.names).len() >= NAMES_MAX {
                break;
            }
        }
        Ok(())
    }

    fn bound_indexes(&self, newest: NodeId) {
        let mut indexed = lock(&self.indexed);
        indexed.push_back(newest);
        let oldest = if indexed.len() > INDEXES_MAX { indexed.pop_front() } else { None };
        drop(indexed);
        if let Some(node) = oldest.and_then(|oldest| self.nodes.get(oldest).ok())
            && node.id != newest
        {
            lock(&node.names.index).forget();
        }
    }
}
