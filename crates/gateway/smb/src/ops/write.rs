//! WRITE. MS-SMB2 3.3.5.13, MS-FSA 2.1.5.4.

use braid_share::{FILE_BYTES_MAX, Share};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::create::CreateOptions;
use braid_smb_wire::smb2::read::Channel;
use braid_smb_wire::smb2::write::{WriteFlags, WriteRequest, WriteResponse};

use super::read::OFFSET_MAX;
use crate::context::{Context, OpResult, Reply};
use crate::open::{FileOpen, Open};
use crate::status::failed;
use crate::streams::data::OpenData;

/// The offset that means the end of the file. MS-FSA 2.1.5.4.
const TO_END: u64 = u64::MAX;

/// Writes bytes to a file, or a message to a pipe.
pub async fn write<S: Share>(context: &Context<S>, request: WriteRequest) -> OpResult {
    let length = u32::try_from(request.data.len()).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    context.paid_for(length)?;
    // No RDMA is negotiated.
    if request.channel != Channel::NONE {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let open = context.open(request.file_id)?;
    match &*open {
        Open::File(file) => write_file(context, file, request).await?,
        Open::Pipe(pipe) => super::pipe::write(pipe, &request.data)?,
    }
    Ok(Reply::new(&WriteResponse { count: length }).with_file(open.id()))
}

async fn write_file<S: Share>(
    context: &Context<S>,
    open: &FileOpen<S>,
    request: WriteRequest,
) -> Result<(), NtStatus> {
    if open.is_directory {
        return Err(NtStatus::INVALID_DEVICE_REQUEST);
    }
    let granted = AccessMask(open.granted);
    if !granted.has_any(AccessMask::WRITE_DATA.with(AccessMask::APPEND_DATA)) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    let data = open.data.as_ref().ok_or(NtStatus::INVALID_DEVICE_REQUEST)?;
    if request.data.is_empty() {
        return Ok(());
    }
    let offset = offset::<S>(data, granted, request.offset).await?;
    let length = request.data.len() as u64;
    check_range(offset, length)?;
    open.begin_write(&context.server, (offset, length))?;
    let durable = request.flags.has(WriteFlags::WRITE_THROUGH)
        || CreateOptions(open.options).has(CreateOptions::FILE_WRITE_THROUGH);
    let written = async { data.write(offset, request.data, durable).await.map_err(failed) };
    let (client, who) = (context.client()?, context.who()?);
    let written = open.keeping_times(client, who, data, written).await?;
    if !written.durable {
        open.note_unflushed(written.verifier);
    }
    Ok(())
}

/// Where the bytes go. An open that may only append writes at the end, whatever offset it gives
/// (MS-FSA 2.1.5.4). Two opens that append at the same time may write to the same place.
async fn offset<S: Share>(
    data: &OpenData<S>,
    granted: AccessMask,
    asked: u64,
) -> Result<u64, NtStatus> {
    let appends = granted.has(AccessMask::APPEND_DATA);
    if granted.has(AccessMask::WRITE_DATA) && !(asked == TO_END && appends) {
        return Ok(asked);
    }
    data.attributes().await.map(|known| known.bytes.0).map_err(failed)
}

/// Checks that bytes end inside the largest file.
///
/// # Errors
/// `INVALID_PARAMETER` for offsets that are none, `DISK_FULL` for a file that would be too large.
pub fn check_range(offset: u64, bytes: u64) -> Result<(), NtStatus> {
    match offset.checked_add(bytes) {
        None | Some(OFFSET_MAX..) => Err(NtStatus::INVALID_PARAMETER),
        Some(end) if end > FILE_BYTES_MAX => Err(NtStatus::DISK_FULL),
        Some(_) => Ok(()),
    }
}
