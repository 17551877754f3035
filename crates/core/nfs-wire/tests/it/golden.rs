//! Bytes written out by hand from the XDR of RFC 5662 and RFC 7863, one line for each field.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::results::*;
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::xdr::{Decoder, Xdr};
use bytes::Bytes;

use crate::round_trip::request_bytes;

/// The bytes of hexadecimal digits, spaces between them ignored.
pub fn hex(lines: &[&str]) -> Bytes {
    let digits: Vec<u8> = lines.concat().bytes().filter(|byte| *byte != b' ').collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect::<Vec<u8>>().into()
}

fn is_request(request: ArgOp, lines: &[&str]) {
    let bytes = hex(lines);
    assert_eq!(request_bytes(&request), bytes);
    let mut from = Decoder::new(bytes);
    assert_eq!(ArgOp::decode(&mut from, 2), Ok(request));
    assert_eq!(from.finish(), Ok(()));
}

fn is_result(result: ResOp, lines: &[&str]) {
    let bytes = hex(lines);
    assert_eq!(result.to_bytes(), bytes);
    assert_eq!(ResOp::from_bytes(bytes), Ok(result));
}

const STATE_ID: StateId = StateId { seqid: 3, other: *b"abcdefghijkl" };
const STATE_ID_HEX: &str = "00000003 6162636465666768696a6b6c";
const SESSION: SessionId = SessionId([0x5e; 16]);
const SESSION_HEX: &str = "5e5e5e5e 5e5e5e5e 5e5e5e5e 5e5e5e5e";

#[test]
fn sequence() {
    is_request(
        ArgOp::Sequence(SequenceArgs {
            session_id: SESSION,
            sequence_id: SequenceId(9),
            slot_id: SlotId(1),
            highest_slot_id: SlotId(63),
            cache_this: true,
        }),
        &[
            "00000035", // OP_SEQUENCE
            SESSION_HEX,
            "00000009", // sa_sequenceid
            "00000001", // sa_slotid
            "0000003f", // sa_highest_slotid
            "00000001", // sa_cachethis
        ],
    );
    is_result(
        ResOp::Sequence(Ok(SequenceResult {
            session_id: SESSION,
            sequence_id: SequenceId(9),
            slot_id: SlotId(1),
            highest_slot_id: SlotId(63),
            target_highest_slot_id: SlotId(31),
            status_flags: SequenceStatus::DEVID_DELETED | SequenceStatus::CB_PATH_DOWN,
        })),
        &[
            "00000035", // OP_SEQUENCE
            "00000000", // NFS4_OK
            SESSION_HEX,
            "00000009", // sr_sequenceid
            "00000001", // sr_slotid
            "0000003f", // sr_highest_slotid
            "0000001f", // sr_target_highest_slotid
            "00001001", // sr_status_flags
        ],
    );
    is_result(ResOp::Sequence(Err(NfsStatus::BadSession)), &["00000035", "00002744"]);
}

#[test]
fn exchange_id() {
    let date = NfsTime { seconds: 1 << 32, nanoseconds: 7 };
    is_request(
        ArgOp::ExchangeId(ExchangeIdArgs {
            client_owner: ClientOwner {
                verifier: Verifier([1; 8]),
                owner_id: Bytes::from_static(b"Linux"),
            },
            flags: ExchangeIdFlags::BIND_PRINC_STATEID | ExchangeIdFlags::SUPP_MOVED_REFER,
            state_protect: StateProtectArgs::None,
            implementation: Some(ImplementationId {
                domain: Bytes::from_static(b"kernel"),
                name: Bytes::from_static(b"abcd"),
                date,
            }),
        }),
        &[
            "0000002a",                   // OP_EXCHANGE_ID
            "01010101 01010101",          // co_verifier
            "00000005 4c696e75 78000000", // co_ownerid
            "00000101",                   // eia_flags
            "00000000",                   // SP4_NONE
            "00000001",                   // eia_client_impl_id<1>
            "00000006 6b65726e 656c0000", // nii_domain
            "00000004 61626364",          // nii_name
            "00000001 00000000 00000007", // nii_date
        ],
    );
    is_result(
        ResOp::ExchangeId(Ok(ExchangeIdResult {
            client_id: ClientId(0x0102_0304_0506_0708),
            sequence_id: SequenceId(1),
            flags: ExchangeIdFlags::USE_PNFS_MDS | ExchangeIdFlags::CONFIRMED_R,
            state_protect: StateProtectResult::MachineCredential(StateProtectOps {
                must_enforce: Bitmap::of(&[42, 43]),
                must_allow: Bitmap::new(),
            }),
            server_owner: ServerOwner { minor_id: 2, major_id: Bytes::from_static(b"m") },
            server_scope: Bytes::from_static(b"scope"),
            implementation: None,
        })),
        &[
            "0000002a",                   // OP_EXCHANGE_ID
            "00000000",                   // NFS4_OK
            "01020304 05060708",          // eir_clientid
            "00000001",                   // eir_sequenceid
            "80020000",                   // eir_flags
            "00000001",                   // SP4_MACH_CRED
            "00000002 00000000 00000c00", // spo_must_enforce
            "00000000",                   // spo_must_allow
            "00000000 00000002",          // so_minor_id
            "00000001 6d000000",          // so_major_id
            "00000005 73636f70 65000000", // eir_server_scope
            "00000000",                   // eir_server_impl_id<1>
        ],
    );
}

