//! Results of each operation: a success, a failure, and each arm of its unions.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::results::*;
use braid_nfs_wire::nfs4::*;
use bytes::Bytes;

use crate::values::*;

pub fn results() -> Vec<ResOp> {
    let failures = OpNumber::ALL.iter().map(|op| ResOp::failure(*op, NfsStatus::ServerFault));
    let statuses = [
        ResOp::DelegPurge(Ok(())),
        ResOp::DelegReturn(Ok(())),
        ResOp::Lookup(Ok(())),
        ResOp::LookupParent(Ok(())),
        ResOp::NVerify(Ok(())),
        ResOp::OpenAttr(Ok(())),
        ResOp::PutFh(Ok(())),
        ResOp::PutPubFh(Ok(())),
        ResOp::PutRootFh(Ok(())),
        ResOp::RestoreFh(Ok(())),
        ResOp::SaveFh(Ok(())),
        ResOp::Verify(Ok(())),
        ResOp::BackchannelCtl(Ok(())),
        ResOp::DestroySession(Ok(())),
        ResOp::FreeStateId(Ok(())),
        ResOp::DestroyClientId(Ok(())),
        ResOp::ReclaimComplete(Ok(())),
        ResOp::Allocate(Ok(())),
        ResOp::Deallocate(Ok(())),
        ResOp::LayoutError(Ok(())),
        ResOp::LayoutStats(Ok(())),
        ResOp::OffloadCancel(Ok(())),
        ResOp::Clone(Ok(())),
    ];
    let mut all: Vec<ResOp> = failures.chain(statuses).collect();
    for part in [sessions(), names(), opens(), locks(), data(), layouts(), copies(), xattrs()] {
        all.extend(part);
    }
    all
}

fn exchange_id(state_protect: StateProtectResult) -> ResOp {
    ResOp::ExchangeId(Ok(ExchangeIdResult {
        client_id: ClientId(1),
        sequence_id: SequenceId(2),
        flags: ExchangeIdFlags::USE_PNFS_DS | ExchangeIdFlags::CONFIRMED_R,
        state_protect,
        server_owner: ServerOwner { minor_id: 3, major_id: name() },
        server_scope: Bytes::from_static(b"scope"),
        implementation: None,
    }))
}

fn sessions() -> Vec<ResOp> {
    let ops = StateProtectOps { must_enforce: bits(), must_allow: Bitmap::of(&[53]) };
    let ssv = SsvInfo {
        ops,
        hash_algorithm: 1,
        encryption_algorithm: 2,
        ssv_length: 3,
        window: 4,
        handles: vec![GssHandle { handle: name() }],
    };
    let channel = ChannelAttributes {
        header_pad_size: 1,
        max_request_size: 2,
        max_response_size: 3,
        max_response_size_cached: 4,
        max_operations: 5,
        max_requests: 6,
        rdma_ird: None,
    };
    vec![
        ResOp::Sequence(Ok(SequenceResult {
            session_id: session_id(),
            sequence_id: SequenceId(1),
            slot_id: SlotId(2),
            highest_slot_id: SlotId(3),
            target_highest_slot_id: SlotId(4),
            status_flags: SequenceStatus::RESTART_RECLAIM_NEEDED,
        })),
        exchange_id(StateProtectResult::None),
        exchange_id(StateProtectResult::MachineCredential(ops)),
        exchange_id(StateProtectResult::Ssv(ssv)),
        ResOp::CreateSession(Ok(CreateSessionResult {
            session_id: session_id(),
            sequence: SequenceId(1),
            flags: CreateSessionFlags::PERSIST,
            fore_channel: channel,
            back_channel: ChannelAttributes { rdma_ird: Some(8), ..channel },
        })),
        ResOp::BindConnToSession(Ok(BindConnToSessionResult {
            session_id: session_id(),
            direction: ChannelDirFromServer::Both,
            use_rdma: true,
        })),
        ResOp::SetSsv(Ok(SetSsvResult { digest: name() })),
        ResOp::TestStateId(Ok(TestStateIdResult {
            statuses: vec![NfsStatus::Ok, NfsStatus::BadStateId],
        })),
    ]
}

