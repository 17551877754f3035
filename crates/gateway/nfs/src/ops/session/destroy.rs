//! DESTROY_SESSION, DESTROY_CLIENTID and RECLAIM_COMPLETE.

use braid_nfs_wire::nfs4::args::{DestroyClientIdArgs, DestroySessionArgs, ReclaimCompleteArgs};
use braid_nfs_wire::nfs4::{NfsResult, NfsStatus, OpNumber};
use braid_share::Share;

use super::check_protection;
use crate::compound::CompoundState;
use crate::state::clients::Protection;

/// DESTROY_SESSION. RFC 8881 18.37.
pub fn destroy_session<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: DestroySessionArgs,
) -> NfsResult<()> {
    let server = state.server;
    let own = state.slot.as_ref().filter(|slot| slot.session().id() == args.session_id);
    // RFC 8881 18.37.3: of its own session, it is the last operation.
    if own.is_some() && !state.is_last_op() {
        return Err(NfsStatus::NotOnlyOp);
    }
    let own_slot = own.map(|slot| slot.slot());
    let session = server.session(&args.session_id).ok_or(NfsStatus::BadSession)?;
    let client = session.client();
    check_protection::<S>(client, state.caller, OpNumber::DestroySession)?;
    // RFC 8881 18.37.3: without state protection, the connection must belong to the session.
    if *client.protection() == Protection::None && !state.connection.is_bound(args.session_id) {
        return Err(NfsStatus::ConnNotBoundToSession);
    }
    if session.with_slots(|slots| slots.is_busy(own_slot)) {
        return Err(NfsStatus::Delay);
    }
    server.clients().forget_session(client.id(), args.session_id);
    server.remove_session(&args.session_id);
    state.connection.unbind(args.session_id);
    Ok(())
}

/// DESTROY_CLIENTID. RFC 8881 18.50.
pub async fn destroy_client_id<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: DestroyClientIdArgs,
) -> NfsResult<()> {
    let server = state.server;
    let client = server.clients().client(args.client_id).cloned();
    let client = client.ok_or(NfsStatus::StaleClientId)?;
    check_protection::<S>(&client, state.caller, OpNumber::DestroyClientId)?;
    let removed = server.clients().destroy(args.client_id)?;
    server.end_client(removed).await;
    Ok(())
}

/// RECLAIM_COMPLETE. RFC 8881 18.51.
pub async fn reclaim_complete<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: ReclaimCompleteArgs,
) -> NfsResult<()> {
    if args.one_fs {
        // RFC 8881 18.51.3: only for a file system that has moved here. There are none.
        state.current()?;
        return Ok(());
    }
    if !state.client()?.complete_reclaim() {
        return Err(NfsStatus::CompleteAlready);
    }
    // RFC 8881 18.51.3: the client reclaims nothing more.
    state.client_state()?.finish_reclaims().await;
    Ok(())
}
