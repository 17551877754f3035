//! READ, WRITE, FLUSH, CLOSE and IOCTL.

use braid_smb_wire::fscc::Information;
use braid_smb_wire::fsctl::{
    ControlCode, CopyChunk, CopyChunkRequest, CopyChunkResponse, ValidateNegotiateRequest,
    ValidateNegotiateResponse, ZeroData,
};
use braid_smb_wire::smb2::close::CloseResponse;
use braid_smb_wire::smb2::flush::FlushRequest;
use braid_smb_wire::smb2::ioctl::{IoctlFlags, IoctlRequest, IoctlResponse};
use braid_smb_wire::smb2::read::{Channel, ReadFlags, ReadReply, ReadRequest};
use braid_smb_wire::smb2::write::{WriteFlags, WriteRequest, WriteResponse};

use super::*;

pub(super) async fn read(
    client: &Client,
    id: FileId,
    offset: u64,
    length: u32,
) -> Result<Bytes, NtStatus> {
    read_at_least(client, id, (offset, length), 0).await
}

async fn read_at_least(
    client: &Client,
    id: FileId,
    (offset, length): (u64, u32),
    minimum_count: u32,
) -> Result<Bytes, NtStatus> {
    let request = ReadRequest {
        flags: ReadFlags(0),
        length,
        offset,
        file_id: id,
        minimum_count,
        channel: Channel::NONE,
        remaining_bytes: 0,
    };
    let reply = super::super::read::read(&client.context(), request).await?;
    Ok(body::<ReadReply>(&reply).data)
}

pub(super) async fn write(
    client: &Client,
    id: FileId,
    offset: u64,
    data: &'static [u8],
) -> OpResult {
    let request = WriteRequest {
        offset,
        file_id: id,
        channel: Channel::NONE,
        remaining_bytes: 0,
        flags: WriteFlags(0),
        data: Bytes::from_static(data),
    };
    super::super::write::write(&client.context(), request).await
}

pub(super) async fn flush(client: &Client, id: FileId) -> Result<(), NtStatus> {
    super::super::flush::flush(&client.context(), FlushRequest { file_id: id }).await.map(drop)
}

pub(super) async fn ioctl(
    client: &Client,
    id: FileId,
    code: ControlCode,
    input: Vec<u8>,
) -> Result<(NtStatus, Bytes), NtStatus> {
    let request = IoctlRequest {
        code: code.0,
        file_id: id,
        flags: IoctlFlags::IS_FSCTL,
        input: input.into(),
        max_input: 0,
        max_output: 48,
    };
    let reply = super::super::ioctl::ioctl(&client.context(), request).await?;
    Ok((reply.status, body::<IoctlResponse>(&reply).output))
}

/// Copies bytes to the same offset of another file.
pub(super) async fn copy(
    client: &Client,
    source: FileId,
    target: FileId,
    offset: u64,
    length: u32,
) -> Result<(), NtStatus> {
    let code = ControlCode::SRV_REQUEST_RESUME_KEY;
    let (_, key) = ioctl(client, source, code, Vec::new()).await?;
    let chunk = CopyChunk { source_offset: offset, target_offset: offset, length };
    let source = key[..24].try_into().unwrap();
    let request = CopyChunkRequest { source, chunks: vec![chunk] }.to_bytes();
    match ioctl(client, target, ControlCode::SRV_COPYCHUNK, request).await?.0 {
        NtStatus::SUCCESS => Ok(()),
        status => Err(status),
    }
}

/// Makes a hole from `offset` to `beyond`.
pub(super) async fn zero(
    client: &Client,
    id: FileId,
    offset: u64,
    beyond: u64,
) -> Result<(), NtStatus> {
    let hole = ZeroData { offset, beyond }.to_bytes();
    ioctl(client, id, ControlCode::SET_ZERO_DATA, hole).await.map(drop)
}

