//! Bytes of callbacks written out by hand from the XDR of RFC 5662 and RFC 7863.

use braid_nfs_wire::nfs4::callback::*;
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::xdr::{Decoder, Xdr};
use bytes::Bytes;

use crate::golden::hex;
use crate::round_trip::callback_bytes;

fn is_callback(callback: CallbackArgOp, lines: &[&str]) {
    let bytes = hex(lines);
    assert_eq!(callback_bytes(&callback), bytes);
    assert_eq!(CallbackArgOp::decode(&mut Decoder::new(bytes), 2), Ok(callback));
}

const SESSION: SessionId = SessionId([0x5e; 16]);
const SESSION_HEX: &str = "5e5e5e5e 5e5e5e5e 5e5e5e5e 5e5e5e5e";
const STATE_ID: StateId = StateId { seqid: 3, other: *b"abcdefghijkl" };
const STATE_ID_HEX: &str = "00000003 6162636465666768696a6b6c";

#[test]
fn cb_sequence() {
    let call = ReferringCall { sequence_id: SequenceId(6), slot_id: SlotId(7) };
    is_callback(
        CallbackArgOp::Sequence(CallbackSequenceArgs {
            session_id: SESSION,
            sequence_id: SequenceId(1),
            slot_id: SlotId(0),
            highest_slot_id: SlotId(2),
            cache_this: false,
            referring_calls: vec![ReferringCalls { session_id: SESSION, calls: vec![call] }],
        }),
        &[
            "0000000b", // OP_CB_SEQUENCE
            SESSION_HEX,
            "00000001", // csa_sequenceid
            "00000000", // csa_slotid
            "00000002", // csa_highest_slotid
            "00000000", // csa_cachethis
            "00000001", // csa_referring_call_lists<>
            SESSION_HEX,
            "00000001",          // rcl_referring_calls<>
            "00000006 00000007", // rc_sequenceid, rc_slotid
        ],
    );
    let result = CallbackResOp::Sequence(Ok(CallbackSequenceResult {
        session_id: SESSION,
        sequence_id: SequenceId(1),
        slot_id: SlotId(0),
        highest_slot_id: SlotId(2),
        target_highest_slot_id: SlotId(3),
    }));
    let bytes = hex(&[
        "0000000b", // OP_CB_SEQUENCE
        "00000000", // NFS4_OK
        SESSION_HEX,
        "00000001", // csr_sequenceid
        "00000000", // csr_slotid
        "00000002", // csr_highest_slotid
        "00000003", // csr_target_highest_slotid
    ]);
    assert_eq!(result.to_bytes(), bytes);
    assert_eq!(CallbackResOp::from_bytes(bytes), Ok(result));
}

#[test]
fn cb_layoutrecall() {
    is_callback(
        CallbackArgOp::LayoutRecall(LayoutRecallArgs {
            layout_type: LayoutType::FILES,
            io_mode: LayoutIoMode::Any,
            changed: true,
            what: LayoutRecallWhat::File(LayoutRecallFile {
                handle: FileHandle(Bytes::from_static(b"fh")),
                offset: 0,
                length: u64::MAX,
                state_id: STATE_ID,
            }),
        }),
        &[
            "00000005",          // OP_CB_LAYOUTRECALL
            "00000001",          // LAYOUT4_NFSV4_1_FILES
            "00000003",          // LAYOUTIOMODE4_ANY
            "00000001",          // clora_changed
            "00000001",          // LAYOUTRECALL4_FILE
            "00000002 66680000", // lor_fh
            "00000000 00000000", // lor_offset
            "ffffffff ffffffff", // lor_length
            STATE_ID_HEX,
        ],
    );
}

#[test]
fn cb_notify_deviceid() {
    let device = DeviceChange { layout_type: LayoutType::FILES, device_id: DeviceId([0xdd; 16]) };
    let device_hex = "00000001 dddddddd dddddddd dddddddd dddddddd";
    is_callback(
        CallbackArgOp::NotifyDeviceId(NotifyDeviceIdArgs {
            changes: vec![
                DeviceNotification::Changed { device, immediate: true },
                DeviceNotification::Deleted(device),
            ],
        }),
        &[
            "0000000e",          // OP_CB_NOTIFY_DEVICEID
            "00000002",          // cnda_changes<>
            "00000001 00000002", // notify_mask: NOTIFY_DEVICEID4_CHANGE
            "00000018",          // bytes of notify_vals
            device_hex,
            "00000001",          // ndc_immediate
            "00000001 00000004", // notify_mask: NOTIFY_DEVICEID4_DELETE
            "00000014",          // bytes of notify_vals
            device_hex,
        ],
    );
}

#[test]
fn cb_recall() {
    is_callback(
        CallbackArgOp::Recall(RecallArgs {
            state_id: STATE_ID,
            truncate: true,
            handle: FileHandle(Bytes::from_static(b"fh")),
        }),
        &[
            "00000004", // OP_CB_RECALL
            STATE_ID_HEX,
            "00000001",          // truncate
            "00000002 66680000", // fh
        ],
    );
}
