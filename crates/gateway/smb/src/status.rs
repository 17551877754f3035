//! Status numbers of BraidFS as NTSTATUS codes.

use braid_share::{Error, Status};
use braid_smb_wire::NtStatus;

/// The NTSTATUS for a failure of the share.
pub fn nt_status(status: Status) -> NtStatus {
    match status {
        Status::Ok => NtStatus::SUCCESS,
        Status::NotFound => NtStatus::OBJECT_NAME_NOT_FOUND,
        Status::Exists => NtStatus::OBJECT_NAME_COLLISION,
        Status::PermissionDenied
        | Status::AuthenticationFailed
        | Status::NotPermitted
        | Status::WrongRole
        | Status::BadCapability => NtStatus::ACCESS_DENIED,
        Status::NotDirectory => NtStatus::NOT_A_DIRECTORY,
        Status::IsDirectory => NtStatus::FILE_IS_A_DIRECTORY,
        Status::NotEmpty => NtStatus::DIRECTORY_NOT_EMPTY,
        Status::Invalid | Status::WouldLoop => NtStatus::INVALID_PARAMETER,
        Status::NameTooLong => NtStatus::NAME_TOO_LONG,
        // STOPPED_ON_SYMLINK would need data that say where (MS-SMB2 2.2.2.2.1).
        Status::TooManyLinks => NtStatus::OBJECT_PATH_NOT_FOUND,
        Status::LinkLimit => NtStatus::TOO_MANY_LINKS,
        // QUOTA_EXCEEDED is about the quota of a process; programs expect DISK_FULL.
        Status::TooLarge | Status::NoSpace | Status::NoIods | Status::QuotaExceeded => {
            NtStatus::DISK_FULL
        }
        Status::ReadOnly => NtStatus::MEDIA_WRITE_PROTECTED,
        Status::NoAttribute => NtStatus::NONEXISTENT_EA_ENTRY,
        Status::Range => NtStatus::BUFFER_TOO_SMALL,
        Status::Busy | Status::TextBusy | Status::SharingViolation => NtStatus::SHARING_VIOLATION,
        // The file was removed while it was open.
        Status::StaleHandle | Status::UnknownHandle => NtStatus::FILE_CLOSED,
        Status::Unsupported => NtStatus::NOT_SUPPORTED,
        // The session at the metadata server is gone, and the client's state with it.
        Status::Fenced | Status::NoSession => NtStatus::USER_SESSION_DELETED,
        Status::CrossDevice => NtStatus::NOT_SAME_DEVICE,
        Status::NoDevice => NtStatus::INVALID_DEVICE_REQUEST,
        Status::Deadlock => NtStatus::LOCK_NOT_GRANTED,
        Status::TooManyOpen | Status::NoLocks => NtStatus::INSUFFICIENT_RESOURCES,
        Status::Interrupted | Status::Cancelled => NtStatus::CANCELLED,
        Status::TryAgain
        | Status::StaleGeneration
        | Status::StaleEpoch
        | Status::Unreachable
        | Status::ConnectionLost
        | Status::NotServing => NtStatus::FILE_NOT_AVAILABLE,
        Status::DiskError | Status::ObjectLost | Status::Corrupted | Status::UnsyncedDataLost => {
            NtStatus::UNEXPECTED_IO_ERROR
        }
        _ => NtStatus::INTERNAL_ERROR,
    }
}

/// The NTSTATUS for an error of the share. What a client cannot see of it is in the log.
pub fn failed(error: Error) -> NtStatus {
    let status = nt_status(error.status());
    if matches!(
        status,
        NtStatus::INTERNAL_ERROR | NtStatus::UNEXPECTED_IO_ERROR | NtStatus::FILE_NOT_AVAILABLE
    ) {
        tracing::warn!(%error, "a request fails");
    }
    status
}
