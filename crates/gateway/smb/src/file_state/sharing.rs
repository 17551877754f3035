//! Share modes. MS-FSA 2.1.5.1.2.2.

use braid_share::Deny;
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;

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

/// The opens of the bytes of a file, of a directory, or of a stream.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    opens: usize,
    /// Number of opens that have each kind of access.
    having: [usize; KINDS],
    /// Number of opens that deny each kind of access.
    denying: [usize; KINDS],
}

impl Sharing {
    /// The number of opens.
    pub(super) fn opens(&self) -> usize {
        self.opens
    }

    /// Checks that an open with this claim may be added.
    pub(super) fn check(&self, claim: Claim) -> Result<(), NtStatus> {
        let conflicts = |kinds: Deny, counts: &[usize; KINDS]| {
            bits(kinds).zip(counts).any(|(is_set, count)| is_set && *count > 0)
        };
        if conflicts(claim.has, &self.denying) || conflicts(claim.denies, &self.having) {
            return Err(NtStatus::SHARING_VIOLATION);
        }
        Ok(())
    }

    /// Number of opens that deny others to rename and remove.
    pub(super) fn denying_delete(&self) -> usize {
        self.denying[2]
    }

    /// Adds an open.
    pub(super) fn add(&mut self, claim: Claim) {
        self.count(claim, |number| *number += 1);
    }

    /// Removes an open.
    pub(super) fn remove(&mut self, claim: Claim) {
        self.count(claim, |number| *number = number.saturating_sub(1));
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
