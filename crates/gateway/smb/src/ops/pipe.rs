//! Named pipes of `IPC$`: messages to a service and back. MS-SMB2 3.3.5.12, 3.3.5.13, 3.3.5.15.10.

use std::sync::PoisonError;

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::rpc::{
    Pipe, PipeError, PipeKind, STYPE_DISKTREE, STYPE_IPC, STYPE_SPECIAL, ServerInfo, ShareInfo,
};
use bytes::Bytes;

use crate::open::PipeOpen;
use crate::server::SmbServer;

/// The service of a pipe, by its name in lower case.
pub fn service<S: Share>(server: &SmbServer<S>, name: &str) -> Option<Pipe> {
    let kind = PipeKind::by_name(name)?;
    let ipc = ShareInfo {
        name: "IPC$".to_owned(),
        kind: STYPE_IPC | STYPE_SPECIAL,
        remark: "Pipes of the server".to_owned(),
        path: String::new(),
    };
    let listed = server.shares.listed().map(|share| ShareInfo {
        name: share.name.clone(),
        kind: STYPE_DISKTREE,
        remark: share.comment.clone(),
        // Windows shows paths of the server to administrators only (MS-SRVS 3.1.4.8).
        path: String::new(),
    });
    let info = ServerInfo {
        name: server.config.server_name.to_uppercase(),
        workgroup: server.config.workgroup.to_uppercase(),
        comment: "BraidFS".to_owned(),
        shares: listed.chain([ipc]).collect(),
    };
    Some(Pipe::new(kind, info))
}

/// What was read, and whether it is all of a message.
fn answer(pipe: &mut Pipe, max_bytes: u32) -> Result<(Bytes, NtStatus), NtStatus> {
    let (data, has_more) = pipe.read(max_bytes as usize).ok_or(NtStatus::PIPE_EMPTY)?;
    // MS-SMB2 3.3.5.12: the rest of the message is left for the next READ.
    let status = if has_more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
    Ok((data, status))
}

/// Takes a message that the service has sent.
pub fn read(open: &PipeOpen, max_bytes: u32) -> Result<(Bytes, NtStatus), NtStatus> {
    let mut pipe = open.pipe.lock().unwrap_or_else(PoisonError::into_inner);
    answer(&mut pipe, max_bytes)
}

/// Sends a message to the service, which runs it.
pub fn write(open: &PipeOpen, data: &[u8]) -> Result<(), NtStatus> {
    let mut pipe = open.pipe.lock().unwrap_or_else(PoisonError::into_inner);
    pipe.write(data).map_err(PipeError::status)
}

/// Sends a message and takes the answer.
pub fn transceive(
    open: &PipeOpen,
    data: &[u8],
    max_bytes: u32,
) -> Result<(Bytes, NtStatus), NtStatus> {
    let mut pipe = open.pipe.lock().unwrap_or_else(PoisonError::into_inner);
    pipe.write(data).map_err(PipeError::status)?;
    answer(&mut pipe, max_bytes)
}
