//! Copies in the server. MS-SMB2 3.3.5.15.5, 3.3.5.15.6.

use std::sync::Arc;

use braid_share::Share;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fscc::Information;
use braid_smb_wire::fsctl::{
    ControlCode, CopyChunk, CopyChunkRequest, CopyChunkResponse, ResumeKey,
};
use braid_smb_wire::smb2::FileId;
use braid_smb_wire::smb2::ioctl::IoctlRequest;
use braid_smb_wire::{NtStatus, Reader};

use super::{Output, bytes};
use crate::context::{Context, malformed};
use crate::open::{FileOpen, Open};
use crate::ops::write::check_range;
use crate::status::failed;
use crate::streams::data::OpenData;

/// Most chunks of a request. 3.3.3: those of Windows.
pub const CHUNKS_MAX: u32 = 256;
/// Most bytes of a chunk.
pub const CHUNK_BYTES_MAX: u32 = 1 << 20;
/// Most bytes of a request.
pub const COPY_BYTES_MAX: u32 = 16 << 20;

/// FSCTL_SRV_REQUEST_RESUME_KEY: a key that names the open as a source. It is the number of the
/// open: only its own session finds it.
pub(super) fn resume_key<S: Share>(open: &FileOpen<S>, max_output: u32) -> Output {
    let mut key = [0; 24];
    key[..8].copy_from_slice(&open.id.persistent.to_le_bytes());
    key[8..16].copy_from_slice(&open.id.volatile.to_le_bytes());
    let output = ResumeKey { key }.to_bytes();
    // 3.3.5.15.5.
    if output.len() > max_output as usize {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok((output, NtStatus::SUCCESS))
}

/// FSCTL_SRV_COPYCHUNK and FSCTL_SRV_COPYCHUNK_WRITE: copies chunks of another open to this one.
pub(super) async fn copy_chunks<S: Share>(
    context: &Context<S>,
    open: &FileOpen<S>,
    request: &IoctlRequest,
) -> Output {
    let wanted = CopyChunkRequest::decode(&mut Reader::new(request.input.clone()));
    let wanted = wanted.map_err(malformed)?;
    if request.max_output < 12 {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let source = source(context, &wanted.source)?;
    let source = source.file()?;
    let to = bytes(open, AccessMask::WRITE_DATA.with(AccessMask::APPEND_DATA))?;
    // 3.3.5.15.6: without _WRITE the target has to be readable as well.
    if request.code == ControlCode::SRV_COPYCHUNK.0 {
        open.needs(AccessMask::READ_DATA.0)?;
    }
    let from = bytes(source, AccessMask::READ_DATA.with(AccessMask::EXECUTE))?;
    if !fits_limits(&wanted.chunks) {
        // 3.3.5.15.6.2: the answer has the limits.
        let limits = CopyChunkResponse {
            chunks: CHUNKS_MAX,
            chunk_bytes: CHUNK_BYTES_MAX,
            total_bytes: COPY_BYTES_MAX,
        };
        return Ok((limits.to_bytes(), NtStatus::INVALID_PARAMETER));
    }
    let locks = &context.server.range_locks;
    let begin = |chunk: &CopyChunk| {
        let length = u64::from(chunk.length);
        source.begin_read(locks, (chunk.source_offset, length))?;
        open.begin_write(&context.server, (chunk.target_offset, length))
    };
    let copied = async { Ok(copy_all(from, to, &wanted.chunks, begin).await) };
    let copied = open.keeping_times(context.client()?, context.who()?, to, copied).await;
    // A copy has no verifier with which a later commit would find a loss (I6).
    to.commit().await.map_err(failed)?;
    let (done, status) = copied?;
    // MS-SMB2 3.3.4.4: also a copy that fails says how much was copied.
    Ok((done.to_bytes(), status))
}

/// The open that a key names.
fn source<S: Share>(context: &Context<S>, key: &[u8; 24]) -> Result<Arc<Open<S>>, NtStatus> {
    let mut reader = Reader::new(bytes::Bytes::copy_from_slice(key));
    let id = FileId::decode(&mut reader).map_err(malformed)?;
    // 3.3.5.15.6.
    let open = context.session()?.open(id).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
    // What a share sends encrypted only does not leave it by a copy to another share.
    let target = context.tree()?;
    if open.tree().requires_encryption() && !target.requires_encryption() {
        return Err(NtStatus::ACCESS_DENIED);
    }
    Ok(open)
}

fn fits_limits(chunks: &[CopyChunk]) -> bool {
    let total: u64 = chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
    let in_range = |chunk: &CopyChunk| (1..=CHUNK_BYTES_MAX).contains(&chunk.length);
    chunks.len() <= CHUNKS_MAX as usize
        && chunks.iter().all(in_range)
        && total <= u64::from(COPY_BYTES_MAX)
}

/// Copies the chunks in their order, until one fails. `begin` checks that a chunk may be copied.
async fn copy_all<S: Share>(
    from: &OpenData<S>,
    to: &OpenData<S>,
    chunks: &[CopyChunk],
    begin: impl Fn(&CopyChunk) -> Result<(), NtStatus>,
) -> (CopyChunkResponse, NtStatus) {
    let mut done = CopyChunkResponse::default();
    // As it was last seen: it is asked for once, unless a chunk passes it.
    let mut size = 0;
    for chunk in chunks {
        if let Err(status) = copy_one(from, to, chunk, (&mut size, &begin)).await {
            return (done, status);
        }
        done.chunks += 1;
        done.total_bytes += chunk.length;
    }
    (done, NtStatus::SUCCESS)
}

async fn copy_one<S: Share>(
    from: &OpenData<S>,
    to: &OpenData<S>,
    chunk: &CopyChunk,
    (size, begin): (&mut u64, impl Fn(&CopyChunk) -> Result<(), NtStatus>),
) -> Result<(), NtStatus> {
    let end = chunk.source_offset.checked_add(u64::from(chunk.length));
    let end = end.ok_or(NtStatus::INVALID_VIEW_SIZE)?;
    if end > *size {
        *size = from.attributes().await.map_err(failed)?.bytes.0;
    }
    // 3.3.5.15.6: a chunk that passes the end of the source.
    if end > *size {
        return Err(NtStatus::INVALID_VIEW_SIZE);
    }
    check_range(chunk.source_offset, u64::from(chunk.length))?;
    check_range(chunk.target_offset, u64::from(chunk.length))?;
    begin(chunk)?;
    copy(from, to, chunk).await
}

async fn copy<S: Share>(
    from: &OpenData<S>,
    to: &OpenData<S>,
    chunk: &CopyChunk,
) -> Result<(), NtStatus> {
    let length = u64::from(chunk.length);
    let distance = chunk.source_offset.abs_diff(chunk.target_offset);
    if from.is_same(to) && distance < length {
        // The share does not copy a range onto itself.
        let read = from.read(chunk.source_offset, chunk.length).await.map_err(failed)?;
        if read.data.len() < chunk.length as usize {
            return Err(NtStatus::INVALID_VIEW_SIZE);
        }
        return to.write(chunk.target_offset, read.data, false).await.map(drop).map_err(failed);
    }
    let mut done = 0;
    while done < length {
        let (source, target) = (chunk.source_offset + done, chunk.target_offset + done);
        match to.copy_from(from, source, target, length - done).await.map_err(failed)? {
            0 => return Err(NtStatus::INVALID_VIEW_SIZE),
            some => done += some,
        }
    }
    Ok(())
}
