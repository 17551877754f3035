//! Reclaim: sends the open files and locks to a new epoch of the metadata server before any other
//! call. ADR 0008.

use std::{sync::Arc, time::Duration};

use braid_net::Driver;
use braid_types::limits::{RECLAIM_LOCKS_MAX, RECLAIM_OPENS_MAX};
use braid_wire::message::{
    lock::LockRequest,
    mds::{Envelope, LockReclaim, Reclaim, ReclaimedOpen},
};

use super::{Engine, link::Link};
use crate::error::Result;

impl<D: Driver> Engine<D> {
    /// Reclaims every lock and every open file, on a connection that no other call uses yet. A
    /// repetition after a lost reply changes nothing.
    pub(crate) async fn reclaim(
        self: &Arc<Self>,
        link: &Link<D>,
        deadline: Duration,
    ) -> Result<()> {
        let locks = self.locks.to_tell(link.run);
        let Some(open) = self.handles.to_tell(link.run) else { return Ok(()) };
        for some in locks.chunks(RECLAIM_LOCKS_MAX) {
            self.tell_locks(link, some, deadline).await?;
        }
        let mut messages =
            open.chunk_by(|(a, _), (b, _)| a == b).flat_map(|same| same.chunks(RECLAIM_OPENS_MAX));
        let mut next = messages.next().unwrap_or_default();
        loop {
            let after = messages.next();
            self.tell(link, next, after.is_none(), deadline).await?;
            match after {
                Some(after) => next = after,
                None => break,
            }
        }
        self.handles.told_all(link.run);
        Ok(())
    }

    async fn tell_locks(
        &self,
        link: &Link<D>,
        some: &[LockRequest],
        deadline: Duration,
    ) -> Result<()> {
        let call = LockReclaim { locks: some.to_vec() };
        let deadline = self.attempt(deadline);
        let refused = self.exchange(&link.shared, Some(&Envelope::PLAIN), &call, deadline).await;
        let refused = refused.map_err(|failure| failure.into_error(&link.server))?;
        refused
            .iter()
            .filter_map(|at| some.get(*at as usize))
            .for_each(|lost| self.locks.lost(lost));
        Ok(())
    }

    async fn tell(
        &self,
        link: &Link<D>,
        some: &[(u32, ReclaimedOpen)],
        complete: bool,
        deadline: Duration,
    ) -> Result<()> {
        let identity = some.first().map_or(0, |(identity, _)| *identity);
        let deadline = self.attempt(deadline);
        let defined = self.ensure_identity(link, identity, deadline).await;
        defined.map_err(|attempt| attempt.into_error(&link.server))?;
        let leases = self.leasing.may_believe();
        let call = Reclaim {
            opens: some.iter().map(|(_, named)| named.clone()).collect(),
            complete,
            leases,
        };
        let envelope = Envelope { identity, ..Envelope::PLAIN };
        let refused = self.exchange(&link.shared, Some(&envelope), &call, deadline).await;
        let refused = refused.map_err(|failure| failure.into_error(&link.server))?;
        self.handles.refused(link.run.session, &refused);
        Ok(())
    }
}