fn names() -> Vec<ResOp> {
    let entry = |cookie| DirEntry { cookie, name: name(), attributes: attributes() };
    let gss = GssInfo { oid: Oid { der: name() }, quality: 1, service: GssService::Integrity };
    let flavours = SecInfoResult(vec![SecInfo::Gss(gss), SecInfo::Flavour(1)]);
    let access = AccessBits::READ;
    vec![
        ResOp::Access(Ok(AccessResult { supported: access | AccessBits::MODIFY, access })),
        ResOp::GetFh(Ok(GetFhResult { handle: handle() })),
        ResOp::Create(Ok(CreateResult { change: change(), attributes_set: bits() })),
        ResOp::Link(Ok(ChangeResult { change: change() })),
        ResOp::Remove(Ok(ChangeResult { change: change() })),
        ResOp::Rename(Ok(RenameResult { source: change(), target: ChangeInfo::default() })),
        ResOp::ReadLink(Ok(ReadLinkResult { target: name() })),
        ResOp::GetAttr(Ok(GetAttrResult { attributes: attributes() })),
        ResOp::SetAttr(SetAttrResult { status: NfsStatus::Ok, attributes_set: bits() }),
        ResOp::SetAttr(SetAttrResult { status: NfsStatus::Perm, attributes_set: bits() }),
        ResOp::SecInfo(Ok(flavours.clone())),
        ResOp::SecInfoNoName(Ok(flavours)),
        ResOp::ReadDir(Ok(ReadDirResult { verifier: verifier(), entries: vec![], eof: true })),
        ResOp::ReadDir(Ok(ReadDirResult {
            verifier: verifier(),
            entries: vec![entry(1), entry(2)],
            eof: false,
        })),
    ]
}

fn delegations() -> Vec<OpenDelegation> {
    let write = |space_limit| {
        OpenDelegation::Write(WriteDelegation {
            state_id: state_id(1),
            recall: true,
            space_limit,
            permissions: ace(),
        })
    };
    let reasons = [
        WhyNoDelegation::NotWanted,
        WhyNoDelegation::Contention(true),
        WhyNoDelegation::Resource(false),
        WhyNoDelegation::NotSuppFtype,
        WhyNoDelegation::WriteNotSuppFtype,
        WhyNoDelegation::NotSuppUpgrade,
        WhyNoDelegation::NotSuppDowngrade,
        WhyNoDelegation::Cancelled,
        WhyNoDelegation::IsDir,
    ];
    let mut all = vec![
        OpenDelegation::None,
        OpenDelegation::Read(ReadDelegation {
            state_id: state_id(1),
            recall: false,
            permissions: ace(),
        }),
        write(SpaceLimit::FileSize(1)),
        write(SpaceLimit::Blocks(BlockLimit { blocks: 1, bytes_per_block: 2 })),
    ];
    all.extend(reasons.map(OpenDelegation::NoneExt));
    all
}

fn opens() -> Vec<ResOp> {
    let open = |delegation| {
        ResOp::Open(Ok(OpenResult {
            state_id: state_id(1),
            change: change(),
            flags: OpenResultFlags::LOCKTYPE_POSIX,
            attributes_set: bits(),
            delegation,
        }))
    };
    let mut all: Vec<ResOp> = delegations().into_iter().map(open).collect();
    all.extend(delegations().into_iter().map(|delegation| ResOp::WantDelegation(Ok(delegation))));
    all.extend([
        ResOp::Close(Ok(StateIdResult { state_id: state_id(1) })),
        ResOp::OpenDowngrade(Ok(StateIdResult { state_id: state_id(1) })),
        ResOp::GetDirDelegation(Ok(GetDirDelegationResult::Unavailable(true))),
        ResOp::GetDirDelegation(Ok(GetDirDelegationResult::Granted(DirDelegation {
            verifier: verifier(),
            state_id: state_id(1),
            notification: Bitmap::of(&[1]),
            child_attributes: Bitmap::of(&[2]),
            dir_attributes: Bitmap::of(&[3]),
        }))),
    ]);
    all
}

