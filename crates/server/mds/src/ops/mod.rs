//! The operations, one file for each group. [`needs`] says what each requires of its caller.

mod attributes;
mod common;
mod create;
mod data_server;
mod entry;
mod fsck;
mod fsck_names;
mod fsync;
mod gateway;
mod import;
mod iods;
mod keys;
mod layout;
mod lease;
mod list;
mod lock;
mod modes;
mod name_search;
mod names;
mod open;
mod punch;
mod quota;
mod reclaim;
mod remove_iod;
mod session;
mod stat;
mod status;
mod xattr;

pub(crate) use name_search::NameSearch;

use braid_wire::{
    Role,
    message::{entry::CreateMode, mds::MdsRequest},
};

use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
    service::USERS,
};

const ADMIN: &[Role] = &[Role::Admin];
const IOD: &[Role] = &[Role::Iod];
const ANYBODY: &[Role] = &[Role::Client, Role::Admin, Role::Iod, Role::Mds];

/// What an operation requires of its caller.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) roles: &'static [Role],
    /// A live session.
    pub(crate) session: bool,
    /// A slot and a sequence (I7).
    pub(crate) slot: bool,
    /// A key that may change things.
    pub(crate) change: bool,
}

impl Needs {
    const fn plain(roles: &'static [Role]) -> Self {
        Self { roles, session: false, slot: false, change: false }
    }

    const fn session() -> Self {
        Self { roles: USERS, session: true, slot: false, change: false }
    }

    const fn change() -> Self {
        Self { roles: USERS, session: true, slot: true, change: true }
    }
}

/// Whether the answer of a call with a sequence is cached for its retries: a call that changes
/// something, that returns a handle, or that only administrators may make. A retry of any other
/// call runs again, as without a sequence, whatever the client sends there: a listing is large.
pub(crate) fn is_answer_kept(request: &MdsRequest) -> bool {
    let Needs { roles, slot, .. } = needs(request);
    slot || roles == ADMIN || matches!(request, MdsRequest::Open(_) | MdsRequest::OpenEntry(_))
}

