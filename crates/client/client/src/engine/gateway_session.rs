//! Sessions of gateways: the record for the gateway's next start, and what that start takes over.
//! ADR 0040.
//!
//! ```text
//!   SetGatewayRecord ... the gateway ends ... AdoptSession ──> ListOpens, ListLocks
//!                                                                 │
//!                a file that a client reclaims <── RenewCapability │ the tables of this engine
//! ```
//!
//! Invariants:
//! 1. An adopted handle is in the table of open files from the listing on. So it is reclaimed from
//!    a restarted metadata server, also before a client of the gateway reclaims it.
//! 2. Sequences of replay slots begin above those of the earlier holder (I7).

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use braid_net::Driver;
use braid_types::{SessionId, Status, limits::RECLAIM_OPENS_MAX};
use braid_wire::message::{
    lock::LockRequest,
    mds::{
        AdoptSession, Envelope, GatewaySession, ListGatewaySessions, ListLocks, ListOpens,
        OpenSessionReply, ReclaimedOpen, RenewCapability, SetGatewayRecord,
    },
};

use super::{
    Caller, Engine, OpenFile, identities::IdentityNumber, mds_connection::MdsConnection,
    open_table::OpenHandle, session::Session, size_report::SizeReportState,
};
use crate::{
    config::AdoptedSession,
    error::{Error, Result},
};

/// The last sequence number that an earlier holder of a session may have used. Numbers of sessions
/// rise from start to start, and no start makes 2^32 calls in one slot.
pub(super) fn first_sequence(holder: SessionId) -> u64 {
    holder.0.checked_shl(32).filter(|_| holder.0 >> 32 == 0).unwrap_or(u64::MAX / 2)
}

impl<D: Driver> Engine<D> {
    /// The session to adopt in the place of opening one: that of the configuration, until it has
    /// ended and another one has replaced it.
    pub(super) fn adopted_session(&self, known: Option<&Session>) -> Option<AdoptedSession> {
        let adopted = self.config.gateway.as_ref()?.adopted?;
        known.is_none_or(|known| known.id == adopted.session).then_some(adopted)
    }

    pub(super) async fn adopt_session(
        &self,
        shared: &D::Shared,
        server: &str,
        AdoptedSession { session, holder }: AdoptedSession,
        deadline: Duration,
    ) -> Result<OpenSessionReply> {
        let again = self.session_id().is_some();
        let client = self.config.client_name.clone();
        let call = AdoptSession { session, holder, again, client };
        let deadline = self.attempt_deadline(deadline);
        let reply = self.exchange(shared, Some(&Envelope::PLAIN), &call, deadline).await;
        let reply = reply.map_err(|failure| failure.into_error(server));
        match reply {
            // The first attempt. Later, a new session replaces the one that has ended.
            Err(error) if error.status() == Status::NoSession && self.session_id().is_none() => {
                let why = format!("session {session} of the earlier start has ended");
                Err(Error::new(Status::StaleHandle, why))
            }
            reply => reply,
        }
    }

    /// Sends the record of a gateway on a new connection.
    pub(super) async fn send_gateway_record(
        &self,
        link: &MdsConnection<D>,
        deadline: Duration,
    ) -> Result<()> {
        let Some(of) = &self.config.gateway else { return Ok(()) };
        // The session of an earlier gateway itself, which is adopted only to end it.
        if of.adopted.is_some() && of.record.is_empty() {
            return Ok(());
        }
        let call = SetGatewayRecord { gateway: of.gateway.clone(), record: of.record.clone() };
        let deadline = self.attempt_deadline(deadline);
        let set = self.exchange(&link.shared, Some(&Envelope::PLAIN), &call, deadline).await;
        match set.map_err(|failure| failure.into_error(&link.server)) {
            // Another gateway has taken the name while this one was not connected. Its clients
            // have their sessions all the same.
            Err(error)
                if error.status() == Status::Busy
                    && self.record_accepted.load(Ordering::Acquire) =>
            {
                Ok(())
            }
            Ok(()) => {
                self.record_accepted.store(true, Ordering::Release);
                Ok(())
            }
            refused => refused,
        }
    }
}

impl<D: Driver> Caller<D> {
    /// Sessions that earlier starts of a gateway of this name began with the same key, with their
    /// records.
    pub async fn gateway_sessions(&self, gateway: &str) -> Result<Vec<GatewaySession>> {
        let (mut all, mut after) = (Vec::new(), SessionId::default());
        loop {
            let call = ListGatewaySessions { gateway: gateway.to_owned(), after };
            let some = self.engine.repeatable(call).send().await?;
            match some.last() {
                // A server that goes back would be asked forever.
                Some(last) if last.session > after => after = last.session,
                _ => return Ok(all),
            }
            all.extend(some);
        }
    }

    /// What an adopted session has open. This client has it open from now on.
    pub async fn adopt_opens(&self) -> Result<Vec<ReclaimedOpen>> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let call = self.engine.repeatable(ListOpens { after });
            let (some, run) = call.send_with_epoch().await?;
            for named in &some {
                let size_report = SizeReportState::default();
                let number = IdentityNumber::default();
                let handle = OpenHandle::new(run, number, named.clone(), size_report);
                self.engine.open_table.add(run, handle)?;
            }
            let full = some.len() >= RECLAIM_OPENS_MAX;
            match some.last() {
                Some(last) if full && last.open_id > after => after = last.open_id,
                _ => {
                    all.extend(some);
                    return Ok(all);
                }
            }
            all.extend(some);
        }
    }

    /// The locks of an adopted session. This client has them from now on.
    pub async fn adopt_locks(&self) -> Result<Vec<LockRequest>> {
        let (mut all, mut after): (Vec<LockRequest>, Option<LockRequest>) = (Vec::new(), None);
        loop {
            let call = self.engine.repeatable(ListLocks { after: after.clone() });
            let (some, run) = call.send_with_epoch().await?;
            if some.is_empty() || some.last() == after.as_ref() {
                return Ok(all);
            }
            for lock in &some {
                if !self.engine.locks.add(run, lock) {
                    let why = "the metadata server restarted while locks were listed";
                    return Err(Error::new(Status::ConnectionLost, why));
                }
            }
            after = some.last().cloned();
            all.extend(some);
        }
    }

    /// Opens a file by a handle of an adopted session, as this caller.
    pub async fn open_adopted(&self, named: ReclaimedOpen) -> Result<Arc<OpenFile<D>>> {
        let ReclaimedOpen { open_id, file, rights, deny } = named;
        let call = RenewCapability { open_id, file, rights };
        let call = self.engine.repeatable(call).identity(self.identity.number());
        let (opened, run) = call.send_with_epoch().await?;
        let shown = format!("file {file}");
        let opened = (opened, SizeReportState::default());
        OpenFile::new(self.clone(), shown, (rights, deny), opened, run, None).map(Arc::new)
    }

    /// Closes a handle of an adopted session that no client has reclaimed.
    pub async fn close_adopted(&self, open_id: u64) -> Result<()> {
        if let Some(session) = self.engine.session_id() {
            self.engine.open_table.close_number(session, open_id);
        }
        self.engine.flush_closes().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_rise_from_holder_to_holder() {
        let of = |holder| first_sequence(SessionId(holder));
        assert!(of(1) >= u64::from(u32::MAX));
        assert!(of(7) - of(6) > u64::from(u32::MAX));
        assert!(of(1 << 40) > of(u64::from(u32::MAX)) - (1 << 63));
    }
}
