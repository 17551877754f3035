//! BIND_CONN_TO_SESSION and BACKCHANNEL_CTL.

use braid_nfs_wire::nfs4::args::{BackchannelCtlArgs, BindConnToSessionArgs, ChannelDirFromClient};
use braid_nfs_wire::nfs4::results::{BindConnToSessionResult, ChannelDirFromServer};
use braid_nfs_wire::nfs4::{NfsResult, NfsStatus, OpNumber};
use braid_share::Share;

use super::check_protection;
use crate::compound::CompoundState;

/// BIND_CONN_TO_SESSION. RFC 8881 18.34.
pub fn bind_conn_to_session<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: BindConnToSessionArgs,
) -> NfsResult<BindConnToSessionResult> {
    // RFC 8881 18.34.3: it is the sole operation.
    if state.op_count != 1 {
        return Err(NfsStatus::NotOnlyOp);
    }
    let session = state.server.session(&args.session_id).ok_or(NfsStatus::BadSession)?;
    check_protection::<S>(session.client(), state.caller, OpNumber::BindConnToSession)?;
    let direction = match args.direction {
        ChannelDirFromClient::Fore => ChannelDirFromServer::Fore,
        ChannelDirFromClient::Back => ChannelDirFromServer::Back,
        // RFC 8881 18.34.3: the server chooses; both are of use to this one.
        _ => ChannelDirFromServer::Both,
    };
    if direction != ChannelDirFromServer::Back {
        state.connection.bind(args.session_id);
    }
    if direction != ChannelDirFromServer::Fore {
        session.back().bind(state.connection);
    }
    Ok(BindConnToSessionResult { session_id: args.session_id, direction, use_rdma: false })
}

/// BACKCHANNEL_CTL. RFC 8881 18.33.
pub fn backchannel_ctl<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: BackchannelCtlArgs,
) -> NfsResult<()> {
    let slot = state.slot.as_ref().ok_or(NfsStatus::OpNotInSession)?;
    slot.session().back().set_parameters(args.callback_program, args.security);
    Ok(())
}
