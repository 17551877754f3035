//! Whether a file may have set-user-id or set-group-id bits, which a write without the right to
//! keep them clears, or file capabilities, which every write removes (capabilities(7)). "Set-id
//! bits" below means all three.
//!
//! ```text
//!   write ── lease, granted without set-id bits ─────────────────────────────────────> written
//!              └ with, or this mount set some ── server clears them ── still that lease ─> written
//!   chmod u+s elsewhere ── the server recalls the lease ── the next lease says that there are some
//! ```
//!
//! Invariant: while a lease is held, no other client sets set-id bits: the metadata server recalls
//! the lease first. This mount may, and calls [`MountCaches::note_set_ids_change`] before it asks
//! the server and after the reply. What was cleared between the two does not count.

use braid_client::{AttributeChanges, FileIndex, LeaseTicket};

use super::{FileData, UseGuard};
use crate::{mount_caches::MountCaches, mutex::lock};

/// Set-user-id and set-group-id.
const SET_IDS: u32 = 0o6000;
const GROUP_EXECUTES: u32 = 0o010;

/// What this mount knows of one file's set-id bits beside its lease.
#[derive(Debug, Default)]
pub(super) struct SetIds {
    /// How often this mount began or ended to set some.
    sets: u64,
    /// There may be some, whatever the lease was granted with.
    may_be: bool,
    /// While this lease is held there are none.
    cleared: Option<LeaseTicket>,
    /// While this lease is held there are no capabilities.
    no_capabilities: Option<LeaseTicket>,
}

/// A request to clear set-id bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClearRequest {
    ticket: Option<LeaseTicket>,
    sets: u64,
    which: SetIdBits,
}

/// Which set-id bits a write clears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetIdBits {
    /// All: the writer has no right to keep them.
    All,
    /// Capabilities only: the writer is root.
    Capabilities,
}

impl SetIdBits {
    /// For a write. `kill_privileges`: the kernel asks to clear set-user-id and set-group-id.
    pub(crate) fn of(kill_privileges: bool) -> Self {
        if kill_privileges { Self::All } else { Self::Capabilities }
    }

    /// The change that the metadata server is asked for.
    pub(crate) fn changes(self) -> AttributeChanges {
        let (drop_set_ids, drop_capabilities) = (self == Self::All, true);
        AttributeChanges { drop_set_ids, drop_capabilities, ..AttributeChanges::none() }
    }
}

impl SetIds {
    fn to_drop(&self, ticket: Option<LeaseTicket>, which: SetIdBits) -> Option<ClearRequest> {
        let none = match ticket {
            Some(held) => {
                let had_none = !self.may_be && !held.has_set_ids();
                had_none
                    || self.cleared == ticket
                    || which == SetIdBits::Capabilities && self.no_capabilities == ticket
            }
            // A mount without leases would ask before every write of root.
            None => which == SetIdBits::Capabilities,
        };
        (!none).then_some(ClearRequest { ticket, sets: self.sets, which })
    }

    fn dropped(&mut self, what: ClearRequest) {
        if what.sets != self.sets {
            return;
        }
        self.no_capabilities = what.ticket;
        if what.which == SetIdBits::All {
            (self.may_be, self.cleared) = (false, what.ticket);
        }
    }

    fn give(&mut self) {
        self.sets += 1;
        (self.may_be, self.cleared, self.no_capabilities) = (true, None, None);
    }
}

impl ClearRequest {
    pub(crate) fn which(&self) -> SetIdBits {
        self.which
    }
}

/// Whether a mode has bits that a write clears.
pub(crate) fn has_clearable_bits(mode: u32) -> bool {
    mode & 0o4000 != 0 || mode & 0o2000 != 0 && mode & GROUP_EXECUTES != 0
}

/// Whether a change to this mode may set some.
pub(crate) fn may_set_set_ids(mode: u32) -> bool {
    mode & SET_IDS != 0
}

impl FileData {
    /// What must be cleared before a write that has begun. `None`: nothing.
    pub(crate) fn set_ids_to_clear(
        &self,
        under: Option<&UseGuard>,
        which: SetIdBits,
    ) -> Option<ClearRequest> {
        let ticket = under.and_then(|under| under.ticket);
        lock(&self.state).set_ids.to_drop(ticket, which)
    }

    /// The server has cleared them.
    pub(crate) fn set_ids_cleared(&self, what: ClearRequest) {
        lock(&self.state).set_ids.dropped(what);
    }
}

impl MountCaches {
    /// Whether set-id bits must be cleared now.
    pub(crate) fn must_clear_set_ids(&self, data: &FileData) -> bool {
        let state = lock(&data.state);
        state.set_ids.to_drop(self.ticket(data, &state), SetIdBits::All).is_some()
    }

    /// This mount is about to set set-id bits of a file, or has set them: called before the server
    /// is asked, and after its reply.
    pub(crate) fn note_set_ids_change(&self, file: FileIndex) {
        if let Some(data) = self.data.get(file) {
            lock(&data.state).set_ids.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_lease_set_id_bits_are_cleared_each_time() {
        let mut known = SetIds::default();
        let wanted = known.to_drop(None, SetIdBits::All).expect("not known");
        known.dropped(wanted);
        assert!(known.to_drop(None, SetIdBits::All).is_some());
    }

    #[test]
    fn modes_whose_bits_a_write_clears() {
        assert!(
            has_clearable_bits(0o4755) && has_clearable_bits(0o4644) && has_clearable_bits(0o2711)
        );
        assert!(
            !has_clearable_bits(0o2644),
            "setgid without group execute marks mandatory locking"
        );
        assert!(!has_clearable_bits(0o1777));
        assert!(may_set_set_ids(0o2644), "another change may add group execute");
        assert!(!may_set_set_ids(0o1777));
    }
}
