//! What a client may reclaim after a restart of the gateway: the opens and locks that its session
//! has at the metadata server. ADR 0040.
//!
//! ```text
//!   adopted session ──> Reclaims ── OPEN (CLAIM_PREVIOUS), LOCK (reclaim) ──> state ids
//!                          └── RECLAIM_COMPLETE, end of the grace period ──> the rest is released
//! ```
//!
//! Invariants:
//! 1. Nothing is reclaimed that the session does not have.
//! 2. An open of the session is given to one state id. Which open owner had it is not recorded, so
//!    that any open of the file that allows and denies enough is the right one.
//! 3. A lock owner has one number at the metadata server, before and after a restart.

use braid_share::{AdoptedOpen, FileIndex, Lock, OpenMode};
use bytes::Bytes;

use super::opens::subtract;

/// What is left of an adopted session.
#[derive(Debug)]
pub struct Reclaims {
    /// Opens that no state id has.
    opens: Vec<AdoptedOpen>,
    /// Opens that were reclaimed: the open owner, and what the metadata server has.
    reclaimed: Vec<(Bytes, AdoptedOpen)>,
    /// All locks of the session when it was adopted.
    locks: Vec<(FileIndex, Lock)>,
}

/// Whether one open allows and denies at least as much as another.
fn covers(one: OpenMode, other: OpenMode) -> bool {
    one.rights.allow(other.rights) && one.deny.has(other.deny)
}

impl Reclaims {
    /// What an adopted session has.
    pub fn new(opens: Vec<AdoptedOpen>, locks: Vec<(FileIndex, Lock)>) -> Self {
        Self { opens, reclaimed: Vec::new(), locks }
    }

    /// Takes an open of a file that covers `mode`: the one with the fewest rights and denials.
    pub fn take_open(&mut self, file: FileIndex, mode: OpenMode) -> Option<AdoptedOpen> {
        let found = self.opens.iter().enumerate();
        let found = found.filter(|(_, open)| open.file == file && covers(open.mode, mode));
        let bits =
            |open: &AdoptedOpen| open.mode.rights.0.count_ones() + open.mode.deny.0.count_ones();
        let (at, _) = found.min_by_key(|(_, open)| bits(open))?;
        Some(self.opens.swap_remove(at))
    }

    /// Puts back an open that was not reclaimed.
    pub fn put_back(&mut self, open: AdoptedOpen) {
        self.opens.push(open);
    }

    /// Notes that an open owner has reclaimed an open.
    pub fn note_reclaimed(&mut self, owner: Bytes, open: AdoptedOpen) {
        self.reclaimed.push((owner, open));
    }

    /// Access and denial at the metadata server of the open that an owner has reclaimed.
    pub fn mode_of(&mut self, owner: &Bytes, file: FileIndex) -> Option<&mut OpenMode> {
        let mut all = self.reclaimed.iter_mut();
        let found = all.find(|(of, open)| of == owner && open.file == file);
        found.map(|(_, open)| &mut open.mode)
    }

    /// Whether any open that the session had covers `mode`.
    pub fn had_open(&self, file: FileIndex, mode: OpenMode) -> bool {
        let all = self.opens.iter().chain(self.reclaimed.iter().map(|(_, open)| open));
        all.into_iter().any(|open| open.file == file && covers(open.mode, mode))
    }

    /// Whether the session had every byte of a lock locked by its owner, in this way or
    /// exclusively.
    pub fn had_lock(&self, file: FileIndex, lock: &Lock) -> bool {
        let mut left = vec![(lock.start, lock.last)];
        for (of, had) in &self.locks {
            if *of == file && had.owner == lock.owner && (had.exclusive || !lock.exclusive) {
                subtract(&mut left, had.start, had.last);
            }
        }
        left.is_empty()
    }

    /// What was reclaimed: open owner, file, and access and denial at the metadata server.
    pub fn reclaimed(&self) -> &[(Bytes, AdoptedOpen)] {
        &self.reclaimed
    }

    /// Opens that no state id has, and all locks.
    pub fn into_rest(self) -> (Vec<AdoptedOpen>, Vec<(FileIndex, Lock)>) {
        (self.opens, self.locks)
    }
}

#[cfg(test)]
mod tests {
    use braid_share::{Deny, Rights};

    use super::*;

    const FILE: FileIndex = FileIndex(5);
    const READ: OpenMode = OpenMode { rights: Rights::READ, deny: Deny::NONE };
    const BOTH: OpenMode = OpenMode { rights: Rights::READ_WRITE, deny: Deny::NONE };
    const DENYING: OpenMode = OpenMode { rights: Rights::READ, deny: Deny::WRITE };

    fn open(number: u64, mode: OpenMode) -> AdoptedOpen {
        AdoptedOpen { number, file: FILE, mode }
    }

    fn lock(owner: u64, start: u64, last: u64, exclusive: bool) -> Lock {
        Lock { owner, start, last, exclusive }
    }

    #[test]
    fn the_smallest_open_that_covers_a_mode_is_taken_once() {
        let mut reclaims = Reclaims::new(vec![open(1, BOTH), open(2, READ)], Vec::new());
        assert_eq!(reclaims.take_open(FILE, DENYING), None, "nothing denied writing");
        assert_eq!(reclaims.take_open(FileIndex(6), READ), None);
        assert_eq!(reclaims.take_open(FILE, READ), Some(open(2, READ)));
        assert_eq!(reclaims.take_open(FILE, READ), Some(open(1, BOTH)));
        assert_eq!(reclaims.take_open(FILE, READ), None);
        reclaims.put_back(open(1, BOTH));
        assert!(reclaims.had_open(FILE, READ));
        assert_eq!(reclaims.into_rest().0, [open(1, BOTH)]);
    }

    #[test]
    fn a_lock_is_reclaimed_only_where_its_owner_had_all_bytes() {
        let locks = [lock(7, 0, 9, true), lock(7, 10, 19, false), lock(8, 20, 29, true)];
        let locks = locks.map(|lock| (FILE, lock)).to_vec();
        let reclaims = Reclaims::new(Vec::new(), locks);
        for (wanted, expected) in [
            (lock(7, 0, 9, true), true),
            (lock(7, 2, 3, false), true),
            (lock(7, 0, 19, false), true),
            (lock(7, 0, 19, true), false),
            (lock(7, 15, 20, false), false),
            (lock(7, 20, 29, true), false),
            (lock(8, 20, u64::MAX, true), false),
        ] {
            assert_eq!(reclaims.had_lock(FILE, &wanted), expected, "{wanted:?}");
        }
        assert!(!reclaims.had_lock(FileIndex(6), &lock(7, 0, 9, true)));
    }
}