/// What a request requires of its caller.
pub(crate) fn needs(request: &MdsRequest) -> Needs {
    use MdsRequest as R;
    match request {
        R::OpenSession(_) | R::DefineIdentity(_) | R::MdsStatus(_) => Needs::plain(USERS),
        R::GetClusterMap(_) => Needs::plain(ANYBODY),
        R::Stat(_) | R::ReadLink(_) | R::ReadDirectory(_) | R::Access(_) => Needs::plain(USERS),
        R::LookUpFolded(_) => Needs::plain(USERS),
        R::GetXattr(_) | R::ListXattrs(_) | R::StatFs(_) | R::LayoutShow(_) => Needs::plain(USERS),
        R::CloseSession(_) | R::Renew(_) | R::AgentCheck(_) | R::Reclaim(_) => Needs::session(),
        R::GetGatewaySecret(_) => Needs::session(),
        R::AdoptSession(_) => Needs::plain(USERS),
        R::SetGatewayRecord(_) | R::ListGatewaySessions(_) | R::ListOpens(_) | R::ListLocks(_) => {
            Needs::session()
        }
        // An open that denies something changes something for others, and its retry must not be
        // excluded by the first try.
        R::Open(open) if !open.deny.is_none() => Needs::change(),
        R::SetOpenModes(to) if !to.deny.is_none() || to.rights.allow(braid_wire::Rights::WRITE) => {
            Needs { change: true, ..Needs::session() }
        }
        R::SetOpenModes(_) => Needs::session(),
        R::Open(open) if open.truncate || open.rights.allow(braid_wire::Rights::WRITE) => {
            Needs { change: true, ..Needs::session() }
        }
        R::Open(_) | R::Close(_) | R::RenewCapability(_) | R::GetDataServerHandles(_) => {
            Needs::session()
        }
        R::ExtendGrowthGrant(_) => Needs { change: true, ..Needs::session() },
        R::QuotaGet(_) => Needs::plain(USERS),
        R::NeedsFsck(mark) if !mark.clear => Needs::plain(USERS),
        R::LeaseNames(_)
        | R::LeaseData(_)
        | R::LeaseLayout(_)
        | R::LeaseDelegation(_)
        | R::AwaitRecalls(_)
        | R::ReturnLeases(_) => Needs::session(),
        R::FsyncFile(_) | R::FsyncDirectory(_) => Needs::plain(USERS),
        R::Create(_)
        | R::CreateUnnamed(_)
        | R::MakeDirectory(_)
        | R::MakeNode(_)
        | R::MakeSymlink(_)
        | R::MakeLink(_) => Needs::change(),
        R::Unlink(_) | R::RemoveDirectory(_) | R::Rename(_) => Needs::change(),
        R::SetAttributes(_)
        | R::SetAttributesAndAcl(_)
        | R::SetAttributesAndBirth(_)
        | R::PunchHole(_)
        | R::SetXattr(_)
        | R::RemoveXattr(_)
        | R::LayoutSet(_) => Needs::change(),
        R::LockSet(_) | R::Unlock(_) => Needs { slot: true, ..Needs::session() },
        R::LockAwait(_) | R::LockCancel(_) | R::LockTest(_) | R::LockReclaim(_) => Needs::session(),
        R::RegisterIod(_) | R::Heartbeat(_) | R::GetFileSize(_) => Needs::plain(IOD),
        R::OpenEntry(open) if open.create != CreateMode::Never || !open.deny.is_none() => {
            Needs::change()
        }
        R::OpenEntry(open) if open.truncate || open.rights.allow(braid_wire::Rights::WRITE) => {
            Needs { change: true, ..Needs::session() }
        }
        R::OpenEntry(_) => Needs::session(),
        R::MakeEntry(_) | R::RemoveEntry(_) | R::RenameEntry(_) => Needs::change(),
        _ => Needs::plain(ADMIN),
    }
}

