//! Which function executes an operation.

use braid_nfs_wire::nfs4::{ArgOp, NfsStatus, ResOp};
use braid_share::Share;

use crate::compound::CompoundState;
use crate::ops::{
    attrs, delegation, filehandle, io, layout, lock, names, open, readdir, security, session,
    stateid, xattr,
};

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
            ResOp::ReclaimComplete(session::reclaim_complete(state, args).await)
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

        // Names and attributes.
        ArgOp::Lookup(args) => ResOp::Lookup(names::lookup(state, args).await),
        ArgOp::LookupParent => ResOp::LookupParent(names::lookup_parent(state).await),
        ArgOp::ReadLink => ResOp::ReadLink(names::read_link(state).await),
        ArgOp::ReadDir(args) => ResOp::ReadDir(readdir::read_dir(state, args).await),
        ArgOp::Create(args) => ResOp::Create(names::create(state, args).await),
        ArgOp::Link(args) => ResOp::Link(names::link(state, args).await),
        ArgOp::Remove(args) => ResOp::Remove(names::remove(state, args).await),
        ArgOp::Rename(args) => ResOp::Rename(names::rename(state, args).await),
        ArgOp::GetAttr(args) => ResOp::GetAttr(attrs::get_attr(state, args).await),
        ArgOp::SetAttr(args) => ResOp::SetAttr(attrs::set_attr(state, args).await),
        ArgOp::Verify(args) => ResOp::Verify(attrs::verify(state, args).await),
        ArgOp::NVerify(args) => ResOp::NVerify(attrs::n_verify(state, args).await),
        ArgOp::Access(args) => ResOp::Access(attrs::access(state, args).await),
        ArgOp::GetXattr(args) => ResOp::GetXattr(xattr::get_xattr(state, args).await),
        ArgOp::SetXattr(args) => ResOp::SetXattr(xattr::set_xattr(state, args).await),
        ArgOp::ListXattrs(args) => ResOp::ListXattrs(xattr::list_xattrs(state, args).await),
        ArgOp::RemoveXattr(args) => ResOp::RemoveXattr(xattr::remove_xattr(state, args).await),

        // Opens and locks.
        ArgOp::Open(args) => ResOp::Open(open::open(state, args).await),
        ArgOp::OpenDowngrade(args) => ResOp::OpenDowngrade(open::open_downgrade(state, args).await),
        ArgOp::Close(args) => ResOp::Close(open::close(state, args).await),
        ArgOp::DelegReturn(args) => ResOp::DelegReturn(delegation::deleg_return(state, args).await),
        ArgOp::Lock(args) => ResOp::Lock(lock::lock(state, args).await),
        ArgOp::LockTest(args) => ResOp::LockTest(lock::lock_test(state, args).await),
        ArgOp::LockUnlock(args) => ResOp::LockUnlock(lock::lock_unlock(state, args).await),
        ArgOp::TestStateId(args) => ResOp::TestStateId(stateid::test_state_id(state, &args)),
        ArgOp::FreeStateId(args) => ResOp::FreeStateId(stateid::free_state_id(state, &args).await),

        // Data.
        ArgOp::Read(args) => ResOp::Read(io::read(state, args).await),
        ArgOp::Write(args) => ResOp::Write(io::write(state, args).await),
        ArgOp::Commit(args) => ResOp::Commit(io::commit(state, args).await),
        ArgOp::Seek(args) => ResOp::Seek(io::seek(state, args).await),
        ArgOp::Allocate(args) => ResOp::Allocate(io::allocate(state, args).await),
        ArgOp::Deallocate(args) => ResOp::Deallocate(io::deallocate(state, args).await),
        ArgOp::Copy(args) => ResOp::Copy(io::copy(state, args).await),
        ArgOp::Clone(args) => ResOp::Clone(io::clone(state, args).await),
        ArgOp::IoAdvise(args) => ResOp::IoAdvise(io::io_advise(state, args).await),

        // Layouts.
        ArgOp::LayoutGet(args) => ResOp::LayoutGet(layout::layout_get(state, args).await),
        ArgOp::LayoutReturn(args) => ResOp::LayoutReturn(layout::layout_return(state, args)),
        ArgOp::LayoutCommit(args) => ResOp::LayoutCommit(layout::layout_commit(state, args).await),
        ArgOp::GetDeviceInfo(args) => ResOp::GetDeviceInfo(layout::get_device_info(state, args)),

        // RFC 8881 16.2.3.
        ArgOp::Illegal(_) => ResOp::Illegal(NfsStatus::OpIllegal),
        ArgOp::Forbidden(op) => ResOp::Forbidden(op, NfsStatus::NotSupp),
        _ => ResOp::failure(number, NfsStatus::NotSupp),
    }
}