#[test]
fn open() {
    is_request(
        ArgOp::Open(OpenArgs {
            seqid: 0,
            share_access: ShareAccess::BOTH | ShareAccess(0x0400),
            share_deny: ShareDeny::NONE,
            owner: StateOwner { client_id: ClientId(5), owner: Bytes::from_static(b"own") },
            how: OpenHow::Create(CreateHow::Exclusive41(ExclusiveCreate {
                verifier: Verifier([0xee; 8]),
                attributes: Attributes { mode: Some(0o640), ..Attributes::default() }
                    .to_encoded(&attribute::ALL),
            })),
            claim: OpenClaim::Null(Bytes::from_static(b"file")),
        }),
        &[
            "00000012",                   // OP_OPEN
            "00000000",                   // seqid
            "00000403",                   // share_access
            "00000000",                   // share_deny
            "00000000 00000005",          // clientid
            "00000003 6f776e00",          // owner
            "00000001",                   // OPEN4_CREATE
            "00000003",                   // EXCLUSIVE4_1
            "eeeeeeee eeeeeeee",          // cva_verf
            "00000002 00000000 00000002", // attrmask: 33
            "00000004 000001a0",          // attr_vals: mode
            "00000000",                   // CLAIM_NULL
            "00000004 66696c65",          // file
        ],
    );
    is_result(
        ResOp::Open(Ok(OpenResult {
            state_id: STATE_ID,
            change: ChangeInfo { atomic: true, before: 1, after: 2 },
            flags: OpenResultFlags::LOCKTYPE_POSIX | OpenResultFlags::MAY_NOTIFY_LOCK,
            attributes_set: Bitmap::of(&[33]),
            delegation: OpenDelegation::NoneExt(WhyNoDelegation::Resource(false)),
        })),
        &[
            "00000012", // OP_OPEN
            "00000000", // NFS4_OK
            STATE_ID_HEX,
            "00000001 00000000 00000001 00000000 00000002", // cinfo
            "00000024",                                     // rflags
            "00000002 00000000 00000002",                   // attrset
            "00000003",                                     // OPEN_DELEGATE_NONE_EXT
            "00000002 00000000",                            // WND4_RESOURCE
        ],
    );
}

#[test]
fn read() {
    is_request(
        ArgOp::Read(ReadArgs { state_id: STATE_ID, offset: 1 << 33, count: 4096 }),
        &[
            "00000019", // OP_READ
            STATE_ID_HEX,
            "00000002 00000000", // offset
            "00001000",          // count
        ],
    );
    is_result(
        ResOp::Read(Ok(ReadResult {
            eof: true,
            data: Payload::Bytes(Bytes::from_static(b"hello")),
        })),
        &[
            "00000019",                   // OP_READ
            "00000000",                   // NFS4_OK
            "00000001",                   // eof
            "00000005 68656c6c 6f000000", // data
        ],
    );
}

#[test]
fn write() {
    is_request(
        ArgOp::Write(WriteArgs {
            state_id: STATE_ID,
            offset: 7,
            stable: StableHow::FileSync,
            data: Bytes::from_static(b"hello"),
        }),
        &[
            "00000026", // OP_WRITE
            STATE_ID_HEX,
            "00000000 00000007",          // offset
            "00000002",                   // FILE_SYNC4
            "00000005 68656c6c 6f000000", // data
        ],
    );
    is_result(
        ResOp::Write(Ok(WriteResult {
            count: 5,
            committed: StableHow::DataSync,
            verifier: Verifier([0xab; 8]),
        })),
        &[
            "00000026",          // OP_WRITE
            "00000000",          // NFS4_OK
            "00000005",          // count
            "00000001",          // DATA_SYNC4
            "abababab abababab", // writeverf
        ],
    );
}

