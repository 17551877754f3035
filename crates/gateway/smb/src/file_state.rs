//! The opens of each file on this gateway: share modes, and removals that wait for the last close.
//! MS-FSA 2.1.5.1.2.2, 2.1.5.5.
//!
//! The metadata server compares opens of bytes across all gateways ([`braid_share::OpenMode`]).
//! This table adds what it does not know: opens of directories, opens without bytes, and the access
//! to delete.
//!
//! Invariants:
//! 1. An entry exists while the file has an open here, or while its removal runs: memory is bounded
//!    by the limits of opens.
//! 2. A file whose removal is pending gets no further open.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use braid_share::{Deny, FileIndex, Identity};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;

use crate::open::Place;

/// Read, write and delete.
const KINDS: usize = 3;

/// What an open does to the opens of others: the same bits as [`Deny`] for both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Claim {
    /// Kinds of access that it has.
    pub has: Deny,
    /// Kinds of access that others may not have.
    pub denies: Deny,
}

impl Claim {
    /// The claim of an open with this access, an access mask of specific rights, that lets others
    /// have `share_access` (FILE_SHARE_READ 1, WRITE 2, DELETE 4). An open that touches neither
    /// bytes nor names excludes nobody and is never excluded (MS-FSA 2.1.5.1.2.2).
    pub fn new(access: u32, share_access: u32) -> Self {
        let access = AccessMask(access);
        let kind = |rights, kind| if access.has_any(rights) { kind } else { Deny::NONE };
        let has = kind(AccessMask::READ_DATA.with(AccessMask::EXECUTE), Deny::READ)
            | kind(AccessMask::WRITE_DATA.with(AccessMask::APPEND_DATA), Deny::WRITE)
            | kind(AccessMask::DELETE, Deny::DELETE);
        if has.is_none() {
            return Self::default();
        }
        Self { has, denies: Deny(!share_access as u8 & Deny::ALL.0) }
    }
}

/// A name that is removed at the last close of its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removal {
    /// The root directory of the share.
    pub root: Option<FileIndex>,
    /// The name.
    pub place: Place,
    /// The user who has it removed.
    pub who: Identity,
}

/// The opens of a file.
#[derive(Debug, Default)]
struct FileState {
    opens: usize,
    /// Number of opens that have each kind of access.
    having: [usize; KINDS],
    /// Number of opens that deny each kind of access.
    denying: [usize; KINDS],
    removal: Option<Removal>,
    /// Whether the last open was closed and the removal runs.
    is_removing: bool,
}

impl FileState {
    fn check(&self, claim: Claim) -> Result<(), NtStatus> {
        // Invariant 2.
        if self.removal.is_some() || self.is_removing {
            return Err(NtStatus::DELETE_PENDING);
        }
        let conflicts = |kinds: Deny, counts: &[usize; KINDS]| {
            bits(kinds).zip(counts).any(|(is_set, count)| is_set && *count > 0)
        };
        if conflicts(claim.has, &self.denying) || conflicts(claim.denies, &self.having) {
            return Err(NtStatus::SHARING_VIOLATION);
        }
        Ok(())
    }

    fn count(&mut self, claim: Claim, change: impl Fn(&mut usize)) {
        change(&mut self.opens);
        for (kinds, counts) in [(claim.has, &mut self.having), (claim.denies, &mut self.denying)] {
            bits(kinds).zip(counts).filter(|(is_set, _)| *is_set).for_each(|(_, n)| change(n));
        }
    }
}

fn bits(kinds: Deny) -> impl Iterator<Item = bool> {
    [Deny::READ, Deny::WRITE, Deny::DELETE].into_iter().map(move |kind| kinds.has(kind))
}

/// The opens of all files of this gateway.
#[derive(Debug, Default)]
pub struct FileStates(Mutex<HashMap<FileIndex, FileState>>);

impl FileStates {
    /// Adds an open. Each one is given to [`FileStates::close`] once.
    ///
    /// # Errors
    /// `DELETE_PENDING`, `SHARING_VIOLATION`.
    pub fn open(&self, file: FileIndex, claim: Claim) -> Result<(), NtStatus> {
        let mut files = self.files();
        if let Some(state) = files.get(&file) {
            state.check(claim)?;
        }
        files.entry(file).or_default().count(claim, |number| *number += 1);
        Ok(())
    }

    /// Checks that an open with this claim could be added now.
    ///
    /// # Errors
    /// As [`FileStates::open`].
    pub fn check(&self, file: FileIndex, claim: Claim) -> Result<(), NtStatus> {
        self.files().get(&file).map_or(Ok(()), |state| state.check(claim))
    }

