//! Answers about compression and snapshots, which this file system does not have.

use braid_smb_wire::fscc::Information;
use braid_smb_wire::fsctl::{Compression, Snapshots};
use braid_smb_wire::{NtStatus, Reader};
use bytes::Bytes;

use super::Output;
use crate::context::malformed;

/// FSCTL_GET_COMPRESSION: the file is not compressed. MS-FSA 2.1.5.10.8.
pub(super) fn compression(max_output: u32) -> Output {
    let output = Compression { format: Compression::NONE }.to_bytes();
    if output.len() > max_output as usize {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok((output, NtStatus::SUCCESS))
}

/// FSCTL_SET_COMPRESSION: as ReFS does, which has no compression either. MS-FSA 2.1.5.10.31.
pub(super) fn set_compression(input: &Bytes) -> Output {
    let asked = Compression::decode(&mut Reader::new(input.clone())).map_err(malformed)?;
    match asked.format {
        Compression::NONE => Ok((Vec::new(), NtStatus::SUCCESS)),
        Compression::DEFAULT | Compression::LZNT1 => Err(NtStatus::NOT_SUPPORTED),
        _ => Err(NtStatus::INVALID_PARAMETER),
    }
}

/// FSCTL_SRV_ENUMERATE_SNAPSHOTS: a list without names. MS-SMB2 3.3.5.15.1.
pub(super) fn snapshots(max_output: u32) -> Output {
    // The list is one 16-bit zero (MS-SMB2 2.2.32.2).
    let output = Snapshots { count: 0, returned: 0, array_bytes: 2 }.to_bytes();
    if output.len() > max_output as usize {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    Ok((output, NtStatus::SUCCESS))
}
