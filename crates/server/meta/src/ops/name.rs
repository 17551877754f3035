//! What a name may be.

use braid_types::limits::NAME_BYTES_MAX;
use braid_types::{Failure, Status};

/// Checks a name that an entry is made under or removed by: 1 to 255 bytes, no `/`, no NUL, not `.` or `..`.
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
        return Err(Failure::new(Status::Invalid, "a name has no '/' and no NUL in it"));
    }
    Ok(())
}
