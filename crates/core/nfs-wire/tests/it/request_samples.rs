//! At least one request of each operation, with each arm of its unions.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::rpc::auth_sys::AuthSys;
use bytes::Bytes;

use crate::values::*;

pub fn requests() -> Vec<ArgOp> {
    [sessions(), names(), opens(), locks(), data(), layouts(), copies(), xattrs(), delegations()]
        .concat()
}

fn channel() -> ChannelAttributes {
    ChannelAttributes {
        header_pad_size: 1,
        max_request_size: 2,
        max_response_size: 3,
        max_response_size_cached: 4,
        max_operations: 5,
        max_requests: 6,
        rdma_ird: Some(7),
    }
}

fn callback_security() -> Vec<CallbackSecurity> {
    let sys = AuthSys { stamp: 1, machine_name: name(), uid: 2, gid: 3, gids: vec![4, 5] };
    let gss = GssCallbackHandles {
        service: GssService::Privacy,
        handle_from_server: Bytes::from_static(b"server"),
        handle_from_client: Bytes::from_static(b"client"),
    };
    vec![CallbackSecurity::None, CallbackSecurity::Sys(sys), CallbackSecurity::Gss(gss)]
}

fn exchange_id(state_protect: StateProtectArgs) -> ArgOp {
    let client_owner = ClientOwner { verifier: verifier(), owner_id: name() };
    let flags = ExchangeIdFlags::USE_PNFS_MDS;
    let (domain, date) = (Bytes::from_static(b"example.org"), time());
    let implementation = Some(ImplementationId { domain, name: name(), date });
    ArgOp::ExchangeId(ExchangeIdArgs { client_owner, flags, state_protect, implementation })
}

fn sessions() -> Vec<ArgOp> {
    let ops = StateProtectOps { must_enforce: bits(), must_allow: Bitmap::of(&[53]) };
    let oid = Oid { der: Bytes::from_static(b"\x06\x01") };
    let ssv = SsvParameters {
        ops,
        hash_algorithms: vec![oid.clone()],
        encryption_algorithms: vec![oid.clone(), oid],
        window: 1,
        gss_handles: 2,
    };
    vec![
        ArgOp::Sequence(SequenceArgs {
            session_id: session_id(),
            sequence_id: SequenceId(1),
            slot_id: SlotId(2),
            highest_slot_id: SlotId(3),
            cache_this: true,
        }),
        exchange_id(StateProtectArgs::None),
        exchange_id(StateProtectArgs::MachineCredential(ops)),
        exchange_id(StateProtectArgs::Ssv(ssv)),
        ArgOp::CreateSession(CreateSessionArgs {
            client_id: ClientId(1),
            sequence: SequenceId(2),
            flags: CreateSessionFlags::CONN_BACK_CHAN,
            fore_channel: channel(),
            back_channel: ChannelAttributes { rdma_ird: None, ..channel() },
            callback_program: 3,
            callback_security: callback_security(),
        }),
        ArgOp::BackchannelCtl(BackchannelCtlArgs {
            callback_program: 1,
            security: callback_security(),
        }),
        ArgOp::BindConnToSession(BindConnToSessionArgs {
            session_id: session_id(),
            direction: ChannelDirFromClient::BackOrBoth,
            use_rdma: true,
        }),
        ArgOp::DestroySession(DestroySessionArgs { session_id: session_id() }),
        ArgOp::DestroyClientId(DestroyClientIdArgs { client_id: ClientId(9) }),
        ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: true }),
        ArgOp::SetSsv(SetSsvArgs { ssv: name(), digest: Bytes::from_static(b"digest") }),
    ]
}

fn create(object: CreateObject) -> ArgOp {
    ArgOp::Create(CreateArgs { object, name: name(), attributes: attributes() })
}

fn names() -> Vec<ArgOp> {
    let device = SpecData { major: 8, minor: 9 };
    vec![
        ArgOp::Access(AccessArgs { access: AccessBits::READ | AccessBits::XATTR_LIST }),
        ArgOp::PutFh(PutFhArgs { handle: handle() }),
        ArgOp::PutPubFh,
        ArgOp::PutRootFh,
        ArgOp::GetFh,
        ArgOp::SaveFh,
        ArgOp::RestoreFh,
        ArgOp::Lookup(LookupArgs { name: name() }),
        ArgOp::LookupParent,
        create(CreateObject::Link(Bytes::from_static(b"../target"))),
        create(CreateObject::Block(device)),
        create(CreateObject::Character(device)),
        create(CreateObject::Other(NfsFtype::Directory)),
        ArgOp::Link(LinkArgs { new_name: name() }),
        ArgOp::Remove(RemoveArgs { name: name() }),
        ArgOp::Rename(RenameArgs { old_name: name(), new_name: Bytes::from_static(b"new") }),
        ArgOp::ReadDir(ReadDirArgs {
            cookie: 1,
            verifier: verifier(),
            dir_count: 2,
            max_count: 3,
            attributes: bits(),
        }),
        ArgOp::ReadLink,
        ArgOp::GetAttr(GetAttrArgs { attributes: bits() }),
        ArgOp::SetAttr(SetAttrArgs { state_id: state_id(1), attributes: attributes() }),
        ArgOp::Verify(VerifyArgs { attributes: attributes() }),
        ArgOp::NVerify(VerifyArgs { attributes: attributes() }),
        ArgOp::SecInfo(SecInfoArgs { name: name() }),
        ArgOp::SecInfoNoName(SecInfoNoNameArgs { style: SecInfoStyle::Parent }),
        ArgOp::OpenAttr(OpenAttrArgs { create_dir: true }),
    ]
}

