//! IOCTL. MS-SMB2 3.3.5.15.

mod absent;
mod copy;
mod ranges;
mod referral;
mod sparse;
mod validate;

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fscc::Information;
use braid_smb_wire::fsctl::{ControlCode, ObjectId};
use braid_smb_wire::smb2::ioctl::{IoctlFlags, IoctlRequest, IoctlResponse};
use bytes::Bytes;

use crate::context::{Context, OpResult, Reply};
use crate::open::{FileOpen, Open};
use crate::streams::data::OpenData;

/// Output of an operation, and `SUCCESS` or a warning.
type Output = Result<(Vec<u8>, NtStatus), NtStatus>;

/// Runs an operation of a file, a pipe or the server.
pub async fn ioctl<S: Share>(context: &Context<S>, request: IoctlRequest) -> OpResult {
    // 3.3.5.15.
    if !request.flags.has(IoctlFlags::IS_FSCTL) {
        return Err(NtStatus::NOT_SUPPORTED);
    }
    let input = u32::try_from(request.input.len()).map_err(|_| NtStatus::INVALID_PARAMETER)?;
    let output = request.max_input.saturating_add(request.max_output);
    context.paid_for(input.max(output))?;
    match ControlCode(request.code) {
        ControlCode::VALIDATE_NEGOTIATE_INFO => {
            let output = validate::validate(context, &request)?;
            Ok(reply(&request, (output, NtStatus::SUCCESS)))
        }
        ControlCode::DFS_GET_REFERRALS | ControlCode::DFS_GET_REFERRALS_EX => {
            referral::referral(context, &request).map(|output| reply(&request, output))
        }
        // 3.3.5.15.11: there are no further channels. Nobody waits for a pipe.
        ControlCode::QUERY_NETWORK_INTERFACE_INFO | ControlCode::PIPE_WAIT => {
            Err(NtStatus::NOT_SUPPORTED)
        }
        _ => of_open(context, request).await,
    }
}

/// Runs an operation of an open.
async fn of_open<S: Share>(context: &Context<S>, mut request: IoctlRequest) -> OpResult {
    let open = context.open(request.file_id)?;
    // The response names the open, also where the request says "that of the request before".
    request.file_id = open.id();
    let output = match &*open {
        Open::Pipe(pipe) => match ControlCode(request.code) {
            ControlCode::PIPE_TRANSCEIVE => {
                let sent = super::pipe::transceive(pipe, &request.input, request.max_output)?;
                (sent.0.to_vec(), sent.1)
            }
            _ => return Err(NtStatus::INVALID_DEVICE_REQUEST),
        },
        Open::File(file) => of_file(context, file, &request).await?,
    };
    Ok(reply(&request, output).with_file(open.id()))
}

async fn of_file<S: Share>(
    context: &Context<S>,
    open: &FileOpen<S>,
    request: &IoctlRequest,
) -> Output {
    match ControlCode(request.code) {
        ControlCode::SET_SPARSE => sparse::set(context, open, &request.input).await,
        ControlCode::SET_ZERO_DATA => ranges::set_zero(context, open, &request.input).await,
        ControlCode::FILE_LEVEL_TRIM => ranges::trim(context, open, request).await,
        ControlCode::QUERY_ALLOCATED_RANGES => ranges::query_allocated(open, request).await,
        ControlCode::SRV_REQUEST_RESUME_KEY => copy::resume_key(open, request.max_output),
        ControlCode::SRV_COPYCHUNK | ControlCode::SRV_COPYCHUNK_WRITE => {
            copy::copy_chunks(context, open, request).await
        }
        ControlCode::CREATE_OR_GET_OBJECT_ID | ControlCode::GET_OBJECT_ID => {
            object_id(context, open, request.max_output)
        }
        ControlCode::GET_COMPRESSION => absent::compression(request.max_output),
        ControlCode::SET_COMPRESSION => absent::set_compression(&request.input),
        ControlCode::SRV_ENUMERATE_SNAPSHOTS => absent::snapshots(request.max_output),
        // MS-FSA 2.1.5.10.18, 2.1.5.10.19: the volume has no offloaded copies. Clients then use
        // SRV_COPYCHUNK.
        ControlCode::OFFLOAD_READ | ControlCode::OFFLOAD_WRITE => Err(NtStatus::NOT_SUPPORTED),
        // Among them DUPLICATE_EXTENTS_TO_FILE: blocks are not shared between files.
        _ => Err(NtStatus::INVALID_DEVICE_REQUEST),
    }
}

/// FSCTL_CREATE_OR_GET_OBJECT_ID: what names the file whatever becomes of its name, for links that
/// clients keep (distributed link tracking). Every file has it, so that none is created. MS-FSA
/// 2.1.5.10.2, 2.1.5.10.11.
fn object_id<S: Share>(context: &Context<S>, open: &FileOpen<S>, max_output: u32) -> Output {
    let file_system = context.server.share.file_system();
    let output = ObjectId::of_file(file_system.0, open.file.0).to_bytes();
    if output.len() > max_output as usize {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok((output, NtStatus::SUCCESS))
}

/// The bytes of a file, for an open that has a right to them.
fn bytes<S: Share>(open: &FileOpen<S>, rights: AccessMask) -> Result<&OpenData<S>, NtStatus> {
    if open.is_directory {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    if !AccessMask(open.granted).has_any(rights) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    open.data.as_ref().ok_or(NtStatus::INVALID_DEVICE_REQUEST)
}

fn reply(request: &IoctlRequest, (output, status): (Vec<u8>, NtStatus)) -> Reply {
    let body =
        IoctlResponse { code: request.code, file_id: request.file_id, output: Bytes::from(output) };
    Reply::new(&body).with_status(status)
}
