//! After a restart of the gateway: the sessions of its clients are adopted before the first
//! connection is accepted, and clients reclaim what they have in them. ADR 0040.
//!
//! ```text
//!   start ─> adopt sessions ─> grace period: one lease ──────────> sessions nobody came for end
//!                │                 │ CREATE_SESSION of the same instance: its adopted session
//!                │                 │ CREATE_SESSION of the next instance: the session ends
//!                └─ record of garbage: the session ends
//! ```
//!
//! The grace period concerns the clients that have an adopted session: the metadata server still
//! has their opens and locks, so that all others conflict with them as before the restart.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braid_nfs_wire::nfs4::{NfsResult, NfsStatus, StateId, Verifier};
use braid_share::{AdoptedClient, Identity, Lock, OpenMode, Share, ShareClient, ShareFile};
use bytes::Bytes;

use crate::export::ExportedFile;
use crate::server::{Client, NfsServer};
use crate::state::Principal;
use crate::state::client_state::ClientState;
use crate::state::clients::{DurableClient, decode_record};
use crate::state::opens::{InsertedOpen, subtract};
use crate::state::reclaims::Reclaims;
use crate::status::nfs_status;

/// Sessions of the earlier start that no client has come for.
pub(crate) struct Recovery<C>(Mutex<HashMap<Bytes, Awaited<C>>>);

/// A session that waits for its client.
struct Awaited<C> {
    verifier: Verifier,
    principal: Principal,
    adopted: AdoptedClient<C>,
}

/// What waits for a client that confirms itself.
pub(crate) enum Former<C> {
    /// The session of this instance.
    Same(AdoptedClient<C>),
    /// The session of an earlier instance, which ends.
    Earlier(AdoptedClient<C>),
    /// Nothing.
    None,
}

impl<C> Default for Recovery<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C> fmt::Debug for Recovery<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovery").field("awaited", &self.lock().len()).finish()
    }
}

impl<C> Recovery<C> {
    fn lock(&self) -> MutexGuard<'_, HashMap<Bytes, Awaited<C>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_all(&self) -> Vec<AdoptedClient<C>> {
        self.lock().drain().map(|(_, awaited)| awaited.adopted).collect()
    }

    /// Takes the session that waits for an owner.
    ///
    /// # Errors
    /// `CLID_INUSE` if it belongs to another principal. RFC 8881 18.35.4, case 3.
    pub(crate) fn take(
        &self,
        owner: &Bytes,
        verifier: Verifier,
        principal: &Principal,
    ) -> NfsResult<Former<C>> {
        let mut all = self.lock();
        let Some(awaited) = all.get(owner) else { return Ok(Former::None) };
        if awaited.principal != *principal {
            return Err(NfsStatus::ClidInUse);
        }
        let is_same = awaited.verifier == verifier;
        let adopted = all.remove(owner).map(|awaited| awaited.adopted);
        Ok(match adopted {
            Some(adopted) if is_same => Former::Same(adopted),
            Some(adopted) => Former::Earlier(adopted),
            None => Former::None,
        })
    }
}

impl<S: Share> NfsServer<S> {
    /// Continues the sessions of the clients of the earlier start, and begins the grace period.
    /// Called once, before the first connection. Returns how many clients may reclaim.
    ///
    /// # Errors
    /// Those of [`Share::adopt_clients`]. The server may serve all the same: the sessions then end
    /// by their silence, and reclaims are refused.
    pub async fn recover(self: &Arc<Self>) -> braid_share::Result<usize> {
        let mut adopted = self.share.adopt_clients().await?;
        // If an owner has two, the later one is that of its later instance.
        adopted.sort_by_key(|adopted| adopted.client.session());
        let mut unusable = Vec::new();
        for adopted in adopted {
            match decode_record(Bytes::copy_from_slice(&adopted.record)) {
                Ok(DurableClient { owner, verifier, principal }) => {
                    let mut all = self.recovery().lock();
                    let is_known = |known: &Awaited<_>| known.verifier == verifier;
                    if all.get(&owner).is_some_and(is_known) {
                        // The first one of an instance has what the client opened.
                        unusable.push(adopted);
                        continue;
                    }
                    let former = all.insert(owner, Awaited { verifier, principal, adopted });
                    unusable.extend(former.map(|former| former.adopted));
                }
                Err(why) => {
                    let session = adopted.client.session();
                    tracing::warn!(%session, %why, "a client's record cannot be read; it ends");
                    unusable.push(adopted);
                }
            }
        }
        for adopted in unusable {
            adopted.client.end().await;
        }
        let count = self.recovery().lock().len();
        if count > 0 {
            tracing::info!(count, "clients of the earlier start may reclaim");
            let (server, lease) = (Arc::downgrade(self), self.config.lease);
            tokio::spawn(async move {
                tokio::time::sleep(lease).await;
                if let Some(server) = server.upgrade() {
                    server.end_grace().await;
                }
            });
        }
        Ok(count)
    }

