//! Named pipes of `IPC$`: messages to a service and back. MS-SMB2 3.3.5.12, 3.3.5.13, 3.3.5.15.10.

use std::sync::PoisonError;

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::rpc::Pipe;
use bytes::Bytes;

use crate::open::PipeOpen;
use crate::server::SmbServer;

/// The service of a pipe, by its name in lower case.
pub fn service<S: Share>(server: &SmbServer<S>, name: &str) -> Option<Pipe> {
    let _ = server;
    Pipe::open(name)
}

/// What was read, and whether it is all of a message.
fn answer(pipe: &mut Pipe, max_bytes: u32) -> Result<(Vec<u8>, NtStatus), NtStatus> {
    let (data, has_more) = pipe.read(max_bytes as usize).ok_or(NtStatus::PIPE_EMPTY)?;
    // MS-SMB2 3.3.5.12: the rest of the message is left for the next READ.
    let status = if has_more { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS };
    Ok((data, status))
}

/// Takes a message that the service has sent.
pub fn read(open: &PipeOpen, max_bytes: u32) -> Result<(Bytes, NtStatus), NtStatus> {
    let mut pipe = open.pipe.lock().unwrap_or_else(PoisonError::into_inner);
    answer(&mut pipe, max_bytes).map(|(data, status)| (data.into(), status))
}

/// Sends a message to the service, which runs it.
pub fn write(open: &PipeOpen, data: &[u8]) -> Result<(), NtStatus> {
    let mut pipe = open.pipe.lock().unwrap_or_else(PoisonError::into_inner);
    pipe.write(data)
}

/// Sends a message and takes the answer.
pub fn transceive(
    open: &PipeOpen,
    data: &[u8],
    max_bytes: u32,
) -> Result<(Vec<u8>, NtStatus), NtStatus> {
    let mut pipe = open.pipe.lock().unwrap_or_else(PoisonError::into_inner);
    pipe.write(data)?;
    answer(&mut pipe, max_bytes)
}
