//! Adoption: the next start of a gateway continues the sessions of the earlier start. ADR 0040.
//!
//! ```text
//!   SetGatewayRecord ──> live, with a record ──connection lost or silent──> AdoptSession
//!                             ^                                                  │
//!                             └── earlier connections end, a new holder <────────┘
//! ```
//!
//! Invariants:
//! 1. A session has one holder. Connections of an earlier holder are refused from the moment of the
//!    adoption, and the earlier holder cannot join again.
//! 2. A session is adopted by a higher number than its last holder's: numbers of sessions rise from
//!    start to start. So replay sequences that begin at the holder's number rise, too (I7).
//!
//! `SessionTable::adopt` checks both.

use std::{sync::Arc, time::Duration};

use braid_types::{Failure, SessionId, Status};

use super::{GatewayRecord, Owner, SessionTable};
use crate::connection::SessionActivity;

/// A gateway whose session is silent longer than this is gone, also if its connection is not known
/// to have ended: it renews its sessions every 5 s.
const HOLDER_SILENT_MS: u64 = 20_000;

/// What [`SessionTable::adopt`] found.
pub(crate) enum Adoption {
    /// The holder has the session. Its connection belongs to this activity.
    Again(Arc<SessionActivity>),
    /// The same, and it did not have it before.
    Adopted(Arc<SessionActivity>),
    /// The session is not live: it may be one from before a restart of this server.
    NotLive,
}

fn is_held(activity: &SessionActivity, now: Duration) -> bool {
    activity.is_connected() && activity.idle_ms(now) < HOLDER_SILENT_MS
}

impl SessionTable {
    /// Sets what a gateway keeps with a session.
    ///
    /// # Errors
    /// [`Status::Busy`] if the record is that of a gateway itself, and another gateway that has the
    /// same name and key is connected. Otherwise as [`super::Sessions::set_gateway`].
    pub(crate) fn set_gateway(
        &mut self,
        id: SessionId,
        owner: Owner,
        record: GatewayRecord,
        now: Duration,
    ) -> Result<(), Failure> {
        let is_other = |live: &super::ClientSession<_>| {
            let known = live.gateway.as_ref();
            live.id != id
                && live.owner == owner
                && known
                    .is_some_and(|known| known.record.is_empty() && known.gateway == record.gateway)
                && is_held(&live.activity, now)
        };
        if record.record.is_empty()
            && let Some(other) = self.live.iter().find(|live| is_other(live))
        {
            let why = format!(
                "another gateway named {:?} is connected: session {}, {}",
                record.gateway, other.id, other.client
            );
            return Err(Failure::new(Status::Busy, why));
        }
        self.live.set_gateway(id, record)
    }

    /// Live sessions of a gateway after `after`, in the order of their numbers, with their records.
    pub(crate) fn gateway_sessions(
        &self,
        owner: Owner,
        gateway: &str,
        after: SessionId,
    ) -> Vec<(SessionId, Arc<[u8]>)> {
        let of_gateway = self.live.select(|live| {
            live.id > after
                && live.owner == owner
                && live.gateway.as_ref().is_some_and(|known| *known.gateway == *gateway)
        });
        let record = |id| self.live.get(id)?.gateway.as_ref().map(|known| known.record.clone());
        of_gateway.into_iter().filter_map(|id| Some((id, record(id)?))).collect()
    }

    /// Continues a session with another holder. Invariants 1 and 2.
    ///
    /// # Errors
    /// [`Status::NoSession`] if it belongs to another owner, is no session of a gateway, or a later
    /// start has adopted it. [`Status::TryAgain`] while its earlier holder is connected, one of its
    /// calls runs, or it reclaims.
    pub(crate) fn adopt(
        &mut self,
        id: SessionId,
        holder: SessionId,
        owner: Owner,
        now: Duration,
    ) -> Result<Adoption, Failure> {
        let Some(live) = self.live.get_mut(id) else { return Ok(Adoption::NotLive) };
        if live.owner != owner {
            return Ok(Adoption::NotLive);
        }
        if live.holder == Some(holder) {
            live.activity.note_activity(now);
            return Ok(Adoption::Again(live.activity.clone()));
        }
        let is_older = id >= holder || live.holder.is_some_and(|known| known > holder);
        if is_older || live.gateway.is_none() {
            let why = format!("session {id} cannot be continued by session {holder}");
            return Err(Failure::new(Status::NoSession, why));
        }
        let busy = [
            (is_held(&live.activity, now), "its gateway is connected"),
            (live.has_call_in_flight(), "one of its calls runs"),
            (live.reclaiming, "it reclaims after a restart of the metadata server"),
        ];
        if let Some((_, why)) = busy.iter().find(|(is_so, _)| *is_so) {
            let why = format!("session {id} cannot be continued yet: {why}");
            return Err(Failure::new(Status::TryAgain, why));
        }
        live.activity.end();
        live.activity = Arc::new(SessionActivity::new(id, now));
        live.holder = Some(holder);
        Ok(Adoption::Adopted(live.activity.clone()))
    }
}
