//! Bytes written out by hand from the layouts of MS-SMB2.

use crate::bodies::{decode, message};
use braid_smb_wire::smb2::create::{
    AllocationSize, AppInstanceId, AppInstanceVersion, CreateAction, CreateContext,
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, DurableFlags,
    DurableReconnect, DurableReconnectV2, DurableRequest, DurableRequestV2, DurableResponse,
    DurableResponseV2, ImpersonationLevel, Lease, LeaseFlags, LeaseState, LeaseV2,
    MaximalAccessRequest, MaximalAccessResponse, OnDiskId, OplockLevel, PosixRequest,
    PosixResponse, ShareAccess, TimeWarp, context as tags,
};
use braid_smb_wire::smb2::oplock_break::{
    LeaseAcknowledgment, LeaseBreak, LeaseBreakFlags, OplockBreak, OplockBreakBody,
};
use braid_smb_wire::smb2::{Body, FileId, HEADER_BYTES, read, write};
use braid_smb_wire::{NtStatus, cursor::Result};
use bytes::Bytes;

/// An open whose bytes are 1 to 16.
pub const FILE_ID: FileId =
    FileId { persistent: 0x0807_0605_0403_0201, volatile: 0x100f_0e0d_0c0b_0a09 };
const FILE_ID_BYTES: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const KEY: [u8; 16] = *b"0123456789abcdef";

/// Checks both directions of a body.
fn check<T: Body + PartialEq + std::fmt::Debug>(body: &T, bytes: &[u8]) {
    assert_eq!(body.to_bytes(), bytes);
    assert_eq!(&decode::<T>(message(body)).unwrap(), body);
}

/// Checks both directions of a context's data.
fn context<T: PartialEq + std::fmt::Debug>(
    value: &T,
    encoded: CreateContext,
    decode: fn(&Bytes) -> Result<T>,
    name: &[u8],
    data: &[u8],
) {
    assert_eq!((&encoded.name[..], &encoded.data[..]), (name, data));
    assert_eq!(&decode(&encoded.data).unwrap(), value);
    if let Some(short) = data.len().checked_sub(1) {
        assert!(decode(&encoded.data.slice(..short)).is_err(), "{value:?}");
    }
}

