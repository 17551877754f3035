//! Reclaim: sends the open files and locks to a new epoch of the metadata server before any other
//! call. ADR 0008.

use std::{sync::Arc, time::Duration};

use braid_net::Driver;
use braid_types::limits::{RECLAIM_LOCKS_MAX, RECLAIM_OPENS_MAX};
use braid_wire::message::{
    lock::LockRequest,
    mds::{Envelope, LockReclaim, Reclaim, ReclaimedOpen},
};

use super::{Engine, mds_connection::MdsConnection};
use crate::error::Result;

impl<D: Driver> Engine<D> {
    /// Reclaims every lock and every open file, on a connection that no other call uses yet. A
    /// repetition after a lost reply changes nothing.
    pub(crate) async fn reclaim(
        self: &Arc<Self>,
        link: &MdsConnection<D>,
        deadline: Duration,
    ) -> Result<()> {
        let locks = self.locks.to_reclaim(link.epoch);
        let Some(open) = self.open_table.to_reclaim(link.epoch) else { return Ok(()) };
        for some in locks.chunks(RECLAIM_LOCKS_MAX) {
            self.reclaim_locks(link, some, deadline).await?;
        }
        let mut messages =
            open.chunk_by(|(a, _), (b, _)| a == b).flat_map(|same| same.chunks(RECLAIM_OPENS_MAX));
        let mut next = messages.next().unwrap_or_default();
        loop {
            let after = messages.next();
            self.reclaim_opens(link, next, after.is_none(), deadline).await?;
            match after {
                Some(after) => next = after,
                None => break,
            }
        }
        self.open_table.reclaim_done(link.epoch);
        Ok(())
    }

    async fn reclaim_locks(
        &self,
        link: &MdsConnection<D>,
        some: &[LockRequest],
        deadline: Duration,
    ) -> Result<()> {
        let call = LockReclaim { locks: some.to_vec() };
        let deadline = self.attempt_deadline(deadline);
        let refused = self.exchange(&link.shared, Some(&Envelope::PLAIN), &call, deadline).await;
        let refused = refused.map_err(|failure| failure.into_error(&link.server))?;
        refused
            .iter()
            .filter_map(|at| some.get(*at as usize))
            .for_each(|lost| self.locks.reclaim_refused(lost));
        Ok(())
    }

    async fn reclaim_opens(
        &self,
        link: &MdsConnection<D>,
        some: &[(u32, ReclaimedOpen)],
        complete: bool,
        deadline: Duration,
    ) -> Result<()> {
        let identity = some.first().map_or(0, |(identity, _)| *identity);
        let deadline = self.attempt_deadline(deadline);
        let defined = self.define_identity(link, identity, deadline).await;
        defined.map_err(|attempt| attempt.into_error(&link.server))?;
        let leases = self.lease_client.may_use_old_leases();
        let call = Reclaim {
            opens: some.iter().map(|(_, named)| named.clone()).collect(),
            complete,
            leases,
            io_under_leases: self.lease_client.does_io_under_leases(),
        };
        let envelope = Envelope { identity, ..Envelope::PLAIN };
        let refused = self.exchange(&link.shared, Some(&envelope), &call, deadline).await;
        let refused = refused.map_err(|failure| failure.into_error(&link.server))?;
        self.open_table.reclaim_refused(link.epoch.session, &refused);
        Ok(())
    }
}
