//! Which function executes an operation.

use braid_nfs_wire::nfs4::{ArgOp, NfsStatus, ResOp};
use braid_share::Share;

use crate::compound::CompoundState;
use crate::ops::{filehandle, security, session};

/// Executes one operation.
pub(crate) async fn dispatch<S: Share>(state: &mut CompoundState<'_, S>, op: ArgOp) -> ResOp {
    let number = op.number();
    match op {
        // Clients, sessions and connections.
        ArgOp::ExchangeId(args) => ResOp::ExchangeId(session::exchange_id(state, args).await),
        ArgOp::CreateSession(args) => {
            ResOp::CreateSession(session::create_session(state, args).await)
        }
        ArgOp::BindConnToSession(args) => {
            ResOp::BindConnToSession(session::bind_conn_to_session(state, args))
        }
        ArgOp::BackchannelCtl(args) => ResOp::BackchannelCtl(session::backchannel_ctl(state, args)),
        ArgOp::DestroySession(args) => ResOp::DestroySession(session::destroy_session(state, args)),
        ArgOp::DestroyClientId(args) => {
            ResOp::DestroyClientId(session::destroy_client_id(state, args).await)
        }
        ArgOp::ReclaimComplete(args) => {
            ResOp::ReclaimComplete(session::reclaim_complete(state, args))
        }
        // RFC 8881 18.46.3: SEQUENCE is the first operation only.
        ArgOp::Sequence(_) => ResOp::Sequence(Err(NfsStatus::SequencePos)),

        // File handles.
        ArgOp::PutFh(args) => ResOp::PutFh(filehandle::put_fh(state, args).await),
        ArgOp::PutRootFh => ResOp::PutRootFh(filehandle::put_root_fh(state).await),
        // RFC 8881 18.20.3: this server's public file handle is the root.
        ArgOp::PutPubFh => ResOp::PutPubFh(filehandle::put_root_fh(state).await),
        ArgOp::GetFh => ResOp::GetFh(filehandle::get_fh(state)),
        ArgOp::SaveFh => ResOp::SaveFh(state.save()),
        ArgOp::RestoreFh => ResOp::RestoreFh(state.restore()),

        // Security flavours.
        ArgOp::SecInfo(args) => ResOp::SecInfo(security::sec_info(state, args).await),
        ArgOp::SecInfoNoName(args) => {
            ResOp::SecInfoNoName(security::sec_info_no_name(state, args).await)
        }

        // RFC 8881 16.2.3.
        ArgOp::Illegal(_) => ResOp::Illegal(NfsStatus::OpIllegal),
        ArgOp::Forbidden(op) => ResOp::Forbidden(op, NfsStatus::NotSupp),
        _ => ResOp::failure(number, NfsStatus::NotSupp),
    }
}