#[test]
fn getattr() {
    is_request(
        ArgOp::GetAttr(GetAttrArgs {
            attributes: Bitmap::of(&[attribute::TYPE, attribute::SIZE, attribute::OWNER]),
        }),
        &[
            "00000009",                   // OP_GETATTR
            "00000002 00000012 00000010", // attr_request: 1, 4, 36
        ],
    );
    let values = Attributes {
        file_type: Some(NfsFtype::Regular),
        size: Some(6),
        owner: Some(Bytes::from_static(b"root")),
        mode: Some(0),
        ..Attributes::default()
    };
    let requested = Bitmap::of(&[attribute::TYPE, attribute::SIZE, attribute::OWNER]);
    is_result(
        ResOp::GetAttr(Ok(GetAttrResult { attributes: values.to_encoded(&requested) })),
        &[
            "00000009",                   // OP_GETATTR
            "00000000",                   // NFS4_OK
            "00000002 00000012 00000010", // attrmask
            "00000014",                   // bytes of attr_vals
            "00000001",                   // type
            "00000000 00000006",          // size
            "00000004 726f6f74",          // owner
        ],
    );
}

#[test]
fn layoutget() {
    is_request(
        ArgOp::LayoutGet(LayoutGetArgs {
            signal_available: false,
            layout_type: LayoutType::FILES,
            io_mode: LayoutIoMode::ReadWrite,
            offset: 0,
            length: u64::MAX,
            min_length: 4096,
            state_id: STATE_ID,
            max_count: 4096,
        }),
        &[
            "00000032",          // OP_LAYOUTGET
            "00000000",          // loga_signal_layout_avail
            "00000001",          // LAYOUT4_NFSV4_1_FILES
            "00000002",          // LAYOUTIOMODE4_RW
            "00000000 00000000", // loga_offset
            "ffffffff ffffffff", // loga_length
            "00000000 00001000", // loga_minlength
            STATE_ID_HEX,
            "00001000", // loga_maxcount
        ],
    );
    is_result(
        ResOp::LayoutGet(Ok(LayoutGetResult {
            return_on_close: true,
            state_id: STATE_ID,
            layouts: vec![Layout {
                offset: 0,
                length: u64::MAX,
                io_mode: LayoutIoMode::ReadWrite,
                layout_type: LayoutType::FILES,
                content: Bytes::from_static(b"body5"),
            }],
        })),
        &[
            "00000032", // OP_LAYOUTGET
            "00000000", // NFS4_OK
            "00000001", // logr_return_on_close
            STATE_ID_HEX,
            "00000001",                   // logr_layout<>
            "00000000 00000000",          // lo_offset
            "ffffffff ffffffff",          // lo_length
            "00000002",                   // lo_iomode
            "00000001",                   // loc_type
            "00000005 626f6479 35000000", // loc_body
        ],
    );
    is_result(
        ResOp::LayoutGet(Err(LayoutGetFailure::TryLater(true))),
        &["00000032", "0000274a", "00000001"],
    );
}

#[test]
fn lock_denied() {
    is_result(
        ResOp::Lock(Err(LockFailure::Denied(LockDenied {
            offset: 1,
            length: 2,
            lock_type: LockType::Write,
            owner: StateOwner { client_id: ClientId(3), owner: Bytes::from_static(b"o") },
        }))),
        &[
            "0000000c",          // OP_LOCK
            "0000271a",          // NFS4ERR_DENIED
            "00000000 00000001", // offset
            "00000000 00000002", // length
            "00000002",          // WRITE_LT
            "00000000 00000003", // clientid
            "00000001 6f000000", // owner
        ],
    );
}

#[test]
fn readdir() {
    let attributes = EncodedAttributes::default();
    let entry = |cookie, name: &'static [u8]| DirEntry {
        cookie,
        name: Bytes::from_static(name),
        attributes: attributes.clone(),
    };
    is_result(
        ResOp::ReadDir(Ok(ReadDirResult {
            verifier: Verifier([2; 8]),
            entries: vec![entry(3, b"a"), entry(4, b"bc")],
            eof: true,
        })),
        &[
            "0000001a",          // OP_READDIR
            "00000000",          // NFS4_OK
            "02020202 02020202", // cookieverf
            "00000001",          // an entry follows
            "00000000 00000003", // cookie
            "00000001 61000000", // name
            "00000000 00000000", // attrs
            "00000001",          // an entry follows
            "00000000 00000004", // cookie
            "00000002 62630000", // name
            "00000000 00000000", // attrs
            "00000000",          // no entry follows
            "00000001",          // eof
        ],
    );
}
