//! Named pipes of `IPC$`: messages to a service and back. MS-SMB2 3.3.5.12, 3.3.5.13, 3.3.5.15.10.

use std::sync::{MutexGuard, PoisonError};

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::rpc::{Pipe, PipeError, PipeKind, ServerInfo, ShareInfo, ShareKind};
use bytes::Bytes;

use crate::open::PipeOpen;
use crate::server::SmbServer;

/// The service of a pipe, by its name, in which letters have no case.
pub fn service<S: Share>(server: &SmbServer<S>, name: &str) -> Option<Pipe> {
    let kind = PipeKind::from_name(name)?;
    Some(Pipe::new(kind, server_info(server)))
}

/// What the server says of itself and its shares.
fn server_info<S: Share>(server: &SmbServer<S>) -> ServerInfo {
    let of_files = server.shares.listed().map(|share| ShareInfo {
        name: share.name.clone(),
        kind: ShareKind::Disk,
        remark: share.comment.clone(),
    });
    let pipes =
        ShareInfo { name: "IPC$".to_owned(), kind: ShareKind::Pipes, remark: String::new() };
    ServerInfo {
        name: server.config.server_name.clone(),
        domain: server.config.workgroup.clone(),
        comment: "BraidFS".to_owned(),
        shares: of_files.chain([pipes]).collect(),
    }
}

/// Takes a message that the service has sent, or as much of it as is wanted: the rest is left for
/// the next READ (MS-SMB2 3.3.5.12).
pub fn read(open: &PipeOpen, max_bytes: u32) -> Result<(Bytes, NtStatus), NtStatus> {
    answer(lock(open).read(max_bytes as usize))
}

/// Sends a message to the service, which runs it.
pub fn write(open: &PipeOpen, data: &[u8]) -> Result<(), NtStatus> {
    lock(open).write(data).map_err(broken)
}

/// Sends a message and takes the answer.
pub fn transceive(
    open: &PipeOpen,
    data: &[u8],
    max_bytes: u32,
) -> Result<(Vec<u8>, NtStatus), NtStatus> {
    let taken = lock(open).transact(data, max_bytes as usize).map_err(broken)?;
    answer(taken).map(|(data, status)| (data.into(), status))
}

/// What was read, and whether it is all of a message.
fn answer(taken: Option<(Bytes, bool)>) -> Result<(Bytes, NtStatus), NtStatus> {
    // The services answer during the WRITE: nothing would come later.
    let (data, has_more) = taken.ok_or(NtStatus::PIPE_EMPTY)?;
    Ok((data, if has_more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS }))
}

fn broken(error: PipeError) -> NtStatus {
    tracing::debug!(%error, "a pipe is of no further use");
    NtStatus::PIPE_DISCONNECTED
}

fn lock(open: &PipeOpen) -> MutexGuard<'_, Pipe> {
    open.pipe.lock().unwrap_or_else(PoisonError::into_inner)
}
