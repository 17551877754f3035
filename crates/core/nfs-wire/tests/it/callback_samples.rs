//! Each callback operation, with each arm of its unions, and its results.

use braid_nfs_wire::nfs4::callback::*;
use braid_nfs_wire::nfs4::results::{GetAttrResult, OpenDelegation, WriteResponse};
use braid_nfs_wire::nfs4::*;
use bytes::Bytes;

use crate::values::*;

pub fn callbacks() -> Vec<CallbackArgOp> {
    let mut all = recalls();
    all.extend(notices());
    let call = ReferringCall { sequence_id: SequenceId(1), slot_id: SlotId(2) };
    all.push(CallbackArgOp::Sequence(CallbackSequenceArgs {
        session_id: session_id(),
        sequence_id: SequenceId(1),
        slot_id: SlotId(2),
        highest_slot_id: SlotId(3),
        cache_this: true,
        referring_calls: vec![ReferringCalls { session_id: session_id(), calls: vec![call] }],
    }));
    all
}

fn recalls() -> Vec<CallbackArgOp> {
    let any =
        RecallAnyArgs { objects_to_keep: 1, type_mask: Bitmap::of(&[recallable::FILE_LAYOUT]) };
    let layout = |what| {
        CallbackArgOp::LayoutRecall(LayoutRecallArgs {
            layout_type: LayoutType::FILES,
            io_mode: LayoutIoMode::Any,
            changed: true,
            what,
        })
    };
    vec![
        CallbackArgOp::GetAttr(CallbackGetAttrArgs { handle: handle(), attributes: bits() }),
        CallbackArgOp::Recall(RecallArgs {
            state_id: state_id(1),
            truncate: true,
            handle: handle(),
        }),
        layout(LayoutRecallWhat::File(LayoutRecallFile {
            handle: handle(),
            offset: 1,
            length: 2,
            state_id: state_id(3),
        })),
        layout(LayoutRecallWhat::Fsid(FsId { major: 1, minor: 2 })),
        layout(LayoutRecallWhat::All),
        CallbackArgOp::RecallAny(any),
        CallbackArgOp::RecallableObjectAvailable(any),
        CallbackArgOp::RecallSlot(RecallSlotArgs { target_highest_slot_id: SlotId(4) }),
    ]
}

fn notices() -> Vec<CallbackArgOp> {
    let other = Notification { mask: Bitmap::of(&[4]), values: name() };
    let device = DeviceChange { layout_type: LayoutType::FILES, device_id: device_id() };
    let response = WriteResponse {
        callback_id: Some(state_id(1)),
        count: 2,
        committed: StableHow::FileSync,
        verifier: verifier(),
    };
    let offload = |outcome| {
        CallbackArgOp::Offload(OffloadNoticeArgs {
            handle: handle(),
            state_id: state_id(1),
            outcome,
        })
    };
    vec![
        CallbackArgOp::Notify(NotifyArgs {
            state_id: state_id(1),
            handle: handle(),
            changes: vec![other.clone()],
        }),
        CallbackArgOp::PushDelegation(PushDelegationArgs {
            handle: handle(),
            delegation: OpenDelegation::None,
        }),
        CallbackArgOp::WantsCancelled(WantsCancelledArgs { contended: true, resourced: false }),
        CallbackArgOp::NotifyLock(NotifyLockArgs { handle: handle(), owner: owner() }),
        CallbackArgOp::NotifyDeviceId(NotifyDeviceIdArgs {
            changes: vec![
                DeviceNotification::Changed { device, immediate: true },
                DeviceNotification::Deleted(device),
                DeviceNotification::Other(other),
            ],
        }),
        offload(OffloadOutcome::Done(response)),
        offload(OffloadOutcome::Failed { status: NfsStatus::Io, bytes_copied: 9 }),
    ]
}

pub fn callback_results() -> Vec<CallbackResOp> {
    let failures =
        CallbackOpNumber::ALL.iter().map(|op| CallbackResOp::failure(*op, NfsStatus::BadHandle));
    let attributes = EncodedAttributes {
        mask: Bitmap::of(&[attribute::SIZE]),
        values: Bytes::from_static(&[1; 8]),
    };
    let successes = [
        CallbackResOp::GetAttr(Ok(GetAttrResult { attributes })),
        CallbackResOp::Recall(Ok(())),
        CallbackResOp::LayoutRecall(Ok(())),
        CallbackResOp::Sequence(Ok(CallbackSequenceResult {
            session_id: session_id(),
            sequence_id: SequenceId(1),
            slot_id: SlotId(2),
            highest_slot_id: SlotId(3),
            target_highest_slot_id: SlotId(4),
        })),
    ];
    failures.chain(successes).collect()
}
