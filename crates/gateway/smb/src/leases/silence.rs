//! Clients that acknowledge nothing. Invariant 5 of [`super`].

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use braid_share::{SessionId, Share};
use braid_smb_wire::smb2::create::LeaseState;

use super::entry::Holder;
use super::{Leases, RECALL_MAX};
use crate::client::{MISSES_MAX, Machine};

/// A break that was not acknowledged in time.
#[derive(Debug)]
pub(super) struct Missed<S: Share> {
    /// The machine of its client.
    pub machine: Weak<Machine<S>>,
    /// That machine's session of the metadata server.
    pub session: SessionId,
    /// The client's address, if it is still connected.
    pub peer: Option<SocketAddr>,
}

impl<S: Share> Leases<S> {
    /// Takes back all that a machine may cache. Its clients have [`RECALL_MAX`] for all files
    /// together: one that is only slow writes what it has buffered before others go on. After
    /// [`MISSES_MAX`] breaks in a row nothing more is granted.
    pub(super) fn miss(self: &Arc<Self>, missed: Missed<S>) {
        let Missed { machine, session, peer } = missed;
        let Some(machine) = machine.upgrade() else { return };
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        match machine.miss() {
            MISSES_MAX => tracing::warn!(
                peer,
                "leases are refused to a client: it has not acknowledged {MISSES_MAX} breaks in \
                 time; try: mount the share again there"
            ),
            misses if misses < MISSES_MAX => {
                tracing::info!(peer, "a client has not acknowledged a break in time");
            }
            // It has been granted nothing since.
            _ => return,
        }
        let is_held =
            |holder: &Holder<S>| holder.session == session && holder.state != LeaseState::NONE;
        for file in self.files(|entry| entry.holders.iter().any(is_held)) {
            self.change(file, |entry, effects| {
                for holder in entry.holders.iter_mut().filter(|holder| holder.session == session) {
                    holder.reduce(LeaseState::NONE, RECALL_MAX, effects);
                }
            });
        }
    }
}
