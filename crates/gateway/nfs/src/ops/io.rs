//! READ, WRITE, COMMIT, and the operations of NFSv4.2 on data.

use braid_nfs_wire::nfs4::args::{
    AllocateArgs, CloneArgs, CommitArgs, CopyArgs, IoAdviseArgs, ReadArgs, SeekArgs, WriteArgs,
};
use braid_nfs_wire::nfs4::results::{
    CommitResult, CopyFailure, CopyRequirements, CopyResult, IoAdviseResult, ReadResult,
    SeekResult, WriteResponse, WriteResult,
};
use braid_nfs_wire::nfs4::{
    Bitmap, ContentType, NfsResult, NfsStatus, Payload, StableHow, Verifier,
};
use braid_share::{Deny, FILE_BYTES_MAX, OpenMode, OpenTarget, Rights, Share, ShareFile, Status};

use crate::attributes::IO_BYTES_MAX;
use crate::compound::CompoundState;
use crate::ops::courtesy;
use crate::ops::names::same_export;
use crate::ops::stateid::{FileAccess, FileOf, access, wrong_type};
use crate::status::nfs_status;

/// Bytes of a READ's result besides the data.
const READ_RESULT_BYTES: usize = 16;
/// Bytes that one COPY or CLONE copies at most; the client asks for the rest.
const COPY_BYTES_MAX: u64 = 256 << 20;

fn failed(error: braid_share::Error) -> NfsStatus {
    match error.status() {
        // An open that was closed meanwhile.
        Status::StaleHandle => NfsStatus::BadStateId,
        status => nfs_status(status),
    }
}

/// The open file, of an open or of this call.
fn opened<F>(access: FileAccess<F>) -> NfsResult<F> {
    match access {
        FileAccess::Open(file) | FileAccess::ForThisCall(file) => Ok(file),
    }
}

/// READ. RFC 8881 18.22.
pub async fn read<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: ReadArgs,
) -> NfsResult<ReadResult> {
    let file = state.file(NfsStatus::IsDir)?;
    let open = opened(access(state, args.state_id, file, Rights::READ).await?)?;
    let space = state.reply_space.saturating_sub(READ_RESULT_BYTES) as u64;
    // RFC 8881 18.22.3: the server may return fewer bytes.
    let count = u64::from(args.count).min(IO_BYTES_MAX).min(space) as u32;
    let read = open.read(args.offset, count).await.map_err(failed)?;
    Ok(ReadResult { eof: read.end, data: Payload::Bytes(read.data) })
}

/// WRITE. RFC 8881 18.32.
pub async fn write<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: WriteArgs,
) -> NfsResult<WriteResult> {
    let file = state.writable_file()?;
    let open = opened(access(state, args.state_id, file, Rights::WRITE).await?)?;
    let count = args.data.len() as u64;
    if args.offset.checked_add(count).is_none_or(|end| end > FILE_BYTES_MAX) {
        return Err(NfsStatus::FBig);
    }
    let durable = args.stable != StableHow::Unstable;
    let written = open.write(args.offset, args.data, durable).await.map_err(failed)?;
    Ok(WriteResult {
        // The length of a record is limited.
        count: written.bytes as u32,
        committed: if written.durable { StableHow::FileSync } else { StableHow::Unstable },
        verifier: Verifier(written.verifier.0),
    })
}

/// COMMIT. RFC 8881 18.3. Everything of the file is made durable, whatever the range.
pub async fn commit<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: CommitArgs,
) -> NfsResult<CommitResult> {
    // RFC 8881 18.3.4: a range past the largest offset.
    if args.offset.checked_add(u64::from(args.count)).is_none() {
        return Err(NfsStatus::Inval);
    }
    let file = state.writable_file()?;
    let client = state.client_state()?;
    // COMMIT has no state id. An open of this client has the bytes that were written by it.
    let opens = client.states.opens_of_file(file.file);
    let writer = opens.iter().find(|open| open.mode().rights.allow(Rights::WRITE));
    let writer = writer.map(|open| open.share_file.clone());
    let delegated = || client.states.delegation_of(file.file)?.share_file();
    let open: FileOf<S> = match writer.or_else(delegated) {
        Some(open) => open,
        None => {
            let mode = OpenMode { rights: Rights::WRITE, deny: Deny::NONE };
            let target = OpenTarget::File(file.file);
            match courtesy::open(state, target, mode).await? {
                Ok(opened) => opened.file,
                // RFC 8881 18.3 has no status for a denial: the client tries again.
                Err(error) if error.status() == Status::SharingViolation => {
                    return Err(NfsStatus::Delay);
                }
                Err(error) => return Err(wrong_type(state, file, failed(error)).await),
            }
        }
    };
    let verifier = open.commit().await.map_err(failed)?;
    Ok(CommitResult { verifier: Verifier(verifier.0) })
}

/// SEEK. RFC 7862 15.11.
pub async fn seek<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: SeekArgs,
) -> NfsResult<SeekResult> {
    let file = state.file(NfsStatus::WrongType)?;
    let open = opened(access(state, args.state_id, file, Rights::READ).await?)?;
    let found = match args.what {
        ContentType::DATA => open.next_data(args.offset).await,
        ContentType::HOLE => open.next_hole(args.offset).await,
        _ => return Err(NfsStatus::UnionNotSupp),
    };
    let size = open.attributes().await.map_err(failed)?.bytes.0;
    // RFC 7862 15.11.3: an offset at or past the end of the file.
    if args.offset >= size {
        return Err(NfsStatus::NxIo);
    }
    Ok(match found.map_err(failed)? {
        Some(offset) => SeekResult { eof: offset >= size, offset },
        None => SeekResult { eof: true, offset: size },
    })
}

