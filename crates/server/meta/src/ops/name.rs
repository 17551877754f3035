//! Checks of names.

use braid_types::limits::NAME_BYTES_MAX;
use braid_types::{Failure, Status};

/// Checks a name for an operation that creates or removes an entry: 1 to 255 bytes, no `/`, no NUL,
/// not `.` or `..`.
pub(super) fn check(name: &[u8]) -> Result<(), Failure> {
    match name {
        b"" => Err(Status::NotFound.into()),
        b"." | b".." => Err(Status::Invalid.into()),
        _ => check_bytes(name),
    }
}

/// Checks only length and bytes.
pub(super) fn check_bytes(name: &[u8]) -> Result<(), Failure> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Status::NameTooLong.into());
    }
    if name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Err(Failure::new(Status::Invalid, "a name contains no '/' and no NUL"));
    }
    Ok(())
}