fn locks() -> Vec<ResOp> {
    let denied = LockDenied { offset: 1, length: 2, lock_type: LockType::Read, owner: owner() };
    vec![
        ResOp::Lock(Ok(StateIdResult { state_id: state_id(1) })),
        ResOp::Lock(Err(LockFailure::Denied(denied.clone()))),
        ResOp::LockTest(Ok(())),
        ResOp::LockTest(Err(LockTestFailure::Denied(denied))),
        ResOp::LockUnlock(Ok(StateIdResult { state_id: state_id(1) })),
    ]
}

fn data() -> Vec<ResOp> {
    let payload = Payload::Bytes(Bytes::from_static(b"seven b"));
    let contents = vec![
        ReadPlusContent::Data(DataContent { offset: 1, data: payload.clone() }),
        ReadPlusContent::Hole(HoleContent { offset: 2, length: 3 }),
    ];
    vec![
        ResOp::Read(Ok(ReadResult { eof: true, data: payload })),
        ResOp::ReadPlus(Ok(ReadPlusResult { eof: true, contents })),
        ResOp::Write(Ok(WriteResult {
            count: 1,
            committed: StableHow::FileSync,
            verifier: verifier(),
        })),
        ResOp::Commit(Ok(CommitResult { verifier: verifier() })),
        ResOp::Seek(Ok(SeekResult { eof: true, offset: 1 })),
        ResOp::IoAdvise(Ok(IoAdviseResult { hints: bits() })),
    ]
}

fn layouts() -> Vec<ResOp> {
    let layout = Layout {
        offset: 1,
        length: LENGTH_TO_END,
        io_mode: LayoutIoMode::Read,
        layout_type: LayoutType::FILES,
        content: name(),
    };
    vec![
        ResOp::GetDeviceInfo(Ok(GetDeviceInfoResult {
            layout_type: LayoutType::FILES,
            address: name(),
            notification: bits(),
        })),
        ResOp::GetDeviceInfo(Err(GetDeviceInfoFailure::TooSmall(9000))),
        ResOp::GetDeviceList(Ok(GetDeviceListResult {
            cookie: 1,
            verifier: verifier(),
            devices: vec![device_id()],
            eof: true,
        })),
        ResOp::LayoutGet(Ok(LayoutGetResult {
            return_on_close: true,
            state_id: state_id(1),
            layouts: vec![layout],
        })),
        ResOp::LayoutGet(Err(LayoutGetFailure::TryLater(true))),
        ResOp::LayoutCommit(Ok(LayoutCommitResult { new_size: Some(1) })),
        ResOp::LayoutCommit(Ok(LayoutCommitResult { new_size: None })),
        ResOp::LayoutReturn(Ok(LayoutReturnResult { state_id: Some(state_id(1)) })),
        ResOp::LayoutReturn(Ok(LayoutReturnResult { state_id: None })),
    ]
}

fn copies() -> Vec<ResOp> {
    let requirements = CopyRequirements { consecutive: true, synchronous: false };
    let response = WriteResponse {
        callback_id: Some(state_id(1)),
        count: 2,
        committed: StableHow::Unstable,
        verifier: verifier(),
    };
    vec![
        ResOp::Copy(Ok(CopyResult { response, requirements })),
        ResOp::Copy(Err(CopyFailure::Requirements(requirements))),
        ResOp::WriteSame(Ok(WriteResponse { callback_id: None, ..response })),
        ResOp::CopyNotify(Ok(CopyNotifyResult {
            lease_time: time(),
            state_id: state_id(1),
            source_servers: vec![NetLocation::Url(name())],
        })),
        ResOp::OffloadStatus(Ok(OffloadStatusResult { count: 1, complete: None })),
        ResOp::OffloadStatus(Ok(OffloadStatusResult {
            count: 1,
            complete: Some(NfsStatus::NoSpc),
        })),
    ]
}

fn xattrs() -> Vec<ResOp> {
    vec![
        ResOp::GetXattr(Ok(GetXattrResult { value: name() })),
        ResOp::SetXattr(Ok(ChangeResult { change: change() })),
        ResOp::ListXattrs(Ok(ListXattrsResult {
            cookie: 1,
            names: vec![XattrName(name()), XattrName(name())],
            eof: true,
        })),
        ResOp::RemoveXattr(Ok(ChangeResult { change: change() })),
    ]
}