#[tokio::test]
async fn bytes_are_read_as_they_were_written() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH).await.unwrap();
    let reply = write(&client, id, 2, b"abc").await.unwrap();
    assert_eq!(body::<WriteResponse>(&reply).count, 3);
    assert_eq!(read(&client, id, 0, 100).await.unwrap(), &b"\0\0abc"[..]);
    assert_eq!(read(&client, id, 3, 1).await.unwrap(), &b"b"[..]);
    let end = Err(NtStatus::END_OF_FILE);
    assert_eq!(read(&client, id, 5, 1).await, end);
    assert_eq!(read(&client, id, 5, 0).await, Ok(Bytes::new()));
    assert_eq!(read_at_least(&client, id, (0, 10), 6).await, end);
    assert_eq!(read_at_least(&client, id, (0, 10), 5).await.unwrap().len(), 5);
    assert_eq!(read(&client, id, u64::MAX, 1).await, Err(NtStatus::INVALID_PARAMETER));
    let closed = client.close(id).await.unwrap();
    assert_eq!(body::<CloseResponse>(&closed).end_of_file, 5);
    assert_eq!(read(&client, id, 0, 1).await, Err(NtStatus::FILE_CLOSED));
    client.assert_nothing_open();
}

#[tokio::test]
async fn access_is_checked_at_each_operation() {
    let client = Client::new(user()).await;
    let both = client.open("file", BOTH).await.unwrap();
    let denied = Err(NtStatus::ACCESS_DENIED);
    let reader = client.open("file", READ).await.unwrap();
    assert_eq!(write(&client, reader, 0, b"a").await, denied);
    assert_eq!(flush(&client, reader).await, Err(NtStatus::ACCESS_DENIED));
    let writer = client.open("file", WRITE).await.unwrap();
    write(&client, writer, 0, b"a").await.unwrap();
    assert_eq!(read(&client, writer, 0, 1).await, Err(NtStatus::ACCESS_DENIED));
    let root = client.open("", READ).await.unwrap();
    assert_eq!(read(&client, root, 0, 1).await, Err(NtStatus::INVALID_DEVICE_REQUEST));
    assert_eq!(
        write(&client, both, i64::MAX as u64, b"a").await.unwrap_err(),
        NtStatus::INVALID_PARAMETER
    );
}

#[tokio::test]
async fn an_open_that_appends_writes_at_the_end_only() {
    let client = Client::new(user()).await;
    client.put("file", b"abc", 0o666).await;
    let id = client.open("file", 0x4).await.unwrap();
    write(&client, id, 0, b"de").await.unwrap();
    let both = client.open("file", BOTH).await.unwrap();
    write(&client, both, u64::MAX, b"f").await.unwrap();
    assert_eq!(read(&client, both, 0, 9).await.unwrap(), &b"abcdef"[..]);
}

#[tokio::test]
async fn a_loss_of_bytes_that_were_not_flushed_is_reported_once() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH).await.unwrap();
    write(&client, id, 0, b"abc").await.unwrap();
    client.share().lose_unflushed();
    assert_eq!(flush(&client, id).await, Err(NtStatus::UNEXPECTED_IO_ERROR));
    assert_eq!(flush(&client, id).await, Ok(()));
    write(&client, id, 0, b"abc").await.unwrap();
    client.share().lose_unflushed();
    assert_eq!(client.close(id).await, Err(NtStatus::UNEXPECTED_IO_ERROR));
    client.assert_nothing_open();
}

#[tokio::test]
async fn a_closed_file_has_lost_nothing_afterwards() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH).await.unwrap();
    write(&client, id, 0, b"abc").await.unwrap();
    client.close(id).await.unwrap();
    client.share().lose_unflushed();
    let id = client.open("file", READ).await.unwrap();
    assert_eq!(read(&client, id, 0, 9).await.unwrap(), &b"abc"[..]);
}