fn open(how: OpenHow, claim: OpenClaim) -> ArgOp {
    ArgOp::Open(OpenArgs {
        seqid: 1,
        share_access: ShareAccess::BOTH | ShareAccess::WANT_SIGNAL_WHEN_AVAILABLE,
        share_deny: ShareDeny::WRITE,
        owner: owner(),
        how,
        claim,
    })
}

fn opens() -> Vec<ArgOp> {
    let exclusive = ExclusiveCreate { verifier: verifier(), attributes: attributes() };
    let hows = [
        OpenHow::NoCreate,
        OpenHow::Create(CreateHow::Unchecked(attributes())),
        OpenHow::Create(CreateHow::Guarded(attributes())),
        OpenHow::Create(CreateHow::Exclusive(verifier())),
        OpenHow::Create(CreateHow::Exclusive41(exclusive)),
    ];
    let claims = [
        OpenClaim::Null(name()),
        OpenClaim::Previous(DelegationType::Write),
        OpenClaim::DelegateCurrent(DelegatedName { state_id: state_id(1), name: name() }),
        OpenClaim::DelegatePrevious(name()),
        OpenClaim::Fh,
        OpenClaim::DelegateCurrentFh(state_id(2)),
        OpenClaim::DelegatePreviousFh,
    ];
    let mut all: Vec<ArgOp> =
        hows.into_iter().map(|how| open(how, OpenClaim::Null(name()))).collect();
    all.extend(claims.into_iter().map(|claim| open(OpenHow::NoCreate, claim)));
    all.push(ArgOp::OpenDowngrade(OpenDowngradeArgs {
        state_id: state_id(1),
        seqid: 2,
        share_access: ShareAccess::READ,
        share_deny: ShareDeny::BOTH,
    }));
    all.push(ArgOp::Close(CloseArgs { seqid: 1, state_id: state_id(2) }));
    all
}

fn lock(locker: Locker) -> ArgOp {
    let lock_type = LockType::WriteWaiting;
    ArgOp::Lock(LockArgs { lock_type, reclaim: true, offset: 1, length: 2, locker })
}

fn locks() -> Vec<ArgOp> {
    let new =
        NewLocker { open_seqid: 1, open_state_id: state_id(2), lock_seqid: 3, owner: owner() };
    vec![
        lock(Locker::New(new)),
        lock(Locker::Existing(ExistingLocker { state_id: state_id(1), lock_seqid: 2 })),
        ArgOp::LockTest(LockTestArgs {
            lock_type: LockType::Read,
            offset: 1,
            length: LENGTH_TO_END,
            owner: owner(),
        }),
        ArgOp::LockUnlock(LockUnlockArgs {
            lock_type: LockType::Write,
            seqid: 1,
            state_id: state_id(2),
            offset: 3,
            length: 4,
        }),
    ]
}

fn data() -> Vec<ArgOp> {
    let read = ReadArgs { state_id: state_id(1), offset: 2, count: 3 };
    let range = AllocateArgs { state_id: state_id(1), offset: 2, length: 3 };
    let block = AppDataBlock {
        offset: 1,
        block_size: 2,
        block_count: 3,
        number_offset: 4,
        first_number: 5,
        pattern_offset: 6,
        pattern: name(),
    };
    vec![
        ArgOp::Read(read),
        ArgOp::ReadPlus(read),
        ArgOp::Write(WriteArgs {
            state_id: state_id(1),
            offset: 2,
            stable: StableHow::DataSync,
            data: Bytes::from_static(b"five!"),
        }),
        ArgOp::Commit(CommitArgs { offset: 1, count: 2 }),
        ArgOp::Allocate(range),
        ArgOp::Deallocate(range),
        ArgOp::Seek(SeekArgs { state_id: state_id(1), offset: 2, what: ContentType::HOLE }),
        ArgOp::IoAdvise(IoAdviseArgs {
            state_id: state_id(1),
            offset: 2,
            count: 3,
            hints: Bitmap::of(&[advice::WILL_NEED]),
        }),
        ArgOp::WriteSame(WriteSameArgs {
            state_id: state_id(1),
            stable: StableHow::FileSync,
            block,
        }),
    ]
}

fn layout_return(what: LayoutReturnWhat) -> ArgOp {
    let (layout_type, io_mode) = (LayoutType::FILES, LayoutIoMode::Any);
    ArgOp::LayoutReturn(LayoutReturnArgs { reclaim: true, layout_type, io_mode, what })
}

