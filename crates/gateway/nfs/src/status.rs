//! Status numbers of BraidFS as NFS status codes.

use braid_nfs_wire::nfs4::NfsStatus;
use braid_share::Status;

/// The NFS status for a failure of the share.
pub fn nfs_status(status: Status) -> NfsStatus {
    match status {
        Status::Ok => NfsStatus::Ok,
        Status::NotFound => NfsStatus::NoEnt,
        Status::Exists => NfsStatus::Exist,
        Status::PermissionDenied | Status::AuthenticationFailed => NfsStatus::Access,
        Status::NotPermitted | Status::WrongRole | Status::BadCapability => NfsStatus::Perm,
        Status::NotDirectory => NfsStatus::NotDir,
        Status::IsDirectory => NfsStatus::IsDir,
        Status::NotEmpty => NfsStatus::NotEmpty,
        Status::Invalid | Status::WouldLoop => NfsStatus::Inval,
        Status::NameTooLong => NfsStatus::NameTooLong,
        Status::TooManyLinks => NfsStatus::SymLink,
        Status::LinkLimit => NfsStatus::MLink,
        Status::TooLarge => NfsStatus::FBig,
        Status::NoSpace | Status::NoIods => NfsStatus::NoSpc,
        Status::QuotaExceeded => NfsStatus::DQuot,
        Status::ReadOnly => NfsStatus::RoFs,
        Status::NoAttribute => NfsStatus::NoXattr,
        Status::Range => NfsStatus::TooSmall,
        Status::Busy | Status::TextBusy => NfsStatus::FileOpen,
        Status::StaleHandle | Status::UnknownHandle => NfsStatus::Stale,
        Status::Unsupported => NfsStatus::NotSupp,
        // The session at the metadata server is gone, and the client's state with it.
        Status::Fenced | Status::NoSession => NfsStatus::Expired,
        Status::CrossDevice => NfsStatus::XDev,
        Status::NoDevice => NfsStatus::NxIo,
        Status::Deadlock => NfsStatus::Deadlock,
        Status::SharingViolation => NfsStatus::ShareDenied,
        // The client tries again.
        Status::TryAgain
        | Status::StaleGeneration
        | Status::StaleEpoch
        | Status::Unreachable
        | Status::ConnectionLost
        | Status::NotServing
        | Status::TooManyOpen
        | Status::NoLocks
        | Status::Interrupted
        | Status::Cancelled => NfsStatus::Delay,
        Status::DiskError | Status::ObjectLost | Status::Corrupted | Status::UnsyncedDataLost => {
            NfsStatus::Io
        }
        _ => NfsStatus::ServerFault,
    }
}
