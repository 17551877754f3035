//! READ. MS-SMB2 3.3.5.12, MS-FSA 2.1.5.3.

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::read::{Channel, ReadRequest, ReadResponse};
use bytes::Bytes;

use crate::context::{Context, OpResult, Reply};
use crate::open::{FileOpen, Open};
use crate::status::failed;

/// The last offset of a file that clients know: they read offsets as signed numbers.
pub const OFFSET_MAX: u64 = i64::MAX as u64;

/// Reads bytes of a file, or a message of a pipe.
pub async fn read<S: Share>(context: &Context<S>, request: ReadRequest) -> OpResult {
    context.paid_for(request.length)?;
    // No RDMA is negotiated.
    if request.channel != Channel::NONE {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let open = context.open(request.file_id)?;
    let (data, status) = match &*open {
        Open::File(file) => (read_file(context, file, &request).await?, NtStatus::SUCCESS),
        Open::Pipe(pipe) => super::pipe::read(pipe, request.length)?,
    };
    let body = ReadResponse { data_bytes: data.len() as u32, remaining: 0 };
    let reply = Reply { data, ..Reply::new(&body) };
    Ok(reply.with_file(open.id()).with_status(status))
}

async fn read_file<S: Share>(
    context: &Context<S>,
    open: &FileOpen<S>,
    request: &ReadRequest,
) -> Result<Bytes, NtStatus> {
    if open.is_directory {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let reads = AccessMask::READ_DATA.with(AccessMask::EXECUTE);
    if !AccessMask(open.granted).has_any(reads) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let end = request.offset.checked_add(u64::from(request.length));
    if end.is_none_or(|end| end > OFFSET_MAX) {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    // MS-FSA 2.1.5.3: nothing to read is no end of the file, unless more is the minimum.
    if request.length == 0 {
        return match request.minimum_count {
            0 => Ok(Bytes::new()),
            _ => Err(NtStatus::END_OF_FILE),
        };
    }
    let data = open.data.as_ref().ok_or(NtStatus::INVALID_DEVICE_REQUEST)?;
    let bytes = (request.offset, u64::from(request.length));
    open.begin_read(&context.server.range_locks, bytes)?;
    let read = data.read_bytes(request.offset, request.length).await.map_err(failed)?;
    // MS-SMB2 3.3.5.12.
    if read.is_empty() || read.len() < request.minimum_count as usize {
        return Err(NtStatus::END_OF_FILE);
    }
    Ok(read)
}