#[test]
fn a_create_request_has_its_name_and_then_its_contexts() {
    let request = CreateRequest {
        oplock_level: OplockLevel::BATCH,
        impersonation: ImpersonationLevel::IMPERSONATION,
        desired_access: 0x0012_019f,
        file_attributes: 0x80,
        share_access: ShareAccess::READ.with(ShareAccess::DELETE),
        disposition: CreateDisposition::OPEN_IF,
        options: CreateOptions::FILE_NON_DIRECTORY_FILE,
        name: "a\\ß".into(),
        contexts: vec![
            MaximalAccessRequest::default().to_context(),
            AllocationSize(0x0102).to_context(),
        ],
    };
    let mut bytes = vec![57, 0, 0, 9, 2, 0, 0, 0];
    bytes.extend([0; 16]);
    bytes.extend([0x9f, 1, 0x12, 0, 0x80, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 0x40, 0, 0, 0]);
    // The name at 120 has 6 bytes; the contexts at 128 have 24 and 32.
    bytes.extend([120, 0, 6, 0, 128, 0, 0, 0, 56, 0, 0, 0]);
    bytes.extend([b'a', 0, b'\\', 0, 0xdf, 0, 0, 0]);
    bytes.extend([24, 0, 0, 0, 16, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'M', b'x', b'A', b'c']);
    bytes.extend([0; 4]);
    bytes.extend([0, 0, 0, 0, 16, 0, 4, 0, 0, 0, 24, 0, 8, 0, 0, 0, b'A', b'l', b'S', b'i']);
    bytes.extend([0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
    check(&request, &bytes);
}

#[test]
fn the_name_of_the_root_is_empty_and_has_one_byte() {
    let bytes = CreateRequest::default().to_bytes();
    assert_eq!(bytes.len(), 57);
    assert_eq!(bytes[46..48], [0, 0], "NameLength");
}

#[test]
fn a_create_response_has_times_sizes_and_the_open() {
    let response = CreateResponse {
        oplock_level: OplockLevel::LEASE,
        flags: 1,
        action: CreateAction::CREATED,
        creation_time: 1,
        last_access_time: 2,
        last_write_time: 3,
        change_time: 4,
        allocation_size: 4096,
        end_of_file: 5,
        file_attributes: 0x20,
        file_id: FILE_ID,
        contexts: Vec::new(),
    };
    let mut bytes = vec![89, 0, 0xff, 1, 2, 0, 0, 0];
    for number in [1u64, 2, 3, 4, 4096, 5, 0x20] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(FILE_ID_BYTES);
    bytes.extend([0; 8]);
    check(&response, &bytes);
    let id = OnDiskId { file: 6, volume: 7 }.to_context();
    let with_context = CreateResponse { contexts: vec![id], ..response };
    let bytes = with_context.to_bytes();
    assert_eq!(bytes[80..88], [152, 0, 0, 0, 56, 0, 0, 0]);
    assert_eq!(decode::<CreateResponse>(message(&with_context)).unwrap(), with_context);
}

#[test]
fn contexts_of_leases_differ_by_their_length() {
    let flags = LeaseFlags::PARENT_LEASE_KEY_SET;
    let state = LeaseState::READ.with(LeaseState::WRITE);
    let mut bytes = KEY.to_vec();
    bytes.extend([5, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let lease = Lease { key: KEY, state, flags, v2: None };
    context(&lease, lease.to_context(), Lease::decode, b"RqLs", &bytes);
    bytes.extend([9; 16]);
    bytes.extend([2, 1, 0, 0]);
    let v2 = Some(LeaseV2 { parent_key: [9; 16], epoch: 0x0102 });
    let lease = Lease { v2, ..lease };
    context(&lease, lease.to_context(), Lease::decode, b"RqLs", &bytes);
}

#[test]
fn contexts_of_durable_opens() {
    let value = DurableRequest;
    context(&value, value.to_context(), DurableRequest::decode, b"DHnQ", &[0; 16]);
    let value = DurableResponse;
    context(&value, value.to_context(), DurableResponse::decode, b"DHnQ", &[0; 8]);
    let value = DurableReconnect { file_id: FILE_ID };
    context(&value, value.to_context(), DurableReconnect::decode, b"DHnC", &FILE_ID_BYTES);
    let flags = DurableFlags::PERSISTENT;
    let value = DurableRequestV2 { timeout: 0x0102, flags, create_guid: KEY };
    let mut bytes = vec![2, 1, 0, 0, 2, 0, 0, 0];
    context(
        &DurableResponseV2 { timeout: 0x0102, flags },
        DurableResponseV2 { timeout: 0x0102, flags }.to_context(),
        DurableResponseV2::decode,
        b"DH2Q",
        &bytes,
    );
    bytes.extend([0; 8]);
    bytes.extend(KEY);
    context(&value, value.to_context(), DurableRequestV2::decode, b"DH2Q", &bytes);
    let value = DurableReconnectV2 { file_id: FILE_ID, create_guid: KEY, flags };
    let bytes = [&FILE_ID_BYTES[..], &KEY, &[2, 0, 0, 0]].concat();
    context(&value, value.to_context(), DurableReconnectV2::decode, b"DH2C", &bytes);
}

#[test]
fn contexts_of_applications() {
    let value = AppInstanceId(KEY);
    let bytes = [&[20, 0, 0, 0][..], &KEY].concat();
    context(&value, value.to_context(), AppInstanceId::decode, tags::APP_INSTANCE_ID, &bytes);
    let value = AppInstanceVersion { high: 1, low: 0x0203 };
    let bytes = [[24, 0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0], [3, 2, 0, 0, 0, 0, 0, 0]];
    let name = tags::APP_INSTANCE_VERSION;
    context(&value, value.to_context(), AppInstanceVersion::decode, name, &bytes.concat());
}

#[test]
fn small_contexts_of_create() {
    let value = MaximalAccessRequest { timestamp: Some(1) };
    let time = [1, 0, 0, 0, 0, 0, 0, 0];
    context(&value, value.to_context(), MaximalAccessRequest::decode, b"MxAc", &time);
    let value = MaximalAccessResponse { status: NtStatus::SUCCESS, maximal_access: 0x1f };
    let bytes = [0, 0, 0, 0, 0x1f, 0, 0, 0];
    context(&value, value.to_context(), MaximalAccessResponse::decode, b"MxAc", &bytes);
    let value = OnDiskId { file: 1, volume: 2 };
    let bytes = [&time[..], &[2], &[0; 23]].concat();
    context(&value, value.to_context(), OnDiskId::decode, b"QFid", &bytes);
    let value = TimeWarp { timestamp: 1 };
    context(&value, value.to_context(), TimeWarp::decode, b"TWrp", &time);
    let posix = b"\x93\xad\x25\x50\x9c\xb4\x11\xe7\xb4\x23\x83\xde\x96\x8b\xcd\x7c";
    let value = PosixRequest { mode: 0o644 };
    context(&value, value.to_context(), PosixRequest::decode, posix, &[0xa4, 1, 0, 0]);
    let value = PosixResponse { link_count: 1, reparse_tag: 0, mode: 0o755, sids: Bytes::new() };
    let bytes = [1, 0, 0, 0, 0, 0, 0, 0, 0xed, 1, 0, 0];
    context(&value, value.to_context(), PosixResponse::decode, posix, &bytes);
}

#[test]
fn the_data_of_a_read_follow_sixteen_bytes() {
    let response = read::ReadResponse { data_bytes: 3, remaining: 0 };
    let bytes = [17, 0, 80, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    check(&response, &bytes);
    assert_eq!(HEADER_BYTES + bytes.len(), read::READ_DATA_OFFSET);
    let with_data = [&bytes[..], b"abc"].concat();
    check(&read::ReadReply { data: Bytes::from_static(b"abc"), remaining: 0 }, &with_data);
}

#[test]
fn the_data_of_a_write_are_a_slice_of_its_message() {
    let request = write::WriteRequest {
        offset: 0x0102,
        file_id: FILE_ID,
        channel: read::Channel::NONE,
        remaining_bytes: 0,
        flags: write::WriteFlags::WRITE_THROUGH,
        data: Bytes::from_static(b"abc"),
    };
    let mut bytes = vec![49, 0, 112, 0, 3, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend(FILE_ID_BYTES);
    bytes.extend([0; 12]);
    bytes.extend([1, 0, 0, 0]);
    bytes.extend(b"abc");
    check(&request, &bytes);
    let message = message(&request);
    let data = decode::<write::WriteRequest>(message.clone()).unwrap().data;
    assert_eq!(data.as_ptr(), message[112..].as_ptr());
}

#[test]
fn oplock_breaks_differ_by_their_structure_size() {
    let oplock = OplockBreak { oplock_level: OplockLevel::LEVEL_II, file_id: FILE_ID };
    let bytes = [&[24, 0, 1, 0, 0, 0, 0, 0][..], &FILE_ID_BYTES].concat();
    check(&oplock, &bytes);
    check(&OplockBreakBody::Oplock(oplock), &bytes);
    let notification = LeaseBreak {
        new_epoch: 3,
        flags: LeaseBreakFlags::ACK_REQUIRED,
        key: KEY,
        current_state: LeaseState(7),
        new_state: LeaseState::READ,
    };
    let bytes = [&[44, 0, 3, 0, 1, 0, 0, 0][..], &KEY, &[7, 0, 0, 0, 1], &[0; 15]].concat();
    check(&notification, &bytes);
    check(&OplockBreakBody::LeaseNotification(notification), &bytes);
    let acknowledgment = LeaseAcknowledgment { key: KEY, state: LeaseState::READ };
    let bytes = [&[36, 0, 0, 0, 0, 0, 0, 0][..], &KEY, &[1], &[0; 11]].concat();
    check(&acknowledgment, &bytes);
    check(&OplockBreakBody::LeaseAcknowledgment(acknowledgment), &bytes);
}