fn layouts() -> Vec<ArgOp> {
    let update = LayoutUpdate { layout_type: LayoutType::FLEX_FILES, body: name() };
    let status = NfsStatus::NxIo;
    let error = DeviceError { device_id: device_id(), status, op: OpNumber::Write };
    let file = LayoutReturnFile { offset: 1, length: 2, state_id: state_id(3), body: name() };
    let commit = LayoutCommitArgs {
        offset: 1,
        length: 2,
        reclaim: true,
        state_id: state_id(3),
        last_write_offset: Some(4),
        time_modify: Some(time()),
        update: update.clone(),
    };
    vec![
        ArgOp::GetDeviceInfo(GetDeviceInfoArgs {
            device_id: device_id(),
            layout_type: LayoutType::FILES,
            max_count: 1,
            notify_types: Bitmap::of(&[1, 2]),
        }),
        ArgOp::GetDeviceList(GetDeviceListArgs {
            layout_type: LayoutType::FILES,
            max_devices: 2,
            cookie: 3,
            verifier: verifier(),
        }),
        ArgOp::LayoutGet(LayoutGetArgs {
            signal_available: true,
            layout_type: LayoutType::FILES,
            io_mode: LayoutIoMode::ReadWrite,
            offset: 1,
            length: 2,
            min_length: 3,
            state_id: state_id(4),
            max_count: 5,
        }),
        ArgOp::LayoutCommit(LayoutCommitArgs {
            last_write_offset: None,
            time_modify: None,
            ..commit.clone()
        }),
        ArgOp::LayoutCommit(commit),
        layout_return(LayoutReturnWhat::File(file)),
        layout_return(LayoutReturnWhat::Fsid),
        layout_return(LayoutReturnWhat::All),
        ArgOp::LayoutError(LayoutErrorArgs {
            offset: 1,
            length: 2,
            state_id: state_id(3),
            errors: vec![error],
        }),
        ArgOp::LayoutStats(LayoutStatsArgs {
            offset: 1,
            length: 2,
            state_id: state_id(3),
            read: IoInfo { count: 4, bytes: 5 },
            write: IoInfo { count: 6, bytes: 7 },
            device_id: device_id(),
            update,
        }),
    ]
}

fn copies() -> Vec<ArgOp> {
    let address = NetAddress { network_id: Bytes::from_static(b"tcp"), address: name() };
    let offload = OffloadArgs { state_id: state_id(1) };
    vec![
        ArgOp::Copy(CopyArgs {
            source_state_id: state_id(1),
            destination_state_id: state_id(2),
            source_offset: 3,
            destination_offset: 4,
            count: 5,
            consecutive: true,
            synchronous: false,
            source_servers: vec![
                NetLocation::Name(name()),
                NetLocation::Url(name()),
                NetLocation::Address(address.clone()),
            ],
        }),
        ArgOp::Clone(CloneArgs {
            source_state_id: state_id(1),
            destination_state_id: state_id(2),
            source_offset: 3,
            destination_offset: 4,
            count: 5,
        }),
        ArgOp::CopyNotify(CopyNotifyArgs {
            source_state_id: state_id(1),
            destination_server: NetLocation::Address(address),
        }),
        ArgOp::OffloadCancel(offload),
        ArgOp::OffloadStatus(offload),
    ]
}

fn xattrs() -> Vec<ArgOp> {
    vec![
        ArgOp::GetXattr(XattrNameArgs { name: name() }),
        ArgOp::SetXattr(SetXattrArgs {
            option: SetXattrOption::Replace,
            name: name(),
            value: Bytes::from_static(b"value"),
        }),
        ArgOp::ListXattrs(ListXattrsArgs { cookie: 1, max_count: 2 }),
        ArgOp::RemoveXattr(XattrNameArgs { name: name() }),
    ]
}

fn delegations() -> Vec<ArgOp> {
    let want = |claim| WantDelegationArgs { want: ShareAccess(0x0300), claim };
    vec![
        ArgOp::DelegPurge(DelegPurgeArgs { client_id: ClientId(1) }),
        ArgOp::DelegReturn(DelegReturnArgs { state_id: state_id(1) }),
        ArgOp::GetDirDelegation(GetDirDelegationArgs {
            signal_available: true,
            notification_types: Bitmap::of(&[1]),
            child_attributes_delay: time(),
            dir_attributes_delay: NfsTime::default(),
            child_attributes: Bitmap::of(&[2]),
            dir_attributes: Bitmap::of(&[3]),
        }),
        ArgOp::WantDelegation(want(DelegationClaim::Previous(DelegationType::Read))),
        ArgOp::WantDelegation(want(DelegationClaim::Fh)),
        ArgOp::WantDelegation(want(DelegationClaim::PreviousFh)),
        ArgOp::FreeStateId(FreeStateIdArgs { state_id: state_id(1) }),
        ArgOp::TestStateId(TestStateIdArgs { state_ids: vec![state_id(1), state_id(2)] }),
    ]
}
