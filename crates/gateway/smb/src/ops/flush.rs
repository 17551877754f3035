//! FLUSH. MS-SMB2 3.3.5.11.

use braid_share::{Share, ShareClient, Verifier};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::Empty;
use braid_smb_wire::smb2::flush::FlushRequest;

use crate::context::{Context, OpResult, Reply};
use crate::open::{FileOpen, Open};
use crate::status::failed;
use crate::streams::data::OpenData;

/// Makes everything durable that was written to the file.
pub async fn flush<S: Share>(context: &Context<S>, request: FlushRequest) -> OpResult {
    let open = context.open(request.file_id)?;
    let reply = Reply::new(&Empty).with_file(open.id());
    // A pipe has nothing to flush.
    let Open::File(file) = &*open else { return Ok(reply) };
    // MS-FSA 2.1.5.6: the right to write, or for directories to add.
    let writes = AccessMask::WRITE_DATA.with(AccessMask::APPEND_DATA);
    if !AccessMask(file.granted).has_any(writes) {
        return Err(NtStatus::ACCESS_DENIED);
    }
    if file.is_directory {
        context.client()?.sync_directory(file.file).await.map_err(failed)?;
    } else if let Some(data) = &file.data {
        commit(file, data, file.take_unflushed()).await?;
    }
    Ok(reply)
}

/// Commits what was written through an open and not flushed since.
///
/// # Errors
/// `UNEXPECTED_IO_ERROR` if some of it was lost, and those of the share.
pub async fn commit_unflushed<S: Share>(
    open: &FileOpen<S>,
    data: &OpenData<S>,
) -> Result<(), NtStatus> {
    match open.take_unflushed() {
        Some(first) => commit(open, data, Some(first)).await,
        None => Ok(()),
    }
}

/// Commits, and compares the verifier with that of the first write since the last commit (I6). A
/// loss is reported once. After a commit that fails the next one compares again.
async fn commit<S: Share>(
    open: &FileOpen<S>,
    data: &OpenData<S>,
    first: Option<Verifier>,
) -> Result<(), NtStatus> {
    let now = match data.commit().await {
        Ok(now) => now,
        Err(error) => {
            if let Some(first) = first {
                open.restore_unflushed(first);
            }
            return Err(failed(error));
        }
    };
    match first {
        Some(first) if first != now => {
            tracing::warn!(file = ?open.file, "bytes that were not flushed were lost");
            Err(NtStatus::UNEXPECTED_IO_ERROR)
        }
        _ => Ok(()),
    }
}
