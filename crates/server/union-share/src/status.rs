//! Errors of local file systems as statuses of a share.

use braid_share::{Status, tables::Outcome};
use rustix::io::Errno;

/// The status of an errno.
pub(crate) fn status_of(error: Errno) -> Status {
    match error {
        Errno::NOENT => Status::NotFound,
        Errno::EXIST => Status::Exists,
        Errno::ACCESS => Status::PermissionDenied,
        Errno::PERM => Status::NotPermitted,
        Errno::NOTDIR => Status::NotDirectory,
        Errno::ISDIR => Status::IsDirectory,
        Errno::NOTEMPTY => Status::NotEmpty,
        Errno::INVAL => Status::Invalid,
        Errno::NAMETOOLONG => Status::NameTooLong,
        Errno::LOOP => Status::TooManyLinks,
        Errno::MLINK => Status::LinkLimit,
        Errno::FBIG | Errno::OVERFLOW => Status::TooLarge,
        Errno::NOSPC => Status::NoSpace,
        Errno::DQUOT => Status::QuotaExceeded,
        Errno::ROFS => Status::ReadOnly,
        Errno::NODATA => Status::NoAttribute,
        Errno::RANGE => Status::Range,
        Errno::TOOBIG => Status::LimitExceeded,
        Errno::BUSY => Status::Busy,
        Errno::TXTBSY => Status::TextBusy,
        Errno::STALE | Errno::BADF => Status::StaleHandle,
        Errno::OPNOTSUPP | Errno::NOSYS => Status::Unsupported,
        Errno::XDEV => Status::CrossDevice,
        Errno::MFILE | Errno::NFILE => Status::TooManyOpen,
        Errno::NXIO | Errno::NODEV => Status::NoDevice,
        Errno::NOMEM | Errno::AGAIN => Status::TryAgain,
        Errno::BADMSG | Errno::UCLEAN => Status::Corrupted,
        _ => Status::DiskError,
    }
}

/// Turns the result of a call of the union into one of the share.
pub(crate) trait OrStatus<T> {
    fn or_status(self) -> Outcome<T>;
}

impl<T> OrStatus<T> for braid_union::Result<T> {
    fn or_status(self) -> Outcome<T> {
        self.map_err(status_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errno_and_its_status_have_the_same_number() {
        for number in 1..133 {
            let status = status_of(Errno::from_raw_os_error(number));
            let exact = status.errno() == number;
            let mapped = [Status::DiskError, Status::StaleHandle, Status::TooLarge];
            let others = [Status::Corrupted, Status::TryAgain, Status::Unsupported];
            let others = others.contains(&status)
                || matches!(status, Status::LimitExceeded | Status::TooManyOpen | Status::NoDevice);
            assert!(exact || mapped.contains(&status) || others, "{number}: {status:?}");
        }
    }
}
