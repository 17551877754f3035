//! Whether a file may have setuid or setgid, which a write by somebody without the right to keep them takes away, or file
//! capabilities, which a write by anybody does (capabilities(7)). "Set-ids" below are all three.
//!
//! ```text
//!   write ── lease, granted without set-ids ──────────────────────────> written
//!              └ with, or this mount gave some ── dropped by the server ── the same lease still? ─> written
//!   chmod u+s elsewhere ── the server recalls the lease ── the next one says that there are some
//! ```
//!
//! Invariant: while a lease is held no other client gives the file set-ids (the metadata server recalls it first); this mount may, and
//! says so here before it asks the server and after it was answered. What was dropped between the two does not count.

use braid_client::{AttributeChanges, FileIndex, LeaseTicket};

use super::{Data, Under};
use crate::{
    files::{Bytes, lock},
    promise::Holder,
};

/// setuid and setgid.
const SET_IDS: u32 = 0o6000;
const GROUP_EXECUTES: u32 = 0o010;

/// What this mount knows of one file beside its lease.
#[derive(Debug, Default)]
pub(super) struct SetIds {
    /// So often this mount began or ended to give them.
    given: u64,
    /// There may be some, whatever the lease was granted with.
    may_be: bool,
    /// While this lease is held there are none.
    dropped: Option<LeaseTicket>,
    /// While this lease is held there are no capabilities.
    no_capabilities: Option<LeaseTicket>,
}

/// That they are to be dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToDrop {
    ticket: Option<LeaseTicket>,
    given: u64,
    which: Which,
}

/// What a write takes away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    /// Of somebody without the right to keep them: all.
    All,
    /// Of root: capabilities.
    Capabilities,
}

impl Which {
    /// What a write takes away, whose kernel says so of setuid and setgid.
    pub(crate) fn of(kill_privileges: bool) -> Self {
        if kill_privileges { Self::All } else { Self::Capabilities }
    }

    /// What the metadata server is asked for.
    pub(crate) fn changes(self) -> AttributeChanges {
        let (drop_set_ids, drop_capabilities) = (self == Self::All, true);
        AttributeChanges { drop_set_ids, drop_capabilities, ..AttributeChanges::none() }
    }
}

impl SetIds {
    fn to_drop(&self, ticket: Option<LeaseTicket>, which: Which) -> Option<ToDrop> {
        let none = match ticket {
            Some(held) => {
                let had_none = !self.may_be && !held.has_set_ids();
                had_none
                    || self.dropped == ticket
                    || which == Which::Capabilities && self.no_capabilities == ticket
            }
            // A mount without leases would ask before every write of root.
            None => which == Which::Capabilities,
        };
        (!none).then_some(ToDrop { ticket, given: self.given, which })
    }

    fn dropped(&mut self, what: ToDrop) {
        if what.given != self.given {
            return;
        }
        self.no_capabilities = what.ticket;
        if what.which == Which::All {
            (self.may_be, self.dropped) = (false, what.ticket);
        }
    }

    fn give(&mut self) {
        self.given += 1;
        (self.may_be, self.dropped, self.no_capabilities) = (true, None, None);
    }
}

impl ToDrop {
    pub(crate) fn which(&self) -> Which {
        self.which
    }
}

/// Whether a mode has something that a write takes away.
pub(crate) fn has_set_ids(mode: u32) -> bool {
    mode & 0o4000 != 0 || mode & 0o2000 != 0 && mode & GROUP_EXECUTES != 0
}

/// Whether a change to this mode may give some.
pub(crate) fn gives_set_ids(mode: u32) -> bool {
    mode & SET_IDS != 0
}

impl Data {
    fn to_drop(&self, ticket: Option<LeaseTicket>, which: Which) -> Option<ToDrop> {
        lock(&self.state).set_ids.to_drop(ticket, which)
    }
}

impl Bytes {
    /// What is to be dropped before a write that has begun; `None`: there are no set-ids.
    pub(crate) fn to_drop(&self, under: Option<&Under>, which: Which) -> Option<ToDrop> {
        self.data()?.to_drop(under.and_then(|under| under.ticket), which)
    }

    /// What is to be dropped now.
    pub(crate) fn to_drop_now(&self, holder: &Holder) -> Option<ToDrop> {
        let data = self.data()?;
        let ticket = holder.ticket(data, &lock(&data.state));
        data.to_drop(ticket, Which::All)
    }

    /// The server has dropped them.
    pub(crate) fn dropped(&self, what: ToDrop) {
        if let Some(data) = self.data() {
            lock(&data.state).set_ids.dropped(what);
        }
    }
}

impl Holder {
    /// This mount is about to give a file set-ids, or has: called before the server is asked, and after.
    pub(crate) fn gives_set_ids(&self, file: FileIndex) {
        if let Some(data) = self.data.known(file) {
            lock(&data.state).set_ids.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_lease_is_dropped_each_time() {
        let mut known = SetIds::default();
        let wanted = known.to_drop(None, Which::All).expect("nobody knows");
        known.dropped(wanted);
        assert!(known.to_drop(None, Which::All).is_some());
    }

    #[test]
    fn modes_that_a_write_changes() {
        assert!(has_set_ids(0o4755) && has_set_ids(0o4644) && has_set_ids(0o2711));
        assert!(!has_set_ids(0o2644), "setgid without group execute marks mandatory locking");
        assert!(!has_set_ids(0o1777));
        assert!(
            gives_set_ids(0o2644),
            "with group execute, which another change may give, it is one"
        );
        assert!(!gives_set_ids(0o1777));
    }
}