/// ALLOCATE. RFC 7862 15.1.
pub async fn allocate<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: AllocateArgs,
) -> NfsResult<()> {
    let open = range_of(state, &args).await?;
    open.allocate(args.offset, args.length).await.map_err(failed)
}

/// DEALLOCATE. RFC 7862 15.4.
pub async fn deallocate<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: AllocateArgs,
) -> NfsResult<()> {
    let open = range_of(state, &args).await?;
    open.punch(args.offset, args.length).await.map_err(failed)
}

async fn range_of<S: Share>(
    state: &CompoundState<'_, S>,
    args: &AllocateArgs,
) -> NfsResult<FileOf<S>> {
    let file = state.writable_file()?;
    let end = args.offset.checked_add(args.length).ok_or(NfsStatus::Inval)?;
    if args.length == 0 {
        return Err(NfsStatus::Inval);
    }
    if end > FILE_BYTES_MAX {
        return Err(NfsStatus::FBig);
    }
    opened(access(state, args.state_id, file, Rights::WRITE).await?)
}

/// Source and destination of a copy.
async fn both<S: Share>(
    state: &CompoundState<'_, S>,
    source: braid_nfs_wire::nfs4::StateId,
    destination: braid_nfs_wire::nfs4::StateId,
) -> NfsResult<(FileOf<S>, FileOf<S>)> {
    let from = state.saved_file(NfsStatus::WrongType)?;
    let to = state.writable_file()?;
    // Squash, flavour and transport are those of the current export, and were checked for it only.
    same_export(from, to)?;
    let source = state.resolve_saved_state_id(source)?;
    let from = opened(access(state, source, from, Rights::READ).await?)?;
    let to = opened(access(state, destination, to, Rights::WRITE).await?)?;
    Ok((from, to))
}

/// COPY within this server, before the answer. RFC 7862 15.2.
pub async fn copy<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: CopyArgs,
) -> Result<CopyResult, CopyFailure> {
    if !args.source_servers.is_empty() {
        return Err(NfsStatus::PartnerNotSupp.into());
    }
    let (from, to) = both(state, args.source_state_id, args.destination_state_id).await?;
    let size = from.attributes().await.map_err(failed)?.bytes.0;
    // RFC 7862 15.2.3: 0 is everything up to the end of the file.
    let left = size.checked_sub(args.source_offset).ok_or(NfsStatus::Inval)?;
    let count = if args.count == 0 { left } else { args.count };
    // RFC 7862 15.2.3: a range that passes the end of the source.
    if count > left {
        return Err(NfsStatus::Inval.into());
    }
    check_overlap(&from, &to, args.source_offset, args.destination_offset, count)?;
    let count = count.min(COPY_BYTES_MAX);
    let copied = copy_all(&from, &to, args.source_offset, args.destination_offset, count).await?;
    let verifier = to.commit().await.map_err(failed)?;
    let response = WriteResponse {
        callback_id: None,
        count: copied,
        committed: StableHow::FileSync,
        verifier: Verifier(verifier.0),
    };
    let requirements = CopyRequirements { consecutive: true, synchronous: true };
    Ok(CopyResult { response, requirements })
}

/// Refuses a copy to bytes that are still to be copied. The whole range is checked: one call may
/// copy only a part of it.
fn check_overlap<F: ShareFile>(
    from: &F,
    to: &F,
    source: u64,
    destination: u64,
    count: u64,
) -> NfsResult<()> {
    let overlap = from.index() == to.index() && source.abs_diff(destination) < count;
    // RFC 7862 15.13.3, and copy_file_range(2) for COPY.
    if overlap { Err(NfsStatus::Inval) } else { Ok(()) }
}

async fn copy_all<F: ShareFile>(
    from: &F,
    to: &F,
    source: u64,
    destination: u64,
    count: u64,
) -> NfsResult<u64> {
    let ends = [source, destination].map(|start| start.checked_add(count));
    if ends.iter().any(|end| end.is_none_or(|end| end > FILE_BYTES_MAX)) {
        return Err(NfsStatus::FBig);
    }
    let mut copied = 0;
    while copied < count {
        let some = to.copy_from(from, source + copied, destination + copied, count - copied).await;
        match some {
            Ok(0) => break,
            Ok(some) => copied += some,
            // RFC 7862 15.2.3: the client learns how much was copied.
            Err(_) if copied > 0 => break,
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(copied)
}

/// CLONE. RFC 7862 15.13. Blocks are copied, since files do not share them.
pub async fn clone<S: Share>(state: &mut CompoundState<'_, S>, args: CloneArgs) -> NfsResult<()> {
    let (from, to) = both(state, args.source_state_id, args.destination_state_id).await?;
    let size = from.attributes().await.map_err(failed)?.bytes.0;
    let left = size.checked_sub(args.source_offset).ok_or(NfsStatus::Inval)?;
    let count = if args.count == 0 { left } else { args.count };
    if count > left {
        return Err(NfsStatus::Inval);
    }
    check_overlap(&from, &to, args.source_offset, args.destination_offset, count)?;
    // A client that gets this copies itself.
    if count > COPY_BYTES_MAX {
        return Err(NfsStatus::NotSupp);
    }
    let copied = copy_all(&from, &to, args.source_offset, args.destination_offset, count).await?;
    if copied < count { Err(NfsStatus::Io) } else { Ok(()) }
}

/// IO_ADVISE. RFC 7862 15.5. No hint is followed.
pub async fn io_advise<S: Share>(
    state: &mut CompoundState<'_, S>,
    args: IoAdviseArgs,
) -> NfsResult<IoAdviseResult> {
    let file = state.file(NfsStatus::IsDir)?;
    access(state, args.state_id, file, Rights::READ).await?;
    Ok(IoAdviseResult { hints: Bitmap::new() })
}