#[tokio::test]
async fn chunks_are_copied_inside_the_server() {
    let client = Client::new(user()).await;
    client.put("source", b"0123456789", 0o644).await;
    let source = client.open("source", READ).await.unwrap();
    let target = client.open("target", BOTH).await.unwrap();
    let (_, key) =
        ioctl(&client, source, ControlCode::SRV_REQUEST_RESUME_KEY, Vec::new()).await.unwrap();
    let key: [u8; 24] = key[..24].try_into().unwrap();
    let code = ControlCode::SRV_COPYCHUNK;
    let copy = |key, chunks: &[(u64, u64, u32)]| {
        let chunk = |(source_offset, target_offset, length): &(u64, u64, u32)| CopyChunk {
            source_offset: *source_offset,
            target_offset: *target_offset,
            length: *length,
        };
        CopyChunkRequest { source: key, chunks: chunks.iter().map(chunk).collect() }.to_bytes()
    };
    let (status, output) =
        ioctl(&client, target, code, copy(key, &[(5, 0, 5), (0, 5, 5)])).await.unwrap();
    let done = CopyChunkResponse { chunks: 2, chunk_bytes: 0, total_bytes: 10 };
    assert_eq!((status, output), (NtStatus::SUCCESS, done.to_bytes().into()));
    assert_eq!(read(&client, target, 0, 99).await.unwrap(), &b"5678901234"[..]);
    let (status, output) =
        ioctl(&client, target, code, copy(key, &[(0, 20, 4), (6, 0, 5)])).await.unwrap();
    let first = CopyChunkResponse { chunks: 1, chunk_bytes: 0, total_bytes: 4 };
    assert_eq!((status, output), (NtStatus::INVALID_VIEW_SIZE, first.to_bytes().into()));
    assert_eq!(read(&client, target, 20, 99).await.unwrap(), &b"0123"[..]);
    let (status, limits) =
        ioctl(&client, target, code, copy(key, &[(0, 0, (1 << 20) + 1)])).await.unwrap();
    let wanted = CopyChunkResponse { chunks: 256, chunk_bytes: 1 << 20, total_bytes: 16 << 20 };
    assert_eq!((status, limits), (NtStatus::INVALID_PARAMETER, wanted.to_bytes().into()));
    let unknown = ioctl(&client, target, code, copy([9; 24], &[(0, 0, 1)])).await;
    assert_eq!(unknown, Err(NtStatus::OBJECT_NAME_NOT_FOUND));
}

#[tokio::test]
async fn a_negotiation_that_was_changed_ends_the_connection() {
    let client = Client::new(user()).await;
    let sent = ValidateNegotiateRequest {
        capabilities: 0x7f,
        guid: [7; 16],
        security_mode: 1,
        dialects: vec![0x0210, 0x0302],
    };
    let code = ControlCode::VALIDATE_NEGOTIATE_INFO;
    let (status, output) = ioctl(&client, FileId::RELATED, code, sent.to_bytes()).await.unwrap();
    let wanted = ValidateNegotiateResponse {
        capabilities: 4,
        guid: client.server.guid,
        security_mode: 1,
        dialect: 0x0302,
    };
    assert_eq!((status, output), (NtStatus::SUCCESS, wanted.to_bytes().into()));
    let changed = [
        ValidateNegotiateRequest { dialects: vec![0x0210, 0x0302, 0x0311], ..sent.clone() },
        ValidateNegotiateRequest { capabilities: 0, ..sent.clone() },
        ValidateNegotiateRequest { guid: [8; 16], ..sent.clone() },
        ValidateNegotiateRequest { security_mode: 3, ..sent },
    ];
    for (number, changed) in (2..).zip(changed) {
        let client = Client::of(&client.server, user(), number).await;
        let refused = ioctl(&client, FileId::RELATED, code, changed.to_bytes()).await;
        assert_eq!(refused, Err(NtStatus::ACCESS_DENIED), "{changed:?}");
        assert!(client.connection.is_closed(), "{changed:?}");
    }
}

#[tokio::test]
async fn other_operations_of_ioctl_are_refused() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH).await.unwrap();
    let cases = [
        (ControlCode(0x1234_5678), NtStatus::INVALID_DEVICE_REQUEST),
        (ControlCode::PIPE_TRANSCEIVE, NtStatus::INVALID_DEVICE_REQUEST),
        (ControlCode::DUPLICATE_EXTENTS_TO_FILE, NtStatus::INVALID_DEVICE_REQUEST),
        (ControlCode::OFFLOAD_READ, NtStatus::NOT_SUPPORTED),
        (ControlCode::OFFLOAD_WRITE, NtStatus::NOT_SUPPORTED),
        (ControlCode::DFS_GET_REFERRALS, NtStatus::FS_DRIVER_REQUIRED),
        (ControlCode::QUERY_NETWORK_INTERFACE_INFO, NtStatus::NOT_SUPPORTED),
    ];
    for (code, wanted) in cases {
        assert_eq!(ioctl(&client, id, code, Vec::new()).await, Err(wanted), "{code:?}");
    }
}