/// Runs an operation.
pub(crate) fn perform(core: &MdsCore, call: Call, request: &MdsRequest) -> CallOutcome {
    use MdsRequest as R;
    match request {
        R::OpenSession(r) => core.open_session(call, r),
        R::CloseSession(_) => core.close_session(call),
        R::DefineIdentity(r) => core.define_identity(call, r),
        R::Renew(_) => core.renew(call),
        R::GetClusterMap(_) => core.cluster_map(call),
        R::AgentCheck(_) => core.agent_check(call),
        R::Reclaim(r) => core.reclaim(call, r),
        R::Stat(r) => core.stat(call, r),
        R::ReadLink(r) => core.read_link(call, r),
        R::ReadDirectory(r) => core.read_directory(call, r),
        R::Access(r) => core.access(call, r),
        R::Create(r) => core.create(call, r),
        R::CreateUnnamed(r) => core.create_unnamed(call, r),
        R::Open(r) => core.open_file(call, r),
        R::Close(r) => core.close(call, r),
        R::SetOpenModes(r) => core.set_open_modes(call, r),
        R::RenewCapability(r) => core.renew_capability(call, r),
        R::GetDataServerHandles(r) => core.data_server_handles(call, r),
        R::GetFileSize(r) => core.file_size(call, r),
        R::GetGatewaySecret(_) => core.gateway_secret(call),
        R::SetGatewayRecord(r) => core.set_gateway_record(call, r),
        R::ListGatewaySessions(r) => core.list_gateway_sessions(call, r),
        R::AdoptSession(r) => core.adopt_session(call, r),
        R::ListOpens(r) => core.list_opens(call, r),
        R::ListLocks(r) => core.list_locks(call, r),
        R::FsyncFile(r) => core.fsync_file(call, r),
        R::FsyncDirectory(r) => core.fsync_directory(call, r),
        R::MakeDirectory(r) => core.make_directory(call, r),
        R::MakeNode(r) => core.make_node(call, r),
        R::MakeSymlink(r) => core.make_symlink(call, r),
        R::MakeLink(r) => core.make_link(call, r),
        R::Unlink(r) => core.unlink(call, r),
        R::RemoveDirectory(r) => core.remove_directory(call, r),
        R::Rename(r) => core.rename(call, r),
        R::SetAttributes(r) => core.set_attributes(call, r),
        R::PunchHole(r) => core.punch_hole(call, r),
        R::GetXattr(r) => core.get_xattr(call, r),
        R::SetXattr(r) => core.set_xattr(call, r),
        R::ListXattrs(r) => core.list_xattrs(call, r),
        R::RemoveXattr(r) => core.remove_xattr(call, r),
        R::StatFs(r) => core.stat_fs(call, r),
        R::LayoutShow(r) => core.layout_show(call, r),
        R::LayoutSet(r) => core.layout_set(call, r),
        R::KeyAdd(r) => core.key_add(call, r),
        R::KeyList(_) => core.key_list(call),
        R::KeyRevoke(r) => core.key_revoke(call, r),
        R::MdsStatus(_) => core.mds_status(call),
        R::SetIodState(r) => core.set_iod_state(call, r),
        R::IodRemove(r) => core.iod_remove(call, r),
        R::RegisterIod(r) => core.register_iod(call, r),
        R::Heartbeat(r) => core.heartbeat(call, r),
        R::FsckFiles(r) => core.fsck_files(call, r),
        R::FsckNamespace(r) => core.fsck_namespace(call, r),
        R::FsckMendFile(r) => core.fsck_mend_file(call, r),
        R::FsckOrphans(r) => core.fsck_orphans(call, r),
        R::FsckShards(_) => core.fsck_shards(call),
        R::FsckAffected(r) => core.fsck_affected(call, r),
        R::FsckUsage(r) => core.fsck_usage(call, r),
        R::NeedsFsck(r) => core.fsck_mark(call, r),
        R::ExtendGrowthGrant(r) => core.extend_write_end(call, r),
        R::QuotaSet(r) => core.quota_set(call, r),
        R::QuotaGet(r) => core.quota_get(call, r),
        R::QuotaList(r) => core.quota_list(call, r),
        R::QuotaRemove(r) => core.quota_remove(call, r),
        R::QuotaWalk(r) => core.quota_walk(call, r),
        R::QuotaWalked(r) => core.quota_walked(call, r),
        R::LockSet(r) => core.lock_set(call, r),
        R::LockAwait(r) => core.lock_await(call, r),
        R::LockCancel(r) => core.lock_cancel(call, r),
        R::LockTest(r) => core.lock_test(call, r),
        R::Unlock(r) => core.unlock(call, r),
        R::LockReclaim(r) => core.lock_reclaim(call, r),
        R::LeaseNames(r) => core.lease_names(call, r),
        R::LeaseData(r) => core.lease_data(call, r),
        R::LeaseLayout(r) => core.lease_layout(call, r),
        R::LeaseDelegation(r) => core.lease_delegation(call, r),
        R::AwaitRecalls(r) => core.await_recalls(call, r),
        R::ReturnLeases(r) => core.return_leases(call, r),
        R::OpenEntry(r) => core.open_entry(call, r),
        R::MakeEntry(r) => core.make_entry(call, r),
        R::RemoveEntry(r) => core.remove_entry(call, r),
        R::RenameEntry(r) => core.rename_entry(call, r),
        R::SetAttributesAndAcl(r) => core.set_attributes_and_acl(call, r),
        R::SetAttributesAndBirth(r) => core.set_attributes_and_birth(call, r),
        R::ReserveFiles(r) => core.reserve_files(call, r),
        R::ImportEntries(r) => core.import_entries(call, r),
        R::LookUpFolded(r) => core.look_up_folded(call, r),
        _ => common::not_understood(call),
    }
}
