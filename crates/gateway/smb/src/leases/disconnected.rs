//! Durable opens in the table of leases while their client is disconnected. MS-SMB2 3.3.4.6,
//! 3.3.4.7; ADR 0056.
//!
//! ```text
//!   connected ─> disconnected ─> connected
//!                     └ its owner loses H ─> closing ─> removed, when it has been closed
//! ```
//!
//! Requests that need what the owner has lost wait for the end of the close.

use std::sync::Arc;

use braid_share::{FileIndex, Share};
use braid_smb_wire::smb2::create::LeaseState;
use tokio::sync::oneshot;

use super::entry::{FileEntry, Holder};
use super::rules::{self, Conflict};
use super::table::Leases;
use super::{Blocked, Granted, LeasedOpen, Peer};

/// Whether the client of an open is connected.
#[derive(Debug)]
pub(super) enum Presence {
    Connected,
    /// Used when the owner loses H: then the open must be closed.
    Disconnected(oneshot::Sender<()>),
    /// It is being closed because nobody could acknowledge a break.
    Closing,
}

impl Presence {
    pub fn is_connected(&self) -> bool {
        matches!(self, Self::Connected)
    }

    fn is_disconnected(&self) -> bool {
        matches!(self, Self::Disconnected(_))
    }

    fn is_closing(&self) -> bool {
        matches!(self, Self::Closing)
    }
}

impl<S: Share> LeasedOpen<S> {
    /// The client of the open is disconnected. Returns what ends with a message when the open must
    /// be closed. `None` if it cannot be durable now: without a batch oplock or a lease with H, or
    /// while it is being broken (MS-SMB2 3.3.7.1).
    pub fn disconnect(&self) -> Option<oneshot::Receiver<()>> {
        let disconnected = self.leases.change(self.file, |entry, _| {
            let holder = entry.holder(self.owner)?;
            if !holder.allows_durable() || holder.breaking.is_some() {
                return None;
            }
            let open = holder.opens.iter_mut().find(|open| open.id.volatile == self.id)?;
            let (revoke, revoked) = oneshot::channel();
            open.presence = Presence::Disconnected(revoke);
            Some(revoked)
        });
        disconnected.flatten()
    }

    /// The client is connected again, and gets notifications there. Returns what it may cache;
    /// `None` if the open is being closed.
    pub fn reconnect(&self, peer: Peer<S>) -> Option<Granted> {
        let reconnected = self.leases.change(self.file, |entry, _| {
            let holder = entry.holder(self.owner)?;
            let mut opens = holder.opens.iter_mut();
            let open = opens.find(|open| open.id.volatile == self.id)?;
            if !open.presence.is_disconnected() {
                return None;
            }
            (open.presence, open.peer) = (Presence::Connected, peer);
            Some(holder.granted())
        });
        reconnected.flatten()
    }

    /// What the open may cache now.
    pub fn granted(&self) -> Granted {
        self.leases.granted(self.file, self.owner)
    }
}

impl<S: Share> Leases<S> {
    /// What ends with the next change of a file, if an open of it is being closed because of a
    /// break.
    pub fn closing(self: &Arc<Self>, file: FileIndex) -> Option<Blocked> {
        self.look(file, |entry| entry.is_closing().then(|| entry.blocked())).flatten()
    }
}

impl<S: Share> FileEntry<S> {
    /// Begins to close the disconnected opens of owners that have lost H.
    pub(super) fn close_disconnected(&mut self) {
        for holder in self.holders.iter_mut().filter(|holder| !holder.allows_durable()) {
            for open in holder.opens.iter_mut().filter(|open| open.presence.is_disconnected()) {
                let before = std::mem::replace(&mut open.presence, Presence::Closing);
                if let Presence::Disconnected(revoke) = before {
                    // An error: it is being closed already.
                    let _ = revoke.send(());
                }
            }
        }
    }

    pub(super) fn is_closing(&self) -> bool {
        let mut opens = self.holders.iter().flat_map(|holder| &holder.opens);
        opens.any(|open| open.presence.is_closing())
    }

    /// Whether a request has to wait for opens that are being closed.
    pub(super) fn waits_for_close(&self, conflict: Conflict) -> bool {
        let concerns = conflict.is_open_beside(false)
            || matches!(conflict, Conflict::Excluded | Conflict::Name);
        concerns && self.is_closing()
    }
}

impl<S: Share> Holder<S> {
    /// Whether its opens can be durable: MS-SMB2 3.3.5.9.6, 3.3.7.1.
    pub(super) fn allows_durable(&self) -> bool {
        match self.is_oplock() {
            true => self.state == rules::ALL,
            false => self.state.has(LeaseState::HANDLE),
        }
    }

    /// What is left of it if a break begins that no client can receive. A recall of the right to
    /// write, because somebody looks at the file, leaves disconnected opens with a lease RH: their
    /// client learns of it when it is connected again.
    pub(super) fn left_without_client(&self, to: LeaseState, is_recall: bool) -> LeaseState {
        let is_kept = self.opens.iter().any(|open| open.presence.is_disconnected());
        match is_recall && is_kept && !self.is_oplock() && to.has(LeaseState::HANDLE) {
            true => to,
            false => LeaseState::NONE,
        }
    }
}