    /// Removes an open, which had `claim`. With `removal` the file is removed at the last close.
    /// Returns the removal that is now due.
    pub fn close(
        &self,
        file: FileIndex,
        claim: Claim,
        removal: Option<Removal>,
    ) -> Option<DueRemoval<'_>> {
        let mut files = self.files();
        let state = files.get_mut(&file)?;
        state.count(claim, |number| *number = number.saturating_sub(1));
        if state.removal.is_none() {
            state.removal = removal;
        }
        if state.opens > 0 {
            return None;
        }
        let Some(removal) = state.removal.take() else {
            files.remove(&file);
            return None;
        };
        state.is_removing = true;
        Some(DueRemoval { states: self, file, removal })
    }

    /// Sets or takes back the removal at the last close (MS-FSA 2.1.5.15.3). The file has an open.
    pub fn set_removal(&self, file: FileIndex, removal: Option<Removal>) {
        if let Some(state) = self.files().get_mut(&file) {
            state.removal = removal;
        }
    }

    /// Whether the file is removed at its last close.
    pub fn is_delete_pending(&self, file: FileIndex) -> bool {
        self.files().get(&file).is_some_and(|state| state.removal.is_some() || state.is_removing)
    }

    /// The number of opens that a file has.
    pub fn open_count(&self, file: FileIndex) -> usize {
        self.files().get(&file).map_or(0, |state| state.opens)
    }

    /// Whether an open of the file, other than the caller's own with the claim `own`, denies others
    /// to rename and remove it.
    pub fn others_deny_delete(&self, file: FileIndex, own: Claim) -> bool {
        let denying = self.files().get(&file).map_or(0, |state| state.denying[2]);
        denying > usize::from(own.denies.has(Deny::DELETE))
    }

    /// Whether there is no open, and no removal runs.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.files().is_empty()
    }

    fn files(&self) -> MutexGuard<'_, HashMap<FileIndex, FileState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A removal whose time has come. Until it is dropped, the file gets no further open.
#[derive(Debug)]
pub struct DueRemoval<'a> {
    states: &'a FileStates,
    file: FileIndex,
    removal: Removal,
}

impl DueRemoval<'_> {
    /// The name.
    pub fn removal(&self) -> &Removal {
        &self.removal
    }
}

impl Drop for DueRemoval<'_> {
    fn drop(&mut self) {
        self.states.files().remove(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileIndex = FileIndex(7);
    const READ: u32 = AccessMask::READ_DATA.0;
    const WRITE: u32 = AccessMask::WRITE_DATA.0;
    const DELETE: u32 = AccessMask::DELETE.0;
    const ATTRIBUTES: u32 = AccessMask::READ_ATTRIBUTES.0 | AccessMask::SYNCHRONIZE.0;

    fn removal() -> Option<Removal> {
        let who = Identity { uid: 1, gid: 1, groups: Vec::new(), checked: false };
        let place = Place { dir: FileIndex(1), name: b"name".to_vec(), path: "name".to_owned() };
        Some(Removal { root: None, place, who })
    }

    #[test]
    fn two_opens_conflict_if_one_has_what_the_other_denies() {
        let conflict = Err(NtStatus::SHARING_VIOLATION);
        // The first open, the second one, and the result.
        let cases = [
            ((READ, 7), (WRITE, 7), Ok(())),
            ((READ, 1), (READ, 1), Ok(())),
            ((READ, 1), (WRITE, 1), conflict),
            ((WRITE, 7), (READ, 1), conflict),
            ((READ, 0), (READ, 7), conflict),
            ((DELETE, 7), (READ, 3), conflict),
            ((READ, 3), (DELETE, 7), conflict),
            ((READ, 7), (DELETE, 1), Ok(())),
            ((AccessMask::EXECUTE.0, 6), (READ, 7), conflict),
            ((AccessMask::APPEND_DATA.0, 7), (READ, 5), conflict),
            ((ATTRIBUTES, 0), (READ | WRITE | DELETE, 0), Ok(())),
            ((READ | WRITE | DELETE, 0), (ATTRIBUTES, 0), Ok(())),
        ];
        for (first, second, wanted) in cases {
            let states = FileStates::default();
            let (first, second) = (Claim::new(first.0, first.1), Claim::new(second.0, second.1));
            states.open(FILE, first).unwrap();
            assert_eq!(states.open(FILE, second), wanted, "{first:?} {second:?}");
            assert_eq!(states.open(FileIndex(8), second), Ok(()), "another file");
        }
    }

    #[test]
    fn a_closed_open_excludes_nobody_and_leaves_no_entry() {
        let states = FileStates::default();
        let alone = Claim::new(READ | WRITE, 0);
        states.open(FILE, alone).unwrap();
        assert!(states.open(FILE, alone).is_err());
        assert!(states.close(FILE, alone, None).is_none());
        assert!(states.files().is_empty());
        assert_eq!(states.open(FILE, alone), Ok(()));
    }

    #[test]
    fn the_last_close_removes_and_no_open_comes_between() {
        let states = FileStates::default();
        let claim = Claim::new(READ | DELETE, 7);
        states.open(FILE, claim).unwrap();
        states.open(FILE, claim).unwrap();
        assert!(states.close(FILE, claim, removal()).is_none(), "one open is left");
        assert_eq!(states.open(FILE, Claim::default()), Err(NtStatus::DELETE_PENDING));
        let due = states.close(FILE, claim, None).expect("the last open");
        assert_eq!(Some(due.removal()), removal().as_ref());
        assert_eq!(states.open(FILE, claim), Err(NtStatus::DELETE_PENDING));
        assert!(states.is_delete_pending(FILE));
        drop(due);
        assert!(states.files().is_empty());
    }

    #[test]
    fn a_removal_can_be_taken_back() {
        let states = FileStates::default();
        let claim = Claim::new(DELETE, 7);
        states.open(FILE, claim).unwrap();
        states.set_removal(FILE, removal());
        assert!(states.is_delete_pending(FILE));
        states.set_removal(FILE, None);
        assert_eq!(states.open(FILE, claim), Ok(()));
        assert_eq!(states.open_count(FILE), 2);
        assert!(states.close(FILE, claim, None).is_none());
        assert!(states.close(FILE, claim, None).is_none());
    }
}
