//! State of expired clients gives way to requests of other clients. RFC 8881 8.4.2.4.
//!
//! A client whose lease has passed keeps its opens and locks until a request of another client of
//! this gateway conflicts with them. Then the server ends the expired client as a whole, and tries
//! the request again. Conflicts with mounts and with clients of other gateways are not seen here:
//! they stand until the client has been silent for [`SILENT_LEASES_MAX`] lease times, and
//! [`NfsServer::end_silent_clients`] of its gateway ends it. If the gateway itself is silent, the
//! metadata server ends the sessions of its clients.
//!
//! [`NfsServer::end_silent_clients`]: crate::server::NfsServer::end_silent_clients
//! [`SILENT_LEASES_MAX`]: crate::server::SILENT_LEASES_MAX

use std::sync::Arc;

use braid_nfs_wire::nfs4::NfsResult;
use braid_share::{
    FileIndex, Lock, LockConflict, OpenMode, OpenTarget, Opened, SessionId, Share, ShareClient,
    Status,
};

use crate::compound::CompoundState;
use crate::ops::stateid::FileOf;
use crate::server::Client;

/// Opens a file for the caller; opens of expired clients do not exclude it.
pub async fn open<S: Share>(
    state: &CompoundState<'_, S>,
    target: OpenTarget,
    mode: OpenMode,
) -> NfsResult<braid_share::Result<Opened<FileOf<S>>>> {
    let client = state.share_client()?;
    let refused = match client.open(state.who(), target.clone(), mode).await {
        Err(error) if error.status() == Status::SharingViolation => error,
        done => return Ok(done),
    };
    let file = match &target {
        OpenTarget::File(file) => Some(*file),
        OpenTarget::Name { dir, name } | OpenTarget::Create { dir, name, .. } => {
            let known = client.look_up(state.who(), *dir, name).await;
            known.ok().map(|known| known.file)
        }
    };
    match file {
        Some(file) if end_expired_openers(state, file).await? => {
            Ok(client.open(state.who(), target, mode).await)
        }
        _ => Ok(Err(refused)),
    }
}

/// Requests a lock without waiting; locks of expired clients do not conflict.
pub async fn lock<S: Share>(
    state: &CompoundState<'_, S>,
    file: FileIndex,
    lock: Lock,
) -> NfsResult<braid_share::Result<Option<LockConflict>>> {
    let client = state.share_client()?;
    loop {
        match client.lock(file, lock).await {
            // Each turn ends one client, so the loop ends.
            Ok(Some(conflict)) if end_expired_locker(state, &conflict).await? => {}
            done => return Ok(done),
        }
    }
}

/// The lock that would conflict, other than those of expired clients.
pub async fn test_lock<S: Share>(
    state: &CompoundState<'_, S>,
    file: FileIndex,
    lock: Lock,
) -> NfsResult<braid_share::Result<Option<LockConflict>>> {
    let client = state.share_client()?;
    loop {
        match client.test_lock(file, lock).await {
            Ok(Some(conflict)) if end_expired_locker(state, &conflict).await? => {}
            done => return Ok(done),
        }
    }
}

/// Ends the client that has the conflicting lock, if it is one of this gateway and has expired.
async fn end_expired_locker<S: Share>(
    state: &CompoundState<'_, S>,
    conflict: &LockConflict,
) -> NfsResult<bool> {
    let has_session = |session: SessionId| session == conflict.session;
    let mut expired = expired_clients(state)?;
    expired.retain(|client| client.data().is_some_and(|data| has_session(data.share.session())));
    Ok(end_all(state, &expired).await)
}

/// Ends all expired clients of this gateway that have the file open.
async fn end_expired_openers<S: Share>(
    state: &CompoundState<'_, S>,
    file: FileIndex,
) -> NfsResult<bool> {
    let mut expired = expired_clients(state)?;
    expired.retain(|client| client.data().is_some_and(|data| data.states.has_open(file)));
    Ok(end_all(state, &expired).await)
}

/// All expired clients but the caller itself: its request may have run for longer than a lease.
fn expired_clients<S: Share>(state: &CompoundState<'_, S>) -> NfsResult<Vec<Arc<Client<S>>>> {
    let (server, own) = (state.server, state.client()?.id());
    let (now, lease) = (server.now(), server.config.lease);
    let clients = server.clients();
    let expired = clients.all_confirmed();
    let expired = expired.filter(|client| client.id() != own && client.is_expired(now, lease));
    Ok(expired.cloned().collect())
}

/// Whether at least one client was ended.
async fn end_all<S: Share>(state: &CompoundState<'_, S>, clients: &[Arc<Client<S>>]) -> bool {
    let mut ended = false;
    for client in clients {
        // The lease may have been renewed meanwhile.
        ended |= state.server.end_expired_client(client.id()).await;
    }
    ended
}
