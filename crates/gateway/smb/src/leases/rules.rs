//! What breaks what, and what is granted beside what. Pure. MS-FSA 2.1.4.12, 2.1.5.18.
//!
//! An oplock is a lease of its own open: level II is R, exclusive RW, and batch RWH.

use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::create::{LeaseState, OplockLevel};

/// R.
pub const READ: LeaseState = LeaseState::READ;
/// RH.
pub const READ_HANDLE: LeaseState = LeaseState::READ.with(LeaseState::HANDLE);
/// RW.
pub const READ_WRITE: LeaseState = LeaseState::READ.with(LeaseState::WRITE);
/// RWH.
pub const ALL: LeaseState = READ_HANDLE.with(LeaseState::WRITE);

/// Access to neither bytes nor names, which breaks nothing (MS-FSA 2.1.5.1.2).
const STAT: AccessMask =
    AccessMask::READ_ATTRIBUTES.with(AccessMask::WRITE_ATTRIBUTES).with(AccessMask::SYNCHRONIZE);
/// The same for holders of leases: Windows lets others read the security descriptor, too.
const STAT_BESIDE_LEASE: AccessMask = STAT.with(AccessMask::READ_CONTROL);

/// What a request does with a file that others cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// It opens the file.
    Open {
        /// The access that it is granted.
        access: AccessMask,
        /// Whether it removes the bytes.
        overwrites: bool,
    },
    /// Its open is excluded by another, which its client may have closed without a call.
    Excluded,
    /// It changes or locks bytes.
    Change,
    /// It renames or removes the file.
    Name,
}

/// A holder of cached state, for the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cached {
    /// What it caches.
    pub state: LeaseState,
    /// Whether by an oplock.
    pub is_oplock: bool,
}

impl Conflict {
    /// What a holder may go on to cache.
    pub fn keeps(self, held: Cached) -> LeaseState {
        let state = held.state;
        match self {
            Self::Open { access, .. } if is_stat(access, held.is_oplock) && !self.overwrites() => {
                state
            }
            // A batch oplock becomes level II.
            Self::Open { overwrites: false, .. }
                if held.is_oplock && state.has(LeaseState::WRITE) =>
            {
                READ
            }
            Self::Open { overwrites: false, .. } => state.without(LeaseState::WRITE),
            Self::Open { overwrites: true, .. } | Self::Change => LeaseState::NONE,
            // An exclusive oplock says nothing of closes.
            Self::Excluded | Self::Name if held.is_oplock && state.has(LeaseState::HANDLE) => READ,
            Self::Excluded | Self::Name => state.without(LeaseState::HANDLE),
        }
    }

    /// Whether the request waits until the holder has acknowledged. Where it does not, the holder
    /// caches what it may still see as it was before the request.
    pub fn waits(self, held: Cached) -> bool {
        let waits_for = match self {
            Self::Open { .. } => LeaseState::WRITE,
            Self::Excluded | Self::Name => LeaseState::HANDLE,
            Self::Change => LeaseState::NONE,
        };
        held.state.has_any(waits_for) && self.keeps(held) != held.state
    }

    /// Whether it opens the file, and not for a look at its attributes.
    pub fn is_open_beside(self, oplock: bool) -> bool {
        match self {
            Self::Open { access, overwrites } => overwrites || !is_stat(access, oplock),
            _ => false,
        }
    }

    fn overwrites(self) -> bool {
        matches!(self, Self::Open { overwrites: true, .. })
    }
}

/// Whether an open touches neither bytes nor names, beside an oplock or a lease.
pub fn is_stat(access: AccessMask, beside_oplock: bool) -> bool {
    access.without(if beside_oplock { STAT } else { STAT_BESIDE_LEASE }).0 == 0
}

/// The other holders of a file, as a grant sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Others {
    /// Whether the file has other opens that are more than a look at its attributes.
    pub are_open: bool,
    /// Whether one caches writes.
    pub cache_writes: bool,
    /// Whether one has a lease with H.
    pub lease_handles: bool,
    /// Whether one has an oplock.
    pub have_oplock: bool,
}

/// The most that may be granted of a wish.
pub fn grantable(wish: LeaseState, is_oplock: bool, others: Others) -> LeaseState {
    // MS-SMB2 3.3.5.9.8: nothing else is granted, also not a part of it.
    if ![READ, READ_HANDLE, READ_WRITE, ALL].contains(&wish) || others.cache_writes {
        return LeaseState::NONE;
    }
    if !others.are_open {
        return wish;
    }
    match is_oplock {
        // Level II beside the opens of others, but not beside a lease with H.
        true if others.lease_handles => LeaseState::NONE,
        true => READ,
        false if others.have_oplock => READ,
        false => wish.without(LeaseState::WRITE),
    }
}

/// The state that an oplock stands for.
pub fn state_of(level: OplockLevel) -> LeaseState {
    match level {
        OplockLevel::LEVEL_II => READ,
        OplockLevel::EXCLUSIVE => READ_WRITE,
        OplockLevel::BATCH => ALL,
        _ => LeaseState::NONE,
    }
}

