//! The operations of a mount, one in each file.

pub mod allocate;
mod attributes;
mod copy_range;
pub mod create;
pub mod directory;
pub mod layout_xattr;
mod link;
pub mod lock;
mod look_up;
mod make;
pub mod open;
pub(crate) mod read;
mod read_link;
mod release;
mod rename;
mod seek;
mod set_attributes;
pub mod statfs;
mod sync;
mod unlink;
pub mod write;
pub mod xattr;

use braid_client::Status;
use braid_types::limits::NAME_BYTES_MAX;

use crate::error::{Error, Result};

/// A name in a directory, checked to be one path component.
fn name(name: &[u8]) -> Result<&[u8]> {
    match name {
        [] => Err(Error::of(Status::NotFound)),
        _ if name.len() > NAME_BYTES_MAX => Err(Error::of(Status::NameTooLong)),
        _ if name.contains(&b'/') || name.contains(&0) => Err(Error::of(Status::Invalid)),
        _ => Ok(name),
    }
}

/// Whether the outcome of a failed call is unknown: the server may have done it, or may still do
/// it.
pub(crate) fn is_outcome_unknown(error: &braid_client::Error) -> bool {
    let of_a_call = matches!(
        error.status(),
        Status::Unreachable | Status::ConnectionLost | Status::TryAgain | Status::Internal
    );
    of_a_call || error.was_given_up()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_component() {
        assert!(name(&[b'n'; 255]).is_ok());
        assert_eq!(name(&[b'n'; 256]).unwrap_err().status(), Some(Status::NameTooLong));
        assert_eq!(name(b"a/b").unwrap_err().status(), Some(Status::Invalid));
        assert_eq!(name(b"").unwrap_err().status(), Some(Status::NotFound));
    }
}