    /// Ends the sessions that no client has come for.
    pub(crate) async fn end_awaited_clients(&self) {
        for adopted in self.recovery().take_all() {
            let session = adopted.client.session();
            tracing::info!(%session, "a client did not come back in the grace period; it ends");
            adopted.client.end().await;
        }
    }

    /// The next start waits for these clients, too.
    pub(crate) async fn leave_awaited_clients(&self) {
        for adopted in self.recovery().take_all() {
            adopted.client.leave().await;
        }
    }

    /// Ends the sessions that no client has come for, and releases what was not reclaimed.
    pub async fn end_grace(&self) {
        self.end_awaited_clients().await;
        let clients: Vec<Arc<Client<S>>> = self.clients().all_confirmed().cloned().collect();
        for client in clients {
            if let Some(state) = client.data() {
                state.finish_reclaims().await;
            }
        }
    }
}

impl<S: Share> ClientState<S> {
    /// CLAIM_PREVIOUS: gives an open of the adopted session to an open owner.
    ///
    /// # Errors
    /// `NO_GRACE` if the client may not reclaim. `RECLAIM_BAD` if the session had no such open.
    pub(crate) async fn reclaim_open(
        &self,
        who: &Identity,
        owner: &Bytes,
        file: &ExportedFile,
        mode: OpenMode,
    ) -> NfsResult<StateId> {
        let mut reclaims = self.reclaims.lock().await;
        let reclaims = reclaims.as_mut().ok_or(NfsStatus::NoGrace)?;
        if let Some(known) = self.states.open_of(owner, file.file) {
            // Linux reclaims the open of one owner once for each kind of access.
            let _one = known.change.lock().await;
            let union = known.union(mode);
            if !reclaims.had_open(file.file, mode) {
                return Err(NfsStatus::ReclaimBad);
            }
            if let Some(at_server) = reclaims.mode_of(owner, file.file) {
                let is_enough =
                    at_server.rights.allow(union.rights) && at_server.deny.has(union.deny);
                if !is_enough {
                    // Opens of two owners were exchanged.
                    let set = known.share_file.set_mode(union).await;
                    set.map_err(|_| NfsStatus::ReclaimConflict)?;
                    *at_server = union;
                }
            }
            return Ok(known.upgraded(union, mode));
        }
        let open = reclaims.take_open(file.file, mode).ok_or(NfsStatus::ReclaimBad)?;
        let share_file = match self.share.reclaim_open(who, open).await {
            Ok(share_file) => share_file,
            Err(error) => {
                reclaims.put_back(open);
                return Err(nfs_status(error.status()));
            }
        };
        match self.states.insert_open(owner.clone(), file.clone(), share_file, mode) {
            InsertedOpen::Added(id) => {
                reclaims.note_reclaimed(Bytes::copy_from_slice(owner), open);
                Ok(id)
            }
            // Another request has opened it meanwhile.
            InsertedOpen::Known(_, share_file) => {
                let _ = share_file.close().await;
                Err(NfsStatus::Delay)
            }
        }
    }

    /// LOCK with `reclaim`: whether the session had the lock. Until the value returned is dropped,
    /// what was not reclaimed is not released.
    ///
    /// # Errors
    /// `NO_GRACE` if the client may not reclaim. `RECLAIM_BAD` if the session had no such lock.
    pub(crate) async fn check_reclaim(
        &self,
        file: braid_share::FileIndex,
        lock: &Lock,
    ) -> NfsResult<tokio::sync::MutexGuard<'_, Option<Reclaims>>> {
        let reclaims = self.reclaims.lock().await;
        let known = reclaims.as_ref().ok_or(NfsStatus::NoGrace)?;
        if known.had_lock(file, lock) { Ok(reclaims) } else { Err(NfsStatus::ReclaimBad) }
    }

    /// Ends the reclaims of the client: what was not reclaimed is closed and unlocked.
    pub async fn finish_reclaims(&self) {
        // Locked until the end: neither RECLAIM_COMPLETE nor a LOCK that reclaims overtakes this.
        let mut guard = self.reclaims.lock().await;
        let Some(reclaims) = guard.take() else { return };
        let report = |what: &str, done: braid_share::Result<()>| {
            if let Err(error) = done {
                tracing::warn!(%error, "{what} that was not reclaimed");
            }
        };
        for (owner, at_server) in reclaims.reclaimed() {
            let Some(open) = self.states.open_of(owner, at_server.file) else { continue };
            let _one = open.change.lock().await;
            if !open.is_closed() && open.mode() != at_server.mode {
                report("reducing an open", open.share_file.set_mode(open.mode()).await);
            }
        }
        let (opens, locks) = reclaims.into_rest();
        for (file, lock) in locks {
            let mut left = vec![(lock.start, lock.last)];
            for (start, last) in self.states.held_ranges(file, lock.owner) {
                subtract(&mut left, start, last);
            }
            for (start, last) in left {
                let rest = Lock { start, last, ..lock };
                report("unlocking a lock", self.share.unlock(file, rest).await);
            }
        }
        for open in opens {
            report("closing an open", self.share.release_open(open).await);
        }
    }
}
