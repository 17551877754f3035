//! What must hold in every state.

use braid_vfs::data::lease_state::DataUse;
use braid_wire::message::lease::LeaseMode;

use super::{
    client::{Client, Page},
    world::{PAGES, World},
};

impl World {
    /// What is wrong with this state.
    pub fn wrong(&self) -> Option<String> {
        self.broken
            .clone()
            .or_else(|| self.pages_are_current())
            .or_else(|| self.appends_are_alone())
            .or_else(|| self.buffers_alone())
    }

    fn living(&self) -> impl Iterator<Item = (usize, &Client)> {
        self.clients.iter().enumerate().filter(|(_, client)| !client.dead)
    }

    /// No usable page is older than a write that has returned, on any client.
    fn pages_are_current(&self) -> Option<String> {
        let cached = |page: &Page| match page {
            Page::Has(version) | Page::Dirty(version) => Some(*version),
            _ => None,
        };
        let stale = |(who, client): (usize, &Client)| {
            let old = |page: &usize| {
                cached(&client.kernel[*page]).is_some_and(|version| version < self.returned[*page])
            };
            (0..PAGES).find(old).map(|page| (who, page, cached(&client.kernel[page])))
        };
        let (who, page, cached) = self.living().find_map(stale)?;
        Some(format!(
            "client {who} caches {cached:?} of page {page}, {} was written",
            self.returned[page]
        ))
    }

    /// While one client appends, no other writes or holds a lease that allows it.
    fn appends_are_alone(&self) -> Option<String> {
        let runs = |client: &Client, what| {
            client.programs.iter().any(|program| program.at.is_writing(what))
        };
        let (who, _) = self.living().find(|(_, client)| runs(client, DataUse::Append))?;
        let writes = |client: &Client| {
            let holds = matches!(client.leased_mode(), LeaseMode::Shared | LeaseMode::Write);
            holds || runs(client, DataUse::Write) || runs(client, DataUse::Append)
        };
        let (other, _) = self.living().find(|(other, client)| *other != who && writes(client))?;
        Some(format!("client {who} appends, and client {other} may write"))
    }

    /// Bytes are buffered only under a write lease that nobody shares, also while the lease is
    /// being lost.
    fn buffers_alone(&self) -> Option<String> {
        let (who, client) = self.living().find(|(_, client)| client.buffer.is_some())?;
        let run = &client.buffer;
        if client.leased_mode() != LeaseMode::Write && client.loss.is_none() {
            return Some(format!("client {who} has {run:?} buffered, and no lease"));
        }
        if self.plain.is_open {
            return Some(format!(
                "client {who} has {run:?} buffered, and a client without leases has the file open"
            ));
        }
        let holds = |other: &Client| other.leased_mode() != LeaseMode::None;
        let (other, _) = self.living().find(|(other, client)| *other != who && holds(client))?;
        Some(format!("client {who} has {run:?} buffered, and client {other} has a lease"))
    }

    /// Nothing more happens by itself: all living clients must be done.
    pub fn unfinished(&self) -> Option<String> {
        if !self.plain.is_idle() {
            return Some(format!("the client without leases hangs: {:?}", self.plain));
        }
        let (who, client) = self.living().find(|(_, client)| !client.is_idle())?;
        let (programs, drains, loss) = (&client.programs, &client.drains, &client.loss);
        Some(format!("client {who} hangs: {programs:?} {drains:?} {loss:?}"))
    }
}