/// The oplock that has a state.
pub fn level_of(state: LeaseState) -> OplockLevel {
    match state {
        ALL => OplockLevel::BATCH,
        READ_WRITE => OplockLevel::EXCLUSIVE,
        LeaseState::NONE => OplockLevel::NONE,
        _ => OplockLevel::LEVEL_II,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: LeaseState = LeaseState::NONE;

    fn open(access: AccessMask, overwrites: bool) -> Conflict {
        Conflict::Open { access, overwrites }
    }

    #[test]
    fn each_kind_of_lease_is_broken_as_the_standard_has_it() {
        let reads = open(AccessMask::READ_DATA, false);
        let overwrites = open(AccessMask::WRITE_DATA, true);
        let looks = open(AccessMask::READ_ATTRIBUTES.with(AccessMask::SYNCHRONIZE), false);
        // The state, and what is left and whether the request waits: of leases, then of oplocks.
        let table = [
            (READ, reads, (READ, false), (READ, false)),
            (READ_HANDLE, reads, (READ_HANDLE, false), (READ_HANDLE, false)),
            (READ_WRITE, reads, (READ, true), (READ, true)),
            (ALL, reads, (READ_HANDLE, true), (READ, true)),
            (READ, overwrites, (NONE, false), (NONE, false)),
            (READ_HANDLE, overwrites, (NONE, false), (NONE, false)),
            (READ_WRITE, overwrites, (NONE, true), (NONE, true)),
            (ALL, overwrites, (NONE, true), (NONE, true)),
            (READ, looks, (READ, false), (READ, false)),
            (ALL, looks, (ALL, false), (ALL, false)),
            (READ, Conflict::Excluded, (READ, false), (READ, false)),
            (READ_HANDLE, Conflict::Excluded, (READ, true), (READ, true)),
            (READ_WRITE, Conflict::Excluded, (READ_WRITE, false), (READ_WRITE, false)),
            (ALL, Conflict::Excluded, (READ_WRITE, true), (READ, true)),
            (READ, Conflict::Change, (NONE, false), (NONE, false)),
            (READ_HANDLE, Conflict::Change, (NONE, false), (NONE, false)),
            (READ_WRITE, Conflict::Change, (NONE, false), (NONE, false)),
            (ALL, Conflict::Change, (NONE, false), (NONE, false)),
            (READ, Conflict::Name, (READ, false), (READ, false)),
            (READ_HANDLE, Conflict::Name, (READ, true), (READ, true)),
            (READ_WRITE, Conflict::Name, (READ_WRITE, false), (READ_WRITE, false)),
            (ALL, Conflict::Name, (READ_WRITE, true), (READ, true)),
        ];
        for (state, conflict, of_lease, of_oplock) in table {
            for (is_oplock, wanted) in [(false, of_lease), (true, of_oplock)] {
                let held = Cached { state, is_oplock };
                let result = (conflict.keeps(held), conflict.waits(held));
                assert_eq!(result, wanted, "{held:?} {conflict:?}");
            }
        }
    }

    #[test]
    fn reading_the_security_descriptor_breaks_oplocks_only() {
        let reads = open(AccessMask::READ_CONTROL, false);
        assert_eq!(reads.keeps(Cached { state: ALL, is_oplock: false }), ALL);
        assert_eq!(reads.keeps(Cached { state: ALL, is_oplock: true }), READ);
    }

    #[test]
    fn only_four_states_are_granted_and_none_to_cache_beside_others() {
        let alone = Others::default();
        for bits in 0..8 {
            let wish = LeaseState(bits);
            let granted = grantable(wish, false, alone);
            assert_eq!(granted, if [1, 3, 5, 7].contains(&bits) { wish } else { NONE });
        }
        let open = Others { are_open: true, ..alone };
        let lease = Others { lease_handles: true, ..open };
        let oplock = Others { have_oplock: true, ..open };
        let writer = Others { cache_writes: true, ..open };
        for (wish, is_oplock, others, wanted) in [
            (ALL, false, open, READ_HANDLE),
            (READ_WRITE, false, open, READ),
            (ALL, true, open, READ),
            (READ_WRITE, true, open, READ),
            (ALL, true, lease, NONE),
            (READ, true, lease, NONE),
            (ALL, false, lease, READ_HANDLE),
            (ALL, false, oplock, READ),
            (READ, false, writer, NONE),
        ] {
            assert_eq!(grantable(wish, is_oplock, others), wanted, "{wish:?} {others:?}");
        }
    }

    #[test]
    fn an_oplock_level_stands_for_a_state() {
        for level in [OplockLevel::NONE, OplockLevel::LEVEL_II, OplockLevel::EXCLUSIVE] {
            assert_eq!(level_of(state_of(level)), level);
        }
        assert_eq!(level_of(state_of(OplockLevel::BATCH)), OplockLevel::BATCH);
        assert_eq!(level_of(READ_HANDLE), OplockLevel::LEVEL_II);
        assert_eq!(state_of(OplockLevel(0x33)), NONE);
    }
}
